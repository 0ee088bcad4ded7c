"""Atoms: the constraints on one attribute that are no interval of numbers and no single value.

An event's value is judged against all of them at once. Sets of values and prefixes, the most frequent ones, are found
by looking the value and its beginnings up; the others are asked one by one. What was found for a value is
remembered until the atoms change.
"""

from __future__ import annotations

from typing import Any, Final

from covey.core.attributes import cuts
from covey.core.attributes.constraint import Constraint
from covey.core.attributes.values import BOOLEAN, STRING, classify

MEMORY: Final = 4_096
LONGEST_REMEMBERED: Final = 256


class Atoms:
    """The atoms of one attribute, each with the number of its channel."""

    __slots__ = (
        "_by_prefix",
        "_by_value",
        "_constraint_of",
        "_general",
        "_lengths",
        "_remembered",
        "channel_of",
        "with_absence",
    )

    def __init__(self) -> None:
        self.channel_of: dict[Constraint, int] = {}
        self.with_absence: set[int] = set()  # those that an event without the attribute satisfies
        self._constraint_of: dict[int, Constraint] = {}
        self._by_value: dict[Any, dict[Constraint, int]] = {}
        self._by_prefix: dict[str, int] = {}
        self._lengths: dict[int, int] = {}
        self._general: dict[Constraint, int] = {}
        self._remembered: dict[Any, tuple[int, ...]] = {}

    def add(self, constraint: Constraint, channel: int) -> None:
        """Add an atom."""
        self._remembered.clear()
        self.channel_of[constraint] = channel
        self._constraint_of[channel] = constraint
        if constraint.absent:
            self.with_absence.add(channel)
        prefix, values = prefix_of(constraint), values_of(constraint)
        if prefix is not None:
            self._by_prefix[prefix] = channel
            self._lengths[len(prefix)] = self._lengths.get(len(prefix), 0) + 1
        elif values is not None:
            for value in values:
                self._by_value.setdefault(value, {})[constraint] = channel
        else:
            self._general[constraint] = channel

    def remove(self, constraint: Constraint) -> None:
        """Remove an atom."""
        self._remembered.clear()
        channel = self.channel_of.pop(constraint)
        del self._constraint_of[channel]
        self.with_absence.discard(channel)
        prefix, values = prefix_of(constraint), values_of(constraint)
        if prefix is not None:
            del self._by_prefix[prefix]
            self._lengths[len(prefix)] -= 1
            if not self._lengths[len(prefix)]:
                del self._lengths[len(prefix)]
        elif values is not None:
            for value in values:
                del self._by_value[value][constraint]
                if not self._by_value[value]:
                    del self._by_value[value]
        else:
            del self._general[constraint]

    def containing(self, value: Any) -> tuple[int, ...]:
        """Return the channels of the atoms that an event's value, which is not None, satisfies."""
        kind, plain = classify(value)
        key = (kind, plain)
        found = self._remembered.get(key)
        if found is None:
            found = self._find(kind, plain, value)
            if kind != STRING or len(plain) <= LONGEST_REMEMBERED:
                if len(self._remembered) >= MEMORY:
                    self._remembered.clear()
                self._remembered[key] = found
        return found

    def _find(self, kind: int, plain: Any, value: Any) -> tuple[int, ...]:
        found = [channel for constraint, channel in self._general.items() if constraint.contains(value)]
        found.extend(self._by_value.get((kind == BOOLEAN, plain), {}).values())
        if kind == STRING:
            for length in self._lengths:
                channel = self._by_prefix.get(plain[:length])
                if channel is not None and len(plain) >= length:
                    found.append(channel)
        return tuple(found)

    def covering(self, constraint: Constraint) -> list[int]:
        """Return the channels of the atoms that cover the constraint."""
        values = values_of(constraint)
        if values:
            # Whatever covers the constraint contains any one of its values.
            candidates = self.containing(next(iter(values))[1])
            return [channel for channel in candidates if self._constraint_of[channel].covers(constraint)]
        return [channel for atom, channel in self.channel_of.items() if atom.covers(constraint)]

    def covered(self, constraint: Constraint) -> list[int]:
        """Return the channels of the atoms that the constraint covers."""
        return [channel for atom, channel in self.channel_of.items() if constraint.covers(atom)]

    def overlapping(self, constraint: Constraint) -> list[int]:
        """Return the channels of the atoms that overlap the constraint."""
        return [channel for atom, channel in self.channel_of.items() if atom.overlaps(constraint)]


def prefix_of(constraint: Constraint) -> str | None:
    """Return the text that exactly the strings satisfying the constraint begin with, if there is one."""
    if constraint.numbers or constraint.booleans or constraint.absent or constraint.other:
        return None
    if len(constraint.strings) != 2 or not constraint.is_plain:
        return None
    prefix = constraint.strings[0][1]
    # An event's lone surrogates lie beyond the prefix but before the cut; only text without doubt is looked up.
    if not prefix or cuts.prefix_interval(prefix) != constraint.strings or "\ud7ff" in prefix:
        return None
    return prefix


def values_of(constraint: Constraint) -> list[tuple[bool, Any]] | None:
    """Return the values that satisfy the constraint, each with whether it is a boolean; None if they are too many."""
    if constraint.absent or constraint.other or not constraint.is_plain:
        return None
    values: list[tuple[bool, Any]] = []
    for low, high in zip(constraint.strings[::2], constraint.strings[1::2], strict=True):
        if not cuts.is_string_point(low, high):
            return None
        values.append((False, low[1]))
    for (low_value, low_side), (high_value, high_side) in zip(
        constraint.numbers[::2], constraint.numbers[1::2], strict=True
    ):
        if low_value != high_value or low_side or not high_side:
            return None
        values.append((False, low_value))
    values.extend((True, bool(bit)) for bit in (0, 1) if constraint.booleans >> bit & 1)
    return values
