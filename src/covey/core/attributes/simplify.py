"""Simplification: the normal form of a disjunction of conjunctions.

    join     conjunctions equal but for one attribute, whose constraints' union is one constraint, become one;
             until no two can be joined
    absorb   a conjunction that another one covers is dropped
    order    what remains is sorted

All of them look at pairs: so absorbing leaves nothing new to join, any part of a simplified disjunction is
simplified, and the outcome depends on the set of conjunctions and not on their order. Work is bounded: more than
MAX_RAW_CONJUNCTIONS that do not join are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from covey.core.attributes.conjunction import ANYTHING, Conjunction, Constraints
from covey.core.attributes.constraint import Constraint
from covey.core.attributes.like import outline
from covey.core.work import ACCOUNT
from covey.errors import FilterError

MAX_CONJUNCTIONS: Final = 64
MAX_RAW_CONJUNCTIONS: Final = 256
MAX_PRODUCT: Final = 4_096

_INFINITY: Final = float("inf")
_NO_PATTERN: Final = ("", "", 0, 0)


def simplify(conjunctions: Iterable[Conjunction]) -> tuple[Conjunction, ...]:
    """Return the normal form of a disjunction; raise FilterError beyond MAX_CONJUNCTIONS."""
    current = sorted(set(conjunctions))
    if len(current) < 2:
        return tuple(current)
    if ANYTHING in current:
        return (ANYTHING,)
    current = join(current)
    if len(current) > MAX_RAW_CONJUNCTIONS:
        raise _too_many(len(current))
    current = absorb(current)
    if len(current) > MAX_CONJUNCTIONS:
        raise _too_many(len(current))
    return tuple(current)


def is_simplified(conjunctions: tuple[Conjunction, ...]) -> bool:
    """Return whether `simplify` would return just these conjunctions."""
    outlines = [_Outline(box) for box in conjunctions]
    ACCOUNT.spend(0.5 * len(conjunctions) ** 2)
    for i, b in enumerate(outlines):
        name, text, length, letters = b.pattern
        for a in outlines[:i]:
            if name:
                # Most pairs of many patterns are told apart by their patterns alone, which need no more of a box.
                same, other, least, some = a.pattern
                if (
                    same == name
                    and other != text
                    and (least > length or some & ~letters)
                    and (length > least or letters & ~some)
                ):
                    continue
            if a.names == b.names:
                if not _is_apart(a, b):
                    return False
            elif (a.may_cover(b) and a.box.covers(b.box)) or (b.may_cover(a) and b.box.covers(a.box)):
                return False
        if i and not conjunctions[i - 1] < b.box:
            return False
    return len(conjunctions) <= MAX_CONJUNCTIONS


class _Outline:
    """What of a box says quickly that it does not cover another one: three numbers of each side.

    A side holds another only if its own numbers `outer` are not above, not below and have no bits beside the other's
    `inner`. For numbers they are the ends, for one general LIKE pattern its least length and its letters.
    """

    __slots__ = ("box", "inner", "names", "outer", "pattern")

    def __init__(self, box: Conjunction) -> None:
        self.box = box
        self.names = _names(box)
        self.outer: dict[str, tuple[float, float, int]] = {}
        self.inner: dict[str, tuple[float, float, int]] = {}
        # The first that is a whole side: its attribute, its text, and what `outline` says of it.
        self.pattern: tuple[str, str, int, int] = _NO_PATTERN
        for name, side in box.constraints:
            if side.is_like:
                length, letters = outline(side.likes[0])
                self.outer[name] = self.inner[name] = (length, _INFINITY, letters)
                if self.pattern is _NO_PATTERN:
                    self.pattern = (name, side.likes[0], length, letters)
            elif side.numbers and not (side.strings or side.booleans or side.absent or side.other):
                low, high = side.numbers[0][0], side.numbers[-1][0]
                self.outer[name], self.inner[name] = (low, high, 0), (low, high, -1)
            else:
                self.outer[name], self.inner[name] = (-_INFINITY, _INFINITY, 0), (_INFINITY, -_INFINITY, -1)

    def may_cover(self, other: _Outline) -> bool:
        """Return False only if the box does not cover the other one."""
        inner = other.inner
        for name, (low, high, letters) in self.outer.items():
            found = inner.get(name)
            if found is None or low > found[0] or high < found[1] or letters & ~found[2]:
                return False
        return True


def _is_apart(a: _Outline, b: _Outline) -> bool:
    """Return whether of two boxes with the same attributes none covers the other and they cannot be joined."""
    covers = a.may_cover(b) or b.may_cover(a)
    # The union of two patterns is one constraint only if one of them holds the other.
    (name, text, *_), (same, other, *_) = a.pattern, b.pattern
    if not covers and name and name == same and text != other:
        return True
    if covers and (a.box.covers(b.box) or b.box.covers(a.box)):
        return False
    differing = None
    for (_, mine), (_, theirs) in zip(a.box.constraints, b.box.constraints, strict=True):
        if mine is not theirs and mine != theirs:
            if differing is not None:
                return True
            differing = (mine, theirs)
    return differing is not None and differing[0].union(differing[1]) is None


def product(factors: Iterable[tuple[Conjunction, ...]]) -> tuple[Conjunction, ...]:
    """Return the normal form of a conjunction of disjunctions; raise FilterError when it grows too large."""
    several: list[tuple[Conjunction, ...]] = []
    single = ANYTHING
    for factor in factors:
        if len(factor) > 1:
            several.append(factor)
        else:
            both = single.intersect(factor[0]) if factor else None
            if both is None:
                return ()
            single = both
    result: tuple[Conjunction, ...] = (single,)
    for factor in sorted(set(several), key=lambda factor: (len(factor), factor)):
        if len(result) * len(factor) > MAX_PRODUCT:
            raise _too_many(len(result) * len(factor))
        boxes: set[Conjunction] = set()
        for a in result:
            for b in factor:
                box = a.intersect(b)
                if box is not None:
                    boxes.add(box)
        result = simplify(boxes)
        if not result:
            break
    return result


def _too_many(count: int) -> FilterError:
    return FilterError(
        f"the filter needs {count} or more conjunctions",
        expected=f"at most {MAX_CONJUNCTIONS}",
        hint="use IN lists or split the filter",
    )


def join(conjunctions: list[Conjunction]) -> list[Conjunction]:
    """Return the sorted conjunctions with those joined that differ in one attribute only."""
    groups: dict[tuple[str, ...], list[Conjunction]] = {}
    for box in conjunctions:
        groups.setdefault(_names(box), []).append(box)
    if len(groups) == len(conjunctions):
        return conjunctions
    result: list[Conjunction] = []
    while groups:
        # Joining may free boxes of an attribute, never limit one more: groups with more attributes come first.
        names = max(groups, key=len)
        boxes = groups.pop(names)
        for box in _join_group(names, boxes) if len(boxes) > 1 else boxes:
            if len(box.constraints) == len(names):
                result.append(box)
            elif box not in (group := groups.setdefault(_names(box), [])):
                group.append(box)
    return sorted(result)


def _names(box: Conjunction) -> tuple[str, ...]:
    return tuple([name for name, _ in box.constraints])


def _join_group(names: tuple[str, ...], boxes: list[Conjunction]) -> list[Conjunction]:
    """Return the boxes, all of which limit `names`, joined; those freed of an attribute are not joined further."""
    freed: list[Conjunction] = []
    apart: set[tuple[int, Constraints, tuple[Constraint, ...]]] = set()
    changed = True
    while changed and len(boxes) > 1:
        changed = False
        for k, name in enumerate(names):
            groups: dict[Constraints, list[Constraint]] = {}
            for box in boxes:
                sides = box.constraints
                groups.setdefault(sides[:k] + sides[k + 1 :], []).append(sides[k][1])
            if len(groups) == len(boxes):
                continue
            boxes = []
            for rest, constraints in groups.items():
                known = (k, rest, tuple(constraints))
                if len(constraints) > 1 and known not in apart:
                    constraints = unite(constraints)
                    changed |= len(constraints) < len(known[2])
                    apart.add((k, rest, tuple(constraints)))
                for constraint in constraints:
                    if constraint.is_everything:
                        freed.append(Conjunction(rest))
                    else:
                        boxes.append(Conjunction((*rest[:k], (name, constraint), *rest[k:])))
    return boxes + freed


def unite(constraints: list[Constraint]) -> list[Constraint]:
    """Return constraints with the same union, pairs replaced by their union where that is one constraint."""
    result: list[Constraint] = []
    waiting = sorted(constraints, reverse=True)
    while waiting:
        constraint = waiting.pop()
        for k, placed in enumerate(result):
            union = placed.union(constraint)
            if union is not None:
                # The larger constraint may now join with one that stood before it.
                del result[k]
                waiting.append(union)
                break
        else:
            result.append(constraint)
    return result


def absorb(conjunctions: list[Conjunction]) -> list[Conjunction]:
    """Return joined conjunctions, in their order, without those that another one covers."""
    if len(conjunctions) < 2:
        return conjunctions
    bits: dict[str, int] = {}
    masks = []
    for box in conjunctions:
        mask = 0
        for name, _ in box.constraints:
            mask |= bits.setdefault(name, 1 << len(bits))
        masks.append(mask)
    dropped = [False] * len(conjunctions)
    for i, box in enumerate(conjunctions):
        if dropped[i]:
            continue
        mask = masks[i]
        for j, other in enumerate(conjunctions):
            # A coverer limits no attribute that the covered one does not limit. Two that limit only one and
            # the same would have been joined.
            if mask & ~masks[j] or i == j or dropped[j] or (mask == masks[j] and len(box.constraints) == 1):
                continue
            dropped[j] = box.covers(other)
    return [box for i, box in enumerate(conjunctions) if not dropped[i]]
