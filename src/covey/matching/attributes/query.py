"""Queries: which rows does an event, or a filter taken as an event with intervals for values, satisfy.

An event gives channels a value each; `values` is the table of all channels' values as intervals [low, high], NaN
where the event says nothing, so that a comparison with a missing value fails by itself. A constraint is satisfied when
it contains the interval: for an event that is matching, for the intervals of a conjunction it is covering.

A query visits the lists under each of the event's channels: simple rows are copied as they are, the others are
verified; rows in grids, which select too poorly for that, are judged by the block. It stops once it has `limit` rows.
Rows of several-conjunction filters give their handle once.
"""

from __future__ import annotations

import numpy as np

from covey.matching.attributes.constraints import hash_of
from covey.matching.attributes.grids import visit_grids
from covey.matching.attributes.heap import (
    ALWAYS_SIMPLE,
    ALWAYS_VERIFY,
    EXTRA_ROWS,
    QUERIES,
    ROWS,
    STAMP,
    TABLE_MASK,
    VERIFIED,
)
from covey.matching.attributes.layout import Channel, Constraint, Directory, Extra, RowList, Value
from covey.matching.attributes.lists import (
    HEADER_WORDS,
    IDS,
    KEYED,
    SPAN,
    VERIFY,
    ids_at,
    key_at,
    list_words,
    new_handle,
    note_visit,
)
from covey.matching.attributes.memory import Intervals, Memory, memory_at, workspace_at
from covey.matching.attributes.ranges import LOWER, SPANS, bucket_of, buckets_at, rows_below
from covey.matching.jit import BLOCK, Floats, Ints, Longs, copy_block, kernel, part, pointer_to, prefetch

_NO_SLOT = -1  # instead of a slot of the table: a channel has no rows under equalities
AT_ONCE = (
    64  # channels whose records are asked for together: those of more would leave the nearest cache unread
)
ENOUGH = 1 << 17  # rows that a batch verifies before the store may move some


@part
def set_values(m: Memory, w: Intervals, start: int, end: int) -> None:
    """Write an event's values into the table."""
    for k in range(start, end):
        Value(m, w.names[k]).low = w.lows[k]
        Value(m, w.names[k]).high = w.highs[k]


@part
def reset_values(m: Memory, w: Intervals, start: int, end: int) -> None:
    """Put the values of these channels back to what an event that does not name them has."""
    for k in range(start, end):
        default = 1.0 if Channel(m, w.names[k]).absence != 0 else np.nan
        Value(m, w.names[k]).low = default
        Value(m, w.names[k]).high = default


@part
def chain_holds(m: Memory, chain: int) -> bool:
    """Return whether every constraint of a row's chain is satisfied."""
    if chain == 0:
        return True
    place = 2 * chain
    while True:
        cell = m.i[place]
        last = cell < 0
        cell = abs(cell)
        channel = Constraint(m, cell).channel
        if not (
            Constraint(m, cell).low <= Value(m, channel).low
            and Value(m, channel).high <= Constraint(m, cell).high
        ):
            return False
        if last:
            return True
        place += 1


@part
def holds_inline(m: Memory, column: int, capacity: int, channel: int) -> bool:
    """Return whether the inline constraint of a row is satisfied."""
    return (m.f[column] <= Value(m, channel).low) & (Value(m, channel).high <= m.f[column + capacity])


@part
def copy_ids(m: Memory, record: int, first: int, last: int, out: Ints, found: int) -> int:
    """Copy the ids of a list's rows from `first` to `last` behind what was found; return how many there are now.

    Whole blocks are copied: up to BLOCK - 1 numbers too many, which the next ones overwrite. The heap has some room
    behind its last list, and so has `out`.
    """
    ids = ids_at(m, record) + first
    for k in range(0, last - first, BLOCK):
        copy_block(out, found + k, m.i, ids + k)
    return found + last - first


@part
def verify_rows(m: Memory, record: int, first: int, last: int, out: Ints, found: int) -> int:
    """Add the handles of the list's rows from `first` to `last` whose inline and chained constraints are satisfied.

    Positions of rows that pass the inline constraint are first gathered where the answers will go, without
    branches; few of them are left for the chains.
    """
    capacity, column, ids = RowList(m, record).capacity, record + HEADER_WORDS, ids_at(m, record)
    passed = 0
    for k in range(first, last):
        out[found + passed] = k
        passed += holds_inline(m, column + k, capacity, m.i[ids + capacity + k])
    note_visit(m, record, last - first, passed)
    return _settle(m, ids, capacity, out, found, passed)


@part
def _settle(m: Memory, ids: int, capacity: int, out: Ints, found: int, passed: int) -> int:
    """Turn gathered positions into handles, dropping rows whose chain fails and handles given before."""
    last = found
    for k in range(found, found + passed):
        position = out[k]
        if chain_holds(m, m.i[ids + 2 * capacity + position]):
            handle = new_handle(m, m.i[ids + position])
            if handle >= 0:
                out[last] = handle
                last += 1
    return last


@part
def check_spans(m: Memory, record: int, low: float, high: float, out: Ints, found: int) -> int:
    """Add the satisfied rows of a list of two-sided ranges."""
    header = RowList(m, record)
    kind, capacity, length = header.kind, header.capacity, header.length
    keys, ids, column = key_at(m, record), ids_at(m, record), record + HEADER_WORDS
    passed = 0
    if kind == SPAN:
        for k in range(length):
            out[found + passed] = m.i[ids + k]
            passed += (m.f[keys + k] <= low) & (m.f[keys + capacity + k] >= high)
        return found + passed
    for k in range(length):
        out[found + passed] = k
        inside = (m.f[keys + k] <= low) & (m.f[keys + capacity + k] >= high)
        passed += inside & holds_inline(m, column + k, capacity, m.i[ids + capacity + k])
    note_visit(m, record, length, passed)
    return _settle(m, ids, capacity, out, found, passed)


@part
def visit_spans(m: Memory, directory: int, low: float, high: float, out: Ints, found: int) -> int:
    """Add the satisfied rows of a directory of two-sided ranges."""
    lists = buckets_at(m, directory)
    # The margin makes up for the rounding of this difference.
    first = bucket_of(m, directory, high - Directory(m, directory).width - abs(high) * 2.0**-50)
    for bucket in range(first, bucket_of(m, directory, low) + 1):
        record = m.i[lists + bucket]
        while record != 0:
            found = check_spans(m, record, low, high, out, found)
            record = RowList(m, record).next
    return found


@part
def visit_side(m: Memory, directory: int, low: float, high: float, out: Ints, found: int) -> int:
    """Add the satisfied rows of a directory of one-sided ranges: its first rows, or its last ones, in order of key."""
    header = Directory(m, directory)
    lists, lower = buckets_at(m, directory), header.side == LOWER
    boundary = bucket_of(m, directory, low if lower else high)
    first, last = (0, boundary + 1) if lower else (boundary, header.count)
    for bucket in range(first, last):
        record = m.i[lists + bucket]
        while record != 0:
            start, end = 0, RowList(m, record).length
            if bucket == boundary:
                if lower:
                    end = rows_below(m, record, low, True)
                else:
                    start = rows_below(m, record, high, False)
            if RowList(m, record).kind == KEYED:
                found = copy_ids(m, record, start, end, out, found)
            else:
                found = verify_rows(m, record, start, end, out, found)
            record = RowList(m, record).next
    return found


@part
def visit_ranges(
    m: Memory, directory: int, low: float, high: float, out: Ints, found: int, limit: int
) -> int:
    """Add the satisfied rows of a channel's directories."""
    while directory != 0 and found < limit:
        if Directory(m, directory).side == SPANS:
            found = visit_spans(m, directory, low, high, out, found)
        else:
            found = visit_side(m, directory, low, high, out, found)
        directory = Directory(m, directory).next
    return found


@part
def visit_chain(m: Memory, record: int, out: Ints, found: int, limit: int) -> int:
    """Add the satisfied rows of a chain of lists that needs no look at ranges."""
    while record != 0 and found < limit:
        if RowList(m, record).kind == IDS:
            found = copy_ids(m, record, 0, RowList(m, record).length, out, found)
        else:
            found = verify_rows(m, record, 0, RowList(m, record).length, out, found)
        record = RowList(m, record).next
    return found


@part
def _approach_directory(m: Memory, directory: int) -> None:
    """Ask for the first list of a directory and for the directory after it."""
    if directory != 0:
        prefetch(m.f, m.i[buckets_at(m, directory)])
        prefetch(m.f, Directory(m, directory).next)


@part
def approach(m: Memory, w: Intervals, start: int, end: int, cells: Ints) -> None:
    """Find the equality constraint of each channel's value, 0 where there is none, into `cells`.

    Records lie scattered in a large memory and each step needs the one before, so all channels take a step at a
    time: while one record is on its way, those of the other channels are asked for too.
    """
    mask = m.meta[TABLE_MASK]
    for k in range(start, end):
        slot = _NO_SLOT
        if Channel(m, w.names[k]).equal_rows != 0:
            slot = hash_of(w.names[k], w.lows[k], w.highs[k]) & mask
            prefetch(m.table, slot)
        cells[k - start] = slot
    for k in range(start, end):
        channel = Channel(m, w.names[k])
        if cells[k - start] != _NO_SLOT:
            prefetch(m.f, m.table[cells[k - start]])
        prefetch(m.f, channel.short_simple)
        prefetch(m.f, channel.short_verify)
        prefetch(m.f, channel.first_directory)
    for k in range(start, end):
        slot, record = cells[k - start], 0
        if slot != _NO_SLOT:
            record = m.table[slot]
            while record != 0 and not (
                Constraint(m, record).channel == w.names[k]
                and Constraint(m, record).low == w.lows[k]
                and Constraint(m, record).high == w.highs[k]
            ):
                slot = (slot + 1) & mask
                record = m.table[slot]
            prefetch(m.f, Constraint(m, record).simple_list)
            prefetch(m.f, Constraint(m, record).verify_list)
        cells[k - start] = record
        _approach_directory(m, Channel(m, w.names[k]).first_directory)
    for k in range(end - start):
        directory = Channel(m, w.names[start + k]).first_directory
        if directory != 0:
            _approach_directory(m, Directory(m, directory).next)
        record = Constraint(m, cells[k]).verify_list
        for word in range(record + 8, record + min(64, list_words(VERIFY, RowList(m, record).length)), 8):
            prefetch(m.f, word)


@part
def next_stamp(m: Memory) -> None:
    """Begin a query: no handle has been given yet."""
    m.meta[QUERIES] += 1
    m.meta[STAMP] += 1
    if m.meta[STAMP] == 2**31 - 1:
        m.meta[STAMP] = 1
        for row in range(m.meta[EXTRA_ROWS]):
            Extra(m, row).stamp = 0


@part
def _visit_some(
    m: Memory, w: Intervals, start: int, end: int, cells: Ints, out: Ints, found: int, limit: int
) -> int:
    """Add the satisfied rows under some of an event's channels."""
    approach(m, w, start, end, cells)
    for k in range(start, end):
        channel = Channel(m, w.names[k])
        record = channel.short_simple
        if record != 0:
            found = check_spans(m, record, w.lows[k], w.highs[k], out, found)
        record = channel.short_verify
        if record != 0:
            found = check_spans(m, record, w.lows[k], w.highs[k], out, found)
        found = visit_ranges(m, channel.first_directory, w.lows[k], w.highs[k], out, found, limit)
        if channel.first_grid != 0:
            found = visit_grids(m, channel.first_grid, out, found, limit)
    for k in range(end - start):
        if cells[k] != 0:
            found = visit_chain(m, Constraint(m, cells[k]).simple_list, out, found, limit)
            found = visit_chain(m, Constraint(m, cells[k]).verify_list, out, found, limit)
    return found


@part
def satisfied(
    m: Memory, w: Intervals, start: int, end: int, cells: Ints, out: Ints, found: int, limit: int
) -> int:
    """Add the handles of all satisfied rows behind the first `found` of `out`; return how many there are now.

    `out` has room for as many handles as there are rows and a block, besides those found before;
    `cells` for one a channel.
    """
    next_stamp(m)
    limit += found
    set_values(m, w, start, end)
    found = visit_chain(m, m.meta[ALWAYS_SIMPLE], out, found, limit)
    for first in range(start, end, AT_ONCE):
        found = _visit_some(m, w, first, min(first + AT_ONCE, end), cells, out, found, limit)
    found = visit_chain(m, m.meta[ALWAYS_VERIFY], out, found, limit)
    reset_values(m, w, start, end)
    return found


@kernel
def query_batch(
    addresses: Longs,
    starts: Longs,
    names: Ints,
    lows: Floats,
    highs: Floats,
    first: int,
    out: Ints,
    ends: Longs,
) -> int:
    """Write the handles of rows that intervals satisfy, those from starts[n] to starts[n + 1] for question n, from
    number `first` on; return the number of the first one not answered: while `out` has room, and until so many rows
    were verified that it is time to move some (`store.Store.tidy`).

    Events give values instead of intervals: the same array twice. `ends[n]` becomes where the handles of question n end
    in `out`; ends[first - 1] is where they begin.
    """
    m = memory_at(addresses)
    w = Intervals(pointer_to(names), pointer_to(lows), pointer_to(highs))
    cells, answers = workspace_at(addresses).cells, pointer_to(out)
    found = ends[first - 1] if first > 0 else 0
    for number in range(first, len(starts) - 1):
        if found + m.meta[ROWS] + BLOCK > len(out):
            return number
        if number > first and m.meta[VERIFIED] > ENOUGH:
            return number
        found = satisfied(m, w, starts[number], starts[number + 1], cells, answers, found, 2**62)
        ends[number] = found
    return len(starts) - 1
