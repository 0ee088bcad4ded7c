"""A subscription for programs without asyncio: the same words, for any thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from covey.client.calls import Calls
from covey.client.received import Delivered, Received
from covey.client.subscription import Subscription
from covey.core.families import DEFAULT_LANGUAGE
from covey.core.filter import Filter
from covey.errors import CoveyError

HANDED_OVER: Final = 1_000  # events that come to a thread at a time


class SyncReceived(Delivered):
    """An event of a subscription."""

    __slots__ = ("_owner",)

    def __init__(self, event: Received, owner: SyncSubscription) -> None:
        super().__init__(event._frame)
        self._owner = owner

    def ack(self, *, all_before: bool = False) -> None:
        """Say that this event is done with; see `Received.ack`. Nothing is waited for."""
        self._owner._ack(self.position, all_before)


class SyncSubscription:
    """Events that match a filter: a context manager and an iterator, for any thread."""

    def __init__(
        self, calls: Calls, inner: Subscription, callback: Callable[[SyncReceived], Any] | None
    ) -> None:
        self._calls = calls
        self._inner = inner
        self._callback = callback
        self._thread: threading.Thread | None = None
        self._taken: deque[SyncReceived] = deque()

    def __enter__(self) -> SyncSubscription:
        return self

    def __exit__(self, *error: object) -> None:
        self.unsubscribe()

    @property
    def is_open(self) -> bool:
        """Whether more events can come."""
        return self._inner.is_open

    @property
    def filter(self) -> Filter:
        """What the events match."""
        return self._inner.filter

    @property
    def waiting(self) -> int:
        """How many events have come that nobody has taken."""
        return len(self._taken) + len(self._inner.pending)

    @property
    def received(self) -> int:
        """How many events have come."""
        return self._inner.received

    @property
    def dropped(self) -> int:
        """How many of them were dropped because the program was too slow."""
        return self._inner.dropped

    def replace(self, filter: Filter | str, language: str = DEFAULT_LANGUAGE) -> None:
        """Have another filter from now on; see `Subscription.replace`."""
        self._calls.call(self._inner.replace(filter, language))

    def unsubscribe(self, *, forget: bool = False) -> None:
        """End the subscription; see `Subscription.unsubscribe`."""
        self._calls.call(self._inner.unsubscribe(forget=forget))
        self.join()

    def drain(self, timeout_s: float | None = None) -> None:
        """End the subscription and return when everything that had come is taken."""
        self._calls.call(self._inner.drain(timeout_s))
        self.join()

    def join(self) -> None:
        """Wait for the callback's thread, which ends with the subscription."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def next(self, timeout_s: float | None = None) -> SyncReceived:
        """Return the next event; TimedOutError if none comes in time, CoveyError if none will come any more."""
        while True:
            try:
                return self._taken.popleft()
            except IndexError:
                events = self._calls.call(self._inner.next_many(HANDED_OVER, timeout_s))
                self._taken.extend(SyncReceived(event, self) for event in events)

    def __iter__(self) -> Iterator[SyncReceived]:
        while True:
            try:
                event = self.next()
            except CoveyError:
                if self._inner.pending.error is not None or self._inner.is_open:
                    raise
                return
            yield event

    def _ack(self, position: int | None, all_before: bool) -> None:
        if position is None:
            raise CoveyError("only events of durable subscriptions can be acknowledged")
        self._calls.do(self._inner._acknowledge, position, all_before)

    def begin(self) -> None:
        """Start the callback's thread, if there is a callback."""
        if self._callback is not None:
            self._thread = threading.Thread(target=self._run, args=(self._callback,), daemon=True)
            self._thread.start()

    def _run(self, callback: Callable[[SyncReceived], Any]) -> None:
        try:
            for event in self:
                try:
                    callback(event)
                except Exception as error:  # noqa: BLE001 (the program's own, which must not end its subscription)
                    self._calls.do(self._inner._interests.report, error)
        except CoveyError:
            pass  # why it has ended is reported by whoever ended it
