"""An index of attribute filters as one array of addresses, for kernels that ask several indexes about one event.

`IndexView` is kept by its index and brought up to date before it is used (`refresh`, which costs next to nothing while
the index has not changed). Kernels ask it in two steps: `points_of` turns the attributes of an event, as
`checking.read_attributes` has found them, into channels and values, and `matching` or `links_to` asks the rows.

Values that compiled code cannot judge, numbers from 2**53 on, are looked up among those that Python has judged before.
What is not there is reported as missing: `learn` judges it, and the event is asked about again. What was learnt is
forgotten when the index changes.

`match_one` is the whole way of one event in one call from Python; `IndexView` has the room for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import is_
from typing import Final

import numpy as np

from covey.matching.attributes.checking import (
    ATTRIBUTE_COLUMNS,
    END,
    HASH,
    KIND,
    MOST_NAMES,
    NAME_FIRST,
    NAME_LAST,
    VALUE_FIRST,
    VALUE_LAST,
    read_attributes,
)
from covey.matching.attributes.forwarding import event_links
from covey.matching.attributes.heap import VERIFIED
from covey.matching.attributes.judging import atoms_at, judge
from covey.matching.attributes.memory import ARRAYS, Intervals, memory_at
from covey.matching.attributes.packed import FLOAT, LARGE, NOTHING, TEXT, TRUTH, Bytes
from covey.matching.attributes.query import satisfied
from covey.matching.attributes.store import ENOUGH_VERIFIED, FEW_LOOKS, Store
from covey.matching.attributes.texts import FREE, HOLE, Texts, find
from covey.matching.attributes.unpacking import (
    ATOMS,
    COLUMNS,
    NUMBER,
    POINTS,
    SYMBOL,
    Unpacker,
    put_point,
)
from covey.matching.jit import (
    Floats,
    Ints,
    Longs,
    bytes_at,
    called,
    floats_at,
    ints_at,
    kernel,
    longs_at,
    part,
)
from covey.matching.keyset import HANDLES

MOST_POINTS: Final = 4_096  # of one event, on all channels of an index
MOST_LEARNT: Final = 1 << 16  # values; with one more, all are forgotten

MISSING, TOO_MANY, UNREADABLE = -1, -2, -3  # instead of a number of points

RESTLESS: Final = (
    1 << 40
)  # in the answer about one event: it is time for the store to move rows (`Store.tidy`)

# What the array of a view holds. Texts have five entries: table, mask, owners, starts, bytes.
_STORE, _ATTRIBUTES, _NAMES, _NAME_VALUES, _TEXTS, _SYMBOLS = 0, 1, 2, 7, 8, 13
_LEARNT, _LEARNT_STARTS, _LEARNT_CHANNELS, _LEARNT_VALUES, _LINKS = 14, 19, 20, 21, 22
_JUDGES, _ROOM, _KEYS, _LENGTH = 23, 24, 25, 26

# What the room for one event holds, in words: its attributes and their numbers, its points, one value that is missing.
_ROOM_NUMBERS = ATTRIBUTE_COLUMNS * MOST_NAMES
_ROOM_CHANNELS = _ROOM_NUMBERS + MOST_NAMES
_ROOM_VALUES = _ROOM_CHANNELS + MOST_POINTS
_ROOM_CELLS = _ROOM_VALUES + MOST_POINTS
_ROOM_MISSING = _ROOM_CELLS + MOST_POINTS
_ROOM_LENGTH = _ROOM_MISSING + 4

# Columns of a value that is missing: of which view, of which attribute there, where its bytes are and how many.
VIEW, OWNER, ADDRESS, SIZE, MISSING_COLUMNS = 0, 1, 2, 3, 4


@part
def _owner_of(view: Longs, data: Bytes, attributes: Longs, row: int) -> int:
    """Return the number of the attribute with an event's name, whose hash is known; -1 if no filter asks for it."""
    table, mask = ints_at(view[_NAMES]), view[_NAMES + 1]
    starts, texts = longs_at(view[_NAMES + 3]), bytes_at(view[_NAMES + 4])
    first = attributes[row + NAME_FIRST]
    size = attributes[row + NAME_LAST] - first
    slot = attributes[row + HASH] & mask
    while table[slot] != FREE:
        number = table[slot]
        slot = (slot + 1) & mask
        if number == HOLE or starts[number + 1] - starts[number] != size:
            continue
        begin, same = starts[number], True
        for k in range(size):
            if texts[begin + k] != data[first + k]:
                same = False
                break
        if same:
            return ints_at(view[_NAME_VALUES])[number]
    return -1


@part
def _find_text(view: Longs, base: int, data: Bytes, first: int, last: int, owner: int) -> int:
    return find(
        data,
        first,
        last,
        owner,
        view[base + 1],
        ints_at(view[base]),
        ints_at(view[base + 2]),
        longs_at(view[base + 3]),
        bytes_at(view[base + 4]),
    )


@called
def points_of(
    at: int,
    base: int,
    attributes: Longs,
    numbers: Floats,
    count: int,
    channels: Ints,
    values: Floats,
    missing: Longs,
    missed: int,
    room: int,
) -> tuple[int, int]:
    """Write the points of an event with `count` attributes in the view at an address; return how many there are.

    The second number is how many values are in the list of those that are missing, which has `room`; the first is then
    MISSING, or TOO_MANY if there is no room for the points. `base` is the address from which places are counted.
    """
    view, data = longs_at(at), bytes_at(base)
    rows = ints_at(view[_ATTRIBUTES])
    found, before = 0, missed
    for k in range(count):
        row = ATTRIBUTE_COLUMNS * k
        kind = attributes[row + KIND]
        if kind == NOTHING:
            continue
        owner = _owner_of(view, data, attributes, row)
        if owner < 0:
            continue
        if kind == LARGE:
            first, last = attributes[row + NAME_LAST], attributes[row + END]
            known = _find_text(view, _LEARNT, data, first, last, owner)
            if known < 0:
                if missed < room:
                    missing[MISSING_COLUMNS * missed + VIEW] = at
                    missing[MISSING_COLUMNS * missed + OWNER] = owner
                    missing[MISSING_COLUMNS * missed + ADDRESS] = base + first
                    missing[MISSING_COLUMNS * missed + SIZE] = last - first
                    missed += 1
                continue
            starts = longs_at(view[_LEARNT_STARTS])
            if found + starts[known + 1] - starts[known] + POINTS * MOST_NAMES > MOST_POINTS:
                return TOO_MANY, missed
            for place in range(starts[known], starts[known + 1]):
                channels[found] = ints_at(view[_LEARNT_CHANNELS])[place]
                values[found] = floats_at(view[_LEARNT_VALUES])[place]
                found += 1
            continue
        channel, number = 0, numbers[k]
        first, last = attributes[row + VALUE_FIRST], attributes[row + VALUE_LAST]
        if kind == FLOAT:
            channel = rows[COLUMNS * owner + NUMBER]
        elif kind == TEXT:
            text = _find_text(view, _TEXTS, data, first, last, owner)
            if text >= 0:
                channel = rows[COLUMNS * owner + SYMBOL]
                number = float(ints_at(view[_SYMBOLS])[text])
        elif kind == TRUTH:
            channel = rows[COLUMNS * owner + SYMBOL]
        found = put_point(channel, kind, number, rows, owner, channels, values, found)
        judged = rows[COLUMNS * owner + ATOMS]
        if judged != 0:
            # What the other attributes may need is left over.
            most, judges = MOST_POINTS - POINTS * MOST_NAMES, atoms_at(longs_at(view[_JUDGES]))
            found = judge(judges, judged, kind, numbers[k], data, first, last, channels, values, found, most)
            if found < 0:
                return TOO_MANY, missed
    return (found, missed) if missed == before else (MISSING, missed)


@part
def answers_of(at: int) -> Ints:
    """Return where `matching` writes the handles for the view at an address."""
    return ints_at(longs_at(longs_at(at)[_STORE])[ARRAYS + 4])


@called
def matching(at: int, channels: Ints, values: Floats, count: int, cells: Ints, limit: int) -> int:
    """Write the handles that an event's points satisfy where `answers_of` says, at least `limit` if there are; return
    how many there are."""
    addresses = longs_at(longs_at(at)[_STORE])
    m, w = memory_at(addresses), Intervals(channels, values, values)
    return satisfied(m, w, 0, count, cells, ints_at(addresses[ARRAYS + 4]), 0, limit)


@called
def links_to(at: int, channels: Ints, values: Floats, count: int, cells: Ints, seen: Ints) -> int:
    """Return the mask of links that an event with these points must go to; see `forwarding.event_links`."""
    m, w = memory_at(longs_at(longs_at(at)[_STORE])), Intervals(channels, values, values)
    return event_links(m, w, 0, count, longs_at(at)[_LINKS], cells, answers_of(at), seen)


@part
def link_count(at: int) -> int:
    """Return one more than the largest number of a link of the view at an address."""
    return longs_at(at)[_LINKS]


@part
def _points_of_one(at: int, data: int, size: int) -> int:
    """Write the points of one packed event into the room for it; return how many there are, or below 0 why there are
    none."""
    room = longs_at(at)[_ROOM]
    rows, numbers = longs_at(room), floats_at(room + 8 * _ROOM_NUMBERS)
    count = read_attributes(bytes_at(data), 0, size, rows, numbers)
    if count < 0:
        return UNREADABLE
    channels, values = ints_at(room + 8 * _ROOM_CHANNELS), floats_at(room + 8 * _ROOM_VALUES)
    missing = longs_at(room + 8 * _ROOM_MISSING)
    points, _ = points_of(at, data, rows, numbers, count, channels, values, missing, 0, 1)
    return points


@part
def _is_restless(at: int) -> bool:
    return memory_at(longs_at(longs_at(at)[_STORE])).meta[VERIFIED] >= ENOUGH_VERIFIED


@kernel
def match_one(at: int, data: int, size: int, keys: int) -> int:
    """Write the handles of filters that match one packed event where `answers_of` says; return how many there are.

    `at`, `data` and `keys` are addresses: of a view, the event's bytes, and the keys of all handles. Those of what is
    found go to the view's own room for keys; with HANDLES instead of an address they are the handles, and 0 says that
    no keys are wanted. The answer is MISSING, TOO_MANY or UNREADABLE if compiled code cannot judge the event; otherwise
    RESTLESS may be added to the number.
    """
    points, room = _points_of_one(at, data, size), longs_at(at)[_ROOM]
    if points < 0:
        return points
    channels, values = ints_at(room + 8 * _ROOM_CHANNELS), floats_at(room + 8 * _ROOM_VALUES)
    found = matching(at, channels, values, points, ints_at(room + 8 * _ROOM_CELLS), 2**62)
    handles, source, target = answers_of(at), longs_at(keys), longs_at(longs_at(at)[_KEYS])
    if keys == HANDLES:
        for k in range(found):
            target[k] = handles[k]
    elif keys != 0:
        for k in range(found):
            target[k] = source[handles[k]]
    return found + RESTLESS if _is_restless(at) else found


@kernel
def place_one(at: int, data: int, size: int) -> int:
    """Write the points of one packed event into the room for it; return how many there are, or as `match_one` does."""
    return _points_of_one(at, data, size)


class IndexView:
    """The addresses of one index; see the module's text."""

    def __init__(self, unpacker: Unpacker) -> None:
        self._unpacker = unpacker
        self.changes = -1
        self._noted: tuple[object, ...] = (None,)  # arrays whose addresses stand in the view
        self._array: Longs = np.zeros(_LENGTH, np.int64)
        self.address = self._array.ctypes.data
        # Room for one event, in it for its points, and for the keys of an answer.
        room: Longs = np.empty(_ROOM_LENGTH, np.int64)
        self._array[_ROOM] = room.ctypes.data
        self.channels: Ints = room[_ROOM_CHANNELS:_ROOM_VALUES].view(np.int32)
        self.values: Floats = room[_ROOM_VALUES:_ROOM_CELLS].view(np.float64)
        self.keys: Longs = np.zeros(0, np.int64)
        self._forget()

    def refresh(self, changes: int, store: Store, unpacker: Unpacker, links: int | None) -> None:
        """Follow the index to its present state, of so many changes and links, with its store and unpacker."""
        store.tidy(FEW_LOOKS)
        if links is None:
            links = int(self._array[_LINKS])
        if self.changes == changes and links == self._array[_LINKS]:
            return
        self.changes, self._unpacker = changes, unpacker
        store.make_out()
        if len(self.keys) < len(store.out):
            self.keys = np.empty(len(store.out), np.int64)  # memory that is not touched costs nothing
            self._array[_KEYS] = self.keys.ctypes.data
        self._array[_LINKS] = links
        attributes, names, texts, judges = unpacker.arrays
        arrays = (
            *(store.addresses, attributes, judges, names.values, texts.values),
            *(names.table, names.owners, names.starts, names.texts),
            *(texts.table, texts.owners, texts.starts, texts.texts),
        )
        if not all(
            map(is_, arrays, self._noted)
        ):  # most are the same: to ask a dozen for their addresses takes longer
            self._noted = arrays
            self._array[_STORE] = store.addresses.ctypes.data
            self._array[_ATTRIBUTES] = attributes.ctypes.data
            self._array[_JUDGES] = judges.ctypes.data
            self._note_texts(_NAMES, names)
            self._array[_NAME_VALUES] = names.values.ctypes.data
            self._note_texts(_TEXTS, texts)
            self._array[_SYMBOLS] = texts.values.ctypes.data
        if len(self._learnt):
            self._forget()

    def _note_texts(self, base: int, texts: Texts) -> None:
        self._array[base] = texts.table.ctypes.data
        self._array[base + 1] = len(texts.table) - 1
        self._array[base + 2] = texts.owners.ctypes.data
        self._array[base + 3] = texts.starts.ctypes.data
        self._array[base + 4] = texts.texts.ctypes.data

    def _forget(self) -> None:
        self._learnt = Texts()
        self._starts: Longs = np.zeros(64, np.int64)
        self._channels: Ints = np.zeros(64, np.int32)
        self._values: Floats = np.zeros(64)
        self._note_learnt()

    def _note_learnt(self) -> None:
        self._note_texts(_LEARNT, self._learnt)
        self._array[_LEARNT_STARTS] = self._starts.ctypes.data
        self._array[_LEARNT_CHANNELS] = self._channels.ctypes.data
        self._array[_LEARNT_VALUES] = self._values.ctypes.data

    def learn(self, missing: Iterable[tuple[int, bytes]]) -> None:
        """Judge values: attributes by their numbers, and the packed bytes of each value."""
        if len(self._learnt) > MOST_LEARNT:
            self._forget()
        new = dict.fromkeys(missing)
        points = [self._unpacker.points(owner, value) for owner, value in new]
        begin = len(self._learnt)
        self._learnt.add_batch([(owner, value, 0) for owner, value in new])
        ends = np.cumsum([len(names) for names, _ in points]) + self._starts[begin]
        self._starts = _with(self._starts, begin + 1, ends)
        self._channels = _with(
            self._channels, int(self._starts[begin]), [name for names, _ in points for name in names]
        )
        self._values = _with(
            self._values, int(self._starts[begin]), [value for _, some in points for value in some]
        )
        self._note_learnt()


def _with(array: np.ndarray, begin: int, items: Longs | list[int] | list[float]) -> np.ndarray:
    """Return the array with items from `begin` on: itself, or a larger copy."""
    end = begin + len(items)
    if end > len(array):
        array = np.concatenate([array, np.zeros(max(end - len(array), len(array)), array.dtype)])
    array[begin:end] = items
    return array
