"""Joining boxes: filters equal but for one attribute become one filter, exactly.

A *box* is a filter of one conjunction, seen as its sides: pairs of a name and a constraint. Boxes that limit the same
names have one *shape*. The joins of a set of boxes are made in a fixed order, so that the result depends on the set
alone:

    step      boxes that agree in all sides but one are joined along it: the constraints of that side become one
    pass      for each name of the shape, in order, a step that joins intervals which together are one interval (price
              ranges of one symbol); then for each a step that joins whatever can be joined (lists of symbols)
    fixpoint  passes are repeated until one of them joins nothing
    shapes    those with more names come first: a union that lets in everything frees its box of the name, and makes
              it a box of a smaller shape

Unions are exact. Where one constraint cannot say a union (several LIKE patterns), or the box could not be sent (more
than 1,024 intervals, more than 65,536 bytes), the constraints are packed into few, in their order; each goes into one
of them whole, so that whatever was joined is covered by what it was joined to. What no step joins has no two that can
be joined: leaving some of it out changes nothing, and joining it again neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias, TypeVar

from covey.core.attributes.conjunction import Conjunction, Constraints
from covey.core.attributes.constraint import Constraint
from covey.core.attributes.cuts import MAX_INTERVALS, NumberCut, StringCut
from covey.core.attributes.filter import AttributeFilter, trusted
from covey.core.attributes.forms import MAX_WIRE_BYTES
from covey.core.filter import Filter
from covey.errors import FilterError

Box: TypeAlias = Constraints
Names: TypeAlias = tuple[str, ...]
Unite: TypeAlias = Callable[[Box, str, Iterable[Constraint]], tuple[Constraint, ...]]
Cut = TypeVar("Cut", NumberCut, StringCut)

# What MessagePack takes at most: for a number with the side of its cut, the head of a string, the rest of a form.
_NUMBER_BYTES: Final = 10
_HEAD_BYTES: Final = 5
_FORM_BYTES: Final = 32


def box_of(filter: Filter) -> Box | None:
    """Return the sides of a filter of one conjunction, None for any other filter."""
    if isinstance(filter, AttributeFilter) and len(filter.conjunctions) == 1:
        return filter.conjunctions[0].constraints
    return None


def filter_of(box: Box) -> AttributeFilter:
    """Return the filter with these sides."""
    return trusted((Conjunction(box),))


def names_of(box: Box) -> Names:
    """Return the names that a box limits: its shape."""
    return tuple([name for name, _ in box])


def with_side(rest: Box, place: int, name: str, side: Constraint) -> Box:
    """Return the box with one more side at its place; without it, if it lets in everything."""
    return rest if side.is_everything else (*rest[:place], (name, side), *rest[place:])


# -- one side ------------------------------------------------------------------------------------------------


def touching(rest: Box, name: str, sides: Iterable[Constraint]) -> tuple[Constraint, ...]:
    """Return the constraints with those joined that are one interval each and together are one interval."""
    ordered = sorted(sides)
    single = [side for side in ordered if _is_interval(side)]
    if len(single) < 2:
        return tuple(ordered)
    found = [Constraint(numbers=pair) for pair in _pairs(_swept([side.numbers for side in single]))]
    found += [Constraint(strings=pair) for pair in _pairs(_swept([side.strings for side in single]))]
    if len(found) == len(single):
        return tuple(ordered)
    room = Room(rest, name)
    if not all(map(room.holds, found)):
        return tuple(ordered)
    return (*found, *[side for side in ordered if not _is_interval(side)])


def _is_interval(side: Constraint) -> bool:
    kinds = side.absent or side.other or side.booleans or side.likes or side.unlikes
    return not kinds and len(side.numbers) + len(side.strings) == 2


def united(rest: Box, name: str, sides: Iterable[Constraint]) -> tuple[Constraint, ...]:
    """Return few constraints that together let in what the sides do, each of which can be sent beside `rest`."""
    ordered = sorted(sides)
    if len(ordered) < 2:
        return tuple(ordered)
    room = Room(rest, name)
    plain = [side for side in ordered if side.is_plain]
    patterns = [side for side in ordered if not side.is_plain]
    if patterns:
        plain = [side for side in plain if not any(pattern.covers(side) for pattern in patterns)]
    found: list[Constraint] = []
    for side in (*_packed(plain, room), *patterns):
        for place, before in enumerate(found):
            union = before.union(side)
            if union is not None and room.holds(union):
                found[place] = union
                break
        else:
            found.append(side)
    return tuple(found)


class Room:
    """How much a box can hold along one side, whose name and the rest of the box are given."""

    def __init__(self, rest: Box, name: str) -> None:
        self._rest = rest
        self._name = name
        self._bytes = MAX_WIRE_BYTES - _FORM_BYTES - len(name.encode()) - _bytes_of(rest)

    def holds(self, side: Constraint) -> bool:
        """Return whether the box can be sent with this side."""
        if max(len(side.numbers), len(side.strings)) > 2 * MAX_INTERVALS:
            return False
        if _bytes_of_side(side) <= self._bytes:
            return True
        try:
            filter_of(tuple(sorted((*self._rest, (self._name, side))))).encode()
        except FilterError:
            return False
        return True

    def surely_held(self, sides: Sequence[Constraint]) -> int:
        """Return how many of the sides, from the first on, fit together whatever they have in common."""
        numbers = strings = size = 0
        for count, side in enumerate(sides):
            numbers += len(side.numbers)
            strings += len(side.strings)
            size += _bytes_of_side(side)
            if max(numbers, strings) > 2 * MAX_INTERVALS or size > self._bytes:
                return count
        return len(sides)


def _packed(sides: Sequence[Constraint], room: Room) -> list[Constraint]:
    """Return unions of neighbours in order, each of as many plain sides as there is room for."""
    result = []
    while sides:
        count = max(1, room.surely_held(sides))
        step = 1
        while step and count < len(sides):
            if room.holds(_union_of_plain(sides[: count + step])):
                count = min(count + step, len(sides))
                step *= 2
            else:
                step //= 2
        result.append(_union_of_plain(sides[:count]) if count > 1 else sides[0])
        sides = sides[count:]
    return result


def _bytes_of(box: Box) -> int:
    return sum(len(name.encode()) + _HEAD_BYTES + _FORM_BYTES + _bytes_of_side(side) for name, side in box)


def _bytes_of_side(side: Constraint) -> int:
    """Return how long the wire form of a constraint can be at most, whatever it is joined with."""
    texts = sum(_HEAD_BYTES + len(text.encode()) for _, text in side.strings)
    patterns = sum(_HEAD_BYTES + len(text.encode()) for text in side.likes + side.unlikes)
    return _NUMBER_BYTES * len(side.numbers) + texts + patterns


def _union_of_plain(sides: Sequence[Constraint]) -> Constraint:
    booleans = 0
    for side in sides:
        booleans |= side.booleans
    return Constraint(
        any(side.absent for side in sides),
        any(side.other for side in sides),
        booleans,
        _swept([side.numbers for side in sides]),
        _swept([side.strings for side in sides]),
    )


def _swept(sets: Iterable[tuple[Cut, ...]]) -> tuple[Cut, ...]:
    """Return the union of sets of cuts, all at once: their intervals in order, those that meet as one."""
    result: list[Cut] = []
    for low, high in sorted(pair for cuts in sets for pair in _pairs(cuts)):
        if result and low <= result[-1]:
            result[-1] = max(result[-1], high)
        else:
            result += (low, high)
    return tuple(result)


def _pairs(cuts: tuple[Cut, ...]) -> list[tuple[Cut, Cut]]:
    return list(zip(cuts[::2], cuts[1::2], strict=True))


# -- all of it, at once --------------------------------------------------------------------------------------


def steps(names: Names) -> list[tuple[Unite, int, str]]:
    """Return the steps of one pass: how to unite, along which side."""
    return [(unite, place, name) for unite in (touching, united) for place, name in enumerate(names)]


def joined(boxes: Iterable[Box]) -> list[Box]:
    """Return the boxes joined as far as they can be; see the module's text. What covers what is not looked at."""
    shapes: dict[Names, set[Box]] = {}
    for box in boxes:
        shapes.setdefault(names_of(box), set()).add(box)
    result: list[Box] = []
    while shapes:
        names = max(shapes, key=len)  # shapes of one size have nothing to do with each other
        found = shapes.pop(names)
        before: set[Box] = set()
        while found != before:
            before = found
            for unite, place, name in steps(names):
                found = _joined_along(unite, place, name, found)
                for freed in [box for box in found if len(box) < len(names)]:
                    found.remove(freed)
                    shapes.setdefault(names_of(freed), set()).add(freed)
        result += found
    return result


def _joined_along(unite: Unite, place: int, name: str, boxes: set[Box]) -> set[Box]:
    groups: dict[Box, list[Constraint]] = {}
    for box in boxes:
        groups.setdefault(box[:place] + box[place + 1 :], []).append(box[place][1])
    return {
        with_side(rest, place, name, side)
        for rest, sides in groups.items()
        for side in unite(rest, name, sides)
    }
