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
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from covey import pipeline
from covey.bench.pipeline import joined
from covey.bench.spark import SEED, STEP, measured, write_events, write_filters
from covey.core.attributes.filter import AttributeFilter
from covey.matching.attributes.index import AttributeIndex
from covey.matching.attributes.unpacking import Unpacker
from covey.matching.index import warm_up
from covey.pipeline.session import session
from covey.workloads.attributes import WORKLOADS


def kernel(filters: list[AttributeFilter], events: Path, rounds: int) -> dict[str, Any]:
    """Match the events in this process; return what each part took, in the best round."""
    index = AttributeIndex()
    for first in range(0, len(filters), 20_000):
        some = filters[first : first + 20_000]
        index.add_batch(range(first, first + len(some)), some)
    unpacker = Unpacker(index.channels)
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
