"""Spanning trees without a promise about stretch: shortest-path trees and minimum spanning trees.

They are what the literature compares with, and often as good: see the candidates of `compute_tree`. Each function
returns the links of a spanning forest of the allowed links, all of them unless told; ties go to the smaller link.
"""

from __future__ import annotations

import numpy as np

from covey.matching.jit import Floats, Ints, Longs, kernel
from covey.planning.graph import Graph, Mask
from covey.planning.paths import shortest, shortest_forest

NONE = -1
ROUNDING = 1e-12  # of a distance: paths that differ by less are equally short


def shortest_path_links(graph: Graph, root: int, lengths: Floats, allowed: Mask | None = None) -> Ints:
    """Return shortest paths from the root, and from the smallest node of each component that it does not reach."""
    via = shortest_forest(graph, lengths, root, allowed)
    return np.sort(via[via != NONE])


def heavy_path_links(graph: Graph, root: int, weights: Floats) -> Ints:
    """Return shortest paths from the root that run together: the weights of nodes say how much each has to carry.

    Nodes choose from the farthest on. Of the neighbours from which a shortest path leads on, a node takes the one that
    carries most by then, the smaller of equals. Where many paths are equally short this makes trees on which a
    document for several nodes crosses fewer links. The graph is connected.
    """
    graph.check_connected("a tree of shortest paths")
    far, via = shortest(graph, graph.costs, root)
    order = np.lexsort((np.arange(graph.nodes), -far)).astype(np.int32)
    loads = np.array(weights, np.float64)
    _join_heaviest(graph.offsets, graph.neighbours, graph.links, graph.costs, far, order, loads, via)
    return np.sort(via[via != NONE])


def hop_links(graph: Graph, root: int, allowed: Mask | None = None) -> Ints:
    """Return a breadth-first tree."""
    return shortest_path_links(graph, root, np.ones(len(graph.ends)), allowed)


def minimum_links(graph: Graph, keys: Floats, allowed: Mask | None = None) -> Ints:
    """Return the spanning forest with the least sum of keys, by Kruskal's algorithm."""
    order = np.argsort(keys, kind="stable")
    if allowed is not None:
        order = order[allowed[order]]
    chosen = np.zeros(len(graph.ends), np.bool_)
    _kruskal(graph.nodes, graph.ends, order, chosen)
    return np.flatnonzero(chosen).astype(np.int32)


def random_links(graph: Graph, seed: int, allowed: Mask | None = None) -> Ints:
    """Return a spanning forest of least cost in which ties between links fall by chance."""
    shuffled = np.random.default_rng(seed).permutation(len(graph.ends))
    rank = np.empty(len(shuffled))
    rank[shuffled[np.argsort(graph.costs[shuffled], kind="stable")]] = np.arange(len(shuffled))
    return minimum_links(graph, rank, allowed)


def heaviest_links(graph: Graph, multiplicities: Floats, allowed: Mask | None = None) -> Ints:
    """Return the spanning forest with the greatest sum of multiplicities."""
    return minimum_links(graph, -multiplicities, allowed)


@kernel
def _kruskal(nodes: int, ends: Ints, order: Longs, chosen: Mask) -> None:
    above = np.arange(nodes)
    for at in range(len(order)):
        link = order[at]
        a, b = ends[link, 0], ends[link, 1]
        while above[a] != a:
            above[a] = above[above[a]]
            a = above[a]
        while above[b] != b:
            above[b] = above[above[b]]
            b = above[b]
        if a != b:
            above[max(a, b)] = min(a, b)
            chosen[link] = True


@kernel
def _join_heaviest(
    offsets: Ints,
    neighbours: Ints,
    links: Ints,
    costs: Floats,
    far: Floats,
    order: Ints,
    loads: Floats,
    via: Ints,
) -> None:
    for at in range(len(order)):
        node = order[at]
        limit = far[node] * (1.0 + ROUNDING)
        best = NONE
        for place in range(offsets[node], offsets[node + 1]):
            other = neighbours[place]
            nearer = far[other] < far[node] and far[other] + costs[links[place]] <= limit
            if nearer and (best == NONE or loads[other] > loads[neighbours[best]]):
                best = place
        if best != NONE:  # else it is the root, or so near to the next node that both are equally far
            loads[neighbours[best]] += loads[node]
            via[node] = links[best]
