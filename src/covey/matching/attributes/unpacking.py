"""Packed events to channels and values, many at once, without a Python object for any of them.

What `Channels.encode` makes from dictionaries, `Unpacker.encode` makes from the bytes of `core/packing.py`, in one
compiled pass: a name is looked up in a hash table and gives its attribute's channels; a text is looked up among the
texts that filters ask for by name. Values that this cannot judge (numbers from 2**53 on, and all values of attributes
with atoms: IN, LIKE, <>) are left to `Channels`, once for each distinct value of an attribute in a batch.
`Unpacker.encode_columns` makes the same from a block of events (`columns.py`), in which names and texts are numbers.

An unpacker is made from the channels of an index, and holds until a filter is added or removed there. The index's own
one follows it (`follow`): what has changed since is in the journal of `Channels`, and only that is changed here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from covey.core.attributes.constraint import present
from covey.core.packing import unpack_value
from covey.errors import EventError
from covey.matching.attributes.atoms import form_of
from covey.matching.attributes.channels import Attribute, Batch, Channels, Journal
from covey.matching.attributes.columns import Columns, Kinds
from covey.matching.attributes.packed import (
    FLOAT,
    LARGE,
    NOTHING,
    TEXT,
    TRUTH,
    WRONG,
    Bytes,
    PackedEvents,
    map_at,
    point_at,
)
from covey.matching.attributes.texts import Texts, find
from covey.matching.jit import Floats, Ints, Longs, bytes_at, floats_at, ints_at, kernel, longs_at, part

# Columns of the table of attributes.
NUMBER, SYMBOL, _ABSENCE, _PRESENCE, ATOMS, COLUMNS = 0, 1, 2, 3, 4, 5
# Columns of the list of values that are left to Python: where they stand in the batch, whose they are, their bytes.
_PLACE, _OWNER, _FIRST, _LAST, _ODD_COLUMNS = 0, 1, 2, 3, 4

_PRESENT: Final = form_of(present())
_ODD: Final = -1  # instead of a channel: this value is in the list

Key = TypeVar("Key", bound=Hashable)


@part
def put_point(
    channel: int, number: float, attributes: Ints, owner: int, channels: Ints, values: Floats, found: int
) -> int:
    """Write a value's point, if it has a channel, and those of its presence; return how many points there are then."""
    if channel != 0:
        channels[found] = channel
        values[found] = number
        found += 1
    absence = attributes[COLUMNS * owner + _ABSENCE]
    if absence != 0:
        channels[found] = absence
        values[found] = np.nan
        found += 1
    presence = attributes[COLUMNS * owner + _PRESENCE]
    if presence != 0:
        channels[found] = presence
        values[found] = 1.0
        found += 1
    return found


@kernel
def unpack_events(
    data: Bytes,
    firsts: Longs,
    lasts: Longs,
    attributes: Ints,
    stamps: Longs,
    name_table: Ints,
    name_owners: Ints,
    name_starts: Longs,
    name_texts: Bytes,
    name_values: Ints,
    table: Ints,
    owners: Ints,
    starts: Longs,
    texts: Bytes,
    symbols: Ints,
    event_starts: Longs,
    channels: Ints,
    values: Floats,
    odd: Longs,
) -> int:
    """Write the channels and values of packed events; return how many values are left to Python.

    If an event's bytes are not a packed event, -1 - its number. `channels` and `values` have room for two, `odd` for
    one, for each byte. `stamps` has one number an attribute, -1 at first: an event with an attribute twice would
    be matched twice, for which nobody has room.
    """
    found, left = 0, 0
    bytes_ = bytes_at(data.ctypes.data)
    rows, points, numbers = (
        ints_at(attributes.ctypes.data),
        ints_at(channels.ctypes.data),
        floats_at(values.ctypes.data),
    )
    name_mask, mask = len(name_table) - 1, len(table) - 1
    names = ints_at(name_table.ctypes.data), ints_at(name_owners.ctypes.data)
    name_places, name_bytes = longs_at(name_starts.ctypes.data), bytes_at(name_texts.ctypes.data)
    known = ints_at(table.ctypes.data), ints_at(owners.ctypes.data)
    places, known_bytes = longs_at(starts.ctypes.data), bytes_at(texts.ctypes.data)
    for event in range(len(firsts)):
        event_starts[event] = found
        end = lasts[event]
        count, at = map_at(bytes_, firsts[event], end)
        if count < 0:
            return -1 - event
        for _ in range(count):
            kind, number, first, last, value_first, value_last, at = point_at(bytes_, at, end)
            if kind == WRONG:
                return -1 - event
            name = find(bytes_, first, last, 0, name_mask, names[0], names[1], name_places, name_bytes)
            if name < 0 or kind == NOTHING:
                continue
            owner = name_values[name]
            if stamps[owner] == event:
                return -1 - event
            stamps[owner] = event
            if attributes[COLUMNS * owner + ATOMS] != 0 or kind == LARGE:
                odd[_ODD_COLUMNS * left + _PLACE] = found
                odd[_ODD_COLUMNS * left + _OWNER] = owner
                odd[_ODD_COLUMNS * left + _FIRST] = last
                odd[_ODD_COLUMNS * left + _LAST] = at
                left += 1
                channels[found] = _ODD
                found += 1
                continue
            channel = 0
            if kind == FLOAT:
                channel = attributes[COLUMNS * owner + NUMBER]
            elif kind == TEXT:
                text = find(
                    bytes_, value_first, value_last, owner, mask, known[0], known[1], places, known_bytes
                )
                if text >= 0:
                    channel, number = attributes[COLUMNS * owner + SYMBOL], float(symbols[text])
            elif kind == TRUTH:
                channel = attributes[COLUMNS * owner + SYMBOL]
            found = put_point(channel, number, rows, owner, points, numbers, found)
        if at != end:
            return -1 - event
    event_starts[len(firsts)] = found
    return left


@kernel
def place_columns(
    ends: Ints,
    name: Ints,
    kind: Kinds,
    value: Floats,
    owner_of: Ints,
    symbol_of: Ints,
    attributes: Ints,
    event_starts: Longs,
    channels: Ints,
    values: Floats,
    odd: Longs,
) -> int:
    """Write the channels and values of a block of events; return how many values are left to Python.

    `owner_of` has the attribute of each name, -1 if no filter asks for it, `symbol_of` the number of each text, -1 if
    no filter asks for it. `odd` gets, for what is left, its place among the channels and its point. `channels` and
    `values` have room for three a point.
    """
    found, left, point = 0, 0, 0
    # As pointers: an index into an array is first looked at for being negative, which takes longer than all the rest.
    owners, symbols, rows = (
        ints_at(owner_of.ctypes.data),
        ints_at(symbol_of.ctypes.data),
        ints_at(attributes.ctypes.data),
    )
    names, kinds, given = ints_at(name.ctypes.data), bytes_at(kind.ctypes.data), floats_at(value.ctypes.data)
    points, numbers = ints_at(channels.ctypes.data), floats_at(values.ctypes.data)
    for event in range(len(ends)):
        event_starts[event] = found
        for at in range(point, ends[event]):
            owner = owners[names[at]]
            if owner < 0:
                continue
            sort = kinds[at]
            if sort == LARGE or rows[COLUMNS * owner + ATOMS] != 0:
                odd[2 * left] = found
                odd[2 * left + 1] = at
                left += 1
                points[found] = _ODD
                found += 1
                continue
            channel, number = 0, given[at] + 0.0  # -0.0 is 0, in blocks that were written before too
            if sort == FLOAT:
                channel = rows[COLUMNS * owner + NUMBER]
            elif sort == TEXT:
                symbol = symbols[np.int64(number)]
                if symbol >= 0:
                    channel, number = rows[COLUMNS * owner + SYMBOL], float(symbol)
            elif sort == TRUTH:
                channel = rows[COLUMNS * owner + SYMBOL]
            found = put_point(channel, number, rows, owner, points, numbers, found)
        point = ends[event]
    event_starts[len(ends)] = found
    return left


class Unpacker:
    """Encodes packed events for an index; see the module's text."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
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

    @property
    def arrays(self) -> tuple[Ints, Texts, Texts]:
        """The table of attributes, their names, and the texts that filters ask for; others after the next change."""
        return self._attributes, self._names, self._texts

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

    def encode(self, data: Bytes, offsets: Longs) -> Batch:
        """Return events in the form that batches take: event n is the bytes from offsets[n] to offsets[n + 1].

        It is a view, valid until the next call. EventError, with the event's number, for bytes that are no event.
        """
        return self.encode_packed(PackedEvents(data, offsets[:-1], offsets[1:]))

    def encode_packed(self, events: PackedEvents) -> Batch:
        """Return events in the form that batches take, under the terms of `encode`."""
        data, firsts, lasts = events.data, events.firsts, events.lasts
        size = int((lasts - firsts).sum())
        channels, values, odd = self._make_room(2 * size, _ODD_COLUMNS * size)
        starts: Longs = np.zeros(len(firsts) + 1, np.int64)
        left = unpack_events(
            data,
            firsts,
            lasts,
            self._attributes,
            np.full(len(self._owners), -1, np.int64),
            *self._names.arrays,
            self._names.values,
            *self._texts.arrays,
            self._texts.values,
            starts,
            channels,
            values,
            odd,
        )
        if left < 0:
            raise EventError(f"the bytes of event {-1 - left} of this batch are no packed event")
        count = int(starts[-1])
        batch: Batch = (starts, channels[:count], values[:count])
        if not left:
            return batch
        rows, text = odd[: _ODD_COLUMNS * left].reshape(-1, _ODD_COLUMNS), data.data
        keys = [(owner, bytes(text[first:last])) for owner, first, last in rows[:, 1:].tolist()]
        return self._with_odd(batch, rows[:, _PLACE], keys, lambda key: self.points(*key))

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
        points = len(columns.name)
        starts: Longs = np.zeros(len(columns) + 1, np.int64)
        channels, values, odd = self._make_room(3 * points, 2 * points)
        left = place_columns(
            columns.ends,
            columns.name,
            columns.kind,
            columns.value,
            owner_of,
            symbol_of,
            self._attributes,
            starts,
            channels,
            values,
            odd,
        )
        count = int(starts[-1])
        batch: Batch = (starts, channels[:count], values[:count])
        if not left:
            return batch
        places, which = odd[0 : 2 * left : 2], odd[1 : 2 * left : 2]
        keys = [
            (int(owner_of[columns.name[point]]), int(columns.kind[point]), float(columns.value[point]))
            for point in which.tolist()
        ]
        return self._with_odd(
            batch, places, keys, lambda key: self._points(key[0], columns.value_of(*key[1:]))
        )

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


def _row(attribute: Attribute) -> tuple[int, ...]:
    presence, atoms = 0, attribute.atoms is not None
    if attribute.atoms is not None and len(attribute.atoms.channel_of) == 1:
        # IS NOT NULL alone needs no value to be looked at.
        presence = attribute.atoms.channel_of.get(_PRESENT, 0)
        atoms = not presence
    return attribute.number, attribute.symbol, attribute.absence, presence, int(atoms)
