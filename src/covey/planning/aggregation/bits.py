"""Blocks as pairs of bit sets, and the weight of what exactly one member matches.

Each block has two bit sets over the events: `some`, matched by a member, and `once`, matched by exactly one. Joining
is associative and takes one pass over the bytes:

    some = a.some | b.some        once = (a.once & ~b.some) | (b.once & ~a.some)

A weight is the sum, over bytes, of a table's entry for that byte's value.
"""

from __future__ import annotations

from covey.matching.jit import Floats, called
from covey.planning.aggregation.sample import Bytes


@called
def weight(bits: Bytes, row: int, table: Floats) -> float:
    """Return the weight of the events in a row of bit sets."""
    total = 0.0
    for byte in range(bits.shape[1]):
        total += table[byte, bits[row, byte]]
    return total


@called
def joined_once(some: Bytes, once: Bytes, a: int, b: int, table: Floats) -> float:
    """Return the weight of what exactly one member would match if blocks a and b were joined."""
    total = 0.0
    for byte in range(some.shape[1]):
        value = (once[a, byte] & ~some[b, byte]) | (once[b, byte] & ~some[a, byte])
        total += table[byte, value]
    return total


@called
def join_rows(some: Bytes, once: Bytes, a: int, b: int) -> None:
    """Make row a the join of rows a and b."""
    for byte in range(some.shape[1]):
        single = (once[a, byte] & ~some[b, byte]) | (once[b, byte] & ~some[a, byte])
        some[a, byte] |= some[b, byte]
        once[a, byte] = single


@called
def add_filter(some: Bytes, once: Bytes, row: int, filters: Bytes, number: int) -> None:
    """Join a single filter to a row."""
    for byte in range(some.shape[1]):
        value = filters[number, byte]
        once[row, byte] = (once[row, byte] & ~value) | (value & ~some[row, byte])
        some[row, byte] |= value


@called
def resemblance(some: Bytes, a: int, b: int, table: Floats) -> float:
    """Return the Jaccard similarity of what two blocks match; 1 if they match nothing."""
    both = either = 0.0
    for byte in range(some.shape[1]):
        both += table[byte, some[a, byte] & some[b, byte]]
        either += table[byte, some[a, byte] | some[b, byte]]
    return both / either if either > 0.0 else 1.0


@called
def covered(some: Bytes, a: int, b: int, c: int) -> bool:
    """Tell whether all that block c matches is matched by a or b."""
    for byte in range(some.shape[1]):
        if some[c, byte] & ~(some[a, byte] | some[b, byte]):
            return False
    return True
