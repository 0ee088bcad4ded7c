"""What links and brokers carry by a plan, and how long events take: against what they can carry.

A document loads each link that it crosses with its weight (its size, if weights are sizes), and each broker with every
message that it receives or sends: publishing, forwarding and delivering to its own clients are one message each.
`Limits` say what a link and a broker can carry and how long an event may take; `broken` says which limits a plan does
not keep. Delays are sums of the latencies of links along the tree on which an event travels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from covey.errors import PlanError
from covey.matching.jit import Floats, Ints, Longs, called, kernel
from covey.planning.documents import Documents
from covey.planning.graph import Graph
from covey.planning.groups.model import Grouping, members_of
from covey.planning.groups.regions import carriers
from covey.planning.paths import shortest
from covey.planning.subscriptions import Matches
from covey.planning.tree import Tree

PERCENTILE = 99.0


@dataclass(frozen=True)
class Loads:
    """What each link and each broker carries of some documents, and how long each delivery takes.

    links    (links,) float64, by the documents' weights
    brokers  (nodes,) float64, messages received and sent, by the same weights
    delays   for each broker that wants a document, the latency from the publisher, with `direct`, the least there is
    """

    links: Floats
    brokers: Floats
    delays: Floats = field(default_factory=lambda: np.zeros(0))
    direct: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def delay(self) -> float:
        """The delay that 99 of 100 deliveries do not exceed; 0 if there is none."""
        return float(np.percentile(self.delays, PERCENTILE)) if len(self.delays) else 0.0

    @property
    def stretch(self) -> float:
        """How many times the least delay deliveries take, which 99 of 100 do not exceed; those at home are left out."""
        far = self.direct > 0
        return float(np.percentile(self.delays[far] / self.direct[far], PERCENTILE)) if far.any() else 1.0


def tree_loads(tree: Tree, documents: Documents) -> tuple[Floats, Floats]:
    """Return what each link and each broker carries of these documents on a tree."""
    documents.check_nodes(tree.graph)
    links, brokers = np.zeros(len(tree.graph.ends)), np.zeros(tree.graph.nodes)
    _tree_loads(
        tree.parent,
        tree.parent_link,
        tree.place,
        documents.publishers,
        documents.offsets,
        documents.hosts,
        documents.weights,
        links,
        brokers,
    )
    return links, brokers


def loads_of(grouping: Grouping, matches: Matches, latency: Floats | None = None) -> Loads:
    """Return what documents load with a grouping; with the latency of each link, also how long they take."""
    if grouping.group is None:
        raise PlanError(f"{grouping.name} has no groups of subscriptions")
    if not grouping.trees:
        raise PlanError(f"{grouping.name} has no trees")
    carried: list[tuple[Tree, Documents]] = []
    if grouping.one_copy is not None:
        chosen = carriers(matches.documents, grouping.trees, grouping.one_copy)
        carried = [
            (tree, matches.documents.take(chosen == number)) for number, tree in enumerate(grouping.trees)
        ]
    else:
        members = members_of(grouping.group, len(grouping.trees))
        carried = [
            (tree, matches.documents_of(mine)) for mine, tree in zip(members, grouping.trees, strict=True)
        ]
    return _summed(carried, latency)


def _summed(carried: Sequence[tuple[Tree, Documents]], latency: Floats | None) -> Loads:
    graph = carried[0][0].graph
    links, brokers = np.zeros(len(graph.ends)), np.zeros(graph.nodes)
    delays, direct = [np.zeros(0)], [np.zeros(0)]
    timed = None if latency is None else Graph(graph.nodes, graph.ends, latency)
    least: dict[int, Floats] = {}
    for tree, documents in carried:
        on_links, at_brokers = tree_loads(tree, documents)
        links += on_links
        brokers += at_brokers
        if timed is None:
            continue
        sources = np.repeat(documents.publishers, np.diff(documents.offsets))
        delays.append(Tree(timed, tree.links, tree.root).distances(sources, documents.hosts))
        for source in np.unique(sources).tolist():
            least.setdefault(source, shortest(timed, timed.costs, source)[0])
        far = [least[s][h] for s, h in zip(sources.tolist(), documents.hosts.tolist(), strict=True)]
        direct.append(np.array(far, np.float64))
    return Loads(links, brokers, np.concatenate(delays), np.concatenate(direct))


@dataclass(frozen=True)
class Limits:
    """What may be carried, in the unit of the documents' weights, for these documents together; None is no limit.

    links    (links,) the most that each link can carry; inf where nothing is known
    brokers  (nodes,) the most messages that each broker can handle
    delay    the delay that 99 of 100 deliveries may take, in the unit of latencies; stretch as a factor of the least
    """

    links: Floats | None = None
    brokers: Floats | None = None
    delay: float | None = None
    stretch: float | None = None


def broken(limits: Limits, loads: Loads) -> list[str]:
    """Return which limits are not kept, a clause for each."""
    found = []
    for what, most, load in (("link", limits.links, loads.links), ("broker", limits.brokers, loads.brokers)):
        if most is None:
            continue
        over = np.flatnonzero(load > most * (1 + 1e-9))
        if len(over):
            worst = int(over[np.argmax(load[over] / np.maximum(most[over], 1e-300))])
            found.append(
                f"{len(over)} {what}{'s' * (len(over) != 1)} beyond capacity, {what} {worst} the most:"
                f" {load[worst]:,.4g} of {most[worst]:,.4g}"
            )
    for what, bound, value in (
        ("delay", limits.delay, loads.delay),
        ("stretch", limits.stretch, loads.stretch),
    ):
        if bound is not None and value > bound * (1 + 1e-9):
            found.append(f"a {what} of {value:,.4g} at p99, beyond {bound:,.4g}")
    return found


@called
def _top(parent: Ints, place: Ints, a: int, b: int) -> int:
    """Return the lowest common ancestor: of two nodes, the later one in preorder is no ancestor of the other."""
    while a != b:
        if place[a] > place[b]:
            a = parent[a]
        else:
            b = parent[b]
    return a


@kernel
def _tree_loads(
    parent: Ints,
    parent_link: Ints,
    place: Ints,
    publishers: Ints,
    offsets: Longs,
    hosts: Ints,
    weights: Floats,
    links: Floats,
    brokers: Floats,
) -> None:
    """Add what each document crosses, from each of its ends up to where all meet."""
    seen = np.full(len(parent), -1, np.int64)
    for number in range(len(publishers)):
        start, end = offsets[number], offsets[number + 1]
        if start == end:
            continue
        weight = weights[number]
        top = publishers[number]
        for at in range(start, end):
            top = _top(parent, place, top, hosts[at])
            brokers[hosts[at]] += weight
        brokers[publishers[number]] += weight
        seen[top] = number
        for at in range(start - 1, end):
            node = publishers[number] if at < start else hosts[at]
            while seen[node] != number:
                seen[node] = number
                above = parent[node]
                links[parent_link[node]] += weight
                brokers[node] += weight
                brokers[above] += weight
                node = above
