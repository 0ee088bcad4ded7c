"""Inbox: what has come and waits to be handled, taken in turns from all links.

A turn handles some frames, those of all links that have some together, and lets the event loop breathe, so that no
flood from one link starves the others or the timers. What waits is counted: beyond one bound the router is told that it
is congested (and holds back what can wait), beyond another the links that fill the inbox are not read until it is
emptier, and TCP slows their senders.

A link can be *blocked*: what it has sent waits, in its order, and is neither handled nor joined by more until it is
unblocked. That is how a full link with the policy `block` slows those who fill it, and nobody else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from covey.protocol.batches import size_of
from covey.protocol.connection import Connection

TURN: Final = 4_096  # frames that are handled before the loop runs again
HELD_AT: Final = 20_000  # frames of one link, beyond which it is not read
HELD_BYTES: Final = 32 << 20

FULL, BLOCKED = "full", "blocked"  # why a link is not read

Handle = Callable[[Sequence[tuple[Connection, Sequence[bytes]]]], None]


class _Waiting:
    """What one link has sent."""

    def __init__(self) -> None:
        self.chunks: deque[tuple[Sequence[bytes], int]] = deque()
        self.count = 0
        self.bytes = 0
        self.is_held = False
        self.is_due = False  # it is in the queue of turns

    @property
    def is_over(self) -> bool:
        return self.count > HELD_AT or self.bytes > HELD_BYTES

    @property
    def is_under(self) -> bool:
        return self.count <= HELD_AT // 2 and self.bytes <= HELD_BYTES // 2


class Inbox:
    """Frames by link, in the order of their arrival on each."""

    def __init__(
        self, handle: Handle, on_congestion: Callable[[bool], None], congested_at: int, calm_at: int
    ) -> None:
        self.congested_at, self.calm_at = congested_at, calm_at
        self._handle = handle
        self._on_congestion = on_congestion
        self._links: dict[Connection, _Waiting] = {}
        self._blocked: set[Connection] = set()
        self._due: deque[Connection] = deque()
        self._scheduled = False
        self.count = 0
        self.longest = 0
        self.is_congested = False

    def put(self, connection: Connection, frames: Sequence[bytes]) -> None:
        """Take frames of one link."""
        waiting = self._links.get(connection)
        if waiting is None:
            waiting = self._links[connection] = _Waiting()
        size = size_of(frames)
        waiting.chunks.append((frames, size))
        waiting.count += len(frames)
        waiting.bytes += size
        self.count += len(frames)
        self.longest = max(self.longest, self.count)
        if not waiting.is_held and waiting.is_over:
            waiting.is_held = True
            connection.hold(FULL)
        self._make_due(connection, waiting)

    def _make_due(self, connection: Connection, waiting: _Waiting) -> None:
        if not waiting.is_due and waiting.chunks and connection not in self._blocked:
            waiting.is_due = True
            self._due.append(connection)
        if self._due and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def block(self, connection: Connection) -> None:
        """Let what a link has sent wait, and read no more from it."""
        if connection not in self._blocked:
            self._blocked.add(connection)
            connection.hold(BLOCKED)

    def unblock(self, connection: Connection) -> None:
        """Handle again what a link has sent."""
        if connection in self._blocked:
            self._blocked.discard(connection)
            connection.go_on(BLOCKED)
            if connection in self._links:
                self._make_due(connection, self._links[connection])

    def waits(self, connection: Connection) -> bool:
        """Return whether anything of a link is not handled yet."""
        return connection in self._links and bool(self._links[connection].chunks)

    def forget(self, connection: Connection) -> None:
        """Drop what a link that is gone had sent and nobody has looked at."""
        waiting = self._links.pop(connection, None)
        if waiting is not None:
            self.count -= waiting.count
        self._blocked.discard(connection)

    def finish(self, connection: Connection) -> None:
        """Handle at once what a link that is gone had sent."""
        waiting = self._links.get(connection)
        chunks = [] if waiting is None else list(waiting.chunks)
        self.forget(connection)
        for frames, _ in chunks:
            self._handle([(connection, frames)])

    def _turn(self) -> None:
        self._scheduled = False
        self._note_congestion()
        handled = 0
        while self._due and handled < TURN:
            handled += self._round(TURN - handled)
        self._note_congestion()
        if self._due and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _round(self, most: int) -> int:
        """Handle what each of the links has sent that are due, until there are so many frames; return how many."""
        taken: list[tuple[Connection, Sequence[bytes]]] = []
        handled = 0
        for _ in range(len(self._due)):
            connection = self._due.popleft()
            waiting = self._links.get(connection)
            if waiting is None:
                continue  # it is gone
            waiting.is_due = False
            if connection in self._blocked or not waiting.chunks:
                continue
            frames, size = waiting.chunks.popleft()
            count = len(frames)
            self.count -= count
            waiting.count -= count
            waiting.bytes -= size
            if waiting.is_held and waiting.is_under:
                waiting.is_held = False
                connection.go_on(FULL)
            taken.append((connection, frames))
            handled += count
            if handled >= most:
                break
        if taken:
            self._handle(taken)
        for connection, _ in taken:
            waiting = self._links.get(connection)
            if waiting is not None:
                self._make_due(connection, waiting)
        return handled

    def _note_congestion(self) -> None:
        on = self.count > (self.calm_at if self.is_congested else self.congested_at)
        if on != self.is_congested:
            self.is_congested = on
            self._on_congestion(on)
