"""The one kernel that changes rows: it notes, places, takes, moves and posts them.

These loops need the same large parts, to place a row, to take it out, and to put it into a grid. As one kernel they are
compiled once. Each kind of work is a number, and goes on where it stopped: if there is too little room for the next
row, the kernel returns its number, and the store makes more (`Store._grow`).
"""

from __future__ import annotations

from covey.matching.attributes.constraints import foresee_record, foresee_slot
from covey.matching.attributes.grids import GRID_WORDS
from covey.matching.attributes.heap import (
    BLOCK_ROOM,
    BLOCK_TOP,
    CONSTRAINTS,
    EXTRA_ROWS,
    FREED,
    FREED_ROOM,
    HANDLES,
    HEAP_ROOM,
    LARGEST_BLOCK,
    LARGEST_LIST,
    MOVED,
    POSTED_EXTRA,
    POSTED_HANDLES,
    SMALL_GRID,
    TABLE_MASK,
    TOP,
    WANTED,
    WIDEST,
)
from covey.matching.attributes.lists import home_of, ids_at, position_of
from covey.matching.attributes.memory import Intervals, Memory, Workspace, memory_at, workspace_at
from covey.matching.attributes.moving import consider_row, give_back_row
from covey.matching.attributes.postings import (
    EVERY,
    is_posted,
    post_row,
    read_any_row,
    unpost_row,
    words_to_post,
    words_to_unpost,
)
from covey.matching.attributes.ranges import SHORT
from covey.matching.attributes.rows import foresee_row, note_constraint, place_row, take_row
from covey.matching.jit import Floats, Ints, Longs, called, kernel, part, pointer_to, prefetch

# What is done with rows: count their constraints; put noted ones into lists or grids; take them out; move them to grids
# where they are better there; move the rows of grids that have few left to lists; make their postings.
NOTE, PLACE, TAKE, CONSIDER, GIVE_BACK, POST = range(6)

ROOM_WORDS = 2048  # for directories and other small records of one operation
AHEAD = 4  # rows between one step towards a record and the next: time for memory to answer


@part
def _room_for_row(m: Memory) -> int:
    """Return how many words at most one operation on a row with up to WIDEST constraints can take from the heap.

    Postings are not counted. The rows of a full short list may all go to lists that are full, and a list that moves is
    larger by a quarter, and that rounded up.
    """
    return ROOM_WORDS + 5 * m.meta[WIDEST] + (2 * SHORT + 16) * m.meta[LARGEST_LIST]


@called
def _is_short(m: Memory, postings: int) -> bool:
    """Return whether the heap or the table has too little room for one more row and its postings.

    How many words are wanted is noted then.
    """
    words = _room_for_row(m) + postings
    if (
        2 * (m.meta[CONSTRAINTS] + m.meta[WIDEST]) > m.meta[TABLE_MASK]
        or m.meta[TOP] + words > m.meta[HEAP_ROOM]
    ):
        m.meta[WANTED] = words
        return True
    # Without grids there is no largest block, and no need for one.
    if m.meta[LARGEST_BLOCK] != 0 and m.meta[BLOCK_TOP] + m.meta[LARGEST_BLOCK] > m.meta[BLOCK_ROOM]:
        m.meta[WANTED] = words
        return True
    return False


@called
def _foresee_constraints(m: Memory, starts: Longs, row: int, rows: int, w: Intervals) -> None:
    """Ask for the constraints of rows that are next but a few."""
    if row + 2 * AHEAD < rows:
        for k in range(starts[row + 2 * AHEAD], starts[row + 2 * AHEAD + 1]):
            foresee_slot(m, w.names[k], w.lows[k], w.highs[k])
    if row + AHEAD < rows:
        for k in range(starts[row + AHEAD], starts[row + AHEAD + 1]):
            foresee_record(m, w.names[k], w.lows[k], w.highs[k])


@part
def _foresee_lists(m: Memory, ids: Ints, number: int, count: int) -> None:
    """Ask for the lists and chains of rows that are next but a few."""
    if number + 4 * AHEAD < count and ids[number + 4 * AHEAD] >= 0:
        prefetch(m.homes, ids[number + 4 * AHEAD])
    if number + 3 * AHEAD < count:
        prefetch(m.f, max(0, home_of(m, ids[number + 3 * AHEAD])))
    if number + 2 * AHEAD < count:
        record = home_of(m, ids[number + 2 * AHEAD])
        if record > 0:
            prefetch(m.i, ids_at(m, record))
    if number + AHEAD < count:
        record = home_of(m, ids[number + AHEAD])
        if record > 0:
            foresee_row(m, record, position_of(m, record, ids[number + AHEAD]))


@called
def _note_rows(m: Memory, starts: Longs, w: Intervals, first: int, last: int) -> int:
    for row in range(first, last):
        if _is_short(m, 0):
            return row
        _foresee_constraints(m, starts, row, last, w)
        for k in range(starts[row], starts[row + 1]):
            note_constraint(m, w.names[k], w.lows[k], w.highs[k])
    return last


@called
def _place_rows(m: Memory, ids: Ints, starts: Longs, w: Intervals, first: int, last: int) -> int:
    for row in range(first, last):
        posts = is_posted(m, ids[row])
        if _is_short(m, words_to_post(m, w, starts[row], starts[row + 1]) if posts else 0):
            return row
        _foresee_constraints(m, starts, row, last, w)
        place_row(m, ids[row], w, starts[row], starts[row + 1], True)
        if posts:
            post_row(m, ids[row], w, starts[row], starts[row + 1])
    return last


@called
def _take_rows(m: Memory, ids: Ints, room: Workspace, first: int, last: int) -> int:
    for number in range(first, last):
        posts = is_posted(m, ids[number])
        if _is_short(m, words_to_unpost(m, ids[number], room.intervals) if posts else 0):
            return number
        if m.meta[FREED] + 2 * m.meta[WIDEST] > m.meta[FREED_ROOM]:
            return number
        _foresee_lists(m, ids, number, last)
        count = take_row(m, ids[number], room.intervals, room.freed_channels, room.freed_values)
        if posts:
            unpost_row(m, ids[number], room.intervals, count)
    return last


@called
def _consider_rows(m: Memory, room: Workspace, first: int, last: int) -> int:
    for number in range(first, last):
        if _is_short(m, GRID_WORDS):
            return number
        m.meta[MOVED] += consider_row(
            m, number, room.intervals, room.crowds, room.freed_channels, room.freed_values
        )
    return last


@called
def _give_back_rows(m: Memory, room: Workspace, first: int, last: int) -> int:
    while m.meta[SMALL_GRID] != 0:
        if _is_short(m, 0):
            return first
        give_back_row(m, m.meta[SMALL_GRID], room.intervals, room.freed_channels, room.freed_values)
    return last


@called
def _post_rows(m: Memory, w: Intervals, first: int, last: int) -> int:
    """Add the postings of so many rows that have none, those of handles first, until all have theirs."""
    for number in range(first, last):
        if m.meta[POSTED_HANDLES] < m.meta[HANDLES]:
            row, place = m.meta[POSTED_HANDLES], POSTED_HANDLES
        elif m.meta[POSTED_EXTRA] < m.meta[EXTRA_ROWS]:
            m.meta[POSTED_HANDLES] = EVERY
            row, place = ~m.meta[POSTED_EXTRA], POSTED_EXTRA
        else:
            m.meta[POSTED_HANDLES] = m.meta[POSTED_EXTRA] = EVERY
            return last
        if home_of(m, row) != 0:
            count = read_any_row(m, row, w)
            words = words_to_post(m, w, 0, count)
            if m.meta[TOP] + words > m.meta[HEAP_ROOM]:
                m.meta[WANTED] = words
                return number
            post_row(m, row, w, 0, count)
        m.meta[place] += 1
    return last


@kernel
def change_rows(
    addresses: Longs,
    work: int,
    ids: Ints,
    starts: Longs,
    names: Ints,
    lows: Floats,
    highs: Floats,
    first: int,
    last: int,
) -> int:
    """Do a kind of work with rows from number `first` up to `last`; return the first one for which there was no room,
    `last` if there is none.

    NOTE and PLACE are given the constraints of the row n that has the id ids[n]: those from starts[n] to starts[n + 1].
    TAKE is given ids only; rows are numbered by themselves for CONSIDER and POST, and GIVE_BACK has no numbers. What
    else they need is in the workspace.
    """
    m, room = memory_at(addresses), workspace_at(addresses)
    w = Intervals(pointer_to(names), pointer_to(lows), pointer_to(highs))
    given, ends = pointer_to(ids), pointer_to(starts)
    if work == NOTE:
        return _note_rows(m, ends, w, first, last)
    if work == PLACE:
        return _place_rows(m, given, ends, w, first, last)
    if work == TAKE:
        return _take_rows(m, given, room, first, last)
    if work == CONSIDER:
        return _consider_rows(m, room, first, last)
    if work == GIVE_BACK:
        return _give_back_rows(m, room, first, last)
    return _post_rows(m, room.intervals, first, last)
