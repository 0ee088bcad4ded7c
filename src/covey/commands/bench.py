"""`covey bench`: the indexes beside the naive scan and a plain counting index, in one process."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer

from covey.commands.output import print_json, print_rows, progress
from covey.errors import ConfigError, CoveyError

app = typer.Typer(help="Measure the indexes on this machine, beside slower ones.", no_args_is_help=True)

DEFAULT_SIZES = {
    "match": (10_000, 100_000, 1_000_000),
    "cover": (10_000, 80_000),
    "xpath": (10_000, 50_000),
}
MAX_SIZE = 10_000_000

Sizes = Annotated[
    list[int] | None,
    typer.Option("--size", "-n", help="How many filters; may be given several times.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def match(size: Sizes = None, json: Json = False) -> None:
    """Measure matching events against many attribute filters."""
    _bench("match", "Matching", size, json)


@app.command()
def cover(size: Sizes = None, json: Json = False) -> None:
    """Measure finding what covers a new filter and what it covers."""
    _bench("cover", "Covering", size, json)


@app.command()
def xpath(size: Sizes = None, json: Json = False) -> None:
    """Measure matching XML documents against many tree patterns."""
    _bench("xpath", "XPath", size, json)


def _bench(name: str, title: str, sizes: list[int] | None, json: bool) -> None:
    chosen = tuple(sizes or DEFAULT_SIZES[name])
    for size in chosen:
        if not 1 <= size <= MAX_SIZE:
            raise ConfigError(f"--size {size} is not between 1 and {MAX_SIZE:,}")
    # Loaded here: a benchmark brings the compiler and every index, which no other command needs.
    run: Any = import_module(f"covey.bench.{name}").run
    with progress(title) as report:
        rows: list[dict[str, Any]] = run(sizes=chosen, progress=report)
    if json:
        print_json(rows)
    else:
        print_rows(title, rows)
    if not all(row["equal"] for row in rows):
        raise CoveyError("the indexes gave different answers; the figures mean nothing")
