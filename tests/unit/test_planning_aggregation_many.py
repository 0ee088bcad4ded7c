"""Aggregation for many subscribers: bundles, bounds, and the same plan as the algorithms' own where there are few."""

from __future__ import annotations

import numpy as np
import pytest

from covey.planning.aggregation.cost import cost_of
from covey.planning.aggregation.many import Merge, bundles_of, expanded, merges, plan_bundles
from covey.planning.aggregation.model import NONE, Problem, Propagation, aggregators_of, check, gain_of
from covey.planning.aggregation.registry import aggregate
from covey.planning.aggregation.sample import Sample

PARENTS = [-1, 0, 0, 1, 1]


def random_sample(count: int, seed: int, events: int = 12, density: float = 0.4) -> Sample:
    return Sample(np.random.default_rng(seed).random((count, events)) < density, np.ones(events))


def summed(found: list[Merge]) -> tuple[int, float]:
    return sum(one.gain for one in found), sum(one.cost for one in found)


@pytest.mark.parametrize("seed", range(6))
def test_few_different_subscribers_are_planned_as_the_algorithm_does(seed: int) -> None:
    rng = np.random.default_rng((seed, 1))
    access = rng.integers(0, 5, 7).tolist()
    sample = random_sample(7, seed, 30)
    held_out = random_sample(7, seed + 100, 30)
    problem = Problem(Propagation(PARENTS, access), sample, held_out=held_out)
    assert len(bundles_of(problem)) == 7, "no two are equal"
    # Bundles are numbered by weight, and so is the problem that is planned.
    order = [bundle[0] for bundle in bundles_of(problem)]
    same = Problem(
        Propagation(PARENTS, [access[s] for s in order]), Sample(sample.matches[order], sample.weights)
    )
    plan = aggregate(same, 0.6)
    found = merges(PARENTS, access, sample, 0.6, held_out=held_out)
    assert {(one.broker, one.members) for one in found} == {
        (broker, tuple(sorted(order[s] for s in block))) for broker, block in plan.aggregators
    }
    gain, cost = summed(found)
    assert gain == plan.gain
    assert cost == pytest.approx(plan.cost)
    assert all(one.towards == PARENTS[one.broker] for one in found)
    partitions = expanded(problem.tree, bundles_of(problem), plan.partitions)
    assert sum(one.held_out_cost or 0.0 for one in found) == pytest.approx(
        cost_of(problem, partitions, held_out)
    )


@pytest.mark.parametrize("seed", range(6))
def test_gain_and_cost_add_up_to_those_of_the_whole_plan(seed: int) -> None:
    """With equal filters, silent ones and more bundles than are planned."""
    rng = np.random.default_rng((seed, 2))
    access = rng.integers(0, 5, 24).tolist()
    rows = np.random.default_rng((seed, 3)).random((6, 16)) < 0.4
    rows[0] = False
    matches = rows[rng.integers(0, 6, 24)]
    problem = Problem(Propagation(PARENTS, access), Sample(matches, np.ones(16)))
    bundles = bundles_of(problem)
    partitions = expanded(problem.tree, bundles, plan_bundles(problem, bundles, 0.5, 80, 8))
    check(problem.tree, partitions)
    found = merges(PARENTS, access, problem.sample, 0.5, most_planned=8)
    assert [(one.broker, one.members) for one in found] == aggregators_of(problem.tree, partitions)
    gain, cost = summed(found)
    assert gain == gain_of(problem.tree, partitions)
    assert cost == pytest.approx(cost_of(problem, partitions))
    assert all(one.held_out_cost is None for one in found)
    merged = {s for one in found for s in one.members}
    assert not merged & set(np.flatnonzero(~matches.any(axis=1)).tolist()), "of silent ones nothing is known"
    for bundle in bundles:
        assert len({access[s] for s in bundle}) == 1
        assert len({matches[s].tobytes() for s in bundle}) == 1
        assert any(set(bundle) <= set(one.members) for one in found) or len(bundle) == 1


def test_equal_filters_at_one_broker_are_merged_there_for_nothing() -> None:
    sample = Sample(np.array([[True, False], [True, False], [False, True]]), np.ones(2))
    assert merges([NONE, 0], [1, 1, 0], sample, 0.0) == [Merge(1, 0, (0, 1), 2, 2, 0.0, None)]


@pytest.mark.parametrize(("improved", "method"), [(80, "improved"), (0, "best")])
def test_beyond_a_bound_the_quick_algorithm_plans(improved: int, method: str) -> None:
    access = np.random.default_rng(5).integers(0, 5, 14).tolist()
    sample = random_sample(14, 6, 40, 0.15)
    order = [bundle[0] for bundle in bundles_of(Problem(Propagation(PARENTS, access), sample))]
    same = Problem(
        Propagation(PARENTS, [access[s] for s in order]), Sample(sample.matches[order], sample.weights)
    )
    costs = {name: aggregate(same, 0.5, method=name).cost for name in ("improved", "best")}
    assert costs["improved"] < costs["best"]
    assert summed(merges(PARENTS, access, sample, 0.5, most_improved=improved))[1] == pytest.approx(
        costs[method]
    )


@pytest.mark.parametrize("count", [0, 1])
def test_there_may_be_nobody_to_merge(count: int) -> None:
    assert merges([NONE, 0], [1] * count, random_sample(count, 1), 0.5) == []
