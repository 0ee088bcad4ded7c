"""What strategies share whose entries keep their *home*: the broker whose client wants it, wherever it was told.

A subscription is told with the name of its home, and so passes from broker to broker unreduced: what it covers at
another home is told too, because an event is addressed to homes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from covey.routing.digest import Fact
from covey.routing.messages import Key, Link, Subscribe, Unsubscribe
from covey.routing.strategy import Site
from covey.routing.work import as_they_are
from covey.strategies.policy import KEYS, Everything
from covey.strategies.subscriptions import SubscriptionStrategy
from covey.strategies.told import Item


class WithHomes(SubscriptionStrategy):
    """Every entry is told under its key, with its home."""

    policy = Everything(KEYS)

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._homes: dict[Key, str] = {}  # of what neighbours told

    def home(self, key: Key) -> str:
        """Return the home of an entry, this broker for what its own clients want."""
        return self._homes.get(key, self.site.broker)

    def _note(self, link: Link, message: Subscribe) -> None:
        self._homes.setdefault(message.key, message.home)
        super()._note(link, message)

    def _unsubscribed(self, source: Link, gone: Item, distances: dict[str, tuple[float, ...]] | None) -> None:
        super()._unsubscribed(source, gone, distances)
        if gone.key in self._homes and not self.table.has_source(gone.key, not_of=""):
            del self._homes[gone.key]

    def tell(self, link: Link, message: Subscribe | Unsubscribe) -> None:
        """Send a message to a neighbour; a subscription with its home."""
        if isinstance(message, Subscribe):
            message = msgspec.structs.replace(message, home=self.home(message.key))
        super().tell(link, message)

    def learn(self, link: Link, facts: Sequence[Fact]) -> None:
        """Take the facts as the subscriptions that they are."""
        for fact in facts:
            self.receive(link, Subscribe(fact.key, fact.filter, fact.owner, self.site.tree))

    def iter_heard(self, link: Link) -> Iterator[Fact]:
        """Return the neighbour's entries, each with its home."""
        homes, entries = dict(self._homes), as_they_are(self.table.of_link(link))
        return (Fact(key, filter, homes[key]) for key, filter in entries)

    def iter_told(self, link: Link) -> Iterator[Fact]:
        """Return what the neighbour was told, each subscription with its home."""
        homes, here = dict(self._homes), self.site.broker
        return (Fact(one.key, one.filter, homes.get(one.key, here)) for one in super().iter_told(link))
