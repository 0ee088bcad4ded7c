"""Pending: events that have come for a subscription and that its program has not taken yet, within limits.

Whoever takes waits until something is there or the end has come; several may take at once, each event goes to one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from covey.client.options import DROP_NEW, ERROR, Limits
from covey.client.received import Received
from covey.errors import SlowError

TURN: Final = 512  # events that are taken in a row before others get a turn of the loop


class Pending:
    """A bounded queue of events; see the module's text."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._events: deque[Received] = deque()
        self._size = 0
        self._waiters: list[asyncio.Future[None]] = []
        self._in_a_row = 0
        self.has_ended = False
        self.error: Exception | None = None  # why it has ended, if that was not the program's wish
        self.received = 0
        self.dropped = 0
        self.longest = 0

    def __len__(self) -> int:
        return len(self._events)

    @property
    def size(self) -> int:
        """How many bytes wait."""
        return self._size

    # -- coming in -------------------------------------------------------------------------------------------

    def put(self, events: list[Received], size: int) -> bool:
        """Take events of `size` bytes altogether; return whether some were dropped."""
        if self.has_ended:
            return False
        self.received += len(events)
        limits = self.limits
        slow = len(self._events) + len(events) > limits.events or self._size + size > limits.bytes
        if slow:
            self._put_bounded(events)
        else:
            self._events.extend(events)
            self._size += size
        if len(self._events) > self.longest:
            self.longest = len(self._events)
        if self._waiters:
            self._wake()
        return slow

    def _put_bounded(self, events: list[Received]) -> None:
        limits, waiting = self.limits, self._events
        for at, event in enumerate(events):
            while len(waiting) >= limits.events or self._size + event.size > limits.bytes:
                if limits.policy in (DROP_NEW, ERROR) or not waiting:
                    self.dropped += 1
                    break
                self._size -= waiting.popleft().size
                self.dropped += 1
            else:
                waiting.append(event)
                self._size += event.size
                continue
            if limits.policy == ERROR:
                self.dropped += len(events) - at - 1
                self.end(SlowError(f"{len(waiting):,} events wait for the program, and more have come"))
                return

    def end(self, error: Exception | None = None) -> None:
        """Nothing more will come; what waits can still be taken, then the error is raised, if there is one."""
        if not self.has_ended:
            self.has_ended = True
            self.error = error
            self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- going out -------------------------------------------------------------------------------------------

    def can_take_now(self) -> bool:
        """Return whether an event is there and it is not another's turn of the loop."""
        if self._events and self._in_a_row < TURN:
            self._in_a_row += 1
            return True
        self._in_a_row = 0
        return False

    async def wait(self) -> bool:
        """Return True when an event is there, False when none will come any more; raise why, if that is an error."""
        if not self.can_take_now() and self._events:
            await asyncio.sleep(0)
        while not self._events:
            if self.has_ended:
                if self.error is not None:
                    raise self.error
                return False
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        return True

    def take(self) -> Received:
        """Return the event that came first; there is one."""
        event = self._events.popleft()
        self._size -= len(event._frame)
        return event

    def take_many(self, limit: int) -> list[Received]:
        """Return at most `limit` events, in order."""
        events = self._events
        if len(events) <= limit:
            taken = list(events)
            events.clear()
            self._size = 0
        else:
            taken = [events.popleft() for _ in range(limit)]
            self._size -= sum(event.size for event in taken)
        return taken
