"""Brokers die at any moment (SIGKILL), come back, and nothing that was confirmed is lost.

Three brokers in a chain, each a process. At each end a publisher confirms its events one after the other, and every
broker has a client with a durable subscription. A random broker is killed again and again. In the end each subscription
must have got every confirmed event of each publisher, in that publisher's order apart from repetitions.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.helpers.network import configs
from tests.e2e.helpers.nursery import Nursery, Process
from tests.e2e.helpers.running import eventually, free_port, run

from covey.broker.config import BrokerConfig
from covey.client.client import Client, connect
from covey.errors import CoveyError

CHAIN = [("a", "b"), ("b", "c")]
RING = [*CHAIN, ("c", "d"), ("d", "a")]


class Killed:
    """A network of processes that are killed, with its clients and what they saw."""

    def __init__(
        self, nursery: Nursery, folder: Path, links: Sequence[tuple[str, str]], seed: int, **settings: Any
    ) -> None:
        self.random = random.Random(seed)
        self.nursery = nursery
        self.names = list(dict.fromkeys(name for pair in links for name in pair))
        self.ports = {name: free_port() for name in self.names}
        self.configs: dict[str, BrokerConfig] = {}
        for name in self.names:
            data_dir = str(folder / name)
            self.configs[name] = configs(links, self.ports, data_dir=data_dir, lease_s=2.0, **settings)[name]
        self.processes: dict[str, Process] = {}
        self.confirmed: dict[str, list[int]] = {name: [] for name in self.names}
        self.got: dict[str, list[tuple[str, int]]] = {name: [] for name in self.names}
        self.is_publishing = True

    def start(self, name: str) -> None:
        self.processes[name] = self.nursery.start(self.configs[name])

    def kill(self, name: str) -> None:
        self.processes.pop(name).kill()

    def client(self, name: str, role: str) -> Client:
        return connect(
            f"covey://127.0.0.1:{self.ports[name]}",
            name=f"{role}-{name}",
            timeout_s=30.0,
            longest_pause_s=0.1,
        )

    async def publish(self, name: str, client: Client, advertise: bool) -> None:
        if advertise:
            await client.advertise(f"source = '{name}'")
        n = 0
        while self.is_publishing:
            n += 1
            await client.publish({"source": name, "n": n}, confirm=True, timeout_s=30.0)
            self.confirmed[name].append(n)
            if self.random.random() < 0.3:
                await asyncio.sleep(self.random.random() * 0.01)

    async def read(self, name: str, client: Client) -> None:
        """Read for ever; acknowledge most events, singly or all so far, and now and then attach anew."""
        while True:
            try:
                async with client.subscribe("n > 0", durable="all") as events:
                    async for event in events:
                        self.got[name].append((event["source"], event["n"]))
                        lot = self.random.random()
                        if lot < 0.01:
                            break
                        if lot < 0.7:
                            await event.ack(all_before=lot < 0.3)
            except CoveyError:
                await asyncio.sleep(0.02)

    def missing(self) -> dict[str, int]:
        """Return how many confirmed events each subscription has yet to get."""
        return {
            name: sum(len(set(numbers) - {n for source, n in got if source == publisher})
                      for publisher, numbers in self.confirmed.items())
            for name, got in self.got.items()
        }  # fmt: skip

    def check_order(self) -> None:
        for name, got in self.got.items():
            for publisher in self.names:
                first = list(dict.fromkeys(n for source, n in got if source == publisher))
                assert first == sorted(first), f"what {publisher} published is out of order at {name}"


async def killing(net: Killed, publishers: Sequence[str], for_s: float, victims: Sequence[str]) -> None:
    """Kill brokers at random moments for some time, then wait for everything to arrive."""
    for name in net.names:
        net.start(name)
    for process in net.processes.values():
        process.wait("listening", 30.0)
    async with AsyncExitStack() as stack:
        tasks: list[asyncio.Task[None]] = []
        try:
            readers = {
                name: await stack.enter_async_context(net.client(name, "reader")) for name in net.names
            }
            for name, client in readers.items():
                async with client.subscribe("n > 0", durable="all"):
                    await client.flush()
                tasks.append(asyncio.create_task(net.read(name, client)))
            publishing = []
            for name in publishers:
                client = await stack.enter_async_context(net.client(name, "publisher"))
                advertises = net.random.random() < 0.7
                publishing.append(asyncio.create_task(net.publish(name, client, advertises)))
            tasks += publishing
            loop = asyncio.get_running_loop()
            until_s = loop.time() + for_s
            while loop.time() < until_s:
                await asyncio.sleep(net.random.random() * 0.3)
                down = net.random.sample(victims, net.random.choice([1, 1, 1, 2]) if len(victims) > 1 else 1)
                for name in down:
                    net.kill(name)
                    if net.random.random() < 0.5:
                        await asyncio.sleep(net.random.random() * 0.2)
                await asyncio.sleep(net.random.random() * 0.3)
                for name in net.random.sample(down, len(down)):
                    net.start(name)
            net.is_publishing = False
            await asyncio.gather(*publishing)
            await eventually(
                lambda: not any(net.missing().values()), 30.0, f"all is there: {net.missing()}", 0.1
            )
            net.check_order()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for process in net.processes.values():
                process.kill()
    assert sum(map(len, net.confirmed.values())) > 20, "something was published"


@pytest.mark.parametrize(("victims", "seed"), [("a", 1), ("b", 2), ("c", 3)])
def test_nothing_confirmed_is_lost_when_a_broker_is_killed(
    nursery: Nursery, tmp_path: Path, victims: str, seed: int
) -> None:
    run(killing(Killed(nursery, tmp_path, CHAIN, seed), ["a", "c"], 1.5, list(victims)), 60.0)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 120))
def test_nothing_confirmed_is_lost_when_any_brokers_are_killed(
    nursery: Nursery, tmp_path: Path, seed: int
) -> None:
    run(killing(Killed(nursery, tmp_path, CHAIN, seed), ["a", "b", "c"], 6.0, list("abc")), 120.0)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(200, 210))
def test_nothing_confirmed_is_lost_in_a_ring(nursery: Nursery, tmp_path: Path, seed: int) -> None:
    run(killing(Killed(nursery, tmp_path, RING, seed), ["a", "b", "c", "d"], 6.0, list("abcd")), 120.0)
