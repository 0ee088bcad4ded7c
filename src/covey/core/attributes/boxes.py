"""Covering by several conjunctions: is a box inside a union of boxes.

The box is cut along the sides of one of the union's boxes: what sticks out on each side must be inside the
union of the others, and the middle is inside that one. The pieces are exact, so the answer is exact for boxes
without general LIKE patterns, as long as one question needs no more than MAX_COMPARED comparisons of two sides.
Beyond that, and where a pattern hides that a piece is empty, the answer is the safe one: not covered. A union of more
than MOST_PATTERNED boxes with general LIKE patterns is not cut at all: all of them meet each other, which takes all the
work that it may, and seldom proves anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import EVERYTHING, Constraint
from covey.core.work import ACCOUNT
from covey.errors import FilterError

MAX_COMPARED: Final = 4_096
MOST_PATTERNED: Final = 8

Sides = dict[str, Constraint]


class _TooMuchWorkError(Exception):
    """The work limit was reached."""


class _Work:
    """How many more sides may be compared."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, compared: int) -> None:
        self.left -= compared
        if self.left < 0:
            raise _TooMuchWorkError


def covers(union: Sequence[Conjunction], boxes: Iterable[Conjunction]) -> bool:
    """Return True only if every one of `boxes` lies inside the union."""
    parts: list[Conjunction] = []
    may_cut = is_cut(union)
    for box in boxes:
        if not any(coverer.covers(box) for coverer in union):
            if not may_cut:
                return False
            parts.append(box)
    if not parts:
        return True
    work = _Work(MAX_COMPARED)
    try:
        return all(_lies_inside(union, box, work) for box in parts)
    except (_TooMuchWorkError, FilterError):
        return False
    finally:
        ACCOUNT.spend(MAX_COMPARED - max(work.left, 0))


def is_cut(union: Sequence[Conjunction]) -> bool:
    """Return whether a union can cover a box that none of its boxes covers."""
    if len(union) < 2:
        return False
    return len(union) <= MOST_PATTERNED or all(
        constraint.is_plain for box in union for _, constraint in box.constraints
    )


def clusters(union: Sequence[Conjunction]) -> list[list[Conjunction]]:
    """Return the boxes in groups of which no two limit the same attribute: a box lies inside one of them or in none.

    If it sticks out of one group at one point and out of another at a second, the point that has the coordinates of the
    first for the attributes of the one group, and of the second for those of the other, is in neither.
    """
    groups: list[tuple[set[str], list[Conjunction]]] = []
    for box in union:
        names = {name for name, _ in box.constraints}
        near = [group for group in groups if not group[0].isdisjoint(names)]
        groups = [group for group in groups if group[0].isdisjoint(names)]
        groups.append(
            (names.union(*(group[0] for group in near)), [one for group in near for one in group[1]] + [box])
        )
    return [group for _, group in groups]


def _lies_inside(union: Sequence[Conjunction], box: Conjunction, work: _Work) -> bool:
    work.spend(len(union))
    near = [dict(coverer.constraints) for coverer in union if coverer.overlaps(box)]
    return len(near) > 1 and _is_inside(near, dict(box.constraints), work)


def _is_inside(near: list[Sides], box: Sides, work: _Work) -> bool:
    """Return whether the box lies inside the union of boxes `near`, all of which meet it."""
    splitter: Sides = {}
    fewest = len(box) + 1_000_000
    for coverer in near:
        work.spend(len(coverer))
        out = _sides_out(coverer, box)
        if out == 0:
            return True
        if out < fewest:
            fewest, splitter = out, coverer
    if len(near) < 2:
        return False
    near = [coverer for coverer in near if coverer is not splitter]
    middle = dict(box)
    for name, constraint in splitter.items():
        side = box.get(name, EVERYTHING)
        for outside in side.difference(constraint):
            work.spend(len(near))
            if not _is_inside(_meeting(near, name, outside), {**middle, name: outside}, work):
                return False
        # What is left to look at is inside the splitter on this side.
        inside = side.intersect(constraint)
        if inside.is_empty:
            return True
        if inside is not side:
            middle[name] = inside
            near = _meeting(near, name, inside)
    return True


def _meeting(near: list[Sides], name: str, side: Constraint) -> list[Sides]:
    """Return those of the boxes that meet a box once its side `name` is narrowed to `side`."""
    return [coverer for coverer in near if name not in coverer or coverer[name].overlaps(side)]


def _sides_out(coverer: Sides, box: Sides) -> int:
    """Return along how many attributes the box sticks out of the coverer."""
    out = 0
    for name, constraint in coverer.items():
        side = box.get(name)
        if side is None or not constraint.covers(side):
            out += 1
    return out
