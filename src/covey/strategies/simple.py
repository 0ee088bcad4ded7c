"""Simple routing: every subscription is told to every neighbour behind which it is wanted.

The first of the routing algorithms of G. Mühl et al. (*Evaluating Advanced Routing Algorithms for Content-Based
Publish/Subscribe Systems*, 2002): no reduction, so every broker on the way knows every subscription.
"""

from __future__ import annotations

from covey.core.filter import Filter
from covey.routing.messages import Key, Link
from covey.routing.strategy import register
from covey.routing.table import Entry
from covey.strategies.subscriptions import SubscriptionStrategy
from covey.strategies.told import Item


class Simple(SubscriptionStrategy):
    """Every subscription is told under its own key."""

    name = "simple"
    dialect = "subscriptions"
    description = "every subscription is told to every broker that may publish for it"

    def quenched(self, link: Link, item: Item) -> bool:
        """Return whether this very subscription was told: it may have come from several links."""
        return item.key in self._told[link]

    def label(self, link: Link, gone: Item) -> Key | None:
        """Return the subscription's own key, unless another link still has it."""
        told = gone.key in self._told[link] and not self.table.has_source(gone.key, not_of=link)
        return gone.key if told else None

    def uncovered(self, link: Link, gone: Item) -> list[Item]:
        """Return nothing: everything was told before."""
        return []

    def missing(self, link: Link, overlapping: Filter | None = None) -> list[Item]:
        """Return every wanted subscription that was not told, once, however many links it came from."""
        told = self._told[link]
        found = [Item(entry.key, entry.filter) for entry in self.wanted(link, overlapping)]
        return [item for item in dict.fromkeys(found) if item.key not in told]

    def wanted(self, link: Link, overlapping: Filter | None) -> list[Entry]:
        """Return the entries of other links that the neighbour wants; of what overlaps a filter, or of all."""
        if overlapping is None:
            found = sorted(self.table.entries(not_of=link), key=lambda entry: (entry.key, entry.link))
        else:
            found = self.table.overlapping(overlapping, not_of=link)
        return [entry for entry in found if self.site.wanted(link, entry.filter)]


register(Simple)
