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

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from covey.core.filter import Filter
from covey.routing.digest import Fact
from covey.routing.messages import Key, Link, Message, Pack, Subscribe, Unsubscribe
from covey.routing.strategy import Site, register
from covey.strategies.policy import FILTERS, Uncovered
from covey.strategies.subscriptions import SubscriptionStrategy
from covey.strategies.told import Item


class Lazy(SubscriptionStrategy):
    """What is covered is not told; what was told stays."""

    name = "covering-lazy"
    dialect = "subscriptions"
    description = "what is covered is not told; what was told before stays until it leaves"
    policy = Uncovered(FILTERS, withdraws=False)


class Covering(SubscriptionStrategy):
    """Exactly the maximal filters are told."""

    name = "covering"
    dialect = "subscriptions"
    description = (
        "only what nothing else covers is told; a broader filter replaces those it covers (active covering)"
    )
    policy = Uncovered(FILTERS, withdraws=True)


class Packing(SubscriptionStrategy):
    """Covering, with one message a neighbour for whatever one input causes."""

    name = "covering-packing"
    dialect = "subscriptions"
    policy = Covering.policy
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

    def announce(self, link: Link, items: Sequence[Item]) -> None:
        """Tell the neighbour the items, then withdraw what they make superfluous."""
        with self._packing():
            super().announce(link, items)

    def retract_unwanted(self, link: Link, labels: Iterable[Key]) -> None:
        """Withdraw those of the things told that the neighbour wants no more."""
        with self._packing():
            super().retract_unwanted(link, labels)

    def learn(self, link: Link, facts: Sequence[Fact]) -> None:
        """Take the facts as the subscriptions that they are."""
        with self._packing():
            super().learn(link, facts)

    def unlearn(self, link: Link, facts: Sequence[Fact]) -> None:
        """Take the facts as withdrawn."""
        with self._packing():
            super().unlearn(link, facts)


register(Covering, "active")
register(Lazy, "lazy")
register(Packing, "packing")
