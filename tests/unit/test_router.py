"""A router refuses what it must not be told, one clear line each, and stays usable."""

from __future__ import annotations

import pytest

import covey
from covey.routing.messages import (
    Advertise,
    Echo,
    Greet,
    LinkDown,
    LinkUp,
    Message,
    Pack,
    Probe,
    Publish,
    Subscribe,
    Sync,
    Unadvertise,
    Unsubscribe,
    Update,
)
from covey.routing.outputs import Deliver, Send
from covey.routing.plan import TreePlan
from covey.routing.router import Router
from covey.sim import Network  # registers the strategies

F = covey.parse("x > 1")
EVENT = {"x": 4, "y": 3}
DIALECT = "subscriptions, without advertisements"


def router_with_client_and_neighbour(**settings: object) -> Router:
    router = Router("b", "covering", advertisements=False)
    router.handle(LinkUp(client=True), "client")
    router.handle(LinkUp(), "n")
    router.handle(Greet(DIALECT, (), ()), "n")
    router.handle(Sync("advertisements", 1, {}), "n")
    return router


@pytest.mark.parametrize(
    ("message", "source", "says"),
    [
        (Subscribe("k", F), "stranger", "is not a neighbour"),
        (Greet(DIALECT, (), ()), "n", "greets out of turn"),
        (Sync("advertisements", 1, {}), "n", "synchronises out of turn"),
        (Sync("gossip", 1, {}), "n", "synchronises out of turn"),
        (Sync("subscriptions", 1, {7: ()}), "n", "names a bucket that is not there"),
        (Sync("subscriptions", 10**9, {}), "n", "names a bucket that is not there"),
        (LinkUp(), "n", "is up already"),
        (LinkUp(client=True), "client", "is up already"),
        (Unsubscribe("nothing"), "client", "has no subscription nothing"),
        (Pack(()), "client", "a client cannot say Pack"),
        (Update(()), "n", "was sent Update"),
        (Subscribe("k", F, tree=9), "n", "is not a neighbour on tree 9"),
        (Echo("p", tree=3), "n", "is not a neighbour on tree 3"),
        (Message(), "n", "does not understand Message"),
    ],
)
def test_what_a_router_is_told_wrongly_it_refuses(message: Message, source: str, says: str) -> None:
    router = router_with_client_and_neighbour()
    with pytest.raises(covey.ProtocolError, match=says) as caught:
        router.handle(message, source)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250
    assert router.handle(Subscribe("after", F), "client") == [Send("n", Subscribe("after", F))]


def test_keys_and_probes_are_used_once() -> None:
    router = router_with_client_and_neighbour()
    router.handle(Subscribe("k", F), "client")
    with pytest.raises(covey.ProtocolError, match="has a subscription k already"):
        router.handle(Subscribe("k", F), "client")
    router.handle(Subscribe("from n", F), "n")
    assert router.handle(Subscribe("from n", F), "n") == []
    with pytest.raises(covey.ProtocolError, match="another filter than before"):
        router.handle(Subscribe("from n", covey.parse("x > 2")), "n")
    router.handle(Advertise("a", F), "client")
    with pytest.raises(covey.ProtocolError, match="has an advertisement a already"):
        router.handle(Advertise("a", F), "client")
    assert router.handle(Probe("p"), "client") == [Send("n", Probe("p"))]
    with pytest.raises(covey.ProtocolError, match="probes twice"):
        router.handle(Probe("p"), "client")
    assert router.handle(Echo("p"), "n") == [Send("client", Echo("p"))]
    assert router.handle(Echo("p"), "n") == []


def test_neighbours_that_speak_another_dialect_are_refused() -> None:
    router = Router("b", "covering")
    router.handle(LinkUp(), "n")
    with pytest.raises(covey.ProtocolError, match="do not understand each other"):
        router.handle(Greet("xroute, with advertisements", (), ()), "n")
    other = Router("b", "covering")
    other.handle(LinkUp(), "n")
    with pytest.raises(covey.ProtocolError, match="without advertisements"):
        other.handle(Greet(DIALECT, (), ()), "n")


def test_a_client_gets_an_event_once_for_all_its_subscriptions() -> None:
    router = router_with_client_and_neighbour()
    router.handle(Subscribe("k", F), "client")
    router.handle(Subscribe("l", F), "client")
    publish = Publish({"x": 5}, "e1", "somebody")
    assert router.handle(publish, "n") == [Deliver("client", ("k", "l"), publish)]


def test_what_a_client_had_goes_with_it() -> None:
    router = router_with_client_and_neighbour()
    router.handle(Subscribe("k", F), "client")
    assert router.handle(LinkDown(), "client") == [Send("n", Unsubscribe("k"))]
    assert router.local_subscriptions() == {}


def router_with_two_clients(strategy: str) -> Router:
    router = Router("b", strategy, advertisements=False)
    for client in ("large", "small"):
        router.handle(LinkUp(client=True), client)
    router.handle(LinkUp(), "n")
    router.handle(Greet(router.trees[0].dialect, (), ()), "n")
    router.handle(Sync("advertisements", 1, {}), "n")
    return router


def withdraw(router: Router, link: str, most: int) -> None:
    """Withdraw some of a client's subscriptions, the newest first, as a driver does that has other work in between."""
    for key in list(reversed(router.local_subscriptions()[link]))[:most]:
        router.handle(Unsubscribe(key), link)


@pytest.mark.parametrize("strategy", ["simple", "covering", "merging", "incremental", "xroute"])
def test_a_client_leaves_in_slices(strategy: str) -> None:
    router, texts = router_with_two_clients(strategy), [f"x > {n % 7} and y > {n % 5}" for n in range(30)]
    router.handle(Subscribe("stays", covey.parse("x > 3")), "small")
    for number, text in enumerate(texts):
        router.handle(Subscribe(f"k{number}", covey.decode(covey.parse(text).encode())), "large")
    slices = 0
    while left := len(router.local_subscriptions()["large"]):
        withdraw(router, "large", 4)
        slices += 1
        left = max(0, left - 4)
        assert len(router.local_subscriptions()["large"]) == left
        # Between two slices the router answers as one that never had what is withdrawn.
        there = {f"k{n}" for n, text in enumerate(texts[:left]) if covey.parse(text).matches(EVENT)}
        assert {key for link, key in router.matching(EVENT) if link == "large"} == there
    assert slices == 8
    router.handle(LinkDown(), "large")
    assert router.local_subscriptions() == {"small": {"stays": covey.parse("x > 3")}}


@pytest.mark.parametrize("strategy", ["simple", "identity", "covering", "covering-lazy", "merging"])
def test_neighbours_know_the_same_however_a_client_left(strategy: str) -> None:
    texts = ["x > 5", "x > 5", "x > 3 and y = 1", "x > 3", "x > 4", "x between 4 and 9"]

    def told(slices: int) -> set[str]:
        router = router_with_two_clients(strategy)
        for number, text in enumerate(texts):
            client = "small" if number in (1, 4) else "large"
            router.handle(Subscribe(f"k{number}", covey.parse(text)), client)
        while slices and router.local_subscriptions()["large"]:
            withdraw(router, "large", slices)
        router.handle(LinkDown(), "large")
        return {str(fact.filter) for fact in router.trees[0].strategy.told("n")}

    assert told(1) == told(3) == told(0)


def test_a_plan_is_checked() -> None:
    with pytest.raises(covey.PlanError, match="at least one tree"):
        TreePlan([])
    with pytest.raises(covey.PlanError, match="tree 0 of the plan has a cycle"):
        TreePlan([[("a", "b"), ("b", "c"), ("c", "a")]])
    with pytest.raises(covey.PlanError, match="a link that the overlay does not have"):
        Network([("a", "b")], "trees", trees=TreePlan([[("a", "c")]]))
    plan = TreePlan([[("a", "b")], [("a", "b")]], group=lambda broker, filter: 5)
    net = Network([("a", "b")], "trees", trees=plan, judge=False)
    net.subscribe("a", "x > 1")
    with pytest.raises(covey.PlanError, match="tree 5, which it does not have"):
        net.settle()


def test_what_comes_again_over_a_passing_cycle_is_neither_delivered_nor_sent_on() -> None:
    router = router_with_client_and_neighbour()
    router.handle(LinkUp(), "m")
    router.handle(Greet(DIALECT, (), ()), "m")
    router.handle(Sync("advertisements", 1, {}), "m")
    router.handle(Subscribe("k", F), "client")
    router.handle(Subscribe("j", F), "m")
    event = Publish({"x": 2}, "p.1", "~1")
    assert len(router.handle(event, "n")) == len(router.handle(event, "n")) == 2  # as on a tree it does not
    router.remember_events()
    other = Publish({"x": 2}, "p.2", "~1")
    first = router.handle(other, "n")
    assert {type(output) for output in first} == {Deliver, Send}
    assert router.handle(other, "n") == []
    assert router.counters["duplicates_suppressed"] == 1


def test_an_advertisement_is_withdrawn_only_where_nobody_else_still_has_it() -> None:
    """Of two links that form a passing cycle one goes down; the advertisement is still known from the other."""
    router = Router("b", "covering")
    router.handle(LinkUp(client=True), "~c")
    for link in ("m", "n", "o"):
        router.handle(LinkUp(), link)
        router.handle(Greet("subscriptions, with advertisements", (), ()), link)
        router.handle(Sync("advertisements", 1, {}), link)
    router.handle(Advertise("a", F, "~p"), "m")
    router.handle(Advertise("a", F, "~p"), "n")
    withdrawn = [output for output in router.handle(LinkDown(), "m") if isinstance(output, Send)]
    # n had it from here because of m; o still has it from here because of n.
    assert [output.link for output in withdrawn if isinstance(output.message, Unadvertise)] == ["n"]
    gone = [output for output in router.handle(LinkDown(), "n") if isinstance(output, Send)]
    assert [output.link for output in gone if isinstance(output.message, Unadvertise)] == ["o"]
