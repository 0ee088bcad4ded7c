"""What a client may do to both doors of a broker, with and without credentials, and who must not notice.

Times are made short by settings; what is judged is who was served and what was counted, never how long it took.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import os
import resource
import signal
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from tests.e2e.helpers.running import eventually, free_port, run
from tests.e2e.helpers.scripted import broker, url

import covey
from covey.broker.config import AdminConfig, BrokerConfig
from covey.broker.http import door
from covey.broker.http.admin import Admin
from covey.broker.security import hash_token, read_security
from covey.broker.server import ARRIVALS, Broker

ADMIN = AdminConfig(port=0, events=True)
GUARDED = read_security({"tokens": [{"name": "till", "hash": hash_token("three")}]})
TOKEN = {"Authorization": "Bearer three"}
STRUCTURED = {"Content-Type": "application/cloudevents+json"}
EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "price": 1}


async def ask(port: int, said: bytes) -> bytes:
    """Say something to a door; return all that it answers until it ends the stream."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(said)
        async with asyncio.timeout(20):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def request(path: str = "/healthz", *headers: str, method: str = "GET", host: str = "localhost") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1")


def status_of(answer: bytes) -> int:
    return int(answer.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n").split()[1])


# -- bodies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/healthz", "/varz", "/events", "/planz", "/nowhere"])
@pytest.mark.parametrize("how", ["gzip", "deflate", "br", "gzip, gzip", "identity, gzip"])
def test_compressed_bodies_are_refused_and_not_expanded(
    path: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10 MB of zeros would be expanded by zlib; nothing is, with and without credentials."""
    expanded: list[int] = []
    made = zlib.decompressobj

    def counted(*some: Any, **more: Any) -> Any:
        expanded.append(1)
        return made(*some, **more)

    monkeypatch.setattr(zlib, "decompressobj", counted)
    body = gzip.compress(bytes(10_000_000))

    async def main() -> None:
        async with broker(admin=ADMIN, security=GUARDED) as a:
            for credentials in ("", "Authorization: Bearer three"):
                head = ["Content-Encoding: " + how, f"Content-Length: {len(body)}"]
                said = request(path, *head, *filter(None, [credentials]), method="POST") + body
                answer = await ask(a.admin.port, said)
                assert status_of(answer) == 415, answer
                assert b"Content-Encoding" in answer
            assert a.core.counters["refused_encoding"] == 2

    run(main())
    assert not expanded


def test_a_body_that_comes_too_slowly_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "BODY_S", 0.2)

    async def main() -> None:
        async with broker(admin=ADMIN) as a:
            for path in ("/events", "/explainz"):
                head = ("Content-Type: application/cloudevents+json", "Content-Length: 1000")
                answer = await ask(a.admin.port, request(path, *head, method="POST") + b"{")
                assert status_of(answer) == 408, answer

    run(main())


@pytest.mark.parametrize(
    "said",
    [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "],
    ids=["nothing", "half a line", "half a header"],
)
def test_half_requests_are_ended(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "REQUEST_S", 0.2)

    async def main() -> None:
        async with broker(admin=ADMIN) as a:
            assert await ask(a.admin.port, said) == b""
            # Also behind a whole request on the same connection.
            whole = request().replace(b"Connection: close\r\n", b"")
            assert status_of(await ask(a.admin.port, whole + said)) == 200
            # And if bytes go on coming, one by one.
            reader, writer = await asyncio.open_connection("127.0.0.1", a.admin.port)
            ended = asyncio.ensure_future(reader.read())
            async with asyncio.timeout(20):
                writer.write(b"GET / HTTP/1.1\r\nX: ")
                while not ended.done():
                    writer.write(b"-")
                    await asyncio.sleep(0.02)
            with contextlib.suppress(ConnectionError):
                assert ended.result() == b""
            writer.close()

    run(main())


@pytest.mark.parametrize(
    "head",
    ["X: " + "-" * 20_000, "\r\n".join(f"X{number}: 1" for number in range(500))],
    ids=["a long header", "many headers"],
)
def test_headers_are_bounded(head: str) -> None:
    async def main() -> None:
        async with broker(admin=ADMIN) as a:
            assert status_of(await ask(a.admin.port, request("/healthz", head))) == 400
            assert status_of(await ask(a.admin.port, request("/healthz?" + "x" * 20_000))) == 400

    run(main())


def test_a_reader_that_takes_no_answer_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "STALLED_S", 0.2)

    async def main() -> None:
        async with broker(admin=ADMIN) as a, covey.connect(url(a.port)) as client:
            for number in range(1_000):
                await client.subscribe(f"price = {number} AND name = '{'-' * 1_000}'").__aenter__()
            before = len(a.streams)
            reader, writer = await asyncio.open_connection("127.0.0.1", a.admin.port)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            whole = request("/subz?limit=1000").replace(b"Connection: close\r\n", b"")
            writer.write(whole * 30)
            await eventually(lambda: len(a.streams) > before)
            await eventually(lambda: len(a.streams) == before)
            assert reader
            writer.close()

    run(main())


class Draining:
    """A transport whose peer has left so many bytes at each look."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = list(sizes)
        self.is_aborted = False

    def get_write_buffer_size(self) -> int:
        return self.sizes.pop(0)

    def abort(self) -> None:
        self.is_aborted = True


def visitor_with(*sizes: int) -> tuple[door.Visitor, Draining]:
    """Return a connection that writes to such a transport."""

    async def nothing(request: Any) -> Any:
        raise AssertionError("nobody asks")

    visitor, transport = door.Visitor(cast(Any, None), 1, web.Server(nothing)), Draining(*sizes)
    visitor.transport = cast(Any, transport)
    return visitor, transport


@pytest.mark.parametrize(
    ("sizes", "looks"),
    [
        ([1_000_000, 1_000_000], 2),
        ([1_000_000, 990_000], 2),
        ([1_000_000, 800_000, 600_000, 400_000, 399_000, 0], 5),
        ([1_000_000, 800_000, 900_000, 0], 3),
    ],
)
def test_a_slow_reader_of_a_long_answer_may_go_on_while_it_takes_enough(
    sizes: list[int], looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "STALLED_S", 0.0)

    async def main() -> None:
        visitor, transport = visitor_with(*sizes)
        visitor.pause_writing()
        while not transport.is_aborted:
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        assert len(transport.sizes) == len(sizes) - looks, "it is looked at no longer"

    run(main())


def test_a_reader_that_has_taken_nearly_all_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "STALLED_S", 0.0)

    async def main() -> None:
        visitor, transport = visitor_with(1_000_000, 1_000_000, 1_000_000)
        for _ in range(2):
            visitor.pause_writing()
            visitor.resume_writing()
        await asyncio.sleep(0.01)
        assert not transport.is_aborted
        assert len(transport.sizes) == 1

    run(main())


# -- places ------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def half(port: int, said: bytes, count: int) -> AsyncIterator[None]:
    """Open connections that say something and then nothing."""
    writers = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.suppress(OSError):
                writer.write(said)
            writers.append(writer)
    try:
        yield
    finally:
        for writer in writers:
            writer.close()


HALVES = {"HTTP": b"GET /varz HTTP/1.1\r\nHost: loc", "greetings": b"\x10\x00"}


@pytest.mark.parametrize("which", HALVES)
def test_half_requests_and_half_greetings_leave_everybody_else_alone(which: str, tmp_path: Path) -> None:
    """A broker with few descriptors, in a process of its own, is flooded with more connections than it can have."""
    ports = [free_port() for _ in range(3)]
    native, admin, other = ports
    (tmp_path / "a.toml").write_text(
        f'name = "a"\nport = {native}\n[[links]]\nname = "b"\n[admin]\nport = {admin}\nevents = true\n'
    )

    async def main() -> None:
        await reached(native)
        b = BrokerConfig("b", port=other, links=(covey_link(native),))
        async with (
            Broker(b) as neighbour,
            covey.connect(url(native)) as subscriber,
            covey.connect(url(other)) as publisher,
            subscriber.subscribe("x >= 0") as events,
        ):
            await eventually(lambda: neighbour.is_ready and neighbour.core.linked)
            await subscriber.flush()
            target = admin if which == "HTTP" else native
            async with half(target, HALVES[which], 400), aiohttp.ClientSession() as http:
                await publisher.publish({"x": 1})
                assert (await events.next(20))["x"] == 1
                async with covey.connect(url(native)) as late:
                    await late.publish({"x": 2})
                assert (await events.next(20))["x"] == 2
                async with http.get(f"http://127.0.0.1:{admin}/varz") as answer:
                    shown = await answer.json()
                assert shown["links_up"] == ["b"]
                assert shown["totals"]["refused"] >= 400 - 192 // 8
                # A neighbour that comes back gets in as well.
                await neighbour.stop()
                async with Broker(b) as again:
                    await eventually(lambda: again.is_ready and again.core.linked)
            assert subscriber.is_connected

    with process(tmp_path / "a.toml", descriptors=192) as running:
        run(main(), 120)
        assert running.poll() is None


def covey_link(port: int) -> Any:
    from covey.broker.config import LinkConfig

    return LinkConfig("a", "127.0.0.1", port)


@contextlib.contextmanager
def process(config: Path, descriptors: int) -> Any:
    """Run a broker that may have so many descriptors."""

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    command = [sys.executable, "-m", "covey", "broker", "--config", str(config)]
    running = subprocess.Popen(command, preexec_fn=few, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield running
    finally:
        running.send_signal(signal.SIGTERM)
        try:
            running.wait(20)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


async def reached(port: int) -> None:
    """Return once somebody listens."""
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            writer.close()
            return


def test_connections_of_both_doors_count_and_some_are_reserved() -> None:
    async def main() -> None:
        async with (
            broker(admin=ADMIN, max_connections=10) as a,  # of which 8 are for operators
            covey.connect(url(a.port)),
            aiohttp.ClientSession() as http,
        ):
            base = f"http://127.0.0.1:{a.admin.port}"
            async with http.get(f"{base}/events", params={"filter": "x = 1"}) as listening:
                assert listening.status == 200
                with pytest.raises(covey.LinkError, match="no room for more connections"):
                    await covey.connect(url(a.port), connect_timeout_s=0.3).__aenter__()
                async with http.post(f"{base}/events", json=EVENT, headers=STRUCTURED) as answer:
                    assert answer.status == 503
                    assert int(answer.headers["Retry-After"]) > 0
                async with http.get(f"{base}/varz") as answer:
                    assert answer.status == 200
                    assert (await answer.json())["totals"]["refused"] >= 2
            listening.close()
            await eventually(lambda: len(a.core.clients) == 1)
            async with covey.connect(url(a.port)):
                pass

    run(main())


def test_without_descriptors_accepting_pauses_and_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covey.broker.listening.PAUSE_S", 0.2)

    async def main() -> None:
        async with broker() as a:
            taken: list[int] = []
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)
            try:
                with contextlib.suppress(OSError):
                    resource.setrlimit(resource.RLIMIT_NOFILE, (300, limit[1]))
                    while True:
                        taken.append(os.open("/dev/null", os.O_RDONLY))
                os.close(taken.pop())
                connecting = asyncio.ensure_future(covey.connect(url(a.port)).__aenter__())
                await eventually(lambda: "accepting pauses" in caplog.text)
            finally:
                for one in taken:
                    os.close(one)
                resource.setrlimit(resource.RLIMIT_NOFILE, limit)
            client = await connecting
            await client.__aexit__(None, None, None)
            assert caplog.text.count("accepting pauses") == 1

    run(main())


def test_a_crowd_of_requests_and_of_arrivals_takes_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: so many go on in one turn of the event loop, whoever waits."""
    turns = 0
    pages: list[int] = []
    opened: list[int] = []
    healthz, knocked = Admin._healthz, Broker.opened

    async def page(self: Admin, request: Any) -> Any:
        pages.append(turns)
        return await healthz(self, request)

    def arrived(self: Broker, number: int, stream: Any) -> bool:
        opened.append(turns)
        return knocked(self, number, stream)

    monkeypatch.setattr(Admin, "_healthz", page)
    monkeypatch.setattr(Broker, "opened", arrived)

    async def main() -> None:
        nonlocal turns
        async with broker(admin=ADMIN) as a:

            async def count() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            counting = asyncio.ensure_future(count())
            answers = await asyncio.gather(*(ask(a.admin.port, request()) for _ in range(200)))
            assert {status_of(answer) for answer in answers} == {200}
            counting.cancel()

    run(main())
    assert len(pages) == len(opened) == 200
    assert max(Counter(pages).values()) <= door.AT_ONCE
    assert max(Counter(opened).values()) <= ARRIVALS


# -- hosts and origins -------------------------------------------------------------------------------------------

PAGES = ("/healthz", "/varz", "/subz", "/metrics", "/events?filter=x%3D1", "/nowhere")


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7401", "localhost.evil.example", "10.0.0.1", "", "a b"]
)
def test_a_foreign_host_is_misdirected(path: str, host: str) -> None:
    async def main() -> None:
        async with broker(admin=ADMIN) as a:
            answer = await ask(a.admin.port, request(path, host=host))
            assert status_of(answer) in (421, 400 if host in ("", "a b") else 421), answer
            for method in ("POST", "DELETE", "OPTIONS"):
                assert status_of(await ask(a.admin.port, request(path, method=method, host=host))) in (
                    421,
                    400,
                )

    run(main())


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "127.0.0.1:1", "127.9.9.9", "[::1]:80", "a.localhost."]
)
def test_loopback_names_and_addresses_are_ours(host: str) -> None:
    async def main() -> None:
        async with broker(admin=ADMIN) as a:
            assert status_of(await ask(a.admin.port, request(host=host))) == 200
            origin = f"Origin: http://{host}"
            assert status_of(await ask(a.admin.port, request("/healthz", origin, host=host))) == 200
            two = request("/healthz", "Host: localhost", host=host)
            assert status_of(await ask(a.admin.port, two)) == 400

    run(main())


def test_hosts_are_configured() -> None:
    async def main() -> None:
        admin = AdminConfig(port=0, hosts=("broker.example", ".inside.example", "10.1.2.3"))
        async with broker(admin=admin) as a:
            for host, status in {
                "broker.example": 200,
                "Broker.Example:7401": 200,
                "x.broker.example": 421,
                "x.inside.example": 200,
                "y.x.inside.example": 200,
                "inside.example": 421,
                "evilinside.example": 421,
                "10.1.2.3": 200,
                "10.1.2.4": 421,
                "localhost": 200,
            }.items():
                assert status_of(await ask(a.admin.port, request(host=host))) == status, host

    run(main())


def test_beyond_loopback_addresses_are_ours_and_names_are_configured() -> None:
    async def main() -> None:
        admin = AdminConfig(port=0, host="0.0.0.0", token=hash_token("x"))
        async with broker(admin=admin) as a:
            assert status_of(await ask(a.admin.port, request(host="10.0.0.1:7401"))) == 200
            answer = await ask(a.admin.port, request(host="evil.example"))
            assert status_of(answer) == 421
            assert b"[admin] hosts" in answer

    run(main())


@pytest.mark.parametrize("path", PAGES)
def test_a_foreign_origin_is_refused_unless_it_is_configured(path: str) -> None:
    async def main() -> None:
        admin = AdminConfig(port=0, events=True, origins=("https://app.example", "http://other.example:8080"))
        async with broker(admin=admin, security=GUARDED) as a:
            for origin in ("http://evil.example", "null", "https://app.example:444", "http://app.example", "%",
                           "http://localhost:1", "https://app.example.evil.example"):  # fmt: skip
                answer = await ask(a.admin.port, request(path, f"Origin: {origin}"))
                assert status_of(answer) == 403, origin
                assert b"Access-Control-Allow-Origin" not in answer
            assert a.core.counters["refused_origin"] == 7
            head = ("Origin: https://app.example", "Authorization: Bearer three")
            answer = await ask(a.admin.port, request(path.replace("x%3D1", "x"), *head))
            assert status_of(answer) in (200, 400, 404)
            assert b"Access-Control-Allow-Origin: https://app.example\r\n" in answer
            assert b"Vary: Origin\r\n" in answer
            asks = (
                "Access-Control-Request-Method: POST",
                "Access-Control-Request-Headers: authorization, ce-id",
            )
            answer = await ask(a.admin.port, request(path, head[0], *asks, method="OPTIONS"))
            assert status_of(answer) == 204
            assert b"Access-Control-Allow-Headers: authorization, ce-id\r\n" in answer
            assert b"POST" in answer

    run(main())


def test_cross_origin_pages_hear_nothing_without_configuration() -> None:
    """The page that a browser shows from elsewhere: it may neither listen nor publish."""

    async def main() -> None:
        async with broker(admin=ADMIN) as a:
            port = a.admin.port
            rebound = request(
                "/events?filter=x%3D1", "Origin: http://evil.example:7401", host="evil.example:7401"
            )
            assert status_of(await ask(port, rebound)) == 421
            body = json.dumps(EVENT).encode()
            head = ("Origin: http://evil.example", "Content-Type: application/cloudevents+json")
            posted = request("/events", *head, f"Content-Length: {len(body)}", method="POST") + body
            assert status_of(await ask(port, posted)) == 403
            assert not a.core.clients

    run(main())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hosts": ["*.example"]}, r"admin.hosts: '\*.example' is no name of a host .*\.example"),
        ({"hosts": ["http://a"]}, "admin.hosts"),
        ({"hosts": ["a:80"]}, "admin.hosts"),
        ({"origins": ["app.example"]}, "admin.origins: 'app.example' is no origin .*https://"),
        ({"origins": ["https://app.example/"]}, "admin.origins"),
        ({"origins": ["*"]}, "admin.origins"),
        ({"origins": ["null"]}, "admin.origins"),
    ],
)
def test_hosts_and_origins_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    from covey.broker.config import read_admin

    with pytest.raises(covey.ConfigError, match=message):
        read_admin(settings)


# -- headers -----------------------------------------------------------------------------------------------------


def test_headers_of_every_kind_are_answered_and_never_a_failure(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random bytes in every header that is looked at: an answer below 500, and no traceback."""
    monkeypatch.setattr(door, "BODY_S", 0.2)
    monkeypatch.setattr(door, "REQUEST_S", 0.2)
    random = Random(7)
    names = ("Authorization", "Host", "Origin", "Content-Encoding", "Content-Type", "Content-Length", "ce-id",
             "Transfer-Encoding", "Expect", "Last-Event-ID", "Range", "Cookie", "Connection")  # fmt: skip
    values = [b"Bearer \xff", b"Basic \xff", b"Basic " + b"=" * 9, b"Basic Og==", b"Bearer", b"Bearer  ", b"\xff" * 9,
              b"Basic " + b"\xe2\x82\xac", b"Digest x", b"identity", b"100-continue"]  # fmt: skip

    async def main() -> None:
        async with broker(admin=ADMIN, security=GUARDED) as a:
            for number in range(300):
                name = random.choice(names).encode()
                value = random.choice(values) if number % 2 else random.randbytes(random.randrange(40))
                value = value.replace(b"\r", b"").replace(b"\n", b"")
                path = random.choice([b"/events?filter=x%3D1", b"/varz", b"/events", b"/healthz"])
                said = random.choice([b"GET", b"POST"]) + b" " + path + b" HTTP/1.1\r\nConnection: close\r\n"
                said += (b"" if name == b"Host" else b"Host: localhost\r\n") + name + b": " + value
                answer = await ask(a.admin.port, said + b"\r\n\r\n")
                assert 200 <= status_of(answer) < 500, said
                assert (status_of(answer) == 401) == (b"WWW-Authenticate: " in answer), said
                if name == b"Authorization" and path.startswith(b"/events"):
                    assert status_of(answer) in (400, 401), said
            async with covey.connect(url(a.port), token="three"):
                pass

    run(main())
    assert "Traceback" not in caplog.text
