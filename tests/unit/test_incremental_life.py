"""The whole life of a kept subscription: every thing that can happen to it, with tables and messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.oracles.incremental_chain import KEPT, NEW, A, B, Chain, S, chain
from tests.oracles.incremental_runs import (
    between,
    congest,
    kept_in,
    reactivate,
    strategy_at,
    subscribe_again,
    variant,
)

from covey.sim import Network
from covey.strategies.incremental.pruning import Incremental


def leave(*names: str) -> Callable[[Chain], None]:
    def act(c: Chain) -> None:
        for name in names:
            c.net.unsubscribe(getattr(c, name))
            c.net.settle()

    return act


def come(broker: str, low: int, high: int) -> Callable[[Chain], None]:
    def act(c: Chain) -> None:
        c.net.subscribe(broker, between(low, high))

    return act


def come_and_go(broker: str, low: int, high: int) -> Callable[[Chain], None]:
    def act(c: Chain) -> None:
        handle = c.net.subscribe(broker, between(low, high))
        c.net.settle()
        c.net.unsubscribe(handle)

    return act


LIFE = [
    ("a leaves", leave("a"), {"1": set(), "2": {B}, "3": {S}, "4": {S}}, KEPT, (0, 1)),
    ("a and b leave", leave("a", "b"), {"1": set(), "2": set(), "3": set(), "4": set()}, {}, (0, 3)),
    ("a covered one comes", come("0", 2, 3), {"0": {NEW}, "1": {A, NEW}, "2": {A, B}}, KEPT, (1, 0)),
    (
        "an equal one comes",
        come("0", 0, 9),
        {"0": {NEW}, "1": {A, NEW}, "2": {B, NEW}, "3": {S}, "4": {S}},
        KEPT,
        (2, 1),
    ),
    (
        "the same comes again",
        lambda c: subscribe_again(c.net, c.s, "0"),
        {"0": {S}, "1": {S, A}, "2": {S, B}, "3": {S}, "4": {S}},
        {},
        (2, 1),
    ),
    (
        "a strict cover comes",
        come("1", 0, 14),
        {"1": {A, NEW}, "2": {B, NEW}, "3": {NEW}, "4": {NEW}},
        {},
        (3, 3),
    ),
    (
        "a strict cover comes and goes",
        come_and_go("1", 0, 14),
        {"1": {A}, "2": {A, B}, "3": {A, B}, "4": {A, B}},
        {},
        (8, 6),
    ),
    (
        "a strict cover comes and goes further on",
        come_and_go("3", 0, 14),
        {"1": {A}, "2": {A, B}, "3": {S}, "4": {S}},
        KEPT,
        (2, 2),
    ),
    (
        "an overlapping one comes",
        come("2", 3, 12),
        {"2": {A, B, NEW}, "3": {S, NEW}, "4": {S, NEW}},
        KEPT,
        (2, 0),
    ),
    ("one that covers a and b comes", come("2", 0, 8), {"2": {A, B, NEW}, "3": {S}, "4": {S}}, KEPT, (0, 0)),
    (
        "the publisher leaves",
        lambda c: c.net.unadvertise(c.ad),
        {"1": {A}, "2": {B}, "3": set(), "4": set()},
        {},
        (0, 3),
    ),
    (
        "a publisher comes behind",
        lambda c: c.net.advertise("0", between(0, 3)) and None,
        {"0": {A}, "1": {A}, "2": {A, B}, "3": {S}, "4": {S}},
        KEPT,
        (1, 0),
    ),
    (
        "it is re-activated",
        lambda c: reactivate(c.net),
        {"1": {A}, "2": {A, B}, "3": {A, B}, "4": {A, B}},
        {},
        (4, 2),
    ),
    (
        "the broker decides again",
        lambda c: congest(c.net, "2", False),
        {"1": {A}, "2": {A, B}, "3": {S}, "4": {S}},
        KEPT,
        (0, 0),
    ),
]


@pytest.mark.parametrize(("what", "act", "tables", "kept", "messages"), LIFE, ids=[row[0] for row in LIFE])
def test_what_becomes_of_what_is_kept(
    what: str,
    act: Callable[[Chain], None],
    tables: dict[str, set[str]],
    kept: dict[tuple[str, str], list[str]],
    messages: tuple[int, int],
) -> None:
    c = chain()
    act(c)
    assert c.settle() == messages
    assert {broker: c.table(broker) for broker in tables} == tables
    assert c.kept() == kept


def test_deciding_again_from_scratch_changes_nothing() -> None:
    c = chain()
    strategy_at(c.net, "2").kept("3")[0].held = True
    congest(c.net, "2", False)
    assert c.settle() == (0, 0)
    assert c.kept() == KEPT


def test_with_a_higher_bound_an_equal_one_takes_its_place() -> None:
    c = chain(tiers=((2, 0.9),))
    assert c.kept() == KEPT
    c.net.subscribe("0", between(0, 9))
    c.settle()
    assert c.kept() == {}
    assert c.table("3") == {NEW}


def test_with_a_higher_bound_one_that_covers_the_others_takes_its_place() -> None:
    c = chain(tiers=((2, 0.9),))
    c.net.subscribe("2", between(0, 8))
    c.settle()
    assert c.kept() == {}
    assert c.table("3") == c.table("4") == {NEW}


def test_a_broken_link_ends_it_and_nothing_is_restored() -> None:
    c = chain()
    c.net.link_down("2", "3")
    assert c.settle() == (0, 2)
    assert c.table("3") == c.table("4") == set()
    assert c.kept() == {}
    c.net.link_up("2", "3")
    # a goes from 1 to 4 and b from 3 to 4: four. That b goes from 2 to 3 is part of bringing the link up.
    assert c.settle() == (4, 0)
    assert c.table("3") == c.table("4") == {A, B}


def test_everything_kept_is_collected_when_all_have_left() -> None:
    c = chain()
    for handle in (c.a, c.b):
        c.net.unsubscribe(handle)
    c.settle()
    assert all(not c.table(broker) for broker in "01234")
    assert strategy_at(c.net, "2").site.counters["collected"] == 0  # counters were cleared by settle


def test_collecting_moves_the_owner_towards_the_publisher() -> None:
    # 1 keeps S for a; 2 would have kept it for a and b. When a leaves, 2 decides by what b is worth to it.
    c = chain(tiers=((1, 0.5),))
    assert c.kept() == {("1", "2"): [S]}
    c.net.unsubscribe(c.a)
    c.settle()
    assert c.kept() == {("2", "3"): [S]}


def test_counting_what_is_quenched_is_put_off_while_enough_is_to_spare() -> None:
    counts: list[int] = []

    class Counted(Incremental):
        def uncovered(self, link: str, gone: Any) -> Any:
            items = super().uncovered(link, gone)
            counts.append(len(items))
            return items

    with variant(Counted, tiers=((10, 0.9),), minimum_samples=1):
        net = Network([("0", "1")], "incremental")
    net.advertise("1", between(0, 999))
    root = net.subscribe("0", between(0, 999))
    leaves = [net.subscribe("0", between(low, low + 1)) for low in range(0, 400, 2)]
    net.settle()
    for value in range(0, 400, 5):
        net.publish("1", {"x": value})
    net.settle()
    net.unsubscribe(root)
    net.settle()
    assert len(kept_in(net)) == 1
    assert counts == [200]
    for leaf in leaves[:150]:
        net.unsubscribe(leaf)
    for low in range(500, 510, 2):
        net.subscribe("0", between(low, low + 1))
    net.settle()
    assert counts == [200]
    for leaf in leaves[150:]:
        net.unsubscribe(leaf)
    net.settle()
    assert counts[:4] == [200, 14, 9, 9]  # five newcomers had not been counted in; at nine it goes
    assert kept_in(net) == {}
    assert len(net.tables["1"]) == 5


def test_without_tiers_it_is_active_covering_named_by_the_subscription() -> None:
    """Tables have the same filters as under covering; one of two equal ones that leaves is replaced by the other."""
    nets = [
        Network([("0", "1"), ("1", "2")], "covering"),
        Network([("0", "1"), ("1", "2")], "incremental", options={"tiers": []}),
    ]
    for net in nets:
        net.advertise("2", between(0, 999))
        handles = [net.subscribe(str(low % 2), between(low, low + low % 7)) for low in range(60)]
        twins = [net.subscribe("0", between(0, 999)) for _ in range(2)]
        net.settle()
        for handle in (*handles[::3], twins[0]):
            net.unsubscribe(handle)
        net.settle()
    ours, printed = nets
    assert {b: sorted(map(str, rows)) for b, rows in ours.tables.items()} == {
        b: sorted(map(str, rows)) for b, rows in printed.tables.items()
    }
    assert kept_in(printed) == {}
    assert (ours.router_counters()["triggered"], printed.router_counters()["triggered"]) == (0, 2)
    for net in nets:
        net.unsubscribe(next(iter(s for s in net.subscriptions.values() if s.filter == between(0, 999))))
        net.settle()
    assert ours.router_counters()["triggered"] + 2 == printed.router_counters()["triggered"] > 20
