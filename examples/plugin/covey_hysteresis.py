"""A plug-in for Covey: a strategy, a topology and a workload. See docs/plugins.md.

The strategy stands between active and lazy covering: what a new filter covers is withdrawn if that is at least `least`
filters, and stays otherwise. Few withdrawals are not worth their messages, many are worth the room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from covey.core.families import parse
from covey.errors import ConfigError
from covey.routing.strategy import Site
from covey.sim.topology import Topology
from covey.sim.workload import Action, Script
from covey.sim.workload.script import workload
from covey.strategies.policy import FILTERS, Uncovered
from covey.strategies.subscriptions import SubscriptionStrategy
from covey.strategies.told import Item, Told


class Some(Uncovered):
    """What is covered is withdrawn if there is enough of it."""

    def __init__(self, least: int) -> None:
        super().__init__(FILTERS, withdraws=True)
        self.least = least

    def superfluous(self, told: Told, items: Sequence[Item]) -> list[Item]:
        """Return what the items cover, if that is much."""
        covered = super().superfluous(told, items)
        return covered if len(covered) >= self.least else []


class Hysteresis(SubscriptionStrategy):
    """A name, a dialect, a policy."""

    name = "hysteresis"
    dialect = "subscriptions"  # so it may be a neighbour of `covering` and the others that speak this
    description = "covering that withdraws what a new filter covers only if it is worth the messages"
    options = ("least",)

    def __init__(self, site: Site, *, least: int = 3) -> None:
        if type(least) is not int or least < 1:
            raise ConfigError(
                f"the setting least of hysteresis is a whole number from 1 up, not {least!r:.40}"
            )
        super().__init__(site)
        self.policy = Some(least)


def caterpillar(length: int = 5, legs: int = 2) -> Topology:
    """Return a line of brokers, each with so many brokers of its own; these are its `edge`."""
    if length < 1 or legs < 0:
        raise ConfigError("a caterpillar has a length from 1 up and legs from 0 up")
    body = [f"b{number}" for number in range(length)]
    edge = tuple(f"{broker}.{leg}" for broker in body for leg in range(legs))
    links = [*pairwise(body), *((one.split(".")[0], one) for one in edge)]
    return Topology("caterpillar", tuple(links), (*body, *edge), {"edge": edge or tuple(body)})


@workload("nested")
def nested(topology: Topology, seed: int, *, depth: int = 8, events: int = 40) -> Script:
    """Subscribe to ever broader filters at one broker after the other, publish, and leave, the broadest first."""
    producer, consumers = topology.brokers[0], topology.brokers[1:] or topology.brokers

    def at(number: int) -> str:
        return consumers[(seed + number) % len(consumers)]

    def draw() -> Iterator[Action]:
        yield Action(0.0, "advertise", "all", producer, parse("x >= 0"), "producer")
        for number in range(depth):
            yield Action(1.0 + number, "subscribe", f"s{number}", at(number), parse(f"x < {number + 1}"))
        for number in range(events):
            event = {"x": (seed + number) % (depth + 2)}
            yield Action(2.0 + depth + number, "publish", "", producer, event, "producer")
        for number in range(depth):
            last = depth - 1 - number
            yield Action(3.0 + depth + events + number, "unsubscribe", f"s{last}", at(last))

    phases = {"subscribe": 0.0, "publish": 1.5 + depth, "leave": 2.5 + depth + events}
    return Script("attributes", f"{depth} nested filters", phases, draw)
