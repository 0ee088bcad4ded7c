"""Shortest paths: from one node by any lengths, and between all pairs by the costs of the links.

All pairs are two square arrays. `distance[s, v]` is in hops, one or two bytes each, if every link costs 1, otherwise
a float32, or a float64 where costs differ so much that a float32 could lose a link; `via[s, v]` is the last LINK on
the path from s to v, so that `graph.across[via[s, v]] ^ v` is the node before v. Among shortest paths, the one with
the smallest node before v is taken. Where there is no path, `distance` has the number `unreachable`, which is
compared with and never added to anything, and `via` has -1, as it has at s itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from covey.errors import PlanError
from covey.matching.jit import Floats, Ints, called, kernel
from covey.planning.graph import Graph, Mask
from covey.planning.heap import drop, push

MAX_ALL_PAIRS = 20_000  # nodes: 2.4 GB of hops and links
FLOAT32_LINKS = 1 << 22  # the longest path over the cheapest link, with a bit to spare
NONE = -1


class AllPaths:
    """The shortest paths between all pairs of nodes of a graph."""

    __slots__ = ("distance", "graph", "unreachable", "via")

    def __init__(self, graph: Graph) -> None:
        if graph.nodes > MAX_ALL_PAIRS:
            raise PlanError(
                f"all pairs of {graph.nodes} nodes need too much memory; {MAX_ALL_PAIRS} are the most"
            )
        shape = (graph.nodes, graph.nodes)
        small = len(graph.ends) <= np.iinfo(np.int16).max
        self.graph = graph
        self.via: NDArray[Any] = np.empty(shape, np.int16 if small else np.int32)
        self.distance: NDArray[Any]
        self.unreachable: float
        if not graph.unit:
            longest = graph.nodes * graph.costs.max() / graph.costs.min()
            kind = np.float32 if longest < FLOAT32_LINKS else np.float64
            self.distance, self.unreachable = np.empty(shape, kind), np.inf
            arrays = (graph.offsets, graph.neighbours, graph.links, graph.across, graph.costs)
            _all_weighted(*arrays, self.distance, self.via)
            return
        for hops in (np.uint8, np.uint16):
            self.distance, self.unreachable = np.empty(shape, hops), int(np.iinfo(hops).max)
            if _all_hops(graph.offsets, graph.neighbours, graph.links, self.distance, self.via):
                break

    def path(self, source: int, target: int) -> list[int]:
        """Return the links from source to target in order; PlanError if there is no path."""
        if self.distance[source, target] == self.unreachable:
            raise PlanError(f"there is no path from node {source} to node {target}")
        found = []
        while target != source:
            found.append(int(self.via[source, target]))
            target = int(self.graph.across[found[-1]]) ^ target
        return found[::-1]


def shortest(graph: Graph, lengths: Floats, root: int, allowed: Mask | None = None) -> tuple[Floats, Ints]:
    """Return the distance of each node from the root by these lengths, and the last link on the way to it.

    Unreachable nodes are at distance inf, and the link is -1 for them and for the root. Lengths may be 0. Only
    `allowed` links are used.
    """
    return _from_roots(graph, lengths, root, allowed, False)


def shortest_forest(graph: Graph, lengths: Floats, root: int, allowed: Mask | None = None) -> Ints:
    """Return the last link on the way to each node, from the root or else from the smallest node of its component."""
    return _from_roots(graph, lengths, root, allowed, True)[1]


def _from_roots(
    graph: Graph, lengths: Floats, root: int, allowed: Mask | None, every: bool
) -> tuple[Floats, Ints]:
    distance = np.full(graph.nodes, np.inf)
    via = np.full(graph.nodes, NONE, np.int32)
    mask = np.ones(len(graph.ends), np.bool_) if allowed is None else allowed
    adjacency = (graph.offsets, graph.neighbours, graph.links, graph.across)
    _shortest(*adjacency, lengths, mask, root, every, distance, via)
    return distance, via


@kernel
def _all_hops(offsets: Ints, neighbours: Ints, links: Ints, distance: Any, via: Any) -> bool:
    """Fill both arrays by breadth-first search; False if a distance does not fit before the sentinel."""
    nodes = len(offsets) - 1
    queue = np.empty(nodes, np.int32)
    level = np.empty(nodes, np.int32)
    before = np.empty(nodes, np.int32)
    unreachable = (1 << (8 * distance.itemsize)) - 1
    for source in range(nodes):
        far = distance[source]
        last = via[source]
        level[:] = -1
        far[:] = unreachable
        last[:] = NONE
        queue[0] = source
        level[source] = 0
        far[source] = 0
        head, tail = 0, 1
        while head < tail:
            node = queue[head]
            head += 1
            hops = level[node] + 1
            for place in range(offsets[node], offsets[node + 1]):
                other = neighbours[place]
                if level[other] < 0:
                    if hops == unreachable:
                        return False
                    level[other] = hops
                    far[other] = hops
                    last[other] = links[place]
                    before[other] = node
                    queue[tail] = other
                    tail += 1
                elif level[other] == hops and node < before[other]:
                    last[other] = links[place]
                    before[other] = node
    return True


@kernel
def _all_weighted(
    offsets: Ints, neighbours: Ints, links: Ints, across: Ints, costs: Floats, distance: Any, via: Any
) -> None:
    """Fill both arrays; sums are made in float64 and rounded at the end."""
    nodes = len(offsets) - 1
    keys = np.empty(len(neighbours) + 1, np.float64)
    items = np.empty(len(neighbours) + 1, np.int32)
    far = np.empty(nodes, np.float64)
    last = np.empty(nodes, np.int32)
    settled = np.empty(nodes, np.bool_)
    allowed = np.ones(len(costs), np.bool_)
    for source in range(nodes):
        far[:] = np.inf
        last[:] = NONE
        settled[:] = False
        _spread(offsets, neighbours, links, across, costs, allowed, source, far, last, keys, items, settled)
        for node in range(nodes):  # an assignment of rows takes a second longer to compile
            distance[source, node] = far[node]
            via[source, node] = last[node]


@kernel
def _shortest(
    offsets: Ints,
    neighbours: Ints,
    links: Ints,
    across: Ints,
    lengths: Floats,
    allowed: Mask,
    root: int,
    every: bool,
    distance: Floats,
    via: Ints,
) -> None:
    """Spread from the root and, if `every`, from each node in turn that was not reached."""
    keys = np.empty(len(neighbours) + 1, np.float64)
    items = np.empty(len(neighbours) + 1, np.int32)
    settled = np.zeros(len(distance), np.bool_)
    _spread(offsets, neighbours, links, across, lengths, allowed, root, distance, via, keys, items, settled)
    if every:
        for node in range(len(distance)):
            if not settled[node]:
                _spread(
                    offsets,
                    neighbours,
                    links,
                    across,
                    lengths,
                    allowed,
                    node,
                    distance,
                    via,
                    keys,
                    items,
                    settled,
                )


@called
def _spread(
    offsets: Ints,
    neighbours: Ints,
    links: Ints,
    across: Ints,
    lengths: Floats,
    allowed: Mask,
    root: int,
    distance: Floats,
    via: Ints,
    keys: Floats,
    items: Ints,
    settled: Mask,
) -> None:
    """Dijkstra's algorithm on the nodes that are not settled yet, which are at distance inf."""
    distance[root] = 0.0
    size = push(keys, items, 0, 0.0, root)
    while size > 0:
        node = items[0]
        size = drop(keys, items, size)
        if settled[node]:
            continue
        settled[node] = True
        for place in range(offsets[node], offsets[node + 1]):
            other, link = neighbours[place], links[place]
            if settled[other] or not allowed[link]:
                continue
            far = distance[node] + lengths[link]
            if far < distance[other]:
                distance[other] = far
                via[other] = link
                size = push(keys, items, size, far, other)
            elif far == distance[other] and node < across[via[other]] ^ other:
                via[other] = link
