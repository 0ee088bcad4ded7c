"""The routing table: entries (link, key) with a filter, local ones from clients and remote ones from neighbours.

Two indexes answer everything: where an event must go, which entries a filter covers. What clients asked for, and the
index of it, belong to the router, because several trees share its clients; the table asks there and keeps what is its
own. Filters are kept compact. Who holds a filter, and whose a key is, is counted from the first time somebody asks: a
broker may have very many subscriptions and nobody to tell of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from covey.core.filter import Filter
from covey.matching.index import Index
from covey.routing.messages import Key, Link


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
        # Most filters and keys have one link: then it stands there by itself, as there may be very many.
        self._holders: dict[Filter, Link | dict[Link, int]] | None = None
        self._sources: dict[Key, Link | list[Link]] | None = None

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
            _add_source(self._sources, link, key)
        if self._holders is not None:
            _add_holder(self._holders, link, filter)

    def _forget(self, link: Link, key: Key, filter: Filter) -> None:
        if self._sources is not None:
            sources = self._sources[key]
            if isinstance(sources, str) or len(sources) == 1:
                del self._sources[key]
            else:
                sources.remove(link)
        if self._holders is not None:
            holders = self._holders[filter]
            if isinstance(holders, str):
                del self._holders[filter]
                return
            holders[link] -= 1
            if not holders[link]:
                del holders[link]
                if not holders:
                    del self._holders[filter]

    def count_holders(self) -> None:
        """Count from now on who holds which filter, as `held` does when it is first asked."""
        if self._holders is None:
            self._holders = {}
            for link, _, filter in self.entries():
                _add_holder(self._holders, link, filter)

    # -- questions -------------------------------------------------------------------------------------------

    def get(self, link: Link, key: Key) -> Filter | None:
        """Return the filter of a neighbour's entry."""
        return self._neighbours.get(link, {}).get(key)

    def of_link(self, link: Link) -> dict[Key, Filter]:
        """Return the entries of a neighbour, in the order in which they came."""
        return self._neighbours.get(link, {})

    def has_source(self, key: Key, *, not_of: Link) -> bool:
        """Return whether a link other than `not_of` has an entry under the key."""
        if self._sources is None:
            self._sources = {}
            for entry in self.entries():
                _add_source(self._sources, entry.link, entry.key)
        sources = self._sources.get(key, ())
        if isinstance(sources, str):
            return sources != not_of
        return any(link != not_of for link in sources)

    def held(self, filter: Filter, *, not_by: Link) -> bool:
        """Return whether a link other than `not_by` has an entry with exactly this filter."""
        self.count_holders()
        assert self._holders is not None, "they are counted now"
        holders = self._holders.get(filter)
        if holders is None or isinstance(holders, str):
            return holders is not None and holders != not_by
        return len(holders) > 1 or not_by not in holders

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


def _add_source(known: dict[Key, Link | list[Link]], link: Link, key: Key) -> None:
    sources = known.get(key)
    if sources is None:
        known[key] = link
    elif isinstance(sources, str):
        known[key] = [sources, link]
    else:
        sources.append(link)


def _add_holder(known: dict[Filter, Link | dict[Link, int]], link: Link, filter: Filter) -> None:
    holders = known.get(filter)
    if holders is None:
        known[filter] = link
        return
    if isinstance(holders, str):
        holders = known[filter] = {holders: 1}
    holders[link] = holders.get(link, 0) + 1


def _by_key(entry: Entry) -> tuple[Key, Link]:
    return entry.key, entry.link
