"""Covering: a neighbour is told only what nothing else that it was told covers.

    covering           only maximal filters are told; what a new one covers is withdrawn   (*active* covering)
    covering-lazy      the same, but nothing is withdrawn: fewer messages, larger tables
    covering-packing   active, with all that one input causes for a neighbour in one message

After A. Carzaniga (*Architectures for an Event Notification Service Scalable to Wide-Area Networks*, 1998) and G. Mühl
et al. (2002); the three variants are those that M. Chen et al. compare in *Congestion Avoidance with Incremental Filter
Aggregation in Content-Based Routing Networks*. When a covering filter leaves, all that it quenched is told at once: the
burst that incremental aggregation avoids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from covey.core.filter import Filter
from covey.routing.digest import Fact
from covey.routing.messages import Key, Link, Message, Pack, Subscribe, Unsubscribe
from covey.routing.strategy import Site, register
from covey.routing.table import Entry
from covey.strategies.maximal import maximal
from covey.strategies.simple import Simple
from covey.strategies.subscriptions import SubscriptionStrategy
from covey.strategies.told import Item


class Lazy(Simple):
    """What is covered is not told; what was told stays."""

    name = "covering-lazy"
    description = "what is covered is not told; what was told before stays until it leaves"

    def quenched(self, link: Link, item: Item) -> bool:
        """Return whether something that was told covers it."""
        return self._told[link].cover(item.filter)

    def label(self, link: Link, gone: Item) -> Key | None:
        """Return the label of the filter, unless somebody here still holds an equal one."""
        return SubscriptionStrategy.label(self, link, gone)

    def uncovered(self, link: Link, gone: Item) -> list[Item]:
        """Return the maximal ones of what only `gone` covered."""
        return self._reduced(link, self.table.covered(gone.filter, not_of=link))

    def missing(self, link: Link, overlapping: Filter | None = None) -> list[Item]:
        """Return the maximal ones of what is wanted and not covered by what was told."""
        return self._reduced(link, self.wanted(link, overlapping))

    def _reduced(self, link: Link, entries: Sequence[Entry]) -> list[Item]:
        told = self._told[link]
        items = [
            Item(entry.key, entry.filter)
            for entry in entries
            if not told.cover(entry.filter) and self.site.wanted(link, entry.filter)
        ]
        return maximal(items)


class Covering(Lazy):
    """Exactly the maximal filters are told."""

    name = "covering"
    description = (
        "only what nothing else covers is told; a broader filter replaces those it covers (active covering)"
    )

    def superfluous(self, link: Link, items: Sequence[Item]) -> list[Item]:
        """Return what the items cover."""
        told = self._told[link]
        found = [covered for item in items for covered in told.covered(item.filter)]
        return list(dict.fromkeys(found))


class Packing(Covering):
    """Covering, with one message a neighbour for whatever one input causes."""

    name = "covering-packing"
    description = "covering, with all that one input causes for a neighbour in one message"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._packs: dict[Link, list[Subscribe | Unsubscribe]] = {}
        self._depth = 0

    def tell(self, link: Link, message: Subscribe | Unsubscribe) -> None:
        """Put the message into the neighbour's pack."""
        self._packs.setdefault(link, []).append(message)

    @contextmanager
    def _packing(self) -> Iterator[None]:
        """Collect what is told, and send it when the outermost input has been handled."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._send_packs()

    def _send_packs(self) -> None:
        packs, self._packs = self._packs, {}
        for link, messages in packs.items():
            packed = messages[0] if len(messages) == 1 else Pack(tuple(messages), self.site.tree)
            self.site.send(link, packed)

    def subscribe(self, link: Link, key: Key, filter: Filter) -> None:
        """Note a client's subscription and tell the neighbours."""
        with self._packing():
            super().subscribe(link, key, filter)

    def unsubscribe(self, link: Link, key: Key, filter: Filter) -> None:
        """Forget a client's subscription and tell the neighbours."""
        with self._packing():
            super().unsubscribe(link, key, filter)

    def receive(self, link: Link, message: Message) -> None:
        """Handle what a neighbour says."""
        with self._packing():
            super().receive(link, message)

    def advertised(self, link: Link, filter: Filter) -> None:
        """Tell the neighbour what it wants now."""
        with self._packing():
            super().advertised(link, filter)

    def unadvertised(self, link: Link, filter: Filter) -> None:
        """Withdraw what the neighbour wants no more."""
        with self._packing():
            super().unadvertised(link, filter)

    def learn(self, link: Link, facts: Sequence[Fact]) -> None:
        """Take the facts as the subscriptions that they are."""
        with self._packing():
            super().learn(link, facts)

    def close(self, link: Link) -> list[Fact]:
        """Take everything that came from the neighbour as withdrawn."""
        with self._packing():
            return super().close(link)


register(Covering, "active")
register(Lazy, "lazy")
register(Packing, "packing")
