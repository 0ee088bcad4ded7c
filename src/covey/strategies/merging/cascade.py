"""Joining boxes step by step: what `merging_boxes.joined` says at once, kept up to date as boxes come and go.

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


class Layer:
    """The groups of boxes that agree in all sides but the one at `place`."""

    def __init__(self, unite: Unite, place: int, name: str) -> None:
        self._unite = unite
        self._place = place
        self._name = name
        self._members: dict[Box, dict[Constraint, None]] = {}
        self._united: dict[Box, tuple[Constraint, ...]] = {}
        self._joining: dict[Box, None] = {}  # groups that are united to fewer constraints than they have

    @property
    def joins(self) -> bool:
        """Whether any boxes are joined here."""
        return bool(self._joining)

    def change(self, delta: Delta) -> Delta:
        """Take a change of the boxes; return the change of what they are united to."""
        place = self._place
        touched: dict[Box, None] = {}
        for box, count in delta.items():
            rest, side = box[:place] + box[place + 1 :], box[place][1]
            touched[rest] = None
            members = self._members.setdefault(rest, {})
            if count > 0:
                members[side] = None
            else:
                del members[side]
        result: Delta = {}
        for rest in touched:
            before, after = self._update(rest)
            for side in before:
                _note(result, with_side(rest, place, self._name, side), -1)
            for side in after:
                _note(result, with_side(rest, place, self._name, side), 1)
        return result

    def _update(self, rest: Box) -> tuple[tuple[Constraint, ...], tuple[Constraint, ...]]:
        """Unite a group anew; return what it was united to before and what now."""
        members = self._members[rest]
        before = self._united.pop(rest, ())
        after = self._unite(rest, self._name, members)
        if members:
            self._united[rest] = after
        else:
            del self._members[rest]
        if len(after) < len(members):
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
            shape = self._shapes.setdefault(names, Shape(names))
            change, freed = shape.change(pending.pop(names))
            for box, count in freed.items():
                _note(pending.setdefault(names_of(box), {}), box, count)
            for box, count in change.items():
                _note(total, box, count)
            if not shape:
                del self._shapes[names]
        return total
