"""A dissemination tree: a spanning tree of the overlay, and what documents cost on it.

A document crosses the links of the smallest subtree that holds its publisher and its hosts. Take these nodes in
preorder: the cost of the subtree is the sum of their depths, less the depth of the lowest common ancestor of each two
that follow each other, less the depth of the highest of these ancestors. Depth is the cost of the path from the root.

With nodes in preorder, the depth of the lowest common ancestor of the nodes at places i < j is the least depth of a
parent of a node at places i+1 … j. `table[k, i]` is that least depth over 2^k places from i on: two looks.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from covey.errors import PlanError
from covey.matching.jit import Floats, Ints, Longs, copy_values, kernel, part, sort
from covey.planning.documents import Documents
from covey.planning.graph import Graph

NONE = -1
FEW = 256  # nodes up to which comparing all with all, many at a time, is faster than sorting


class Tree:
    """A spanning tree of a graph; PlanError if the links are not one.

    links         (n - 1,) int32, sorted
    root          the node from which depths are counted; costs do not depend on it
    parent        (n,) int32, and `parent_link`; -1 at the root
    depth         (n,) float64, the cost of the path from the root
    order         (n,) int32, the nodes in preorder, children by number; `place` is its inverse
    """

    __slots__ = (
        "_depths",
        "_table",
        "depth",
        "graph",
        "links",
        "order",
        "parent",
        "parent_link",
        "place",
        "root",
    )

    def __init__(self, graph: Graph, links: ArrayLike, root: int = 0) -> None:
        given = np.asarray(links, np.int64)
        if len(given) and not 0 <= given.min() <= given.max() < len(graph.ends):
            raise PlanError(f"a link of the tree is not among the {len(graph.ends)} of the graph")
        inside = np.zeros(len(graph.ends), np.bool_)
        inside[given] = True
        chosen = np.flatnonzero(inside).astype(np.int32)
        if len(chosen) != graph.nodes - 1:
            raise PlanError(
                f"a spanning tree of {graph.nodes} nodes has {graph.nodes - 1} links, not {len(chosen)}"
            )
        if not 0 <= root < graph.nodes:
            raise PlanError(f"the root must be among {graph.nodes} nodes, not {root}")
        self.graph = graph
        self.links: Ints = chosen
        self.root = root
        self.parent: Ints = np.full(graph.nodes, NONE, np.int32)
        self.parent_link: Ints = np.full(graph.nodes, NONE, np.int32)
        self.depth: Floats = np.zeros(graph.nodes)
        self.order: Ints = np.empty(graph.nodes, np.int32)
        self.place: Ints = np.empty(graph.nodes, np.int32)
        reached = int(
            _walk(
                graph.offsets,
                graph.neighbours,
                graph.links,
                graph.costs,
                inside,
                root,
                self.parent,
                self.parent_link,
                self.depth,
                self.order,
                self.place,
            )
        )
        if reached < graph.nodes:
            raise PlanError(f"the tree does not span the graph: {reached} of {graph.nodes} nodes are reached")
        # Hops are kept in two bytes each: the table then stays near the processor.
        small = graph.unit and graph.nodes < 1 << 16
        self._depths: NDArray[Any] = self.depth[self.order].astype(np.uint16 if small else np.float64)
        self._table = _sparse_table(self._depths, self.parent, self.order, self.place)

    def __repr__(self) -> str:
        return f"Tree({self.graph.nodes} nodes, root {self.root})"

    def costs(self, documents: Documents) -> Floats:
        """Return for each document the cost of the links that it crosses times its weight."""
        documents.check_nodes(self.graph)
        result = np.empty(len(documents))
        _costs(
            self.place,
            self._depths,
            self._table,
            _logarithms(self.graph.nodes),
            documents.publishers,
            documents.offsets,
            documents.hosts,
            documents.weights,
            result,
        )
        return result

    def cost(self, documents: Documents) -> float:
        """Return the cost of all documents together."""
        return float(self.costs(documents).sum())

    def distances(self, sources: ArrayLike, targets: ArrayLike) -> Floats:
        """Return the cost of the path in the tree between each source and its target."""
        first, second = np.ascontiguousarray(sources, np.int32), np.ascontiguousarray(targets, np.int32)
        result = np.empty(len(first))
        logarithms = _logarithms(self.graph.nodes)
        _distances(self.place, self._depths, self._table, logarithms, first, second, result)
        return result

    def stretches(self) -> Floats:
        """Return the stretch of each link: the cost of the path in the tree between its ends over its own cost."""
        ends = self.graph.ends
        return self.distances(ends[:, 0], ends[:, 1]) / self.graph.costs

    def stretch(self, weights: ArrayLike | None = None) -> float:
        """Return the average stretch of the links by these weights, all equal unless told; 1 if there is none.

        With multiplicities times costs for weights it bounds what documents cost: at most so many times as much as on
        their Steiner trees.
        """
        shares = self.graph.check_link_values(
            np.ones(len(self.graph.ends)) if weights is None else weights, "weights of links"
        )
        total = float(shares.sum())
        return float(shares @ self.stretches()) / total if total else 1.0


@kernel
def _walk(
    offsets: Ints,
    neighbours: Ints,
    links: Ints,
    costs: Floats,
    chosen: Any,
    root: int,
    parent: Ints,
    parent_link: Ints,
    depth: Floats,
    order: Ints,
    place: Ints,
) -> int:
    """Fill the arrays of a tree in preorder and return how many nodes were reached; stop at a cycle."""
    node = root
    following = offsets[:-1].copy()
    order[0] = root
    place[root] = 0
    reached = 1
    while True:
        at = following[node]
        if at < offsets[node + 1]:
            following[node] = at + 1
            other, link = neighbours[at], links[at]
            if not chosen[link] or link == parent_link[node]:
                continue
            if other == root or parent[other] >= 0:
                return reached  # a cycle: with n - 1 links in all, some node is left out
            parent[other] = node
            parent_link[other] = link
            depth[other] = depth[node] + costs[link]
            order[reached] = other
            place[other] = reached
            reached += 1
            node = other
        elif node == root:
            return reached
        else:
            node = parent[node]


@kernel
def _sparse_table(depths: Any, parent: Ints, order: Ints, place: Ints) -> Any:
    """Return the least depths of parents over 1, 2, 4 … places; nobody looks at place 0, the root's."""
    count = len(order)
    levels = 1
    while (1 << levels) <= count:
        levels += 1
    table = np.empty((levels, count), depths.dtype)
    table[0, 0] = depths[0]
    for at in range(1, count):
        table[0, at] = depths[place[parent[order[at]]]]
    for level in range(1, levels):
        width = 1 << (level - 1)
        for at in range(count):
            right = min(at + width, count - 1)
            table[level, at] = min(table[level - 1, at], table[level - 1, right])
    return table


@lru_cache
def _logarithms(count: int) -> NDArray[np.uint8]:
    """Return the place of the highest bit of each number from 1 to `count`."""
    result = np.zeros(count + 1, np.uint8)
    for bit in range(1, count.bit_length()):
        result[1 << bit :] = bit
    return result


@part
def _meeting(table: Any, logarithms: Any, before: int, after: int) -> Any:
    """Return the depth of the lowest common ancestor of the nodes at these places, the first the smaller."""
    level = logarithms[after - before]
    return float(min(table[level, before + 1], table[level, after + 1 - (1 << level)]))


@kernel
def _costs(
    place: Ints,
    depths: Any,
    table: Any,
    logarithms: Any,
    publishers: Ints,
    offsets: Longs,
    hosts: Ints,
    weights: Floats,
    result: Floats,
) -> None:
    most = 0
    for number in range(len(publishers)):
        most = max(most, offsets[number + 1] - offsets[number])
    places = np.empty(most + 1, np.int32)
    ranked = np.empty(most + 1, np.int32)
    for number in range(len(publishers)):
        publisher = publishers[number]
        places[0] = place[publisher]
        count = 1
        for at in range(offsets[number], offsets[number + 1]):
            host = hosts[at]
            places[count] = place[host]
            count += host != publisher
        if count <= FEW:
            # All differ, so the rank of each is the number of smaller ones: no branch, and the compiler makes vectors.
            for at in range(count):
                mine = places[at]
                rank = np.int32(0)
                for other in range(count):
                    rank += np.int32(places[other] < mine)
                ranked[rank] = mine
        else:
            copy_values(ranked, 0, places, count)
            sort(ranked, 0, count)
        before = ranked[0]
        total = float(depths[before])
        top = total
        for at in range(1, count):
            after = ranked[at]
            meeting = _meeting(table, logarithms, before, after)
            total += float(depths[after]) - meeting
            top = min(top, meeting)
            before = after
        result[number] = weights[number] * (total - top)


@kernel
def _distances(
    place: Ints, depths: Any, table: Any, logarithms: Any, first: Ints, second: Ints, result: Floats
) -> None:
    for number in range(len(first)):
        before, after = place[first[number]], place[second[number]]
        if before > after:
            before, after = after, before
        if before == after:
            result[number] = 0.0
        else:
            meeting = _meeting(table, logarithms, before, after)
            result[number] = (float(depths[before]) - meeting) + (float(depths[after]) - meeting)
