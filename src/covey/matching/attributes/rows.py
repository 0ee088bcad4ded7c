"""Rows: one conjunction each, put under its most selective constraint.

A row is a set of constraints (channel, low, high), at most one a channel. It is found through one of them, its
access: the equality or range that the fewest events are thought to satisfy. The next best stands inline in the row's
list, and the others are chained behind it as pointers to interned constraints; the last pointer is negative.

Rows of filters with a single conjunction have the filter's handle as their id. Rows of other filters have negative
ids ~n, and row n of `extra` holds (home, handle, group, stamp): they are always verified, so that a query can
give each handle once.
"""

from __future__ import annotations

import numpy as np

from covey.matching.attributes.constraints import find, intern, release
from covey.matching.attributes.grids import (
    append_to_grid,
    find_grid,
    is_in_block,
    read_from_block,
    take_from_block,
)
from covey.matching.attributes.heap import (
    ALWAYS_SIMPLE,
    ALWAYS_VERIFY,
    FREED,
    GRIDS,
    LINKED,
    ROWS,
    allocate,
    free,
)
from covey.matching.attributes.layout import Bounds, Channel, Constraint, Directory, RowList
from covey.matching.attributes.lists import (
    CHUNK,
    HEADER_WORDS,
    IDS,
    SPAN,
    VERIFY,
    add_link,
    append,
    drop_list,
    home_of,
    ids_at,
    key_at,
    link_bit,
    new_list,
    position_of,
    refresh_links,
    remove_at,
    set_home,
)
from covey.matching.attributes.memory import Intervals, Memory
from covey.matching.attributes.ranges import SPANS, UPPER, append_range, bucket_of, buckets_at, drop_bucket
from covey.matching.jit import Floats, Ints, called, part, prefetch

# Channel 0 belongs to no attribute and its value is always 0: the inline constraint of rows that need none.
NO_CHANNEL = 0

GOOD_SHARE = 16  # rows whose access lets through less than one of so many events do not go to a grid at first


@part
def cost(m: Memory, channel: int, low: float, high: float) -> float:
    """Return an estimate of how many rows an event would meet if all like this one had this constraint as access."""
    ways = Channel(m, channel)
    if ways.absence != 0:
        return np.inf
    if low == high:
        return float(Constraint(m, find(m, channel, low, high)).references)
    return 1.0 + weight_of_range(m, channel, low, high) * ways.references


@part
def weight_of_range(m: Memory, channel: int, low: float, high: float) -> float:
    """Return the share of the channel's values in the range, if they spread evenly, and what it costs to look it up.

    One-sided ranges cost more than equalities even if they are narrow: a part of the short list and of the directory
    is looked at whatever the value.
    """
    first, last = Bounds(m, channel).least, Bounds(m, channel).greatest
    share = (min(high, last) - max(low, first)) / (last - first) if first < last else 0.5
    return max(0.0, share) + (0.05 if low != -np.inf and high != np.inf else 0.5)


@part
def is_dear(m: Memory, price: float) -> bool:
    """Return whether a row with this `cost` should be in a grid, as far as that can be told without events."""
    return GOOD_SHARE * price >= m.meta[ROWS]


@part
def least_cost(m: Memory, w: Intervals, count: int) -> float:
    """Return the `cost` of the best of the first `count` constraints."""
    least = np.inf
    for k in range(count):
        least = min(least, cost(m, w.names[k], w.lows[k], w.highs[k]))
    return least


@part
def note_constraint(m: Memory, channel: int, low: float, high: float) -> None:
    """Count a constraint in the statistics that `cost` reads; an equality is interned."""
    ways = Channel(m, channel)
    ways.references += 1
    if low == high:
        intern(m, channel, low, high)
        return
    ways.ranges += 1
    if low != -np.inf:
        Bounds(m, channel).least = min(Bounds(m, channel).least, low)
        Bounds(m, channel).greatest = max(Bounds(m, channel).greatest, low)
    if high != np.inf:
        Bounds(m, channel).least = min(Bounds(m, channel).least, high)
        Bounds(m, channel).greatest = max(Bounds(m, channel).greatest, high)


@called
def place_row(m: Memory, row: int, w: Intervals, start: int, end: int, gridded: bool) -> None:
    """Put a row, whose constraints were all noted before, under its access constraint; or, if `gridded`, into the grid
    of its channels, if there is one and its access constraint would select poorly."""
    count = end - start
    access, inline = -1, -1
    access_cost, inline_cost = np.inf, np.inf
    for k in range(start, end):
        price = cost(m, w.names[k], w.lows[k], w.highs[k])
        if price < access_cost:
            inline, inline_cost = access, access_cost
            access, access_cost = k, price
        elif price < inline_cost or inline < 0:
            inline, inline_cost = k, price
    simple = row >= 0 and (count == 0 or (count == 1 and access == start))
    if gridded and m.meta[GRIDS] != 0 and not simple and is_dear(m, access_cost):
        grid = find_grid(m, w, start, end)
        if grid != 0:
            append_to_grid(m, grid, row, w, start, end)
            m.meta[ROWS] += 1
            return
    if access < 0:
        head = _head_of_always(m, simple)
        record = append(m, head, row)
        m.meta[ALWAYS_SIMPLE if simple else ALWAYS_VERIFY] = record
    elif w.lows[access] == w.highs[access]:
        cell = find(m, w.names[access], w.lows[access], w.highs[access])
        equality = Constraint(m, cell)
        Channel(m, w.names[access]).equal_rows += 1
        if simple:
            record = append(m, _with_room(m, equality.simple_list, IDS, cell), row)
            equality.simple_list = record
        else:
            record = append(m, _with_room(m, equality.verify_list, VERIFY, cell), row)
            equality.verify_list = record
    else:
        record = append_range(m, w.names[access], w.lows[access], w.highs[access], row, not simple)
    if not simple:
        _fill_residual(m, record, access, inline, w, start, end)
    if m.meta[LINKED] != 0:
        add_link(m, record, link_bit(m, row))
    m.meta[ROWS] += 1


@part
def _head_of_always(m: Memory, simple: bool) -> int:
    """Return a list with room, first in the chain of those tried for every event."""
    if simple:
        return _with_room(m, m.meta[ALWAYS_SIMPLE], IDS, 0)
    return _with_room(m, m.meta[ALWAYS_VERIFY], VERIFY, 0)


@part
def _with_room(m: Memory, first: int, kind: int, owner: int) -> int:
    """Return the first list of a chain if it has room for a row, else a new one with the chain behind it."""
    if first != 0 and RowList(m, first).length < CHUNK:
        return first
    record = new_list(m, kind, owner, 1)
    RowList(m, record).next = first
    return record


@part
def _fill_residual(
    m: Memory, record: int, access: int, inline: int, w: Intervals, start: int, end: int
) -> None:
    """Fill the columns of the list's last row: the inline constraint and the chain of the others."""
    header = RowList(m, record)
    capacity, position = header.capacity, header.length - 1
    column = record + HEADER_WORDS + position
    ids = ids_at(m, record) + position
    if inline < 0:
        m.f[column], m.f[column + capacity] = -np.inf, np.inf
        m.i[ids + capacity] = NO_CHANNEL
    else:
        m.f[column], m.f[column + capacity] = w.lows[inline], w.highs[inline]
        m.i[ids + capacity] = w.names[inline]
    others = end - start - (1 if access >= 0 else 0) - (1 if inline >= 0 else 0)
    if others == 0:
        m.i[ids + 2 * capacity] = 0
        return
    chain = allocate(m, (others + 1) // 2)
    m.i[ids + 2 * capacity] = chain
    place = 2 * chain
    for k in range(start, end):
        if k == access or k == inline:
            continue
        if w.lows[k] == w.highs[k]:
            cell = find(m, w.names[k], w.lows[k], w.highs[k])
        else:
            cell = intern(m, w.names[k], w.lows[k], w.highs[k])
        others -= 1
        m.i[place] = cell if others > 0 else -cell
        place += 1


@called
def _still_linked(m: Memory, record: int, bit: int) -> bool:
    ids = ids_at(m, record)
    for k in range(RowList(m, record).length):
        if link_bit(m, m.i[ids + k]) == bit:
            return True
    return False


@part
def read_access(m: Memory, record: int, position: int, w: Intervals) -> int:
    """Write the access constraint of the row at this place, if any, as the first of the arrays; return 0 or 1."""
    record_header = RowList(m, record)
    kind, capacity, owner = record_header.kind, record_header.capacity, record_header.owner
    constraint = Constraint(m, owner)
    owner_header = Directory(m, owner)
    if owner == 0:
        return 0
    if kind == IDS or kind == VERIFY:
        w.names[0], w.lows[0], w.highs[0] = (
            constraint.channel,
            constraint.low,
            constraint.high,
        )
        return 1
    key = key_at(m, record) + position
    if owner < 0 or owner_header.side == SPANS:
        w.lows[0], w.highs[0] = m.f[key], m.f[key + capacity]
    elif owner_header.side == UPPER:
        w.lows[0], w.highs[0] = -np.inf, m.f[key]
    else:
        w.lows[0], w.highs[0] = m.f[key], np.inf
    w.names[0] = -owner if owner < 0 else owner_header.channel
    return 1


@called
def read_row(m: Memory, record: int, position: int, w: Intervals) -> int:
    """Write the constraints of the row at this place of a list into the arrays, access first; return their number."""
    header = RowList(m, record)
    kind, capacity = header.kind, header.capacity
    count = read_access(m, record, position, w)
    if kind <= SPAN:
        return count
    column = record + HEADER_WORDS + position
    ids = ids_at(m, record) + position
    if m.i[ids + capacity] != NO_CHANNEL:
        w.names[count], w.lows[count], w.highs[count] = (
            m.i[ids + capacity],
            m.f[column],
            m.f[column + capacity],
        )
        count += 1
    chain = m.i[ids + 2 * capacity]
    if chain != 0:
        place = 2 * chain
        while True:
            cell = m.i[place]
            last = cell < 0
            cell = abs(cell)
            w.names[count], w.lows[count], w.highs[count] = (
                Constraint(m, cell).channel,
                Constraint(m, cell).low,
                Constraint(m, cell).high,
            )
            count += 1
            place += 1
            if last:
                break
    return count


@part
def foresee_row(m: Memory, record: int, position: int) -> None:
    """Ask for the chain of the row at this place."""
    header = RowList(m, record)
    if header.kind >= VERIFY:
        prefetch(m.f, m.i[ids_at(m, record) + 2 * header.capacity + position])


@called
def take_row(m: Memory, row: int, w: Intervals, freed_channels: Ints, freed_values: Floats) -> int:
    """Take a row out; return how many constraints it had, which are the first of `w` then.

    Equalities that no row uses any more are added to the freed channels and values, channels themselves with NaN.
    """
    if is_in_block(home_of(m, row)):
        count = read_from_block(m, row, w)
        take_from_block(m, row)
        _release_all(m, w, count, count, 0, freed_channels, freed_values)
        set_home(m, row, 0)
        m.meta[ROWS] -= 1
        return count
    record = home_of(m, row)
    record_header = RowList(m, record)
    position = position_of(m, record, row)
    count = read_row(m, record, position, w)
    first_chained, chain = count, 0
    if record_header.owner != 0 and (record_header.kind == IDS or record_header.kind == VERIFY):
        Channel(m, w.names[0]).equal_rows -= 1
    if record_header.kind >= VERIFY:
        ids = ids_at(m, record) + position
        first_chained = 1 if record_header.owner != 0 else 0
        if m.i[ids + record_header.capacity] != NO_CHANNEL:
            first_chained += 1
        chain = m.i[ids + 2 * record_header.capacity]
    moved = remove_at(m, record, position)
    moved_header = RowList(m, moved)
    if moved != record or moved_header.length == 0:
        _replace(m, record, moved, w.lows[0], w.highs[0])
    if moved_header.length == 0:
        drop_list(m, moved)
    elif m.meta[LINKED] != 0:
        bit = link_bit(m, row)
        if not _still_linked(m, moved, bit):
            refresh_links(m, moved)
    _release_all(m, w, count, first_chained, chain, freed_channels, freed_values)
    if chain != 0:
        free(m, chain, (count - first_chained + 1) // 2)
    set_home(m, row, 0)
    m.meta[ROWS] -= 1
    return count


@part
def _release_all(
    m: Memory,
    w: Intervals,
    count: int,
    first_chained: int,
    chain: int,
    freed_channels: Ints,
    freed_values: Floats,
) -> None:
    """Drop the references of a row's constraints, of which those from `first_chained` on stand in its chain."""
    for k in range(count):
        channel = w.names[k]
        ways = Channel(m, channel)
        ways.references -= 1
        equality = w.lows[k] == w.highs[k]
        if not equality:
            ways.ranges -= 1
        if equality or k >= first_chained:
            if k >= first_chained:
                cell = abs(m.i[2 * chain + k - first_chained])
            else:
                cell = find(m, channel, w.lows[k], w.highs[k])
            if release(m, cell) and equality:
                freed_channels[m.meta[FREED]], freed_values[m.meta[FREED]] = channel, w.lows[k]
                m.meta[FREED] += 1
        if ways.references == 0:
            freed_channels[m.meta[FREED]], freed_values[m.meta[FREED]] = channel, np.nan
            m.meta[FREED] += 1


@called
def _replace(m: Memory, old: int, new: int, low: float, high: float) -> None:
    """Let whatever points at the list `old` point at `new`, or past it if `new` is empty; (low, high) is its access."""
    header = RowList(m, new)
    kind, owner = header.kind, header.owner
    after = header.next if header.length == 0 else new
    if kind == IDS or kind == VERIFY:
        if owner == 0:
            place = ALWAYS_SIMPLE if kind == IDS else ALWAYS_VERIFY
            m.meta[place] = relink(m, m.meta[place], old, after)
        else:
            equality = Constraint(m, owner)
            if kind == IDS:
                equality.simple_list = relink(m, equality.simple_list, old, after)
            else:
                equality.verify_list = relink(m, equality.verify_list, old, after)
    elif owner < 0:
        if kind <= SPAN:
            Channel(m, -owner).short_simple = after
        else:
            Channel(m, -owner).short_verify = after
    else:
        bucket = bucket_of(m, owner, high if Directory(m, owner).side == UPPER else low)
        field = buckets_at(m, owner) + bucket
        m.i[field] = relink(m, m.i[field], old, after)
        if m.i[field] == 0:
            drop_bucket(m, owner, bucket)


@called
def relink(m: Memory, first: int, old: int, new: int) -> int:
    """Put `new` in the place of `old` in the chain that begins with `first`; return with what it begins now."""
    if first == old:
        return new
    record = first
    while RowList(m, record).next != old:
        record = RowList(m, record).next
    RowList(m, record).next = new
    return first
