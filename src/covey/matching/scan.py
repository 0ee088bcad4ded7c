"""The oracle of all indexes: a dictionary of filters, each asked in turn.

Slow and obvious on purpose. Every index gives exactly these answers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from covey.core.filter import Filter


class ScanIndex:
    """Filters by key, with the questions of `Index` answered one filter at a time."""

    def __init__(self) -> None:
        self._filters: dict[Hashable, Filter] = {}
        self._links: dict[Hashable, Hashable] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def add(self, key: Hashable, filter: Filter, link: Hashable = None) -> None:
        """Add a filter under a new key."""
        if key in self._filters:
            raise ValueError(f"key {key!r} is in the index already")
        self._filters[key] = filter
        self._links[key] = link

    def remove(self, key: Hashable) -> None:
        """Remove a key; KeyError if it is not there."""
        del self._filters[key]
        del self._links[key]

    def filter(self, key: Hashable) -> Filter:
        """Return the filter of a key; KeyError if it is not there."""
        return self._filters[key]

    def match(self, event: object) -> set[Hashable]:
        """Return the keys of filters that match the event."""
        return {key for key, filter in self._filters.items() if filter.matches(event)}

    def match_batch(self, events: Iterable[object]) -> list[set[Hashable]]:
        """Return the keys of filters that match each event."""
        return [self.match(event) for event in events]

    def links(self, event: object) -> set[Hashable]:
        """Return the links of filters that match the event."""
        return {self._links[key] for key in self.match(event)} - {None}

    def covering(self, filter: Filter) -> set[Hashable]:
        """Return the keys of filters that cover the given one."""
        return {key for key, other in self._filters.items() if other.covers(filter)}

    def covered(self, filter: Filter) -> set[Hashable]:
        """Return the keys of filters that the given one covers."""
        return {key for key, other in self._filters.items() if filter.covers(other)}

    def overlapping(self, filter: Filter) -> set[Hashable]:
        """Return the keys of filters that overlap the given one."""
        return {key for key, other in self._filters.items() if filter.overlaps(other)}
