"""The memory of the keyword index and the loops over it.

Records lie in a heap of 8-byte words (attributes/heap.py), in which a pointer is the number of a word and 0 is null. A
conjunction is a `Conjunction`, with the word first that was in the fewest conjunctions when it came; behind it stand
the numbers of its words, and then for each word the place that it has in the word's postings.

Each word has three lists of entries (`EntryList`), each a block with room to grow:

    ALONE       a handle      the conjunctions of this word alone
    ACCESS      `Access`      the other conjunctions to try when a document has this word, their first one
    POSTINGS    `Posting`     all conjunctions with this word

Lists have no order: what leaves is replaced by the last. Kernels never grow the heap: `add_filter` returns where it has
to go on once there is more room.

A document may match very many filters, so matching takes a few nanoseconds for each: it copies handles from lists, and
a byte for each handle tells whether it is in the answer already, as it may be for a filter of several conjunctions.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from covey.matching.attributes.heap import TOP, WANTED, allocate, class_words, free, size_class
from covey.matching.jit import Floats, Ints, Longs, called, kernel, part, pointer_to
from covey.matching.records import WORD, Int, Of, Record, pointers_to

Bytes = NDArray[np.uint8]

# The lists of a word, in this order in `lists`.
ALONE, ACCESS, POSTINGS, LISTS = 0, 1, 2, 3
FIRST_CAPACITY: Final = 4

AT_ONCE: Final = 64  # entries of an access list that are looked at together
INLINE: Final = 3  # words of a conjunction that an access list knows of


class Conjunction(Record, array="f", unit=WORD):
    """A conjunction: its filter's handle, the filter's next one, its place in the list of its first word in which
    matching looks for it, and how many words it has. The words and their places in postings follow."""

    handle: Int
    next: Int
    place: Int
    length: Int


class EntryList(Record, array="lists"):
    """Where a list's entries begin, how many there are and for how many there is room."""

    start: Int
    length: Int
    capacity: Int


class Access(Record, array="f", unit=WORD):
    """An entry of an access list: the second and third word (the second again if there is none), the handle, and the
    conjunction. The handle's complement says that there are more words, to be looked at in the conjunction."""

    second: Int
    third: Int
    handle: Int
    conjunction: Int


class Posting(Record, array="f", unit=WORD):
    """An entry of postings: a conjunction, and which of its words this one is."""

    conjunction: Int
    number: Int


class Stored(Record, array="filters"):
    """A filter, by its handle: its first conjunction and how many it has."""

    first: Int
    conjunctions: Int


class Memory(NamedTuple):
    """Pointers to the heap, the lists of each word, the filters and the counters of the heap; and what matching works
    with: a byte for each word, 0 between questions, a byte for each handle, the stamp of an earlier question, and room
    for the answer."""

    f: Floats
    i: Annotated[Ints, Of("f")]
    lists: Ints
    filters: Ints
    meta: Longs
    seen: Bytes
    found: Bytes
    answers: Ints


memory_at = pointers_to(Memory)

_WORDS: Final = Conjunction.length_in()  # from a conjunction to its words, as int32 numbers
_ACCESS_WORDS: Final = Access.BYTES // WORD


@part
def _list_of(m: Memory, word: int, which: int) -> EntryList:
    return EntryList(m, LISTS * word + which)


@part
def _list_words(which: int, capacity: int) -> int:
    """Return how many words of the heap a list takes."""
    if which == ALONE:
        return (capacity + 1) // 2
    return _ACCESS_WORDS * capacity if which == ACCESS else capacity


@part
def _conjunction_words(count: int) -> int:
    """Return how many words of the heap a conjunction of so many words takes."""
    return (_WORDS + 2 * count + 1) // 2


@part
def _words_at(conjunction: int) -> int:
    """Return where in `i` the words of a conjunction are."""
    return 2 * conjunction + _WORDS


@part
def _access_at(m: Memory, word: int, place: int) -> Access:
    return Access(m, _list_of(m, word, ACCESS).start + _ACCESS_WORDS * place)


@part
def _posting_at(m: Memory, word: int, place: int) -> Posting:
    return Posting(m, _list_of(m, word, POSTINGS).start + place)


@part
def _alone_at(m: Memory, word: int) -> int:
    """Return where in `i` the handles of a word alone are."""
    return 2 * _list_of(m, word, ALONE).start


@part
def _growth(m: Memory, word: int, which: int) -> int:
    """Return how much of the heap one more entry of a list may take."""
    entries = _list_of(m, word, which)
    if entries.length < entries.capacity:
        return 0
    return class_words(size_class(_list_words(which, max(2 * entries.capacity, FIRST_CAPACITY))))


@called
def _append(m: Memory, word: int, which: int) -> int:
    """Make room for an entry at a list's end; return its place."""
    entries = _list_of(m, word, which)
    length, capacity = entries.length, entries.capacity
    if length == capacity:
        larger = max(2 * capacity, FIRST_CAPACITY)
        block = allocate(m, _list_words(which, larger))
        for k in range(_list_words(which, capacity)):
            m.f[block + k] = m.f[entries.start + k]
        if capacity != 0:
            free(m, entries.start, _list_words(which, capacity))
        entries.start, entries.capacity = block, larger
    entries.length = length + 1
    return length


@called
def _drop_last(m: Memory, word: int, which: int) -> None:
    """Forget the last entry of a list, and its block when it was the only one."""
    entries = _list_of(m, word, which)
    entries.length -= 1
    if entries.length == 0:
        free(m, entries.start, _list_words(which, entries.capacity))
        entries.start = entries.capacity = 0


@part
def _postings_of(m: Memory, word: int) -> int:
    return _list_of(m, word, POSTINGS).length


@called
def _rarest_first(m: Memory, words: Ints, first: int, last: int) -> None:
    """Sort words by the length of their postings."""
    for k in range(first + 1, last):
        word, j = words[k], k
        while j > first and _postings_of(m, words[j - 1]) > _postings_of(m, word):
            words[j] = words[j - 1]
            j -= 1
        words[j] = word


@part
def _is_short(m: Memory, size: int, words: Ints, first: int, last: int) -> bool:
    """Return whether a heap of `size` words has no room for a conjunction; how much is wanted is noted then."""
    wanted = class_words(size_class(_conjunction_words(last - first)))
    wanted += _growth(m, words[first], ALONE if last - first == 1 else ACCESS)
    for k in range(first, last):
        wanted += _growth(m, words[k], POSTINGS)
    m.meta[WANTED] = wanted
    return m.meta[TOP] + wanted > size


@called
def _add_conjunction(m: Memory, words: Ints, first: int, last: int, handle: int) -> None:
    """Store a conjunction of the words from `first` to `last`, the rarest first; there is room for it."""
    count = last - first
    number = allocate(m, _conjunction_words(count))
    conjunction, stored = Conjunction(m, number), Stored(m, handle)
    conjunction.handle, conjunction.next, conjunction.length = handle, stored.first, count
    stored.first = number
    for k in range(count):
        word = words[first + k]
        place = _append(m, word, POSTINGS)
        posting = _posting_at(m, word, place)
        posting.conjunction, posting.number = number, k
        m.i[_words_at(number) + k] = word
        m.i[_words_at(number) + count + k] = place
    rarest = words[first]
    if count == 1:
        conjunction.place = _append(m, rarest, ALONE)
        m.i[_alone_at(m, rarest) + conjunction.place] = handle
        return
    conjunction.place = _append(m, rarest, ACCESS)
    access = _access_at(m, rarest, conjunction.place)
    access.second = words[first + 1]
    access.third = words[first + 2] if count > 2 else words[first + 1]
    access.handle = handle if count <= INLINE else -1 - handle
    access.conjunction = number


@kernel
def add_filter(addresses: Longs, size: int, handle: int, words: Ints, ends: Ints, done: int) -> int:
    """Store a filter whose conjunction c has the words from `ends[c - 1]` to `ends[c]`, from number `done` on; return
    the first one for which a heap of `size` words has no room."""
    m, given = memory_at(addresses), pointer_to(words)
    if done == 0:
        Stored(m, handle).first = 0
        Stored(m, handle).conjunctions = len(ends)
    for number in range(done, len(ends)):
        first, last = ends[number - 1] if number > 0 else 0, ends[number]
        _rarest_first(m, given, first, last)
        if _is_short(m, size, given, first, last):
            return number
        _add_conjunction(m, given, first, last, handle)
    return len(ends)


@called
def _drop_alone(m: Memory, number: int) -> None:
    """Take a conjunction of one word out of the list of its word, in which the last one takes its place."""
    conjunction, word = Conjunction(m, number), m.i[_words_at(number)]
    handles = _alone_at(m, word)
    last = m.i[handles + _list_of(m, word, ALONE).length - 1]
    # The list has handles only: of the conjunctions of the filter that moves it is that with this word alone.
    moved = Stored(m, last).first
    while Conjunction(m, moved).length != 1 or m.i[_words_at(moved)] != word:
        moved = Conjunction(m, moved).next
    m.i[handles + conjunction.place] = last
    Conjunction(m, moved).place = conjunction.place
    _drop_last(m, word, ALONE)


@called
def _drop_access(m: Memory, number: int) -> None:
    """Take a conjunction of several words out of the access list of its first."""
    conjunction, word = Conjunction(m, number), m.i[_words_at(number)]
    hole = _access_at(m, word, conjunction.place)
    last = _access_at(m, word, _list_of(m, word, ACCESS).length - 1)
    hole.second, hole.third, hole.handle, hole.conjunction = (
        last.second,
        last.third,
        last.handle,
        last.conjunction,
    )
    Conjunction(m, hole.conjunction).place = conjunction.place
    _drop_last(m, word, ACCESS)


@called
def _drop_posting(m: Memory, number: int, k: int) -> None:
    """Take word k of a conjunction out of the word's postings."""
    words, count = _words_at(number), Conjunction(m, number).length
    word, place = m.i[words + k], m.i[words + count + k]
    hole, last = _posting_at(m, word, place), _posting_at(m, word, _postings_of(m, word) - 1)
    hole.conjunction, hole.number = last.conjunction, last.number
    moved = hole.conjunction
    m.i[_words_at(moved) + Conjunction(m, moved).length + hole.number] = place
    _drop_last(m, word, POSTINGS)


@kernel
def remove_filter(addresses: Longs, handle: int) -> None:
    """Forget a filter and all its conjunctions."""
    m = memory_at(addresses)
    number = Stored(m, handle).first
    while number != 0:
        following, count = Conjunction(m, number).next, Conjunction(m, number).length
        if count == 1:
            _drop_alone(m, number)
        else:
            _drop_access(m, number)
        for k in range(count):
            _drop_posting(m, number, k)
        free(m, number, _conjunction_words(count))
        number = following
    Stored(m, handle).first = Stored(m, handle).conjunctions = 0


@part
def _note(m: Memory, handle: int, stamp: int, count: int) -> int:
    """Write a handle behind the first `count` answers unless it is there already; return how many there are. Without
    branches: whether it is there cannot be foreseen."""
    m.answers[count] = handle
    count += m.found[handle] != stamp
    m.found[handle] = stamp
    return count


@part
def _has_rest(m: Memory, number: int) -> bool:
    """Return whether the document has a conjunction's words from the fourth on."""
    words = _words_at(number)
    for k in range(INLINE, Conjunction(m, number).length):
        if m.seen[m.i[words + k]] == 0:
            return False
    return True


@part
def _try_entries(m: Memory, start: int, length: int, stamp: int, count: int) -> int:
    """Note the handles of those entries of an access list that the document has all words of."""
    end = start + _ACCESS_WORDS * length
    for first in range(start, end, _ACCESS_WORDS * AT_ONCE):
        # The places of entries whose first words are there are gathered where the answers will go.
        passed = count
        for place in range(first, min(first + _ACCESS_WORDS * AT_ONCE, end), _ACCESS_WORDS):
            m.answers[passed] = place
            passed += m.seen[Access(m, place).second] & m.seen[Access(m, place).third]
        for k in range(count, passed):
            entry = Access(m, m.answers[k])
            handle = entry.handle
            if handle < 0:
                if not _has_rest(m, entry.conjunction):
                    continue
                handle = -1 - handle
            count = _note(m, handle, stamp, count)
    return count


@kernel
def match(addresses: Longs, words: Ints, stamp: int) -> int:
    """Write the handles of the filters that match a document to the answers, each once; return their number.

    There is room for all handles, and AT_ONCE more.
    """
    m = memory_at(addresses)
    for word in words:
        m.seen[word] = 1
    count = 0
    for word in words:
        handles = _alone_at(m, word)
        for k in range(_list_of(m, word, ALONE).length):
            count = _note(m, m.i[handles + k], stamp, count)
        entries = _list_of(m, word, ACCESS)
        count = _try_entries(m, entries.start, entries.length, stamp, count)
    for word in words:
        m.seen[word] = 0
    return count


@called
def _contains(m: Memory, number: int, words: Ints, count: int) -> bool:
    """Return whether a conjunction has all of the first `count` words given, of which it has the first."""
    own, length = _words_at(number), Conjunction(m, number).length
    if length < count:
        return False
    for one in range(1, count):
        k = 0
        while k < length and m.i[own + k] != words[one]:
            k += 1
        if k == length:
            return False
    return True


@kernel
def supersets(addresses: Longs, words: Ints, conjunctions: Ints) -> int:
    """Write the conjunctions that have all of `words`; return how many there are.

    There is room for as many as there are conjunctions with any one of the words.
    """
    m, given, out = memory_at(addresses), pointer_to(words), pointer_to(conjunctions)
    _rarest_first(m, given, 0, len(words))
    count = 0
    for place in range(_postings_of(m, given[0])):
        number = _posting_at(m, given[0], place).conjunction
        if _contains(m, number, given, len(words)):
            out[count] = number
            count += 1
    return count
