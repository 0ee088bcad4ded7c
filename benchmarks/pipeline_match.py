"""The pipeline's match stage against the kernel inside it, and against Spark SQL's join on the same predicate.

    .venv/bin/python benchmarks/pipeline_match.py [--events 1000000] [--filters 100000] [--master 'local[2]'] [--json]
                                                  [--join-events 10000] [--join-filters 10000] [--rounds 3]

Figures are seconds of processor time, user and system:

    compile        all filters into the index, one task: Python's share, Java's share
    stage          match on ingested events in Parquet, the answers dropped: Java's share, Python's share
    blocking       ingested events into blocks
    blocks         match on blocks in Parquet, the answers dropped
    kernel         the same events, encoded beforehand, through the index's kernel in this process; and unpacking them
    join           Spark SQL: attributes and constraints as rows, joined by name and interval, counted by pair

The first round of a stage has Java compile its code and workers load the index; the figures are those of the
best round, and of the first. Answers are counted, and the benchmark fails if the counts differ.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey import pipeline
from covey.core.attributes.filter import AttributeFilter
from covey.core.packing import pack
from covey.matching.attributes.index import AttributeIndex
from covey.matching.attributes.unpacking import Unpacker
from covey.matching.index import warm_up
from covey.pipeline.session import session
from covey.workloads.attributes import WORKLOADS

SEED = 20_26
STEP = 50_000
TICKS = os.sysconf("SC_CLK_TCK")


def write_events(path: Path, workload: Any, count: int) -> None:
    """Write ingested events as a Parquet file."""
    generator = np.random.default_rng(SEED + 1)
    writer = None
    for first in range(0, count, STEP):
        events = workload.events(generator, min(STEP, count - first))
        table = pa.table(
            {
                "event": [f"e{first + k}" for k in range(len(events))],
                "broker": ["b"] * len(events),
                "language": ["attributes"] * len(events),
                "content": ["{}"] * len(events),  # not read: the packed form is there
                "encoded": pa.array([pack(event) for event in events], pa.binary()),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer:
        writer.close()


def write_filters(path: Path, filters: list[AttributeFilter]) -> None:
    """Write ingested subscriptions as a Parquet file."""
    table = pa.table(
        {
            "subscription": [f"s{k}" for k in range(len(filters))],
            "broker": ["b"] * len(filters),
            "language": ["attributes"] * len(filters),
            "filter": ["-"] * len(filters),  # not read: the wire form is there
            "encoded": pa.array([filter.encode() for filter in filters], pa.binary()),
        }
    )
    pq.write_table(table, path)


# -- measuring -------------------------------------------------------------------------------------------------


def descendants() -> Iterator[tuple[str, float]]:
    """Return the processes that this one started, and theirs: name, and seconds with those of children that ended."""
    children: dict[int, list[tuple[int, str, float]]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        name, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        spent = sum(map(int, fields[11:13])) if name == "java" else sum(map(int, fields[11:15]))
        children.setdefault(int(fields[1]), []).append((int(text.split()[0]), name, spent / TICKS))
    waiting = [os.getpid()]
    while waiting:
        for pid, name, spent in children.get(waiting.pop(), []):
            waiting.append(pid)
            yield name, spent


def spent_s() -> np.ndarray:
    """Return the seconds that Java has taken, and Python's workers."""
    total = np.zeros(2)
    for name, spent in descendants():
        total[0 if name == "java" else 1] += spent
    return total


def measured(frame: Callable[[], DataFrame], rounds: int) -> dict[str, Any]:
    """Compute a frame several times, dropping its rows; return what it took."""
    costs: list[tuple[float, float, float, float]] = []
    for _ in range(rounds):
        before, began = spent_s(), time.perf_counter()
        frame().write.format("noop").mode("overwrite").save()
        clock = time.perf_counter() - began
        java, python = spent_s() - before
        costs.append((float(java + python), float(java), float(python), clock))
    names = ("total_s", "java_s", "python_s", "clock_s")
    best = dict(zip(names, [round(value, 2) for value in min(costs)], strict=True))
    return best | {"first_s": round(costs[0][0], 2)}


def kernel(filters: list[AttributeFilter], events: Path, rounds: int) -> dict[str, Any]:
    """Match the events in this process; return what each part took, in the best round."""
    index = AttributeIndex()
    for first in range(0, len(filters), 20_000):
        some = filters[first : first + 20_000]
        index.add_batch(range(first, first + len(some)), some)
    unpacker = Unpacker(index)
    column = pq.read_table(events, columns=["encoded"])["encoded"].combine_chunks().cast(pa.large_binary())
    offsets = np.frombuffer(column.buffers()[1], np.int64)[: len(column) + 1]
    data = np.frombuffer(column.buffers()[2], np.uint8)
    best, matches = [float("inf")] * 2, 0
    for _ in range(rounds + 1):
        spent, matches = [0.0, 0.0], 0
        for first in range(0, len(column), 8_192):
            start = time.process_time()
            batch = unpacker.encode(data, offsets[first : first + 8_193])
            middle = time.process_time()
            handles, _ = index.match_encoded(batch)
            spent[1] += time.process_time() - middle
            spent[0] += middle - start
            matches += len(handles)
        best = list(map(min, best, spent))
    return {"unpack_s": round(best[0], 2), "kernel_s": round(best[1], 2), "matches": matches}


# -- Spark SQL -------------------------------------------------------------------------------------------------


def joined(spark: SparkSession, events: list[dict[str, Any]], filters: list[AttributeFilter]) -> DataFrame:
    """Return the same answers by a join: each constraint with the attributes that satisfy it, then all of a filter."""
    attributes = [
        (f"e{k}", name, float(value)) for k, event in enumerate(events) for name, value in event.items()
    ]
    constraints = []
    for k, filter in enumerate(filters):
        (conjunction,) = filter.conjunctions
        for name, constraint in conjunction.constraints:
            (low, low_side), (high, high_side) = constraint.numbers
            constraints.append(
                (
                    f"s{k}",
                    len(conjunction.constraints),
                    name,
                    float(low),
                    bool(low_side),
                    float(high),
                    bool(high_side),
                )
            )
    left = spark.createDataFrame(
        pa.Table.from_pylist([dict(zip(("event", "name", "value"), row, strict=True)) for row in attributes])
    )
    names = ("subscription", "size", "name", "low", "above", "high", "upto")
    right = spark.createDataFrame(
        pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in constraints])
    )
    left, right = left.localCheckpoint(), right.localCheckpoint()
    value = F.col("value")
    holds = ((value > F.col("low")) | (~F.col("above") & (value == F.col("low")))) & (
        (value < F.col("high")) | (F.col("upto") & (value == F.col("high")))
    )
    pairs = left.join(right, "name").where(holds).groupBy("event", "subscription")
    return pairs.agg(F.count("*").alias("held"), F.first("size").alias("size")).where("held = size")


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--filters", type=int, default=100_000)
    parser.add_argument("--join-events", type=int, default=10_000)
    parser.add_argument("--join-filters", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    workload = next(one for one in WORKLOADS if one.name == "siena-3")
    directory = Path(tempfile.mkdtemp(prefix="covey-pipeline-"))
    try:
        result = run(workload, options, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if options.json:
        print(json.dumps(result))
        return
    for part, figures in result.items():
        print(f"{part:<10}", figures)


def say(part: str, so_far: Mapping[str, Any] | None = None) -> None:
    """Show what is measured next, and what was found, on standard error."""
    print(time.strftime("%H:%M:%S"), part, so_far or "", file=sys.stderr, flush=True)


def run(workload: Any, options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Return all figures."""
    warm_up()
    filters = [
        one
        for batch in workload.batches(np.random.default_rng(SEED), max(options.filters, options.join_filters))
        for one in batch
    ]
    write_events(directory / "events.parquet", workload, options.events)
    write_filters(directory / "subscriptions.parquet", filters[: options.filters])
    spark = session(options.master, directory / "spark.log", "covey benchmark", bulk=True)
    spark.range(10).mapInArrow(lambda batches: batches, "id long").collect()
    events = spark.read.parquet(str(directory / "events.parquet"))
    subscriptions = spark.read.parquet(str(directory / "subscriptions.parquet"))
    say("compile")
    compiled = measured(lambda: pipeline.compile_filters(subscriptions), 1)
    kept = pipeline.compile_filters(subscriptions).persist()
    say("stage")
    found = pipeline.match(events, kept).count()
    stage = measured(lambda: pipeline.match(events, kept), options.rounds)
    say("blocks")
    blocking = measured(lambda: pipeline.blocks(events), options.rounds)
    pipeline.blocks(events).write.parquet(str(directory / "blocks.parquet"))
    blocks = spark.read.parquet(str(directory / "blocks.parquet"))
    assert pipeline.match(blocks, kept).count() == found, "blocks match what rows match"
    from_blocks = measured(lambda: pipeline.match(blocks, kept), options.rounds)
    say("with compiling")
    whole = measured(lambda: pipeline.match(events, subscriptions), 1)
    say("kernel")
    alone = kernel(filters[: options.filters], directory / "events.parquet", options.rounds)
    assert found == alone["matches"], "the stage found what the kernel finds"
    result: dict[str, Any] = {
        "size": {"events": options.events, "filters": options.filters, "matches": found},
        "compile": compiled,
        "stage": stage,
        "blocking": blocking,
        "blocks": from_blocks,
        "with compiling": whole,
        "kernel": alone,
        "ratios": {
            "stage / kernel": round(stage["total_s"] / alone["kernel_s"], 2),
            "stage / (unpack + kernel)": round(stage["total_s"] / (alone["unpack_s"] + alone["kernel_s"]), 2),
            "blocks / kernel": round(from_blocks["total_s"] / alone["kernel_s"], 2),
            "blocks / (unpack + kernel)": round(
                from_blocks["total_s"] / (alone["unpack_s"] + alone["kernel_s"]), 2
            ),
        },
    }
    say("join", result)
    result["join"] = against_join(spark, workload, filters[: options.join_filters], options, directory)
    spark.stop()
    return result


def against_join(
    spark: SparkSession,
    workload: Any,
    filters: list[AttributeFilter],
    options: argparse.Namespace,
    directory: Path,
) -> dict[str, Any]:
    """Return what Spark SQL's join takes and what the stage takes for the same smaller question."""
    write_events(directory / "some.parquet", workload, options.join_events)
    write_filters(directory / "few.parquet", filters)
    events = workload.events(np.random.default_rng(SEED + 1), min(STEP, options.join_events))
    assert len(events) == options.join_events, "as many events as `write_events` draws at once"
    join = joined(spark, events, filters)
    few = pipeline.compile_filters(spark.read.parquet(str(directory / "few.parquet"))).persist()
    ours = pipeline.match(spark.read.parquet(str(directory / "some.parquet")), few)
    assert join.count() == ours.count(), "the join finds what the stage finds"
    theirs, mine = measured(lambda: join, 1), measured(lambda: ours, options.rounds)
    return {
        "events": len(events),
        "filters": len(filters),
        "join": theirs,
        "stage": mine,
        "cpu ratio": round(theirs["total_s"] / mine["total_s"], 1),
        "clock ratio": round(theirs["clock_s"] / mine["clock_s"], 1),
    }


if __name__ == "__main__":
    main()
