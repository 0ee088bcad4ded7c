"""Whole brokers beside routers alone: the same operations end with the same tables and the same deliveries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest

import covey
from covey.core.filter import Filter
from covey.planning.plan import Plan, PlannedTree
from covey.routing.strategy import registered
from covey.sim import BrokerNetwork, Network
from tests.e2e.helpers.traffic import some_event, some_filter

STRATEGIES = [name for name in covey.strategies() if not registered(name).trees]

Pairs = list[tuple[str, str]]


def some_tree(random: Random, count: int) -> Pairs:
    """Return the links of a random tree of brokers."""
    return [(f"b{random.randrange(max(0, n - 3), n)}", f"b{n}") for n in range(1, count)]


def readable(tables: Mapping[str, list[tuple[str, Filter]]]) -> dict[str, list[tuple[str, str]]]:
    return {name: sorted((link, str(filter)) for link, filter in entries) for name, entries in tables.items()}


def both(one: Network, other: BrokerNetwork, random: Random, operations: int) -> None:
    """Do the same in both networks, and compare them."""
    names = sorted(one.brokers)
    nets: tuple[Any, ...] = (one, other)
    subscriptions: list[tuple[Any, ...]] = []
    advertisements: list[tuple[Any, ...]] = []
    numbers: dict[Any, int] = {}
    expected: Counter[tuple[int, int]] = Counter()
    published = 0

    def settle() -> None:
        for net in nets:
            net.settle()

    def advertise(filter: Filter | str) -> None:
        broker = random.choice(names)
        advertisements.append(tuple(net.advertise(broker, filter) for net in nets))

    def subscribe() -> None:
        broker, filter = random.choice(names), some_filter(random)
        made = tuple(net.subscribe(broker, filter) for net in nets)
        numbers.update(dict.fromkeys(made, len(numbers)))
        subscriptions.append(made)

    def unsubscribe() -> None:
        if subscriptions:
            gone = subscriptions.pop(random.randrange(len(subscriptions)))
            for net, handle in zip(nets, gone, strict=True):
                net.unsubscribe(handle)

    def unadvertise() -> None:
        if len(advertisements) > 1:
            gone = advertisements.pop(random.randrange(len(advertisements)))
            for net, handle in zip(nets, gone, strict=True):
                net.unadvertise(handle)

    def publish() -> None:
        nonlocal published
        published += 1
        broker = random.choice([handle.broker for _, handle in advertisements])
        event = {**some_event(random), "n": published}
        for handle, _ in subscriptions:
            if handle.filter.matches(event):
                expected[numbers[handle], published] += 1
        for net in nets:
            net.publish(broker, event)

    calls: list[Callable[[], None]] = [
        lambda: advertise(some_filter(random)), subscribe, subscribe, subscribe, unsubscribe, unadvertise, publish,
        publish, publish,
    ]  # fmt: skip
    advertise("x >= 0")
    settle()
    for _ in range(operations):
        random.choice(calls)()
        settle()
    assert readable(other.tables) == readable(one.tables)
    for net in nets:
        got = Counter((numbers[handle], event["n"]) for handle, event in net.deliveries)
        assert got == expected


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_tables_and_deliveries_are_the_same(strategy: str, seed: int) -> None:
    random = Random(f"{strategy} {seed}")
    links = some_tree(random, random.randrange(2, 6))
    both(Network(links, strategy), BrokerNetwork(links, strategy, seed=seed), random, 15)


@pytest.mark.parametrize("one_copy", [None, "nearest", "cheapest"])
def test_so_they_are_under_a_plan(one_copy: str | None) -> None:
    square = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
    trees = (
        PlannedTree("d", (("a", "b"), ("a", "d"), ("c", "d"))),
        PlannedTree("b", (("a", "b"), ("b", "c"), ("c", "d"))),
    )
    home = {} if one_copy else {"c": 1}
    plan = Plan(
        "mine", 1, tuple("abcd"), tuple((a, b, 1.0) for a, b in sorted(square)), trees, one_copy, home=home
    )
    planned = plan.to_tree_plan()
    brokers = BrokerNetwork(square, seed=3)
    brokers.install("b", plan.encode())
    brokers.settle()
    assert {machine.core.epochs.current for machine in brokers.machines.values()} != {0}
    both(Network(square, planned.strategy, trees=planned), brokers, Random(one_copy), 15)
