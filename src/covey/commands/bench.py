"""`covey bench`: the indexes beside the naive scan and a plain counting index, in one process; brokers in several."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer

from covey.commands.output import print_json, print_rows, progress
from covey.errors import ConfigError, CoveyError

app = typer.Typer(help="Measure indexes and brokers on this machine, beside others.", no_args_is_help=True)

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


@app.command()
def network(
    hops: Annotated[
        list[int] | None, typer.Option("--hops", help="Brokers in a row; may be given several times.")
    ] = None,
    subscribers: Annotated[
        list[int] | None, typer.Option("--subscribers", help="Connections that get every event.")
    ] = None,
    events: Annotated[int, typer.Option("--events", "-n", help="How many are delivered.")] = 200_000,
    filters: Annotated[int, typer.Option("--filters", help="Of others, which match nothing.")] = 10_000,
    peers: Annotated[bool, typer.Option(help="Measure other servers too that are installed.")] = True,
    json: Json = False,
) -> None:
    """Measure events through brokers on this machine: how many a second, and how long they take."""
    for name, values, most in (("hops", hops, 16), ("subscribers", subscribers, 1_000)):
        for value in values or ():
            if not 1 <= value <= most:
                raise ConfigError(f"--{name} {value} is not between 1 and {most:,}")
    if not 1_000 <= events <= MAX_SIZE:
        raise ConfigError(f"--events {events} is not between 1,000 and {MAX_SIZE:,}")
    if not 0 <= filters <= 100_000:
        raise ConfigError(f"--filters {filters} is not between 0 and 100,000")
    # Loaded here, as above.
    from covey.bench import network

    chosen = hops or subscribers
    with progress("Network") as report:
        rows = network.run(
            report,
            events=events,
            filters=filters,
            hops=(hops or ()) if chosen else network.HOPS,
            subscribers=(subscribers or ()) if chosen else network.SUBSCRIBERS,
            peers=peers,
        )
    if json:
        print_json(rows)
    else:
        print_rows("Network", rows)
    if any(row["lost"] for row in rows):
        raise CoveyError("some events did not arrive; the figures mean nothing")


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
