"""What Wang and Wu say of the cost of aggregation, where it is exact enough to be checked.

*Minimizing the Subscription Aggregation Cost in the Content-based Pub/Sub System*, by section. The ranges of the
figures are those that make the printed numbers come out. Three statements do not hold: smallest counterexamples stand
here.
"""

from __future__ import annotations

import pytest
from tests.oracles.planning_aggregation import problem_of

from covey.planning.aggregation.cost import cost_of, cost_of_departure, unique_weight
from covey.planning.aggregation.dpa import table_of
from covey.planning.aggregation.model import Problem, gain_of
from covey.planning.aggregation.moves import state_of
from covey.planning.aggregation.optimum import optimum
from covey.planning.aggregation.overlay import local_measure, sa, so
from covey.planning.aggregation.registry import aggregate

S1, S2, S3 = 0, 1, 2
B2, B1 = 0, 1  # the publisher is next to b2
L = 10


def figure_3(accounting: str = "cascade") -> Problem:
    return problem_of([-1, B2], [B1, B1, B2], [(1, 4), (5, 9), (2, 5)], accounting)


@pytest.mark.parametrize(
    ("at_b2", "at_b1", "gain", "by_leaver", "total"),
    [
        (((S1, S2), (S3,)), ((S1, S2),), 2, [3, 4, 0], 7),
        (((S1, S2, S3),), ((S1,), (S2,)), 2, [1, 4, 1], 6),
        (((S1,), (S2, S3)), ((S1,), (S2,)), 1, [0, 4, 3], 7),
    ],
    ids=["3a", "3b", "3c"],
)
def test_iii_figure_3_gains_and_costs(at_b2, at_b1, gain, by_leaver, total) -> None:  # type: ignore[no-untyped-def]
    """W1: (a) saves 2, (b) 2, (c) 1; if s1 leaves they cost 3, 1, 0. That is one leaver's part of the objective."""
    problem, plan = figure_3(), (at_b2, at_b1)
    assert gain_of(problem.tree, plan) == gain
    assert [cost_of_departure(problem, plan, s) for s in (S1, S2, S3)] == by_leaver
    assert cost_of(problem, plan) == sum(by_leaver) == total


@pytest.mark.parametrize(("theta", "cost"), [(1, 2), (2, 6), (3, 13)])
def test_iii_figure_3_optima(theta: int, cost: int) -> None:
    assert aggregate(figure_3(), theta=theta, method="optimum").cost == pytest.approx(cost)
    assert aggregate(figure_3(), theta=theta, method="improved").cost == pytest.approx(cost)


def test_iii_figure_3_optimal_plans() -> None:
    assert aggregate(figure_3(), theta=1, method="optimum").aggregators == ((B2, (S1, S3)),)
    assert aggregate(figure_3(), theta=2, method="optimum").aggregators == ((B2, (S1, S2, S3)),)
    assert aggregate(figure_3(), theta=3, method="optimum").aggregators == (
        (B2, (S1, S2, S3)),
        (B1, (S1, S2)),
    )


def test_iii_the_printed_sum_of_growths_would_fall_below_nothing() -> None:
    """r · growth of the unique range, added up: [0,7) and [7,14) at r = 1, then [0,14) at r = 3."""
    sample = problem_of([-1], [0, 0, 0], [(0, 7), (7, 14), (0, 14)]).sample
    two, three = unique_weight(sample, (0, 1)), unique_weight(sample, (0, 1, 2))
    assert (two, three) == (14, 0)
    assert 1 * two + 3 * (three - two) == -28


def test_iv_dpa_is_not_optimal_at_constant_delay() -> None:
    """W5: one merge among [2,3), [2,6), [7,8): the best pair is not contiguous."""
    problem = problem_of([-1], [0, 0, 0], [(2, 3), (2, 6), (7, 8)], delay="constant")
    assert aggregate(problem, theta=1, method="dpa").cost == 3
    found = aggregate(problem, theta=1, method="optimum")
    assert found.cost == 2
    assert found.partitions == (((0, 2), (1,)),)


def test_iv_dpa_one_merge_more_can_be_cheaper() -> None:
    """So the answer is the minimum over m merges or more."""
    problem = problem_of([-1], [0, 0, 0], [(0, 7), (0, 14), (7, 14)], delay="constant")
    best, _ = table_of(problem.sample, [0, 1, 2])
    assert best[3].tolist() == [0, 7, 0]
    plan = aggregate(problem, theta=1, method="dpa")
    assert (plan.gain, plan.cost) == (2, 0)


def test_v_theorem_2_the_grouping_by_range_alone_has_no_ratio() -> None:
    """All subscribers are equally far, h = 1, and yet the optimum is 0 and DPA pays."""
    ranges = [(0, 4), (0, 9), (3, 20), (4, 9)]  # all but [3,20) are free together, and it stands between them
    problem = problem_of([-1], [0] * 4, ranges, delay="constant")
    assert aggregate(problem, theta=2, method="optimum").cost == 0
    assert aggregate(problem, theta=2, method="dpa").cost > 0


def test_v_theorem_3_the_cost_is_not_submodular() -> None:
    """W5: with [0,7), [7,14), [0,14) the same merge changes the cost by -14 on few merges and by 0 on more; and it is
    not supermodular, as another changes it by 7 on none and by -14 on one."""
    problem = problem_of([-1], [0, 0, 0], [(0, 7), (7, 14), (0, 14)])

    def cost(*merges: tuple[int, int]) -> float:
        state = state_of(problem)
        for merge in merges:
            state.join(merge)
        return state.cost

    few, many, merge = [(0, 1)], [(0, 1), (1, 2)], (0, 2)
    assert cost(*few, merge) - cost(*few) == -14
    assert cost(*many, merge) - cost(*many) == 0
    assert cost((1, 2)) - cost() == 7
    assert cost(*few, (1, 2)) - cost(*few) == -14


@pytest.mark.parametrize(("theta", "mefa"), [(1, 1), (2, 11)])
def test_v_theorem_4_mefa_has_no_bound(theta: int, mefa: int) -> None:
    """W5: two halves and their whole cost nothing together; pairs do not show it, so no finite ratio holds."""
    problem = problem_of([-1], [0] * 5, [(0, L), (L, 2 * L), (0, 2 * L), (30, 40), (30, 41)])
    assert optimum(problem, theta).cost == 0
    assert aggregate(problem, theta=theta, method="mefa").cost == mefa
    assert aggregate(problem, theta=theta, method="mefa+").cost == 0
    assert aggregate(problem, theta=theta, method="improved").cost == 0


def test_vi_figure_4_a_longer_way_may_need_less() -> None:
    """The unique range at b1 falls from 5 to 2 when s3 goes there instead of to the nearer b2."""
    parents = [-1, 0, 1]  # publisher's broker, b2, b1
    ranges = [(1, 4), (3, 7), (2, 6)]
    sample = problem_of([-1], [0] * 3, ranges).sample
    assert unique_weight(sample, (0, 1)) == 5
    assert unique_weight(sample, (0, 1, 2)) == 2
    reach = [[2], [2], [1, 2]]
    nearest = so(parents, reach)  # type: ignore[arg-type]
    assert nearest.access.tolist() == [2, 2, 1]
    assert local_measure(nearest, sample) == 5 + 4
    assert sa(parents, reach, sample, gamma=1.0).access.tolist() == [2, 2, 2]  # type: ignore[arg-type]
    assert sa(parents, reach, sample, gamma=7.0).access.tolist() == [2, 2, 1]  # type: ignore[arg-type]
