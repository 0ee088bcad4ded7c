"""Splitting: a conjunction with sets of values (IN), or of intervals (NOT BETWEEN), as several with one of them each.

A single value and an interval of numbers are ways into the index, a set is not. So a filter with small sets has a row
for each choice, and a filter that is asked about is asked in pieces: it is covered by what covers every piece. Both are
exact: the pieces together are the conjunction, and a row with one value or interval covers a piece or does not.
"""

from __future__ import annotations

from math import inf
from typing import Any

from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import Constraint, compare
from covey.core.attributes.cuts import intervals
from covey.matching.attributes.atoms import (
    NUMBERS,
    excepted_numbers,
    exceptions_of,
    only_kind,
    values_of,
)

Sides = tuple[tuple[str, Constraint], ...]

LARGEST_SET = 16  # no larger set is ever split
MOST_ROWS = 16  # of one conjunction


def pieces_of(conjunction: Conjunction, most: int) -> list[Sides]:
    """Return conjunctions that together are the given one, at most `most`: small sets are split first."""
    sides = conjunction.constraints
    sets = sorted((len(choices), name, choices) for name, choices in _small_sets(sides))
    pieces = [sides]
    for count, name, choices in sets:
        if count * len(pieces) > most:
            break
        pieces = [
            tuple((other, choice if other == name else constraint) for other, constraint in piece)
            for piece in pieces
            for choice in choices
        ]
    return pieces


def pieces_needed(conjunction: Conjunction) -> int:
    """Return into how many pieces the conjunction falls when all its small sets are split."""
    count = 1
    for _, choices in _small_sets(conjunction.constraints):
        count *= len(choices)
    return count


def choices_of(side: Any) -> list[Any] | None:
    """Return the values and intervals, as their wire forms, of which a constraint consists that is a small set; None
    for others. It is given as its own wire form or as it is."""
    if type(side) is list:
        if len(side) == 1:
            return side[0] if type(side[0]) is list and len(side[0]) <= LARGEST_SET else None
        if len(side) == 5 and not side[0] and not side[2] and len(side[1]) <= 4 * LARGEST_SET:
            return None if excepted_numbers(side[1]) is not None else _interval_forms(side[1])
        return None
    if type(side) is Constraint:
        numbers, texts = side.numbers, side.strings
        if 2 < len(numbers) + len(texts) + 2 * side.booleans.bit_count() <= 2 * LARGEST_SET:
            values = values_of(side)
            if values is not None:
                return [value for _, value in values]
            if only_kind(side) == NUMBERS and exceptions_of(side) is None:
                ends = [(None if abs(value) == inf else value, after) for value, after in side.numbers]
                return _interval_forms([part for end in ends for part in end])
    return None


def _interval_forms(numbers: list[Any]) -> list[Any]:
    """Return the wire forms of the intervals between cuts, which are listed flat."""
    return [
        low if low == high and low is not None else [low, high, after | before << 1]
        for low, after, high, before in zip(
            numbers[::4], numbers[1::4], numbers[2::4], numbers[3::4], strict=True
        )
    ]


def _small_sets(sides: Sides) -> list[tuple[str, list[Constraint]]]:
    """Return the attributes with small sets, and these as constraints with one value or interval each."""
    found = []
    for name, constraint in sides:
        # More than one interval, or more than one kind of value, is what a set of values looks like.
        size = len(constraint.numbers) + len(constraint.strings) + 2 * (constraint.booleans.bit_count())
        if 2 < size <= 2 * LARGEST_SET:
            values = values_of(constraint)
            if values is not None:
                found.append((name, [compare("=", value) for _, value in values]))
            elif only_kind(constraint) == NUMBERS and exceptions_of(constraint) is None:
                found.append((name, [Constraint(numbers=ends) for ends in intervals(constraint.numbers)]))
    return found
