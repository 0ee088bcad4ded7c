"""Covering among many filters at once, by their wire forms; what cannot be decided so is asked of an index.

    runs       boxes that differ in one interval at most (`kernels`), in the order of the interval's beginning: one is
               covered if an earlier one of its run, or an equal beginning with a later end, reaches as far
    index      where boxes of several shapes, or filters that are no boxes, are together: those that the runs leave are
               put into an index, and each asks who covers it

Of several filters that cover each other the one with the smallest wire form is kept, as merging and XROUTE do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from covey.core.families import decode
from covey.core.filter import Filter
from covey.matching.index import Index
from covey.matching.jit import Longs
from covey.pipeline.tables.arrays import heads
from covey.pipeline.tables.kernels import Flags, join, number_runs, scan, sweep, uncovered_in_order

# Boxes with longer wire forms are not joined before merging does it: their union might not fit.
MOST_BYTES = 16_384
# How many bytes MessagePack's numbers take, by the first; the others take one.
_NUMBER_BYTES = {0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9}


class Boxes:
    """Filters, by their wire forms, as boxes: the cuts of their intervals, and in `rows` the boxes run by run, in the
    order of their intervals' beginnings.

    Filters with different seeds are in different runs.
    """

    def __init__(self, encoded: pa.Array, seeds: Longs | None = None) -> None:
        wires = _contiguous(encoded)
        count = len(wires)
        seeds = np.zeros(count, np.int64) if seeds is None else seeds
        offsets, data = _buffers(wires)
        runs = np.empty(count, np.int64)
        self.shape, self.low, self.high = (np.empty(count, np.int64) for _ in range(3))
        holes, number = np.empty(2 * count, np.int32), np.zeros(1)
        scratch = number.view(np.uint8)
        scan(data, offsets, seeds, scratch, number, runs, self.shape, self.low, self.high, holes)
        self._data, self._offsets, self._holes = data, offsets, holes.reshape(count, 2)
        rows = np.flatnonzero(self.shape)
        self.rows = rows[np.lexsort((self.low[rows], runs[rows]))]
        self.numbers = np.empty(len(rows), np.int64)  # of the runs
        count = number_runs(data, offsets, holes, seeds, runs, self.rows, self.numbers)
        if count > len(heads(runs[self.rows])):
            # Two runs have one digest, and are in pieces: what is left of them is the index's.
            self.shape[:] = 0

    def uncovered(self) -> Flags:
        """Return which filters no other one of their run covers; of equal ones all."""
        kept = np.ones(len(self.shape), bool)
        sweep(self.numbers, self.rows, self.low, self.high, kept)
        return kept

    def joined(self) -> tuple[Longs, list[bytes]]:
        """Join the boxes of each run whose intervals are on the first of their names and together are one interval.

        Return the rows that are left, and their wire forms. This is the first thing that merging does with them, in
        any part of the filters and again with all of them (`strategies.merging.boxes`).
        """
        data, starts = self._data, self._offsets[:-1]
        lengths = self._offsets[1:] - starts
        first = np.where(lengths > 4, data[np.minimum(starts + 3, len(data) - 1)], 0).astype(np.int64)
        # The name is a short string, right before the interval.
        begins = (first & 0xE0 == 0xA0) & (self._holes[:, 0] == 4 + (first & 31)) & (lengths < MOST_BYTES)
        among = begins[self.rows]
        far = np.arange(len(lengths))
        join(self.numbers[among], self.rows[among], self.low, self.high, far)
        left = np.flatnonzero(far >= 0)
        return left, [
            self._spliced(row, end) for row, end in zip(left.tolist(), far[left].tolist(), strict=True)
        ]

    def _spliced(self, row: int, end: int) -> bytes:
        """Return the wire form of a row with the end of another one's interval."""
        wire = self._wire(row)
        if row == end:
            return wire
        hole, after = self._holes[row].tolist()
        low = number_end(wire, hole + 1)
        other, (begin, stop) = self._wire(end), self._holes[end].tolist()
        high = other[number_end(other, begin + 1) : stop - 1]
        sides = wire[after - 1] & 1 | other[stop - 1] & 2
        return wire[:low] + high + bytes([sides]) + wire[after:]

    def _wire(self, row: int) -> bytes:
        return self._data[self._offsets[row] : self._offsets[row + 1]].tobytes()


def number_end(wire: bytes, place: int) -> int:
    """Return where the number, or nil, at a place ends."""
    return place + _NUMBER_BYTES.get(wire[place], 1)


def _contiguous(encoded: pa.Array) -> pa.Array:
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.cast(pa.binary())


def _buffers(wires: pa.Array) -> tuple[NDArray[Any], NDArray[Any]]:
    _, offsets, data = wires.buffers()
    where = np.frombuffer(offsets, np.int32)[wires.offset : wires.offset + len(wires) + 1]
    return where, np.frombuffer(data if data is not None and data.size else b"\0", np.uint8)


class CoverOrder:
    """Distinct filters, and of any of them the maximal ones: those that no other one of them covers.

    Filters are known by their numbers. `rank` of a number is its place in the order of runs, in which sets are given.
    """

    def __init__(self, encoded: pa.Array) -> None:
        self._encoded = encoded
        boxes = Boxes(encoded)
        run = np.full(len(encoded), -1, np.int64)
        run[boxes.rows] = boxes.numbers
        # In this order none is covered by a later one of its run: the furthest end comes first.
        self.numbers = np.lexsort((~boxes.high, boxes.low, run))
        self._run, self._shape = run[self.numbers], boxes.shape[self.numbers]
        self._high = boxes.high[self.numbers]
        self.rank = np.empty(len(encoded), np.int64)
        self.rank[self.numbers] = np.arange(len(encoded))
        self._filters: dict[int, Filter] = {}

    def maximal(self, ranks: Longs) -> Flags:
        """Return which of the filters at these ranks, distinct and increasing, no other one of them covers."""
        kept = np.empty(len(ranks), bool)
        uncovered_in_order(self._run[ranks], self._high[ranks], kept)
        shapes = self._shape[ranks]
        if len(ranks) > 1 and (not shapes.all() or shapes.min() != shapes.max()):
            left = np.flatnonzero(kept)
            kept[left[self._covered(ranks[left])]] = False
        return kept

    def _covered(self, ranks: Longs) -> Flags:
        """Ask an index which of the filters another one covers."""
        filters = [self.filter(rank) for rank in ranks.tolist()]
        index = Index()
        index.add_batch(range(len(filters)), filters)
        covered = np.zeros(len(filters), bool)
        for place, filter in enumerate(filters):
            for other in index.covering(filter):
                # Filters judge both ways, as in `strategies.merging.maximal`: an index may know more than they do.
                if other == place or not filters[other].covers(filter):
                    continue
                equal = filter.covers(filters[other])
                if not equal or filters[other].encode() < filter.encode():
                    covered[place] = True
                    break
        return covered

    def filter(self, rank: int) -> Filter:
        """Return the filter at a rank."""
        found = self._filters.get(rank)
        if found is None:
            found = self._filters[rank] = decode(self._encoded[int(self.numbers[rank])].as_py())
        return found
