"""Grids: rows on the same channels side by side, as bits, for conjunctions none of whose constraints selects well.

A *grid* is a set of channels, each with up to CUTS cuts that part its numbers into BUCKETS. Its rows stand in
*blocks*. For each channel a block has STRINGS strings of bits, one bit a row: one for each bucket, which says that the
row's range has a number of the bucket in it, and one before and one behind them, which say that the range has no end
on that side. So the bits of a row are set in a run of strings. Rows constrain the grid's anchor, the smallest of its
channels that is not one for absence, and any of its other channels; the last string says which rows are *free* on a
channel, and they have their bits in all strings of it. Sets of channels that few rows share have a grid together so.

An event falls into one bucket a channel. The rows that can match it are those in the conjunction of its buckets'
strings. If a row's bit is set in the strings before and behind the bucket too, its range contains the whole bucket; of
the few others the ends are looked up. That is done for up to TALLEST lines of LINE_ROWS rows at a time, without a look
at any row that fails. Where an event says nothing of a channel the string of free rows takes the place of its
bucket's. An interval (a filter asked about) has two buckets a channel, those of its ends.

Cuts are ends of ranges: where few values are popular each has a bucket of its own. A bucket inside which no range ends
needs no look-up at all; a grid knows which ones those are not (`_is_torn`). Cuts are drawn from rows that are there
when the grid is made; those that come later are judged right with any cuts. If they come to lie in few buckets, many
are looked up: then the grid is *stale*, and its rows move to a new one (moving.py).

A block is `height` lines high. The first block of a grid grows and shrinks by doubling and halving, up to TALLEST
lines; then another one is begun before it. Every block but the first is full: the row that leaves gives its place to
the last one of the first block. Bits behind the last row are zero. A block is a run of 64-byte lines in `blocks`, and a
pointer to one is the number of its first line:

    length, grid, next, height, links      a line
    ids                                    an int32 a row
    for each channel                       STRINGS times `height` lines; then each row's ends

That is 32.4 bytes a channel and 4 a row. A row's home is the negative of its block. Grids are found by their anchor,
without which no event can match their rows. The first lines of `blocks` are no block but the room of a query.
"""

from __future__ import annotations

import numpy as np

from covey.matching.attributes.heap import (
    BLOCK_TOP,
    FREE_BLOCKS,
    GRIDS,
    HEIGHTS,
    LARGEST_BLOCK,
    LINKED,
    ROWS,
    SMALL_GRID,
    VERIFIED,
    allocate,
    free,
)
from covey.matching.attributes.layout import LINE, Block, Channel, Grid, Value
from covey.matching.attributes.lists import home_of, link_bit, new_handle, set_home
from covey.matching.attributes.memory import Intervals, Memory
from covey.matching.jit import (
    Ints,
    and_line,
    bits_float,
    called,
    copy_line,
    edge_line,
    float_bits,
    part,
    prefetch,
    sort,
    trailing_zeros,
)
from covey.matching.records import WORD

MOST_COLUMNS = 16  # channels of a grid
BUCKETS = 128
CUTS = BUCKETS - 1
UNBOUNDED = BUCKETS + 1  # the string of rows without an upper end
FREE = BUCKETS + 2  # the string of rows without a constraint
STRINGS = BUCKETS + 3
ROOMY = 8  # channels of a grid for each that a row constrains, at most
LINE_ROWS = 512
TALLEST = 16  # lines of a block
FEWEST_ROWS = 64  # with which a grid is kept

# Behind a grid's header are its channels, and for each of them its cuts and a bit for each bucket.
GRID_HEADER = Grid.BYTES // WORD
TORN = BUCKETS // 64  # words
GRID_WORDS = GRID_HEADER + MOST_COLUMNS // 2 + (BUCKETS + TORN) * MOST_COLUMNS

IDS = 2 * LINE  # where the ids of a block are, as int32 numbers from its start
BITS = LINE * STRINGS  # words of a column for each line of height
# Columns are some lines longer than they need: with a power of two all of them would share a few places in caches.
SPARE = 3 * LINE
# Enough for the first block of any grid.
FIRST_WORDS = LINE + LINE_ROWS // 2 + MOST_COLUMNS * (BITS + 2 * LINE_ROWS + SPARE)

# The room of a query in `blocks`: the rows still in question, a bit each; words of them with rows to look up, and which
# words those are; rows to look up; and the strings of bits that are looked at, by column and string.
LEFT = 0
EDGES = LEFT + TALLEST * LINE
EDGE_WORD = EDGES + TALLEST * LINE
LOOK_UPS = EDGE_WORD + TALLEST * LINE
MANY = 512  # there is room for so many and another one for each word
COLUMN_OF = LOOK_UPS + MANY + TALLEST * LINE
STRING_OF = COLUMN_OF + 2 * MOST_COLUMNS
LOOKED_UP = STRING_OF + 2 * MOST_COLUMNS  # how many ranges were looked up in a grid
QUERY_ROOM = LOOKED_UP + LINE  # words, whole lines
IS_STALE = 64
TOO_MANY = 8  # a query looks up too much if that is one of so many ranges of a grid with
STALE_ROWS = 1024  # rows at least
NOTHING, EVERY_ROW = 0, -1  # instead of how many strings of bits to look at


@part
def _channels_at(grid: int) -> int:
    """Return where in `i` the channels of a grid are."""
    return 2 * (grid + GRID_HEADER)


@part
def _cuts_at(grid: int, column: int) -> int:
    """Return where in `f` the cuts of a column are."""
    return grid + GRID_HEADER + MOST_COLUMNS // 2 + (BUCKETS + TORN) * column


@part
def _is_torn(m: Memory, grid: int, column: int, bucket: int) -> bool:
    """Return whether a range has ever ended inside a bucket."""
    place = 2 * (_cuts_at(grid, column) + BUCKETS) + (bucket >> 5)
    return (m.i[place] >> (bucket & 31)) & 1 != 0


@part
def _note_tear(m: Memory, grid: int, column: int, bucket: int) -> None:
    m.i[2 * (_cuts_at(grid, column) + BUCKETS) + (bucket >> 5)] |= 1 << (bucket & 31)


@part
def _column_words(height: int) -> int:
    return height * (BITS + 2 * LINE_ROWS) + SPARE


@part
def _block_words(columns: int, height: int) -> int:
    """Return how many words a block takes."""
    return LINE + height * LINE_ROWS // 2 + columns * _column_words(height)


@part
def _chain_of(columns: int, height: int) -> int:
    """Return where in `meta` the free blocks of this size are."""
    return FREE_BLOCKS + HEIGHTS * columns + trailing_zeros(height)


@part
def is_in_block(home: int) -> bool:
    """Return whether a row with this home stands in a block."""
    return home < 0


@part
def _bucket_of(m: Memory, cuts: int, value: float) -> int:
    """Return how many cuts are not greater than the value."""
    bucket, half = 0, BUCKETS // 2
    while half > 0:
        bucket += half * (m.f[cuts + bucket + half - 1] <= value)
        half >>= 1
    return bucket


@part
def next_up(value: float) -> float:
    """Return the next greater float64."""
    if value == np.inf:
        return value
    bits = float_bits(value + 0.0)  # -0.0 is 0
    return bits_float(bits + 1 if value >= 0.0 else bits - 1)


@part
def anchor_of(m: Memory, w: Intervals, start: int, end: int) -> int:
    """Return the channel under which a grid for such a row is found; 0 if there can be none."""
    anchor = 0
    if end - start > MOST_COLUMNS:
        return 0
    for k in range(start, end):
        channel = w.names[k]
        if Channel(m, channel).absence == 0 and (anchor == 0 or channel < anchor):
            anchor = channel
    return anchor


@part
def _side_of(w: Intervals, start: int, end: int, channel: int) -> int:
    """Return which of the constraints is on the channel; -1 if none is."""
    for k in range(start, end):
        if w.names[k] == channel:
            return k
    return -1


@part
def columns_of(m: Memory, grid: int) -> int:
    """Return how many channels a grid has."""
    return int(Grid(m, grid).columns)


@part
def is_stale(m: Memory, grid: int) -> bool:
    """Return whether a grid is to give its rows to one with other cuts."""
    return Grid(m, grid).stale == IS_STALE


@part
def grid_of_block(m: Memory, block: int) -> int:
    """Return the grid of a block."""
    return int(Block(m, block).grid)


@part
def column_of(m: Memory, grid: int, channel: int) -> int:
    """Return which of a grid's columns is that of a channel, which it has."""
    column = 0
    while m.i[_channels_at(grid) + column] != channel:
        column += 1
    return column


@part
def row_of_grid(m: Memory, grid: int) -> int:
    """Return the row of a grid that is taken out with the least work."""
    head = Grid(m, grid).first_block
    return int(m.bi[_ids_at(head) + Block(m, head).length - 1])


@called
def find_grid(m: Memory, w: Intervals, start: int, end: int) -> int:
    """Return the grid with the fewest channels that has those of these constraints, and the same anchor; 0 if there is
    none, or only such in which a row would take too much room."""
    anchor = anchor_of(m, w, start, end)
    if anchor == 0:
        return 0
    best, fewest = 0, min(MOST_COLUMNS, ROOMY * (end - start)) + 1
    grid = Channel(m, anchor).first_grid
    while grid != 0:
        columns = columns_of(m, grid)
        if end - start <= columns < fewest and not is_stale(m, grid):
            common = 0
            for column in range(columns):
                common += _side_of(w, start, end, m.i[_channels_at(grid) + column]) >= 0
            if common == end - start:
                best, fewest = grid, columns
        grid = Grid(m, grid).next
    return int(best)


@called
def new_grid(m: Memory, w: Intervals, start: int, end: int) -> int:
    """Return a new grid, without cuts, for such rows, which have an anchor."""
    grid = allocate(m, GRID_WORDS)
    header = Grid(m, grid)
    for word in range(grid, grid + GRID_HEADER):
        m.f[word] = 0.0
    anchor = anchor_of(m, w, start, end)
    ways = Channel(m, anchor)
    header.columns = end - start
    header.anchor = anchor
    header.next = ways.first_grid
    ways.first_grid = grid
    m.meta[GRIDS] += 1
    m.meta[LARGEST_BLOCK] = max(m.meta[LARGEST_BLOCK], _block_words(end - start, TALLEST))
    for column in range(end - start):
        m.i[_channels_at(grid) + column] = w.names[start + column]
        for k in range(BUCKETS):
            m.f[_cuts_at(grid, column) + k] = np.inf
        for k in range(2 * TORN):
            m.i[2 * (_cuts_at(grid, column) + BUCKETS) + k] = 0
    return grid


@called
def cut_column(m: Memory, grid: int, column: int, ends: np.ndarray, count: int) -> None:
    """Choose the cuts of a column of an empty grid: evenly among the first `count` of these numbers, which are put in
    order."""
    sort(ends, 0, count)
    cuts, chosen, distinct = _cuts_at(grid, column), 0, 0
    for k in range(count):
        distinct += k == 0 or ends[k] != ends[k - 1]
    k = 0
    while k < count:
        run = k + 1
        while run < count and ends[run] == ends[k]:
            run += 1
        # Each of them if they are few; else one whenever another share of all is behind us, popular ones among them.
        if distinct <= CUTS or (run * CUTS) // count > chosen:
            m.f[cuts + chosen] = ends[k]
            chosen += 1
        k = run
    while chosen < BUCKETS:
        m.f[cuts + chosen] = np.inf
        chosen += 1


@part
def is_end(number: float) -> bool:
    """Return whether a number can be a cut."""
    return -np.inf < number < np.inf


@called
def _drop_grid(m: Memory, grid: int) -> None:
    header = Grid(m, grid)
    ways = Channel(m, header.anchor)
    after = header.next
    if ways.first_grid == grid:
        ways.first_grid = after
    else:
        previous = ways.first_grid
        while Grid(m, previous).next != grid:
            previous = Grid(m, previous).next
        Grid(m, previous).next = after
    free(m, grid, GRID_WORDS)
    m.meta[GRIDS] -= 1
    if m.meta[SMALL_GRID] == grid:
        m.meta[SMALL_GRID] = 0


# -- rows of a block -----------------------------------------------------------------------------------------


@part
def _height_of(m: Memory, block: int) -> int:
    return int(Block(m, block).height)


@part
def _column_at(m: Memory, block: int, column: int) -> int:
    """Return the first word of a column of a block."""
    height = _height_of(m, block)
    return LINE * block + LINE + height * LINE_ROWS // 2 + column * _column_words(height)


@part
def _ids_at(block: int) -> int:
    return 2 * LINE * block + IDS


@part
def _pairs_at(m: Memory, block: int, column: int) -> int:
    """Return where low and high of a block's first row are; those of the others follow."""
    return _column_at(m, block, column) + _height_of(m, block) * BITS


@part
def _run_of(m: Memory, cuts: int, low: float, high: float) -> tuple[int, int]:
    """Return the first and the last string in which the bit of a row with this range is set; one less than the first
    if there is none."""
    if low > high:
        return 1, 0
    first = 0 if low == -np.inf else 1 + _bucket_of(m, cuts, low)
    last = UNBOUNDED if high == np.inf else 1 + _bucket_of(m, cuts, high)
    return first, last


@part
def _is_free(m: Memory, block: int, column: int, slot: int) -> bool:
    """Return whether a row has no constraint on a column."""
    word = _column_at(m, block, column) + LINE * _height_of(m, block) * FREE + (slot >> 6)
    return (m.b[word] >> (slot & 63)) & 1 != 0


@part
def _run_at(m: Memory, grid: int, block: int, column: int, slot: int) -> tuple[int, int]:
    """Return the first and the last string in which the bit of a row of a block is set."""
    if _is_free(m, block, column, slot):
        return 0, FREE
    pair = _pairs_at(m, block, column) + 2 * slot
    return _run_of(m, _cuts_at(grid, column), m.bf[pair], m.bf[pair + 1])


@called
def _flip(m: Memory, block: int, column: int, slot: int, first: int, last: int) -> None:
    """Flip the bit of a row in a run of strings."""
    step = LINE * _height_of(m, block)
    word, bit = _column_at(m, block, column) + (slot >> 6), 1 << (slot & 63)
    for string in range(first, last + 1):
        m.b[word + step * string] ^= bit


@called
def _write(m: Memory, grid: int, block: int, column: int, slot: int, low: float, high: float) -> None:
    """Write the ends of one range in its place; its bits are the caller's."""
    cuts, pair = _cuts_at(grid, column), _pairs_at(m, block, column) + 2 * slot
    m.bf[pair], m.bf[pair + 1] = low, high
    if low != -np.inf:
        bucket = _bucket_of(m, cuts, low)
        if bucket == 0 or m.f[cuts + bucket - 1] != low:
            _note_tear(m, grid, column, bucket)
    if high != np.inf:
        bucket = _bucket_of(m, cuts, high)
        if bucket == CUTS or m.f[cuts + bucket] != next_up(high):
            _note_tear(m, grid, column, bucket)


@called
def _new_block(m: Memory, grid: int, height: int, after: int) -> int:
    """Return a new, empty block, the first of its grid, with the block `after` behind it."""
    header = Grid(m, grid)
    columns = header.columns
    chain = _chain_of(columns, height)
    block = m.meta[chain]
    if block != 0:
        m.meta[chain] = Block(m, block).next
    else:
        block = m.meta[BLOCK_TOP] // LINE
        m.meta[BLOCK_TOP] += _block_words(columns, height)
    Block(m, block).length = 0
    Block(m, block).grid = grid
    Block(m, block).next = after
    Block(m, block).height = height
    Block(m, block).links = 0
    header.first_block = block
    for column in range(columns):
        at = _column_at(m, block, column)
        for word in range(at, at + BITS * height):
            m.b[word] = 0
    return int(block)


@part
def _free_block(m: Memory, block: int, columns: int) -> None:
    chain = _chain_of(columns, _height_of(m, block))
    Block(m, block).next = m.meta[chain]
    m.meta[chain] = block


@called
def _resized(m: Memory, grid: int, height: int) -> int:
    """Give the first block of a grid, whose rows fit, another height; return where it is now."""
    grid_header = Grid(m, grid)
    old, columns = grid_header.first_block, grid_header.columns
    old_header = Block(m, old)
    block = _new_block(m, grid, height, old_header.next)
    block_header = Block(m, block)
    was, length = _height_of(m, old), old_header.length
    block_header.length = length
    block_header.links = old_header.links
    for slot in range(length):
        row = m.bi[_ids_at(old) + slot]
        m.bi[_ids_at(block) + slot] = row
        set_home(m, row, -block)
    for column in range(columns):
        source, target = _column_at(m, old, column), _column_at(m, block, column)
        for string in range(STRINGS):
            for word in range(LINE * min(was, height)):
                m.b[target + string * height * LINE + word] = m.b[source + string * was * LINE + word]
        source, target = _pairs_at(m, old, column), _pairs_at(m, block, column)
        for word in range(2 * length):
            m.b[target + word] = m.b[source + word]
    _free_block(m, old, columns)
    return block


@called
def append_to_grid(m: Memory, grid: int, row: int, w: Intervals, start: int, end: int) -> None:
    """Add a row with these constraints, which are on channels of the grid."""
    header = Grid(m, grid)
    block = header.first_block
    if block == 0:
        block = _new_block(m, grid, 1, 0)
    elif Block(m, block).length == LINE_ROWS * _height_of(m, block):
        height = _height_of(m, block)
        block = _new_block(m, grid, 1, block) if height == TALLEST else _resized(m, grid, 2 * height)
    slot = Block(m, block).length
    m.bi[_ids_at(block) + slot] = row
    for column in range(columns_of(m, grid)):
        k = _side_of(w, start, end, m.i[_channels_at(grid) + column])
        if k < 0:
            _flip(m, block, column, slot, 0, FREE)
            _write(m, grid, block, column, slot, -np.inf, np.inf)
            header.free_columns |= 1 << column
            continue
        first, last = _run_of(m, _cuts_at(grid, column), w.lows[k], w.highs[k])
        _flip(m, block, column, slot, first, last)
        _write(m, grid, block, column, slot, w.lows[k], w.highs[k])
    Block(m, block).length = slot + 1
    header.rows += 1
    header.extra |= row < 0
    set_home(m, row, -block)
    if m.meta[LINKED] != 0:
        Block(m, block).links |= 1 << link_bit(m, row)


@part
def _slot_of(m: Memory, block: int, row: int) -> int:
    ids, slot = _ids_at(block), 0
    while m.bi[ids + slot] != row:
        slot += 1
    return slot


@called
def read_from_block(m: Memory, row: int, w: Intervals) -> int:
    """Write the constraints of a row that stands in a block into the arrays; return their number."""
    block = -home_of(m, row)
    grid, slot = Block(m, block).grid, _slot_of(m, block, row)
    count = 0
    for column in range(columns_of(m, grid)):
        if not _is_free(m, block, column, slot):
            pair = _pairs_at(m, block, column) + 2 * slot
            w.names[count] = m.i[_channels_at(grid) + column]
            w.lows[count], w.highs[count] = m.bf[pair], m.bf[pair + 1]
            count += 1
    return count


@called
def refresh_block_links(m: Memory, block: int) -> None:
    """Compute a block's mask of links anew."""
    header = Block(m, block)
    links = 0
    for slot in range(header.length):
        links |= 1 << link_bit(m, m.bi[_ids_at(block) + slot])
    header.links = links


@part
def _forget_link(m: Memory, block: int, bit: int) -> None:
    """Put the mask of a block right from which a row with the link of this bit is gone."""
    header = Block(m, block)
    for slot in range(header.length):
        if link_bit(m, m.bi[_ids_at(block) + slot]) == bit:
            return
    header.links &= ~(1 << bit)


@called
def take_from_block(m: Memory, row: int) -> None:
    """Take a row that stands in a block out; the last row of the grid's first block takes its place."""
    block = -home_of(m, row)
    block_header = Block(m, block)
    grid, slot = block_header.grid, _slot_of(m, block, row)
    grid_header = Grid(m, grid)
    head = grid_header.first_block
    head_header = Block(m, head)
    last = head_header.length - 1
    other = m.bi[_ids_at(head) + last]
    for column in range(grid_header.columns):
        begin, end = _run_at(m, grid, head, column, last)
        was_begin, was_end = _run_at(m, grid, block, column, slot)
        _flip(m, head, column, last, begin, end)
        if other != row:
            source, target = _pairs_at(m, head, column) + 2 * last, _pairs_at(m, block, column) + 2 * slot
            # Only what differs is touched, which is little of a large block.
            _flip(m, block, column, slot, min(begin, was_begin), max(begin, was_begin) - 1)
            _flip(m, block, column, slot, min(end, was_end) + 1, max(end, was_end))
            m.bf[target], m.bf[target + 1] = m.bf[source], m.bf[source + 1]
    if other != row:
        m.bi[_ids_at(block) + slot] = other
        set_home(m, other, -block)
    head_header.length = last
    grid_header.rows -= 1
    if grid_header.rows < FEWEST_ROWS:
        m.meta[SMALL_GRID] = grid
    if m.meta[LINKED] != 0:
        if head != block:
            block_header.links |= 1 << link_bit(m, other)
            _forget_link(m, head, link_bit(m, other))
        _forget_link(m, block, link_bit(m, row))
    height = _height_of(m, head)
    if last == 0:
        grid_header.first_block = head_header.next
        _free_block(m, head, grid_header.columns)
        if grid_header.first_block == 0:
            _drop_grid(m, grid)
    elif height > 1 and 4 * last <= LINE_ROWS * height:
        _resized(m, grid, height // 2)


# -- questions -----------------------------------------------------------------------------------------------


@part
def _note_string(m: Memory, number: int, column: int, string: int) -> None:
    m.b[COLUMN_OF + number] = column
    m.b[STRING_OF + number] = string


@part
def strings_of(m: Memory, grid: int) -> int:
    """Note which strings of bits the present query has to look at in a grid's blocks; return how many.

    NOTHING if a channel on which no row is free has no value, EVERY_ROW if ends in the wrong order (those of a range
    that has no float64 in it) leave nothing to do but to look at the rows.
    """
    header = Grid(m, grid)
    columns, channels = header.columns, _channels_at(grid)
    wrong = False
    for column in range(columns):
        channel = m.i[channels + column]
        low, high = Value(m, channel).low, Value(m, channel).high
        if low != low and (header.free_columns >> column) & 1 == 0:
            return NOTHING
        wrong |= high < low
    if wrong:
        return EVERY_ROW
    strings = 0
    for column in range(columns):
        channel = m.i[channels + column]
        if Value(m, channel).low != Value(m, channel).low:
            _note_string(m, strings, column, FREE)
            strings += 1
            continue
        first, last = _run_of(m, _cuts_at(grid, column), Value(m, channel).low, Value(m, channel).high)
        _note_string(m, strings, column, first)
        strings += 1
        if last != first:
            _note_string(m, strings, column, last)
            strings += 1
    return strings


@part
def _string_at(m: Memory, block: int, number: int) -> int:
    """Return where the bits of a string that was noted are."""
    return (
        _column_at(m, block, m.b[COLUMN_OF + number]) + LINE * _height_of(m, block) * m.b[STRING_OF + number]
    )


@part
def _look_up(m: Memory, grid: int, block: int, line: int, column: int, count: int) -> None:
    """Drop those of the gathered rows whose range does not contain what the query says of a column."""
    channel, pairs = m.i[_channels_at(grid) + column], _pairs_at(m, block, column) + 2 * LINE_ROWS * line
    low, high = Value(m, channel).low, Value(m, channel).high
    m.b[LOOKED_UP] += count
    for k in range(count):
        place = m.b[LOOK_UPS + k]
        holds = (m.bf[pairs + 2 * place] <= low) & (high <= m.bf[pairs + 2 * place + 1])
        m.b[LEFT + (place >> 6)] &= ~((1 - holds) << (place & 63))


@part
def _gather_edges(m: Memory, block: int, line: int, lines: int, number: int) -> int:
    """Gather the words of rows still in question whose range ends inside the bucket of a string; return how many."""
    string, step, count = _string_at(m, block, number) + LINE * line, LINE * _height_of(m, block), 0
    for first in range(0, LINE * lines, LINE):
        at = string + first
        if edge_line(m.b, EDGES + first, LEFT + first, at - step, at + step) == 0:
            continue
        for word in range(first, first + LINE):
            bits = m.b[EDGES + word]
            m.b[EDGES + count], m.b[EDGE_WORD + count] = bits, word
            count += bits != 0
    return count


@part
def _look_at_edges(m: Memory, grid: int, block: int, line: int, lines: int, number: int) -> None:
    """Drop the rows whose range ends inside the bucket of a string and does not contain the query's value.

    Ranges lie far apart in memory, and which ones to look at cannot be foreseen. So they are gathered first, one of
    each word at a time and without branches, and asked for: they are on their way from memory together.
    """
    column = m.b[COLUMN_OF + number]
    pairs = _pairs_at(m, block, column) + 2 * LINE_ROWS * line
    words, gathered = _gather_edges(m, block, line, lines, number), 0
    while words > 0:
        kept = 0
        for k in range(words):
            bits, word = m.b[EDGES + k], m.b[EDGE_WORD + k]
            place = 64 * word + trailing_zeros(bits)
            prefetch(m.bf, pairs + 2 * place)
            m.b[LOOK_UPS + gathered] = place
            gathered += 1
            bits &= bits - 1
            m.b[EDGES + kept], m.b[EDGE_WORD + kept] = bits, word
            kept += bits != 0
        words = kept
        if gathered > MANY:
            _look_up(m, grid, block, line, column, gathered)
            gathered = 0
    _look_up(m, grid, block, line, column, gathered)


@called
def _look_at_every_row(m: Memory, grid: int, block: int, line: int, lines: int) -> None:
    """Leave the rows that satisfy the query, by looking at the ranges of all."""
    for word in range(LINE * lines):
        m.b[LEFT + word] = 0
    first = LINE_ROWS * line
    for slot in range(first, min(first + LINE_ROWS * lines, Block(m, block).length)):
        holds = True
        for column in range(Grid(m, grid).columns):
            channel, pair = m.i[_channels_at(grid) + column], _pairs_at(m, block, column) + 2 * slot
            inside = (m.bf[pair] <= Value(m, channel).low) & (Value(m, channel).high <= m.bf[pair + 1])
            holds &= inside | _is_free(m, block, column, slot)
        m.b[LEFT + ((slot - first) >> 6)] |= holds << ((slot - first) & 63)


@called
def satisfied_in(m: Memory, grid: int, block: int, line: int, lines: int, strings: int) -> bool:
    """Leave in LEFT those rows of some lines of a block that satisfy the query; return whether there may be any."""
    if strings == EVERY_ROW:
        _look_at_every_row(m, grid, block, line, lines)
        return True
    at, some = _string_at(m, block, 0) + LINE * line, 0
    for word in range(0, LINE * lines, LINE):
        some |= copy_line(m.b, LEFT + word, m.b, at + word)
    for number in range(1, strings):
        if some == 0:
            return False
        at, some = _string_at(m, block, number) + LINE * line, 0
        for word in range(0, LINE * lines, LINE):
            some |= and_line(m.b, LEFT + word, m.b, at + word)
    if some == 0:
        return False
    for number in range(strings):
        string = m.b[STRING_OF + number]
        if 0 < string < UNBOUNDED and _is_torn(m, grid, m.b[COLUMN_OF + number], string - 1):
            _look_at_edges(m, grid, block, line, lines, number)
    return True


@part
def lines_of(m: Memory, block: int) -> int:
    """Return how many lines of a block have rows."""
    return int(Block(m, block).length + LINE_ROWS - 1) // LINE_ROWS


@part
def first_block(m: Memory, grid: int) -> int:
    """Return the first block of a grid."""
    return int(Grid(m, grid).first_block)


@part
def next_grid(m: Memory, grid: int) -> int:
    """Return the grid behind one in the chain of their channel, or 0."""
    return int(Grid(m, grid).next)


@part
def next_block(m: Memory, block: int) -> int:
    """Return the block behind one, and ask for it."""
    after = Block(m, block).next
    prefetch(m.b, LINE * after)
    return int(after)


@called
def add_handles(m: Memory, grid: int, block: int, line: int, lines: int, out: Ints, found: int) -> int:
    """Add the handles of the rows that are left of some lines of a block behind what was found."""
    first = _ids_at(block) + LINE_ROWS * line
    if Grid(m, grid).extra == 0:
        for word in range(LINE * lines):
            bits, ids = m.b[LEFT + word], first + 64 * word
            while bits != 0:
                out[found] = m.bi[ids + trailing_zeros(bits)]
                found += 1
                bits &= bits - 1
        return found
    for word in range(LINE * lines):
        bits = m.b[LEFT + word]
        while bits != 0:
            handle = new_handle(m, m.bi[first + 64 * word + trailing_zeros(bits)])
            bits &= bits - 1
            if handle >= 0:
                out[found] = handle
                found += 1
    return found


@part
def _note_look_ups(m: Memory, grid: int) -> None:
    """Note whether the query had too much to look up in a grid; moving its rows is then paid for by that."""
    header = Grid(m, grid)
    looked_up, stale = m.b[LOOKED_UP], header.stale
    if stale == IS_STALE:
        m.meta[VERIFIED] += looked_up
    elif header.rows >= STALE_ROWS and (TOO_MANY * looked_up > header.rows * header.columns):
        header.stale = stale + 1
    elif stale > 0:
        header.stale = stale - 1


@called
def visit_grids(m: Memory, grid: int, out: Ints, found: int, limit: int) -> int:
    """Add the handles of the satisfied rows of a chain of grids, some lines at a time if a few rows are enough."""
    step = TALLEST if limit - found >= m.meta[ROWS] else 1
    while grid != 0:
        strings = strings_of(m, grid)
        block = first_block(m, grid) if strings != NOTHING else 0
        m.b[LOOKED_UP] = 0
        while block != 0:
            after, lines = next_block(m, block), lines_of(m, block)
            for line in range(0, lines, step):
                if found >= limit:
                    return found
                some = min(step, lines - line)
                if satisfied_in(m, grid, block, line, some, strings):
                    found = add_handles(m, grid, block, line, some, out, found)
            block = after
        _note_look_ups(m, grid)
        grid = next_grid(m, grid)
    return found


@part
def links_of_block(m: Memory, block: int) -> int:
    """Return a block's mask of links."""
    return int(Block(m, block).links)
