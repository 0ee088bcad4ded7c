"""Tally: what links that are gone had counted, so that a broker's totals never go back."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import Final

from covey.broker.peers import Client, Neighbour
from covey.wire.connection import Connection

REMEMBERED: Final = 100  # links that ended, with the reasons

CLIENT_COUNTS: Final = ("published", "delivered", "refused")
NEIGHBOUR_COUNTS: Final = ("received", "sent")
CONNECTION_COUNTS: Final = ("received_bytes", "sent_bytes", "dropped")


@dataclass(frozen=True)
class Ended:
    """A link that is gone."""

    link: str
    name: str
    peer: str
    reason: str
    at_s: float


class Tally:
    """Sums over links that are gone: of all clients together, of each neighbour."""

    def __init__(self) -> None:
        self.clients: Counter[str] = Counter()
        self.neighbours: dict[str, Counter[str]] = {}
        self.connections = 0
        self.ended: deque[Ended] = deque(maxlen=REMEMBERED)

    def gone(
        self, peer: Client | Neighbour | None, connection: Connection, reason: str, now_s: float
    ) -> None:
        """Add what a link had counted until its end."""
        counts = counts_of(connection)
        if isinstance(peer, Client):
            self.clients.update(counts)
            self.clients.update({name: getattr(peer, name) for name in CLIENT_COUNTS})
        elif isinstance(peer, Neighbour):
            known = self.neighbours.setdefault(peer.link, Counter())
            known.update(counts)
            known.update({name: getattr(peer, name) for name in NEIGHBOUR_COUNTS})
        if peer is not None:
            name = peer.permissions.name if isinstance(peer, Client) else peer.link
            self.ended.append(Ended(peer.link, name, connection.peer, reason, now_s))


def counts_of(connection: Connection) -> dict[str, int]:
    """Return what a connection counts."""
    return {
        "received_bytes": connection.received_bytes,
        "sent_bytes": connection.sent_bytes,
        "dropped": connection.lanes.dropped,
    }
