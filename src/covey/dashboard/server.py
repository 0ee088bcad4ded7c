"""The dashboard over HTTP: the page, and what it asks for. Who may: `sessions`; what is shown: `model`.

    GET  /                     the page, and its files at /static/…; they hold nothing of the network
    POST /api/login, /logout   with a token; the session is in a cookie that scripts and other sites cannot use
    GET  /api/stream           what the map shows, as server-sent events, every TICK_S
    GET  /api/…                the rest, as JSON
    POST /api/install, /rollback, /end     changes, for admins

Requests are checked as those of the admin pages are (`broker.http.door`): Host, and Origin if there is one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web

from covey.broker.config import AdminConfig
from covey.broker.http.door import Hosts, TurnedAway
from covey.dashboard import plans
from covey.dashboard.collector import Collector
from covey.dashboard.covering import MAX_ROWS, tree_of
from covey.dashboard.explaining import explain
from covey.dashboard.history import STEP_S, History, added, percentile
from covey.dashboard.layout import Layout, layout_of
from covey.dashboard.model import view_of
from covey.dashboard.sessions import ADMIN, SESSION_S, Sessions
from covey.errors import ConfigError, CoveyError

log = logging.getLogger("covey.dashboard")

TICK_S: Final = 0.75  # with the second between a broker's lines, nothing shown is older than two
READING_TURNS: Final = 3  # of the event loop, before silence is judged
MAX_BODY: Final = 1 << 20
MAX_PLAN: Final = 32 << 20
MAX_WATCHERS: Final = 100
FAILED_S: Final = 0.5  # that a login with a wrong token takes, of which
FAILED_AT_ONCE: Final = 4  # are under way at most
MAX_LISTED: Final = 500  # rows of a table that are shown
PAGE_ROWS: Final = 1_000  # that are read of each broker
LATENCIES: Final = {"hop": "a hop", "queue": "waiting for a slow peer", "commit": "a confirmed write"}
SHARES: Final = (0.5, 0.95, 0.99)
STATIC: Final = {"app.js": "text/javascript", "style.css": "text/css", "icon.svg": "image/svg+xml"}
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
OPEN: Final = frozenset({"/", "/healthz", "/api/login", "/api/session"})

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Settings:
    """Where the page is, by which names beside addresses, and where a coordinator keeps its rounds."""

    host: str = "127.0.0.1"
    port: int = 7480
    hosts: tuple[str, ...] = ()
    rounds: Path | None = None


class Dashboard:
    """The dashboard of the brokers that a collector follows; `async with` it to serve."""

    def __init__(self, collector: Collector, sessions: Sessions, settings: Settings) -> None:
        self._collector, self._sessions, self._settings = collector, sessions, settings
        self._hosts = Hosts(AdminConfig(port=settings.port, host=settings.host, hosts=settings.hosts))
        self._history = History()
        self._view: dict[str, Any] = {}
        self._line = b""  # the view as it is sent
        self._ticked = asyncio.Condition()
        self._topology: object = None
        self._drawing: asyncio.Task[None] | None = None  # of a map
        self._map: dict[str, Any] = {"version": 0, "places": {}, "groups": {}}
        self._watchers = 0
        self._marked_s = 0.0
        self._failing = asyncio.Semaphore(FAILED_AT_ONCE)
        self._client_counts: dict[tuple[str, str], tuple[float, int]] = {}
        self._application = web.Application(middlewares=[self._guard], client_max_size=MAX_PLAN)
        self._runner = web.AppRunner(
            self._application, access_log=None, shutdown_timeout=0.5, handler_cancellation=True
        )
        self._task: asyncio.Task[None] | None = None
        self.port = 0
        for path, handler in {
            "/": self._page,
            "/static/{name}": self._static,
            "/healthz": self._healthz,
            "/api/session": self._session,
            "/api/stream": self._stream,
            "/api/map": self._get_map,
            "/api/history": self._get_history,
            "/api/table": self._table,
            "/api/covering": self._covering,
            "/api/plans": self._plans,
            "/api/clients": self._clients,
        }.items():
            self._application.router.add_get(path, handler)
        for path, handler in {
            "/api/login": self._log_in,
            "/api/logout": self._log_out,
            "/api/explain": self._explain,
            "/api/install": self._install,
            "/api/rollback": self._roll_back,
            "/api/end": self._end,
        }.items():
            self._application.router.add_post(path, handler)

    async def __aenter__(self) -> Dashboard:
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._settings.host, self._settings.port)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise ConfigError(
                f"the dashboard cannot be at {self._settings.host}:{self._settings.port}: {error.strerror or error}"
            ) from None
        self.port = self._runner.addresses[0][1]
        self._task = asyncio.get_running_loop().create_task(self._tick())
        return self

    async def __aexit__(self, *error: object) -> None:
        running = [task for task in (self._task, self._drawing) if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._runner.cleanup()

    # -- what is shown ---------------------------------------------------------------------------------------

    async def _tick(self) -> None:
        while True:
            for _ in range(READING_TURNS):
                await asyncio.sleep(
                    0
                )  # after a stall of this process, what brokers said meanwhile is read first
            begun_s = time.monotonic()
            try:
                await self._look(begun_s)
            except Exception:  # a mistake of ours must not stop the clock
                log.exception("internal error while looking at the network")
            await asyncio.sleep(max(0.05, TICK_S - (time.monotonic() - begun_s)))

    async def _look(self, now_s: float) -> None:
        """Make what is shown now, and a new layout if there are other brokers or links."""
        view = view_of(self._collector.sources, now_s)
        self._history.add(view, now_s)
        if now_s - self._marked_s >= STEP_S:
            self._marked_s = now_s
            for source in self._collector.sources:
                source.mark()
        names = [row["name"] for row in view["brokers"]]
        pairs = [(row["a"], row["b"]) for row in view["links"]]
        if (names, pairs) != self._topology and (self._drawing is None or self._drawing.done()):
            self._topology = (names, pairs)
            self._drawing = asyncio.get_running_loop().create_task(self._draw(names, pairs))
        view["map"] = self._map["version"]
        view["at"] = round(time.time(), 2)
        self._view, self._line = view, b"data: " + msgspec.json.encode(view) + b"\n\n"
        async with self._ticked:
            self._ticked.notify_all()

    async def _draw(self, names: list[str], pairs: list[tuple[str, str]]) -> None:
        """Make a new map, which takes seconds if it is large; the one before is shown meanwhile."""
        drawn: Layout = await asyncio.to_thread(layout_of, names, pairs)
        version = self._map["version"] + 1
        self._map = {"version": version, "places": drawn.places, "groups": drawn.groups}

    # -- who asks --------------------------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._hosts.check(request)
            if not (request.path in OPEN or request.path.startswith("/static/")):
                request["role"] = self._role(request)
                if request["role"] is None:
                    return _answer({"error": "log in with a token"}, 401)
            response = await handler(request)
        except TurnedAway as refusal:
            response = _answer({"error": str(refusal)}, refusal.status)
        except CoveyError as error:
            response = _answer({"error": str(error)}, 400)
        except web.HTTPException as error:
            response = _answer({"error": error.reason.lower()}, error.status)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    @property
    def _cookie(self) -> str:
        return f"covey_dashboard_{self.port}"  # browsers give cookies to all ports of a host

    def _role(self, request: web.Request) -> str | None:
        return self._sessions.role(request.cookies.get(self._cookie, ""), time.monotonic())

    def _check_admin(self, request: web.Request) -> None:
        if request["role"] != ADMIN:
            raise TurnedAway(403, "only an admin token may change the network", "credentials")

    async def _log_in(self, request: web.Request) -> web.Response:
        token = (await _body(request)).get("token")
        found = self._sessions.log_in(token, time.monotonic()) if isinstance(token, str) else None
        if found is None:
            async with self._failing:
                await asyncio.sleep(FAILED_S)
            return _answer({"error": "this token is not known here"}, 401)
        name, role = found
        answer = _answer({"role": role})
        answer.set_cookie(
            self._cookie,
            name,
            max_age=int(SESSION_S),
            httponly=True,
            samesite="Strict",
            secure=request.secure,
            path="/",
        )
        return answer

    async def _log_out(self, request: web.Request) -> web.Response:
        self._sessions.log_out(request.cookies.get(self._cookie, ""))
        answer = _answer({})
        answer.del_cookie(self._cookie, path="/")
        return answer

    # -- pages -----------------------------------------------------------------------------------------------

    async def _page(self, request: web.Request) -> web.Response:
        return web.Response(body=_file("index.html"), content_type="text/html", charset="utf-8")

    async def _static(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in STATIC:
            raise web.HTTPNotFound
        return web.Response(body=_file(name), content_type=STATIC[name], charset="utf-8")

    async def _healthz(self, request: web.Request) -> web.Response:
        return _answer({"healthy": True})

    async def _session(self, request: web.Request) -> web.Response:
        return _answer({"role": self._role(request)})

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if self._watchers >= MAX_WATCHERS:
            return _answer({"error": f"{MAX_WATCHERS} pages watch already"}, 503)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **HEADERS})
        self._watchers += 1
        try:
            await response.prepare(request)
            while self._role(request) is not None:
                if self._line:
                    await response.write(self._line)
                async with self._ticked:
                    await self._ticked.wait()
        except ConnectionResetError:
            pass  # the page was closed
        finally:
            self._watchers -= 1
        return response

    async def _get_map(self, request: web.Request) -> web.Response:
        return _answer(self._map)

    async def _get_history(self, request: web.Request) -> web.Response:
        broker = request.query.get("broker", "")
        sources = [one for one in self._collector.sources if not broker or one.name == broker]
        bounds = next((one.now.latency_bounds_s for one in sources if one.now), [])
        latencies = {}
        for name, title in LATENCIES.items():
            counts = added(source.recent(name) for source in sources)
            times = [percentile(bounds, counts, share) for share in SHARES]
            latencies[name] = {"title": title, "samples": sum(counts), "seconds": times, "counts": counts}
        return _answer(
            {**self._history.curves(broker), "latencies": latencies, "shares": SHARES, "bounds_s": bounds}
        )

    # -- tables ----------------------------------------------------------------------------------------------

    async def _rows(self, request: web.Request) -> tuple[list[dict[str, Any]], int]:
        """Return the rows of a table of one or all brokers that have a text in them, and how many there are in all."""
        what, search = request.query.get("what", "subscriptions"), request.query.get("search", "").lower()
        wanted, link = request.query.get("broker", ""), request.query.get("link", "")
        path, more = _TABLES.get(what, ("", {}))
        if not path:
            raise ConfigError(f"there is no table {what!r:.40}")
        names = [wanted] if wanted else sorted(self._collector.names())
        pages = await asyncio.gather(*(self._read_page(name, path, link, more) for name in names))
        rows = [{"broker": name, **row} for name, (some, _) in zip(names, pages, strict=True) for row in some]
        total = sum(count for _, count in pages)
        if search:
            rows = [row for row in rows if search in " ".join(map(str, row.values())).lower()]
        return rows, total

    async def _read_page(
        self, broker: str, path: str, link: str, more: Mapping[str, str]
    ) -> tuple[list[dict[str, Any]], int]:
        page = await self._collector.ask(
            self._collector.url_of(broker), path, limit=PAGE_ROWS, link=link, **more
        )
        return page["rows"], page["total"]

    async def _table(self, request: web.Request) -> web.Response:
        rows, total = await self._rows(request)
        return _answer({"rows": rows[:MAX_LISTED], "found": len(rows), "total": total})

    async def _covering(self, request: web.Request) -> web.Response:
        rows, _ = await self._rows(request)
        tree = await asyncio.to_thread(tree_of, rows[: MAX_ROWS + 1])
        return _answer({**tree, "left_out": max(0, len(rows) - MAX_ROWS)})

    async def _explain(self, request: web.Request) -> web.Response:
        asked = await _body(request)
        start, language = str(asked.get("start", "")), str(asked.get("language", "attributes"))
        if start not in self._collector.names():
            raise ConfigError(f"the broker {start!r:.80} does not answer: choose another one to publish at")
        publisher = str(asked.get("publisher", ""))
        return _answer(await explain(self._collector, asked.get("content"), language, start, publisher))

    # -- plans and clients -----------------------------------------------------------------------------------

    async def _plans(self, request: web.Request) -> web.Response:
        described, problem = None, ""
        source = next((one for one in self._collector.sources if one.now and not one.error), None)
        if source is not None and source.now is not None:
            try:
                data = await self._collector.fetch(source.url, "/planz", file=1)
                described = await asyncio.to_thread(plans.describe, data, source.now.strategy)
            except CoveyError as error:
                problem = str(error)
        totals = self._view.get("totals") or {"published": 0, "forwarded": 0}
        return _answer(
            {
                "plan": described,
                "problem": problem,
                "state": self._view.get("plan", {}),
                "crossed": plans.crossed(totals),
                "rounds": await asyncio.to_thread(plans.rounds, self._settings.rounds),
            }
        )

    async def _install(self, request: web.Request) -> web.Response:
        self._check_admin(request)
        url = self._collector.url_of(request.query.get("broker", ""))
        body = await request.read()
        log.warning("a plan of %d bytes is installed at %s", len(body), url)
        return _answer(await self._collector.post(url, "/planz", body), 202)

    async def _roll_back(self, request: web.Request) -> web.Response:
        self._check_admin(request)
        url = self._collector.url_of(request.query.get("broker", ""))
        log.warning("a plan is taken back at %s", url)
        return _answer(await self._collector.delete(url, "/planz"), 202)

    async def _clients(self, request: web.Request) -> web.Response:
        names = sorted(self._collector.names())
        pages = await asyncio.gather(*(self._read_page(name, "/linkz", "", {}) for name in names))
        now_s, rows, counts = time.monotonic(), [], {}
        for name, (some, _) in zip(names, pages, strict=True):
            for row in (one for one in some if one["kind"] == "client"):
                moved = row["published"] + row["delivered"]
                then_s, before = self._client_counts.get((name, row["link"]), (now_s, moved))
                counts[name, row["link"]] = now_s, moved
                rate = (moved - before) / (now_s - then_s) if now_s > then_s else 0.0
                rows.append({"broker": name, **row, "rate": round(max(0.0, rate), 2)})
        self._client_counts = counts
        return _answer({"rows": rows[:MAX_LISTED], "found": len(rows)})

    async def _end(self, request: web.Request) -> web.Response:
        self._check_admin(request)
        asked = await _body(request)
        url, link = self._collector.url_of(str(asked.get("broker", ""))), str(asked.get("link", ""))
        log.warning("the connection %s is ended at %s", link, url)
        return _answer(await self._collector.delete(url, "/linkz", link=link), 202)


_TABLES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "subscriptions": ("/subz", {}),
    "entries": ("/routez", {}),
    "advertisements": ("/routez", {"what": "advertisements"}),
    "durable": ("/storez", {}),
}


def _file(name: str) -> bytes:
    return files("covey.dashboard").joinpath("static", name).read_bytes()


def _answer(row: Any, status: int = 200) -> web.Response:
    body = msgspec.json.encode(row)
    return web.Response(body=body, status=status, content_type="application/json", headers=HEADERS)


async def _body(request: web.Request) -> dict[str, Any]:
    """Return a request's JSON object; CoveyError if it has none."""
    if request.content_type != "application/json" or (request.content_length or 0) > MAX_BODY:
        raise ConfigError(f"expected a JSON object of at most {MAX_BODY:,} bytes")
    try:
        found = msgspec.json.decode(await request.read())
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ConfigError(f"the request cannot be read: {error!s:.200}") from None
    if not isinstance(found, dict):
        raise ConfigError("expected a JSON object")
    return found


async def serve(
    urls: list[str],
    sessions: Sessions,
    settings: Settings,
    started: Callable[[int], None],
    *,
    token: str = "",
    authority: str = "",
) -> None:
    """Serve until cancelled; `started` hears the port."""
    async with (
        Collector(urls, token, authority) as collector,
        Dashboard(collector, sessions, settings) as dashboard,
    ):
        started(dashboard.port)
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
