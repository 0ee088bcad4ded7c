"""Budgets: methods stop, say so, and what they return by then is a plan; the same one every time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.oracles.planning_networks import grid, problem_on

from covey.errors import ConfigError
from covey.planning.budget import Budget, tree_ns
from covey.planning.groups.registry import METHODS
from covey.planning.objective import Objective


def test_a_budget_counts_and_says_where_it_ended() -> None:
    budget = Budget(2.0)
    assert not budget.stops("at first")
    budget.spend(1.0e9)
    assert not budget.stops("half way")
    assert budget.halves("at half")
    budget.spend(1.1e9)
    assert budget.stops("later")
    assert budget.stopped == "stopped at half: its budget of 2 s was spent"
    endless = Budget(None)
    endless.spend(1e18)
    assert not endless.stops("ever")
    assert endless.stopped == ""
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="above 0"):
            Budget(wrong)
    assert tree_ns(2, 100, 1000) == 2 * (150_000 + 60_000 + 100_000)


@pytest.mark.parametrize("method", ["held-out", "hybrid", "mult2", "mixed"])
def test_a_method_that_is_stopped_has_a_plan_all_the_same(method: str) -> None:
    problem = problem_on(grid(4, 5), kind="attributes", seed=1, objective=Objective())
    whole = METHODS[method](problem)
    assert whole.stopped == ""
    assert METHODS[method](replace(problem, budget_s=1e6)).sample == whole.sample
    short = METHODS[method](replace(problem, budget_s=0.002))
    assert "its budget of 0.002 s was spent" in short.stopped
    assert short.group is not None
    assert set(short.group.tolist()) <= set(range(len(short.trees)))
    again = METHODS[method](replace(problem, budget_s=0.002))
    assert again.group is not None
    assert np.array_equal(short.group, again.group)
    assert [tree.links.tolist() for tree in short.trees] == [tree.links.tolist() for tree in again.trees]
