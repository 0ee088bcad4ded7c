"""Loads and delays against a walk over every document, and limits that are kept or named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.planning_graphs import graphs, links_of, spans
from tests.oracles.planning_networks import drawn_costs, grid, problem_on

from covey.planning.documents import Documents
from covey.planning.graph import Graph
from covey.planning.groups.costing import path_tree
from covey.planning.groups.registry import METHODS
from covey.planning.loads import Limits, broken, loads_of, tree_loads


@given(graphs(most=7), st.data())
@settings(max_examples=60, deadline=None)
def test_loads_are_those_of_every_document_walked(graph: Graph, data: st.DataObject) -> None:
    node = st.integers(0, graph.nodes - 1)
    tree = path_tree(graph, data.draw(node))
    rows = data.draw(st.lists(st.tuples(node, st.lists(node, max_size=4)), max_size=5))
    weights = [1.0 + number for number in range(len(rows))]
    documents = Documents.of(rows, weights)
    links, brokers = tree_loads(tree, documents)
    expected, at = np.zeros(len(graph.ends)), np.zeros(graph.nodes)
    numbers = tree.links.tolist()
    for (publisher, hosts), weight in zip(rows, weights, strict=True):
        if not hosts:
            continue
        ends = {publisher, *hosts}
        for number in numbers:
            rest = links_of(graph, [other for other in numbers if other != number])
            if not spans_together(ends, rest):  # without the link, some of the ends are apart
                expected[number] += weight
                for end in graph.ends[number].tolist():
                    at[end] += weight
        at[publisher] += weight
        for host in set(hosts):
            at[host] += weight
    assert links.tolist() == expected.tolist()
    assert brokers.tolist() == at.tolist()


def spans_together(ends: set[int], links: list[tuple[int, int, float]]) -> bool:
    """Whether the links join these nodes."""
    found = {next(iter(ends))}
    while True:
        more = {b for a, b, _ in links if a in found} | {a for a, b, _ in links if b in found}
        if more <= found:
            return ends <= found
        found |= more


@pytest.mark.parametrize("method", ["single", "held-out", "regions", "mixed"])
def test_what_links_carry_is_what_the_plan_costs(method: str) -> None:
    pairs = grid(4, 5)
    problem = problem_on(pairs, seed=2, costs=drawn_costs(pairs, 4))
    found = METHODS[method](problem)
    held_out = problem.held_out
    assert held_out is not None
    assert found.held_out is not None
    loads = loads_of(found, held_out, problem.graph.costs)
    assert float(loads.links @ problem.graph.costs) == pytest.approx(found.held_out.cost)
    ends = found.held_out.copies + found.held_out.deliveries
    assert float(loads.brokers.sum()) == pytest.approx(2 * loads.links.sum() + ends)
    assert len(loads.delays) == found.held_out.deliveries
    assert (loads.delays >= loads.direct - 1e-9).all()
    assert loads.stretch >= 1


def test_limits_that_are_not_kept_are_named() -> None:
    problem = problem_on(grid(4, 4), seed=2)
    found = METHODS["single"](problem)
    loads = loads_of(found, problem.sample, problem.graph.costs)
    assert broken(Limits(), loads) == []
    assert broken(Limits(loads.links, loads.brokers, loads.delay, loads.stretch), loads) == []
    words = broken(Limits(loads.links * 0.5, loads.brokers * 0.5, loads.delay / 2, loads.stretch / 2), loads)
    assert [word.split()[1] for word in words] == ["links", "brokers", "delay", "stretch"]
    assert spans(range(16), links_of(problem.graph, found.trees[0].links.tolist()))
