"""One growable memory for every record of the attribute index.

Records lie in a single buffer of 8-byte words, seen by kernels as two arrays over the same memory: `f` (one float64
a word) and `i` (two int32 a word). A pointer to a record is a word's number, and 0 is null.

Freed blocks are kept on one chain for each size class and are given out again first. Sizes up to SMALL words are
classes of their own; above that there are four classes an octave. A kernel never grows the buffer: its caller makes
sure that `room` words are free beforehand (see store.py).
"""

from __future__ import annotations

from typing import Protocol

from covey.matching.jit import Floats, Ints, Longs, part

# Places in `meta`, the array of 64-bit counters.
TOP = 0  # first word never given out
CONSTRAINTS = 1  # interned constraints alive
LARGEST_LIST = (
    2  # words of the largest block ever given to a list or directory: what one more operation may need
)
ALWAYS_SIMPLE = 3  # lists of rows that are tried for every event
ALWAYS_VERIFY = 4
STAMP = 5  # number of the current query
ROWS = 6
FREED = 7  # entries in the kernel's list of freed channels and values
FREE_WORDS = 8
TABLE_MASK = 9  # length of the hash table, less one
LINKED = 10  # whether rows have links
EXTRA_ROWS = 11  # length of `extra`
GRIDS = 12  # sets of channels with rows in blocks (grids.py)
POSTED_HANDLES = 13  # rows of handles below this number have postings
POSTED_EXTRA = 14  # as do rows of `extra` below this one
WANTED = 15  # words for which a kernel has found no room
FIRST_CHAIN = 16

SMALL = 64
CLASSES = SMALL + 4 * 26
BLOCK_TOP = FIRST_CHAIN + CLASSES + 1  # first word of `blocks` never given out
BLOCK_ROOM = BLOCK_TOP + 1  # length of `blocks`
LARGEST_BLOCK = BLOCK_TOP + 2  # words of the largest block of a grid
VERIFIED = (
    BLOCK_TOP + 3
)  # rows that queries have met in lists, and had to verify, since this was last looked at
QUERIES = BLOCK_TOP + 4  # queries ever
SMALL_GRID = BLOCK_TOP + 5  # a grid that is to give its rows back to lists
HANDLES = BLOCK_TOP + 6  # length of `homes`
QUESTION_ROOM = BLOCK_TOP + 7  # rows for which `marks` and `candidates` have room (asking.py)
ACCEPTOR_ROOM = BLOCK_TOP + 8  # acceptors for which there is room (asking.py)
HEAP_ROOM = BLOCK_TOP + 9  # words that records may take
WIDEST = BLOCK_TOP + 10  # constraints of the largest row ever added, at least
FREED_ROOM = BLOCK_TOP + 11  # for so many freed channels and values there is room
MOVED = BLOCK_TOP + 12  # rows that have moved to grids in the present round
FREE_BLOCKS = BLOCK_TOP + 13  # a chain for each number of columns and each height
HEIGHTS = 5
META_LENGTH = FREE_BLOCKS + HEIGHTS * 17


class Heap(Protocol):
    """What the parts here need of a memory: the heap in both shapes, and the counters."""

    @property
    def f(self) -> Floats: ...

    @property
    def i(self) -> Ints: ...

    @property
    def meta(self) -> Longs: ...


@part
def size_class(words: int) -> int:
    """Return the class whose blocks hold at least `words` words."""
    if words <= SMALL:
        return words
    octave = 0
    base = SMALL
    while base * 2 < words:
        base *= 2
        octave += 1
    quarter = base // 4
    return SMALL + 4 * octave + (words - base + quarter - 1) // quarter


@part
def class_words(number: int) -> int:
    """Return how many words a block of this class has."""
    if number <= SMALL:
        return number
    octave = (number - SMALL - 1) // 4
    step = (number - SMALL - 1) % 4 + 1
    base = SMALL << octave
    return base + step * (base // 4)


@part
def allocate(m: Heap, words: int) -> int:
    """Return a block of at least `words` words; its content is arbitrary."""
    number = size_class(words)
    block = m.meta[FIRST_CHAIN + number]
    if block != 0:
        m.meta[FIRST_CHAIN + number] = m.i[2 * block]
        m.meta[FREE_WORDS] -= class_words(number)
        return int(block)
    block = m.meta[TOP]
    m.meta[TOP] = block + class_words(number)
    return int(block)


@part
def free(m: Heap, block: int, words: int) -> None:
    """Take back a block that was given out for `words` words."""
    number = size_class(words)
    m.i[2 * block] = m.meta[FIRST_CHAIN + number]
    m.meta[FIRST_CHAIN + number] = block
    m.meta[FREE_WORDS] += class_words(number)


@part
def new_record(m: Heap, words: int) -> int:
    """Return a block of `words` words, all zero."""
    block = allocate(m, words)
    for word in range(block, block + words):
        m.f[word] = 0.0
    return block
