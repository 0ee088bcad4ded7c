"""Which events were here before, by publisher and number: the last so many of them, in a table that kernels search.

There are two generations, each of up to `size` events: what is new goes to the younger one, and when that is full the
older one is emptied and becomes the younger. So at least the last `size` events are known, and at most twice as many.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from covey.matching.jit import Longs, address_of, kernel, part
from covey.matching.records import Long, Record

_FREE: Final = -1  # of a name's `used`: nothing is here


class Generations(Record):
    """The two tables, slots of each less one, the younger of them, how many events are in it, and how many may be."""

    first_table: Long
    second_table: Long
    mask: Long
    younger: Long
    count: Long
    size: Long


class Table(Record):
    """The address of one of the two tables, as `Generations` begins with them."""

    address: Long


class Name(Record):
    """A slot of a table: the name of an event, by two numbers of 64 bits."""

    publisher: Long
    number: Long
    used: Long


@part
def _slot(table: int, mask: int, publisher: int, number: int) -> int:
    """Return where in the table at an address a name is, or would be."""
    mixed = (np.uint64(publisher) * np.uint64(0x9E3779B97F4A7C15)) ^ np.uint64(number)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    mixed ^= mixed >> np.uint64(32)
    slot: int = np.int64(mixed & np.uint64(0x7FFFFFFF)) & mask  # type: ignore[assignment]
    while not _is_free(table, slot) and (
        Name(table, slot).publisher != publisher or Name(table, slot).number != number
    ):
        slot = (slot + 1) & mask
    return slot


@part
def _is_free(table: int, slot: int) -> bool:
    return Name(table, slot).used == _FREE


@part
def is_seen(at: int, publisher: int, number: int) -> bool:
    """Return whether an event was here; `at` is the address of `Generations`."""
    seen = Generations(at)
    for generation in range(2):
        table = Table(at, generation).address
        if not _is_free(table, _slot(table, seen.mask, publisher, number)):
            return True
    return False


@part
def see(at: int, publisher: int, number: int) -> None:
    """Note an event that was not here."""
    seen = Generations(at)
    if seen.count == seen.size:
        seen.younger = 1 - seen.younger
        seen.count = 0
        for slot in range(seen.mask + 1):
            Name(Table(at, seen.younger).address, slot).used = _FREE
    table = Table(at, seen.younger).address
    name = Name(table, _slot(table, seen.mask, publisher, number))
    name.publisher, name.number, name.used = publisher, number, 0
    seen.count += 1


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
        self._tables = [np.full(Name.length_in(np.int64) * slots, _FREE, np.int64) for _ in range(2)]
        tables = [address_of(table) for table in self._tables]
        self._addresses: Longs = np.array([*tables, slots - 1, 0, 0, size], np.int64)  # `Generations`
        self.address = address_of(self._addresses)

    def add(self, publisher: int, number: int) -> bool:
        """Note an event, by two numbers of 64 bits; return whether it is new."""
        return see_one(self._addresses, _signed(publisher), _signed(number))


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
