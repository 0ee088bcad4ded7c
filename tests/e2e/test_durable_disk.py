"""A disk without room: publishers hear of it, nothing that was confirmed is lost, nothing hangs or ends."""

from __future__ import annotations

import asyncio
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.helpers.nursery import Nursery, Process
from tests.e2e.helpers.running import free_port, run

from covey.broker.config import BrokerConfig
from covey.broker.process import serve
from covey.client.client import Client, connect
from covey.errors import RefusedError


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
    port = free_port()
    config = BrokerConfig("a", port=port, data_dir=str(tmp_path), lease_s=2.0)
    process = nursery.run(_serve_with_little_room, config, 3 << 20)
    run(_check(process, port, lambda: nursery.start(config)), 60.0)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB, where one can be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_small_disk_that_is_full_and_then_is_not(nursery: Nursery, small_disk: Path) -> None:
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
