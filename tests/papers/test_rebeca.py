"""G. Mühl et al., *Evaluating Advanced Routing Algorithms for Content-Based Publish/Subscribe Systems* (2002): claims.

Sizes are smaller than published, formulas are the published ones. Table sizes are sums of remote entries over all
brokers, overhead is the number of control messages that brokers process for a subscription or a cancellation.
"""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

import covey
from covey.sim import Network
from covey.sim.topology import rebeca

SYMBOLS = 30
TOPOLOGY = rebeca(levels=3)
BROKERS = len(TOPOLOGY.brokers)
LOCAL = TOPOLOGY.role("local")
ROOT = TOPOLOGY.role("root")[0]


def quote(symbol: int) -> covey.Filter:
    return covey.conjunction([("symbol", "=", f"S{symbol}")])


def quote_interval(symbol: int, random: Random) -> covey.Filter:
    limits = (50 - random.randint(0, 50), 50 + random.randint(0, 50))
    return covey.conjunction([("symbol", "=", f"S{symbol}"), ("price", "between", limits)])


def network(strategy: str, advertisements: bool) -> Network:
    net = Network(TOPOLOGY, strategy, advertisements=advertisements, judge=False)
    net.advertise(ROOT, "symbol <> '' or price >= 0")
    net.settle()
    net.clear_counters()
    return net


def subscribed(strategy: str, advertisements: bool, each: int, *, intervals: bool = False) -> Network:
    """Return the network with `each` subscriptions at every local broker."""
    random = Random(5)
    net = network(strategy, advertisements)
    for broker in LOCAL:
        for symbol in (random.randrange(SYMBOLS) for _ in range(each)):
            net.subscribe(broker, quote_interval(symbol, random) if intervals else quote(symbol))
    net.settle()
    return net


def table_size(net: Network) -> int:
    return sum(map(len, net.tables.values()))


def test_section_2_paths_from_consumers_to_the_root_are_250_67ths_long() -> None:
    full = rebeca(levels=4)
    distances = full.distances(full.role("root")[0])
    assert (len(full.role("router")), len(full.role("local"))) == (40, 67)
    assert sum(Fraction(distances[broker], 67) for broker in full.role("local")) == Fraction(250, 67)


def test_section_3_simple_routing_keeps_every_subscription_at_every_other_broker() -> None:
    net = subscribed("simple", False, each=4)
    subscriptions = 4 * len(LOCAL)
    assert table_size(net) == (BROKERS - 1) * subscriptions
    assert net.counters["control_messages"] == (BROKERS - 1) * subscriptions


def test_section_3_with_advertisements_only_on_the_way_to_the_source() -> None:
    net = subscribed("simple", True, each=4)
    distances = TOPOLOGY.distances(ROOT)
    assert table_size(net) == 4 * sum(distances[broker] for broker in LOCAL)
    assert net.counters["control_messages"] == table_size(net)
    assert len(net.tables[ROOT]) == 4 * len(LOCAL)
    assert all(not net.tables[broker] for broker in LOCAL)


@pytest.mark.parametrize(("advertisements", "factor"), [(False, 2), (True, 1)])
def test_section_3_identity_converges_to_one_entry_a_symbol_and_link(
    advertisements: bool, factor: int
) -> None:
    net = subscribed("identity", advertisements, each=12 * SYMBOLS // 3)
    limit = factor * SYMBOLS * (BROKERS - 1)
    assert 0.95 * limit < table_size(net) <= limit
    for broker, table in net.tables.items():
        assert len(table) <= SYMBOLS * len(net.overlay.neighbours[broker])


@pytest.mark.parametrize("advertisements", [True, False])
def test_section_3_and_4_covering_is_identity_when_filters_are_equal_or_disjoint(
    advertisements: bool,
) -> None:
    nets = [subscribed(strategy, advertisements, each=8) for strategy in ("identity", "covering")]
    assert nets[0].tables == nets[1].tables
    assert nets[0].counters == nets[1].counters
    random = Random(9)
    for _ in range(60):
        number = random.randrange(200)
        for net in nets:
            names = list(net.subscriptions)
            if number < len(names):
                net.unsubscribe(net.subscriptions[names[number]])
            else:
                net.subscribe(LOCAL[number % len(LOCAL)], quote(number % SYMBOLS))
            net.settle()
    assert nets[0].tables == nets[1].tables
    assert nets[0].counters == nets[1].counters


def test_section_3_covering_of_intervals_needs_more_than_identity_of_quotes() -> None:
    intervals = table_size(subscribed("covering", True, each=20, intervals=True))
    assert intervals > table_size(subscribed("identity", True, each=20))
    assert table_size(subscribed("identity", True, each=20, intervals=True)) > intervals


def test_section_4_the_second_of_two_equal_subscriptions_costs_nothing_beyond_their_common_way() -> None:
    net = network("identity", True)
    first = net.subscribe(LOCAL[0], quote(1))
    net.settle()
    net.clear_counters()
    second = net.subscribe(LOCAL[0], quote(1))
    net.settle()
    assert net.counters["control_messages"] == 0
    net.unsubscribe(first)
    net.settle()
    assert net.counters["control_messages"] == 0
    net.unsubscribe(second)
    net.settle()
    assert net.counters["control_messages"] == TOPOLOGY.distances(ROOT)[LOCAL[0]]
