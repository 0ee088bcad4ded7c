"""How all benchmarks measure."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from covey.workloads.attributes import Workload

Row = dict[str, Any]


def table(
    workloads: Sequence[Workload],
    sizes: Sequence[int],
    progress: Callable[[str], None],
    measure: Callable[[Workload, int], Row],
) -> list[Row]:
    """Return a row of figures for each workload and size, with the exponent by which `ours_us` grows."""
    result: list[Row] = []
    for workload in workloads:
        rows: list[Row] = []
        for size in sorted(sizes):
            progress(f"{workload.name}, {size:,} filters")
            rows.append(measure(workload, size))
            rows[-1]["exponent"] = exponent(rows, "ours_us")
        result.extend(rounded(row) for row in rows)
    return result


def best_us(work: Callable[[], object], items: int, rounds: int = 5) -> float:
    """Return the microseconds of CPU time an item takes, in the best of several rounds."""
    best = math.inf
    for _ in range(rounds):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return best / items * 1e6


def each_us(work: Callable[[Any], object], items: Sequence[Any], rounds: int = 3) -> list[float]:
    """Return the microseconds that each item takes, in the best of several rounds."""
    best = [math.inf] * len(items)
    for _ in range(rounds):
        for number, item in enumerate(items):
            start = time.perf_counter_ns()
            work(item)
            best[number] = min(best[number], (time.perf_counter_ns() - start) / 1e3)
    return best


def exponent(rows: Sequence[Row], column: str) -> float | None:
    """Return e if the column grows with size as size**e from the first row to the last; None with one row."""
    first, last = rows[0], rows[-1]
    if first["size"] == last["size"] or not first[column] or not last[column]:
        return None
    return math.log(last[column] / first[column]) / math.log(last["size"] / first["size"])


def rounded(row: Row) -> Row:
    """Return the row with floats short enough to read."""
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()}
