"""Planned trees, installed: they deliver what flooding delivers, and cost what was predicted, link by link."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.installed import Installed, World, in_regions, kept_local, tree_plan, worlds

from covey.planning.groups.model import Grouping
from covey.planning.groups.mult import mult
from covey.planning.groups.registry import METHODS

# Not installed: flooding and OPT have no groups that events are filtered for, and SemCast's publishers hand an event in
# on a way of their own that is not on the channel's tree; channels that were split have no groups either.
INSTALLED = (
    "single", "spt", "unicast", "mult", "overlap", "mult2", "hybrid", "held-out", "regions", "regions-cheapest",
    "mixed",
)  # fmt: skip


def check(world: World, grouping: Grouping, flooded: list[object], advertisements: bool) -> None:
    plan = tree_plan(world, grouping)
    assert plan.strategy == ("trees" if grouping.one_copy is None else "regions")
    installed = Installed(world, plan, advertisements=advertisements)
    for events, predicted, expected in zip(
        (world.sample, world.fresh), (grouping.sample, grouping.held_out), flooded, strict=True
    ):
        found = installed.publish(events)
        assert predicted is not None
        assert found.deliveries == expected, grouping.name
        if (world.graph.costs % 0.5 == 0).all():  # sums of these are exact
            assert found.cost == predicted.cost, grouping.name
        assert found.cost == pytest.approx(predicted.cost, rel=1e-9, abs=1e-9), grouping.name
        assert found.copies + kept_local(world, grouping, events) == predicted.copies, grouping.name
        assert not found.false_positives, grouping.name


@settings(max_examples=20, deadline=None)
@given(worlds(), st.booleans())
def test_a_plan_of_any_method_delivers_exactly_and_costs_what_was_predicted(
    world: World, advertisements: bool
) -> None:
    flooding = Installed(world, None)
    flooded: list[object] = [flooding.publish(events).deliveries for events in (world.sample, world.fresh)]
    problem = world.problem()
    for method in INSTALLED:
        check(world, METHODS[method](problem), flooded, advertisements)


@settings(max_examples=40, deadline=None)
@given(worlds(), st.booleans(), st.data())
def test_so_do_plans_with_as_many_trees_as_one_likes(
    world: World, advertisements: bool, data: st.DataObject
) -> None:
    flooding = Installed(world, None)
    flooded: list[object] = [flooding.publish(events).deliveries for events in (world.sample, world.fresh)]
    problem = world.problem()
    roots = data.draw(st.lists(st.integers(0, world.graph.nodes - 1), min_size=1, max_size=4))
    for rule in ("nearest", "cheapest"):
        check(world, in_regions(problem, roots, rule), flooded, advertisements)
    check(world, mult(problem, groups=data.draw(st.integers(1, 4))), flooded, advertisements)


def test_every_method_is_installed_or_said_not_to_be() -> None:
    others = set(METHODS) - set(INSTALLED)
    assert others == {"flooding", "opt", *(method for method in METHODS if method.startswith("semcast"))}
