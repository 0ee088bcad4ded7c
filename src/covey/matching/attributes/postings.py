"""Postings: every constraint of every row, found by its channel and low end.

They answer "whom does this filter cover" and "whom does it overlap". A conjunction becomes *acceptors*: intervals
(channel, low, high), each belonging to one of its attributes, its *group*. A row has at most one constraint an
attribute.

It lies inside the conjunction when each group has an acceptor that contains one of the row's constraints. Candidates
come from the group with the fewest postings. The next ones take out those that they do not have, as long as their
postings are few beside the candidates left: postings of a channel lie side by side, and a row is far away. What is left
then is looked at row by row.

It overlaps the conjunction when none of its constraints misses all acceptors of its attribute. If some attribute is
constrained by all rows, as that of a topic mostly is, candidates are those that meet its acceptors. Otherwise most rows
overlap, and those that do not are found among the postings of the conjunction's attributes.

Postings are kept only once the first such question was asked, or is expected: they take about 20 bytes a constraint.
They are made some rows at a time. Until all have theirs, a row that comes or goes has postings if its number is below
those that were reached.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from covey.matching.attributes.grids import is_in_block, read_from_block
from covey.matching.attributes.heap import (
    EXTRA_ROWS,
    HANDLES,
    POSTED_EXTRA,
    POSTED_HANDLES,
    ROWS,
    class_words,
    size_class,
)
from covey.matching.attributes.layout import Channel, Directory, RowList
from covey.matching.attributes.lists import (
    CHUNK,
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
A_ROW = 32  # postings that are looked at in the time in which a row is
MOST_CANDIDATES = 8  # of so many rows one may be a candidate, to be looked at by itself
RARE = 256  # constraints on a channel, of which one looks at all rather than find out how many are concerned
TRIED = 32  # rows that may show at once that something overlaps
EVERY = 1 << 62  # as the number of rows that have postings: all of them, and whatever comes


@part
def is_posted(m: Memory, row: int) -> bool:
    """Return whether a row that comes or goes has postings."""
    return row < m.meta[POSTED_HANDLES] if row >= 0 else ~row < m.meta[POSTED_EXTRA]


@part
def _post(m: Memory, channel: int, low: float, high: float, row: int) -> None:
    """Add one posting."""
    ways = Channel(m, channel)
    if ways.postings == 0:
        ways.postings = new_directory(m, channel, POSTING)
    while not has_room(m, ways.postings, low):
        make_room(m, ways.postings, low)
    directory = ways.postings
    place = buckets_at(m, directory) + bucket_of(m, directory, low)
    record = append(m, m.i[place], row)
    header = RowList(m, record)
    m.i[place] = record
    key = key_at(m, record) + header.length - 1
    m.f[key], m.f[key + header.capacity] = low, high
    put_in_order(m, record)


@part
def _unpost(m: Memory, channel: int, low: float, row: int) -> None:
    """Take one posting away."""
    directory = Channel(m, channel).postings
    bucket = bucket_of(m, directory, low)
    place = buckets_at(m, directory) + bucket
    record = m.i[place]
    while True:
        position = rows_below(m, record, low, False)
        ids, length = ids_at(m, record), RowList(m, record).length
        while position < length and m.i[ids + position] != row:
            position += 1
        if position < length:
            break
        record = RowList(m, record).next
    moved = remove_at(m, record, position)
    header = RowList(m, moved)
    if header.length == 0:
        m.i[place] = relink(m, m.i[place], record, header.next)
        drop_list(m, moved)
        if m.i[place] == 0:
            drop_bucket(m, directory, bucket)
    elif moved != record:
        m.i[place] = relink(m, m.i[place], record, moved)


@part
def read_any_row(m: Memory, row: int, w: Intervals) -> int:
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
        directory = Channel(m, w.names[k]).postings
        if directory == 0:
            words += NEW_WORDS
            continue
        record = m.i[buckets_at(m, directory) + bucket_of(m, directory, w.lows[k])]
        header = RowList(m, record)
        length = header.length
        if length >= CHUNK or header.next != 0:  # it is split, or gets a list before or behind it
            words += 2 * class_words(size_class(list_words(POSTING, CHUNK)))
            words += class_words(size_class(directory_words(larger_room(Directory(m, directory).count))))
        if length == header.capacity:
            words += class_words(size_class(list_words(POSTING, larger_capacity(length))))
    return words


@called
def words_to_unpost(m: Memory, row: int, w: Intervals) -> int:
    """Return how many words at most it can take from the heap to take the postings of a row away: lists may move.

    The constraints of the row are written to `w`.
    """
    words = 0
    for k in range(read_any_row(m, row, w)):
        directory = Channel(m, w.names[k]).postings
        record = m.i[buckets_at(m, directory) + bucket_of(m, directory, w.lows[k])]
        header = RowList(m, record)
        rows = CHUNK if header.next != 0 else header.capacity
        words += class_words(size_class(list_words(POSTING, rows)))
    return words


@part
def post_row(m: Memory, row: int, w: Intervals, start: int, end: int) -> None:
    """Add the postings of a row with these constraints."""
    for k in range(start, end):
        _post(m, w.names[k], w.lows[k], w.highs[k], row)


@part
def unpost_row(m: Memory, row: int, w: Intervals, count: int) -> None:
    """Take the postings of a row away; its constraints are the first `count` of `w`."""
    for k in range(count):
        _unpost(m, w.names[k], w.lows[k], row)


class Question(NamedTuple):
    """A conjunction as acceptors, those of its group g from starts[g] to starts[g + 1], and room to work in.

    `w` has room for the constraints of one row, `sizes` for a number for each group, and `marks` for a bit for each
    row, all zero.
    """

    a: Intervals
    starts: Ints
    w: Intervals
    sizes: Longs
    marks: Longs


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
def _inside(m: Memory, row: int, q: Question, groups: int) -> bool:
    """Return whether the row lies inside the conjunction."""
    constraints = read_any_row(m, row, q.w)
    accepted = 0
    for k in range(constraints):
        accepted += _accepted(q.w, k, q.a, q.starts[groups])
        if accepted + constraints - 1 - k < groups:
            return False
    return accepted == groups


# -- which rows lie inside -----------------------------------------------------------------------------------


@part
def _span(m: Memory, a: Intervals, acceptor: int) -> tuple[int, int, int]:
    """Return the posting directory of an acceptor's channel and the buckets where constraints inside it may begin."""
    directory = Channel(m, a.names[acceptor]).postings
    if directory == 0:
        return 0, 0, 0
    return (
        directory,
        bucket_of(m, directory, a.lows[acceptor]),
        bucket_of(m, directory, a.highs[acceptor]) + 1,
    )


@part
def _references(m: Memory, q: Question, group: int) -> int:
    """Return how many constraints there are on the channels of a group's acceptors: at least their postings."""
    total = 0
    for k in range(q.starts[group], q.starts[group + 1]):
        total += Channel(m, q.a.names[k]).references
    return total


@called
def _postings_of(m: Memory, q: Question, group: int) -> int:
    """Return how many postings the acceptors of a group have, by whole buckets but for single ones."""
    total = 0
    for k in range(q.starts[group], q.starts[group + 1]):
        directory, first, last = _span(m, q.a, k)
        if last - first == 1:
            record = m.i[buckets_at(m, directory) + first]
            while record != 0:
                total += rows_below(m, record, q.a.highs[k], True) - rows_below(m, record, q.a.lows[k], False)
                record = RowList(m, record).next
        else:
            total += CHUNK * (last - first)
    return total


@part
def _number_of(row: int, handles: int) -> int:
    """Return the number of a row: those of handles come first."""
    return row if row >= 0 else handles + ~row


@part
def _mark(marks: Longs, number: int) -> None:
    marks[number >> 6] |= 1 << (number & 63)


@part
def _unmark(marks: Longs, number: int) -> None:
    marks[number >> 6] &= ~(1 << (number & 63))


@part
def _is_marked(marks: Longs, number: int) -> int:
    return (marks[number >> 6] >> (number & 63)) & 1


@called
def _gather_inside(m: Memory, q: Question, group: int, marked: bool, out: Ints) -> int:
    """Write the ids of rows with a constraint inside an acceptor of a group, if `marked` of marked ones only; return
    their number."""
    found, handles, a = 0, m.meta[HANDLES], q.a
    for k in range(q.starts[group], q.starts[group + 1]):
        directory, first, last = _span(m, a, k)
        for bucket in range(first, last):
            record = m.i[buckets_at(m, directory) + bucket]
            while record != 0:
                ids, highs = ids_at(m, record), key_at(m, record) + RowList(m, record).capacity
                start, end = rows_below(m, record, a.lows[k], False), rows_below(m, record, a.highs[k], True)
                for position in range(start, end):
                    row = m.i[ids + position]
                    out[found] = row
                    inside = m.f[highs + position] <= a.highs[k]
                    if marked:
                        inside &= _is_marked(q.marks, _number_of(row, handles)) != 0
                    found += inside
                record = RowList(m, record).next
    return found


@part
def _estimate(m: Memory, q: Question, groups: int) -> bool:
    """Write to `sizes` about how many postings each group has; return whether some group has none.

    If there is a rare channel, constraints on channels are counted instead, which needs no look at postings.
    """
    fewest = 1 << 62
    for group in range(groups):
        q.sizes[group] = _references(m, q, group)
        fewest = min(fewest, q.sizes[group])
    if fewest > RARE:
        for group in range(groups):
            q.sizes[group] = _postings_of(m, q, group)
            fewest = min(fewest, q.sizes[group])
    return fewest == 0


@called
def rows_inside(m: Memory, q: Question, groups: int, out: Ints) -> int:
    """Write the ids of all rows inside the conjunction, which has at least one group; return their number.

    `out` has room for all rows twice.
    """
    if _estimate(m, q, groups):
        return 0
    found, asked, handles = 0, 0, m.meta[HANDLES]
    while asked < groups:
        best = 0
        for group in range(1, groups):
            if q.sizes[group] < q.sizes[best]:
                best = group
        if asked > 0 and (found == 0 or q.sizes[best] > A_ROW * found):
            break
        for k in range(found):
            _mark(q.marks, _number_of(out[k], handles))
        # What was found before is marked; it is unmarked from behind the new ones, which are never more.
        for k in range(found):
            out[m.meta[ROWS] + k] = out[k]
        before, found = found, _gather_inside(m, q, best, asked > 0, out)
        for k in range(before):
            _unmark(q.marks, _number_of(out[m.meta[ROWS] + k], handles))
        q.sizes[best] = EVERY
        asked += 1
    if asked == groups:
        return found
    last = found
    found = 0
    for k in range(last):
        row = out[k]
        if _inside(m, row, q, groups):
            out[found] = row
            found += 1
    return found


# -- which rows overlap --------------------------------------------------------------------------------------


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


@part
def _all_meet(m: Memory, row: int, q: Question, count: int) -> bool:
    """Return whether the row overlaps the conjunction."""
    for k in range(read_any_row(m, row, q.w)):
        if not _meets(q.w, k, q.a, count):
            return False
    return True


@part
def _is_repeated(a: Intervals, acceptor: int) -> bool:
    """Return whether an acceptor before this one has its channel."""
    for k in range(acceptor):
        if a.names[k] == a.names[acceptor]:
            return True
    return False


@part
def _first_begin(m: Memory, a: Intervals, acceptor: int) -> float:
    """Return the least low end of constraints on an acceptor's channel that may meet it: without ranges its own."""
    if Channel(m, a.names[acceptor]).ranges == 0:
        return float(a.lows[acceptor])
    return -np.inf


@called
def _common_group(m: Memory, q: Question, groups: int) -> int:
    """Return the group, of those whose attribute all rows constrain, that has the fewest postings to look at; -1 if
    none has so few that rows are better looked at one by one."""
    best, fewest, a = -1, m.meta[ROWS] // MOST_CANDIDATES, q.a
    for group in range(groups):
        rows, total = 0, 0
        for k in range(q.starts[group], q.starts[group + 1]):
            if not _is_repeated(a, k):
                rows += Channel(m, a.names[k]).references
            directory = Channel(m, a.names[k]).postings
            if directory != 0 and a.lows[k] == a.lows[k]:
                first = bucket_of(m, directory, _first_begin(m, a, k))
                total += CHUNK // 2 * (bucket_of(m, directory, a.highs[k]) + 1 - first)
        if rows == m.meta[ROWS] and total <= fewest:
            best, fewest = group, total
    return best


@called
def _gather_meeting(m: Memory, q: Question, group: int, out: Ints) -> int:
    """Write the ids of rows with a constraint that meets an acceptor of a group, each once; return their number."""
    found, handles, a = 0, m.meta[HANDLES], q.a
    for k in range(q.starts[group], q.starts[group + 1]):
        directory = Channel(m, a.names[k]).postings
        if directory == 0 or a.lows[k] != a.lows[k]:
            continue
        begin = _first_begin(m, a, k)
        for bucket in range(bucket_of(m, directory, begin), bucket_of(m, directory, a.highs[k]) + 1):
            record = m.i[buckets_at(m, directory) + bucket]
            while record != 0:
                ids, highs = ids_at(m, record), key_at(m, record) + RowList(m, record).capacity
                start, end = rows_below(m, record, begin, False), rows_below(m, record, a.highs[k], True)
                for position in range(start, end):
                    row = m.i[ids + position]
                    number = _number_of(row, handles)
                    if m.f[highs + position] >= a.lows[k] and _is_marked(q.marks, number) == 0:
                        _mark(q.marks, number)
                        out[found] = row
                        found += 1
                record = RowList(m, record).next
    for k in range(found):
        _unmark(q.marks, _number_of(out[k], handles))
    return found


@called
def _mark_missing(m: Memory, q: Question, count: int, acceptor: int) -> None:
    """Mark the rows whose constraint on an acceptor's channel misses all acceptors."""
    channel, handles, a = q.a.names[acceptor], m.meta[HANDLES], q.a
    directory = Channel(m, channel).postings
    buckets = 0 if directory == 0 else Directory(m, directory).count
    for bucket in range(buckets):
        record = m.i[buckets_at(m, directory) + bucket]
        while record != 0:
            ids, lows = ids_at(m, record), key_at(m, record)
            highs = lows + RowList(m, record).capacity
            for position in range(RowList(m, record).length):
                low, high, misses = m.f[lows + position], m.f[highs + position], 1
                for k in range(acceptor, count):
                    if a.names[k] == channel:
                        misses &= 1 - ((a.lows[k] <= high) & (low <= a.highs[k]))
                number = _number_of(m.i[ids + position], handles)
                q.marks[number >> 6] |= misses << (number & 63)
            record = RowList(m, record).next


@called
def rows_meeting(m: Memory, q: Question, groups: int, out: Ints, limit: int) -> int:
    """Write the ids of all rows that some event can satisfy together with the acceptors; return their number.

    With a limit it may stop at so many. The room is that of `rows_inside`.
    """
    count, found, handles = q.starts[groups], 0, m.meta[HANDLES]
    group = _common_group(m, q, groups)
    if group >= 0:
        candidates = _gather_meeting(m, q, group, out)
        for k in range(candidates):
            row = out[k]
            if _all_meet(m, row, q, count):
                out[found] = row
                found += 1
                if found >= limit:
                    break
        return found
    for k in range(count):
        if not _is_repeated(q.a, k):
            _mark_missing(m, q, count, k)
    for number in range(handles + m.meta[EXTRA_ROWS]):
        row = number if number < handles else ~(number - handles)
        out[found] = row
        found += (home_of(m, row) != 0) & (_is_marked(q.marks, number) == 0)
    for word in range((handles + m.meta[EXTRA_ROWS] + 63) >> 6):
        q.marks[word] = 0
    return found


@called
def meets_any(m: Memory, q: Question, groups: int, out: Ints) -> bool:
    """Return whether some event can satisfy a row together with the acceptors.

    Mostly one can: then a row constrains none of these attributes, or one of a few rows from here and there shows it.
    """
    count, rows, constraints = q.starts[groups], m.meta[HANDLES] + m.meta[EXTRA_ROWS], 0
    if m.meta[ROWS] == 0:
        return False
    for k in range(count):
        if not _is_repeated(q.a, k):
            constraints += Channel(m, q.a.names[k]).references
    if constraints < m.meta[ROWS]:
        return True
    step = max(1, rows // TRIED)
    for number in range(0, rows, step):
        row = number if number < m.meta[HANDLES] else ~(number - m.meta[HANDLES])
        if home_of(m, row) != 0 and _all_meet(m, row, q, count):
            return True
    return rows_meeting(m, q, groups, out, 1) > 0


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
        starts[number + 1] = start + read_any_row(m, ids[number], w)
    return len(ids)
