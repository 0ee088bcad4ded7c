"""The admin pages of live brokers: what they show is what is there, in pages, to those who may see it."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.e2e.helpers.pairs import admin_url, dialling, is_linked, url
from tests.e2e.helpers.running import eventually, run

from covey.broker.config import AdminConfig, BrokerConfig, LinkConfig
from covey.broker.http.admin import ENDPOINTS
from covey.broker.metrics import METRICS
from covey.broker.security import hash_token
from covey.broker.server import Broker
from covey.client.client import Client, connect
from covey.errors import ConfigError
from covey.protocol.outbox import DROP_NEW, Bounds

ADMIN = AdminConfig(port=0)


@asynccontextmanager
async def pair(**settings: Any) -> AsyncIterator[tuple[Broker, Broker]]:
    async with AsyncExitStack() as stack:
        a = await stack.enter_async_context(
            Broker(
                BrokerConfig(
                    "a", port=0, links=(LinkConfig("b"), LinkConfig("gone")), admin=ADMIN, **settings
                )
            )
        )
        b = await stack.enter_async_context(Broker(dialling("b", a, admin=ADMIN, **settings)))
        await eventually(lambda: is_linked(a, "b") and is_linked(b, "a"))
        yield a, b


class Pages:
    """The admin pages of a broker, asked over HTTP."""

    def __init__(self, session: aiohttp.ClientSession, broker: Broker, token: str = "") -> None:
        self._session = session
        self._base = admin_url(broker)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def get(self, path: str, **query: Any) -> tuple[int, Any]:
        async with self._session.get(self._base + path, params=query, headers=self._headers) as answer:
            return answer.status, await answer.json()

    async def good(self, path: str, **query: Any) -> Any:
        status, row = await self.get(path, **query)
        assert status == 200, row
        return row

    async def text(self, path: str) -> str:
        async with self._session.get(self._base + path, headers=self._headers) as answer:
            assert answer.status == 200
            return await answer.text()

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        how = {"data": io.BytesIO(body)} if isinstance(body, bytes) else {"json": body}
        async with self._session.post(self._base + path, headers=self._headers, **how) as answer:
            return answer.status, await answer.json()


async def subscribed(stack: AsyncExitStack, client: Client, *texts: str) -> list[Any]:
    return [await stack.enter_async_context(client.subscribe(text)) for text in texts]


def read_metrics(text: str) -> dict[str, float]:
    """Return the samples of an exposition, which must be well formed."""
    samples: dict[str, float] = {}
    declared: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert kind in ("counter", "gauge", "histogram")
            assert name not in declared
            declared.add(name)
            if kind == "histogram":
                declared |= {f"{name}_bucket", f"{name}_sum", f"{name}_count"}
            continue
        found = re.fullmatch(r'([a-z_]+)(\{(?:[a-z]+="(?:[^"\\\n]|\\.)*",?)+\})? ([0-9.e+-]+)', line)
        assert found, line
        assert found[1] in declared
        assert found[1] + (found[2] or "") not in samples
        samples[found[1] + (found[2] or "")] = float(found[3])
    return samples


def test_pages_show_what_is_there() -> None:
    async def work() -> None:
        async with AsyncExitStack() as stack:
            a, b = await stack.enter_async_context(pair(lease_s=2.0))
            session = await stack.enter_async_context(aiohttp.ClientSession())
            one = await stack.enter_async_context(connect(url(a)))
            two = await stack.enter_async_context(connect(url(b)))
            events = await subscribed(stack, two, "price > 10", "price > 20", "symbol = 'IBM'")
            await one.advertise("price > 0")
            await two.flush()
            await one.flush()
            for price in (5, 15, 25):
                await one.publish({"price": price})
            await anext(events[0])
            await anext(events[0])
            at_a, at_b = Pages(session, a), Pages(session, b)

            assert await at_a.good("/healthz") == {"healthy": True, "broker": "a"}
            await eventually(
                lambda: a.is_ready and b.is_ready
            )  # one of its neighbours is waited for, in vain
            assert await at_a.good("/readyz") == {"ready": True, "broker": "a", "links_missing": ["gone"]}
            status, without_links = await at_a.get("/readyz", links="1")
            assert (status, without_links["ready"]) == (503, False)
            assert (await at_b.get("/readyz", links="1"))[0] == 200

            varz = await at_a.good("/varz")
            assert (varz["broker"], varz["clients"], varz["subscriptions"]) == ("a", 1, 0)
            assert (varz["neighbours"], varz["links_up"]) == (["b", "gone"], ["b"])
            assert varz["totals"]["events_published"] == 3
            assert varz["totals"]["events_forwarded"] == 2
            assert (await at_b.good("/varz"))["totals"]["events_delivered"] == 2

            links = await at_a.good("/linkz")
            assert links["total"] == 3
            assert [row["link"] for row in links["rows"]][:2] == ["b", "gone"]
            assert [row["up"] for row in links["rows"]] == [True, False, True]
            assert links["rows"][0]["sent"] == 2
            assert links["rows"][0]["entries"] == 2  # covering: price > 10 stands for price > 20
            (client,) = (await at_b.good("/linkz", link=next(iter(b.core.clients))))["rows"]
            assert (client["kind"], client["subscriptions"], client["delivered"]) == ("client", 3, 2)

            subs = await at_b.good("/subz")
            assert subs["total"] == 3
            assert [row["filter"] for row in subs["rows"]] == ["price > 10", "price > 20", "symbol = 'IBM'"]
            page = await at_b.good("/subz", limit=1, offset=1)
            assert (page["total"], page["rows"]) == (3, subs["rows"][1:2])
            assert (await at_b.good("/subz", key=subs["rows"][2]["key"]))["rows"] == subs["rows"][2:]
            assert (await at_b.good("/subz", link="~none"))["total"] == 0
            assert (await at_b.good("/subz", offset=7))["rows"] == []

            entries = await at_a.good("/routez")
            assert [(row["link"], row["filter"]) for row in entries["rows"]] == [
                ("b", "price > 10"),
                ("b", "symbol = 'IBM'"),
            ]
            ads = await at_b.good("/routez", what="advertisements")
            assert [(row["link"], row["filter"]) for row in ads["rows"]] == [("a", "price > 0")]
            assert (await at_a.good("/planz"))["epochs"][0]["trees"][0]["open"] == ["b"]

    run(work())


def test_metrics_agree_with_what_happened() -> None:
    async def work() -> None:
        async with AsyncExitStack() as stack:
            a, b = await stack.enter_async_context(pair())
            session = await stack.enter_async_context(aiohttp.ClientSession())
            two = await stack.enter_async_context(connect(url(b)))
            (events,) = await subscribed(stack, two, "price > 10")
            await two.flush()
            for _ in range(2):  # clients that are gone count too
                async with connect(url(a)) as one:
                    await one.publish({"price": 15})
                    await one.publish({"price": 5})
                    await one.flush()
            await anext(events)
            await anext(events)
            await eventually(lambda: not a.core.clients)
            at_a = read_metrics(await Pages(session, a).text("/metrics"))
            at_b = read_metrics(await Pages(session, b).text("/metrics"))
            assert at_a["covey_events_published_total"] == 4
            assert at_a["covey_events_unadvertised_total"] == 4
            assert at_a["covey_events_forwarded_total"] == 4  # nobody advertised: all of them are flooded
            assert at_a['covey_link_events_sent_total{link="b"}'] == 4
            assert at_b['covey_link_events_received_total{link="a"}'] == 4
            assert at_b["covey_events_delivered_total"] == 2
            assert at_a['covey_link_up{link="b"}'] == 1
            assert at_a['covey_link_up{link="gone"}'] == 0
            assert at_a['covey_connections{kind="client"}'] == 0
            assert at_a["covey_connections_total"] == 3
            assert at_b['covey_table_entries{kind="local"}'] == 1
            assert at_b['covey_requests_total{kind="subscribe"}'] == 1
            assert at_a['covey_control_messages_received_total{kind="greet"}'] == 1
            assert at_a['covey_control_messages_sent_total{kind="sync"}'] == 2
            assert at_a['covey_link_bytes_sent_total{link="b"}'] > 100
            said = {re.sub(r"(_seconds)_(bucket|sum|count)$", r"\1", name.partition("{")[0]) for name in at_a}
            assert said <= {metric.name for metric in METRICS}
            assert at_a["covey_hop_seconds_count"] == at_a['covey_hop_seconds_bucket{le="+Inf"}'] > 0

    run(work())


def test_metrics_of_the_store_have_their_own_names_and_kinds(tmp_path: Path) -> None:
    async def work() -> None:
        config = BrokerConfig("a", port=0, data_dir=str(tmp_path / "data"), admin=AdminConfig(port=0))
        async with (
            Broker(config) as a,
            aiohttp.ClientSession() as session,
            connect(url(a), name="worker") as client,
        ):
            await client.subscribe("price > 10", durable="orders")
            await client.publish({"price": 15}, confirm=True)
            text = await Pages(session, a).text("/metrics")
            found = read_metrics(text)
            assert found["covey_store_events_kept_total"] == 1
            assert found["covey_store_subscriptions"] == 1
            reported = {f"covey_store_{name}" for name in a.core.durable.report()}
            assert reported == {name for name in found if name.startswith("covey_store_")}
            assert "# TYPE covey_store_events_kept_total counter" in text
            assert "# TYPE covey_store_used_bytes gauge" in text

    run(work())


def test_totals_outlive_links() -> None:
    async def work() -> None:
        async with AsyncExitStack() as stack:
            a, b = await stack.enter_async_context(pair())
            one = await stack.enter_async_context(connect(url(a)))
            await one.publish({"price": 15})
            await one.flush()
            assert a.introspection.neighbour_totals()["b"]["sent"] == 1
            await b.stop()
            await eventually(lambda: not a.core.linked)
            assert a.introspection.neighbour_totals()["b"]["sent"] == 1
            assert a.core.tally.ended[-1].link == "b"

    run(work())


def test_slow_consumers_are_named() -> None:
    async def work() -> None:
        bounds = Bounds(events=100, bytes=1 << 20, policy=DROP_NEW)
        async with AsyncExitStack() as stack:
            a, _ = await stack.enter_async_context(pair(client_bounds=bounds))
            session = await stack.enter_async_context(aiohttp.ClientSession())
            pages = Pages(session, a)
            slow = await stack.enter_async_context(connect(url(a)))
            await subscribed(stack, slow, "a = 1")
            slow._session.link.connection.hold()  # type: ignore[union-attr]
            (link,) = a.core.clients
            one = await stack.enter_async_context(connect(url(a)))
            for _ in range(400):
                await one.publish({"a": 1}, b"x" * 50_000)
            await one.flush()
            await eventually(lambda: a.introspection.slow())
            varz = await pages.good("/varz")
            assert [row["link"] for row in varz["slow"]] == [link]
            metrics = read_metrics(await pages.text("/metrics"))
            assert f'covey_slow_consumer_events{{link="{link}",name=""}}' in metrics
            assert metrics["covey_events_dropped_total"] > 0
            slow._session.link.connection.go_on()  # type: ignore[union-attr]

    run(work())


def test_a_token_protects_the_pages() -> None:
    async def work() -> None:
        admin = AdminConfig(port=0, token=hash_token("secret"))
        async with (
            Broker(BrokerConfig("a", port=0, admin=admin)) as a,
            aiohttp.ClientSession() as session,
        ):
            for endpoint in ENDPOINTS:
                ask = "post" if endpoint.method == "POST" else "get"
                for token, allowed in (("", False), ("wrong", False), ("secret", True)):
                    pages = Pages(session, a, token)
                    if endpoint.path == "/metrics":
                        if allowed:
                            await pages.text("/metrics")
                        continue
                    if endpoint.path == "/watchz" and allowed:
                        continue  # it has no end
                    arguments: list[dict[str, Any]] = [{"content": {}}] if ask == "post" else []
                    status, _ = await getattr(pages, ask)(endpoint.path, *arguments)
                    open_to_all = endpoint.path in ("/healthz", "/readyz")
                    good = 400 if (ask, endpoint.path) == ("post", "/planz") else 200  # it is no plan
                    assert status == (good if allowed or open_to_all else 401), (endpoint.path, token)
            assert (await Pages(session, a).get("/metrics"))[0] == 401
            async with session.get(admin_url(a) + "/varz") as answer:
                assert answer.headers["WWW-Authenticate"] == 'Bearer realm="covey admin"'
            assert a.admin is not None
            reader, writer = await asyncio.open_connection("127.0.0.1", a.admin.port)
            writer.write(b"GET /varz HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer \xff\xfe\r\n\r\n")
            assert (await reader.readline()).split()[1] == b"401"
            writer.close()

    run(work())


def test_the_view_token_opens_what_shows_and_changes_nothing() -> None:
    async def work() -> None:
        admin = AdminConfig(port=0, token=hash_token("secret"), view_token=hash_token("looking"))
        async with AsyncExitStack() as stack:
            a = await stack.enter_async_context(Broker(BrokerConfig("a", port=0, admin=admin)))
            session = await stack.enter_async_context(
                aiohttp.ClientSession(headers={"Authorization": "Bearer looking"})
            )
            client = await stack.enter_async_context(connect(url(a)))
            await client.flush()
            (link,) = a.core.clients
            found: dict[tuple[str, str], int] = {}
            for endpoint in ENDPOINTS:
                body: Any = {"content": {}} if endpoint.path == "/explainz" else None
                asked = session.request(
                    endpoint.method, admin_url(a) + endpoint.path, params={"link": link}, json=body
                )
                async with asked as answer:  # of a stream, the beginning
                    found[endpoint.method, endpoint.path] = answer.status
                    if answer.status == 403:
                        assert "needs the admin token" in (await answer.json())["error"]
            refused = {page for page, status in found.items() if status == 403}
            assert refused == {
                ("DELETE", "/linkz"), ("POST", "/planz"), ("DELETE", "/planz"), ("GET", "/samplez")
            }  # fmt: skip
            assert {status for page, status in found.items() if page not in refused} == {200}
            assert list(a.core.clients) == [link]
            assert await Pages(session, a, "secret").good("/samplez") == {"broker": "a", "rows": []}

    run(work())


def test_with_a_view_token_alone_nobody_changes_anything() -> None:
    async def work() -> None:
        admin = AdminConfig(port=0, view_token=hash_token("looking"))
        async with (
            Broker(BrokerConfig("a", port=0, admin=admin)) as a,
            aiohttp.ClientSession() as session,
        ):
            assert (await Pages(session, a, "looking").get("/varz"))[0] == 200
            assert (await Pages(session, a, "looking").post("/planz", b""))[0] == 403
            for token in ("", "wrong"):
                assert (await Pages(session, a, token).get("/varz"))[0] == 401
                assert (await Pages(session, a, token).post("/planz", b""))[0] == 401

    run(work())


def test_questions_that_are_none() -> None:
    async def work() -> None:
        async with (
            Broker(BrokerConfig("a", port=0, admin=ADMIN)) as a,
            aiohttp.ClientSession() as session,
        ):
            pages = Pages(session, a)
            for query in (
                {"limit": "x"},
                {"limit": "-1"},
                {"limit": "1001"},
                {"offset": "٣"},
                {"offset": "9" * 50},
            ):
                status, row = await pages.get("/subz", **query)
                assert status == 400
                assert "is no number" in row["error"]
            assert (await pages.get("/routez", what="secrets"))[0] == 400
            assert (await pages.get("/nothing"))[0] == 404
            assert (await pages.post("/varz", {}))[0] == 405
            bodies: list[Any] = [
                b"",
                b"{",
                b"[]",
                b"\xff",
                b"[" * 100_000,
                {"content": 1},
                {"content": {}, "x": 1},
            ]
            bodies += [{"content": "<a", "language": "xpath"}, {"content": {}, "language": "sql"}]
            bodies += [{"content": [1], "language": "keywords"}, {"content": {}, "wanted": "?"}]
            bodies += [{"content": {}, "filter": "a = 1"}, {"content": {}, "source": "b", "tree": 7}]
            for body in bodies:
                status, row = await pages.post("/explainz", body)
                assert status == 400, body
                assert row["error"]
            assert (await pages.post("/explainz", b"x" * (2 << 20)))[0] == 413
            assert (await pages.get("/healthz"))[0] == 200

    run(work())


def test_admin_is_off_unless_configured() -> None:
    async def work() -> None:
        async with Broker(BrokerConfig("a", port=0)) as a:
            assert a.admin is None

    run(work())


@pytest.mark.parametrize(
    "settings",
    [
        {"host": "0.0.0.0"},
        {"port": -1},
        {"token": "plain"},
        {"view_token": "plain"},
        {"token": hash_token("same"), "view_token": hash_token("same")},
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"admin.{list(settings)[-1]}"):
        AdminConfig(**settings)


def test_an_address_that_is_taken() -> None:
    async def work() -> None:
        async with Broker(BrokerConfig("a", port=0, admin=ADMIN)) as a:
            assert a.admin is not None
            again = Broker(BrokerConfig("b", port=0, admin=AdminConfig(port=a.admin.port)))
            with pytest.raises(ConfigError, match="admin pages cannot be at"):
                await again.start()
            await again.stop()
            await asyncio.sleep(0)

    run(work())


def test_watching_a_broker() -> None:
    async def work() -> None:
        async with AsyncExitStack() as stack:
            a, b = await stack.enter_async_context(pair())
            session = await stack.enter_async_context(aiohttp.ClientSession())
            one = await stack.enter_async_context(connect(url(a)))
            two = await stack.enter_async_context(connect(url(b)))
            (events,) = await subscribed(stack, two, "price > 10")
            await two.flush()
            await one.flush()
            first, second = AsyncExitStack(), AsyncExitStack()
            async with first, second:
                at = f"{admin_url(a)}/watchz"
                watching = await first.enter_async_context(session.get(at, params={"every": "0"}))
                assert watching.status == 200
                before = msgspec.json.decode(await watching.content.readline())
                await one.publish({"price": 15})
                await anext(events)
                while (now := msgspec.json.decode(await watching.content.readline()))["totals"][
                    "events_published"
                ] == 0:
                    pass
                assert before["broker"] == now["broker"] == "a"
                assert now["totals"]["events_forwarded"] == 1
                links = {link["link"]: link for link in now["links"]}
                assert (links["b"]["up"], links["b"]["sent"], links["b"]["queue_events"]) == (True, 1, 0)
                assert not links["gone"]["up"]
                assert now["control_in"] > 0
                assert sum(now["latencies"]["hop"]) > 0
                assert len(now["latency_bounds_s"]) + 1 == len(now["latencies"]["hop"])
                assert now["plan"] == {"version": 0, "epoch": 0, "planned": False, "step": "", "reason": ""}
                # A second watcher is given the same lines.
                other = await second.enter_async_context(session.get(at))
                assert msgspec.json.decode(await other.content.readline())["broker"] == "a"
            status, said = await Pages(session, a).get("/watchz", every="61")
            assert (status, said["error"]) == (400, "every='61' is no number from 0 to 60")

    run(work())


def test_ending_the_connection_of_a_client() -> None:
    async def work() -> None:
        async with AsyncExitStack() as stack:
            config = BrokerConfig("a", port=0, admin=AdminConfig(port=0, token=hash_token("secret")))
            broker = await stack.enter_async_context(Broker(config))
            session = await stack.enter_async_context(
                aiohttp.ClientSession(headers={"Authorization": "Bearer secret"})
            )
            client = await stack.enter_async_context(connect(url(broker)))
            await client.flush()
            (before,) = broker.core.clients
            at = f"{admin_url(broker)}/linkz"
            async with session.delete(at, params={"link": before}) as answer:
                assert (answer.status, await answer.json()) == (202, {"broker": "a", "ended": before})
            await eventually(lambda: bool(broker.core.clients) and before not in broker.core.clients)
            await client.flush()  # the library has come back
            ended = (await Pages(session, broker, "secret").good("/linkz"))["ended"]
            assert ended[0]["reason"] == "an operator has ended the connection"
            async with session.delete(at, params={"link": before}) as answer:
                assert answer.status == 400
                assert "there is no client at" in (await answer.json())["error"]

    run(work())


def test_clients_are_disconnected_only_with_a_token() -> None:
    async def work() -> None:
        async with pair() as (a, _), connect(url(a)) as client, aiohttp.ClientSession() as session:
            await client.flush()
            (link,) = a.core.clients
            async with session.delete(f"{admin_url(a)}/linkz", params={"link": link}) as answer:
                assert answer.status == 403
            assert list(a.core.clients) == [link]

    run(work())
