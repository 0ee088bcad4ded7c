"""Routing tables in bulk on Spark, against a plain Python reduction, and what ten million subscriptions take.

    .venv/bin/python benchmarks/bulk_tables.py [--subscriptions 10000000] [--plain 20000] [--master 'local[2]'] [--json]
                                               [--case quotes/identity/no …]

REBECA's 107 brokers, subscriptions at its 67 local brokers: quotes (`symbol = s`) or quote intervals (`symbol = s and
price between …`) of 1,000 symbols, as the publication has them. A case is a workload, a strategy, and whether there are
advertisements (one at the root, for everything).

    plain      REDUCTIONS applied link by link in one process, at the size of --plain; checked to be the same tables
    bulk       the stage, written to Parquet, at --subscriptions: seconds, processor seconds of Java and all Python
               workers, entries, rows written, and the most memory that Java and the workers had together (sums of RSS,
               looked at five times a second)
    growth     the exponent, of processor seconds, between a tenth of that and all of it: 1 is linear
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from covey.bench.bulk import bulk_frame, plain_tables, read_tables, write_subscriptions
from covey.pipeline.session import session

CASES = (
    "quotes/identity/no",
    "quotes/covering/no",
    "intervals/covering/no",
    "intervals/covering/yes",
    "quotes/merging/no",
    "intervals/merging/no",
    "quotes/simple/no",
    "intervals/simple/yes",
    "intervals/identity/yes",
)


# -- measuring -------------------------------------------------------------------------------------------------


class Usage(NamedTuple):
    """What processes use: memory that is resident, and processor time so far."""

    bytes: int
    seconds: float


def usage(root: int) -> Usage:
    """Return what all that a process has started uses together."""
    children: dict[int, list[int]] = {}
    known: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
            # Its own time, and that of children that have ended.
            known[int(entry.name)] = int(fields[21]), sum(map(int, fields[11:15]))
    pages = ticks = 0
    waiting = children.get(root, [])
    while waiting:
        process = waiting.pop()
        waiting += children.get(process, [])
        pages += known[process][0]
        ticks += known[process][1]
    return Usage(pages * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK"))


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """Give a list whose item is, in the end, the most memory that all below this process had."""
    peak, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            peak[0] = max(peak[0], usage(os.getpid()).bytes)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def bulk(
    spark: SparkSession, subscriptions: Path, out: Path, strategy: str, *, advertised: bool
) -> dict[str, Any]:
    """Compute the tables of a strategy into Parquet; return what that took."""
    frame = bulk_frame(spark, subscriptions, strategy, advertised=advertised)
    start_s, before = time.perf_counter(), usage(os.getpid())
    with peak_memory() as peak:
        frame.write.parquet(str(out))
    seconds = time.perf_counter() - start_s
    counts = pq.read_table(out, columns=["entries"])["entries"]
    return {
        "seconds": round(seconds, 1),
        "processor_seconds": round(usage(os.getpid()).seconds - before.seconds, 1),
        "entries": pc.sum(counts).as_py() or 0,
        "rows": len(counts),
        "peak_mib": round(peak[0] / 2**20),
    }


def measure(spark: SparkSession, case: str, sizes: tuple[int, int, int], scratch: Path) -> dict[str, Any]:
    """Run one case at three sizes; the smallest one is compared with plain Python."""
    kind, strategy, word = case.split("/")
    advertised = word == "yes"
    result: dict[str, Any] = {"case": case}
    for size in sizes:
        path = scratch / f"{kind}-{size}"
        if not path.exists():
            write_subscriptions(path, kind, size)
        out = scratch / f"out-{case.replace('/', '-')}-{size}"
        result[f"bulk_{size}"] = bulk(spark, path, out, strategy, advertised=advertised)
        if size == sizes[0]:
            start_s = time.perf_counter()
            expected = plain_tables(path, strategy, advertised=advertised)
            result[f"plain_{size}_seconds"] = round(time.perf_counter() - start_s, 1)
            if read_tables(out) != expected:
                raise SystemExit(f"{case}: the tables differ from those of plain Python")
        shutil.rmtree(out)
        print(json.dumps({"case": case, "subscriptions": size, **result[f"bulk_{size}"]}), flush=True)
    _, some, many = sizes
    times = [result[f"bulk_{size}"]["processor_seconds"] for size in (some, many)]
    result["exponent"] = round(math.log(times[1] / times[0]) / math.log(many / some), 2)
    return result


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--subscriptions", type=int, default=10_000_000)
    parser.add_argument("--plain", type=int, default=20_000)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    scratch = given.scratch or Path(tempfile.mkdtemp(prefix="covey-bulk-"))
    spark = session(given.master, scratch / "spark.log", bulk=True)
    spark.conf.set("spark.sql.shuffle.partitions", "8")
    sizes = given.plain, given.subscriptions // 10, given.subscriptions
    try:
        results = [measure(spark, case, sizes, scratch) for case in given.case or CASES]
    finally:
        spark.stop()
        if given.scratch is None:
            shutil.rmtree(scratch)
    if given.json:
        print(json.dumps(results, indent=2))
        return
    heads = ("plain", "bulk", "large", "cpu", "entries", "rows", "MiB", "growth")
    widths = (8, 8, 8, 8, 12, 11, 6, 6)
    print(f"\n{'case':26} " + " ".join(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True)))
    for result in results:
        small, large = result[f"bulk_{sizes[0]}"], result[f"bulk_{sizes[2]}"]
        values = (
            result[f"plain_{sizes[0]}_seconds"],
            small["seconds"],
            large["seconds"],
            large["processor_seconds"],
            f"{large['entries']:,}",
            f"{large['rows']:,}",
            f"{large['peak_mib']:,}",
            result["exponent"],
        )
        columns = [f"{value:>{width}}" for value, width in zip(values, widths, strict=True)]
        print(f"{result['case']:26} " + " ".join(columns))


if __name__ == "__main__":
    main()
