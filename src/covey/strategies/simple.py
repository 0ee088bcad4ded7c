"""Simple routing: every subscription is told to every neighbour behind which it is wanted.

The first of the routing algorithms of G. Mühl et al. (*Evaluating Advanced Routing Algorithms for Content-Based
Publish/Subscribe Systems*, 2002): no reduction, so every broker on the way knows every subscription.
"""

from __future__ import annotations

from covey.routing.strategy import register
from covey.strategies.policy import KEYS, Everything
from covey.strategies.subscriptions import SubscriptionStrategy


class Simple(SubscriptionStrategy):
    """Every subscription is told under its own key."""

    name = "simple"
    dialect = "subscriptions"
    description = "every subscription is told to every broker that may publish for it"
    policy = Everything(KEYS)


register(Simple)
