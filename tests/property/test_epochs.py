"""Plans installed while events flow and clients come and go: nothing is lost, nothing comes twice, order is kept.

The network is made of whole cores and streams in memory; which stream moves next is drawn at random.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.cores import Client, Cores, links_of

from covey.broker.plans import Step
from covey.core.families import parse
from covey.core.filter import Filter
from covey.errors import PlanError
from covey.planning.plan import Plan, PlannedTree

#   a ─ b ─ c      a square with a tail, and a chord
#   │   │ ╲ │
#   d ─ e   f
LINKS = [("a", "b"), ("b", "c"), ("a", "d"), ("b", "e"), ("d", "e"), ("b", "f"), ("c", "f")]
ON_TREE = [("a", "b"), ("b", "c"), ("a", "d"), ("b", "e"), ("b", "f")]
TREES = [
    PlannedTree("e", (("a", "d"), ("b", "c"), ("b", "e"), ("b", "f"), ("d", "e"))),
    PlannedTree("c", (("a", "b"), ("a", "d"), ("b", "c"), ("b", "e"), ("c", "f"))),
    PlannedTree("a", (("a", "b"), ("a", "d"), ("b", "c"), ("b", "e"), ("b", "f"))),
]
FILTERS = [parse(text) for text in ("x > 2", "x < 5", "x = 3", "x between 3 and 7", "y is not null")]
EVENTS: list[dict[str, Any]] = [{"x": 1}, {"x": 3}, {"x": 4, "y": 0}, {"x": 7}, {"z": 1}]


def mesh_of(strategy: str, seed: int, **settings: Any) -> Cores:
    """Return the network, in which nobody waits for a neighbour that is away."""
    return Cores(links_of(LINKS, ON_TREE), strategy=strategy, seed=seed, forget_after_s=0.0, **settings)


def plan(trees: list[PlannedTree], one_copy: str | None) -> bytes:
    links = tuple((a, b, 1.0) for a, b in sorted(LINKS))
    ordered = tuple(PlannedTree(tree.root, tuple(sorted(tree.links))) for tree in trees)
    home = {} if one_copy else {"d": len(trees) - 1, "f": 0}
    return Plan("mine", 1, tuple("abcdef"), links, ordered, one_copy, home=home).encode()


class Traffic:
    """Clients whose subscriptions stay, others that come and go, and publishers; checked at the end."""

    def __init__(self, mesh: Cores, data: st.DataObject) -> None:
        self.mesh, self.data = mesh, data
        self.publishers = [mesh.client(broker) for broker in "adf"]
        for publisher in self.publishers:
            publisher.advertise(parse("x > -1000"))  # {"z": 1} is published all the same, and flooded
        self.staying: list[tuple[Client, int, Filter]] = []
        for broker in "bcef":
            client = mesh.client(broker)
            for filter in data.draw(st.lists(st.sampled_from(FILTERS), min_size=1, max_size=2)):
                self.staying.append((client, client.subscribe(filter), filter))
        self.passing = mesh.client("e")
        mesh.settle()
        self.published: list[tuple[int, int, dict[str, Any]]] = []

    def some(self, count: int) -> None:
        """Let a little happen."""
        for _ in range(count):
            match self.data.draw(st.integers(0, 9)):
                case 0:
                    sid = self.passing.subscribe(self.data.draw(st.sampled_from(FILTERS)))
                    self.mesh.step()
                    self.passing.unsubscribe(sid)
                case 1 | 2 | 3:
                    publisher = self.data.draw(st.sampled_from(self.publishers))
                    event = self.data.draw(st.sampled_from(EVENTS))
                    self.published.append((publisher.number, publisher.publish(event), event))
                case _:
                    for _ in range(self.data.draw(st.integers(1, 5))):
                        self.mesh.step()

    def check(self, in_order: bool) -> None:
        self.mesh.settle()
        for client, sid, filter in self.staying:
            got = [(publisher, number) for mine, publisher, number in client.delivered if mine == sid]
            wanted = [
                (publisher, number) for publisher, number, event in self.published if filter.matches(event)
            ]
            assert sorted(got) == sorted(wanted)
            for publisher in self.publishers:
                numbers = [number for who, number in got if who == publisher.number]
                assert not in_order or numbers == sorted(numbers), "a publisher's events stay in order"


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(0, 10**6), st.sampled_from(["covering", "simple", "incremental"]))
def test_a_plan_goes_in_and_out_while_events_flow(data: st.DataObject, seed: int, strategy: str) -> None:
    mesh = mesh_of(strategy, seed, pauses=0.1)
    traffic = Traffic(mesh, data)
    in_order = True
    for _ in range(data.draw(st.integers(1, 2))):
        where = mesh.machines[data.draw(st.sampled_from("abcdef"))]
        count = data.draw(st.integers(1, 3))
        one_copy = data.draw(st.sampled_from([None, "nearest"]))
        # With one copy each event has a tree of its own choice, and a later one may be faster.
        in_order = in_order and (one_copy is None or count == 1)
        installation = where.install(plan(TREES[:count], one_copy), grace_s=5.0)
        traffic.some(data.draw(st.integers(0, 40)))
        if data.draw(st.booleans()):
            mesh.settle()
            assert installation.step is Step.SWITCHED
            assert {one.core.epochs.current for one in mesh.machines.values()} == {installation.epoch}
        traffic.some(data.draw(st.integers(0, 20)))
        if data.draw(st.booleans()) and installation.is_under_way:
            where.roll_back()
            traffic.some(10)
            mesh.settle()
            mesh.pass_time(6.0)
            mesh.settle()
            assert all(
                set(one.core.epochs.routers) == {0, installation.before} for one in mesh.machines.values()
            )
        else:
            traffic.some(5)
            mesh.settle()
            mesh.pass_time(6.0)
            mesh.settle()
            assert installation.step is Step.DONE
            assert all(
                set(one.core.epochs.routers) == {0, installation.epoch} for one in mesh.machines.values()
            )
        traffic.some(10)
    traffic.check(in_order)


def test_a_broker_that_is_away_stops_an_installation_and_learns_of_the_next() -> None:
    mesh = mesh_of("covering", 1)
    mesh.settle()
    for pair in (("b", "f"), ("c", "f")):
        mesh.lose(*pair)
    mesh.settle()
    first = mesh.machines["a"].install(plan(TREES[:2], None), patience_s=30.0)
    mesh.settle()
    with pytest.raises(PlanError, match="is being installed"):
        mesh.machines["a"].install(b"")
    mesh.pass_time(31.0)
    mesh.settle()
    assert first.step is Step.FAILED
    assert "f" in first.reason
    mesh.connect("b", "f")
    mesh.connect("c", "f")
    mesh.settle()
    states = {one.core.epochs.state.order for one in mesh.machines.values()}
    assert states == {(2, "a")}, "who comes back learns what was decided meanwhile"
    second = mesh.machines["c"].install(plan(TREES[:2], None))
    mesh.settle()
    assert second.step is Step.SWITCHED


def test_a_plan_that_a_broker_cannot_use_is_refused_there() -> None:
    mesh = mesh_of("covering", 1)
    other = Plan("mine", 1, ("x", "y"), (("x", "y", 1.0),), (PlannedTree("x", (("x", "y"),)),)).encode()
    with pytest.raises(PlanError, match="does not know the broker a"):
        mesh.machines["a"].install(other)
    assert mesh.core("a").epochs.state.version == 0
    mesh.machines["a"].install(plan(TREES[:1], None))
