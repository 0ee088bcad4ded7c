"""Filters that have nothing to do with each other, each to the links on its ways: simple routing and identity.

A filter has an entry at every broker from which a producer may serve it, or at all where there are no advertisements,
and at those on the way, under the link that leads to a broker where it was subscribed. Rows are multiplied by their
ways in arrays; what several brokers behind a link have in common becomes one row.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from covey.matching.jit import Longs
from covey.pipeline.tables.answers import Network, opened, rows_of
from covey.pipeline.tables.arrays import gather, heads
from covey.pipeline.tables.local import equal_once, whole
from covey.pipeline.tables.overlay import Overlay
from covey.pipeline.tables.wanting import Wanting

STEP = 2_000_000  # rows of the answer that are made at a time

SUM, ONCE, EACH = "sum", "once", "each"


def spread_batches(batches: Iterator[pa.RecordBatch], *, how: str, owners: bool) -> Iterator[pa.RecordBatch]:
    """Return the entries of the filters of a partition, which has all rows of each of them.

    SUM    equal filters behind a link are one row, with the sum of their entries
    ONCE   they are one entry, under the first of their keys
    EACH   every row stands for itself; with `owners`, with the broker it comes from
    """
    network, rows = opened(batches)
    if network is None:
        return
    wanting = network.wanting()
    if how == EACH:
        for batch in rows:
            yield from spread(pa.table(batch), network, wanting, how, owners=owners)
    else:
        yield from spread(whole(rows, equal_once), network, wanting, how, owners=False)


def spread(
    table: pa.Table, network: Network, wanting: Wanting, how: str, *, owners: bool
) -> Iterator[pa.RecordBatch]:
    """Return the entries of all rows of a table."""
    overlay = network.overlay
    wires = table["encoded"].combine_chunks().cast(pa.binary()).dictionary_encode()
    filters = wires.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    brokers = numbers_of(table["broker"], overlay)
    starts, counts, all_ways = ways_of(brokers, wanting.classes(wires.dictionary)[filters], overlay, wanting)
    entries = table["entries"].combine_chunks().to_numpy(zero_copy_only=False)
    keys = table["key"].combine_chunks()
    has_keys = keys.null_count < len(keys)
    rank = _ranks(keys) if has_keys and how != EACH else None
    for rows in portions(filters, counts):
        pair_rows = np.repeat(rows, counts[rows])
        ways = all_ways[gather(starts[rows], counts[rows])]
        amounts = entries[pair_rows]
        if how != EACH and len(rows) > len(np.unique(filters[rows])):
            pairs = filters[pair_rows] * len(overlay.tells) + ways
            sort = np.argsort(pairs, kind="stable") if rank is None else np.lexsort((rank[pair_rows], pairs))
            first = heads(pairs[sort])
            amounts = np.add.reduceat(amounts[sort], first) if len(first) else amounts
            pair_rows, ways = pair_rows[sort[first]], ways[sort[first]]
        yield from rows_of(
            overlay,
            ways,
            wires.dictionary.take(pa.array(filters[pair_rows])),
            None if how == ONCE else amounts,
            keys.take(pa.array(pair_rows)) if has_keys else None,
            table["broker"].take(pa.array(pair_rows)) if owners else None,
        )


def portions(filters: Longs, counts: Longs) -> Iterator[Longs]:
    """Yield rows, those of one filter together, in portions that come to STEP by their counts, or are of one filter."""
    order = np.argsort(filters, kind="stable")
    ends = np.append(heads(filters[order])[1:], len(order)) if len(order) else order
    totals = np.cumsum(counts[order])[ends - 1]
    place = first = 0
    while place < len(ends):
        limit = (totals[place - 1] if place else 0) + STEP
        place = max(place + 1, int(np.searchsorted(totals, limit, side="right")))
        yield order[first : ends[place - 1]]
        first = ends[place - 1]


def _ranks(keys: pa.Array) -> Longs:
    ranks = np.empty(len(keys), np.int64)
    ranks[pc.sort_indices(keys).to_numpy()] = np.arange(len(keys))
    return ranks


def numbers_of(brokers: pa.ChunkedArray, overlay: Overlay) -> Longs:
    """Return the numbers of brokers by name; ConfigError for a name that the topology does not have."""
    names = brokers.combine_chunks().dictionary_encode()
    known = [overlay.number(name, "a subscription") for name in names.dictionary.to_pylist()]
    numbers: Longs = np.array(known, np.int64).take(names.indices.to_numpy(zero_copy_only=False))
    return numbers


def ways_of(brokers: Longs, classes: Longs, overlay: Overlay, wanting: Wanting) -> tuple[Longs, Longs, Longs]:
    """Return, for rows of a broker and a class each, where their ways begin in the third array, and their number."""
    wanted = wanting.wanted()
    kinds, kind = np.unique(brokers * len(wanted) + classes, return_inverse=True)
    found = [
        np.flatnonzero(overlay.behind[:, number // len(wanted)] & wanted[number % len(wanted)])
        for number in kinds.tolist()
    ]
    counts = np.array([len(ways) for ways in found], np.int64)
    starts = np.cumsum(counts) - counts
    return starts[kind], counts[kind], np.concatenate(found) if found else np.zeros(0, np.int64)


def count_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return how many entries the filters of a partition make, in all, for each way; the rows have no filter."""
    network, rows = opened(batches)
    if network is None:
        return
    wanting, overlay = network.wanting(), network.overlay
    sums = np.zeros(len(overlay.tells), np.int64)
    for batch in rows:
        table = pa.table(batch)
        wires = table["encoded"].combine_chunks().cast(pa.binary()).dictionary_encode()
        classes = wanting.classes(wires.dictionary)[wires.indices.to_numpy(zero_copy_only=False)]
        brokers, wanted = numbers_of(table["broker"], overlay), wanting.wanted()
        entries = table["entries"].combine_chunks().to_numpy(zero_copy_only=False)
        kinds, kind = np.unique(brokers * len(wanted) + classes, return_inverse=True)
        amounts = np.bincount(kind, weights=entries, minlength=len(kinds)).astype(np.int64)
        for number, amount in zip(kinds.tolist(), amounts.tolist(), strict=True):
            sums += amount * (overlay.behind[:, number // len(wanted)] & wanted[number % len(wanted)])
    ways = np.flatnonzero(sums)
    yield from rows_of(overlay, ways, pa.nulls(len(ways), pa.binary()), sums[ways])
