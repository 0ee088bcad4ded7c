"""Mixed plans: never worse than one tree on any event, and close to Steiner trees for few takers, on many networks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.planning_networks import ASKED, KINDS, drawn_costs, problem_on

from covey.planning.groups.baselines import single
from covey.planning.groups.mixed import greedy, mixed
from covey.planning.groups.regions import document_costs
from covey.planning.objective import Objective
from covey.planning.steiner import steiner_costs

FEW = 3


@pytest.mark.parametrize("kind", KINDS)
def test_events_with_few_takers_pay_little_over_steiner_trees(kind: str) -> None:
    spent, least = 0.0, 0.0
    for asked in ASKED:
        pairs = KINDS[kind](1)
        problem = problem_on(pairs, kind=asked, seed=2, objective=Objective(), documents=400)
        assert problem.held_out is not None
        fresh = problem.held_out.documents
        found, alone = mixed(problem), single(problem)
        one = alone.trees[0].costs(fresh)
        mine = document_costs(fresh, found.trees, "cheapest")
        assert (mine <= one + 1e-9).all(), "no event crosses more than on the one tree"
        few = np.diff(fresh.offsets) <= FEW
        spent += float(mine[few].sum())
        least += float(steiner_costs(problem.paths, fresh)[few].sum())
    assert spent <= 1.15 * least


def test_links_with_costs_are_no_exception() -> None:
    pairs = KINDS["geant"](0)
    problem = problem_on(pairs, kind="ranges", seed=3, costs=drawn_costs(pairs, 1), objective=Objective())
    assert problem.held_out is not None
    found = mixed(problem)
    assert found.held_out is not None
    assert found.held_out.cost <= single(problem).trees[0].cost(problem.held_out.documents)
    assert found.held_out.cost <= 1.15 * steiner_costs(problem.paths, problem.held_out.documents).sum()


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=1, max_size=5), st.integers(1, 5)
)
@settings(max_examples=100, deadline=None)
def test_the_greedy_choice_is_greedy(rows: list[list[int]], most: int) -> None:
    costs = np.array(rows, np.float64)
    chosen = greedy(costs, most).tolist()
    assert chosen[0] == 0
    assert len(chosen) <= most
    for count in range(1, len(chosen)):
        before = costs[chosen[:count]].min(axis=0)
        sums = [float(np.minimum(before, row).sum()) for row in costs]
        assert sums[chosen[count]] == min(sums) < before.sum()
    if len(chosen) < most:
        assert (costs >= costs[chosen].min(axis=0)).all()
