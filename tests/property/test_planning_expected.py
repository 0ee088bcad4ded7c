"""Trees for documents that nobody has seen: the expected cost is what it says, and moving branches lowers it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.planning_graphs import graphs, links_of, spans

from covey.errors import PlanError
from covey.planning.documents import Documents
from covey.planning.expected import expected_cost, improve_by_expectation
from covey.planning.graph import Graph
from covey.planning.low_stretch.plain import random_links
from covey.planning.tree import Tree


def drawn_weights(data: st.DataObject, graph: Graph) -> np.ndarray:
    weights = data.draw(st.lists(st.integers(0, 3), min_size=graph.nodes, max_size=graph.nodes).filter(any))
    return np.array(weights, np.float64)


@given(graphs(most=4), st.integers(1, 3), st.data())
def test_the_expected_cost_is_the_mean_over_all_documents(
    graph: Graph, count: int, data: st.DataObject
) -> None:
    weights = drawn_weights(data, graph)
    tree = Tree(graph, random_links(graph, 3), data.draw(st.integers(0, graph.nodes - 1)))
    nodes = range(graph.nodes)
    shares = weights / weights.sum()
    everything = [(node, hosts) for node in nodes for hosts in product(nodes, repeat=count)]
    chances = [np.prod(shares[list(hosts)]) / graph.nodes for _, hosts in everything]
    mean = float(tree.costs(Documents.of(everything, chances)).sum())
    assert expected_cost(tree, weights, count) == pytest.approx(mean)


@given(graphs(most=9), st.sampled_from([1.0, 2.0, 3.5, 10.0]), st.data())
def test_no_move_of_one_branch_is_left_that_saves(graph: Graph, count: float, data: st.DataObject) -> None:
    weights = drawn_weights(data, graph)
    root = data.draw(st.integers(0, graph.nodes - 1))
    tree = Tree(graph, random_links(graph, data.draw(st.integers(0, 5))), root)
    found = improve_by_expectation(tree, weights, count, rounds=1_000)
    least = expected_cost(found, weights, count)
    assert found.root == root
    assert spans(range(graph.nodes), links_of(graph, found.links))
    assert least <= expected_cost(tree, weights, count) + 1e-9
    for node in range(graph.nodes):
        for place in range(graph.offsets[node], graph.offsets[node + 1]):
            other = graph.neighbours[place]
            below = other
            while below not in (root, node):
                below = found.parent[below]
            if node != root and below != node:
                via = found.parent_link.copy()
                via[node] = graph.links[place]
                moved = Tree(graph, np.delete(via, root), root)
                assert expected_cost(moved, weights, count) >= least - 1e-8 * max(1.0, graph.costs.max())


def test_what_goes_together_is_brought_together() -> None:
    """Two hosts next to each other, each on a way of its own to the root: one way for both is cheaper."""
    graph = Graph(5, [(0, 1), (1, 2), (0, 3), (3, 4), (2, 4)])
    apart = Tree(graph, np.array([0, 1, 2, 3]), 0)
    weights = np.array([0.0, 0, 1, 0, 1])
    found = improve_by_expectation(apart, weights, 8)
    assert 4 in found.links
    assert expected_cost(found, weights, 8) < expected_cost(apart, weights, 8)


@pytest.mark.parametrize(
    ("weights", "count", "said"),
    [
        ([0, 0, 0], 2, "not all 0"),
        ([1, -1, 1], 2, "negative"),
        ([1, 1], 2, "3 nodes"),
        ([1, 1, 1], 0.5, "at least"),
    ],
)
def test_what_cannot_be_expected_is_refused(weights: list[float], count: float, said: str) -> None:
    tree = Tree(Graph(3, [(0, 1), (1, 2)]), np.array([0, 1]), 0)
    for function in (expected_cost, improve_by_expectation):
        with pytest.raises(PlanError, match=said):
            function(tree, np.array(weights, np.float64), count)
