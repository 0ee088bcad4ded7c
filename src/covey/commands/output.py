"""What commands print: lines for people, JSON for programs, tables of measurements.

Results go to standard output and everything about the work itself, progress and mistakes, to standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

Progress = Callable[[str], None]


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_pairs(pairs: Mapping[str, object]) -> None:
    """Print names and values, one pair a line, values in one column."""
    width = max(map(len, pairs))
    for name, value in pairs.items():
        typer.echo(f"{typer.style(name.ljust(width), bold=True)}  {value}")


def print_rows(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as a table whose columns are the names that occur, in the order in which they first do."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for name in names:
        numeric = all(isinstance(row.get(name, 0), int | float) for row in rows)
        table.add_column(column_title(name), justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(escape(number_text(row.get(name))) for name in names))
    Console().print(table)


def column_title(name: str) -> str:
    """Return a field's name as a heading: `match_us` is `match µs`."""
    return name.replace("_us", " µs").replace("_", " ")


def number_text(value: object) -> str:
    """Return a value as it stands in a table: numbers with three digits that say something."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


@contextmanager
def progress(title: str) -> Iterator[Progress]:
    """Show on standard error what is going on, if that is a terminal."""
    console = Console(stderr=True)
    with console.status(title) as status:
        yield lambda step: status.update(f"{title}: {step}")
