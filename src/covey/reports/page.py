"""The page builder: a report is a template with tables, cells and pictures as values.

Templates escape every text (autoescape), so names from strangers' files stay names. A page needs no other file and no
network, and runs no script: the style sheet and the pictures are inside. The same values give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from covey import __version__
from covey.reports.theme import css
from covey.reports.words import number_text

Tone = Literal["", "good", "bad", "fine"]
Kind = Literal["", "chosen", "now", "floor"]
Column = Literal["", "number", "short", "long"]

SHORT: Final = 18  # characters of a column's longest text, up to which it stays on one line
LONG: Final = 40  # and from which on the column is given room

NOTHING: Final = Markup("")


class Tag(NamedTuple):
    """A word in a frame beside the text of a cell; a quiet one is grey."""

    text: str
    is_quiet: bool = False


@dataclass(frozen=True)
class Cell:
    """A cell of a table: a text or a number, and how it is shown.

    A number, and a text with `is_number`, stands at the right of a column of numbers. `note` is a smaller text below,
    `below` is HTML of another template (`fragment`), `span` is how many columns it takes.
    """

    value: str | float | None = ""
    tags: Sequence[Tag] = ()
    note: str = ""
    tone: Tone = ""
    below: Markup = NOTHING
    span: int = 1
    is_number: bool = False
    is_code: bool = False

    @property
    def numeric(self) -> bool:
        """Whether it can stand in a column of numbers."""
        return self.is_number or self.span > 1 or not isinstance(self.value, str)

    @property
    def text(self) -> str:
        """What it shows."""
        if self.value is None:
            return ""
        return self.value if isinstance(self.value, str) else number_text(self.value)

    @property
    def copied(self) -> str:
        """What it is in a text with tabs: one line, numbers without separators."""
        words = [self.text, *(tag.text for tag in self.tags), self.note]
        line = " ".join(" ".join(words).split())
        return line.replace(",", "") if self.numeric and self.span == 1 else line

    def classes(self, column: Column) -> str:
        """Return its classes; a number among texts stands at the left, as they do."""
        if self.span > 1:
            return self.tone
        if not self.numeric:
            return column
        return "number" if column == "number" else "number left"


Content = Cell | str | float | None


@dataclass(frozen=True)
class Table:
    """A table: `kinds` are those of its rows. With `copy` it is followed by the same as text with tabs, folded."""

    heads: Sequence[str]
    contents: Sequence[Sequence[Content]]
    kinds: Sequence[Kind] = ()
    copy: bool = False

    @property
    def rows(self) -> list[tuple[Kind, list[Cell]]]:
        """Its rows with their kinds."""
        return [
            (
                self.kinds[place] if place < len(self.kinds) else "",
                [one if isinstance(one, Cell) else Cell(one) for one in row],
            )
            for place, row in enumerate(self.contents)
        ]

    @property
    def columns(self) -> list[Column]:
        """How each column is set: numbers at the right, short words on one line, long texts with room for them."""
        rows = [cells for _, cells in self.rows]
        found: list[Column] = []
        for place in range(len(self.heads)):
            cells = [row[place] for row in rows if place < len(row)]
            longest = max((len(cell.text) for cell in cells if cell.span == 1), default=0)
            if rows and all(cell.numeric for cell in cells):
                found.append("number")
            else:
                found.append("short" if longest <= SHORT else "long" if longest > LONG else "")
        return found

    @property
    def copied(self) -> str:
        """The table as text with tabs, for spreadsheets."""
        lines = [self.heads, *([cell.copied for cell in cells] for _, cells in self.rows)]
        return "\n".join("\t".join(line) for line in lines)


def page(template: str, title: str, **values: Any) -> str:
    """Return a whole page: a template of this package with a title and its values."""
    return _environment().get_template(template).render(title=title, version=__version__, **values)


def fragment(template: str, **values: Any) -> Markup:
    """Return a piece of a page, for `Cell.below`."""
    return Markup(_environment().get_template(template).render(**values).strip())


def said(text: str) -> Markup:
    """Return a text as HTML, in which what stands between `backticks` is code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("covey.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["said"] = said
    made.globals["colours"] = Markup(css(":root"))
    return made
