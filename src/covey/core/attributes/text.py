"""Filter to text: the one way in which a filter is written.

The text is made from the normal form alone, so equal filters have equal text, and it parses back to an equal
filter. Keywords are in upper case; parentheses stand only where they are needed, and around an OR inside a
larger OR; names are quoted only where they must be. One attribute's set of values is written by the first of
these that fits:

    every value but a few gaps     a <> 5    a NOT IN (1, 2)    a NOT BETWEEN 1 AND 5    a NOT LIKE 'x%'
    runs of values                 a BETWEEN 1 AND 5 AND a <> 3    a >= 1 AND a < 5    a LIKE 'x%'
    single values, of all types    a = 1     a IN (1, 2, 'x', TRUE)

The same phrases are Spark SQL once names and values are written as Spark does; sql.py uses them so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import MAX_IN_VALUES, Constraint
from covey.core.attributes.cuts import (
    ALL_NUMBERS,
    ALL_STRINGS,
    NUMBER_BOTTOM,
    NUMBER_TOP,
    STRING_BOTTOM,
    STRING_TOP,
    NumberCut,
    NumberCuts,
    StringCut,
    after_prefix,
    intersect,
    is_string_point,
    prefix_interval,
)
from covey.core.attributes.lexer import quote_name, quote_string
from covey.core.attributes.like import MANY, MAX_PATTERN_LENGTH, pattern_text, prepare
from covey.core.attributes.syntax import Literal

ESCAPE: Final = "\\"

Writing: TypeAlias = Callable[[Literal], str]


class Phrase(NamedTuple):
    """A piece of text and how strongly it binds: an OR, an AND, or one condition."""

    binding: int
    text: str


OR, AND, CONDITION = 0, 1, 2


class _Interval(NamedTuple):
    """A range of numbers or strings as the language sees it; a bound of None leaves that side open."""

    low: int | float | str | None
    low_included: bool
    high: int | float | str | None
    high_included: bool
    point: int | float | str | None  # the only value, if there is only one
    pattern: str | None  # the LIKE pattern of a prefix, if the range is all strings that begin with it


def to_text(conjunctions: Sequence[Conjunction]) -> str:
    """Return the canonical text of a filter with these conjunctions; parsing it gives back an equal filter."""
    if not conjunctions:
        return "FALSE"
    # Distribution repeats conditions, and long lists are worth writing once only.
    written: dict[tuple[str, Constraint], Phrase] = {}
    phrases = []
    for conjunction in conjunctions:
        parts = []
        for side in conjunction.constraints:
            phrase = written.get(side)
            if phrase is None:
                phrase = written[side] = constraint_phrase(side[1], quote_name(side[0]), write_literal)
            parts.append(phrase)
        phrases.append(all_of(parts))
    return any_of(phrases, enclose=True).text


def write_literal(value: Literal) -> str:
    """Return the value as the language writes it; the shortest digits that give the same number."""
    if isinstance(value, str):
        return quote_string(value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return repr(value)


def all_of(phrases: Iterable[Phrase]) -> Phrase:
    """Join phrases with AND; none at all is TRUE."""
    listed = list(phrases)
    if not listed:
        return Phrase(CONDITION, "TRUE")
    if len(listed) == 1:
        return listed[0]
    return Phrase(AND, " AND ".join([_enclosed(phrase, AND) for phrase in listed]))


def any_of(phrases: Iterable[Phrase], *, enclose: bool = False) -> Phrase:
    """Join phrases with OR, with `enclose` keeping an OR among them apart; none at all is FALSE."""
    listed = list(phrases)
    if not listed:
        return Phrase(CONDITION, "FALSE")
    if len(listed) == 1:
        return listed[0]
    return Phrase(OR, " OR ".join([_enclosed(phrase, AND if enclose else OR) for phrase in listed]))


def _enclosed(phrase: Phrase, binding: int) -> str:
    return phrase.text if phrase.binding >= binding else f"({phrase.text})"


def constraint_phrase(constraint: Constraint, column: str, literal: Writing) -> Phrase:
    """Return the condition on one attribute, given how its name and its values are written."""
    if constraint.other:
        # No condition of the language tells values of no type apart, so they come with all the others.
        phrases = [_condition(f"{column} IS NOT NULL")]
    else:
        writer = _Writer(column, literal)
        writer.add_numbers(constraint.numbers)
        writer.add_strings(constraint)
        writer.points += [value for value in (False, True) if constraint.booleans >> value & 1]
        phrases = writer.finish()
    if constraint.absent:
        phrases.append(_condition(f"{column} IS NULL"))
    return any_of(phrases)


def _condition(text: str) -> Phrase:
    return Phrase(CONDITION, text)


class _Writer:
    """Writes the sets of one attribute: phrases to join with OR, and single values for one IN list."""

    def __init__(self, column: str, literal: Writing) -> None:
        self.column = column
        self.literal = literal
        self.phrases: list[Phrase] = []
        self.points: list[Literal] = []

    def finish(self) -> list[Phrase]:
        return self._lists("=", "IN", self.points) + self.phrases

    def add_numbers(self, cuts: NumberCuts) -> None:
        if cuts == ALL_NUMBERS:
            self.phrases += [_condition(f"{self.column} <= 0"), _condition(f"{self.column} > 0")]
        elif cuts:
            self._add_set(cuts, _number_interval)

    def add_strings(self, constraint: Constraint) -> None:
        cuts = constraint.strings
        if not constraint.likes and not constraint.unlikes:
            if cuts:
                self._add_set(cuts, _string_interval)
            return
        narrowing = []
        implied = ALL_STRINGS
        for pattern in constraint.likes:
            implied = intersect(implied, prefix_interval(prepare(pattern).prefix))
        if cuts != implied:
            inner = _Writer(self.column, self.literal)
            inner._add_set(cuts, _string_interval)
            narrowing.append(any_of(inner.finish()))
        narrowing += [self._like("LIKE", pattern) for pattern in constraint.likes]
        narrowing += [self._like("NOT LIKE", pattern) for pattern in constraint.unlikes]
        self.phrases.append(all_of(narrowing))

    def _add_set(self, cuts: tuple[Any, ...], read: Callable[[Any, Any], _Interval]) -> None:
        gaps = [read(cuts[k], cuts[k + 1]) for k in range(1, len(cuts) - 1, 2)]
        whole = read(cuts[0], cuts[-1])
        if gaps and whole.low is None and whole.high is None and all(map(_is_negatable, gaps)):
            self.phrases.append(all_of(self._negated(gaps)))
            return
        start = 0
        holes: list[Literal] = []
        for k in range(1, len(cuts), 2):
            hole = gaps[k // 2].point if k + 1 < len(cuts) else None
            if hole is not None:
                holes.append(hole)
                continue
            self._add_run(read(cuts[start], cuts[k]), holes)
            start = k + 1
            holes = []

    def _add_run(self, interval: _Interval, holes: list[Literal]) -> None:
        """Add one interval that lacks only the single values `holes`."""
        if interval.point is not None:
            self.points.append(interval.point)
        else:
            self.phrases.append(all_of(self._range(interval) + self._lists("<>", "NOT IN", holes)))

    def _range(self, interval: _Interval) -> list[Phrase]:
        """The phrases whose AND is the interval."""
        column, literal = self.column, self.literal
        low, high = interval.low, interval.high
        if interval.pattern is not None:
            return [self._like("LIKE", interval.pattern)]
        if low is not None and high is not None and interval.low_included and interval.high_included:
            return [_condition(f"{column} BETWEEN {literal(low)} AND {literal(high)}")]
        phrases = []
        if low is not None:
            phrases.append(_condition(f"{column} {'>=' if interval.low_included else '>'} {literal(low)}"))
        if high is not None:
            phrases.append(_condition(f"{column} {'<=' if interval.high_included else '<'} {literal(high)}"))
        return phrases

    def _negated(self, gaps: list[_Interval]) -> list[Phrase]:
        """The phrases whose AND is everything of the type but the gaps."""
        points = [gap.point for gap in gaps if gap.point is not None]
        phrases = self._lists("<>", "NOT IN", points)
        for gap in gaps:
            if gap.point is None and gap.pattern is not None:
                phrases.append(self._like("NOT LIKE", gap.pattern))
            elif gap.point is None and gap.low is not None and gap.high is not None:
                low, high = self.literal(gap.low), self.literal(gap.high)
                phrases.append(_condition(f"{self.column} NOT BETWEEN {low} AND {high}"))
        return phrases

    def _lists(self, single: str, several: str, values: list[Literal]) -> list[Phrase]:
        """Single values as one comparison, or as lists no longer than the language takes."""
        if len(values) == 1:
            return [_condition(f"{self.column} {single} {self.literal(values[0])}")]
        phrases = []
        for start in range(0, len(values), MAX_IN_VALUES):
            listed = ", ".join(map(self.literal, values[start : start + MAX_IN_VALUES]))
            phrases.append(_condition(f"{self.column} {several} ({listed})"))
        return phrases

    def _like(self, operator: str, pattern: str) -> Phrase:
        escape = f" ESCAPE {self.literal(ESCAPE)}" if ESCAPE in pattern else ""
        return _condition(f"{self.column} {operator} {self.literal(pattern)}{escape}")


def _is_negatable(gap: _Interval) -> bool:
    return gap.point is not None or gap.pattern is not None or (gap.low_included and gap.high_included)


def _number_interval(low: NumberCut, high: NumberCut) -> _Interval:
    return _Interval(
        low=None if low == NUMBER_BOTTOM else low[0],
        low_included=low[1] == 0,
        high=None if high == NUMBER_TOP else high[0],
        high_included=high[1] == 1,
        point=low[0] if low[0] == high[0] else None,
        pattern=None,
    )


def _string_interval(low: StringCut, high: StringCut) -> _Interval:
    # A cut before `text + NUL` is the cut after `text`.
    low_excluded = low[1].endswith("\0")
    high_included = high[1].endswith("\0")
    return _Interval(
        low=None if low == STRING_BOTTOM else low[1][:-1] if low_excluded else low[1],
        low_included=not low_excluded,
        high=None if high == STRING_TOP else high[1][:-1] if high_included else high[1],
        high_included=high_included,
        point=low[1] if is_string_point(low, high) else None,
        pattern=_prefix_pattern(low[1]) if high == after_prefix(low[1]) else None,
    )


def _prefix_pattern(prefix: str) -> str | None:
    """The LIKE pattern of all strings that begin so; None when it is longer than a pattern may be."""
    return pattern_text((*prefix, MANY)) if len(prefix) < MAX_PATTERN_LENGTH else None
