"""Outlet: the sending half of a connection, as the parts of a broker see it."""

from __future__ import annotations

from typing import Protocol

from covey.protocol.outbox import Verdict


class Outlet(Protocol):
    """The sending half of a connection; a `Connection` is one."""

    def send(self, kind: int, body: bytes, *, barrier: bool = False) -> None:
        """Send a control frame; with `barrier` it waits for all events that were sent before."""

    def send_events(self, chunk: bytes, count: int = 1) -> Verdict:
        """Send `count` whole frames with events."""
