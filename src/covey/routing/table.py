"""The routing table: entries (link, key) with a filter, local ones from clients and remote ones from neighbours.

Two indexes answer everything: where an event must go, which entries a filter covers. What clients asked for, and the
index of it, belong to the router, because several trees share its clients; the table asks there and keeps what is its
own. Filters are kept compact. Who holds a filter, and whose a key is, is counted from the first time somebody asks: a
broker may have very many subscriptions and nobody to tell of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Final, NamedTuple

from covey.core.filter import Filter
from covey.matching.index import Index
from covey.routing.messages import Key, Link
from covey.routing.work import BATCH, WHOLE, Job, Work, ordered

COUNT_UNITS: Final = 1  # of work, to count an entry


class Entry(NamedTuple):
    """An entry of a table: whose interest, under which key, and what in."""

    link: Link
    key: Key
    filter: Filter


Place = tuple[Link, Key]


class Table:
    """Entries by link and key.

    `local` is the router's index of what clients asked for. `clients` has those of its entries that are this table's,
    by link and key; the table sees there what the router changes.
    """

    def __init__(self, local: Index, clients: Mapping[Link, Mapping[Key, Filter]]) -> None:
        self._local = local
        self._clients = clients
        self._remote = Index()
        self._neighbours: dict[Link, dict[Key, Filter]] = {}
        self._holders: _Counts | None = None  # by filter
        self._sources: _Counts | None = None  # by key

    # -- changes ---------------------------------------------------------------------------------------------

    def added(self, link: Link, key: Key) -> None:
        """Count a client's subscription, which is in `local` and `clients` already."""
        if self._holders is not None or self._sources is not None:
            self._note(link, key, self._clients[link][key])

    def removed(self, link: Link, key: Key, filter: Filter) -> None:
        """Count a client's subscription no more, which `local` and `clients` have no more."""
        self._forget(link, key, filter)

    def add(self, link: Link, key: Key, filter: Filter, *, behind: str = "") -> None:
        """Add what a neighbour asked for; `links` answers with the neighbour, or with the broker `behind` it."""
        filter = filter.compact()
        self._remote.add((link, key), filter, behind or link)
        self._neighbours.setdefault(link, {})[key] = filter
        self._note(link, key, filter)

    def remove(self, link: Link, key: Key) -> Filter:
        """Remove what a neighbour asked for and return its filter; KeyError if there is none."""
        entries = self._neighbours[link]
        filter = entries.pop(key)
        self._remote.remove((link, key))
        if not entries:
            del self._neighbours[link]
        self._forget(link, key, filter)
        return filter

    def _note(self, link: Link, key: Key, filter: Filter) -> None:
        if self._sources is not None:
            self._sources.add(link, key, key)
        if self._holders is not None:
            self._holders.add(link, key, filter)

    def _forget(self, link: Link, key: Key, filter: Filter) -> None:
        if self._sources is not None:
            self._sources.remove(link, key, key)
        if self._holders is not None:
            self._holders.remove(link, key, filter)

    def counting(self, *, keys: bool = False) -> Job:
        """Count from now on who holds which filter, or whose a key is: what `held` or `has_source` ask for."""
        counts = self._count_keys() if keys else self._count_filters()
        while counts.uncounted:
            yield COUNT_UNITS * counts.count(BATCH)

    def _count_filters(self) -> _Counts:
        if self._holders is None:
            self._holders = _Counts(self._snapshot(), by_key=False)
        return self._holders

    def _count_keys(self) -> _Counts:
        if self._sources is None:
            self._sources = _Counts(self._snapshot(), by_key=True)
        return self._sources

    def _snapshot(self) -> dict[Link, dict[Key, Filter]]:
        of_links = (self._clients, self._neighbours)
        return {link: dict(entries) for some in of_links for link, entries in some.items() if entries}

    def preparing(self) -> Job:
        """Make what `covered` needs to answer quickly."""
        yield from self._local.preparing()
        yield from self._remote.preparing()

    # -- questions -------------------------------------------------------------------------------------------

    def get(self, link: Link, key: Key) -> Filter | None:
        """Return the filter of a neighbour's entry."""
        return self._neighbours.get(link, {}).get(key)

    def of_link(self, link: Link) -> dict[Key, Filter]:
        """Return the entries of a neighbour, in the order in which they came."""
        return self._neighbours.get(link, {})

    def has_source(self, key: Key, *, not_of: Link) -> bool:
        """Return whether a link other than `not_of` has an entry under the key."""
        return self._count_keys().has(key, not_of)

    def held(self, filter: Filter, *, not_by: Link) -> bool:
        """Return whether a link other than `not_by` has an entry with exactly this filter."""
        return self._count_filters().has(filter, not_by)

    def filter_at(self, place: Place) -> Filter | None:
        """Return the filter of an entry, None if there is none."""
        link, key = place
        entries = self._neighbours.get(link) or self._clients.get(link, {})
        return entries.get(key)

    def places(self, *, not_of: Link) -> Iterator[Place]:
        """Return where the entries of other links are now, whatever changes while one looks at them."""
        some = [
            (link, list(entries))
            for of_links in (self._clients, self._neighbours)
            for link, entries in of_links.items()
            if link != not_of
        ]
        return ((link, key) for link, keys in some for key in keys)

    def places_overlapping(self, filter: Filter, *, not_of: Link) -> Iterator[Place]:
        """Return where the entries of other links are that overlap the filter, likewise."""
        remote = self._remote.overlapping(filter) if len(self._remote) else ()
        return (
            place
            for some in (remote, self._local.overlapping(filter))
            for place in some
            if place[0] != not_of
        )

    def entries(self, *, not_of: Link | None = None) -> list[Entry]:
        """Return all entries, or those of links other than `not_of`."""
        return [
            Entry(link, key, filter)
            for of_links in (self._clients, self._neighbours)
            for link, entries in of_links.items()
            if link != not_of
            for key, filter in entries.items()
        ]

    def remote_entries(self) -> list[Entry]:
        """Return the entries that neighbours asked for."""
        return [
            Entry(link, key, filter)
            for link, entries in self._neighbours.items()
            for key, filter in entries.items()
        ]

    def covered(self, filter: Filter, *, not_of: Link) -> list[Entry]:
        """Return the entries that the filter covers, of links other than `not_of`, ordered by key and link."""
        remote = self._remote.covered(filter) if len(self._remote) else ()
        return self._found(remote, self._local.covered(filter), not_of)

    def overlapping(self, filter: Filter, *, not_of: Link) -> list[Entry]:
        """Return the entries that overlap the filter, of links other than `not_of`, ordered by key and link."""
        remote = self._remote.overlapping(filter) if len(self._remote) else ()
        return self._found(remote, self._local.overlapping(filter), not_of)

    def _found(self, remote: Iterable[Place], local: Iterable[Place], not_of: Link) -> list[Entry]:
        found = [
            Entry(place[0], place[1], self._neighbours[place[0]][place[1]])
            for place in remote
            if place[0] != not_of
        ]
        for place in local:
            link, key = place
            # Another tree's table may have it instead.
            filter = self._clients.get(link, {}).get(key) if link != not_of else None
            if filter is not None:
                found.append(Entry(link, key, filter))
        found.sort(key=_by_key)
        return found

    def links(self, event: object) -> set[Link]:
        """Return the neighbours to which the event must go, or the brokers behind them, as the entries were added."""
        return self._remote.links(event) if len(self._remote) else set()  # type: ignore[return-value]

    @property
    def remote(self) -> Index:
        """The index of what neighbours asked for; an entry's link is what `links` answers with."""
        return self._remote

    def matching(self, event: object) -> list[Place]:
        """Return the places of the remote entries that match the event."""
        return list(self._remote.match(event)) if len(self._remote) else []

    def __len__(self) -> int:
        return sum(map(len, self._clients.values())) + len(self._remote)


class _Counts:
    """The links that have something, a filter or a key, with how many entries each has of it.

    What was there before is counted a little at a time, or all at once by the first question.
    """

    def __init__(self, entries: dict[Link, dict[Key, Filter]], *, by_key: bool) -> None:
        # Most filters and keys have one link: then it stands there by itself, as there may be very many.
        self._links: dict[Hashable, Link | dict[Link, int]] = {}
        self._by_key = by_key
        self.uncounted = entries

    def count(self, most: int) -> int:
        """Count at most so many of the entries of before; return how many."""
        done = 0
        while self.uncounted and done < most:
            link, entries = next(iter(self.uncounted.items()))
            while entries and done < most:
                key, filter = entries.popitem()
                self.add(link, key, key if self._by_key else filter)
                done += 1
            if not entries:
                del self.uncounted[link]
        return done

    def add(self, link: Link, key: Key, what: Hashable) -> None:
        """Count an entry that has come."""
        links = self._links.get(what)
        if links is None:
            self._links[what] = link
            return
        if isinstance(links, str):
            links = self._links[what] = {links: 1}
        links[link] = links.get(link, 0) + 1

    def remove(self, link: Link, key: Key, what: Hashable) -> None:
        """Count an entry that has gone no more."""
        if self.uncounted and self.uncounted.get(link, {}).pop(key, None) is not None:
            return
        links = self._links[what]
        if isinstance(links, str):
            del self._links[what]
            return
        links[link] -= 1
        if not links[link]:
            del links[link]
            if not links:
                del self._links[what]

    def has(self, what: Hashable, not_by: Link) -> bool:
        """Return whether a link other than `not_by` has it."""
        if self.uncounted:
            self.count(WHOLE)
        links = self._links.get(what)
        if links is None or isinstance(links, str):
            return links is not None and links != not_by
        return len(links) > 1 or not_by not in links


def in_order(places: Iterable[Place]) -> Work[Iterator[Place]]:
    """Return places ordered by key and link."""
    return ordered(places, _key_and_link)


_key_and_link = itemgetter(1, 0)


def _by_key(entry: Entry) -> tuple[Key, Link]:
    return entry.key, entry.link
