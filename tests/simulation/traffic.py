"""Events for simulated brokers, and the oracle: who must get which of them."""

from __future__ import annotations

from collections import defaultdict
from random import Random

from covey.core.filter import Filter
from covey.sim.brokers import BrokerNetwork
from covey.sim.wire_clients import Subscription
from tests.e2e.helpers.traffic import some_event, some_filter


class Traffic:
    """Publishes numbered events, and compares what subscriptions got with what they match.

    Unconfirmed events come exactly once, as long as nothing fails while they are under way. Confirmed ones come at
    least once whatever happens, and those of one publisher for the first time in their order.
    """

    def __init__(self, net: BrokerNetwork, random: Random) -> None:
        self.net, self.random = net, random
        self.published: dict[
            int, tuple[str, dict[str, int]]
        ] = {}  # the publisher's broker and the event, by number
        self.producers: list[str] = []
        self.watched: list[Subscription] = []
        self._last = 0

    def populate(self, subscriptions: int = 8) -> None:
        """Let clients of all brokers publish and subscribe."""
        names = self.net.brokers
        self.produce(*names)
        for number in range(subscriptions):
            self.subscribe(names[number % len(names)], some_filter(self.random))
        self.net.settle()

    def produce(self, *brokers: str) -> None:
        """Let a client of each broker announce all that is published here."""
        for broker in brokers:
            self.producers.append(broker)
            self.net.advertise(broker, "n >= 0")

    def subscribe(
        self, broker: str, filter: Filter | str, client: str = "", durable: str = ""
    ) -> Subscription:
        """Subscribe; what comes is compared from now on."""
        made = self.net.subscribe(broker, filter, client=client or None, durable=durable)
        self.watched.append(made)
        return made

    def publish(self, count: int = 1, *, broker: str = "", confirm: bool = False) -> None:
        """Publish events at one broker, or at any."""
        for _ in range(count):
            self._last += 1
            here = broker or self.random.choice(self.producers)
            event = {**some_event(self.random), "n": self._last}
            self.published[self._last] = (here, event)
            self.net.publish(here, event, confirm=confirm)

    def got(self, subscription: Subscription) -> list[int]:
        """Return the numbers of what a subscription got, in order."""
        return [event["n"] for one, event in self.net.deliveries if one is subscription]

    def expected(self, filter: Filter) -> list[int]:
        """Return the numbers of the published events that a filter matches."""
        return [number for number, (_, event) in self.published.items() if filter.matches(event)]

    def check_once(self, *, is_ordered: bool = True) -> None:
        """Every matching event has come once, those of each publisher in order, and nothing else."""
        for one in self.watched:
            got = self.got(one)
            assert sorted(got) == self.expected(one.filter), one
            if is_ordered:
                self._check_order(got)

    def check_all(self, got: list[int], filter: Filter) -> None:
        """Every matching event has come, those of each publisher for the first time in order, and nothing else."""
        first = list(dict.fromkeys(got))
        assert sorted(first) == self.expected(filter)
        self._check_order(first)

    def _check_order(self, numbers: list[int]) -> None:
        by_publisher: dict[str, list[int]] = defaultdict(list)
        for number in numbers:
            by_publisher[self.published[number][0]].append(number)
        for some in by_publisher.values():
            assert some == sorted(some)

    def round(self, count: int = 20, *, is_ordered: bool = True) -> None:
        """Begin anew, publish, and compare."""
        self.net.settle()
        self.net.clear_deliveries()
        self.published.clear()
        self.publish(count)
        self.net.settle()
        self.check_once(is_ordered=is_ordered)
