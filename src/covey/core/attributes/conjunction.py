"""Conjunctions: constraints on several attributes at once, all of which must hold.

Seen over all attributes a conjunction is a box: the product of one set an attribute, and an attribute it does
not name is not limited. Attributes are independent of each other, so one box lies in another exactly when
each side does, and two boxes meet exactly when all sides do.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from covey.core.attributes.constraint import Constraint
from covey.core.event import lookup

Constraints = tuple[tuple[str, Constraint], ...]


class Conjunction(msgspec.Struct, frozen=True, order=True, gc=False):
    """Constraints by attribute, sorted by name, none of them empty or everything; () is TRUE."""

    constraints: Constraints

    def matches(self, attributes: Mapping[str, Any]) -> bool:
        """Return whether all constraints hold for the attributes of an event."""
        return satisfied(self.constraints, attributes)

    def covers(self, other: Conjunction) -> bool:
        """Return True only if this box contains the other; exact unless a general LIKE is involved."""
        theirs = iter(other.constraints)
        for name, constraint in self.constraints:
            for their_name, side in theirs:
                if their_name == name:
                    if constraint is not side and not constraint.covers(side):
                        return False
                    break
                if their_name > name:
                    return False
            else:
                return False
        return True

    def overlaps(self, other: Conjunction) -> bool:
        """Return False only if the boxes cannot meet; exact unless a general LIKE is involved."""
        mine, theirs = self.constraints, other.constraints
        i = j = 0
        while i < len(mine) and j < len(theirs):
            name, side = mine[i]
            their_name, their_side = theirs[j]
            if name == their_name:
                if not side.overlaps(their_side):
                    return False
                i += 1
                j += 1
            elif name < their_name:
                i += 1
            else:
                j += 1
        return True

    def intersect(self, other: Conjunction) -> Conjunction | None:
        """Return the box common to both, or None if it is empty."""
        both = dict(self.constraints)
        for name, constraint in other.constraints:
            mine = both.get(name)
            if mine is not None and mine is not constraint:
                constraint = mine.intersect(constraint)
                if constraint.is_empty:
                    return None
            both[name] = constraint
        return Conjunction(tuple(sorted(both.items())))

    def with_constraint(self, name: str, constraint: Constraint) -> Conjunction:
        """Return this box with its side `name` replaced; the constraint must not be empty."""
        both = dict(self.constraints)
        if constraint.is_everything:
            both.pop(name, None)
        else:
            both[name] = constraint
        return Conjunction(tuple(sorted(both.items())))


ANYTHING: Final = Conjunction(())


def satisfied(constraints: Constraints, attributes: Mapping[str, Any]) -> bool:
    """Return whether all constraints hold for the attributes of an event."""
    get = attributes.get
    for name, constraint in constraints:
        value = get(name)
        kind = type(value)
        if kind is int or kind is float:
            # NaN is in no set of numbers, and may still be allowed as a value of another kind.
            if not bisect_right(constraint.numbers, (value, 0)) & 1 and (
                value == value or not constraint.other
            ):
                return False
        elif kind is str:
            if not bisect_right(constraint.strings, (0, value)) & 1:
                return False
            if (constraint.likes or constraint.unlikes) and not constraint.contains(value):
                return False
        elif value is None and "." not in name:
            if not constraint.absent:
                return False
        elif not constraint.contains(lookup(attributes, name)):
            return False
    return True
