"""The client and its link: brokers that go, come back, refuse, say nothing, or are elsewhere."""

from __future__ import annotations

import asyncio
import random
import struct

import pytest
from tests.e2e.helpers.running import eventually, free_port, run
from tests.e2e.helpers.scripted import Scripted, broker, url

import covey
from covey import Received
from covey.core.packing import unpack
from covey.protocol.control import (
    AdvertiseRequest,
    FlushRequest,
    Goodbye,
    ReplaceRequest,
    Reply,
    SubscribeRequest,
    UnsubscribeRequest,
    encode,
)
from covey.protocol.events import ENVELOPE
from covey.protocol.frames import Kind


def test_a_broker_that_starts_again_is_found_again() -> None:
    async def main() -> None:
        happened: list[str] = []

        async def back(name: str) -> None:
            await asyncio.sleep(0)
            happened.append(f"back to {name}")

        port = free_port()
        async with broker(port) as first:
            one = await covey.connect(url(port))
            two = await covey.connect(
                url(port), on_disconnect=lambda reason: happened.append(reason), on_reconnect=back
            )
            await one.advertise("x > 0")
            events = await two.subscribe("x > 0")
            gone = await two.subscribe("x > 1")
            await gone.unsubscribe()
            await events.replace("x > 5")
            await one.publish({"x": 6})
            assert (await events.next(5))["x"] == 6
            assert first.core.clients
        await eventually(lambda: not two.is_connected)
        for x in range(5, 10):
            await one.publish({"x": x})
        assert one.waiting == 5
        assert one.is_open
        async with broker(port) as second:
            await eventually(lambda: two.is_connected and len(happened) == 2)
            assert happened == ["the broker says: the broker is going away", "back to a"]
            await eventually(lambda: one.is_connected)
            # What waited was sent, perhaps before the subscriber was back; what comes now arrives.
            await one.publish({"x": 100})
            got = [(await events.next(5))["x"]]
            while got[-1] != 100:
                got.append((await events.next(5))["x"])
            assert got in ([*range(first, 10), 100] for first in range(6, 11))
            assert two.reconnects == one.reconnects == 1
            advertised = [peer for peer in second.core.clients.values() if peer.advertised]
            subscribed = [peer for peer in second.core.clients.values() if peer.keys]
            assert len(advertised) == len(subscribed) == 1
            await one.close()
            await two.close()

    run(main())


def test_any_of_several_brokers_will_do() -> None:
    async def main() -> None:
        nobody = free_port()
        async with broker(name="b") as b:
            a = broker(name="a")
            await a.start()
            urls = [url(nobody), url(a.port), url(b.port)]
            async with covey.connect(urls) as client, covey.connect(",".join(urls)) as other:
                assert client.broker == "a"
                events = await client.subscribe("x > 0")
                await a.stop()
                await eventually(lambda: client.broker == "b" and other.broker == "b")
                await client.flush()
                await other.publish({"x": 1})
                assert (await events.next(5))["x"] == 1

    run(main())


def test_nobody_at_an_address_is_one_clear_line() -> None:
    async def main() -> None:
        port = free_port()
        with pytest.raises(covey.LinkError, match=rf"no broker can be reached at 127.0.0.1:{port}: Connect"):
            await covey.connect(url(port))
        with pytest.raises(covey.LinkError, match=r"reached: no broker.*; no broker"):
            await covey.connect([url(port), url(free_port())])
        with pytest.raises(covey.LinkError, match=r"nowhere\.invalid:7400"):
            await covey.connect("covey://nowhere.invalid")

    run(main())


def test_a_broker_that_says_nothing_is_not_waited_for_for_ever() -> None:
    async def main() -> None:
        async with Scripted(silent=True) as mute:
            with pytest.raises(covey.TimedOutError, match=r"has not answered within 0.2 s"):
                await covey.connect(mute.url, connect_timeout_s=0.2)
        async with Scripted() as lazy:
            lazy.answer = lambda request: None
            async with covey.connect(lazy.url, timeout_s=0.2) as client:
                with pytest.raises(covey.TimedOutError, match=r"no broker has answered within 0.2 s"):
                    await client.subscribe("x > 1")
                with pytest.raises(covey.TimedOutError):
                    await client.flush()
                with pytest.raises(covey.TimedOutError):
                    await client.advertise("x > 1")
                lazy.confirm = False
                with pytest.raises(covey.TimedOutError, match="1 events are not confirmed"):
                    await client.publish({"x": 1}, confirm=True)

    run(main())


def test_what_is_granted_too_late_is_given_back() -> None:
    async def main() -> None:
        async with Scripted() as slow, covey.connect(slow.url, timeout_s=0.1) as client:
            slow.answer = lambda request: None
            with pytest.raises(covey.TimedOutError):
                await client.subscribe("x > 1")
            slow.answer = lambda request: ""
            (asked,) = slow.requests
            slow.connections[0].send(Kind.REPLY, encode(Reply(asked.request)))
            await eventually(lambda: slow.of(UnsubscribeRequest))
            assert slow.of(UnsubscribeRequest)[0].sid == asked.sid

    run(main())


def test_a_goodbye_for_good_is_believed() -> None:
    async def main() -> None:
        async with Scripted(welcome=Goodbye("who are you?", retry=False)) as strict:
            with pytest.raises(covey.RefusedError, match=r"says: who are you\?"):
                await covey.connect(strict.url)
        errors: list[Exception] = []
        async with Scripted() as moody:
            async with covey.connect(moody.url, on_error=errors.append) as client:
                events = await client.subscribe("x > 0")
                flush = asyncio.create_task(client.flush())
                moody.answer = lambda request: None
                await eventually(lambda: moody.of(FlushRequest))
                moody.connections[0].end("you have misbehaved", retry=False)
                with pytest.raises(covey.LinkError, match="you have misbehaved"):
                    await events.next(5)
                with pytest.raises(covey.LinkError, match="you have misbehaved"):
                    await flush
                with pytest.raises(covey.LinkError, match="you have misbehaved"):
                    await client.publish({"x": 1})
                assert not client.is_open
                assert len(errors) == 1
            assert len(moody.hellos) == 1

    run(main())


def test_a_broker_that_asks_to_come_back_later_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[tuple[float, float]] = []

    def uniform(_: random.Random, low: float, high: float) -> float:
        pauses.append((low, high))
        return 0.001

    monkeypatch.setattr(random.Random, "uniform", uniform)

    async def main() -> None:
        async with Scripted(Goodbye("come back later", retry=True)) as one:
            programs = random.getstate()
            connecting = asyncio.ensure_future(covey.connect(one.url).__aenter__())
            await eventually(lambda: len(one.hellos) >= 4)
            one.welcomes()
            client = await connecting
            assert pauses[:3] == [(0.0, 0.05), (0.0, 0.1), (0.0, 0.2)], "any part of a pause that doubles"
            # The same when it was connected before.
            one.refuses(Goodbye("come back later", retry=True))
            known = len(one.hellos)
            one.cut()
            await eventually(lambda: len(one.hellos) >= known + 3)
            one.welcomes()
            await eventually(lambda: client.is_connected)
            await client.close()
            assert random.getstate() == programs, "what a program draws does not depend on its links"

    run(main())


def test_a_broker_that_stays_busy_is_an_error_of_one_line() -> None:
    async def main() -> None:
        async with Scripted(Goodbye("come back later", retry=True)) as one:
            with pytest.raises(covey.BusyError, match=r"the broker at .* says: come back later"):
                await covey.connect(one.url, connect_timeout_s=0.3).__aenter__()

    run(main())


def test_links_that_break_at_once_are_not_made_again_in_a_hurry() -> None:
    async def main() -> None:
        async with Scripted() as moody, covey.connect(moody.url) as client:
            await client.subscribe("x > 0")
            moody.answer = lambda request: moody.cut()
            moody.cut()
            await asyncio.sleep(1.0)
            # Pauses of about 0.05, 0.1, 0.2, 0.4 … s, each at least half as long: without growing, 20 to 40 would fit.
            assert 3 <= len(moody.hellos) <= 7
            moody.answer = lambda request: ""

    run(main())


def test_giving_up_after_a_time() -> None:
    async def main() -> None:
        async with Scripted() as away:
            client = await covey.connect(away.url, reconnect_for_s=0.2, longest_pause_s=0.1)
            never = await covey.connect(away.url, reconnect_for_s=0)
            events = await never.subscribe("x > 1")
        await eventually(lambda: not client.is_open and not never.is_open)
        with pytest.raises(covey.LinkError, match=r"no broker was reached for 0.2 s"):
            await client.flush()
        with pytest.raises(covey.LinkError, match="is gone"):
            await events.next(1)
        await client.close()
        await never.close()

    run(main())


def test_requests_that_a_break_cut_short_are_asked_again() -> None:
    async def main() -> None:
        async with Scripted() as flaky, covey.connect(flaky.url) as client:
            flaky.answer = lambda request: None
            flushing = asyncio.create_task(client.flush())
            advertising = asyncio.create_task(client.advertise("x > 1"))
            subscribing = asyncio.ensure_future(client.subscribe("x > 2")._begin())
            await eventually(lambda: len(flaky.requests) == 3)
            flaky.answer = lambda request: ""
            flaky.cut()
            _, _, events = await asyncio.gather(flushing, advertising, subscribing)
            assert len(flaky.hellos) == 2
            assert len(flaky.of(SubscribeRequest)) == len(flaky.of(AdvertiseRequest)) == 2
            flaky.deliver(events.sid, {"x": 3})
            assert (await events.next(5))["x"] == 3
            # A change that was cut short: the old filter is restored, then changed.
            flaky.answer = lambda request: None if isinstance(request, ReplaceRequest) else ""
            change = asyncio.create_task(events.replace("x > 5"))
            await eventually(lambda: flaky.of(ReplaceRequest))
            flaky.answer = lambda request: ""
            flaky.cut()
            await change
            restored, again = flaky.requests[-2:]
            assert covey.decode(restored.filter) == covey.parse("x > 2")
            assert covey.decode(again.filter) == covey.parse("x > 5") == events.filter
            assert restored.sid == again.sid == events.sid

    run(main())


def test_a_subscription_that_is_not_restored_ends_with_the_reason() -> None:
    async def main() -> None:
        errors: list[Exception] = []
        async with Scripted() as strict, covey.connect(strict.url, on_error=errors.append) as client:
            events = await client.subscribe("x > 2")
            other = await client.subscribe("x > 3")
            strict.answer = lambda request: "not any more" if request.sid == events.sid else ""
            strict.cut()
            with pytest.raises(covey.RefusedError, match="not any more"):
                await events.next(5)
            strict.deliver(other.sid, {"x": 4})
            assert (await other.next(5))["x"] == 4
            await eventually(lambda: len(errors) == 1)
            strict.answer = lambda request: ""

    run(main())


def test_unconfirmed_events_are_sent_again_and_in_order() -> None:
    async def main() -> None:
        async with Scripted() as flaky, covey.connect(flaky.url) as client:
            await client.publish({"n": 0}, confirm=True)
            flaky.confirm = False
            tasks = [asyncio.create_task(client.publish({"n": n}, confirm=True)) for n in range(1, 4)]
            many = asyncio.create_task(client.publish_many([{"n": 4}, {"n": 5}], confirm=True))
            await eventually(lambda: len(flaky.events) == 6)
            flaky.take(flaky.connections[0], flaky.envelopes[1], flaky.envelopes[5])
            await tasks[0]
            assert not many.done()
            flaky.cut()
            await eventually(lambda: not client.is_connected, pause_s=0)
            await client.publish({"n": 6})
            flaky.confirm = True
            assert await many == 2
            await asyncio.gather(*tasks)
            await client.flush()
            again = flaky.events[6:]
            first = ENVELOPE.size
            contents = [unpack(one[first : first + envelope.content_length]) for one, envelope in
                        zip(again, flaky.envelopes[6:], strict=True)]  # fmt: skip
            assert [content["n"] for content in contents] == [2, 3, 4, 6]
            assert {envelope.publisher for envelope in flaky.envelopes[6:]} == {1_002}

    run(main())


def test_what_waits_for_a_link_is_bounded() -> None:
    async def main() -> None:
        async with Scripted() as away:
            client = await covey.connect(away.url, buffer_events=3)
            small = await covey.connect(away.url, buffer_bytes=200)
        await eventually(lambda: not client.is_connected and not small.is_connected)
        await asyncio.sleep(0.02)  # until the streams are gone, too
        assert await client.publish_many([{"x": x} for x in range(3)]) == 3
        with pytest.raises(covey.LinkError, match="no link to a broker, and 3 events wait"):
            await client.publish({"x": 4})
        with pytest.raises(covey.LinkError):
            await small.publish({"x": 4}, bytes(300))
        await small.publish({"x": 4}, bytes(10))
        await client.close()
        await small.close()

    run(main())


def test_a_publisher_is_held_back_and_goes_on() -> None:
    async def main() -> None:
        async with Scripted() as slow, covey.connect(slow.url) as client:
            slow.connections[0].hold()
            task = asyncio.create_task(client.publish_many(({"x": x}, bytes(10_000)) for x in range(3_000)))
            await asyncio.sleep(0.3)
            assert not task.done()
            assert client._session.link is not None
            assert client._session.link.connection.outbox.size < 8 << 20
            slow.connections[0].go_on()
            assert await task == 3_000
            await eventually(lambda: len(slow.events) == 3_000)
            # One that waits for room when the link breaks goes on, too.
            slow.connections[0].hold()
            task = asyncio.create_task(client.publish_many(({"x": x}, bytes(10_000)) for x in range(1_000)))
            await asyncio.sleep(0.1)
            slow.cut()
            await eventually(lambda: len(slow.hellos) == 2)
            assert await task == 1_000

    run(main())


def test_durable_events_are_acknowledged_in_few_frames_also_after_a_break() -> None:
    async def main() -> None:
        async with Scripted() as store, covey.connect(store.url, name="worker") as client:
            events = await client.subscribe("x > 0", durable="jobs")
            assert store.hellos[0].name == "worker"
            assert store.of(SubscribeRequest)[0].durable == "jobs"
            store.deliver(events.sid, *({"x": x} for x in range(1, 6)), position=40)
            got: list[Received] = [await events.next(5) for _ in range(5)]
            assert [event.position for event in got] == [40, 41, 42, 43, 44]
            assert [event["x"] for event in got] == [1, 2, 3, 4, 5]
            for event in got[:3]:
                await event.ack()
            await eventually(lambda: store.acknowledgements)
            head = struct.Struct("<IBI")
            assert head.unpack_from(store.acknowledgements[0]) == (events.sid, 0, 3)
            assert struct.unpack_from("<3Q", store.acknowledgements[0], head.size) == (40, 41, 42)
            store.cut()
            await eventually(lambda: not client.is_connected, pause_s=0)
            await got[4].ack(all_before=True)
            await eventually(lambda: len(store.acknowledgements) == 2)
            assert store.acknowledgements[1] == head.pack(events.sid, 1, 1) + struct.pack("<Q", 44)
            await got[3].ack()
            await events.unsubscribe(forget=True)
            assert store.of(UnsubscribeRequest)[0].forget
            # What was acknowledged before the end is told before the end; later it is too late.
            assert store.acknowledgements[2] == head.pack(events.sid, 0, 1) + struct.pack("<Q", 43)
            with pytest.raises(covey.CoveyError, match="has ended"):
                await got[3].ack()

    run(main())


def test_a_durable_subscription_waits_for_its_own_broker() -> None:
    async def main() -> None:
        async with (
            Scripted() as other,
            Scripted() as own,
            covey.connect([own.url, other.url], name="worker") as client,
        ):
            events = await client.subscribe("x > 0", durable="jobs")
            for _ in range(3):
                before = client.reconnects
                own.cut()
                while client.reconnects == before:
                    await asyncio.sleep(0.01)
            assert len(own.hellos) == 4
            assert not other.hellos
            await events.unsubscribe()
            own.cut()
            await eventually(lambda: other.hellos)

    run(main())


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("http://127.0.0.1", "is no address"),
        ("covey://", "is no address"),
        ("covey://host:port", "is no address"),
        ("covey://host:0", "is no address"),
        ("covey://host:7400/path", "more than a host and a port"),
        ("", "0 addresses"),
        (["covey://a"] * 0, "0 addresses"),
        ([5], "is text, not int"),
    ],
)
def test_addresses_that_are_none(address: object, problem: str) -> None:
    with pytest.raises(covey.ConfigError, match=problem):
        covey.connect(address)  # type: ignore[arg-type]


def test_addresses_with_secrets_keep_them() -> None:
    async def main() -> None:
        async with Scripted() as one:
            async with covey.connect(f"covey://ann:p%40ss@127.0.0.1:{one.port}"):
                pass
            async with covey.connect(f"covey://s3cret@127.0.0.1:{one.port}"):
                pass
            async with covey.connect(one.url, user="bob", password="x"):
                pass
            assert [(hello.token, hello.user, hello.password) for hello in one.hellos] == [
                ("", "ann", "p@ss"),
                ("s3cret", "", ""),
                ("", "bob", "x"),
            ]

    run(main())
    with pytest.raises(covey.ConfigError) as error:
        covey.connect("covey://ann:secret@host:port")
    assert "secret" not in str(error.value)
    with pytest.raises(covey.ConfigError, match="not both"):
        covey.connect(token="a", user="b")
    with pytest.raises(covey.ConfigError, match="timeout_s must be positive"):
        covey.connect(timeout_s=0)
    with pytest.raises(covey.ConfigError, match="must not be negative"):
        covey.connect(buffer_events=-1)
