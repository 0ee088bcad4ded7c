"""Merging in the evaluation of REBECA: G. Mühl, L. Fiege, F. C. Gärtner and A. Buchmann, *Evaluating Advanced Routing
Algorithms for Content-Based Publish/Subscribe Systems* (2002).

On trees of the same make, with fewer levels: routers with three routers and a local broker below each, two local
brokers at the lowest; the source at the root, one advertisement that overlaps everything; consumers at the local
brokers, each with some distinct symbols. |V| is the number of brokers, m that of symbols.
"""

from __future__ import annotations

from random import Random

import pytest

from covey.core.attributes.filter import TRUE, AttributeFilter
from covey.sim import Network
from covey.sim.handles import Subscription
from covey.sim.topology import rebeca
from covey.workloads.quotes import interval_filter, quote_filter

SYMBOLS = 24
DISTINCT = 6


class Market:
    """Consumers on a tree, all of whom ask for the same symbols whatever the strategy and the kind of filter."""

    def __init__(self, strategy: str, *, intervals: bool, advertisements: bool, levels: int = 2) -> None:
        self.topology = rebeca(levels)
        self.random = Random(11)
        self.intervals = intervals
        self.net = Network(self.topology, strategy, advertisements=advertisements, judge=False, keep=False)
        self.consumers: list[tuple[str, list[AttributeFilter]]] = []
        self.active: dict[int, list[Subscription]] = {}
        if advertisements:
            self.net.advertise("r1", TRUE)
            self.net.settle()

    def come(self, consumers: int) -> int:
        """Let so many come to each local broker; return the sum of remote entries."""
        for _ in range(consumers):
            for broker in self.topology.role("local"):
                filters = []
                for symbol in self.random.sample(range(SYMBOLS), DISTINCT):
                    low, high = 50 - 50 * self.random.random(), 50 + 50 * self.random.random()
                    filters.append(
                        interval_filter(symbol, low, high) if self.intervals else quote_filter(symbol)
                    )
                self.consumers.append((broker, filters))
                self._toggle(len(self.consumers) - 1)
        self.net.settle()
        return self.entries()

    def _toggle(self, consumer: int) -> None:
        if consumer in self.active:
            for subscription in self.active.pop(consumer):
                self.net.unsubscribe(subscription)
        else:
            broker, filters = self.consumers[consumer]
            self.active[consumer] = [self.net.subscribe(broker, filter) for filter in filters]

    def overhead(self, toggles: int) -> float:
        """Return control messages a change, with half of the consumers active on average."""
        for consumer in self.random.sample(range(len(self.consumers)), len(self.consumers) // 2):
            self._toggle(consumer)
            self.net.settle()
        self.net.clear_counters()
        for _ in range(toggles):
            self._toggle(self.random.randrange(len(self.consumers)))
            self.net.settle()
        return self.net.counters["control_messages"] / (toggles * DISTINCT)

    def leave(self) -> None:
        """Let all consumers leave."""
        for consumer in list(self.active):
            self._toggle(consumer)
        self.net.settle()

    def entries(self) -> int:
        return sum(map(len, self.net.tables.values()))


@pytest.mark.parametrize("advertisements", [True, False])
def test_section_3_quotes_merge_into_one_entry_a_neighbour(advertisements: bool) -> None:
    """R8: however many ask for quotes, ΣR is at most 2(|V| - 1), and |V| - 1 with advertisements."""
    market = Market("merging", intervals=False, advertisements=advertisements)
    links = len(market.topology.links)
    most = links if advertisements else 2 * links
    sizes = [market.come(1) for _ in range(4)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == most
    tables = market.net.tables
    for broker, entries in tables.items():
        assert len(entries) == len({link for link, _ in entries}), broker
    market.leave()
    assert market.entries() == 0


@pytest.mark.parametrize("advertisements", [True, False])
def test_section_3_quote_intervals_merge_to_the_size_of_quotes(advertisements: bool) -> None:
    """R9: intervals of one symbol always merge, so tables are as large as those of identity for plain quotes."""
    merging = Market("merging", intervals=True, advertisements=advertisements)
    identity = Market("identity", intervals=False, advertisements=advertisements)
    covering = Market("covering", intervals=True, advertisements=advertisements)
    curves = [(merging.come(1), identity.come(1), covering.come(1)) for _ in range(4)]
    assert [curve[0] for curve in curves] == [curve[1] for curve in curves]
    assert all(curve[0] < curve[2] for curve in curves[1:])
    assert curves[-1][0] <= (1 if advertisements else 2) * SYMBOLS * len(merging.topology.links)
    merging.leave()
    assert merging.entries() == 0


def test_section_4_overhead_of_merging_is_that_of_covering_and_more() -> None:
    """R10: merging costs slightly more messages than covering with advertisements, and clearly more without."""
    ratios = {}
    for advertisements in (True, False):
        overheads = []
        for strategy in ("merging", "covering"):
            market = Market(strategy, intervals=True, advertisements=advertisements)
            market.come(3)
            overheads.append(market.overhead(40))
        ratios[advertisements] = overheads[0] / overheads[1]
    assert 1.0 <= ratios[True] <= 1.6
    assert ratios[False] >= 1.0


@pytest.mark.long
@pytest.mark.parametrize("advertisements", [True, False])
def test_the_same_on_a_tree_of_three_levels(advertisements: bool) -> None:
    """R8 and R9 with 35 brokers."""
    quotes = Market("merging", intervals=False, advertisements=advertisements, levels=3)
    assert quotes.come(4) == (34 if advertisements else 68)
    intervals = Market("merging", intervals=True, advertisements=advertisements, levels=3)
    identity = Market("identity", intervals=False, advertisements=advertisements, levels=3)
    for _ in range(3):
        assert intervals.come(1) == identity.come(1)
