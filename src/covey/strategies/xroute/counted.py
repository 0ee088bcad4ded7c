"""XROUTE: only maximal filters are told, with counts of what they stand for, and one message a hop for every change.

After R. Chand and P. A. Felber, *A Scalable Protocol for Content-Based Routing in Overlay Networks* (RR-03-074,
Institut Eurécom, 2003). As printed, the protocol loses events; docs/strategies/xroute.md says what was repaired. A
message is a list of triples (filter; own; others) and one operation, by its first triple:

    own > 0, and the sender had not told the filter     it appears, and represents whatever it is above from now on
    own < 0, and the sender had told as many            it goes; the triples after it say what comes in its stead
    anything else, and all further triples              counts change

The table has what each link let us know. What neighbour U is told is the matter of U's own instance, which holds the
filters of all other links that U wants: what stands for a filter towards one neighbour may come from that neighbour
itself, and stands for nothing towards it. Links must be FIFO; no order between links is needed.

A message that does not fit what the sender told before is refused before anything is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from covey.core.filter import Filter
from covey.errors import ProtocolError
from covey.matching.index import Index
from covey.routing.digest import Fact
from covey.routing.messages import Key, Link, Message, Triple, Update
from covey.routing.strategy import Site, Strategy, register, unexpected
from covey.routing.work import Job
from covey.strategies.xroute.instance import Instance, Triples
from covey.strategies.xroute.table import LOCAL, Held, LinkTable

Counts = tuple[int, int]
NONE: Counts = (0, 0)


class XRoute(Strategy):
    """The table, and one instance for each neighbour."""

    name = "xroute"
    dialect = "xroute"
    takes_tables = False  # counts depend on who came when
    description = "only maximal filters are told, with counts of what they stand for (XROUTE, repaired)"

    table_type = LinkTable
    instance_type = Instance

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.table = self.table_type(site.local)
        self.instances: dict[Link, Instance] = {}

    # -- interest --------------------------------------------------------------------------------------------

    def subscribe(self, link: Link, key: Key, filter: Filter) -> None:
        """Count one more local subscription to the filter."""
        self.table.add_place(link, key, filter)
        self._carry_out(LOCAL, (Triple(filter, 1, 0),))

    def unsubscribe(self, link: Link, key: Key, filter: Filter) -> None:
        """Count one less."""
        self.table.remove_place(link, key)
        self._carry_out(LOCAL, (Triple(filter, -1, 0),))

    def receive(self, link: Link, message: Message) -> None:
        """Handle what a neighbour says."""
        if not isinstance(message, Update):
            raise unexpected(message, self)
        if message.triples:
            self._carry_out(link, message.triples)

    def _carry_out(self, link: Link, triples: Sequence[Triple]) -> None:
        """Carry out one operation: in each instance of another link, then in the table."""
        first, rest = triples[0], triples[1:]
        held = self.table.get(link, first.filter)
        triggered: set[Filter] = set()
        if held is None and first.own > 0:
            represented = [_triple(lower) for lower in self.table.represented(link, first.filter)]
            after = self._after_registration(link, first, represented, rest)
            for neighbour, instance in self._others(link):
                messages = instance.register(first.filter, first.own, first.others, represented, rest)
                self._send(neighbour, messages)
        elif held is not None and self.is_cancellation(held, first):
            after = self._after_cancellation(link, held, rest)
            for neighbour, instance in self._others(link):
                messages = instance.cancel(held.filter, held.own, held.others, rest)
                self._send(neighbour, messages)
                triggered.update(new.filter for message in messages for new in message[1:] if new.own > 0)
        else:
            after = self._counted(link, {}, {}, triples)
            self.check(link, after)
            for neighbour, instance in self._others(link):
                self._send(neighbour, [instance.bump_all(triples)])
        self.site.counters["triggered"] += len(triggered)
        for filter, counts in after.items():
            self.table.put(link, filter, *counts)

    def is_cancellation(self, held: Held, first: Triple) -> bool:
        """Return whether a message, by its first triple, withdraws all there is of a filter at a link."""
        return first.own == -held.own

    def _others(self, link: Link) -> list[tuple[Link, Instance]]:
        return [(other, self.instances[other]) for other in self.site.neighbours() if other != link]

    def _send(self, link: Link, messages: Iterable[Triples]) -> None:
        for message in messages:
            triples = tuple(triple for triple in message if triple.own or triple.others)
            if triples:
                self.site.send(link, Update(triples, self.site.tree))

    # -- what an operation makes of the counts of a link -----------------------------------------------------

    def _after_registration(
        self, link: Link, first: Triple, represented: Sequence[Triple], rest: Sequence[Triple]
    ) -> dict[Filter, Counts]:
        """Return the counts that change: the filter takes those of what it represents."""
        gone = {lower.filter: NONE for lower in represented}
        gathered = sum(lower.own + lower.others for lower in represented)
        after = self._counted(link, gone, {first.filter: (first.own, first.others + gathered)}, rest)
        self.check(link, after)
        return {**gone, **after}

    def _after_cancellation(self, link: Link, held: Held, rest: Sequence[Triple]) -> dict[Filter, Counts]:
        """Return the counts that change: the filter's own are nothing, and others may be new."""
        gone = {held.filter: NONE}
        new = [t.filter for t in rest if t.own > 0 and self.table.get(link, t.filter) is None]
        after = self._counted(link, gone, dict.fromkeys(new, NONE), rest)
        self.check(link, after)
        return {**gone, **after}

    def _counted(
        self,
        link: Link,
        gone: Mapping[Filter, Counts],
        after: dict[Filter, Counts],
        triples: Sequence[Triple],
    ) -> dict[Filter, Counts]:
        """Add triples to counts, which are those of the table unless `after` has others."""
        for triple in triples:
            counts = after.get(triple.filter)
            if counts is None:
                held = self.table.get(link, triple.filter)
                if held is None or triple.filter in gone:
                    raise self._mistake(link, triple.filter, "was not told")
                counts = held.own, held.others
            after[triple.filter] = counts[0] + triple.own, counts[1] + triple.others
        return after

    def check(self, link: Link, after: Mapping[Filter, Counts]) -> None:
        """Raise a ProtocolError if counts are left that cannot be."""
        for filter, (own, others) in after.items():
            if own <= 0 or others < 0:
                raise self._mistake(link, filter, f"would be counted ({own}; {others})")

    def _mistake(self, link: Link, filter: Filter, what: str) -> ProtocolError:
        return ProtocolError(f"broker {self.site.broker}: from {link or 'a client'}, {filter!s:.80} {what}")

    # -- advertisements --------------------------------------------------------------------------------------

    def advertised(self, link: Link, filter: Filter) -> Job:
        """Register, for the neighbour alone, what it wants now."""
        instance = self.instances[link]
        found = self.table.overlapping(filter, not_of=link)
        new = [other for other in found if other not in instance.entries and instance.wanted(other)]
        self._send(link, instance.admit(self._triples(link, new)))
        yield 0

    def unadvertised(self, link: Link, filter: Filter) -> Job:
        """Take from the neighbour alone what it wants no more."""
        instance = self.instances[link]
        found = self.table.overlapping(filter, not_of=link)
        gone = [other for other in found if other in instance.entries and not instance.wanted(other)]
        self._send(link, instance.expel(self._triples(link, gone)))
        yield 0

    def _triples(self, link: Link, filters: Iterable[Filter]) -> Triples:
        return [Triple(filter, *self.table.counts(filter, not_of=link)) for filter in filters]

    # -- links -----------------------------------------------------------------------------------------------

    def opening(self, link: Link) -> Job:
        """Make the neighbour's instance, all at once: counts of what is half admitted would be wrong."""
        instance = self.instances[link] = self.instance_type(lambda filter: self.site.wanted(link, filter))
        wanted = [filter for filter in self.table.filters(not_of=link) if instance.wanted(filter)]
        instance.admit(self._triples(link, wanted))
        yield 0

    def learn(self, link: Link, facts: Sequence[Fact]) -> None:
        """Register what the neighbour lets us know."""
        for fact in facts:
            if len(fact.counts) != 2:
                raise self._mistake(link, fact.filter, "has no counts")
            self._carry_out(link, (Triple(fact.filter, *fact.counts),))

    def unlearn(self, link: Link, facts: Sequence[Fact]) -> None:
        """Cancel what the neighbour let us know."""
        for fact in facts:
            self._carry_out(link, (Triple(fact.filter, -fact.counts[0], 0),))

    def close(self, link: Link) -> Job:
        """Forget the neighbour's instance."""
        del self.instances[link]
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
        """Return the neighbour's entries, with their counts."""
        return iter(
            [Fact("", held.filter, counts=(held.own, held.others)) for held in self.table.of_link(link)]
        )

    def iter_told(self, link: Link) -> Iterator[Fact]:
        """Return the tops of the neighbour's instance, with their counts."""
        instance = self.instances.get(link)
        tops = [] if instance is None else instance.tops.values()
        return iter([Fact("", top.filter, counts=(top.own, top.others)) for top in tops])


def _triple(held: Held) -> Triple:
    return Triple(held.filter, held.own, held.others)


register(XRoute)
