"""Merging: one filter that stands for several.

    merge       of two filters: the one that covers the other, else the simplified disjunction, both exact;
                only when that passes the limits of the language or the wire, their hull
    hull        the smallest single conjunction that covers both; what imperfect merging uses
    merge_many  of many filters: exact merges first, then, within a budget, hulls, cheapest first

Exact merges of many look for filters that another covers, and for conjunctions equal but for one attribute:
those are found by hashing each conjunction with one attribute left out, so that not all pairs are tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from covey.core.attributes import imperfect
from covey.core.attributes.conjunction import Conjunction, Constraints
from covey.core.attributes.constraint import Constraint
from covey.core.attributes.filter import AttributeFilter, hull, is_sendable, trusted
from covey.core.filter import Filter, Merge
from covey.errors import FilterError


class Merged(NamedTuple):
    """A filter that stands for those at the indices `members` of the list that was merged.

    It matches whatever they match; if `exact`, nothing else. `false_positives` counts the sampled events that
    it matches and none of them does.
    """

    filter: Filter
    members: tuple[int, ...]
    exact: bool
    false_positives: int


def merge_many(
    filters: Sequence[Filter], *, sample: Iterable[object] = (), budget: float = 0.0
) -> list[Merged]:
    """Return few filters that together stand for all of `filters`, in the order of their first members.

    Every filter is a member of exactly one result and covered by it. Without a budget all results are exact.
    With one, results may let sampled events through wrongly: at most `budget` (0 to 1) of the number of
    sampled events, summed over the results.
    """
    if not 0.0 <= budget <= 1.0:
        raise FilterError("a merging budget must be between 0 and 1")
    families: dict[str, list[int]] = {}
    for index, filter in enumerate(filters):
        families.setdefault(filter.family, []).append(index)
    units: list[imperfect.Unit] = []
    for indices in families.values():
        units += _exact_units(filters, indices)
    events = list(sample) if budget > 0.0 else []
    if events:
        units = imperfect.merge_within_budget(units, events, int(budget * len(events)), _merge_pair)
    units.sort(key=lambda unit: min(unit.members))
    return [
        Merged(unit.filter, tuple(sorted(unit.members)), unit.exact, unit.false_positives) for unit in units
    ]


def _merge_pair(a: Filter, b: Filter) -> Merge:
    """Return what imperfect merging makes of two filters."""
    if isinstance(a, AttributeFilter) and isinstance(b, AttributeFilter):
        return Merge(hull(a, b), False)
    return a.merge(b)


def _exact_units(filters: Sequence[Filter], indices: list[int]) -> list[imperfect.Unit]:
    """Return the exact merges of the filters at `indices`, which are of one family."""
    members: dict[Filter, list[int]] = {}
    for index in indices:
        members.setdefault(filters[index], []).append(index)
    members = _absorb(members)
    while _join_once(members):
        members = _absorb(members)
    return [imperfect.Unit(filter, found, exact=True) for filter, found in members.items()]


def _absorb(members: dict[Filter, list[int]]) -> dict[Filter, list[int]]:
    """Return the filters that no other one covers, each with the members of those it covers."""
    order = list(members)
    near = _Coverable(order)
    dropped = [False] * len(order)
    for k in sorted(range(len(order)), key=near.order):
        if not dropped[k]:
            coverer = order[k]
            for other in near.candidates(k):
                if other != k and not dropped[other] and coverer.covers(order[other]):
                    dropped[other] = True
                    members[coverer] += members[order[other]]
    return {filter: members[filter] for k, filter in enumerate(order) if not dropped[k]}


class _Coverable:
    """Which of a list of filters another one may cover: found by its points, else by the names it limits."""

    def __init__(self, filters: list[Filter]) -> None:
        self.boxes = [_single_box(filter) for filter in filters]
        self.groups: dict[frozenset[str], list[int]] = {}
        self.points: dict[tuple[str, Constraint], list[int]] = {}
        self.several: list[int] = []  # filters that are not one conjunction: anything may cover them
        for k, box in enumerate(self.boxes):
            if box is None:
                self.several.append(k)
                continue
            self.groups.setdefault(frozenset(name for name, _ in box), []).append(k)
            for side in box:
                if side[1].is_point:
                    self.points.setdefault(side, []).append(k)

    def order(self, k: int) -> tuple[int, int]:
        """Return a key that puts filters first that limit few attributes: they cover the most."""
        box = self.boxes[k]
        return (0 if box is None else len(box)), k

    def candidates(self, k: int) -> list[int]:
        """Return, among others, all filters that the one at `k` covers."""
        box = self.boxes[k]
        if box is None:
            return list(range(len(self.boxes)))
        found = [self.points[side] for side in box if side in self.points]
        if found:
            return min(found, key=len) + self.several
        names = {name for name, _ in box}
        limited = [other for limits, group in self.groups.items() if names <= limits for other in group]
        return limited + self.several


def _single_box(filter: Filter) -> Constraints | None:
    if isinstance(filter, AttributeFilter) and len(filter.conjunctions) == 1:
        return filter.conjunctions[0].constraints
    return None


def _join_once(members: dict[Filter, list[int]]) -> bool:
    """Join single conjunctions equal but for one attribute, in place; return whether there were any."""
    boxes = [f for f in members if isinstance(f, AttributeFilter) and len(f.conjunctions) == 1]
    names = sorted({name for f in boxes for name, _ in f.conjunctions[0].constraints})
    changed = False
    for name in names:
        groups: dict[Constraints, list[tuple[Constraint, AttributeFilter]]] = {}
        for filter in boxes:
            constraints = filter.conjunctions[0].constraints
            for k, (side, constraint) in enumerate(constraints):
                if side == name:
                    rest = constraints[:k] + constraints[k + 1 :]
                    groups.setdefault(rest, []).append((constraint, filter))
        for rest, group in groups.items():
            if len(group) > 1:
                changed |= _join_group(name, rest, group, members)
        if changed:
            boxes = [f for f in members if isinstance(f, AttributeFilter) and len(f.conjunctions) == 1]
    return changed


def _join_group(
    name: str,
    rest: Constraints,
    group: list[tuple[Constraint, AttributeFilter]],
    members: dict[Filter, list[int]],
) -> bool:
    """Join what can be joined of a group that agrees in `rest`; return whether anything was."""
    placed = _joined_constraints(group)
    if not all(is_sendable(_with(rest, name, union)) for union, _ in placed):
        return False
    for constraint, parts in placed:
        if len(parts) > 1:
            found = [index for filter in parts for index in members.pop(filter)]
            members.setdefault(_with(rest, name, constraint), []).extend(found)
    return len(placed) < len(group)


def _joined_constraints(
    group: list[tuple[Constraint, AttributeFilter]],
) -> list[tuple[Constraint, list[AttributeFilter]]]:
    placed: list[tuple[Constraint, list[AttributeFilter]]] = []
    for constraint, filter in sorted(group, key=lambda item: item[0]):
        for k, (before, parts) in enumerate(placed):
            union = before.union(constraint)
            if union is not None:
                parts.append(filter)
                placed[k] = (union, parts)
                break
        else:
            placed.append((constraint, [filter]))
    return placed


def _with(rest: Constraints, name: str, constraint: Constraint) -> AttributeFilter:
    return trusted((Conjunction(rest).with_constraint(name, constraint),))
