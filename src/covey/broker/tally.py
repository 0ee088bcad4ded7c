"""Tally: what connections that are gone had counted, so that a broker's totals never go back."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import Final

from covey.protocol.connection import Connection

REMEMBERED: Final = 100  # connections that ended, with the reasons


@dataclass(frozen=True)
class Ended:
    """A connection that is gone."""

    link: str
    name: str  # for people
    peer: str
    reason: str
    at_s: float


class Tally:
    """Sums over connections that are gone: of all clients together, of each neighbour."""

    def __init__(self) -> None:
        self.clients: Counter[str] = Counter()
        self.neighbours: dict[str, Counter[str]] = {}
        self.connections = 0  # that were opened
        self.ended: deque[Ended] = deque(maxlen=REMEMBERED)

    def client_gone(self, connection: Connection, counts: dict[str, int], ended: Ended) -> None:
        """Add what the connection of a client, and its session, had counted."""
        self.clients.update(counts_of(connection))
        self.clients.update(counts)
        self.ended.append(ended)

    def neighbour_gone(self, connection: Connection, counts: dict[str, int], ended: Ended) -> None:
        """Add what the connection of a neighbour had counted."""
        known = self.neighbours.setdefault(ended.link, Counter())
        known.update(counts_of(connection))
        known.update(counts)
        self.ended.append(ended)


def counts_of(connection: Connection) -> dict[str, int]:
    """Return what a connection counts."""
    return {
        "received_bytes": connection.received_bytes,
        "sent_bytes": connection.sent_bytes,
        "dropped": connection.outbox.dropped,
    }
