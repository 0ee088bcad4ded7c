"""Interned constraints: each distinct (channel, low, high) that rows share is one record.

A channel is a number for "the value of this attribute as a number", "… as a symbol" or "does this attribute satisfy
that condition" (channels.py). A constraint asks that the channel's value lie within the closed interval [low, high].
Equalities are all interned, because they are ways into the index and their reference counts tell how selective
they are; ranges only where a row has no room for them inline.

`table` is a hash table with linear probing, a power of two long and at most half full, of pointers to the records.
"""

from __future__ import annotations

import numpy as np

from covey.matching.attributes.heap import CONSTRAINTS, TABLE_MASK, free, new_record
from covey.matching.attributes.layout import Constraint
from covey.matching.attributes.memory import Memory, memory_at
from covey.matching.jit import Ints, Longs, float_bits, kernel, part, prefetch
from covey.matching.records import WORD

_WORDS = Constraint.BYTES // WORD


@part
def hash_of(channel: int, low: float, high: float) -> int:
    """Return a hash of the constraint: one for 0.0 and -0.0, which are equal and have different bits."""
    mixed = np.uint64(float_bits(low + 0.0)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= np.uint64(channel) * np.uint64(0xC2B2AE3D27D4EB4F)
    if low != high:
        mixed ^= np.uint64(float_bits(high + 0.0)) * np.uint64(0xD6E8FEB86659FD93)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    return np.int64(mixed >> np.uint64(33))  # type: ignore[return-value]


@part
def find(m: Memory, channel: int, low: float, high: float) -> int:
    """Return the record of the constraint, or 0."""
    mask = m.meta[TABLE_MASK]
    slot = hash_of(channel, low, high) & mask
    while True:
        record = m.table[slot]
        constraint = Constraint(m, record)
        if record == 0:
            return 0
        if constraint.channel == channel and constraint.low == low and constraint.high == high:
            return int(record)
        slot = (slot + 1) & mask


@part
def foresee_slot(m: Memory, channel: int, low: float, high: float) -> None:
    """Ask for the slot where `find` will begin to look for the constraint."""
    prefetch(m.table, hash_of(channel, low, high) & m.meta[TABLE_MASK])


@part
def foresee_record(m: Memory, channel: int, low: float, high: float) -> None:
    """Ask for the record that `find` will look at first."""
    prefetch(m.f, m.table[hash_of(channel, low, high) & m.meta[TABLE_MASK]])


@part
def intern(m: Memory, channel: int, low: float, high: float) -> int:
    """Return the record of the constraint, made when there was none, with one more reference."""
    mask = m.meta[TABLE_MASK]
    slot = hash_of(channel, low, high) & mask
    while m.table[slot] != 0:
        record = m.table[slot]
        if (
            Constraint(m, record).channel == channel
            and Constraint(m, record).low == low
            and Constraint(m, record).high == high
        ):
            Constraint(m, record).references += 1
            return int(record)
        slot = (slot + 1) & mask
    record = new_record(m, _WORDS)
    Constraint(m, record).low = low
    Constraint(m, record).high = high
    Constraint(m, record).channel = channel
    Constraint(m, record).references = 1
    m.table[slot] = record
    m.meta[CONSTRAINTS] += 1
    return int(record)


@part
def release(m: Memory, record: int) -> bool:
    """Drop one reference; return whether it was the last one, and the record is gone."""
    constraint = Constraint(m, record)
    constraint.references -= 1
    if constraint.references > 0:
        return False
    mask = m.meta[TABLE_MASK]
    slot = hash_of(constraint.channel, constraint.low, constraint.high) & mask
    while m.table[slot] != record:
        slot = (slot + 1) & mask
    _close_gap(m, slot)
    free(m, record, _WORDS)
    m.meta[CONSTRAINTS] -= 1
    return True


@part
def _close_gap(m: Memory, gap: int) -> None:
    """Empty a slot so that every later record of its run can still be found."""
    mask = m.meta[TABLE_MASK]
    m.table[gap] = 0
    slot = (gap + 1) & mask
    while m.table[slot] != 0:
        record = m.table[slot]
        constraint = Constraint(m, record)
        home = hash_of(constraint.channel, constraint.low, constraint.high) & mask
        # The record may fill the gap unless its home lies behind it, cyclically, in (gap, slot].
        if (slot - home) & mask >= (slot - gap) & mask:
            m.table[gap] = record
            m.table[slot] = 0
            gap = slot
        slot = (slot + 1) & mask


@kernel
def rehash(addresses: Longs, old: Ints) -> None:
    """Put every record of an old table into the present one, which is empty."""
    m = memory_at(addresses)
    mask = m.meta[TABLE_MASK]
    for record in old:
        if record != 0:
            slot = (
                hash_of(Constraint(m, record).channel, Constraint(m, record).low, Constraint(m, record).high)
                & mask
            )
            while m.table[slot] != 0:
                slot = (slot + 1) & mask
            m.table[slot] = record
