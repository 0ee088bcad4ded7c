"""The sending end of a link, and what the daemon remembers of a neighbour beside the router."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from covey.protocol.outbox import Verdict
from covey.routing.messages import Link


class Outlet(Protocol):
    """The sending end of a link; a `Connection` is one."""

    def send(self, kind: int, body: bytes, *, barrier: bool = False) -> None:
        """Send a control frame."""

    def send_events(self, chunk: bytes, count: int = 1) -> Verdict:
        """Send `count` whole frames with events."""

    def end(self, reason: str) -> None:
        """End the link; the peer is told why, and may come back."""


@dataclass
class Neighbour:
    """A broker to which a link is up."""

    link: Link
    outlet: Outlet
    incarnation: int = 0
    received: int = 0
    sent: int = 0
    is_leaving: bool = False  # it has said goodbye
