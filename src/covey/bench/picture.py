"""The picture of a run: how costs grow, a panel for each part, its unit and what grows, both axes logarithmic.

A work has one colour; ours is a line with dots, others are broken. matplotlib is loaded when a picture is drawn, and
draws without a screen. The same run gives the same bytes.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from covey.bench.comparison import Comparison
from covey.bench.growth import LEAST_SIZES
from covey.errors import ConfigError

SUFFIXES: Final = (".svg", ".png")
COLUMNS: Final = 3
PANEL_INCHES: Final = (4.2, 3.4)
WORKS_IN_COLUMN: Final = 3
LOOKS: Final = {"--": "dashed", ":": "dotted", "-.": "dash-dotted"}
STYLE: Final[Any] = {  # its keys are a long list of literals in the hints of matplotlib
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.sans-serif": ["DejaVu Sans"],  # every text of an SVG names all of them
    "font.size": 8,
    "grid.alpha": 0.3,
    "legend.fontsize": 6,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 3,
    "svg.fonttype": "none",  # texts stay texts
    "svg.hashsalt": "covey",
    "text.parse_math": False,
}

Panel = dict[str, list[Comparison]]  # by work


def check_picture(path: Path) -> None:
    """Raise ConfigError, before anything is measured, if no picture can be written there."""
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(
            f"--plot {str(path)!r:.80}: expected a file name that ends with {' or '.join(SUFFIXES)}"
        )
    if not path.parent.is_dir() or path.is_dir():
        raise ConfigError(f"--plot {str(path)!r:.80}: expected a file in a directory that is there")


def panels(comparisons: Sequence[Comparison]) -> dict[str, Panel]:
    """Return what is drawn: by title, then by work, all that was done at enough sizes."""
    found: dict[str, Panel] = {}
    for one in comparisons:
        if one.ours:
            works = found.setdefault(f"{one.part}{', ' * bool(one.unit)}{one.unit} by {one.axis}", {})
            works.setdefault(one.work, []).append(one)
    grown = {
        title: {name: rows for name, rows in works.items() if len({r.size for r in rows}) >= LEAST_SIZES}
        for title, works in found.items()
    }
    return {title: works for title, works in grown.items() if works}


def drawn(comparisons: Sequence[Comparison], suffix: str) -> bytes:
    """Return the picture as the content of an SVG or PNG file; ConfigError if nothing was done at enough sizes."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Sheet

    shown = panels(comparisons)
    if not shown:
        raise ConfigError(f"nothing to draw: no work was done at {LEAST_SIZES} sizes")
    content = io.BytesIO()
    kind = suffix.lower().lstrip(".")
    rows = math.ceil(len(shown) / COLUMNS)
    with mpl.rc_context(STYLE):
        size = COLUMNS * PANEL_INCHES[0], rows * PANEL_INCHES[1]
        sheet = Sheet(figsize=size, layout="constrained")
        FigureCanvasAgg(sheet)
        places = list(sheet.subplots(rows, COLUMNS, squeeze=False).flat)
        for place, (title, works) in zip(places, shown.items(), strict=False):
            _draw(place, title, works)
        for place in places[len(shown) :]:
            place.remove()
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        sheet.savefig(content, format=kind, dpi=110, metadata=metadata)
    return content.getvalue()


def write_picture(comparisons: Sequence[Comparison], path: Path) -> None:
    """Draw into a file; ConfigError if that cannot be done."""
    content = drawn(comparisons, path.suffix)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise ConfigError(f"cannot write {str(path)!r:.80}: {error.strerror or error}") from None


def _draw(axes: Any, title: str, works: Panel) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    for number, (work, rows) in enumerate(works.items()):
        colour = f"C{number % 10}"
        baselines: dict[str, list[Comparison]] = {}
        for row in sorted(rows, key=lambda row: row.size):
            baselines.setdefault(row.baseline, []).append(row)
        others: list[str] = []
        for (style, look), (baseline, mine) in zip(cycle(LOOKS.items()), baselines.items(), strict=False):
            points = [(row.size, row.theirs) for row in mine if row.theirs]
            if points:
                axes.plot(*zip(*points, strict=True), style, color=colour)
                others.append(f"{baseline} {look}")
        ours = sorted({row.size: row.ours for row in rows}.items())
        label = work + (f"\n({', '.join(others)})" if others else "")
        axes.plot(*zip(*ours, strict=True), "o-", color=colour, label=label)
    sizes = sorted({row.size for rows in works.values() for row in rows})
    axes.set_xscale("log")
    axes.set_yscale("log")
    # Many small marks say little and take most of the file.
    axes.xaxis.set_major_locator(FixedLocator(sizes))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_major_formatter("{x:,g}")
    low, high = axes.get_ylim()
    if high < 10 * low:  # perhaps without a power of ten
        axes.set_ylim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
    axes.set_title(title, fontsize=9, loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.1), ncols=2 if len(works) > WORKS_IN_COLUMN else 1)
