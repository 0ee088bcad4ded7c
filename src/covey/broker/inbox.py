"""Inbox: what has come and waits to be handled, taken in turns from all links.

A turn handles some frames and lets the event loop breathe, so that no flood from one link starves the others or the
timers. What waits is counted: beyond one bound the router is told that it is congested (and holds back what can wait),
beyond another the links that fill the inbox are not read until it is emptier, and TCP slows their senders.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from covey.wire.connection import Connection

TURN: Final = 4_096  # frames that are handled before the loop runs again
HELD_AT: Final = 20_000  # frames of one link, beyond which it is not read

Handle = Callable[[Connection, Sequence[bytes]], None]


class Inbox:
    """Frames by link, in the order of their arrival."""

    def __init__(
        self, handle: Handle, on_congestion: Callable[[bool], None], congested_at: int, calm_at: int
    ) -> None:
        self._handle = handle
        self._on_congestion = on_congestion
        self._congested_at, self._calm_at = congested_at, calm_at
        self._waiting: deque[tuple[Connection, Sequence[bytes]]] = deque()
        self._of_link: dict[Connection, int] = {}
        self._held: set[Connection] = set()
        self._scheduled = False
        self.count = 0
        self.longest = 0
        self.is_congested = False

    def put(self, connection: Connection, frames: Sequence[bytes]) -> None:
        """Take frames of one link."""
        self._waiting.append((connection, frames))
        self.count += len(frames)
        self.longest = max(self.longest, self.count)
        mine = self._of_link.get(connection, 0) + len(frames)
        self._of_link[connection] = mine
        if mine > HELD_AT and connection not in self._held:
            self._held.add(connection)
            connection.hold()
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def forget(self, connection: Connection) -> None:
        """Drop what a link that is gone had sent and nobody has looked at."""
        mine = self._of_link.pop(connection, 0)
        if mine:
            self._waiting = deque(item for item in self._waiting if item[0] is not connection)
            self.count -= mine
        self._held.discard(connection)

    def finish(self, connection: Connection) -> None:
        """Handle at once what a link that is gone had sent."""
        if not self._of_link.get(connection):
            self._of_link.pop(connection, None)
            return
        mine = [frames for other, frames in self._waiting if other is connection]
        self.forget(connection)
        for frames in mine:
            self._handle(connection, frames)

    def _turn(self) -> None:
        self._scheduled = False
        self._note_congestion()
        handled = 0
        while self._waiting and handled < TURN:
            connection, frames = self._waiting.popleft()
            count = len(frames)
            handled += count
            self.count -= count
            mine = self._of_link[connection] - count
            self._of_link[connection] = mine
            if connection in self._held and mine <= HELD_AT // 2:
                self._held.discard(connection)
                connection.go_on()
            self._handle(connection, frames)
        self._note_congestion()
        if self._waiting:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _note_congestion(self) -> None:
        on = self.count > (self._calm_at if self.is_congested else self._congested_at)
        if on != self.is_congested:
            self.is_congested = on
            self._on_congestion(on)
