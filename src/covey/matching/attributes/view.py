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

from collections.abc import Iterable, Mapping
from operator import is_
from typing import Any, Final, NamedTuple

import numpy as np

from covey.matching.attributes.checking import MOST_NAMES, POINT_LONGS, read_attributes
from covey.matching.attributes.forwarding import event_links
from covey.matching.attributes.heap import VERIFIED
from covey.matching.attributes.layout import Missing, Point
from covey.matching.attributes.memory import Intervals, memory_at, workspace_at
from covey.matching.attributes.packed import LARGE, NOTHING, Given, Points
from covey.matching.attributes.query import satisfied
from covey.matching.attributes.store import ENOUGH_VERIFIED, FEW_LOOKS, Store
from covey.matching.attributes.texts import Texts, TextTable, find
from covey.matching.attributes.unpacking import (
    Unpacker,
    owner_of,
    put_value,
    symbol_of,
    vocabulary_at,
)
from covey.matching.jit import (
    Floats,
    Ints,
    Longs,
    address_of,
    bytes_at,
    called,
    floats_at,
    ints_at,
    kernel,
    longs_at,
    part,
)
from covey.matching.keyset import HANDLES
from covey.matching.records import addresses_of, note_addresses, pointers_to

MOST_POINTS: Final = 4_096  # of one event, on all channels of an index
MOST_LEARNT: Final = 1 << 16  # values; with one more, all are forgotten

MISSING, TOO_MANY, UNREADABLE = -1, -2, -3  # instead of a number of points
NO_ROWS: Final = -2  # instead of the address of keys: rows are not asked

RESTLESS: Final = (
    1 << 40
)  # in the answer about one event: it is time for the store to move rows (`Store.tidy`)


class View(NamedTuple):
    """What the array of a view holds: pointers, and numbers that are addresses themselves.

    The arrays of values that were learnt have, for each, where its points begin. `links` is one more than the largest
    number of a link.
    """

    store: Longs
    vocabulary: Longs
    learnt: TextTable
    learnt_starts: Longs
    learnt_channels: Ints
    learnt_values: Floats
    links: int
    room: int
    keys: Longs


view_at = pointers_to(View)

# What the room for one event holds, in words: its attributes and their numbers, its points, one value that is missing.
_ROOM_NUMBERS = POINT_LONGS * MOST_NAMES
_ROOM_CHANNELS = _ROOM_NUMBERS + MOST_NAMES
_ROOM_VALUES = _ROOM_CHANNELS + MOST_POINTS
_ROOM_CELLS = _ROOM_VALUES + MOST_POINTS
_ROOM_MISSING = _ROOM_CELLS + MOST_POINTS
_ROOM_LENGTH = _ROOM_MISSING + 4

MISSING_COLUMNS: Final = Missing.length_in(np.int64)


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
    view, data = view_at(at), bytes_at(base)
    v = vocabulary_at(view.vocabulary)
    points, found, before = Points(channels, values, MOST_POINTS), 0, missed
    for k in range(count):
        point = Point(attributes, k)
        kind, first, last = point.kind, point.value_first, point.value_last
        if kind == NOTHING:
            continue
        owner = owner_of(v, data, point.name_first, point.name_last, point.hash)
        if owner < 0:
            continue
        if kind == LARGE:
            first, last = point.name_last, point.end
            known = find(view.learnt, data, first, last, owner)
            if known < 0:
                if missed < room:
                    value = Missing(missing, missed)
                    value.view, value.owner, value.address, value.size = at, owner, base + first, last - first
                    missed += 1
                continue
            begin, end = view.learnt_starts[known], view.learnt_starts[known + 1]
            if found + end - begin > MOST_POINTS:
                return TOO_MANY, missed
            for place in range(begin, end):
                channels[found] = view.learnt_channels[place]
                values[found] = view.learnt_values[place]
                found += 1
            continue
        symbol = symbol_of(v, owner, kind, data, first, last)
        found = put_value(v, owner, Given(kind, numbers[k], data, first, last), symbol, points, found)
        if found < 0:
            return TOO_MANY, missed
    return (found, missed) if missed == before else (MISSING, missed)


@part
def answers_of(at: int) -> Ints:
    """Return where `matching` writes the handles for the view at an address."""
    return workspace_at(view_at(at).store).out


@called
def matching(at: int, channels: Ints, values: Floats, count: int, cells: Ints, limit: int) -> int:
    """Write the handles that an event's points satisfy where `answers_of` says, at least `limit` if there are; return
    how many there are."""
    store, w = view_at(at).store, Intervals(channels, values, values)
    return satisfied(memory_at(store), w, 0, count, cells, workspace_at(store).out, 0, limit)


@called
def links_to(at: int, channels: Ints, values: Floats, count: int, cells: Ints, seen: Ints) -> int:
    """Return the mask of links that an event with these points must go to; see `forwarding.event_links`."""
    view, w = view_at(at), Intervals(channels, values, values)
    return event_links(memory_at(view.store), w, 0, count, view.links, cells, answers_of(at), seen)


@part
def link_count(at: int) -> int:
    """Return one more than the largest number of a link of the view at an address."""
    return view_at(at).links


@part
def _points_of_one(at: int, data: int, size: int) -> int:
    """Write the points of one packed event into the room for it; return how many there are, or below 0 why there are
    none."""
    room = view_at(at).room
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
    return memory_at(view_at(at).store).meta[VERIFIED] >= ENOUGH_VERIFIED


@kernel
def match_one(at: int, data: int, size: int, keys: int) -> int:
    """Write the handles of filters that match one packed event where `answers_of` says; return how many there are.

    `at`, `data` and `keys` are addresses: of a view, the event's bytes, and the keys of all handles. Those of what is
    found go to the view's own room for keys; with HANDLES instead of an address they are the handles, and 0 says that
    no keys are wanted. With NO_ROWS only the points are written, into the room for them, and the answer is how many
    there are. It is MISSING, TOO_MANY or UNREADABLE if compiled code cannot judge the event; otherwise
    RESTLESS may be added to the number.
    """
    points, room = _points_of_one(at, data, size), view_at(at).room
    if points < 0 or keys == NO_ROWS:
        return points
    channels, values = ints_at(room + 8 * _ROOM_CHANNELS), floats_at(room + 8 * _ROOM_VALUES)
    found = matching(at, channels, values, points, ints_at(room + 8 * _ROOM_CELLS), 2**62)
    handles, source, target = answers_of(at), longs_at(keys), view_at(at).keys
    if keys == HANDLES:
        for k in range(found):
            target[k] = handles[k]
    elif keys != 0:
        for k in range(found):
            target[k] = source[handles[k]]
    return found + RESTLESS if _is_restless(at) else found


class IndexView:
    """The addresses of one index; see the module's text."""

    def __init__(self, unpacker: Unpacker) -> None:
        self._unpacker = unpacker
        self.changes = -1
        self._links = 0
        self._noted: tuple[object, ...] = (None, None)  # arrays whose addresses stand in the view
        self._array: Longs = np.zeros(addresses_of(View), np.int64)
        self.address = address_of(self._array)
        # Room for one event, in it for its points, and for the keys of an answer.
        room: Longs = np.empty(_ROOM_LENGTH, np.int64)
        self._note({"room": address_of(room), "links": 0})
        self.channels: Ints = room[_ROOM_CHANNELS:_ROOM_VALUES].view(np.int32)
        self.values: Floats = room[_ROOM_VALUES:_ROOM_CELLS].view(np.float64)
        self.keys: Longs = np.zeros(0, np.int64)
        self._forget()

    def _note(self, arrays: Mapping[str, Any]) -> None:
        note_addresses(self._array, View, arrays)

    def refresh(self, changes: int, store: Store, unpacker: Unpacker, links: int | None) -> None:
        """Follow the index to its present state, of so many changes and links, with its store and unpacker."""
        store.tidy(FEW_LOOKS)
        if links is None:
            links = self._links
        if self.changes == changes and links == self._links:
            return
        self.changes, self._unpacker, self._links = changes, unpacker, links
        store.make_out()
        if len(self.keys) < len(store.out):
            self.keys = np.empty(len(store.out), np.int64)  # memory that is not touched costs nothing
            self._note({"keys": self.keys})
        self._note({"links": links})
        arrays = (store.addresses, unpacker.vocabulary)
        if not all(map(is_, arrays, self._noted)):
            self._noted = arrays
            self._note({"store": store.addresses, "vocabulary": unpacker.vocabulary})
        if len(self._learnt):
            self._forget()

    def _forget(self) -> None:
        self._learnt = Texts()
        self._starts: Longs = np.zeros(64, np.int64)
        self._channels: Ints = np.zeros(64, np.int32)
        self._values: Floats = np.zeros(64)
        self._note_learnt()

    def _note_learnt(self) -> None:
        self._note(
            {
                "learnt": self._learnt.places,
                "learnt_starts": self._starts,
                "learnt_channels": self._channels,
                "learnt_values": self._values,
            }
        )

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
