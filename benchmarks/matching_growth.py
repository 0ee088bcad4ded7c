"""How matching, adding and memory grow with filters: every workload of `covey bench match` at several sizes.

    python benchmarks/matching_growth.py [--size N …] [--workload NAME …]

For each workload and size, in microseconds of CPU time, the best of several rounds on one thread:

    event     all matches of an event, of a batch of 256 encoded ones, after the index has moved rows to grids
    links     the links, of 16, that an event goes to
    batch     an event of 4,000 dictionaries, `Index.match_batch`, keys out
    single    one dictionary in, keys out
    add       a filter object, in batches of 20,000, once
    scan      for workloads whose filters no constraint selects well: a compiled scan over columns of low and high ends,
              by blocks and without branches, as one writes it with plain numba; answers are compared
    lists     bytes a filter that records in the heap take before rows move, and all arrays but that heap
    grids     bytes a filter that blocks of grids take after that; `gridded` is the share of rows in them
    postings  bytes a filter that records take more once covering was asked about

and the exponent e of each workload's `event`, `batch` and `add`, if they grow as size**e. At the end: the longest IN
lists, one filter at a time, in milliseconds. `covey bench match` has other yardsticks, and checks answers.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from typing import Any, Final

import numba
import numpy as np

import covey
from covey.bench.growth import fitted
from covey.bench.match import ALL_WORKLOADS, BATCH, SEED, SETTLING
from covey.bench.timing import best_us
from covey.matching.attributes.channels import Batch
from covey.matching.attributes.grids import QUERY_ROOM
from covey.matching.attributes.heap import BLOCK_TOP, FREE_WORDS, TOP
from covey.matching.attributes.index import AttributeIndex
from covey.matching.attributes.store import Store
from covey.matching.index import Index
from covey.workloads.attributes import POOR_WORKLOADS, Workload

LINKS: Final = 16
DICTIONARIES: Final = 4_000
COLUMNS: Final = ("event", "scan", "links", "batch", "single", "add", "lists", "grids", "gridded", "postings")
GROWING: Final = ("event", "batch", "add")
LISTS: Final = 20  # IN lists that are added
VALUES: Final = 256  # of each: more are refused
BLOCK: Final = 1_024  # rows that are scanned together

Figures = dict[str, float]


def filled(workload: Workload, size: int) -> tuple[Index, float]:
    """Return an index with `size` filters, and the microseconds that adding one took."""
    index, key, spent_s = Index(), 0, 0.0
    for filters in workload.batches(np.random.default_rng(SEED), size):
        keys = range(key, key + len(filters))
        began_s = time.thread_time()
        index.add_batch(keys, filters, [k % LINKS for k in keys])
        index.attributes()
        spent_s += time.thread_time() - began_s
        key += len(filters)
    return index, spent_s / size * 1e6


@numba.njit  # type: ignore[untyped-decorator]
def narrowed(low: Any, high: Any, point: float, holds: Any) -> None:
    """Keep of some rows those whose range contains a point."""
    for k in range(len(low)):
        holds[k] &= np.uint8((low[k] <= point) & (point <= high[k]))


@numba.njit  # type: ignore[untyped-decorator]
def scanned(lows: Any, highs: Any, points: Any, holds: Any, out: Any) -> int:
    """Write the numbers of the rows whose ranges contain the points, one a column; return how many there are."""
    found, rows = 0, lows.shape[1]
    for first in range(0, rows, BLOCK):
        last = min(first + BLOCK, rows)
        holds[:] = 1
        for column in range(len(points)):
            narrowed(lows[column, first:last], highs[column, first:last], points[column], holds)
        for k in range(last - first):
            out[found] = first + k
            found += np.int64(holds[k])  # type: ignore[assignment]
    return found


def scan_us(index: AttributeIndex, batch: Batch) -> float:
    """Return what an event takes by a scan over columns, after its answers were compared."""
    store, rows = index.store, len(index.store.homes)
    starts, names, lows, highs = store.read(np.flatnonzero(store.homes).astype(np.int32))
    total = int(starts[-1])
    which = np.repeat(np.flatnonzero(store.homes), np.diff(starts))
    channels = np.unique(names[:total])
    columns = np.full((2, len(channels), rows), -np.inf)
    columns[1] = np.inf
    columns[1, :, store.homes == 0] = -np.inf  # handles without a filter
    place = np.searchsorted(channels, names[:total])
    columns[0, place, which], columns[1, place, which] = lows[:total], highs[:total]
    event_starts, event_names, values = batch
    points = np.empty((len(event_starts) - 1, len(channels)))
    for number, row in enumerate(points):
        here = slice(event_starts[number], event_starts[number + 1])
        row[np.searchsorted(channels, event_names[here])] = values[here]
    holds, out = np.empty(BLOCK, np.uint8), np.empty(rows + 1, np.int32)
    found, ends = index.match_encoded(batch)
    for number, part in enumerate(np.split(found, ends[:-1])):
        if not np.array_equal(np.sort(part), out[: scanned(*columns, points[number], holds, out)]):
            raise SystemExit(f"the index and the scan differ in event {number}")
    return best_us(lambda: [scanned(*columns, row, holds, out) for row in points], len(points))


def heap_bytes(store: Store) -> int:
    """Return how many bytes the records of the heap take."""
    return 8 * int(store.meta[TOP] - store.meta[FREE_WORDS])


def measure(workload: Workload, size: int) -> Figures:
    """Return the figures of one workload at one size."""
    index, add_us = filled(workload, size)
    inner = index.attributes()
    store, events = inner.store, workload.events(np.random.default_rng(SEED + 1), DICTIONARIES)
    lists = (store.nbytes - store._heap.array.nbytes + heap_bytes(store)) / size
    batch = inner.encode(events[:BATCH])
    before, same = -1, 0
    for _ in range(2 * SETTLING):
        inner.match_encoded(batch)
        same = same + 1 if store.in_grids() == before else 0
        before = store.in_grids()
        if same == 4:
            break
    none = np.zeros((1, 1), np.int32)
    rounds = 5 if size <= 100_000 else 3
    result = {
        "event": best_us(lambda: inner.match_encoded(batch), BATCH, rounds),
        "links": best_us(lambda: store.link_masks(*batch, LINKS + 1, none), BATCH, rounds),
        "batch": best_us(lambda: index.match_batch(events), DICTIONARIES, 3),
        "single": best_us(lambda: [index.match(event) for event in events[:BATCH]], BATCH, rounds),
        "add": add_us,
        "lists": lists,
        "grids": 8 * int(store.meta[BLOCK_TOP] - QUERY_ROOM) / size,
        "gridded": store.in_grids() / max(1, store.rows),
        "scan": scan_us(inner, batch) if workload in POOR_WORKLOADS else np.nan,
    }
    before = heap_bytes(store)
    store.make_postings(2**62)
    return result | {"postings": (heap_bytes(store) - before) / size}


def print_workload(workload: Workload, sizes: Sequence[int]) -> None:
    """Print a row for each size, and the exponents."""
    rows: list[Figures] = []
    for size in sizes:
        rows.append(measure(workload, size))
        cells = " | ".join(f"{rows[-1][column]:.3g}" for column in COLUMNS)
        print(f"| {workload.name} | {size:,} | {cells} |", flush=True)
    exponents = [fitted(sizes, [row[column] for row in rows]) for column in GROWING]
    if None not in exponents:
        said = ", ".join(
            f"{column} {e:.2f}" for column, e in zip(GROWING, exponents, strict=True) if e is not None
        )
        print(f"| {workload.name} | exponents | {said} |", flush=True)


def print_long_lists() -> None:
    """Print how long it takes to add one filter with an IN list, to take it out, and to match it."""
    generator, index = np.random.default_rng(SEED), Index()
    index.attributes()
    taken: list[tuple[float, float, float]] = []
    for key in range(LISTS):
        values = generator.choice(10**6, VALUES, replace=False).tolist()
        filter = covey.conjunction([("a", "in", values), ("b", "=", key)])
        event = {"a": 5, "b": key}
        began_s = time.thread_time()
        index.add(key, filter)
        index.attributes()
        added_s = time.thread_time()
        index.match(event)
        matched_s = time.thread_time()
        index.remove(key)
        index.attributes()
        taken.append((added_s - began_s, matched_s - added_s, time.thread_time() - matched_s))
        index.add(key, filter)
    worst = [1e3 * max(times) for times in zip(*taken, strict=True)]
    middle = [1e3 * float(np.median(times)) for times in zip(*taken, strict=True)]
    print(f"IN lists of {VALUES:,} values, {LISTS} one after the other, ms (median / worst):", end=" ")
    print(
        ", ".join(
            f"{what} {m:.2f} / {w:.2f}"
            for what, m, w in zip(("adding", "the next event", "removing"), middle, worst, strict=True)
        )
    )


def main() -> None:
    """Read the options, measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, action="append")
    parser.add_argument("--workload", action="append", choices=[one.name for one in ALL_WORKLOADS])
    options = parser.parse_args()
    sizes = sorted(options.size or (10_000, 100_000, 1_000_000))
    print(f"load of the machine: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    print(f"| workload | filters | {' | '.join(COLUMNS)} |")
    print("|---" * (2 + len(COLUMNS)) + "|")
    for workload in ALL_WORKLOADS:
        if not options.workload or workload.name in options.workload:
            print_workload(workload, sizes)
    print_long_lists()
    print(f"load of the machine: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")


if __name__ == "__main__":
    main()
