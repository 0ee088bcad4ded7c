"""Subscriptions: events that match a filter, for a program to take, and what a client offers in turn.

    async with client.subscribe("price > 10") as events:      it begins here
        async for event in events: ...
                                                               it ends here

    subscription = await client.subscribe("price > 10", callback=handle)
    ...
    await subscription.unsubscribe()

A subscription outlives broken links: `Interests` restores it on the next one, with all advertisements. Events that were
published meanwhile are missing, unless it is durable. Only what a broker has granted is restored: whatever is not yet
answered is still being asked for by whoever waits for it (`session.ask`).

An event is the DELIVERY frame that it came in, and nothing else: what is never looked at is never decoded. It waits in
`Pending` until the program takes it. What a program is done with of its durable subscriptions is told to the broker in
few frames (`Acknowledgements`).
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from struct import Struct
from struct import error as struct_error
from typing import Any, Final, TypeAlias

from covey.client.link import DROP_NEW, ERROR, Limits, Link
from covey.client.session import Session
from covey.core.families import parse
from covey.core.filter import Filter
from covey.core.packing import unpack
from covey.errors import ConfigError, CoveyError, ProtocolError, RefusedError, SlowError, TimedOutError
from covey.protocol.control import (
    AdvertiseRequest,
    ReplaceRequest,
    Request,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
from covey.protocol.events import (
    ATTRIBUTES,
    DELIVERED,
    DURABLE,
    ENVELOPE,
    FAMILY_SHIFT,
    MOST_CONFIRMED,
    decode_content,
    delivery_of,
    encode_acknowledge,
    name_of,
)
from covey.protocol.frames import Kind

TURN: Final = 512  # events that are taken in a row before others get a turn of the loop

_POSITION: Final = Struct("<Q")
# A delivery to one subscription that is not durable, as most are: how it begins, with and without the subscription's
# number, and in it the event's flags and the lengths of content and notes.
_ONE: Final = Struct("<BBHI")
_TO_ONE: Final = DELIVERED.pack(Kind.DELIVERY, 0, 1)
_LENGTHS: Final = Struct("<8x xB2xI18xH")
_FIRST: Final = DELIVERED.size + 4 + ENVELOPE.size

assert _ONE.size == DELIVERED.size + 4
assert _LENGTHS.size == _FIRST

# Takes a position, and whether all before it are meant, too; returns False if it is too late.
Acknowledge: TypeAlias = Callable[[int, bool], bool]


class Delivered:
    """An event that matched a subscription; its parts are read from its frame when they are asked for."""

    __slots__ = ("_content", "_frame")

    _content: Any

    def __init__(self, frame: bytes) -> None:
        self._frame = frame
        self._content = None  # not decoded yet

    def _parts(self) -> tuple[int, int, int, int]:
        """Return the family of filters, where content and payload begin, and where the content ends."""
        frame = self._frame
        try:
            if frame[:4] == _TO_ONE:
                flags, content_length, notes_length = _LENGTHS.unpack_from(frame)
                first = _FIRST
            else:
                at = DELIVERED.size + 4 * (frame[2] | frame[3] << 8)
                if frame[1] & DURABLE:
                    at += _POSITION.size
                _, flags, _, content_length, _, _, _, notes_length = ENVELOPE.unpack_from(frame, at)
                first = at + ENVELOPE.size
        except struct_error:
            raise ProtocolError("an event's frame is too short") from None
        last = first + content_length
        if last + notes_length > len(frame):
            raise ProtocolError("an event's frame is shorter than it says")
        return flags >> FAMILY_SHIFT & 3, first, last + notes_length, last

    @property
    def content(self) -> Any:
        """What filters judge: a dict of attributes, a frozenset of words or a Document."""
        content = self._content
        if content is None:
            family, first, _, last = self._parts()
            packed = self._frame[first:last]
            content = unpack(packed) if family == ATTRIBUTES else decode_content(family, packed)
            self._content = content
        return content

    @property
    def raw_content(self) -> bytes:
        """The content as it travels: packed attributes, packed words, or the text of a document."""
        _, first, _, last = self._parts()
        return self._frame[first:last]

    @property
    def data(self) -> bytes:
        """The payload."""
        return self._frame[self._parts()[2] :]

    @property
    def id(self) -> str:
        """The event's name, which no other event of the network has."""
        first = self._parts()[1]
        _, _, _, _, publisher, number, _, _ = ENVELOPE.unpack_from(self._frame, first - ENVELOPE.size)
        return name_of(publisher, number)

    @property
    def position(self) -> int | None:
        """Its place in the store, if the subscription is durable."""
        frame = self._frame
        if not frame[1] & DURABLE:
            return None
        position: int = _POSITION.unpack_from(frame, DELIVERED.size + 4 * (frame[2] | frame[3] << 8))[0]
        return position

    @property
    def frame(self) -> bytes:
        """The DELIVERY frame that it came in, from which `Delivered` makes it again, in any process."""
        return self._frame

    @property
    def size(self) -> int:
        """How many bytes came for it."""
        return len(self._frame)

    def __getitem__(self, name: str) -> Any:
        return self.content[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute, or the default if the event has none of that name."""
        return self.content.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self.content

    def __repr__(self) -> str:
        return f"<event {self.id}: {self.content!r:.80}>"


class Received(Delivered):
    """An event of a subscription."""

    __slots__ = ()

    async def ack(self, *, all_before: bool = False) -> None:
        """Say that this event is done with: it will not be delivered again to its durable subscription.

        With `all_before`, so are all that were delivered before it. Nothing is waited for: until the broker has read
        it, a broken link brings the event again. CoveyError if the subscription is not durable.
        """
        raise CoveyError("only events of durable subscriptions can be acknowledged")


class DurableReceived(Received):
    """An event of a durable subscription."""

    __slots__ = ("_acknowledge",)

    def __init__(self, frame: bytes, acknowledge: Acknowledge) -> None:
        super().__init__(frame)
        self._acknowledge = acknowledge

    async def ack(self, *, all_before: bool = False) -> None:
        """Say that this event is done with; see `Received.ack`."""
        assert self.position is not None, "a durable delivery has a position"
        if not self._acknowledge(self.position, all_before):
            raise CoveyError("the subscription has ended: what was not acknowledged before comes again")


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


class Acknowledgements:
    """Positions that wait to be told; those of a link that is gone are told on the next one.

    `link` returns the one that there is.
    """

    def __init__(self, link: Callable[[], Link | None]) -> None:
        self._link = link
        self._single: dict[int, list[int]] = {}
        self._until: dict[int, int] = {}
        self._scheduled = False

    def put(self, sid: int, position: int, all_before: bool) -> None:
        """Take one."""
        if all_before:
            self._until[sid] = max(position, self._until.get(sid, 0))
        else:
            self._single.setdefault(sid, []).append(position)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._flush_soon)

    def _flush_soon(self) -> None:
        self._scheduled = False
        self.flush(self._link())

    def forget(self, sid: int) -> None:
        """The subscription has ended."""
        self._single.pop(sid, None)
        self._until.pop(sid, None)

    def flush(self, link: Link | None) -> None:
        """Tell what there is, if there is a link."""
        if link is None or not link.is_open:
            return
        for sid, position in self._until.items():
            link.connection.send(Kind.ACKNOWLEDGE, encode_acknowledge(sid, [position], cumulative=True))
        for sid, positions in self._single.items():
            for first in range(0, len(positions), MOST_CONFIRMED):
                some = positions[first : first + MOST_CONFIRMED]
                link.connection.send(Kind.ACKNOWLEDGE, encode_acknowledge(sid, some, cumulative=False))
        self._until.clear()
        self._single.clear()


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
        self.reached = 0  # the last position that has come, of a durable one
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


def filter_of(filter: Filter | str, language: str) -> Filter:
    """Return the filter that a text describes, or the filter itself; FilterError if it describes none."""
    if isinstance(filter, str):
        return parse(filter, language)
    if not isinstance(filter, Filter):
        raise ConfigError(f"a filter is a text or a covey.Filter, not {type(filter).__name__}")
    return filter


class Interests:
    """What a client wants and offers; see the module's text."""

    def __init__(self, session: Session) -> None:
        self._session = session
        session.interests = self
        self._acknowledgements = Acknowledgements(lambda: session.link)
        self._subscriptions: dict[int, Subscription] = {}
        self._by_beginning: dict[bytes, Subscription] = {}
        self._granted: set[int] = set()
        self._advertised: dict[int, Filter] = {}
        self._last_sid = 0

    @property
    def subscriptions(self) -> list[Subscription]:
        """All that have not ended."""
        return list(self._subscriptions.values())

    # -- links -----------------------------------------------------------------------------------------------

    def must_return(self) -> bool:
        """Whether no other broker will do: what is stored for a durable subscription is at one."""
        return any(self._subscriptions[sid].durable for sid in self._granted)

    def restore(self, link: Link) -> list[asyncio.Future[None]]:
        """Ask for everything on a new link, in one go."""
        answers = [
            link.ask(AdvertiseRequest(link.next_request(), aid, filter.encode()))
            for aid, filter in self._advertised.items()
        ]
        for sid in sorted(self._granted):
            answer = link.ask(self._subscribe_request(link.next_request(), self._subscriptions[sid]))
            answer.add_done_callback(self._if_refused(sid))
            answers.append(answer)
        return answers

    def _if_refused(self, sid: int) -> Callable[[asyncio.Future[None]], None]:
        def end(answer: asyncio.Future[None]) -> None:
            error = None if answer.cancelled() else answer.exception()
            subscription = self._subscriptions.get(sid)
            if isinstance(error, RefusedError) and subscription is not None:
                self._drop(subscription)
                subscription._end(error)

        return end

    def flush(self, link: Link) -> None:
        """Tell the broker what was acknowledged."""
        self._acknowledgements.flush(link)

    def end(self, error: CoveyError | None) -> None:
        """Nothing more will come."""
        for subscription in self.subscriptions:
            self._drop(subscription)
            subscription._end(error)

    # -- subscribing -----------------------------------------------------------------------------------------

    async def subscribe(self, subscription: Subscription) -> None:
        """Ask for a subscription, and return when the broker has it."""
        self._session.check()

        def make(number: int) -> Request:
            # A broker wants growing numbers, and those of a link that is gone are taken.
            self._drop(subscription)
            self._last_sid += 1
            subscription.sid = self._last_sid
            self._subscriptions[subscription.sid] = subscription
            beginning = _ONE.pack(Kind.DELIVERY, 0, 1, subscription.sid)
            self._by_beginning[beginning] = subscription
            return self._subscribe_request(number, subscription)

        try:
            await self._session.ask(make)
        except BaseException:
            self._drop(subscription)
            subscription._end()
            raise
        self._granted.add(subscription.sid)

    def _subscribe_request(self, number: int, subscription: Subscription) -> SubscribeRequest:
        one = subscription
        return SubscribeRequest(number, one.sid, one.filter.encode(), one.durable, one.reached)

    def _drop(self, subscription: Subscription) -> None:
        sid = subscription.sid
        if self._subscriptions.pop(sid, None) is not None:
            self._by_beginning.pop(_ONE.pack(Kind.DELIVERY, 0, 1, sid), None)
            self._granted.discard(sid)

    async def replace(self, subscription: Subscription, wanted: Filter | str, language: str) -> None:
        """Ask for another filter; the subscription has it once that is granted."""
        filter = filter_of(wanted, language)
        if subscription.sid not in self._granted:
            raise CoveyError("the subscription has ended")
        # On a new link the subscription is restored with its old filter first, so that this may be asked again.
        await self._session.ask(lambda number: ReplaceRequest(number, subscription.sid, filter.encode()))
        subscription.filter = filter

    async def unsubscribe(self, subscription: Subscription, forget: bool) -> None:
        """End a subscription; what comes until the broker answers is still taken."""
        sid = subscription.sid
        link = self._session.link
        if sid not in self._granted:
            subscription._end()
            return
        self._acknowledgements.flush(link)  # the broker knows the number of a subscription that has not ended
        try:
            if forget:
                await self._session.ask(lambda number: UnsubscribeRequest(number, sid, True))
            else:
                self._granted.discard(sid)  # on another link it is not restored
                if link is not None and link.is_open:
                    await self._session.ask_on(link, lambda number: UnsubscribeRequest(number, sid))
        finally:
            self._acknowledgements.forget(sid)
            self._drop(subscription)
            subscription._end()

    # -- events ----------------------------------------------------------------------------------------------

    def deliveries(self, frames: Sequence[bytes]) -> None:
        """Give events to subscriptions; most are for one, as were those before them."""
        find = self._by_beginning.get
        last = b""
        subscription: Subscription | None = None
        events: list[Received] = []
        size = 0
        for one in frames:
            beginning = one[:8]
            if beginning != last:
                if subscription is not None and events:
                    subscription._put(events, size)
                events, size, last = [], 0, beginning
                subscription = find(beginning)
                if subscription is None:
                    last = b""
                    self._seldom(one)
                    continue
            events.append(Received(one))
            size += len(one)
        if subscription is not None and events:
            subscription._put(events, size)

    def _seldom(self, one: bytes) -> None:
        """Give an event to several subscriptions, or to a durable one; those that have just ended miss nothing."""
        delivery = delivery_of(one)
        for sid in delivery.sids:
            subscription = self._subscriptions.get(sid)
            if subscription is None:
                continue
            if delivery.position is None:
                subscription._put([Received(one)], len(one))
            else:
                subscription.reached = max(subscription.reached, delivery.position)
                subscription._put([DurableReceived(one, subscription._acknowledge)], len(one))

    def is_slow(self, subscription: Subscription) -> None:
        """A subscription's limits are reached: say so, and end it if that is its policy."""
        error = SlowError(
            f"{len(subscription.pending):,} events of {subscription.filter!s:.80} wait for the program "
            f"({subscription.pending.limits.policy})"
        )
        self._session.hooks.error(error)
        link = self._session.link
        if subscription.pending.has_ended and link is not None and subscription.sid in self._granted:
            link.ask(UnsubscribeRequest(link.next_request(), subscription.sid))
            self._drop(subscription)

    def report(self, error: Exception) -> None:
        """Say that a callback failed."""
        self._session.hooks.error(error)

    def acknowledge(self, sid: int, position: int, all_before: bool) -> bool:
        """An event of a durable subscription is done with; return False if that is too late to be told."""
        if sid not in self._granted:
            return False
        self._acknowledgements.put(sid, position, all_before)
        return True

    async def until(self, is_true: Callable[[], bool], timeout_s: float | None, what: str) -> None:
        """Return when it is true; TimedOutError if that takes too long."""
        await self._session.until(is_true, timeout_s, what)

    # -- advertising -----------------------------------------------------------------------------------------

    async def advertise(self, filter: Filter) -> int:
        """Ask for an advertisement; return its number."""
        aid = 0

        def make(number: int) -> Request:
            nonlocal aid
            self._last_sid += 1
            aid = self._last_sid
            return AdvertiseRequest(number, aid, filter.encode())

        await self._session.ask(make)
        self._advertised[aid] = filter
        return aid

    async def unadvertise(self, aid: int) -> None:
        """Take an advertisement back."""
        if self._advertised.pop(aid, None) is None:
            raise CoveyError(f"there is no advertisement {aid}")
        link = self._session.link
        if link is not None and link.is_open:
            await self._session.ask_on(link, lambda number: UnadvertiseRequest(number, aid))
