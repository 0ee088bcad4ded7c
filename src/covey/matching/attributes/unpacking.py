"""Packed events to channels and values, many at once, without a Python object for any of them.

What `Channels.encode` makes from dictionaries, `Unpacker.encode` makes from the bytes of `core/packing.py`, in one
compiled pass: a name is looked up in a hash table and gives its attribute's channels; a text is looked up among the
texts that filters ask for by name. Values that this cannot judge (numbers from 2**53 on, and all values of attributes
with atoms: IN, LIKE, <>) are left to `Channels`, once for each distinct value of an attribute in a batch.
`Unpacker.encode_columns` makes the same from a block of events (`columns.py`), in which names and texts are numbers.

An unpacker is made from an index, and holds until a filter is added or removed there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from covey.core.packing import unpack_value
from covey.errors import EventError
from covey.matching.attributes.channels import Attribute, Channels
from covey.matching.attributes.columns import Columns, Kinds
from covey.matching.attributes.index import AttributeIndex, Batch
from covey.matching.attributes.packed import (
    FLOAT,
    LARGE,
    NOTHING,
    TEXT,
    TRUTH,
    WRONG,
    Bytes,
    hash_of,
    map_at,
    point_at,
)
from covey.matching.jit import Floats, Ints, Longs, kernel, part

# Columns of the table of attributes.
_NUMBER, _SYMBOL, _ABSENCE, _ATOMS, _COLUMNS = 0, 1, 2, 3, 4
# Columns of the list of values that are left to Python: where they stand in the batch, whose they are, their bytes.
_PLACE, _OWNER, _FIRST, _LAST, _ODD_COLUMNS = 0, 1, 2, 3, 4

_ODD: Final = -1  # instead of a channel: this value is in the list

Key = TypeVar("Key", bound=Hashable)


@part
def _find(
    data: Bytes, first: int, last: int, owner: int, table: Ints, owners: Ints, starts: Longs, texts: Bytes
) -> int:
    """Return the number of an owner's text, or -1."""
    slot = hash_of(data, first, last, owner) & (len(table) - 1)
    while table[slot] >= 0:
        number = table[slot]
        begin = starts[number]
        if owners[number] == owner and starts[number + 1] - begin == last - first:
            same = True
            for k in range(last - first):
                if texts[begin + k] != data[first + k]:
                    same = False
                    break
            if same:
                return number
        slot = (slot + 1) & (len(table) - 1)
    return -1


@kernel
def fill_table(table: Ints, owners: Ints, starts: Longs, texts: Bytes) -> None:
    """Put all texts, which are distinct for each owner, into an empty hash table."""
    for number in range(len(owners)):
        slot = hash_of(texts, starts[number], starts[number + 1], owners[number]) & (len(table) - 1)
        while table[slot] >= 0:
            slot = (slot + 1) & (len(table) - 1)
        table[slot] = number


@part
def _put(channel: int, number: float, absence: int, channels: Ints, values: Floats, found: int) -> int:
    """Write a value's point, if it has a channel, and that of its presence; return how many points there are then."""
    if channel != 0:
        channels[found] = channel
        values[found] = number
        found += 1
    if absence != 0:
        channels[found] = absence
        values[found] = np.nan
        found += 1
    return found


@kernel
def unpack_events(
    data: Bytes,
    offsets: Longs,
    attributes: Ints,
    name_table: Ints,
    name_owners: Ints,
    name_starts: Longs,
    name_texts: Bytes,
    table: Ints,
    owners: Ints,
    starts: Longs,
    texts: Bytes,
    symbols: Ints,
    word: Longs,
    numbers: Floats,
    event_starts: Longs,
    channels: Ints,
    values: Floats,
    odd: Longs,
) -> int:
    """Write the channels and values of packed events; return how many values are left to Python.

    If an event's bytes are not a packed event, -1 - its number. `channels`, `values` and `odd` have room for as
    many as there are bytes.
    """
    found, left = 0, 0
    for event in range(len(offsets) - 1):
        event_starts[event] = found
        end = offsets[event + 1]
        count, at = map_at(data, offsets[event], end)
        if count < 0:
            return -1 - event
        for _ in range(count):
            kind, number, first, last, value_first, value_last, at = point_at(data, at, end, word, numbers)
            if kind == WRONG:
                return -1 - event
            owner = _find(data, first, last, 0, name_table, name_owners, name_starts, name_texts)
            if owner < 0 or kind == NOTHING:
                continue
            if attributes[_COLUMNS * owner + _ATOMS] != 0 or kind == LARGE:
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
                channel = attributes[_COLUMNS * owner + _NUMBER]
            elif kind == TEXT:
                text = _find(data, value_first, value_last, owner, table, owners, starts, texts)
                if text >= 0:
                    channel, number = attributes[_COLUMNS * owner + _SYMBOL], float(symbols[text])
            elif kind == TRUTH:
                channel = attributes[_COLUMNS * owner + _SYMBOL]
            absence = attributes[_COLUMNS * owner + _ABSENCE]
            found = _put(channel, number, absence, channels, values, found)
        if at != end:
            return -1 - event
    event_starts[len(offsets) - 1] = found
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
    `values` have room for two a point.
    """
    found, left, point = 0, 0, 0
    for event in range(len(ends)):
        event_starts[event] = found
        while point < ends[event]:
            at = point
            point += 1
            owner = owner_of[name[at]]
            if owner < 0:
                continue
            sort = kind[at]
            if sort == LARGE or attributes[_COLUMNS * owner + _ATOMS] != 0:
                odd[2 * left] = found
                odd[2 * left + 1] = at
                left += 1
                channels[found] = _ODD
                found += 1
                continue
            channel, number = 0, value[at]
            if sort == FLOAT:
                channel = attributes[_COLUMNS * owner + _NUMBER]
            elif sort == TEXT:
                symbol = symbol_of[np.int64(number)]
                if symbol >= 0:
                    channel, number = attributes[_COLUMNS * owner + _SYMBOL], float(symbol)
            elif sort == TRUTH:
                channel = attributes[_COLUMNS * owner + _SYMBOL]
            absence = attributes[_COLUMNS * owner + _ABSENCE]
            found = _put(channel, number, absence, channels, values, found)
    event_starts[len(ends)] = found
    return left


class Texts:
    """Texts, each with an owner's number, in a hash table of flat arrays."""

    def __init__(self, items: Sequence[tuple[int, bytes]]) -> None:
        self.owners: Ints = np.array([owner for owner, _ in items], np.int32)
        self.starts: Longs = np.zeros(len(items) + 1, np.int64)
        np.cumsum([len(text) for _, text in items], out=self.starts[1:])
        self.texts: Bytes = np.frombuffer(b"".join(text for _, text in items) + b"\0", np.uint8)
        self.table: Ints = np.full(1 << max(2, (2 * len(items)).bit_length()), -1, np.int32)
        fill_table(self.table, self.owners, self.starts, self.texts)

    @property
    def arrays(self) -> tuple[Ints, Ints, Longs, Bytes]:
        """What the kernel takes."""
        return self.table, self.owners, self.starts, self.texts


class Unpacker:
    """Encodes packed events for an index; see the module's text."""

    def __init__(self, index: AttributeIndex) -> None:
        self._channels: Channels = index.channels
        self._owners: list[Attribute] = list(index.channels.attributes.values())
        self._owner_of = {attribute.name: owner for owner, attribute in enumerate(self._owners)}
        rows = [(a.number, a.symbol, a.absence, int(a.atoms is not None)) for a in self._owners]
        self._attributes: Ints = np.array(rows, np.int32).reshape(-1)
        self._names = Texts([(0, attribute.name.encode()) for attribute in self._owners])
        symbols = [
            (owner, value.encode(), number)
            for owner, attribute in enumerate(self._owners)
            for value, number in attribute.symbols.items()
            if isinstance(value, str)
        ]
        self._symbols: Ints = np.array([number for _, _, number in symbols], np.int32)
        self._texts = Texts([(owner, text) for owner, text, _ in symbols])
        self._word: Longs = np.zeros(1, np.int64)
        self._room: tuple[Ints, Floats, Longs] = (np.zeros(0, np.int32), np.zeros(0), np.zeros(0, np.int64))

    def encode(self, data: Bytes, offsets: Longs) -> Batch:
        """Return events in the form that batches take: event n is the bytes from offsets[n] to offsets[n + 1].

        It is a view, valid until the next call. EventError, with the event's number, for bytes that are no event.
        """
        size = int(offsets[-1] - offsets[0])
        if size > len(self._room[0]):
            self._room = (
                np.empty(size, np.int32),
                np.empty(size, np.float64),
                np.empty(_ODD_COLUMNS * size, np.int64),
            )
        channels, values, odd = self._room
        starts: Longs = np.zeros(len(offsets), np.int64)
        left = unpack_events(
            data,
            offsets,
            self._attributes,
            *self._names.arrays,
            *self._texts.arrays,
            self._symbols,
            self._word,
            self._word.view(np.float64),
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
        return self._with_odd(
            batch, rows[:, _PLACE], keys, lambda key: self._points(key[0], unpack_value(key[1]))
        )

    def encode_columns(self, columns: Columns) -> Batch:
        """Return a block of events in the form that batches take."""
        get = self._owner_of.get
        owner_of: Ints = np.array([get(name, -1) for name in columns.names], np.int32)
        symbol_of: Ints = np.full(len(columns.texts), -1, np.int32)
        for number, (owner, text) in enumerate(
            zip(owner_of[columns.owners].tolist(), columns.texts, strict=True)
        ):
            if owner >= 0:
                symbol_of[number] = self._owners[owner].symbols.get(text, -1)
        points = len(columns.name)
        starts: Longs = np.zeros(len(columns) + 1, np.int64)
        channels, values = np.empty(2 * points, np.int32), np.empty(2 * points)
        odd: Longs = np.empty(2 * points, np.int64)
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

    def _points(self, owner: int, value: Any) -> tuple[list[int], list[float]]:
        names: list[int] = []
        values: list[float] = []
        self._channels.points({self._owners[owner].name: value}, names, values)
        return names, values
