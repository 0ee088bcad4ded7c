"""What a filter costs a broker, judged from its wire form before anything is made of it.

    bytes      memory that it takes in a broker: in the table of clients and in that of one neighbour
    work       units of about a microsecond to check it, put it into a table and take it out again
    matching   units that it can add to the matching of one event

A broker refuses a filter, or more filters of one client, beyond bounds of these (`broker.sessions`). All three are
upper estimates, fitted to what `benchmarks/filter_costs.py` measures, and depend on the bytes alone: a filter costs the
same wherever it goes. Short filters, as most are, are judged by their length. What comparing a filter with those that
are there already takes is not in them; that is counted when it is done (`core.work`).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from covey.errors import FilterError

# Of a subscription: its key, its places in tables, and the filter's own bytes twice.
BYTES, BYTES_EACH = 1_600, 2
WORK, WORK_EACH = 20.0, 0.05

# Of filters of attributes. An atom is a set of values or a pattern (`matching.attributes.atoms`).
ROW_BYTES, SIDE_BYTES, ATOM_BYTES, VALUE_BYTES, TEXT_BYTES = 260, 260, 800, 280, 260
ROW_WORK, SIDE_WORK, ATOM_WORK, VALUE_WORK, PAIR_WORK = 4.0, 2.0, 20.0, 2.0, 1.4
PATTERN_WORK, LETTER_WORK = 30.0, 1.0
ROW_MATCHING, PATTERN_MATCHING = 0.04, 2.0
LARGEST_SPLIT: Final = 16  # values of a set that is split into rows, and rows of a conjunction

NODE_BYTES, NODE_WORK, NODE_MATCHING = 300, 6.0, 0.1  # of an edge or a name of a path
WORD_BYTES, WORD_WORK, WORD_MATCHING = 400, 4.0, 0.05  # of a keyword

# Of a filter with at most SHORT bytes, beside BYTES and WORK, for each byte.
SHORT: Final = 64
SHORT_BYTES, SHORT_WORK, SHORT_MATCHING = 60, 3.0, 0.1

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


def cost_of(data: bytes) -> Cost:
    """Return what the filter with this wire form costs; FilterError if the bytes are certainly none."""
    if len(data) <= SHORT:
        each = len(data)
        return Cost(BYTES + SHORT_BYTES * each, WORK + SHORT_WORK * each, SHORT_MATCHING * each)
    try:
        said = _decode(data[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FilterError(f"the filter's wire form is damaged: {error}") from None
    if type(said) is not list:
        raise FilterError("the filter's wire form is damaged: it is no list")
    base = Cost(BYTES + BYTES_EACH * len(data), WORK + WORK_EACH * len(data), 0.0)
    if data[:1] == b"A":
        return base.plus(_of_attributes(said))
    count = _parts(said)
    if data[:1] == b"X":
        return base.plus(Cost(NODE_BYTES * count, NODE_WORK * count, NODE_MATCHING * count))
    return base.plus(Cost(WORD_BYTES * count, WORD_WORK * count, WORD_MATCHING * count))


def _of_attributes(forms: list[Any]) -> Cost:
    found = Cost(0, PAIR_WORK / 2 * len(forms) * (len(forms) - 1), 0.0)
    for form in forms:
        if type(form) is list:
            found = found.plus(_of_conjunction(form))
    return found


def _of_conjunction(form: list[Any]) -> Cost:
    sides = form[1::2]
    sets = sorted(len(side[0]) for side in sides if _is_set(side))
    rows = 1
    for count in sets:
        if count > LARGEST_SPLIT or rows * count > LARGEST_SPLIT:
            break
        rows *= count
    bytes_ = rows * (ROW_BYTES + SIDE_BYTES * len(sides))
    work = rows * (ROW_WORK + SIDE_WORK * len(sides))
    matching = rows * ROW_MATCHING
    for side in sides:
        if _is_set(side):
            bytes_ += ATOM_BYTES + VALUE_BYTES * len(side[0])
            work += ATOM_WORK + VALUE_WORK * len(side[0])
        elif type(side) is list and len(side) != 3:
            count, letters = _parts(side), _letters(side)
            bytes_ += ATOM_BYTES + VALUE_BYTES * count + 4 * letters
            work += PATTERN_WORK + VALUE_WORK * count + LETTER_WORK * letters
            matching += PATTERN_MATCHING
        elif type(side) is str:
            bytes_ += TEXT_BYTES
    return Cost(bytes_, work, matching)


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
