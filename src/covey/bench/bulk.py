"""Routing tables of REBECA's network by the definition, and the inputs from which Spark computes the same in bulk.

Subscriptions are at its 67 local brokers, of 107: quotes (`symbol = s`) or quote intervals (`symbol = s and price
between …`) of 1,000 symbols, as the publication has them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from covey import pipeline
from covey.core.attributes.filter import TRUE
from covey.core.families import decode
from covey.core.filter import Filter
from covey.sim.topology import rebeca
from covey.strategies.reductions import REDUCTIONS
from covey.workloads.quotes import draw_intervals, interval_filter, quote_filter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SYMBOLS: Final = 1_000
ROOT: Final = "r1"
STEP: Final = 500_000

Tables = Counter[tuple[str, str, bytes]]  # broker, link, filter: how many entries


# -- workloads -------------------------------------------------------------------------------------------------


def quotes(generator: np.random.Generator, count: int) -> pa.Array:
    """Return wire forms of quotes."""
    wires = pa.array([quote_filter(symbol).encode() for symbol in range(SYMBOLS)], pa.binary())
    return wires.take(pa.array(generator.integers(SYMBOLS, size=count)))


def intervals(generator: np.random.Generator, count: int) -> pa.Array:
    """Return wire forms of quote intervals: one of them with other numbers in its place, and some compared."""
    symbols = generator.integers(SYMBOLS, size=count)
    ends = draw_intervals(generator, count)
    pattern = interval_filter(123, 1.5, 98.25).encode()
    places = [pattern.index(np.array([end], ">f8").tobytes()) for end in (1.5, 98.25)]
    name = pattern.index(b"123")
    data = np.tile(np.frombuffer(pattern, np.uint8), (count, 1))
    for column, place in enumerate(places):
        data[:, place : place + 8] = ends[:, column].astype(">f8").view(np.uint8).reshape(count, 8)
    for digit in range(3):
        data[:, name + digit] = 48 + symbols // 10 ** (2 - digit) % 10
    for row in range(0, count, max(1, count // 50)):
        assert data[row].tobytes() == interval_filter(int(symbols[row]), *ends[row].tolist()).encode()
    offsets = pa.py_buffer(np.arange(0, (count + 1) * len(pattern), len(pattern), dtype=np.int32))
    return pa.Array.from_buffers(
        pa.binary(), count, [None, offsets, pa.py_buffer(np.ascontiguousarray(data))]
    )


def write_subscriptions(path: Path, kind: str, count: int) -> None:
    """Write ingested subscriptions, as Parquet files."""
    generator = np.random.default_rng([count, 26])
    homes = pa.array(rebeca().role("local"), pa.string())
    path.mkdir(parents=True)
    for first in range(0, count, STEP):
        size = min(STEP, count - first)
        names = pc.binary_join_element_wise(
            "s", pc.cast(pa.array(np.arange(first, first + size)), pa.string()), ""
        )
        table = pa.table(
            {
                "subscription": names,
                "broker": homes.take(pa.array(generator.integers(len(homes), size=size))),
                "language": pa.repeat("attributes", size),
                "filter": pa.repeat("-", size),  # not read: the wire form is there
                "encoded": {"quotes": quotes, "intervals": intervals}[kind](generator, size),
            }
        )
        pq.write_table(table, path / f"{first}.parquet", use_dictionary=["broker", "language", "filter"])


# -- plain Python ----------------------------------------------------------------------------------------------


def plain_tables(path: Path, strategy: str, *, advertised: bool) -> Tables:
    """Return all tables by the definition: link by link, each reduction by itself."""
    topology, reduce = rebeca(), REDUCTIONS[strategy].reduce
    distance = topology.distances(ROOT)
    local: dict[str, list[Filter]] = {broker: [] for broker in topology.brokers}
    rows = pq.read_table(path, columns=["broker", "encoded"])
    for broker, wire in zip(rows["broker"].to_pylist(), rows["encoded"].to_pylist(), strict=True):
        local[broker].append(decode(wire))
    told: dict[tuple[str, str], list[Filter]] = {}

    def tell(broker: str, other: str) -> None:
        known = [f for via in topology.neighbours[broker] if via != other for f in told[via, broker]]
        told[broker, other] = reduce(known + local[broker])

    downward = sorted(topology.brokers, key=lambda broker: distance[broker])
    for broker in reversed(downward):
        for other in topology.neighbours[broker]:
            if distance[other] < distance[broker]:
                tell(broker, other)
    for broker in [] if advertised else downward:
        for other in topology.neighbours[broker]:
            if distance[other] > distance[broker]:
                tell(broker, other)
    return Counter((hears, tells, f.encode()) for (tells, hears), some in told.items() for f in some)


# -- Spark -----------------------------------------------------------------------------------------------------


def bulk_frame(
    spark: SparkSession, subscriptions: Path, strategy: str, *, advertised: bool = False
) -> DataFrame:
    """Return the tables of a strategy, to be computed; `advertised`: the root advertises everything."""
    topology = spark.createDataFrame(
        [(a, b, 1.0) for a, b in rebeca().links], "a string, b string, cost double"
    )
    advertisements = None
    if advertised:
        row = ("a1", ROOT, "attributes", "TRUE", TRUE.encode())
        names = "advertisement string, broker string, language string, filter string, encoded binary"
        advertisements = spark.createDataFrame([row], names)
    frame = spark.read.parquet(str(subscriptions))
    return pipeline.tables(frame, advertisements, topology, strategy=strategy).drop("key", "owner")


def read_tables(out: Path) -> Tables:
    """Return what was written."""
    found: Tables = Counter()
    for row in pq.read_table(out).to_pylist():
        found[row["broker"], row["link"], row["encoded"]] += row["entries"]
    return found
