"""Covering decisions for new filters: asking every filter, and ours.

A routing table keeps its roots: filters that no other one covers. For a new filter it asks whether some root covers it,
and if none does, which roots it covers. Filters have their wire forms, as those that come to a broker do. Columns,
times in microseconds a filter:

    roots               how many of the filters are roots
    scan_us, ours_us    the decision, by asking every root and by the index of roots; `p99_us`: ours, the worst percent
    leaving_us          ours while after each decision a root leaves and another filter becomes one
    covering_us         all filters that cover a given one, among all
    covered_us          all filters that a given one covers, among all
    overlaps_us         whether a filter overlaps a given one, among all
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from covey.bench.comparison import Comparison
from covey.bench.timing import Row, best_us, each_us, table
from covey.core.attributes.filter import AttributeFilter
from covey.matching.index import Index
from covey.matching.scan import ScanIndex
from covey.workloads.attributes import WORKLOADS, Workload

ASKED = 400
SCANNED = 12
SEED = 20_26


def run(
    sizes: Sequence[int],
    progress: Callable[[str], None],
    seed: int = SEED,
    workloads: Sequence[Workload] = WORKLOADS,
) -> list[Row]:
    """Return one row of figures for each workload and size; `progress` is told what is being done."""
    return table(workloads, sizes, progress, lambda workload, size: _measure(workload, size, seed))


def compare(
    progress: Callable[[str], None],
    *,
    sizes: Sequence[int],
    seed: int = SEED,
    workloads: Sequence[Workload] = WORKLOADS,
) -> list[Comparison]:
    """Return for each workload and size what a decision costs beside a scan over the roots."""
    return [
        Comparison(
            part="covering",
            work=f"{row['workload']}: covered, or whom it covers",
            unit="µs",
            axis="filters",
            size=row["size"],
            ours=row["ours_us"],
            baseline="scan over the roots",
            theirs=row["scan_us"],
            equal=row["equal"],
        )
        for row in run(sizes, progress, seed, workloads)
    ]


def decide(index: Any, filter: AttributeFilter) -> tuple[bool, set[Any]]:
    """Return whether a filter of the index covers the given one, and if not, the keys of those that it covers."""
    if isinstance(index, ScanIndex):
        return (True, set()) if index.covering(filter) else (False, index.covered(filter))
    return (True, set()) if index.covers(filter) else (False, set(index.covered(filter)))


def root_index(filters: Sequence[AttributeFilter]) -> tuple[Index, dict[int, AttributeFilter]]:
    """Return the index of those filters that no other one covers, and the filters by key."""
    index = Index()
    roots: dict[int, AttributeFilter] = {}
    for key, filter in enumerate(filters):
        covered, beneath = decide(index, filter)
        if covered:
            continue
        index.remove_batch(beneath)
        for other in beneath:
            del roots[other]
        index.add(key, filter)
        roots[key] = filter
    return index, roots


def _measure(workload: Workload, size: int, seed: int) -> Row:
    generator = np.random.default_rng(seed)
    filters = workload.filters(generator, size)
    asked = workload.filters(generator, ASKED)
    for filter in (*filters, *asked):
        filter.encode()
    index, roots = root_index(filters)
    scan = ScanIndex()
    for key, filter in roots.items():
        scan.add(key, filter)
    equal = all(decide(index, filter) == decide(scan, filter) for filter in asked[:SCANNED])
    scan_us = best_us(lambda: [decide(scan, filter) for filter in asked[:SCANNED]], SCANNED, rounds=2)
    times = each_us(lambda filter: decide(index, filter), asked)
    ours_us = float(np.mean(times))
    everything = Index()
    everything.add_batch(range(size), filters)
    return {
        "workload": workload.name,
        "size": size,
        "roots": len(roots),
        "scan_us": scan_us,
        "ours_us": ours_us,
        "p99_us": float(np.percentile(times, 99)),
        "scan_ratio": scan_us / ours_us,
        "leaving_us": _leaving(index, roots, asked),
        "covering_us": float(np.mean(each_us(everything.covering, asked))),
        "covered_us": float(np.mean(each_us(everything.covered, asked))),
        "overlaps_us": float(np.mean(each_us(everything.overlaps, asked))),
        "equal": equal,
    }


def _leaving(index: Index, roots: dict[int, AttributeFilter], asked: Sequence[AttributeFilter]) -> float:
    """Return the mean time of a decision between which roots leave and come."""
    spent: list[float] = []
    keys = list(roots)[: len(asked)]
    for number, filter in enumerate(asked):
        key = keys[number % len(keys)]
        index.remove(key)
        spent += each_us(lambda f: decide(index, f), [filter], rounds=1)
        index.add(key, roots[key])
    return float(np.mean(spent))
