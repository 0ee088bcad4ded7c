"""The pipeline on Spark: its match stage beside Spark SQL's join, its tables in bulk beside plain Python.

    match    ingested events in Parquet, all pairs (event, subscription), dropped. The join has attributes and
             constraints as rows, joined by name, kept where the value is between the ends, counted by pair. Filters are
             compiled beforehand for the one and laid out for the other
    tables   `pipeline.tables` into Parquet, covering, quote intervals at REBECA's 107 brokers, beside the reduction of
             each link by itself in one process, whose tables must be equal

Costs are seconds of CPU time, Java's and that of all Python workers; for plain Python this process's own. Java compiles
while it runs, so that the first round costs more: figures are of the better of two rounds, except the join's, whose
first it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from covey import pipeline
from covey.bench.bulk import bulk_frame, plain_tables, read_tables, write_subscriptions
from covey.bench.comparison import Comparison
from covey.bench.spark import SEED, STEP, measured, running, spent_s, write_events, write_filters
from covey.core.attributes.filter import AttributeFilter
from covey.workloads.attributes import WORKLOADS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WORKLOAD: Final = next(one for one in WORKLOADS if one.name == "siena")  # whose answers are many
ROUNDS: Final = 2

Progress = Callable[[str], None]


def compare(
    progress: Progress,
    *,
    filters: int,
    events: Sequence[int],
    subscriptions: Sequence[int],
    rounds: int = ROUNDS,
) -> list[Comparison]:
    """Return match by events, and tables by subscriptions; CoveyError if Spark cannot run here."""
    progress("starting Spark")
    with running() as (spark, directory):
        return [
            *matching(spark, directory, progress, filters, events),
            *in_bulk(spark, directory, progress, subscriptions, rounds),
        ]


def matching(
    spark: SparkSession, directory: Path, progress: Progress, filters: int, events: Sequence[int]
) -> list[Comparison]:
    """Return what the match stage costs for each number of events."""
    drawn = WORKLOAD.filters(np.random.default_rng(SEED), filters)
    write_filters(directory / "filters.parquet", drawn)
    compiled = pipeline.compile_filters(spark.read.parquet(str(directory / "filters.parquet"))).persist()
    result: list[Comparison] = []
    for count in sorted(events):
        progress(f"match, {count:,} events")
        result.append(_match(spark, directory, compiled, drawn, count))
    return result


def in_bulk(
    spark: SparkSession,
    directory: Path,
    progress: Progress,
    subscriptions: Sequence[int],
    rounds: int = ROUNDS,
) -> list[Comparison]:
    """Return what tables in bulk cost for each number of subscriptions, in the best of so many rounds."""
    result: list[Comparison] = []
    for number, count in enumerate(sorted(subscriptions)):
        progress(f"tables, {count:,} subscriptions")
        result.append(_tables(spark, directory, count, max(rounds, 1 if number else ROUNDS)))
    return result


def _match(
    spark: SparkSession, directory: Path, compiled: DataFrame, filters: list[AttributeFilter], count: int
) -> Comparison:
    assert count <= STEP, "as many events as `write_events` draws at once"
    path = directory / f"events-{count}.parquet"
    write_events(path, WORKLOAD, count)
    ours = pipeline.match(spark.read.parquet(str(path)), compiled)
    join = joined(spark, WORKLOAD.events(np.random.default_rng(SEED + 1), count), filters)
    equal = pairs(ours) == pairs(join)
    return Comparison(
        part="pipeline",
        work=f"match on Spark, {len(filters):,} filters",
        unit="s",
        axis="events",
        size=count,
        ours=measured(lambda: ours, ROUNDS)["total_s"],
        baseline="Spark SQL's join",
        theirs=measured(lambda: join, 1)["total_s"],
        equal=equal,
    )


def pairs(frame: DataFrame) -> set[tuple[str, str]]:
    """Return the events and subscriptions that a frame has together."""
    return {(row["event"], row["subscription"]) for row in frame.select("event", "subscription").collect()}


def joined(
    spark: SparkSession, events: Sequence[dict[str, Any]], filters: Sequence[AttributeFilter]
) -> DataFrame:
    """Return the same answers by a join: each constraint with the attributes that satisfy it, then all of a filter."""
    attributes = [
        {"event": f"e{k}", "name": name, "value": float(value)}
        for k, event in enumerate(events)
        for name, value in event.items()
    ]
    constraints = []
    for k, filter in enumerate(filters):
        (conjunction,) = filter.conjunctions
        for name, constraint in conjunction.constraints:
            (start, low_side), (end, high_side) = constraint.numbers
            constraints.append(
                {
                    "subscription": f"s{k}",
                    "size": len(conjunction.constraints),
                    "name": name,
                    "low": float(start),
                    "above": bool(low_side),
                    "high": float(end),
                    "upto": bool(high_side),
                }
            )
    left = spark.createDataFrame(pa.Table.from_pylist(attributes)).localCheckpoint()
    right = spark.createDataFrame(pa.Table.from_pylist(constraints)).localCheckpoint()
    value, low, high = left["value"], right["low"], right["high"]
    holds = ((value > low) | (~right["above"] & (value == low))) & (
        (value < high) | (right["upto"] & (value == high))
    )
    held = left.join(right, "name").where(holds).groupBy("event", "subscription", "size").count()
    return held.where(held["count"] == held["size"])


def _tables(spark: SparkSession, directory: Path, count: int, rounds: int) -> Comparison:
    path, out = directory / f"intervals-{count}", directory / f"tables-{count}"
    write_subscriptions(path, "intervals", count)
    costs: list[float] = []
    for _ in range(rounds):
        before = spent_s()
        bulk_frame(spark, path, "covering").write.mode("overwrite").parquet(str(out))
        costs.append(float((spent_s() - before).sum()))
    began = time.process_time()
    expected = plain_tables(path, "covering", advertised=False)
    plain_s = time.process_time() - began
    return Comparison(
        part="pipeline",
        work="tables in bulk on Spark, 107 brokers, covering",
        unit="s",
        axis="subscriptions",
        size=count,
        ours=min(costs),
        baseline="plain Python, link by link",
        theirs=plain_s,
        equal=read_tables(out) == expected,
    )
