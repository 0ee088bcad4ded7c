"""Lists of rows: what an index entry points at.

A list is one block: a header, then a column for each property of a row, all of the list's capacity, float columns
first. Its kind says which columns there are:

    IDS          id                                 rows with no condition beyond the way that led here
    KEYED        id, key                            one-sided ranges, simple
    SPAN         id, low, high                      ranges, simple
    VERIFY       id, channel, chain, low, high      rows with a first residual constraint inline and a chain of others
    VERIFY_KEYED the same and the key of the access range
    VERIFY_SPAN  the same and low and high of the access range
    POSTING      id, low, high                      one constraint of a row, by its low end (postings.py)

KEYED, VERIFY_KEYED and POSTING lists are in order of key. Order within other lists means nothing: removal puts the
last row in the place of the one that leaves. A row stands in one list, its home (postings apart), kept in `homes` for
rows with a handle as id and in `extra` for the others. A list that needs another size moves: `append` and `remove_at`
return where it is, and the caller tells the one who points at it.

VISITS says how often queries had to verify the list's rows of late (`note_visit`).
"""

from __future__ import annotations

from covey.matching.attributes.heap import (
    LARGEST_LIST,
    QUERIES,
    STAMP,
    VERIFIED,
    allocate,
    class_words,
    free,
    size_class,
)
from covey.matching.attributes.layout import Extra, RowList
from covey.matching.attributes.memory import Memory
from covey.matching.jit import called, part
from covey.matching.records import WORD

HEADER_WORDS = RowList.BYTES // WORD

IDS = 0
KEYED = 1
SPAN = 2
VERIFY = 3
VERIFY_KEYED = 4
VERIFY_SPAN = 5
POSTING = 6

CHUNK = 512  # lists this long are chained or split, so that a row is found quickly in its home
SHARED_BIT = 62

# How visits are counted: windows of 256 queries, in which a list whose rows are met by a fifth of them is a poor one.
WINDOW_BITS = 8
COUNT_BITS = 14
COUNT_MASK = (1 << COUNT_BITS) - 1
RECENT = 4  # windows for which a count holds
DEAR = 16
POOR = 51
FEW = 4  # rows that are not worth counting


@part
def new_handle(m: Memory, row: int) -> int:
    """Return the handle of a row that a query has found, -1 if it has found a row of the same filter before."""
    if row >= 0:
        return row
    extra = Extra(m, ~row)
    group = Extra(m, extra.group)
    if group.stamp == m.meta[STAMP]:
        return -1
    group.stamp = m.meta[STAMP]
    return extra.handle


@part
def float_columns(kind: int) -> int:
    """Return how many float columns lists of this kind have."""
    if kind == POSTING:
        return 2
    return kind if kind <= SPAN else kind - 1


@part
def int_columns(kind: int) -> int:
    """Return how many integer columns lists of this kind have."""
    return 1 if kind <= SPAN or kind == POSTING else 3


@part
def is_ordered(kind: int) -> bool:
    """Return whether lists of this kind are in order of key."""
    return kind == KEYED or kind == VERIFY_KEYED or kind == POSTING


@part
def list_words(kind: int, capacity: int) -> int:
    """Return how many words a list takes."""
    return HEADER_WORDS + float_columns(kind) * capacity + (int_columns(kind) * capacity + 1) // 2


@part
def ids_at(m: Memory, record: int) -> int:
    """Return where in `i` the column of ids begins; `channel` and `chain` follow, a capacity further each."""
    header = RowList(m, record)
    return 2 * (record + HEADER_WORDS + float_columns(header.kind) * header.capacity)


@part
def key_at(m: Memory, record: int) -> int:
    """Return where in `f` the column with the access range begins: key, or low with high a capacity further."""
    header = RowList(m, record)
    kind = header.kind
    first = 0 if kind <= SPAN or kind == POSTING else 2
    return record + HEADER_WORDS + first * header.capacity


@part
def set_home(m: Memory, row: int, record: int) -> None:
    """Note in which list the row stands."""
    if row >= 0:
        m.homes[row] = record
    else:
        Extra(m, ~row).home = record


@part
def home_of(m: Memory, row: int) -> int:
    """Return the list in which the row stands."""
    return m.homes[row] if row >= 0 else Extra(m, ~row).home


@part
def handle_of(m: Memory, row: int) -> int:
    """Return the handle of the row's filter."""
    return row if row >= 0 else Extra(m, ~row).handle


@called
def new_list(m: Memory, kind: int, owner: int, capacity: int) -> int:
    """Return a new, empty list with room for at least `capacity` rows."""
    words = class_words(size_class(list_words(kind, capacity)))
    record = allocate(m, words)
    header = RowList(m, record)
    for word in range(record, record + HEADER_WORDS):
        m.f[word] = 0.0
    header.capacity = (2 * (words - HEADER_WORDS)) // (2 * float_columns(kind) + int_columns(kind))
    header.kind = kind
    header.owner = owner
    if words > m.meta[LARGEST_LIST]:
        m.meta[LARGEST_LIST] = words
    return record


@part
def drop_list(m: Memory, record: int) -> None:
    """Give back a list."""
    header = RowList(m, record)
    free(m, record, list_words(header.kind, header.capacity))


@part
def copy_row(m: Memory, source: int, position: int, target: int, place: int) -> None:
    """Copy a row's columns to a place in another list of the same kind, or of the same list."""
    header = RowList(m, source)
    kind, a, b = header.kind, header.capacity, RowList(m, target).capacity
    for column in range(float_columns(kind)):
        m.f[target + HEADER_WORDS + column * b + place] = m.f[source + HEADER_WORDS + column * a + position]
    from_ids, to_ids = ids_at(m, source) + position, ids_at(m, target) + place
    for column in range(int_columns(kind)):
        m.i[to_ids + column * b] = m.i[from_ids + column * a]


@called
def _moved(m: Memory, record: int, capacity: int) -> int:
    """Move the list to a block with room for at least `capacity` rows; return where."""
    record_header = RowList(m, record)
    larger = new_list(m, record_header.kind, record_header.owner, capacity)
    larger_header = RowList(m, larger)
    length = record_header.length
    larger_header.length = length
    larger_header.next = record_header.next
    larger_header.links = record_header.links
    larger_header.visits = record_header.visits
    ids = ids_at(m, record)
    for k in range(length):
        copy_row(m, record, k, larger, k)
        if record_header.kind != POSTING:
            set_home(m, m.i[ids + k], larger)
    drop_list(m, record)
    return larger


@part
def larger_capacity(length: int) -> int:
    """Return for how many rows a list that is full gets room, at least."""
    return length + 1 + length // 4


@part
def append(m: Memory, record: int, row: int) -> int:
    """Add a row's id at the end, for the caller to fill the other columns; return where the list is now."""
    length = RowList(m, record).length
    if length == RowList(m, record).capacity:
        record = _moved(m, record, larger_capacity(length))
    m.i[ids_at(m, record) + length] = row
    RowList(m, record).length = length + 1
    if RowList(m, record).kind != POSTING:
        set_home(m, row, record)
    return record


@part
def position_of(m: Memory, record: int, row: int) -> int:
    """Return where in the list the row stands."""
    ids = ids_at(m, record)
    position = 0
    while m.i[ids + position] != row:
        position += 1
    return position


@part
def remove_at(m: Memory, record: int, position: int) -> int:
    """Take the row at `position` out; return where the list is now."""
    header = RowList(m, record)
    last = header.length - 1
    if is_ordered(header.kind):
        for k in range(position, last):
            copy_row(m, record, k + 1, record, k)
    else:
        copy_row(m, record, last, record, position)
    header.length = last
    if 0 < last < header.capacity // 3 and header.capacity > 8:
        return _moved(m, record, last + last // 4 + 1)
    return record


@part
def note_visit(m: Memory, record: int, rows: int, passed: int) -> None:
    """Count that a query has met `rows` rows of a list, of which `passed` were looked at more closely.

    VISITS is the number of a window of queries, and what the list's rows have cost in it: a visit counts one, and up to
    DEAR more by the share of rows whose chain had to be followed. A new window begins with half of the old one's count.
    """
    header = RowList(m, record)
    m.meta[VERIFIED] += rows
    if rows < FEW:
        return
    window, visits = (m.meta[QUERIES] >> WINDOW_BITS) & 0xFFFF, header.visits
    count = visits & COUNT_MASK
    if visits >> COUNT_BITS != window:
        count >>= 1
    header.visits = (window << COUNT_BITS) | min(count + 1 + DEAR * passed // rows, COUNT_MASK)


@part
def is_poor(m: Memory, record: int) -> bool:
    """Return whether queries have met the list's rows so often, of late, that they would be cheaper in a grid."""
    window, visits = (m.meta[QUERIES] >> WINDOW_BITS) & 0xFFFF, RowList(m, record).visits
    return visits & COUNT_MASK >= POOR and (window - (visits >> COUNT_BITS)) & 0xFFFF <= RECENT


@part
def link_bit(m: Memory, row: int) -> int:
    """Return which bit of a list's mask stands for the row's link."""
    return min(m.links[handle_of(m, row)], SHARED_BIT)


@part
def add_link(m: Memory, record: int, bit: int) -> None:
    """Set a bit of the list's mask of links."""
    RowList(m, record).links |= 1 << bit


@part
def links_of(m: Memory, record: int) -> int:
    """Return the list's mask of links."""
    return RowList(m, record).links


@called
def refresh_links(m: Memory, record: int) -> None:
    """Compute the list's mask of links anew."""
    header = RowList(m, record)
    header.links = 0
    ids = ids_at(m, record)
    for k in range(header.length):
        add_link(m, record, link_bit(m, m.i[ids + k]))
