"""A filter that the planner did not know joins the group that grows least, as the arrays of `groups.insert` have it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.planning_groups import matching, problems

import covey
from covey.core.filter import Filter
from covey.planning.groups.insert import growths
from covey.planning.groups.model import Grouping, Problem
from covey.planning.groups.mult import mult
from covey.planning.joining import Joining, Witness
from covey.planning.plan import Plan, PlannedTree
from covey.sim import Network

NAMES = [chr(ord("a") + number) for number in range(26)]


def matches_some(documents: set[int]) -> Filter:
    """A filter that matches the witnesses of these numbers, and no other."""
    return (
        covey.parse(f"n in ({', '.join(map(str, sorted(documents)))})")
        if documents
        else covey.parse("n = -1")
    )


def joining_of(problem: Problem, grouping: Grouping) -> Joining:
    assert grouping.group is not None
    graph, sample = problem.graph, problem.sample
    ends = [tuple(sorted((NAMES[a], NAMES[b]))) for a, b in graph.ends.tolist()]
    witnesses = []
    for number in range(sample.document_count):
        wanted: dict[int, set[str]] = {}
        for interest in matching(sample, number):
            wanted.setdefault(int(grouping.group[interest]), set()).add(NAMES[int(sample.hosts[interest])])
        groups = {tree: tuple(sorted(brokers)) for tree, brokers in wanted.items()}
        publisher = NAMES[int(sample.publishers[number])]
        witnesses.append(Witness(publisher, "attributes", json.dumps({"n": number}), groups))
    trees = [[ends[link] for link in tree.links.tolist()] for tree in grouping.trees]
    costs = dict(zip(ends, graph.costs.tolist(), strict=True))
    return Joining(trees, costs, witnesses)


@settings(max_examples=60, deadline=None)
@given(problems(), st.data())
def test_growths_are_those_of_planning(problem: Problem, data: st.DataObject) -> None:
    grouping = mult(problem)
    if not grouping.trees or (problem.sample.weights != 1).any():
        return
    host = data.draw(st.integers(0, problem.graph.nodes - 1))
    count = problem.sample.document_count
    documents = data.draw(st.sets(st.integers(0, count - 1))) if count else set()
    joining = joining_of(problem, grouping)
    growth = joining.growths(NAMES[host], matches_some(documents))
    expected = growths(problem, grouping, host, sorted(documents))
    assert growth.tolist() == pytest.approx(expected.tolist(), abs=1e-6)
    usual = data.draw(st.integers(0, len(grouping.trees) - 1))
    chosen = joining.choose(NAMES[host], matches_some(documents), usual)
    assert growth[chosen] <= growth.min() + 1e-6
    if growth[usual] <= growth.min():
        assert chosen == usual


#    a ─ b ─ c       two trees: the chain a–b–c–d, and the star around b
#        │   │
#        └ ─ d
PLAN = Plan(
    method="mult",
    seed=1,
    brokers=("a", "b", "c", "d"),
    links=(("a", "b", 1.0), ("b", "c", 1.0), ("b", "d", 1.0), ("c", "d", 1.0)),
    trees=(
        PlannedTree("a", (("a", "b"), ("b", "c"), ("c", "d"))),
        PlannedTree("b", (("a", "b"), ("b", "c"), ("b", "d"))),
    ),
    groups={("c", covey.parse("x = 1").encode()): 0},
    home={"d": 0},
    witnesses=(
        Witness("a", "attributes", '{"x": 1}', {0: ("c",)}),
        Witness("a", "attributes", '{"x": 2}', {}),
    ),
)


def test_a_new_subscription_goes_where_its_events_pass_already() -> None:
    # What c wants passes by on the chain: one link more for d there, and two on the star.
    assert PLAN.tree_of("d", covey.parse("x = 1")) == 0
    # Nobody wants these yet: d is nearer to a on the star.
    assert PLAN.tree_of("d", covey.parse("x = 2")) == 1
    # No witness matches, or two trees grow alike: it goes home.
    assert PLAN.tree_of("d", covey.parse("x = 3")) == 0
    assert PLAN.tree_of("b", covey.parse("x = 2")) == 0
    # What the planner knew stays where it was put.
    assert PLAN.tree_of("c", covey.parse("x = 1")) == 0


def test_witnesses_travel_in_the_file() -> None:
    assert Plan.decode(PLAN.encode()) == PLAN
    assert PLAN.to_tree_plan().group("d", covey.parse("x = 2")) == 1


@pytest.mark.parametrize(
    "witness",
    [
        PLAN.witnesses[0]._replace(publisher="z"),
        PLAN.witnesses[0]._replace(wanted={0: ("z",)}),
        PLAN.witnesses[0]._replace(wanted={2: ("a",)}),
        PLAN.witnesses[0]._replace(content="{"),
        PLAN.witnesses[0]._replace(language="latin"),
    ],
    ids=["publisher", "broker", "tree", "content", "language"],
)
def test_a_witness_that_cannot_be_is_refused(witness: Witness) -> None:
    from dataclasses import replace

    with pytest.raises(covey.PlanError):
        replace(PLAN, witnesses=(witness,))


def test_in_a_network_new_subscriptions_are_in_force_at_once_on_the_tree_they_join() -> None:
    net = Network([link[:2] for link in PLAN.links], strategy="trees", trees=PLAN.to_tree_plan())
    net.advertise("a", "x > 0")
    known, near, far = (net.subscribe(*where) for where in (("c", "x = 1"), ("d", "x = 1"), ("d", "x = 2")))
    net.settle()
    for x in (1, 2):
        net.clear_counters()
        net.publish("a", {"x": x})
        net.settle()
        # To c and d on the chain; to d alone on the star.
        assert net.counters["forwarded_events"] == {1: 3, 2: 2}[x]
    assert sorted(map(str, net.deliveries)) == sorted(
        map(str, [(known, {"x": 1}), (near, {"x": 1}), (far, {"x": 2})])
    )
