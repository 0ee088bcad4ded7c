"""Slow and obvious answers to the questions of `covey.planning` about graphs, paths and trees.

Graphs are small, links are (a, b, cost) in a list, and everything is sets, dictionaries and exhaustive search.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain, combinations

import numpy as np
from hypothesis import strategies as st

from covey.planning.documents import Documents
from covey.planning.graph import Graph

Link = tuple[int, int, float]


def links_of(graph: Graph, numbers: Iterable[int] | None = None) -> list[Link]:
    chosen = range(len(graph.ends)) if numbers is None else numbers
    return [(int(graph.ends[e, 0]), int(graph.ends[e, 1]), float(graph.costs[e])) for e in chosen]


def floyd_warshall(nodes: int, links: Sequence[Link]) -> list[list[float]]:
    far = [[0.0 if a == b else math.inf for b in range(nodes)] for a in range(nodes)]
    for a, b, cost in links:
        far[a][b] = far[b][a] = min(far[a][b], cost)
    for middle in range(nodes):
        for a in range(nodes):
            for b in range(nodes):
                far[a][b] = min(far[a][b], far[a][middle] + far[middle][b])
    return far


def spans(nodes: Iterable[int], links: Iterable[Link]) -> bool:
    """Whether these links join all of these nodes."""
    rest = set(nodes)
    found = {rest.pop()} if rest else set()
    links = list(links)
    while True:
        more = {b for a, b, _ in links if a in found} | {a for a, b, _ in links if b in found}
        if more <= found:
            return rest <= found
        found |= more


def pruned_cost(tree: Iterable[Link], terminals: Iterable[int]) -> float:
    """The cost of what is left of a tree when leaves that are no terminals are cut off again and again."""
    left, kept = list(tree), set(terminals)
    while True:
        degree: dict[int, int] = {}
        for a, b, _ in left:
            degree[a] = degree.get(a, 0) + 1
            degree[b] = degree.get(b, 0) + 1
        bare = {node for node, count in degree.items() if count == 1 and node not in kept}
        if not bare:
            return sum(cost for _, _, cost in left)
        left = [link for link in left if link[0] not in bare and link[1] not in bare]


def minimum_tree(nodes: set[int], links: Iterable[Link]) -> float:
    """The cost of the cheapest tree on exactly these nodes, inf if there is none (Kruskal)."""
    group = {node: {node} for node in nodes}
    total, joined = 0.0, 0
    for a, b, cost in sorted(links, key=lambda link: link[2]):
        if a in nodes and b in nodes and group[a] is not group[b]:
            group[a] |= group[b]
            for node in group[b]:
                group[node] = group[a]
            total += cost
            joined += 1
    return total if joined == len(nodes) - 1 else math.inf


def cheapest_steiner(nodes: int, links: Sequence[Link], terminals: Iterable[int]) -> float:
    """The cost of the cheapest tree that joins the terminals, over every choice of further nodes."""
    kept = set(terminals)
    others = sorted(set(range(nodes)) - kept)
    choices = chain.from_iterable(combinations(others, k) for k in range(len(others) + 1))
    return min(minimum_tree(kept | set(more), links) for more in choices)


@st.composite
def graphs(draw: st.DrawFn, most: int = 8, connected: bool = True) -> Graph:
    """A graph of a few nodes; costs are all 1, or of few kinds so that ties are common."""
    nodes = draw(st.integers(1, most))
    pairs = list(combinations(range(nodes), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=2 * nodes)) if pairs else []
    if connected:
        chosen = [(draw(st.integers(0, node - 1)), node) for node in range(1, nodes)] + chosen
        chosen = draw(st.permutations(chosen))
    kinds = draw(st.sampled_from([[1.0], [0.5, 1.0, 2.0], [0.1, 0.3, 7.0]]))
    costs = draw(st.lists(st.sampled_from(kinds), min_size=len(chosen), max_size=len(chosen)))
    return Graph(nodes, np.array(chosen, np.int64).reshape(-1, 2), costs)


@st.composite
def documents_on(draw: st.DrawFn, graph: Graph, least: int = 0, most: int = 6) -> Documents:
    node = st.integers(0, graph.nodes - 1)
    pairs = draw(st.lists(st.tuples(node, st.sets(node, max_size=5)), min_size=least, max_size=most))
    weights = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=len(pairs), max_size=len(pairs)))
    return Documents.of(pairs, weights)


def terminals_of(documents: Documents, number: int) -> set[int]:
    return {int(documents.publishers[number]), *map(int, documents.hosts_of(number))}
