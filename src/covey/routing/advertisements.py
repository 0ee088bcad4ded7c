"""What producers behind each link may publish: the other half of a routing table.

A subscription goes towards a neighbour only if an advertisement from there overlaps it. The question is asked for every
new subscription; the first advertisement that overlaps it is answer enough.

What is known from the other links a neighbour is told, reduced if the network is set so (`strategies.advertisements`):
all that matters there is what overlaps what is told, so what is told may be any filters that match the same events.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from covey.core.filter import Filter
from covey.errors import ConfigError
from covey.matching.index import Index
from covey.routing.digest import Fact
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

    def remove(self, link: Link, key: Key) -> Advertisement | None:
        """Remove an advertisement and return it, None if there is none."""
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
        return removed

    def has_source(self, key: Key, *, not_of: Link) -> bool:
        """Return whether an advertisement is known from a link other than `not_of`."""
        return any(link != not_of for link in self._links_of.get(key, ()))

    def of_link(self, link: Link) -> dict[Key, Advertisement]:
        """Return the advertisements from a link."""
        return self._by_link.get(link, {})

    def not_of(self, link: Link) -> list[tuple[Link, Key]]:
        """Return where the advertisements from all other links are: link and key."""
        return [(other, key) for other, known in self._by_link.items() if other != link for key in known]

    def get(self, link: Link, key: Key) -> Advertisement | None:
        """Return an advertisement, None if there is none."""
        return self._by_link.get(link, {}).get(key)

    def covered(self, filter: Filter, *, not_of: Link) -> list[tuple[Key, Advertisement]]:
        """Return the advertisements from other links that the filter covers, ordered by key."""
        found = {
            key: self._by_link[link][key]
            for link, index in self._indexes.items()
            if link != not_of
            for key in index.covered(filter)
        }
        return sorted(found.items())

    def overlap(self, link: Link, filter: Filter) -> bool:
        """Return whether a producer behind the link may publish what the filter matches."""
        index = self._indexes.get(link)
        return index is not None and index.overlaps(filter)

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


class Announcement(NamedTuple):
    """What a neighbour is to be told: these, then that those are withdrawn."""

    entered: list[Fact]
    left: list[Key]


class Teller(ABC):
    """What one neighbour is told of the advertisements from all other links."""

    @abstractmethod
    def came(self, key: Key, advertisement: Advertisement) -> Announcement:
        """Another link has an advertisement now; it may have come from a second link."""

    @abstractmethod
    def left(self, key: Key, advertisement: Advertisement) -> Announcement:
        """Another link has it no more."""

    @abstractmethod
    def facts(self) -> Iterator[Fact]:
        """Return what the neighbour knows, as it is now, whatever happens while one looks at it."""


MakeTeller = Callable[[Advertisements, Link, bool], Teller]  # the last: of each publisher by itself

NONE: Final = "none"
WAYS: Final = (NONE, "identity", "covering", "merging")
_MAKERS: dict[str, MakeTeller] = {}


def register_reduction(name: str, make: MakeTeller) -> None:
    """Say what makes the tellers of one of the `WAYS`."""
    assert name in WAYS, name
    assert name not in _MAKERS, name
    _MAKERS[name] = make


def reduction(name: str) -> MakeTeller:
    """Return what makes the tellers of a way to reduce advertisements; ConfigError for a name that is none."""
    if name not in _MAKERS:
        raise ConfigError(f"advertisements are not reduced by {name!r:.40} (hint: one of {', '.join(WAYS)})")
    return _MAKERS[name]
