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

    def classes(self, column_is_numeric: bool) -> str:
        """Return its classes; a number among texts stands at the left, as they do."""
        if self.span > 1:
            return self.tone
        return "" if not self.numeric else "number" if column_is_numeric else "number left"


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
    def numeric(self) -> list[bool]:
        """Which columns have numbers only."""
        rows = [cells for _, cells in self.rows]
        return [
            bool(rows) and all(place >= len(cells) or cells[place].numeric for cells in rows)
            for place in range(len(self.heads))
        ]

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
