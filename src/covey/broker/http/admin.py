"""The admin pages of a broker: JSON for people and programs, metrics for Prometheus. docs/admin.md lists them.

They show and explain. The only things that they change are which plan is installed and which clients are connected, and
that only where a token is configured. Off unless configured; with a token, everything but the two checks of health
requires it as `Authorization: Bearer …`. A second token, for viewing, opens the pages that show the broker's state:
neither those that change something, nor the sampled events of clients. Answers are bounded: long lists come in pages.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from enum import Enum
from hashlib import sha256
from typing import Final, NamedTuple, Protocol

import msgspec
from aiohttp import web

from covey.broker.config import AdminConfig
from covey.broker.effects import EndClient, Install, RollBack
from covey.broker.http.door import Door, Handler, Shell, TurnedAway, Visitor, read_body, refused
from covey.broker.introspection import (
    MAX_PAGE,
    Introspection,
    Page,
    Pulse,
    Question,
    Row,
    explain,
    linkz,
    planz,
    routez,
    storez,
    subz,
    watchz,
)
from covey.broker.metrics import CONTENT_TYPE, exposition
from covey.broker.sampling import listed, path_of
from covey.broker.security import Contexts, read_token_hash
from covey.errors import BusyError, ConfigError, CoveyError

MAX_BODY: Final = 1 << 20
MAX_PLAN: Final = 32 << 20
PLAN_S: Final = 300.0  # for a plan's file
MAX_EVERY_S: Final = 60


class Access(Enum):
    """Which token a page requires, where tokens are configured."""

    OPEN = 0
    VIEW = 1
    ADMIN = 2


class Endpoint(NamedTuple):
    """A page: where it is, what it takes, what it shows, and who may have it."""

    method: str
    path: str
    takes: str
    meaning: str
    access: Access = Access.VIEW


ENDPOINTS: Final = (
    Endpoint("GET", "/healthz", "", "200 while the process answers; needs no token", Access.OPEN),
    Endpoint("GET", "/readyz", "links", "200 if clients are served, else 503; needs no token", Access.OPEN),
    Endpoint("GET", "/varz", "", "the broker at a glance: settings, counts, queues, slow consumers"),
    Endpoint("GET", "/linkz", "limit, offset, link", "neighbours and clients, and links that ended last"),
    Endpoint(
        "DELETE", "/linkz", "link", "end the connection of a client; needs the admin token", Access.ADMIN
    ),
    Endpoint("GET", "/subz", "limit, offset, link, key", "what clients subscribed to"),
    Endpoint("GET", "/routez", "limit, offset, link, what", "the routing table: entries, advertisements"),
    Endpoint(
        "GET", "/planz", "file", "epochs and dissemination trees that are installed; or the plan's file"
    ),
    Endpoint(
        "POST",
        "/planz",
        "a plan's file",
        "install a plan in the whole network; an empty body: none; needs the admin token",
        Access.ADMIN,
    ),
    Endpoint(
        "DELETE",
        "/planz",
        "",
        "take back the plan that was installed at this broker last; needs the admin token",
        Access.ADMIN,
    ),
    Endpoint(
        "GET", "/storez", "limit, offset, link", "the store, its incidents, and durable subscriptions' queues"
    ),
    Endpoint(
        "GET",
        "/samplez",
        "table, name",
        "files of samples that can be had; or one of them; needs the admin token",
        Access.ADMIN,
    ),
    Endpoint("GET", "/metrics", "", "metrics in Prometheus' text format"),
    Endpoint("GET", "/watchz", "every", "what changes all the time, a line of JSON every so many seconds"),
    Endpoint("POST", "/explainz", "a JSON body", "where an event would go from here, and why"),
)
ACCESS: Final = {(one.method, one.path): one.access for one in ENDPOINTS}


EVENTS: Final = "/events"  # it has clients of its own, with credentials of their own


def _access(request: web.Request) -> Access:
    """Return what a request requires; one for a page that does not exist is told so only with a token."""
    if request.path == EVENTS or request.path.startswith(f"{EVENTS}/"):
        return Access.OPEN
    return ACCESS.get((request.method, request.path), Access.VIEW)


class Host(Shell, Protocol):
    """What the admin pages need of the broker's shell."""

    async def operate(self, number: int) -> None:
        """Give a request a place for operators; BusyError if there is none."""


class Admin:
    """The admin pages of one broker, on a port of their own."""

    def __init__(
        self,
        shell: Host,
        view: Introspection,
        config: AdminConfig,
        change: Callable[[Install | RollBack | EndClient], None],
        contexts: Contexts | None = None,
        events: web.Application | None = None,
    ) -> None:
        self._shell = shell
        self._view = view
        self._change = change  # gives the broker an input
        self._pulse = Pulse(lambda gap_s: msgspec.json.encode(watchz(view, gap_s)) + b"\n")
        if config.tls and contexts is None:
            raise ConfigError("admin.tls needs a section [tls]")
        tls = contexts.listen if config.tls and contexts is not None else None
        tokens = ((config.token, Access.ADMIN), (config.view_token, Access.VIEW))
        self._tokens = [(read_token_hash(hashed), access) for hashed, access in tokens if hashed]
        self.application = web.Application(middlewares=[self._guard])
        self._door = Door(shell, self.application, config, tls)
        handlers: dict[tuple[str, str], Handler] = {
            ("GET", "/healthz"): self._healthz,
            ("GET", "/readyz"): self._readyz,
            ("GET", "/varz"): self._varz,
            ("GET", "/linkz"): self._linkz,
            ("DELETE", "/linkz"): self._end_client,
            ("GET", "/subz"): self._subz,
            ("GET", "/routez"): self._routez,
            ("GET", "/planz"): self._planz,
            ("POST", "/planz"): self._install,
            ("DELETE", "/planz"): self._roll_back,
            ("GET", "/storez"): self._storez,
            ("GET", "/samplez"): self._samplez,
            ("GET", "/metrics"): self._metrics,
            ("GET", "/watchz"): self._watchz,
            ("POST", "/explainz"): self._explainz,
        }
        for endpoint in ENDPOINTS:
            handler = handlers[endpoint.method, endpoint.path]
            self.application.router.add_route(endpoint.method, endpoint.path, handler)
        if events is not None:
            self.application.add_subapp(EVENTS, events)

    async def start(self) -> None:
        """Serve; ConfigError if the address cannot be had."""
        await self._door.start()

    async def stop(self) -> None:
        """Serve no more."""
        await self._door.stop()

    @property
    def port(self) -> int:
        """Where they are."""
        return self._door.port

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        required = _access(request)
        if self._tokens and required is not Access.OPEN:
            shown = self._shown(request)
            if shown is Access.OPEN:
                self._shell.turned_away("credentials")
                answer = _answer({"error": "the admin pages of this broker want a token"}, 401)
                answer.headers["WWW-Authenticate"] = 'Bearer realm="covey admin"'
                return answer
            if shown.value < required.value:
                self._shell.turned_away("credentials")
                return _answer(
                    {"error": "this page needs the admin token; the view token is not enough"}, 403
                )
        try:
            if required is not Access.OPEN:
                assert isinstance(request.protocol, Visitor), "it came through our door"
                await self._shell.operate(request.protocol.number)
            return await handler(request)
        except BusyError as error:
            return refused(request, TurnedAway(503, str(error), "room", error.wait_s))
        except CoveyError as error:
            return _answer({"error": str(error)}, 400)
        except web.HTTPException as error:
            return _answer({"error": error.reason.lower()}, error.status)

    def _shown(self, request: web.Request) -> Access:
        """Return what the token of a request opens. All tokens are compared, whichever it is."""
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        # Bytes that are not UTF-8 come as surrogates.
        digest, found = sha256(given.encode("utf-8", "surrogateescape")).digest(), Access.OPEN
        for token, access in self._tokens:
            if hmac.compare_digest(digest, token):
                found = access
        return found

    # -- pages -----------------------------------------------------------------------------------------------

    async def _healthz(self, request: web.Request) -> web.Response:
        return _answer({"healthy": True, "broker": self._view.name})

    async def _readyz(self, request: web.Request) -> web.Response:
        found = self._view.ready()
        wants_links = request.query.get("links", "") not in ("", "0", "false")
        ready = found["ready"] and not (wants_links and found["links_missing"])
        return _answer({**found, "ready": ready}, 200 if ready else 503)

    async def _varz(self, request: web.Request) -> web.Response:
        return _answer(self._view.varz())

    async def _linkz(self, request: web.Request) -> web.Response:
        return _answer(linkz(self._view, _page(request)))

    async def _subz(self, request: web.Request) -> web.Response:
        return _answer(subz(self._view, _page(request), request.query.get("key", "")))

    async def _routez(self, request: web.Request) -> web.Response:
        what = request.query.get("what", "entries")
        if what not in ("entries", "advertisements"):
            raise ConfigError(f"what={what!r:.40} is neither entries nor advertisements")
        return _answer(routez(self._view, _page(request), what))

    async def _planz(self, request: web.Request) -> web.Response:
        if request.query.get("file", "") not in ("", "0", "false"):
            return web.Response(body=self._view.plan_file(), content_type="application/octet-stream")
        return _answer(planz(self._view))

    async def _storez(self, request: web.Request) -> web.Response:
        return _answer(storez(self._view, _page(request)))

    async def _samplez(self, request: web.Request) -> web.StreamResponse:
        directory = self._view.samples_dir()
        if "name" not in request.query:
            return _answer({"broker": self._view.name, "rows": listed(directory)})
        file = path_of(directory, request.query.get("table", ""), request.query["name"])
        return web.FileResponse(file, headers={"Content-Type": "application/octet-stream"})

    async def _install(self, request: web.Request) -> web.Response:
        self._check_changes("plans are changed")
        self._change(Install(await read_body(request, MAX_PLAN, PLAN_S)))
        return _answer(planz(self._view), 202)

    async def _roll_back(self, request: web.Request) -> web.Response:
        self._check_changes("plans are changed")
        self._change(RollBack())
        return _answer(planz(self._view), 202)

    async def _end_client(self, request: web.Request) -> web.Response:
        self._check_changes("clients are disconnected")
        self._change(EndClient(request.query.get("link", "")))
        return _answer({"broker": self._view.name, "ended": request.query["link"]}, 202)

    def _check_changes(self, what: str) -> None:
        if not any(access is Access.ADMIN for _, access in self._tokens):
            raise web.HTTPForbidden(reason=f"{what} only where a token for the admin pages is configured")

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=exposition(self._view).encode(), headers={"Content-Type": CONTENT_TYPE})

    async def _watchz(self, request: web.Request) -> web.StreamResponse:
        every_s = _number(request, "every", 1, MAX_EVERY_S)
        response = web.StreamResponse(
            headers={"Content-Type": "application/x-ndjson", "Cache-Control": "no-store"}
        )
        try:
            await response.prepare(request)
            while True:
                await response.write(self._pulse.line())
                await asyncio.sleep(self._pulse.wait_s(max(every_s, Pulse.LEAST_S)))
        except ConnectionError:  # whoever watched has gone
            return response

    async def _explainz(self, request: web.Request) -> web.Response:
        try:
            question = msgspec.json.decode(await read_body(request, MAX_BODY), type=Question)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise ConfigError(f"the question cannot be read: {error!s:.200}") from None
        return _answer(explain(self._view, question))


def _answer(row: Row, status: int = 200) -> web.Response:
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
    return web.Response(body=msgspec.json.encode(row) + b"\n", status=status, headers=headers)


def _page(request: web.Request) -> Page:
    return Page(
        _number(request, "limit", 100, MAX_PAGE),
        _number(request, "offset", 0, 1 << 31),
        request.query.get("link", ""),
    )


def _number(request: web.Request, name: str, usual: int, most: int) -> int:
    text = request.query.get(name)
    if text is None:
        return usual
    if not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) <= most):
        raise ConfigError(f"{name}={text!r:.40} is no number from 0 to {most:,}")
    return int(text)
