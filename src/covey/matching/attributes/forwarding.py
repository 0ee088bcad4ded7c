"""Forwarding: which links an event must go to, without asking for every row.

Each list, and each block of a grid, knows the links of its rows as a mask. One whose links have all been hit already
is skipped; simple rows hit all of a list's links at once; and the query stops when every link is hit. Only if simple
rows leave a link open are rows verified, those of grids first, however many constraints they have: none whose link is
hit already, and no more than it takes. Links from
SHARED_BIT up share the last bit of masks, and lists that have it are looked at row by row.
"""

from __future__ import annotations

from covey.matching.attributes.constraints import find
from covey.matching.attributes.grids import (
    NOTHING,
    add_handles,
    first_block,
    lines_of,
    links_of_block,
    next_block,
    next_grid,
    satisfied_in,
    strings_of,
)
from covey.matching.attributes.heap import ALWAYS_SIMPLE, ALWAYS_VERIFY
from covey.matching.attributes.layout import Channel, Constraint, Directory, RowList
from covey.matching.attributes.lists import (
    HEADER_WORDS,
    SHARED_BIT,
    SPAN,
    VERIFY_SPAN,
    handle_of,
    ids_at,
    key_at,
    links_of,
    note_visit,
)
from covey.matching.attributes.memory import Intervals, Memory, memory_at, workspace_at
from covey.matching.attributes.query import (
    AT_ONCE,
    approach,
    chain_holds,
    holds_inline,
    next_stamp,
    reset_values,
    set_values,
)
from covey.matching.attributes.ranges import LOWER, SPANS, bucket_of, buckets_at, rows_below
from covey.matching.jit import Floats, Ints, Longs, called, ints_at, kernel, part, pointer_to

SHARED = 1 << SHARED_BIT
PIECE = 32  # rows of a list that are tested before the links of those that pass are looked at
NO_LINK = 1  # rows with link 0 have none: it counts as hit from the start


@part
def _hit_row(m: Memory, row: int, hit: int, seen: Ints, links: int) -> int:
    """Count the link of a row, whose id is a handle, as hit; `seen` says which of the links from SHARED_BIT up are."""
    link = m.links[row]
    if link < SHARED_BIT:
        return hit | (1 << link)
    if seen[link] == 0:
        seen[link] = 1
        seen[links] += 1
        if seen[links] == links - SHARED_BIT:
            return hit | SHARED
    return hit


@part
def _visit(
    m: Memory,
    record: int,
    start: int,
    end: int,
    spanned: bool,
    value: float,
    hit: int,
    seen: Ints,
    links: int,
) -> int:
    """Hit the links of a list's simple rows from `start` to `end`, looking at their ranges if `spanned`."""
    header = RowList(m, record)
    open_links = links_of(m, record) & ~hit
    if open_links == 0 or start >= end:
        return hit
    capacity, length = header.capacity, header.length
    if not spanned and start == 0 and end == length:
        hit |= open_links & ~SHARED
        if open_links & SHARED == 0:
            return hit
    ids, keys = ids_at(m, record), key_at(m, record)
    for k in range(start, end):
        if spanned and not (m.f[keys + k] <= value and m.f[keys + capacity + k] >= value):
            continue
        hit = _hit_row(m, m.i[ids + k], hit, seen, links)
        if open_links & ~hit == 0:
            break
    return hit


@part
def _is_hit(m: Memory, row: int, hit: int, seen: Ints) -> bool:
    """Return whether the link of a row is hit already."""
    link = m.links[handle_of(m, row)]
    return (hit >> link) & 1 != 0 if link < SHARED_BIT else seen[link] != 0


@part
def _verify(
    m: Memory, record: int, start: int, end: int, value: float, hit: int, out: Ints, seen: Ints, links: int
) -> int:
    """Hit the links of a list's rows from `start` to `end` that have to be verified and pass, some rows at a time until
    all links of the list are hit; rows of links that are hit are not looked at further."""
    header = RowList(m, record)
    open_links, met, followed = links_of(m, record) & ~hit, 0, 0
    capacity, column, ids = header.capacity, record + HEADER_WORDS, ids_at(m, record)
    keys, spanned = key_at(m, record), header.kind == VERIFY_SPAN
    while open_links & ~hit != 0 and start < end:
        last, passed = min(start + PIECE, end), 0
        for k in range(start, last):
            out[passed] = k
            inside = holds_inline(m, column + k, capacity, m.i[ids + capacity + k])
            if spanned:
                inside &= (m.f[keys + k] <= value) & (m.f[keys + capacity + k] >= value)
            passed += inside
        met += last - start
        start = last
        for k in range(passed):
            row, chain = m.i[ids + out[k]], m.i[ids + 2 * capacity + out[k]]
            if chain != 0:
                if _is_hit(m, row, hit, seen):
                    continue
                followed += 1
                if not chain_holds(m, chain):
                    continue
            hit = _hit_row(m, handle_of(m, row), hit, seen, links)
    if met > 0:
        note_visit(m, record, met, followed)
    return hit


@part
def _visit_chain(m: Memory, record: int, hit: int, seen: Ints, links: int) -> int:
    while record != 0:
        hit = _visit(m, record, 0, RowList(m, record).length, False, 0.0, hit, seen, links)
        record = RowList(m, record).next
    return hit


@part
def _verify_chain(m: Memory, record: int, hit: int, out: Ints, seen: Ints, links: int) -> int:
    while record != 0:
        hit = _verify(m, record, 0, RowList(m, record).length, 0.0, hit, out, seen, links)
        record = RowList(m, record).next
    return hit


@part
def _visit_bucket(
    m: Memory,
    directory: int,
    bucket: int,
    boundary: int,
    value: float,
    hit: int,
    out: Ints,
    seen: Ints,
    links: int,
) -> int:
    header = Directory(m, directory)
    side, simple = header.side, header.list_kind <= SPAN
    record = m.i[buckets_at(m, directory) + bucket]
    while record != 0:
        start, end = 0, RowList(m, record).length
        if bucket == boundary and side == LOWER:
            end = rows_below(m, record, value, True)
        elif bucket == boundary and side != SPANS:
            start = rows_below(m, record, value, False)
        if simple:
            hit = _visit(m, record, start, end, side == SPANS, value, hit, seen, links)
        else:
            hit = _verify(m, record, start, end, value, hit, out, seen, links)
        record = RowList(m, record).next
    return hit


@called
def _visit_ranges(
    m: Memory,
    directory: int,
    simple: bool,
    value: float,
    hit: int,
    everything: int,
    out: Ints,
    seen: Ints,
    links: int,
) -> int:
    """Hit the links of satisfied rows in a channel's directories: of simple rows, or of those to verify."""
    while directory != 0 and hit != everything:
        if (Directory(m, directory).list_kind <= SPAN) == simple:
            boundary = bucket_of(m, directory, value)
            first, last = 0, boundary + 1
            if Directory(m, directory).side == SPANS:
                first = bucket_of(m, directory, value - Directory(m, directory).width - abs(value) * 2.0**-50)
            elif Directory(m, directory).side != LOWER:
                first, last = boundary, Directory(m, directory).count
            for bucket in range(first, last):
                if hit == everything:
                    break
                hit = _visit_bucket(m, directory, bucket, boundary, value, hit, out, seen, links)
        directory = Directory(m, directory).next
    return hit


@part
def _hit_simple(
    m: Memory, w: Intervals, start: int, end: int, everything: int, out: Ints, seen: Ints, links: int
) -> int:
    """Hit the links of satisfied simple rows: no other row has to be verified if they hit everything."""
    hit = _visit_chain(m, m.meta[ALWAYS_SIMPLE], NO_LINK, seen, links)
    for k in range(start, end):
        if hit == everything:
            return hit
        channel = Channel(m, w.names[k])
        directory = channel.first_directory
        hit = _visit_ranges(m, directory, True, w.lows[k], hit, everything, out, seen, links)
        record = channel.short_simple
        if record != 0:
            hit = _visit(m, record, 0, RowList(m, record).length, True, w.lows[k], hit, seen, links)
    for k in range(start, end):
        if hit == everything:
            return hit
        if Channel(m, w.names[k]).equal_rows != 0:
            cell = find(m, w.names[k], w.lows[k], w.lows[k])
            if cell != 0:
                hit = _visit_chain(m, Constraint(m, cell).simple_list, hit, seen, links)
    return hit


@called
def _hit_grids(m: Memory, grid: int, hit: int, everything: int, out: Ints, seen: Ints, links: int) -> int:
    """Hit the links of satisfied rows in a chain of grids: of one line at first and then of twice as many each time, as
    a few rows mostly hit all links there are."""
    while grid != 0 and hit != everything:
        strings, some = strings_of(m, grid), 1
        block = first_block(m, grid) if strings != NOTHING else 0
        while block != 0 and hit != everything:
            after, lines, line = next_block(m, block), lines_of(m, block), 0
            while line < lines and links_of_block(m, block) & ~hit != 0:
                some = min(some, lines - line)
                if satisfied_in(m, grid, block, line, some, strings):
                    hit = _hit_found(
                        m, hit, seen, links, out, add_handles(m, grid, block, line, some, out, 0)
                    )
                line += some
                some *= 2
            block = after
        grid = next_grid(m, grid)
    return hit


@part
def _hit_verified(
    m: Memory,
    w: Intervals,
    start: int,
    end: int,
    hit: int,
    everything: int,
    cells: Ints,
    out: Ints,
    seen: Ints,
    links: int,
) -> int:
    """Hit the links of satisfied rows that are not simple, those first that take the least work."""
    for k in range(start, end):
        grid = Channel(m, w.names[k]).first_grid
        if grid != 0:
            hit = _hit_grids(m, grid, hit, everything, out, seen, links)
    for first in range(start, end, AT_ONCE):
        last = min(first + AT_ONCE, end)
        approach(m, w, first, last, cells)
        for k in range(last - first):
            if hit == everything:
                return hit
            if cells[k] != 0:
                hit = _verify_chain(m, Constraint(m, cells[k]).verify_list, hit, out, seen, links)
    for k in range(start, end):
        if hit == everything:
            return hit
        channel, value = Channel(m, w.names[k]), w.lows[k]
        record = channel.short_verify
        if record != 0:
            hit = _verify(m, record, 0, RowList(m, record).length, value, hit, out, seen, links)
        directory = channel.first_directory
        hit = _visit_ranges(m, directory, False, value, hit, everything, out, seen, links)
    if hit == everything:
        return hit
    return _verify_chain(m, m.meta[ALWAYS_VERIFY], hit, out, seen, links)


@part
def all_links(links: int) -> int:
    """Return the mask of all `links` links."""
    everything = (1 << min(links, SHARED_BIT)) - 1
    return everything | SHARED if links > SHARED_BIT else everything


@part
def _hit_found(m: Memory, hit: int, seen: Ints, links: int, found: Ints, count: int) -> int:
    """Return the mask with the links of the rows that were found."""
    everything = all_links(links)
    for k in range(count):
        hit = _hit_row(m, found[k], hit, seen, links)
        if hit == everything:
            break
    return hit


@part
def event_links(
    m: Memory, w: Intervals, start: int, end: int, links: int, cells: Ints, out: Ints, seen: Ints
) -> int:
    """Return the mask of links that an event must go to.

    `cells` and `out` have the room that `query.satisfied` asks for. With links from SHARED_BIT up, `seen` has room for
    links + 1 zeros.
    """
    everything = all_links(links)
    hit = _hit_simple(m, w, start, end, everything, out, seen, links)
    if hit != everything:
        next_stamp(m)
        set_values(m, w, start, end)
        hit = _hit_verified(m, w, start, end, hit, everything, cells, out, seen, links)
        reset_values(m, w, start, end)
    return hit


@kernel
def links_batch(
    addresses: Longs, starts: Longs, names: Ints, points: Floats, links: int, seen: Ints, masks: Longs
) -> None:
    """Write the mask of links of each event.

    With links from SHARED_BIT up, `seen` has a row of links + 1 for each event.
    """
    m = memory_at(addresses)
    w = Intervals(pointer_to(names), pointer_to(points), pointer_to(points))
    room = workspace_at(addresses)
    width = links + 1 if links > SHARED_BIT else 0
    for number in range(len(starts) - 1):
        row = ints_at(seen.ctypes.data + 4 * width * number)
        masks[number] = event_links(
            m, w, starts[number], starts[number + 1], links, room.cells, room.out, row
        )
