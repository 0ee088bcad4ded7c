"""Whether bytes are packed events in their one form, so that everyone reads them alike.

Kernels that match trust what they read: an attribute that comes twice, or a text that is not UTF-8, means to them
something else than to whoever decodes the event. What comes from strangers is asked here first. An event that does not
pass need not be wrong: it may only be written in a way that is rare (more than MOST_NAMES attributes, integers beyond
64 bits, nested maps), and `core.packing.unpack` says what it is. A value that is neither number, string nor boolean is
in no event that may be published: such an event does not pass either.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from covey.matching.attributes.layout import Point
from covey.matching.attributes.packed import (
    OTHER,
    TEXT,
    WRONG,
    Bytes,
    PackedEvents,
    hash_of,
    map_at,
    point_at,
)
from covey.matching.jit import Floats, Longs, called, kernel, part, pointer_to

MOST_NAMES: Final = 64  # they are compared with each other
POINT_LONGS: Final = Point.length_in(np.int64)


@part
def _is_utf8(data: Bytes, first: int, last: int) -> bool:
    """Return whether bytes are well-formed: no surrogates, nothing longer than needed, nothing beyond 10FFFF."""
    at = first
    while at < last:
        head = np.int64(data[at])
        at += 1
        if head < 0x80:
            continue
        more, low, high = 0, 0x80, 0xBF
        if 0xC2 <= head <= 0xDF:
            more = 1
        elif 0xE0 <= head <= 0xEF:
            more = 2
            if head == 0xE0:
                low = 0xA0
            elif head == 0xED:
                high = 0x9F
        elif 0xF0 <= head <= 0xF4:
            more = 3
            if head == 0xF0:
                low = 0x90
            elif head == 0xF4:
                high = 0x8F
        else:
            return False
        if at + more > last:
            return False
        for _ in range(more):
            if not low <= data[at] <= high:
                return False
            low, high = 0x80, 0xBF
            at += 1
    return True


@part
def _is_known(data: Bytes, attributes: Longs, count: int) -> bool:
    """Return whether the name of an attribute is among those before it."""
    mine = Point(attributes, count)
    first, size = mine.name_first, mine.name_last - mine.name_first
    for k in range(count):
        other = Point(attributes, k)
        begin = other.name_first
        if other.hash != mine.hash or other.name_last - begin != size:
            continue
        same = True
        for place in range(size):
            if data[begin + place] != data[first + place]:
                same = False
                break
        if same:
            return True
    return False


@called
def read_attributes(data: Bytes, first: int, end: int, attributes: Longs, numbers: Floats) -> int:
    """Write where the attributes of a packed event are, and their numbers; return how many there are.

    -1 if the bytes are no packed event in its one form. There is room for MOST_NAMES attributes. The hash of a name is
    `hash_of` for the owner 0.
    """
    count, at = map_at(data, first, end)
    if count < 0 or count > MOST_NAMES:
        return -1
    for k in range(count):
        begin = at
        kind, number, name_first, name_last, value_first, value_last, at = point_at(data, at, end)
        if kind == WRONG or kind == OTHER or begin == at or not _is_utf8(data, name_first, name_last):
            return -1
        if kind == TEXT and not _is_utf8(data, value_first, value_last):
            return -1
        # The head of a value follows its name; extensions are integers of many digits, or none at all.
        head = data[name_last]
        if 0xC7 <= head <= 0xC9 or 0xD4 <= head <= 0xD8:
            return -1
        point = Point(attributes, k)
        point.name_first, point.name_last = name_first, name_last
        point.value_first, point.value_last = value_first, value_last
        point.end = at
        point.kind = kind
        point.hash = hash_of(data, name_first, name_last, 0)
        numbers[k] = number
        if _is_known(data, attributes, k):
            return -1
    return count if at == end else -1


@kernel
def count_values(data: Bytes, first: int, end: int, most: int) -> int:
    """Return how many values bytes of MessagePack have, names and maps counted, or one more than `most`.

    What is no MessagePack has some number; whoever decodes it says so.
    """
    bytes_ = pointer_to(data)
    at, count = first, 0
    while at < end and count <= most:
        head = int(bytes_[at])
        at += 1
        count += 1
        size, words, is_extension = 0, 0, False  # bytes of the length that comes before the value's own
        if 0xA0 <= head <= 0xBF:
            at += head & 0x1F
        elif 0xC4 <= head <= 0xC9:  # bytes, and extensions
            size, words = 1 << (head - 0xC4) % 3, 1
            is_extension = head >= 0xC7
        elif 0xCA <= head <= 0xCB:
            at += 4 << (head - 0xCA)
        elif 0xCC <= head <= 0xD3:
            at += 1 << (head - 0xCC) % 4
        elif 0xD4 <= head <= 0xD8:
            at += 1 + (1 << (head - 0xD4))
        elif 0xD9 <= head <= 0xDB:
            size, words = 1 << (head - 0xD9), 1
        elif 0xDC <= head <= 0xDF:  # lists and maps, whose values follow
            at += 2 << (head & 1)
        if words and at + size <= end:
            length = 0
            for k in range(size):
                length = length << 8 | int(bytes_[at + k])
            at += length
        at += size + is_extension  # which has a type
    return count


@kernel
def check_events(
    data: Bytes, firsts: Longs, lasts: Longs, attributes: Longs, numbers: Floats, passed: NDArray[np.bool_]
) -> None:
    """Write for each event whether it is in its one form. `attributes` and `numbers` are room for those of one."""
    bytes_, rows = pointer_to(data), pointer_to(attributes)
    values = pointer_to(numbers)
    for event in range(len(firsts)):
        passed[event] = read_attributes(bytes_, firsts[event], lasts[event], rows, values) >= 0


def are_packed(events: PackedEvents) -> NDArray[np.bool_]:
    """Return for each event whether its bytes are a packed event in its one form; see the module's text."""
    passed = np.zeros(len(events), np.bool_)
    attributes: Longs = np.zeros(POINT_LONGS * MOST_NAMES, np.int64)
    numbers: Floats = np.zeros(MOST_NAMES)
    check_events(events.data, events.firsts, events.lasts, attributes, numbers, passed)
    return passed
