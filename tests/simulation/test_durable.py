"""Simulated brokers with disks: nothing confirmed is lost, whatever hangs, is cut off or is killed."""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise
from random import Random

import pytest

from covey.broker.config import QueueLimits
from covey.sim import BrokerNetwork
from covey.sim.wire_clients import Client, Subscription
from tests.simulation.traffic import Traffic

LINE = [("a", "b"), ("b", "c")]
RING = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]


def waiting(net: BrokerNetwork, broker: str) -> int:
    """Return how many events wait on a broker's disk, for neighbours and durable subscriptions."""
    return sum(map(len, net.machines[broker].disk.queues.values()))


def away(traffic: Traffic, subscription: Subscription) -> None:
    """Let the client of a durable subscription leave it."""
    subscription.client.disconnect()
    traffic.net.settle()


def test_it_gets_what_was_published_while_its_client_was_away() -> None:
    net = BrokerNetwork(LINE, durable=True)
    traffic = Traffic(net, Random(1))
    traffic.produce("a")
    first = traffic.subscribe("c", "n >= 0", "reader", "mine")
    net.settle()
    traffic.publish(5, broker="a", confirm=True)
    net.settle()
    away(traffic, first)
    traffic.publish(50, broker="a", confirm=True)
    net.settle()
    assert waiting(net, "c") == 50
    second = traffic.subscribe("c", "n >= 0", "reader", "mine")
    net.settle()
    assert traffic.got(first) == list(range(1, 6))
    assert traffic.got(second) == list(range(6, 56))
    assert [waiting(net, name) for name in "abc"] == [0, 0, 0]
    assert [event["n"] for event in net.clients["producer at a"].confirmed] == list(range(1, 56))


@pytest.mark.parametrize("seed", range(5))
def test_it_survives_restarts_of_all_brokers(seed: int) -> None:
    net = BrokerNetwork(LINE, durable=True, seed=seed)
    traffic = Traffic(net, Random(seed))
    traffic.produce("a")
    one = traffic.subscribe("c", "x >= 3", "reader", "mine")
    net.settle()
    for broker in "abcab":
        traffic.publish(20, broker="a", confirm=True)
        net.run(net.now_s + traffic.random.uniform(0.0, 0.02))
        net.kill(broker)
        net.run(net.now_s + traffic.random.uniform(0.0, 2.0))
        net.restart(broker)
    net.settle()
    assert net.clients["producer at a"].unconfirmed == 0
    traffic.check_all(traffic.got(one), one.filter)
    assert [waiting(net, name) for name in "abc"] == [0, 0, 0]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("names", ["ad", "abd"])
@pytest.mark.parametrize("end", ["the lease", "a kill"])
def test_nothing_confirmed_is_lost_when_a_broker_hangs(names: str, end: str, seed: int) -> None:
    """The broker hangs while something new is advertised: nobody may count on its table from then on."""
    net = BrokerNetwork(list(pairwise(names)), durable=True, seed=seed)
    traffic = Traffic(net, Random(seed))
    away(traffic, traffic.subscribe("d", "n >= 0", "reader", "all"))
    net.client("a", "producer at a")
    net.settle()
    net.hang("d")
    traffic.produce("a")
    traffic.publish(1, confirm=True)
    net.run(net.now_s + traffic.random.uniform(0.0, 0.1))
    if end == "a kill":
        net.kill("d")
        for _ in range(20):
            traffic.publish(1, confirm=True)
            net.run(net.now_s + 0.005)
        net.restart("d")
    else:
        for _ in range(20):
            traffic.publish(1, confirm=True)
            net.run(net.now_s + 1.0)
        net.go_on("d")
    again = traffic.subscribe("d", "n >= 0", "reader", "all")
    net.settle()
    assert net.clients["producer at a"].unconfirmed == 0
    traffic.check_all(traffic.got(again), again.filter)


def test_a_disk_that_forgets_what_it_has_committed_is_found_out() -> None:
    """The oracle of these tests notices what it is there for."""
    net = BrokerNetwork(LINE, durable=True)
    traffic = Traffic(net, Random(1))
    traffic.produce("a")
    one = traffic.subscribe("c", "n >= 0", "reader", "mine")
    net.settle()
    away(traffic, one)
    before = deepcopy(net.machines["c"].disk)
    traffic.publish(5, confirm=True)
    net.settle()
    net.kill("c")
    net.machines["c"].disk = before
    net.restart("c")
    again = traffic.subscribe("c", "n >= 0", "reader", "mine")
    net.settle()
    with pytest.raises(AssertionError):
        traffic.check_all(traffic.got(again), again.filter)


def test_what_is_not_acknowledged_comes_again_and_a_second_connection_takes_over() -> None:
    net = BrokerNetwork(LINE, durable=True)
    traffic = Traffic(net, Random(1))
    traffic.produce("a")
    first = traffic.subscribe("c", "n >= 0", "reader", "mine")
    first.client.acknowledges = False
    net.settle()
    traffic.publish(5, confirm=True)
    net.settle()
    assert traffic.got(first) == [1, 2, 3, 4, 5]
    del net.clients["reader"]  # the first one goes on, under the same name
    second = traffic.subscribe("c", "n >= 0", "reader", "mine")
    net.settle()
    traffic.publish(1, confirm=True)
    net.settle()
    assert traffic.got(second) == [1, 2, 3, 4, 5, 6]
    assert traffic.got(first) == [1, 2, 3, 4, 5]
    assert waiting(net, "c") == 0
    net.unsubscribe(second)
    net.settle()
    traffic.publish(1, confirm=True)
    net.settle()
    assert waiting(net, "c") == 0
    assert not net.machines["c"].disk.owners or all(
        owner.kind == "outbox" for owner in net.machines["c"].disk.owners.values()
    )


def test_deliveries_are_repeated_when_acknowledgements_are_lost() -> None:
    net = BrokerNetwork(LINE, durable=True, settings={"durable": QueueLimits(again_after_s=5.0)})
    traffic = Traffic(net, Random(1))
    traffic.produce("a")
    one = traffic.subscribe("a", "n >= 0", "reader", "mine")
    one.client.acknowledges = False
    net.settle()
    traffic.publish(2, confirm=True)
    net.run(net.now_s + 1.0)
    assert traffic.got(one) == [1, 2]
    one.client.acknowledges = True
    net.run(net.now_s + 10.0)
    assert traffic.got(one) == [1, 2, 1, 2]
    assert waiting(net, "a") == 0


def test_a_full_disk_refuses_and_takes_again_and_damage_is_left_out() -> None:
    net = BrokerNetwork([("a", "b")], durable=True)
    traffic = Traffic(net, Random(1))
    traffic.produce("a")
    one = traffic.subscribe("b", "n >= 0", "reader", "mine")
    net.settle()
    away(traffic, one)
    disk = net.machines["b"].disk
    disk.is_full = True
    traffic.publish(10, broker="a", confirm=True)
    net.run(net.now_s + 5.0)
    assert (waiting(net, "a"), waiting(net, "b")) == (10, 0)
    disk.is_full = False
    net.run(net.now_s + 60.0)
    assert (waiting(net, "a"), waiting(net, "b")) == (0, 10)
    (owner,) = disk.queues
    disk.damage(disk.positions(owner)[3])
    again = traffic.subscribe("b", "n >= 0", "reader", "mine")
    net.settle()
    assert traffic.got(again) == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    assert waiting(net, "b") == 0


class Reader:
    """Reads a durable subscription, acknowledges most of it, and now and then loses its connection."""

    def __init__(self, traffic: Traffic, broker: str) -> None:
        self.traffic = traffic
        self.subscription = traffic.subscribe(broker, "n >= 0", f"reader at {broker}", "all")

    def disturb(self) -> None:
        client, random = self.subscription.client, self.traffic.random
        client.acknowledges = random.random() < 0.7
        if random.random() < 0.3:
            client.drop()


def harm(net: BrokerNetwork, random: Random, clients: list[Client]) -> None:
    """Do something bad to a network, or put something right."""
    broker, (a, b) = random.choice(net.brokers), random.choice(net.links)
    machine = net.machines[broker]
    lot = random.random()
    if lot < 0.35:
        if machine.is_up:
            net.kill(broker, after=random.choice([0, 0, 1, 2, 3, 5, 8, 13, 21, 100]))
        else:
            net.restart(broker)
    elif lot < 0.5:
        if machine.is_hung:
            net.go_on(broker)
        elif machine.is_up:
            net.hang(broker)
    elif lot < 0.6:
        net.link_down(a, b)
    elif lot < 0.65:
        net.link_silent(a, b)
    elif lot < 0.85:
        net.link_up(a, b)
    else:
        random.choice(clients).drop()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("links", [LINE, RING])
def test_nothing_confirmed_is_lost_whatever_happens(links: list[tuple[str, str]], seed: int) -> None:
    random = Random(f"{len(links)} {seed}")
    net = BrokerNetwork(
        links, durable=True, seed=seed, delay="exponential", delay_ms=random.choice([0.5, 5.0])
    )
    traffic = Traffic(net, random)
    readers = [Reader(traffic, broker) for broker in net.brokers]
    net.settle()
    for broker in random.sample(net.brokers, 2):
        traffic.producers.append(broker)
        if random.random() < 0.7:
            net.advertise(broker, "n >= 0")
    for _ in range(30):
        traffic.publish(random.randrange(4), confirm=True)
        if random.random() < 0.5:
            harm(net, random, list(net.clients.values()))
        if random.random() < 0.3:
            random.choice(readers).disturb()
        net.run(net.now_s + random.choice([0.0, 0.001, 0.01, 0.3, 3.0]))
    for broker, machine in net.machines.items():
        if machine.is_doomed:
            net.kill(broker)
        net.restart(broker)
        net.go_on(broker)
    for a, b in links:
        net.link_up(a, b)
    for reader in readers:
        reader.subscription.client.acknowledges = True
    net.settle()
    net.run(net.now_s + 120.0)  # what was not acknowledged is repeated
    for client in net.clients.values():
        assert client.unconfirmed == 0
    for reader in readers:
        traffic.check_all(traffic.got(reader.subscription), reader.subscription.filter)
    assert {name: waiting(net, name) for name in net.brokers} == dict.fromkeys(net.brokers, 0)


@pytest.mark.parametrize("seed", range(10))
def test_a_disk_on_the_way_that_is_full_at_times_keeps_the_order(seed: int) -> None:
    """Events that had no room wait in their order, with those behind them that were under way to the disk."""
    net = BrokerNetwork(LINE, durable=True, seed=seed)
    traffic = Traffic(net, Random(seed))
    traffic.produce("a")
    one = traffic.subscribe("c", "n >= 0", "reader", "mine")
    net.settle()
    disk = net.machines["b"].disk
    for number in range(60):
        disk.is_full = number % 3 == 1
        for _ in range(10):
            traffic.publish(2, broker="a", confirm=True)
            net.run(net.now_s + traffic.random.uniform(0.0, 0.01))
        net.run(net.now_s + traffic.random.uniform(0.0, 1.5))
    disk.is_full = False
    net.settle()
    got = traffic.got(one)
    assert list(dict.fromkeys(got)) == list(range(1, 1201))
