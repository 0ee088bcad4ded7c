"""Kept subscriptions: what a neighbour was told, was left by everyone here, and was not withdrawn.

The broker that stopped an unsubscription on its way to a neighbour U owns what it kept there: the pair (broker, U). No
client owns it, and further on it looks like any other subscription. Its owner judges it by two numbers, of the events
that come from U and that it matches: how many, and how many of them nobody here wants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from covey.core.filter import Filter
from covey.matching.index import Index
from covey.routing.messages import Key

Distances = Mapping[str, tuple[float, ...]]  # by publisher, the critical distance of each tier

_ROUNDING = 1e-9  # 1 - 0.9 is a little less than 0.1 to a computer


@dataclass(slots=True)
class Kept:
    """A subscription that is kept towards one neighbour.

    distances   as they came with the unsubscription
    similarity  what was promised of it: that it has this, at least
    held        only congestion keeps it; it is decided upon when that is over
    spare       how many of the subscriptions that it quenches may leave before there are too few, at least
    """

    key: Key
    filter: Filter
    distances: Distances
    similarity: float
    held: bool
    spare: int
    matched: int = 0
    unwanted: int = 0

    def judge(self, wanted: bool, events: int) -> bool:
        """Count an event; return whether too many of the `events` of this window turn out to be for nobody."""
        self.matched += 1
        self.unwanted += not wanted
        if self.unwanted > (1.0 - self.similarity) * events + _ROUNDING:
            return True
        if self.matched >= events:
            self.begin_window()
        return False

    def begin_window(self) -> None:
        """Count anew."""
        self.matched = self.unwanted = 0


class KeptTowards:
    """What is kept towards one neighbour, in the order in which it was."""

    def __init__(self) -> None:
        self._kept: dict[Key, Kept] = {}
        self._index: Index | None = None  # most brokers keep nothing, and an index takes room

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: Key) -> bool:
        return key in self._kept

    def __getitem__(self, key: Key) -> Kept:
        return self._kept[key]

    def all(self) -> list[Kept]:
        """Return everything that is kept, the oldest first."""
        return list(self._kept.values())

    def add(self, kept: Kept) -> None:
        """Keep a subscription."""
        if self._index is None:
            self._index = Index()
        self._index.add(kept.key, kept.filter)
        self._kept[kept.key] = kept

    def remove(self, key: Key) -> Kept | None:
        """Keep it no more; return it, or None if it was not kept."""
        kept = self._kept.pop(key, None)
        if kept is not None and self._index is not None:
            self._index.remove(key)
        return kept

    def overlapping(self, filter: Filter) -> list[Key]:
        """Return what overlaps the filter, ordered by key."""
        return sorted(self._index.overlapping(filter)) if self._kept and self._index is not None else []

    def covering(self, filter: Filter) -> list[Key]:
        """Return what covers the filter, ordered by key."""
        return sorted(self._index.covering(filter)) if self._kept and self._index is not None else []

    def matching(self, event: object) -> list[Key]:
        """Return what matches the event, ordered by key."""
        return sorted(self._index.match(event)) if self._kept and self._index is not None else []
