"""Identity: of equal filters a neighbour is told one.

The second of the routing algorithms of G. Mühl et al. (*Evaluating Advanced Routing Algorithms for Content-Based
Publish/Subscribe Systems*, 2002). Nothing is sent when an equal filter was told before, nor when one of several leaves.
"""

from __future__ import annotations

from covey.routing.strategy import register
from covey.strategies.policy import FILTERS, Everything
from covey.strategies.subscriptions import SubscriptionStrategy


class Identity(SubscriptionStrategy):
    """Of equal filters one is told, and withdrawn when the last of them leaves."""

    name = "identity"
    dialect = "identity"
    description = "of equal filters one is told"
    policy = Everything(FILTERS)


register(Identity)
