"""Warming up: what planning has compiled is compiled, or loaded, before it is needed.

A small network is planned by every method, which calls each kernel with the types that real ones are called with.
"""

from __future__ import annotations

import numpy as np

from covey.planning.aggregation.model import Problem as Merging
from covey.planning.aggregation.model import Propagation
from covey.planning.aggregation.registry import ALGORITHMS
from covey.planning.aggregation.sample import Sample
from covey.planning.compute_tree import compute_tree
from covey.planning.graph import Graph
from covey.planning.groups.likeness import dendrogram
from covey.planning.groups.model import Problem
from covey.planning.groups.registry import METHODS
from covey.planning.improve import improve_by_swaps
from covey.planning.loads import tree_loads
from covey.planning.low_stretch.akpw import akpw_links
from covey.planning.low_stretch.plain import minimum_links
from covey.planning.paths import AllPaths
from covey.planning.steiner import best_steiner_costs
from covey.planning.subscriptions import Matches

_BROKERS = 8
_SUBSCRIPTIONS = 10
_DOCUMENTS = 12


def warm_up() -> None:
    """Compile what planning uses, or load it from the cache: half a minute the first time, a second after."""
    warm_up_groups()
    warm_up_aggregation()


def warm_up_groups() -> None:
    """Do so for trees and groups only."""
    draw = np.random.default_rng(1)
    ends = [(one, (one + 1) % _BROKERS) for one in range(_BROKERS)] + [(0, 5), (3, 6), (2, 7)]
    for costs in (None, np.arange(1.0, len(ends) + 1)):
        _groups(Graph(_BROKERS, ends, costs), draw)


def _groups(graph: Graph, draw: np.random.Generator) -> None:
    """Plan groups and trees by every method."""
    hosts = draw.integers(0, _BROKERS, _SUBSCRIPTIONS)

    def some() -> Matches:
        wanted = draw.integers(0, _SUBSCRIPTIONS, (_DOCUMENTS, 4)).tolist()
        return Matches.of(hosts, zip(draw.integers(0, _BROKERS, _DOCUMENTS).tolist(), wanted, strict=True))

    words = [frozenset({number % 7}) for number in range(_SUBSCRIPTIONS)]
    problem = Problem(graph, AllPaths(graph), some(), some(), words)
    for method in METHODS.values():
        method(problem)
    dendrogram(problem.sample, exact_words=1)  # as of very many subscriptions
    documents = problem.sample.documents_of(np.arange(_SUBSCRIPTIONS, dtype=np.int32))
    tree = compute_tree(graph, problem.paths, documents).tree
    improve_by_swaps(tree, documents, documents)
    tree_loads(tree, documents)
    best_steiner_costs(problem.paths, documents)
    akpw_links(graph)
    minimum_links(graph, graph.costs)


def warm_up_aggregation() -> None:
    """Do so for merges only: plan them by every algorithm, with costs counted in both ways."""
    draw = np.random.default_rng(1)
    tree = Propagation([-1, 0, 0, 1, 1], [3, 3, 4, 4, 2, 2])
    lows = draw.random(6)
    sample = Sample.of_ranges(lows, lows + 0.3)
    for problem in (Merging(tree, sample), Merging(tree, sample, accounting="top")):
        for algorithm in ALGORITHMS.values():
            algorithm(problem, 2)
