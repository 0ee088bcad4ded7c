"""Subscription: events that match a filter, for a program to take.

    async with client.subscribe("price > 10") as events:      it begins here
        async for event in events: ...
                                                               it ends here

    subscription = await client.subscribe("price > 10", callback=handle)
    ...
    await subscription.unsubscribe()

It outlives broken links: the client restores it. Then events that were published meanwhile are missing, unless it is
durable.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, TypeAlias

from covey.client.options import Limits
from covey.client.pending import Pending
from covey.client.received import Received
from covey.core.filter import Filter
from covey.errors import CoveyError, TimedOutError

if TYPE_CHECKING:
    from covey.client.interests import Interests

Callback: TypeAlias = Callable[[Received], Awaitable[Any] | Any]


class Subscription:
    """Events that match a filter: awaitable, an async context manager and an async iterator."""

    def __init__(
        self,
        interests: Interests,
        filter: Filter,
        *,
        durable: str = "",
        callback: Callback | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._interests = interests
        self._callback = callback
        self._task: asyncio.Task[None] | None = None
        self._has_begun = False
        self._is_slow = False
        self.pending = Pending(limits or Limits())
        self.filter = filter
        self.durable = durable
        self.sid = 0  # its number on the link, once it has one

    # -- life ------------------------------------------------------------------------------------------------

    def __await__(self) -> Generator[Any, None, Subscription]:
        return self._begin().__await__()

    async def __aenter__(self) -> Subscription:
        return await self._begin()

    async def __aexit__(self, *error: object) -> None:
        await self._end_callback()
        await self.unsubscribe()

    async def _begin(self) -> Subscription:
        if self._has_begun:
            raise CoveyError("a subscription begins once (hint: subscribe again)")
        self._has_begun = True
        await self._interests.subscribe(self)
        if self._callback is not None:
            self._task = asyncio.get_running_loop().create_task(self._call(self._callback))
        return self

    @property
    def is_open(self) -> bool:
        """Whether more events can come."""
        return self._has_begun and not self.pending.has_ended

    async def replace(self, filter: Filter | str, language: str = "attributes") -> None:
        """Have another filter from now on, at once: nothing that matches both is lost or comes twice.

        When this returns, all events that come later match the new filter.
        """
        await self._interests.replace(self, filter, language)

    async def unsubscribe(self, *, forget: bool = False) -> None:
        """End the subscription; what has come already can still be taken.

        A durable one is only left, and goes on gathering events; with `forget` it ends, and what it has stored is gone.
        """
        await self._interests.unsubscribe(self, forget)

    async def drain(self, timeout_s: float | None = None) -> None:
        """End the subscription and return when everything that had come is taken."""
        await self.unsubscribe()
        await self._interests.until(lambda: self.is_taken, timeout_s, "what had come was taken")
        await self._end_callback()

    @property
    def is_taken(self) -> bool:
        """Whether nothing waits for the program, and its callback has ended."""
        return not self.pending and (self._task is None or self._task.done())

    # -- taking events ---------------------------------------------------------------------------------------

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Received:
        pending = self.pending
        # Most of the time something is there, and a coroutine less is a tenth of the time.
        if pending.can_take_now() or await pending.wait():
            return pending.take()
        raise StopAsyncIteration

    async def next(self, timeout_s: float | None = None) -> Received:
        """Return the next event; TimedOutError if none comes in time, CoveyError if none will come any more."""
        await self._wait(timeout_s)
        return self.pending.take()

    async def next_many(self, limit: int = 1_000, timeout_s: float | None = None) -> list[Received]:
        """Return what has come, at least one event and at most `limit`; as `next` otherwise."""
        if limit < 1:
            raise CoveyError("at least one event is taken")
        await self._wait(timeout_s)
        return self.pending.take_many(limit)

    async def _wait(self, timeout_s: float | None) -> None:
        if self._callback is not None:
            raise CoveyError("the events of this subscription go to its callback")
        try:
            async with asyncio.timeout(timeout_s):
                more = await self.pending.wait()
        except TimeoutError:
            raise TimedOutError(f"no event has come within {timeout_s:g} s") from None
        if not more:
            raise CoveyError("the subscription has ended")

    async def _call(self, callback: Callback) -> None:
        try:
            async for event in self:
                try:
                    result = callback(event)
                    if inspect.isawaitable(result):
                        await result
                except Exception as error:  # noqa: BLE001 (the program's own, which must not end its subscription)
                    self._interests.report(error)
        except CoveyError:
            pass  # why it has ended is reported by whoever ended it

    async def _end_callback(self) -> None:
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # -- what the client does --------------------------------------------------------------------------------

    def _put(self, events: list[Received], size: int) -> None:
        if self.pending.put(events, size):
            if not self._is_slow:
                # Once an episode, or a program would hear of nothing else.
                self._is_slow = True
                self._interests.is_slow(self)
        elif self._is_slow and 2 * len(self.pending) < self.pending.limits.events:
            self._is_slow = False

    def _end(self, error: Exception | None = None) -> None:
        self.pending.end(error)

    def _acknowledge(self, position: int, all_before: bool) -> bool:
        return self._interests.acknowledge(self.sid, position, all_before)

    # -- counters --------------------------------------------------------------------------------------------

    @property
    def received(self) -> int:
        """How many events have come."""
        return self.pending.received

    @property
    def dropped(self) -> int:
        """How many of them were dropped because the program was too slow."""
        return self.pending.dropped

    def __repr__(self) -> str:
        return f"<subscription {self.sid}: {self.filter!s:.80}, {len(self.pending):,} wait>"
