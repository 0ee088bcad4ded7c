"""The simulator's public face: what people write first, what they get wrong, and how it heals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import covey
from covey.broker.config import BrokerConfig
from covey.broker.server import Broker
from covey.errors import ConfigError
from covey.routing.plan import TreePlan
from covey.routing.strategy import names, registered
from covey.sim import Network
from covey.sim.checkers import check_all
from covey.sim.topology import random_tree
from covey.strategies.reductions import REDUCTIONS

CHAIN = [("a", "b"), ("b", "c"), ("c", "d")]
MIXED = ["simple", "covering", "covering-lazy", "covering-packing", "incremental"]


def filters_by_link(net: Network) -> dict[str, list[tuple[str, str]]]:
    return {broker: sorted((link, str(f)) for link, f in table) for broker, table in net.tables.items()}


@pytest.mark.parametrize("strategy", covey.strategies())
@pytest.mark.parametrize("advertisements", [True, False])
def test_every_strategy_delivers(strategy: str, advertisements: bool) -> None:
    net = Network(CHAIN, strategy=strategy, advertisements=advertisements, seed=1)
    announced = net.advertise("a", covey.parse("price >= 0"))
    cheap = net.subscribe("d", covey.parse("price < 10"))
    dear = net.subscribe("c", "price > 5")
    net.settle()
    net.publish("a", {"price": 7})
    net.publish("a", {"price": 3})
    net.settle()
    assert {(s.name, e["price"]) for s, e in net.deliveries} == {("s1", 7), ("s2", 7), ("s1", 3)}
    assert net.counters["delivered_events"] == 3
    net.clear_deliveries()
    assert net.deliveries == []
    net.unsubscribe(cheap)
    net.unsubscribe(dear)
    net.unadvertise(announced)
    net.settle()
    assert net.tables == {"a": [], "b": [], "c": [], "d": []}


def test_counters_tell_control_from_data() -> None:
    net = Network(CHAIN, "simple", advertisements=False)
    net.subscribe("a", "x > 1")
    net.settle()
    assert net.counters["control_messages"] == net.counters["subscribe_messages"] == 3
    net.publish("d", {"x": 5})
    net.settle()
    assert net.counters["forwarded_events"] == 3
    assert net.counters["false_positives"] == 0
    assert net.counters["control_messages"] == 3


def test_an_event_outside_its_publishers_advertisements_still_reaches_everyone() -> None:
    net = Network(CHAIN, "covering", advertisements=True)
    subscription = net.subscribe("d", "x > 1")
    net.settle()
    net.publish("a", {"x": 5})
    net.settle()
    assert net.deliveries == [(subscription, {"x": 5})]
    assert net.router_counters()["unadvertised_events"] == 1


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Network([("a", "a")]), "two different brokers"),
        (lambda: Network([("a", "b"), ("b", "a")]), "given twice"),
        (lambda: Network([]), "at least one broker"),
        (lambda: Network(["ab", "abc"]), "a pair of broker names"),
        (lambda: Network([("a", "b"), ("b", "c"), ("c", "a")]), "needs an overlay without cycles"),
        (lambda: Network(CHAIN, "wishful"), "no strategy 'wishful'"),
        (lambda: Network(CHAIN, {"a": "covering"}), "no strategy is given for broker b"),
        (lambda: Network(CHAIN, dict.fromkeys("bcd", "covering") | {"a": "xroute"}), "cannot be neighbours"),
        (lambda: Network(CHAIN, dict.fromkeys("bcd", "covering") | {"a": "merging"}), "cannot be neighbours"),
        (lambda: Network(CHAIN, trees=TreePlan([CHAIN])), "no use for a plan"),
        (lambda: Network([("a", "b"), ("c", "d")], "trees"), "not connected"),
        (lambda: Network(CHAIN, delay="soon"), "no delay model 'soon'"),
        (lambda: Network(CHAIN, service_times="quick"), "no service model 'quick'"),
        (lambda: Network(CHAIN).subscribe("z", "x > 1"), "no broker 'z'"),
        (lambda: Network(CHAIN).subscribe("a", "x > 1", client="b"), "cannot have the name of a broker"),
        (lambda: Network(CHAIN).link_down("a", "c"), "no link between"),
    ],
)
def test_mistakes_are_one_clear_line(make: Any, says: str) -> None:
    with pytest.raises(covey.ConfigError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_cancelling_twice_is_a_mistake() -> None:
    net = Network(CHAIN)
    subscription, announced = net.subscribe("a", "x > 1"), net.advertise("a", "x > 1")
    net.unsubscribe(subscription)
    net.unadvertise(announced)
    with pytest.raises(covey.ConfigError, match="cancelled already"):
        net.unsubscribe(subscription)
    with pytest.raises(covey.ConfigError, match="revoked already"):
        net.unadvertise(announced)
    with pytest.raises(covey.ConfigError, match="is cancelled"):
        net.move(subscription, "b")


def test_strategies_of_one_dialect_may_meet() -> None:
    dialects = {registered(name).dialect for name in MIXED}
    assert dialects == {"subscriptions"}
    assert [name for name in covey.strategies() if registered(name).dialect in dialects] == MIXED
    for seed in range(10):
        topology = random_tree(6, seed)
        names = {broker: MIXED[(n + seed) % len(MIXED)] for n, broker in enumerate(topology.brokers)}
        net = Network(topology, names, delay="exponential", seed=seed)
        broker = topology.brokers[seed % 6]
        net.advertise(broker, "x >= 0")
        handles = [net.subscribe(topology.brokers[n % 6], f"x between {n} and {n + 5}") for n in range(12)]
        for handle in handles[::3]:
            net.unsubscribe(handle)
        net.settle()
        net.publish(broker, {"x": 8})
        net.settle()
        assert {s.name for s, _ in net.deliveries} == {
            s.name for s in net.subscriptions.values() if s.filter.matches({"x": 8})
        }


def test_a_subscription_has_one_identity_wherever_it_moves() -> None:
    net = Network(CHAIN, "covering", delay="exponential", seed=7)
    net.advertise("b", "x >= 0")
    subscription = net.subscribe("a", "x > 1")
    net.settle()
    for step, broker in enumerate(["d", "c", "a", "d"]):
        net.publish("b", {"x": 2 + step})
        net.move(subscription, broker)
        net.publish("b", {"x": 20 + step})
    net.settle()
    assert sorted(event["x"] for _, event in net.deliveries) == [2, 3, 4, 5, 20, 21, 22, 23]
    assert subscription.broker == "d"
    assert [len(table) for table in net.tables.values()] == [0, 1, 1, 0]


def cut_link(net: Network) -> None:
    net.link_down("b", "c")
    net.settle()
    net.link_up("b", "c")


def cut_link_briefly(net: Network) -> None:
    net.link_down("b", "c")
    net.link_up("b", "c")


def stop_broker(net: Network) -> None:
    net.crash("b")
    net.settle()
    net.restart("b")


def stop_broker_briefly(net: Network) -> None:
    net.crash("c")
    net.restart("c")


def slow_down_for_a_while(net: Network) -> None:
    net.slow_down("a", "b", 50.0)
    net.run(net.now_s + 1)
    net.slow_down("a", "b", 1)


def part(net: Network) -> None:
    cut = net.partition(["a", "b"])
    net.settle()
    for link in cut:
        net.link_up(*link)


FAULTS: dict[str, Callable[[Network], None]] = {
    "a link": cut_link,
    "a link, briefly": cut_link_briefly,
    "a broker": stop_broker,
    "a broker, briefly": stop_broker_briefly,
    "a spike of delays": slow_down_for_a_while,
    "a partition": part,
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda name: name.replace(" ", "-"))
@pytest.mark.parametrize("strategy", covey.strategies())
def test_after_a_fault_has_healed_all_is_as_if_it_had_never_happened(strategy: str, fault: str) -> None:
    def story(*, with_fault: bool) -> Network:
        net = Network(CHAIN, strategy, seed=3)
        net.advertise("a", "x >= 0")
        net.advertise("d", "x < 50")
        handles = [net.subscribe("abcd"[n % 4], f"x between {3 * n} and {3 * n + n % 5}") for n in range(16)]
        net.subscribe("c", "x between 0 and 40")
        net.settle()
        if with_fault:
            FAULTS[fault](net)
        net.unsubscribe(handles[3])
        net.unsubscribe(handles[6])
        net.subscribe("b", "x between 30 and 33")
        net.settle()
        net.clear_deliveries()
        for x in range(0, 60, 3):
            net.publish("ad"[x % 2], {"x": x})
        net.settle()
        return net

    plain, healed = story(with_fault=False), story(with_fault=True)
    assert check_all(healed) == []
    if strategy in REDUCTIONS:  # the tables of others depend on the order in which things happened
        assert filters_by_link(healed) == filters_by_link(plain)
    assert sorted((s.name, e["x"]) for s, e in healed.deliveries) == sorted(
        (s.name, e["x"]) for s, e in plain.deliveries
    )


def test_service_times_make_queues_and_delays() -> None:
    net = Network(CHAIN, "covering", service_times="table-ii", delay_ms=0.0)
    net.advertise("a", "x >= 0")
    net.subscribe("d", "x > 1")
    net.settle()
    delays: list[float] = []
    net.on_delivery = lambda subscription, publish, delay_s: delays.append(delay_s)
    for _ in range(10):
        net.publish("a", {"x": 5})
    net.settle()
    # Each event takes 3 ms at each of four brokers, and waits for those before it at the first.
    assert delays == pytest.approx([0.003 * (4 + n) for n in range(10)])
    assert net.nodes["a"].longest_queue == 10


@pytest.mark.parametrize(("strategy", "subscribe_us"), [("covering", 2.911), ("simple", 0.166)])
def test_linear_service_times_grow_with_the_table(strategy: str, subscribe_us: float) -> None:
    net = Network([("a", "b")], strategy, service_times="linear", delay_ms=0.0)
    net.advertise("a", "x >= 0")
    net.settle()
    for low in range(0, 40, 2):
        net.subscribe("b", f"x between {low} and {low + 1}")
    net.settle()
    for name in ("a", "b"):
        assert net.nodes[name].router.size() == 20
        # The first subscription meets an empty table, the last one 19 entries: 190 in all.
        assert net.nodes[name].busy_s == pytest.approx(190 * subscribe_us * 1e-6)
        net.nodes[name].busy_s = 0.0
    net.publish("a", {"x": 5})
    net.settle()
    assert [net.nodes[name].busy_s for name in ("a", "b")] == pytest.approx([20 * 0.343e-6] * 2)


@pytest.mark.parametrize("strategy", names())
def test_sizes_are_the_lengths_of_what_is_listed(strategy: str) -> None:
    net = Network(CHAIN, strategy)
    net.advertise("a", "x >= 0")
    for low in range(6):
        net.subscribe("bcd"[low % 3], f"x between {low} and {low * 2}")
    net.settle()
    for node in net.nodes.values():
        remote, local = node.router.remote_entries(), node.router.local_subscriptions()
        assert node.router.remote_size() == len(remote)
        assert node.router.local_size() == sum(map(len, local.values()))
        assert node.router.size() == node.router.remote_size() + node.router.local_size()


@pytest.mark.parametrize("strategy", covey.strategies())
def test_a_setting_that_a_strategy_has_not_is_one_clear_line_everywhere(strategy: str) -> None:
    known = ", ".join(registered(strategy).options)
    hint = f"one of {known}" if known else "it has none"
    expected = f"the strategy {strategy} has no setting 'speed' (hint: {hint})"
    with pytest.raises(ConfigError) as network:
        Network(CHAIN, strategy, options={"speed": 1})
    assert str(network.value) == expected
    with pytest.raises(ConfigError) as broker:
        Broker(BrokerConfig("a", strategy=strategy, options={"speed": 1}))
    assert str(broker.value) == expected
