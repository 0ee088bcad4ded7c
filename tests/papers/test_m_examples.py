"""A. Majumder et al., *Scalable Content-Based Routing in Pub/Sub Systems*: the examples of section I, exactly.

Figure 2 is read as a horizontal path of n sub-paths of length x from v0, with v_i one link below the end of the i-th,
and a direct path of length x + 2 from v0 to each v_i. Figure 3 is read as a circle of n links, v0 … v_{n-1}, in which
v_{n/2} has both subscriptions: with any other reading a single tree could cost n.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from covey.planning.compute_tree import compute_tree
from covey.planning.documents import Documents
from covey.planning.graph import Graph
from covey.planning.low_stretch.forest import completed
from covey.planning.low_stretch.plain import shortest_path_links
from covey.planning.paths import AllPaths
from covey.planning.steiner import exact_cost, steiner_costs, steiner_links
from covey.planning.tree import Tree


def ladder(n: int, x: int, *, expanded: bool) -> tuple[Graph, list[int]]:
    """Return the network of figure 2 and the nodes v_1 … v_n; `expanded` makes paths of links that cost 1."""
    runs: list[tuple[int, int, int]] = []  # ends and length
    for i in range(1, n + 1):
        before, end, below = (0 if i == 1 else 2 * i - 3), 2 * i - 1, 2 * i
        runs += [(before, end, x), (end, below, 1), (0, below, x + 2)]
    subscribers = [2 * i for i in range(1, n + 1)]
    if not expanded:
        ends = [(a, b) for a, b, _ in runs]
        return Graph(2 * n + 1, ends, [float(length) for _, _, length in runs]), subscribers
    links: list[tuple[int, int]] = []
    nodes = 2 * n + 1
    for a, b, length in runs:
        between = range(nodes, nodes + length - 1)
        nodes += length - 1
        links += pairwise([a, *between, b])
    return Graph(nodes, links), subscribers


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize(("n", "x"), [(2, 2), (5, 3), (9, 4)])
def test_example_1_2_the_steiner_tree_ignores_who_wants_what(n: int, x: int, expanded: bool) -> None:
    graph, subscribers = ladder(n, x, expanded=expanded)
    paths = AllPaths(graph)
    documents = Documents.of((0, [subscriber]) for subscriber in subscribers)
    to_all = steiner_links(paths, 0, subscribers)
    assert graph.costs[to_all].sum() == n * (x + 1)
    if n <= 5:
        assert exact_cost(graph, [0, *subscribers]) == n * (x + 1)
    steiner_tree = completed(graph, to_all, 0)
    assert list(steiner_tree.costs(documents)) == [i * x + 1 for i in range(1, n + 1)]
    assert steiner_tree.cost(documents) == sum(i * x + 1 for i in range(1, n + 1))
    shortest_paths = completed(graph, shortest_path_links(graph, 0, graph.costs), 0)
    assert shortest_paths.cost(documents) == n * (x + 2) - 1
    assert steiner_costs(paths, documents).sum() == n * (x + 2) - 1, "no tree is cheaper"
    assert compute_tree(graph, paths, documents).cost == n * (x + 2) - 1


@pytest.mark.parametrize("n", [4, 8, 20])
def test_example_1_3_two_trees_halve_what_one_tree_wastes(n: int) -> None:
    graph = Graph(n, [(i, (i + 1) % n) for i in range(n)])
    paths = AllPaths(graph)
    first, second = range(1, n // 2 + 1), range(n // 2, n)
    documents = Documents.of([(0, first), (0, second)])
    every_tree = [Tree(graph, np.delete(np.arange(n), gone)) for gone in range(n)]
    assert {tree.cost(documents) for tree in every_tree} == {3 * n / 2 - 1}
    assert compute_tree(graph, paths, documents).cost == 3 * n / 2 - 1
    two_trees = [compute_tree(graph, paths, documents.take([number])).cost for number in (0, 1)]
    assert sum(two_trees) == n
