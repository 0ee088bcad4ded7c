"""Events over HTTP, for any language: POST CloudEvents, and GET a stream of those that match a filter.

    POST /events                        a CloudEvent: structured, binary or a batch; ?confirm=true waits for the disk
    GET  /events?filter=…&language=…    server-sent events, each a CloudEvent in JSON

    Authorization: Bearer <token>                          the same tokens and passwords as over sockets
    Authorization: Basic <base64 of user:password>

`Gateway` is an aiohttp application, mounted beside the admin pages if `admin.events` says so. For the broker its users
are ordinary clients: `Attached` talks to the core in frames over a connection within the process, so that permissions,
limits, turns and full queues apply to it as to everybody. Everything is bounded: bodies, batches, streams, and what
waits for a listener; a listener that is too slow is cut off.

What one user posts is published one request after another, each when the broker has handled the one before. While the
broker makes that user wait (the policy `block`), requests wait, in bounded number and bytes, and are answered 202 once
they are taken; more of them are told to come back later (`Share`). Reading bodies takes its turns with everything else
in the process, and so does writing for listeners (`Converter`): some kilobytes in a turn of the event loop, of all
requests and streams together, and a large event in a thread.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from binascii import Error as Base64Error
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec
from aiohttp import web

from covey.broker.admission import Shown
from covey.broker.config import BrokerConfig
from covey.broker.http import cloudevents
from covey.broker.http.door import TurnedAway, Visitor, read_body
from covey.broker.listening import Pace
from covey.broker.security import EVERYTHING, Permissions, Security, is_loopback
from covey.core.families import DEFAULT_LANGUAGE, parse
from covey.errors import (
    AccessError,
    BusyError,
    ConfigError,
    CoveyError,
    EventError,
    FilterError,
    LinkError,
    ProtocolError,
    RefusedError,
)
from covey.protocol.control import (
    BUSY,
    FULL,
    AdvertiseRequest,
    FlushRequest,
    Goodbye,
    Reply,
    Request,
    SubscribeRequest,
    Welcome,
    decode_life,
    decode_reply,
    encode,
)
from covey.protocol.events import (
    ENVELOPE,
    KEPT,
    XPATH,
    decode_content,
    decode_taken,
    delivery_of,
    encode_content,
    encode_event,
    envelope_of,
    family_of,
    name_of,
)
from covey.protocol.frames import Kind, Splitter, frame, framed

T = TypeVar("T")


@dataclass(frozen=True)
class GatewayLimits:
    """How much one gateway takes."""

    body_bytes: int = 4 << 20
    batch: int = 10_000  # events
    waiting_requests: int = 1_000  # of one user, that wait to be published
    waiting_bytes: int = 16 << 20  # of one user's bodies, from the first byte until they are published
    streams: int = 1_000
    pending_events: int = 10_000  # that wait for one listener
    pending_bytes: int = 8 << 20
    heartbeat_s: float = 15.0
    confirm_s: float = 30.0


SLICE: Final = 16_384  # bytes of events that are converted in a turn of the event loop: about a millisecond


class Converter:
    """Converts events between their forms, so that this holds up nothing else: SLICE bytes in a turn of the loop.

    An event of more bytes is converted in a thread, which takes one at a time.
    """

    def __init__(self) -> None:
        self._pace = Pace(SLICE)
        self._thread = ThreadPoolExecutor(1, "covey-http")

    async def do(self, size: int, work: Callable[[], T]) -> T:
        """Return what a piece of work on so many bytes returns."""
        if size <= SLICE:
            await self._pace.turn(size)
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        """Convert nothing more."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def take_slice(waiting: deque[T], size_of: Callable[[T], int]) -> tuple[list[T], int]:
    """Take the first events off a queue, for one piece of work; return how many bytes they have, too."""
    some = [waiting.popleft()]
    size = size_of(some[0])
    while waiting and size + (more := size_of(waiting[0])) <= SLICE:
        some.append(waiting.popleft())
        size += more
    return some, size


class Stream:
    """What waits for one listener."""

    def __init__(self, limits: GatewayLimits, converter: Converter) -> None:
        self._limits = limits
        self._converter = converter
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._wake = asyncio.Event()
        self._reason = ""

    def take(self, frames: Sequence[bytes]) -> None:
        """Take deliveries; more than may wait end the stream."""
        if self._reason:
            return
        self._frames.extend(frames)
        self._size += sum(map(len, frames))
        if len(self._frames) > self._limits.pending_events or self._size > self._limits.pending_bytes:
            self.end(f"{len(self._frames):,} events wait for the listener, which is too slow")
        self._wake.set()

    def end(self, reason: str) -> None:
        """Send nothing more but the reason."""
        self._reason = self._reason or reason
        self._frames.clear()
        self._wake.set()

    async def run(self, response: web.StreamResponse) -> None:
        """Write events until the listener goes or the stream ends; a comment now and then, when there is none."""
        try:
            await response.write(b": subscribed\n\n")
            while not self._reason:
                try:
                    async with asyncio.timeout(self._limits.heartbeat_s):
                        await self._wake.wait()
                except TimeoutError:
                    await response.write(b": alive\n\n")
                self._wake.clear()
                while self._frames:
                    some, size = take_slice(self._frames, len)
                    self._size -= size
                    await response.write(await self._converter.do(size, partial(all_as_sent, some)))
            problem = problem_line(503, self._reason)
            await response.write(b"event: error\ndata: " + problem + b"\n\n")
        except ConnectionError:
            pass  # the listener has gone


def as_sent(frame: bytes) -> bytes:
    """Return a DELIVERY frame as a server-sent event with a CloudEvent."""
    event = delivery_of(frame).event
    envelope = envelope_of(event)
    last = ENVELOPE.size + envelope.content_length
    packed, payload = event[ENVELOPE.size : last], event[last + envelope.notes_length :]
    family = family_of(envelope)
    content: Any = packed.decode(errors="replace") if family == XPATH else decode_content(family, packed)
    name = name_of(envelope.publisher, envelope.number)
    shown = cloudevents.write(name, f"{envelope.publisher:x}", content, payload)
    return b"id: " + name.encode() + b"\ndata: " + shown + b"\n\n"


def all_as_sent(frames: Sequence[bytes]) -> bytes:
    """Return DELIVERY frames as server-sent events."""
    return b"".join(map(as_sent, frames))


def problem_line(status: int, detail: str) -> bytes:
    """Return a problem as JSON in one line."""
    line = " ".join(detail.split())[:500]
    return msgspec.json.encode({"title": HTTPStatus(status).phrase, "status": status, "detail": line})


_LARGEST: Final = 1 << 30  # frames come from the broker, which has judged them
_PONG: Final = frame(Kind.PONG, b"")

Take = Callable[[Sequence[bytes]], None]


class Local(Protocol):
    """One end of a connection within this process."""

    @property
    def is_held(self) -> bool:
        """Whether the broker wants to hear nothing more for now."""

    def open(self, permissions: Permissions, peer: str) -> None:
        """Begin; the broker greets it."""

    def send(self, data: bytes) -> None:
        """Say something."""

    def close(self) -> None:
        """End it."""


class Hub(Protocol):
    """What is needed of a broker; `Broker` is one."""

    @property
    def config(self) -> BrokerConfig:
        """Its settings."""

    @property
    def security(self) -> Security:
        """Who may come in; another one after a reload."""

    def attach(
        self, take: Callable[[bytes], None], ended: Callable[[], None], resumed: Callable[[], None]
    ) -> Local:
        """Return a connection: `take` gets what the broker writes, `ended` and `resumed` hear what it does."""

    async def show(self, number: int, host: str, shown: Shown) -> Permissions:
        """Return what a request may do by what it shows; AccessError or BusyError if nothing."""


class Posting:
    """The events of one request that are being published: `done` when each is settled, with LinkError if that ends."""

    def __init__(self, numbers: range) -> None:
        self._numbers = numbers
        self._refusals: dict[int, RefusedError] = {}
        self.left = len(numbers)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.done.add_done_callback(_look)
        if not numbers:
            self.done.set_result(None)

    def __len__(self) -> int:
        return len(self._numbers)

    def settled(self, number: int, error: RefusedError | None) -> None:
        """Note what became of an event; once for each."""
        self.left -= 1
        if error is not None:
            self._refusals[number] = error
        if not self.left and not self.done.done():
            self.done.set_result(None)

    def raise_refusals(self) -> None:
        """Raise what is wrong with the first event that was not taken, and how many of how many there are.

        To publish them again is of use only if that holds for each of these.
        """
        if not self._refusals:
            return
        first = min(self._refusals)
        problem = self._refusals[first]
        if len(self) == 1:
            raise problem
        can_retry = all(one.retry for one in self._refusals.values())
        raise RefusedError(
            f"{len(self._refusals):,} of {len(self):,} events are refused, the first one, "
            f"event {first - self._numbers.start + 1:,}: {problem}",
            kind=problem.kind if can_retry else "",
        )


class Attached:
    """A client of the broker in this process: it talks as other clients do, and shows nobody a password."""

    def __init__(
        self,
        hub: Hub,
        permissions: Permissions,
        take: Take | None = None,
        ended: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._take = take
        self._ended = ended
        self._splitter = Splitter(_LARGEST)
        self._answers: dict[int, asyncio.Future[None]] = {}
        self._published: dict[int, Posting] = {}
        self._last_request = 0
        self._number = 0
        self._publisher = 0  # the number that it writes on events
        self._reason = "the broker ends"
        self._is_open = True
        self._resumed = asyncio.Event()
        self.turn = asyncio.Lock()  # of whoever publishes
        self._local = hub.attach(self._hear, self._end, self._resumed.set)
        self._local.open(permissions, "http")

    @property
    def is_open(self) -> bool:
        """Whether something can be asked of it."""
        return self._is_open

    def _end(self) -> None:
        """The broker has ended it; whoever listens is told why."""
        self.close()
        self._ended(self._reason)

    def close(self) -> None:
        """End everything that it has asked for."""
        if self._is_open:
            self._is_open = False
            self._local.close()
            self._resumed.set()
            postings = dict.fromkeys(self._published.values())
            for answer in (*self._answers.values(), *(one.done for one in postings)):
                if not answer.done():
                    answer.set_exception(LinkError(self._reason))
                    answer.exception()

    async def room(self) -> None:
        """Return once the broker takes more: one whose queues are full makes its publishers wait."""
        while self._is_open and self._local.is_held:
            self._resumed.clear()
            await self._resumed.wait()

    # -- what it says ----------------------------------------------------------------------------------------

    def ask(self, make: Callable[[int], Request]) -> asyncio.Future[None]:
        """Ask for something; the future has the answer."""
        self._last_request += 1
        answer = self._answers[self._last_request] = self._loop.create_future()
        answer.add_done_callback(_look)
        self._say([frame(Kind.REQUEST, encode(make(self._last_request)))])
        return answer

    def framed(self, events: Sequence[Packed], skipped: int, *, confirm: bool) -> list[bytes]:
        """Return the frames of events that are published next, after so many others."""
        flags, publisher = KEPT if confirm else 0, self._publisher
        return [
            framed(
                encode_event(
                    one.content,
                    one.payload,
                    family=one.family,
                    publisher=publisher,
                    number=number,
                    flags=flags,
                )
            )
            for number, one in enumerate(events, self._number + skipped + 1)
        ]

    def publish(self, frames: list[bytes], *, confirm: bool) -> tuple[asyncio.Future[None], Posting]:
        """Publish events, as `framed` gave them since the last time; return when they are handled, and their fate.

        An event is settled when it is handled, or on disk if it is to be confirmed, or refused.
        """
        numbers = range(self._number + 1, self._number + 1 + len(frames))
        posting = Posting(numbers)
        self._number += len(frames)
        self._published.update(dict.fromkeys(numbers, posting))
        self._say(frames)
        # The answer comes when they are handled: at once, unless queues are full or the network switches its plan.
        handled = self.ask(lambda request: FlushRequest(request, near=True))
        if not confirm:
            handled.add_done_callback(lambda _: self._handled(numbers))
        return handled, posting

    def _handled(self, numbers: range) -> None:
        for number in numbers:
            self._settle(number, None)

    def _settle(self, number: int, error: RefusedError | None) -> None:
        posting = self._published.pop(number, None)
        if posting is not None:
            posting.settled(number, error)

    def _say(self, frames: list[bytes]) -> None:
        if not self._is_open:
            raise LinkError(self._reason)
        self._local.send(b"".join(frames))

    # -- what it hears ---------------------------------------------------------------------------------------

    def _hear(self, data: bytes) -> None:
        deliveries: list[bytes] = []
        for one in self._splitter.feed(data):
            if one[0] == Kind.DELIVERY:
                deliveries.append(one)
            else:
                self._hear_control(one[0], one[1:])
        if deliveries and self._take is not None and self._is_open:
            self._take(deliveries)

    def _hear_control(self, kind: int, body: bytes) -> None:
        if kind == Kind.REPLY:
            self._answered(decode_reply(body))
        elif kind == Kind.TAKEN:
            for _, number in decode_taken(body):
                self._settle(number, None)
        elif kind == Kind.PING:
            self._local.send(_PONG)
        elif kind in (Kind.WELCOME, Kind.GOODBYE):
            said = decode_life(body)
            if isinstance(said, Welcome):
                self._publisher = said.number
            elif isinstance(said, Goodbye):
                self._reason = said.reason

    def _answered(self, reply: Reply) -> None:
        error = RefusedError(reply.error, kind=reply.kind) if reply.error else None
        answer = self._answers.pop(reply.request, None)
        if reply.event:
            self._settle(reply.event, error)
        elif answer is not None and not answer.done():
            if error is None:
                answer.set_result(None)
            else:
                answer.set_exception(error)


def _look(answer: asyncio.Future[None]) -> None:
    """Look at an answer, lest asyncio complain of an error for which nobody has waited."""
    if not answer.cancelled():
        answer.exception()


class Packed(NamedTuple):
    """An event as it is published, but for its number."""

    family: int
    content: bytes
    payload: bytes

    def size(self) -> int:
        """Return how many bytes it has."""
        return len(self.content) + len(self.payload)


def pack(posted: cloudevents.Posted, most_bytes: int) -> Packed:
    """Return an event's bytes; EventError if it is none, or none that the broker takes."""
    family, content = encode_content(posted.content)
    size = ENVELOPE.size + len(content) + len(posted.payload)
    if size > most_bytes:
        raise EventError(f"an event of {size:,} bytes; the broker takes {most_bytes:,}")
    return Packed(family, content, posted.payload)


class Share:
    """What one user has in a gateway: bytes of bodies, and requests that wait to be published."""

    def __init__(self, limits: GatewayLimits) -> None:
        self._limits = limits
        self.users = 0  # requests that hold it
        self.waiting = 0
        self.bytes = 0

    def check(self, more_bytes: int) -> None:
        """Raise TurnedAway if there is no room for so much more, or for one more request that waits."""
        limits = self._limits
        if self.bytes + more_bytes > limits.waiting_bytes or self.waiting >= limits.waiting_requests:
            raise TurnedAway(
                503, "the broker's queues are full, and too much waits: come back later", "full", 1
            )


class Taken:
    """The part of a user's share that one request has."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._bytes = 0
        self._is_waiting = False

    def take(self, size: int) -> None:
        """Take more bytes; TurnedAway if there are too many."""
        self._share.check(size)
        self._share.bytes += size
        self._bytes += size

    def wait(self) -> None:
        """Wait to be published; TurnedAway if too many do."""
        self._share.check(0)
        self._share.waiting += 1
        self._is_waiting = True

    def give_back(self) -> None:
        """It is answered."""
        self._share.bytes -= self._bytes
        self._share.waiting -= self._is_waiting


Authorise = Callable[[web.Request], Awaitable[Permissions]]

PROBLEM: Final = "application/problem+json"
STREAM: Final = "text/event-stream"
CHALLENGE: Final = 'Bearer realm="covey", Basic realm="covey", charset="UTF-8"'
MAX_PUBLISHERS: Final = 100  # permissions for which a client is kept
# Every CloudEvent matches it, so that none is flooded through the network.
ADVERTISED: Final = parse(f"specversion = '{cloudevents.VERSION}'")

_REFUSED: Final = {BUSY: 503, FULL: 507}  # by the kind of the refusal; others are 403
_RETRY_S: Final = {503: 1.0, 507: 10.0}  # after which to try again, unless something else is known
_STATUS: Final[tuple[tuple[type[CoveyError], int], ...]] = (
    (EventError, 400),
    (FilterError, 400),
    (ProtocolError, 400),
    (LinkError, 503),
)


async def everyone(request: web.Request) -> Permissions:
    """Allow everything to everybody; a server with credentials has another function in its place."""
    return EVERYTHING


class Gateway:
    """Events over HTTP; see the module's text. `authorise` raises a CoveyError for who must not come in."""

    def __init__(
        self,
        hub: Hub,
        *,
        max_frame: int,
        authorise: Authorise = everyone,
        limits: GatewayLimits | None = None,
    ) -> None:
        self._hub = hub
        self._max_frame = max_frame
        self._authorise = authorise
        self._limits = limits or GatewayLimits()
        self._publishers: OrderedDict[Permissions, Attached] = OrderedDict()
        self._shares: dict[str, Share] = {}
        self._converter = Converter()
        self._streams: set[Stream] = set()

    def application(self) -> web.Application:
        """Return the application, to be mounted at `/events`."""
        application = web.Application(middlewares=[_problems])
        for path in ("", "/"):
            application.router.add_route("POST", path, self._post)
            application.router.add_route("GET", path, self._get)
        application.on_shutdown.append(self._shutdown)
        return application

    async def _shutdown(self, application: web.Application) -> None:
        for stream in self._streams:
            stream.end("the broker ends")
        for publisher in self._publishers.values():
            publisher.close()
        self._publishers.clear()
        self._converter.close()

    async def _permissions(self, request: web.Request) -> Permissions:
        try:
            return await self._authorise(request)
        except BusyError as error:
            raise _Problem(503, str(error), error.wait_s) from None
        except CoveyError as error:
            raise _Problem(401, str(error)) from None

    # -- posting ---------------------------------------------------------------------------------------------

    async def _post(self, request: web.Request) -> web.StreamResponse:
        permissions = await self._permissions(request)  # nobody else's body is read
        confirm = _flag(request, "confirm")
        with self._share_of(permissions) as taken:
            body = await read_body(request, self._limits.body_bytes, take=taken.take)
            events = await self._read(request, body)
            del body
            taken.wait()
            posting = await self._publish(request, events, confirm)
        await asyncio.wait([posting.done], timeout=self._limits.confirm_s)
        if not posting.done.done():
            what = "confirmed" if confirm else "taken"
            raise _Problem(504, f"{posting.left:,} of {len(posting):,} events are not {what} in time")
        posting.done.result()
        posting.raise_refusals()
        answer = {"events": len(posting), "confirmed": confirm}
        return web.Response(
            status=200 if confirm else 202, body=msgspec.json.encode(answer), content_type="application/json"
        )

    @contextmanager
    def _share_of(self, permissions: Permissions) -> Iterator[Taken]:
        share = self._shares.setdefault(permissions.name, Share(self._limits))
        share.users += 1
        taken = Taken(share)
        try:
            yield taken
        finally:
            taken.give_back()
            share.users -= 1
            if not share.users:
                del self._shares[permissions.name]

    async def _publish(self, request: web.Request, events: list[Packed], confirm: bool) -> Posting:
        """Publish events when it is this request's turn; return their fate once the broker has handled them."""
        posting: Posting | None = None
        try:
            async with asyncio.timeout(self._limits.confirm_s):
                while posting is None:
                    publisher = self._publisher(await self._permissions(request))
                    async with publisher.turn:
                        frames = await self._framed(publisher, events, confirm)
                        await publisher.room()
                        # Permissions count as they are now, after the body has come and others were served.
                        if self._publisher(await self._permissions(request)) is publisher:
                            handled, posting = publisher.publish(frames, confirm=confirm)
                            await asyncio.wait([handled])
        except TimeoutError:
            if posting is None:
                raise TurnedAway(503, "the broker's queues are full: come back later", "full", 1) from None
            raise _Problem(504, f"{len(events):,} events are not taken in time") from None
        return posting

    async def _framed(self, publisher: Attached, events: list[Packed], confirm: bool) -> list[bytes]:
        """Return the frames of events, for a publisher whose turn it is."""
        waiting, frames = deque(events), list[bytes]()
        while waiting:
            some, size = take_slice(waiting, Packed.size)
            make = partial(publisher.framed, some, len(frames), confirm=confirm)
            frames += await self._converter.do(size, make)
        return frames

    async def _read(self, request: web.Request, body: bytes) -> list[Packed]:
        media_type = request.headers.get("Content-Type", "")
        kind = media_type.partition(";")[0].strip().lower()
        if kind == cloudevents.BATCH:
            return await self._read_batch(body)
        read: Callable[[], cloudevents.Posted]
        if kind == cloudevents.STRUCTURED:
            read = partial(cloudevents.read_structured, body, self._max_frame)
        elif "ce-id" in request.headers or "ce-specversion" in request.headers:
            read = partial(cloudevents.read_binary, dict(request.headers), media_type, body, self._max_frame)
        else:
            raise _Problem(
                415, f"post {cloudevents.STRUCTURED}, {cloudevents.BATCH}, or headers such as ce-id"
            )
        return [await self._converter.do(len(body), lambda: pack(read(), self._max_frame))]

    async def _read_batch(self, body: bytes) -> list[Packed]:
        def work() -> list[Packed]:
            most = self._max_frame
            return [pack(cloudevents.read_structured(one, most), most) for one in some]

        events = deque(cloudevents.split_batch(body, self._limits.batch))
        packed: list[Packed] = []
        while events:
            some, size = take_slice(events, lambda one: memoryview(one).nbytes)
            packed += await self._converter.do(size, work)
        return packed

    def _publisher(self, permissions: Permissions) -> Attached:
        """Return a client with these permissions; what one posts after another keeps its order."""
        known = self._publishers.get(permissions)
        if known is None or not known.is_open:
            if known is not None:
                known.close()
            known = self._publishers[permissions] = Attached(self._hub, permissions)
            known.ask(lambda number: AdvertiseRequest(number, 1, ADVERTISED.encode()))
            if len(self._publishers) > MAX_PUBLISHERS:
                self._publishers.popitem(last=False)[1].close()
        self._publishers.move_to_end(permissions)
        return known

    # -- listening -------------------------------------------------------------------------------------------

    async def _get(self, request: web.Request) -> web.StreamResponse:
        permissions = await self._permissions(request)
        text = request.query.get("filter")
        if text is None:
            raise _Problem(400, "which events? (hint: ?filter=price > 10)")
        filter = parse(text, request.query.get("language", DEFAULT_LANGUAGE))
        if len(self._streams) >= self._limits.streams:
            raise _Problem(503, f"{len(self._streams):,} listen already")
        stream = Stream(self._limits, self._converter)
        self._streams.add(stream)
        attached = Attached(self._hub, permissions, stream.take, stream.end)
        try:
            await attached.ask(lambda number: SubscribeRequest(number, 1, filter.encode()))
            # A Last-Event-ID is of no use here: what was missed is not kept.
            headers = {"Content-Type": STREAM, "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
            response = web.StreamResponse(headers=headers)
            await response.prepare(request)
            await stream.run(response)
            return response
        finally:
            attached.close()
            self._streams.discard(stream)


# -- problems ------------------------------------------------------------------------------------------------


class _Problem(Exception):  # noqa: N818 (it is an answer)
    def __init__(self, status: int, detail: str, wait_s: float | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.wait_s = wait_s

    def answer(self) -> web.Response:
        """Return it as an answer."""
        headers = {"WWW-Authenticate": CHALLENGE} if self.status == 401 else {}
        wait_s = _RETRY_S.get(self.status) if self.wait_s is None else self.wait_s
        if wait_s is not None:
            headers["Retry-After"] = str(max(1, round(wait_s)))
        body = problem_line(self.status, str(self))
        return web.Response(status=self.status, body=body, headers=headers, content_type=PROBLEM)


def _status_of(error: CoveyError) -> int:
    if isinstance(error, RefusedError):
        return _REFUSED.get(error.kind, 403)
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 400)


@web.middleware
async def _problems(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except _Problem as problem:
        return problem.answer()
    except CoveyError as error:
        return _Problem(_status_of(error), str(error)).answer()


def _flag(request: web.Request, name: str) -> bool:
    text = request.query.get(name, "false").lower()
    if text not in ("true", "false", "1", "0", ""):
        raise _Problem(400, f"{name} is true or false, not {text!r:.20}")
    return text in ("true", "1", "")


def credentials_of(header: str) -> Shown:
    """Return what a header `Authorization` shows; AccessError if it cannot be read."""
    kind, _, value = header.partition(" ")
    if not header:
        return Shown()
    try:
        header.encode()
    except UnicodeEncodeError:  # aiohttp hands such bytes on as surrogates
        raise AccessError("the header Authorization is not UTF-8") from None
    if kind.lower() == "bearer" and value.strip():
        return Shown(token=value.strip())
    if kind.lower() == "basic":
        try:
            user, colon, password = b64decode(value.strip(), validate=True).decode().partition(":")
        except (Base64Error, ValueError):
            user = colon = password = ""
        if user and colon:
            return Shown(user, password)
    raise AccessError("the header Authorization is Bearer and a token, or Basic and a user with a password")


def authorise_by(hub: Hub) -> Authorise:
    """Return a function that finds the permissions of a request, as the broker's security has them."""

    async def authorise(request: web.Request) -> Permissions:
        assert isinstance(request.protocol, Visitor), "it came through our door"
        shown = credentials_of(request.headers.get("Authorization", ""))
        return await hub.show(request.protocol.number, request.remote or "", shown)

    return authorise


def check_exposed(config: BrokerConfig, security: Security) -> None:
    """ConfigError if events are served beyond this machine by a broker that knows nobody and says nothing of it."""
    admin = config.admin
    if admin is None or is_loopback(admin.host) or security.has_credentials:
        return
    if config.security.anonymous is None:
        raise ConfigError(
            f"admin.events: {admin.host!r:.60} can be reached by others, and there are neither users nor tokens "
            "(hint: a section [anonymous] says what everybody may do)"
        )


def gateway_of(hub: Hub) -> web.Application | None:
    """Return the application for `/events`, if it is wanted; ConfigError if others could use it unasked."""
    config = hub.config
    if config.admin is None or not config.admin.events:
        return None
    check_exposed(config, hub.security)
    return Gateway(hub, max_frame=config.max_frame, authorise=authorise_by(hub)).application()
