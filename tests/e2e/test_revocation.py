"""A permission that is cut is cut at once: for durable and live subscriptions, for publishers, over HTTP, on disk."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.e2e.helpers.pairs import url
from tests.e2e.helpers.running import eventually, run

from covey.broker import effects
from covey.broker.config import AdminConfig, BrokerConfig, QueueLimits
from covey.broker.core import Peer
from covey.broker.logs import LogfmtFormatter
from covey.broker.security import check_password, hash_password, hash_token, read_security
from covey.broker.server import Broker
from covey.broker.sessions import Session
from covey.client.client import Client, connect
from covey.core.families import parse
from covey.errors import CoveyError, RefusedError
from covey.protocol.control import Hello, SubscribeRequest, encode
from covey.protocol.events import encode_content, encode_event
from covey.protocol.frames import VERSION, Kind, frame, framed
from covey.protocol.outbox import Bounds

ANN = {"name": "ann", "password": str(hash_password("one", log2_n=4))}
BOB = {"name": "bob", "password": str(hash_password("two", log2_n=4))}
TILL = {"name": "till", "hash": hash_token("three")}


def guarded(*users: dict[str, Any], folder: Path | None = None, **more: Any) -> BrokerConfig:
    document = {"users": [BOB, *users], **{name: one for name, one in more.items() if name != "admin"}}
    data_dir = "" if folder is None else str(folder)
    admin = more.get("admin")
    return BrokerConfig("a", port=0, security=read_security(document), data_dir=data_dir, admin=admin)


def cut(broker: Broker, *users: dict[str, Any], **more: Any) -> None:
    """Let a broker read other users."""
    new = replace(broker.config, security=guarded(*users, **more).security)
    assert broker.reconfigure(new) == []


def as_ann(broker: Broker, **options: Any) -> Client:
    return connect(url(broker), user="ann", password="one", name="ann", **options)


def as_bob(broker: Broker) -> Client:
    return connect(url(broker), user="bob", password="two")


def queues(broker: Broker) -> list[str]:
    """Return the durable subscriptions that are on a broker's disk."""
    with contextlib.closing(sqlite3.connect(Path(broker.config.data_dir) / "store.db")) as disk:
        owners = disk.execute("SELECT user, name FROM owner WHERE kind = 'subscription'").fetchall()
    return sorted(f"{user}/{name}" for user, name in owners)


async def durable(broker: Broker, **filters: str) -> None:
    """Make durable subscriptions of ann, which has gone when this returns."""
    async with as_ann(broker) as client:
        for name, filter in filters.items():
            async with client.subscribe(filter, durable=name):
                pass


def peer_of(broker: Broker, user: str) -> Peer:
    """Return the connection of the only client of a user."""
    (found,) = (
        one
        for one in broker.core.peers.values()
        if isinstance(one.who, Session) and one.who.permissions.name == user
    )
    return found


CUTS: dict[str, tuple[Callable[[], list[dict[str, Any]]], list[str]]] = {
    "a permission is cut": (lambda: [ANN | {"subscribe": "price > 10"}], ["ann/high"]),
    "nothing is allowed": (lambda: [ANN | {"subscribe": "FALSE"}], []),
    "the user is removed": (list, []),
    "something else is cut": (lambda: [ANN | {"publish": "FALSE"}], ["ann/high", "ann/low"]),
    "the password is another": (
        lambda: [ANN | {"password": str(hash_password("x", log2_n=4))}],
        ["ann/high", "ann/low"],
    ),
}


@pytest.mark.parametrize("what", CUTS)
@pytest.mark.parametrize("how", ["reload", "restart"])
def test_durable_subscriptions_of_clients_that_are_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str, how: str
) -> None:
    users, left = CUTS[what]

    async def work() -> None:
        async with Broker(guarded(ANN, folder=tmp_path)) as broker:
            await durable(broker, low="price < 5", high="price > 20")
            async with as_bob(broker) as bob:
                for price in (1, 30):
                    await bob.publish({"price": price}, confirm=True)
            assert queues(broker) == ["ann/high", "ann/low"]
            if how == "reload":
                cut(broker, *users())
                await check(broker)
        if how == "restart":
            async with Broker(guarded(*users(), folder=tmp_path)) as broker:
                await check(broker)

    async def check(broker: Broker) -> None:
        assert broker.core.router.local_size() == len(left), "at once, and before the disk has it"
        await eventually(lambda: queues(broker) == left)
        async with as_bob(broker) as bob:
            await bob.publish({"price": 2}, confirm=True)
        waiting = broker.core.durable.report()["queued_events"]
        assert waiting == len(left) + ("ann/low" in left)
        lines = [LogfmtFormatter().format(one) for one in caplog.records]
        removed = [line for line in lines if "durable subscription removed" in line]
        assert len(removed) == 2 - len(left)
        for line in removed:
            assert "user=ann" in line
            assert "events=1" in line
            assert "price" not in line, "what somebody subscribes to is nobody's business"

    with caplog.at_level(logging.WARNING, "covey.broker"):
        run(work())


def test_where_nobody_has_permissions_nothing_is_removed(tmp_path: Path) -> None:
    async def work() -> None:
        async with Broker(guarded(ANN, folder=tmp_path)) as broker:
            await durable(broker, low="price < 5")
        async with Broker(BrokerConfig("a", port=0, data_dir=str(tmp_path))) as broker:
            assert queues(broker) == ["ann/low"]

    run(work())


@pytest.mark.parametrize("is_durable", [False, True])
def test_subscriptions_of_connected_clients(tmp_path: Path, is_durable: bool) -> None:
    async def work() -> None:
        errors: list[CoveyError] = []
        async with (
            Broker(guarded(ANN, folder=tmp_path)) as broker,
            as_bob(broker) as bob,
            as_ann(broker, on_error=errors.append, longest_pause_s=0.05) as ann,
            ann.subscribe("price < 5", durable="low" if is_durable else "") as low,
            ann.subscribe("price > 20", durable="high" if is_durable else "") as high,
        ):
            cut(broker, ANN | {"subscribe": "price > 0"})
            assert broker.core.router.local_size() == 1
            with pytest.raises(RefusedError, match="ann may not subscribe"):
                await low.next(timeout_s=10)
            await eventually(lambda: ann.is_connected and broker.core.router.local_size() == 1)
            await bob.publish({"price": 1})
            await bob.publish({"price": 30})
            assert (await high.next(timeout_s=10))["price"] == 30

    run(work())


def test_a_client_that_has_nothing_that_is_cut_stays_connected() -> None:
    async def work() -> None:
        async with (
            Broker(guarded(ANN)) as broker,
            as_bob(broker) as bob,
            bob.subscribe("TRUE") as events,
            as_ann(broker) as ann,
            ann.subscribe("price > 20") as high,
        ):
            (client,) = (one for one in broker.core.clients.values() if one.permissions.name == "ann")
            cut(broker, ANN | {"subscribe": "price > 0", "publish": "price > 10"})
            await ann.publish({"price": 5})
            await ann.publish({"price": 25})
            assert (await events.next(timeout_s=10))["price"] == 25
            assert (await high.next(timeout_s=10))["price"] == 25
            assert client.link in broker.core.clients
            with pytest.raises(RefusedError, match="ann may not subscribe"):
                async with ann.subscribe("price < 0"):
                    pass

    run(work())


def test_an_advertisement_that_is_cut() -> None:
    async def work() -> None:
        async with Broker(guarded(ANN)) as broker, as_ann(broker, longest_pause_s=0.05) as ann:
            await ann.advertise("price > 0")
            (client,) = broker.core.clients.values()
            cut(broker, ANN | {"publish": "price > 10"})
            assert not broker.core.router.advertised_by(client.link)
            await eventually(lambda: client.link not in broker.core.clients)

    run(work())


@pytest.mark.parametrize(
    "now", [[], [ANN | {"password": str(hash_password("x", log2_n=4))}]], ids=["removed", "other password"]
)
def test_credentials_that_are_not_valid_any_longer(now: list[dict[str, Any]]) -> None:
    async def work() -> None:
        async with (
            Broker(guarded(ANN)) as broker,
            as_bob(broker) as bob,
            as_ann(broker, longest_pause_s=0.05) as ann,
            ann.subscribe("price > 0") as events,
            bob.subscribe("price > 0") as others,
        ):
            cut(broker, *now)
            assert broker.core.router.local_size() == 1
            with pytest.raises(CoveyError, match="credentials are not those of anybody"):
                await events.next(timeout_s=10)
            await bob.publish({"price": 1})
            assert (await others.next(timeout_s=10))["price"] == 1

    run(work())


def test_a_password_that_is_checked_while_its_user_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with Broker(guarded(ANN)) as broker:
            loop = asyncio.get_running_loop()

            def slow(password: str, expected: Any) -> bool:
                asyncio.run_coroutine_threadsafe(removed(), loop).result(10)
                return check_password(password, expected)

            async def removed() -> None:
                cut(broker)

            monkeypatch.setattr("covey.broker.server.check_password", slow)
            with pytest.raises(CoveyError, match="credentials are not those of anybody"):
                async with as_ann(broker):
                    pass

    run(work())


def test_a_post_that_waits_for_full_queues_is_judged_when_it_is_taken() -> None:
    head = {"Authorization": "Bearer three", "Content-Type": "application/cloudevents+json"}
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "price": 1, "data": "-" * 500_000}
    admin = AdminConfig(port=0, events=True)

    async def work() -> None:
        config = guarded(ANN, tokens=[TILL], admin=admin)
        async with (
            Broker(replace(config, client_bounds=Bounds(bytes=1_000, policy="block"))) as broker,
            as_ann(broker) as ann,
            ann.subscribe("price > 0") as events,
            aiohttp.ClientSession(headers=head) as http,
        ):
            assert broker.admin is not None
            assert ann._session.link is not None
            await ann.flush()
            ann._session.link.connection.hold()

            async def post() -> int:
                async with http.post(f"http://127.0.0.1:{broker.admin.port}/events", json=event) as answer:
                    return answer.status

            posted: list[asyncio.Future[int]] = []
            while not broker.core.pressure.is_felt:
                posted.append(asyncio.ensure_future(post()))
                await asyncio.wait(posted, timeout=0.2)
            waiting = [asyncio.ensure_future(post()) for _ in range(5)]
            await asyncio.wait(waiting, timeout=0.2)
            cut(broker, ANN)  # nobody has that token any longer
            ann._session.link.connection.go_on()
            assert set(await asyncio.gather(*waiting)) == {401}
            taken = [one for one in await asyncio.gather(*posted) if one == 202]
            for _ in taken:
                assert (await events.next(timeout_s=20))["price"] == 1

    run(work())


def test_listeners_and_posters_over_http() -> None:
    head = {"Authorization": "Bearer three"}
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "price": 1}
    admin = AdminConfig(port=0, events=True)

    async def work() -> None:
        async with (
            Broker(guarded(tokens=[TILL], admin=admin)) as broker,
            aiohttp.ClientSession(headers=head) as http,
        ):
            assert broker.admin is not None
            address = f"http://127.0.0.1:{broker.admin.port}/events"
            post = partial(
                http.post, address, json=event, headers={"Content-Type": "application/cloudevents+json"}
            )
            async with http.get(address, params={"filter": "price > 0"}) as listening:
                async with post() as answer:
                    assert answer.status == 202
                await listening.content.readuntil(b"data: {")
                cut(broker, tokens=[TILL | {"subscribe": "price > 10", "publish": "price > 10"}])
                rest = await listening.content.read()
                assert b"event: error" in rest
                assert b"may not do all any longer" in rest
            async with post() as answer:
                assert answer.status == 403
            cut(broker, tokens=[TILL])
            async with post() as answer:
                assert answer.status == 202
            cut(broker)
            async with post() as answer:
                assert answer.status == 401

    run(work())


@pytest.mark.parametrize("is_durable", [False, True])
def test_events_that_wait_in_a_queue_are_not_sent_after_the_cut(tmp_path: Path, is_durable: bool) -> None:
    """A reader that takes nothing: what was written to its stream by then may arrive, what waited does not."""

    async def work() -> None:
        config = replace(guarded(ANN, folder=tmp_path), durable=QueueLimits(window_bytes=64 << 20))
        async with Broker(config) as broker, as_bob(broker) as bob:
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
            hello = Hello(VERSION, "client", "ann", user="ann", password="one")
            writer.write(frame(Kind.HELLO, encode(hello)))
            request = SubscribeRequest(1, 1, parse("price < 5").encode(), "low" if is_durable else "")
            writer.write(frame(Kind.REQUEST, encode(request)))
            await eventually(lambda: broker.core.router.local_size() == 1)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            peer = peer_of(broker, "ann")
            outbox = peer.connection.outbox
            while outbox.size < 2_000_000:
                await bob.publish({"price": 1}, b"-" * 100_000, confirm=is_durable)
                await asyncio.sleep(0)
            written = peer.connection.sent_bytes
            cut(broker, ANN | {"subscribe": "price > 10"})
            assert outbox.size == 0
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            answer = await reader.read()
            writer.close()
            assert 0 < len(answer) - written < 500, "only why the connection ends came after the cut"

    run(work())


@pytest.mark.parametrize("is_removed", [False, True])
def test_events_of_a_publisher_that_wait_for_their_turn_are_judged_anew(is_removed: bool) -> None:
    async def work() -> None:
        async with (
            Broker(guarded(ANN)) as broker,
            as_bob(broker) as bob,
            bob.subscribe("TRUE") as events,
            as_ann(broker) as ann,
        ):
            peer = peer_of(broker, "ann")
            assert isinstance(peer.who, Session)
            family, packed = encode_content({"price": 1})
            some = [
                framed(encode_event(packed, b"", family=family, publisher=peer.who.number, number=number))
                for number in range(1, 4)
            ]
            broker.step(effects.Received(peer.number, b"".join(some)))
            assert broker.core.scheduler.count == 3
            cut(broker, *([] if is_removed else [ANN | {"publish": "price > 10"}]))
            await eventually(lambda: broker.core.scheduler.count == 0)
            await bob.publish({"price": 2})
            assert (await events.next(timeout_s=10))["price"] == 2
            assert ann

    run(work())
