"""Steiner trees with nodes inserted, against the exact cost by Dreyfus and Wagner on networks of many kinds."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles.planning_networks import KINDS, drawn_costs, graph_of

from covey.planning.documents import Documents
from covey.planning.paths import AllPaths
from covey.planning.steiner import best_steiner_costs, exact_cost, steiner_costs

TERMINALS = (3, 6)
SETS = 6


@pytest.mark.parametrize("weighted", [False, True])
def test_inserting_nodes_closes_most_of_the_error(weighted: bool) -> None:
    plain, better, exact = [], [], []
    for kind, make in KINDS.items():
        pairs = make(1)
        graph = graph_of(pairs, drawn_costs(pairs, 2) if weighted else None)
        paths = AllPaths(graph)
        draw = np.random.default_rng(len(kind))
        rows = [
            (int(draw.integers(graph.nodes)), draw.integers(0, graph.nodes, size).tolist())
            for size in draw.integers(*TERMINALS, SETS).tolist()
        ]
        weights = draw.integers(1, 4, SETS).astype(float)
        documents = Documents.of(rows, weights)
        plain += (steiner_costs(paths, documents) / weights).tolist()
        better += (best_steiner_costs(paths, documents) / weights).tolist()
        exact += [exact_cost(graph, {publisher, *hosts}) for publisher, hosts in rows]
    least, some, first = np.array(exact), np.array(better), np.array(plain)
    assert (some >= least - 1e-6).all(), "nothing is below the optimum"
    assert (some <= first + 1e-9).all(), "never worse than without"
    assert some.sum() - least.sum() <= 0.34 * (first.sum() - least.sum()), "two thirds of the error are gone"
    assert (some <= 1.15 * least + 1e-6).all()
    assert some.sum() <= 1.01 * least.sum()


def test_documents_that_nobody_wants_or_that_are_large_stay_as_they_are() -> None:
    graph = graph_of(KINDS["grid"](0))
    paths = AllPaths(graph)
    documents = Documents.of([(0, []), (0, [0]), (0, [24]), (3, range(25))])
    assert best_steiner_costs(paths, documents).tolist() == [0.0, 0.0, 8.0, 24.0]
    assert best_steiner_costs(paths, Documents.of([])).tolist() == []
