"""What a filter costs a broker, judged from its wire form before anything is made of it.

    bytes      memory that it takes in a broker: in the table of clients and in that of one neighbour
    work       units of about a microsecond to check it, put it into a table and take it out again
    matching   units that it can add to the matching of one event

A broker refuses a filter, or more filters of one client, beyond bounds of these (`broker.sessions`). All three are
upper estimates, fitted to what `benchmarks/filter_costs.py` measures, and depend on the bytes alone: a filter costs the
same wherever it goes. The work of short filters, as most are, is judged by their length. What comparing a filter with
those that are there already takes is not in them; that is counted when it is done (`core.work`).

Memory is 8 times the wire form, and a fixed overhead for the subscription and for each part of it: tables have entries
for subscriptions, conjunctions, attributes, patterns and values, however short these are written. The estimate assumes
that no other filter has the same parts; parts in common are kept once. What brokers remember of the filters that they
looked at last is not in it: that is bounded for the process.
"""

from __future__ import annotations

from math import inf
from typing import Any, Final, NamedTuple

import msgspec

from covey.errors import FilterError

# Of a subscription: its key and its places in tables; and what there is of its bytes, in all places together.
BYTES, BYTES_EACH = 1_600, 8
WORK, WORK_EACH = 20.0, 0.05

# Of filters of attributes. An atom is a set of values or a pattern (`matching.attributes.atoms`). A conjunction has
# several rows if it has small sets. Names are counted once for the filter; those with atoms take more.
CONJUNCTION_BYTES, NAME_BYTES, ATOMS_BYTES, ATOM_BYTES, VALUE_BYTES = 900, 2_000, 2_500, 1_500, 100
ROW_BYTES, SIDE_BYTES, TEXT_BYTES = 100, 50, 300
ROW_WORK, SIDE_WORK, ATOM_WORK, VALUE_WORK, PAIR_WORK = 4.0, 2.0, 20.0, 2.0, 1.4
PATTERN_WORK, LETTER_WORK = 30.0, 1.0
ROW_MATCHING, PATTERN_MATCHING = 0.04, 2.0
LARGEST_SPLIT: Final = 16  # values of a set that is split into rows, and rows of a conjunction

NODE_BYTES, NODE_WORK, NODE_MATCHING = 600, 6.0, 0.1  # of an edge or a name of a path
WORD_BYTES, WORD_WORK, WORD_MATCHING = 700, 4.0, 0.05  # of a keyword

# Work of a filter with at most SHORT bytes, beside WORK, for each byte.
SHORT: Final = 64
SHORT_WORK, SHORT_MATCHING = 3.0, 0.1

EVENTS: Final = 10  # whose matching is in the one figure of what a filter costs

_decode: Final = msgspec.msgpack.Decoder().decode


class Cost(NamedTuple):
    """What one filter costs, or several together; see the module's text."""

    bytes: int
    work: float
    matching: float

    @property
    def units(self) -> float:
        """All the work in one figure: to come and to go, and to be matched with some events."""
        return self.work + EVENTS * self.matching

    def plus(self, other: Cost) -> Cost:
        """Return the cost of both."""
        return Cost(self.bytes + other.bytes, self.work + other.work, self.matching + other.matching)

    def minus(self, other: Cost) -> Cost:
        """Return the cost without that of another one."""
        return Cost(self.bytes - other.bytes, self.work - other.work, self.matching - other.matching)


NOTHING: Final = Cost(0, 0.0, 0.0)


def cost_of(data: bytes, most: float = inf) -> Cost:
    """Return what the filter with this wire form costs; FilterError if the bytes are certainly none.

    Of a filter that costs more than `most` units, only a part is judged that costs more already: its length, or some
    of its conjunctions.
    """
    bytes_, work = BYTES + BYTES_EACH * len(data), WORK
    if len(data) > SHORT:
        work += WORK_EACH * len(data)
        if work > most:
            return Cost(bytes_, work, 0.0)
    try:
        said = _decode(data[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FilterError(f"the filter's wire form is damaged: {error}") from None
    if type(said) is not list:
        raise FilterError("the filter's wire form is damaged: it is no list")
    found = _of_family(data[:1], said, most - work)
    if len(data) <= SHORT:
        return Cost(bytes_ + found.bytes, work + SHORT_WORK * len(data), SHORT_MATCHING * len(data))
    return Cost(bytes_ + found.bytes, work + found.work, found.matching)


def _of_family(family: bytes, said: list[Any], most: float) -> Cost:
    if family == b"A":
        return _of_attributes(said, most)
    count = _parts(said)
    if family == b"X":
        return Cost(NODE_BYTES * count, NODE_WORK * count, NODE_MATCHING * count)
    return Cost(WORD_BYTES * count, WORD_WORK * count, WORD_MATCHING * count)


def _of_attributes(forms: list[Any], most: float) -> Cost:
    names: set[str] = set()
    with_atoms: set[str] = set()
    bytes_, work, matching = 0, PAIR_WORK / 2 * len(forms) * (len(forms) - 1), 0.0
    for form in forms:
        if work + EVENTS * matching > most:
            break
        if type(form) is list:
            found = _of_conjunction(form, names, with_atoms)
            bytes_, work, matching = bytes_ + found.bytes, work + found.work, matching + found.matching
    return Cost(bytes_ + NAME_BYTES * len(names) + ATOMS_BYTES * len(with_atoms), work, matching)


def _of_conjunction(form: list[Any], names: set[str], with_atoms: set[str]) -> Cost:
    """Return the cost of a conjunction but for its names, which are noted."""
    sides = form[1::2]
    rows = _rows_of(sides)
    bytes_ = CONJUNCTION_BYTES + rows * (ROW_BYTES + SIDE_BYTES * len(sides))
    work = rows * (ROW_WORK + SIDE_WORK * len(sides))
    matching = rows * ROW_MATCHING
    for name, side in zip(form[::2], sides, strict=False):
        kind = type(side)
        if type(name) is str:
            names.add(name)
            if kind is list and len(side) != 3:
                with_atoms.add(name)
        if _is_set(side):
            bytes_ += ATOM_BYTES + VALUE_BYTES * len(side[0])
            work += ATOM_WORK + VALUE_WORK * len(side[0])
        elif kind is list and len(side) != 3:
            count, letters = _parts(side), _letters(side)
            bytes_ += ATOM_BYTES + VALUE_BYTES * count
            work += PATTERN_WORK + VALUE_WORK * count + LETTER_WORK * letters
            matching += PATTERN_MATCHING
        elif kind is str:
            bytes_ += TEXT_BYTES
    return Cost(bytes_, work, matching)


def _rows_of(sides: list[Any]) -> int:
    """Return how many rows an index has for a conjunction."""
    rows = 1
    for count in sorted(len(side[0]) for side in sides if _is_set(side)):
        if count > LARGEST_SPLIT or rows * count > LARGEST_SPLIT:
            break
        rows *= count
    return rows


def _is_set(side: Any) -> bool:
    return type(side) is list and len(side) == 1 and type(side[0]) is list


def _letters(side: list[Any]) -> int:
    """Return how many letters the texts of a constraint have."""
    return sum(len(one) if type(one) is str else _letters(one) if type(one) is list else 0 for one in side)


def _parts(said: list[Any]) -> int:
    """Return how many values stand in lists of lists, at any depth."""
    count, waiting = 0, [said]
    while waiting:
        for one in waiting.pop():
            if type(one) is list:
                waiting.append(one)
            else:
                count += 1
    return count
