"""Matching events against many attribute filters: naive scan, plain counting index, columns in NumPy, ours.

All but the first four workloads are measured up to LARGEST_OTHER filters. Those whose filters no constraint selects
well (`wide` to `popular`) are measured after the index has moved them to where they are cheapest. Where filters have
more than one conjunction (`mixed`) there is no counting index to compare with.

Columns, times in microseconds an event unless said otherwise:

    scan_us, counting_us, ours_us   all matching filters; events encoded once, in batches of 256
    columnar_us                     the same by NumPy over columns of all low and high ends: one for each channel up to
                                    MOST_COLUMNS channels, otherwise all constraints side by side; patterns and sets
                                    count as judged
    first_us                        ours, the first batch of all
    single_us                       one event: a dictionary in, keys out
    encode_us                       what it takes to encode an event for a batch; patterns and sets are judged then
    links_us                        only the links to forward to, of 16
    churned                         ours after half of the filters were replaced, as a multiple of ours before
    add_us, remove_us               a filter, in batches of 20,000, from filter objects
    bytes_per_filter                of the index's arrays, keys not counted
    gridded                         the share of filters that stand in grids
    exponent                        e if ours_us grows as size**e from the smallest size
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from covey.bench.comparison import Comparison
from covey.bench.timing import Row, best_us, table
from covey.core.attributes.filter import AttributeFilter
from covey.matching.attributes.channels import Batch
from covey.matching.attributes.index import AttributeIndex
from covey.matching.attributes.layout import Extra
from covey.matching.counting import CountingIndex
from covey.matching.index import Index
from covey.matching.scan import ScanIndex
from covey.workloads.attributes import POOR_WORKLOADS, WORKLOADS, Event, Workload
from covey.workloads.conditions import CONDITION_WORKLOADS
from covey.workloads.trading import MIXED_WORKLOADS, TYPED_WORKLOADS

BATCH = 256
LINKS = 16
SCANNED_FILTERS = 2_000
SCANNED_EVENTS = 16
MOST_COLUMNS = 16
LARGEST_OTHER = 250_000
SETTLING = 200  # batches after which an index has moved what it moves
SEED = 20_26
Satisfied = Callable[[np.ndarray], np.ndarray]  # of the values of all channels, which rows hold
ALL_WORKLOADS = (*WORKLOADS, *POOR_WORKLOADS, *TYPED_WORKLOADS, *CONDITION_WORKLOADS, *MIXED_WORKLOADS)


def run(
    sizes: Sequence[int],
    progress: Callable[[str], None],
    seed: int = SEED,
    workloads: Sequence[Workload] = ALL_WORKLOADS,
) -> list[Row]:
    """Return one row of figures for each workload and size; `progress` is told what is being done."""
    rows: list[Row] = []
    for workload in workloads:
        some = [size for size in sizes if size <= LARGEST_OTHER or workload in WORKLOADS]
        rows += table([workload], some, progress, lambda one, size: _measure(one, size, seed))
    return rows


def compare(
    progress: Callable[[str], None], *, sizes: Mapping[str, Sequence[int]], seed: int = SEED
) -> list[Comparison]:
    """Return for each of these workloads, at its sizes, all matches of an event beside the scan, the counting index and
    columns in NumPy."""
    result: list[Comparison] = []
    baselines = {"scan": "scan", "counting index": "counting", "columns in NumPy": "columnar"}
    for workload in (one for one in ALL_WORKLOADS if one.name in sizes):
        for row in run(sizes[workload.name], progress, seed, [workload]):
            result += [
                Comparison(
                    part="matching",
                    work=f"{workload.name}: all matches of an event",
                    unit="µs",
                    axis="filters",
                    size=row["size"],
                    ours=row["ours_us"],
                    baseline=baseline,
                    theirs=row[f"{column}_us"],
                    equal=row["equal"],
                )
                for baseline, column in baselines.items()
                if row[f"{column}_us"] is not None
            ]
    return result


def _measure(workload: Workload, size: int, seed: int) -> Row:
    events = workload.events(np.random.default_rng(seed + 1), BATCH)
    index, add_us = _filled(workload, size, seed)
    inner = index.attributes()
    batch = inner.encode(events)
    first_us = best_us(lambda: inner.match_encoded(batch), BATCH, rounds=1)
    _settle(inner, batch)
    ours_us = best_us(lambda: inner.match_encoded(batch), BATCH)
    columnar_us, columnar_equal = _columnar(inner, batch)
    scan_us, scan_equal = _scan(workload, size, seed, events)
    counting_us, counting_equal = _count(workload, size, seed, events, index)
    row: Row = {
        "workload": workload.name,
        "size": size,
        "matches": sum(map(len, index.match_batch(events))) / BATCH,
        "scan_us": scan_us,
        "counting_us": counting_us,
        "columnar_us": columnar_us,
        "first_us": first_us,
        "ours_us": ours_us,
        "scan_ratio": scan_us / ours_us,
        "counting_ratio": counting_us / ours_us if counting_us is not None else None,
        "single_us": best_us(lambda: [index.match(event) for event in events], BATCH),
        "encode_us": best_us(lambda: inner.encode(events), BATCH),
        "links_us": best_us(lambda: inner.store.link_masks(*batch, LINKS + 1, _NO_LINKS_BEYOND), BATCH),
        "bytes_per_filter": inner.store.nbytes / size,
        "add_us": add_us,
        "gridded": inner.store.in_grids() / max(1, inner.store.rows),
        "equal": scan_equal and counting_equal and columnar_equal,
    }
    row["remove_us"] = _churn(workload, size, seed, index)
    _settle(inner, batch)
    row["churned"] = best_us(lambda: inner.match_encoded(batch), BATCH) / ours_us
    return row


_NO_LINKS_BEYOND = np.zeros((1, 1), dtype=np.int32)


def _filled(workload: Workload, size: int, seed: int) -> tuple[Index, float]:
    """Return an index with `size` filters, each on one of the links, and the time that adding one took."""
    index = Index()
    key, spent = 0, 0.0
    for filters in workload.batches(np.random.default_rng(seed), size):
        keys = range(key, key + len(filters))
        start = time.thread_time()
        index.add_batch(keys, filters, [k % LINKS for k in keys])
        spent += time.thread_time() - start
        key += len(filters)
    return index, spent / size * 1e6


def _settle(index: AttributeIndex, batch: Batch) -> None:
    """Ask an index until it has moved its rows to where they are cheapest."""
    before, same = -1, 0
    for _ in range(SETTLING):
        index.match_encoded(batch)
        there = index.store.in_grids()
        same = same + 1 if there == before else 0
        if same == 4:
            return
        before = there


def _columnar(index: AttributeIndex, batch: Batch) -> tuple[float, bool]:
    """Return the time that NumPy takes over columns of all constraints, and whether it found what ours did."""
    store = index.store
    own, extra = np.flatnonzero(store.homes), np.flatnonzero(store.extra[:, Extra.index_of("home")])
    starts, names, lows, highs = store.read(np.concatenate([own, ~extra]).astype(np.int32))
    handles = np.concatenate([own, store.extra[extra, Extra.index_of("handle")]])
    total = int(starts[-1])
    names, lows, highs = names[:total], lows[:total], highs[:total]
    channels = np.unique(names)
    satisfied = _by_columns if len(channels) <= MOST_COLUMNS else _by_constraints
    holds = satisfied(starts, names, lows, highs)
    event_starts, event_names, points = batch

    def answer(number: int) -> np.ndarray:
        here = slice(event_starts[number], event_starts[number + 1])
        values = store.values[:, 0].copy()  # what an event without attributes says
        values[event_names[here]] = points[here]
        return handles[holds(values)]

    some = range(SCANNED_EVENTS)
    spent = best_us(lambda: [answer(number) for number in some], SCANNED_EVENTS, rounds=3)
    found, ends = index.match_encoded(batch)
    parts = np.split(found, ends[:-1])
    return spent, all(np.array_equal(np.sort(parts[number]), np.unique(answer(number))) for number in some)


def _by_columns(starts: np.ndarray, names: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> Satisfied:
    """Return the scan over a column of low ends and one of high ends for each channel."""
    size = len(starts) - 1
    rows = np.repeat(np.arange(size), np.diff(starts))
    columns: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
    for channel in np.unique(names).tolist():
        low, high, free = np.full(size, -np.inf), np.full(size, np.inf), np.ones(size, np.bool_)
        which = rows[names == channel]
        low[which], high[which], free[which] = lows[names == channel], highs[names == channel], False
        columns[channel] = (low, high, free)

    def holds(values: np.ndarray) -> np.ndarray:
        result: np.ndarray = np.ones(size, np.bool_)
        for channel, (low, high, free) in columns.items():
            value = values[channel]
            result &= (low <= value) & (value <= high) if value == value else free
        return result

    return holds


def _by_constraints(starts: np.ndarray, names: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> Satisfied:
    """Return the scan over all constraints side by side, where most channels are constrained by few filters."""
    asked = np.diff(starts) > 0  # of the others all constraints hold
    firsts = starts[:-1][asked]

    def holds(values: np.ndarray) -> np.ndarray:
        value = values[names]
        result: np.ndarray = np.ones(len(starts) - 1, np.bool_)
        result[asked] = np.logical_and.reduceat((lows <= value) & (value <= highs), firsts)
        return result

    return holds


def _scan(workload: Workload, size: int, seed: int, events: list[Event]) -> tuple[float, bool]:
    """Return the scan's time, measured on some of the filters and scaled up, and whether ours found the same there."""
    filters = workload.filters(np.random.default_rng(seed), min(size, SCANNED_FILTERS))
    scan, index = ScanIndex(), Index()
    for key, filter in enumerate(filters):
        scan.add(key, filter)
    index.add_batch(range(len(filters)), filters)
    some = events[:SCANNED_EVENTS]
    spent = best_us(lambda: scan.match_batch(some), len(some), rounds=2)
    equal = all(set(index.match(event)) == scan.match(event) for event in some)
    return spent * size / len(filters), equal


def _count(
    workload: Workload, size: int, seed: int, events: list[Event], index: Index
) -> tuple[float | None, bool]:
    """Return the counting index's time, if it can have such filters, and whether it found what ours did."""
    if workload in MIXED_WORKLOADS:
        return None, True
    counting = CountingIndex(workload.batches(np.random.default_rng(seed), size))
    batch = counting.encode(events)
    answers = counting.match_encoded(*batch)
    spent = best_us(lambda: counting.match_encoded(*batch), len(events), rounds=2)
    ours = index.match_batch(events)
    equal = all(np.array_equal(np.sort(a), np.sort(b)) for a, b in zip(answers, ours, strict=True))
    return spent, equal


def _churn(workload: Workload, size: int, seed: int, index: Index) -> float:
    """Replace half of the filters by new ones; return the time that removing one took."""
    leaving = np.random.default_rng(seed + 2).permutation(size)[: size // 2].tolist()
    fresh: list[AttributeFilter] = []
    for batch in workload.batches(np.random.default_rng(seed + 3), len(leaving)):
        fresh.extend(batch)
    spent, step = 0.0, 20_000
    for first in range(0, len(leaving), step):
        keys = leaving[first : first + step]
        start = time.thread_time()
        index.remove_batch(keys)
        spent += time.thread_time() - start
        index.add_batch(keys, fresh[first : first + step], [key % LINKS for key in keys])
    return spent / max(1, len(leaving)) * 1e6
