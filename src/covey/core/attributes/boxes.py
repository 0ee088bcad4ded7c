"""Covering by several conjunctions: is a box inside a union of boxes.

The box is cut along the sides of one of the union's boxes: what sticks out on each side must be inside the
union of the others, and the middle is inside that one. The pieces are exact, so the answer is exact for boxes
without general LIKE patterns, as long as one question needs no more than MAX_PIECES pieces; beyond that, and
where a pattern hides that a piece is empty, the answer is the safe one: not covered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import EVERYTHING, Constraint
from covey.errors import FilterError

MAX_PIECES: Final = 4_096

Sides = dict[str, Constraint]


class _TooMuchWorkError(Exception):
    """The work limit was reached."""


class _Work:
    """How many more pieces may be looked at."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _TooMuchWorkError


def covers(union: Sequence[Conjunction], boxes: Iterable[Conjunction]) -> bool:
    """Return True only if every one of `boxes` lies inside the union."""
    parts: list[Conjunction] = []
    for box in boxes:
        if not any(coverer.covers(box) for coverer in union):
            if len(union) < 2:
                return False
            parts.append(box)
    work = _Work(MAX_PIECES)
    try:
        return all(_lies_inside(union, box, work) for box in parts)
    except (_TooMuchWorkError, FilterError):
        return False


def _lies_inside(union: Sequence[Conjunction], box: Conjunction, work: _Work) -> bool:
    near = [dict(coverer.constraints) for coverer in union if coverer.overlaps(box)]
    return len(near) > 1 and _is_inside(near, dict(box.constraints), work)


def _is_inside(near: list[Sides], box: Sides, work: _Work) -> bool:
    """Return whether the box lies inside the union of boxes `near`, all of which meet it."""
    splitter: Sides = {}
    fewest = len(box) + 1_000_000
    for coverer in near:
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
            work.spend()
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
