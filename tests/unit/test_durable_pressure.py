"""A disk that does not answer: what waits for it in memory has a bound in bytes, and who sends more for it waits."""

from __future__ import annotations

import pytest
from tests.oracles.cores import Client, Machine
from tests.oracles.faults import Line

from covey.broker import scheduling
from covey.broker.durable import delivery
from covey.broker.durable.log import Entry, Keep, Owner, Release
from covey.broker.durable.queues import memory_of
from covey.core.families import parse
from covey.protocol.control import SubscribeRequest
from covey.protocol.events import encode_acknowledge
from covey.protocol.frames import Kind, frame

MOST = 20_000
BIG = {"topic": 1, "text": "x" * 1_000}


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little may wait for a disk; a turn takes less than that, as it does otherwise."""
    monkeypatch.setattr(delivery, "MOST_HELD", MOST)
    monkeypatch.setattr(scheduling, "TURN", 10.0)
    monkeypatch.setattr(scheduling, "LEAST", 2.0)


def settle(machine: Machine) -> None:
    """Let the disk answer until nothing waits for it."""
    assert machine.log is not None
    while not machine.log.is_idle:
        machine.commit()


def scene() -> tuple[Machine, Client, Client]:
    """Return a broker, a reader with a durable subscription, and a publisher."""
    machine = Line("a", 1).machines["a"]
    reader, publisher = Client(machine, "reader"), Client(machine)
    reader.ask(SubscribeRequest, 1, parse("topic = 1").encode(), "mine")
    settle(machine)
    publisher.advertise(parse("topic >= 0"))
    return machine, reader, publisher


def held(machine: Machine) -> float:
    found = machine.durable.report()["pending_bytes"]
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize("confirmed", [False, True])
def test_a_publisher_waits_for_a_disk_that_does_not_answer(confirmed: bool) -> None:
    machine, _, publisher = scene()
    other, listener = Client(machine), Client(machine)
    listener.ask(SubscribeRequest, 1, parse("topic = 2").encode(), "")
    other.advertise(parse("topic >= 0"))
    for _ in range(100):
        publisher.publish(BIG, confirmed=confirmed)
    assert publisher.end.is_held, "it is not read any longer"
    assert MOST < held(machine) < MOST + 2_000, "and nothing more is taken"
    other.publish({"topic": 2})
    assert len(listener.delivered) == 1, "who sends nothing for the disk does not notice"
    assert not other.end.is_held
    assert [one.event for one in machine.durable.incidents()] == ["disk too slow"]
    settle(machine)
    assert held(machine) == 0
    assert not publisher.end.is_held
    assert machine.durable.kept == 100, "nothing is lost by waiting"
    assert publisher.refusals == []


def test_beyond_twice_the_bound_confirmed_events_are_refused_and_others_lost() -> None:
    """Which many publishers can do, each of which waits after its first."""
    machine, _, publisher = scene()
    everyone = [Client(machine) for _ in range(60)]
    for one in everyone:
        one.advertise(parse("topic >= 0"))
        one.publish(BIG, confirmed=True)
    assert held(machine) < 2 * MOST + 2_000
    refused = [reply.error for one in everyone for reply in one.refusals]
    assert refused
    assert all("the disk is too slow, or does not answer" in error for error in refused)
    before = held(machine)
    publisher.publish(BIG)
    assert held(machine) == before
    assert machine.durable.dropped == 1
    settle(machine)
    assert sum(len(one.taken) for one in everyone) + len(refused) == 60
    assert not any(one.end.is_held for one in everyone)


def test_a_client_that_acknowledges_waits_too() -> None:
    machine, reader, _ = scene()
    body = encode_acknowledge(1, range(1, 101), cumulative=False)
    for _ in range(20):
        reader.say(frame(Kind.ACKNOWLEDGE, body))
    assert reader.end.is_held
    assert held(machine) < MOST + 10_000
    settle(machine)
    assert not reader.end.is_held
    assert held(machine) == 0


def test_what_a_client_had_sent_before_it_went_leaves_nobody_blocked() -> None:
    machine, _, publisher = scene()
    for _ in range(50):
        publisher.publish(BIG)
    number = publisher.end.number
    publisher.leave()
    assert not machine.core.scheduler.is_blocked(number)
    settle(machine)
    assert held(machine) == 0


def test_what_operations_take() -> None:
    plain = Keep(1, 7, 1, bytes(1_000), 0.0, (Entry(1), Entry(2)), seen=True)
    assert memory_of(plain) > 1_000
    other = bytes(500)
    assert memory_of(plain._replace(entries=(Entry(1), Entry(2, other)))) == memory_of(plain) + 500
    assert memory_of(plain._replace(entries=(Entry(1, other), Entry(2, other)))) == memory_of(plain) + 500
    assert memory_of(Release(1, tuple(range(100)))) > 50 * 100
    assert memory_of(Owner(1, "subscription", "", "", "", filter=bytes(900))) > 900
