"""Who reads too slowly: each policy does what it says, queues stay within their bounds, and nobody else is slowed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import pytest
from tests.e2e.helpers.network import Live
from tests.e2e.helpers.running import eventually, run

import covey
from covey.broker.config import Queue
from covey.client.client import Client
from covey.client.subscription import Subscription
from covey.errors import CoveyError

COUNT = 2_500
PAYLOAD = b"." * 8_000  # sockets hold some megabytes by themselves
BOUNDS = Queue(events=200, bytes=1 << 21)


def hold(client: Client) -> None:
    """Let a client read nothing."""
    client._session.link.connection.hold("test")  # type: ignore[union-attr]


def go_on(client: Client) -> None:
    """Let it read again."""
    client._session.link.connection.go_on("test")  # type: ignore[union-attr]


async def take(events: Subscription, count: int) -> list[int]:
    """Return the numbers of the next events."""
    return [(await anext(events))["x"] for _ in range(count)]


async def take_for(events: Subscription, seconds: float) -> list[int]:
    """Return the numbers of the events that come within a time."""
    got: list[int] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            async for event in events:
                got.append(event["x"])
    return got


async def flood(publisher: Client, count: int = COUNT) -> None:
    """Publish many events."""
    for number in range(count):
        await publisher.publish({"x": number}, data=PAYLOAD)
        if number % 50 == 0:
            await asyncio.sleep(0)


def longest(net: Live) -> int:
    """Return how many events wait for the link for which most do."""
    return max(
        peer.connection.outbox.count for broker in net.brokers.values() for peer in broker.core.peers.values()
    )


def with_policy(policy: str, **settings: Any) -> Live:
    """Return one broker whose queues are short."""
    bounds = Queue(BOUNDS.events, BOUNDS.bytes, policy)
    return Live(brokers="a", client_bounds=bounds, **settings)


@pytest.mark.parametrize("policy", ["disconnect", "drop-oldest", "drop-new"])
def test_a_slow_consumer_slows_nobody(policy: str) -> None:
    async def main() -> None:
        async with (
            with_policy(policy) as net,
            net.client("a") as publisher,
            net.client("a") as fast,
            net.client("a") as slow,
            fast.subscribe("x >= 0") as all_events,
        ):
            some_events = await slow.subscribe("x >= 0").__aenter__()
            await slow.flush()
            hold(slow)
            reading = asyncio.ensure_future(take(all_events, COUNT))
            publishing = asyncio.ensure_future(flood(publisher))
            most = 0
            while not reading.done():
                most = max(most, longest(net))
                await asyncio.sleep(0.002)
            assert reading.result() == list(range(COUNT))
            await publishing
            assert most <= BOUNDS.events
            broker = net.brokers["a"]
            [(name, _)] = broker.core.pressure.slow.items()
            assert name.startswith("client ~")
            assert broker.core.counters["slow_consumers"] >= 1
            go_on(slow)
            got = await take_for(some_events, 0.7)
            if policy == "disconnect":
                await eventually(lambda: slow.reconnects == 1)
                assert got == list(range(len(got)))
                assert len(got) < COUNT
                return
            assert got == sorted(set(got))
            assert len(got) < COUNT
            assert (got[-1] == COUNT - 1) == (policy == "drop-oldest")
            await slow.flush()  # control is not dropped

    run(main())


def test_block_slows_those_who_feed_the_full_link_and_nobody_else() -> None:
    async def main() -> None:
        async with (
            with_policy("block") as net,
            net.client("a") as publisher,
            net.client("a") as other,
            net.client("a") as fast,
            net.client("a") as slow,
            fast.subscribe("y >= 0") as own_events,
            slow.subscribe("x >= 0") as events,
        ):
            await slow.flush()
            hold(slow)
            publishing = asyncio.ensure_future(flood(publisher, 3 * COUNT))
            broker = net.brokers["a"]
            await eventually(lambda: broker.core.pressure.full)
            [(full, waiting)] = broker.core.pressure.full.items()
            assert broker.core.peers[full].title.startswith("client ~")
            assert len(waiting) == 1
            for number in range(200):  # somebody else's events pass while the first publisher waits
                await other.publish({"y": number})
            assert [(await anext(own_events))["y"] for _ in range(200)] == list(range(200))
            await other.flush()
            await asyncio.sleep(0.1)
            assert not publishing.done()
            assert longest(net) <= BOUNDS.events + 500  # what one read brings more
            go_on(slow)
            assert await take(events, 3 * COUNT) == list(range(3 * COUNT))
            await publishing
            await eventually(lambda: not broker.core.pressure.full)

    run(main())


def test_block_reaches_back_over_brokers() -> None:
    async def main() -> None:
        bounds = Queue(BOUNDS.events, BOUNDS.bytes, "block")
        async with (
            Live([("a", "b"), ("b", "c")], client_bounds=bounds, link_bounds=bounds, lease_s=0.8) as net,
            net.client("a") as publisher,
            net.client("b") as near,
            net.client("c") as slow,
            near.subscribe("y >= 0") as own_events,
            slow.subscribe("x >= 0") as events,
        ):
            await slow.flush()
            hold(slow)
            publishing = asyncio.ensure_future(flood(publisher, 3 * COUNT))
            await eventually(lambda: net.brokers["a"].core.pressure.full, 20)
            await asyncio.sleep(1.0)  # longer than a lease: who waits is not dead
            assert not publishing.done()
            await near.publish({"y": 1})
            assert (await anext(own_events))["y"] == 1
            go_on(slow)
            assert await take(events, 3 * COUNT) == list(range(3 * COUNT))
            await publishing

    run(main(), 60)


def test_a_full_link_that_takes_nothing_ends_after_a_while() -> None:
    async def main() -> None:
        async with (
            with_policy("block", stalled_s=0.5, lease_s=1.0) as net,
            net.client("a") as publisher,
            net.client("a") as slow,
        ):
            await slow.subscribe("x >= 0").__aenter__()
            await slow.flush()
            hold(slow)
            began_s = time.monotonic()
            await flood(publisher)
            await publisher.flush()
            assert time.monotonic() - began_s > 0.4
            assert net.brokers["a"].core.counters["stalled_links"] == 1

    run(main())


def test_congestion_reaches_the_router_and_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paper C: while its queue is long, a broker keeps subscriptions it would prune, and decides again afterwards."""
    notes: list[bool] = []

    async def main() -> None:
        async with (
            Live([("a", "b")], strategy="incremental", congested_at=50, calm_at=5) as net,
            net.client("a") as publisher,
            net.client("a") as other,
        ):
            await publisher.advertise("x >= 0")
            broker = net.brokers["a"]
            core = broker.core
            part = core.router.trees[0]
            tell = core._note_congestion

            def note() -> None:
                before = core.scheduler.is_congested
                tell()
                if core.scheduler.is_congested != before:
                    notes.append(not before)
                    assert part.congested == notes[-1]

            monkeypatch.setattr(core, "_note_congestion", note)
            for number in range(5_000):
                await publisher.publish({"x": number})
            await publisher.flush()
            await eventually(lambda: not core.scheduler.count)
            assert notes[:2] == [True, False]
            assert notes[-1] is False
            assert not part.congested
            assert other.is_open

    run(main())


def test_what_a_client_may_hold_is_bounded() -> None:
    async def main() -> None:
        async with (
            Live(brokers="a", max_subscriptions=2, max_advertisements=1, max_connections=3) as net,
            net.client("a") as client,
        ):
            for _ in range(2):
                await client.subscribe("x = 1").__aenter__()
            with pytest.raises(CoveyError, match="may have 2 subscriptions"):
                await client.subscribe("x = 1").__aenter__()
            await client.advertise("x = 1")
            with pytest.raises(CoveyError, match="may have 1 advertisements"):
                await client.advertise("x = 2")
            async with net.client("a"), net.client("a"):
                with pytest.raises(CoveyError, match="no room for more connections"):
                    await covey.connect(net.url("a"), connect_timeout_s=0.5).__aenter__()
            await eventually(lambda: len(net.brokers["a"].core.peers) == 1)
            async with net.client("a"):
                pass

    run(main())
