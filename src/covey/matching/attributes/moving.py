"""Moving rows between lists and grids, by what queries have met.

Lists count how often queries had to verify their rows (`lists.note_visit`). Rows of lists that were met too often are
cheaper in a grid. One row after the other is looked at, in order of their numbers and over and over: those for whose
channels there is a grid move there, and the others are counted until there are enough for a new one: LEAST_ROWS on the
same channels, or LEAST_MIXED with the same anchor, of which at least half are on the channels that most of them are on.
A grid with few rows left gives them back to lists. One that is stale gives its rows to a new one, in the same way.

How many rows are looked at is measured out by what queries have spent on verifying (`store.Store.tidy`), so that moving
costs a share of what is lost without it, and nothing where nothing is lost.
"""

from __future__ import annotations

import numpy as np

from covey.matching.attributes.constraints import hash_of
from covey.matching.attributes.grids import (
    MOST_COLUMNS,
    anchor_of,
    append_to_grid,
    column_of,
    columns_of,
    cut_column,
    find_grid,
    grid_of_block,
    is_end,
    is_in_block,
    is_stale,
    new_grid,
    next_up,
    read_from_block,
    row_of_grid,
)
from covey.matching.attributes.heap import EXTRA_ROWS, GRIDS, HANDLES, ROWS
from covey.matching.attributes.layout import RowList
from covey.matching.attributes.lists import VERIFY, home_of, is_poor, position_of
from covey.matching.attributes.memory import Intervals, Memory
from covey.matching.attributes.rows import is_dear, least_cost, note_constraint, place_row, read_row, take_row
from covey.matching.jit import Floats, Ints, Longs, called, part

LEAST_ROWS = 512  # on the same channels, for which a grid is made
LEAST_MIXED = 2048  # with the same anchor, for which a grid is made for most of their channels
CANDIDATES = 256  # channels that are counted for one
SAMPLE = 512  # rows from which the cuts of a grid are drawn
SEARCHED = 4096  # rows among which they are looked for
CROWDS = 1024  # sets of channels that are counted at a time
ANCHORS = 256  # anchors that are
CROWD_WORDS = 2 * (CROWDS + ANCHORS)
_PROBES = 8


@part
def _row_at(m: Memory, number: int) -> int:
    """Return the id of a row by its number: those of handles come first."""
    return number if number < m.meta[HANDLES] else ~(number - m.meta[HANDLES])


@part
def _read_poor(m: Memory, row: int, w: Intervals) -> int:
    """Write the constraints of a row that would be better in a grid into the arrays; return their number, else 0.

    Besides rows that queries have met too often those are, whose like have gone to a grid before, and rows of stale
    grids.
    """
    record = home_of(m, row)
    if is_in_block(record):
        return read_from_block(m, row, w) if is_stale(m, grid_of_block(m, -record)) else 0
    if record == 0 or RowList(m, record).kind < VERIFY:
        return 0
    poor = is_poor(m, record)
    if not poor and m.meta[GRIDS] == 0:
        return 0
    count = read_row(m, record, position_of(m, record, row), w)
    if anchor_of(m, w, 0, count) == 0:
        return 0
    if not poor and not (is_dear(m, least_cost(m, w, count)) and find_grid(m, w, 0, count) != 0):
        return 0
    return count


@part
def _crowd_of(w: Intervals, count: int) -> int:
    """Return a number for the set of channels of these constraints: the same for each order of them."""
    total = 0
    for k in range(count):
        total += hash_of(w.names[k], 1.0, 1.0)
    return total | 1


@part
def _counted(crowds: Longs, crowd: int) -> int:
    """Count one more row of a crowd; return how many there are now, 0 if there is no room to count it."""
    for probe in range(_PROBES):
        place = 2 * ((crowd + probe) % CROWDS)
        if crowds[place] == 0 or crowds[place] == crowd:
            crowds[place] = crowd
            crowds[place + 1] += 1
            return int(crowds[place + 1])
    return 0


@part
def _is_enough(crowds: Longs, anchor: int) -> bool:
    """Count one more row with an anchor; return whether there are enough for a grid, and begin again then."""
    place = 2 * (CROWDS + anchor % ANCHORS)
    if crowds[place] != 0 and crowds[place] != anchor:
        return False
    crowds[place] = anchor
    crowds[place + 1] += 1
    if crowds[place + 1] < LEAST_MIXED:
        return False
    crowds[place + 1] = 0
    return True


@called
def _cut_grid(m: Memory, grid: int, number: int, w: Intervals) -> None:
    """Choose the cuts of a new grid by rows that belong there, from the one with this number on."""
    rows = m.meta[HANDLES] + m.meta[EXTRA_ROWS]
    ends, counts = np.empty((MOST_COLUMNS, 2 * SAMPLE)), np.zeros(MOST_COLUMNS, np.int64)
    seen = 0
    for step in range(min(rows, SEARCHED)):
        count = _read_poor(m, _row_at(m, (number + step) % rows), w)
        if count == 0 or find_grid(m, w, 0, count) != grid:
            continue
        for k in range(count):
            column = column_of(m, grid, w.names[k])
            for end in (w.lows[k], next_up(w.highs[k])):
                if is_end(end):
                    ends[column, counts[column]] = end
                    counts[column] += 1
        seen += 1
        if seen == SAMPLE:
            break
    for column in range(columns_of(m, grid)):
        cut_column(m, grid, column, ends[column], counts[column])


@part
def _place_of(channels: Ints, count: int, channel: int) -> int:
    """Return where a channel is among the first `count`; `count` if it is not."""
    place = 0
    while place < count and channels[place] != channel:
        place += 1
    return place


@called
def _popular_channels(m: Memory, anchor: int, number: int, w: Intervals) -> int:
    """Write the channels that most of the next rows with this anchor constrain, itself among them, to `w`; return how
    many, 0 if fewer than half of those rows constrain no others."""
    rows = m.meta[HANDLES] + m.meta[EXTRA_ROWS]
    channels, uses = np.empty(CANDIDATES + 1, np.int32), np.zeros(CANDIDATES + 1, np.int64)
    sample, sizes = np.empty((SAMPLE, MOST_COLUMNS), np.int32), np.zeros(SAMPLE, np.int64)
    seen, known = 0, 0
    for step in range(min(rows, SEARCHED)):
        count = _read_poor(m, _row_at(m, (number + step) % rows), w)
        if count == 0 or anchor_of(m, w, 0, count) != anchor or find_grid(m, w, 0, count) != 0:
            continue
        for k in range(count):
            sample[seen, k] = w.names[k]
            place = _place_of(channels, known, w.names[k])
            if place < CANDIDATES:
                channels[place] = w.names[k]
                known = max(known, place + 1)
                uses[place] += 1
        sizes[seen] = count
        seen += 1
        if seen == SAMPLE:
            break
    chosen = 0
    while chosen < min(known, MOST_COLUMNS):
        best = chosen
        for place in range(chosen, known):
            if uses[place] > uses[best]:
                best = place
        channels[chosen], channels[best] = channels[best], channels[chosen]
        uses[chosen], uses[best] = uses[best], uses[chosen]
        chosen += 1
    fitting = 0
    for k in range(seen):
        fits = True
        for side in range(sizes[k]):
            fits &= _place_of(channels, chosen, sample[k, side]) < chosen
        fitting += fits
    for k in range(chosen):
        w.names[k] = channels[k]
    return chosen if 2 * fitting >= seen else 0


@called
def _new_grid_for(m: Memory, w: Intervals, count: int, number: int, crowds: Longs) -> int:
    """Count a row that has no grid, whose constraints are the first of `w`; return a new grid if that is worth making
    for its like, else 0."""
    anchor, columns = anchor_of(m, w, 0, count), 0
    if _counted(crowds, _crowd_of(w, count)) >= LEAST_ROWS:
        columns = count
    elif _is_enough(crowds, anchor):
        columns = _popular_channels(m, anchor, number, w)
    if columns == 0:
        return 0
    grid = new_grid(m, w, 0, columns)
    _cut_grid(m, grid, number, w)
    return grid


@called
def _take_noted(m: Memory, row: int, w: Intervals, count: int, channels: Ints, values: Floats) -> None:
    """Take a row out whose constraints are the first of `w`, such that none of them is forgotten meanwhile."""
    for k in range(count):
        note_constraint(m, w.names[k], w.lows[k], w.highs[k])
    take_row(m, row, w, channels, values)


@part
def consider_row(m: Memory, number: int, w: Intervals, crowds: Longs, channels: Ints, values: Floats) -> bool:
    """Move the row with this number to a grid if it is better there; return whether it moved.

    The room is that of `take_row`; nothing is added to the freed channels and values.
    """
    row = _row_at(m, number)
    count = _read_poor(m, row, w)
    if count == 0:
        return False
    grid = find_grid(m, w, 0, count)
    if grid == 0:
        if _new_grid_for(m, w, count, number, crowds) == 0:
            return False
        count = _read_poor(m, row, w)
        grid = find_grid(m, w, 0, count)
        if grid == 0:  # a grid for most of its like is not one for it
            return False
    _take_noted(m, row, w, count, channels, values)
    append_to_grid(m, grid, row, w, 0, count)
    m.meta[ROWS] += 1
    return True


@part
def give_back_row(m: Memory, grid: int, w: Intervals, channels: Ints, values: Floats) -> None:
    """Move a row of a grid to lists."""
    row = row_of_grid(m, grid)
    count = read_from_block(m, row, w)
    _take_noted(m, row, w, count, channels, values)
    place_row(m, row, w, 0, count, False)
