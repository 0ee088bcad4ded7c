"""The stock exchange of the experiments: consumers of quotes at the local brokers, a source at the root router.

Consumers come in the same order whatever the strategy, and ask for the same symbols; with intervals they ask for the
same symbols within a range of prices. Who comes, goes and is active is drawn from the seed alone. So curves of
different strategies are measured on the same population, step by step, and what should be equal is equal exactly.

Without a network (`tell` is False) consumers still come and go: what only depends on who is interested can then be
computed for sizes at which nothing has to be simulated.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from covey.core.attributes.filter import TRUE, AttributeFilter
from covey.lab.experiment import Cell
from covey.sim.handles import Subscription
from covey.sim.network import Network
from covey.sim.topology import rebeca
from covey.sim.workload.quotes import Market
from covey.workloads.quotes import MEAN_PRICE, interval_filter, quote_filter

ROOT = "r1"


class Exchange:
    """One network, and consumers of whom `most` can come to each local broker."""

    def __init__(self, cell: Cell, most: int) -> None:
        seed, self.symbols = int(cell["seed"] or 0), int(cell["symbols"] or 0)
        locality = cell.get("locality")
        self.topology = rebeca(int(cell["levels"] or 0))
        self.each = int(cell["subscriptions"] or 0)  # subscriptions of a consumer
        self.market = Market(
            self.topology,
            seed,
            most,
            self.each,
            self.symbols,
            skew=0.0,
            locality=None if locality is None else float(locality),
            intervals=cell["kind"] == "intervals",
        )
        self.homes = [broker for broker, _, _ in self.market.homes]
        self.local = tuple(dict.fromkeys(self.homes))
        self.wanted, self._prices = self.market.wanted()
        self.held: dict[int, list[Subscription]] = {}  # of each active consumer
        self.known = 0  # consumers who have come or may come
        self.tell = True
        self._draw = np.random.default_rng([seed, 7])
        self.net = Network(
            self.topology,
            str(cell["strategy"]),
            advertisements=bool(cell["advertisements"]),
            judge=False,
            keep=False,
            remembered_events=0,
        )
        self.net.advertise(ROOT, TRUE)
        self.net.settle()
        self.net.clear_counters()

    # -- consumers -------------------------------------------------------------------------------------------

    def toggle(self, consumer: int) -> None:
        """Let a consumer come, or leave if it is there, with all its subscriptions."""
        held = self.held.pop(consumer, None)
        if held is None:
            self.held[consumer] = self._subscribe(consumer) if self.tell else []
        elif self.tell:
            for subscription in held:
                self.net.unsubscribe(subscription)

    def _subscribe(self, consumer: int) -> list[Subscription]:
        broker, client = self.homes[consumer], f"c{consumer}"
        return [
            self.net.subscribe(broker, self._filter(consumer, number), client=client)
            for number in range(self.each)
        ]

    def _filter(self, consumer: int, number: int) -> AttributeFilter:
        symbol = int(self.wanted[consumer, number])
        if self._prices is None:
            return quote_filter(symbol)
        low, high = self._prices[consumer, number].tolist()
        return interval_filter(symbol, low, high)

    def grow(self, consumers: int, *, half: bool = False) -> None:
        """Let consumers come until there are so many for each local broker; only a random half of the new, or all."""
        coming = np.arange(self.known, consumers * len(self.local))
        self.known = consumers * len(self.local)
        if half:
            coming = np.sort(self._draw.permutation(coming)[: len(coming) // 2])
        for consumer in coming.tolist():
            self.toggle(consumer)
        self.net.settle()

    def stir(self, rounds: int) -> tuple[int, float]:
        """Toggle one random consumer at each local broker, in random order, so many times, settling after each.

        Return how many subscriptions and cancellations that were, and how many subscriptions were active on average.
        """
        active = []
        here = len(self.local)
        for _ in range(rounds):
            places = self._draw.permutation(here)
            turns = self._draw.integers(self.known // here, size=here)
            for place, turn in zip(places.tolist(), turns.tolist(), strict=True):
                active.append(len(self.held))
                self.toggle(turn * here + place)
                self.net.settle()
        return len(active) * self.each, sum(active) / len(active) * self.each

    @property
    def active(self) -> int:
        """How many subscriptions there are."""
        return len(self.held) * self.each

    # -- what is measured ------------------------------------------------------------------------------------

    def table_sizes(self) -> dict[str, int]:
        """Return the number of remote entries of each broker."""
        return {broker: len(node.router.remote_entries()) for broker, node in self.net.nodes.items()}

    @cached_property
    def levels(self) -> dict[str, int]:
        """The level of each router, the root's being 1; local brokers are on none."""
        distances = self.topology.distances(ROOT)
        return {router: distances[router] + 1 for router in self.topology.role("router")}

    def payload(self) -> int:
        """Publish one quote of each symbol at the root; return how often brokers forward one."""
        before = self.net.counters["forwarded_events"]
        for symbol in range(self.symbols):
            self.net.publish(ROOT, {"symbol": f"S{symbol:03}", "price": MEAN_PRICE})
        self.net.settle()
        return self.net.counters["forwarded_events"] - before

    def payload_by_interest(self) -> int:
        """Return how often they must: over each link behind which somebody asks for the symbol."""
        wanted = {broker: np.zeros(self.symbols, bool) for broker in self.topology.brokers}
        for consumer in self.held:
            wanted[self.homes[consumer]][self.wanted[consumer]] = True
        distances = self.topology.distances(ROOT)
        crossed = 0
        for broker in sorted(self.topology.brokers, key=lambda name: -distances[name]):
            if broker == ROOT:
                break
            crossed += int(wanted[broker].sum())
            above = min(self.topology.neighbours[broker], key=lambda name: distances[name])
            wanted[above] |= wanted[broker]
        return crossed
