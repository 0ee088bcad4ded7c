"""What brokers keep, under clocks that jump: simulated brokers with their disks."""

from __future__ import annotations

from copy import deepcopy
from random import Random

import pytest

from covey.broker import effects
from covey.broker.config import QueueLimits
from covey.broker.durable.log import (
    TOLERANCE_S,
    Clock,
    Damaged,
    Fetch,
    LogClock,
    Operation,
    Read,
    Release,
    Renew,
    Unsee,
)
from covey.broker.effects import Instant
from covey.sim import BrokerNetwork
from covey.sim.disk import DiskLog
from covey.sim.machine import WALL_S, Machine
from tests.simulation.traffic import Traffic

DAY_S = 86_400.0
AGE_S = 600.0  # after which events are too old


def set_clock(machine: Machine, ahead_s: float) -> None:
    """Set the clock on a broker's wall, and leave the other one alone."""

    def now() -> Instant:
        return Instant(machine._engine.now_s, WALL_S + machine._engine.now_s + ahead_s)

    machine.now = now  # type: ignore[method-assign]


def jumps(net: BrokerNetwork, broker: str) -> list[object]:
    """Return by how much a broker says that its clock has jumped."""
    return [one.fields["by_s"] for one in net.logs[broker] if one.event == "clock jumped"]


def waiting(net: BrokerNetwork, broker: str) -> int:
    return sum(map(len, net.machines[broker].disk.queues.values()))


@pytest.mark.parametrize("days", [30, -30])
@pytest.mark.parametrize("how", ["while it runs", "while it is down"])
def test_a_clock_that_jumps_neither_deletes_nor_keeps(days: int, how: str) -> None:
    net = BrokerNetwork([("a", "b")], durable=True, settings={"durable": QueueLimits(age_s=AGE_S)})
    traffic = Traffic(net, Random(1))
    traffic.produce("a")
    one = traffic.subscribe("b", "n >= 0", "reader", "mine")
    net.settle()
    one.client.disconnect()
    traffic.publish(20, confirm=True)
    net.run(net.now_s + 40.0)
    if how == "while it is down":
        net.kill("b")
    set_clock(net.machines["b"], days * DAY_S)
    if how == "while it is down":
        net.restart("b")
    net.run(net.now_s + 100.0)
    assert waiting(net, "b") == 20
    said = jumps(net, "b")
    if how == "while it runs" or days < 0:  # forward, it may have been down for so long
        assert len(said) == 1
        assert said[0] == pytest.approx(days * DAY_S, abs=300.0)
    else:
        assert said == []
    traffic.publish(1, broker="a", confirm=True)
    net.run(net.now_s + AGE_S - 200.0)
    assert waiting(net, "b") == 21
    net.run(net.now_s + 110.0)
    assert waiting(net, "b") == 1, "they are too old by now"
    net.run(net.now_s + 150.0)
    assert waiting(net, "b") == 0


def test_time_in_which_a_broker_is_down_does_not_count() -> None:
    net = BrokerNetwork([("a", "b")], durable=True, settings={"durable": QueueLimits(age_s=AGE_S)})
    traffic = Traffic(net, Random(1))
    traffic.produce("a")
    one = traffic.subscribe("b", "n >= 0", "reader", "mine")
    net.settle()
    one.client.disconnect()
    traffic.publish(5, confirm=True)
    net.run(net.now_s + AGE_S / 2)
    net.kill("b")
    net.run(net.now_s + 2 * AGE_S)
    net.restart("b")
    net.run(net.now_s + AGE_S / 3)
    assert waiting(net, "b") == 5
    net.run(net.now_s + AGE_S / 3)
    assert waiting(net, "b") == 0


def test_the_clock_of_a_log() -> None:
    clock = LogClock(None, 10.0, 1e9)
    assert clock.read(12.0) == 1e9 + 2.0, "it begins with the time of day"
    assert clock.jumped(11.0, 1e9 + 1.0 + TOLERANCE_S) == 0.0
    assert clock.jumped(12.0, 1e9 + 2.0 + 2 * TOLERANCE_S) == 0.0, "it is compared with what it was last"
    assert clock.jumped(13.0, 1e9 + 3.0 + 3 * TOLERANCE_S + 0.1) == pytest.approx(TOLERANCE_S + 0.1)
    assert clock.jumped(14.0, 1e9 + 4.0 + 3 * TOLERANCE_S + 0.1) == 0.0, "a jump is said once"
    assert clock.read(14.0) == 1e9 + 4.0
    later = LogClock(Clock(500.0, 1e9), 3.0, 1e9 + 7.0)
    assert (later.read(4.0), later.jumped(4.0, 1e9 + 8.0)) == (501.0, 0.0)
    back = LogClock(Clock(500.0, 1e9), 3.0, 1e9 - 60.0)
    assert (back.jumped(4.0, 1e9 - 59.0), back.jumped(5.0, 1e9 - 58.0), back.jumps) == (-60.0, 0.0, 1)


# -- damage ------------------------------------------------------------------------------------------------------


def events_of(net: BrokerNetwork, broker: str, event: str) -> list[dict[str, object]]:
    """Return what a broker has logged under a name."""
    return [one.fields for one in net.logs[broker] if one.event == event]


def queue_of(net: BrokerNetwork, broker: str, kind: str = "subscription") -> int:
    """Return the owner of the only queue or outbox of a broker."""
    (owner,) = (owner.id for owner in net.machines[broker].disk.owners.values() if owner.kind == kind)
    return owner


@pytest.mark.parametrize("links", [[("a", "b"), ("b", "c")], [("a", "b"), ("b", "c"), ("a", "c")]])
def test_a_damaged_event_is_repaired_by_any_broker_that_has_it(links: list[tuple[str, str]]) -> None:
    net = BrokerNetwork(links, durable=True)
    traffic = Traffic(net, Random(1))
    traffic.produce("b")
    readers = [traffic.subscribe(broker, "n >= 0", f"reader at {broker}", "mine") for broker in "ac"]
    net.settle()
    for one in readers:
        one.client.disconnect()
    net.settle()
    traffic.publish(10, broker="b", confirm=True)
    net.settle()
    disk = net.machines["c"].disk
    for position in disk.positions(queue_of(net, "c"))[2:5]:
        disk.damage(position)
    again = traffic.subscribe("c", "n >= 0", "reader at c", "mine")
    net.settle()
    assert traffic.got(again) == list(range(1, 11)), "in order, and with none left out"
    assert len(events_of(net, "c", "event damaged")) == len(events_of(net, "c", "event repaired")) == 3
    assert events_of(net, "c", "event lost") == []
    report = net.machines["c"].core.durable.report()
    assert (report["damaged_total"], report["repaired_total"], report["unrepaired_total"]) == (3, 3, 0)
    assert waiting(net, "c") == 0


def test_a_damaged_event_that_nobody_has_is_lost_by_name() -> None:
    net = BrokerNetwork([("a", "b")], durable=True)
    traffic = Traffic(net, Random(1))
    traffic.produce("a")
    one = traffic.subscribe("b", "n >= 0", "reader", "mine")
    net.settle()
    one.client.disconnect()
    net.settle()
    traffic.publish(10, confirm=True)
    net.settle()
    disk = net.machines["b"].disk
    owner = queue_of(net, "b")
    position = disk.positions(owner)[3]
    publisher, number = disk.queues[owner][position].name
    disk.damage(position)
    again = traffic.subscribe("b", "n >= 0", "reader", "mine")
    net.settle()
    assert traffic.got(again) == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    (lost,) = events_of(net, "b", "event lost")
    assert lost == {
        "id": f"{publisher:x}.{number:x}",
        "position": position,
        "of": "durable subscription reader/mine",
    }


def test_a_damaged_event_in_an_outbox_is_repaired_from_this_broker_itself_or_another() -> None:
    net = BrokerNetwork([("a", "b"), ("b", "c")], durable=True)
    traffic = Traffic(net, Random(1))
    traffic.produce("b")
    one = traffic.subscribe("c", "n >= 0", "reader", "mine")
    other = traffic.subscribe("a", "n >= 0", "keeper", "mine")
    net.settle()
    other.client.disconnect()
    net.kill("c")
    net.settle()
    traffic.publish(5, broker="b", confirm=True)
    net.settle()
    disk = net.machines["b"].disk
    (owner,) = (one.id for one in disk.owners.values() if one.name == "c")
    disk.damage(disk.positions(owner)[1])
    net.restart("c")
    net.settle()
    assert traffic.got(one) == [1, 2, 3, 4, 5]
    assert len(events_of(net, "b", "event repaired")) == 1


def taken_and_unsaid(net: BrokerNetwork, traffic: Traffic, count: int = 3) -> None:
    """Have b take events of a, and be killed before a hears of it; then damage what b has, but for its last event."""
    net.link_one_way("b", "a")
    traffic.publish(count, broker="a", confirm=True)
    net.run(net.now_s + 0.3)
    net.kill("b")
    disk = net.machines["b"].disk
    positions = sorted({position for waiting in disk.queues.values() for position in waiting})
    assert len(positions) == count
    for position in positions[:-1]:
        disk.damage(position)


@pytest.mark.parametrize("is_there", [False, True], ids=["reader is away", "reader is there"])
def test_an_event_that_is_sent_again_takes_the_place_of_one_that_was_damaged(is_there: bool) -> None:
    """The broker has said nothing of it yet: the neighbour's copy is good, and must not be dropped for a bad one."""
    net = BrokerNetwork([("a", "b")], durable=True)
    traffic = Traffic(net, Random(1))
    traffic.produce("a")
    one = traffic.subscribe("b", "n >= 0", "reader", "mine")
    net.settle()
    if not is_there:
        one.client.disconnect()
        net.settle()
    else:
        one.client.acknowledges = False
    taken_and_unsaid(net, traffic)
    net.restart("b")
    one.client.acknowledges = True
    net.link_up("a", "b")
    net.settle()
    assert waiting(net, "a") == 0, "a was told that b has them"
    again = one if is_there else traffic.subscribe("b", "n >= 0", "reader", "mine")
    net.run(net.now_s + 70.0)
    net.settle()
    assert sorted(set(traffic.got(again))) == [1, 2, 3]
    assert len(events_of(net, "b", "event damaged")) == len(events_of(net, "b", "event repaired")) == 2
    assert events_of(net, "b", "event lost") == []
    report = net.machines["b"].core.durable.report()
    assert (report["damaged_total"], report["repaired_total"]) == (2, 2)
    assert waiting(net, "b") == 0


def test_an_event_that_is_sent_again_mends_what_waits_for_another_neighbour() -> None:
    net = BrokerNetwork([("a", "b"), ("b", "c")], durable=True)
    traffic = Traffic(net, Random(1))
    traffic.produce("a")
    one = traffic.subscribe("c", "n >= 0", "reader", "mine")
    net.settle()
    net.kill("c")
    taken_and_unsaid(net, traffic)
    net.restart("b")
    net.link_up("a", "b")
    net.settle()
    assert waiting(net, "a") == 0
    net.restart("c")
    net.settle()
    assert traffic.got(one) == [1, 2, 3]
    assert events_of(net, "b", "event lost") == []


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_lost_event_that_is_sent_again_is_taken_as_if_it_were_new(is_killed: bool) -> None:
    """Its broker has given it up while the neighbour that has a copy was away."""
    batches: list[tuple[Operation, ...]] = []

    def observe(broker: str, one: object) -> None:
        if isinstance(one, effects.Commit):
            batches.append(one.batch.operations)

    net = BrokerNetwork([("a", "b")], durable=True, observer=observe)
    traffic = Traffic(net, Random(1))
    traffic.produce("a")
    one = traffic.subscribe("b", "n >= 0", "reader", "mine")
    net.settle()
    one.client.disconnect()
    listener = traffic.subscribe("b", "n >= 0", "listener")
    net.settle()
    taken_and_unsaid(net, traffic)
    net.link_down("a", "b")
    net.restart("b")
    again = traffic.subscribe("b", "n >= 0", "reader", "mine")
    net.run(net.now_s + 60.0)
    assert traffic.got(again) == [3]
    assert len(events_of(net, "b", "event lost")) == 2
    lost = [operations for operations in batches if any(isinstance(one, Unsee) for one in operations)]
    assert [[type(one) for one in operations] for operations in lost] == [[Release, Unsee]] * 2
    if is_killed:
        net.kill("b")
        net.restart("b")
    net.link_up("a", "b")
    net.settle()
    assert traffic.got(again) == [3, 1, 2], "late, and not lost"
    if not is_killed:
        assert traffic.got(listener) == [1, 2, 3], "who had them does not get them again"
    assert waiting(net, "a") == waiting(net, "b") == 0


def given_up_while_sent_again(wait_s: float) -> float:
    """Have b read damaged events so long after its link is back; return when it has them looked at."""
    renewed_s = []

    def observe(broker: str, one: object) -> None:
        if isinstance(one, effects.Commit) and any(isinstance(each, Renew) for each in one.batch.operations):
            renewed_s.append(net.now_s)

    net = BrokerNetwork([("a", "b")], durable=True, observer=observe)
    traffic = Traffic(net, Random(1))
    traffic.produce("a")
    one = traffic.subscribe("b", "n >= 0", "reader", "mine")
    net.settle()
    one.client.disconnect()
    net.settle()
    taken_and_unsaid(net, traffic)
    net.restart("b")
    net.link_up("a", "b")
    begun_s = net.now_s
    net.run(begun_s + wait_s)
    again = traffic.subscribe("b", "n >= 0", "reader", "mine")
    net.settle()
    assert sorted(set(traffic.got(again))) == [1, 2, 3], wait_s
    assert waiting(net, "a") == waiting(net, "b") == 0
    return renewed_s[0] - begun_s if renewed_s else 0.0


def test_an_event_that_is_given_up_while_it_is_sent_again_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing says for certain what the damaged events are called, so they are given up when they are read."""
    read = DiskLog._read

    def unnamed(self: DiskLog, fetch: Fetch) -> Read:
        found = read(self, fetch)
        rows = tuple(one._replace(name=None) if isinstance(one, Damaged) else one for one in found.rows)
        return found._replace(rows=rows)

    monkeypatch.setattr(DiskLog, "_read", unnamed)
    renewed_s = given_up_while_sent_again(10.0)
    for step in range(-80, 20):
        given_up_while_sent_again(renewed_s + step * 0.000_1)


def test_nobody_is_told_that_an_event_is_kept_while_the_copy_cannot_be_looked_at() -> None:
    net = BrokerNetwork([("a", "b")], durable=True)
    traffic = Traffic(net, Random(1))
    traffic.produce("a")
    one = traffic.subscribe("b", "n >= 0", "reader", "mine")
    net.settle()
    one.client.disconnect()
    net.settle()
    taken_and_unsaid(net, traffic)
    net.machines["b"].disk.failing = 1 << 30
    net.restart("b")
    net.link_up("a", "b")
    net.run(net.now_s + 5.0)
    assert waiting(net, "a") == 3
    net.machines["b"].disk.failing = 0
    net.settle()
    again = traffic.subscribe("b", "n >= 0", "reader", "mine")
    net.settle()
    assert waiting(net, "a") == 0
    assert traffic.got(again) == [1, 2, 3]


@pytest.mark.parametrize("who", ["the mark", "a neighbour"])
def test_a_disk_that_has_lost_its_end_is_noticed(who: str) -> None:
    net = BrokerNetwork([("a", "b")], durable=True)
    traffic = Traffic(net, Random(1))
    traffic.produce("a")
    one = traffic.subscribe("b", "n >= 0", "reader", "mine")
    net.settle()
    one.client.disconnect()
    traffic.publish(5, confirm=True)
    net.settle()
    before = deepcopy(net.machines["b"].disk)
    traffic.publish(7, confirm=True)
    net.settle()
    net.kill("b")
    if who == "the mark":
        before.mark = net.machines["b"].disk.mark
    net.machines["b"].disk = before
    net.restart("b")
    net.settle()
    said = events_of(net, "b", "store incomplete")
    if who == "the mark":
        assert any("7 events that were confirmed" in entry.event for entry in net.logs["b"])
        assert said == [], "it is known already"
    else:
        assert said == [{"missing_events": 7, "known_from": "neighbour a"}]
    assert net.machines["b"].core.durable.report()["missing_total"] == 7
    traffic.publish(1, confirm=True)
    net.settle()
    disk = net.machines["b"].disk
    assert disk.positions(queue_of(net, "b"))[-1] > 12, "a position is not given twice"
    net.kill("b")
    net.restart("b")
    net.settle()
    assert len(events_of(net, "b", "store incomplete")) == len(said), "nothing is missing that was not said"


def test_restarts_and_broken_links_are_no_reason_to_miss_anything() -> None:
    net = BrokerNetwork([("a", "b"), ("b", "c"), ("a", "c")], durable=True)
    traffic = Traffic(net, Random(3))
    traffic.produce("a", "b", "c")
    traffic.subscribe("b", "n >= 0", "reader", "mine")
    for turn in range(30):
        traffic.publish(5, confirm=True)
        net.run(net.now_s + traffic.random.choice([0.0, 0.001, 0.01, 2.0]))
        broker = traffic.random.choice("abc")
        if turn % 3 == 0:
            net.kill(broker, after=traffic.random.randrange(1, 9))
            net.run(net.now_s + 0.1)
            net.kill(broker)
            net.restart(broker)
        elif turn % 3 == 1:
            net.link_down("a", "b")
            net.run(net.now_s + 0.1)
            net.link_up("a", "b")
    net.settle()
    for broker in "abc":
        assert events_of(net, broker, "store incomplete") == []
