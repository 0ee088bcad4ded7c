"""Which events were here before, by publisher and number: the last so many of them, in a table that kernels search.

There are two generations, each of up to `size` events: what is new goes to the younger one, and when that is full the
older one is emptied and becomes the younger. So at least the last `size` events are known, and at most twice as many.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from covey.matching.jit import Longs, address_of, kernel, longs_at, part

# What the array of addresses holds: where the two tables are, slots of each less one, the younger one, how many events
# are in it, and how many may be.
_TABLES, _MASK, _YOUNGER, _COUNT, _SIZE, _LENGTH = 0, 2, 3, 4, 5, 6
_FREE: Final = -1  # of a slot's third number: nothing is here


@part
def _slot(table: Longs, mask: int, publisher: int, number: int) -> int:
    """Return where a name is, or would be."""
    mixed = (np.uint64(publisher) * np.uint64(0x9E3779B97F4A7C15)) ^ np.uint64(number)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    mixed ^= mixed >> np.uint64(32)
    slot = np.int64(mixed & np.uint64(0x7FFFFFFF)) & mask
    while table[3 * slot + 2] != _FREE and (table[3 * slot] != publisher or table[3 * slot + 1] != number):
        slot = (slot + 1) & mask
    return slot  # type: ignore[return-value]


@part
def is_seen(at: int, publisher: int, number: int) -> bool:
    """Return whether an event was here; `at` is the address of the array of addresses."""
    seen = longs_at(at)
    for generation in range(2):
        table = longs_at(seen[_TABLES + generation])
        if table[3 * _slot(table, seen[_MASK], publisher, number) + 2] != _FREE:
            return True
    return False


@part
def see(at: int, publisher: int, number: int) -> None:
    """Note an event that was not here."""
    seen = longs_at(at)
    if seen[_COUNT] == seen[_SIZE]:
        seen[_YOUNGER] = 1 - seen[_YOUNGER]
        seen[_COUNT] = 0
        table = longs_at(seen[_TABLES + seen[_YOUNGER]])
        for slot in range(seen[_MASK] + 1):
            table[3 * slot + 2] = _FREE
    table = longs_at(seen[_TABLES + seen[_YOUNGER]])
    slot = _slot(table, seen[_MASK], publisher, number)
    table[3 * slot] = publisher
    table[3 * slot + 1] = number
    table[3 * slot + 2] = 0
    seen[_COUNT] += 1


@kernel
def see_one(addresses: Longs, publisher: int, number: int) -> bool:
    """Note an event; return whether it is new."""
    at = addresses.ctypes.data
    if is_seen(at, publisher, number):
        return False
    see(at, publisher, number)
    return True


class SeenNames:
    """The names of the last events; see the module's text."""

    def __init__(self, size: int) -> None:
        slots = 1 << (2 * size - 1).bit_length()
        self._tables = [np.full(3 * slots, _FREE, np.int64) for _ in range(2)]
        self._addresses: Longs = np.zeros(_LENGTH, np.int64)
        self._addresses[_TABLES : _TABLES + 2] = [address_of(table) for table in self._tables]
        self._addresses[_MASK], self._addresses[_SIZE] = slots - 1, size
        self.address = address_of(self._addresses)

    def add(self, publisher: int, number: int) -> bool:
        """Note an event, by two numbers of 64 bits; return whether it is new."""
        return see_one(self._addresses, _signed(publisher), _signed(number))


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
