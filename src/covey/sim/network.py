"""Network: an overlay of brokers in the simulator, and the clients at them.

    net = Network([("a", "b"), ("b", "c")], strategy="covering")
    net.advertise("a", covey.parse("price >= 0"))
    subscription = net.subscribe("c", covey.parse("price > 10"))
    net.settle()
    net.publish("a", {"price": 12})
    net.settle()
    net.deliveries                          [(subscription, {"price": 12})]

Every call is an input that reaches its broker at the present moment; nothing happens until `settle` or `run`. The same
topology, calls and seed give the same run, message by message. Without service times and with constant delays, time is
only an order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any

import covey.strategies  # noqa: F401 (registers them)
from covey.core.content import check_content
from covey.core.event import content_of
from covey.core.families import parse
from covey.core.filter import Filter
from covey.errors import ConfigError
from covey.routing.advertisements import NONE
from covey.routing.messages import (
    CONTROL,
    Echo,
    Link,
    LinkDown,
    LinkUp,
    Message,
    Pack,
    Publish,
    Tree,
)
from covey.routing.outputs import Deliver, Output
from covey.routing.plan import TreePlan
from covey.routing.router import Router
from covey.routing.strategy import registered
from covey.sim import delays, service
from covey.sim.channel import Channel
from covey.sim.clients import Clients
from covey.sim.engine import Engine
from covey.sim.handles import Advertisement, Subscription
from covey.sim.interest import Interest
from covey.sim.ledger import Ledger
from covey.sim.node import Node
from covey.sim.overlay import Overlay

REMEMBERED_EVENTS = 256

Observer = Callable[[str, str, Message], None]  # sender, receiver, what arrived


class Network:
    """See the module's text.

    topology        links between broker names, or one of `covey.sim.topology`
    strategy        a strategy's name, or one for each broker
    options         settings of the strategy
    reduce_advertisements  what brokers tell each other of advertisements, none, identity, covering or merging; see
                    `strategies.advertisements`
    trees           for the strategies `trees` and `regions`: a TreePlan, which says for which of them it is
                    (`TreePlan.strategy`); without one, spanning trees of the topology
    delay, service  models by name; see `delays` and `service`
    judge           count false positives, at the price of matching each event against everyone's subscriptions
    keep            keep `deliveries`; without it they are only counted
    slice_units     let routers work for their links in slices of so much work, as live brokers do; see `routing.jobs`
    """

    def __init__(
        self,
        topology: Any,
        strategy: str | Mapping[str, str] = "covering",
        *,
        advertisements: bool = True,
        reduce_advertisements: str = NONE,
        seed: int = 1,
        options: Mapping[str, Any] | None = None,
        trees: TreePlan | None = None,
        delay: str = "constant",
        delay_ms: float = delays.DEFAULT_MS,
        service_times: str | service.Service = "zero",
        judge: bool = True,
        keep: bool = True,
        remembered_events: int = REMEMBERED_EVENTS,
        slice_units: int | None = None,
    ) -> None:
        self.overlay = Overlay(topology, strategy, trees)
        self.seed = seed
        self.advertisements = advertisements
        self.reduce_advertisements = reduce_advertisements
        self.engine = Engine()
        self.counters: Counter[str] = Counter()
        self.deliveries: list[tuple[Subscription, Any]] = []
        self.observer: Observer | None = None
        self.on_delivery: Callable[[Subscription, Publish, float], None] | None = None
        self._options = dict(options or {})
        self._random = Random(f"network {seed}")
        self._keep = keep
        self._plan = self.overlay.plan
        self._service = service_times
        self._slice_units = slice_units
        self._nodes = {broker: self._new_node(broker) for broker in self.overlay.brokers}
        self._channels: dict[tuple[str, str], Channel] = {}
        for a, b in self.overlay.links:
            for pair in ((a, b), (b, a)):
                model = delays.build(delay, delay_ms, self._random)
                self._channels[pair] = Channel(*pair, self.engine, model, self._arrive)
        interest = Interest(self.overlay.brokers, self.overlay.trees) if judge else None
        self._ledger = Ledger(self._plan, interest)
        self.clients = Clients(self.engine, self._nodes, self._plan, interest, remembered_events)
        self._down: set[frozenset[str]] = set()
        for a, b in self.overlay.links:
            self._bring_up(a, b)
        self.settle()
        self.engine.now_s = 0.0
        self.clear_counters()

    def _new_router(self, broker: str) -> Router:
        return Router(
            broker,
            self.overlay.strategy_of[broker],
            advertisements=self.advertisements,
            reduce_advertisements=self.reduce_advertisements,
            plan=self._plan,
            options=self._options,
            slice_units=self._slice_units,
        )

    def _new_node(self, broker: str) -> Node:
        model = self._service
        if isinstance(model, str):
            model = service.build(model, registered(self.overlay.strategy_of[broker]).name)
        return Node(broker, self._new_router(broker), self.engine, model, self._carry_out)

    # -- clients ---------------------------------------------------------------------------------------------

    def advertise(self, broker: str, filter: Filter | str, *, client: str | None = None) -> Advertisement:
        """Announce, for a producer at the broker, that it may publish what the filter matches."""
        return self.clients.advertise(broker, parse(filter) if isinstance(filter, str) else filter, client)

    def unadvertise(self, advertisement: Advertisement) -> None:
        """Revoke an advertisement."""
        self.clients.unadvertise(advertisement)

    def subscribe(self, broker: str, filter: Filter | str, *, client: str | None = None) -> Subscription:
        """Subscribe, for a consumer at the broker; each subscription is a client of its own unless one is named."""
        return self.clients.subscribe(broker, parse(filter) if isinstance(filter, str) else filter, client)

    def unsubscribe(self, subscription: Subscription) -> None:
        """Cancel a subscription, wherever it is; it gets nothing from now on."""
        self.clients.unsubscribe(subscription)

    def move(self, subscription: Subscription, broker: str, *, exact: bool = True) -> None:
        """Move a subscription's client to another broker.

        Exact: it subscribes there, waits until that is in force everywhere, then unsubscribes here; it remembers what
        it got lately, so that nothing is missed and nothing comes twice. Otherwise it unsubscribes here and subscribes
        there.
        """
        self.clients.move(subscription, broker, exact=exact)

    def publish(self, broker: str, event: Any, *, client: str | None = None, check: bool = True) -> str:
        """Publish an event, for a producer at the broker; return the event's id.

        EventError, naming the attribute, for what a live network does not carry. Without `check` it is taken as it is:
        events of tables may have values that are neither numbers, strings nor booleans.
        """
        if check:
            check_content(content_of(event))
        id = self.clients.publish(broker, event, client)
        self._ledger.publish(id, event, self.engine.now_s)
        self.counters["published_events"] += 1
        return id

    # -- time ------------------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """The time in the simulation."""
        return self.engine.now_s

    def settle(self) -> None:
        """Run until nothing is under way and nothing is left to do."""
        self.engine.run()
        self._ledger.clear()

    def run(self, until_s: float) -> None:
        """Run until that time."""
        self.engine.run(until_s)

    def at(self, time_s: float, call: Callable[..., object], *arguments: Any) -> None:
        """Make a call at that time."""
        self.engine.at(time_s, call, *arguments)

    # -- messages --------------------------------------------------------------------------------------------

    def _carry_out(self, broker: str, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, Deliver):
                self._deliver(output)
            elif output.link in self._nodes:
                self._send(broker, output.link, output.message)
            elif isinstance(output.message, Echo):
                self.clients.echoed(broker, output.link, output.message.id)

    def _send(self, sender: str, receiver: str, message: Message) -> None:
        incarnation = self._nodes[sender].incarnations[receiver]
        if not self._channels[sender, receiver].send(message, incarnation):
            return  # the link has gone down, and the router does not know yet
        if isinstance(message, Publish):
            self.counters["forwarded_events"] += 1
            if self._ledger.is_false_positive(message, sender, receiver):
                self.counters["false_positives"] += 1

    def _arrive(self, sender: str, receiver: str, message: Message) -> None:
        node = self._nodes[receiver]
        if not node.is_up:
            return
        kind = type(message)
        if kind in CONTROL:
            self.counters["control_messages"] += 1
            self.counters[_COUNTER[kind]] += 1
            if isinstance(message, Pack):
                self.counters["packed_messages"] += len(message.messages)
        elif kind is not Publish:
            self.counters["link_messages"] += 1
        if self.observer is not None:
            self.observer(sender, receiver, message)
        node.arrive(message, sender)

    def _deliver(self, output: Deliver) -> None:
        publish, counters = output.publish, self.counters
        delay_s = self._ledger.age_s(publish.id, self.engine.now_s)
        by_key, live = self.clients.by_key, self.clients.subscriptions
        for key in output.keys:
            subscription = by_key[key]
            if subscription.name not in live:
                continue  # its client has cancelled it, and the broker does not know yet
            if subscription.seen is not None and not subscription.seen.add(publish.id):
                counters["duplicates_suppressed"] += 1
                continue
            counters["delivered_events"] += 1
            if self._keep:
                self.deliveries.append((subscription, publish.event))
            if self.on_delivery is not None:
                self.on_delivery(subscription, publish, delay_s)

    # -- faults ----------------------------------------------------------------------------------------------

    def link_down(self, a: str, b: str) -> None:
        """Cut the link between two brokers; what is under way on it, or still being served for it, is lost."""
        self._down.add(self._link(a, b))
        self._cut(a, b)

    def _cut(self, a: str, b: str) -> None:
        if self._channels[a, b].is_up:
            for pair in ((a, b), (b, a)):
                self._channels[pair].down()
            for broker, other in ((a, b), (b, a)):
                if self._nodes[broker].is_up:
                    self._nodes[broker].arrive(LinkDown(), other)

    def link_up(self, a: str, b: str) -> None:
        """Restore the link between two brokers."""
        self._down.discard(self._link(a, b))
        self._bring_up(a, b)

    def _bring_up(self, a: str, b: str) -> None:
        usable = self._nodes[a].is_up and self._nodes[b].is_up and frozenset((a, b)) not in self._down
        if usable and not self._channels[a, b].is_up:
            for pair in ((a, b), (b, a)):
                self._channels[pair].up()
            up = LinkUp(pieces=self._slice_units is not None)
            for broker, other in ((a, b), (b, a)):
                self._nodes[broker].arrive(up, other, self._channels[broker, other].incarnation)

    def _link(self, a: str, b: str) -> frozenset[str]:
        if (a, b) not in self._channels:
            raise ConfigError(f"there is no link between {a!r:.40} and {b!r:.40}")
        return frozenset((a, b))

    def _node(self, broker: str) -> Node:
        if broker not in self._nodes:
            raise ConfigError(f"there is no broker {broker!r:.40}")
        return self._nodes[broker]

    def crash(self, broker: str) -> None:
        """Let a broker lose everything it knows; its clients and neighbours notice."""
        node = self._node(broker)
        node.crash()
        for other in self.overlay.neighbours[broker]:
            self._cut(broker, other)

    def restart(self, broker: str) -> None:
        """Start a crashed broker again, empty; its clients come back and say again what they want."""
        node = self._node(broker)
        if node.is_up:
            return
        node.restart(self._new_router(broker))
        self.clients.come_back(broker)
        for other in self.overlay.neighbours[broker]:
            self._bring_up(broker, other)

    def slow_down(self, a: str, b: str, factor: float) -> None:
        """Multiply the delays of a link, both ways, until it is called with 1."""
        self._link(a, b)
        for pair in ((a, b), (b, a)):
            self._channels[pair].factor = factor

    def partition(self, side: Iterable[str]) -> list[tuple[str, str]]:
        """Cut every link between these brokers and the others; return the links."""
        inside = {self._node(broker).name for broker in side}
        cut = [(a, b) for a, b in self.overlay.links if (a in inside) != (b in inside)]
        for a, b in cut:
            self.link_down(a, b)
        return cut

    # -- what is known ---------------------------------------------------------------------------------------

    @property
    def brokers(self) -> Sequence[str]:
        """The names of all brokers."""
        return self.overlay.brokers

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The brokers, with their routers and queues."""
        return self._nodes

    @property
    def channels(self) -> Mapping[tuple[str, str], Channel]:
        """The links, one for each direction."""
        return self._channels

    def is_link_up(self, a: str, b: str) -> bool:
        """Return whether the link between two brokers is up."""
        return self._channels[a, b].is_up

    def under_way(self, sender: str, receiver: str) -> list[Message] | None:
        """Return what the receiver's router is yet to handle of what the sender's router has said to it, in order.

        None while the link is down, or one of the routers does not know yet that it is up again.
        """
        channel = self._channels[sender, receiver]
        here, there = self._nodes[sender], self._nodes[receiver]
        known = (here.incarnations.get(receiver), there.incarnations.get(sender))
        if not channel.is_up or known != (channel.incarnation, channel.incarnation):
            return None
        return [*there.waiting_from(sender), *channel.under_way, *here.leaving_for(receiver)]

    def tree_of(self, subscription: Subscription) -> Tree:
        """Return the tree on which a live subscription is told."""
        return self._plan.group(subscription.broker, subscription.filter)

    @property
    def subscriptions(self) -> dict[str, Subscription]:
        """The subscriptions that are not cancelled, by name."""
        return self.clients.subscriptions

    def live_advertisements(self) -> list[Advertisement]:
        """Return the advertisements that are not revoked."""
        return list(self.clients.advertisements.values())

    @property
    def tables(self) -> dict[str, list[tuple[Link, Filter]]]:
        """The remote entries of each broker, as pairs of link and filter."""
        return {broker: node.router.remote_entries() for broker, node in self._nodes.items()}

    def router_counters(self) -> Counter[str]:
        """Return what routers have counted, summed."""
        total: Counter[str] = Counter()
        for node in self._nodes.values():
            total.update(node.router.counters)
        return total

    def clear_counters(self) -> None:
        """Begin to count anew."""
        self.counters.clear()
        for node in self._nodes.values():
            node.router.counters.clear()
            node.longest_queue = 0

    def clear_deliveries(self) -> None:
        """Forget what was delivered."""
        self.deliveries.clear()


_COUNTER = {kind: f"{kind.__name__.lower()}_messages" for kind in CONTROL}
