"""Figures as pictures, tables as text, in the same manner for every paper.

matplotlib is loaded when a picture is drawn, and draws without a screen. The same results give the same bytes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from covey.errors import ConfigError
from covey.lab.experiment import Results
from covey.lab.figure import Figure, Grid
from covey.reports import drawing
from covey.reports.drawing import Format, legend_below, plain_numbers, saved, sheet_of
from covey.reports.theme import IDLE, INK, SERIES, SOFT, themed

FORMATS: tuple[Format, ...] = ("png", "svg")

SIZE_INCHES = (5.2, 3.6)
DOTS_PER_INCH = 110
STYLE: Any = {  # its keys are a long list of literals in the hints of matplotlib
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 8.5,
    "grid.alpha": 0.3,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "svg.fonttype": "none",  # texts stay texts, which takes half the space and can be searched
    "svg.hashsalt": "covey",
    "text.parse_math": False,
}


def name_of(figure: Figure) -> str:
    """Return a figure's name among those of its paper: Figure 6a, Table II."""
    return figure.number if not figure.number[:1].isdigit() else f"Figure {figure.number}"


def file_name(figure: Figure, suffix: str) -> str:
    """Return the name of a figure's file: r-figure-6a.png, c-table-ii.md."""
    name = re.sub(r"[^a-z0-9]+", "-", f"{figure.paper} {name_of(figure)}".lower()).strip("-")
    return f"{name}.{suffix}"


# matplotlib's usual colours, which figures name, and the theme's colours that pages have instead.
PAGE_COLOURS = {
    "#1f77b4": SERIES[0], "#ff7f0e": SERIES[3], "#2ca02c": SERIES[2], "#d62728": SERIES[1], "#9467bd": SERIES[4],
    "#8c564b": SOFT, "#e377c2": SERIES[6], "#7f7f7f": IDLE, "#bcbd22": SERIES[7], "#17becf": SERIES[5], "#000000": INK,
}  # fmt: skip


def picture(figure: Figure, results: Results, kind: Format) -> bytes:
    """Return a drawn figure as a PNG or SVG file's content, for paper."""
    return _picture(figure, results, kind, STYLE)


def page_picture(figure: Figure, results: Results) -> bytes:
    """Return a drawn figure as an SVG file's content that follows light and dark, as pictures of all pages do."""
    text = _picture(figure, results, "svg", {**drawing.STYLE, **STYLE, "grid.alpha": 1.0}).decode()
    for usual, ours in PAGE_COLOURS.items():
        text = text.replace(usual, ours)
    return themed(text).encode()


def _picture(figure: Figure, results: Results, kind: Format, style: Any) -> bytes:
    import matplotlib as mpl

    assert figure.draw is not None
    with mpl.rc_context(style):
        sheet = sheet_of(SIZE_INCHES)
        axes = sheet.subplots()
        figure.draw(results, axes)
        plain_numbers(axes)
        legend = axes.get_legend()
        if legend is not None:  # among the curves it often hides some
            legend.remove()
            longest = max(map(len, axes.get_legend_handles_labels()[1]))
            legend_below(sheet, axes, 2 if longest > 16 else 4)
        if not axes.get_title():
            axes.set_title(
                f"{figure.paper} {name_of(figure)}: {figure.title}", fontsize=9, loc="left", wrap=True
            )
        return saved(sheet, kind, DOTS_PER_INCH)


def write_figure(figure: Figure, results: Results, directory: Path, kind: Format) -> Path:
    """Write a figure to a file, a table as Markdown; return the file. All its cells must be there."""
    content, suffix = drawn(figure, results, kind)
    path = directory / file_name(figure, suffix)
    write(path, content)
    return path


def write(path: Path, content: bytes) -> None:
    """Write a file, in a directory that is made if need be; ConfigError with the place if that cannot be done."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise ConfigError(f"cannot write {str(path)!r:.80}: {error.strerror or error}") from None


def drawn(figure: Figure, results: Results, kind: Format) -> tuple[bytes, str]:
    """Return the content of a figure's file and its suffix."""
    if figure.table is not None:
        return markdown(figure.table(results)).encode(), "md"
    return picture(figure, results, kind), kind


def markdown(grid: Grid) -> str:
    """Return a table as Markdown."""
    lines = [
        grid.columns,
        ["---"] * len(grid.columns),
        *([cell_text(cell) for cell in row] for row in grid.rows),
    ]
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in lines)


def cell_text(value: object) -> str:
    """Return a cell of a table as text: numbers with four digits that say something, whole ones whole."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
