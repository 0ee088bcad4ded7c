"""Slow and obvious answers to the questions of `covey.planning.groups`, and small problems to ask them about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from hypothesis import strategies as st
from tests.oracles.planning_graphs import graphs, links_of, pruned_cost

from covey.planning.groups.model import Grouping, Problem
from covey.planning.paths import AllPaths
from covey.planning.subscriptions import Matches


def alike(first: set[int], second: set[int], measure: str) -> float:
    common = len(first & second)
    if not common:
        return 0.0
    return common / (len(first | second) if measure == "jaccard" else min(len(first), len(second)))


def merges_of(sets: Sequence[set[int]], measure: str) -> list[tuple[int, int, float]]:
    """Every merge of the two most alike sets, smaller numbers first among equals, until none are alike."""
    left = dict(enumerate(map(set, sets)))
    found: list[tuple[int, int, float]] = []
    while True:
        pairs = [(alike(left[a], left[b], measure), a, b) for a, b in combinations(sorted(left), 2)]
        best = min(pairs, key=lambda pair: (-pair[0], pair[1], pair[2]), default=(0.0, 0, 0))
        if best[0] <= 0:
            return found
        found.append((best[1], best[2], best[0]))
        left[best[1]] |= left.pop(best[2])


def partitions(items: Sequence[int]) -> Iterator[list[list[int]]]:
    """Every way to part the items."""
    if not items:
        yield []
        return
    first, *rest = items
    for partition in partitions(rest):
        yield [[first], *partition]
        for place in range(len(partition)):
            yield [*partition[:place], [first, *partition[place]], *partition[place + 1 :]]


def matching(matches: Matches, document: int) -> list[int]:
    first, end = matches.offsets[document : document + 2]
    found: list[int] = matches.subscriptions[first:end].tolist()
    return found


def replayed(matches: Matches, grouping: Grouping) -> tuple[float, float, float]:
    """Cost, copies and deliveries of all documents, each cut out of its trees by hand."""
    assert grouping.group is not None
    cost = copies = deliveries = 0.0
    for document in range(matches.document_count):
        weight, publisher = float(matches.weights[document]), int(matches.publishers[document])
        wanting = matching(matches, document)
        for group in {int(grouping.group[subscription]) for subscription in wanting}:
            hosts = {int(matches.hosts[s]) for s in wanting if grouping.group[s] == group}
            tree = grouping.trees[group]
            cost += weight * pruned_cost(links_of(tree.graph, tree.links.tolist()), hosts | {publisher})
            copies += weight
            deliveries += weight * len(hosts)
    return cost, copies, deliveries


@st.composite
def matches_on(draw: st.DrawFn, nodes: int, hosts: list[int], most: int = 6) -> Matches:
    node = st.integers(0, nodes - 1)
    wanting = st.sets(st.integers(0, len(hosts) - 1), max_size=5) if hosts else st.just(set())
    rows = draw(st.lists(st.tuples(node, wanting), max_size=most))
    weights = draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=len(rows), max_size=len(rows)))
    return Matches.of(np.array(hosts, np.int32), rows, weights)


@st.composite
def problems(draw: st.DrawFn, least: int = 0, subscriptions: int = 6) -> Problem:
    """A few subscriptions on a small overlay, with documents of two kinds and perhaps words."""
    graph = draw(graphs(most=7))
    node = st.integers(0, graph.nodes - 1)
    hosts = draw(st.lists(node, min_size=least, max_size=subscriptions))
    sample = draw(matches_on(graph.nodes, hosts))
    others = draw(st.none() | matches_on(graph.nodes, hosts))
    word = st.frozensets(st.integers(0, 3), max_size=3)
    words = draw(st.none() | st.lists(word, min_size=len(hosts), max_size=len(hosts)))
    return Problem(graph, AllPaths(graph), sample, others, words, draw(st.integers(0, 3)))
