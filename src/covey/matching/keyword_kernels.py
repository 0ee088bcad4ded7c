"""The memory of the keyword index and the loops over it.

Everything lies in one growable array of int32, `memory`; a pointer is a place in it and 0 is null. A
conjunction is a record, with the word first that was in the fewest conjunctions when it came:

    handle  next  access  length  word 0 … word n-1  place 0 … place n-1

`handle` is that of the filter, `next` the filter's next record, `access` the record's place in the list in which
matching looks for it, one of word 0, and `place k` its place in the postings of word k. Each word has three lists,
described by nine numbers in `heads`:

    alone      handle                            the conjunctions of this word alone
    access     word 1, word 2, handle, record    the other conjunctions to try when a document has this word
    postings   record, k                         all conjunctions with this word, as their word k

In an access list, a conjunction of two words has its second one twice, and one of more than three words has the
complement (-1 - handle) of its handle: the rest of them has to be looked at in its record.

A list is a block with room to grow and has no order: what leaves is replaced by the last. Freed blocks are
chained by size and given out again first.

A document may match very many filters, so matching takes a few nanoseconds for each: it copies handles from lists, and
a byte for each handle tells whether it is in the answer already, as it may be for a filter of several conjunctions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from covey.matching.jit import (
    Ints,
    Longs,
    bytes_at,
    called,
    copy_values,
    ints_at,
    kernel,
    part,
)

Bytes = NDArray[np.uint8]

# Fields of a record.
HANDLE = 0
NEXT = 1
ACCESS = 2
LENGTH = 3
WORDS = 4

# Numbers of a word in `heads`: where its lists begin, how long they are and how long they may become.
HEAD_SIZE = 9
ALONE_LIST = 0
ACCESS_LIST = 3
POSTINGS_LIST = 6
ALONE_WIDTH = 1
ACCESS_WIDTH = 4
POSTINGS_WIDTH = 2
FIRST_CAPACITY = 4

# `meta`: the first free place of memory, then the chain of each class of free blocks.
TOP = 0
CHAINS = 1
EXACT_CLASSES = 256
META_LENGTH = CHAINS + EXACT_CLASSES + 32

AT_ONCE = 64  # entries of an access list that are looked at together
INLINE = 3  # words of a conjunction that an access list knows of

# Numbers of a filter in `filters`: its first record and how many conjunctions it has.
FILTER_SIZE = 2


@called
def size_class(size: int) -> int:
    """Return the class of blocks of `size`: each small size has its own, large ones one an octave."""
    if size <= EXACT_CLASSES:
        return size
    number = EXACT_CLASSES + 1
    while EXACT_CLASSES << (number - EXACT_CLASSES) < size:
        number += 1
    return number


@called
def class_size(number: int) -> int:
    """Return the size of the blocks of a class."""
    return number if number <= EXACT_CLASSES else EXACT_CLASSES << (number - EXACT_CLASSES)


@called
def allocate(memory: Ints, meta: Longs, size: int) -> int:
    """Return a block of at least `size`; the caller has reserved the room."""
    number = size_class(size)
    block = int(meta[CHAINS + number])
    if block:
        meta[CHAINS + number] = memory[block]
        return block
    block = int(meta[TOP])
    meta[TOP] += class_size(number)
    return block


@called
def release(memory: Ints, meta: Longs, block: int, size: int) -> None:
    """Take back a block that was given out for `size`."""
    number = size_class(size)
    memory[block] = meta[CHAINS + number]
    meta[CHAINS + number] = block


@called
def reserve(memory: Ints, meta: Longs, size: int) -> Ints:
    """Return memory, the same or a larger copy, with `size` places free at its top."""
    needed = meta[TOP] + size
    if needed <= len(memory):
        return memory
    larger = np.empty(max(needed, len(memory) + len(memory) // 2), np.int32)
    copy_values(larger, 0, memory, meta[TOP])
    return larger


@called
def growth(heads: Ints, head: int, width: int) -> int:
    """Return how much memory one more entry of a list may take."""
    capacity = heads[head + 2]
    return (
        0 if heads[head + 1] < capacity else class_size(size_class(width * max(2 * capacity, FIRST_CAPACITY)))
    )


@called
def append(memory: Ints, meta: Longs, heads: Ints, head: int, width: int) -> int:
    """Make room for an entry at a list's end; return its place."""
    start, length, capacity = heads[head], heads[head + 1], heads[head + 2]
    if length == capacity:
        larger = max(2 * capacity, FIRST_CAPACITY)
        block = allocate(memory, meta, width * larger)
        for k in range(width * length):
            memory[block + k] = memory[start + k]
        if capacity:
            release(memory, meta, start, width * capacity)
        heads[head] = start = block
        heads[head + 2] = larger
    heads[head + 1] = length + 1
    return int(start + width * length)


@called
def drop_last(memory: Ints, meta: Longs, heads: Ints, head: int, width: int) -> None:
    """Forget the last entry of a list, and its block when it was the only one."""
    heads[head + 1] -= 1
    if heads[head + 1] == 0:
        release(memory, meta, heads[head], width * heads[head + 2])
        heads[head] = heads[head + 2] = 0


@called
def rarest_first(heads: Ints, words: Ints) -> None:
    """Sort words by the length of their postings."""
    for k in range(1, len(words)):
        word = words[k]
        length = heads[HEAD_SIZE * word + POSTINGS_LIST + 1]
        j = k
        while j > 0 and heads[HEAD_SIZE * words[j - 1] + POSTINGS_LIST + 1] > length:
            words[j] = words[j - 1]
            j -= 1
        words[j] = word


@called
def add_record(memory: Ints, meta: Longs, heads: Ints, words: Ints, handle: int, following: int) -> Ints:
    """Store a conjunction; return memory, in which place 0, the null record, points at the new one."""
    rarest_first(heads, words)
    count = len(words)
    size = WORDS + 2 * count
    head, width = HEAD_SIZE * words[0] + ACCESS_LIST, ACCESS_WIDTH
    if count == 1:
        head, width = HEAD_SIZE * words[0] + ALONE_LIST, ALONE_WIDTH
    room = size + growth(heads, head, width)
    for word in words:
        room += growth(heads, HEAD_SIZE * word + POSTINGS_LIST, POSTINGS_WIDTH)
    memory = reserve(memory, meta, room)
    record = allocate(memory, meta, size)
    memory[record + HANDLE] = handle
    memory[record + NEXT] = following
    memory[record + LENGTH] = count
    for k in range(count):
        place = append(memory, meta, heads, HEAD_SIZE * words[k] + POSTINGS_LIST, POSTINGS_WIDTH)
        memory[place] = record
        memory[place + 1] = k
        memory[record + WORDS + k] = words[k]
        memory[record + WORDS + count + k] = (
            place - heads[HEAD_SIZE * words[k] + POSTINGS_LIST]
        ) // POSTINGS_WIDTH
    place = append(memory, meta, heads, head, width)
    memory[record + ACCESS] = (place - heads[head]) // width
    if count == 1:
        memory[place] = handle
    else:
        memory[place] = words[1]
        memory[place + 1] = words[2] if count > 2 else words[1]
        memory[place + 2] = handle if count <= INLINE else -1 - handle
        memory[place + 3] = record
    memory[0] = record
    return memory


@kernel
def add_filter(
    memory: Ints, meta: Longs, heads: Ints, filters: Ints, handle: int, words: Ints, ends: Ints
) -> Ints:
    """Store a filter whose conjunction c has the words from `ends[c - 1]` to `ends[c]`; return memory."""
    filters[FILTER_SIZE * handle] = 0
    filters[FILTER_SIZE * handle + 1] = len(ends)
    start = 0
    for end in ends:
        memory = add_record(memory, meta, heads, words[start:end], handle, filters[FILTER_SIZE * handle])
        filters[FILTER_SIZE * handle] = memory[0]
        start = end
    return memory


@called
def drop_alone(memory: Ints, meta: Longs, heads: Ints, filters: Ints, record: int) -> None:
    """Take a record of one word out of the list of its word, in which the last one takes its place."""
    word = memory[record + WORDS]
    head = HEAD_SIZE * word + ALONE_LIST
    hole, last = heads[head] + memory[record + ACCESS], heads[head] + heads[head + 1] - 1
    # The list has handles only: of the records of the filter that moves it is that with this word alone.
    moved = filters[FILTER_SIZE * memory[last]]
    while memory[moved + LENGTH] != 1 or memory[moved + WORDS] != word:
        moved = memory[moved + NEXT]
    memory[hole] = memory[last]
    memory[moved + ACCESS] = memory[record + ACCESS]
    drop_last(memory, meta, heads, head, ALONE_WIDTH)


@called
def drop_access(memory: Ints, meta: Longs, heads: Ints, record: int) -> None:
    """Take a record of several words out of the access list of its first."""
    head = HEAD_SIZE * memory[record + WORDS] + ACCESS_LIST
    hole = heads[head] + ACCESS_WIDTH * memory[record + ACCESS]
    last = heads[head] + ACCESS_WIDTH * (heads[head + 1] - 1)
    for k in range(ACCESS_WIDTH):
        memory[hole + k] = memory[last + k]
    memory[memory[hole + 3] + ACCESS] = memory[record + ACCESS]
    drop_last(memory, meta, heads, head, ACCESS_WIDTH)


@kernel
def remove_filter(memory: Ints, meta: Longs, heads: Ints, filters: Ints, handle: int) -> None:
    """Forget a filter and all its records."""
    record = filters[FILTER_SIZE * handle]
    while record:
        following = memory[record + NEXT]
        count = memory[record + LENGTH]
        if count == 1:
            drop_alone(memory, meta, heads, filters, record)
        else:
            drop_access(memory, meta, heads, record)
        for k in range(count):
            head = HEAD_SIZE * memory[record + WORDS + k] + POSTINGS_LIST
            place = memory[record + WORDS + count + k]
            hole = heads[head] + POSTINGS_WIDTH * place
            last = heads[head] + POSTINGS_WIDTH * (heads[head + 1] - 1)
            moved, its_k = memory[last], memory[last + 1]
            memory[hole], memory[hole + 1] = moved, its_k
            memory[moved + WORDS + memory[moved + LENGTH] + its_k] = place
            drop_last(memory, meta, heads, head, POSTINGS_WIDTH)
        release(memory, meta, record, WORDS + 2 * count)
        record = following
    filters[FILTER_SIZE * handle] = 0
    filters[FILTER_SIZE * handle + 1] = 0


@part
def note(handle: int, found: Bytes, stamp: int, matched: Ints, count: int) -> int:
    """Write a handle behind the first `count` unless it is there already; return how many there are. Without branches:
    whether it is there cannot be foreseen."""
    matched[count] = handle
    count += found[handle] != stamp
    found[handle] = stamp
    return count


@part
def try_entries(
    memory: Ints, start: int, end: int, seen: Bytes, found: Bytes, stamp: int, matched: Ints, count: int
) -> int:
    """Note the handles of those entries of an access list that the document has all words of."""
    for first in range(start, end, ACCESS_WIDTH * AT_ONCE):
        # The places of entries whose first words are there are gathered where the answers will go.
        passed = count
        for place in range(first, min(first + ACCESS_WIDTH * AT_ONCE, end), ACCESS_WIDTH):
            matched[passed] = place
            passed += seen[memory[place]] & seen[memory[place + 1]]
        for k in range(count, passed):
            place = matched[k]
            handle = memory[place + 2]
            if handle < 0:
                if not has_rest(memory, seen, memory[place + 3]):
                    continue
                handle = -1 - handle
            count = note(handle, found, stamp, matched, count)
    return count


@kernel
def match(
    memory: Ints, heads: Ints, seen: Bytes, found: Bytes, words: Ints, stamp: int, matched: Ints
) -> int:
    """Write the handles of the filters that match a document into `matched`, each once; return their number.

    `seen` has a byte for each word, which is 0 before and after, and `found` one for each handle, which is the stamp of
    an earlier match. `matched` has room for all handles, and AT_ONCE more.
    """
    records, begins, answers = (
        ints_at(memory.ctypes.data),
        ints_at(heads.ctypes.data),
        ints_at(matched.ctypes.data),
    )
    here, noted = bytes_at(seen.ctypes.data), bytes_at(found.ctypes.data)
    for word in words:
        here[word] = 1
    count = 0
    for word in words:
        head = HEAD_SIZE * word
        start = begins[head + ALONE_LIST]
        for place in range(start, start + begins[head + ALONE_LIST + 1]):
            count = note(records[place], noted, stamp, answers, count)
        start = begins[head + ACCESS_LIST]
        end = start + ACCESS_WIDTH * begins[head + ACCESS_LIST + 1]
        count = try_entries(records, start, end, here, noted, stamp, answers, count)
    for word in words:
        here[word] = 0
    return count


@called
def has_rest(memory: Ints, seen: Bytes, record: int) -> bool:
    """Return whether the document has a record's words from the fourth on."""
    for k in range(record + WORDS + INLINE, record + WORDS + memory[record + LENGTH]):
        if seen[memory[k]] == 0:
            return False
    return True


@kernel
def supersets(memory: Ints, heads: Ints, words: Ints) -> Ints:
    """Return the records of the conjunctions that have all of `words`."""
    rarest_first(heads, words)
    start = heads[HEAD_SIZE * words[0] + POSTINGS_LIST]
    length = heads[HEAD_SIZE * words[0] + POSTINGS_LIST + 1]
    records = np.empty(length, np.int32)
    count = 0
    for place in range(start, start + POSTINGS_WIDTH * length, POSTINGS_WIDTH):
        record = memory[place]
        if contains(memory, record, words):
            records[count] = record
            count += 1
    return records[:count]


@called
def contains(memory: Ints, record: int, words: Ints) -> bool:
    """Return whether a record has all of `words`, of which it has the first."""
    first = record + WORDS
    length = memory[record + LENGTH]
    if length < len(words):
        return False
    for word in words[1:]:
        k = 0
        while k < length and memory[first + k] != word:
            k += 1
        if k == length:
            return False
    return True
