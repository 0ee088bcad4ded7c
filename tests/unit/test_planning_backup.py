"""Backup trees: every single failure tried on graphs of many kinds, against what the overlay itself survives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.planning_graphs import graphs, links_of, spans
from tests.oracles.planning_networks import KINDS, problem_on

from covey.planning.backup import backup_trees, survived
from covey.planning.graph import Graph
from covey.planning.groups.costing import path_tree
from covey.planning.groups.mixed import mixed
from covey.planning.tree import Tree


def check(graph: Graph, trees: list[Tree]) -> int:
    """Try every failure; return how many trees were added."""
    found = backup_trees(graph, trees)
    all_trees = [*trees, *found.trees]
    everyone = range(graph.nodes)
    for link in range(len(graph.ends)):
        rest = [number for number in range(len(graph.ends)) if number != link]
        possible = spans(everyone, links_of(graph, rest))
        some = any(link not in tree.links.tolist() for tree in all_trees)
        assert some == possible == (link not in found.links.tolist())
    for broker in everyone:
        others = [node for node in everyone if node != broker]
        left = [n for n, ends in enumerate(graph.ends.tolist()) if broker not in ends]
        possible = spans(others, links_of(graph, left))
        some = any(
            spans(others, links_of(graph, [n for n in tree.links.tolist() if n in left]))
            for tree in all_trees
        )
        assert some == possible == (broker not in found.brokers.tolist())
    links, brokers = survived(all_trees)
    assert (~links).nonzero()[0].tolist() == sorted(found.links.tolist())
    assert (~brokers).nonzero()[0].tolist() == sorted(found.brokers.tolist())
    return len(found.trees)


@given(graphs(most=8), st.data())
@settings(max_examples=80, deadline=None)
def test_every_failure_that_can_be_survived_is(graph: Graph, data: st.DataObject) -> None:
    roots = data.draw(st.lists(st.integers(0, graph.nodes - 1), min_size=1, max_size=2))
    check(graph, [path_tree(graph, root) for root in roots])


@pytest.mark.parametrize("kind", KINDS)
def test_few_trees_are_enough(kind: str) -> None:
    problem = problem_on(KINDS[kind](1), seed=1)
    found = mixed(problem)
    assert check(problem.graph, [found.trees[0]]) <= 8
