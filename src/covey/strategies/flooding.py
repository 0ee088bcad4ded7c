"""Flooding: every event to every broker, which sorts out what its own clients want.

The simplest routing there is (G. Mühl et al., *Evaluating Advanced Routing Algorithms for Content-Based
Publish/Subscribe Systems*, 2002), and the oracle of all others: nothing is told, so nothing can be told wrongly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from covey.core.filter import Filter
from covey.matching.index import Index
from covey.routing.digest import Fact
from covey.routing.messages import Key, Link, Message
from covey.routing.strategy import Strategy, register, unexpected
from covey.routing.work import Job


class Flooding(Strategy):
    """No tables: neighbours are told nothing and get everything."""

    name = "flooding"
    dialect = "flooding"
    perfect = False
    description = "every event goes to every broker; no tables"

    def subscribe(self, link: Link, key: Key, filter: Filter) -> None:
        """Nobody else needs to know."""

    def unsubscribe(self, link: Link, key: Key, filter: Filter) -> None:
        """Nobody else knew."""

    def receive(self, link: Link, message: Message) -> None:
        """Refuse whatever it is."""
        raise unexpected(message, self)

    def advertised(self, link: Link, filter: Filter) -> Job:
        """Nothing follows."""
        return iter(())

    def unadvertised(self, link: Link, filter: Filter) -> Job:
        """Nothing follows."""
        return iter(())

    def opening(self, link: Link) -> Job:
        """Nothing is told."""
        return iter(())

    def learn(self, link: Link, facts: Sequence[Fact]) -> None:
        """Nothing is learnt."""
        if facts:
            raise unexpected(facts[0], self)

    def unlearn(self, link: Link, facts: Sequence[Fact]) -> None:
        """Nothing is known."""

    def close(self, link: Link) -> Job:
        """Nothing was told."""
        return iter(())

    def next_hops(self, event: object) -> Iterable[Link]:
        """Return everyone."""
        return self.site.neighbours()

    def next_hop_index(self) -> Index | None:
        """Return none: everything goes to everyone."""
        return None

    def iter_heard(self, link: Link) -> Iterator[Fact]:
        """Return nothing."""
        return iter(())

    def iter_told(self, link: Link) -> Iterator[Fact]:
        """Return nothing."""
        return iter(())


register(Flooding)
