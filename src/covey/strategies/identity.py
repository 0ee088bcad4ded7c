"""Identity: of equal filters a neighbour is told one.

The second of the routing algorithms of G. Mühl et al. (*Evaluating Advanced Routing Algorithms for Content-Based
Publish/Subscribe Systems*, 2002). Nothing is sent when an equal filter was told before, nor when one of several leaves.
"""

from __future__ import annotations

from covey.routing.messages import Key, Link
from covey.routing.strategy import register
from covey.strategies.simple import Distinct, Selection, Simple
from covey.strategies.subscriptions import SubscriptionStrategy
from covey.strategies.told import Item


class Identity(Simple):
    """Of equal filters one is told, and withdrawn when the last of them leaves."""

    name = "identity"
    dialect = "identity"
    description = "of equal filters one is told"

    def quenched(self, link: Link, item: Item) -> bool:
        """Return whether an equal filter was told."""
        return self._told[link].label_of(item.filter) is not None

    def label(self, link: Link, gone: Item) -> Key | None:
        """Return the label of the filter, unless somebody here still holds an equal one."""
        return SubscriptionStrategy.label(self, link, gone)

    def holds(self, link: Link, item: Item) -> bool:
        """Return whether another link still has an equal filter."""
        return SubscriptionStrategy.holds(self, link, item)

    def selection(self, link: Link) -> Selection:
        """Return what selects the filters that were not told, each once."""
        return Distinct(lambda item: item.filter, lambda item: self.quenched(link, item))


register(Identity)
