"""Match-first: the publisher's broker decides for everyone, and the others only carry.

Subscriptions travel to all brokers that may publish for them, each with the name of its *home*, the subscriber's
broker. An event is matched once, where it is published, against all of them, and the homes of those that match are
written on it; every broker on the way splits that list by the links over which the homes lie. The baseline of R.
Chand and P. Felber (*A Scalable Protocol for Content-Based Routing in Overlay Networks*, 2003), who find that the
publisher's table grows too large; it goes back to JEDI (G. Cugola, E. Di Nitto and A. Fuggetta, 2001).

A subscription passes every broker between its home and a publisher before the publisher hears of it, and is withdrawn
on the same way. So while it stays, each broker on the way knows over which link its home lies: a subscription that
stays misses nothing. A home that no entry names any more has cancelled meanwhile, and is dropped from the list. Only
a client that moves must wait longer before it leaves its old broker: until what was addressed there before has
arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from covey.routing.digest import Fact
from covey.routing.messages import Key, Link, Publish, Subscribe, Unsubscribe
from covey.routing.strategy import Site, register
from covey.routing.table import Place
from covey.strategies.simple import Simple
from covey.strategies.told import Item


class MatchFirst(Simple):
    """Every subscription is told with its home; events carry the homes they are for."""

    name = "match-first"
    dialect = "match-first"
    matched_once = True
    description = (
        "the publisher's broker matches an event for all, and writes on it the brokers that it is for"
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._homes: dict[Key, str] = {}  # of the subscriptions that neighbours told
        self._ways: dict[
            str, dict[Link, int]
        ] = {}  # home -> link -> how many of its subscriptions came over it

    # -- interest --------------------------------------------------------------------------------------------

    def _receive_subscribe(self, link: Link, message: Subscribe) -> None:
        if self.table.get(link, message.key) is None:
            home = self._homes.setdefault(message.key, message.home)
            ways = self._ways.setdefault(home, {})
            ways[link] = ways.get(link, 0) + 1
        super()._receive_subscribe(link, message)

    def _unsubscribed(self, source: Link, gone: Item, distances: dict[str, tuple[float, ...]] | None) -> None:
        super()._unsubscribed(source, gone, distances)
        home = self._homes.get(gone.key)
        if home is None:
            return
        ways = self._ways[home]
        if source in ways:
            ways[source] -= 1
            if not ways[source]:
                del ways[source]
            if not ways:
                del self._ways[home]
        if not self.table.has_source(gone.key, not_of=""):
            del self._homes[gone.key]

    def tell(self, link: Link, message: Subscribe | Unsubscribe) -> None:
        """Send a message to a neighbour; a subscription with its home."""
        if isinstance(message, Subscribe):
            message = msgspec.structs.replace(message, home=self._home(message.key))
        super().tell(link, message)

    def _home(self, key: Key) -> str:
        return self._homes.get(key, self.site.broker)

    # -- links -----------------------------------------------------------------------------------------------

    def learn(self, link: Link, facts: Sequence[Fact]) -> None:
        """Take the facts as the subscriptions that they are."""
        for fact in facts:
            self.receive(link, Subscribe(fact.key, fact.filter, fact.owner, self.site.tree))

    # -- events ----------------------------------------------------------------------------------------------

    def forward(
        self, publish: Publish, source: Link, local: Sequence[Place]
    ) -> Iterable[tuple[Link, Publish]]:
        """Send it over each link behind which one of its destinations lies, with those destinations."""
        behind: dict[Link, list[str]] = {}
        for home, link in self._destinations(publish):
            behind.setdefault(link, []).append(home)
        return [
            (link, msgspec.structs.replace(publish, destinations=tuple(behind[link])))
            for link in self.ordered(behind, source)
        ]

    def _destinations(self, publish: Publish) -> list[tuple[str, Link]]:
        """Return the brokers an event is for, but this one, ordered by name, each with the link it lies behind."""
        if publish.destinations is None:
            matched = {self._homes[key]: link for link, key in self.table.matching(publish.event)}
            return sorted(matched.items())
        found = []
        for home in publish.destinations:
            ways = self._ways.get(home)
            if ways is not None:
                found.append((home, next(iter(ways))))
            elif home != self.site.broker:
                self.site.counters["dropped_destinations"] += 1
        return found

    # -- what is known ---------------------------------------------------------------------------------------

    def heard(self, link: Link) -> list[Fact]:
        """Return the neighbour's entries, each with its home."""
        return [Fact(key, filter, self._homes[key]) for key, filter in self.table.of_link(link).items()]

    def told(self, link: Link) -> list[Fact]:
        """Return what the neighbour was told, each subscription with its home."""
        return [Fact(fact.key, fact.filter, self._home(fact.key)) for fact in super().told(link)]


register(MatchFirst)
