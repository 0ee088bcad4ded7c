"""The picture of a run: how costs grow, a panel for each part, its unit and what grows, both axes logarithmic.

A work has one colour; ours is a line with dots, others are broken. Each panel has its own legend below it, an entry a
line, in room that is reserved for it, so that panels have one size whatever their legends say. matplotlib is loaded
when a picture is drawn, and draws without a screen. An SVG follows light and dark. The same run gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

from covey.bench.comparison import Comparison
from covey.bench.growth import LEAST_SIZES
from covey.errors import ConfigError
from covey.reports import drawing
from covey.reports.theme import SERIES, themed

SUFFIXES: Final = (".svg", ".png")
COLUMNS: Final = 2
PANEL_INCHES: Final = (4.7, 2.5)  # the axes alone
LEFT, RIGHT, ABOVE, BELOW = 0.85, 0.25, 0.45, 0.55  # inches around the axes: numbers, title
DOTS_PER_INCH: Final = 110  # of a PNG
LINE_INCHES: Final = 0.165  # of a legend
CHARACTERS: Final = 74  # of a line of a legend
APART: Final = 0.09  # the least distance of two marks on an axis, as a share of its length
LOOKS: Final = {"--": "dashed", ":": "dotted", "-.": "dash-dotted"}
STYLE: Final[Any] = {
    **drawing.STYLE,
    "legend.fontsize": 8,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
}

Panel = dict[str, list[Comparison]]  # by work


def check_picture(path: Path) -> None:
    """Raise ConfigError, before anything is measured, if no picture can be written there."""
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(
            f"the picture {str(path)!r:.80}: expected a file name that ends with {' or '.join(SUFFIXES)}"
        )
    if not path.parent.is_dir() or path.is_dir():
        raise ConfigError(f"the picture {str(path)!r:.80}: expected a file in a directory that is there")


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

    kind: drawing.Format = "svg" if suffix.lower() == ".svg" else "png"
    with mpl.rc_context(STYLE):
        raw = drawing.saved(sheet_of(comparisons), kind, DOTS_PER_INCH)
    return themed(raw.decode()).encode() if kind == "svg" else raw


def sheet_of(comparisons: Sequence[Comparison]) -> Any:
    """Return the picture as a figure of matplotlib; ConfigError if nothing was done at enough sizes."""
    shown = panels(comparisons)
    if not shown:
        raise ConfigError(f"nothing to draw: no work was done at {LEAST_SIZES} sizes")
    rows = [list(shown.items())[start : start + COLUMNS] for start in range(0, len(shown), COLUMNS)]
    # Of each row of panels: how many lines the longest of its legends has.
    lines = [max(sum(map(len, entries(works).values())) for _, works in row) for row in rows]
    width = COLUMNS * (LEFT + PANEL_INCHES[0] + RIGHT)
    height = sum(ABOVE + PANEL_INCHES[1] + BELOW + LINE_INCHES * count for count in lines)
    sheet = drawing.sheet_of((width, height), constrained=False)
    top = height
    for row, count in zip(rows, lines, strict=True):
        for column, (title, works) in enumerate(row):
            left = column * (LEFT + PANEL_INCHES[0] + RIGHT) + LEFT
            bottom = top - ABOVE - PANEL_INCHES[1]
            room = (left / width, bottom / height, PANEL_INCHES[0] / width, PANEL_INCHES[1] / height)
            _draw(sheet.add_axes(room), title, works)
        top -= ABOVE + PANEL_INCHES[1] + BELOW + LINE_INCHES * count
    return sheet


def write_picture(comparisons: Sequence[Comparison], path: Path) -> None:
    """Draw into a file; ConfigError if that cannot be done."""
    content = drawn(comparisons, path.suffix)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise ConfigError(f"cannot write {str(path)!r:.80}: {error.strerror or error}") from None


def entries(works: Panel) -> dict[str, list[str]]:
    """Return what the legend says of each work, in lines that fit below a panel: its name, and how others look."""
    found: dict[str, list[str]] = {}
    for work, rows in works.items():
        baselines = dict.fromkeys(
            row.baseline for row in sorted(rows, key=lambda row: row.size) if row.theirs
        )
        others = ", ".join(
            f"{baseline} {look}" for baseline, look in zip(baselines, cycle(LOOKS.values()), strict=False)
        )
        found[work] = wrap(f"{work} ({others})" if others else work, CHARACTERS)
    return found


def marks(sizes: Sequence[float]) -> list[float]:
    """Return the sizes at which an axis is marked: those whose numbers do not run into each other."""
    length = math.log(sizes[-1] / sizes[0]) or 1.0
    kept = [sizes[0]]
    for size in sizes[1:-1]:
        if min(math.log(size / kept[-1]), math.log(sizes[-1] / size)) >= APART * length:
            kept.append(size)
    return [*kept, *sizes[1:][-1:]]


def number_text(value: float, _: object = None) -> str:
    """Return a number as an axis has it: short, and without powers of ten."""
    for least, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= least:
            return f"{value / least:g}{unit}"
    return f"{value:g}"


def _draw(axes: Any, title: str, works: Panel) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    labels = entries(works)
    for number, (work, rows) in enumerate(works.items()):
        colour = SERIES[number % len(SERIES)]
        baselines: dict[str, list[Comparison]] = {}
        for row in sorted(rows, key=lambda row: row.size):
            if row.theirs:
                baselines.setdefault(row.baseline, []).append(row)
        for style, mine in zip(cycle(LOOKS), baselines.values(), strict=False):
            points = [(row.size, row.theirs) for row in mine]
            axes.plot(*zip(*points, strict=True), style, color=colour)
        ours = sorted({row.size: row.ours for row in rows}.items())
        axes.plot(*zip(*ours, strict=True), "o-", color=colour, label="\n".join(labels[work]))
    sizes = sorted({float(row.size) for rows in works.values() for row in rows})
    axes.set_xscale("log")
    axes.set_yscale("log")
    # Many small marks say little and take most of the file.
    axes.xaxis.set_major_locator(FixedLocator(marks(sizes)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(number_text)
    axes.yaxis.set_major_formatter(number_text)
    low, high = axes.get_ylim()
    if high < 10 * low:  # perhaps without a power of ten
        axes.set_ylim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
    axes.set_title(title, fontsize=11, loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(-0.02, -0.1), borderaxespad=0.0, labelspacing=0.3)
