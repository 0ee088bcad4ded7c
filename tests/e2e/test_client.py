"""The client with real brokers in this process: publishing, subscribing, changing, draining, ending."""

from __future__ import annotations

import asyncio

import pytest
from tests.e2e.helpers.network import Live
from tests.e2e.helpers.running import eventually, run
from tests.e2e.helpers.scripted import broker, url

import covey
from covey import Received
from covey.broker.security import Permissions, read_rules


def test_events_go_to_those_who_asked_for_them() -> None:
    async def main() -> None:
        async with broker() as a, broker(name="b") as other:
            del other
            async with covey.connect(url(a.port)) as one, covey.connect(url(a.port)) as two:
                assert one.is_open
                assert one.is_connected
                assert one.broker == "a"
                async with two.subscribe("price > 10") as events, two.subscribe("price > 15") as fewer:
                    assert await one.publish_many([{"price": price} for price in range(20)]) == 20
                    await one.publish({"price": 100, "who": {"name": "ann"}}, data=b"payload")
                    got = [await events.next(5.0) for _ in range(10)]
                    assert [event["price"] for event in got] == [*range(11, 20), 100]
                    assert [event["price"] for event in await fewer.next_many(5)] == [16, 17, 18, 19, 100]
                    last = got[-1]
                    assert last.data == b"payload"
                    assert last.content == {"price": 100, "who.name": "ann"}
                    assert last.get("nothing", 7) == 7
                    assert "price" in last
                    assert last.position is None
                    assert last.id in repr(last)
                    assert len({event.id for event in got}) == 10
                    with pytest.raises(covey.CoveyError, match="durable"):
                        await last.ack()
                    with pytest.raises(covey.TimedOutError, match=r"no event has come within 0.05 s"):
                        await events.next(0.05)
                    assert events.received == 10
                    assert events.dropped == 0

    run(main())


def test_every_language_and_a_callback() -> None:
    async def main() -> None:
        words: list[Received] = []
        documents: list[Received] = []

        async def keep(event: Received) -> None:
            documents.append(event)

        async with broker() as a, covey.connect(url(a.port)) as client:
            first = await client.subscribe("nokia or motorola", "keywords", callback=words.append)
            second = await client.subscribe(covey.parse("//item", language="xpath"), callback=keep)
            await client.publish({"nokia", "phone"})
            await client.publish({"siemens"})
            await client.publish("<news><item/></news>", b"1")
            await client.publish_many([covey.Event("<news/>"), ("<item/>", b"2")])
            await eventually(lambda: len(words) == 1 and len(documents) == 2)
            assert words[0].content == {"nokia", "phone"}
            assert [event.data for event in documents] == [b"1", b"2"]
            assert documents[0].raw_content == b"<news><item/></news>"
            with pytest.raises(covey.CoveyError, match="callback"):
                await first.next()
            await first.unsubscribe()
            await second.drain()

    run(main())


def test_a_callback_that_fails_is_told_and_goes_on() -> None:
    async def main() -> None:
        errors: list[Exception] = []
        got: list[int] = []

        def handle(event: Received) -> None:
            got.append(event["x"])
            if event["x"] == 1:
                raise ValueError("not this one")

        async with (
            broker() as a,
            covey.connect(url(a.port), on_error=errors.append) as client,
            client.subscribe("x > 0", callback=handle),
        ):
            await client.publish_many([{"x": 1}, {"x": 2}])
            await eventually(lambda: got == [1, 2])
        assert [str(error) for error in errors] == ["not this one"]

    run(main())


def test_flush_means_in_force_in_the_whole_network() -> None:
    async def main() -> None:
        async with Live([("a", "b"), ("b", "c")]) as net, net.client("a") as one, net.client("c") as two:
            number = await one.advertise("x > 0")
            await one.flush()
            async with two.subscribe("x > 5") as events:
                await two.flush()
                await one.publish_many([{"x": x} for x in range(10)])
                assert [(await events.next(5))["x"] for _ in range(4)] == [6, 7, 8, 9]
            await one.unadvertise(number)
            with pytest.raises(covey.CoveyError, match="no advertisement"):
                await one.unadvertise(number)

    run(main())


def test_replace_loses_nothing_and_repeats_nothing_while_events_flow() -> None:
    async def main() -> None:
        async with broker() as a, covey.connect(url(a.port)) as one, covey.connect(url(a.port)) as two:
            going = True

            async def publish() -> int:
                count = 0
                while going:
                    await one.publish_many([{"n": count + k, "always": 1} for k in range(20)])
                    count += 20
                    await asyncio.sleep(0)
                return count

            async with two.subscribe("always = 1 and n >= 0") as events:
                task = asyncio.create_task(publish())
                for change in range(50):
                    await events.replace(f"always = 1 and n >= {-change}")
                    await asyncio.sleep(0.002)
                going = False
                count = await task
                await one.flush()
                got = [(await events.next(5))["n"] for _ in range(count)]
                assert got == list(range(count))
                assert count > 100
                assert str(events.filter) == str(covey.parse("always = 1 and n >= -49"))
                await two.flush()
                assert not events.pending

    run(main())


def test_after_replace_only_the_new_filter_counts() -> None:
    async def main() -> None:
        async with broker() as a, covey.connect(url(a.port)) as one, covey.connect(url(a.port)) as two:
            async with two.subscribe("x < 100") as events:
                await one.publish_many([{"x": x % 100} for x in range(5_000)])
                await events.replace("x >= 100")
                old = len(events.pending)
                await one.publish_many([{"x": x} for x in range(90, 110)])
                await one.flush()
                await two.flush()
                got = [event["x"] for event in await events.next_many(10_000)]
                assert all(x < 100 for x in got[:old])
                assert all(x >= 100 for x in got[old:])
                with pytest.raises(covey.FilterError):
                    await events.replace("x >>> 1")
            with pytest.raises(covey.CoveyError, match="ended"):
                await events.replace("x > 1")

    run(main())


def test_drain_finishes_what_is_pending() -> None:
    async def main() -> None:
        done: list[int] = []

        async def slowly(event: Received) -> None:
            await asyncio.sleep(0.001)
            done.append(event["x"])

        async with broker() as a, covey.connect(url(a.port)) as one:
            two = await covey.connect(url(a.port))
            await two.subscribe("x >= 0", callback=slowly)
            taken: list[int] = []
            events = await two.subscribe("x >= 50")

            async def take() -> None:
                async for event in events:
                    taken.append(event["x"])

            task = asyncio.create_task(take())
            await one.publish_many([{"x": x} for x in range(100)])
            await one.flush()
            await two.publish({"x": 1_000})
            await two.drain()
            assert done[:100] == list(range(100))
            await task
            assert taken[:50] == list(range(50, 100))
            assert not two.is_open
            with pytest.raises(covey.LinkError, match="closed"):
                await two.publish({"x": 1})
            with pytest.raises(covey.LinkError, match="closed"):
                await two.flush()
            await two.close()

    run(main())


def test_what_was_published_before_the_end_arrives() -> None:
    async def main() -> None:
        async with broker() as a, covey.connect(url(a.port)) as two, two.subscribe("x >= 0") as events:
            for _ in range(3):
                async with covey.connect(url(a.port)) as one, one.subscribe("x >= 0"):
                    # It gets what it publishes, and never reads it.
                    await one.publish_many([({"x": x}, b"-" * 500) for x in range(5_000)])
                got = 0
                while got < 5_000:
                    got += len(await events.next_many(5_000, 10.0))

    run(main())


@pytest.mark.parametrize(
    ("policy", "kept"), [("drop-new", [0, 1, 2, 3, 4]), ("drop-oldest", [15, 16, 17, 18, 19])]
)
def test_what_is_too_much_is_dropped_and_told_once(policy: str, kept: list[int]) -> None:
    async def main() -> None:
        errors: list[Exception] = []
        async with (
            broker() as a,
            covey.connect(url(a.port), on_error=errors.append) as client,
            client.subscribe("x >= 0", pending_events=5, policy=policy) as events,
        ):
            for x in range(20):
                await client.publish({"x": x})
            await client.flush()
            assert [(await events.next(1))["x"] for _ in range(5)] == kept
            assert events.dropped == 15
            assert events.received == 20
            assert len(errors) == 1
            assert isinstance(errors[0], covey.SlowError)
            await client.publish({"x": 77})
            assert (await events.next(1))["x"] == 77

    run(main())


def test_too_much_can_end_a_subscription() -> None:
    async def main() -> None:
        errors: list[Exception] = []
        async with broker() as a, covey.connect(url(a.port), on_error=errors.append) as client:
            events = await client.subscribe("x >= 0", pending_bytes=1_000, policy="error")
            for x in range(100):
                await client.publish({"x": x}, b"-" * 100)
            await client.flush()
            got = []

            async def take() -> None:
                async for event in events:
                    got.append(event["x"])

            with pytest.raises(covey.SlowError, match="wait for the program"):
                await take()
            assert got == list(range(len(got)))
            assert 3 <= len(got) <= 9
            assert not events.is_open
            assert len(errors) == 1
            await client.flush()
            assert not a.core.clients[next(iter(a.core.clients))].keys
            await events.unsubscribe()

    run(main())


def test_refusals_reach_whom_they_concern() -> None:
    async def main() -> None:
        errors: list[Exception] = []
        async with broker() as a, covey.connect(url(a.port), on_error=errors.append) as client:
            (peer,) = a.core.clients.values()
            peer.permissions = Permissions("ann", read_rules("x > 10", ""), read_rules("x > 10", ""))
            with pytest.raises(covey.RefusedError, match="ann may not subscribe"):
                await client.subscribe("x > 5")
            async with client.subscribe("x > 15") as events:
                with pytest.raises(covey.RefusedError, match="ann may not subscribe"):
                    await events.replace("x > 5")
                assert str(events.filter) == "x > 15"
                await client.publish({"x": 5})
                await client.publish({"x": 16})
                assert (await events.next(5))["x"] == 16
                await eventually(lambda: errors)
                assert "ann may not publish" in str(errors[0])
                with pytest.raises(covey.RefusedError, match="may not publish"):
                    await client.publish({"x": 5}, confirm=True)
            with pytest.raises(covey.EventError, match="not int"):
                await client.publish(5)
            with pytest.raises(covey.EventError, match="the broker takes 1,048,576"):
                await client.publish({"x": 5}, bytes(2 << 20))

    run(main())


def test_cancelling_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with broker() as a, covey.connect(url(a.port)) as client:
            (peer,) = a.core.clients.values()
            for turns in range(6):
                task = asyncio.ensure_future(client.subscribe("x > 1")._begin())
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                assert task.cancelled() or turns == 5
                if not task.cancelled():
                    await task.result().unsubscribe()
            await client.flush()
            await client.flush()
            assert not peer.keys
            async with client.subscribe("x > 1") as events:
                one, two = (asyncio.create_task(events.next()) for _ in range(2))
                await asyncio.sleep(0.01)
                one.cancel()
                await asyncio.gather(one, return_exceptions=True)
                await client.publish({"x": 5})
                assert (await two)["x"] == 5

    run(main())


def test_a_client_and_a_subscription_are_used_once() -> None:
    async def main() -> None:
        async with broker() as a:
            client = covey.connect(url(a.port))
            with pytest.raises(covey.CoveyError, match="not connected"):
                await client.publish({"x": 1})
            with pytest.raises(covey.CoveyError, match="not connected"):
                await client.flush()
            async with client:
                with pytest.raises(covey.CoveyError, match="once"):
                    await client
                events = await client.subscribe("x > 1")
                with pytest.raises(covey.CoveyError, match="once"):
                    await events
                with pytest.raises(covey.ConfigError, match="a client with a name"):
                    client.subscribe("x > 1", durable="work")
                with pytest.raises(covey.ConfigError, match="policy"):
                    client.subscribe("x > 1", policy="pray")
                with pytest.raises(covey.ConfigError, match="positive"):
                    client.subscribe("x > 1", pending_events=0)
            # A subscription of a client that is closed ends, after what has come.
            assert [event async for event in events] == []
            with pytest.raises(covey.LinkError, match="closed"):
                await client.subscribe("x > 1")

    run(main())


def test_a_client_with_many_subscriptions_leaves_while_events_flow() -> None:
    """What it asked for is withdrawn in slices: others are served between them, and nothing of it is left."""

    async def main() -> None:
        async with broker() as a, covey.connect(url(a.port)) as one, one.subscribe("x >= 0") as events:
            async with covey.connect(url(a.port)) as leaving:
                await asyncio.gather(*(leaving.subscribe(f"x > {n}") for n in range(300)))
                assert a.core.router.local_size() == 301
            await eventually(lambda: len(a.core.clients) == 1)
            left: list[int] = []
            while a.core.sessions.has_work:
                await one.publish({"x": len(left)})
                assert (await events.next(5))["x"] == len(left)
                left.append(a.core.router.local_size())
            assert a.core.router.local_size() == 1
            assert left == sorted(left, reverse=True)

    run(main())
