"""The similarity of a subscription along the way to a publisher, from its definition: what distances must add up to.

At a broker B on the way from a subscription S to a publisher P, similarity is the share of P's events that S got and
that another live subscription behind B, seen from P, wants too. It takes knowledge of everyone; brokers estimate it
from the distances that events carry.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from tests.oracles.incremental_runs import between, random_tree, strategy_at

from covey.sim import Network
from covey.sim.handles import Subscription

VALUES = 12


class Point(NamedTuple):
    """A subscription, a publisher's broker, so many hops towards it: what is true and what is estimated there."""

    subscription: str
    publisher: str
    hops: int
    true: float
    estimated: float


def path(net: Network, start: str, end: str) -> list[str]:
    """Return the brokers from one to another."""
    way = [start]
    while way[-1] != end:
        way.append(
            next(
                other
                for other in net.overlay.neighbours[way[-1]]
                if end in net.overlay.behind(0, way[-1], other)
            )
        )
    return way


def points(net: Network, publishers: list[str]) -> list[Point]:
    """Return the points of all subscriptions that got events, after each publisher published every value once."""
    found = []
    for handle in net.subscriptions.values():
        for publisher in publishers:
            way = path(net, handle.broker, publisher)
            for hops, broker in enumerate(way):
                last = hops == len(way) - 1
                behind = set(net.brokers) if last else net.overlay.behind(0, way[hops + 1], broker)
                window = strategy_at(net, handle.broker).window
                place = (handle.client, handle.name)
                name = f"producer at {publisher}"
                rows = [row for row in window.rows(place) if row.publisher == name]
                if rows:
                    true = _similarity(net, handle, behind)
                    estimated = window.similarity(place, name, hops, net.now_s)
                    found.append(Point(handle.name, publisher, hops, true, estimated))
    return found


def _similarity(net: Network, handle: Subscription, behind: set[str]) -> float:
    others = [
        other.filter for other in net.subscriptions.values() if other is not handle and other.broker in behind
    ]
    events = [{"x": value} for value in range(VALUES) if handle.filter.matches({"x": value})]
    return sum(any(other.matches(event) for other in others) for event in events) / len(events)


def random_network(seed: int) -> tuple[Network, list[str]]:
    """Return a random network at rest in which every publisher has published every value, and the publishers."""
    random = Random(f"similarity {seed}")
    net = Network(random_tree(random, random.randint(2, 8)), "incremental", seed=seed, delay="exponential")
    publishers = sorted(random.sample(net.brokers, random.randint(1, min(3, len(net.brokers)))))
    for broker in publishers:
        net.advertise(broker, between(0, VALUES))
    for _ in range(random.randint(2, 12)):
        low = random.randrange(VALUES)
        client = "client 1" if random.random() < 0.4 else None
        if client is not None and random.random() < 0.2:
            client = f"producer at {random.choice(publishers)}"
        broker = (
            client.split()[-1] if client and client.startswith("producer") else random.choice(net.brokers)
        )
        net.subscribe(broker, between(low, min(VALUES - 1, low + random.randint(0, 8))), client=client)
    net.settle()
    for broker in publishers:
        for value in range(VALUES):
            net.publish(broker, {"x": value})
    net.settle()
    return net, publishers


def similarity_findings(seed: int) -> list[str]:
    """Return where the estimate of a random network is wrong, and where similarity falls towards a publisher."""
    net, publishers = random_network(seed)
    findings = []
    last: Point | None = None
    for point in points(net, publishers):
        if point.true != point.estimated:
            findings.append(f"{point.estimated} is estimated: {point}")
        if last is not None and point.hops and point.true < last.true:
            findings.append(f"similarity falls: {last}, {point}")
        last = point
    return findings
