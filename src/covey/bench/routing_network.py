"""Subscriptions and events in a simulated network, by its brokers, under covering and the simplest strategies.

A random tree of brokers, no advertisements, clients at random brokers who ask for price intervals of SYMBOLS symbols,
which often cover each other. The same subscriptions and then the same events
under each strategy, and what is delivered must be the same. Costs:

    control messages a subscription   beside `simple`, which tells every broker of every subscription
    µs a subscription                 CPU time of all brokers together, the simulator's included, beside `simple`
    event messages an event           beside `flooding`, which carries every event to every broker
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from covey.bench.comparison import Comparison
from covey.sim.network import Network
from covey.sim.topology import random_tree
from covey.workloads.attributes import quote_events
from covey.workloads.quotes import draw_intervals, interval_filter

SYMBOLS: Final = 20
STRATEGIES: Final = ("covering", "simple", "flooding")
SEED: Final = 20_26


class Outcome(NamedTuple):
    """What a network did under one strategy; costs for each subscription or event."""

    control_messages: float
    subscription_us: float
    event_messages: float
    delivered: Counter[tuple[int, int]]


def networks(
    progress: Callable[[str], None], *, brokers: Sequence[int], subscriptions: int, events: int
) -> list[Comparison]:
    """Return for each number of brokers what covering costs beside simple routing and flooding."""
    result: list[Comparison] = []
    for count in sorted(brokers):
        progress(f"{count:,} brokers")
        found = {strategy: simulated(strategy, count, subscriptions, events) for strategy in STRATEGIES}
        result += _compared(count, found)
    return result


def _compared(brokers: int, found: dict[str, Outcome]) -> list[Comparison]:
    ours, simple, flooding = (found[strategy] for strategy in STRATEGIES)
    rows = (
        ("control messages a subscription", "", ours.control_messages, "simple", simple.control_messages),
        (
            "a subscription, all brokers together",
            "µs",
            ours.subscription_us,
            "simple",
            simple.subscription_us,
        ),
        ("event messages an event", "", ours.event_messages, "flooding", flooding.event_messages),
    )
    return [
        Comparison(
            part="routing",
            work=f"covering: {work}",
            unit=unit,
            axis="brokers",
            size=brokers,
            ours=cost,
            baseline=baseline,
            theirs=theirs,
            equal=ours.delivered == found[baseline].delivered,
        )
        for work, unit, cost, baseline, theirs in rows
    ]


def simulated(strategy: str, brokers: int, subscriptions: int, events: int) -> Outcome:
    """Subscribe, then publish; return what it cost and what was delivered: which subscription got which event."""
    generator = np.random.default_rng(SEED)
    topology = random_tree(brokers, SEED)
    network = Network(topology, strategy, advertisements=False, judge=False)
    ends = draw_intervals(generator, subscriptions).tolist()
    symbols = generator.integers(SYMBOLS, size=subscriptions).tolist()
    filters = [interval_filter(symbol, *both) for symbol, both in zip(symbols, ends, strict=True)]
    homes = generator.choice(topology.brokers, subscriptions).tolist()
    published: list[Any] = quote_events(generator, events, SYMBOLS)
    places = generator.choice(topology.brokers, events).tolist()
    began = time.thread_time()
    numbers = {}
    for number, (home, filter) in enumerate(zip(homes, filters, strict=True)):
        numbers[network.subscribe(home, filter).name] = number
        network.settle()
    spent = time.thread_time() - began
    control = network.counters["control_messages"]
    delivered: Counter[tuple[int, int]] = Counter()
    for number, (place, event) in enumerate(zip(places, published, strict=True)):
        network.publish(place, event)
        network.settle()
        delivered.update((numbers[one.name], number) for one, _ in network.deliveries)
        network.deliveries.clear()
    return Outcome(
        control / subscriptions,
        spent / subscriptions * 1e6,
        network.counters["forwarded_events"] / events,
        delivered,
    )
