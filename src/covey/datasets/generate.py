"""Example inputs for `covey plan`: one pass over a workload's script, each action a row of its table.

The same request gives the same files, byte for byte. Memory grows with the number of subscriptions, by some numbers
each (and the index of them, if deliveries are asked for), and not with the number of events.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from covey.core.xpath.document import Document
from covey.datasets.catalogue import DEFAULT_TOPOLOGY, build_script, build_topology, workload_named
from covey.datasets.deliveries import Deliveries
from covey.datasets.parquet import TableWriter, write_about
from covey.errors import ConfigError
from covey.pipeline.schemas import INPUTS, table_named
from covey.sim.topology.catalogue import check_range
from covey.sim.topology.graph import Topology
from covey.sim.workload.action import Action
from covey.sim.workload.script import MAX_ACTIONS, Script

START_US = int(datetime(2026, 1, 5, tzinfo=UTC).timestamp()) * 1_000_000
MOST_DELIVERIES = 1_000_000
MOST_INDEXED = 1_000_000  # subscriptions up to which deliveries are written unless told

Progress = Callable[[str, int, int | None], None]  # table, rows so far, rows at the end if that is known


@dataclass(frozen=True)
class Request:
    """What to write where. `deliveries` is the most rows of that table; None chooses, 0 is none."""

    workload: str
    out: Path
    topology: str = DEFAULT_TOPOLOGY
    brokers: int | None = None
    subscriptions: int = 1_000
    events: int = 1_000
    publishers: int | None = None
    deliveries: int | None = None
    seed: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    topology_settings: Mapping[str, Any] = field(default_factory=dict)
    replace: bool = False


@dataclass(frozen=True)
class Written:
    """What was written: rows of each table, brokers, and what it was made from."""

    out: Path
    rows: Mapping[str, int]
    brokers: int
    about: Mapping[str, Any]


def generate(request: Request, progress: Progress = lambda table, rows, all_rows: None) -> Written:
    """Write the tables; ConfigError in one line if the request cannot be met, before anything is written."""
    name, workload = workload_named(request.workload)
    check_range("--subscriptions", request.subscriptions, 1, MAX_ACTIONS)
    check_range("--events", request.events, 0, MAX_ACTIONS)
    topology = build_topology(request.topology, request.brokers, request.seed, request.topology_settings)
    publishers = len(topology.brokers) if request.publishers is None else request.publishers
    script = build_script(
        name,
        topology,
        subscriptions=request.subscriptions,
        events=request.events,
        publishers=publishers,
        seed=request.seed,
        settings=request.settings,
    )
    most = request.deliveries
    if most is None:
        most = MOST_DELIVERIES if request.subscriptions <= MOST_INDEXED else 0
    _make_room(request.out, request.replace)
    expected = {
        "topology": len(topology.links),
        "subscriptions": request.subscriptions,
        "events": request.events,
    }

    def on_rows(table: str, rows: int) -> None:
        progress(table, rows, expected.get(table))

    with ExitStack() as stack:
        wanted = [table.name for table in INPUTS if table.name != "deliveries" or most]
        writers = {
            table: stack.enter_context(TableWriter(request.out, table_named(table), on_rows))
            for table in wanted
        }
        for a, b in topology.links:
            writers["topology"].add(a, b, 1.0)
        _write(script, request.subscriptions, topology, writers, most)
    rows = {table: writer.rows for table, writer in writers.items()}
    about = {
        "workload": name,
        "description": workload.about,
        "seed": request.seed,
        "parameters": dict(script.parameters),
        "topology": {"kind": topology.name, "brokers": len(topology.brokers), **request.topology_settings},
        "rows": rows,
    }
    write_about(request.out, about)
    return Written(request.out, rows, len(topology.brokers), about)


def _make_room(out: Path, replace: bool) -> None:
    """Make the directory; ConfigError if there are tables in it already, unless they are to be replaced."""
    there = [table.name for table in INPUTS if (out / table.name).exists()]
    if there and not replace:
        raise ConfigError(
            f"{str(out)!r:.80} has the table {there[0]} already (hint: --replace, or another --out)"
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        for table in there:
            shutil.rmtree(out / table)
    except OSError as error:
        raise ConfigError(f"cannot write into {str(out)!r:.80}: {error.strerror or error}") from None


def _write(
    script: Script, subscriptions: int, topology: Topology, writers: Mapping[str, TableWriter], most: int
) -> None:
    language = script.family
    deliveries = Deliveries(topology, writers["deliveries"], most) if most else None
    left = subscriptions
    number = 0
    for action in script:
        if action.op == "advertise":
            writers["advertisements"].add(action.name, action.broker, language, str(action.what))
        elif action.op == "subscribe" and left:
            left -= 1
            writers["subscriptions"].add(action.name, action.broker, language, str(action.what))
            if deliveries is not None:
                deliveries.subscribe(action.name, action.broker, action.what)
        elif action.op == "publish":
            event, at_us = f"e{number}", START_US + round(action.at_s * 1e6)
            number += 1
            writers["events"].add(event, action.client, action.broker, at_us, language, _text(action))
            if deliveries is not None:
                content = Document.parse(action.what) if language == "xpath" else action.what
                deliveries.publish(event, action.broker, at_us, content)
    if deliveries is not None:
        deliveries.flush()


def _text(action: Action) -> str:
    """Return an event's content as the table has it."""
    what = action.what
    if isinstance(what, str):
        return what
    if isinstance(what, frozenset):
        return json.dumps(sorted(what), ensure_ascii=False)
    return msgspec.json.encode(what).decode()


def as_dict(written: Written) -> dict[str, Any]:
    """Return what was written, for JSON."""
    return {**asdict(written), "out": str(written.out)}
