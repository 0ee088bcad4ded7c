"""Events over HTTP, for any language: POST CloudEvents, and GET a stream of those that match a filter.

    POST /events                        a CloudEvent: structured, binary or a batch; ?confirm=true waits for the disk
    GET  /events?filter=…&language=…    server-sent events, each a CloudEvent in JSON

An aiohttp application for a server to mount: `server.add_subapp("/events", Gateway(broker).application())`. It is an
ordinary client of the broker: whoever posts or listens may do what their permissions say, which `authorise` finds in
the request. Everything is bounded: bodies, batches, streams, and what waits for a slow listener, who is cut off.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import msgspec
from aiohttp import web

from covey.broker.http import cloudevents
from covey.broker.http.attached import Attached, Hub
from covey.broker.http.streaming import GatewayLimits, Stream, problem_line
from covey.broker.permissions import EVERYTHING, Permissions
from covey.core.families import DEFAULT_LANGUAGE, parse
from covey.errors import CoveyError, EventError, FilterError, LinkError, ProtocolError, RefusedError
from covey.wire.messages import AdvertiseRequest, SubscribeRequest

Authorise = Callable[[web.Request], Awaitable[Permissions]]

PROBLEM: Final = "application/problem+json"
STREAM: Final = "text/event-stream"
CHALLENGE: Final = 'Bearer realm="covey", Basic realm="covey", charset="UTF-8"'
MAX_PUBLISHERS: Final = 100  # permissions for which a client is kept
# Every CloudEvent matches it, so that none is flooded through the network.
ADVERTISED: Final = parse(f"specversion = '{cloudevents.VERSION}'")

_STATUS: Final[tuple[tuple[type[CoveyError], int], ...]] = (
    (RefusedError, 403),
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

    async def _permissions(self, request: web.Request) -> Permissions:
        try:
            return await self._authorise(request)
        except CoveyError as error:
            raise _Problem(401, str(error)) from None

    # -- posting ---------------------------------------------------------------------------------------------

    async def _post(self, request: web.Request) -> web.StreamResponse:
        await self._permissions(request)  # nobody else's body is read
        confirm = _flag(request, "confirm")
        events = self._read(request, await self._body(request))
        permissions = await self._permissions(request)  # as they are now that the body is here
        published = self._publisher(permissions).publish(events, self._max_frame, confirm=confirm)
        if published:
            _, late = await asyncio.wait(published, timeout=self._limits.confirm_s)
            if late:
                what = "confirmed" if confirm else "taken"
                raise _Problem(504, f"{len(late):,} of {len(events):,} events are not {what} in time")
            _raise_refusals(published)
        answer = {"events": len(events), "confirmed": confirm}
        return web.Response(
            status=200 if confirm else 202, body=msgspec.json.encode(answer), content_type="application/json"
        )

    async def _body(self, request: web.Request) -> bytes:
        most = self._limits.body_bytes
        if (request.content_length or 0) > most:
            raise _Problem(413, f"a body of {request.content_length:,} bytes; at most {most:,} are taken")
        body = bytearray()
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > most:
                raise _Problem(413, f"a body of more than {most:,} bytes")
        return bytes(body)

    def _read(self, request: web.Request, body: bytes) -> list[cloudevents.Posted]:
        media_type = request.headers.get("Content-Type", "")
        kind = media_type.partition(";")[0].strip().lower()
        if kind == cloudevents.BATCH:
            return cloudevents.read_batch(body, self._limits.batch)
        if kind == cloudevents.STRUCTURED:
            return [cloudevents.read_structured(body)]
        if "ce-id" in request.headers or "ce-specversion" in request.headers:
            return [cloudevents.read_binary(request.headers, media_type, body)]
        raise _Problem(415, f"post {cloudevents.STRUCTURED}, {cloudevents.BATCH}, or headers such as ce-id")

    def _publisher(self, permissions: Permissions) -> Attached:
        """Return a client with these permissions; what one posts after another keeps its order."""
        known = self._publishers.get(permissions)
        if known is None or not known.serves(permissions):
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
        stream = Stream(self._limits)
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


def _raise_refusals(published: list[asyncio.Future[None]]) -> None:
    """Raise what is wrong with the first event that was not taken, and how many of how many there are."""
    problems = [(at, problem) for at, one in enumerate(published, 1) if (problem := one.exception())]
    if problems and len(published) > 1:
        at, problem = problems[0]
        if isinstance(problem, RefusedError):
            said = f"{len(problems):,} of {len(published):,} events are refused, the first one, event {at:,}"
            raise RefusedError(f"{said}: {problem}")
    if problems:
        raise problems[0][1]


# -- problems ------------------------------------------------------------------------------------------------


class _Problem(Exception):  # noqa: N818 (it is an answer)
    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


@web.middleware
async def _problems(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    answer = partial(web.Response, content_type=PROBLEM)
    try:
        return await handler(request)
    except _Problem as problem:
        headers = {"WWW-Authenticate": CHALLENGE} if problem.status == 401 else None
        return answer(status=problem.status, body=problem_line(problem.status, str(problem)), headers=headers)
    except CoveyError as error:
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 400)
        return answer(status=status, body=problem_line(status, str(error)))


def _flag(request: web.Request, name: str) -> bool:
    text = request.query.get(name, "false").lower()
    if text not in ("true", "false", "1", "0", ""):
        raise _Problem(400, f"{name} is true or false, not {text!r:.20}")
    return text in ("true", "1", "")
