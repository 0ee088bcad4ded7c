"""What commands print: lines for people, JSON for programs, tables of measurements.

Results go to standard output and everything about the work itself, progress and mistakes, to standard error.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

QUIET_S = 5.0  # between lines of progress where there is no terminal

Progress = Callable[[str], None]


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_pairs(pairs: Mapping[str, object]) -> None:
    """Print names and values, one pair a line, values in one column."""
    width = max(map(len, pairs))
    for name, value in pairs.items():
        typer.echo(f"{typer.style(name.ljust(width), bold=True)}  {value}")


def print_lists(lists: Mapping[str, Mapping[str, str]]) -> None:
    """Print names and descriptions under a title each."""
    for number, (title, things) in enumerate(lists.items()):
        typer.echo(("\n" if number else "") + typer.style(title.capitalize(), bold=True))
        width = max(map(len, things))
        for name, description in things.items():
            typer.echo(f"  {name.ljust(width)}  {description}")


def print_rows(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print measurements with a column for each row of figures, as there are more figures than fit side by side.

    Rows with a `workload` get a table for each workload; `size`, if there is one, is the heading of columns.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row.get("workload", ""), []).append(row)
    for workload, group in groups.items():
        heading = f"{title}: {workload}" if workload else title
        table = Table(title=heading, title_justify="left", title_style="bold", header_style="bold")
        table.add_column("filters" if "size" in group[0] else "")
        for row in group:
            table.add_column(number_text(row.get("size")), justify="right")
        for name in dict.fromkeys(name for row in group for name in row):
            if name not in ("workload", "size"):
                table.add_row(column_title(name), *(escape(number_text(row.get(name))) for row in group))
        Console().print(table)


def print_table(title: str, heads: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Print lines of text as a table; nothing if there are none."""
    if not lines:
        return
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for head in heads:
        table.add_column(head)
    for line in lines:
        table.add_row(*map(escape, line))
    wide_console().print(table)


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


def wide_console() -> Console:
    """Return a console that folds tables to a terminal's width, but not for files and pipes."""
    console = Console()
    return console if console.is_terminal else Console(width=200)


@contextmanager
def progress(title: str) -> Iterator[Progress]:
    """Show on standard error what is going on, as `progress_lines` does."""
    with progress_lines(title) as tell:
        yield lambda step: tell(f"{title}: {step}", False)


@contextmanager
def progress_lines(title: str) -> Iterator[Callable[[str, bool], None]]:
    """Show on standard error how far it is: in place on a terminal, otherwise a line now and then.

    What is called takes a line, and whether it is one to be shown in any case.
    """
    console = Console(stderr=True)
    said_s = time.monotonic()

    with console.status(title) as status:

        def tell(line: str, always: bool) -> None:
            nonlocal said_s
            if console.is_terminal:
                status.update(escape(line))
            elif always or time.monotonic() - said_s > QUIET_S:
                said_s = time.monotonic()
                print(line, file=sys.stderr, flush=True)

        yield tell
