"""Packed events to channels and values, many at once, without a Python object for any of them.

What `Channels.encode` makes from dictionaries, `Unpacker.encode` makes from the bytes of `core/packing.py`, in one
compiled pass: a name is looked up in a hash table and gives its attribute's channels; a text is looked up among the
texts that filters ask for by name. Values that this cannot judge (numbers from 2**53 on, and all values of attributes
with atoms: IN, LIKE, <>) are left to `Channels`, once for each distinct value of an attribute in a batch.

An unpacker is made from an index, and holds until a filter is added or removed there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from covey.core.packing import unpack_value
from covey.errors import EventError
from covey.matching.attributes.channels import Attribute, Channels
from covey.matching.attributes.index import AttributeIndex, Batch
from covey.matching.jit import Floats, Ints, Longs, kernel, part

Bytes = NDArray[np.uint8]

# Columns of the table of attributes.
_NUMBER, _SYMBOL, _ABSENCE, _ATOMS, _COLUMNS = 0, 1, 2, 3, 4
# Columns of the list of values that are left to Python: where they stand in the batch, whose they are, their bytes.
_PLACE, _OWNER, _FIRST, _LAST, _ODD_COLUMNS = 0, 1, 2, 3, 4
# Kinds of values.
_NOTHING, _FLOAT, _TEXT, _TRUTH, _OTHER, _LARGE, _WRONG = 0, 1, 2, 3, 4, 5, 6

_EXACT: Final = 2.0**53
_ODD: Final = -1  # instead of a channel: this value is in the list


@part
def _signed(number: Any) -> Any:
    """Return a number as the compiler's plain integer; bytes mixed with those would become floats."""
    return np.int64(number)


@part
def _hash(data: Bytes, first: int, last: int, owner: int) -> int:
    """Return a hash of bytes and of whose they are, from 0 up."""
    value = np.uint64(0x9E3779B97F4A7C15) * np.uint64(owner + 1)
    k = first
    while k < last:
        # Eight bytes at a time: a multiplication for each of them would take most of the time.
        word = np.uint64(last - k)
        for place in range(k, min(k + 8, last)):
            word = (word << np.uint64(8)) ^ np.uint64(data[place])
        value = (value ^ word) * np.uint64(0xD6E8FEB86659FD93)
        value ^= value >> np.uint64(32)
        k += 8
    return _signed(value & np.uint64(0x7FFFFFFF))


@part
def _find(
    data: Bytes, first: int, last: int, owner: int, table: Ints, owners: Ints, starts: Longs, texts: Bytes
) -> int:
    """Return the number of an owner's text, or -1."""
    slot = _hash(data, first, last, owner) & (len(table) - 1)
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
        slot = _hash(texts, starts[number], starts[number + 1], owners[number]) & (len(table) - 1)
        while table[slot] >= 0:
            slot = (slot + 1) & (len(table) - 1)
        table[slot] = number


@part
def _big_endian(data: Bytes, first: int, count: int) -> Any:
    value = np.uint64(0)
    for k in range(first, first + count):
        value = (value << np.uint64(8)) | np.uint64(data[k])
    return value


@part
def _text_at(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return where the text that begins with the byte at `at` has its first byte and ends; -1 if there is none."""
    head = _signed(data[at])
    first, length = at + 1, _signed(0)
    if 0xA0 <= head <= 0xBF:
        length = head & 0x1F
    elif 0xD9 <= head <= 0xDB:
        size = 1 << (head - 0xD9)
        first = at + 1 + size
        if first > end:
            return -1, -1
        length = _signed(_big_endian(data, at + 1, size))
    else:
        return -1, -1
    return (first, first + length) if first + length <= end else (-1, -1)


@part
def _value_at(data: Bytes, at: int, end: int, word: Longs, numbers: Floats) -> tuple[int, float, int]:
    """Return the kind, the number and the end of the value that begins at `at`; texts are told by `_text_at`.

    `word` and `numbers` are one number seen as an integer and as a float.
    """
    head = _signed(data[at])
    if head <= 0x7F:
        return _FLOAT, float(head), at + 1
    if head >= 0xE0:
        return _FLOAT, float(head - 256), at + 1
    if 0xA0 <= head <= 0xBF or 0xD9 <= head <= 0xDB:
        return _TEXT, 0.0, at
    if head == 0xC0:
        return _NOTHING, 0.0, at + 1
    if head == 0xC2 or head == 0xC3:
        return _TRUTH, float(head - 0xC2), at + 1
    if head == 0x90:
        return _OTHER, 0.0, at + 1
    if 0xCC <= head <= 0xD3:
        size = 1 << ((head - 0xCC) & 3)
        after = at + 1 + size
        if after > end:
            return _WRONG, 0.0, at
        whole = _signed(_big_endian(data, at + 1, size))
        if head >= 0xD0:
            shift = 64 - 8 * size
            whole = (whole << shift) >> shift
        elif whole < 0:
            return _LARGE, 0.0, after  # beyond 63 bits
        number = float(whole)
        return (_FLOAT if -_EXACT < number < _EXACT else _LARGE), number, after
    if head == 0xCB:
        if at + 9 > end:
            return _WRONG, 0.0, at
        word[0] = _signed(_big_endian(data, at + 1, 8))
        number = numbers[0]
        if number != number:
            return _OTHER, 0.0, at + 9
        return (_FLOAT if -_EXACT < number < _EXACT else _LARGE), number, at + 9
    # A large integer: an extension with one, two, four … bytes, or with its length in one or two.
    if 0xD4 <= head <= 0xD8:
        after = at + 2 + (1 << (head - 0xD4))
        return (_LARGE, 0.0, after) if after <= end else (_WRONG, 0.0, at)
    if head == 0xC7 or head == 0xC8:
        size = 1 << (head - 0xC7)
        if at + 1 + size >= end:
            return _WRONG, 0.0, at
        after = at + 2 + size + _signed(_big_endian(data, at + 1, size))
        return (_LARGE, 0.0, after) if after <= end else (_WRONG, 0.0, at)
    return _WRONG, 0.0, at


@part
def _map_at(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return how many attributes a packed event has and where they begin; -1 if it is no map."""
    if at >= end:
        return -1, at
    head = _signed(data[at])
    if 0x80 <= head <= 0x8F:
        return head & 0x0F, at + 1
    if head == 0xDE or head == 0xDF:
        size = 2 << (head - 0xDE)
        if at + 1 + size <= end:
            return _signed(_big_endian(data, at + 1, size)), at + 1 + size
    return -1, at


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
        count, at = _map_at(data, offsets[event], end)
        if count < 0:
            return -1 - event
        for _ in range(count):
            if at >= end:
                return -1 - event
            first, last = _text_at(data, at, end)
            if first < 0 or last >= end:
                return -1 - event
            kind, number, at = _value_at(data, last, end, word, numbers)
            value_first, value_last = last, at
            if kind == _TEXT:
                value_first, value_last = _text_at(data, last, end)
                if value_first < 0:
                    return -1 - event
                at = value_last
            elif kind == _WRONG:
                return -1 - event
            owner = _find(data, first, last, 0, name_table, name_owners, name_starts, name_texts)
            if owner < 0 or kind == _NOTHING:
                continue
            if attributes[_COLUMNS * owner + _ATOMS] != 0 or kind == _LARGE:
                odd[_ODD_COLUMNS * left + _PLACE] = found
                odd[_ODD_COLUMNS * left + _OWNER] = owner
                odd[_ODD_COLUMNS * left + _FIRST] = last
                odd[_ODD_COLUMNS * left + _LAST] = at
                left += 1
                channels[found] = _ODD
                found += 1
                continue
            channel = 0
            if kind == _FLOAT:
                channel = attributes[_COLUMNS * owner + _NUMBER]
            elif kind == _TEXT:
                text = _find(data, value_first, value_last, owner, table, owners, starts, texts)
                if text >= 0:
                    channel, number = attributes[_COLUMNS * owner + _SYMBOL], float(symbols[text])
            elif kind == _TRUTH:
                channel = attributes[_COLUMNS * owner + _SYMBOL]
            if channel != 0:
                channels[found] = channel
                values[found] = number
                found += 1
            if attributes[_COLUMNS * owner + _ABSENCE] != 0:
                channels[found] = attributes[_COLUMNS * owner + _ABSENCE]
                values[found] = np.nan
                found += 1
        if at != end:
            return -1 - event
    event_starts[len(offsets) - 1] = found
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
        return (
            self._with_odd(data, batch, odd[: _ODD_COLUMNS * left].reshape(-1, _ODD_COLUMNS))
            if left
            else batch
        )

    def _with_odd(self, data: Bytes, batch: Batch, odd: Longs) -> Batch:
        """Return the batch with the points of the values that were left out, in their places."""
        starts, channels, values = batch
        seen: dict[tuple[int, bytes], int] = {}
        points: list[tuple[list[int], list[float]]] = []
        text = data.data
        which: Longs = np.empty(len(odd), np.int64)
        for number, (owner, first, last) in enumerate(odd[:, 1:].tolist()):
            key = (owner, bytes(text[first:last]))
            known = seen.get(key)
            if known is None:
                known = seen[key] = len(points)
                points.append(self._points(*key))
            which[number] = known
        sizes = np.array([len(names) for names, _ in points], np.int64)
        repeats: Longs = np.ones(len(channels), np.int64)
        repeats[odd[:, _PLACE]] = sizes[which]
        before: Longs = np.zeros(len(channels) + 1, np.int64)
        np.cumsum(repeats, out=before[1:])
        new_channels, new_values = np.repeat(channels, repeats), np.repeat(values, repeats)
        # Where each new point comes from among all distinct ones: its value's first, and then one by one.
        ends = np.cumsum(sizes)
        mine = sizes[which]
        steps = np.arange(int(mine.sum())) - np.repeat(np.cumsum(mine) - mine, mine)
        sources = np.repeat((ends - sizes)[which], mine) + steps
        targets = np.repeat(before[odd[:, _PLACE]], mine) + steps
        new_channels[targets] = np.array([name for names, _ in points for name in names], np.int32)[sources]
        new_values[targets] = np.array([value for _, some in points for value in some], np.float64)[sources]
        return before[starts], new_channels, new_values

    def _points(self, owner: int, value: bytes) -> tuple[list[int], list[float]]:
        names: list[int] = []
        values: list[float] = []
        event: dict[str, Any] = {self._owners[owner].name: unpack_value(value)}
        self._channels.points(event, names, values)
        return names, values
