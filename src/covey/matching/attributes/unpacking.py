"""Packed events to channels and values, many at once, without a Python object for any of them.

What `Channels.encode` makes from dictionaries, `Unpacker.encode` makes from the bytes of `core/packing.py`, in one
compiled pass: a name is looked up in a hash table and gives its attribute's channels; a text is looked up among the
texts that filters ask for by name; values of attributes with atoms (IN, LIKE, <>) are judged (judging.py). Numbers from
2**53 on are left to `Channels`, once for each distinct value of an attribute in a batch. `Unpacker.encode_columns`
makes the same from a block of events (`columns.py`), in which names and texts are numbers.

An unpacker is made from the channels of an index, and holds until a filter is added or removed there. The index's own
one follows it (`follow`): what has changed since is in the journal of `Channels`, and only that is changed here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from covey.core.packing import unpack_value
from covey.errors import EventError
from covey.matching.attributes.atoms import NUMBERS, TEXTS
from covey.matching.attributes.channels import Attribute, Batch, Channels, Journal
from covey.matching.attributes.columns import Columns, Kinds
from covey.matching.attributes.judging import AtomMemory, atoms_at, judge
from covey.matching.attributes.layout import AttributeRow, Odd, OddPoint
from covey.matching.attributes.packed import (
    FLOAT,
    LARGE,
    NOTHING,
    TEXT,
    TRUTH,
    WRONG,
    Bytes,
    Given,
    PackedEvents,
    Points,
    hash_of,
    map_at,
    point_at,
)
from covey.matching.attributes.texts import Texts, TextTable, find, find_hashed
from covey.matching.jit import Floats, Ints, Longs, called, kernel, part, pointer_to
from covey.matching.records import addresses_of, note_addresses, pointers_to

COLUMNS: Final = AttributeRow.length_in()
_ODD_COLUMNS: Final = Odd.length_in(np.int64)
POINTS: Final = 4  # that a value has at most, but for those of atoms
_ODD: Final = -1  # instead of a channel: this value is in the list
_WRONG: Final = -1  # instead of a number of points: the bytes are no packed event
_NO_ROOM: Final = -(2**62)  # instead of a number of values: there are more points than there is room for
_NO_ATOMS: Final[Longs] = np.zeros(addresses_of(AtomMemory), np.int64)

Key = TypeVar("Key", bound=Hashable)


class Vocabulary(NamedTuple):
    """Pointers to what an index knows of attributes: who they are, their channels, and the texts that filters ask for.

    `judges` is where the addresses of atoms are, `absences` the channels of the attributes that are asked to be absent.
    """

    attributes: Ints
    names: TextTable
    name_values: Ints
    texts: TextTable
    symbols: Ints
    judges: Longs
    absences: Ints
    absence_count: int


vocabulary_at = pointers_to(Vocabulary)


@part
def owner_of(v: Vocabulary, data: Bytes, first: int, last: int, hashed: int) -> int:
    """Return the number of the attribute with a name, whose hash is known; -1 if no filter asks for it."""
    name = find_hashed(v.names, data, first, last, 0, hashed)
    return v.name_values[name] if name >= 0 else -1


@part
def _put_point(row: AttributeRow, channel: int, kind: int, number: float, points: Points, found: int) -> int:
    """Write a value's point, if it has a channel, and those of its presence and its kind, POINTS at most; return how
    many points there are then."""
    if channel != 0:
        points.channels[found] = channel
        points.values[found] = number
        found += 1
    if row.absence != 0:
        points.channels[found] = row.absence
        points.values[found] = np.nan
        found += 1
    if row.presence != 0:
        points.channels[found] = row.presence
        points.values[found] = 1.0
        found += 1
    if row.kind != 0 and (kind == FLOAT or kind == TEXT):
        points.channels[found] = row.kind
        points.values[found] = NUMBERS if kind == FLOAT else TEXTS
        found += 1
    return found


@called
def put_value(v: Vocabulary, owner: int, value: Given, symbol: int, points: Points, found: int) -> int:
    """Write the points of an attribute's value, not one of the kind LARGE; return how many points there are then, -1 if
    there is too little room.

    Filters know a text by `symbol`, -1 if they do not know it.
    """
    row, channel, number = AttributeRow(v.attributes, owner), 0, value.number
    if found + POINTS > points.room:
        return -1
    if value.kind == FLOAT:
        channel = row.number
    elif value.kind == TRUTH:
        channel = row.symbol
    elif value.kind == TEXT and symbol >= 0:
        channel, number = row.symbol, float(symbol)
    found = _put_point(row, channel, value.kind, number, points, found)
    if row.atoms != 0:
        found = judge(atoms_at(v.judges), row.atoms, value, points, found)
    return found


@part
def symbol_of(v: Vocabulary, owner: int, kind: int, data: Bytes, first: int, last: int) -> int:
    """Return the number of a text that filters ask for in an attribute, -1 if there is none."""
    text = find(v.texts, data, first, last, owner) if kind == TEXT else -1
    return v.symbols[text] if text >= 0 else -1


@part
def _unpack_event(
    v: Vocabulary,
    data: Bytes,
    first: int,
    end: int,
    event: int,
    stamps: Longs,
    points: Points,
    found: int,
    odd: Longs,
    left: int,
) -> tuple[int, int]:
    """Write the points of one event behind the first `found`; return how many there are then, or _WRONG or _NO_ROOM,
    and how many values are left to Python."""
    count, at = map_at(data, first, end)
    for _ in range(count):
        kind, number, name_first, name_last, value_first, value_last, at = point_at(data, at, end)
        if kind == WRONG:
            return _WRONG, left
        owner = owner_of(v, data, name_first, name_last, hash_of(data, name_first, name_last, 0))
        if owner < 0 or kind == NOTHING:
            continue
        if stamps[owner] == event:
            return _WRONG, left
        stamps[owner] = event
        if kind == LARGE and found < points.room:
            rest = Odd(odd, left)
            rest.place, rest.owner, rest.first, rest.last = found, owner, name_last, at
            points.channels[found] = _ODD
            found, left = found + 1, left + 1
            continue
        value = Given(kind, number, data, value_first, value_last)
        found = put_value(
            v, owner, value, symbol_of(v, owner, kind, data, value_first, value_last), points, found
        )
        if found < 0:
            return _NO_ROOM, left
    return (found if count >= 0 and at == end else _WRONG), left


@kernel
def unpack_events(
    data: Bytes,
    firsts: Longs,
    lasts: Longs,
    vocabulary: Longs,
    stamps: Longs,
    event_starts: Longs,
    channels: Ints,
    values: Floats,
    odd: Longs,
) -> int:
    """Write the channels and values of packed events; return how many values are left to Python.

    If an event's bytes are not a packed event, -1 - its number; _NO_ROOM if there are more points than room for them.
    `odd` has room for one value for each byte. `stamps` has one number an attribute, -1 at first: an event with an
    attribute twice would be matched twice, for which nobody has room.
    """
    # As pointers: an index into an array is first looked at for being negative, which takes longer than all the rest.
    bytes_, seen, rest = pointer_to(data), pointer_to(stamps), pointer_to(odd)
    points = Points(pointer_to(channels), pointer_to(values), len(channels))
    v, found, left = vocabulary_at(vocabulary), 0, 0
    for event in range(len(firsts)):
        event_starts[event] = found
        first, last = firsts[event], lasts[event]
        found, left = _unpack_event(v, bytes_, first, last, event, seen, points, found, rest, left)
        if found < 0:
            return _NO_ROOM if found == _NO_ROOM else -1 - event
    event_starts[len(firsts)] = found
    return left


@kernel
def place_columns(
    ends: Ints,
    name: Ints,
    kind: Kinds,
    value: Floats,
    owners: Ints,
    symbols: Ints,
    text_starts: Longs,
    text_bytes: Bytes,
    vocabulary: Longs,
    event_starts: Longs,
    channels: Ints,
    values: Floats,
    odd_points: Longs,
) -> int:
    """Write the channels and values of a block of events; return how many values are left to Python.

    `owners` has the attribute of each name, -1 if no filter asks for it, `symbols` the number of each text, -1 if no
    filter asks for it. `odd_points` gets what is left. The bytes of text n, if its attribute has atoms, are those from
    text_starts[n] to text_starts[n + 1]. _NO_ROOM if there are more points than there is room for.
    """
    owner_of_name, symbol_of_text = pointer_to(owners), pointer_to(symbols)
    names, kinds, given = pointer_to(name), pointer_to(kind), pointer_to(value)
    points = Points(pointer_to(channels), pointer_to(values), len(channels))
    places, bytes_, odd = pointer_to(text_starts), pointer_to(text_bytes), pointer_to(odd_points)
    v, found, left, point = vocabulary_at(vocabulary), 0, 0, 0
    for event in range(len(ends)):
        event_starts[event] = found
        for at in range(point, ends[event]):
            owner = owner_of_name[names[at]]
            if owner < 0:
                continue
            sort = kinds[at] + 0  # as a plain integer
            if sort == LARGE and found < points.room:
                rest = OddPoint(odd, left)
                rest.place, rest.point = found, at
                points.channels[found] = _ODD
                found, left = found + 1, left + 1
                continue
            number, symbol, first, last = given[at] + 0.0, -1, 0, 0  # -0.0 is 0, in old blocks too
            if sort == TEXT:
                text = np.int64(number)
                symbol, first, last = symbol_of_text[text], places[text], places[text + 1]
            found = put_value(v, owner, Given(sort, number, bytes_, first, last), symbol, points, found)
            if found < 0:
                return _NO_ROOM
        point = ends[event]
    event_starts[len(ends)] = found
    return left


class Unpacker:
    """Encodes packed events for an index; see the module's text."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self.vocabulary: Longs = np.zeros(addresses_of(Vocabulary), np.int64)
        self._room: tuple[Ints, Floats, Longs] = (np.zeros(0, np.int32), np.zeros(0), np.zeros(0, np.int64))
        self._build()

    def _build(self) -> None:
        attributes = list(self._channels.attributes.values())
        self._owners: list[str] = [attribute.name for attribute in attributes]
        self._owner_of = {name: owner for owner, name in enumerate(self._owners)}
        self._attributes: Ints = np.array([_row(a) for a in attributes], np.int32).reshape(-1)
        self._names = Texts([(0, name.encode(), owner) for owner, name in enumerate(self._owners)])
        self._texts = Texts(
            [
                (owner, value.encode(), number)
                for owner, attribute in enumerate(attributes)
                for value, number in attribute.symbols.items()
                if isinstance(value, str)
            ]
        )

        self._note_addresses()

    def _note_addresses(self) -> None:
        """Tell kernels where the arrays are; to be called after any of them may have been replaced."""
        self._absences = self._channels.absence_channels()
        atoms = self._channels.atoms
        arrays = {
            "attributes": self._attributes,
            "names": self._names.places,
            "name_values": self._names.values,
            "texts": self._texts.places,
            "symbols": self._texts.values,
            "judges": _NO_ATOMS if atoms is None else atoms.addresses,
            "absences": self._absences,
            "absence_count": len(self._absences),
        }
        note_addresses(self.vocabulary, Vocabulary, arrays)

    def follow(self, journal: Journal) -> None:
        """Take over the changes of the channels since the last time."""
        for name, value, number in journal:
            owner = self._owner_of.get(name)
            if owner is None:
                owner = self._owner_of[name] = len(self._owners)
                self._owners.append(name)
                self._names.add(0, name.encode(), owner)
                if COLUMNS * owner == len(self._attributes):
                    room = np.zeros(COLUMNS * max(8, owner), np.int32)
                    self._attributes = np.concatenate([self._attributes, room])
            if value is None:
                now = self._channels.attributes.get(name)
                row = (0,) * COLUMNS if now is None else _row(now)
                self._attributes[COLUMNS * owner : COLUMNS * (owner + 1)] = row
            elif number < 0:
                self._texts.remove(owner, value.encode())
            else:
                self._texts.add(owner, value.encode(), number)
        # A name that is in use no more stays, without channels; when most are such, all is made anew.
        if len(self._owners) > 64 + 2 * len(self._channels.attributes):
            self._build()
        else:
            self._note_addresses()

    def encode(self, data: Bytes, offsets: Longs) -> Batch:
        """Return events in the form that batches take: event n is the bytes from offsets[n] to offsets[n + 1].

        It is a view, valid until the next call. EventError, with the event's number, for bytes that are no event.
        """
        return self.encode_packed(PackedEvents(data, offsets[:-1], offsets[1:]))

    def encode_packed(self, events: PackedEvents) -> Batch:
        """Return events in the form that batches take, under the terms of `encode`."""
        data, firsts, lasts = events.data, events.firsts, events.lasts
        size = int((lasts - firsts).sum())
        starts: Longs = np.zeros(len(firsts) + 1, np.int64)
        points = 2 * size + POINTS
        while True:
            channels, values, odd = self._make_room(points, _ODD_COLUMNS * size)
            left = unpack_events(
                data,
                firsts,
                lasts,
                self.vocabulary,
                np.full(len(self._owners), -1, np.int64),
                starts,
                channels,
                values,
                odd,
            )
            if left != _NO_ROOM:
                break
            points = 2 * len(channels)
        if left < 0:
            raise EventError(f"the bytes of event {-1 - left} of this batch are no packed event")
        batch = _cut(starts, channels, values)
        if not left:
            return batch
        rows, text = odd[: _ODD_COLUMNS * left].reshape(-1, _ODD_COLUMNS), data.data
        keys = [(owner, bytes(text[first:last])) for owner, first, last in rows[:, 1:].tolist()]
        return self._with_odd(batch, rows[:, Odd.index_of("place")], keys, lambda key: self.points(*key))

    def _make_room(self, points: int, odd: int) -> tuple[Ints, Floats, Longs]:
        """Return room for so many points and numbers about odd ones. It is kept: new memory costs more than its use."""
        if points > len(self._room[0]) or odd > len(self._room[2]):
            self._room = np.empty(points, np.int32), np.empty(points, np.float64), np.empty(odd, np.int64)
        return self._room

    def encode_columns(self, columns: Columns) -> Batch:
        """Return a block of events in the form that batches take, as a view that is valid until the next call."""
        get = self._owner_of.get
        owner_of: Ints = np.array([get(name, -1) for name in columns.names], np.int32)
        symbol_of: Ints = np.full(len(columns.texts), -1, np.int32)
        for number, (owner, text) in enumerate(
            zip(owner_of[columns.owners].tolist(), columns.texts, strict=True)
        ):
            if owner >= 0:
                symbol_of[number] = self._channels.attributes[self._owners[owner]].symbols.get(text, -1)
        text_starts, text_bytes = self._bytes_of(columns.texts, owner_of[columns.owners])
        starts: Longs = np.zeros(len(columns) + 1, np.int64)
        points = POINTS * (len(columns.name) + 1)
        while True:
            channels, values, odd = self._make_room(points, 2 * len(columns.name))
            left = place_columns(
                columns.ends,
                columns.name,
                columns.kind,
                columns.value,
                owner_of,
                symbol_of,
                text_starts,
                text_bytes,
                self.vocabulary,
                starts,
                channels,
                values,
                odd,
            )
            if left != _NO_ROOM:
                break
            points = 2 * len(channels)
        batch = _cut(starts, channels, values)
        if not left:
            return batch
        rows = odd[: OddPoint.length_in(np.int64) * left].reshape(left, -1)
        places, which = rows[:, OddPoint.index_of("place")], rows[:, OddPoint.index_of("point")]
        keys = [
            (int(owner_of[columns.name[point]]), int(columns.kind[point]), float(columns.value[point]))
            for point in which.tolist()
        ]
        return self._with_odd(
            batch, places, keys, lambda key: self._points(key[0], columns.value_of(*key[1:]))
        )

    def _bytes_of(self, texts: Sequence[str], owners: Ints) -> tuple[Longs, Bytes]:
        """Return the bytes of the texts whose owners have atoms, and where they begin; others have none."""
        judged = self._attributes[AttributeRow.index_of("atoms") :: COLUMNS]
        some = [
            text.encode() if owner >= 0 and judged[owner] else b""
            for text, owner in zip(texts, owners.tolist(), strict=True)
        ]
        starts: Longs = np.zeros(len(some) + 1, np.int64)
        np.cumsum([len(text) for text in some], out=starts[1:])
        return starts, np.frombuffer(b"".join(some) + b"\0", np.uint8)

    def _with_odd(
        self,
        batch: Batch,
        places: Longs,
        keys: Sequence[Key],
        points_of: Callable[[Key], tuple[list[int], list[float]]],
    ) -> Batch:
        """Return the batch with the points of the values that were left out, in their places; equal keys are equal
        values of the same attribute."""
        starts, channels, values = batch
        seen: dict[Key, int] = {}
        points: list[tuple[list[int], list[float]]] = []
        which: Longs = np.empty(len(keys), np.int64)
        for number, key in enumerate(keys):
            known = seen.get(key)
            if known is None:
                known = seen[key] = len(points)
                points.append(points_of(key))
            which[number] = known
        sizes = np.array([len(names) for names, _ in points], np.int64)
        repeats: Longs = np.ones(len(channels), np.int64)
        repeats[places] = sizes[which]
        before: Longs = np.zeros(len(channels) + 1, np.int64)
        np.cumsum(repeats, out=before[1:])
        new_channels, new_values = np.repeat(channels, repeats), np.repeat(values, repeats)
        # Where each new point comes from among all distinct ones: its value's first, and then one by one.
        ends = np.cumsum(sizes)
        mine = sizes[which]
        steps = np.arange(int(mine.sum())) - np.repeat(np.cumsum(mine) - mine, mine)
        sources = np.repeat((ends - sizes)[which], mine) + steps
        targets = np.repeat(before[places], mine) + steps
        new_channels[targets] = np.array([name for names, _ in points for name in names], np.int32)[sources]
        new_values[targets] = np.array([value for _, some in points for value in some], np.float64)[sources]
        return before[starts], new_channels, new_values

    def points(self, owner: int, value: bytes) -> tuple[list[int], list[float]]:
        """Return the channels and values of a packed value of the attribute with that number."""
        return self._points(owner, unpack_value(value))

    def _points(self, owner: int, value: Any) -> tuple[list[int], list[float]]:
        names: list[int] = []
        values: list[float] = []
        self._channels.points({self._owners[owner]: value}, names, values)
        return names, values


def _cut(starts: Longs, channels: Ints, values: Floats) -> Batch:
    """Return a batch that has as many points as its last event ends with."""
    count = int(starts[-1])
    return starts, channels[:count], values[:count]


def _row(attribute: Attribute) -> tuple[int, ...]:
    return (
        attribute.number,
        attribute.symbol,
        attribute.absence,
        attribute.presence,
        attribute.kind,
        0 if attribute.atoms is None else attribute.atoms.owner,
        int(attribute.is_special),
    )
