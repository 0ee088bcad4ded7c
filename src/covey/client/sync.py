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
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any, Final, TypeVar

from covey.client.client import Client, connect
from covey.client.link import DEFAULT_URL
from covey.client.subscription import Delivered, Received, Subscription
from covey.core.content import published_payload
from covey.core.event import Event
from covey.core.families import DEFAULT_LANGUAGE
from covey.core.filter import Filter
from covey.errors import CoveyError, LinkError, TimedOutError
from covey.protocol.events import encode_content

Answer = TypeVar("Answer")

CLOSED = "the client is closed"
NOTICE_S: Final = 0.5  # within which Ctrl-C is noticed, at the latest
HANDED_OVER: Final = 1_000  # events that come to a thread at a time
WAITING: Final = 10_000  # events that threads may be ahead of the loop


def new_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's event loop, which is faster, or asyncio's where there is none."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _result(future: Future[Answer]) -> Answer:
    """Wait for a result, and look up now and then.

    A signal that comes just before the wait, or to another thread, does not end it: Python would only act on Ctrl-C
    once the result is there.
    """
    while True:
        try:
            return future.result(NOTICE_S)
        except TimeoutError:
            if future.done():
                return future.result()  # the time-out was the call's own, or the result has just come


class Calls:
    """A loop in a thread. No call outlives it: what is under way when it stops is cancelled, and its caller told."""

    def __init__(self, name: str) -> None:
        self.loop = new_loop()
        self._gate = threading.Lock()  # what is asked is asked before the loop is told to stop
        self._has_stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def has_stopped(self) -> bool:
        """Whether nothing can be asked any more."""
        return self._has_stopped

    def call(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Have the loop do something, and return what came of it; LinkError if the loop has stopped."""
        future: Future[Answer]
        if threading.current_thread() is self._thread:
            work.close()
            raise CoveyError("a hook must not wait for its own client")
        with self._gate:
            if self._has_stopped:
                work.close()
                raise LinkError(CLOSED)
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return _result(future)
        except CancelledError:
            raise LinkError(CLOSED) from None
        except BaseException:
            future.cancel()  # Ctrl-C: nobody waits any longer
            raise

    def do(self, function: Callable[..., object], *arguments: object) -> None:
        """Have the loop call a function, without waiting for it; LinkError if the loop has stopped."""
        with self._gate:
            if self._has_stopped:
                raise LinkError(CLOSED)
            self.loop.call_soon_threadsafe(function, *arguments)

    def stop(self) -> None:
        """End the thread."""
        with self._gate:
            if self._has_stopped:
                return
            self._has_stopped = True
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(self._end())
        finally:
            self.loop.close()

    async def _end(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # The answers of tasks go to their callers in later turns of the loop.
        for _ in range(3):
            await asyncio.sleep(0)


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
