"""A disk without room: publishers hear of it, nothing that was confirmed is lost, nothing hangs or ends."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.helpers.nursery import Nursery, Process
from tests.e2e.helpers.running import free_port, run
from tests.e2e.helpers.small_disk import small_disk

from covey.broker.config import BrokerConfig
from covey.broker.process import serve
from covey.client.client import Client, connect
from covey.errors import RefusedError

__all__ = ["small_disk"]


def _serve_with_little_room(config: BrokerConfig, most: int, report: Callable[[str], None]) -> None:
    def limited(news: str) -> None:
        # No file may be longer from now on: writing fails as on a full disk.
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        report(news)

    asyncio.run(serve(config, limited))


async def _fill(client: Client) -> list[int]:
    """Publish until the broker refuses; return what it has confirmed."""
    confirmed: list[int] = []
    while len(confirmed) < 400:
        try:
            await client.publish({"n": len(confirmed) + 1}, bytes(20_000), confirm=True, timeout_s=20)
        except RefusedError as error:
            assert "the store cannot keep this" in str(error) or "no room" in str(error)
            return confirmed
        confirmed.append(len(confirmed) + 1)
    raise AssertionError("the disk is never full")


async def _read(client: Client, count: int) -> list[int]:
    got: list[int] = []
    async with client.subscribe("n > 0", durable="mine") as events:
        for _ in range(count):
            event = await events.next(timeout_s=20)
            await event.ack()
            got.append(event["n"])
    return got


async def _check(process: Process, port: int, restart: Callable[[], Process]) -> None:
    process.wait("listening", 30.0)
    async with connect(f"covey://127.0.0.1:{port}", name="reader", longest_pause_s=0.1) as client:
        async with client.subscribe("n > 0", durable="mine"):
            pass
        confirmed = await _fill(client)
        assert len(confirmed) > 10
        with pytest.raises(RefusedError):
            await client.publish({"n": 999}, bytes(20_000), confirm=True, timeout_s=20)
        assert process.is_alive
        process.kill()
        again = restart()
        again.wait("listening", 30.0)
        try:
            assert await _read(client, len(confirmed)) == confirmed
            await client.publish({"n": 1000}, bytes(20_000), confirm=True, timeout_s=20)
            assert await _read(client, 1) == [1000]
        finally:
            again.kill()


def test_a_full_disk_is_an_error_to_publishers(nursery: Nursery, tmp_path: Path) -> None:
    """Files may not grow any longer: publishers are refused, and what was confirmed survives a kill."""
    port = free_port()
    config = BrokerConfig("a", port=port, data_dir=str(tmp_path), lease_s=2.0)
    process = nursery.run(_serve_with_little_room, config, 3 << 20)
    run(_check(process, port, lambda: nursery.start(config)), 60.0)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_full_disk_takes_events_again_once_they_are_acknowledged(
    nursery: Nursery, small_disk: Path, is_restarted: bool
) -> None:
    """Nobody makes room on the disk but the broker itself, also for larger events than those that filled it."""
    port = free_port()
    config = BrokerConfig("a", port=port, data_dir=str(small_disk), lease_s=1.0)
    process = nursery.start(config)

    async def main() -> None:
        nonlocal process
        process.wait("listening", 30.0)
        async with connect(f"covey://127.0.0.1:{port}", name="reader", longest_pause_s=0.1) as client:
            async with client.subscribe("n > 0", durable="mine"):
                pass
            confirmed = await _fill(client)
            assert len(confirmed) > 10
            if is_restarted:
                process.kill()
                process = nursery.start(config)
                process.wait("listening", 30.0)
            assert await _read(client, len(confirmed)) == confirmed
            for number, size in enumerate([20_000, 700_000, 20_000], start=1_000):
                await _confirm(client, number, size)
                assert await _read(client, 1) == [number]
            assert len(await _fill(client)) > 10, "and as many as before"

    try:
        run(main(), 90.0)
    finally:
        process.kill()


async def _confirm(client: Client, number: int, size: int) -> None:
    """Publish an event that may be refused at first: the broker tries again about once a second."""
    for _ in range(50):
        try:
            await client.publish({"n": number}, bytes(size), confirm=True, timeout_s=20)
            return
        except RefusedError:
            await asyncio.sleep(0.2)
    raise AssertionError(f"an event of {size} bytes is never taken")


def test_a_small_disk_that_is_full_and_then_is_not(nursery: Nursery, small_disk: Path) -> None:
    """The disk of the publisher's broker is full, and has room again: publishers are refused, then confirmed."""
    port = free_port()
    config = BrokerConfig("a", port=port, data_dir=str(small_disk), lease_s=1.0)
    process = nursery.start(config)

    async def main() -> None:
        process.wait("listening", 30.0)
        async with connect(f"covey://127.0.0.1:{port}", name="reader") as client:
            async with client.subscribe("n > 0", durable="mine"):
                pass
            ballast = small_disk / "ballast"
            ballast.write_bytes(bytes(1 << 20))
            confirmed = await _fill(client)
            assert len(confirmed) > 10
            ballast.unlink()  # somebody makes room
            await asyncio.sleep(1.0)
            await client.publish({"n": len(confirmed) + 1}, bytes(20_000), confirm=True, timeout_s=20)
            confirmed.append(len(confirmed) + 1)
            assert await _read(client, len(confirmed)) == confirmed
            await client.publish({"n": 1000}, bytes(20_000), confirm=True, timeout_s=20)
            assert await _read(client, 1) == [1000]

    try:
        run(main(), 60.0)
    finally:
        process.kill()
