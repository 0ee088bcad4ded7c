"""The clients of a simulated network: what they hold, at which broker, and how they move and come back.

A client's word reaches its broker at the present moment. A client remembers what it said: when its broker has crashed
and is back, it says it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from covey.core.filter import Filter
from covey.errors import ConfigError
from covey.routing.messages import (
    Advertise,
    Key,
    Link,
    LinkDown,
    LinkUp,
    Message,
    Probe,
    Publish,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from covey.routing.plan import TreePlan
from covey.routing.seen import Seen
from covey.sim.engine import Engine
from covey.sim.handles import Advertisement, Subscription
from covey.sim.interest import Interest
from covey.sim.node import Node

Then = Callable[[], None]


class Clients:
    """Everyone at a broker of the network. `remembered_events` is how many each client remembers to get none twice."""

    def __init__(
        self,
        engine: Engine,
        nodes: Mapping[str, Node],
        plan: TreePlan,
        interest: Interest | None,
        remembered_events: int,
    ) -> None:
        self.subscriptions: dict[str, Subscription] = {}
        self.advertisements: dict[Key, Advertisement] = {}
        self.by_key: dict[Key, Subscription] = {}
        self._engine = engine
        self._nodes = nodes
        self._plan = plan
        self._interest = interest
        self._remembered_events = remembered_events
        self._names = Counter[str]()
        self._held: dict[str, dict[Link, int]] = {
            broker: {} for broker in nodes
        }  # how much each client has there
        self._waiting: dict[tuple[str, Link], dict[str, Then]] = {}  # for echoes, and what then

    # -- producers -------------------------------------------------------------------------------------------

    def advertise(self, broker: str, filter: Filter, client: Link | None) -> Advertisement:
        """Announce what a producer may publish."""
        client = client or _producer(broker)
        handle = Advertisement(self._name("a"), filter, self._broker(broker), client)
        self.advertisements[handle.key] = handle
        self._attach(broker, client)
        self._say(broker, client, Advertise(handle.key, filter, client))
        return handle

    def unadvertise(self, advertisement: Advertisement) -> None:
        """Revoke an announcement."""
        if self.advertisements.pop(advertisement.key, None) is None:
            raise ConfigError(f"the advertisement {advertisement.key} is revoked already")
        self._say(advertisement.broker, advertisement.client, Unadvertise(advertisement.key))
        self._detach(advertisement.broker, advertisement.client)

    def publish(self, broker: str, event: Any, client: Link | None) -> str:
        """Publish an event; return its id."""
        client = client or _producer(broker)
        id = self._name("e")
        self._attach(self._broker(broker), client)
        self._say(broker, client, Publish(event, id, client))
        self._detach(broker, client)
        return id

    # -- consumers -------------------------------------------------------------------------------------------

    def subscribe(self, broker: str, filter: Filter, client: Link | None) -> Subscription:
        """Subscribe a consumer, which is a client of its own unless one is named."""
        name = self._name("s")
        handle = Subscription(name, filter, client or f"consumer {name}")
        if self._remembered_events:
            handle.seen = Seen(self._remembered_events)
        self.subscriptions[name] = handle
        self.subscribe_at(handle, self._broker(broker), name)
        return handle

    def subscribe_at(self, handle: Subscription, broker: str, key: Key) -> None:
        """Say a subscription at a broker, under a key that is new there."""
        handle.homes[broker] = key
        self.by_key[key] = handle
        if self._interest is not None:
            self._interest.add(key, handle.filter, broker, self._plan.group(broker, handle.filter))
        self._attach(broker, handle.client)
        self._say(broker, handle.client, Subscribe(key, handle.filter))

    def unsubscribe(self, subscription: Subscription) -> None:
        """Cancel a subscription, wherever it is."""
        if self.subscriptions.pop(subscription.name, None) is None:
            raise ConfigError(f"the subscription {subscription.name} is cancelled already")
        for broker in list(subscription.homes):
            self._unsubscribe_at(subscription, broker, subscription.homes.pop(broker))

    def _unsubscribe_at(self, handle: Subscription, broker: str, key: Key) -> None:
        if self._interest is not None:
            self._interest.remove(key)
        self._say(broker, handle.client, Unsubscribe(key))
        self._detach(broker, handle.client)

    def move(self, subscription: Subscription, broker: str, *, exact: bool) -> None:
        """Move a subscription's client; see Network.move."""
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
        self.subscribe_at(subscription, broker, key)
        if before is not None:  # it comes back before it has left for good
            self._unsubscribe_at(subscription, broker, before)
        if not exact:
            return

        def leave() -> None:
            if subscription.homes.get(old) == old_key:
                self._unsubscribe_at(subscription, old, subscription.homes.pop(old))

        def flush() -> None:
            if subscription.homes.get(old) == old_key:
                self._probe(old, subscription.client, leave)

        # Where brokers on the way do not match, what was addressed before the publisher's broker heard of the new home
        # goes to the old one only: a second probe, from there, comes back after it.
        matched_once = any(p.strategy.matched_once for p in self._nodes[old].router.trees.values())
        self._probe(broker, subscription.client, flush if matched_once else leave)

    def _probe(self, broker: str, client: Link, then: Then) -> None:
        id = self._name("probe")
        self._waiting.setdefault((broker, client), {})[id] = then
        self._say(broker, client, Probe(id))

    def echoed(self, broker: str, client: Link, id: str) -> None:
        """Do what was waiting for the echo of a probe."""
        waiting = self._waiting.get((broker, client), {})
        then = waiting.pop(id, None)
        if then is not None:
            if not waiting:
                del self._waiting[broker, client]
            then()

    # -- at a broker -----------------------------------------------------------------------------------------

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
        held = self._held[broker]
        if client not in held:
            held[client] = 0
            self._say(broker, client, LinkUp(client=True))
        held[client] += 1

    def _detach(self, broker: str, client: Link) -> None:
        held = self._held[broker]
        held[client] -= 1
        if not held[client] and client != _producer(broker):
            del held[client]
            self._say(broker, client, LinkDown())
            for then in self._waiting.pop((broker, client), {}).values():
                then()  # it has gone on before it knew that it had arrived

    def _say(self, broker: str, client: Link, message: Message) -> None:
        generation = self._nodes[broker].generation
        self._engine.at(self._engine.now_s, self._arrive, broker, client, message, generation)

    def _arrive(self, broker: str, client: Link, message: Message, generation: int) -> None:
        node = self._nodes[broker]
        if node.is_up and generation == node.generation:  # else it was said to a broker that has crashed
            node.arrive(message, client)

    def come_back(self, broker: str) -> None:
        """Say again, to a broker that has lost everything, all that its clients hold there."""
        for client in self._held[broker]:
            self._say(broker, client, LinkUp(client=True))
        for ad in self.advertisements.values():
            if ad.broker == broker:
                self._say(broker, ad.client, Advertise(ad.key, ad.filter, ad.client))
        for subscription in self.subscriptions.values():
            if broker in subscription.homes:
                key = subscription.homes[broker]
                self._say(broker, subscription.client, Subscribe(key, subscription.filter))
        for client in self._held[broker]:
            for then in self._waiting.pop((broker, client), {}).values():
                self._probe(broker, client, then)  # under a new name: the old one may still be under way


def _producer(broker: str) -> Link:
    """Return the client that publishes at a broker when none is named; it stays connected."""
    return f"producer at {broker}"
