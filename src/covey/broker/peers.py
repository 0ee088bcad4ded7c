"""Clients that are attached, and what the daemon remembers of each beside the router."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from covey.broker.permissions import EVERYTHING, Permissions
from covey.protocol.control import Reply, encode
from covey.protocol.frames import Kind
from covey.protocol.outbox import Verdict
from covey.routing.messages import Key, Link


class Outlet(Protocol):
    """The sending end of a link; a `Connection` is one, and a `Stream`."""

    def send(self, kind: int, body: bytes, *, barrier: bool = False) -> None:
        """Send a control frame."""

    def send_events(self, chunk: bytes, count: int = 1) -> Verdict:
        """Send `count` whole frames with events."""

    def end(self, reason: str) -> None:
        """End the link; the peer is told why, and may come back."""


@dataclass
class Client:
    """A client that is attached here."""

    link: Link
    number: int  # that it writes on its events
    outlet: Outlet
    permissions: Permissions = EVERYTHING
    name: str = ""  # that it has given itself; durable subscriptions are found by it
    keys: dict[int, Key] = field(default_factory=dict)  # of its subscriptions
    advertised: dict[int, Key] = field(default_factory=dict)
    last_sid: int = 0
    replaced: int = 0
    flushes: dict[str, int] = field(default_factory=dict)  # requests, by the probe that answers them
    published: int = 0
    delivered: int = 0
    refused: int = 0

    def key_of(self, sid: int) -> Key:
        """Return a new key for a subscription; after its filter was replaced it has another one."""
        again = f"-{self.replaced:x}" if sid in self.keys else ""
        return f"{self.link}/{sid:x}{again}"

    def sid_of(self, key: Key) -> int | None:
        """Return the number of the subscription that has the key now, None if there is none."""
        number = key[len(self.link) + 1 :].partition("-")[0]
        try:
            sid = int(number, 16)
        except ValueError:
            return None
        return sid if self.keys.get(sid) == key else None

    def refuse(self, event: int, reason: str) -> None:
        """Tell it that an event of its own is not taken."""
        self.refused += 1
        self.outlet.send(Kind.REPLY, encode(Reply(0, reason, event)))
