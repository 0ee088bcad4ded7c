"""Dissemination trees over groups of subscriptions: each group has a tree and a table of its own.

After A. Majumder et al. (*Scalable Content-Based Routing in Pub/Sub Systems*): subscriptions are put into groups, every
group gets a tree that spans the overlay, and an event travels over the trees of the groups that want it, with the
tree's number on it. Trees may use any links, so the overlay may have cycles. On each tree interest is told as covering
tells it: an event enters a tree only if somebody in the group wants it and takes no branch where nobody does. An event
that several groups want arrives several times at a broker that is on their ways; clients get it the first time.

There is little here: a router keeps one strategy a tree (`routing.tree`), and which links and subscriptions belong to
which tree is the plan's matter (`routing.plan`).
"""

from __future__ import annotations

from covey.routing.strategy import Registered, add
from covey.strategies.covering import Covering

add(
    Registered(
        name="trees",
        make=Covering,
        dialect="trees",
        perfect=True,
        description="groups of subscriptions, a dissemination tree and a table for each; any connected overlay",
        trees=True,
    )
)
