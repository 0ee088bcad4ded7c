"""Quotes of a stock exchange: the experiments of Mühl, Fiege, Gärtner and Buchmann (2002) on tables and overhead.

    subscribe   consumers come, the same number at each local broker, each with distinct subscriptions
    halve       before toggling, random consumers leave until half of them are active
    toggle      random consumers change from active to inactive or back, with all their subscriptions
    publish     quotes, even over the symbols, from one source

Table sizes are read when all have come (`active` 1, no toggles). Overhead is read over the phase `toggle`; starting
with `active` 0.5 saves the arrivals that would only leave again. With `locality`, consumers sit in the topology's
subnets only, and those of one subnet choose from its own part of the symbols.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from covey.core.attributes.filter import TRUE, AttributeFilter
from covey.errors import ConfigError
from covey.sim.topology.catalogue import check_range, check_ranges
from covey.sim.topology.graph import Topology
from covey.sim.workload.action import Action
from covey.sim.workload.script import (
    MAX_ACTIONS,
    Pace,
    Script,
    Timeline,
    advertise_all,
    batched,
    consumer_brokers,
    source_broker,
    streams,
    workload,
)
from covey.workloads.attributes import quote_events
from covey.workloads.quotes import (
    distinct_ranks,
    draw_intervals,
    interval_filter,
    local_window,
    quote_filter,
)

MAX_SYMBOLS = 100_000


@workload("quotes")
def quotes(
    topology: Topology,
    seed: int,
    *,
    consumers: int = 10,
    subscriptions: int = 10,
    symbols: int = 1_000,
    skew: float = 0.0,
    locality: float | None = None,
    active: float = 1.0,
    toggles: int = 0,
    events: int = 0,
    source: str = "",
    subscribe_interval_ms: float = 1.0,
    event_interval_ms: float = 10.0,
    pause_s: float = 1.0,
) -> Script:
    """Subscribe to symbols: `consumers` at each local broker, each with `subscriptions` distinct ones of `symbols`.

    `skew` makes the first symbols more wanted, by Zipf's law. `locality` is the share of the symbols that a subnet
    asks for, from 1/n (n subnets have nothing in common) to 1; without it there are consumers at every local broker.
    `active` is the share of consumers that come first, `toggles` how often one changes afterwards. `source` is the
    broker of all events, the topology's publisher unless given.
    """
    market = Market(topology, seed, consumers, subscriptions, symbols, skew, locality, intervals=False)
    times = subscribe_interval_ms / 1_000, event_interval_ms / 1_000, pause_s
    return _script(market, active, toggles, events, source_broker(topology, source), times)


@workload("quote-intervals")
def quote_intervals(
    topology: Topology,
    seed: int,
    *,
    consumers: int = 10,
    subscriptions: int = 10,
    symbols: int = 1_000,
    skew: float = 0.0,
    locality: float | None = None,
    active: float = 1.0,
    toggles: int = 0,
    events: int = 0,
    source: str = "",
    subscribe_interval_ms: float = 1.0,
    event_interval_ms: float = 10.0,
    pause_s: float = 1.0,
) -> Script:
    """Do as `quotes` does, with an interval of prices around 50 in each subscription."""
    market = Market(topology, seed, consumers, subscriptions, symbols, skew, locality, intervals=True)
    times = subscribe_interval_ms / 1_000, event_interval_ms / 1_000, pause_s
    return _script(market, active, toggles, events, source_broker(topology, source), times)


@dataclass(frozen=True)
class Market:
    """Who the consumers are, where they sit and what they ask for."""

    topology: Topology
    seed: int
    consumers: int
    subscriptions: int
    symbols: int
    skew: float
    locality: float | None
    intervals: bool

    def __post_init__(self) -> None:
        check_range("consumers", self.consumers, 1, 1_000_000)
        check_range("symbols", self.symbols, 1, MAX_SYMBOLS)
        check_range("skew", self.skew, 0, 10)
        if self.locality is not None:
            check_range("locality", self.locality, 1 / len(self._subnets) - 1e-9, 1)
        most = self.symbols if self.locality is None else max(1, round(self.locality * self.symbols))
        check_range("subscriptions", self.subscriptions, 1, most)

    @cached_property
    def _subnets(self) -> tuple[tuple[str, ...], ...]:
        members = [brokers for role, brokers in self.topology.roles.items() if role.startswith("subnet-")]
        if not members:
            raise ConfigError(
                f"locality needs a topology with subnets, as rebeca has, and {self.topology.name!r} has none"
            )
        local = set(consumer_brokers(self.topology))
        return tuple(tuple(broker for broker in brokers if broker in local) for brokers in members)

    @cached_property
    def homes(self) -> list[tuple[str, int, int]]:
        """For each consumer its broker, and where its symbols start and how many they are."""
        if self.locality is None:
            brokers = [(broker, 0, self.symbols) for broker in consumer_brokers(self.topology)]
        else:
            count = len(self._subnets)
            brokers = [
                (broker, *local_window(subnet, count, self.symbols, self.locality))
                for subnet, members in enumerate(self._subnets)
                for broker in members
            ]
        return brokers * self.consumers

    def wanted(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Draw the symbols of each consumer, and the price intervals if there are any."""
        symbols, prices = streams(self.seed, 2)
        count = len(self.homes)
        size = self.homes[0][2]
        ranks = distinct_ranks(symbols, count, size, self.subscriptions, self.skew)
        starts = np.array([start for _, start, _ in self.homes])[:, None]
        drawn = (ranks + starts) % self.symbols
        if not self.intervals:
            return drawn, None
        ends = draw_intervals(prices, count * self.subscriptions)
        return drawn, ends.reshape(count, self.subscriptions, 2)


class _Consumers:
    """The consumers while the script is read: who is active, and how often each has come."""

    def __init__(self, market: Market) -> None:
        self.homes = market.homes
        self.symbols, self.prices = market.wanted()
        self.visits = [0] * len(self.homes)
        self.active = [False] * len(self.homes)

    def toggle(self, consumer: int, pace: Pace, step: int) -> Iterator[Action]:
        """Yield the actions of a consumer who comes or goes; `step` numbers its first one in the phase."""
        arriving = not self.active[consumer]
        self.active[consumer] = arriving
        self.visits[consumer] += arriving
        client = f"c{consumer}"
        for number in range(self.symbols.shape[1]):
            at_s = pace.at(step + number)
            name = f"{client}.{number}.{self.visits[consumer]}"
            if arriving:
                broker = self.homes[consumer][0]
                yield Action(at_s, "subscribe", name, broker, self._filter(consumer, number), client)
            else:
                yield Action(at_s, "unsubscribe", name, "", None, client)

    def _filter(self, consumer: int, number: int) -> AttributeFilter:
        symbol = int(self.symbols[consumer, number])
        if self.prices is None:
            return quote_filter(symbol)
        low, high = self.prices[consumer, number].tolist()
        return interval_filter(symbol, low, high)


def _script(
    market: Market,
    active: float,
    toggles: int,
    events: int,
    source: str,
    times: tuple[float, float, float],
) -> Script:
    check_range("active", active, 0, 1)
    check_ranges(0, MAX_ACTIONS, toggles=toggles, events=events)
    step_s, event_s, pause_s = times
    everybody = len(market.homes)
    first = round(active * everybody)
    leaving = max(0, first - everybody // 2) if toggles else 0
    each = market.subscriptions
    timeline = Timeline(pause_s)
    advertise = timeline.phase("advertise", 1, step_s)
    subscribe = timeline.phase("subscribe", first * each, step_s)
    halve = timeline.phase("halve", leaving * each, step_s)
    toggle = timeline.phase("toggle", toggles * each, step_s)
    publish = timeline.phase("publish", events, event_s)

    def draw() -> Iterator[Action]:
        # The first two streams are the market's.
        _, _, order, chosen, contents = streams(market.seed, 5)
        consumers = _Consumers(market)
        coming = list(range(everybody))
        if first < everybody:
            coming = sorted(order.permutation(everybody)[:first].tolist())
        yield from advertise_all(advertise, [source], TRUE)
        for place, consumer in enumerate(coming):
            yield from consumers.toggle(consumer, subscribe, place * each)
        for place, index in enumerate(order.permutation(first)[:leaving].tolist()):
            yield from consumers.toggle(coming[index], halve, place * each)
        for place in range(toggles):
            yield from consumers.toggle(int(chosen.integers(everybody)), toggle, place * each)
        drawn = batched(lambda size: quote_events(contents, size, market.symbols), events)
        for place, content in enumerate(drawn):
            yield Action(publish.at(place), "publish", "", source, content, "producer0")

    kind = "quote intervals" if market.intervals else "quotes"
    description = f"{everybody} consumers of {each} {kind}, {toggles} toggles, {events} events"
    return Script("attributes", description, timeline.end(), draw)
