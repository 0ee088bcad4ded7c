"""The stages: every broker's table, its sizes, and what producers announce; see the package's text for the steps."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey.pipeline.ingest import ingested
from covey.pipeline.memory import Room, room_of
from covey.pipeline.packed import first_in_partition
from covey.pipeline.schemas import TOPOLOGY, Column, Table, check
from covey.pipeline.tables.answers import Network
from covey.pipeline.tables.overlay import Overlay
from covey.pipeline.tables.spread import EACH, count_batches, spread_batches
from covey.pipeline.tables.steps import Step, reduction_of, steps_of
from covey.strategies.reductions import everything

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

_BROKER = Column("broker", "string", "the broker whose table it is")
_LINK = Column("link", "string", "the neighbour that the entry came from")

ENTRIES = Table(
    "entries",
    "a filter in a broker's routing table, from one neighbour",
    (
        _BROKER,
        _LINK,
        Column("encoded", "binary", "the filter's wire form"),
        Column("entries", "bigint", "how many entries with this filter the link has"),
        Column("key", "string", "the label of the entry; null without `keys=True`"),
        Column("owner", "string", "match-first: the subscriber's broker; null otherwise"),
    ),
)
SIZES = Table(
    "sizes",
    "one neighbour's part of a broker's routing table",
    (_BROKER, _LINK, Column("entries", "bigint", "the number of entries from this neighbour")),
)

_ENTRIES = ", ".join(f"{column.name} {column.type}" for column in ENTRIES.columns)
_LOCAL = "broker string, encoded binary, entries bigint, key string"


def tables(
    subscriptions: DataFrame,
    advertisements: DataFrame | None,
    topology: DataFrame,
    *,
    strategy: str,
    keys: bool = False,
) -> DataFrame:
    """Return the table `entries`: all remote entries of all brokers, once everything has settled.

    `advertisements` None means that there are none and every subscription goes everywhere, not that nobody
    publishes. With `keys`, entries have the labels by which brokers know them, which loading needs; simple and
    match-first routing then have a row for each subscription, otherwise one for equal ones, with their number.
    ConfigError for a strategy without a reduction; a topology that is no tree, and brokers that it does not have, are
    found when the rows are computed.
    """
    steps = steps_of(strategy, keys=keys, advertisements=advertisements is not None)
    rows = _subscribed(subscriptions, keys=keys)
    for step in steps[:-1]:
        rows = _together(rows, step).mapInArrow(step.compute, _LOCAL)
    return _last(_together(rows, steps[-1]), steps[-1], _network(topology, advertisements))


def sizes(
    subscriptions: DataFrame, advertisements: DataFrame | None, topology: DataFrame, *, strategy: str
) -> DataFrame:
    """Return the table `sizes`: how many entries each broker has from each neighbour, none included."""
    if reduction_of(strategy).reduce is everything:
        # They need not be written down to be counted.
        rows = _subscribed(subscriptions, keys=False)
        counted = _last(rows, Step(count_batches), _network(topology, advertisements))
    else:
        counted = tables(subscriptions, advertisements, topology, strategy=strategy)
    sums = counted.groupBy("broker", "link").agg(F.sum("entries").alias("entries"))
    links = topology.select(F.col("a").alias("broker"), F.col("b").alias("link"))
    links = links.union(links.select("link", "broker"))
    known = links.join(sums, ["broker", "link"], "left")
    return known.select("broker", "link", F.coalesce("entries", F.lit(0)).alias("entries"))


def announcements(advertisements: DataFrame, topology: DataFrame) -> DataFrame:
    """Return the other half of the tables, in the same columns: what producers behind each link announce, by key."""
    checked = ingested(advertisements, table="advertisements")
    rows = checked.select(
        "broker", "encoded", F.lit(1).cast("bigint").alias("entries"), _key("advertisement")
    )
    return _last(rows, Step(partial(spread_batches, how=EACH, owners=False)), _network(topology, None))


# -- parts of the plan -----------------------------------------------------------------------------------------


def _subscribed(subscriptions: DataFrame, *, keys: bool) -> DataFrame:
    checked = ingested(subscriptions, table="subscriptions")
    key = _key("subscription") if keys else F.lit(None).cast("string").alias("key")
    return checked.select("broker", "encoded", F.lit(1).cast("bigint").alias("entries"), key)


def _key(column: str) -> SparkColumn:
    return F.col(column).cast("string").alias("key")


def _together(rows: DataFrame, step: Step) -> DataFrame:
    if step.together is None:
        return rows
    return rows.repartition(*step.together) if step.together else rows.repartition(1)


def _network(topology: DataFrame, advertisements: DataFrame | None) -> DataFrame:
    """Return one row: the tree and the advertisements, checked."""
    check(topology, TOPOLOGY)
    rows = topology.select(F.col("a"), F.col("b"), F.lit(None).cast("binary").alias("encoded"))
    if advertisements is not None:
        advertised = ingested(advertisements, table="advertisements")
        rows = rows.union(advertised.select("broker", F.lit(None).cast("string"), "encoded").distinct())
    # Of an empty table Spark would compute nothing at all; with this row there is a network even then.
    nothing_at_all = ("a string", "b string", "encoded binary")
    empty = topology.sparkSession.range(1).select(
        *[F.lit(None).cast(kind).alias(name) for name, kind in (pair.split() for pair in nothing_at_all)]
    )
    together = rows.union(empty).repartition(1)
    room = room_of(topology.sparkSession)
    pack = partial(pack_batches, advertisements=advertisements is not None, room=room)
    return together.mapInArrow(pack, "part int, network binary")


def _last(rows: DataFrame, step: Step, network: DataFrame) -> DataFrame:
    """Compute the entries from rows; the first row of each partition brings the network to its worker."""
    numbered = rows.withColumn("part", first_in_partition())
    joined = numbered.join(F.broadcast(network), "part", "left").drop("part")
    return joined.mapInArrow(step.compute, _ENTRIES)


# -- in the workers --------------------------------------------------------------------------------------------


def pack_batches(
    batches: Iterator[pa.RecordBatch], *, advertisements: bool, room: Room
) -> Iterator[pa.RecordBatch]:
    """Return one row with the network.

    ConfigError if its links are no tree, somebody is at no broker of it, or there is no room to broadcast it.
    """
    links: list[tuple[str, str]] = []
    advertised: list[tuple[str, bytes]] = []
    for batch in batches:
        for a, b, encoded in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if encoded is not None:
                advertised.append((a, encoded))
            elif a is not None and b is not None:
                links.append((a, b))
    network = Network(Overlay(links), sorted(advertised) if advertisements else None)
    network.wanting()
    packed = network.packed()
    room.check(len(packed), f"too large to broadcast is the network with {len(advertised):,} advertisements")
    yield pa.RecordBatch.from_arrays(
        [pa.array([0], pa.int32()), pa.array([packed], pa.binary())], ["part", "network"]
    )
