"""Brokers in line with simulated disks, and publishers of confirmed events, which have topics."""

from __future__ import annotations

from itertools import pairwise

from tests.oracles.cores import Client, Cores, Machine

from covey.broker.neighbours import pair
from covey.core.families import parse
from covey.protocol.events import Name, envelope_of


class Publisher(Client):
    """A client that publishes confirmed events."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.topics: dict[int, int] = {}  # that it advertises, by the number of the advertisement

    def advertise_topic(self, topic: int) -> None:
        """Advertise a topic."""
        self.topics[self.advertise(parse(f"topic = {topic}"))] = topic

    def unadvertise_topic(self) -> None:
        """Withdraw the oldest of its advertisements."""
        aid = next(iter(self.topics))
        del self.topics[aid]
        self.unadvertise(aid)

    def publish_topic(self, topic: int) -> Name:
        """Return the name of a confirmed event."""
        return self.number, self.publish({"topic": topic}, confirmed=True)


class Line(Cores):
    """Brokers in line, named by letters; what was `confirmed` to anybody must be in the queues that want it."""

    def __init__(self, names: str, seed: object) -> None:
        self.names = names
        self.publishers: list[Publisher] = []
        self.confirmed: set[Name] = set()
        links = {pair(a, b): 0 for a, b in pairwise(names)}
        super().__init__(links, names=names, seed=seed, has_disks=True, step_s=0.1)

    def publisher(self, broker: str) -> Publisher:
        """Return a new publisher."""
        client = Publisher(self.machines[broker])
        self.publishers.append(client)
        return client

    def step(self, *, works: bool = True) -> bool:
        """Let one thing happen; note what is confirmed."""
        has_happened = super().step(works=works)
        for client in self.publishers:
            self.confirmed.update(client.taken)
            client.taken.clear()
        return has_happened

    def kill(self, name: str) -> None:
        """End a broker, and with it the publishers there."""
        super().kill(name)
        self.publishers = [client for client in self.publishers if client.broker != name]

    def queue(self, broker: str) -> set[Name]:
        """Return what waits on disk for the durable subscription at a broker."""
        disk = self.machines[broker].disk
        found: set[Name] = set()
        for id, owner in disk.owners.items():
            if owner.kind == "subscription":
                for one in disk.queues.get(id, {}).values():
                    envelope = envelope_of(one.frame)
                    found.add((envelope.publisher, envelope.number))
        return found
