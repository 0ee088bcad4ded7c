"""The quick plan: what is free against the integer optimum, and the bound on what is not."""

from __future__ import annotations

import numpy as np
import pytest

from covey.planning.aggregation.best import best
from covey.planning.aggregation.cost import cost_of
from covey.planning.aggregation.mefa import mefa
from covey.planning.aggregation.mefa_plus import mefa_plus
from covey.planning.aggregation.model import Problem, Propagation, check, gain_of, induced
from covey.planning.aggregation.optimum import optimum
from covey.planning.aggregation.quick import FEW, class_gain, classes_of, quick
from covey.planning.aggregation.sample import Sample

PARENTS = [-1, 0, 0, 1, 1, 3]


def problem_of(count: int, kinds: int, seed: int, events: int = 12) -> Problem:
    """So many subscribers, whose filters are of so many kinds."""
    rng = np.random.default_rng((seed, count))
    rows = rng.random((kinds, events)) < 0.4
    matches = rows[rng.integers(0, kinds, count)]
    return Problem(
        Propagation(PARENTS, rng.integers(0, 6, count).tolist()), Sample(matches, rng.random(events))
    )


def free_gain(problem: Problem) -> int:
    """What all classes together save, counted on each link."""
    found = 0
    for below in problem.tree.below:
        found += len(below) - len({problem.compact.matches[s].tobytes() for s in below})
    return found


@pytest.mark.parametrize("seed", range(8))
def test_what_is_free_costs_nothing_and_is_as_good_as_the_optimum(seed: int) -> None:
    problem = problem_of(8, 3, seed)
    assert sum(class_gain(problem.tree, mine) for mine in classes_of(problem)) == free_gain(problem)
    theta = max(1, free_gain(problem) // 2)
    plan = quick(problem, theta)
    check(problem.tree, plan)
    assert gain_of(problem.tree, plan) >= theta
    assert (
        cost_of(problem, plan) == 0.0 == pytest.approx(cost_of(problem, optimum(problem, theta).partitions))
    )


@pytest.mark.parametrize("seed", range(4))
def test_of_few_the_best_plan_is_taken_if_free_ones_are_not_enough(seed: int) -> None:
    problem = problem_of(9, 6, seed)
    theta = problem.tree.most_gain
    assert theta > free_gain(problem)
    assert quick(problem, theta) == best(problem, theta)


@pytest.mark.parametrize("seed", range(3))
def test_of_many_the_free_merges_stay_and_the_gain_is_reached(seed: int) -> None:
    problem = problem_of(FEW + 10, 40, seed, events=30)
    theta = problem.target(0.9)
    assert theta > free_gain(problem)
    plan = quick(problem, theta)
    check(problem.tree, plan)
    assert gain_of(problem.tree, plan) >= theta
    for members in classes_of(problem):
        for partition in plan:
            home = {s: block for block in partition for s in block}
            assert len({home[s] for s in members if s in home}) <= 1, "what is free stays merged"
    assert cost_of(problem, plan) <= 2 * cost_of(problem, mefa(problem, theta))


def test_the_heaviest_class_comes_first() -> None:
    matches = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 1], [0, 1, 1], [0, 0, 1]], bool)
    tree = Propagation([-1, 0], [1, 1, 1, 0, 1])
    problem = Problem(tree, Sample(matches, np.ones(3)))
    assert list(classes_of(problem)) == [(2, 3), (0, 1)]
    assert [class_gain(tree, mine) for mine in classes_of(problem)] == [1, 2]
    assert quick(problem, 1) == induced(tree, [(2, 3)])
    assert quick(problem, 2) == induced(tree, [(2, 3), (0, 1)])


@pytest.mark.parametrize("seed", range(6))
def test_the_best_is_the_cheaper_of_the_two(seed: int) -> None:
    problem = problem_of(12, 9, seed)
    theta = problem.target(0.7)
    plans = [mefa(problem, theta), mefa_plus(problem, theta)]
    assert best(problem, theta) == min(plans, key=lambda plan: cost_of(problem, plan))
