"""What a plan that merges filters should cost, said beforehand from filters alone, and what a network then does.

What a broker tells a neighbour when all is at rest follows from what it knows itself (`strategies.aggregation`), so the
tables of a whole network can be computed broker by broker, without a message:

    entries       filters told, over all links of all trees, in both directions
    for nobody    links that an event crosses although nobody behind wants it, on all its trees together
    departure     control messages when a subscription leaves: filters that are told anew, and those withdrawn
    release       links that the news of the departure crosses until the last broker knows; times a link's delay

`measure` has the same of `sim.Network`. The two are equal for every plan (a test), so that a report can show both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from covey.advisor.traffic import Placed, Traffic
from covey.core.filter import Filter
from covey.planning.plan import Plan
from covey.routing.messages import Tree
from covey.routing.plan import TreePlan
from covey.sim.delays import DEFAULT_MS
from covey.sim.handles import Subscription
from covey.sim.network import Network
from covey.sim.topology.graph import Topology
from covey.strategies.aggregation import Blocks, aggregated

MOST_DEPARTURES = 20

Told = dict[tuple[Tree, str, str], tuple[Filter, ...]]  # by tree, sender and receiver


@dataclass(frozen=True)
class Merged:
    """What merging comes to; `departure` and `release` are means over the subscriptions that were made to leave."""

    entries: int
    for_nobody: int
    departure: float
    release: float


@dataclass(frozen=True)
class Comparison:
    """What merging should come to, what it did, and what the same plan does that merges nothing."""

    said: Merged
    done: Merged
    unmerged: Merged


class Forecast:
    """A network at rest under a plan: what every broker tells its neighbours, without advertisements."""

    def __init__(self, plan: TreePlan, links: Sequence[tuple[str, str]]) -> None:
        self._plan = plan
        self.orders = [_outwards(tree) for tree in plan.links(links)]
        self._blocks: dict[tuple[Tree, str, str], Blocks] = {}
        self._known: dict[tuple[Tree, str, str, frozenset[Filter]], tuple[Filter, ...]] = {}

    def told(self, subscriptions: Sequence[Placed]) -> Told:
        """Return what everyone is told when these are all the subscriptions."""
        own: dict[tuple[Tree, str], dict[Filter, None]] = {}
        for one in subscriptions:
            tree = self._plan.group(one.broker, one.filter)
            own.setdefault((tree, one.broker), {})[one.filter] = None
        found: Told = {}
        for tree, order in enumerate(self.orders):
            heard: dict[str, dict[str, tuple[Filter, ...]]] = {}
            inwards = [(below, above) for above, below in reversed(order)]
            for sender, receiver in [*inwards, *order]:
                known = dict(own.get((tree, sender), {}))
                for other, filters in heard.get(sender, {}).items():
                    if other != receiver:
                        known.update(dict.fromkeys(filters))
                told = self._reduced(tree, sender, receiver, frozenset(known))
                found[tree, sender, receiver] = heard.setdefault(receiver, {})[sender] = told
        return found

    def _reduced(
        self, tree: Tree, sender: str, receiver: str, known: frozenset[Filter]
    ) -> tuple[Filter, ...]:
        if not known:
            return ()
        key = tree, sender, receiver, known
        if key not in self._known:
            place = tree, sender, receiver
            if place not in self._blocks:
                aggregation = self._plan.aggregation
                self._blocks[place] = Blocks(aggregation.blocks(*place), aggregation)
            self._known[key] = tuple(aggregated(known, self._blocks[place]))
        return self._known[key]

    def crossed(self, told: Told, tree: Tree, publisher: str, event: object) -> Iterator[tuple[str, str]]:
        """Yield the links, each by sender and receiver, that an event crosses on a tree."""
        near: dict[str, list[str]] = {}
        for above, below in self.orders[tree]:
            near.setdefault(above, []).append(below)
            near.setdefault(below, []).append(above)
        waiting = [(publisher, "")]
        for here, before in waiting:
            for other in near.get(here, ()):
                # What the neighbour told this broker decides.
                if other != before and any(one.matches(event) for one in told[tree, other, here]):
                    waiting.append((other, here))
                    yield here, other

    def changes(self, before: Told, after: Told, leaving: Placed) -> tuple[int, int]:
        """Return how many messages a departure costs, and how many links away the last of them arrives."""
        tree = self._plan.group(leaving.broker, leaving.filter)
        far = _distances(self.orders[tree], leaving.broker)
        messages = release = 0
        for place, filters in before.items():
            gone, come = set(filters) - set(after[place]), set(after[place]) - set(filters)
            messages += len(gone) + len(come)
            if gone or come:
                release = max(release, far[place[1]] + 1)
        return messages, release


def forecast(plan: Plan, traffic: Traffic) -> Merged:
    """Return what the plan should cost with this traffic; see the module's text."""
    trees = plan.to_tree_plan()
    made = Forecast(trees, [(a, b) for a, b, _ in plan.links])
    told = made.told(traffic.subscriptions)
    everyone: dict[tuple[Tree, str], list[Filter]] = {}
    for one in traffic.subscriptions:
        everyone.setdefault((trees.group(one.broker, one.filter), one.broker), []).append(one.filter)
    behind = {
        (tree, a, b): brokers for tree, order in enumerate(made.orders) for a, b, brokers in _sides(order)
    }
    for_nobody = 0
    for event in traffic.events:
        for tree in trees.trees:
            for here, other in made.crossed(told, tree, event.broker, event.content):
                for_nobody += not any(
                    one.matches(event.content)
                    for broker in behind[tree, here, other]
                    for one in everyone.get((tree, broker), ())
                )
    leaving = departing(traffic)
    changes = [
        made.changes(told, made.told([s for s in traffic.subscriptions if s is not one]), one)
        for one in leaving
    ]
    count = max(1, len(changes))
    return Merged(
        entries=sum(map(len, told.values())),
        for_nobody=for_nobody,
        departure=sum(messages for messages, _ in changes) / count,
        release=sum(release for _, release in changes) / count,
    )


def measure(plan: Plan, traffic: Traffic) -> Merged:
    """Return what a simulated network does with the plan and this traffic, without advertisements."""
    trees = plan.to_tree_plan()
    net = Network(
        Topology("overlay", tuple((a, b) for a, b, _ in plan.links), plan.brokers),
        trees.strategy,
        advertisements=False,
        trees=trees,
        keep=False,
        remembered_events=0,
    )
    handles: dict[int, Subscription] = {}
    for number, one in enumerate(traffic.subscriptions):
        handles[number] = net.subscribe(one.broker, one.filter)
    net.settle()
    entries = sum(node.router.remote_size() for node in net.nodes.values())
    for event in traffic.events:
        net.publish(event.broker, event.content, check=False)
        net.settle()
    for_nobody = net.counters["false_positives"]
    leaving = departing(traffic)
    messages = links = 0
    number_of = {id(one): number for number, one in enumerate(traffic.subscriptions)}
    for one in leaving:
        number = number_of[id(one)]
        net.clear_counters()
        before_s = net.now_s
        net.unsubscribe(handles[number])
        net.settle()
        messages += net.counters["control_messages"]
        links += round((net.now_s - before_s) * 1000.0 / DEFAULT_MS)
        handles[number] = net.subscribe(one.broker, one.filter)
        net.settle()
    count = max(1, len(leaving))
    return Merged(entries, for_nobody, messages / count, links / count)


def compared(plan: Plan, traffic: Traffic) -> Comparison:
    """Return what a plan that merges filters should cost with the traffic, and what it costs with and without."""
    plain = replace(plan, aggregation=(), merging=None)
    return Comparison(forecast(plan, traffic), measure(plan, traffic), measure(plain, traffic))


def departing(traffic: Traffic) -> list[Placed]:
    """Return the subscriptions that are made to leave, one at a time: some, evenly spaced."""
    step = -(-len(traffic.subscriptions) // MOST_DEPARTURES) or 1
    return list(traffic.subscriptions[::step])


def _outwards(links: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the links of a tree as (above, below), each after the one above it."""
    if not links:
        return []
    near = _near(links)
    order: list[tuple[str, str]] = []
    waiting = [(links[0][0], "")]
    for here, before in waiting:
        for other in near[here]:
            if other != before:
                order.append((here, other))
                waiting.append((other, here))
    return order


def _near(links: Sequence[tuple[str, str]]) -> Mapping[str, list[str]]:
    near: dict[str, list[str]] = {}
    for a, b in links:
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    return near


def _distances(links: Sequence[tuple[str, str]], start: str) -> dict[str, int]:
    near, far, waiting = _near(links), {start: 0}, [start]
    for here in waiting:
        for other in near.get(here, ()):
            if other not in far:
                far[other] = far[here] + 1
                waiting.append(other)
    return far


def _sides(order: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str, set[str]]]:
    """Yield each direction of each link of a tree with the brokers behind it."""
    everyone = {broker for link in order for broker in link}
    below: dict[str, set[str]] = {broker: {broker} for broker in everyone}
    for above, under in reversed(order):
        below[above] |= below[under]
    for above, under in order:
        yield above, under, below[under]
        yield under, above, everyone - below[under]
