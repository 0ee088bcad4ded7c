"""`covey tables`, `covey top` and `covey explain` on live brokers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from tests.e2e.helpers.pairs import admin_url, is_linked, url
from tests.e2e.helpers.running import eventually, run

from covey import cli
from covey.broker.config import AdminConfig, BrokerConfig, LinkConfig
from covey.broker.security import hash_token, read_security
from covey.broker.server import Broker
from covey.client.client import connect
from covey.routing.strategy import names, registered

Capture = pytest.CaptureFixture[str]

SECURITY = read_security(
    {
        "anonymous": {},
        "neighbours": {"trusted": True},
        "tokens": [{"name": "small", "hash": hash_token("small"), "publish": "price < 100"}],
    }
)


@asynccontextmanager
async def chain(strategy: str = "covering") -> AsyncIterator[list[Broker]]:
    """Give three brokers in a row: a, b and c."""
    async with AsyncExitStack() as stack:
        brokers: list[Broker] = []
        for name, following in (("a", "b"), ("b", "c"), ("c", "")):
            links = [LinkConfig(following)] if following else []
            if brokers:
                links.append(LinkConfig(brokers[-1].config.name, "127.0.0.1", brokers[-1].port))
            config = BrokerConfig(
                name,
                port=0,
                links=tuple(links),
                strategy=strategy,
                admin=AdminConfig(port=0),
                security=SECURITY,
            )
            brokers.append(await stack.enter_async_context(Broker(config)))
        a, b, c = brokers
        await eventually(lambda: is_linked(a, "b") and is_linked(b, "c") and is_linked(c, "b"))
        yield brokers


def page(broker: Broker) -> str:
    return admin_url(broker)


async def ask(capsys: Capture, *arguments: str) -> tuple[int, str]:
    """Run a command in a thread beside the brokers."""
    code = await asyncio.to_thread(cli.run, arguments)
    captured = capsys.readouterr()
    assert code < 2, captured.err
    return code, captured.out


async def explained(
    capsys: Capture, brokers: list[Broker], event: Any, key: str, *more: str, at: list[str] | None = None
) -> dict[str, Any]:
    at = at or [argument for broker in brokers for argument in ("--at", page(broker))]
    code, out = await ask(capsys, "explain", json.dumps(event), "--to", key, *at, *more, "--json")
    report: dict[str, Any] = json.loads(out)
    assert code == (0 if report["arrives"] else 1)
    return report


def test_tables(capsys: Capture) -> None:
    async def work() -> None:
        async with chain() as (a, b, c), connect(url(a)) as one, connect(url(c)) as two:
            await one.advertise("price > 0")
            await one.flush()
            async with two.subscribe("price > 10"), two.subscribe("/a", "xpath"):
                await two.flush()
                _, out = await ask(capsys, "tables", page(b))
                assert "broker b, strategy covering" in out
                assert "price > 10" in out
                assert "price > 0" in out
                _, out = await ask(capsys, "tables", page(c), "--json")
                report = json.loads(out)
                assert report["entries"] == {"total": 0, "rows": []}
                assert [row["filter"] for row in report["subscriptions"]["rows"]] == ["price > 10", "/a"]
                assert report["advertisements"]["total"] == 1
                _, out = await ask(capsys, "tables", page(c), "--what", "subscriptions", "--limit", "1")
                assert "1 more" in out
                assert "advertis" not in out

    run(work())


def test_top(capsys: Capture) -> None:
    async def work() -> None:
        async with chain() as (a, b, c), connect(url(a)) as one:
            await one.publish({"price": 1})
            await one.flush()
            asking = asyncio.create_task(
                ask(capsys, "top", page(a), page(b), "127.0.0.1:1", "--once", "--json", "--every", "0.5")
            )
            published = 0
            while not asking.done():
                await one.publish({"price": 1})
                published += 1
                await asyncio.sleep(0.01)
            _, out = await asking
            at_a, at_b, gone = json.loads(out)
            assert at_a["broker"] == "a"
            assert 0 < at_a["events_published_per_s"] * 0.5 <= published
            assert {link["link"]: link["up"] for link in at_b["links"]} == {"a": True, "c": True}
            assert "no broker shows its pages" in gone["error"]
            _, out = await ask(capsys, "top", page(c), "--once", "--every", "0.1")
            assert "Brokers" in out
            assert "Links" in out

    run(work())


def test_explain_hop_by_hop(capsys: Capture) -> None:
    async def work() -> None:
        async with AsyncExitStack() as stack:
            brokers = await stack.enter_async_context(chain())
            a, b, c = brokers
            one = await stack.enter_async_context(connect(url(a), token="small"))
            two = await stack.enter_async_context(connect(url(c)))
            await one.advertise("price > 0 AND price < 100")
            await stack.enter_async_context(two.subscribe("price > 10"))
            await two.flush()
            (publisher,) = a.core.clients
            (key,) = next(iter(c.core.clients.values())).keys.values()

            report = await explained(capsys, brokers, {"price": 20}, key)
            assert report["arrives"]
            assert [(hop["broker"], hop["next"], hop["goes"]) for hop in report["hops"]] == [
                ("a", "b", True),
                ("b", "c", True),
                ("c", None, None),
            ]
            assert report["hops"][0]["reason"] == "an entry matches it: price > 10"

            report = await explained(capsys, brokers, {"price": 5}, key)
            assert report["reason"] == "the subscription's filter does not match: price > 10: price is 5"
            assert report["hops"][0]["goes"] is False

            report = await explained(capsys, brokers, {"price": 200}, key, "--publisher", publisher)
            assert not report["arrives"]
            assert "small, may not publish it: attributes: price < 100" in report["reason"]

            at = [argument for broker in brokers for argument in ("--at", page(broker))]
            _, out = await ask(capsys, "explain", '{"price": 20}', "--to", key, *at)
            assert out.splitlines()[-1] == "arrives"
            assert "a → b: an entry matches it" in out

            # Outside the advertisement: flooded.
            async with connect(url(a)) as other:
                await other.flush()
                link = next(link for link in a.core.clients if link != publisher)
                report = await explained(capsys, brokers, {"price": 20}, key, "--publisher", link)
                assert report["arrives"]
                assert report["hops"][0]["advertised"] is False
                assert "goes everywhere" in report["hops"][1]["reason"]

            before = dict(a.introspection.totals())
            await explained(capsys, brokers, {"price": 20}, key)
            assert a.introspection.totals() == before  # asking is not publishing

            # The way is cut between a and b.
            await b.stop()
            await eventually(lambda: not a.core.linked)
            report = await explained(capsys, brokers, {"price": 20}, key, at=at)
            assert report["reason"].startswith("it stops at a: towards b, the link is down")
            assert len(report["unreachable"]) == 1

    run(work())


def test_explain_that_nobody_asked_for_it(capsys: Capture) -> None:
    async def work() -> None:
        async with chain() as brokers, connect(url(brokers[2])) as two, two.subscribe("price > 10"):
            await two.flush()
            (key,) = next(iter(brokers[2].core.clients.values())).keys.values()
            report = await explained(capsys, brokers, {"price": 20}, key)
            assert "it stops at a: towards b, none of its 0 entries" in report["reason"]
            assert "nobody on this side has advertised" in report["reason"]
            at = page(brokers[0])
            assert await asyncio.to_thread(cli.run, ["explain", "{}", "--to", "~9/9", "--at", at]) == 2
            assert "has a subscription" in capsys.readouterr().err

    run(work())


@pytest.mark.parametrize("strategy", [name for name in names() if not registered(name).trees])
def test_what_is_explained_is_what_happens(capsys: Capture, strategy: str) -> None:
    """Under each strategy the events that are said to arrive are those that arrive."""

    async def work() -> None:
        async with AsyncExitStack() as stack:
            brokers = await stack.enter_async_context(chain(strategy))
            a, b, c = brokers
            one = await stack.enter_async_context(connect(url(a)))
            two = await stack.enter_async_context(connect(url(c)))
            three = await stack.enter_async_context(connect(url(b)))
            await one.advertise("price > 0")
            events = await stack.enter_async_context(two.subscribe("price > 10 AND price < 20"))
            await stack.enter_async_context(three.subscribe("price > 5"))
            for client in (one, two, three):
                await client.flush()
            (publisher,) = a.core.clients
            (key,) = next(iter(c.core.clients.values())).keys.values()
            arriving = []
            for price in (1, 7, 15, 25):
                report = await explained(capsys, brokers, {"price": price}, key, "--publisher", publisher)
                if report["arrives"]:
                    arriving.append(price)
                await one.publish({"price": price})
            await one.publish({"price": 19})  # the last one
            got: list[int] = []
            while not got or got[-1] != 19:
                got.append((await anext(events))["price"])
            assert got == [*arriving, 19]

    run(work())
