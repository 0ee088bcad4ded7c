"""The network's own state as Spark tables, beside what the brokers' own objects say; mistakes are one line."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from tests.e2e.helpers.network import Live
from tests.spark.brokers import Loop

import covey
from covey.broker.config import AdminConfig
from covey.broker.security import hash_token
from covey.pipeline.network.options import STATES
from covey.pipeline.network.source import NAME
from covey.pipeline.network.state import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from covey.client.client import Client

TOKEN = "let me"
DOCUMENT = Path(__file__).parents[2] / "docs" / "spark.md"


class Scene:
    """Two brokers with a client each: one that wants ants, one that publishes them."""

    def __init__(self) -> None:
        self.loop = Loop()
        self._stack = AsyncExitStack()
        admin = AdminConfig(port=0, token=hash_token(TOKEN))
        self.net = Live([("a", "b")], admin=admin)
        self.loop.run(self._open(), limit_s=300)
        ports = [broker.admin.port for broker in self.net.brokers.values() if broker.admin is not None]
        self.pages = ",".join(f"http://127.0.0.1:{port}" for port in ports)

    async def _open(self) -> None:
        await self._stack.enter_async_context(self.net)
        wanting: Client = await self._stack.enter_async_context(self.net.client("a"))
        publishing: Client = await self._stack.enter_async_context(self.net.client("b"))
        await publishing.advertise("kind = 'ant'")
        self.events = await wanting.subscribe("kind = 'ant' and legs > 5")
        await wanting.flush()
        for legs in (4, 6, 8):
            await publishing.publish({"kind": "ant", "legs": legs})
        await self.events.next(timeout_s=30)
        await self.events.next(timeout_s=30)

    def close(self) -> None:
        self.loop.run(self._stack.aclose())
        self.loop.close()


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.close()


def table(spark: SparkSession, name: str, pages: str, token: str = TOKEN, **options: str) -> DataFrame:
    reading = spark.read.format(NAME).option("table", name).option("admin", pages).option("token", token)
    return reading.options(**options).load()


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: str(row["broker"]))


def test_tables_show_what_brokers_know(spark: SparkSession, scene: Scene) -> None:
    a, b = (scene.net.brokers[name].core for name in "ab")
    wanted = covey.parse("kind = 'ant' and legs > 5")
    (subscription,) = rows(table(spark, "subscriptions", scene.pages))
    ((link, client),) = a.clients.items()
    assert (subscription["broker"], subscription["link"]) == ("a", link)
    assert [subscription["subscription"]] == list(client.keys.values())
    assert covey.parse(subscription["filter"], subscription["language"]) == wanted

    clients = rows(table(spark, "clients", scene.pages))
    counted = [(one["broker"], one["subscriptions"], one["published"], one["delivered"]) for one in clients]
    assert counted == [("a", 1, 0, 2), ("b", 0, 3, 0)]

    links = rows(table(spark, "links", scene.pages))
    assert [(one["broker"], one["neighbour"], one["up"], one["is_open"]) for one in links] == [
        ("a", "b", True, True),
        ("b", "a", True, True),
    ]
    # Of three events, the one that nobody wants stays where it was published.
    assert [(one["received"], one["sent"], one["dropped"]) for one in links] == [(2, 0, 0), (0, 2, 0)]

    entries = rows(table(spark, "tables", scene.pages))
    told = {(one["broker"], one["what"], one["link"], covey.parse(one["filter"])) for one in entries}
    (publisher,) = b.clients
    assert told >= {
        ("b", "subscription", "a", wanted),
        ("a", "advertisement", "b", covey.parse("kind = 'ant'")),
        ("b", "advertisement", publisher, covey.parse("kind = 'ant'")),
    }

    now = datetime.now(UTC).replace(tzinfo=None)
    rates = rows(table(spark, "rates", scene.pages))
    assert [(one["events_published"], one["events_forwarded"], one["events_delivered"]) for one in rates] == [
        (0, 0, 2),
        (3, 2, 0),
    ]
    assert all(abs(one["at"] - now) < timedelta(minutes=10) and one["uptime_s"] > 0 for one in rates)

    plans = rows(table(spark, "plans", scene.pages))
    assert [(one["broker"], one["is_current"], one["is_planned"], one["links_up"]) for one in plans] == [
        ("a", True, False, ["b"]),
        ("b", True, False, ["a"]),
    ]


def test_the_document_shows_the_tables() -> None:
    text = DOCUMENT.read_text(encoding="utf-8").partition("| table | a row for each | columns |")[2]
    assert text.partition("\n\n")[0].strip().splitlines()[1:] == [
        f"| `{name}` | {state.table.comment.removeprefix('a ').removeprefix('an ')} |"
        f" {', '.join(column.name for column in state.table.columns)} |"
        for name, state in TABLES.items()
    ]
    assert tuple(TABLES) == STATES


def test_columns_can_be_chosen(spark: SparkSession, scene: Scene) -> None:
    reading = spark.read.format(NAME).options(table="links", admin=scene.pages, token=TOKEN)
    found = reading.schema("neighbour string, broker string").load().collect()
    assert sorted(map(tuple, found)) == [("a", "b"), ("b", "a")]
    with pytest.raises(PySparkException, match="has no column sent of the type string"):
        reading.schema("sent string").load().collect()


@contextmanager
def answering(answer: Any) -> Iterator[str]:
    """Yield the address of a server that answers everything with one JSON."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_mistakes_are_one_line(spark: SparkSession, scene: Scene) -> None:
    with pytest.raises(PySparkException, match="the option table is 'events'"):
        table(spark, "events", scene.pages)
    with pytest.raises(PySparkException, match="the options table and admin need each other"):
        table(spark, "links", "")
    with pytest.raises(PySparkException, match="is no address of admin pages"):
        table(spark, "links", "ftp://x")
    with pytest.raises(PySparkException, match=r"127\.0\.0\.1:\d+ answers: "):
        table(spark, "links", scene.pages, token="wrong").collect()
    with pytest.raises(PySparkException, match=r"no broker shows its pages at http://127\.0\.0\.1:1:"):
        table(spark, "links", "http://127.0.0.1:1").collect()
    hostile = {"broker": "a", "version": "new", "epochs": [{"current": 1, "planned": 1, "trees": [{}]}]}
    with (
        answering(hostile) as url,
        pytest.raises(PySparkException, match="does not answer as a broker does: version is no bigint"),
    ):
        table(spark, "plans", url).collect()
    with answering([1]) as url, pytest.raises(PySparkException, match="does not answer as a broker does: "):
        table(spark, "rates", url).collect()
