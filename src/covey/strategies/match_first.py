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

from covey.routing.messages import Link, Publish, Subscribe
from covey.routing.strategy import Site, register
from covey.routing.table import Place
from covey.strategies.homes import WithHomes
from covey.strategies.told import Item


class MatchFirst(WithHomes):
    """Every subscription is told with its home; events carry the homes they are for."""

    name = "match-first"
    dialect = "match-first"
    matched_once = True
    description = (
        "the publisher's broker matches an event for all, and writes on it the brokers that it is for"
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._ways: dict[
            str, dict[Link, int]
        ] = {}  # home -> link -> how many of its subscriptions came over it

    # -- interest --------------------------------------------------------------------------------------------

    def _note(self, link: Link, message: Subscribe) -> None:
        super()._note(link, message)
        ways = self._ways.setdefault(self.home(message.key), {})
        ways[link] = ways.get(link, 0) + 1

    def _unsubscribed(self, source: Link, gone: Item, distances: dict[str, tuple[float, ...]] | None) -> None:
        ways = self._ways.get(self.home(gone.key), {})
        if source in ways:
            ways[source] -= 1
            if not ways[source]:
                del ways[source]
            if not ways:
                del self._ways[self.home(gone.key)]
        super()._unsubscribed(source, gone, distances)

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

    def knows_ways(self, publish: Publish) -> bool:
        """Return whether a subscription of each other broker that the event is for has come over some link."""
        here = self.site.broker
        return all(home in self._ways or home == here for home in publish.destinations or ())

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


register(MatchFirst)
