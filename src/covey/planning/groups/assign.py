"""Where subscriptions go that the sample says nothing about.

A subscription that matches no sampled document is like no other and costs nothing anywhere on the sample: as a group
of its own it would look free, and on fresh documents it would not be. It follows a class of subscriptions that do
match, and so goes with it through all merges: the class with which it shares most of its words, among these the
nearest in the overlay (mean distance of hosts), among these the first. Idle subscriptions that ask for the same words
stay together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from covey.matching.jit import Floats, Ints
from covey.planning.groups.model import Words
from covey.planning.paths import AllPaths


def settled(paths: AllPaths, hosts: Ints, classes: Ints, count: int, words: Words | None) -> Ints:
    """Return the class of each subscription, with one for those that had none (-1); 0 for all if there is no class."""
    idle = np.flatnonzero(classes < 0)
    if not len(idle):
        return classes
    if not count:
        return np.zeros(len(classes), np.int32)
    found = classes.copy()
    mean = _MeanDistance(paths, hosts, classes, count)
    shared = _SharedWords(classes, count, words)
    for unit in _units(idle.tolist(), hosts, words):
        choice = shared.closest(unit)
        found[unit] = choice[np.argmin(mean.to(hosts[unit])[choice])]
    return found


def _units(idle: Iterable[int], hosts: Ints, words: Words | None) -> list[list[int]]:
    """Return subscriptions that go together: with the same words, or else on the same broker."""
    units: dict[Hashable, list[int]] = defaultdict(list)
    for subscription in idle:
        mine = words[subscription] if words is not None else frozenset()
        units[mine or int(hosts[subscription])].append(subscription)
    return list(units.values())


class _MeanDistance:
    """How far classes are from some hosts, each with each, on average."""

    def __init__(self, paths: AllPaths, hosts: Ints, classes: Ints, count: int) -> None:
        active = np.flatnonzero(classes >= 0)
        order = active[np.argsort(classes[active], kind="stable")]
        self._distance = paths.distance
        self._hosts = hosts[order]
        self._sizes = np.bincount(classes[active], minlength=count)
        self._starts = np.cumsum(self._sizes) - self._sizes

    def to(self, hosts: Ints) -> Floats:
        far = self._distance[hosts].sum(axis=0, dtype=np.float64)
        return np.asarray(np.add.reduceat(far[self._hosts], self._starts) / self._sizes, np.float64)


class _SharedWords:
    """Which classes share most words with some subscriptions: words in common over words in either."""

    def __init__(self, classes: Ints, count: int, words: Words | None) -> None:
        self._words = words
        self._all = np.arange(count)
        self._sets: list[set[Hashable]] = [set() for _ in range(count)]
        self._having: dict[Hashable, set[int]] = defaultdict(set)
        if words is not None:
            for label, mine in zip(classes.tolist(), words, strict=True):
                if label >= 0:
                    self._sets[label] |= mine
                    for word in mine:
                        self._having[word].add(label)

    def closest(self, unit: Sequence[int]) -> Ints:
        """Return the classes that share most, all of them if none shares any, in their order."""
        mine = self._words[unit[0]] if self._words is not None else frozenset()
        near = {label for word in mine for label in self._having.get(word, ())}
        if not near:
            return self._all.astype(np.int32)
        alike = {label: len(mine & self._sets[label]) / len(mine | self._sets[label]) for label in near}
        best = max(alike.values())
        return np.array(sorted(label for label in near if alike[label] == best), np.int32)
