"""Constraints: the values of one attribute that a filter lets through.

A Constraint is a set over the universe absent | boolean | number | string | other, one field a kind. It has
one normal form, so equal sets are equal objects as long as no general LIKE is involved. The constructors give
exactly the values for which an SQL condition is TRUE: an absent value and a value of another type make a
comparison UNKNOWN, so `a <> 5` holds all numbers but 5 and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from covey.core.attributes import cuts, strings
from covey.core.attributes.cuts import NumberCut, NumberCuts, StringCut, StringCuts
from covey.core.attributes.strings import Strings
from covey.core.attributes.values import ABSENT, BOOLEAN, NUMBER, STRING, classify, literal
from covey.errors import FilterError

MAX_IN_VALUES: Final = 256

FALSE_BIT: Final = 1
TRUE_BIT: Final = 2
ALL_BOOLEANS: Final = 3

COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=")


class Constraint(msgspec.Struct, frozen=True, order=True, gc=False):
    """A set of values of one attribute; see the module's text. Build it with the functions below.

    `likes` and `unlikes` narrow `strings` only: a string must match all of the former and none of the latter.
    The order of constraints has no meaning; it makes sorting deterministic.
    """

    absent: bool = False
    other: bool = False
    booleans: int = 0
    numbers: NumberCuts = ()
    strings: StringCuts = ()
    likes: tuple[str, ...] = ()
    unlikes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether no value is in the set; may miss it only for several general LIKE patterns at once."""
        return not (self.strings or self.numbers or self.booleans or self.absent or self.other)

    @property
    def is_everything(self) -> bool:
        """Whether every value, and absence, is in the set."""
        return self.absent and self == EVERYTHING

    @property
    def string_set(self) -> Strings:
        """The strings, with their patterns, as one value."""
        return self.strings, self.likes, self.unlikes

    def contains(self, value: object) -> bool:
        """Return whether the value is in the set; None is absence."""
        kind, plain = classify(value)
        if kind == NUMBER:
            return cuts.contains_number(self.numbers, plain)
        if kind == STRING:
            return strings.contains(self.string_set, plain)
        if kind == BOOLEAN:
            return bool(self.booleans & (TRUE_BIT if plain else FALSE_BIT))
        return self.absent if kind == ABSENT else self.other

    def covers(self, other: Constraint) -> bool:
        """Return True only if `other` is a subset of this set; exact unless a general LIKE is involved."""
        if (other.absent and not self.absent) or (other.other and not self.other):
            return False
        if other.booleans & ~self.booleans:
            return False
        if other.numbers and not cuts.contains_set(self.numbers, other.numbers):
            return False
        if not other.strings:
            return True
        if self.likes or self.unlikes:
            return strings.cover(self.string_set, other.string_set)
        return cuts.contains_set(self.strings, other.strings)

    def overlaps(self, other: Constraint) -> bool:
        """Return False only if no value is in both sets; exact unless a general LIKE is involved."""
        if self.numbers and other.numbers and cuts.intersects(self.numbers, other.numbers):
            return True
        if self.strings and other.strings and strings.overlap(self.string_set, other.string_set):
            return True
        return (
            bool(self.booleans & other.booleans)
            or (self.absent and other.absent)
            or (self.other and other.other)
        )

    def intersect(self, other: Constraint) -> Constraint:
        """Return the set of values in both; raise FilterError beyond MAX_PATTERNS or MAX_INTERVALS."""
        result = Constraint(
            self.absent and other.absent,
            self.other and other.other,
            self.booleans & other.booleans,
            cuts.intersect(self.numbers, other.numbers),
            *strings.intersect(self.string_set, other.string_set),
        )
        if len(result.likes) + len(result.unlikes) > strings.MAX_PATTERNS:
            raise FilterError(f"one attribute has more than {strings.MAX_PATTERNS} LIKE patterns")
        if result._is_too_long:
            raise FilterError(f"one attribute has more than {cuts.MAX_INTERVALS} intervals")
        return result

    @property
    def is_point(self) -> bool:
        """Whether the set is one boolean, number or string, so that only itself lies inside it."""
        if self.absent or self.other:
            return False
        if self.numbers:
            first, last = self.numbers[0], self.numbers[-1]
            return len(self.numbers) == 2 and first[0] == last[0] and not self.strings and not self.booleans
        if self.strings:
            return len(self.strings) == 2 and cuts.is_string_point(*self.strings) and not self.booleans
        return self.booleans in (FALSE_BIT, TRUE_BIT)

    @property
    def is_plain(self) -> bool:
        """Whether no general LIKE pattern is involved."""
        return not self.likes and not self.unlikes

    @property
    def is_like(self) -> bool:
        """Whether the set is exactly what one general LIKE pattern matches."""
        return (
            len(self.likes) == 1
            and not (self.numbers or self.booleans or self.absent or self.other)
            and strings.is_one_pattern(self.string_set)
        )

    @property
    def _is_too_long(self) -> bool:
        return len(self.numbers) > 2 * cuts.MAX_INTERVALS or len(self.strings) > 2 * cuts.MAX_INTERVALS

    def union(self, other: Constraint) -> Constraint | None:
        """Return the set of values in either, or None if one constraint cannot say it (LIKE, or too long)."""
        text = strings.union(self.string_set, other.string_set)
        if text is None:
            return None
        result = self._joined(other, text)
        return None if result._is_too_long else result

    def hull(self, other: Constraint) -> Constraint:
        """Return the smallest constraint that holds both, as far as LIKE patterns can say it.

        Beyond MAX_INTERVALS intervals the gaps between them are let in as well.
        """
        result = self._joined(other, strings.hull(self.string_set, other.string_set))
        return result.span() if result._is_too_long else result

    def span(self) -> Constraint:
        """Return this constraint with the gaps between its intervals let in and without its patterns."""
        return Constraint(
            self.absent,
            self.other,
            self.booleans,
            (self.numbers[0], self.numbers[-1]) if self.numbers else (),
            (self.strings[0], self.strings[-1]) if self.strings else (),
        )

    def _joined(self, other: Constraint, text: Strings) -> Constraint:
        return Constraint(
            self.absent or other.absent,
            self.other or other.other,
            self.booleans | other.booleans,
            cuts.union(self.numbers, other.numbers),
            *text,
        )

    def difference(self, other: Constraint) -> list[Constraint]:
        """Return non-empty constraints that together hold exactly the values of this one not in `other`."""
        pieces = strings.difference(self.string_set, other.string_set) if self.strings else []
        rest = Constraint(
            self.absent and not other.absent,
            self.other and not other.other,
            self.booleans & ~other.booleans,
            cuts.difference(self.numbers, other.numbers),
            *(pieces.pop() if pieces else strings.NO_STRINGS),
        )
        result = [Constraint(False, False, 0, (), *piece) for piece in pieces]
        return result if rest.is_empty else [rest, *result]


NOTHING: Final = Constraint()
EVERYTHING: Final = Constraint(True, True, ALL_BOOLEANS, cuts.ALL_NUMBERS, cuts.ALL_STRINGS)
_PRESENT: Final = Constraint(False, True, ALL_BOOLEANS, cuts.ALL_NUMBERS, cuts.ALL_STRINGS)
_NULL: Final = Constraint(absent=True)


def compare(op: str, value: object) -> Constraint:
    """Return the values for which `attribute op value` is TRUE; op is one of = <> < <= > >=."""
    if op not in COMPARISONS:
        raise FilterError(f"{op!r} is not a comparison", expected="= <> < <= > >=")
    value = literal(value)
    if value is True or value is False:
        return _compare_boolean(op, value)
    if isinstance(value, str):
        return Constraint(strings=_ordered(op, (0, value), (0, value + "\0"), *cuts.ALL_STRINGS))
    return Constraint(numbers=_ordered(op, (value, 0), (value, 1), *cuts.ALL_NUMBERS))


def _compare_boolean(op: str, value: bool) -> Constraint:
    if op not in ("=", "<>"):
        raise FilterError(f"booleans have no order for {op}", expected="= or <> with a boolean")
    return Constraint(booleans=TRUE_BIT if value is (op == "=") else FALSE_BIT)


def _ordered(
    op: str, before: cuts.Cut, after: cuts.Cut, bottom: cuts.Cut, top: cuts.Cut
) -> tuple[cuts.Cut, ...]:
    if op == "=":
        return (before, after)
    if op == "<":
        return (bottom, before) if bottom < before else ()
    if op == "<=":
        return (bottom, after)
    if op == ">":
        return (after, top)
    if op == ">=":
        return (before, top)
    return (bottom, before, after, top) if bottom < before else (after, top)


def between(low: object, high: object) -> Constraint:
    """Return the values for which `attribute BETWEEN low AND high` is TRUE."""
    return compare(">=", low).intersect(compare("<=", high))


def not_between(low: object, high: object) -> Constraint:
    """Return the values for which `attribute NOT BETWEEN low AND high` is TRUE."""
    return _union_of_cuts(compare("<", low), compare(">", high))


def within(values: Iterable[object]) -> Constraint:
    """Return the values for which `attribute IN (values)` is TRUE."""
    truths: set[bool] = set()
    numbers: set[int | float] = set()
    texts: set[str] = set()
    for value in _in_values(values):
        if isinstance(value, bool):
            truths.add(value)
        elif isinstance(value, str):
            texts.add(value)
        else:
            numbers.add(value)
    return Constraint(
        booleans=(TRUE_BIT if True in truths else 0) | (FALSE_BIT if False in truths else 0),
        numbers=cuts.number_points(numbers),
        strings=cuts.string_points(texts),
    )


def not_within(values: Iterable[object]) -> Constraint:
    """Return the values for which `attribute NOT IN (values)` is TRUE: none if the values' types differ."""
    excluded = within(values)
    kinds = bool(excluded.booleans) + bool(excluded.numbers) + bool(excluded.strings)
    if kinds > 1:
        return NOTHING
    if excluded.booleans:
        return Constraint(booleans=ALL_BOOLEANS & ~excluded.booleans)
    if excluded.numbers:
        return Constraint(numbers=cuts.complement(excluded.numbers, *cuts.ALL_NUMBERS))
    return Constraint(strings=cuts.complement(excluded.strings, *cuts.ALL_STRINGS))


def _in_values(values: Iterable[object]) -> list[bool | int | float | str]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise FilterError("IN needs a list of values", expected="a list, tuple or set")
    result: list[bool | int | float | str] = []
    for value in values:
        if len(result) == MAX_IN_VALUES:
            raise FilterError(f"IN has more than {MAX_IN_VALUES} values")
        result.append(literal(value))
    if not result:
        raise FilterError("IN has no values", expected="at least one value")
    return result


def like(pattern: object, escape: str | None = None) -> Constraint:
    """Return the values for which `attribute LIKE pattern [ESCAPE escape]` is TRUE."""
    return Constraint(False, False, 0, (), *strings.like_strings(_pattern(pattern), escape))


def not_like(pattern: object, escape: str | None = None) -> Constraint:
    """Return the values for which `attribute NOT LIKE pattern [ESCAPE escape]` is TRUE."""
    return Constraint(False, False, 0, (), *strings.unlike_strings(_pattern(pattern), escape))


def _pattern(pattern: object) -> str:
    if not isinstance(pattern, str):
        raise FilterError(f"a LIKE pattern must be a string, not {type(pattern).__name__}")
    return str.__str__(pattern)


def null() -> Constraint:
    """Return the constraint that only absence satisfies."""
    return _NULL


def present() -> Constraint:
    """Return the constraint that every value satisfies and absence does not."""
    return _PRESENT


def _union_of_cuts(a: Constraint, b: Constraint) -> Constraint:
    result = a.union(b)
    assert result is not None, "sets without LIKE always have a union"
    return result


__all__ = [
    "COMPARISONS",
    "EVERYTHING",
    "MAX_IN_VALUES",
    "NOTHING",
    "Constraint",
    "NumberCut",
    "StringCut",
    "between",
    "compare",
    "like",
    "not_between",
    "not_like",
    "not_within",
    "null",
    "present",
    "within",
]
