"""A broker hangs while something new is advertised: nothing that is confirmed meanwhile or after that is lost.

The neighbour of the hanging broker has sent it the advertisement and waits for what it attracts. That answer never
comes: the lease ends, or the broker is killed. From then on nobody may count on the neighbour's table.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest
from tests.e2e.helpers.network import configs
from tests.e2e.helpers.nursery import Nursery, Process
from tests.e2e.helpers.running import free_port, run

from covey.broker.config import BrokerConfig
from covey.client.client import Client, connect

LEASE_S = 0.8


class Line:
    """Brokers in line, each a process. The last one has the durable subscription, and hangs."""

    def __init__(self, nursery: Nursery, folder: Path, names: str) -> None:
        self.nursery = nursery
        self.ports = {name: free_port() for name in names}
        self.configs: dict[str, BrokerConfig] = {}
        links = list(pairwise(names))
        for name in names:
            own = configs(links, self.ports, data_dir=str(folder / name), lease_s=LEASE_S)
            self.configs[name] = own[name]
        self.processes = {name: self.start(name) for name in names}
        for process in self.processes.values():
            process.wait("ready")

    def start(self, name: str) -> Process:
        return self.nursery.start(self.configs[name])

    def client(self, broker: str, name: str) -> Client:
        return connect(f"covey://127.0.0.1:{self.ports[broker]}", name=name, timeout_s=20.0)

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()


@pytest.mark.parametrize("names", ["ad", "abd"])
@pytest.mark.parametrize("end", ["the lease", "a kill"])
def test_nothing_confirmed_is_lost_when_a_broker_hangs(
    nursery: Nursery, tmp_path: Path, names: str, end: str
) -> None:
    line = Line(nursery, tmp_path, names)

    async def work() -> None:
        async with line.client("d", "reader") as reader, reader.subscribe("n > 0", durable="all"):
            await reader.flush()
        hanging, sent = line.processes["d"], 0
        async with line.client("a", "publisher") as publisher:
            hanging.stop()
            await publisher.advertise("n > 0")

            async def confirm(count: int, pause_s: float = 0.0) -> None:
                nonlocal sent
                for _ in range(count):
                    sent += 1
                    await publisher.publish({"n": sent}, confirm=True)
                    await asyncio.sleep(pause_s)

            await confirm(1)
            if end == "a kill":
                hanging.kill()
                await confirm(20, 0.005)
                line.processes["d"] = line.start("d")
                line.processes["d"].wait("listening")
            else:
                await confirm(20, 2 * LEASE_S / 20)
                hanging.go_on()
        got: set[int] = set()
        async with line.client("d", "reader") as reader, reader.subscribe("n > 0", durable="all") as events:
            async with asyncio.timeout(10.0):
                while len(got) < sent:
                    got.add((await anext(events))["n"])

    try:
        run(work())
    finally:
        line.end()
