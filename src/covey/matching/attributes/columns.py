"""Many packed events as a few columns: names and texts once each, values in one array.

An index reads packed events (`unpacking.py`) name by name and text by text. Where the same events are read more than
once, or travel far before they are, that work is done once: here a block of events becomes

    names     the attributes' names that occur, each once
    texts     the texts that occur, each once for each name that has it
    ends      where the points of each event end
    name      for each point, the number of its name
    kind      for each point, one of the kinds below
    value     for each point, its number; 0 or 1 for a truth value; the number of its text, or of its packed value

A point is an attribute of an event that is present. A value that no float holds exactly stays packed, in `packed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from covey.core.packing import unpack_value
from covey.errors import EventError
from covey.matching.attributes.packed import (
    FLOAT,
    LARGE,
    NOTHING,
    OTHER,
    TEXT,
    TRUTH,
    WRONG,
    Bytes,
    hash_of,
    map_at,
    point_at,
)
from covey.matching.jit import Floats, Ints, Longs, kernel, part, pointer_to
from covey.matching.records import Long, Record

KINDS: Final = (FLOAT, TEXT, TRUTH, OTHER, LARGE)

Kinds = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Columns:
    """A block of events; see the module's text. EventError if the parts do not fit together."""

    names: list[str]
    texts: list[str]
    owners: Ints  # the number of the name that has each text
    packed: list[bytes]
    ends: Ints
    name: Ints
    kind: Kinds
    value: Floats

    def __post_init__(self) -> None:
        points = len(self.name)
        if len(self.kind) != points or len(self.value) != points or len(self.owners) != len(self.texts):
            raise EventError("a block's columns have different lengths")
        if len(self.ends) and (self.ends[0] < 0 or self.ends[-1] != points or (np.diff(self.ends) < 0).any()):
            raise EventError("a block's events do not end one after the other")
        if not len(self.ends) and points:
            raise EventError("a block has points of no event")
        if _outside(self.name, len(self.names)) or _outside(self.owners, len(self.names)):
            raise EventError("a block has points of names that it does not have")
        if not points:
            return
        if not np.isin(self.kind, KINDS).all():
            raise EventError("a block has values of an unknown kind")
        for kind, count in ((TEXT, len(self.texts)), (LARGE, len(self.packed)), (TRUTH, 2)):
            some = self.value[self.kind == kind]
            if len(some) and not ((some >= 0) & (some < count) & (some == np.floor(some))).all():
                raise EventError("a block has values that it does not have")

    def __len__(self) -> int:
        return len(self.ends)

    def value_of(self, kind: int, value: float) -> Any:
        """Return a point's value as an event has it."""
        if kind == TEXT:
            return self.texts[int(value)]
        if kind == LARGE:
            return unpack_value(self.packed[int(value)])
        return bool(value) if kind == TRUTH else [] if kind == OTHER else value


def _outside(numbers: Ints, count: int) -> bool:
    return bool(len(numbers)) and bool(numbers.min() < 0 or numbers.max() >= count)


class Known(Record):
    """A name or a text of a block: where its bytes are, and whose it is."""

    first: Long
    last: Long
    owner: Long


class Packed(Record):
    """Where the bytes of a value are that a block has as they are."""

    first: Long
    last: Long


@part
def _number_of(
    data: Bytes, first: int, last: int, owner: int, mask: int, table: Ints, known: Longs, count: int
) -> tuple[int, int]:
    """Return the number of an owner's text and how many there are then: it is added if it is not there."""
    slot = hash_of(data, first, last, owner) & mask
    while table[slot] >= 0:
        number = table[slot]
        other = Known(known, number)
        begin = other.first
        if other.owner == owner and other.last - begin == last - first:
            same = True
            for k in range(last - first):
                if data[begin + k] != data[first + k]:
                    same = False
                    break
            if same:
                return number, count
        slot = (slot + 1) & mask
    table[slot] = count
    new = Known(known, count)
    new.first, new.last, new.owner = first, last, owner
    return count, count + 1


@kernel
def to_columns(
    data: Bytes,
    offsets: Longs,
    name_table: Ints,
    names: Longs,
    text_table: Ints,
    texts: Longs,
    packed: Longs,
    ends: Ints,
    name: Ints,
    kind: Kinds,
    value: Floats,
    counts: Longs,
) -> int:
    """Write the columns of packed events; return 0, or -1 - the number of an event whose bytes are none.

    `names` and `texts` get rows of `Known`, `packed` of `Packed`. Tables come in as -1, twice as large as there can be
    texts. `counts` gets how many names, texts and packed values there are.
    """
    found, name_count, text_count, packed_count = 0, 0, 0, 0
    bytes_, name_mask, text_mask = pointer_to(data), len(name_table) - 1, len(text_table) - 1
    name_slots, text_slots = pointer_to(name_table), pointer_to(text_table)
    known_names, known_texts, places = pointer_to(names), pointer_to(texts), pointer_to(packed)
    for event in range(len(offsets) - 1):
        end = offsets[event + 1]
        count, at = map_at(bytes_, offsets[event], end)
        if count < 0:
            return -1 - event
        for _ in range(count):
            sort, number, first, last, value_first, value_last, at = point_at(bytes_, at, end)
            if sort == WRONG:
                return -1 - event
            if sort == NOTHING:
                continue
            owner, name_count = _number_of(
                bytes_, first, last, 0, name_mask, name_slots, known_names, name_count
            )
            if sort == TEXT:
                text, text_count = _number_of(
                    bytes_, value_first, value_last, owner, text_mask, text_slots, known_texts, text_count
                )
                number = float(text)
            elif sort == LARGE:
                place = Packed(places, packed_count)
                place.first, place.last = last, at
                number = float(packed_count)
                packed_count += 1
            name[found] = owner
            kind[found] = sort
            value[found] = number
            found += 1
        if at != end:
            return -1 - event
        ends[event] = found
    counts[0], counts[1], counts[2], counts[3] = name_count, text_count, packed_count, found
    return 0


def columns_of(data: Bytes, offsets: Longs) -> Columns:
    """Return packed events as columns: event n is the bytes from offsets[n] to offsets[n + 1].

    EventError, with the event's number, for bytes that are no event.
    """
    events = len(offsets) - 1
    # A point takes at least two bytes: the heads of its name and of its value.
    most = max(1, int(offsets[-1] - offsets[0]) // 2 + 1)
    slots = 1 << (2 * most).bit_length()
    name_table, text_table = np.full(slots, -1, np.int32), np.full(slots, -1, np.int32)
    names, texts, packed = (
        np.empty((most, row.length_in(np.int64)), np.int64) for row in (Known, Known, Packed)
    )
    ends: Ints = np.zeros(events, np.int32)
    name, kind, value = np.empty(most, np.int32), np.empty(most, np.uint8), np.empty(most)
    counts: Longs = np.zeros(4, np.int64)
    wrong = to_columns(
        data,
        offsets,
        name_table,
        names,
        text_table,
        texts,
        packed,
        ends,
        name,
        kind,
        value,
        counts,
    )
    if wrong < 0:
        raise EventError(f"the bytes of event {-1 - wrong} of this batch are no packed event")
    name_count, text_count, packed_count, found = counts.tolist()
    bytes_ = data.data
    rows = texts[:text_count]
    try:
        return Columns(
            [str(bytes_[a:b], "utf-8") for a, b, _ in names[:name_count].tolist()],
            [str(bytes_[a:b], "utf-8") for a, b, _ in rows.tolist()],
            rows[:, Known.PLACES.owner].astype(np.int32),
            [bytes(bytes_[a:b]) for a, b in packed[:packed_count].tolist()],
            ends,
            name[:found].copy(),
            kind[:found].copy(),
            value[:found].copy(),
        )
    except UnicodeDecodeError:
        raise EventError("an event's text is not UTF-8") from None
