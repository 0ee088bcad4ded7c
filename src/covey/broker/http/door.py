"""The HTTP door of a broker: how connections to its pages are bounded, and which requests reach a page at all.

Whatever the page, with and without credentials:

    connections    count with all others (`broker.admission`). One that has no whole request within REQUEST_S is ended,
                   between requests too, and so is one that takes less than STALLED_BYTES of an answer in STALLED_S
    headers        MAX_HEADERS of them, of at most MAX_LINE bytes each
    bodies         are read by those pages only that want one, within bytes and seconds (`read_body`). A compressed one
                   is refused, and never expanded
    Host           must be a name or an address of this broker: loopback, `[admin] hosts`, and where the door can be
                   reached from elsewhere any address. A page from elsewhere whose name was pointed to this machine
                   (DNS rebinding) is told 421
    Origin         must be the same as Host, or one of `[admin] origins`, whose pages then may read the answers (CORS)
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address
from logging import Logger
from typing import Any, Final, Protocol, cast
from urllib.parse import urlsplit

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from covey.broker.config import AdminConfig
from covey.broker.effects import Ending
from covey.broker.listening import Listener, Pace, bound_sockets
from covey.broker.security import is_loopback
from covey.errors import ConfigError

MAX_LINE: Final = 8_190  # bytes of a request's first line, and of each header
MAX_HEADERS: Final = 100
# From the end of a request, or the beginning, until the next one is here with its headers.
REQUEST_S: Final = 15.0
BODY_S: Final = 30.0  # for a body
STALLED_S: Final = 60.0  # in which a peer has to take
STALLED_BYTES: Final = 65_536  # so much of what waits for it, or nearly all
LINGERING_S: Final = 1.0  # for a body that nobody wants to read
PREFLIGHT_S: Final = 600  # that a browser may remember what is allowed
AT_ONCE: Final = 4  # requests that begin in one turn of the event loop; others wait for the next
METHODS: Final = "GET, POST, DELETE"

_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::[0-9]{1,5})?")
_NAMES: Final = re.compile(r"[A-Za-z0-9_, -]{1,1000}")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class TurnedAway(Exception):  # noqa: N818 (it is an answer)
    """A request that reaches no page: a status, one line, and `reason` by which it is counted."""

    def __init__(self, status: int, line: str, reason: str, wait_s: float | None = None) -> None:
        super().__init__(line)
        self.status = status
        self.reason = reason
        self.wait_s = wait_s


class Stream(Protocol):
    """What the shell can do to a stream."""

    def end(self, how: Ending) -> None:
        """End it."""


class Shell(Protocol):
    """What a door needs of the broker's shell."""

    def arrive(
        self,
        stream: socket.socket,
        address: Any,
        make: Callable[[int], asyncio.Protocol],
        tls: ssl.SSLContext | None,
    ) -> None:
        """Take in a stream that was accepted; `make` gives its protocol, from its number."""

    def opened(self, number: int, stream: Stream) -> bool:
        """A stream is there; return whether it is to be."""

    def closed(self, number: int) -> None:
        """It is gone."""

    def turned_away(self, reason: str) -> None:
        """Count a request that reached no page."""

    def say(self, level: int, event: str, /, **fields: object) -> None:
        """Log an event."""


class Visitor(web.RequestHandler):
    """One HTTP connection."""

    def __init__(self, shell: Shell, number: int, server: web.Server) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=cast(Logger, None),  # as AppRunner has it: there is none
            keepalive_timeout=REQUEST_S,  # which aiohttp counts from the beginning, too
            max_line_size=MAX_LINE,
            max_field_size=MAX_LINE,
            max_headers=MAX_HEADERS,
            lingering_time=LINGERING_S,
            auto_decompress=False,
        )
        self.number = number
        self._shell = shell
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._shell.opened(self.number, self):
            super().connection_made(transport)
        else:
            cast(asyncio.Transport, transport).abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._go_on()
        self._shell.closed(self.number)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look_at_peer()

    def resume_writing(self) -> None:
        self._go_on()
        super().resume_writing()

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log what failed, but not what is wrong with a request: anybody can send that, as often as they like."""
        if not isinstance(kw.get("exc_info"), HttpProcessingError):
            super().log_exception(*args, **kw)

    def _look_at_peer(self, waited: int | None = None) -> None:
        """End the connection if the peer has taken too little of what `waited` for it, else look again later.

        Once the peer has taken nearly all, it is `_go_on`.
        """
        if self.transport is None:
            return
        waiting = self.transport.get_write_buffer_size()
        if waited is not None and waited - waiting < STALLED_BYTES:
            self.end(Ending.ABORT)
        else:
            self._stalled = self._loop.call_later(STALLED_S, self._look_at_peer, waiting)

    def _go_on(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def end(self, how: Ending) -> None:
        """End the connection at once, whatever is under way."""
        if self.transport is not None:
            self.transport.abort()


class Door:
    """Serves an application at an address, to requests that may reach it; see the module's text."""

    def __init__(
        self,
        shell: Shell,
        application: web.Application,
        config: AdminConfig,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._shell = shell
        self._config = config
        self._tls = tls
        # A request whose peer has gone is cancelled: a listener is forgotten at once.
        self._runner = web.AppRunner(
            application, access_log=None, shutdown_timeout=1.0, handler_cancellation=True
        )
        self._listener: Listener | None = None
        self._hosts = Hosts(config)
        self._pace = Pace(AT_ONCE)
        application.middlewares.insert(0, self._guard)
        application.on_response_prepare.append(self._allow_origin)

    async def start(self) -> None:
        """Serve; ConfigError if the address cannot be had."""
        config = self._config
        await self._runner.setup()
        try:
            sockets = await bound_sockets(config.host, config.port)
        except OSError as error:
            await self.stop()
            raise ConfigError(f"the admin pages cannot be at {config.host}:{config.port}: {error}") from None
        server = self._runner.server
        assert server is not None, "it is set up"
        server.request_factory = partial(_request, server.request_factory)
        make = partial(self._visitor, server)
        self._listener = Listener(
            sockets, lambda one, address: self._shell.arrive(one, address, make, self._tls), self._shell.say
        )

    def _visitor(self, server: web.Server, number: int) -> Visitor:
        return Visitor(self._shell, number, server)

    async def stop(self) -> None:
        """Serve no more."""
        if self._listener is not None:
            self._listener.close()
        await self._runner.cleanup()

    @property
    def port(self) -> int:
        """Where it is."""
        assert self._listener is not None
        return self._listener.port

    # -- requests --------------------------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            await self._pace.turn()
            _check_encoding(request)
            self._hosts.check(request)
            if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
                return _preflight(request)
            return await handler(request)
        except TurnedAway as refusal:
            self._shell.turned_away(refusal.reason)
            return refused(request, refusal)

    async def _allow_origin(self, request: web.Request, response: web.StreamResponse) -> None:
        if self._config.origins:
            response.headers["Vary"] = "Origin"
            if request.headers.get("Origin") in self._config.origins:
                response.headers["Access-Control-Allow-Origin"] = request.headers["Origin"]


def _request(make: Callable[..., web.BaseRequest], message: Any, *rest: Any) -> web.BaseRequest:
    """Return a request without a header Expect that nobody understands: aiohttp would fail to repeat it."""
    expected = message.headers.get("Expect")
    if expected is not None and expected.lower() != "100-continue":
        headers = message.headers.copy()
        del headers["Expect"]
        message = message._replace(headers=headers)
    return make(message, *rest)


def refused(request: web.Request, refusal: TurnedAway) -> web.Response:
    """Return the answer to a request that reaches no page; the connection ends with it."""
    status, line = refusal.status, " ".join(str(refusal).split())[:500]
    body, kind = msgspec.json.encode({"error": line}) + b"\n", "application/json"
    if request.path.startswith("/events"):
        problem = {"title": HTTPStatus(status).phrase, "status": status, "detail": line}
        body, kind = msgspec.json.encode(problem), "application/problem+json"
    answer = web.Response(status=status, body=body, content_type=kind)
    if refusal.wait_s is not None:
        answer.headers["Retry-After"] = str(max(1, round(refusal.wait_s)))
    answer.force_close()
    return answer


def _check_encoding(request: web.Request) -> None:
    encodings = ",".join(request.headers.getall("Content-Encoding", []))
    if any(one.strip().lower() not in ("", "identity") for one in encodings.split(",")):
        raise TurnedAway(415, "bodies with a Content-Encoding are not taken: send it as it is", "encoding")


def _preflight(request: web.Request) -> web.Response:
    """Answer what a browser asks before a page from elsewhere; whether that may ask at all is known by now."""
    headers = {"Access-Control-Max-Age": str(PREFLIGHT_S), "Access-Control-Allow-Methods": METHODS}
    wanted = request.headers.get("Access-Control-Request-Headers", "")
    if _NAMES.fullmatch(wanted):
        headers["Access-Control-Allow-Headers"] = wanted
    return web.Response(status=204, headers=headers)


class Hosts:
    """The names and origins by which pages may be asked for."""

    def __init__(self, config: AdminConfig) -> None:
        names = [_bare(one) for one in (*config.hosts, config.host)]
        self._names = {name for name in names if not name.startswith(".")}
        self._suffixes = tuple(name for name in names if name.startswith("."))
        self._takes_addresses = not is_loopback(config.host)
        self._origins = frozenset(config.origins)

    def check(self, request: web.Request) -> None:
        """Raise TurnedAway for a request with a Host or an Origin that is none of ours."""
        said = request.headers.getall("Host", [])
        if not said and request.version < (1, 1):
            host = ""  # no browser speaks so, but checks of health do
        else:
            if len(said) != 1 or not _HOST.fullmatch(said[0]):
                raise TurnedAway(400, "a request has one header Host, a name or an address", "host")
            host = said[0]
            if not self.is_ours(_bare(_HOST.fullmatch(host)[1])):  # type: ignore[index]
                raise TurnedAway(
                    421,
                    f"{host!r:.80} is no name of this broker's (hint: [admin] hosts says which are)",
                    "host",
                )
        origins = request.headers.getall("Origin", [])
        if origins and not all(one in self._origins or _is_same(one, host) for one in origins):
            raise TurnedAway(
                403,
                f"pages of {origins[0]!r:.80} may not ask this broker (hint: [admin] origins says which may)",
                "origin",
            )

    def is_ours(self, name: str) -> bool:
        """Return whether a host's name or address, without a port, is one of this broker's."""
        if name in self._names or name == "localhost" or name.endswith((".localhost", *self._suffixes)):
            return True
        try:
            address = ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or self._takes_addresses


def _bare(name: str) -> str:
    """Return a host's name as it is compared."""
    return name.lower().removeprefix("[").removesuffix("]").removesuffix(".")


def _is_same(origin: str, host: str) -> bool:
    """Return whether an origin is that of the pages at a host; a proxy before them may speak another scheme."""
    try:
        parts = urlsplit(origin)
        here = urlsplit(f"{parts.scheme}://{host}")
        default = _DEFAULT_PORTS.get(parts.scheme)
        same_port = (parts.port or default) == (here.port or default)
    except ValueError:
        return False
    is_origin = default is not None and origin == f"{parts.scheme}://{parts.netloc}" and "@" not in origin
    return is_origin and bool(host) and parts.hostname == here.hostname and same_port


async def read_body(
    request: web.Request,
    most: int,
    within_s: float | None = None,
    take: Callable[[int], None] = lambda size: None,
) -> bytes:
    """Return a request's body; TurnedAway if it has more bytes than `most`, or does not come in time.

    `take` hears of its bytes before they are kept, and may raise.
    """
    if (request.content_length or 0) > most:
        raise TurnedAway(
            413, f"a body of {request.content_length:,} bytes; at most {most:,} are taken", "body"
        )
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S if within_s is None else within_s):
            async for chunk in request.content.iter_any():
                take(len(chunk))
                body += chunk
                if len(body) > most:
                    raise TurnedAway(413, f"a body of more than {most:,} bytes", "body")
    except TimeoutError:
        raise TurnedAway(408, "the body did not come in time", "body") from None
    return bytes(body)
