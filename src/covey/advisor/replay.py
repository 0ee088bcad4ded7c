"""One way of routing, tried on a sample of traffic in the simulator, and what it costs there.

Everybody advertises, then subscribes, then events are published, each time until the network is at rest. What must be
delivered is known beforehand, from the filters alone: a way of routing that delivers anything else is wrong, and the
replay says so instead of a result.

A replay ends after LIMIT_S of processor time at the latest. What takes longer than that for so small a sample (merging
many filters of some kinds does) has no result: a slower machine can have fewer results, and never others.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from time import process_time
from typing import Any

from covey.advisor.traffic import Traffic
from covey.errors import CoveyError
from covey.planning.plan import Plan
from covey.routing.messages import Publish
from covey.routing.plan import TreePlan
from covey.routing.strategy import registered
from covey.sim.handles import Subscription
from covey.sim.network import Network
from covey.sim.topology.graph import Topology

LIMIT_S = 5.0
TOGETHER = 100  # events that are under way at a time
_MASK = (1 << 64) - 1


class WrongDeliveryError(CoveyError):
    """A way of routing delivered something else than what was wanted: our mistake, and no figure means anything."""


class TooSlowError(CoveyError):
    """A replay took longer than it may."""


@dataclass(frozen=True)
class Candidate:
    """A way of routing: a strategy on a single tree, or a plan's trees; with or without advertisements."""

    name: str
    strategy: str
    advertisements: bool
    plan: Plan | None = None

    @property
    def label(self) -> str:
        """The name, and whether subscriptions follow advertisements."""
        return f"{self.name} {'with' if self.advertisements else 'without'} advertisements"

    @property
    def phrase(self) -> str:
        """The same within a sentence."""
        name = f"the plan `{self.name.removeprefix('plan ')}`" if self.plan is not None else f"`{self.name}`"
        return f"{name} {'with' if self.advertisements else 'without'} advertisements"


@dataclass(frozen=True)
class Measured:
    """What was measured; costs and messages are of the sample.

    cost              transmissions of events between brokers, each at the cost of its link
    forwarded         the same, each counted once
    false_positives   those towards a side where nobody wanted the event
    entries           entries of all routing tables that came from neighbours, at the end; `largest` table
    control           messages about subscriptions and advertisements
    delivered         deliveries: the same for every way of routing
    """

    cost: float
    forwarded: int
    false_positives: int
    entries: int
    largest: int
    control: int
    delivered: int
    cpu_s: float

    def as_good(self, other: Measured) -> bool:
        """Return whether all that a choice is made by is the same."""
        return (self.cost, self.entries, self.control) == (other.cost, other.entries, other.control)

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers by name, without the time, which differs from run to run."""
        numbers = asdict(self)
        del numbers["cpu_s"]
        return numbers


def replay(traffic: Traffic, candidate: Candidate, limit_s: float = LIMIT_S) -> Measured:
    """Return what the candidate costs; CoveyError if it is too slow, or cannot run with this overlay or filters."""
    started_s = process_time()
    net = _network(traffic, candidate)
    costs, cost = traffic.costs, 0.0

    def crossed(sender: str, receiver: str, message: object) -> None:
        nonlocal cost
        if type(message) is Publish:
            cost += costs[sender, receiver]
        if process_time() - started_s > limit_s:
            raise TooSlowError(f"stopped after {limit_s:g} s of processor time")

    net.observer = crossed
    deliveries = _Deliveries()
    net.on_delivery = deliveries.note
    if candidate.advertisements:
        for one in traffic.advertisements:
            net.advertise(one.broker, one.filter)
        net.settle()
    for number, one in enumerate(traffic.subscriptions):
        deliveries.subscriptions[net.subscribe(one.broker, one.filter).name] = number
    net.settle()
    for number, event in enumerate(traffic.events):
        deliveries.events[net.publish(event.broker, event.content, check=False)] = number
        if number % TOGETHER == TOGETHER - 1:
            net.settle()
    net.settle()
    expected = fingerprint(
        (event, subscription) for event, places in enumerate(traffic.wanted) for subscription in places
    )
    if (deliveries.count, deliveries.sum) != expected:
        raise WrongDeliveryError(
            f"{candidate.label} delivered {deliveries.count} events and not the {expected[0]} that are wanted"
        )
    tables = [node.router.remote_size() for node in net.nodes.values()]
    return Measured(
        cost=cost,
        forwarded=net.counters["forwarded_events"],
        false_positives=net.counters["false_positives"],
        entries=sum(tables),
        largest=max(tables),
        control=net.counters["control_messages"],
        delivered=deliveries.count,
        cpu_s=process_time() - started_s,
    )


def _network(traffic: Traffic, candidate: Candidate) -> Network:
    planned: TreePlan | None = None
    links: tuple[tuple[str, str], ...] = traffic.tree
    if candidate.plan is not None:
        planned = candidate.plan.to_tree_plan()
    if registered(candidate.strategy).trees:
        links = tuple((a, b) for a, b, _ in traffic.links)
    return Network(
        Topology("overlay", links, traffic.brokers),
        candidate.strategy,
        advertisements=candidate.advertisements,
        trees=planned,
        keep=False,
        remembered_events=0,
    )


class _Deliveries:
    """What was delivered: how many, and a sum that no other set of deliveries has but by a chance of 2⁻⁶⁴."""

    def __init__(self) -> None:
        self.subscriptions: dict[str, int] = {}
        self.events: dict[str, int] = {}
        self.count = 0
        self.sum = 0

    def note(self, subscription: Subscription, publish: Publish, delay_s: float) -> None:
        self.count += 1
        self.sum += _mixed(self.events[publish.id], self.subscriptions[subscription.name])
        self.sum &= _MASK


def fingerprint(pairs: Any) -> tuple[int, int]:
    """Return how many (event, subscription) there are, and their sum."""
    count = total = 0
    for event, subscription in pairs:
        count += 1
        total += _mixed(event, subscription)
    return count, total & _MASK


def _mixed(event: int, subscription: int) -> int:
    """Return a number for a pair, as splitmix64 draws it."""
    value = ((event << 32 | subscription) * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ value >> 27) * 0x94D049BB133111EB) & _MASK
    return value ^ value >> 31


def attempt(traffic: Traffic, candidate: Candidate) -> Measured | str:
    """Return what was measured, or in one line why the candidate cannot run here."""
    try:
        return replay(traffic, candidate)
    except WrongDeliveryError:
        raise
    except CoveyError as error:
        return " ".join(str(error).split())
