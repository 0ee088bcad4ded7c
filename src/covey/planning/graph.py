"""The overlay as arrays: what all planning works on.

Nodes and links are numbers from 0; names are the caller's business. A link has no direction and a positive cost, 1
unless told: the price of one document crossing it. Links keep the order in which they were given. Adjacency is in
compressed rows, each sorted by neighbour, so that every walk over it meets smaller numbers first and ties fall the
same way in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from covey.errors import PlanError
from covey.matching.jit import Floats, Ints, Longs, kernel

Mask = NDArray[np.bool_]

MAX_NODES = 1 << 24
# Within these bounds a sum of costs along any path still tells one link more from one link less.
MOST_SPREAD = 1e8
LEAST_COST = 1e-100
MOST_COST = 1e100


class Graph:
    """An undirected graph with costs on its links; PlanError for what cannot be one.

    nodes       how many there are
    ends        (m, 2) int32, the two ends of each link, the smaller first
    costs       (m,) float64, positive and finite
    offsets     (n + 1,) int32: the places of node v are offsets[v] … offsets[v + 1] - 1
    neighbours  (2m,) int32, and `links` (2m,) int32, the link to each
    across      (m,) int32, the exclusive or of both ends: across[e] ^ u is the other end of e
    unit        whether every link costs 1, so that distances are hops

    A link that is given twice is kept once, where it came first, at the lowest of its costs.
    """

    def __init__(self, nodes: int, ends: ArrayLike, costs: ArrayLike | None = None) -> None:
        pairs, prices = _checked(nodes, ends, costs)
        pairs, prices = _without_duplicates(nodes, pairs, prices)
        count = len(pairs)
        self.nodes = nodes
        self.ends: Ints = np.ascontiguousarray(pairs, np.int32)
        self.costs: Floats = prices
        self.across: Ints = self.ends[:, 0] ^ self.ends[:, 1]
        self.unit = bool(np.all(prices == 1.0))
        here = np.concatenate([self.ends[:, 0], self.ends[:, 1]])
        there = np.concatenate([self.ends[:, 1], self.ends[:, 0]])
        order = np.lexsort((there, here))
        self.neighbours: Ints = there[order]
        self.links: Ints = np.tile(np.arange(count, dtype=np.int32), 2)[order]
        self.offsets: Ints = np.zeros(nodes + 1, np.int32)
        np.cumsum(np.bincount(here, minlength=nodes), out=self.offsets[1:])

    def __repr__(self) -> str:
        return f"Graph({self.nodes} nodes, {len(self.ends)} links)"

    @cached_property
    def _components(self) -> tuple[int, Ints]:
        return connected(self, np.ones(len(self.ends), np.bool_))

    def components(self) -> Ints:
        """Return the component of each node, numbered by their smallest nodes."""
        return self._components[1]

    @property
    def component_count(self) -> int:
        """How many components there are."""
        return self._components[0]

    def check_connected(self, purpose: str) -> None:
        """Raise PlanError unless every node can be reached from every other."""
        if self.component_count != 1:
            stray = int(np.argmax(self.components() > 0)) if self.nodes else 0
            raise PlanError(
                f"{purpose} needs a connected graph; this has {self.component_count} components, and node {stray}"
                " cannot be reached from node 0 (plan each component apart)"
            )

    def check_link_values(self, values: ArrayLike, what: str) -> Floats:
        """Return one float64 a link; PlanError if there are not so many, or one is negative or not finite."""
        found = np.ascontiguousarray(values, np.float64)
        if found.shape != self.costs.shape:
            raise PlanError(f"there must be one of the {what} for each of {len(self.costs)} links")
        if not (np.isfinite(found).all() and (found >= 0).all()):
            raise PlanError(f"the {what} must be finite and not negative")
        return found


def connected(graph: Graph, allowed: Mask) -> tuple[int, Ints]:
    """Return how many components the allowed links leave, and the component of each node, by smallest node."""
    labels = np.full(graph.nodes, -1, np.int32)
    count = int(_label(graph.offsets, graph.neighbours, graph.links, allowed, labels))
    return count, labels


def subgraph(graph: Graph, nodes: Sequence[int] | Ints) -> tuple[Graph, Ints]:
    """Return the graph of these nodes, renumbered in the order given, and the number here of each of its links."""
    chosen = np.asarray(nodes, np.int32)
    number = np.full(graph.nodes, -1, np.int32)
    number[chosen] = np.arange(len(chosen), dtype=np.int32)
    ends = number[graph.ends]
    kept = np.flatnonzero((ends >= 0).all(axis=1)).astype(np.int32)
    return Graph(len(chosen), ends[kept], graph.costs[kept]), kept


def _checked(nodes: int, ends: ArrayLike, costs: ArrayLike | None) -> tuple[Longs, Floats]:
    if not 1 <= nodes <= MAX_NODES:
        raise PlanError(f"a graph has 1 to {MAX_NODES} nodes, not {nodes}")
    pairs = np.asarray(ends)
    if pairs.size == 0:
        pairs = np.zeros((0, 2), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise PlanError("links must be pairs of node numbers")
    pairs = np.sort(pairs.astype(np.int64), axis=1)
    bad = np.flatnonzero((pairs[:, 0] < 0) | (pairs[:, 1] >= nodes))
    if len(bad):
        raise PlanError(
            f"link {bad[0]} has an end that is not one of {nodes} nodes: {pairs[bad[0]].tolist()}"
        )
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(loops):
        raise PlanError(f"link {loops[0]} joins node {pairs[loops[0], 0]} to itself")
    prices = np.ones(len(pairs)) if costs is None else np.array(costs, np.float64)
    if prices.shape != (len(pairs),):
        raise PlanError(f"there must be one cost for each of {len(pairs)} links")
    bad = np.flatnonzero(~(np.isfinite(prices) & (prices > 0)))
    if len(bad):
        raise PlanError(f"link {bad[0]} costs {prices[bad[0]]}; a cost is positive and finite")
    low, high = (float(prices.min()), float(prices.max())) if len(prices) else (1.0, 1.0)
    if not LEAST_COST <= low <= MOST_COST or high > MOST_SPREAD * low:
        raise PlanError(
            f"costs of links from {low:g} to {high:g} cannot be added up: they are from {LEAST_COST:g} to"
            f" {MOST_COST:g}, and the highest is at most {MOST_SPREAD:g} times the lowest"
        )
    return pairs, prices


def _without_duplicates(nodes: int, pairs: Longs, prices: Floats) -> tuple[Longs, Floats]:
    keys = pairs[:, 0] * nodes + pairs[:, 1]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    if len(first) == len(keys):
        return pairs, prices
    cheapest = np.full(len(first), np.inf)
    np.minimum.at(cheapest, inverse, prices)
    order = np.argsort(first)
    return pairs[first[order]], cheapest[order]


@kernel
def _label(offsets: Ints, neighbours: Ints, links: Ints, allowed: Mask, labels: Ints) -> int:
    """Give each node the number of its component; `labels` comes in as -1."""
    queue = np.empty(len(labels), np.int32)
    count = 0
    for start in range(len(labels)):
        if labels[start] >= 0:
            continue
        labels[start] = count
        queue[0] = start
        head, tail = 0, 1
        while head < tail:
            node = queue[head]
            head += 1
            for place in range(offsets[node], offsets[node + 1]):
                other = neighbours[place]
                if allowed[links[place]] and labels[other] < 0:
                    labels[other] = count
                    queue[tail] = other
                    tail += 1
        count += 1
    return count
