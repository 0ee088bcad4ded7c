"""Judging: which atoms an event's value satisfies, asked of all atoms of an attribute at once, in compiled code.

Everything lies in one heap (heap.py) of records, found through one hash table of *keys*:

    key      an owner (the attribute), a kind, and a value; behind it entries
             NUMBER, TEXT, TRUTH, LARGE    the value itself: entries are channels
             PREFIX                        the beginning of a text: entries are channels
             GRAM                          up to three bytes side by side: entries are programs to be run
    owner    three lists: GENERAL, programs that are run for every value; LENGTHS of the prefixes that there are, in
             bytes; SIZES of the grams that there are
    program  a test in full: intervals of numbers and of texts, patterns wanted and unwanted (patterns.py)

So a value is looked up once as it is, once for each length of a prefix, and once for each of its places as a gram; only
programs that have a gram of the value, or none at all, are run. What a channel gets follows from its entry: 1 if the
value satisfies the atom; or, where the atom holds for all values but some, NaN for these (`channels.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from covey.matching.attributes.constraints import hash_of as hash_of_number
from covey.matching.attributes.heap import (
    CLASSES,
    FIRST_CHAIN,
    FREE_WORDS,
    STAMP,
    TABLE_MASK,
    TOP,
    WANTED,
    allocate,
    class_words,
    free,
    size_class,
)
from covey.matching.attributes.layout import Entries, Gram, Key, Owner, Program
from covey.matching.attributes.packed import FLOAT, OTHER, TEXT, TRUTH, Bytes, Given, Points, hash_of
from covey.matching.attributes.patterns import is_like
from covey.matching.attributes.room import Room
from covey.matching.jit import Floats, Ints, Longs, called, kernel, longs_at, part, pointer_to
from covey.matching.records import WORD, Of, addresses_of, note_addresses, pointers_to

# Kinds of keys; the last three are lists of the owner.
BY_NUMBER, BY_TEXT, BY_TRUTH, BY_LARGE, BY_PREFIX, BY_GRAM, GENERAL, LENGTHS, SIZES = range(9)
_OWNER_WORDS: Final = 2  # the heads of its lists

_KEY_WORDS: Final = 2  # before a key's number or its bytes
_SHAPE_KINDS: Final = 8
_HEAD: Final = Key.index_of("head")
_FIRST_ENTRY: Final = Entries.length_in()
PROGRAM_HEAD: Final = Program.BYTES // WORD
# Flags: which truth values and whether values of other kinds pass, and what the channel gets: NaN if the value
# passes, or NaN unless it does.
PASSES_FALSE, PASSES_TRUE, PASSES_OTHER, NAN_IF, NAN_UNLESS = 1, 2, 4, 8, 16

LARGE_KEY = 16  # instead of a kind of value: the bytes under which a large number was filed

_KEYS: Final = 1  # in `meta`: how many there are
_META: Final = FIRST_CHAIN + CLASSES + 1
_FIRST_TABLE: Final = 16

ADD, REMOVE = 0, -1  # changes; above 0: to add to the one with the fewest entries of all grams of that size


class AtomMemory(NamedTuple):
    """Pointers to the arrays: the heap as float64, int32 and bytes, the hash table, and counters (heap.py)."""

    f: Floats
    i: Annotated[Ints, Of("f")]
    b: Annotated[Bytes, Of("f")]
    table: Ints
    meta: Longs


atoms_at = pointers_to(AtomMemory)


# -- keys --------------------------------------------------------------------------------------------------------


@part
def _slot(m: AtomMemory, owner: int, given: Given) -> int:
    """Return the slot of the table under which a key stands: a value, of a kind of keys."""
    seed = owner * _SHAPE_KINDS + given.kind
    if given.kind == BY_NUMBER or given.kind == BY_TRUTH:
        return hash_of_number(seed, given.number, given.number) & m.meta[TABLE_MASK]
    return hash_of(given.data, given.first, given.last, seed) & m.meta[TABLE_MASK]


@part
def _given_of(m: AtomMemory, key: int) -> Given:
    """Return the value that a key stands for."""
    shape, begin = Key(m, key).shape, 8 * (key + _KEY_WORDS)
    return Given(shape % _SHAPE_KINDS, m.f[key + _KEY_WORDS], m.b, begin, begin + shape // _SHAPE_KINDS)


@part
def _is_same(m: AtomMemory, key: int, owner: int, given: Given) -> bool:
    known = Key(m, key)
    size = given.last - given.first
    if known.owner != owner or known.shape != size * _SHAPE_KINDS + given.kind:
        return False
    if given.kind == BY_NUMBER or given.kind == BY_TRUTH:
        return m.f[key + _KEY_WORDS] == given.number
    begin = 8 * (key + _KEY_WORDS)
    for k in range(size):
        if m.b[begin + k] != given.data[given.first + k]:
            return False
    return True


@called
def _find(m: AtomMemory, owner: int, given: Given) -> int:
    """Return the key of a value, or 0."""
    key = m.table[_slot(m, owner, given)]
    while key != 0 and not _is_same(m, key, owner, given):
        key = Key(m, key).next
    return key


@part
def _key_words(size: int) -> int:
    return _KEY_WORDS + max(1, (size + 7) >> 3)


@part
def _new_key(m: AtomMemory, owner: int, given: Given) -> int:
    slot, size = _slot(m, owner, given), given.last - given.first
    key = allocate(m, _key_words(size))
    known = Key(m, key)
    known.next = m.table[slot]
    known.head = 0
    known.owner = owner
    known.shape = size * _SHAPE_KINDS + given.kind
    m.f[key + _KEY_WORDS] = given.number  # and no stamp of a gram
    for k in range(size):
        m.b[8 * (key + _KEY_WORDS) + k] = given.data[given.first + k]
    m.table[slot] = key
    m.meta[_KEYS] += 1
    return key


@part
def _drop_key(m: AtomMemory, key: int) -> None:
    """Take a key out that has no entries left."""
    known = Key(m, key)
    given = _given_of(m, key)
    slot = _slot(m, known.owner, given)
    other = m.table[slot]
    if other == key:
        m.table[slot] = known.next
    else:
        while Key(m, other).next != key:
            other = Key(m, other).next
        Key(m, other).next = known.next
    free(m, key, _key_words(given.last - given.first))
    m.meta[_KEYS] -= 1


# -- entries: none, one that stands in its head as ~entry, or a list of them -----------------------------------


@part
def _list_words(capacity: int) -> int:
    return (_FIRST_ENTRY + capacity + 1) >> 1


@part
def _entries_at(head: int) -> int:
    """Return where in `i` the entries of a list are."""
    return 2 * head + _FIRST_ENTRY


@part
def _count_entries(m: AtomMemory, head: int) -> int:
    if head <= 0:
        return 1 if head < 0 else 0
    return Entries(m, head).length


@part
def _words_for_one_more(m: AtomMemory, head: int) -> int:
    """Return how many words it may take to add an entry."""
    if head == 0:
        return 0
    count = _count_entries(m, head)
    return class_words(size_class(_list_words(count + 2 + (count >> 1))))


@part
def _moved(m: AtomMemory, head: int, capacity: int) -> int:
    """Return a list of another capacity with the same entries, of which there is at least one."""
    head_entries = Entries(m, head)
    record = allocate(m, _list_words(capacity))
    record_entries = Entries(m, record)
    record_entries.capacity = capacity
    if head < 0:
        record_entries.length = 1
        m.i[_entries_at(record)] = ~head
        return record
    count = head_entries.length
    record_entries.length = count
    for k in range(count):
        m.i[_entries_at(record) + k] = m.i[_entries_at(head) + k]
    free(m, head, _list_words(head_entries.capacity))
    return record


@part
def _with_entry(m: AtomMemory, head: int, entry: int) -> int:
    """Return the head of the entries with one more."""
    if head == 0:
        return ~entry
    count = _count_entries(m, head)
    if head < 0 or count == Entries(m, head).capacity:
        head = _moved(m, head, count + 2 + (count >> 1))
    m.i[_entries_at(head) + count] = entry
    Entries(m, head).length = count + 1
    return head


@part
def _without_entry(m: AtomMemory, head: int, entry: int, room: int) -> int:
    """Return the head of the entries without one that is there; their list becomes smaller if there is room."""
    entries = Entries(m, head)
    if head < 0:
        return 0
    last, place = entries.length - 1, 0
    while m.i[_entries_at(head) + place] != entry:
        place += 1
    m.i[_entries_at(head) + place] = m.i[_entries_at(head) + last]
    entries.length = last
    if last == 1:
        other = m.i[_entries_at(head)]
        free(m, head, _list_words(entries.capacity))
        return ~other
    smaller = last + (last >> 1)
    is_sparse = 3 * last < entries.capacity and entries.capacity > 8
    if is_sparse and m.meta[TOP] + class_words(size_class(_list_words(smaller))) <= room:
        return _moved(m, head, smaller)
    return head


@part
def _least_crowded(m: AtomMemory, owner: int, text: Bytes, count: int, size: int) -> int:
    """Return where the gram begins, of the first `count` of a text, that has the fewest entries."""
    chosen, fewest = 0, 2**62
    for k in range(count):
        key = _find(m, owner, Given(BY_GRAM, 0.0, text, k, k + size))
        entries = _count_entries(m, Key(m, key).head) if key != 0 else 0
        if entries < fewest:
            chosen, fewest = k, entries
    return chosen


@kernel
def change_keys(
    addresses: Longs,
    room: int,
    owner: int,
    kind: int,
    numbers: Floats,
    starts: Longs,
    data: Bytes,
    entry: int,
    change: int,
    first: int,
) -> int:
    """Add an entry to keys, or remove it, from number `first` on; return the number of the first that was not done,
    because the heap has less than WANTED words.

    The keys are numbers, or the bytes from starts[n] to starts[n + 1]. A program, whose `change` is the size of its
    grams, is added to the one of them with the fewest entries.
    """
    m, text, places = atoms_at(addresses), pointer_to(data), pointer_to(starts)
    by_number = kind == BY_NUMBER or kind == BY_TRUTH
    count = len(numbers) if by_number else len(starts) - 1
    last = count
    if change > 0:
        first = _least_crowded(m, owner, text, count, change)
        last = first + 1
        gram = change << 24
        for k in range(change):
            gram |= (text[first + k] + 0) << 8 * k
        Program(m, entry).gram = gram
    for k in range(first, last):
        number = numbers[k] if by_number else 0.0
        begin, end = (0, 0) if by_number else (places[k], places[k + 1])
        if change > 0:
            end = begin + change
        key, place = 0, 2 * owner + kind - GENERAL
        if kind < GENERAL:
            key = _find(m, owner, Given(kind, number, text, begin, end))
            place = 2 * key + _HEAD
        if change == REMOVE:
            m.i[place] = _without_entry(m, m.i[place], entry, room)
            if key != 0 and m.i[place] == 0:
                _drop_key(m, key)
            continue
        words = class_words(size_class(_key_words(end - begin))) if key == 0 else 0
        if key != 0 or kind >= GENERAL:
            words += _words_for_one_more(m, m.i[place])
        if m.meta[TOP] + words > room:
            m.meta[WANTED] = words
            return k - count  # below 0
        if key == 0 and kind < GENERAL:
            place = 2 * _new_key(m, owner, Given(kind, number, text, begin, end)) + _HEAD
        m.i[place] = _with_entry(m, m.i[place], entry)
    return count


@kernel
def change_record(addresses: Longs, room: int, words: Longs, record: int, size: int) -> int:
    """Return a new record with these words; or, if one is given, take it back. 0 if the heap has less than WANTED."""
    m = atoms_at(addresses)
    if record != 0:
        free(m, record, size)
        return 0
    m.meta[WANTED] = class_words(size_class(len(words)))
    if m.meta[TOP] + m.meta[WANTED] > room:
        return 0
    record = allocate(m, len(words))
    target = longs_at(addresses[0])
    for k in range(len(words)):
        target[record + k] = words[k]
    return record


@kernel
def fill_table(addresses: Longs, old: Ints) -> None:
    """Put every key of an old table into the present one, which is empty."""
    m = atoms_at(addresses)
    for head in old:
        key = int(head)
        while key != 0:
            after = Key(m, key).next
            slot = _slot(m, Key(m, key).owner, _given_of(m, key))
            Key(m, key).next = m.table[slot]
            m.table[slot] = key
            key = after


# -- judging -----------------------------------------------------------------------------------------------------


@part
def _is_before(m: AtomMemory, begin: int, size: int, data: Bytes, first: int, last: int) -> bool:
    """Return whether a text of the heap is at most the given one, by bytes, which is the order of code points."""
    common = min(size, last - first)
    for k in range(common):
        if m.b[begin + k] != data[first + k]:
            return m.b[begin + k] < data[first + k]
    return size <= last - first


@called
def _text_passes(m: AtomMemory, program: int, data: Bytes, first: int, last: int) -> bool:
    """Return whether a text is in the program's intervals and matches its patterns."""
    test = Program(m, program)
    cuts = 2 * test.texts
    likes, unlikes = test.likes, test.unlikes
    base = 2 * (program + PROGRAM_HEAD + 2 * test.numbers)
    low, high = 0, cuts  # how many cuts lie before the text
    while low < high:
        middle = (low + high) >> 1
        begin, size = m.i[base + 2 * middle], m.i[base + 2 * middle + 1]
        if size >= 0 and _is_before(m, 8 * program + begin, size, data, first, last):
            low = middle + 1
        else:
            high = middle
    if low & 1 == 0:
        return False
    base += 2 * cuts
    for k in range(likes + unlikes):
        begin = 8 * program + m.i[base + 2 * k]
        wanted = k < likes
        if is_like(data, first, last, m.b, begin, begin + m.i[base + 2 * k + 1]) != wanted:
            return False
    return True


@part
def _number_passes(m: AtomMemory, program: int, number: float) -> bool:
    """Return whether a number is in the program's intervals."""
    base, low, high = program + PROGRAM_HEAD, 0, Program(m, program).numbers
    while low < high:
        middle = (low + high) >> 1
        if m.f[base + 2 * middle] <= number:
            low = middle + 1
        else:
            high = middle
    return low > 0 and number <= m.f[base + 2 * low - 1]


@part
def _run(m: AtomMemory, program: int, value: Given, points: Points, found: int) -> int:
    """Write what a program says of a value, if anything; return how many points there are then."""
    test = Program(m, program)
    flags, passes = test.flags, False
    if value.kind == FLOAT:
        passes = _number_passes(m, program, value.number)
    elif value.kind == TEXT:
        passes = _text_passes(m, program, value.data, value.first, value.last)
    elif value.kind == TRUTH:
        passes = flags & (PASSES_TRUE if value.number != 0.0 else PASSES_FALSE) != 0
    elif value.kind == OTHER:
        passes = flags & PASSES_OTHER != 0
    if flags & NAN_UNLESS != 0:
        passes = not passes
    if passes:
        points.channels[found] = test.channel
        points.values[found] = np.nan if flags & (NAN_IF | NAN_UNLESS) != 0 else 1.0
        found += 1
    return found


@part
def _entry(m: AtomMemory, head: int, k: int) -> int:
    return ~head if head < 0 else m.i[_entries_at(head) + k]


@part
def _emit(m: AtomMemory, key: int, points: Points, found: int) -> int:
    """Write the points of a key's entries, which are channels; return how many there are then, -1 without room."""
    if key == 0:
        return found
    head = Key(m, key).head
    count = _count_entries(m, head)
    if found + count > points.room:
        return -1
    for k in range(count):
        entry = _entry(m, head, k)
        points.channels[found] = entry >> 1
        points.values[found] = np.nan if entry & 1 != 0 else 1.0
        found += 1
    return found


@part
def _run_all(m: AtomMemory, head: int, value: Given, points: Points, found: int) -> int:
    """Run a list of programs; return how many points there are then, -1 if there is no room."""
    count = _count_entries(m, head)
    if found + count > points.room:
        return -1
    for k in range(count):
        found = _run(m, _entry(m, head, k), value, points, found)
    return found


@called
def _next_stamp(m: AtomMemory) -> None:
    m.meta[STAMP] += 1
    if m.meta[STAMP] == 2**31 - 1:
        m.meta[STAMP] = 1
        for slot in range(m.meta[TABLE_MASK] + 1):
            key = m.table[slot]
            while key != 0:
                if Key(m, key).shape % _SHAPE_KINDS == BY_GRAM:
                    Gram(m, key).stamp = 0
                key = Key(m, key).next


@called
def _judge_text(m: AtomMemory, owner: int, value: Given, points: Points, found: int) -> int:
    """Write the points of a text's beginnings and of its grams; return how many there are then, -1 without room."""
    data, first, last = value.data, value.first, value.last
    head = Owner(m, owner).lengths
    for k in range(_count_entries(m, head)):
        end = first + _entry(m, head, k)
        if end <= last and found >= 0:
            key = _find(m, owner, Given(BY_PREFIX, 0.0, data, first, end))
            found = _emit(m, key, points, found)
    head = Owner(m, owner).sizes
    if head != 0:
        _next_stamp(m)
    for k in range(_count_entries(m, head)):
        size = _entry(m, head, k)
        for at in range(first, last - size + 1):
            key = _find(m, owner, Given(BY_GRAM, 0.0, data, at, at + size))
            if key != 0 and Gram(m, key).stamp != m.meta[STAMP] and found >= 0:
                Gram(m, key).stamp = m.meta[STAMP]
                found = _run_all(m, Key(m, key).head, value, points, found)
    return found


@called
def judge(m: AtomMemory, owner: int, value: Given, points: Points, found: int) -> int:
    """Write the points that a value gives the channels of its owner's atoms behind the first `found`; return how many
    there are then, -1 if there is no room for all.
    """
    if value.kind == FLOAT:
        key = _find(m, owner, Given(BY_NUMBER, value.number, value.data, 0, 0))
        found = _emit(m, key, points, found)
    elif value.kind == TRUTH:
        key = _find(m, owner, Given(BY_TRUTH, value.number, value.data, 0, 0))
        found = _emit(m, key, points, found)
    elif value.kind == TEXT:
        key = _find(m, owner, Given(BY_TEXT, 0.0, value.data, value.first, value.last))
        found = _emit(m, key, points, found)
        if found >= 0:
            found = _judge_text(m, owner, value, points, found)
    if found < 0:
        return -1
    return _run_all(m, Owner(m, owner).general, value, points, found)


@kernel
def judge_one(
    addresses: Longs,
    owner: int,
    kind: int,
    number: float,
    data: Bytes,
    last: int,
    points: Ints,
    values: Floats,
) -> int:
    """Do as `judge` for the text `data[:last]` or another value; with LARGE_KEY, write what is filed under that key."""
    m, text, room = (
        atoms_at(addresses),
        pointer_to(data),
        Points(pointer_to(points), pointer_to(values), len(points)),
    )
    if kind == LARGE_KEY:
        return _emit(m, _find(m, owner, Given(BY_LARGE, 0.0, text, 0, last)), room, 0)
    return judge(m, owner, Given(kind, number, text, 0, last), room, 0)


Array = TypeVar("Array", bound=NDArray[Any])


def _read_only(array: Array) -> Array:
    """Return the array as others are that are given to the same kernels, which it is compiled for once then."""
    array.setflags(write=False)
    return array


_WINDOWS: Final[Longs] = np.arange(64)
_NO_WORDS: Final[Longs] = _read_only(np.zeros(0, np.int64))
_NEW_OWNER: Final[Longs] = _read_only(np.zeros(_OWNER_WORDS, np.int64))
_NO_NUMBERS: Final[Floats] = np.zeros(0)
_ONE_PLACE: Final[Longs] = np.zeros(2, np.int64)
_NO_BYTES: Final[Bytes] = _read_only(np.zeros(1, np.uint8))


class AtomTable:
    """The arrays of all atoms of an index, and what changes them; see the module's text."""

    def __init__(self) -> None:
        self._heap = Room(np.zeros(64, np.int64))
        self._table: Ints = np.zeros(_FIRST_TABLE, np.int32)
        self._meta: Longs = np.zeros(_META, np.int64)
        self._meta[TOP] = 1
        self._text: Bytes = np.zeros(256, np.uint8)
        self._points: Ints = np.zeros(64, np.int32)
        self._values: Floats = np.zeros(64)
        self.addresses: Longs = np.zeros(addresses_of(AtomMemory), np.int64)
        self._note_addresses()

    def __getstate__(self) -> dict[str, object]:
        """Return the arrays: an index can go to another process as it is."""
        return vars(self) | {"_heap": Room(self._heap.array.copy())}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._note_addresses()

    @property
    def nbytes(self) -> int:
        """How many bytes the arrays take, free room included."""
        return self._heap.array.nbytes + self._table.nbytes + self._meta.nbytes

    @property
    def used_words(self) -> int:
        """How many words of the heap hold records."""
        return int(self._meta[TOP] - self._meta[FREE_WORDS])

    def _note_addresses(self) -> None:
        self._meta[TABLE_MASK] = len(self._table) - 1
        arrays = {"f": self._heap.array, "table": self._table, "meta": self._meta}
        note_addresses(self.addresses, AtomMemory, arrays)

    def _grow(self) -> None:
        self._heap.grow(int(self._meta[TOP] + self._meta[WANTED]))
        self._note_addresses()

    def new_record(self, words: Longs) -> int:
        """Return the place of a new record with these words, an owner or a program."""
        while True:
            record = change_record(self.addresses, len(self._heap.array), words, 0, 0)
            if record:
                return record
            self._grow()

    def new_owner(self) -> int:
        """Return a new owner, without atoms."""
        return self.new_record(_NEW_OWNER)

    def drop_owner(self, owner: int) -> None:
        """Take back an owner that has no atoms left."""
        change_record(self.addresses, 0, _NO_WORDS, owner, _OWNER_WORDS)

    def drop_program(self, program: int) -> None:
        """Take back a program."""
        words = int(self._heap.array.view(np.int32)[2 * program + Program.index_of("words")])
        change_record(self.addresses, 0, _NO_WORDS, program, words)

    def gram_of(self, program: int) -> bytes:
        """Return the gram under which a program was filed."""
        gram = int(self._heap.array.view(np.int32)[2 * program + Program.index_of("gram")])
        return gram.to_bytes(4, "little")[: gram >> 24]

    def file_program(self, owner: int, literal: bytes, size: int, program: int) -> None:
        """File a program under the gram of a literal, of so many bytes, that the fewest others have."""
        data = np.frombuffer(literal + b"\0", np.uint8)
        starts = _WINDOWS[: len(literal) - size + 2]
        self._change(owner, BY_GRAM, _NO_NUMBERS, starts, data, program, size)

    def file_numbers(self, owner: int, kind: int, numbers: Sequence[float], entry: int, change: int) -> None:
        """Add an entry to the keys of numbers, or of truth values, or remove it."""
        self._change(owner, kind, np.array(numbers, np.float64), _ONE_PLACE, _NO_BYTES, entry, change)

    def file_texts(self, owner: int, kind: int, texts: Sequence[bytes], entry: int, change: int) -> None:
        """Add an entry to the keys of texts, or remove it."""
        starts: Longs = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(text) for text in texts], out=starts[1:])
        data = np.frombuffer(b"".join(texts) + b"\0", np.uint8)
        self._change(owner, kind, _NO_NUMBERS, starts, data, entry, change)

    def file_entry(self, owner: int, kind: int, entry: int, change: int) -> None:
        """Add an entry to one of the owner's lists, or remove it."""
        self._change(owner, kind, _NO_NUMBERS, _ONE_PLACE, _NO_BYTES, entry, change)

    def _change(
        self,
        owner: int,
        kind: int,
        numbers: Floats,
        starts: Longs,
        data: Bytes,
        entry: int,
        change: int,
    ) -> None:
        count = len(numbers) if kind in (BY_NUMBER, BY_TRUTH) else len(starts) - 1
        if change != REMOVE and kind < GENERAL and self._meta[_KEYS] + count > len(self._table):
            old = self._table
            self._table = np.zeros(1 << (2 * (int(self._meta[_KEYS]) + count)).bit_length(), np.int32)
            self._note_addresses()
            fill_table(self.addresses, old)
        done = 0
        keys = (numbers, starts, data)
        while True:
            room = len(self._heap.array)
            done = change_keys(self.addresses, room, owner, kind, *keys, entry, change, done)
            if done >= 0:
                return
            done += count
            self._grow()

    def judge(self, owner: int, kind: int, number: float, text: bytes = b"") -> tuple[list[int], list[float]]:
        """Return the points of a value, channels and values, as `judge` in compiled code writes them."""
        size = len(text)
        if size > len(self._text):
            self._text = np.zeros(2 * size, np.uint8)
        if size:
            self._text.data[:size] = text
        while True:
            found = judge_one(
                self.addresses, owner, kind, number, self._text, size, self._points, self._values
            )
            if found >= 0:
                return self._points[:found].tolist(), self._values[:found].tolist()
            self._points = np.zeros(2 * len(self._points), np.int32)
            self._values = np.zeros(len(self._points))
