"""Structured logs: one line an event, as JSON or as pairs, with nothing that clients say or prove."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import threading
from collections.abc import Iterator

import pytest
from tests.e2e.helpers.pairs import dialling, is_linked, url
from tests.e2e.helpers.running import eventually, run

from covey.broker import server
from covey.broker.config import BrokerConfig, LinkConfig
from covey.broker.logs import JSON, LOGFMT, MAX_VALUE, configure, say
from covey.broker.security import hash_token, read_security
from covey.broker.server import Broker
from covey.client.client import connect
from covey.errors import CoveyError

log = logging.getLogger("covey.test")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger("covey")
    before = root.handlers[:], root.level, root.propagate
    yield
    root.handlers[:], root.propagate = before[0], before[2]
    root.setLevel(before[1])


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json() -> None:
    stream = io.StringIO()
    configure("info", JSON, stream)
    say(log, logging.INFO, "link up", broker="a", link="b\n", port=7, ok=True, nothing=None, empty="")
    say(log, logging.DEBUG, "too little", broker="a")
    log.warning("plain %s", "text")
    first, second = lines(stream)
    assert str(first.pop("time")).endswith("Z")
    assert first == {
        "level": "info",
        "event": "link up",
        "broker": "a",
        "link": "b\n",
        "port": 7,
        "ok": True,
    }
    assert (second["level"], second["event"]) == ("warning", "plain text")


def test_pairs() -> None:
    stream = io.StringIO()
    configure("debug", LOGFMT, stream)
    say(log, logging.DEBUG, "link up", broker="a", reason='it said "no"\n', share=0.5, ok=False, sign="a=b")
    (line,) = stream.getvalue().splitlines()
    assert line.split(" ", 2)[1:] == [
        "debug",
        r'event="link up" broker=a reason="it said \"no\"\n" share=0.5 ok=no sign="a=b"',
    ]


def test_values_are_bounded_and_can_be_written() -> None:
    stream = io.StringIO()
    configure("info", JSON, stream)
    say(log, logging.INFO, "x" * 10_000, reason="\ud800" + "y" * 10_000)
    (row,) = lines(stream)
    assert len(str(row["event"])) == len(str(row["reason"])) == MAX_VALUE


def test_a_brokers_life_in_its_log() -> None:
    stream = io.StringIO()
    configure("debug", JSON, stream)

    async def work() -> None:
        security = read_security(
            {"tokens": [{"name": "t", "hash": hash_token("hush")}], "neighbours": {"trusted": True}}
        )
        first = BrokerConfig("a", port=0, links=(LinkConfig("b"),), security=security)
        async with Broker(first) as a, Broker(dialling("b", a)) as b:
            await eventually(lambda: is_linked(a, "b") and is_linked(b, "a"))
            async with connect(url(a), token="hush") as client, client.subscribe("secret_filter = 1"):
                await client.publish({"secret_filter": "secret value"}, b"secret payload")
                await client.flush()
            with pytest.raises(CoveyError):
                async with connect(url(a), token="guess"):
                    pass

    run(work())
    rows = lines(stream)
    assert all({"time", "level", "event", "broker"} <= set(row) for row in rows)
    at_a = [row["event"] for row in rows if row["broker"] == "a"]
    for event in ("start", "listening", "link up", "client gone", "peer refused", "drain"):
        assert event in at_a, event
    assert "link down" in [row["event"] for row in rows]
    refused = next(row for row in rows if row["event"] == "peer refused")
    assert str(refused["peer"]).startswith("127.0.0.1:")
    text = stream.getvalue()
    assert not any(secret in text for secret in ("hush", "guess", "secret"))


def test_a_broker_that_takes_long_to_start_says_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    configure("info", JSON, stream)
    waited = threading.Event()
    monkeypatch.setattr(server, "warm_up", lambda: waited.wait(30))
    monkeypatch.setattr(server, "SILENCE_S", 0.01)

    async def work() -> None:
        broker = Broker(BrokerConfig("a", port=0))
        starting = asyncio.ensure_future(broker.start())
        await eventually(lambda: "compiling" in stream.getvalue())
        assert "listening" not in stream.getvalue()
        waited.set()
        await starting
        await broker.stop()

    run(work())
    assert [row["event"] for row in lines(stream)][:3] == ["start", "compiling", "listening"]
