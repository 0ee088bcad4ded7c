"""Events over HTTP beside a real broker: posting, listening, permissions, limits, and what is wrong."""

from __future__ import annotations

import asyncio
import json
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.e2e.helpers.running import eventually, run
from tests.e2e.helpers.scripted import broker, url

import covey
from covey.broker.config import AdminConfig, BrokerConfig
from covey.broker.http import cloudevents
from covey.broker.http import events as module
from covey.broker.http.door import Door
from covey.broker.http.events import SLICE, Gateway, GatewayLimits
from covey.broker.security import Permissions, hash_password, hash_token, read_rules, read_security
from covey.broker.server import Broker
from covey.broker.sessions import Session
from covey.errors import RefusedError
from covey.protocol.events import encode_event
from covey.protocol.outbox import Bounds

BASE = {"specversion": "1.0", "id": "1", "source": "/s", "type": "quote"}
STRUCTURED = {"Content-Type": "application/cloudevents+json"}


@asynccontextmanager
async def gateway(one: Broker, **options: Any) -> AsyncIterator[str]:
    """Serve a broker's events; give their address."""
    server = web.Application()
    server.add_subapp("/events", Gateway(one, max_frame=one.config.max_frame, **options).application())
    door = Door(one, server, AdminConfig(port=0))
    await door.start()
    try:
        yield f"http://127.0.0.1:{door.port}/events"
    finally:
        await door.stop()


async def next_event(stream: aiohttp.StreamReader) -> dict[str, str]:
    """Return the fields of the next server-sent event that is not only a comment."""
    while True:
        fields: dict[str, str] = {}
        while (line := (await stream.readline()).decode().rstrip("\n")) != "":
            name, _, value = line.partition(": ")
            fields[name] = value
        if set(fields) - {""}:
            return fields
        if stream.at_eof():
            raise AssertionError("the stream has ended")


def test_every_mode_of_posting_reaches_subscribers_and_listeners() -> None:
    async def main() -> None:
        async with (
            broker() as a,
            gateway(a) as events_url,
            covey.connect(url(a.port)) as client,
            client.subscribe("data.price > 10") as events,
            aiohttp.ClientSession() as session,
            session.get(events_url, params={"filter": "data.price > 10 or price > 10"}) as listening,
        ):
            assert listening.status == 200
            assert listening.content_type == "text/event-stream"
            assert await listening.content.readline() == b": subscribed\n"
            one = {**BASE, "data": {"price": 12}}
            async with session.post(events_url, json=one, headers=STRUCTURED) as answer:
                assert (answer.status, await answer.json()) == (202, {"events": 1, "confirmed": False})
            batch = [{**BASE, "id": str(n), "data": {"price": n}} for n in range(9, 13)]
            media_type = {"Content-Type": "application/cloudevents-batch+json"}
            async with session.post(events_url, json=batch, headers=media_type) as answer:
                assert (await answer.json())["events"] == 4
            headers = {f"ce-{name}": value for name, value in BASE.items()}
            headers |= {"Content-Type": "application/json"}
            async with session.post(events_url, data=b'{"price": 50}', headers=headers) as answer:
                assert answer.status == 202
            await client.publish({"price": 60}, b"native")
            got = [await events.next(5) for _ in range(4)]
            assert [event["data.price"] for event in got] == [12, 11, 12, 50]
            assert got[0]["type"] == "quote"
            assert json.loads(got[0].data) == {"price": 12}
            heard = [await next_event(listening.content) for _ in range(5)]
            shown = [json.loads(fields["data"]) for fields in heard]
            assert shown[0] == one
            assert [event["data"] for event in shown] == [
                {"price": 12}, {"price": 11}, {"price": 12}, {"price": 50}, {"price": 60},
            ]  # fmt: skip
            assert shown[4]["type"] == "covey.event"
            assert heard[0]["id"] == got[0].id
            assert shown[4]["id"] == heard[4]["id"]
            assert a.core.router.counters.get("flooded_events", 0) <= 1  # only the native one

    run(main())


def test_mistakes_are_problems_of_one_line() -> None:
    async def main() -> None:
        limits = GatewayLimits(body_bytes=1_000, batch=2, streams=1)
        async with (
            broker() as a,
            gateway(a, limits=limits) as events_url,
            aiohttp.ClientSession() as session,
        ):

            async def problem(status: int, part: str, method: str = "POST", **request: Any) -> None:
                async with session.request(method, events_url, **request) as answer:
                    text = await answer.text()
                    assert answer.status == status, text
                    assert answer.content_type == "application/problem+json"
                    assert "\n" not in text
                    assert part in json.loads(text)["detail"]
                    assert json.loads(text)["status"] == status
                    assert (status == 503) == ("Retry-After" in answer.headers)

            await problem(415, "ce-id", data=b"{}")
            await problem(400, "JSON object", data=b"[", headers=STRUCTURED)
            await problem(400, "attribute specversion", json={}, headers=STRUCTURED)
            await problem(413, "at most 1,000", data=b"-" * 2_000, headers=STRUCTURED)

            async def endless() -> AsyncIterator[bytes]:
                for _ in range(100):
                    yield b"-" * 100

            await problem(413, "more than 1,000", data=endless(), headers=STRUCTURED)
            batch = {"Content-Type": "application/cloudevents-batch+json"}
            await problem(400, "at most 2", data=b"[{},{},{}]", headers=batch)
            await problem(400, "which events", "GET")
            await problem(400, "character", "GET", params={"filter": "price >"})
            await problem(400, "language", "GET", params={"filter": "a", "language": "sql"})
            await problem(400, "true or false", params={"confirm": "perhaps"}, data=b"")
            async with session.get(events_url, params={"filter": "a = 1"}, headers={"Last-Event-ID": "7.1"}):
                await problem(503, "listen already", "GET", params={"filter": "a = 1"})
            async with session.put(events_url) as answer:
                assert answer.status == 405

    run(main())


def test_permissions_are_those_of_the_credentials() -> None:
    async def main() -> None:
        ann = Permissions("ann", read_rules("type = 'quote'", ""), read_rules("type = 'quote'", ""))

        async def authorise(request: web.Request) -> Permissions:
            if request.headers.get("Authorization") != "Bearer secret":
                raise RefusedError("who are you?")
            return ann

        async with (
            broker() as a,
            gateway(a, authorise=authorise) as events_url,
            aiohttp.ClientSession() as session,
        ):
            async with session.post(events_url, json=BASE, headers=STRUCTURED) as answer:
                assert answer.status == 401
                assert answer.headers["WWW-Authenticate"].startswith("Bearer realm=")
                assert "Basic realm=" in answer.headers["WWW-Authenticate"]
            known = {"Authorization": "Bearer secret"}
            async with session.post(events_url, json=BASE, headers=STRUCTURED | known) as answer:
                assert answer.status == 202
            other = {**BASE, "type": "order"}
            async with session.post(events_url, json=other, headers=STRUCTURED | known) as answer:
                assert answer.status == 403
                assert "ann may not publish" in (await answer.json(content_type=None))["detail"]
            async with session.get(events_url, params={"filter": "x = 1"}, headers=known) as answer:
                assert answer.status == 403
            mine = {"filter": "type = 'quote' and x = 1"}
            async with session.get(events_url, params=mine, headers=known) as answer:
                assert answer.status == 200

    run(main())


def test_what_cannot_be_kept_now_is_told_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not that it is forbidden: clients try again after 503 and 507, and give up after 403."""

    async def main() -> None:
        async with (
            broker(data_dir=str(tmp_path), max_store_bytes=1 << 20) as a,
            gateway(a) as events_url,
            aiohttp.ClientSession() as session,
            covey.connect(url(a.port), name="reader") as reader,
        ):
            async with reader.subscribe("type = 'quote'", durable="mine"):
                pass

            async def post(count: int = 0, **members: Any) -> tuple[int, dict[str, str], str]:
                one, media_type = {**BASE, **members}, STRUCTURED
                if count:
                    media_type = {"Content-Type": "application/cloudevents-batch+json"}
                async with session.post(
                    events_url,
                    params={"confirm": "true"},
                    json=[one] * count if count else one,
                    headers=media_type,
                ) as answer:
                    return answer.status, dict(answer.headers), await answer.text()

            statuses = [(await post(data="-" * 50_000))[0] for _ in range(40)]
            assert statuses[0] == 200
            assert set(statuses) == {200, 507}
            for count in (0, 3):
                status, headers, text = await post(count, data="-" * 50_000)
                assert status == 507
                assert int(headers["Retry-After"]) > 0
                assert "store is full" in text
            monkeypatch.setattr("covey.broker.durable.delivery.MAX_PENDING", 0)
            status, headers, text = await post()
            assert status == 503
            assert int(headers["Retry-After"]) > 0
            assert "wait to be confirmed" in text

    run(main())


def test_of_a_batch_only_what_is_all_to_come_again_is_told_so() -> None:
    """Whoever sends the same again is refused again, if only one of its events is forbidden."""

    async def answered(*kinds: str) -> RefusedError:
        posting = module.Posting(range(7, 7 + len(kinds)))
        for number, kind in enumerate(kinds, 7):
            assert not posting.done.done()
            posting.settled(number, None if kind == "taken" else RefusedError(f"because {kind}", kind=kind))
        await posting.done
        with pytest.raises(RefusedError) as caught:
            posting.raise_refusals()
        return caught.value

    async def main() -> None:
        mixed = await answered("taken", "full", "", "busy")
        assert mixed.kind == ""
        assert str(mixed) == "3 of 4 events are refused, the first one, event 2: because full"
        assert (await answered("taken", "full", "busy")).kind == "full"
        alone = await answered("busy")
        assert (alone.kind, str(alone)) == ("busy", "because busy")

    asyncio.run(main())


def test_a_slow_listener_is_cut_off_and_others_are_not() -> None:
    async def main() -> None:
        limits = GatewayLimits(pending_events=5, heartbeat_s=0.05)
        async with (
            broker() as a,
            gateway(a, limits=limits) as events_url,
            aiohttp.ClientSession() as session,
            covey.connect(url(a.port)) as client,
        ):
            async with session.get(events_url, params={"filter": "x >= 0"}) as slow:
                await client.publish_many([({"x": x}, b"-" * 100) for x in range(1_000)])
                fields = await next_event(slow.content)
                while "event" not in fields:
                    fields = await next_event(slow.content)
                assert fields["event"] == "error"
                assert "too slow" in json.loads(fields["data"])["detail"]
            await eventually(lambda: len(a.core.clients) == 1)
            async with session.get(events_url, params={"filter": "x >= 0"}) as listening:
                assert await listening.content.readline() == b": subscribed\n"
                await listening.content.readline()
                assert await listening.content.readline() == b": alive\n"
                await client.publish({"x": 1})
                assert json.loads((await next_event(listening.content))["data"])["data"] == {"x": 1}
            # A listener that goes is forgotten.
            await eventually(lambda: len(a.core.clients) == 1)

    run(main())


def test_listeners_are_told_when_the_broker_ends() -> None:
    async def main() -> None:
        async with broker() as a, aiohttp.ClientSession() as session:
            async with gateway(a) as events_url:
                listening = await session.get(events_url, params={"filter": "x = 1"})
                await listening.content.readline()
                async with session.post(events_url, json=BASE, headers=STRUCTURED) as answer:
                    assert answer.status == 202
            assert (await next_event(listening.content))["event"] == "error"
            listening.close()
            await eventually(lambda: not a.core.clients)
            await asyncio.sleep(0)

    run(main())


def test_a_broker_serves_events_beside_its_inside_to_those_it_knows() -> None:
    security = read_security(
        {
            "tokens": [{"name": "reader", "hash": hash_token("s3cret"), "subscribe": "x > 5"}],
            "users": [{"name": "ann", "password": str(hash_password("pass"))}],
        }
    )
    admin = AdminConfig(port=0, token=hash_token("for the inside"), events=True)

    async def main() -> None:
        async with broker(security=security, admin=admin) as a, aiohttp.ClientSession() as session:
            assert a.admin is not None
            base = f"http://127.0.0.1:{a.admin.port}"
            async with session.get(f"{base}/varz") as answer:
                assert answer.status == 401
            for header in (None, "Bearer wrong", "Bearer for the inside", "Basic !", "Basic YW5uOngK"):
                headers = {} if header is None else {"Authorization": header}
                async with session.get(
                    f"{base}/events", params={"filter": "x > 9"}, headers=headers
                ) as answer:
                    assert answer.status == 401, header
                    assert answer.content_type == "application/problem+json"
            token = {"Authorization": "Bearer s3cret"}
            async with session.get(f"{base}/events", params={"filter": "x > 1"}, headers=token) as answer:
                assert answer.status == 403
            ann = {"Authorization": "Basic " + b64encode(b"ann:pass").decode(), **STRUCTURED}
            async with session.get(f"{base}/events", params={"filter": "x > 9"}, headers=token) as listening:
                assert listening.status == 200
                await listening.content.readline()
                one = {**BASE, "x": 10}
                async with session.post(f"{base}/events", json=one, headers=ann) as answer:
                    assert answer.status == 202
                assert json.loads((await next_event(listening.content))["data"]) == one

    run(main())


def test_events_are_not_served_to_the_world_by_accident() -> None:
    admin = AdminConfig(port=0, host="0.0.0.0", token=hash_token("x"), events=True)

    async def main() -> None:
        one = broker(admin=admin)
        with pytest.raises(covey.ConfigError, match="neither users nor tokens"):
            await one.start()
        await one.stop()

    run(main())


@pytest.mark.parametrize("value", [b"Bearer \xff", b"Basic \xff", b"Bearer \xc3", b"\xff"])
def test_credentials_that_are_not_utf_8_are_refused_and_not_a_failure(value: bytes) -> None:
    async def main() -> None:
        security = read_security(
            {"tokens": [{"name": "ann", "hash": hash_token("secret"), "publish": "true"}]}
        )
        config = BrokerConfig("a", port=0, security=security, admin=AdminConfig(port=0, events=True))
        async with Broker(config) as a:
            assert a.admin is not None
            reader, writer = await asyncio.open_connection("127.0.0.1", a.admin.port)
            writer.write(b"GET /events?filter=x HTTP/1.0\r\nAuthorization: " + value + b"\r\n\r\n")
            answer = (await reader.read()).decode()
            writer.close()
            assert answer.split()[1] == "401"
            assert "\nWWW-Authenticate: Bearer realm=" in answer.replace("\r", "")

    run(main())


def test_full_queues_hold_posts_back_within_bounds() -> None:
    """A subscriber that takes nothing, and many who post: what waits is bounded, and 202 means that it was taken."""
    limits = GatewayLimits(waiting_requests=10, waiting_bytes=2_000_000, confirm_s=30.0)
    bounds = Bounds(bytes=1_000_000, policy="block")

    async def main() -> None:
        async with (
            broker(client_bounds=bounds, stalled_s=600.0) as a,
            gateway(a, limits=limits) as events_url,
            covey.connect(url(a.port)) as slow,
            slow.subscribe("n >= 0") as events,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
        ):
            await slow.flush()
            link = slow._session.link
            assert link is not None
            link.connection.hold()
            (peer,) = (one for one in a.core.peers.values() if isinstance(one.who, Session))
            answers: dict[int, int] = {}
            most = 0

            async def post(number: int) -> None:
                one = {**BASE, "id": str(number), "n": number, "data": "-" * 100_000}
                async with session.post(events_url, json=one, headers=STRUCTURED) as answer:
                    answers[number] = answer.status
                    assert answer.status == 202 or int(answer.headers["Retry-After"]) > 0

            posts = [asyncio.ensure_future(post(number)) for number in range(100)]
            while len(answers) < 100 - limits.waiting_requests:
                most = max(most, peer.connection.outbox.size)
                await asyncio.sleep(0.01)
            refused = [number for number, status in answers.items() if status == 503]
            assert refused, "beyond the bound"
            assert most < bounds.bytes + 1_000_000, "one body beyond the bound, not all of them"
            assert a.core.counters["refused_full"] == len(refused)
            link.connection.go_on()
            await asyncio.gather(*posts)
            taken = sorted(number for number, status in answers.items() if status == 202)
            assert len(taken) + len(refused) == 100
            got = [await events.next(20) for _ in taken]
            assert sorted(event["n"] for event in got) == taken

    run(main())


def test_one_users_posts_that_wait_leave_room_for_anothers() -> None:
    limits = GatewayLimits(waiting_requests=2, confirm_s=30.0)
    bounds = Bounds(events=1, bytes=1_000, policy="block")

    async def authorise(request: web.Request) -> Permissions:
        return Permissions(request.headers["Authorization"])

    async def main() -> None:
        async with (
            broker(client_bounds=bounds, stalled_s=600.0) as a,
            gateway(a, limits=limits, authorise=authorise) as events_url,
            covey.connect(url(a.port)) as slow,
            slow.subscribe("n = 1") as events,
            aiohttp.ClientSession() as session,
        ):
            await slow.flush()
            assert slow._session.link is not None
            slow._session.link.connection.hold()

            async def post(user: str, n: int) -> int:
                head = STRUCTURED | {"Authorization": user}
                one = {**BASE, "n": n, "data": "-" * 900_000}
                async with session.post(events_url, json=one, headers=head) as answer:
                    return answer.status

            filling: list[asyncio.Future[int]] = []
            while not a.core.pressure.is_felt:
                filling.append(asyncio.ensure_future(post("ann", 1)))
                await asyncio.wait(filling, timeout=0.5)
            waiting = [asyncio.ensure_future(post("ann", 1)) for _ in range(10)]
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            assert {one.result() for one in done} == {503}
            assert await post("bob", 2) == 202, "who fills nothing waits for nobody"
            slow._session.link.connection.go_on()
            assert set(await asyncio.gather(*waiting, *filling)) == {202, 503}
            assert events

    run(main())


class Turns:
    """Counts the turns of an event loop, and the bytes that are converted in each of them."""

    def __init__(self) -> None:
        self.now = 0
        self.bytes: Counter[int] = Counter()
        self.calls = 0
        self.elsewhere: list[int] = []  # bytes of what another thread converts
        self._here = threading.get_ident()

    def watch(self, convert: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same, and is noted."""

        def noted(data: Any, *rest: Any, **more: Any) -> Any:
            self.calls += 1
            if threading.get_ident() == self._here:
                self.bytes[self.now] += memoryview(data).nbytes
            else:
                self.elsewhere.append(memoryview(data).nbytes)
            return convert(data, *rest, **more)

        return noted

    @asynccontextmanager
    async def counted(self) -> AsyncIterator[None]:
        """Count, meanwhile."""

        async def count() -> None:
            while True:
                self.now += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count())
        try:
            yield
        finally:
            counting.cancel()

    def check(self) -> None:
        """Whoever counts sees the end of one turn and the beginning of another, so at most two slices."""
        assert max(self.bytes.values()) <= 2 * SLICE
        assert all(size > SLICE for size in self.elsewhere)


def event_of(size: int, number: int = 0) -> dict[str, Any]:
    """Return an event of about so many bytes of JSON, in attributes."""
    more = {f"a{at:x}": "v" * 10 for at in range(max(0, size - 60) // 20)}
    return {**BASE, "id": str(number), **more}


@pytest.mark.parametrize(
    ("sizes", "large"),
    [((60,) * 2_000, 0), ((4_000,) * 60, 0), ((60_000, 60, 60) * 5, 5), ((9_000,) * 20, 0)],
    ids=["small", "medium", "large", "two are too much"],
)
def test_batches_are_read_in_slices_of_bytes_between_others(
    sizes: tuple[int, ...], large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, not timed: in one turn of the event loop so many bytes are read, of all requests together."""
    turns = Turns()
    monkeypatch.setattr(cloudevents, "read_structured", turns.watch(cloudevents.read_structured))

    async def main() -> None:
        async with (
            broker() as a,
            gateway(a) as events_url,
            aiohttp.ClientSession() as session,
            covey.connect(url(a.port)) as client,
            turns.counted(),
        ):
            subscription = await client.subscribe("specversion = '1.0'")
            body = json.dumps([event_of(size, number) for number, size in enumerate(sizes)]).encode()
            media_type = {"Content-Type": "application/cloudevents-batch+json"}

            async def post() -> int:
                async with session.post(events_url, data=body, headers=media_type) as answer:
                    return answer.status

            assert await asyncio.gather(*(post() for _ in range(3))) == [202, 202, 202]
            for _ in range(3):
                for number in range(len(sizes)):
                    assert (await subscription.next(timeout_s=10)).content["id"] == str(number)

    run(main())
    turns.check()
    assert turns.calls == 3 * len(sizes)
    assert len(turns.elsewhere) == 3 * large


@pytest.mark.parametrize("confirm", ["true", "false"])
@pytest.mark.parametrize(
    "sizes", [(60,) * 2_000, (4_000,) * 60, (60_000, 60, 60) * 5], ids=["small", "medium", "large"]
)
def test_batches_are_published_in_slices_and_wait_for_one_answer(
    sizes: tuple[int, ...], confirm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, not timed: neither the frames of all events nor a future for each are made in one turn of the loop."""
    turns, futures = Turns(), Counter[int]()
    monkeypatch.setattr(module, "encode_event", turns.watch(encode_event))

    async def main() -> None:
        async with (
            broker(data_dir=str(tmp_path)) as a,
            gateway(a) as events_url,
            aiohttp.ClientSession() as session,
            covey.connect(url(a.port)) as client,
            turns.counted(),
        ):
            subscription = await client.subscribe("specversion = '1.0'")
            body = json.dumps([event_of(size, number) for number, size in enumerate(sizes)]).encode()
            media_type = {"Content-Type": "application/cloudevents-batch+json"}
            loop = asyncio.get_running_loop()
            create = loop.create_future

            def created() -> asyncio.Future[Any]:
                futures[turns.now] += 1
                return create()

            monkeypatch.setattr(loop, "create_future", created)
            params = {"confirm": confirm}
            async with session.post(events_url, data=body, headers=media_type, params=params) as answer:
                assert answer.status == (200 if confirm == "true" else 202)
                assert (await answer.json())["events"] == len(sizes)
            for number in range(len(sizes)):
                assert (await subscription.next(timeout_s=10)).content["id"] == str(number)

    run(main())
    turns.check()
    assert turns.calls == len(sizes)
    assert max(futures.values()) < 50


@pytest.mark.parametrize(
    ("sizes", "large"),
    [((60,) * 1_000, 0), ((4_000,) * 40, 0), ((60_000, 60, 60) * 4, 4), ((9_000,) * 20, 0)],
    ids=["small", "medium", "large", "two are too much"],
)
def test_events_for_listeners_are_written_in_slices_of_bytes(
    sizes: tuple[int, ...], large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, not timed: in one turn of the event loop so many bytes are written, for all listeners together."""
    turns = Turns()
    monkeypatch.setattr(module, "as_sent", turns.watch(module.as_sent))

    async def main() -> None:
        async with (
            broker() as a,
            gateway(a) as events_url,
            aiohttp.ClientSession() as session,
            covey.connect(url(a.port)) as client,
            turns.counted(),
        ):
            params = {"filter": "specversion = '1.0'"}
            listeners = [await session.get(events_url, params=params) for _ in range(3)]
            await client.publish_many([event_of(size, number) for number, size in enumerate(sizes)])

            async def listen(one: aiohttp.ClientResponse) -> None:
                for number in range(len(sizes)):
                    assert json.loads((await next_event(one.content))["data"])["id"] == str(number)
                one.close()

            await asyncio.gather(*map(listen, listeners))

    run(main())
    turns.check()
    assert turns.calls == 3 * len(sizes)
    assert len(turns.elsewhere) == 3 * large
