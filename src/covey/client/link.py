"""Link: one life of the connection to a broker, from the greeting to its end.

It knows requests and their answers, and gives everything else to its client. It never comes back: the client makes
another one (`session`).

`Options` say where brokers are, and every setting of a client with its default, judged once:

covey://127.0.0.1:7400            plain
coveys://broker.example           over TLS; the port is 7400 unless said
covey://ann:secret@broker:7400    with a user and a password; a user alone is a token
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from struct import Struct
from typing import Any, Final, NamedTuple, Protocol, TypeAlias
from urllib.parse import unquote, urlsplit

from covey.client.stream import Stream
from covey.errors import (
    BusyError,
    ConfigError,
    CoveyError,
    LinkError,
    ProtocolError,
    RefusedError,
    TimedOutError,
)
from covey.protocol.control import (
    MAX_NAME,
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

DEFAULT_PORT: Final = 7400
DEFAULT_URL: Final = f"covey://127.0.0.1:{DEFAULT_PORT}"
HINT: Final = f"(hint: {DEFAULT_URL})"
MAX_ADDRESSES: Final = 1_000


class Address(NamedTuple):
    """One broker's address."""

    host: str
    port: int = DEFAULT_PORT
    is_tls: bool = False
    token: str = ""
    user: str = ""
    password: str = ""

    def __str__(self) -> str:
        """Return the address without its secrets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def address_of(url: str) -> Address:
    """Return the address that a url names; ConfigError if it names none. Its secrets are in no error."""
    if not isinstance(url, str):
        raise ConfigError(f"a broker's address is text, not {type(url).__name__} {HINT}")
    shown = repr(url.rpartition("@")[2] if "@" in url else url)[:80]
    try:
        parts = urlsplit(url if "://" in url else f"covey://{url}")
        port = parts.port
    except ValueError:
        raise ConfigError(f"{shown} is no address of a broker {HINT}") from None
    if parts.scheme not in ("covey", "coveys") or not parts.hostname or port == 0:
        raise ConfigError(f"{shown} is no address of a broker {HINT}")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ConfigError(f"{shown} has more than a host and a port {HINT}")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    secrets = ("", user, password) if parts.password is not None else (user, "", "")
    return Address(parts.hostname, port or DEFAULT_PORT, parts.scheme == "coveys", *secrets)


def addresses_of(urls: str | Iterable[str]) -> tuple[Address, ...]:
    """Return the addresses that one url, several with commas between them, or an iterable of urls name."""
    if isinstance(urls, str):
        urls = [url.strip() for url in urls.split(",") if url.strip()]
    urls = list(urls)
    if not 1 <= len(urls) <= MAX_ADDRESSES:  # counted before any is read, which takes long
        raise ConfigError(f"{len(urls):,} addresses of brokers; 1 to {MAX_ADDRESSES:,} are possible {HINT}")
    return tuple(dict.fromkeys(address_of(url) for url in urls))


def tls_context(ca: str = "", certificate: str = "", key: str = "") -> ssl.SSLContext:
    """Return a context that trusts the authorities of the file `ca`, and shows a certificate of its own.

    Without `ca` the system's authorities are trusted. ConfigError if a file cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=ca or None)
        if certificate:
            context.load_cert_chain(certificate, key or None)
    except (OSError, ValueError) as error:
        # An SSLError is an OSError.
        raise ConfigError(f"the files for TLS cannot be used: {error}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


Hook: TypeAlias = Callable[..., Awaitable[Any] | Any]

DROP_OLDEST, DROP_NEW, ERROR = POLICIES = ("drop-oldest", "drop-new", "error")

MAX_SECRET: Final = 4_096


@dataclass(frozen=True)
class Limits:
    """How much may wait in a subscription for its program, and what happens to more.

    drop-oldest    what waited longest makes room
    drop-new       new events are not taken
    error          the subscription ends: what waits can still be read, then SlowError is raised
    """

    events: int = 500_000
    bytes: int = 128 << 20
    policy: str = DROP_NEW

    def __post_init__(self) -> None:
        if self.events < 1 or self.bytes < 1:
            raise ConfigError("a subscription's pending limits must be positive")
        if self.policy not in POLICIES:
            raise ConfigError(f"there is no policy {self.policy!r:.40} (hint: {', '.join(POLICIES)})")


@dataclass(frozen=True)
class Options:
    """All settings of one client; see `covey.connect`."""

    name: str = ""
    token: str = ""
    user: str = ""
    password: str = ""
    tls: ssl.SSLContext | bool = False
    connect_timeout_s: float = 10.0
    timeout_s: float = 30.0
    reconnect_for_s: float = inf
    longest_pause_s: float = 5.0
    buffer_events: int = 100_000
    buffer_bytes: int = 16 << 20
    on_disconnect: Hook | None = None
    on_reconnect: Hook | None = None
    on_error: Hook | None = None

    def __post_init__(self) -> None:
        if len(self.name) > MAX_NAME:
            raise ConfigError(f"a client's name has at most {MAX_NAME} characters")
        if max(map(len, (self.token, self.user, self.password))) > MAX_SECRET:
            raise ConfigError(f"a token, user or password has at most {MAX_SECRET:,} characters")
        if self.token and self.user:
            raise ConfigError("a client shows a token or a user and a password, not both")
        for setting in ("connect_timeout_s", "timeout_s", "longest_pause_s"):
            if not getattr(self, setting) > 0:
                raise ConfigError(f"{setting} must be positive")
        for setting in ("reconnect_for_s", "buffer_events", "buffer_bytes"):
            if not getattr(self, setting) >= 0:
                raise ConfigError(f"{setting} must not be negative")


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
