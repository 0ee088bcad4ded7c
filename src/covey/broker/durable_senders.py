"""Who sent confirmed events, and how they hear what became of them.

TAKEN says that events are on disk here, many in one frame: at the end of each turn, or when a frame is full. A client
is told of an event that is refused; a neighbour never is: its events wait.
"""

from __future__ import annotations

from covey.broker.durable_site import Site
from covey.routing.messages import Link
from covey.wire.confirming import MOST, Name, encode_taken
from covey.wire.frames import Kind


class Senders:
    """Clients and neighbours that wait to hear of their events; see the module's text."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._taken: dict[Link, list[Name]] = {}  # on disk, and its sender not told yet
        self._again: dict[Name, list[Link]] = {}  # who else has sent an event that is not on disk yet
        self.refused = 0

    def also(self, source: Link, name: Name) -> None:
        """Somebody has sent an event again that is on its way to the disk."""
        self._again.setdefault(name, []).append(source)

    def kept(self, source: Link, name: Name) -> None:
        """An event is on disk: all who have sent it are to hear that."""
        for sender in (source, *self._again.pop(name, ())):
            self.took(sender, name)

    def lost(self, name: Name) -> None:
        """An event cannot be kept: only its first sender is to hear of it."""
        self._again.pop(name, None)

    def took(self, source: Link, name: Name) -> None:
        """An event that somebody has sent is on disk."""
        names = self._taken.setdefault(source, [])
        names.append(name)
        if len(names) >= MOST:
            self._say_taken(source)

    def _say_taken(self, source: Link) -> None:
        names = self._taken.pop(source)
        peer = self._site.clients.get(source) or self._site.neighbours.get(source)
        if peer is not None:
            for body in encode_taken(names):
                peer.outlet.send(Kind.TAKEN, body)

    def flush(self) -> None:
        """Say what was taken."""
        for source in list(self._taken):
            self._say_taken(source)

    def refuse(self, source: Link, name: Name, reason: str) -> None:
        """Tell a client, if it is there, that its event is not kept."""
        self.refused += 1
        client = self._site.clients.get(source)
        if client is not None:
            client.refuse(name[1], reason)

    def gone(self, source: Link) -> None:
        """Somebody is not there any longer, and will send again what it has heard nothing of."""
        self._taken.pop(source, None)
