"""What each link let a broker know, for both forms of XROUTE: filters by link, with two counts each.

    own       how many subscriptions to exactly this filter there are behind the link
    others    how many to other filters, of which the broker behind the link tells us nothing else: it stands for them

Clients share one link here, LOCAL, where the same filter may be held many times and none stands for another. What a
neighbour's new filter is above is *represented* by it and dropped, since the neighbour has dropped it already: so of
what one neighbour let us know no filter is above another.

*Above* is a strict order. Filters that cover each other though they are not equal (two ways to cut one area into boxes)
are put in order by their wire forms; if each were above the other, they would make each other vanish.

Questions are asked of two indexes: one of the neighbours' filters, and the router's own of its clients'. Answers
are in a fixed order: that in which entries came, and then by client and key.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from covey.core.filter import Filter
from covey.matching.index import Index
from covey.routing.messages import Key, Link
from covey.routing.table import Place

LOCAL: Final[Link] = ""  # the name of no neighbour


def is_above(filter: Filter, other: Filter) -> bool:
    """Return whether a filter is above another one: a strict, transitive order within covering."""
    if filter == other or not filter.covers(other):
        return False
    return not other.covers(filter) or filter.encode() < other.encode()


class Held:
    """One entry: what a link let us know of one filter."""

    __slots__ = ("filter", "link", "number", "others", "own")

    def __init__(self, link: Link, filter: Filter, number: int) -> None:
        self.link = link
        self.filter = filter
        self.number = number
        self.own = 0
        self.others = 0


class LinkTable:
    """Entries by link and filter; `local` is the router's index of what clients asked for."""

    def __init__(self, local: Index) -> None:
        self._local = local
        self._places: dict[Place, Filter] = {}
        self._remote = Index()
        self._numbered: dict[int, Held] = {}
        self._next_number = 0
        self._by_link: dict[Link, dict[Filter, Held]] = {}
        self._holders: dict[Filter, dict[Link, Held]] = {}

    # -- changes ---------------------------------------------------------------------------------------------

    def add_place(self, link: Link, key: Key, filter: Filter) -> None:
        """Note a client's subscription, which the router's index has already."""
        self._places[link, key] = filter

    def remove_place(self, link: Link, key: Key) -> None:
        """Forget a client's subscription."""
        del self._places[link, key]

    def put(self, link: Link, filter: Filter, own: int, others: int) -> None:
        """Set both counts of an entry: it appears with the first of its own, and goes with the last."""
        held = self._by_link.get(link, {}).get(filter)
        if own and held is None:
            held = self._add(link, filter)
        if held is not None:
            held.own, held.others = own, others
            if not own:
                self._remove(held)

    def _add(self, link: Link, filter: Filter) -> Held:
        held = Held(link, filter, self._next_number)
        self._next_number += 1
        self._by_link.setdefault(link, {})[filter] = held
        self._holders.setdefault(filter, {})[link] = held
        if link != LOCAL:
            self._numbered[held.number] = held
            self._remote.add(held.number, filter, link)
        return held

    def _remove(self, held: Held) -> None:
        entries, holders = self._by_link[held.link], self._holders[held.filter]
        del entries[held.filter], holders[held.link]
        if not entries:
            del self._by_link[held.link]
        if not holders:
            del self._holders[held.filter]
        if held.link != LOCAL:
            del self._numbered[held.number]
            self._remote.remove(held.number)

    # -- questions -------------------------------------------------------------------------------------------

    def get(self, link: Link, filter: Filter) -> Held | None:
        """Return the entry of a link and a filter."""
        return self._by_link.get(link, {}).get(filter)

    def of_link(self, link: Link) -> list[Held]:
        """Return the entries of a link, in the order in which they came."""
        return list(self._by_link.get(link, {}).values())

    def filters(self, *, not_of: Link) -> list[Filter]:
        """Return the distinct filters of links other than `not_of`."""
        return [filter for filter in self._holders if self.held(filter, not_by=not_of)]

    def held(self, filter: Filter, *, not_by: Link) -> bool:
        """Return whether a link other than `not_by` has an entry with exactly this filter."""
        holders = self._holders.get(filter)
        return holders is not None and (len(holders) > 1 or not_by not in holders)

    def counts(self, filter: Filter, *, not_of: Link) -> tuple[int, int]:
        """Return the sums of both counts of a filter over links other than `not_of`."""
        entries = [held for link, held in self._holders.get(filter, {}).items() if link != not_of]
        return sum(held.own for held in entries), sum(held.others for held in entries)

    def represented(self, link: Link, filter: Filter) -> list[Held]:
        """Return what a neighbour let us know that its filter is above."""
        if link == LOCAL:
            return []
        found = self._found(self._remote.covered(filter))
        return [held for held in found if held.link == link and self.is_above(filter, held.filter)]

    def is_above(self, filter: Filter, other: Filter) -> bool:
        """Return whether a filter is above another one."""
        return is_above(filter, other)

    def covered(self, filter: Filter, *, not_of: Link) -> list[Filter]:
        """Return the distinct filters, of links other than `not_of`, that a filter covers."""
        return self._distinct(self._remote.covered(filter), self._local.covered(filter), not_of)

    def overlapping(self, filter: Filter, *, not_of: Link) -> list[Filter]:
        """Return the distinct filters, of links other than `not_of`, that overlap a filter."""
        return self._distinct(self._remote.overlapping(filter), self._local.overlapping(filter), not_of)

    def _distinct(self, remote: Iterable[int], local: Iterable[Place], not_of: Link) -> list[Filter]:
        found = [held.filter for held in self._found(remote) if held.link != not_of]
        found += [self._places[place] for place in sorted(local) if place in self._places]
        return list(dict.fromkeys(found))

    def _found(self, numbers: Iterable[int]) -> list[Held]:
        return [self._numbered[number] for number in sorted(numbers)]

    @property
    def remote(self) -> Index:
        """The index of what neighbours asked for, with their links."""
        return self._remote

    def links(self, event: object) -> set[Link]:
        """Return the neighbours to which the event must go."""
        return self._remote.links(event)  # type: ignore[return-value]

    def __len__(self) -> int:
        return sum(map(len, self._by_link.values()))
