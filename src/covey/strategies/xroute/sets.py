"""XROUTE's set-based form: the same tables as `xroute`, without counts and with fewer messages.

Counts decide nothing about where an event goes. Without them a broker keeps sets, and a change stops where it makes no
difference to what the next neighbour was told:

    table[L]    what link L let us know
    told[U]     the maximal ones of what other links let us know and U wants

A message is `Change(removed, added)`: filters that leave the sender's set, then filters that enter it, carried out
together. What an added one covers is dropped by the receiver itself and is not named. What a removed one alone covered
comes in the same message, so that nothing is lost in between and brokers further on see one change, not two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from covey.core.filter import Filter
from covey.matching.index import Index
from covey.routing.digest import Fact
from covey.routing.messages import Change, Key, Link, Message
from covey.routing.strategy import Site, Strategy, register, unexpected
from covey.routing.work import Job
from covey.strategies.maximal import maximal
from covey.strategies.xroute.table import LOCAL, LinkTable


class Advertised:
    """What one neighbour was told: filters, none of which is above another."""

    def __init__(self, table: LinkTable) -> None:
        self.filters: dict[Filter, int] = {}
        self._numbered: dict[int, Filter] = {}
        self._index = Index()
        self._next_number = 0
        self._table = table

    def add(self, filter: Filter) -> None:
        """Add a filter that nothing here is above, in the place of those that it is above."""
        for number in sorted(self._index.covered(filter)):
            if self._table.is_above(filter, self._numbered[number]):
                self.remove(self._numbered[number])
        number = self.filters[filter] = self._next_number
        self._next_number += 1
        self._numbered[number] = filter
        self._index.add(number, filter)

    def remove(self, filter: Filter) -> None:
        """Remove a filter."""
        number = self.filters.pop(filter)
        del self._numbered[number]
        self._index.remove(number)

    def suffices(self, filter: Filter) -> bool:
        """Return whether a filter, or one above it, was told."""
        if filter in self.filters:
            return True
        if not self._index.covers(filter):
            return False
        return any(
            self._table.is_above(self._numbered[number], filter) for number in self._index.covering(filter)
        )


class XRouteSets(Strategy):
    """A set for each link, and a set of what each neighbour was told."""

    name = "xroute-sets"
    dialect = "xroute-sets"
    description = "the same tables as xroute, by sets without counts: fewer messages"

    table_type = LinkTable

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.table = self.table_type(site.local)
        self._told: dict[Link, Advertised] = {}

    # -- interest --------------------------------------------------------------------------------------------

    def subscribe(self, link: Link, key: Key, filter: Filter) -> None:
        """Count a client's subscription; the first one to a filter is a change."""
        self.table.add_place(link, key, filter)
        held = self.table.get(LOCAL, filter)
        if held is not None:
            self.table.put(LOCAL, filter, held.own + 1, 0)
        else:
            self._change(LOCAL, (), (filter,))

    def unsubscribe(self, link: Link, key: Key, filter: Filter) -> None:
        """Count a client's subscription no more; the last one to a filter is a change."""
        self.table.remove_place(link, key)
        held = self.table.get(LOCAL, filter)
        assert held is not None
        if held.own > 1:
            self.table.put(LOCAL, filter, held.own - 1, 0)
        else:
            self._change(LOCAL, (filter,), ())

    def receive(self, link: Link, message: Message) -> None:
        """Handle what a neighbour says."""
        if not isinstance(message, Change):
            raise unexpected(message, self)
        self._change(link, message.removed, message.added)

    def _change(self, link: Link, removed: Iterable[Filter], added: Iterable[Filter]) -> None:
        """Change the set of a link, then tell the other neighbours what that means for them."""
        gone: dict[Filter, None] = dict.fromkeys(removed)
        came: dict[Filter, None] = {}
        for filter in gone:
            self.table.put(link, filter, 0, 0)
        for filter in added:
            for lower in self.table.represented(link, filter):
                self.table.put(link, lower.filter, 0, 0)
                came.pop(lower.filter, None)
                gone[lower.filter] = None
            self.table.put(link, filter, 1, 0)
            came[filter] = None
            gone.pop(filter, None)
        triggered: set[Filter] = set()
        for neighbour in self.site.neighbours():
            if neighbour != link:
                triggered.update(self._follow(neighbour, gone, came))
        self.site.counters["triggered"] += len(triggered)

    def _follow(self, link: Link, gone: Iterable[Filter], came: Iterable[Filter]) -> list[Filter]:
        """Tell a neighbour what it means that filters go and others come; return what the going triggered."""
        told = self._told[link]
        withdrawn = [
            filter for filter in gone if filter in told.filters and not self.table.held(filter, not_by=link)
        ]
        for filter in withdrawn:
            told.remove(filter)
        return self._tell(link, withdrawn, {**dict.fromkeys(came), **self._covered(link, withdrawn)})

    def _covered(self, link: Link, filters: Iterable[Filter]) -> dict[Filter, None]:
        found = (self.table.covered(filter, not_of=link) for filter in filters)
        return {other: None for covered in found for other in covered}

    def _tell(self, link: Link, withdrawn: Sequence[Filter], candidates: Iterable[Filter]) -> list[Filter]:
        """Tell a neighbour what goes and what comes: the maximal candidates that it wants, unless what it has suffices.

        Return what comes if it comes instead of something.
        """
        told = self._told[link]
        missing = [
            ("", filter)
            for filter in candidates
            if not told.suffices(filter) and self.site.wanted(link, filter)
        ]
        added = self.maximal(missing)
        for filter in added:
            told.add(filter)
        removed = tuple(filter for filter in withdrawn if not told.suffices(filter))
        if removed or added:
            self.site.send(link, Change(removed, tuple(added), self.site.tree))
        return added if removed else []

    def maximal(self, items: Sequence[tuple[Key, Filter]]) -> list[Filter]:
        """Return the filters that none of the others is above."""
        ordered = sorted(items, key=lambda item: item[1].encode()) if len(items) > 1 else items
        return [filter for _, filter in maximal(ordered)]

    # -- advertisements --------------------------------------------------------------------------------------

    def advertised(self, link: Link, filter: Filter) -> Job:
        """Tell the neighbour what it wants now."""
        self._tell(link, (), self.table.overlapping(filter, not_of=link))
        yield 0

    def unadvertised(self, link: Link, filter: Filter) -> Job:
        """Withdraw what the neighbour wants no more; nothing is uncovered by that, as a rule."""
        told = self._told[link]
        found = [
            other
            for other in self.table.overlapping(filter, not_of=link)
            if not self.site.wanted(link, other)
        ]
        withdrawn = [other for other in found if other in told.filters]
        for other in withdrawn:
            told.remove(other)
        self._tell(link, withdrawn, self._covered(link, withdrawn))
        yield 0

    # -- links -----------------------------------------------------------------------------------------------

    def opening(self, link: Link) -> Job:
        """Tell the neighbour the maximal ones of what it wants, all at once."""
        told = self._told[link] = Advertised(self.table)
        wanted = [("", f) for f in self.table.filters(not_of=link) if self.site.wanted(link, f)]
        for filter in self.maximal(wanted):
            told.add(filter)
        yield 0

    def learn(self, link: Link, facts: Sequence[Fact]) -> None:
        """Take the facts as the neighbour's set."""
        self._change(link, (), [fact.filter for fact in facts])

    def unlearn(self, link: Link, facts: Sequence[Fact]) -> None:
        """Take the facts out of the neighbour's set, as far as nothing else has replaced them there."""
        known = [fact.filter for fact in facts if self.table.get(link, fact.filter) is not None]
        self._change(link, known, ())

    def close(self, link: Link) -> Job:
        """Forget what the neighbour was told."""
        del self._told[link]
        return iter(())

    # -- events ----------------------------------------------------------------------------------------------

    def next_hops(self, event: object) -> Iterable[Link]:
        """Return the neighbours that have a matching entry."""
        return self.table.links(event)

    def next_hop_index(self) -> Index | None:
        """Return the index of the neighbours' entries."""
        return self.table.remote

    # -- what is known ---------------------------------------------------------------------------------------

    def iter_heard(self, link: Link) -> Iterator[Fact]:
        """Return the neighbour's set."""
        return (Fact("", held.filter) for held in list(self.table.of_link(link)))

    def iter_told(self, link: Link) -> Iterator[Fact]:
        """Return what the neighbour was told."""
        told = self._told.get(link)
        return iter(()) if told is None else (Fact("", filter) for filter in list(told.filters))


register(XRouteSets)
