"""The chain of most tests of incremental aggregation: brokers 0-1-2-3-4, a publisher at 4; S=[0,9] at 0, a=[0,4] at 1,
b=[5,8] at 2; one event for each value from 0 to 9. Half of S's events have to come to 1 for a, nine of ten to 2 for a
or b: at 90% S is kept from 2 on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.oracles.incremental_runs import between, kept_in, rest_findings, strategy_at

from covey.sim import Network
from covey.sim.handles import Advertisement, Subscription

CHAIN = [(str(number), str(number + 1)) for number in range(4)]


class Chain(NamedTuple):
    """The chain, with S gone unless told otherwise."""

    net: Network
    ad: Advertisement
    s: Subscription
    a: Subscription
    b: Subscription

    def table(self, broker: str) -> set[str]:
        """Return the names of what a broker has, from neighbours and clients."""
        strategy = strategy_at(self.net, broker)
        return {entry.key for entry in strategy.table.entries()}

    def messages(self) -> tuple[int, int]:
        """Return how many Subscribes and Unsubscribes brokers have got since the last count."""
        counters = self.net.counters
        count = counters["subscribe_messages"], counters["unsubscribe_messages"]
        self.net.clear_counters()
        return count

    def settle(self) -> tuple[int, int]:
        """Let everything arrive; return how many messages that took. What must hold at rest does."""
        self.net.settle()
        assert rest_findings(self.net) == []
        return self.messages()

    def kept(self) -> dict[tuple[str, str], list[str]]:
        """Return the names of what is kept, by owner."""
        return {owner: [item.key for item in kept] for owner, kept in kept_in(self.net).items()}


def chain(*, tiers: Any = ((1, 0.9),), gone: bool = True, **options: Any) -> Chain:
    options = {"tiers": tiers, "minimum_samples": 1, **options}
    net = Network(CHAIN, "incremental", options=options)
    ad = net.advertise("4", between(0, 19))
    net.settle()
    s, a, b = (
        net.subscribe(broker, between(*ends))
        for broker, ends in (("0", (0, 9)), ("1", (0, 4)), ("2", (5, 8)))
    )
    net.settle()
    for value in range(10):
        net.publish("4", {"x": value})
    net.settle()
    if gone:
        net.unsubscribe(s)
        net.settle()
    net.clear_counters()
    net.clear_deliveries()
    return Chain(net, ad, s, a, b)


S, A, B, NEW = "s1", "s2", "s3", "s4"  # their keys, and that of the next one
KEPT = {("2", "3"): [S]}
