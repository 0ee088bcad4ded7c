"""Brokers without sockets: exchanges joined by queues, from which frames are taken in any order that links allow."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

from covey.broker.exchange import Exchange
from covey.broker.peers import Neighbour

import covey.strategies  # noqa: F401 (registers them)
from covey.broker.config import BrokerConfig
from covey.broker.epochs import Epochs, router_maker
from covey.broker.sessions import Session
from covey.core.filter import Filter
from covey.protocol.control import (
    AdvertiseRequest,
    FlushRequest,
    Reply,
    SubscribeRequest,
    UnsubscribeRequest,
    decode_reply,
    encode,
)
from covey.protocol.events import delivery_of, encode_content, encode_event, envelope_of, link_of
from covey.protocol.frames import Kind, Splitter
from covey.protocol.outbox import Bounds, Lanes, Verdict

BIG = 1 << 26


class QueueOutlet:
    """The sending end of a link, with the lanes that a real one has."""

    def __init__(self) -> None:
        self.lanes = Lanes(Bounds())
        self._splitter = Splitter(BIG)

    def send(self, kind: int, body: bytes, *, barrier: bool = False) -> None:
        head = (len(body) + 1).to_bytes(4, "little") + bytes((kind,))
        self.lanes.put_control(head + body, barrier=barrier)

    def send_events(self, chunk: bytes, count: int = 1) -> Verdict:
        return self.lanes.put_events(chunk, count)

    def end(self, reason: str) -> None:
        raise AssertionError(f"nobody ends a link here: {reason}")

    def take(self) -> list[bytes]:
        """Return the frames of the next chunk."""
        return [one for chunk in self.lanes.take(1) for one in self._splitter.feed(chunk)]


@dataclass
class Attached:
    """A client of one broker: what it was delivered, as (sid, publisher, number)."""

    mesh: Mesh
    broker: str
    client: Session
    outlet: QueueOutlet
    number: int
    published: int = 0
    requests: int = 0
    sids: int = 0
    delivered: list[tuple[int, int, int]] = field(default_factory=list)
    replies: dict[int, Reply] = field(default_factory=dict)

    def _ask(self, kind: Any, *values: Any) -> int:
        self.requests += 1
        body = encode(kind(self.requests, *values))
        self.mesh.exchanges[self.broker].from_client(self.client, [bytes((Kind.REQUEST,)) + body])
        return self.requests

    def subscribe(self, filter: Filter) -> int:
        self.sids += 1
        self._ask(SubscribeRequest, self.sids, filter.encode())
        return self.sids

    def unsubscribe(self, sid: int) -> None:
        self._ask(UnsubscribeRequest, sid)

    def advertise(self, filter: Filter) -> None:
        self._ask(AdvertiseRequest, self.requests + 1, filter.encode())

    def flush(self) -> int:
        return self._ask(FlushRequest)

    def publish(self, content: Any) -> int:
        self.published += 1
        family, data = encode_content(content)
        one = encode_event(data, b"", family=family, publisher=self.number, number=self.published)
        self.mesh.exchanges[self.broker].from_client(self.client, [one])
        return self.published

    def receive(self) -> None:
        while self.outlet.lanes:
            for one in self.outlet.take():
                if one[0] == Kind.REPLY:
                    reply = decode_reply(memoryview(one)[1:])
                    self.replies[reply.request] = reply
                else:
                    delivery = delivery_of(one)
                    envelope = envelope_of(delivery.event)
                    self.delivered += [(sid, envelope.publisher, envelope.number) for sid in delivery.sids]


class Mesh:
    """An overlay of exchanges; `step` moves one chunk over some link."""

    make_outlet: type[QueueOutlet] = QueueOutlet

    def __init__(
        self, links: list[tuple[str, str]], on_tree: list[tuple[str, str]], strategy: str, seed: int
    ) -> None:
        self.random = random.Random(seed)
        self.now_s = 0.0
        names = sorted({end for link in links for end in link})
        self.exchanges = {name: self._exchange(name, strategy) for name in names}
        self.outlets: dict[tuple[str, str], QueueOutlet] = {}
        self.neighbours: dict[tuple[str, str], Neighbour] = {}
        self.numbers = 0
        self.clients: list[Attached] = []
        self.seen: dict[str, deque[str]] = defaultdict(deque)
        for a, b in links:
            for here, there in ((a, b), (b, a)):
                outlet = self.outlets[here, there] = self.make_outlet()
                self.neighbours[here, there] = Neighbour(there, outlet)
            self.connect(a, b, (a, b) in on_tree)

    def _exchange(self, name: str, strategy: str) -> Exchange:
        return Exchange(Epochs(router_maker(BrokerConfig(name, strategy=strategy))))

    def connect(self, a: str, b: str, on_tree: bool) -> None:
        for here, there in ((a, b), (b, a)):
            self.exchanges[here].links.connected(self.neighbours[here, there])
            if on_tree:
                self.exchanges[here].links.up(self.neighbours[here, there])

    def disconnect(self, a: str, b: str) -> None:
        """Cut a link for good, and lose what is on it."""
        for here, there in ((a, b), (b, a)):
            exchange = self.exchanges[here]
            exchange.links.disconnected(there)
            exchange.links.down(there)
            exchange.links.given_up(there)
            self.outlets[here, there].lanes = Lanes(Bounds())

    def client(self, broker: str) -> Attached:
        self.numbers += 1
        outlet = QueueOutlet()
        client = Session(link_of(self.numbers), self.numbers, outlet)
        self.exchanges[broker].client_up(client)
        attached = Attached(self, broker, client, outlet, self.numbers)
        self.clients.append(attached)
        return attached

    def step(self) -> bool:
        """Move one chunk; return whether there was one."""
        busy = [pair for pair, outlet in self.outlets.items() if outlet.lanes]
        if not busy:
            return False
        here, there = self.random.choice(busy)
        self.now_s += 0.001
        self.exchanges[there].now_s = self.now_s
        frames = self.outlets[here, there].take()
        self.exchanges[there].from_neighbour(self.neighbours[there, here], frames)
        return True

    def settle(self) -> None:
        while self.step():
            pass
        for client in self.clients:
            client.receive()

    def pass_time(self, span_s: float) -> None:
        self.now_s += span_s
        for exchange in self.exchanges.values():
            exchange.now_s = self.now_s
            exchange.tick()
