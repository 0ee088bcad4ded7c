"""Sampled events, and which of them satisfy what: sets of events as the bits of an integer.

For each attribute the sampled values are sorted once, with the set of the first k events for every k. The
events whose value lies between two cuts are then the difference of two such sets, whatever the constraint.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import Constraint
from covey.core.attributes.like import like
from covey.core.attributes.values import ABSENT, BOOLEAN, NUMBER, OTHER, STRING, classify
from covey.core.event import content_of, lookup
from covey.core.filter import Filter


class Sample:
    """Some events; event k is bit k of every set."""

    def __init__(self, events: Sequence[object]) -> None:
        self.events = events
        self._contents = [content_of(event) for event in events]
        self._columns: dict[str, _Column] = {}
        self._sides: dict[tuple[str, Constraint], int] = {}
        # The events that attribute filters judge at all.
        self.attributed = sum(1 << k for k, c in enumerate(self._contents) if isinstance(c, Mapping))

    def matched(self, filter: Filter) -> int:
        """Return the events that match the filter."""
        conjunctions: tuple[Conjunction, ...] | None = getattr(filter, "conjunctions", None)
        if filter.family != "attributes" or conjunctions is None:
            return sum(1 << k for k, event in enumerate(self.events) if filter.matches(event))
        result = 0
        for box in conjunctions:
            passed = self.attributed
            for name, side in box.constraints:
                passed &= self.satisfied(name, side)
            result |= passed
        return result

    def satisfied(self, name: str, side: Constraint) -> int:
        """Return the events whose attribute `name` satisfies the constraint."""
        events = self._sides.get((name, side))
        if events is None:
            column = self._columns.get(name)
            if column is None:
                column = self._columns[name] = _Column(
                    [lookup(c, name) if isinstance(c, Mapping) else None for c in self._contents]
                )
            events = self._sides[name, side] = column.satisfied(side)
        return events


class _Column:
    """The sampled values of one attribute."""

    def __init__(self, values: list[object]) -> None:
        kinds: dict[int, int] = dict.fromkeys((ABSENT, OTHER), 0)
        self._truths = [0, 0]
        numbers: list[tuple[tuple[int | float, int], int]] = []
        texts: list[tuple[tuple[int, str], int]] = []
        for k, value in enumerate(values):
            kind, plain = classify(value)
            if kind == NUMBER:
                numbers.append(((plain, 0), k))
            elif kind == STRING:
                texts.append(((0, plain), k))
            elif kind == BOOLEAN:
                self._truths[plain] |= 1 << k
            else:
                kinds[kind] |= 1 << k
        self._absent, self._other = kinds[ABSENT], kinds[OTHER]
        self._numbers, self._first_numbers = _sorted(numbers)
        self._texts, self._first_texts = _sorted(texts)
        self._text_of = {k: text for (_, text), k in texts}

    def satisfied(self, side: Constraint) -> int:
        result = 0
        for cut in side.numbers:
            result ^= self._first_numbers[bisect_left(self._numbers, cut)]
        texts = 0
        for string_cut in side.strings:
            texts ^= self._first_texts[bisect_left(self._texts, string_cut)]
        if not side.is_plain:
            texts = sum(1 << k for k, text in self._text_of.items() if texts >> k & 1 and _keeps(text, side))
        result |= texts
        result |= self._absent if side.absent else 0
        result |= self._other if side.other else 0
        result |= self._truths[0] if side.booleans & 1 else 0
        return result | (self._truths[1] if side.booleans & 2 else 0)


def _sorted(values: list[tuple[Any, int]]) -> tuple[list[Any], list[int]]:
    """Return the sorted keys, and for every k the set of the events with the first k of them."""
    values.sort()
    first = [0]
    for _, k in values:
        first.append(first[-1] | 1 << k)
    return [key for key, _ in values], first


def _keeps(text: str, side: Constraint) -> bool:
    return all(like(text, pattern) for pattern in side.likes) and not any(
        like(text, pattern) for pattern in side.unlikes
    )
