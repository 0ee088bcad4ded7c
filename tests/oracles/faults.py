"""Brokers in line without sockets and with a simulated disk, and what can happen to them: hangs, lost links, kills.

Wires deliver in order, whenever they like, and the disk commits when it likes. A broker that hangs does nothing while
the others go on, and notices only afterwards which of its links are lost. A broker that is killed comes back with what
was committed. The order is drawn from one seed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import Any

from covey.broker.exchange import Exchange
from covey.broker.links import Links
from covey.broker.peers import Neighbour
from tests.oracles.disk import Disk, SimulatedLog

import covey.strategies  # noqa: F401 (registers them)
from covey.broker.config import LinkConfig
from covey.broker.durable.delivery import Durable
from covey.broker.epochs import Epochs
from covey.broker.overlay import Overlay, Pair, pair
from covey.broker.sessions import Session
from covey.core.families import parse
from covey.protocol.control import AdvertiseRequest, SubscribeRequest, UnadvertiseRequest, encode
from covey.protocol.events import KEPT, Name, decode_taken, encode_content, encode_event, envelope_of, link_of
from covey.protocol.frames import Kind
from covey.protocol.outbox import Verdict
from covey.routing.router import Router


class Wire:
    """One direction of one connection."""

    def __init__(self) -> None:
        self.frames: deque[bytes] = deque()

    def send(self, kind: int, body: bytes, *, barrier: bool = False) -> None:
        self.frames.append(bytes([kind]) + body)

    def send_events(self, chunk: bytes, count: int = 1) -> Verdict:
        return Verdict.TAKEN

    def end(self, reason: str) -> None:
        raise AssertionError(f"nobody ends a link here: {reason}")


class Node:
    """One broker without its sockets."""

    def __init__(
        self, name: str, neighbours: Sequence[str], disk: Disk, incarnation: int, now_s: float
    ) -> None:
        self.name = name
        self.exchange = Exchange(Epochs(lambda plan: Router(name)))
        self.exchange.now_s = now_s
        self.exchange.wall_s = 1e9
        self.log = SimulatedLog(disk)
        self.durable = self.exchange.durable = Durable(self.exchange.epochs, self.log.open(), incarnation)
        self.exchange.ask_log = lambda asked: self.log.submit([asked])
        self.exchange.perform(self.durable.load())
        self.timers: list[Callable[[], None]] = []
        overlay = Overlay(name, incarnation << 20)
        configs = [LinkConfig(other) for other in neighbours]
        self.links = Links(self.exchange, overlay, configs, lambda _, call: self.timers.append(call))
        self.is_hung = False
        self.lost: list[str] = []  # neighbours whose links it has yet to miss

    def commit(self) -> None:
        """Let the log answer."""
        self.exchange.log_answered(self.log.step())

    def tick(self) -> None:
        """Let time pass."""
        self.exchange.perform(self.durable.tick(self.exchange.now_s, self.exchange.wall_s))


class Attached:
    """A client of one broker: it asks and publishes confirmed events, and reads nothing but what was taken."""

    def __init__(self, node: Node, number: int, name: str = "") -> None:
        self.node, self.number = node, number
        self.outlet = Wire()
        self.client = Session(link_of(number), number, self.outlet, name=name)
        self.asked = self.published = 0
        self.topics: dict[int, int] = {}  # that it advertises, by the number of the request
        node.exchange.client_up(self.client)

    def ask(self, kind: type, *values: Any) -> int:
        self.asked += 1
        body = encode(kind(self.asked, *values))
        self.node.exchange.from_client(self.client, [bytes([Kind.REQUEST]) + body])
        return self.asked

    def advertise(self, topic: int) -> None:
        aid = self.asked + 1
        self.topics[aid] = topic
        self.ask(AdvertiseRequest, aid, parse(f"topic = {topic}").encode())

    def unadvertise(self) -> None:
        aid = next(iter(self.topics))
        del self.topics[aid]
        self.ask(UnadvertiseRequest, aid)

    def subscribe(self, filter: str) -> None:
        self.ask(SubscribeRequest, self.asked + 1, parse(filter).encode(), "all")

    def publish(self, topic: int) -> Name:
        self.published += 1
        family, data = encode_content({"topic": topic})
        name = (self.number, self.published)
        one = encode_event(data, b"", family=family, publisher=name[0], number=name[1], flags=KEPT)
        self.node.exchange.from_client(self.client, [one])
        return name

    def taken(self) -> list[Name]:
        """Return what was confirmed since it was asked last."""
        frames = list(self.outlet.frames)
        self.outlet.frames.clear()
        return [name for one in frames if one[0] == Kind.TAKEN for name in decode_taken(one[1:])]


class Line:
    """Brokers in line, and what happens to them."""

    def __init__(self, names: str, seed: object) -> None:
        self.random = Random(f"{seed}")
        self.names = names
        self.pairs: list[Pair] = [pair(a, b) for a, b in pairwise(names)]
        self.disks = {name: Disk() for name in names}
        self.nodes: dict[str, Node] = {}  # that are alive
        self.wires: dict[tuple[str, str], Wire] = {}
        self.peers: dict[tuple[str, str], Neighbour] = {}
        self.clients: list[Attached] = []
        self.confirmed: set[Name] = set()
        self.now_s = 0.0
        self._numbers = 0
        for name in names:
            self.start(name)
        for link in self.pairs:
            self.connect(link)
        self.settle()

    # -- faults ----------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        self._numbers += 1
        neighbours = [b if a == name else a for a, b in self.pairs if name in (a, b)]
        self.nodes[name] = Node(name, neighbours, self.disks[name], self._numbers, self.now_s)

    def kill(self, name: str) -> None:
        node = self.nodes.pop(name)
        self.clients = [client for client in self.clients if client.node is not node]
        for link in self.pairs:
            if name in link and link in self.wires:
                self.lose(link)

    def lose(self, link: Pair) -> None:
        """A link is lost, with all that is under way on it; whoever hangs misses it later."""
        for here, there in (link, link[::-1]):
            del self.wires[here, there], self.peers[here, there]
        for here, there in (link, link[::-1]):
            node = self.nodes.get(here)
            if node is not None and node.is_hung:
                node.lost.append(there)
            elif node is not None:
                node.links.disconnected(there)

    def go_on(self, name: str) -> None:
        """A broker that hung goes on."""
        node = self.nodes[name]
        node.is_hung = False
        for other in node.lost:
            node.links.disconnected(other)
        node.lost.clear()

    def connect(self, link: Pair) -> None:
        """A link comes up, if it can."""
        if link in self.wires or any(end not in self.nodes or self.nodes[end].is_hung for end in link):
            return
        for here, there in (link, link[::-1]):
            self.wires[here, there] = Wire()
            self.peers[here, there] = Neighbour(there, self.wires[here, there])
        for here, there in (link, link[::-1]):
            self.nodes[here].links.connected(self.peers[here, there])

    def heal(self) -> None:
        """All brokers run, all links are up, all disks have room, and all that was under way arrives."""
        for disk in self.disks.values():
            disk.is_full = False
        for name in self.names:
            if name not in self.nodes:
                self.start(name)
            self.go_on(name)
        for link in self.pairs:
            self.connect(link)
        for _ in range(3):
            self.settle()
            for node in self.nodes.values():
                node.tick()
        self.settle()

    # -- clients ---------------------------------------------------------------------------------------------

    def client(self, broker: str, name: str = "") -> Attached:
        self._numbers += 1
        client = Attached(self.nodes[broker], self._numbers, name)
        self.clients.append(client)
        return client

    def queue(self, broker: str) -> set[Name]:
        """Return what waits on disk for the durable subscription at a broker."""
        found: set[Name] = set()
        disk = self.disks[broker]
        for id, owner in disk.owners.items():
            if owner.kind == "subscription":
                for one in disk.queues.get(id, {}).values():
                    envelope = envelope_of(one)
                    found.add((envelope.publisher, envelope.number))
        return found

    # -- time ------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Let one frame arrive, one timer ring or one disk commit; return whether there was any."""
        awake = {name: node for name, node in self.nodes.items() if not node.is_hung}
        steps: list[Callable[[], None]] = [
            lambda ends=ends: self.arrive(*ends)  # type: ignore[misc]
            for ends, wire in self.wires.items()
            if wire.frames and ends[1] in awake
        ]
        for node in awake.values():
            steps += [node.commit] if node.log.waiting else []
            steps += [lambda node=node: node.timers.pop(0)()] if node.timers else []  # type: ignore[misc]
        if not steps:
            return False
        self.now_s += 0.1
        for node in awake.values():
            node.exchange.now_s = self.now_s
        self.random.choice(steps)()
        for client in self.clients:
            self.confirmed.update(client.taken())
        return True

    def arrive(self, sender: str, receiver: str) -> None:
        """Let the next frame of a wire arrive."""
        one = self.wires[sender, receiver].frames.popleft()
        node, peer = self.nodes[receiver], self.peers[receiver, sender]
        if one[0] == Kind.OVERLAY:
            node.links.received(sender, memoryview(one)[1:])
        else:
            node.exchange.from_neighbour(peer, [one])
        node.exchange.perform(node.durable.flush())

    def settle(self) -> None:
        for _ in range(100_000):
            if not self.step():
                return
        raise AssertionError("it does not come to rest")
