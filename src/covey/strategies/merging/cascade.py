"""Joining boxes step by step: what `boxes.joined` says at once, kept up to date as boxes come and go.

Every step of the joins is a *layer*: boxes in groups that agree in all sides but one, and for each group the
constraints it was united to. A change of some boxes touches some groups; what these were united to changes, and that
is the change for the next layer. Where nothing changes, the rest of the cascade is as it was.

    shape     the layers of a shape, pass after pass, up to and including the first pass that joins nothing
    cascade   all shapes; a box that is freed of a name falls from its shape into a smaller one
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from covey.core.attributes.constraint import Constraint
from covey.strategies.merging.boxes import Box, Names, Unite, names_of, steps, with_side

Delta: TypeAlias = dict[Box, int]  # which boxes come, +1, and which go, -1


def _note(delta: Delta, box: Box, count: int) -> None:
    """Add to a delta; what comes and goes is in none."""
    total = delta.get(box, 0) + count
    if total:
        delta[box] = total
    else:
        delta.pop(box, None)


class Group:
    """Boxes that agree in all sides but one: the constraints they have there, and what these are united to."""

    __slots__ = ("members", "united")

    def __init__(self, side: Constraint) -> None:
        self.members: dict[Constraint, None] = {side: None}
        self.united: tuple[Constraint, ...] = (side,)


class Layer:
    """The groups of boxes that agree in all sides but the one at `place`."""

    def __init__(self, unite: Unite, place: int, name: str) -> None:
        self._unite = unite
        self._place = place
        self._name = name
        self._groups: dict[Box, Group | Constraint] = {}  # a group of one box is just its side
        self._joining: dict[Box, None] = {}  # groups that are united to fewer constraints than they have

    @property
    def joins(self) -> bool:
        """Whether any boxes are joined here."""
        return bool(self._joining)

    def change(self, delta: Delta) -> Delta:
        """Take a change of the boxes; return the change of what they are united to."""
        place, groups = self._place, self._groups
        result: Delta = {}
        touched: dict[Box, Group] = {}
        for box, count in delta.items():
            rest, side = box[:place] + box[place + 1 :], box[place][1]
            group = groups.get(rest)
            # Most groups have one box, which is united to itself: it comes and goes as it is.
            if group is None:
                assert count > 0, "a box goes that never came"
                groups[rest] = side
                result[box] = 1
            elif count < 0 and isinstance(group, Constraint):
                assert group == side, "a box goes that never came"
                del groups[rest]
                result[box] = -1
            else:
                if isinstance(group, Constraint):
                    group = groups[rest] = Group(group)
                touched[rest] = group
                if count > 0:
                    group.members[side] = None
                else:
                    del group.members[side]
        for rest, group in touched.items():
            before, after = self._update(rest, group)
            for side in before:
                _note(result, with_side(rest, place, self._name, side), -1)
            for side in after:
                _note(result, with_side(rest, place, self._name, side), 1)
        return result

    def _update(self, rest: Box, group: Group) -> tuple[tuple[Constraint, ...], tuple[Constraint, ...]]:
        """Unite a group anew; return what it was united to before and what now."""
        before = group.united
        after = group.united = self._unite(rest, self._name, group.members)
        if not group.members:
            del self._groups[rest]
        elif len(group.members) == 1:
            (self._groups[rest],) = group.members
        if len(after) < len(group.members):
            self._joining[rest] = None
        else:
            self._joining.pop(rest, None)
        return before, after


class Shape:
    """All boxes that limit the same names."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._counts: dict[Box, int] = {}  # a box may come from outside and fall from several larger shapes
        self._passes: list[list[Layer]] = [self._new_pass()]
        self._outputs: dict[Box, None] = {}

    def __bool__(self) -> bool:
        return bool(self._counts)

    def _new_pass(self) -> list[Layer]:
        return [Layer(*step) for step in steps(self._names)]

    def change(self, delta: Mapping[Box, int]) -> tuple[Delta, Delta]:
        """Take a change of the boxes; return the change of the joined ones, and of those freed of a name."""
        freed: Delta = {}
        change = self._counted(delta)
        for layers in self._passes:
            change = self._through(layers, change, freed)
        total: Delta = {}
        self._output(change, total)
        while any(layer.joins for layer in self._passes[-1]):
            outputs = dict.fromkeys(self._outputs, 1)
            self._passes.append(self._new_pass())
            again = self._through(self._passes[-1], dict(outputs), freed)
            for box in outputs:
                _note(again, box, -1)
            self._output(again, total)
        while len(self._passes) > 1 and not any(layer.joins for layer in self._passes[-2]):
            self._passes.pop()
        return total, freed

    def _counted(self, delta: Mapping[Box, int]) -> Delta:
        """Count boxes; return which are here for the first time, and which are gone."""
        result: Delta = {}
        for box, count in delta.items():
            before = self._counts.get(box, 0)
            after = before + count
            assert after >= 0, "a box goes that never came"
            if after:
                self._counts[box] = after
            else:
                self._counts.pop(box, None)
            if (before > 0) != (after > 0):
                result[box] = 1 if after else -1
        return result

    def _through(self, layers: list[Layer], change: Delta, freed: Delta) -> Delta:
        """Take a change through one pass; boxes that lose a name leave it."""
        for layer in layers:
            if not change:
                break
            change = layer.change(change)
            for box in [box for box in change if len(box) < len(self._names)]:
                _note(freed, box, change.pop(box))
        return change

    def _output(self, change: Delta, total: Delta) -> None:
        for box, count in change.items():
            _note(total, box, count)
            if count > 0:
                self._outputs[box] = None
            else:
                del self._outputs[box]


class Cascade:
    """Boxes of all shapes."""

    def __init__(self) -> None:
        self._shapes: dict[Names, Shape] = {}

    def change(self, delta: Mapping[Box, int]) -> Delta:
        """Take a change of the boxes; return the change of the joined ones."""
        pending: dict[Names, Delta] = {}
        for box, count in delta.items():
            _note(pending.setdefault(names_of(box), {}), box, count)
        total: Delta = {}
        while pending:
            names = max(pending, key=len)
            shape = self._shapes.get(names)
            if shape is None:
                shape = self._shapes[names] = Shape(names)
            change, freed = shape.change(pending.pop(names))
            for box, count in freed.items():
                _note(pending.setdefault(names_of(box), {}), box, count)
            for box, count in change.items():
                _note(total, box, count)
            if not shape:
                del self._shapes[names]
        return total
