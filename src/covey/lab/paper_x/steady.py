"""Routing tables at rest, without a run: computed from the reduction of a strategy, up the tree to the one producer.

All subscriptions are wanted at the producer and nowhere else, so that they travel up the tree and never down. A broker
has from each of its children what that child must tell, and tells its own parent the reduction of all of it and of what
its clients want. This is what the simulator must come to; where both are computed they are compared.
"""

from __future__ import annotations

from collections.abc import Mapping

from covey.core.filter import Filter
from covey.lab.paper_x.population import Subscribed
from covey.sim.topology.graph import Topology
from covey.strategies.reductions import REDUCTIONS

Tables = Mapping[str, list[tuple[str, Filter]]]  # broker -> pairs of link and filter


def parents(topology: Topology, root: str) -> dict[str, str]:
    """Return the neighbour of each broker on its way to the root, the nearest brokers first; none for the root."""
    distance = topology.distances(root)
    ordered = sorted(distance, key=lambda broker: distance[broker])
    return {
        broker: min(topology.neighbours[broker], key=lambda other: distance[other]) for broker in ordered[1:]
    }


def steady_tables(topology: Topology, producer: str, strategy: str, subscribed: Subscribed) -> Tables:
    """Return the tables of all brokers."""
    reduce = REDUCTIONS[strategy].reduce
    local: dict[str, list[Filter]] = {}
    for broker, filter in subscribed:
        local.setdefault(broker, []).append(filter)
    tables: dict[str, list[tuple[str, Filter]]] = {broker: [] for broker in topology.brokers}
    parent = parents(topology, producer)
    for broker in reversed(parent):
        known = [filter for _, filter in tables[broker]] + local.get(broker, [])
        tables[parent[broker]] += [(broker, filter) for filter in reduce(known)]
    return tables


def steady_messages(
    topology: Topology, producer: str, strategy: str, subscribed: Subscribed, tables: Tables
) -> int | None:
    """Return how many messages registering takes, where that does not depend on the order; None where it does.

    `identity` tells each filter once a link and `match-first` each subscription, which are then in the table. `xroute`
    changes counts all the way to the producer for every subscription.
    """
    if strategy in ("identity", "match-first"):
        return sum(map(len, tables.values()))
    if strategy == "xroute":
        distance = topology.distances(producer)
        return sum(distance[broker] for broker, _ in subscribed)
    return None
