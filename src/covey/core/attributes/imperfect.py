"""Imperfect merging: fewer filters for a bounded number of events let through wrongly.

The merges are found greedily: of all pairs, the one whose merge would let the fewest more sampled events
through wrongly is made first, as long as the sum stays within what is allowed. Which sampled events a filter,
or one side of a conjunction, lets through is a set of bits in an integer; then the events of a hull are found
from those of its sides with a few operations, and no event is matched twice.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any, Final

from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.sample import Sample
from covey.core.filter import Filter, Merge

# Beyond so many filters a pair is tried only if both limit the same attributes and stand close in order.
MAX_ALL_PAIRS: Final = 1_024
NEIGHBOURS: Final = 32

MergePair = Callable[[Filter, Filter], Merge]


class Unit:
    """A filter that stands for `members`; what it matches of the sample, and what they match."""

    __slots__ = ("box", "events", "exact", "false_positives", "filter", "is_plain", "matched", "members")

    def __init__(self, filter: Filter, members: list[int], *, exact: bool) -> None:
        self.filter = filter
        self.members = members
        self.exact = exact
        self.matched = 0  # the sampled events that members match
        self.false_positives = 0  # how many sampled events the filter matches and no member does
        self.box: Conjunction | None = None  # for attribute filters: their hull
        self.events: dict[str, int] = {}  # the events that satisfy each of its sides
        self.is_plain = True  # no side has general LIKE patterns


def hull_of_boxes(boxes: Sequence[Conjunction]) -> Conjunction:
    """Return the smallest conjunction that covers all of the conjunctions, of which there is one at least."""
    sides = dict(boxes[0].constraints)
    for box in boxes[1:]:
        theirs = dict(box.constraints)
        sides = {name: side.hull(theirs[name]) for name, side in sides.items() if name in theirs}
    return Conjunction(tuple((name, side) for name, side in sides.items() if not side.is_everything))


def merge_within_budget(
    units: list[Unit], events: Sequence[object], allowed: int, merge_pair: MergePair
) -> list[Unit]:
    """Return the units after merging pairs greedily, with at most `allowed` false positives in all."""
    work = _Greedy(units, events, allowed, merge_pair)
    work.run()
    return [unit for unit in work.units if unit is not None]


class _Greedy:
    """The state of one greedy merging: units by number, None once merged, and a heap of candidate pairs."""

    def __init__(
        self, units: list[Unit], events: Sequence[object], allowed: int, merge_pair: MergePair
    ) -> None:
        self.units: list[Unit | None] = list(units)
        self.sample = Sample(events)
        self.allowed = allowed
        self.spent = 0
        self.merge_pair = merge_pair
        self.heap: list[tuple[int, int, int, int]] = []
        for unit in units:
            unit.matched = self.sample.matched(unit.filter)
            self._prepare(unit)

    def _prepare(self, unit: Unit) -> None:
        conjunctions = getattr(unit.filter, "conjunctions", None)
        if unit.filter.family == "attributes" and conjunctions:
            unit.box = hull_of_boxes(conjunctions)
            unit.events = {name: self.sample.satisfied(name, side) for name, side in unit.box.constraints}
            unit.is_plain = all(side.is_plain for _, side in unit.box.constraints)

    def run(self) -> None:
        alive = [k for k, unit in enumerate(self.units) if unit is not None]
        if len(alive) <= MAX_ALL_PAIRS:
            for position, k in enumerate(alive):
                self._push(k, alive[:position])
        else:
            groups: dict[object, list[int]] = {}
            ordered = sorted(alive, key=self._place)
            for k in ordered:
                groups.setdefault(self._names(k), []).append(k)
            for group in groups.values():
                for position, k in enumerate(group):
                    self._push(k, group[max(0, position - NEIGHBOURS) : position])
        while self.heap:
            _, _, i, j = heapq.heappop(self.heap)
            if self.units[i] is not None and self.units[j] is not None:
                self._merge(i, j)

    def _place(self, k: int) -> Any:
        unit = self.units[k]
        assert unit is not None
        return (unit.box is None, unit.box.constraints if unit.box is not None else (), k)

    def _names(self, k: int) -> object:
        unit = self.units[k]
        assert unit is not None
        return (unit.filter.family, *sorted(unit.events))

    def _push(self, k: int, others: list[int]) -> None:
        """Put the pairs of unit `k` with the others on the heap, unless they cost more than is left."""
        unit = self.units[k]
        assert unit is not None
        most = self.allowed - self.spent + unit.false_positives
        for other in others:
            partner = self.units[other]
            if partner is None or partner.filter.family != unit.filter.family:
                continue
            passed = self._passed(unit, partner)
            false = (passed & ~(unit.matched | partner.matched)).bit_count() - partner.false_positives
            if false <= most:
                dropped = len(unit.events.keys() ^ partner.events.keys())
                cost = false - unit.false_positives
                heapq.heappush(self.heap, (cost, dropped, min(k, other), max(k, other)))

    def _passed(self, a: Unit, b: Unit) -> int:
        """Return the events that the merge of the two lets through; for hulls, from those of their sides."""
        if a.box is None or b.box is None:
            return self.sample.matched(self.merge_pair(a.filter, b.filter).filter)
        passed = self.sample.attributed
        others = b.events
        if not (a.is_plain and b.is_plain):
            # Patterns cannot always be joined: then the hull lets through more than its two sides.
            for name, side in hull_of_boxes((a.box, b.box)).constraints:
                passed &= self.sample.satisfied(name, side)
            return passed
        for name, events in a.events.items():
            if name in others:
                passed &= events | others[name]
        return passed

    def _merge(self, i: int, j: int) -> None:
        a, b = self.units[i], self.units[j]
        assert a is not None
        assert b is not None
        merged = self.merge_pair(a.filter, b.filter)
        unit = Unit(merged.filter, a.members + b.members, exact=merged.exact and a.exact and b.exact)
        unit.matched = a.matched | b.matched
        unit.false_positives = (self.sample.matched(merged.filter) & ~unit.matched).bit_count()
        cost = unit.false_positives - a.false_positives - b.false_positives
        if self.spent + cost > self.allowed:
            return
        self._prepare(unit)
        self.spent += cost
        self.units[i] = self.units[j] = None
        self.units.append(unit)
        k = len(self.units) - 1
        if k <= 2 * MAX_ALL_PAIRS:
            self._push(k, [other for other in range(k) if self.units[other] is not None])
        else:
            names = self._names(k)
            near = [o for o in range(max(i, j) + NEIGHBOURS) if o < k and self.units[o] is not None]
            self._push(k, [o for o in near[-2 * NEIGHBOURS :] if self._names(o) == names])
