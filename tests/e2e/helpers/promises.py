"""The promises of docs/delivery.md, judged from outside: by what publishers were told and subscribers got.

Every event says who published it and its number there (`source`, `n`), and its content and payload follow from these.

    nothing confirmed is lost      every durable subscription gets every confirmed event that it asks for, of those that
                                   were published since it was in force (`missing`)
    nothing differs                content and payload are those that were published, by their digest
    order                          a subscription gets the confirmed events of a publisher in the order of publication,
                                   apart from repetitions; others, too, of a publisher that works while nothing breaks
    nothing unasked                no event that the filter does not match, and none that nobody has published
    at most once                   an ordinary subscription gets an event that is not confirmed once, or not at all

The checker knows nothing of brokers. What a publisher sent when its client was killed, or moved to another broker, is
that of another publisher.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from typing import Any

from covey.core.families import parse
from covey.core.filter import Filter
from covey.core.packing import pack

Name = tuple[str, int]  # an event's publisher, and its number there

CONFIRMED, PLAIN = "confirmed", "plain"
VALUES = 10


def digest(content: Any, data: bytes) -> bytes:
    """Return what tells an event from every other."""
    return blake2b(data, digest_size=16, key=blake2b(pack(dict(content)), digest_size=32).digest()).digest()


@dataclass
class Published:
    """What one publisher has published."""

    name: str
    kind: str
    is_ordered: bool = True  # whether its order is promised
    digests: list[bytes] = field(default_factory=list)  # of events 1, 2, …
    contents: list[dict[str, Any]] = field(default_factory=list)
    confirmed: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)

    def next(self) -> tuple[dict[str, Any], bytes]:
        """Return the next event to publish."""
        n = len(self.digests) + 1
        random = Random(f"{self.name} {n}")
        content = {"source": self.name, "n": n, "kind": self.kind, "x": random.randrange(VALUES)}
        data = random.randbytes(random.choice((0, 10, 100, 100, 2_000)))
        self.digests.append(digest(content, data))
        self.contents.append(content)
        return content, data

    @property
    def last(self) -> int:
        """The number of the last event."""
        return len(self.digests)


@dataclass
class Received:
    """What one subscription has got. It is owed what was published after `since`, if that is known."""

    name: str
    filter: Filter
    is_durable: bool
    got: Counter[Name] = field(default_factory=Counter)
    order: dict[str, list[int]] = field(default_factory=dict)  # by publisher, each number once
    since: dict[str, int] | None = None

    def asks_for(self, content: dict[str, Any]) -> bool:
        """Return whether an event is one of its own."""
        return self.filter.matches(content)


class Promises:
    """Who has published what, and who has got what; see the module's text."""

    def __init__(self) -> None:
        self.publishers: dict[str, Published] = {}
        self.subscriptions: dict[str, Received] = {}
        self.wrong: list[str] = []  # deliveries that should not have been

    def publisher(self, name: str, kind: str = CONFIRMED, *, is_ordered: bool = True) -> Published:
        """Note a new publisher."""
        assert name not in self.publishers
        one = self.publishers[name] = Published(name, kind, is_ordered)
        return one

    def subscription(self, name: str, filter: str, *, is_durable: bool = True) -> Received:
        """Note a new subscription."""
        assert name not in self.subscriptions
        one = self.subscriptions[name] = Received(name, parse(filter), is_durable)
        return one

    def in_force(self, subscription: Received) -> None:
        """Note that a subscription has been flushed: what is published from now on is due to it."""
        subscription.since = {name: one.last for name, one in self.publishers.items()}

    def deliver(self, subscription: Received, event: Any) -> Name:
        """Note a delivery; return the event's name."""
        content = dict(event.content)
        source, n = name = (content.get("source", "?"), content.get("n", 0))
        publisher = self.publishers.get(source)
        if publisher is None or not 1 <= n <= publisher.last:
            self.wrong.append(f"{subscription.name} got {name}, which nobody has published")
            return name
        if digest(content, event.data) != publisher.digests[n - 1]:
            self.wrong.append(f"{subscription.name} got {name} with another content or payload")
        if not subscription.asks_for(content):
            self.wrong.append(
                f"{subscription.name} ({subscription.filter}) got {name} and did not ask for it"
            )
        order = subscription.order.setdefault(source, [])
        if name not in subscription.got:
            if publisher.is_ordered and order and order[-1] > n:
                self.wrong.append(f"{subscription.name} got {name} after {order[-1]}")
            order.append(n)
        elif not subscription.is_durable and publisher.kind == PLAIN:
            self.wrong.append(f"{subscription.name} got {name} twice")
        subscription.got[name] += 1
        return name

    def due(self, subscription: Received) -> set[Name]:
        """Return the confirmed events that a durable subscription must get."""
        if not subscription.is_durable or subscription.since is None:
            return set()
        return {
            (name, n)
            for name, publisher in self.publishers.items()
            for n in publisher.confirmed
            if n > subscription.since.get(name, 0) and subscription.asks_for(publisher.contents[n - 1])
        }

    def missing(self) -> dict[str, list[Name]]:
        """Return what each durable subscription has yet to get."""
        lacking = {name: sorted(self.due(one) - one.got.keys()) for name, one in self.subscriptions.items()}
        return {name: some for name, some in lacking.items() if some}

    @property
    def confirmed(self) -> int:
        """How many events were confirmed."""
        return sum(len(one.confirmed) for one in self.publishers.values())

    @property
    def delivered(self) -> int:
        """How many deliveries there were, repetitions counted."""
        return sum(one.got.total() for one in self.subscriptions.values())

    def check(self, *, whole: bool = True) -> None:
        """Complain about anything that was promised and is not so; without `whole`, not about what is missing."""
        assert not self.wrong, f"{len(self.wrong)} wrong deliveries: {self.wrong[:5]}"
        if whole:
            missing = {name: (len(some), some[:5]) for name, some in self.missing().items()}
            assert not missing, f"confirmed and not delivered: {missing}"
