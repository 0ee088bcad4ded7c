"""Filters that are reduced together, link by link along the tree: covering and merging.

    up      from the leaves: a broker tells its parent the reduction of what its children told it and its clients want
    down    from the root: it tells a child that of what its parent and its other children told it and its clients want

each of what is wanted there. Covering works on ranks (`boxes.CoverOrder`); merging, which makes new filters, on those.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from covey.core.families import decode
from covey.core.filter import Filter
from covey.matching.jit import Longs
from covey.pipeline.tables.answers import Network, opened, rows_of
from covey.pipeline.tables.arrays import heads
from covey.pipeline.tables.boxes import CoverOrder
from covey.pipeline.tables.local import ANSWERS, equal_once, uncovered_once, whole
from covey.pipeline.tables.spread import numbers_of
from covey.strategies.merging.maximal import label_of
from covey.strategies.reductions import Reduce


def maximal_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return, of each broker's rows in a partition, which has all of them, those that no other one covers."""
    table = maximal_once(whole(batches, uncovered_once))
    yield from table.combine_chunks().to_batches(max_chunksize=ANSWERS)


def maximal_once(table: pa.Table) -> pa.Table:
    """Return of each broker's rows those that no other one covers, each as one entry."""
    if not table.num_rows:
        return table
    wires = table["encoded"].combine_chunks().dictionary_encode()
    order = CoverOrder(wires.dictionary)
    ranks = order.rank[wires.indices.to_numpy(zero_copy_only=False)]
    names = table["broker"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    kept = np.zeros(len(ranks), bool)
    for rows in _by_broker(names, int(names.max()) + 1, ranks):
        kept[rows] = order.maximal(ranks[rows])
    found = table.filter(pa.array(kept))
    return found.set_column(2, "entries", pa.array(np.ones(found.num_rows, np.int64)))


def _by_broker(brokers: Longs, count: int, ranks: Longs) -> list[Longs]:
    """Return the rows of each broker, in the order of their ranks."""
    sort = np.lexsort((ranks, brokers))
    return np.split(sort, np.searchsorted(brokers[sort], np.arange(1, count)))


def cover_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return all tables under covering; the partition has all rows there are."""
    network, rows = opened(batches)
    if network is None:
        return
    overlay, table = network.overlay, whole(rows, equal_once)
    wires = table["encoded"].combine_chunks().dictionary_encode()
    order = CoverOrder(wires.dictionary)
    in_order = wires.dictionary.take(pa.array(order.numbers))
    ranks = order.rank[wires.indices.to_numpy(zero_copy_only=False)]
    wanting = network.wanting()
    classes = wanting.classes(in_order)
    wanted = wanting.wanted()
    keys = table["key"].combine_chunks()
    has_keys = keys.null_count < len(keys)
    by_key = pc.sort_indices(keys).to_numpy() if has_keys else np.arange(len(keys))
    first = np.empty(len(keys), np.int64)
    first[by_key] = np.arange(len(keys))
    local = _by_broker(numbers_of(table["broker"], overlay), len(overlay.brokers), ranks)
    told: dict[int, tuple[Longs, Longs]] = {}
    for way in overlay.both_passes():
        teller, hearer = int(overlay.tells[way]), int(overlay.hears[way])
        known = [told[other] for other in overlay.incoming(teller, but=hearer)]
        known.append((ranks[local[teller]], first[local[teller]]))
        held = np.concatenate([some for some, _ in known])
        labels = np.concatenate([some for _, some in known])
        serves = wanted[classes[held], way]
        held, labels = held[serves], labels[serves]
        sort = np.lexsort((labels, held))
        once = sort[heads(held[sort])]
        held, labels = held[once], labels[once]
        kept = order.maximal(held)
        held, labels = told[way] = held[kept], labels[kept]
        yield from rows_of(
            overlay,
            np.full(len(held), way),
            in_order.take(pa.array(held)),
            keys=keys.take(pa.array(by_key[labels])) if has_keys else None,
        )


def merge_batches(
    batches: Iterator[pa.RecordBatch], *, reduce: Reduce, keys: bool
) -> Iterator[pa.RecordBatch]:
    """Return all tables under a reduction that makes new filters; the partition has all rows there are."""
    network, rows = opened(batches)
    if network is None:
        return
    overlay, table = network.overlay, whole(rows, equal_once)
    filters = list(map(decode, table["encoded"].to_pylist()))
    local: list[list[Filter]] = [[] for _ in overlay.brokers]
    for broker, filter in zip(numbers_of(table["broker"], overlay).tolist(), filters, strict=True):
        local[broker].append(filter)
    told: dict[int, list[Filter]] = {}
    is_wanted = _Wanted(network)
    for way in overlay.both_passes():
        teller, hearer = int(overlay.tells[way]), int(overlay.hears[way])
        known = [filter for other in overlay.incoming(teller, but=hearer) for filter in told[other]]
        known += local[teller]
        told[way] = reduce([filter for filter in dict.fromkeys(known) if is_wanted(filter, way)])
        yield from rows_of(
            overlay,
            np.full(len(told[way]), way),
            pa.array([filter.encode() for filter in told[way]], pa.binary()),
            keys=pa.array(list(map(label_of, told[way])), pa.string()) if keys else None,
        )


class _Wanted:
    """Whether a filter is wanted over a way, each filter's class found once."""

    def __init__(self, network: Network) -> None:
        self._wanting = network.wanting()
        self._everything = network.advertised is None
        self._classes: dict[Filter, int] = {}

    def __call__(self, filter: Filter, way: int) -> bool:
        if self._everything:
            return True
        number = self._classes.get(filter)
        if number is None:
            number = self._classes[filter] = self._wanting.class_of(filter)
        return self._wanting.is_wanted(number, way)
