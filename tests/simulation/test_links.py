"""Simulated brokers whose links fail, and who hang, are killed or drain: delivery is exact once all is well again."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from covey.broker.config import Queue
from covey.core.filter import Filter
from covey.sim import BrokerNetwork
from tests.simulation.traffic import Traffic

LINE = [("a", "b"), ("b", "c"), ("c", "d")]
RING = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
STRATEGIES = [
    "covering",
    "merging-imperfect",
    "xroute-sets",
    "incremental",
    "match-first",
    "simple",
    "flooding",
]


def busy(links: list[tuple[str, str]], name: str, **settings: Any) -> tuple[BrokerNetwork, Traffic]:
    net = BrokerNetwork(links, seed=Random(name).randrange(1 << 30), **settings)
    traffic = Traffic(net, Random(name))
    traffic.populate()
    traffic.round()
    return net, traffic


def readable(tables: Mapping[str, list[tuple[str, Filter]]]) -> dict[str, list[tuple[str, str]]]:
    return {name: sorted((link, str(filter)) for link, filter in entries) for name, entries in tables.items()}


def in_use(net: BrokerNetwork, broker: str) -> set[str]:
    return set(net.machines[broker].core.neighbours.attached)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_cut_link_keeps_its_interest_and_comes_back(strategy: str) -> None:
    net, traffic = busy(LINE, f"cut {strategy}", strategy=strategy)
    before = readable(net.tables)
    net.link_down("b", "c")
    net.settle()
    assert readable(net.tables) == before
    assert in_use(net, "b") == {"a"}
    late = traffic.subscribe("d", "x >= 3")  # said while the link is cut
    traffic.publish(10)  # some of them are lost: a link that is not there carries nothing
    net.settle()
    net.link_up("b", "c")
    traffic.round()
    traffic.watched.remove(late)
    net.unsubscribe(late)
    net.settle()
    assert readable(net.tables) == before


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_with_a_redundant_link_traffic_moves_and_comes_back(strategy: str) -> None:
    net, traffic = busy(RING, f"ring {strategy}", strategy=strategy)
    assert in_use(net, "d") == {"a"}  # c–d is the link that is not needed
    before = readable(net.tables)
    net.link_down("b", "c")
    traffic.round()
    assert in_use(net, "d") == {"a", "c"}
    net.link_up("b", "c")
    traffic.round()
    assert in_use(net, "d") == {"a"}
    assert readable(net.tables) == before


def test_priorities_choose_the_tree() -> None:
    net, traffic = busy(RING, "priorities", priorities={("a", "b"): 9})
    assert in_use(net, "a") == {"d"}
    traffic.round()


@pytest.mark.parametrize("links", [LINE, RING])
def test_a_broker_that_hangs_is_left_within_a_lease_and_comes_back(links: list[tuple[str, str]]) -> None:
    net, traffic = busy(links, "hang")
    net.hang("c")
    net.run(net.now_s + 10.0)
    assert "c" not in in_use(net, "b")
    net.settle()
    net.go_on("c")
    traffic.round()


@pytest.mark.parametrize("links", [LINE, RING])
def test_a_silent_link_is_noticed_within_a_lease(links: list[tuple[str, str]]) -> None:
    net, traffic = busy(links, "silent")
    net.link_silent("b", "c")
    net.run(net.now_s + 10.0)
    assert "c" not in in_use(net, "b")
    assert "b" not in in_use(net, "c")
    if links is RING:
        traffic.round()
    net.link_up("b", "c")
    traffic.round()


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("links", [LINE, RING])
def test_a_broker_is_killed_and_started_again(links: list[tuple[str, str]], durable: bool) -> None:
    net, traffic = busy(links, "kill", durable=durable)
    before = readable(net.tables)
    for broker in ("b", "d"):
        net.kill(broker)
        net.settle()
        assert broker not in net.tables
        net.restart(broker)
        traffic.round()
    assert readable(net.tables) == before


def test_what_waits_is_delivered_before_a_broker_ends() -> None:
    net, traffic = busy(LINE, "drain")
    net.clear_deliveries()
    traffic.published.clear()
    traffic.publish(50, broker="b")
    net.run(net.now_s + 0.0015)  # they have arrived there, and nowhere else
    net.drain("b")
    net.settle()
    assert not net.machines["b"].is_up
    traffic.check_once()
    assert {client.said for client in net.clients.values() if client.broker == "b"} == {
        "the broker is going away"
    }
    net.restart("b")
    traffic.round()


def test_a_lame_duck_sends_its_clients_away_one_after_another() -> None:
    net, traffic = busy(LINE, "lame duck")
    there = [client for client in net.clients.values() if client.broker == "b"]
    began_s = net.now_s
    net.drain("b", within_s=5.0, spread_s=9.0)
    net.run(began_s + 4.5)
    assert 0 < sum(not client.said for client in there) < len(there)
    net.run(began_s + 10.0)
    assert not net.machines["b"].is_up
    net.restart("b")
    traffic.round()


@pytest.mark.parametrize("policy", ["disconnect", "drop-oldest", "drop-new", "block"])
def test_a_slow_consumer(policy: str) -> None:
    bounds = Queue(events=200, bytes=1 << 21, policy=policy)
    net = BrokerNetwork(
        [("a", "b")], settings={"client_bounds": bounds, "link_bounds": bounds}, stream_bytes=1 << 14
    )
    traffic = Traffic(net, Random(policy))
    traffic.produce("a")
    fast = traffic.subscribe("b", "n >= 0")
    slow = traffic.subscribe("b", "n >= 0")
    net.settle()
    slow.client.stop_reading()
    most = 0
    for _ in range(40):
        traffic.publish(50, broker="a")
        net.run(net.now_s + 0.05)
        outboxes = [peer.connection.outbox for peer in net.machines["b"].core.peers.values()]
        most = max(most, *(outbox.count for outbox in outboxes))
    numbers = list(range(1, 2_001))
    if policy == "block":
        assert len(traffic.got(fast)) < 2_000  # it waits for the slow one, as does whoever publishes
    else:
        assert traffic.got(fast) == numbers
        assert most <= bounds.events
    slow.client.read_again()
    net.settle()
    got = traffic.got(slow)
    assert traffic.got(fast) == numbers
    if policy == "block":
        assert got == numbers
        return
    assert got == sorted(set(got))
    assert len(got) < 2_000
    if policy == "disconnect":
        assert got == numbers[: len(got)]
        assert "too slowly" in slow.client.said
    else:
        assert (got[-1] == 2_000) == (policy == "drop-oldest")
    traffic.watched.remove(slow)
    traffic.round()
