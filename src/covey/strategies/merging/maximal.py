"""The maximal ones of filters that come and go: those that no other one covers.

Whether a filter is maximal is asked of the filters that are there, and never of the order in which they came: of two
that cover each other the one with the smaller wire form is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

from covey.core.filter import Filter
from covey.routing.messages import Key
from covey.strategies.coverset import CoverSet
from covey.strategies.told import Item


def label_of(filter: Filter) -> Key:
    """Return the label a merger is told by: a digest of it, so that no label ever stands for another filter."""
    return f"m{blake2b(filter.encode(), digest_size=16).hexdigest()}"


def item_of(filter: Filter) -> Item:
    """Return the filter under its label."""
    return Item(label_of(filter), filter)


class Changes(NamedTuple):
    """What is maximal now and was not, and what is so no more, each ordered by label."""

    entered: list[Item]
    left: list[Item]


class MaximalFilters:
    """Filters by label, and which of them are maximal."""

    def __init__(self) -> None:
        self._filters: CoverSet[Key] = CoverSet()
        self._maximal: dict[Key, None] = {}

    def items(self) -> list[Item]:
        """Return the maximal filters in the order in which they became so."""
        return [Item(label, self._filters[label]) for label in self._maximal]

    def __len__(self) -> int:
        return len(self._maximal)

    def change(self, removed: Iterable[Item], added: Iterable[Item]) -> Changes:
        """Take filters out, put filters in; return what that changes."""
        was: dict[Key, Item] = {}
        touched: list[Filter] = []
        for item in removed:
            self._filters.remove(item.key)
            if item.key in self._maximal:
                del self._maximal[item.key]
                was[item.key] = item
                touched.append(item.filter)
        for label, filter in added:
            self._filters.add(label, filter)
            touched.append(filter)
        entered: dict[Key, Item] = {}
        for label in sorted({label for filter in touched for label in self._filters.covered(filter)}):
            item = Item(label, self._filters[label])
            is_maximal = not self._is_dominated(item)
            if is_maximal and label not in self._maximal:
                self._maximal[label] = None
                entered[label] = item
            elif not is_maximal and label in self._maximal:
                del self._maximal[label]
                was[label] = item
        both = [label for label in entered if label in was]
        for label in both:
            del entered[label], was[label]
        return Changes([entered[label] for label in sorted(entered)], [was[label] for label in sorted(was)])

    def _is_dominated(self, item: Item) -> bool:
        """Return whether another filter covers this one; of those that cover each other one dominates the others."""
        mine = item.filter
        for label in self._filters.covering(mine):
            # The filters judge both ways: an index knows that `a < 1.5` lies in `a <= 1.4999999999999998`, as no number
            # is between the two, and filters do not. With an answer from each, either would dominate the other.
            other = self._filters[label]
            if label == item.key or not other.covers(mine):
                continue
            if not mine.covers(other) or other.encode() < mine.encode():
                return True
        return False

    def match(self, event: object) -> bool:
        """Return whether one of the filters matches the event."""
        return self._filters.matches(event)
