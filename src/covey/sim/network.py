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
from covey.core.event import content_of
from covey.core.families import parse
from covey.core.filter import Filter
from covey.errors import ConfigError
from covey.routing.messages import (
    CONTROL,
    Advertise,
    Echo,
    Key,
    Link,
    LinkDown,
    LinkUp,
    Message,
    Pack,
    Probe,
    Publish,
    Subscribe,
    Tree,
    Unadvertise,
    Unsubscribe,
)
from covey.routing.outputs import Deliver, Output
from covey.routing.plan import TreePlan
from covey.routing.router import Router
from covey.routing.seen import Seen
from covey.routing.strategy import registered
from covey.sim import delays, service
from covey.sim.channel import Channel
from covey.sim.engine import Engine
from covey.sim.handles import Advertisement, Subscription
from covey.sim.interest import Interest
from covey.sim.node import Node
from covey.sim.overlay import Overlay

REMEMBERED_EVENTS = 256

Observer = Callable[[str, str, Message], None]  # sender, receiver, what arrived


class Network:
    """See the module's text.

    topology        links between broker names, or one of `covey.sim.topology`
    strategy        a strategy's name, or one for each broker
    options         settings of the strategy
    trees           for the strategy `trees`: a TreePlan; without one, spanning trees of the topology
    delay, service  models by name; see `delays` and `service`
    judge           count false positives, at the price of matching each event against everyone's subscriptions
    keep            keep `deliveries`; without it they are only counted
    """

    def __init__(
        self,
        topology: Any,
        strategy: str | Mapping[str, str] = "covering",
        *,
        advertisements: bool = True,
        seed: int = 1,
        options: Mapping[str, Any] | None = None,
        trees: TreePlan | None = None,
        delay: str = "constant",
        delay_ms: float = delays.DEFAULT_MS,
        service_times: str | service.Service = "zero",
        judge: bool = True,
        keep: bool = True,
        remembered_events: int = REMEMBERED_EVENTS,
    ) -> None:
        self.overlay = Overlay(topology, strategy, trees)
        self.seed = seed
        self.advertisements = advertisements
        self.engine = Engine()
        self.counters: Counter[str] = Counter()
        self.deliveries: list[tuple[Subscription, Any]] = []
        self.subscriptions: dict[str, Subscription] = {}
        self.observer: Observer | None = None
        self.on_delivery: Callable[[Subscription, Publish, float], None] | None = None
        self._options = dict(options or {})
        self._random = Random(f"network {seed}")
        self._keep = keep
        self._judge = judge
        self._remembered_events = remembered_events
        self._plan = self.overlay.plan
        self._service = service_times
        self._interest = Interest(self.overlay.brokers, self.overlay.trees)
        self._nodes = {broker: self._new_node(broker) for broker in self.overlay.brokers}
        self._channels: dict[tuple[str, str], Channel] = {}
        for a, b in self.overlay.links:
            for pair in ((a, b), (b, a)):
                model = delays.build(delay, delay_ms, self._random)
                self._channels[pair] = Channel(*pair, self.engine, model, self._arrive)
        self._by_key: dict[Key, Subscription] = {}
        self._advertisements: dict[Key, Advertisement] = {}
        self._clients: dict[str, dict[Link, int]] = {broker: {} for broker in self.overlay.brokers}
        self._published: dict[str, tuple[float, dict[Tree, int]]] = {}
        self._waiting: dict[tuple[str, Link], dict[str, Callable[[], None]]] = {}  # for echoes, and what then
        self._down: set[frozenset[str]] = set()
        self._names = Counter[str]()
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
            plan=self._plan,
            options=self._options,
        )

    def _new_node(self, broker: str) -> Node:
        model = self._service
        if isinstance(model, str):
            model = service.build(model, registered(self.overlay.strategy_of[broker]).name)
        return Node(broker, self._new_router(broker), self.engine, model, self._carry_out)

    # -- clients ---------------------------------------------------------------------------------------------

    def advertise(self, broker: str, filter: Filter | str, *, client: str | None = None) -> Advertisement:
        """Announce, for a producer at the broker, that it may publish what the filter matches."""
        filter = parse(filter) if isinstance(filter, str) else filter
        client = client or f"producer at {broker}"
        handle = Advertisement(self._name("a"), filter, self._broker(broker), client)
        self._advertisements[handle.key] = handle
        self._attach(broker, client)
        self._input(broker, client, Advertise(handle.key, filter, client))
        return handle

    def unadvertise(self, advertisement: Advertisement) -> None:
        """Revoke an advertisement."""
        if self._advertisements.pop(advertisement.key, None) is None:
            raise ConfigError(f"the advertisement {advertisement.key} is revoked already")
        self._input(advertisement.broker, advertisement.client, Unadvertise(advertisement.key))
        self._detach(advertisement.broker, advertisement.client)

    def subscribe(self, broker: str, filter: Filter | str, *, client: str | None = None) -> Subscription:
        """Subscribe, for a consumer at the broker; each subscription is a client of its own unless one is named."""
        filter = parse(filter) if isinstance(filter, str) else filter
        name = self._name("s")
        handle = Subscription(name, filter, client or f"consumer {name}")
        if self._remembered_events:
            handle.seen = Seen(self._remembered_events)
        self.subscriptions[name] = handle
        self._subscribe_at(handle, self._broker(broker), name)
        return handle

    def _subscribe_at(self, handle: Subscription, broker: str, key: Key) -> None:
        handle.homes[broker] = key
        self._by_key[key] = handle
        if self._judge:
            self._interest.add(key, handle.filter, broker, self._plan.group(key, handle.filter))
        self._attach(broker, handle.client)
        self._input(broker, handle.client, Subscribe(key, handle.filter))

    def unsubscribe(self, subscription: Subscription) -> None:
        """Cancel a subscription, wherever it is."""
        if self.subscriptions.pop(subscription.name, None) is None:
            raise ConfigError(f"the subscription {subscription.name} is cancelled already")
        for broker in list(subscription.homes):
            self._unsubscribe_at(subscription, broker, subscription.homes.pop(broker))

    def _unsubscribe_at(self, handle: Subscription, broker: str, key: Key) -> None:
        if self._judge:
            self._interest.remove(key)
        self._input(broker, handle.client, Unsubscribe(key))
        self._detach(broker, handle.client)

    def move(self, subscription: Subscription, broker: str, *, exact: bool = True) -> None:
        """Move a subscription's client to another broker.

        Exact: it subscribes there, waits until that is in force everywhere, then unsubscribes here; it remembers what
        it got lately, so that nothing is missed and nothing comes twice. Otherwise it unsubscribes here and subscribes
        there.
        """
        if subscription.name not in self.subscriptions:
            raise ConfigError(f"the subscription {subscription.name} is cancelled")
        old = subscription.broker
        if self._broker(broker) == old:
            return
        subscription.moves += 1
        key = f"{subscription.name}.{subscription.moves}"
        old_key = subscription.homes[old]
        if not exact:
            self._unsubscribe_at(subscription, old, subscription.homes.pop(old))
        before = subscription.homes.pop(broker, None)
        self._subscribe_at(subscription, broker, key)
        if before is not None:  # it comes back before it has left for good
            self._unsubscribe_at(subscription, broker, before)
        if not exact:
            return

        def leave() -> None:
            if subscription.homes.get(old) == old_key:
                self._unsubscribe_at(subscription, old, subscription.homes.pop(old))

        self._probe(broker, subscription.client, leave)

    def _probe(self, broker: str, client: Link, then: Callable[[], None]) -> None:
        id = self._name("probe")
        self._waiting.setdefault((broker, client), {})[id] = then
        self._input(broker, client, Probe(id))

    def publish(self, broker: str, event: Any, *, client: str | None = None) -> str:
        """Publish an event, for a producer at the broker; return the event's id."""
        content_of(event)
        client = client or f"producer at {broker}"
        id = self._name("e")
        wanted = {}
        if self._judge:
            wanted = {tree: self._interest.wanted_by(event, tree) for tree in self._plan.trees}
        self._published[id] = (self.engine.now_s, wanted)
        self.counters["published_events"] += 1
        self._attach(self._broker(broker), client)
        self._input(broker, client, Publish(event, id, client))
        self._detach(broker, client)
        return id

    def _name(self, kind: str) -> str:
        self._names[kind] += 1
        return f"{kind}{self._names[kind]}"

    def _broker(self, broker: str) -> str:
        if broker not in self._nodes:
            raise ConfigError(f"there is no broker {broker!r:.40}")
        return broker

    def _attach(self, broker: str, client: Link) -> None:
        """Connect a client, if it is not, and count what it holds there."""
        if client in self._nodes:
            raise ConfigError(f"a client cannot have the name of a broker, {client!r:.40}")
        clients = self._clients[broker]
        if client not in clients:
            clients[client] = 0
            self._input(broker, client, LinkUp(client=True))
        clients[client] += 1

    def _detach(self, broker: str, client: Link) -> None:
        clients = self._clients[broker]
        clients[client] -= 1
        if not clients[client] and not client.startswith("producer at "):
            del clients[client]
            self._input(broker, client, LinkDown())
            for then in self._waiting.pop((broker, client), {}).values():
                then()  # it has gone on before it knew that it had arrived

    def _input(self, broker: str, client: Link, message: Message) -> None:
        generation = self._nodes[broker].generation
        self.engine.at(self.engine.now_s, self._from_client, broker, client, message, generation)

    def _from_client(self, broker: str, client: Link, message: Message, generation: int) -> None:
        node = self._nodes[broker]
        if node.is_up and generation == node.generation:  # else it was said to a broker that has crashed
            node.arrive(message, client)

    # -- time ------------------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """The time in the simulation."""
        return self.engine.now_s

    def settle(self) -> None:
        """Run until nothing is under way and nothing is left to do."""
        self.engine.run()
        self._published.clear()

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
                self._echoed(broker, output.link, output.message.id)

    def _echoed(self, broker: str, client: Link, id: str) -> None:
        waiting = self._waiting.get((broker, client), {})
        then = waiting.pop(id, None)
        if then is not None:
            if not waiting:
                del self._waiting[broker, client]
            then()

    def _send(self, sender: str, receiver: str, message: Message) -> None:
        if isinstance(message, Publish):
            self.counters["forwarded_events"] += 1
            if self._judge:
                wanted = self._published[message.id][1]
                if not self._interest.is_wanted_behind(wanted[message.tree], message.tree, sender, receiver):
                    self.counters["false_positives"] += 1
        self._channels[sender, receiver].send(message)

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
        publish = output.publish
        began_s = self._published[publish.id][0]
        for key in output.keys:
            subscription = self._by_key[key]
            if subscription.name not in self.subscriptions:
                continue  # its client has cancelled it, and the broker does not know yet
            if subscription.seen is not None and not subscription.seen.add(publish.id):
                self.counters["duplicates_suppressed"] += 1
                continue
            self.counters["delivered_events"] += 1
            if self._keep:
                self.deliveries.append((subscription, publish.event))
            if self.on_delivery is not None:
                self.on_delivery(subscription, publish, self.engine.now_s - began_s)

    # -- faults ----------------------------------------------------------------------------------------------

    def link_down(self, a: str, b: str) -> None:
        """Cut the link between two brokers; what is under way on it is lost."""
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
            for broker, other in ((a, b), (b, a)):
                self._nodes[broker].arrive(LinkUp(), other)

    def _link(self, a: str, b: str) -> frozenset[str]:
        if (a, b) not in self._channels:
            raise ConfigError(f"there is no link between {a!r:.40} and {b!r:.40}")
        return frozenset((a, b))

    def crash(self, broker: str) -> None:
        """Let a broker lose everything it knows; its clients and neighbours notice."""
        node = self._nodes[self._broker(broker)]
        node.crash()
        for other in self.overlay.neighbours[broker]:
            self._cut(broker, other)

    def restart(self, broker: str) -> None:
        """Start a crashed broker again, empty; its clients come back and say again what they want."""
        node = self._nodes[self._broker(broker)]
        if node.is_up:
            return
        node.restart(self._new_router(broker))
        for client in self._clients[broker]:
            self._input(broker, client, LinkUp(client=True))
        for advertisement in self._advertisements.values():
            if advertisement.broker == broker:
                message = Advertise(advertisement.key, advertisement.filter, advertisement.client)
                self._input(broker, advertisement.client, message)
        for subscription in self.subscriptions.values():
            if broker in subscription.homes:
                message_ = Subscribe(subscription.homes[broker], subscription.filter)
                self._input(broker, subscription.client, message_)
        for client in self._clients[broker]:
            for then in self._waiting.pop((broker, client), {}).values():
                self._probe(broker, client, then)  # under a new name: the old one may still be under way
        for other in self.overlay.neighbours[broker]:
            self._bring_up(broker, other)

    def slow_down(self, a: str, b: str, factor: float) -> None:
        """Multiply the delays of a link, both ways, until it is called with 1."""
        self._link(a, b)
        for pair in ((a, b), (b, a)):
            self._channels[pair].factor = factor

    def partition(self, side: Iterable[str]) -> list[tuple[str, str]]:
        """Cut every link between these brokers and the others; return the links."""
        inside = {self._broker(broker) for broker in side}
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

    def tree_of(self, subscription: Subscription) -> Tree:
        """Return the tree on which a live subscription is."""
        return self._plan.group(subscription.homes[subscription.broker], subscription.filter)

    def live_advertisements(self) -> list[Advertisement]:
        """Return the advertisements that are not revoked."""
        return list(self._advertisements.values())

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
