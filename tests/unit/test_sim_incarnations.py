"""A link that comes back is another link: nothing that was said over the old one leaves or arrives over the new one."""

from __future__ import annotations

from typing import Any

import pytest

import covey
from covey.routing.messages import Greet, Message, Publish, Subscribe
from covey.sim import Network
from covey.sim.checkers import check_all, emptiness
from covey.sim.library import Changes, load
from covey.sim.preparation import prepare
from covey.sim.runner import Driver
from covey.sim.scenario import parse_toml, read_scenario

SERVICES = ("zero", "table-ii", "linear")


def flap(net: Network, a: str, b: str, times: int = 2, gap_s: float = 0.001) -> None:
    """Let a link go down and come back, some times within milliseconds."""
    for _ in range(times):
        net.link_down(a, b)
        net.run(net.now_s + gap_s)
        net.link_up(a, b)
        net.run(net.now_s + gap_s)


@pytest.mark.parametrize("strategy", covey.strategies())
@pytest.mark.parametrize("served_s", [0.0, 0.001, 0.012])
def test_a_link_may_flap_while_a_subscription_is_served(strategy: str, served_s: float) -> None:
    net = Network([("a", "b")], strategy, service_times="table-ii")
    net.advertise("b", "x >= 0")
    net.settle()
    subscription = net.subscribe("a", "x > 1")
    net.run(net.now_s + served_s)
    flap(net, "a", "b")
    net.settle()
    assert check_all(net) == []
    net.publish("b", {"x": 5})
    net.settle()
    assert net.deliveries == [(subscription, {"x": 5})]


@pytest.mark.parametrize("strategy", covey.strategies())
def test_nothing_is_left_when_everyone_has_gone(strategy: str) -> None:
    for gap_s in (0.0, 0.0007, 0.002, 0.011):
        net = Network([("a", "b"), ("b", "c")], strategy, service_times="table-ii", advertisements=False)
        handles = []
        for low in range(6):
            handles.append(net.subscribe("abc"[low % 3], f"x between {low} and {low + 3}"))
            flap(net, "ab"[low % 2], "bc"[low % 2], gap_s=gap_s)
        for handle in handles:
            net.unsubscribe(handle)
            flap(net, "a", "b", times=1, gap_s=gap_s)
        net.settle()
        assert emptiness(net) == []


def test_what_is_served_when_its_link_goes_down_does_not_leave_over_the_next() -> None:
    net = Network([("a", "b")], service_times="table-ii")
    net.advertise("a", "x >= 0")
    net.subscribe("b", "x > 1")
    net.settle()
    arrived: list[Message] = []
    net.observer = lambda sender, receiver, message: arrived.append(message)
    net.clear_counters()
    net.publish("a", {"x": 5})
    net.run(net.now_s + 0.001)  # the router has handled the event, and its service goes on
    net.link_down("a", "b")
    net.link_up("a", "b")
    net.settle()
    assert isinstance(arrived[0], Greet)
    assert not any(isinstance(message, Publish) for message in arrived)
    assert net.counters["forwarded_events"] == 0  # nothing was transmitted, so nothing is counted
    assert net.deliveries == []


def test_what_has_arrived_before_a_link_goes_down_is_handled_before_its_end() -> None:
    net = Network([("a", "b"), ("b", "c")], service_times="table-ii", delay_ms=1.0)
    net.advertise("a", "x >= 0")
    here, behind = net.subscribe("b", "x > 1"), net.subscribe("c", "x > 1")
    net.settle()
    for x in (5, 6, 7):
        net.publish("a", {"x": x})
    net.subscribe("b", "x > 90")  # b works on it for 12.81 ms; the events arrive after 4, 7 and 10
    net.run(net.now_s + 0.0085)
    assert net.nodes["b"].queue_length == 3
    net.link_down("a", "b")
    net.link_up("a", "b")
    net.settle()
    assert {(s, e["x"]) for s, e in net.deliveries} == {(s, x) for s in (here, behind) for x in (5, 6)}
    assert check_all(net) == []


def test_answers_to_what_an_ended_link_has_said_are_lost_with_it() -> None:
    net = Network([("a", "b"), ("b", "c")], "simple", advertisements=False, service_times="table-ii")
    net.settle()
    arrived: list[tuple[str, str, Message]] = []
    net.observer = lambda *one: arrived.append(one)
    net.subscribe("a", "x > 1")
    while not net.nodes["b"].queue_length:
        net.engine.step()  # until the subscription is served at b, which tells c
    net.link_down("b", "c")
    net.link_up("b", "c")
    net.settle()
    said = [message for sender, receiver, message in arrived if (sender, receiver) == ("b", "c")]
    assert isinstance(said[0], Greet)  # in the Sync that follows c learns of it, once
    assert not any(isinstance(message, Subscribe) for message in said)
    assert check_all(net) == []


def test_a_broker_that_restarts_while_its_neighbour_is_busy_is_another_one() -> None:
    net = Network([("a", "b"), ("b", "c")], service_times="table-ii")
    net.advertise("a", "x >= 0")
    handles = [net.subscribe("c", f"x between {low} and {low + 20}") for low in range(5)]
    net.run(net.now_s + 0.03)
    for broker in "bcb":
        net.crash(broker)
        net.run(net.now_s + 0.001)
        net.restart(broker)
        net.run(net.now_s + 0.002)
    net.settle()
    assert check_all(net) == []
    net.publish("a", {"x": 10})
    net.settle()
    assert {s.name for s, _ in net.deliveries} == {s.name for s in handles}


FLAPS = """
[topology]
links = [["a", "b"], ["b", "c"]]
[service]
kind = "table-ii"
[[actions]]
at_s = 0
op = "advertise"
name = "p"
broker = "a"
filter = "x >= 0"
{actions}
[[actions]]
at_s = 5.0
op = "publish"
broker = "a"
event = {{ x = 7 }}
"""
SUBSCRIBE = """
[[actions]]
at_s = {at_s}
op = "subscribe"
name = "s{number}"
broker = "{broker}"
filter = "x > {number}"
[[faults]]
at_s = {at_s}
until_s = {until_s}
kind = "{kind}"
{where}
"""
WHERE = {
    "link-down": 'link = ["b", "c"]',
    "crash": 'broker = "b"',
    "partition": 'brokers = ["a"]',
    "slow": 'link = ["a", "b"]\nfactor = 9.0',
}


def scenario_with_faults(strategy: str) -> Any:
    actions = [
        SUBSCRIBE.format(
            at_s=1.0 + 0.004 * number,
            until_s=1.002 + 0.004 * number,
            number=number,
            broker="abc"[number % 3],
            kind=kind,
            where=WHERE[kind],
        )
        for number, kind in enumerate(3 * list(WHERE))
    ]
    tables = parse_toml(FLAPS.format(actions="".join(actions)), "flaps")
    return read_scenario(tables | {"strategy": {"name": strategy}}, "flaps")


@pytest.mark.parametrize("strategy", covey.strategies())
def test_a_scenario_may_have_faults_and_service_times(strategy: str) -> None:
    driver = Driver(prepare(scenario_with_faults(strategy)))
    driver.drive()
    assert check_all(driver.net) == []
    assert driver.net.counters["delivered_events"] == 7  # of those who want more than 0 to 6


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("strategy", covey.strategies())
def test_the_tour_has_the_same_end_with_every_service_model(strategy: str, service: str) -> None:
    driver = Driver(prepare(load("tour", Changes(strategy=strategy, settings=[f"service.kind={service}"]))))
    driver.drive()
    assert check_all(driver.net) == []
    assert driver.net.counters["delivered_events"] == 7
