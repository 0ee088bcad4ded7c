"""`covey data`: example inputs of any size, as the Parquet tables that `covey plan` reads."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from covey.commands.help import Application
from covey.commands.options import OUT_DIR, Events, Json, List, Seed, Settings
from covey.commands.output import print_json, print_lists, print_pairs, progress_lines
from covey.errors import ConfigError
from covey.extras import require

# What draws workloads is loaded by the functions that use it: it brings the compiler and Arrow.

app = Application("Example inputs for planning.")


@app.callback()
def _group() -> None:
    pass


Workload = Annotated[str | None, typer.Argument(metavar="WORKLOAD", help="A workload's name; see --list.")]
OutDir = Annotated[Path | None, OUT_DIR]
Brokers = Annotated[
    int | None,
    typer.Option("--brokers", metavar="N", min=1, help="How many brokers; 100 unless given."),
]
Subscriptions = Annotated[
    int, typer.Option("--subscriptions", metavar="N", min=1, help="How many subscriptions.")
]
Publishers = Annotated[
    int | None,
    typer.Option(
        "--publishers", metavar="N", min=1, help="How many publishers; one at every broker unless given."
    ),
]
Deliveries = Annotated[
    int | None,
    typer.Option(
        "--deliveries", metavar="N", min=0, help="The most rows of the table of deliveries; 0 for none."
    ),
]
Topology = Annotated[
    str,
    typer.Option(
        "--topology",
        metavar="NAME",
        help="A topology's name, see --list, or a file with a link in each line.",
    ),
]
Replace = Annotated[bool, typer.Option("--replace", help="Replace tables that are there.")]


@app.command()
def generate(
    workload: Workload = None,
    out: OutDir = None,
    brokers: Brokers = None,
    subscriptions: Subscriptions = 1_000,
    events: Events = 1_000,
    publishers: Publishers = None,
    deliveries: Deliveries = None,
    topology: Topology = "transit-stub",
    seed: Seed = 1,
    settings: Settings = None,
    replace: Replace = False,
    json: Json = False,
    list_: List = False,
) -> None:
    """Write topology, subscriptions, advertisements, events and deliveries of a workload as Parquet tables.

    Each table is a directory in --out. The same seed and sizes give the same files. Memory does not grow with the
    number of events. --set changes a parameter of the workload, or of the topology as in topology.extra=0.1.
    """
    require("spark", "covey data")
    if list_:
        print_list(json)
        return
    if workload is None or out is None:
        raise ConfigError("which workload, and where to? (try: covey data generate keywords --out example)")
    from covey.datasets.generate import Request, as_dict
    from covey.datasets.generate import generate as write

    of_workload, of_topology = split_settings(settings or ())
    request = Request(
        workload=workload,
        out=out,
        topology=topology,
        brokers=brokers,
        subscriptions=subscriptions,
        events=events,
        publishers=publishers,
        deliveries=deliveries,
        seed=seed,
        settings=of_workload,
        topology_settings=of_topology,
        replace=replace,
    )
    with progress_lines("data") as tell:
        written = write(request, lambda *step: tell(progress_line(*step), False))
    if json:
        print_json(as_dict(written))
        return
    typer.echo(f"{written.about['workload']}: {written.about['description']}")
    typer.echo(f"{written.brokers:,} brokers, seed {seed}")
    print_pairs({f"{written.out / table}": f"{rows:,} rows" for table, rows in written.rows.items()})


def split_settings(settings: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of the workload and those of the topology, each value read as TOML or else a text."""
    found: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for setting in settings:
        key, equals, text = (part.strip() for part in setting.partition("="))
        name = key.removeprefix("topology.")
        if not equals or not name:
            raise ConfigError(f"--set {setting!r:.60}: expected a key, = and a value, like nearest=0.15")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except (ValueError, RecursionError):
            value = text
        found[name != key][name] = value
    return found


def progress_line(table: str, rows: int, expected: int | None) -> str:
    """Return how far a table is."""
    return f"data: {table}, {rows:,}" + ("" if expected is None else f" of {expected:,}") + " rows"


def print_list(json: bool) -> None:
    """Print all workloads and topologies with what each is."""
    from covey.datasets.catalogue import WORKLOADS
    from covey.sim.topology import TOPOLOGIES

    def first_line(builder: object) -> str:
        return (builder.__doc__ or "").strip().partition("\n")[0].removeprefix("Return ")

    lists = {
        "workloads": {name: workload.about for name, workload in WORKLOADS.items()},
        "topologies": {name: first_line(builder) for name, builder in TOPOLOGIES.items()},
    }
    if json:
        print_json(lists)
    else:
        print_lists(lists)
