"""The manner of all pictures: one style, in colours that follow light and dark, with a caption of what was drawn.

Marks of networks (links, dots), legends and saving are here; names beside marks are in `covey.reports.labels`.
matplotlib is loaded when a picture is drawn, and draws without a screen. The same values give the same bytes. Names
come from files of strangers: none is read as a formula.
"""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from covey.reports.theme import IDLE, INK, LINE, PAPER, themed

PIXELS: Final = 96  # of a page, in an inch
DOTS: Final = 170  # of a PNG, in an inch
STYLE: Final[Any] = {  # its keys are a long list of literals in the hints of matplotlib
    "axes.edgecolor": IDLE,
    "axes.facecolor": PAPER,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9,
    "figure.facecolor": PAPER,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # every text of an SVG names all of them
    "font.size": 9,
    "grid.color": LINE,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "savefig.facecolor": PAPER,
    "svg.fonttype": "none",  # texts stay texts, which takes half the space and can be searched
    "svg.hashsalt": "covey",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}

Format = Literal["png", "svg"]
Point = tuple[float, float]
Points = Mapping[str, Point]
Draw = Callable[[Any], str]  # onto a sheet of matplotlib; returns a caption of what it has drawn


@dataclass(frozen=True)
class Picture:
    """A picture of a page: its address (the picture itself, as data), what it shows, its width in pixels, its caption.

    One that is light stays so in the dark.
    """

    source: str
    alt: str
    width: int
    caption: str = ""
    is_light: bool = False


class Dots(NamedTuple):
    """Brokers that are drawn as dots, and how large: radii in points."""

    brokers: Sequence[str]
    radii: Sequence[float]

    @property
    def areas(self) -> list[float]:
        """What matplotlib takes for a size: the square of the diameter, in points."""
        return [(2 * radius) ** 2 for radius in self.radii]


# -- sheets --------------------------------------------------------------------------------------------------


def sheet_of(size: tuple[float, float], constrained: bool = True) -> Any:
    """Return an empty sheet, size in inches; within `mpl.rc_context(STYLE)`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    sheet = Figure(figsize=size, layout="constrained" if constrained else None)
    FigureCanvasAgg(sheet)
    return sheet


def saved(sheet: Any, kind: Format, dots: int = DOTS) -> bytes:
    """Return a sheet as the content of a file, in the colours that it was drawn in, without the time of day."""
    content = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    sheet.savefig(content, format=kind, dpi=dots, metadata=metadata)
    return content.getvalue()


def drawn(
    size: tuple[float, float], draw: Draw, kind: Format = "svg", constrained: bool = True
) -> tuple[bytes, str]:
    """Return the content of a picture's file, and its caption. An SVG follows light and dark; a PNG is light."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        sheet = sheet_of(size, constrained)
        caption = draw(sheet)
        content = saved(sheet, kind)
    return (themed(content.decode()).encode() if kind == "svg" else content), caption


def picture(
    alt: str, size: tuple[float, float], draw: Draw, kind: Format = "svg", constrained: bool = True
) -> Picture:
    """Return a picture for a page, size in inches. A PNG is for what has too many lines."""
    content, caption = drawn(size, draw, kind, constrained)
    return Picture(address(content, kind), alt, round(size[0] * PIXELS), caption, kind != "svg")


def address(content: bytes, kind: Format) -> str:
    """Return a picture's file as an address that needs no other file."""
    mime = "svg+xml" if kind == "svg" else kind
    return f"data:image/{mime};base64,{b64encode(content).decode()}"


# -- networks ------------------------------------------------------------------------------------------------


def draw_links(
    axes: Any,
    points: Points,
    links: Iterable[tuple[str, str]],
    colour: str,
    width: float | Sequence[float],
    *,
    title: str = "",
    alpha: float = 1.0,
    style: str = "-",
    bends: Mapping[tuple[str, str], float] | None = None,
) -> None:
    """Draw links, if there are any; with a title they have an entry in the legend.

    `bends` are links that run around something: how far, in data, their middle is above the straight line.
    """
    from matplotlib.collections import LineCollection

    lines = [way(points[a], points[b], (bends or {}).get((a, b), 0.0)) for a, b in links]
    if lines:
        axes.add_collection(
            LineCollection(
                lines,
                colors=colour,
                linewidths=width,
                linestyles=style,
                alpha=alpha,
                zorder=1,
                capstyle="round" if style == "-" else None,
                label=title or None,
            )
        )


def way(start: Point, end: Point, bend: float) -> list[Point]:
    """Return the points of a link whose middle is so far, in data, above the straight line."""
    if not bend:
        return [start, end]
    return [
        (
            start[0] + (end[0] - start[0]) * share,
            start[1] + (end[1] - start[1]) * share + 4 * bend * share * (1 - share),
        )
        for share in (place / 24 for place in range(25))
    ]


def draw_dots(axes: Any, points: Points, dots: Dots, title: str = "", **look: Any) -> None:
    """Draw dots, if there are any; with a title they have an entry in the legend."""
    if dots.brokers:
        xs, ys = zip(*(points[broker] for broker in dots.brokers), strict=True)
        axes.scatter(xs, ys, s=dots.areas, label=title or None, **{"zorder": 3, **look})


# -- legends and axes ----------------------------------------------------------------------------------------


def legend_below(
    sheet: Any, axes: Any, columns: int, *, order: Sequence[str] | None = None, **look: Any
) -> Any:
    """Draw the legend below the axes and return it: an entry for each kind of mark that was drawn, none twice.

    `order` are titles, the first first; those that were not drawn are left out.
    """
    marks, titles = axes.get_legend_handles_labels()
    shown = dict(zip(titles, marks, strict=True))
    entries = titles if order is None else [title for title in order if title in shown]
    entries = list(dict.fromkeys(entries))
    place = "outside lower center" if sheet.get_layout_engine() is not None else "lower center"
    return sheet.legend([shown[one] for one in entries], entries, loc=place, ncols=columns, **look)


def plain_numbers(axes: Any) -> None:
    """Label logarithmic axes with numbers; matplotlib itself writes powers as formulas, which STYLE leaves unread."""
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "log":
            low, high = axis.get_view_interval()
            axis.set_major_formatter("{x:,g}")
            axis.set_minor_formatter("{x:,g}" if high < 10 * low else "")
