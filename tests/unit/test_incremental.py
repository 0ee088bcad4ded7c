"""Incremental aggregation step by step: where an unsubscription stops, congestion, the meter."""

from __future__ import annotations

from typing import Any

from tests.oracles.incremental_chain import KEPT, A, B, S, chain
from tests.oracles.incremental_runs import between, congest, kept_in, strategy_at, subscribe_again

from covey.routing.messages import Unsubscribe
from covey.sim import Network
from covey.strategies.incremental.kept import Kept
from covey.strategies.incremental.settings import Settings, Tier

# -- pruning -------------------------------------------------------------------------------------------------


def test_the_unsubscription_carries_critical_distances_and_stops_where_they_are_reached() -> None:
    c = chain(gone=False)
    seen: list[tuple[str, Any]] = []

    def observe(sender: str, receiver: str, message: Any) -> None:
        if isinstance(message, Unsubscribe):
            seen.append((receiver, message.distances))

    c.net.observer = observe
    c.net.unsubscribe(c.s)
    c.settle()
    assert seen == [("1", {"producer at 4": (1.0,)}), ("2", {"producer at 4": (0.0,)})]
    assert [c.table(broker) for broker in "01234"] == [set(), {A}, {A, B}, {S}, {S}]
    assert c.kept() == {("2", "3"): [S]}
    [kept] = strategy_at(c.net, "2").kept("3")
    assert kept.distances == {"producer at 4": (0.0,)}


def test_what_is_kept_costs_hops_and_never_reaches_a_client() -> None:
    c = chain()
    c.net.publish("4", {"x": 9})
    c.net.settle()
    assert c.net.counters["false_positives"] == 2
    assert c.net.deliveries == []
    for value in range(9):
        c.net.publish("4", {"x": value})
    c.net.settle()
    assert len(c.net.deliveries) == 9
    assert c.net.counters["false_positives"] == 2


def test_counters_say_what_was_done() -> None:
    c = chain(gone=False)
    c.net.unsubscribe(c.s)
    c.net.settle()
    counters = c.net.router_counters()
    assert (counters["kept"], counters["spared"], counters["triggered"]) == (1, 2, 1)


def test_below_the_lowest_bound_all_is_as_in_covering() -> None:
    c = chain(tiers=((3, 0.1),))
    assert c.kept() == {}
    assert [c.table(broker) for broker in "01234"] == [set(), {A}, {A, B}, {A, B}, {A, B}]


def test_the_tier_is_chosen_by_what_is_triggered_at_each_broker() -> None:
    # At 1 one subscription is triggered: 90% is asked for, and 1 hop is missing. At 2 two are: 60% would have sufficed.
    c = chain(tiers=[(2, 0.6), (1, 0.9)])
    assert c.kept() == {("2", "3"): [S]}
    [kept] = strategy_at(c.net, "2").kept("3")
    assert kept.similarity == 0.6
    # With 50% enough for one triggered subscription, 1 keeps it already.
    assert chain(tiers=[(2, 0.4), (1, 0.5)]).kept() == {("1", "2"): [S]}


def test_a_publisher_that_is_not_named_is_far_away() -> None:
    c = chain(gone=False)
    c.net.advertise("4", between(0, 5), client="another")
    c.net.run(c.net.now_s + 0.015)  # 3 knows of it; 2 will when the unsubscription comes, 0 does not now
    c.net.unsubscribe(c.s)
    c.settle()
    assert c.kept() == {}


def test_each_branch_stops_by_itself_and_a_shared_segment_at_the_largest_distance() -> None:
    # 0-1-2, then 3 and 4 behind 2, a publisher at each; a at 1 for what 3 publishes, b at 2 for what 4 does.
    net = Network(
        [("0", "1"), ("1", "2"), ("2", "3"), ("2", "4")],
        "incremental",
        options={"tiers": ((1, 0.9),), "minimum_samples": 1},
    )
    net.advertise("3", between(0, 9))
    net.advertise("4", between(0, 9))
    s = net.subscribe("0", between(0, 9))
    net.subscribe("1", between(0, 4))
    net.subscribe("2", between(5, 9))
    net.settle()
    for value in range(5):
        net.publish("3", {"x": value})
        net.publish("4", {"x": value + 5})
    net.settle()
    assert strategy_at(net, "0").critical_distances((s.client, s.name), s.filter) == {
        "producer at 3": (1.0,),
        "producer at 4": (2.0,),
    }
    net.unsubscribe(s)
    net.settle()
    assert {owner: len(kept) for owner, kept in kept_in(net).items()} == {("2", "3"): 1, ("2", "4"): 1}


def test_the_burst_is_counted_for_the_broker_or_for_each_link() -> None:
    def owners(burst: str) -> set[tuple[str, str]]:
        net = Network(
            [("0", "1"), ("0", "2")],
            "incremental",
            options={"tiers": ((2, 0.5),), "minimum_samples": 1, "burst": burst},
        )
        net.advertise("1", between(0, 4))
        net.advertise("2", between(5, 9))
        s = net.subscribe("0", between(0, 9))
        for low in (0, 5):
            net.subscribe("0", between(low, low + 4))
        net.settle()
        for value in range(10):
            net.publish("1" if value < 5 else "2", {"x": value})
        net.settle()
        net.unsubscribe(s)
        net.settle()
        return set(kept_in(net))

    assert owners("broker") == {("0", "1"), ("0", "2")}
    assert owners("link") == set()


def test_a_neighbour_with_other_tiers_is_understood() -> None:
    c = chain(gone=False)
    strategy = strategy_at(c.net, "2")
    strategy.settings = Settings(tiers=(Tier(9, 0.5), Tier(1, 0.9)))
    c.net.unsubscribe(c.s)
    c.settle()
    assert ("2", "3") not in c.kept()  # no distance came for its second tier


# -- congestion ----------------------------------------------------------------------------------------------


def test_a_congested_broker_holds_it_and_decides_afterwards() -> None:
    c = chain(gone=False)
    congest(c.net, "1", True)
    c.net.unsubscribe(c.s)
    assert c.settle() == (0, 1)
    assert c.kept() == {("1", "2"): [S]}
    assert c.table("2") == {S, B}
    congest(c.net, "1", False)
    assert c.settle() == (1, 1)
    assert c.kept() == KEPT
    assert c.table("2") == {A, B}


def test_a_congested_broker_lets_small_bursts_pass() -> None:
    c = chain(gone=False, tiers=((2, 0.9),))
    congest(c.net, "1", True)
    c.net.unsubscribe(c.s)
    c.settle()
    assert c.kept() == KEPT


def test_what_is_held_has_an_owner_again_when_it_comes_back() -> None:
    c = chain(gone=False)
    congest(c.net, "1", True)
    c.net.unsubscribe(c.s)
    c.settle()
    subscribe_again(c.net, c.s, "0")
    assert c.settle() == (1, 0)
    congest(c.net, "1", False)
    assert c.settle() == (0, 0)
    c.net.publish("4", {"x": 9})
    c.net.settle()
    assert c.net.deliveries == [(c.s, {"x": 9})]


def test_the_meter_waits_for_congestion_to_end() -> None:
    c = chain(gone=False, meter_events=5)
    congest(c.net, "1", True)
    c.net.unsubscribe(c.s)
    c.net.settle()
    for value in (9, 9, 9):
        c.net.publish("4", {"x": value})
    c.net.settle()
    assert c.kept() == {("1", "2"): [S]}


# -- the meter -----------------------------------------------------------------------------------------------


def test_too_many_false_positives_let_it_go_one_hop_further() -> None:
    c = chain(meter_events=10)
    for _ in range(2):
        c.net.publish("4", {"x": 9})
    c.net.settle()
    assert c.kept() == {("3", "4"): [S]}
    assert c.table("3") == {A, B}
    for _ in range(2):
        c.net.publish("4", {"x": 9})
    c.settle()
    assert c.kept() == {}
    assert c.table("4") == {A, B}


def test_the_meter_can_be_turned_off() -> None:
    c = chain(meter_events=0)
    for _ in range(200):
        c.net.publish("4", {"x": 9})
    c.net.settle()
    assert c.kept() == KEPT


def test_the_meter_judges_whole_windows() -> None:
    kept = Kept("s", between(0, 9), {}, 0.9, held=False, spare=0)
    assert not any(kept.judge(number != 0, 10) for number in range(10))
    assert (kept.matched, kept.unwanted) == (0, 0)
    assert not kept.judge(False, 10)
    assert kept.judge(False, 10)
