"""Postings: every constraint of every row, found by its channel and low end.

They answer "whom does this filter cover" and "whom does it overlap". A conjunction becomes *acceptors*: intervals
(channel, low, high), each belonging to one of its attributes. A row lies inside the conjunction when each attribute has
an acceptor that contains one of the row's constraints; it has at most one constraint an attribute. Candidates come
from the attribute with the fewest postings, and every candidate is checked against all acceptors.

Postings are kept only once the first such question was asked, or is expected: they take about 12 bytes a constraint.
They are made some rows at a time. Until all have theirs, a row that comes or goes has postings if its number is below
those that were reached.
"""

from __future__ import annotations

from covey.matching.attributes.grids import is_in_block, read_from_block
from covey.matching.attributes.heap import (
    EXTRA_ROWS,
    POSTED_EXTRA,
    POSTED_HANDLES,
    TOP,
    WANTED,
    class_words,
    size_class,
)
from covey.matching.attributes.lists import (
    CAPACITY,
    CHUNK,
    LENGTH,
    NEXT,
    POSTING,
    append,
    drop_list,
    home_of,
    ids_at,
    key_at,
    larger_capacity,
    list_words,
    position_of,
    remove_at,
)
from covey.matching.attributes.memory import Intervals, Memory, memory_at
from covey.matching.attributes.ranges import (
    CHANNEL_COLUMNS,
    COUNT,
    POSTINGS,
    bucket_of,
    buckets_at,
    directory_words,
    drop_bucket,
    has_room,
    larger_room,
    make_room,
    new_directory,
    put_in_order,
    rows_below,
)
from covey.matching.attributes.rows import read_row, relink
from covey.matching.jit import Floats, Ints, Longs, called, floats_at, ints_at, kernel, part

NEW_WORDS = 64  # of a directory with its first list
EVERY = 1 << 62  # as the number of rows that have postings: all of them, and whatever comes


@part
def is_posted(m: Memory, row: int) -> bool:
    """Return whether a row that comes or goes has postings."""
    return row < m.meta[POSTED_HANDLES] if row >= 0 else ~row < m.meta[POSTED_EXTRA]


@part
def _post(m: Memory, channel: int, low: float, row: int) -> None:
    """Add one posting."""
    column = CHANNEL_COLUMNS * channel + POSTINGS
    if m.channels[column] == 0:
        m.channels[column] = new_directory(m, channel, POSTING)
    while not has_room(m, m.channels[column], low):
        make_room(m, m.channels[column], low)
    directory = m.channels[column]
    place = buckets_at(m, directory) + bucket_of(m, directory, low)
    record = append(m, m.i[place], row)
    m.i[place] = record
    m.f[key_at(m, record) + m.i[2 * record + LENGTH] - 1] = low
    put_in_order(m, record)


@part
def _unpost(m: Memory, channel: int, low: float, row: int) -> None:
    """Take one posting away."""
    directory = m.channels[CHANNEL_COLUMNS * channel + POSTINGS]
    bucket = bucket_of(m, directory, low)
    place = buckets_at(m, directory) + bucket
    record = m.i[place]
    while True:
        position = rows_below(m, record, low, False)
        ids, length = ids_at(m, record), m.i[2 * record + LENGTH]
        while position < length and m.i[ids + position] != row:
            position += 1
        if position < length:
            break
        record = m.i[2 * record + NEXT]
    moved = remove_at(m, record, position)
    if m.i[2 * moved + LENGTH] == 0:
        m.i[place] = relink(m, m.i[place], record, m.i[2 * moved + NEXT])
        drop_list(m, moved)
        if m.i[place] == 0:
            drop_bucket(m, directory, bucket)
    elif moved != record:
        m.i[place] = relink(m, m.i[place], record, moved)


@part
def _read(m: Memory, row: int, w: Intervals) -> int:
    """Write the constraints of a row to `w`; return their number."""
    record = home_of(m, row)
    if is_in_block(record):
        return read_from_block(m, row, w)
    return read_row(m, record, position_of(m, record, row), w)


@called
def words_to_post(m: Memory, w: Intervals, start: int, end: int) -> int:
    """Return how many words at most the postings of a row with these constraints can take from the heap."""
    words = 0
    for k in range(start, end):
        directory = m.channels[CHANNEL_COLUMNS * w.names[k] + POSTINGS]
        if directory == 0:
            words += NEW_WORDS
            continue
        record = m.i[buckets_at(m, directory) + bucket_of(m, directory, w.lows[k])]
        length = m.i[2 * record + LENGTH]
        if length >= CHUNK or m.i[2 * record + NEXT] != 0:  # it is split, or gets a list before or behind it
            words += 2 * class_words(size_class(list_words(POSTING, CHUNK)))
            words += class_words(size_class(directory_words(larger_room(m.i[2 * directory + COUNT]))))
        if length == m.i[2 * record + CAPACITY]:
            words += class_words(size_class(list_words(POSTING, larger_capacity(length))))
    return words


@called
def words_to_unpost(m: Memory, row: int, w: Intervals) -> int:
    """Return how many words at most it can take from the heap to take the postings of a row away: lists may move.

    The constraints of the row are written to `w`.
    """
    words = 0
    for k in range(_read(m, row, w)):
        directory = m.channels[CHANNEL_COLUMNS * w.names[k] + POSTINGS]
        record = m.i[buckets_at(m, directory) + bucket_of(m, directory, w.lows[k])]
        rows = CHUNK if m.i[2 * record + NEXT] != 0 else m.i[2 * record + CAPACITY]
        words += class_words(size_class(list_words(POSTING, rows)))
    return words


@part
def post_row(m: Memory, row: int, w: Intervals, start: int, end: int) -> None:
    """Add the postings of a row with these constraints."""
    for k in range(start, end):
        _post(m, w.names[k], w.lows[k], row)


@part
def unpost_row(m: Memory, row: int, w: Intervals, count: int) -> None:
    """Take the postings of a row away; its constraints are the first `count` of `w`."""
    for k in range(count):
        _unpost(m, w.names[k], w.lows[k], row)


@kernel
def post_some(
    addresses: Longs, size: int, names: Ints, lows: Floats, highs: Floats, handles: int, most: int
) -> bool:
    """Add the postings of up to `most` more rows, those of handles first; return whether there was room for them."""
    m = memory_at(addresses)
    w = Intervals(ints_at(names.ctypes.data), floats_at(lows.ctypes.data), floats_at(highs.ctypes.data))
    for _ in range(most):
        if m.meta[POSTED_HANDLES] < handles:
            row, place = m.meta[POSTED_HANDLES], POSTED_HANDLES
        elif m.meta[POSTED_EXTRA] < m.meta[EXTRA_ROWS]:
            m.meta[POSTED_HANDLES] = EVERY
            row, place = ~m.meta[POSTED_EXTRA], POSTED_EXTRA
        else:
            m.meta[POSTED_HANDLES] = m.meta[POSTED_EXTRA] = EVERY
            return True
        if home_of(m, row) != 0:
            count = _read(m, row, w)
            words = words_to_post(m, w, 0, count)
            if m.meta[TOP] + words > size:
                m.meta[WANTED] = words
                return False
            post_row(m, row, w, 0, count)
        m.meta[place] += 1
    return True


@part
def _accepted(w: Intervals, constraint: int, a: Intervals, count: int) -> bool:
    """Return whether one of the acceptors contains the constraint."""
    for k in range(count):
        if (
            a.names[k] == w.names[constraint]
            and a.lows[k] <= w.lows[constraint]
            and w.highs[constraint] <= a.highs[k]
        ):
            return True
    return False


@part
def _inside(m: Memory, row: int, w: Intervals, a: Intervals, count: int, groups: int) -> bool:
    """Return whether the row lies inside the conjunction with these acceptors."""
    constraints = _read(m, row, w)
    accepted = 0
    for k in range(constraints):
        accepted += _accepted(w, k, a, count)
        if accepted + constraints - 1 - k < groups:
            return False
    return accepted == groups


@part
def _span(m: Memory, a: Intervals, acceptor: int) -> tuple[int, int, int]:
    """Return the posting directory of an acceptor's channel and the buckets where constraints inside it may begin."""
    directory = m.channels[CHANNEL_COLUMNS * a.names[acceptor] + POSTINGS]
    if directory == 0:
        return 0, 0, 0
    return (
        directory,
        bucket_of(m, directory, a.lows[acceptor]),
        bucket_of(m, directory, a.highs[acceptor]) + 1,
    )


@part
def _smallest_group(m: Memory, a: Intervals, group_of: Ints, count: int, groups: int) -> int:
    """Return the group whose acceptors have the fewest postings, by whole buckets but for single ones."""
    best, fewest = 0, 2**62
    for group in range(groups):
        total = 0
        for k in range(count):
            if group_of[k] != group:
                continue
            directory, first, last = _span(m, a, k)
            if last - first == 1:
                record = m.i[buckets_at(m, directory) + first]
                while record != 0:
                    total += rows_below(m, record, a.highs[k], True) - rows_below(m, record, a.lows[k], False)
                    record = m.i[2 * record + NEXT]
            else:
                total += 512 * (last - first)
        if total < fewest:
            best, fewest = group, total
    return best


@kernel
def rows_inside(
    addresses: Longs,
    names: Ints,
    lows: Floats,
    highs: Floats,
    acceptors: Ints,
    acceptor_lows: Floats,
    acceptor_highs: Floats,
    group_of: Ints,
    groups: int,
    out: Ints,
) -> int:
    """Write the ids of all rows inside the conjunction with these acceptors; return their number.

    `names`, `lows` and `highs` are working space for the constraints of one row.
    """
    m = memory_at(addresses)
    w = Intervals(ints_at(names.ctypes.data), floats_at(lows.ctypes.data), floats_at(highs.ctypes.data))
    a = Intervals(
        ints_at(acceptors.ctypes.data),
        floats_at(acceptor_lows.ctypes.data),
        floats_at(acceptor_highs.ctypes.data),
    )
    count = len(acceptors)
    group = _smallest_group(m, a, group_of, count, groups)
    found = 0
    for k in range(count):
        if group_of[k] != group:
            continue
        directory, first, last = _span(m, a, k)
        for bucket in range(first, last):
            record = m.i[buckets_at(m, directory) + bucket]
            while record != 0:
                ids = ids_at(m, record)
                start, end = rows_below(m, record, a.lows[k], False), rows_below(m, record, a.highs[k], True)
                for position in range(start, end):
                    row = m.i[ids + position]
                    if _inside(m, row, w, a, count, groups):
                        out[found] = row
                        found += 1
                record = m.i[2 * record + NEXT]
    return found


@part
def _meets(w: Intervals, constraint: int, a: Intervals, count: int) -> bool:
    """Return whether the constraint has a value in common with an acceptor, or no acceptor has its channel's attribute.

    An acceptor with NaN as its low end only says that its channel's attribute is constrained.
    """
    concerned = False
    for k in range(count):
        if a.names[k] == w.names[constraint]:
            concerned = True
            if a.lows[k] <= w.highs[constraint] and w.lows[constraint] <= a.highs[k]:
                return True
    return not concerned


@kernel
def rows_meeting(
    addresses: Longs,
    names: Ints,
    lows: Floats,
    highs: Floats,
    acceptors: Ints,
    acceptor_lows: Floats,
    acceptor_highs: Floats,
    handles: int,
    out: Ints,
) -> int:
    """Write the ids of all rows that some event can satisfy together with the acceptors; return their number."""
    m = memory_at(addresses)
    w = Intervals(ints_at(names.ctypes.data), floats_at(lows.ctypes.data), floats_at(highs.ctypes.data))
    a = Intervals(
        ints_at(acceptors.ctypes.data),
        floats_at(acceptor_lows.ctypes.data),
        floats_at(acceptor_highs.ctypes.data),
    )
    found = 0
    for number in range(handles + m.meta[EXTRA_ROWS]):
        row = number if number < handles else ~(number - handles)
        if home_of(m, row) == 0:
            continue
        meets = True
        for k in range(_read(m, row, w)):
            if not _meets(w, k, a, len(acceptors)):
                meets = False
                break
        if meets:
            out[found] = row
            found += 1
    return found


@kernel
def read_rows(
    addresses: Longs, ids: Ints, starts: Longs, names: Ints, lows: Floats, highs: Floats, room: int
) -> int:
    """Write the constraints of rows one after the other; return the first row that did not fit.

    starts[n + 1] becomes where those of row n end. `room` is the most that one row may need.
    """
    m = memory_at(addresses)
    for number in range(len(ids)):
        start = starts[number]
        if start + room > len(names):
            return number
        w = Intervals(
            ints_at(names[start:].ctypes.data),
            floats_at(lows[start:].ctypes.data),
            floats_at(highs[start:].ctypes.data),
        )
        starts[number + 1] = start + _read(m, ids[number], w)
    return len(ids)
