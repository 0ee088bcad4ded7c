"""The routing table: entries (link, key) with a filter, local ones from clients and remote ones from neighbours.

Two indexes answer everything: where an event must go, which entries a filter covers. The index of local entries belongs
to the router, because several trees share its clients; the table asks it and keeps what is its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from covey.core.filter import Filter
from covey.matching.attributes.packed import PackedEvents
from covey.matching.index import Index
from covey.routing.messages import Key, Link


class Entry(NamedTuple):
    """An entry of a table: whose interest, under which key, and what in."""

    link: Link
    key: Key
    filter: Filter


Place = tuple[Link, Key]


class Table:
    """Entries by link and key; `local` is the router's index of what clients asked for."""

    def __init__(self, local: Index) -> None:
        self._local = local
        self._remote = Index()
        self._clients: set[Link] = set()  # whose entries are in the router's index
        self._local_size = 0
        self._by_link: dict[Link, dict[Key, Filter]] = {}
        # Most filters and keys have one link: then it stands there by itself, as there may be very many.
        self._holders: dict[Filter, Link | dict[Link, int]] = {}
        self._sources: dict[Key, Link | list[Link]] = {}

    # -- changes ---------------------------------------------------------------------------------------------

    def add_local(self, link: Link, key: Key, filter: Filter) -> None:
        """Note a client's subscription, which the router's index has already."""
        self._clients.add(link)
        self._local_size += 1
        self._note(link, key, filter)

    def add(self, link: Link, key: Key, filter: Filter, *, behind: str = "") -> None:
        """Add what a neighbour asked for; `links` answers with the neighbour, or with the broker `behind` it."""
        self._remote.add((link, key), filter, behind or link)
        self._note(link, key, filter)

    def add_batch(self, link: Link, items: Iterable[tuple[Key, Filter]]) -> None:
        """Add much that a neighbour asked for."""
        items = list(items)
        self._remote.add_batch([(link, key) for key, _ in items], [f for _, f in items], [link] * len(items))
        for key, filter in items:
            self._note(link, key, filter)

    def _note(self, link: Link, key: Key, filter: Filter) -> None:
        self._by_link.setdefault(link, {})[key] = filter
        sources = self._sources.get(key)
        if sources is None:
            self._sources[key] = link
        elif isinstance(sources, str):
            self._sources[key] = [sources, link]
        else:
            sources.append(link)
        holders = self._holders.get(filter)
        if holders is None:
            self._holders[filter] = link
            return
        if isinstance(holders, str):
            holders = self._holders[filter] = {holders: 1}
        holders[link] = holders.get(link, 0) + 1

    def remove(self, link: Link, key: Key) -> Filter:
        """Remove an entry and return its filter; KeyError if there is none."""
        entries = self._by_link[link]
        filter = entries.pop(key)
        if link in self._clients:
            self._local_size -= 1
        else:
            self._remote.remove((link, key))
        if not entries:
            del self._by_link[link]
            self._clients.discard(link)
        sources = self._sources[key]
        if isinstance(sources, str) or len(sources) == 1:
            del self._sources[key]
        else:
            sources.remove(link)
        self._release(link, filter)
        return filter

    def _release(self, link: Link, filter: Filter) -> None:
        holders = self._holders[filter]
        if isinstance(holders, str):
            del self._holders[filter]
            return
        holders[link] -= 1
        if not holders[link]:
            del holders[link]
            if not holders:
                del self._holders[filter]

    # -- questions -------------------------------------------------------------------------------------------

    def get(self, link: Link, key: Key) -> Filter | None:
        """Return the filter of an entry."""
        return self._by_link.get(link, {}).get(key)

    def of_link(self, link: Link) -> dict[Key, Filter]:
        """Return the entries of a link, in the order in which they came."""
        return self._by_link.get(link, {})

    def has_source(self, key: Key, *, not_of: Link) -> bool:
        """Return whether a link other than `not_of` has an entry under the key."""
        sources = self._sources.get(key, ())
        if isinstance(sources, str):
            return sources != not_of
        return any(link != not_of for link in sources)

    def held(self, filter: Filter, *, not_by: Link) -> bool:
        """Return whether a link other than `not_by` has an entry with exactly this filter."""
        holders = self._holders.get(filter)
        if holders is None or isinstance(holders, str):
            return holders is not None and holders != not_by
        return len(holders) > 1 or not_by not in holders

    def entries(self, *, not_of: Link | None = None) -> list[Entry]:
        """Return all entries, or those of links other than `not_of`."""
        return [
            Entry(link, key, filter)
            for link, entries in self._by_link.items()
            if link != not_of
            for key, filter in entries.items()
        ]

    def remote_entries(self) -> list[Entry]:
        """Return the entries that neighbours asked for."""
        return [entry for entry in self.entries() if entry.link not in self._clients]

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
            Entry(place[0], place[1], self._by_link[place[0]][place[1]])
            for place in remote
            if place[0] != not_of
        ]
        for place in local:
            link, key = place
            # Another tree's table may have it instead.
            filter = self._by_link.get(link, {}).get(key) if link != not_of else None
            if filter is not None:
                found.append(Entry(link, key, filter))
        found.sort(key=_by_key)
        return found

    def links(self, event: object) -> set[Link]:
        """Return the neighbours to which the event must go, or the brokers behind them, as the entries were added."""
        return self._remote.links(event) if len(self._remote) else set()  # type: ignore[return-value]

    def links_packed(self, events: PackedEvents) -> tuple[Sequence[Link | None], NDArray[np.bool_]]:
        """Return links, and for each of them and each packed event whether it is among the event's `links`."""
        if not len(self._remote):
            return (), np.zeros((0, len(events)), np.bool_)
        return self._remote.links_packed(events)  # type: ignore[return-value]

    def matching(self, event: object) -> list[Place]:
        """Return the places of the remote entries that match the event."""
        return list(self._remote.match(event)) if len(self._remote) else []

    def __len__(self) -> int:
        return self._local_size + len(self._remote)


def _by_key(entry: Entry) -> tuple[Key, Link]:
    return entry.key, entry.link
