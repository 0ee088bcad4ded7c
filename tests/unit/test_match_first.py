"""Match-first: the publisher's broker writes the destinations, the others split the list."""

from __future__ import annotations

import covey
from covey.routing.digest import Fact
from covey.routing.messages import Message, Publish, Subscribe
from covey.sim import Network

# d hangs on b; a publishes.
#   a - b - c
#       |
#       d
STAR = [("a", "b"), ("b", "c"), ("b", "d")]


def network(*, advertisements: bool = False, links: list[tuple[str, str]] = STAR) -> Network:
    net = Network(links, "match-first", advertisements=advertisements)
    net.transcript = []  # type: ignore[attr-defined]

    def observe(sender: str, receiver: str, message: Message) -> None:
        net.transcript.append((sender, receiver, message))  # type: ignore[attr-defined]

    net.observer = observe
    return net


def carried(net: Network) -> list[tuple[str, str, tuple[str, ...] | None]]:
    """Return the way of events: sender, receiver and the destinations on the envelope."""
    return [
        (sender, receiver, message.destinations)
        for sender, receiver, message in net.transcript  # type: ignore[attr-defined]
        if isinstance(message, Publish)
    ]


def test_the_list_is_written_once_and_split_on_the_way() -> None:
    net = network()
    for broker in ("d", "c", "b"):
        net.subscribe(broker, "x > 1")
    net.subscribe("c", "x > 2")
    net.subscribe("c", "x > 9")
    net.settle()
    net.publish("a", {"x": 5})
    net.settle()
    assert carried(net) == [("a", "b", ("b", "c", "d")), ("b", "c", ("c",)), ("b", "d", ("d",))]
    assert sorted(s.broker for s, _ in net.deliveries) == ["b", "c", "c", "d"]


def test_subscriptions_travel_with_their_home() -> None:
    net = network()
    net.subscribe("c", "x > 1")
    net.settle()
    wanted = covey.parse("x > 1")
    assert [message for _, _, message in net.transcript] == [  # type: ignore[attr-defined]
        Subscribe("s1", wanted, "c"),
        Subscribe("s1", wanted, "c"),
        Subscribe("s1", wanted, "c"),
    ]
    strategies = {broker: node.router.trees[0].strategy for broker, node in net.nodes.items()}
    assert strategies["a"].heard("b") == strategies["b"].told("a") == [Fact("s1", wanted, "c")]
    assert strategies["b"].heard("c") == strategies["c"].told("b") == [Fact("s1", wanted, "c")]


def test_every_subscription_is_known_where_it_may_be_published_for() -> None:
    net = network(advertisements=True)
    net.advertise("a", "x >= 0")
    for _ in range(3):
        net.subscribe("c", "x > 1")
    net.subscribe("d", "x < 0")
    net.settle()
    assert {broker: len(entries) for broker, entries in net.tables.items()} == {
        "a": 3,
        "b": 3,
        "c": 0,
        "d": 0,
    }


def test_an_event_for_nobody_stays() -> None:
    net = network()
    net.subscribe("c", "x > 1")
    net.settle()
    net.publish("a", {"x": 0})
    net.settle()
    assert carried(net) == []


def test_a_destination_that_has_left_is_dropped_on_the_way() -> None:
    net = network(links=[("a", "b"), ("b", "c"), ("c", "d")])
    staying = net.subscribe("c", "x > 1")
    leaving = net.subscribe("d", "x > 1")
    net.settle()
    net.unsubscribe(leaving)
    net.run(net.now_s + 0.015)  # c knows it, b and a do not yet
    net.publish("a", {"x": 5})
    net.settle()
    assert net.deliveries == [(staying, {"x": 5})]
    assert carried(net) == [("a", "b", ("c", "d")), ("b", "c", ("c",))]
    assert net.router_counters()["dropped_destinations"] == 1


def test_of_two_at_one_home_the_one_that_stays_misses_nothing() -> None:
    net = network()
    leaving = net.subscribe("c", "x > 1")
    staying = net.subscribe("c", "x > 2")
    net.settle()
    for k in range(20):
        net.at(net.now_s + 0.002 * k, net.publish, "a", {"x": 5})
    net.at(net.now_s + 0.011, net.unsubscribe, leaving)
    net.settle()
    assert sum(subscription is staying for subscription, _ in net.deliveries) == 20


def test_a_client_that_moves_waits_for_what_was_addressed_to_its_old_broker() -> None:
    net = network()
    handle = net.subscribe("c", "x > 1")
    net.settle()
    net.slow_down("b", "d", 0.1)
    net.move(handle, "d")
    # The new home reaches a after 11 ms, the echo is back at d after 22, and the event comes to c after 30.
    net.at(net.now_s + 0.010, net.publish, "a", {"x": 5})
    net.settle()
    assert net.deliveries == [(handle, {"x": 5})]
    assert carried(net) == [("a", "b", ("c",)), ("b", "c", ("c",))]
    assert list(handle.homes) == ["d"]
    net.publish("a", {"x": 6})
    net.settle()
    assert net.deliveries[1:] == [(handle, {"x": 6})]


def test_after_a_link_was_down_homes_are_known_again() -> None:
    net = network()
    handle = net.subscribe("d", "x > 1")
    net.settle()
    net.link_down("b", "d")
    net.settle()
    assert not any(net.tables.values())
    net.publish("a", {"x": 5})
    net.link_up("b", "d")
    net.settle()
    net.publish("a", {"x": 6})
    net.settle()
    assert net.deliveries == [(handle, {"x": 6})]
    net.unsubscribe(handle)
    net.settle()
    for node in net.nodes.values():
        strategy = node.router.trees[0].strategy
        assert not strategy._homes  # type: ignore[attr-defined]
        assert not strategy._ways  # type: ignore[attr-defined]


def test_dynamic_advertisements() -> None:
    net = network(advertisements=True)
    handle = net.subscribe("d", "x > 1")
    net.settle()
    assert not any(net.tables.values())
    advertisement = net.advertise("c", "x > 0")
    net.settle()
    net.publish("c", {"x": 3})
    net.settle()
    assert carried(net) == [("c", "b", ("d",)), ("b", "d", ("d",))]
    assert net.deliveries == [(handle, {"x": 3})]
    net.unadvertise(advertisement)
    net.settle()
    assert not any(net.tables.values())
