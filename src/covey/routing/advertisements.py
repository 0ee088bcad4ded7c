"""What producers behind each link may publish: the other half of a routing table.

A subscription goes towards a neighbour only if an advertisement from there overlaps it. The question is asked for every
new subscription, so it is first asked the quick way: an advertisement that covers the filter certainly overlaps it.
"""

from __future__ import annotations

from typing import NamedTuple

from covey.core.filter import Filter
from covey.matching.index import Index
from covey.routing.messages import Key, Link


class Advertisement(NamedTuple):
    """What a producer announced, and the producer's name."""

    filter: Filter
    publisher: str


class Advertisements:
    """Advertisements by link and key."""

    def __init__(self) -> None:
        self._by_link: dict[Link, dict[Key, Advertisement]] = {}
        self._indexes: dict[Link, Index] = {}
        self._links_of: dict[Key, tuple[Link, ...]] = {}  # one, except while links form a passing cycle

    def add(self, link: Link, key: Key, filter: Filter, publisher: str) -> bool:
        """Add an advertisement; return whether it is new."""
        known = self._by_link.setdefault(link, {})
        if key in known:
            return False
        known[key] = Advertisement(filter, publisher)
        self._links_of[key] = (*self._links_of.get(key, ()), link)
        self._indexes.setdefault(link, Index()).add(key, filter)
        return True

    def remove(self, link: Link, key: Key) -> Filter | None:
        """Remove an advertisement and return its filter, None if there is none."""
        known = self._by_link.get(link, {})
        removed = known.pop(key, None)
        if removed is None:
            return None
        links = tuple(other for other in self._links_of.pop(key) if other != link)
        if links:
            self._links_of[key] = links
        if not known:
            del self._by_link[link]
            del self._indexes[link]
        else:
            self._indexes[link].remove(key)
        return removed.filter

    def links_of(self, key: Key) -> tuple[Link, ...]:
        """Return the links from which an advertisement is known."""
        return self._links_of.get(key, ())

    def of_link(self, link: Link) -> dict[Key, Advertisement]:
        """Return the advertisements from a link."""
        return self._by_link.get(link, {})

    def not_of(self, link: Link) -> list[tuple[Key, Advertisement]]:
        """Return the advertisements from all other links."""
        return [item for other, known in self._by_link.items() if other != link for item in known.items()]

    def overlap(self, link: Link, filter: Filter) -> bool:
        """Return whether a producer behind the link may publish what the filter matches."""
        index = self._indexes.get(link)
        return index is not None and (index.covers(filter) or bool(index.overlapping(filter)))

    def publishers(self, link: Link, filter: Filter) -> list[str]:
        """Return the producers behind the link that may publish what the filter matches, ordered by name."""
        known, index = self.of_link(link), self._indexes.get(link)
        return [] if index is None else sorted({known[key].publisher for key in index.overlapping(filter)})

    def match(self, link: Link, event: object) -> bool:
        """Return whether the event is within an advertisement from the link."""
        index = self._indexes.get(link)
        return index is not None and bool(index.match(event))

    def index_of(self, link: Link) -> Index | None:
        """Return an index of the advertisements from the link; None if there are none."""
        return self._indexes.get(link)
