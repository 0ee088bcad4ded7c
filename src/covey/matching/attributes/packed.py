"""Reading packed events (`core/packing.py`) in compiled code: where texts and values are, and of which kind.

Parts take the bytes as a pointer (`bytes_at`): an array would be counted anew at every call, which takes longer than
what they do with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from covey.matching.jit import Floats, Ints, Longs, bits_float, part

Bytes = NDArray[np.uint8]

# Kinds of values: absent; a float holds it; a text; a truth value; present, equal to nothing; a number that no float
# holds exactly; bytes that are no value.
NOTHING, FLOAT, TEXT, TRUTH, OTHER, LARGE, WRONG = 0, 1, 2, 3, 4, 5, 6

_EXACT: Final = 2.0**53


class Given(NamedTuple):
    """A value as kernels pass it on: of a kind, a number or a truth value as 0 or 1, or the text `data[first:last]`."""

    kind: int
    number: float
    data: Bytes
    first: int
    last: int


class Points(NamedTuple):
    """Where kernels write points: channels and values, and for how many there is room."""

    channels: Ints
    values: Floats
    room: int


@dataclass(frozen=True, slots=True, eq=False)
class PackedEvents:
    """Packed events in one buffer: event n is its bytes from firsts[n] to lasts[n]. Others may lie in between."""

    data: Bytes
    firsts: Longs
    lasts: Longs

    def __len__(self) -> int:
        return len(self.firsts)

    def some(self, which: Any) -> PackedEvents:
        """Return some of the events, by their numbers, a mask or a slice."""
        return PackedEvents(self.data, self.firsts[which], self.lasts[which])


@part
def _signed(number: Any) -> Any:
    """Return a number as the compiler's plain integer; bytes mixed with those would become floats."""
    return np.int64(number)


@part
def hash_of(data: Bytes, first: int, last: int, owner: int) -> int:
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
def _big_endian(data: Bytes, first: int, count: int) -> Any:
    value = np.uint64(0)
    for k in range(first, first + count):
        value = (value << np.uint64(8)) | np.uint64(data[k])
    return value


@part
def text_at(data: Bytes, at: int, end: int) -> tuple[int, int]:
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
def value_at(data: Bytes, at: int, end: int) -> tuple[int, float, int]:
    """Return the kind, the number and the end of the value that begins at `at`; texts are told by `text_at`."""
    head = _signed(data[at])
    if head <= 0x7F:
        return FLOAT, float(head), at + 1
    if head >= 0xE0:
        return FLOAT, float(head - 256), at + 1
    if 0xA0 <= head <= 0xBF or 0xD9 <= head <= 0xDB:
        return TEXT, 0.0, at
    if head == 0xC0:
        return NOTHING, 0.0, at + 1
    if head == 0xC2 or head == 0xC3:
        return TRUTH, float(head - 0xC2), at + 1
    if head == 0x90:
        return OTHER, 0.0, at + 1
    if 0xCC <= head <= 0xD3:
        size = 1 << ((head - 0xCC) & 3)
        after = at + 1 + size
        if after > end:
            return WRONG, 0.0, at
        whole = _signed(_big_endian(data, at + 1, size))
        if head >= 0xD0:
            shift = 64 - 8 * size
            whole = (whole << shift) >> shift
        elif whole < 0:
            return LARGE, 0.0, after  # beyond 63 bits
        number = float(whole)
        return (FLOAT if -_EXACT < number < _EXACT else LARGE), number, after
    if head == 0xCB:
        if at + 9 > end:
            return WRONG, 0.0, at
        number = bits_float(_signed(_big_endian(data, at + 1, 8))) + 0.0  # -0.0 is 0
        if number != number:
            return OTHER, 0.0, at + 9
        return (FLOAT if -_EXACT < number < _EXACT else LARGE), number, at + 9
    # A large integer: an extension with one, two, four … bytes, or with its length in one or two.
    if 0xD4 <= head <= 0xD8:
        after = at + 2 + (1 << (head - 0xD4))
        return (LARGE, 0.0, after) if after <= end else (WRONG, 0.0, at)
    if head == 0xC7 or head == 0xC8:
        size = 1 << (head - 0xC7)
        if at + 1 + size >= end:
            return WRONG, 0.0, at
        after = at + 2 + size + _signed(_big_endian(data, at + 1, size))
        return (LARGE, 0.0, after) if after <= end else (WRONG, 0.0, at)
    return WRONG, 0.0, at


@part
def point_at(data: Bytes, at: int, end: int) -> tuple[int, float, int, int, int, int, int]:
    """Return the attribute that begins at `at`: its value's kind and number, where its name begins and ends, where
    its value's bytes do (those of a text without its head), and where all of it ends. Of the kind WRONG, if it is none.
    """
    if at >= end:
        return WRONG, 0.0, at, at, at, at, at
    first, last = text_at(data, at, end)
    if first < 0 or last >= end:
        return WRONG, 0.0, at, at, at, at, at
    kind, number, after = value_at(data, last, end)
    value_first, value_last = last, after
    if kind == TEXT:
        value_first, value_last = text_at(data, last, end)
        if value_first < 0:
            return WRONG, 0.0, at, at, at, at, at
        after = value_last
    return kind, number, first, last, value_first, value_last, after


@part
def list_at(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return how many values the list at `at` has and where they begin; -1 if there is no list."""
    head = _signed(data[at])
    if 0x90 <= head <= 0x9F:
        return head & 0x0F, at + 1
    if head == 0xDC or head == 0xDD:
        size = 2 << (head - 0xDC)
        if at + 1 + size <= end:
            return _signed(_big_endian(data, at + 1, size)), at + 1 + size
    return -1, at


@part
def map_at(data: Bytes, at: int, end: int) -> tuple[int, int]:
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
