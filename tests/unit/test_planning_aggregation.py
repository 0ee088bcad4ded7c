"""Aggregation: samples, the model's rules and errors, and overlays."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles.planning_aggregation import problem_of, random_problem

from covey.errors import PlanError
from covey.planning.aggregation.cost import cost_of, unique_weight, waste_of
from covey.planning.aggregation.model import Problem, Propagation, check, gain_of, induced
from covey.planning.aggregation.optimum import optimum
from covey.planning.aggregation.overlay import at_load, local_measure, sa, shortest_tree, so
from covey.planning.aggregation.registry import ALGORITHMS, aggregate, plan_of
from covey.planning.aggregation.sample import Sample

# -- samples -------------------------------------------------------------------------------------------------


def test_segments_and_unit_cells_are_the_same_measure() -> None:
    lows, highs = [0, 3, 2, 9], [4, 7, 6, 9]
    segments = Sample.of_ranges(lows, highs)
    cells = np.arange(10) + 0.5
    drawn = Sample.of_boxes(np.array(lows)[:, None], np.array(highs)[:, None], cells[:, None])
    matrix = Sample.of_matches((np.array(lows) <= cells[:, None]) & (cells[:, None] < np.array(highs)))
    for block in ((0, 1), (0, 2), (0, 1, 2), (1, 3), (0, 1, 2, 3)):
        expected = unique_weight(segments, block)
        assert unique_weight(drawn, block) == unique_weight(matrix, block) == expected
    assert segments.similarity() == pytest.approx(drawn.similarity())
    assert segments.similarity()[3, 3] == 1.0  # two filters that match nothing are alike


def test_a_density_weighs_segments_by_their_probability() -> None:
    sample = Sample.of_ranges([0, 1], [2, 3], lambda x: 1 - np.exp(-x))
    assert unique_weight(sample, (0, 1)) == pytest.approx((1 - np.exp(-1)) + (np.exp(-2) - np.exp(-3)))
    assert unique_weight(sample, (0,)) == 0.0


def test_plans_follow_uneven_rates() -> None:
    """Two pairs overlap alike; events are rare where the first pair differs, so that pair is merged."""
    lows, highs = [0, 10, 40, 50], [20, 30, 60, 70]
    tree = Propagation([-1], [0] * 4)
    for dense_above in (True, False):

        def cumulative(x: np.ndarray, above: bool = dense_above) -> np.ndarray:
            return np.where(x < 35, x, 35 + (x - 35) * (10 if above else 0.1))

        problem = Problem(tree, Sample.of_ranges(lows, highs, cumulative))
        expected = (0, 1) if dense_above else (2, 3)
        for method in ("mefa", "improved", "optimum"):
            assert aggregate(problem, theta=1, method=method).aggregators == ((0, expected),)


def test_compacting_keeps_weights_and_drops_what_nobody_wants() -> None:
    sample = Sample.of_matches([[1, 0], [0, 0], [1, 0], [1, 1]], [1.0, 5.0, 2.0, 4.0]).compact()
    assert sorted(sample.weights.tolist()) == [3.0, 4.0]
    nothing = Sample.of_matches([[0, 0], [0, 0]]).compact()
    assert nothing.filters == 2
    assert nothing.total == 0.0


def test_bit_sets_and_their_table_weigh_alike() -> None:
    rng = np.random.default_rng(1)
    sample = Sample.of_matches(rng.random((77, 5)) < 0.4, rng.random(77))
    assert sample.bits.shape[1] % 8 == 0
    for row in range(5):
        by_table = sum(sample.table[byte, value] for byte, value in enumerate(sample.bits[row]))
        assert by_table == pytest.approx(sample.weights[sample.matches[row]].sum())


def test_hulls_waste_what_lies_between() -> None:
    """Charged apart from the cost, on each link, for ever and whatever the leave rate."""
    problem = problem_of([-1, 0], [1, 1], [(0, 2), (5, 9)], leaves=7.0)
    plan = plan_of(problem, induced(problem.tree, [(0, 1)]))
    assert plan.waste == 3.0 * 2
    assert plan_of(problem, induced(problem.tree, [])).waste == 0.0
    points = [[0.5, 0.5], [1.5, 1.5], [2.5, 0.5], [9.0, 9.0]]
    boxes = Sample.of_boxes([[0, 0], [2, 2]], [[1, 1], [3, 3]], points)
    flat = Problem(Propagation([-1], [0, 0]), boxes)
    assert waste_of(flat, induced(flat.tree, [(0, 1)])) == 2.0
    unknown = Problem(flat.tree, Sample.of_matches([[1, 0], [0, 1]]))
    assert plan_of(unknown, induced(flat.tree, [(0, 1)])).waste is None


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Sample.of_ranges([1], [0]),
        lambda: Sample.of_matches([[1, 0]], [-1.0]),
        lambda: Sample.of_matches([[1, 0]], [1.0, 2.0]),
        lambda: Sample.of_matches([[1, 0]], [float("nan")]),
        lambda: Sample.of_boxes([[0, 0]], [[1, 1]], [[0.5]]),
    ],
)
def test_bad_samples_are_refused(bad) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(PlanError):
        bad()


def test_filters_without_ranges_are_ordered_by_likeness() -> None:
    filters = [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0], [1, 1, 0, 0, 0, 0]]
    assert Sample.of_matches(np.transpose(filters)).order().tolist() == [0, 2, 1]


# -- model ---------------------------------------------------------------------------------------------------


def test_depths_gain_and_target() -> None:
    tree = Propagation([-1, 0, 1], [2, 2, 1, 0])
    assert tree.depths.tolist() == [1, 2, 3]
    assert tree.below == ((0, 1, 2, 3), (0, 1, 2), (0, 1))
    assert tree.most_gain == 3 + 2 + 1
    problem = random_problem(1, 5, 3, "cascade")
    assert problem.target(0.0) == 0
    assert problem.target(1.0) == problem.tree.most_gain
    merged = induced(tree, [(0, 1)])
    assert gain_of(tree, merged) == 3  # one filter less on each of three links


def test_rates_multiply_the_cost() -> None:
    slow = problem_of([-1], [0, 0], [(0, 4), (2, 6)])
    fast = problem_of([-1], [0, 0], [(0, 4), (2, 6)], events=3.0, leaves=0.5)
    assert aggregate(fast, theta=1).cost == 1.5 * aggregate(slow, theta=1).cost == 6.0
    assert optimum(fast, 1).gap == 0.0


def test_held_out_events_judge_a_plan() -> None:
    rng = np.random.default_rng(5)
    low = rng.random((12, 2)) * 0.7
    tree = Propagation([-1, 0, 0], rng.integers(0, 3, 12).tolist())
    seen, unseen = (Sample.of_boxes(low, low + 0.3, rng.random((40, 2))) for _ in range(2))
    problem = Problem(tree, seen, held_out=unseen)
    plan = aggregate(problem, 0.5, method="best")
    assert plan.held_out_cost == cost_of(problem, plan.partitions, unseen)
    assert plan.held_out_cost != plan.cost


@pytest.mark.parametrize(
    ("parents", "access"),
    [([-1, -1], [0]), ([0], [0]), ([-1, 2, 1], [0]), ([-1, 5], [0]), ([-1], [1]), ([-1], [-2])],
)
def test_bad_trees_are_refused(parents: list[int], access: list[int]) -> None:
    with pytest.raises(PlanError):
        Propagation(parents, access)


def test_plans_that_break_the_rules_are_refused() -> None:
    tree = Propagation([-1, 0], [1, 1, 0])
    check(tree, (((0, 1), (2,)), ((0, 1),)))
    for bad in (
        (((0,), (1,), (2,)), ((0, 1),)),  # taken apart again
        (((0, 1),), ((0,), (1,))),  # somebody is missing
        (((0, 1), (1,), (2,)), ((0,), (1,))),  # somebody is there twice
        (((0, 1), (2,)),),
    ):
        with pytest.raises(PlanError):
            check(tree, bad)


def test_wrong_questions_are_refused() -> None:
    problem = problem_of([-1], [0, 0], [(0, 4), (2, 6)])
    for wrong in (
        lambda: aggregate(problem),
        lambda: aggregate(problem, 0.5, theta=1),
        lambda: aggregate(problem, 1.5),
        lambda: aggregate(problem, theta=2),
        lambda: aggregate(problem, 0.5, method="magic"),
        lambda: optimum(problem, 2),
        lambda: optimum(random_problem(1, 40, 3, "cascade"), 1),
        lambda: Problem(problem.tree, Sample.of_ranges([0], [1])),
        lambda: problem_of([-1], [0], [(0, 1)], "bottom"),
    ):
        with pytest.raises(PlanError):
            wrong()


@pytest.mark.parametrize("method", ALGORITHMS)
@pytest.mark.parametrize("accounting", ["cascade", "top"])
def test_the_ends_of_the_scale(method: str, accounting: str) -> None:
    """Nothing asked for costs nothing; all asked for leaves one filter a link."""
    problem = random_problem(2, 5, 3, accounting)
    nothing, everything = aggregate(problem, 0.0, method=method), aggregate(problem, 1.0, method=method)
    assert nothing.cost == 0.0
    assert everything.gain == problem.tree.most_gain
    assert all(len(partition) <= 1 for partition in everything.partitions)
    lonely = problem_of([-1, 0], [1], [(0, 3)], accounting)
    assert aggregate(lonely, 1.0, method=method).gain == 0


def test_brokers_without_anybody_below_carry_nothing() -> None:
    problem = problem_of([-1, 0, 0, 2], [1, 1], [(0, 3), (1, 4)])
    plan = aggregate(problem, 1.0)
    assert plan.partitions == (((0, 1),), ((0, 1),), (), ())


def test_improved_takes_a_branch_out_of_a_block() -> None:
    """Of one block for all, the cheapest plan takes the four below one broker; one by one, each would cost too much."""
    lows = np.array([65, 37, 1, 41, 52, 49, 60, 45])
    tree = Propagation([-1, 0, 0, 0, 2, 3, 2, 4], [3, 7, 3, 4, 4, 4, 3, 3])
    problem = Problem(tree, Sample.of_ranges(lows, lows + 50), "top")
    assert aggregate(problem, 0.9, method="best").cost == 123.0
    assert (
        aggregate(problem, 0.9, method="improved").cost
        == aggregate(problem, 0.9, method="optimum").cost
        == 65.0
    )


# -- overlays ------------------------------------------------------------------------------------------------


def test_the_shortest_tree_reaches_everyone() -> None:
    assert shortest_tree([[1, 2], [0, 2, 3], [0, 1, 3], [1, 2]], 0).tolist() == [-1, 0, 0, 1]
    with pytest.raises(PlanError):
        shortest_tree([[1], [0], []], 0)
    with pytest.raises(PlanError):
        so(np.array([-1], np.int32), [[]])


@pytest.mark.parametrize("gamma", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("seed", range(4))
def test_sa_stops_where_no_allowed_move_is_left(seed: int, gamma: float) -> None:
    rng = np.random.default_rng(seed)
    parents = np.array([-1, *(int(rng.integers(0, v)) for v in range(1, 6))], np.int32)
    reach = [sorted(rng.choice(6, 3, replace=False).tolist()) for _ in range(10)]
    low = rng.integers(0, 20, 10)
    sample = Sample.of_ranges(low, low + rng.integers(2, 12, 10))
    before, after = so(parents, reach), sa(parents, reach, sample, gamma)
    measure = local_measure(after, sample)
    assert measure <= local_measure(before, sample)
    assert all(after.access[s] in brokers for s, brokers in enumerate(reach))
    for subscriber, brokers in enumerate(reach):
        for broker in brokers:
            access = after.access.copy()
            hops = max(0, int(after.depths[broker] - after.depths[access[subscriber]]))
            access[subscriber] = broker
            fall = measure - local_measure(Propagation(parents, access), sample)
            assert fall <= max(1e-6, gamma * hops)


def test_overlays_are_compared_at_equal_load() -> None:
    rng = np.random.default_rng(3)
    parents = np.array([-1, 0, 1, 1, 0], np.int32)
    reach = [sorted(rng.choice(5, 3, replace=False).tolist()) for _ in range(8)]
    low = rng.integers(0, 20, 8)
    sample = Sample.of_ranges(low, low + 8)
    plain, moved = Problem(so(parents, reach), sample), Problem(sa(parents, reach, sample), sample)
    plan = aggregate(plain, 0.5, method="best")
    assert at_load(plain, plan.load).cost == plan.cost
    other = at_load(moved, plan.load)
    assert other.load <= plan.load
    check(moved.tree, other.partitions)
