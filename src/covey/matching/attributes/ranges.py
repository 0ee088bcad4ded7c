"""Ways into the index by range: for each channel a short list, and behind it directories of sorted buckets.

A new row goes to its channel's short list, one for simple rows and one for rows to verify. Once that has
SHORT rows, they all move on to the channel's directories, of which there is one for each kind of range:

    LOWER   value ≥ key              sorted by key: the satisfied buckets are the first ones
    UPPER   value ≤ key              sorted by key: the satisfied buckets are the last ones
    SPANS   low ≤ value ≤ high       sorted by low, one directory for each power of two of the width, so that only
                                     buckets within one width of the value need a look

A directory is one block: header, keys, lists. A bucket is a list; bucket n holds the rows with key[n] ≤ end < key[n+1],
and key[0] is -inf. A bucket that has CHUNK rows is split
at its median. Rows of LOWER and UPPER buckets stand in order of key, so that the satisfied ones lie side by side.
"""

from __future__ import annotations

import math

import numpy as np

from covey.matching.attributes.heap import LARGEST_LIST, LINKED, allocate, class_words, free, size_class
from covey.matching.attributes.layout import Channel, Directory, RowList
from covey.matching.attributes.lists import (
    CHUNK,
    HEADER_WORDS,
    KEYED,
    POSTING,
    SPAN,
    VERIFY,
    VERIFY_KEYED,
    VERIFY_SPAN,
    add_link,
    append,
    copy_row,
    drop_list,
    float_columns,
    ids_at,
    int_columns,
    key_at,
    link_bit,
    new_list,
    refresh_links,
)
from covey.matching.attributes.memory import Memory
from covey.matching.jit import called, part, sort
from covey.matching.records import WORD

DIRECTORY_WORDS = Directory.BYTES // WORD

LOWER = 0
UPPER = 1
SPANS = 2

SHORT = 64
STEP = 16  # rows between two that the first sweep over an ordered list looks at


@part
def side_of(low: float, high: float) -> int:
    """Return which kind of directory a range belongs to."""
    if high == np.inf:
        return LOWER
    return UPPER if low == -np.inf else SPANS


@part
def width_exponent(low: float, high: float) -> int:
    """Return the power of two that bounds the width of the range; all widths up to 2**-64 share one."""
    width = high - low
    if width == np.inf:
        return 1025
    return max(-64, math.frexp(width)[1])


@part
def bucket_of(m: Memory, directory: int, end: float) -> int:
    """Return the number of the bucket where a row with this end belongs: the last one with key ≤ end."""
    keys = directory + DIRECTORY_WORDS
    # Halving without branches: which way to go cannot be foreseen.
    bucket, count = 0, Directory(m, directory).count
    while count > 1:
        half = count >> 1
        bucket += half * (m.f[keys + bucket + half] <= end)
        count -= half
    return bucket


@part
def buckets_at(m: Memory, directory: int) -> int:
    """Return where in `i` the column of the buckets' lists begins."""
    return 2 * (directory + DIRECTORY_WORDS + Directory(m, directory).room)


@part
def directory_words(room: int) -> int:
    """Return how many words a directory with room for so many buckets takes, at least."""
    return DIRECTORY_WORDS + (3 * room + 1) // 2


@part
def larger_room(count: int) -> int:
    """Return for how many buckets a directory that is full gets room."""
    return count + 1 + count // 2


@called
def _empty_directory(m: Memory, room: int) -> int:
    words = class_words(size_class(directory_words(room)))
    directory = allocate(m, words)
    m.meta[LARGEST_LIST] = max(m.meta[LARGEST_LIST], words)
    for word in range(directory, directory + DIRECTORY_WORDS):
        m.f[word] = 0.0
    Directory(m, directory).room = (2 * (words - DIRECTORY_WORDS)) // 3
    return directory


@called
def _point_at(m: Memory, old: int, new: int) -> None:
    """Let the chain of directories that `old` stands in have `new` in its place."""
    header = Directory(m, old)
    channel = header.channel
    ways = Channel(m, channel)
    if header.list_kind == POSTING:
        ways.postings = new
        return
    previous = ways.first_directory
    if previous == old:
        ways.first_directory = new
        return
    while Directory(m, previous).next != old:
        previous = Directory(m, previous).next
    Directory(m, previous).next = new


@called
def _directory_of(m: Memory, channel: int, low: float, high: float, kind: int) -> int:
    """Return the directory for such a range, made when there was none; `kind` is that of the short list."""
    ways = Channel(m, channel)
    side = side_of(low, high)
    exponent = width_exponent(low, high) if side == SPANS else 0
    if side != SPANS:
        kind = KEYED if kind == SPAN else VERIFY_KEYED
    directory = ways.first_directory
    while directory != 0:
        if (
            Directory(m, directory).side == side
            and Directory(m, directory).list_kind == kind
            and Directory(m, directory).exponent == exponent
        ):
            return directory
        directory = Directory(m, directory).next
    directory = new_directory(m, channel, kind)
    Directory(m, directory).side = side
    Directory(m, directory).exponent = exponent
    Directory(m, directory).width = np.inf if exponent > 1023 else 2.0**exponent
    Directory(m, directory).next = ways.first_directory
    ways.first_directory = directory
    return directory


@called
def new_directory(m: Memory, channel: int, kind: int) -> int:
    """Return a new directory with one empty bucket."""
    directory = _empty_directory(m, 2)
    header = Directory(m, directory)
    header.channel = channel
    header.list_kind = kind
    m.f[directory + DIRECTORY_WORDS] = -np.inf
    m.i[buckets_at(m, directory)] = new_list(m, kind, directory, 4)
    header.count = 1
    return directory


@called
def _insert_bucket(m: Memory, directory: int, bucket: int, key: float, record: int) -> None:
    """Add a bucket with this number; the directory may move."""
    count = Directory(m, directory).count
    if count == Directory(m, directory).room:
        larger = _empty_directory(m, larger_room(count))
        header = Directory(m, larger)
        room = header.room
        for k in range(2 * DIRECTORY_WORDS):
            m.i[2 * larger + k] = m.i[2 * directory + k]
        header.room = room
        old_lists, lists = buckets_at(m, directory), buckets_at(m, larger)
        for k in range(count):
            m.f[larger + DIRECTORY_WORDS + k] = m.f[directory + DIRECTORY_WORDS + k]
            m.i[lists + k] = m.i[old_lists + k]
            _own(m, m.i[lists + k], larger)
        _point_at(m, directory, larger)
        free(m, directory, directory_words(Directory(m, directory).room))
        directory = larger
    keys, lists = directory + DIRECTORY_WORDS, buckets_at(m, directory)
    for k in range(count, bucket, -1):
        m.f[keys + k] = m.f[keys + k - 1]
        m.i[lists + k] = m.i[lists + k - 1]
    m.f[keys + bucket] = key
    m.i[lists + bucket] = record
    _own(m, record, directory)
    Directory(m, directory).count = count + 1


@part
def _own(m: Memory, record: int, directory: int) -> None:
    """Let every list of a bucket's chain know its directory."""
    while record != 0:
        RowList(m, record).owner = directory
        record = RowList(m, record).next


@part
def append_range(m: Memory, channel: int, low: float, high: float, row: int, verify: bool) -> int:
    """Add a row to the channel's short list, emptied into the directories before when it is full; return the list.

    The row stands at the list's end, its range already filled in.
    """
    ways = Channel(m, channel)
    record = ways.short_verify if verify else ways.short_simple
    if record != 0 and RowList(m, record).length >= SHORT:
        for k in range(RowList(m, record).length):
            _spread(m, channel, record, k)
        drop_list(m, record)
        record = 0
    if record == 0:
        record = new_list(m, VERIFY_SPAN if verify else SPAN, -channel, 1)
    record = append(m, record, row)
    if verify:
        ways.short_verify = record
    else:
        ways.short_simple = record
    place = key_at(m, record) + RowList(m, record).length - 1
    m.f[place] = low
    m.f[place + RowList(m, record).capacity] = high
    return record


@called
def _spread(m: Memory, channel: int, short: int, position: int) -> None:
    """Put a copy of a short list's row into its bucket."""
    short_header = RowList(m, short)
    capacity = short_header.capacity
    low = m.f[key_at(m, short) + position]
    high = m.f[key_at(m, short) + capacity + position]
    kind = short_header.kind
    end = high if side_of(low, high) == UPPER else low
    directory = _directory_of(m, channel, low, high, kind)
    while not has_room(m, directory, end):
        make_room(m, directory, end)
        directory = _directory_of(m, channel, low, high, kind)
    bucket = bucket_of(m, directory, end)
    row = m.i[ids_at(m, short) + position]
    record = append(m, m.i[buckets_at(m, directory) + bucket], row)
    record_header = RowList(m, record)
    m.i[buckets_at(m, directory) + bucket] = record
    place = record_header.length - 1
    room = record_header.capacity
    if kind >= VERIFY:
        ids, from_ids = ids_at(m, record) + place, ids_at(m, short) + position
        m.i[ids + room] = m.i[from_ids + capacity]
        m.i[ids + 2 * room] = m.i[from_ids + 2 * capacity]
        residual, from_residual = (
            key_at(m, record) - 2 * room + place,
            key_at(m, short) - 2 * capacity + position,
        )
        m.f[residual] = m.f[from_residual]
        m.f[residual + room] = m.f[from_residual + capacity]
    m.f[key_at(m, record) + place] = end
    if Directory(m, directory).side == SPANS:
        m.f[key_at(m, record) + room + place] = high
    else:
        put_in_order(m, record)
    if m.meta[LINKED] != 0:
        add_link(m, record, link_bit(m, row))


@part
def rows_below(m: Memory, record: int, key: float, inclusive: bool) -> int:
    """Return how many rows of an ordered list have a smaller key, or one not greater."""
    keys, length = key_at(m, record), RowList(m, record).length
    # Two sweeps rather than halving: their loads need not wait for one another.
    steps = 0
    for k in range(keys + STEP - 1, keys + length, STEP):
        steps += (m.f[k] < key) | (inclusive & (m.f[k] == key))
    below = steps * STEP
    for k in range(keys + below, keys + min(below + STEP, length)):
        below += (m.f[k] < key) | (inclusive & (m.f[k] == key))
    return below


@called
def put_in_order(m: Memory, record: int) -> None:
    """Move the last row of a list that is otherwise in order of key to its place."""
    header = RowList(m, record)
    last, kind, capacity = header.length - 1, header.kind, header.capacity
    header.length = last
    place = rows_below(m, record, m.f[key_at(m, record) + last], True)
    header.length = last + 1
    if place == last:
        return
    for column in range(float_columns(kind)):
        start = record + HEADER_WORDS + column * capacity
        value = m.f[start + last]
        for k in range(last, place, -1):
            m.f[start + k] = m.f[start + k - 1]
        m.f[start + place] = value
    for column in range(int_columns(kind)):
        start = ids_at(m, record) + column * capacity
        number = m.i[start + last]
        for k in range(last, place, -1):
            m.i[start + k] = m.i[start + k - 1]
        m.i[start + place] = number


@part
def has_room(m: Memory, directory: int, end: float) -> bool:
    """Return whether a row may be added to the first list of its bucket. Chained lists all have one key."""
    record = m.i[buckets_at(m, directory) + bucket_of(m, directory, end)]
    header = RowList(m, record)
    # Only the first list of a chain may be empty: it has just been put there.
    if header.next != 0 and m.f[key_at(m, header.next)] != end:
        return False
    return header.length < CHUNK


@called
def make_room(m: Memory, directory: int, end: float) -> None:
    """Bring `has_room` nearer: split the bucket at its median, or, when it has a single key, chain or divide it."""
    bucket = bucket_of(m, directory, end)
    record = m.i[buckets_at(m, directory) + bucket]
    header = RowList(m, record)
    key, kind = m.f[key_at(m, record)], header.kind
    if header.next == 0 and not _has_one_key(m, record):
        _split(m, directory, bucket, record)
        return
    other = new_list(m, kind, directory, 4)
    if end == key:
        RowList(m, other).next = record
        m.i[buckets_at(m, directory) + bucket] = other
    elif end > key:
        _insert_bucket(m, directory, bucket + 1, end, other)
    else:
        m.i[buckets_at(m, directory) + bucket] = other
        _insert_bucket(m, directory, bucket + 1, key, record)


@called
def _has_one_key(m: Memory, record: int) -> bool:
    keys = key_at(m, record)
    for k in range(1, RowList(m, record).length):
        if m.f[keys + k] != m.f[keys]:
            return False
    return True


@called
def _split(m: Memory, directory: int, bucket: int, record: int) -> None:
    """Split a bucket with more than one key at its median."""
    header = RowList(m, record)
    length, kind, keys, ids = (
        header.length,
        header.kind,
        key_at(m, record),
        ids_at(m, record),
    )
    ordered = np.empty(length)
    for k in range(length):
        ordered[k] = m.f[keys + k]
    sort(ordered, 0, length)
    cut = length // 2
    while ordered[cut] == ordered[0]:
        cut += 1
    lower = new_list(m, kind, directory, length)
    upper = new_list(m, kind, directory, length)
    for k in range(length):
        target = lower if m.f[keys + k] < ordered[cut] else upper
        append(m, target, m.i[ids + k])
        copy_row(m, record, k, target, RowList(m, target).length - 1)
    drop_list(m, record)
    if m.meta[LINKED] != 0:
        refresh_links(m, lower)
        refresh_links(m, upper)
    m.i[buckets_at(m, directory) + bucket] = lower
    _insert_bucket(m, directory, bucket + 1, ordered[cut], upper)


@called
def drop_bucket(m: Memory, directory: int, bucket: int) -> None:
    """Take a bucket without lists out, and its directory when that was its last."""
    header = Directory(m, directory)
    count = header.count - 1
    keys, lists = directory + DIRECTORY_WORDS, buckets_at(m, directory)
    for k in range(bucket, count):
        m.f[keys + k] = m.f[keys + k + 1]
        m.i[lists + k] = m.i[lists + k + 1]
    header.count = count
    m.f[keys] = -np.inf
    if count == 0:
        _point_at(m, directory, header.next)
        free(m, directory, directory_words(header.room))
