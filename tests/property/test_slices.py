"""Long work in slices: whatever happens between two slices, routers end with what they would know without slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.cores import Client, Cores, Machine
from tests.property.test_epochs import EVENTS, FILTERS, TREES, Traffic, mesh_of, plan

from covey.broker import actions, plans, sessions
from covey.broker.plans import Step
from covey.core.families import parse
from covey.protocol.control import ReplaceRequest
from covey.protocol.frames import Kind, frame
from covey.routing.router import Router


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (plans, sessions):
        monkeypatch.setattr(module, "SLICE", 2)


def known(router: Router, names: dict[str, str]) -> tuple[Any, ...]:
    """Return what a router knows of clients, and what it knows of neighbours, whoever has said it first."""
    local = router.local_subscriptions()
    return (
        {names.get(link, link): sorted(map(str, some.values())) for link, some in local.items()},
        {names.get(link, link): sorted(map(str, router.advertised_by(link).values())) for link in local},
        sorted((link, str(filter)) for link, filter in router.remote_entries()),
        [
            sorted((names[link], str(local[link][key])) for link, key in router.matching(event))
            for event in EVENTS
        ],
    )


def change(mesh: Cores, clients: list[tuple[Client, list[int]]], draw: Callable[[Any], Any]) -> None:
    """Let a client ask for something else, come or go."""
    what = draw(st.integers(0, 5))
    if what == 0 or not clients:
        clients.append((mesh.client(draw(st.sampled_from("abe"))), []))
        return
    client, sids = draw(st.sampled_from(clients))
    filter = draw(st.sampled_from(FILTERS))
    if what == 1:
        clients.remove((client, sids))
        mesh.leave(client)
    elif what == 2 and sids:
        client.unsubscribe(sids.pop(draw(st.integers(0, len(sids) - 1))))
    elif what == 3 and sids:
        client.ask(ReplaceRequest, draw(st.sampled_from(sids)), filter.encode())
    elif what == 4:
        client.advertise(filter)
    else:
        sids.append(client.subscribe(filter))


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(0, 10**6), st.sampled_from(["simple", "identity"]))
def test_routers_end_with_the_same_tables_however_their_work_is_sliced(
    data: st.DataObject, seed: int, strategy: str
) -> None:
    mesh = mesh_of(strategy, seed, is_sliced=True)
    clients: list[tuple[Client, list[int]]] = []
    for _ in range(data.draw(st.integers(0, 25))):
        change(mesh, clients, data.draw)
    installation = mesh.machines["b"].install(plan(TREES[:2], None), patience_s=1e6, grace_s=1e6)
    for _ in range(data.draw(st.integers(0, 25))):
        if data.draw(st.booleans()):
            change(mesh, clients, data.draw)
        for _ in range(data.draw(st.integers(0, 6))):
            mesh.step()
        for machine in mesh.machines.values():
            for epoch in machine.core.epochs.adopting:
                assert not machine.core.epochs.is_ready(epoch)
    mesh.settle()
    assert installation.step is Step.SWITCHED
    found = {name: each(machine, clients) for name, machine in mesh.machines.items()}
    # A network that does everything at once, with the same clients.
    other = mesh_of(strategy, seed)
    again = other.machines["b"].install(plan(TREES[:2], None), patience_s=1e6, grace_s=1e6)
    other.settle()
    assert again.step is Step.SWITCHED
    same: list[tuple[Client, list[int]]] = []
    for client, _ in clients:
        twin = other.client(client.broker)
        same.append((twin, []))
        router = client.machine.router
        for filter in router.advertised_by(client.link).values():
            twin.advertise(filter)
        for filter in router.local_subscriptions()[client.link].values():
            twin.subscribe(filter)
    other.settle()
    assert {name: each(machine, same) for name, machine in other.machines.items()} == found


def each(machine: Machine, clients: list[tuple[Client, list[int]]]) -> dict[int, tuple[Any, ...]]:
    """Return what the routers of a broker know, with clients named by their order."""
    names = {client.link: f"client {number}" for number, (client, _) in enumerate(clients)}
    return {epoch: known(router, names) for epoch, router in machine.core.epochs.routers.items()}


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(0, 10**6), st.sampled_from(["covering", "simple", "incremental"]))
def test_a_plan_goes_in_slice_by_slice_while_events_flow(
    data: st.DataObject, seed: int, strategy: str
) -> None:
    """Nothing is lost, nothing comes twice, and order is kept, as where a plan goes in at once."""
    mesh = mesh_of(strategy, seed, is_sliced=True)
    traffic = Traffic(mesh, data)
    for count in (data.draw(st.integers(1, 3)), 1):
        where = mesh.machines[data.draw(st.sampled_from("abcdef"))]
        installation = where.install(plan(TREES[:count], None), grace_s=5.0)
        traffic.some(data.draw(st.integers(0, 40)))
        if data.draw(st.booleans()) and installation.is_under_way:
            where.roll_back()
        traffic.some(10)
        mesh.settle()
        mesh.pass_time(6.0)
        mesh.settle()
    traffic.check(in_order=True)


def test_a_broker_that_learns_a_plan_late_loses_nothing_of_what_comes_in_it_meanwhile() -> None:
    mesh = mesh_of("covering", 1, is_sliced=True)
    publisher, subscriber = mesh.client("a"), mesh.client("f")
    publisher.advertise(parse("x > 0"))
    sids = [subscriber.subscribe(parse(f"x > {number}")) for number in range(20)]
    mesh.settle()
    for link in (("b", "f"), ("c", "f")):
        mesh.lose(*link)
    late = mesh.machines["f"]
    without = plan(TREES[:1], None)
    made = mesh.machines["a"].install(without)
    made.missing.discard("f")
    mesh.settle()
    assert made.step is not Step.FAILED
    mesh.connect("b", "f")
    mesh.connect("c", "f")
    while not late.core.epochs.adopting:
        assert mesh.step()
    assert late.core.epochs.current == made.before
    while late.core.epochs.adopting:  # neighbours greet it in the new epoch, which is not ready
        if not mesh.step(works=False):
            late.work()
    mesh.settle()
    assert made.step is Step.SWITCHED
    number = publisher.publish({"x": 50})
    mesh.settle()
    assert sorted(subscriber.delivered) == [(sid, publisher.number, number) for sid in sids]


def test_a_broker_whose_current_epoch_is_not_ready_holds_its_clients() -> None:
    mesh = mesh_of("covering", 1, is_sliced=True)
    publisher, subscriber, local = mesh.client("f"), mesh.client("a"), mesh.client("f")
    publisher.advertise(parse("x > 0"))
    for number in range(20):
        subscriber.subscribe(parse(f"x > {number}"))
        local.subscribe(parse(f"x > {number}"))
    mesh.settle()
    for link in (("b", "f"), ("c", "f")):
        mesh.lose(*link)
    made = mesh.machines["a"].install(plan(TREES[:1], None))
    made.missing.clear()
    made.ready("a")
    state = made.probed(0.0)
    assert state is not None
    mesh.machines["a"].do(mesh.core("a").plans._adopt(state, 0.0))
    mesh.settle()
    mesh.connect("b", "f")
    mesh.connect("c", "f")
    late = mesh.machines["f"]
    while late.core.epochs.current != made.epoch:
        assert mesh.step(works=False)
    assert late.core.plans.is_holding
    number = publisher.publish({"x": 50})
    assert not local.delivered
    mesh.pass_time(4.0)
    mesh.settle()
    assert not late.core.plans.is_holding
    assert sorted(local.delivered) == [(sid, publisher.number, number) for sid in range(1, 21)]
    number = publisher.publish({"x": 50})
    mesh.settle()
    assert sorted(subscriber.delivered) == [(sid, publisher.number, number) for sid in range(1, 21)]


def test_what_a_held_client_may_not_say_ends_its_own_link_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = Cores({("a", "b"): 0}, seed=1)
    machine, bad, good = mesh.machines["a"], mesh.client("a"), mesh.client("a")
    sid, is_held = good.subscribe(parse("x > 0")), [True]
    monkeypatch.setattr(type(machine.core.plans), "is_holding", property(lambda self: is_held[0]))
    bad.say(frame(Kind.WELCOME, b""))
    number = good.publish({"x": 1})
    assert not good.delivered
    assert not bad.goodbye
    is_held[0] = False
    machine.do([actions.Release()])
    mesh.settle()
    assert bad.goodbye == f"a client does not send frames of the kind {Kind.WELCOME:d}"
    assert not bad.is_open
    assert good.is_open
    assert good.delivered == [(sid, good.number, number)]


def test_a_client_that_has_left_gets_nothing_though_routers_still_know_it() -> None:
    mesh = Cores({("a", "b"): 0}, seed=1, is_sliced=True)
    publisher, leaving, staying = mesh.client("a"), mesh.client("b"), mesh.client("b")
    publisher.advertise(parse("x > 0"))
    for number in range(20):
        leaving.subscribe(parse(f"x > {number}"))
    staying.subscribe(parse("x > 10"))
    mesh.settle()
    frames = [{"x": 20 + number} for number in range(8)]
    for event in frames:
        publisher.publish(event)
    mesh.settle()
    assert len(leaving.delivered) == 20 * len(frames)
    mesh.leave(leaving)
    machine = mesh.machines["b"]
    assert machine.has_work
    assert machine.router.local_size() == 21 - 2
    slices = 0
    while machine.has_work:
        for event in frames:
            publisher.publish(event)
        while mesh.step(works=False):
            pass
        machine.work()
        slices += 1
    mesh.settle()
    assert slices == 10
    assert len(leaving.delivered) == 20 * len(frames)
    assert len(staying.delivered) == (slices + 1) * len(frames)
    assert machine.router.local_subscriptions().keys() == {"~plans", staying.link}
    assert [str(filter) for _, filter in mesh.machines["a"].router.remote_entries()] == ["x > 10"]
