"""The arrays of the attribute index as kernels see them.

Every kernel and part takes one `Memory`: plain pointers, made from the array of addresses that the store keeps up to
date. Pointers, unlike arrays, cost nothing to pass on, and a call from Python passes one array instead of ten.
They know no length: whoever runs a kernel has made enough room before.

    f, i      the heap, as float64 words and as int32 half words                          (heap.py)
    table     hash table of interned constraints                                          (constraints.py)
    channels  CHANNEL_COLUMNS int32 a channel                                             (ranges.py)
    values    low and high of each channel in the current query                           (query.py)
    bounds    least and greatest end of the ranges on each channel                        (rows.py)
    homes     the list in which each handle's row stands                                  (lists.py)
    extra     EXTRA_COLUMNS int32 a row of a filter with several conjunctions             (lists.py)
    links     the link of each handle, when links are used
    b, bf, bi the blocks of grids, as int64 and float64 words and as int32 half words     (grids.py)
    meta      counters                                                                    (heap.py)
"""

from __future__ import annotations

from typing import NamedTuple

from covey.matching.jit import Floats, Ints, Longs, floats_at, ints_at, longs_at, part

ARRAYS = 10


class Memory(NamedTuple):
    """Pointers to the arrays; see the module's text."""

    f: Floats
    i: Ints
    table: Ints
    channels: Ints
    values: Floats
    bounds: Floats
    homes: Ints
    extra: Ints
    links: Ints
    meta: Longs
    b: Longs
    bf: Floats
    bi: Ints


class Intervals(NamedTuple):
    """Pointers to (channel, low, high) triples: an event's values or the constraints of rows."""

    names: Ints
    lows: Floats
    highs: Floats


@part
def memory_at(addresses: Longs) -> Memory:
    """Return the pointers to the arrays at these addresses."""
    return Memory(
        floats_at(addresses[0]),
        ints_at(addresses[0]),
        ints_at(addresses[1]),
        ints_at(addresses[2]),
        floats_at(addresses[3]),
        floats_at(addresses[4]),
        ints_at(addresses[5]),
        ints_at(addresses[6]),
        ints_at(addresses[7]),
        longs_at(addresses[8]),
        longs_at(addresses[9]),
        floats_at(addresses[9]),
        ints_at(addresses[9]),
    )
