"""What the pipeline's benchmarks share: a session, inputs as Parquet, and the CPU time of all that Spark started.

Spark itself is used through `covey.pipeline` alone; DataFrames are only handed on.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from covey.core.attributes.filter import AttributeFilter
from covey.core.packing import pack
from covey.pipeline.session import session
from covey.workloads.attributes import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STEP: Final = 50_000
SEED: Final = 20_26
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def running(master: str = "local[2]", shuffled: int = 8) -> Iterator[tuple[SparkSession, Path]]:
    """Start Spark with a directory for files, both gone in the end; ConfigError if there is no Java."""
    directory = Path(tempfile.mkdtemp(prefix="covey-bench-"))
    try:
        spark = session(master, directory / "spark.log", "covey bench", bulk=True)
        spark.conf.set("spark.sql.shuffle.partitions", str(shuffled))
        try:
            yield spark, directory
        finally:
            spark.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def write_events(path: Path, workload: Workload, count: int) -> None:
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


def descendants() -> Iterator[tuple[str, float, int]]:
    """Return the processes that this one started, and theirs: name, seconds and resident bytes.

    Seconds are with those of children that ended.
    """
    children: dict[int, list[tuple[int, str, float, int]]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        name, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        ticks = sum(map(int, fields[11:13] if name == "java" else fields[11:15]))
        resident = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
        children.setdefault(int(fields[1]), []).append((int(text.split()[0]), name, ticks / _TICKS, resident))
    waiting = [os.getpid()]
    while waiting:
        for pid, name, spent, resident in children.get(waiting.pop(), []):
            waiting.append(pid)
            yield name, spent, resident


def spent_s() -> np.ndarray:
    """Return the seconds that Java has taken, and Python's workers."""
    total = np.zeros(2)
    for name, spent, _ in descendants():
        total[0 if name == "java" else 1] += spent
    return total


def resident_bytes() -> np.ndarray:
    """Return the memory that Java has, and Python's workers, pages that these share counted for each."""
    total = np.zeros(2)
    for name, _, resident in descendants():
        total[0 if name == "java" else 1] += resident
    return total


def measured(frame: Callable[[], DataFrame], rounds: int) -> dict[str, Any]:
    """Compute a frame several times, dropping its rows; return what it took in the best round, and in the first."""
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
