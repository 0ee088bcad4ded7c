"""Prices of plans: bills added up by hand, choices by exhaustive comparison, and the front by its definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.planning_networks import grid, problem_on

from covey.errors import ConfigError
from covey.planning.groups.entries import table_entries
from covey.planning.groups.mult import held_out, point_of
from covey.planning.groups.regions import regions
from covey.planning.objective import PRICES, Objective, Offer, Usage, bill, cheapest, front, steps

OFFERS = st.lists(
    st.builds(
        Offer,
        st.sampled_from(["single", "many", "regions", "hybrid"]),
        st.integers(0, 5).map(float),
        st.integers(0, 5).map(float),
        st.integers(1, 4),
        st.integers(0, 5).map(float),
    ),
    min_size=1,
    max_size=7,
)


def test_a_bill_is_what_it_is_by_hand() -> None:
    prices = Objective(traffic=2, entry=3, memory=5, tree=7, copy=11, trial=13, migration=17, period=1000)
    used = Usage(cost=1.5, copies=2, trials=4, entries=10, bytes=2048, trees=3, brokers=6, moved=8)
    paid = bill(prices, used)
    assert paid.traffic == 3.0
    assert paid.tables == pytest.approx(0.030)
    assert paid.memory == pytest.approx(0.010)
    assert paid.trees == pytest.approx(7 * 3 * 6 / 1000)
    assert paid.publishing == 22 + 52
    assert paid.migration == pytest.approx(0.136)
    assert paid.total == pytest.approx(sum(paid.as_dict().values()) - paid.total)
    assert paid.fixed == pytest.approx(paid.total - paid.traffic)


@pytest.mark.parametrize("name", PRICES)
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_a_price_is_a_number_from_zero_on(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=name):
        Objective().with_prices({name: value})


def test_limits_and_names_are_checked() -> None:
    with pytest.raises(ConfigError, match="no price 'gold'"):
        Objective().with_prices({"gold": 1})
    with pytest.raises(ConfigError, match="most entries"):
        Objective(max_entries=-1)
    with pytest.raises(ConfigError, match="least saving"):
        Objective(min_saving=1)
    with pytest.raises(ConfigError, match="at least one event"):
        Objective(period=0)


@given(OFFERS, st.none() | st.integers(0, 5), st.sampled_from([0.0, 0.3]))
@settings(max_examples=200, deadline=None)
def test_the_choice_is_the_cheapest_that_fits(offers: list[Offer], most: int | None, least: float) -> None:
    objective = Objective(max_entries=most, min_saving=least)
    best, reason = cheapest(objective, offers, "single")
    fitting = [offer for offer in offers if most is None or offer.entries <= most]
    assert reason
    if not fitting:
        assert best.entries == min(offer.entries for offer in offers)
        return
    assert best in fitting
    price = min(offer.price for offer in fitting)
    one = next((offer for offer in fitting if offer.name == "single"), None)
    if best.price == price:
        assert best.trees == min(offer.trees for offer in fitting if offer.price == price) or best is one
    else:
        assert one is not None
        assert best is one
        assert 1 - price / one.price < least


@given(OFFERS)
@settings(max_examples=200, deadline=None)
def test_the_front_is_what_nothing_beats_in_both(offers: list[Offer]) -> None:
    along = front(offers)
    best = {
        (offer.cost, offer.entries)
        for offer in offers
        if not any(
            other.cost <= offer.cost
            and other.entries <= offer.entries
            and (other.cost, other.entries) != (offer.cost, offer.entries)
            for other in offers
        )
    }
    assert {(offer.cost, offer.entries) for offer in along} == best
    assert len(along) == len(best)
    for step in steps(Objective(), along):
        assert step.saved > 0
        assert step.more > 0
        # At the price that a step is worth, both ends cost the same.
        usual = Objective(entry=step.worth, memory=0, tree=0, copy=0, trial=0, migration=0)
        ends = [bill(usual, Usage(cost=o.cost, entries=o.entries)).total for o in (step.start, step.end)]
        assert ends[0] == pytest.approx(ends[1])


def test_dear_entries_and_trees_leave_one_tree() -> None:
    problem = problem_on(grid(5, 5), seed=3, objective=Objective(period=1e12))
    free = held_out(problem)
    assert len(free.trees) > 1, "there is something to save"
    dear = held_out(replace(problem, objective=Objective(period=1)))
    assert len(dear.trees) == 1
    trees = [len(held_out(replace(problem, objective=Objective(tree=tree))).trees) for tree in (0, 1e3, 1e5)]
    assert trees == sorted(trees, reverse=True), "the dearer a tree, the fewer"
    assert len(regions(replace(problem, objective=Objective(period=1))).trees) == 1


def test_a_limit_of_entries_is_kept() -> None:
    problem = problem_on(grid(5, 5), kind="attributes", seed=3, objective=Objective(period=1e12))
    free = held_out(problem)
    assert free.group is not None
    entries = [
        table_entries(one.trees, one.group, problem.sample.hosts, problem.asked)
        for limit in (None, 1, point_of(problem, free).entries)
        if (one := held_out(replace(problem, objective=Objective(period=1e12, max_entries=limit)))).group
        is not None
    ]
    assert entries[0] == entries[2]
    assert entries[1] <= entries[0]


def test_entries_on_the_way_are_those_of_the_result() -> None:
    problem = problem_on(grid(4, 4), seed=5, objective=Objective(period=1e12))
    found = held_out(problem)
    assert found.group is not None
    mine = next(point for point in found.curve if point.groups == len(found.trees))
    exact = point_of(problem, found)
    assert mine.entries == pytest.approx(exact.entries, rel=0.2), "final trees are chosen among more"
    assert np.isclose(mine.copies / mine.documents, exact.copies / exact.documents)
