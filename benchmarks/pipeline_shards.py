"""Matching more filters than one index should have: compiled in shards, spread over tasks, and a day's added.

    .venv/bin/python benchmarks/pipeline_shards.py [--filters 3000000] [--added 100000] [--events 20000]
                                                   [--master 'local[2]'] [--json]

Figures are seconds of processor time, of Java and of Python's workers, and the largest resident memory in MB, of Java
and of all workers together, looked at ten times a second:

    compile    all filters, in shards, written as Parquet
    match      all events with all filters, spread, the answers counted
    add        a day's filters, compiled alone, and the same events matched with all

An index of all filters in this process counts again what each 20th event matches.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from covey import pipeline
from covey.bench.spark import SEED, resident_bytes, spent_s, write_events
from covey.core.attributes.filter import AttributeFilter
from covey.core.families import decode
from covey.core.packing import unpack
from covey.matching.attributes.index import AttributeIndex
from covey.matching.index import warm_up
from covey.pipeline.match import SHARD
from covey.pipeline.session import session
from covey.workloads.attributes import WORKLOADS, Workload

CHECKED = 20  # of so many events, one is counted again


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--filters", type=int, default=3_000_000)
    parser.add_argument("--added", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="covey-shards-"))
    try:
        found = run(options, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if options.json:
        print(json.dumps(found))
        return
    for part, figures in found.items():
        print(f"{part:<8}", figures)


def run(options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Return all figures."""
    warm_up()
    workload = next(one for one in WORKLOADS if one.name == "siena-3")
    names = write_filters(directory, workload, options.filters, options.added)
    write_events(directory / "events.parquet", workload, options.events)
    spark = session(options.master, directory / "spark.log", "covey benchmark", bulk=True)
    events = spark.read.parquet(str(directory / "events.parquet"))
    found: dict[str, Any] = {"size": vars(options)}
    shards = -(-options.filters // (SHARD * 9 // 10))

    def compiled(name: str, shards: int) -> None:
        subscriptions = spark.read.parquet(str(directory / name))
        pipeline.compile_filters(subscriptions, shards=shards).write.parquet(
            str(directory / f"shards-{name}")
        )

    def matched(*names: str) -> int:
        first, *others = [spark.read.parquet(str(directory / f"shards-{name}")) for name in names]
        for one in others:
            first = first.unionByName(one)
        return pipeline.match(events, first, chunks=1).count()

    found["compile"] = costed(lambda: compiled(names[0], shards))
    sizes = [file.stat().st_size for file in (directory / f"shards-{names[0]}").glob("part-*")]
    found["compile"] |= {"shards": len(sizes), "largest_mb": round(max(sizes) / 1e6, 1)}
    found["match"] = costed(lambda: matched(names[0]))
    found["add"] = costed(lambda: compiled(names[1], 1))
    found["again"] = costed(lambda: matched(*names))
    some = events.where(f"cast(substring(event, 2) as int) % {CHECKED} = 0")
    whole = spark.read.parquet(*[str(directory / f"shards-{name}") for name in names])
    counted = pipeline.match(some, whole, chunks=1).count()
    spark.stop()
    assert counted == in_one_index(directory, names), "an index of all filters finds the same"
    found["checked"] = {"matches": counted}
    return found


def write_filters(directory: Path, workload: Workload, count: int, added: int) -> tuple[str, str]:
    """Write ingested subscriptions, and those of a day later."""
    known, later = directory / "known", directory / "later"
    known.mkdir()
    later.mkdir()
    first = 0
    for number, batch in enumerate(workload.batches(np.random.default_rng(SEED), count + added)):
        for place, some in ((known, batch[: max(0, count - first)]), (later, batch[max(0, count - first) :])):
            if some:
                base = first if place == known else first + len(batch) - len(some)
                table = {
                    "subscription": [f"s{base + k}" for k in range(len(some))],
                    "broker": ["b"] * len(some),
                    "language": ["attributes"] * len(some),
                    "filter": ["-"] * len(some),  # not read: the wire form is there
                    "encoded": pa.array([one.encode() for one in some], pa.binary()),
                }
                pq.write_table(pa.table(table), place / f"{number}.parquet")
        first += len(batch)
    return known.name, later.name


def in_one_index(directory: Path, names: tuple[str, ...]) -> int:
    """Return how many matches some of the events have, by an index in this process."""
    index = AttributeIndex()
    count = 0
    for file in (file for name in names for file in sorted((directory / name).glob("*.parquet"))):
        column = pq.read_table(file, columns=["encoded"]).column("encoded").to_pylist()
        filters = [one for one in map(decode, column) if isinstance(one, AttributeFilter)]
        index.add_batch(range(count, count + len(filters)), filters)
        count += len(filters)
    table = pq.read_table(directory / "events.parquet", columns=["encoded"]).column("encoded").to_pylist()
    return sum(len(index.match(unpack(one))) for one in table[::CHECKED])


def costed(work: Callable[[], Any]) -> dict[str, Any]:
    """Return what some work took, and the most memory meanwhile."""
    before, began = spent_s(), time.perf_counter()
    with largest() as most:
        result = work()
    java, python = spent_s() - before
    figures = {
        "java_s": round(float(java), 1),
        "python_s": round(float(python), 1),
        "clock_s": round(time.perf_counter() - began, 1),
        "java_mb": round(most[0] / 1e6),
        "python_mb": round(most[1] / 1e6),
    }
    print(time.strftime("%H:%M:%S"), figures, file=sys.stderr, flush=True)
    return figures | ({} if result is None else {"matches": result})


@contextmanager
def largest() -> Iterator[np.ndarray]:
    """Yield an array that gets the largest resident memory of Java, and of all Python workers together."""
    most = np.zeros(2)
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.1):
            np.maximum(most, resident_bytes(), out=most)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    main()
