"""The arrays of the attribute index as kernels see them.

Every kernel and part takes one `Memory`: plain pointers, made from the array of addresses that the store keeps up to
date. Pointers, unlike arrays, cost nothing to pass on, and a call from Python passes one array instead of ten.
They know no length: whoever runs a kernel has made enough room before. What lies in the arrays is in layout.py.

    f, i      the heap, as float64 words and as int32 half words                          (heap.py)
    table     hash table of interned constraints                                          (constraints.py)
    channels  what is known of each channel                                               (ranges.py)
    values    low and high of each channel in the current query                           (query.py)
    bounds    least and greatest end of the ranges on each channel                        (rows.py)
    homes     the list in which each handle's row stands                                  (lists.py)
    extra     rows of filters with several conjunctions                                   (lists.py)
    links     the link of each handle, when links are used
    meta      counters                                                                    (heap.py)
    b, bf, bi the blocks of grids, as int64 and float64 words and as int32 half words     (grids.py)
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from covey.matching.jit import Floats, Ints, Longs
from covey.matching.records import Of, addresses_of, pointers_to


class Memory(NamedTuple):
    """Pointers to the arrays; see the module's text."""

    f: Floats
    i: Annotated[Ints, Of("f")]
    table: Ints
    channels: Ints
    values: Floats
    bounds: Floats
    homes: Ints
    extra: Ints
    links: Ints
    meta: Longs
    b: Longs
    bf: Annotated[Floats, Of("b")]
    bi: Annotated[Ints, Of("b")]


class Intervals(NamedTuple):
    """Pointers to (channel, low, high) triples: an event's values or the constraints of rows."""

    names: Ints
    lows: Floats
    highs: Floats


class Workspace(NamedTuple):
    """Pointers to the room that a query or a question has to work in.

    intervals   what is asked, one a channel, or the constraints of one row
    cells       a number for each of them
    out         handles that are found
    acceptors, groups, sizes, marks, candidates
                of a question about a filter: `postings.Question`, and rows that are found; while groups have no
                sizes yet, there is a cell for each acceptor
    freed_channels, freed_values
                equalities, and with NaN channels, that no row uses any more
    crowds      rows that have no grid yet, counted (moving.py)
    """

    intervals: Intervals
    cells: Ints
    out: Ints
    acceptors: Intervals
    groups: Ints
    sizes: Longs
    acceptor_cells: Annotated[Ints, Of("sizes")]
    marks: Longs
    candidates: Ints
    freed_channels: Ints
    freed_values: Floats
    crowds: Longs


WORKSPACE = addresses_of(Memory)  # where the addresses of the workspace begin
ADDRESSES = WORKSPACE + addresses_of(Workspace)

memory_at = pointers_to(Memory)
workspace_at = pointers_to(Workspace, WORKSPACE)
