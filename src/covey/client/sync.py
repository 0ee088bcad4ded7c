"""The client for programs without asyncio: the same words, on a thread of its own.

with covey.connect_sync("covey://127.0.0.1:7400") as client:
    client.publish({"symbol": "IBM", "price": 12}, data=b"...")
    with client.subscribe("price > 10") as events:
        for event in events:
            print(event["symbol"], event.data)

An event loop runs in a thread; calls wait for what it does. Publishing does not: events are packed in the calling
thread and handed over in batches. Events come over in batches, too. Everything may be used by several threads at once.
Hooks and `on_error` are called in the loop's thread and must not wait for the client.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from covey.client.address import DEFAULT_URL
from covey.client.calls import Calls
from covey.client.client import Client, connect
from covey.client.sync_subscription import SyncReceived, SyncSubscription
from covey.core.content import published_payload
from covey.core.event import Event
from covey.core.families import DEFAULT_LANGUAGE
from covey.core.filter import Filter
from covey.errors import CoveyError, LinkError, TimedOutError
from covey.protocol.events import encode_content

Answer = TypeVar("Answer")

WAITING: Final = 10_000  # events that threads may be ahead of the loop


class SyncClient:
    """A program's connection to the network, for any thread; see `covey.connect_sync`, which makes one."""

    def __init__(self, urls: str | Iterable[str], options: dict[str, Any]) -> None:
        self._inner: Client = connect(urls, **options)
        self._calls = Calls("covey-client")
        self._handing: deque[tuple[int, bytes, bytes]] = deque()
        self._is_handing = False
        self._taken_over = 0
        self._room = threading.Event()
        self._subscriptions: list[SyncSubscription] = []
        try:
            self._calls.call(self._inner._connect())
        except BaseException:
            self._calls.stop()
            raise

    def __enter__(self) -> SyncClient:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _call(self, work: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        return self._calls.call(self._behind(work, self._taken_over + len(self._handing)))

    async def _behind(self, work: Callable[[], Coroutine[Any, Any, Answer]], published: int) -> Answer:
        """Do something behind the first `published` events, unless they cannot be sent for a long time."""
        options = self._inner._session.options
        try:
            async with asyncio.timeout(options.timeout_s):
                while self._taken_over < published and self._inner.is_open:
                    await asyncio.sleep(0.001)
        except TimeoutError:
            raise TimedOutError(f"what was published was not sent within {options.timeout_s:g} s") from None
        return await work()

    def close(self) -> None:
        """End everything; what was published is sent first."""
        try:
            self._call(self._inner.close)
        except LinkError:
            pass  # closed by another thread
        finally:
            self._calls.stop()

    def drain(self, timeout_s: float | None = None) -> None:
        """Take nothing more, finish what is pending, and close; see `Client.drain`."""
        try:
            self._call(lambda: self._inner.drain(timeout_s))
            for subscription in self._subscriptions:
                subscription.join()
        finally:
            self.close()

    @property
    def is_open(self) -> bool:
        """Whether the client is in use: it is not closed, and has not given up."""
        return self._inner.is_open and not self._calls.has_stopped

    @property
    def is_connected(self) -> bool:
        """Whether there is a link to a broker at this moment."""
        return self._inner.is_connected

    @property
    def broker(self) -> str:
        """The name of the broker to which there is, or was last, a link."""
        return self._inner.broker

    # -- publishing ------------------------------------------------------------------------------------------

    def publish(
        self, content: Any, data: bytes = b"", *, confirm: bool = False, timeout_s: float | None = None
    ) -> None:
        """Publish an event; see `Client.publish`. An event that finds no room in the end is told to `on_error`."""
        if confirm:
            self._call(lambda: self._inner.publish(content, data, confirm=True, timeout_s=timeout_s))
            return
        self._inner._session.check()
        self._hand_over(content, data)

    def publish_many(
        self, events: Iterable[Any], *, confirm: bool = False, timeout_s: float | None = None
    ) -> int:
        """Publish events, each content, (content, data) or a covey.Event; return how many."""
        if confirm:
            all_events = list(events)
            return self._call(lambda: self._inner.publish_many(all_events, confirm=True, timeout_s=timeout_s))
        self._inner._session.check()
        count = 0
        for event in events:
            content, data = _parts(event)
            self._hand_over(content, data)
            count += 1
        return count

    def _hand_over(self, content: Any, data: bytes) -> None:
        family, packed = encode_content(content)
        data = published_payload(data)
        self._inner._outgoing.check_size(packed, data)
        self._handing.append((family, packed, data))
        if not self._is_handing:
            self._is_handing = True
            self._calls.do(self._take_over)
        if len(self._handing) > WAITING:
            self._room.clear()
            self._calls.do(self._take_over)
            # The loop sets it when there is room, or when the client is closed; a second is for what may be missed.
            while len(self._handing) > WAITING and self.is_open:
                self._room.wait(1.0)

    def _take_over(self) -> None:
        """Give what threads have handed over to the client, in the loop's thread."""
        self._is_handing = False
        outgoing = self._inner._outgoing
        while self._handing:
            if outgoing.is_full:
                self._is_handing = True
                self._calls.loop.call_later(0.002, self._take_over)
                return
            family, packed, data = self._handing.popleft()
            self._taken_over += 1
            try:
                outgoing.put_packed(family, packed, data)
            except CoveyError as error:
                self._inner._session.hooks.error(error)
        self._room.set()

    def advertise(self, filter: Filter | str, language: str = DEFAULT_LANGUAGE) -> int:
        """Say what this client may publish; return a number for `unadvertise`."""
        return self._call(lambda: self._inner.advertise(filter, language))

    def unadvertise(self, advertisement: int) -> None:
        """Take back an advertisement."""
        self._call(lambda: self._inner.unadvertise(advertisement))

    def flush(self, timeout_s: float | None = None, *, near: bool = False) -> None:
        """Return once everything said before is in force in the whole network; see `Client.flush`."""
        self._call(lambda: self._inner.flush(timeout_s, near=near))

    # -- subscribing -----------------------------------------------------------------------------------------

    def subscribe(
        self,
        filter: Filter | str,
        language: str = DEFAULT_LANGUAGE,
        *,
        callback: Callable[[SyncReceived], Any] | None = None,
        **options: Any,
    ) -> SyncSubscription:
        """Return a subscription that is in force at the broker; see `Client.subscribe` for the options.

        A callback is called in a thread of its own.
        """
        inner = self._inner.subscribe(filter, language, **options)
        self._call(inner._begin)
        subscription = SyncSubscription(self._calls, inner, callback)
        self._subscriptions = [one for one in self._subscriptions if one.is_open] + [subscription]
        subscription.begin()
        return subscription


def _parts(event: Any) -> tuple[Any, bytes]:
    if type(event) is tuple and len(event) == 2:
        return event
    if type(event) is Event:
        return event.content, event.payload
    return event, b""


def connect_sync(urls: str | Iterable[str] = DEFAULT_URL, **options: Any) -> SyncClient:
    """Return a client that is connected; the options are those of `covey.connect`."""
    return SyncClient(urls, options)
