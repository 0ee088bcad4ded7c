"""Link: one life of the connection to a broker, from the greeting to its end.

It knows requests and their answers, and gives everything else to its client. It never comes back: the client makes
another one (`session`).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from struct import Struct
from typing import Final, Protocol

from covey.client.options import Address, Options
from covey.client.stream import Stream
from covey.errors import BusyError, CoveyError, LinkError, ProtocolError, RefusedError, TimedOutError
from covey.protocol.control import (
    OURS,
    AdvertiseRequest,
    Goodbye,
    Hello,
    Reply,
    Request,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
    Welcome,
    agreed_version,
    decode_life,
    decode_reply,
    encode,
)
from covey.protocol.frames import Kind
from covey.protocol.outbox import BLOCK, Bounds

# What may wait in the connection before a publisher is held back.
BOUNDS: Final = Bounds(200_000, 4 << 20, BLOCK)
MAX_CONTROL: Final = 4_096  # bytes that a delivery may have beside its event

_DELIVERY: Final = int(Kind.DELIVERY)
_COUNT: Final = Struct("<I")
_NAME: Final = Struct("<QQ")


class Receiver(Protocol):
    """To whom a link gives what comes."""

    def deliveries(self, frames: Sequence[bytes]) -> None:
        """DELIVERY frames, in order."""

    def taken(self, publisher: int, number: int) -> None:
        """An event is on the broker's disk."""

    def refused(self, error: RefusedError, number: int) -> None:
        """The broker did not take the event of that number, or (0) something that nobody waits for."""

    def has_room(self) -> None:
        """So much was sent that publishers can go on."""

    def goodbye(self) -> None:
        """The broker goes, and hears what is sent now."""

    def lost(self) -> None:
        """Nothing can be sent any more."""


class GoneError(LinkError):
    """The link ended while something was waited for; on another link it can be asked again."""


class Link:
    """A connection to one broker; see the module's text. `dial` makes one."""

    def __init__(self, receiver: Receiver, address: Address) -> None:
        loop = asyncio.get_running_loop()
        self._receiver = receiver
        self._welcome: asyncio.Future[Welcome] = loop.create_future()
        self._requests: dict[int, asyncio.Future[None]] = {}
        self._last_request = 0
        self.address = address
        self.connection = Stream(self, BOUNDS)
        self.ended: asyncio.Future[str] = loop.create_future()  # with the reason
        self.may_return = True  # unless the broker said that coming back is of no use
        self.number = 0
        self.broker = ""
        self.max_frame = 0

    @property
    def is_open(self) -> bool:
        """Whether something can still be sent."""
        return self.connection.is_open and not self.ended.done()

    async def greet(self, options: Options) -> None:
        """Say who we are and wait for the answer; LinkError if there is none, RefusedError if we are not wanted."""
        token, user, password = options.token, options.user, options.password
        if not token and not user:
            token, user, password = self.address[3:]
        hello = Hello(OURS.oldest, "client", options.name, token, user, password, newest=OURS.newest)
        self.connection.send(Kind.HELLO, encode(hello))
        welcome = await self._welcome
        self.connection.version = agreed_version(
            OURS, welcome, f"this client of the broker at {self.address}"
        )
        self.number, self.broker, self.max_frame = welcome.number, welcome.broker, welcome.max_frame
        self.connection.greeted(max(welcome.max_frame, 1 << 16) + MAX_CONTROL, welcome.lease_s or 30.0)

    # -- requests --------------------------------------------------------------------------------------------

    def next_request(self) -> int:
        """Return the number of the next request."""
        self._last_request += 1
        return self._last_request

    def ask(self, request: Request) -> asyncio.Future[None]:
        """Send a request behind all events that were sent before; the future has its answer."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_look)
        if not self.is_open:
            answer.set_exception(GoneError("the link to the broker is gone"))
            return answer
        self._requests[request.request] = answer
        self.connection.send(Kind.REQUEST, encode(request), barrier=True)
        return answer

    def abandon(self, request: Request, answer: asyncio.Future[None]) -> None:
        """Nobody waits for this answer any longer; what is granted nevertheless is given back."""
        undo: UnsubscribeRequest | UnadvertiseRequest
        if isinstance(request, SubscribeRequest):
            undo = UnsubscribeRequest(self.next_request(), request.sid)
        elif isinstance(request, AdvertiseRequest):
            undo = UnadvertiseRequest(self.next_request(), request.aid)
        else:
            return
        answer.add_done_callback(lambda done: None if done.exception() else self.ask(undo) and None)

    # -- what the connection reports -------------------------------------------------------------------------

    def opened(self, connection: Stream) -> None:
        """Nothing to do: the broker is greeted by whoever dials."""

    def received(self, connection: Stream, frames: Sequence[bytes]) -> None:
        """Sort what has come; most of it is deliveries, all in a row."""
        first = 0
        for at, one in enumerate(frames):
            if one[0] != _DELIVERY:
                if at > first:
                    self._receiver.deliveries(frames[first:at])
                first = at + 1
                self._control(one)
        if first < len(frames):
            self._receiver.deliveries(frames[first:] if first else frames)

    def _control(self, one: bytes) -> None:
        kind = one[0]
        if kind == Kind.REPLY:
            self._answered(decode_reply(memoryview(one)[1:]))
        elif kind == Kind.TAKEN:
            self._taken(one)
        elif kind in (Kind.WELCOME, Kind.GOODBYE):
            self._life(one)
        else:
            raise ProtocolError(f"a broker does not send frames of the kind {kind} to a client")

    def _life(self, one: bytes) -> None:
        said = decode_life(memoryview(one)[1:])
        if isinstance(said, Goodbye):
            self._goodbye(said)
        elif not isinstance(said, Welcome) or self._welcome.done():
            raise ProtocolError("a broker greets a client once")
        else:
            self._welcome.set_result(said)

    def _goodbye(self, said: Goodbye) -> None:
        self.may_return = said.retry
        if not self._welcome.done():
            error = BusyError if said.retry else RefusedError
            self._welcome.set_exception(error(f"the broker at {self.address} says: {said.reason:.300}"))
        reason = f"the broker says: {said.reason:.300}"
        if said.retry:
            # It has said everything, and still hears what we have said.
            self._receiver.goodbye()
            self.connection.end(reason, tell=self.connection.is_open)
        else:
            self.connection.abort(reason)

    def _answered(self, reply: Reply) -> None:
        refusals = {reply.event: reply.error} if reply.event else {}
        error = RefusedError(reply.error, refusals, reply.kind) if reply.error else None
        waiting = self._requests.pop(reply.request, None)
        if waiting is None or waiting.done():
            if error is not None:
                self._receiver.refused(error, reply.event)
        elif error is not None:
            waiting.set_exception(error)
        else:
            waiting.set_result(None)

    def _taken(self, one: bytes) -> None:
        if len(one) < 5 or len(one) != 5 + _NAME.size * _COUNT.unpack_from(one, 1)[0]:
            raise ProtocolError("what was taken cannot be read")
        for publisher, number in _NAME.iter_unpack(memoryview(one)[5:]):
            self._receiver.taken(publisher, number)

    def closed(self, connection: Stream, reason: str) -> None:
        """Nobody waits any longer."""
        if not self._welcome.done():
            self._welcome.set_exception(LinkError(f"the broker at {self.address} ended the link: {reason}"))
            self._welcome.exception()  # nobody may have begun to wait for it
        waiting, self._requests = self._requests, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(GoneError(f"the link to the broker is gone: {reason}"))
        if not self.ended.done():
            self.ended.set_result(reason)
        self._receiver.lost()

    def drained(self, connection: Stream) -> None:
        """There is room for more events."""
        self._receiver.has_room()


def _look(answer: asyncio.Future[None]) -> None:
    """Look at an answer, lest asyncio complain of an error for which nobody has waited."""
    if not answer.cancelled():
        answer.exception()


async def dial(receiver: Receiver, address: Address, options: Options) -> Link:
    """Return a link to the broker at the address, greeted.

    LinkError, RefusedError or TimedOutError if there is none, BusyError if the broker asks to come back later.
    """
    link = Link(receiver, address)
    loop = asyncio.get_running_loop()
    context: ssl.SSLContext | bool | None = options.tls or address.is_tls or None
    if context is True:
        context = ssl.create_default_context()
    try:
        async with asyncio.timeout(options.connect_timeout_s):
            await loop.create_connection(
                lambda: link.connection, address.host, address.port, ssl=context or None
            )
            await link.greet(options)
    except TimeoutError:
        link.connection.abort()
        raise TimedOutError(
            f"the broker at {address} has not answered within {options.connect_timeout_s:g} s"
        ) from None
    except OSError as error:
        link.connection.abort()
        raise LinkError(f"no broker can be reached at {address}: {_reason(error)}") from None
    except (CoveyError, asyncio.CancelledError):
        link.connection.abort()
        raise
    return link


def _reason(error: OSError) -> str:
    # asyncio packs what the system says into a sentence with the address, which we have said already.
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS fails: {error.reason or error}"
    return (error.strerror or str(error)).partition("[Errno")[0].strip() or str(error)
