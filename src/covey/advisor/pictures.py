"""The manner of all pictures: one style, in colours that follow light and dark, with a caption of what was drawn.

matplotlib is loaded when one is drawn. The same plan and advice give the same bytes. Names come from files of
strangers: none is read as a formula, and long ones are cut.
"""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Callable
from html import escape
from typing import Any, Final

from covey.advisor import page
from covey.advisor.theme import IDLE, INK, LINE, PAPER, themed

PIXELS: Final = 96  # of a page, in an inch
STYLE: Final[Any] = {  # its keys are a long list of literals in the hints of matplotlib
    "axes.edgecolor": IDLE,
    "axes.facecolor": PAPER,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": PAPER,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # every text of an SVG names all of them
    "font.size": 9,
    "grid.color": LINE,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "savefig.facecolor": PAPER,
    "svg.fonttype": "none",
    "svg.hashsalt": "covey",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}

Draw = Callable[[Any], str]  # onto a sheet of matplotlib; returns a caption of what it has drawn


def sheet_of(size: tuple[float, float], constrained: bool = True) -> Any:
    """Return an empty sheet, size in inches; within `mpl.rc_context(STYLE)`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    sheet = Figure(figsize=size, layout="constrained" if constrained else None)
    FigureCanvasAgg(sheet)
    return sheet


def figure(
    alt: str, size: tuple[float, float], draw: Draw, kind: str = "svg", constrained: bool = True
) -> str:
    """Return a picture with its caption, as HTML; `alt` is a text.

    An SVG follows light and dark; a PNG, for what has too many lines, is always light.
    """
    import matplotlib as mpl

    content = io.BytesIO()
    with mpl.rc_context(STYLE):
        sheet = sheet_of(size, constrained)
        caption = draw(sheet)
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        sheet.savefig(content, format=kind, dpi=170, metadata=metadata)
    raw = content.getvalue()
    mime, data = ("svg+xml", themed(raw.decode()).encode()) if kind == "svg" else ("png", raw)
    source = f"data:image/{mime};base64,{b64encode(data).decode()}"
    light = "" if kind == "svg" else ' class="light"'
    drawn = f'<img{light} alt="{escape(alt)}" width="{size[0] * PIXELS:.0f}" src="{source}">'
    return page.figure(drawn, escape(caption))


def cut(name: str, most: int = 28) -> str:
    """Return a name that is short enough for a picture, on one line."""
    line = " ".join(name.split())
    return line if len(line) <= most else line[: most - 1] + "…"
