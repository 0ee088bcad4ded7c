"""Plans on simulated brokers: they go in and out while events flow, also when brokers are killed meanwhile."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from covey.broker.plans import GONE_S, GRACE_S
from covey.errors import PlanError
from covey.planning.plan import Plan, PlannedTree
from covey.sim import BrokerNetwork
from tests.simulation.traffic import Traffic

SQUARE = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
PRIORITIES = {("a", "d"): 9}  # the overlay's tree is the line a–b–c–d


def plan(one_copy: str | None = None) -> bytes:
    trees = (
        PlannedTree("d", (("a", "b"), ("a", "d"), ("c", "d"))),
        PlannedTree("b", (("a", "b"), ("b", "c"), ("c", "d"))),
    )
    links = tuple((a, b, 1.0) for a, b in sorted(SQUARE))
    home = {} if one_copy else {"c": 1}
    return Plan("mine", 1, tuple("abcd"), links, trees, one_copy, home=home).encode()


def square(seed: int, *, durable: bool = False) -> tuple[BrokerNetwork, Traffic]:
    net = BrokerNetwork(SQUARE, seed=seed, priorities=PRIORITIES, durable=durable)
    traffic = Traffic(net, Random(seed))
    traffic.populate()
    return net, traffic


def epochs(net: BrokerNetwork) -> set[int]:
    """Return the epochs in which events set out."""
    return {machine.core.epochs.current for machine in net.machines.values() if machine.is_up}


def flow(traffic: Traffic, for_s: float) -> None:
    """Let events flow for some time."""
    until_s = traffic.net.now_s + for_s
    while traffic.net.now_s < until_s:
        traffic.publish(3)
        traffic.net.run(traffic.net.now_s + 0.002)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("one_copy", [None, "nearest", "cheapest"])
def test_a_plan_goes_in_and_out_while_events_flow(one_copy: str | None, seed: int) -> None:
    net, traffic = square(seed)
    flow(traffic, 0.05)
    net.install("b", plan(one_copy))
    flow(traffic, 0.2)
    (epoch,) = epochs(net)
    assert epoch != 0
    trees = net.machines["d"].core.epochs.routers[epoch].trees.values()
    assert any(
        "a" in tree.neighbours() for tree in trees
    )  # over the link that the overlay's tree has no use for
    net.roll_back("b")
    flow(traffic, 0.2)
    assert epochs(net) == {0}
    net.settle()
    # Events of one publisher may come out of order if they travel on trees of their own.
    traffic.check_once(is_ordered=one_copy is None)


def test_a_broker_that_was_away_learns_the_plan_and_keeps_it() -> None:
    net, traffic = square(1, durable=True)
    net.install("b", plan())
    net.settle()
    (epoch,) = epochs(net)
    net.kill("c")
    net.settle()
    net.restart("c")
    assert net.machines["c"].core.epochs.current == epoch  # before any neighbour has said so
    traffic.round()
    for broker in net.brokers:
        net.kill(broker)
    for broker in net.brokers:
        net.restart(broker)
    traffic.round()
    assert epochs(net) == {epoch}


@pytest.mark.parametrize("seed", range(20))
def test_brokers_killed_during_an_installation_stop_nothing_for_good(seed: int) -> None:
    random = Random(f"killed {seed}")
    net, traffic = square(seed, durable=bool(seed % 2))
    net.install("b", plan(random.choice([None, "nearest"])))
    for broker in random.sample(net.brokers, random.choice([1, 1, 2, 3])):
        net.run(net.now_s + random.choice([0.0, 0.001, 0.002, 0.005, 0.02, 1.0, 12.0]))
        net.kill(broker, after=random.randrange(20))
        if random.random() < 0.7:
            net.run(net.now_s + random.choice([0.001, 0.01, 1.0]))
        net.kill(broker)
        net.restart(broker)
    net.settle()
    assert len(epochs(net)) == 1
    traffic.round(is_ordered=False)
    net.run(net.now_s + GONE_S + 10.0)  # whatever was left half done is given up by then
    traffic.round(is_ordered=False)
    net.install("d", plan())
    net.settle()
    net.run(net.now_s + 30.0)
    assert len(epochs(net)) == 1
    assert all(
        machine.core.epochs.state.plans[machine.core.epochs.current] == plan()
        for machine in net.machines.values()
    )
    traffic.round()


@pytest.mark.parametrize("remedy", ["install", "none", "roll back"])
@pytest.mark.parametrize("seed", range(5))
def test_any_number_of_kills_leaves_what_the_next_request_mends(seed: int, remedy: str) -> None:
    """Plans go in and are taken back at any broker, and whoever works at it is killed, again and again."""
    random = Random(f"kills {seed}")
    net, traffic = square(seed, durable=True)
    plans = [plan(), plan("nearest"), b""]
    for _ in range(random.randrange(3, 12)):
        broker = random.choice(net.brokers)
        with suppress(PlanError):  # one is under way, or there is none to take back
            net.install(broker, random.choice(plans)) if random.random() < 0.6 else net.roll_back(broker)
        net.run(net.now_s + random.choice([0.0, 0.001, 0.002, 0.005, 0.02, 1.0, 12.0]))
        victim = random.choice([broker, broker, *net.brokers])
        net.kill(victim, after=random.randrange(20))
        net.run(net.now_s + random.choice([0.001, 0.01, 1.0]))
        net.kill(victim)
        net.restart(victim)
    net.settle()
    traffic.round(is_ordered=False)
    broker = random.choice(net.brokers)
    net.run(net.now_s + GONE_S + 10.0)
    net.install(broker, b"" if remedy == "none" else plan())
    net.run(net.now_s + 30.0)
    epoch_before = epochs(net)
    if remedy == "roll back":
        net.install(broker, plan("nearest"))
        net.run(net.now_s + GRACE_S / 2)
        assert epochs(net) != epoch_before, "it is in use"
        net.roll_back(broker)
        net.run(net.now_s + 30.0)
    net.settle()
    (epoch,) = epochs(net)
    for machine in net.machines.values():
        assert machine.core.epochs.state.plans == {epoch: b"" if remedy == "none" else plan()} | {0: b""}
    traffic.round()
