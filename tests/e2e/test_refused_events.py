"""Events that cannot be carried, or that a broker refuses: whoever publishes hears of each, and the link stays."""

from __future__ import annotations

import asyncio
import io
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.e2e.helpers.running import Done, eventually, free_port, run
from tests.e2e.helpers.scripted import Scripted, broker, url
from tests.e2e.test_http_events import BASE, STRUCTURED, gateway

import covey
from covey import cli
from covey.broker.actions import Release
from covey.broker.durable.delivery import Durable
from covey.broker.effects import Tick
from covey.broker.security import Permissions, hash_token, read_rules, read_security
from covey.broker.server import Broker
from covey.client.publishing import Batch
from covey.client.stream import Stream
from covey.client.sync import Calls
from covey.core.packing import pack
from covey.protocol.control import FlushRequest, Reply, encode
from covey.protocol.events import ATTRIBUTES, KEYWORDS, XPATH
from covey.protocol.frames import Kind

NO_EVENTS: list[tuple[Any, str]] = [
    ({"tags": ["a"]}, "'tags'"),
    ({"price": Decimal("1.5")}, "'price'"),
    ({"image": b"x"}, "'image'"),
    ({"n": math.nan}, "'n'"),
    ({1: 2}, "names of attributes are strings"),
    ("<order>", "not well-formed"),
    (b"<order>", "not well-formed"),
    ({1, 2}, "the word 1"),
]


# -- the client ----------------------------------------------------------------------------------------------


def test_a_client_sends_nothing_that_brokers_could_not_read() -> None:
    async def main() -> None:
        async with broker() as a, covey.connect(url(a.port)) as client, client.subscribe("x > 0") as events:
            for content, said in NO_EVENTS:
                for confirm in (False, True):
                    with pytest.raises(covey.EventError, match=said):
                        await client.publish(content, confirm=confirm)
                with pytest.raises(covey.EventError, match=said):
                    await client.publish_many([{"x": 1}, content, {"x": 2}])
            with pytest.raises(covey.EventError, match="a payload is bytes, not str"):
                await client.publish({"x": 3}, "text")  # type: ignore[arg-type]
            await client.publish({"x": 3}, bytearray(b"y"))  # type: ignore[arg-type]
            got = [await events.next(5) for _ in range(len(NO_EVENTS) + 1)]
            assert [event["x"] for event in got] == [1] * len(NO_EVENTS) + [3]
            assert got[-1].data == b"y"
            assert client.reconnects == 0
            (peer,) = a.core.clients.values()
            assert peer.refused == 0

    run(main())


def test_a_client_of_threads_hears_at_once(address: str) -> None:
    with covey.connect_sync(address) as client, client.subscribe("x > 0") as events:
        for content, said in NO_EVENTS:
            with pytest.raises(covey.EventError, match=said):
                client.publish(content)
        with pytest.raises(covey.EventError, match="a payload is bytes, not str"):
            client.publish({"x": 1}, "text")  # type: ignore[arg-type]
        with pytest.raises(covey.EventError, match="the broker takes 1,048,576"):
            client.publish({"x": 1}, bytes(2 << 20))
        client.publish({"x": 2})
        assert events.next(10)["x"] == 2


def test_a_broker_refuses_what_it_cannot_read_and_keeps_the_link(tmp_path: Path) -> None:
    """As a client of another make sends it: packed, and not looked at."""
    bad = [
        (XPATH, b"<order>", "not well-formed"),
        (KEYWORDS, b"\x91\x01", "no words"),
        (ATTRIBUTES, pack({"n": []}), "'n'"),
        (ATTRIBUTES, b"\xc1", "no packed event"),
    ]

    async def main() -> None:
        errors: list[Any] = []
        async with (
            broker(data_dir=str(tmp_path)) as a,
            covey.connect(url(a.port), on_error=errors.append) as client,
            client.subscribe("x > 0") as events,
        ):
            for family, packed, _ in bad:
                client._outgoing.put_packed(family, packed, b"")
            await client.flush(near=True)
            assert [list(error.refusals) for error in errors] == [[1], [2], [3], [4]]
            for error, (_, _, said) in zip(errors, bad, strict=True):
                assert isinstance(error, covey.RefusedError)
                assert said in str(error)
            for family, packed, _ in bad:
                batch = Batch()
                client._outgoing.put_packed(family, packed, b"", batch)
                batch.complete()
                await batch.done
                with pytest.raises(covey.RefusedError, match="no event"):
                    batch.raise_refusals(1)
            await client.publish({"x": 1}, confirm=True)
            assert (await events.next(5))["x"] == 1
            assert client.reconnects == 0

    run(main())


def test_of_many_confirmed_events_the_others_are_confirmed(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            broker(data_dir=str(tmp_path)) as a,
            covey.connect(url(a.port)) as client,
            client.subscribe("x > 0") as events,
        ):
            (peer,) = a.core.clients.values()
            peer.permissions = Permissions("ann", None, read_rules("x > 10", ""))
            with pytest.raises(
                covey.RefusedError, match="2 of 5 events are refused, the first one: ann may not"
            ) as caught:
                await client.publish_many([{"x": x} for x in (11, 5, 12, 6, 13)], confirm=True)
            assert set(caught.value.refusals) == {2, 4}
            assert [(await events.next(5))["x"] for _ in range(3)] == [11, 12, 13]
            await client.publish_many([{"x": 21}], confirm=True)
            with pytest.raises(covey.EventError, match="'x'"):
                await client.publish_many([{"x": 22}, {"x": []}, {"x": 23}], confirm=True)
            assert isinstance(a.core.durable, Durable)
            assert a.core.durable.kept == 5  # what came before the last mistake is confirmed, too
            # A batch is done when the last event was added, not whenever those so far are confirmed.
            batch = Batch()
            client._outgoing.put({"x": 14}, b"", batch)
            await eventually(lambda: batch.left == 0)
            assert not batch.done.done()
            batch.complete()
            assert batch.done.done()

    run(main())


def test_what_waited_for_a_link_and_is_too_large_for_the_next_broker() -> None:
    async def main() -> None:
        errors: list[Any] = []
        port = free_port()
        async with broker(port) as first:
            client = await covey.connect(url(port), on_error=errors.append, longest_pause_s=0.05)
            events = await client.subscribe("x > 0")
            del first
        await eventually(lambda: not client.is_connected)
        await client.publish({"x": 1}, bytes(200_000))
        await client.publish({"x": 2})
        async with broker(port, max_frame=100_000):
            assert (await events.next(20))["x"] == 2
            assert client.is_connected
            assert [type(error) for error in errors] == [covey.EventError]
            assert "this broker takes 100,000" in str(errors[0])
            await client.close()

    run(main())


# -- HTTP ----------------------------------------------------------------------------------------------------


def test_over_http_an_attribute_is_named_and_a_batch_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        ann = Permissions("ann", None, read_rules("type = 'quote'", ""))

        async def authorise(request: Any) -> Permissions:
            return ann

        batch = {"Content-Type": "application/cloudevents-batch+json"}
        other = {**BASE, "type": "order"}
        async with (
            broker() as a,
            gateway(a, authorise=authorise) as events_url,
            aiohttp.ClientSession() as session,
        ):

            async def posted(body: Any, headers: dict[str, str] = STRUCTURED) -> tuple[int, str]:
                async with session.post(events_url, json=body, headers=headers) as answer:
                    return answer.status, (await answer.json(content_type=None)).get("detail", "")

            status, detail = await posted({**BASE, "data": {"order": {"items": [1, 2]}}})
            assert status == 400
            assert "'data.order.items' is of the type list" in detail
            assert await posted({**BASE, "data": [1, 2]}) == (202, "")  # a payload, and no attributes
            status, detail = await posted([BASE, other, BASE, other], batch)
            assert status == 403
            assert "2 of 4 events are refused, the first one, event 2: ann may not publish" in detail
            # While the network switches to another plan nothing is handled, and nothing is answered.
            plans, is_held = type(a.core.plans), [True]
            monkeypatch.setattr(plans, "is_holding", property(lambda self: is_held[0]))
            posting = asyncio.ensure_future(posted(other))
            await eventually(lambda: a.core._held)
            assert not posting.done()
            is_held[0] = False
            a.core._release(Release())
            a.step(Tick())
            assert (await posting)[0] == 403

    run(main())


# -- covey pub -----------------------------------------------------------------------------------------------


Ask = Callable[..., Done]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    def run_it(address: str, *arguments: str, given: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        return Done(cli.run(["pub", "-u", address, *arguments]), *capsys.readouterr())

    return run_it


@pytest.fixture
def calls() -> Iterator[Calls]:
    one = Calls("broker")
    yield one
    one.stop()


def test_the_command_names_what_cannot_be_carried(ask: Ask, address: str) -> None:
    done = ask(address, '{"order": {"items": [1]}}')
    assert (done.code, done.out) == (2, "")
    assert "'order.items' is of the type list" in done.err
    lines = b'{"x": 1}\n\n{"x": 2}\n{"x": [3]}\n{"x": 4}\n'
    done = ask(address, "-", given=lines)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("covey: line 4 of standard input: the attribute 'x' is of the type list")
    assert done.err.endswith("(published before it: 2 events)\n")
    assert "not well-formed" in ask(address, "-", "--json", given=b'{"content": "<order>"}').err
    done = ask(address, "-", "--json", "-l", "keywords", given=b'{"content": ["a", 1]}')
    assert (done.code, done.out) == (2, "")
    assert "the word 1" in done.err
    assert "'a' is given twice" in ask(address, "a=1", "a=2").err


def test_the_command_waits_for_the_broker_and_counts_what_it_took(
    ask: Ask, calls: Calls, tmp_path: Path
) -> None:
    tokens = {"tokens": [{"name": "till", "hash": hash_token("paper clip"), "publish": "x > 10"}]}

    async def start() -> Broker:
        one = broker(security=read_security(tokens), data_dir=str(tmp_path))
        await one.start()
        return one

    one = calls.call(start())
    try:
        for confirm, said in (((), ""), (("--confirm",), ", confirmed")):
            how = ("--token", "paper clip", *confirm)
            assert ask(url(one.port), "x=11", *how) == (0, f"published 1 event{said}\n", "")
            done = ask(url(one.port), "x=1", *how)
            assert (done.code, done.out) == (1, f"published 0 events{said}\n")
            assert done.err == "covey: event 1 is refused: the token till may not publish this event\n"
            lines = b"".join(b'{"x": %d}\n' % x for x in range(40))
            done = ask(url(one.port), "-", *how, given=lines)
            assert (done.code, done.out) == (1, f"published 29 events{said}\n")
            assert done.err.splitlines()[:1] == [
                "covey: event 1 is refused: the token till may not publish this event"
            ]
            assert done.err.splitlines()[9:] == [
                "covey: event 10 is refused: the token till may not publish this event",
                "covey: 1 more are refused",
            ]
    finally:
        calls.call(one.stop())


class Late(Scripted):
    """A broker that refuses every second event, and says so when it is asked whether it has all of them."""

    def received(self, connection: Stream, frames: Sequence[bytes]) -> None:
        if any(one[0] == Kind.REQUEST for one in frames):
            before = [one for one in frames if one[0] != Kind.REQUEST]
            super().received(connection, before)
            for envelope in self.envelopes[1::2]:
                connection.send(Kind.REPLY, encode(Reply(0, "not\nthis one", envelope.number)))
            frames = frames[len(before) :]
        super().received(connection, frames)


class Breaking(Scripted):
    """A broker that breaks the first link on which an event comes."""

    def received(self, connection: Stream, frames: Sequence[bytes]) -> None:
        super().received(connection, frames)
        if len(self.hellos) == 1 and self.events:
            self.cut()


def test_a_refusal_that_comes_late_is_heard(ask: Ask, calls: Calls) -> None:
    late = Late()
    calls.call(late.__aenter__())
    try:
        done = ask(late.url, "x=1", "-n", "4")
        assert (done.code, done.out) == (1, "published 2 events\n")
        assert (
            done.err == "covey: event 2 is refused: not this one\ncovey: event 4 is refused: not this one\n"
        )
        assert [request.near for request in late.of(FlushRequest)] == [True]
    finally:
        calls.call(late.__aexit__())


def test_a_link_that_breaks_is_no_success(ask: Ask, calls: Calls) -> None:
    breaking = Breaking()
    calls.call(breaking.__aenter__())
    try:
        done = ask(breaking.url, "x=1")
        assert (done.code, done.out) == (2, "")
        assert "1 event may be lost, as the link broke" in done.err
        assert "--confirm" in done.err
    finally:
        calls.call(breaking.__aexit__())
