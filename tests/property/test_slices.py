"""Long work in slices: whatever happens between two slices, routers end with what they would know without slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from covey.broker.exchange import Exchange
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.exchanges import Attached, Mesh
from tests.property.test_epochs import EVENTS, FILTERS, LINKS, ON_TREE, TREES, Traffic, plan

from covey.broker import epochs, sessions
from covey.broker.plans import Step
from covey.core.families import parse
from covey.protocol.control import ReplaceRequest
from covey.protocol.frames import Kind
from covey.routing.messages import Advertise, Subscribe
from covey.routing.router import Router


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (epochs, sessions):
        monkeypatch.setattr(module, "SLICE", 2)


class Sliced(Mesh):
    """Brokers that do long work when the scheduler says so: a slice is a step like any other."""

    def __init__(self, *how: Any) -> None:
        super().__init__(*how)
        for exchange in self.exchanges.values():
            exchange.on_work = lambda: None

    def step(self) -> bool:
        working = [exchange for exchange in self.exchanges.values() if exchange.has_work]
        if working and (self.random.random() < 0.3 or not super().step()):
            self.random.choice(working).work()
            return True
        return bool(working) or super().step()


def known(router: Router) -> tuple[Any, ...]:
    """Return what a router knows of clients, and what it knows of neighbours, whoever has said it first."""
    local = router.local_subscriptions()
    return (
        local,
        {link: router.advertised_by(link) for link in local},
        sorted((link, str(filter)) for link, filter in router.remote_entries()),
        sorted(str(place) for event in EVENTS for place in router.matching(event)),
    )


def leave(mesh: Mesh, client: Attached) -> None:
    mesh.clients.remove(client)
    mesh.exchanges[client.broker].client_down(client.client.link)


def change(mesh: Mesh, clients: list[tuple[Attached, list[int]]], draw: Callable[[Any], Any]) -> None:
    """Let a client ask for something else, come or go."""
    what = draw(st.integers(0, 5))
    if what == 0 or not clients:
        clients.append((mesh.client(draw(st.sampled_from("abe"))), []))
        return
    client, sids = draw(st.sampled_from(clients))
    filter = draw(st.sampled_from(FILTERS))
    if what == 1:
        clients.remove((client, sids))
        leave(mesh, client)
    elif what == 2 and sids:
        client.unsubscribe(sids.pop(draw(st.integers(0, len(sids) - 1))))
    elif what == 3 and sids:
        client._ask(ReplaceRequest, draw(st.sampled_from(sids)), filter.encode())
    elif what == 4:
        client.advertise(filter)
    else:
        sids.append(client.subscribe(filter))


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(0, 10**6), st.sampled_from(["simple", "identity"]))
def test_routers_end_with_the_same_tables_however_their_work_is_sliced(
    data: st.DataObject, seed: int, strategy: str
) -> None:
    mesh = Sliced(LINKS, ON_TREE, strategy, seed)
    clients: list[tuple[Attached, list[int]]] = []
    for _ in range(data.draw(st.integers(0, 25))):
        change(mesh, clients, data.draw)
    installation = mesh.exchanges["b"].install(plan(TREES[:2], None), patience_s=1e6, grace_s=1e6)
    for _ in range(data.draw(st.integers(0, 25))):
        if data.draw(st.booleans()):
            change(mesh, clients, data.draw)
        for _ in range(data.draw(st.integers(0, 6))):
            mesh.step()
        for exchange in mesh.exchanges.values():
            for epoch in exchange.epochs.adopting:
                assert not exchange.epochs.is_ready(epoch)
    mesh.settle()
    assert installation.step is Step.SWITCHED
    found = {name: each(exchange) for name, exchange in mesh.exchanges.items()}
    # A network that does everything at once, with the same clients.
    other = Mesh(LINKS, ON_TREE, strategy, seed)
    again = other.exchanges["b"].install(plan(TREES[:2], None), patience_s=1e6, grace_s=1e6)
    other.settle()
    assert again.step is Step.SWITCHED
    for client, _ in clients:
        other.exchanges[client.broker].client_up(client.client)
        router = mesh.exchanges[client.broker].router
        for key, filter in router.advertised_by(client.client.link).items():
            other.exchanges[client.broker].drive(Advertise(key, filter), client.client.link)
        for key, filter in router.local_subscriptions()[client.client.link].items():
            other.exchanges[client.broker].drive(Subscribe(key, filter), client.client.link)
    other.settle()
    assert {name: each(exchange) for name, exchange in other.exchanges.items()} == found


def each(exchange: Exchange) -> dict[int, tuple[Any, ...]]:
    return {epoch: known(router) for epoch, router in exchange.epochs.routers.items()}


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(0, 10**6), st.sampled_from(["covering", "simple", "incremental"]))
def test_a_plan_goes_in_slice_by_slice_while_events_flow(
    data: st.DataObject, seed: int, strategy: str
) -> None:
    """Nothing is lost, nothing comes twice, and order is kept, as where a plan goes in at once."""
    mesh = Sliced(LINKS, ON_TREE, strategy, seed)
    traffic = Traffic(mesh, data)
    for count in (data.draw(st.integers(1, 3)), 1):
        where = mesh.exchanges[data.draw(st.sampled_from("abcdef"))]
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
    mesh = Sliced(LINKS, ON_TREE, "covering", 1)
    publisher, subscriber = mesh.client("a"), mesh.client("f")
    publisher.advertise(parse("x > 0"))
    sids = [subscriber.subscribe(parse(f"x > {number}")) for number in range(20)]
    mesh.settle()
    for pair in (("b", "f"), ("c", "f")):
        mesh.disconnect(*pair)
    late = mesh.exchanges["f"]
    without = plan(TREES[:1], None)
    made = mesh.exchanges["a"].install(without)
    made.missing.discard("f")
    mesh.settle()
    assert made.step is not Step.FAILED
    mesh.connect("b", "f", True)
    mesh.connect("c", "f", False)
    while not late.epochs.adopting:
        assert mesh.step()
    assert late.epochs.current == made.before
    while late.epochs.adopting:  # neighbours greet it in the new epoch, which is not ready
        if not Mesh.step(mesh):
            late.work()
    mesh.settle()
    assert made.step is Step.SWITCHED
    number = publisher.publish({"x": 50})
    mesh.settle()
    assert sorted(subscriber.delivered) == [(sid, publisher.number, number) for sid in sids]


def test_a_broker_whose_current_epoch_is_not_ready_holds_its_clients() -> None:
    mesh = Sliced(LINKS, ON_TREE, "covering", 1)
    publisher, subscriber, local = mesh.client("f"), mesh.client("a"), mesh.client("f")
    publisher.advertise(parse("x > 0"))
    for number in range(20):
        subscriber.subscribe(parse(f"x > {number}"))
        local.subscribe(parse(f"x > {number}"))
    mesh.settle()
    for pair in (("b", "f"), ("c", "f")):
        mesh.disconnect(*pair)
    made = mesh.exchanges["a"].install(plan(TREES[:1], None))
    made.missing.clear()
    made.ready("a")
    state = made.probed(0.0)
    assert state is not None
    mesh.exchanges["a"].perform(mesh.exchanges["a"].plans._adopt(state, 0.0))
    mesh.settle()
    mesh.connect("b", "f", True)
    mesh.connect("c", "f", False)
    late = mesh.exchanges["f"]
    while late.epochs.current != made.epoch:
        assert Mesh.step(mesh)
    assert late.plans.is_holding
    number = publisher.publish({"x": 50})
    assert not local.delivered
    mesh.pass_time(4.0)
    mesh.settle()
    assert not late.plans.is_holding
    assert sorted(local.delivered) == [(sid, publisher.number, number) for sid in range(1, 21)]
    number = publisher.publish({"x": 50})
    mesh.settle()
    assert sorted(subscriber.delivered) == [(sid, publisher.number, number) for sid in range(1, 21)]


def test_what_a_held_client_may_not_say_ends_its_own_link_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = Mesh([("a", "b")], [("a", "b")], "covering", 1)
    exchange, bad, good = mesh.exchanges["a"], mesh.client("a"), mesh.client("a")
    ended: list[str] = []
    monkeypatch.setattr(bad.outlet, "end", ended.append)
    sid, is_held = good.subscribe(parse("x > 0")), [True]
    monkeypatch.setattr(type(exchange.plans), "is_holding", property(lambda self: is_held[0]))
    exchange.from_client(bad.client, [bytes((Kind.WELCOME,))])
    number = good.publish({"x": 1})
    assert not good.delivered
    is_held[0] = False
    exchange.release()
    mesh.settle()
    assert ended == [f"a client does not send frames of the kind {Kind.WELCOME:d}"]
    assert good.delivered == [(sid, good.number, number)]


def test_a_client_that_has_left_gets_nothing_though_routers_still_know_it() -> None:
    mesh = Sliced([("a", "b")], [("a", "b")], "covering", 1)
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
    leave(mesh, leaving)
    exchange = mesh.exchanges["b"]
    assert exchange.has_work
    assert exchange.router.local_size() == 21 - 2
    slices = 0
    while exchange.has_work:
        for event in frames:
            publisher.publish(event)
        while Mesh.step(mesh):
            pass
        exchange.work()
        slices += 1
    mesh.settle()
    leaving.receive()
    assert slices == 10
    assert len(leaving.delivered) == 20 * len(frames)
    assert len(staying.delivered) == (slices + 1) * len(frames)
    assert exchange.router.local_subscriptions().keys() == {"~plans", staying.client.link}
    assert [str(filter) for _, filter in mesh.exchanges["a"].router.remote_entries()] == ["x > 10"]
