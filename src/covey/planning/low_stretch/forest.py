"""From links without a cycle to a spanning tree.

Constructions look at links that sampled documents used, and these need not hold the overlay together. What they leave
in pieces is joined here: from the root's piece on, the next piece is always the one nearest to what is joined
already, where links of the pieces are free and others cost what they cost; it joins by a shortest path. A node that
no piece has is a piece of its own, so this also connects nodes that no document passed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from covey.errors import PlanError
from covey.matching.jit import Floats, Ints, kernel
from covey.planning.graph import Graph, Mask, connected
from covey.planning.heap import drop, push
from covey.planning.tree import Tree

NONE = -1


def completed(graph: Graph, links: ArrayLike, root: int) -> Tree:
    """Return a spanning tree with all of these links; PlanError if they have a cycle or the graph is not connected."""
    graph.check_connected("a spanning tree")
    chosen = np.zeros(len(graph.ends), np.bool_)
    chosen[np.asarray(links, np.int64)] = True
    used = int(chosen.sum())
    if used < graph.nodes - 1:
        count, piece = connected(graph, chosen)
        if used + count != graph.nodes:
            raise PlanError("the links that a tree must have form a cycle")
        chosen |= _joined(graph, count, piece, root)
    return Tree(graph, np.flatnonzero(chosen), root)


def bridges(graph: Graph, allowed: Mask, root: int) -> Ints:
    """Return the links that `completed` adds to any spanning forest of the allowed links: only its pieces matter."""
    return np.flatnonzero(_joined(graph, *connected(graph, allowed), root)).astype(np.int32)


def _joined(graph: Graph, count: int, piece: Ints, root: int) -> Mask:
    members = np.argsort(piece, kind="stable").astype(np.int32)
    starts = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(piece, minlength=count), out=starts[1:])
    chosen = np.zeros(len(graph.ends), np.bool_)
    adjacency = (graph.offsets, graph.neighbours, graph.links, graph.costs)
    _join(*adjacency, piece, members, starts, root, chosen)
    return chosen


@kernel
def _join(
    offsets: Ints,
    neighbours: Ints,
    links: Ints,
    costs: Floats,
    piece: Ints,
    members: Ints,
    starts: Ints,
    root: int,
    chosen: Mask,
) -> None:
    """Dijkstra's algorithm from the root, in which a piece is settled as soon as one of its nodes is."""
    keys = np.empty(len(neighbours) + 1, np.float64)
    items = np.empty(len(neighbours) + 1, np.int32)
    distance = np.full(len(piece), np.inf)
    via = np.full(len(piece), NONE, np.int32)
    settled = np.zeros(len(starts) - 1, np.bool_)
    size = push(keys, items, 0, 0.0, root)
    while size > 0:
        far, node = keys[0], items[0]
        size = drop(keys, items, size)
        mine = piece[node]
        if settled[mine]:
            continue
        settled[mine] = True
        if via[node] != NONE:
            chosen[via[node]] = True
        for at in range(starts[mine], starts[mine + 1]):
            member = members[at]
            for place in range(offsets[member], offsets[member + 1]):
                other = neighbours[place]
                if settled[piece[other]]:
                    continue
                there = far + costs[links[place]]
                if there < distance[other]:
                    distance[other] = there
                    via[other] = links[place]
                    size = push(keys, items, size, there, other)
