"""Aggregation on random trees and ranges: every algorithm keeps the rules, and kernels agree with plain definitions."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.planning_aggregation import (
    cheapest,
    departures,
    exact_cost,
    problem_of,
    random_problem,
)

from covey.matching.jit import kernel
from covey.planning.aggregation import cascade_kernels, top_kernels
from covey.planning.aggregation.anneal_kernels import BEST, COST, DRAWS, GAIN, anneal_cascade, anneal_top
from covey.planning.aggregation.cost import cost_of, unique_weight
from covey.planning.aggregation.dpa import grouping, table_of
from covey.planning.aggregation.improve import improved, neighbours_of, places_of
from covey.planning.aggregation.model import Problem, check, gain_of, induced
from covey.planning.aggregation.moves import CascadeState, TopState, blocks_of, loaded, state_of
from covey.planning.aggregation.optimum import optimum
from covey.planning.aggregation.registry import ALGORITHMS, aggregate

ACCOUNTINGS = ("cascade", "top")
DELAYS = ("access", "constant")
GREEDY = [name for name in ALGORITHMS if name not in ("improved", "optimum")]

Case = tuple[Problem, list[tuple[int, int]], int]


@kernel
def detach_cascade(
    layout: Any, blocks: Any, table: Any, filters: Any, hops: Any, apart: Any, slot: int, links: int
) -> Any:
    return cascade_kernels.detach(layout, blocks, table, filters, hops, apart, slot, links)


@kernel
def detach_top(groups: Any, ways: Any, table: Any, subscriber: int) -> Any:
    return top_kernels.detach(groups, ways, table, subscriber)


@st.composite
def cases(draw: Any, most_subscribers: int = 9, most_brokers: int = 6) -> Case:
    brokers = draw(st.integers(1, most_brokers))
    parents = [-1, *(draw(st.integers(0, v - 1)) for v in range(1, brokers))]
    count = draw(st.integers(2, most_subscribers))
    access = draw(st.lists(st.integers(0, brokers - 1), min_size=count, max_size=count))
    sizes = st.tuples(st.integers(0, 20), st.integers(0, 12))
    ranges = [(low, low + size) for low, size in draw(st.lists(sizes, min_size=count, max_size=count))]
    accounting, delay = draw(st.sampled_from(ACCOUNTINGS)), draw(st.sampled_from(DELAYS))
    problem = problem_of(parents, access, ranges, accounting, delay=delay)
    return problem, ranges, draw(st.integers(0, problem.tree.most_gain))


@given(cases())
@settings(max_examples=40)
def test_every_plan_is_nested_and_saves_enough_and_costs_what_it_says(case: Case) -> None:
    problem, ranges, theta = case
    for method in GREEDY:
        plan = aggregate(problem, theta=theta, method=method)
        check(problem.tree, plan.partitions)
        assert plan.gain == gain_of(problem.tree, plan.partitions) >= theta, method
        assert plan.cost == pytest.approx(exact_cost(problem, ranges, plan.partitions)), method
        assert plan.load == sum(map(len, problem.tree.below)) - plan.gain
        assert aggregate(problem, theta=theta, method=method) == plan, f"{method} is not the same every time"


@given(cases(), st.integers(0, 3))
@settings(max_examples=40)
def test_improved_keeps_the_rules_and_is_never_worse_than_a_greedy_plan(case: Case, seed: int) -> None:
    problem, _, theta = case
    cost = {name: aggregate(problem, theta=theta, method=name).cost for name in GREEDY}
    assert cost["best"] == min(cost["mefa"], cost["mefa+"])
    plan = improved(problem, theta, seed=seed, rounds=2, proposals=1000)
    check(problem.tree, plan)
    assert gain_of(problem.tree, plan) >= theta
    assert cost_of(problem, plan) <= min(cost[name] for name in GREEDY if name != "aa") + 1e-9
    assert improved(problem, theta, seed=seed, rounds=2, proposals=1000) == plan


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
@pytest.mark.parametrize("delay", DELAYS)
def test_the_integer_program_finds_the_cheapest_of_all_plans(accounting: str, delay: str) -> None:
    for seed in range(8):
        problem = random_problem(seed, 4 + seed % 2, 2 + seed % 2, accounting, delay)
        assert problem.sample.lows is not None
        assert problem.sample.highs is not None
        ranges = [
            (int(a), int(b))
            for a, b in zip(problem.sample.lows[:, 0], problem.sample.highs[:, 0], strict=True)
        ]
        for share in (0.4, 0.8):
            theta = problem.target(share)
            found = optimum(problem, theta)
            assert found.gap == 0
            check(problem.tree, found.partitions)
            assert gain_of(problem.tree, found.partitions) >= theta
            assert found.cost == pytest.approx(cheapest(problem, ranges, theta)), (seed, share)


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
def test_improved_stays_near_the_optimum(accounting: str) -> None:
    """The aim is 5 % in the mean; what is found on these is the optimum itself in nearly all."""
    ratios = []
    for seed in range(12):
        problem = random_problem(100 + seed, 8, 4, accounting)
        theta = problem.target((0.3, 0.5, 0.7, 0.9)[seed % 4])
        exact = optimum(problem, theta)
        found = aggregate(problem, theta=theta, method="improved").cost
        assert found >= exact.cost - 1e-6
        ratios.append(found / exact.cost if exact.cost else 1.0 + found)
    assert float(np.mean(ratios)) <= 1.05


@given(
    cases(), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 4)), max_size=25)
)
def test_joining_and_taking_apart_keep_the_books(case: Case, steps: list[tuple[int, int, int]]) -> None:
    """After each random step cost and gain are those of the plan counted afresh, and an undone step leaves no trace."""
    problem, ranges, _ = case
    state = state_of(problem)
    label = state.groups.label if isinstance(state, TopState) else state.blocks.label
    for first, second, links in steps:
        a = first % len(label)
        if isinstance(state, CascadeState):
            layout = state.layout
            start = int(layout.offsets[layout.broker[a]])
            b = start + second % (int(layout.offsets[layout.broker[a] + 1]) - start)
        else:
            b = second % len(label)
        before = label.copy()
        if label[a] != label[b]:
            state.join((a, b))
        elif isinstance(state, CascadeState) and state.blocks.inputs[label[a]] > 1:
            layout, blocks = state.layout, state.blocks
            apart = np.zeros(problem.tree.subscribers, np.uint8)
            change, gain, rest = detach_cascade(
                layout, blocks, state.table, state.filters, state.hops, apart, a, links
            )
            assert not apart.any()
            check(problem.tree, state.partitions())
            counted = exact_cost(problem, ranges, state.partitions())
            assert state.cost + change == pytest.approx(counted)
            change_back, gain_back = cascade_kernels.join(
                layout, blocks, state.table, int(label[a]), int(label[rest]), state.changed
            )
            assert change_back == pytest.approx(-change)
            assert gain_back == -gain
            assert (label == before).all()
        elif isinstance(state, TopState) and state.groups.size[label[a]] > 1:
            change, gain, rest = detach_top(state.groups, state.ways, state.table, a)
            assert state.cost + change == pytest.approx(exact_cost(problem, ranges, state.partitions()))
            assert state.gain + gain == gain_of(problem.tree, state.partitions())
            if second % 2:
                state.cost, state.gain = state.cost + change, state.gain + gain
            else:
                top_kernels.join(
                    state.groups, state.ways, state.table, int(label[a]), int(label[rest]), state.changed
                )
                assert (label == before).all()
        assert state.cost == pytest.approx(exact_cost(problem, ranges, state.partitions()))
        assert state.gain == gain_of(problem.tree, state.partitions())


@given(cases(), st.integers(0, 10**6), st.sampled_from([0.1, 10.0]))
@settings(max_examples=40)
def test_annealing_keeps_the_books(case: Case, seed: int, temperature: float) -> None:
    """After many proposals, taken or undone, the totals are those of the plan counted afresh, and so is the best."""
    problem, ranges, theta = case
    state = state_of(problem)
    label = state.groups.label if isinstance(state, TopState) else state.blocks.label
    if problem.tree.most_gain == 0:
        return
    totals, best = np.array([0.0, 0.0, 1e9]), label.copy()
    draws = np.random.default_rng(seed).random((60, DRAWS))
    near = neighbours_of(problem)
    if isinstance(state, TopState):
        anneal_top(
            state.groups, state.ways, state.table, problem.tree.parents, problem.tree.access,
            near, draws, theta, temperature, 5.0, totals, best, 1e-6,
        )  # fmt: skip
    else:
        anneal_cascade(
            state.layout, state.blocks, state.table, state.filters, state.hops, places_of(problem),
            near, draws, theta, temperature, 5.0, totals, best, 1e-6,
        )  # fmt: skip
    check(problem.tree, state.partitions())
    assert totals[COST] == pytest.approx(exact_cost(problem, ranges, state.partitions()))
    assert totals[GAIN] == gain_of(problem.tree, state.partitions())
    if totals[BEST] < 1e9:
        label[:] = best
        assert gain_of(problem.tree, state.partitions()) >= theta
        assert totals[BEST] == pytest.approx(exact_cost(problem, ranges, state.partitions()))


@given(cases(), st.integers(0, 10**6))
def test_candidates_are_up_to_date_after_every_move(case: Case, choice: int) -> None:
    """Values kept from move to move equal those of a state made afresh, and say what joining then really changes."""
    problem, _, _ = case
    state = state_of(problem)
    while np.isfinite(ratios := state.candidates(alike=False)).any():
        fresh = loaded(problem, state.partitions())
        assert fresh.cost == pytest.approx(state.cost)
        assert fresh.gain == state.gain
        assert ratios == pytest.approx(fresh.candidates(alike=False))
        kept, larger = state.larger(), fresh.larger()
        assert kept[0] == pytest.approx(larger[0])
        if kept[1]:
            cost, gain = fresh.cost, fresh.gain
            fresh.join(kept[1])
            assert (fresh.cost - cost) / (fresh.gain - gain) == pytest.approx(kept[0])
        finite = np.flatnonzero(np.isfinite(ratios))
        candidate = int(finite[choice % len(finite)])
        cost, gain, value = state.cost, state.gain, float(ratios[candidate])
        state.join(state.pair(candidate)[1:])
        assert (state.cost - cost) / (state.gain - gain) == pytest.approx(value)
    assert state.gain == problem.tree.most_gain or isinstance(state, TopState)


@given(cases())
def test_similarity_of_candidates_is_that_of_the_filters(case: Case) -> None:
    problem, _, _ = case
    state, alike = state_of(problem), problem.sample.similarity()
    values = state.candidates(alike=True)
    for candidate in np.flatnonzero(np.isfinite(values)).tolist():
        _, x, y = state.pair(candidate)
        if isinstance(state, CascadeState):
            x, y = int(state.layout.subscriber[x]), int(state.layout.subscriber[y])
        assert -values[candidate] == pytest.approx(alike[x, y])


@given(cases(most_subscribers=7, most_brokers=1))
def test_dpa_is_the_best_contiguous_grouping(case: Case) -> None:
    problem, _, _ = case
    order = problem.sample.order().tolist()
    best, choices = table_of(problem.sample, order)
    count = len(order)
    for merges in range(count):
        costs = []
        for cuts in combinations(range(1, count), count - 1 - merges):
            ends = [0, *cuts, count]
            groups = [order[a:b] for a, b in pairwise(ends)]
            costs.append(sum(unique_weight(problem.sample, group) for group in groups))
        assert best[count, merges] == pytest.approx(min(costs))
        groups = grouping(order, choices, merges)
        assert sum(len(group) - 1 for group in groups) == merges
        assert [s for group in groups for s in group] == order
        assert sum(unique_weight(problem.sample, group) for group in groups) == pytest.approx(min(costs))


@given(cases())
def test_a_plan_survives_being_loaded(case: Case) -> None:
    problem, _, theta = case
    plan = aggregate(problem, theta=theta, method="mefa")
    state = loaded(problem, plan.partitions)
    assert state.partitions() == plan.partitions
    if isinstance(state, CascadeState):
        assert blocks_of(problem, state.blocks.label) == plan.partitions


@given(cases())
def test_compact_samples_cost_the_same(case: Case) -> None:
    problem, _, theta = case
    plan = aggregate(problem, theta=theta, method="spa").partitions
    assert cost_of(problem, plan, problem.compact) == pytest.approx(cost_of(problem, plan))


def test_merging_early_is_the_finest_gain_of_a_grouping() -> None:
    """Under top, no plan with the same final blocks saves more than the one that merges early."""
    problem = random_problem(3, 6, 4, "top")
    for method in ("mefa", "spa", "aa"):
        plan = aggregate(problem, 0.6, method=method)
        assert plan.partitions == induced(problem.tree, plan.partitions[problem.tree.root])


@pytest.mark.parametrize("seed", range(3))
def test_departures_one_by_one_cost_what_the_cascade_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ranges = [(int(low), int(low) + int(size)) for low, size in rng.integers(1, 8, (6, 2))]
    problem = problem_of([-1, 0, 0, 1], rng.integers(0, 4, 6).tolist(), ranges)
    plan = aggregate(problem, 0.7, method="aa")
    mean, error = departures(problem, ranges, plan.partitions, 3000, seed)
    assert error > 0
    assert abs(mean - plan.cost / 6) < 4 * error
