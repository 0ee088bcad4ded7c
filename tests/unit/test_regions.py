"""The strategy `regions`: its directory, the way of the only copy, faults, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import covey
from covey.errors import ConfigError, ProtocolError
from covey.routing.messages import LinkUp, Publish, Subscribe
from covey.routing.outputs import Send
from covey.routing.plan import OneCopy, TreePlan
from covey.routing.router import Router
from covey.sim import Network
from covey.strategies.regions import MOST_DETOURS, Regions

RING = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("f", "a")]
# Shortest paths from a, and from d: the first without the link c–d, the second without f–a.
PLAN = TreePlan([RING[:2] + RING[3:], RING[:5]], one_copy=OneCopy("nearest", ["a", "d"]))


def ring(**settings: Any) -> Network:
    return Network(RING, "regions", trees=PLAN, **{"advertisements": False, **settings})


def ways(net: Network, broker: str, event: Any) -> list[tuple[str, str, int]]:
    """Publish and return the links crossed, each with the tree."""
    crossed: list[tuple[str, str, int]] = []

    def observe(sender: str, receiver: str, message: Any) -> None:
        if isinstance(message, Publish):
            crossed.append((sender, receiver, message.tree))

    net.observer = observe
    net.publish(broker, event)
    net.settle()
    net.observer = None
    return crossed


def test_an_event_takes_the_tree_whose_root_is_nearest_to_its_hosts() -> None:
    net = ring()
    net.subscribe("b", "x > 0")
    net.subscribe("d", "y > 0")
    net.subscribe("e", "y > 0")
    net.settle()
    assert ways(net, "c", {"x": 1}) == [("c", "b", 0)]
    assert ways(net, "c", {"y": 1}) == [("c", "d", 1), ("d", "e", 1)]
    # From f both trees have a way to b; only hosts decide, whoever publishes.
    assert ways(net, "f", {"x": 1}) == [("f", "a", 0), ("a", "b", 0)]
    assert ways(net, "f", {"x": 1, "y": 1}) == [("f", "e", 1), ("e", "d", 1), ("d", "c", 1), ("c", "b", 1)]
    assert ways(net, "f", {"z": 1}) == []
    assert net.counters["false_positives"] == 0


def test_the_publishers_own_broker_counts_among_the_hosts() -> None:
    net = ring()
    net.subscribe("b", "x > 0")
    net.settle()
    assert ways(net, "d", {"x": 1}) == [("d", "e", 0), ("e", "f", 0), ("f", "a", 0), ("a", "b", 0)]
    net.subscribe("d", "x > 0")  # 1 + 3 from a, 2 + 0 from d
    net.settle()
    assert ways(net, "d", {"x": 1}) == [("d", "c", 1), ("c", "b", 1)]


def test_a_directory_has_what_is_maximal_at_each_broker_by_itself() -> None:
    net = ring()
    broad, narrow = net.subscribe("b", "x > 1"), net.subscribe("b", "x > 5")
    net.subscribe("b", "x > 1")
    net.subscribe("d", "x > 5")
    net.settle()

    def directory(broker: str) -> list[str]:
        return sorted(str(filter) for _, filter in net.tables[broker])

    assert directory("f") == ["x > 1", "x > 5"], "b's second is covered, and d's is not told to be the same"
    assert directory("b") == ["x > 5"], "what others want"
    assert [len(table) for table in net.tables.values()] == [2, 1, 2, 1, 2, 2]
    before = net.counters["control_messages"]
    net.unsubscribe(broad)  # an equal one stays
    net.settle()
    assert net.counters["control_messages"] == before
    net.unsubscribe(next(s for s in net.subscriptions.values() if str(s.filter) == "x > 1"))
    net.settle()
    assert directory("f") == ["x > 5", "x > 5"]
    assert net.router_counters()["triggered"] == 1
    net.unsubscribe(narrow)
    net.settle()
    assert directory("f") == ["x > 5"]


def reached(net: Network, broker: str, event: Any) -> set[str]:
    net.clear_deliveries()
    net.publish(broker, event)
    net.settle()
    return {subscription.name for subscription, _ in net.deliveries}


def test_a_link_that_is_down_is_gone_round_on_another_tree() -> None:
    net = ring()
    net.subscribe("d", "x > 0")
    net.subscribe("b", "x > 0")
    net.settle()
    assert ways(net, "c", {"x": 1}) == [("c", "b", 1), ("c", "d", 1)]
    net.link_down("c", "d")  # on tree 1 alone
    net.settle()
    assert ways(net, "c", {"x": 1}) == [
        ("c", "b", 1), ("c", "b", 0), ("b", "a", 0), ("a", "f", 0), ("f", "e", 0), ("e", "d", 0)
    ]  # fmt: skip
    assert reached(net, "c", {"x": 1}) == {"s1", "s2"}
    net.link_down("a", "f")  # now the ring is in two parts
    net.settle()
    assert reached(net, "c", {"x": 1}) == {"s2"}
    assert net.router_counters()["dropped_destinations"] == 1
    net.link_up("a", "f")
    net.link_up("c", "d")
    net.settle()
    assert ways(net, "c", {"x": 1}) == [("c", "b", 1), ("c", "d", 1)]


def test_what_lies_behind_a_link_of_tree_0_stays_known_while_it_is_down() -> None:
    net = ring()
    old = net.subscribe("d", "x > 0")
    net.settle()
    net.link_down("f", "a")  # tree 0 in two parts: a, b, c and d, e, f
    net.settle()
    assert reached(net, "c", {"x": 1}) == {"s1"}
    net.unsubscribe(old)
    net.subscribe("d", "y > 0")
    net.settle()
    assert ways(net, "c", {"x": 1}) == [("c", "d", 1)], "nobody has told that it left"
    assert reached(net, "c", {"y": 1}) == set(), "nor what is new"
    assert net.tables["a"] == [], "what is kept is not counted"
    net.link_up("f", "a")
    net.settle()
    assert ways(net, "c", {"x": 1}) == []
    assert reached(net, "c", {"y": 1}) == {"s2"}
    assert [str(filter) for _, filter in net.tables["a"]] == ["y > 0"]


def test_trees_are_changed_a_few_times_and_no_more() -> None:
    net = ring()
    net.link_down("c", "d")
    net.settle()
    event = Publish({"x": 1}, "e", destinations=("d",), tree=1)
    router = net.nodes["c"].router
    [sent] = router.handle(event, "b")
    assert sent == Send("b", msgspec.structs.replace(event, tree=0, detours=1))
    assert router.handle(msgspec.structs.replace(event, detours=MOST_DETOURS), "b") == []


def test_an_event_outside_all_advertisements_is_flooded_over_one_tree() -> None:
    net = ring(advertisements=True)
    wanted = net.subscribe("d", "x > 0")
    net.settle()
    crossed = ways(net, "c", {"x": 1})
    assert len(crossed) == 5
    assert {tree for _, _, tree in crossed} == {0}
    assert net.deliveries == [(wanted, {"x": 1})]


def test_filters_go_only_towards_producers() -> None:
    net = ring(advertisements=True)
    net.advertise("a", "x > 0")
    net.subscribe("c", "x > 5")
    net.settle()
    known = {broker: [str(filter) for _, filter in table] for broker, table in net.tables.items()}
    assert known == {"a": ["x > 5"], "b": ["x > 5"], "c": [], "d": [], "e": [], "f": []}
    net.advertise("e", "x > 0")
    net.settle()
    assert net.tables["d"] == [], "it lies on the way, and need not know"
    assert ways(net, "e", {"x": 7}) == [("e", "d", 1), ("d", "c", 1)]


@pytest.mark.parametrize("waits", [True, False])
def test_a_client_that_moves_waits_for_what_was_addressed_to_its_old_broker(
    waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Regions, "matched_once", waits)
    net = ring()
    handle = net.subscribe("c", "x > 0")
    net.settle()
    start = net.now_s
    net.slow_down("f", "a", 20)
    net.move(handle, "a")
    # On tree 1 the probe is at f after 50 ms, and its echo over the link from d to c after 80. On tree 0 the new home
    # comes to f after 200, and all echoes are back after 440. In between an event leaves f for the old home, on tree 1:
    # behind the echo, so that it may stay on the link to c, which is slow by then, until 580.
    net.at(start + 0.060, net.publish, "f", {"x": 1})
    net.at(start + 0.075, net.slow_down, "c", "d", 50)
    net.settle()
    assert list(handle.homes) == ["a"]
    assert net.deliveries == ([(handle, {"x": 1})] if waits else []), "without waiting it would be missed"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Network(RING, "trees", trees=PLAN), "the plan is for the strategy regions, not for trees"),
        (
            lambda: Network(RING, "regions", trees=TreePlan([RING[:5]])),
            "the plan is for the strategy trees, not for regions",
        ),
        (lambda: Network([*RING, ("a", "g")], "regions", trees=PLAN), "do not reach broker 'g'"),
        (lambda: Router("a", "regions"), "needs a plan that says on which tree"),
    ],
)
def test_mistakes_are_one_clear_line(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_home_that_the_plan_does_not_have_is_refused() -> None:
    net = ring()
    with pytest.raises(ProtocolError, match="names a broker 'z' that the plan does not have"):
        net.nodes["a"].router.handle(Subscribe("k", covey.parse("x > 1"), "z"), "b")


def test_an_event_for_nobody_that_is_known_goes_nowhere() -> None:
    net = ring()
    net.nodes["a"].router.handle(LinkUp(client=True), "client")
    assert net.nodes["a"].router.handle(Publish({"x": 1}, "e", destinations=("z",), tree=1), "b") == []
    assert net.nodes["a"].router.handle(Publish({"x": 1}, "f", tree=1), "b") == []
