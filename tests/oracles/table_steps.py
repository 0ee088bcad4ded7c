"""The steps of tables in bulk run in this process, as Spark would: rows in random partitions and batches.

And the same tables by the simulator, message by message, which is what they are compared with.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

from covey.core.filter import Filter
from covey.pipeline.tables.answers import Network as TreeAndAdvertisements
from covey.pipeline.tables.local import SCHEMA
from covey.pipeline.tables.overlay import Overlay
from covey.pipeline.tables.spread import EACH, spread_batches
from covey.pipeline.tables.steps import Step, steps_of
from covey.routing.plan import OneCopy, TreePlan
from covey.sim.network import Network
from covey.sim.trial_material import material

Row = dict[str, Any]
Tables = Counter[tuple[str, str, bytes]]  # broker, link, filter
Placed = list[tuple[str, Filter]]
MOST_PARTITIONS = 3


class Case(NamedTuple):
    """A small random network: links of a tree, and at brokers of it subscriptions and advertisements."""

    random: Random
    links: list[tuple[str, str]]
    subscriptions: Placed
    advertisements: Placed


def case(seed: int) -> Case:
    """Return the case of a seed: filters so few and so close that they often cover, overlap and are equal."""
    random = Random(seed)
    drawn = material(random)
    count = random.randint(2, 9)
    links = [(f"b{random.randrange(k)}", f"b{k}") for k in range(1, count)]

    def placed(draw: Callable[[], Filter], most: int) -> Placed:
        return [(f"b{random.randrange(count)}", draw()) for _ in range(random.randint(0, most))]

    return Case(random, links, placed(drawn.filter, 40), placed(drawn.announcement, 12))


def tree_plan(strategy: str, links: Sequence[tuple[str, str]]) -> TreePlan | None:
    """Return the plan of one tree that strategies of planned trees need here."""
    if strategy == "trees":
        return TreePlan([links])
    return TreePlan([links], one_copy=OneCopy("nearest", ["b0"])) if strategy == "regions" else None


def table_of(net: Network) -> Tables:
    """Return what the brokers of a network at rest have."""
    return Counter((broker, link, f.encode()) for broker, table in net.tables.items() for link, f in table)


def simulated(given: Case, strategy: str, *, advertisements: bool) -> Tables:
    """Return the tables that messages come to."""
    net = Network(
        given.links, strategy, advertisements=advertisements, trees=tree_plan(strategy, given.links)
    )
    for broker, filter in given.advertisements:
        net.advertise(broker, filter)
    for broker, filter in given.subscriptions:
        net.subscribe(broker, filter)
    net.settle()
    return table_of(net)


def named(placed: Placed, letter: str) -> list[Row]:
    """Return rows with the keys that the simulator gives."""
    return [
        {"broker": broker, "encoded": filter.encode(), "entries": 1, "key": f"{letter}{number}"}
        for number, (broker, filter) in enumerate(placed, start=1)
    ]


def computed(given: Case, strategy: str, *, advertisements: bool, keys: bool) -> list[Row]:
    """Return the rows that the steps come to."""
    rows = named(given.subscriptions, "s")
    if not keys:
        rows = [{**row, "key": None} for row in rows]
    announced = [(broker, filter.encode()) for broker, filter in given.advertisements]
    network = TreeAndAdvertisements(Overlay(given.links), announced if advertisements else None)
    steps = steps_of(strategy, keys=keys, advertisements=advertisements)
    for step in steps:
        rows = _run(given.random, rows, step, network.packed() if step is steps[-1] else None)
    return rows


def announced(given: Case) -> list[Row]:
    """Return the rows of the advertisements behind each link."""
    network = TreeAndAdvertisements(Overlay(given.links), None)
    step = Step(partial(spread_batches, how=EACH, owners=False))
    return _run(given.random, named(given.advertisements, "a"), step, network.packed())


def counted(rows: list[Row]) -> Tables:
    """Return the tables that rows stand for."""
    tables: Tables = Counter()
    for row in rows:
        tables[row["broker"], row["link"], row["encoded"]] += row["entries"]
    return tables


def _run(random: Random, rows: list[Row], step: Step, blob: bytes | None) -> list[Row]:
    partitions: list[list[Row]] = [[] for _ in range(1 if step.together == () else MOST_PARTITIONS)]
    for row in rows:
        if step.together is None:
            place = random.randrange(len(partitions))
        else:
            place = zlib.crc32(repr([row[name] for name in step.together]).encode()) % len(partitions)
        partitions[place].append(row)
    return [
        row
        for some in partitions
        for batch in step.compute(_batches(random, some, blob))
        for row in batch.to_pylist()
    ]


def _batches(random: Random, rows: list[Row], blob: bytes | None) -> Any:
    size = random.randint(1, 20)
    for start in range(0, len(rows), size):
        batch = pa.RecordBatch.from_pylist(rows[start : start + size], schema=SCHEMA)
        if blob is not None:
            column = [None] * len(batch)
            if not start:
                column[0] = blob  # type: ignore[call-overload]
            batch = batch.append_column("network", pa.array(column, pa.binary()))
        yield batch
