"""A network of the version before is upgraded broker by broker, while clients of both versions use it.

Three brokers in a line, each a process with a store, and at each a client. All brokers begin as the version before
(commit d642115) and are restarted as today's, one after another. In every mixture on the way each client gets every
event of each other client: plain ones exactly once, and those that were confirmed also if that was while a broker was
away. What the version before says is also recorded, and played in `tests/version_before`, which needs no sources of it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from tests.e2e.helpers.network import configs
from tests.e2e.helpers.running import eventually, free_port, run
from tests.e2e.helpers.version_before import (
    TODAY,
    Process,
    UnavailableError,
    sources,
    start_broker,
    start_client,
)

LINE = [("a", "b"), ("b", "c")]
NAMES = ("a", "b", "c")
SOME = 20  # events of a client in each stage


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the version before."""
    try:
        return sources(tmp_path_factory.mktemp("before"))
    except UnavailableError as error:
        pytest.skip(str(error))


class Mixed:
    """Brokers and clients, and what was published."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ports = {name: free_port() for name in NAMES}
        self.configs = {
            name: configs(LINE, ports, data_dir=str(folder / name), lease_s=5.0)[name] for name in NAMES
        }
        self.brokers: dict[str, Process] = {}
        self.clients: dict[str, Process] = {}
        self.confirmed = self.plain = 0
        self.pings = 1_000_000

    async def start(self, name: str, source: Path) -> None:
        self.brokers[name] = await start_broker(self.configs[name], source, self.folder)

    async def join(self, name: str, source: Path) -> None:
        """Let a client of a version come to a broker."""
        client = self.clients[name] = await start_client(f"at-{name}", source, self.configs[name].port)
        await client.wait("subscribed durable")
        await client.wait("subscribed plain")

    def got(self, reader: str, kind: str, source: str) -> list[int]:
        """Return the numbers of the events of a client that another got, in their order."""
        begin = f"{kind} at-{source} "
        found = [
            int(line.removeprefix(begin)) for line in self.clients[reader].lines if line.startswith(begin)
        ]
        return [n for n in found if n < 1_000_000]

    def begin_confirmed(self) -> None:
        """Have every client publish confirmed events."""
        for client in self.clients.values():
            client.tell(f"confirm {self.confirmed} {self.confirmed + SOME}")
        self.confirmed += SOME

    async def connected(self) -> None:
        """Return once an event of each client reaches every client: all are back."""
        seen = {(reader, source): False for reader in NAMES for source in NAMES}
        begin = self.pings

        def all_seen() -> bool:
            for reader, source in seen:
                start = f"plain at-{source} "
                seen[reader, source] = any(
                    line.startswith(start) and int(line.removeprefix(start)) >= begin
                    for line in self.clients[reader].lines
                )
            return all(seen.values())

        while not all_seen():
            for client in self.clients.values():
                client.tell(f"plain {self.pings} {self.pings + 1}")
            self.pings += 1
            assert self.pings < begin + 300, f"not everybody is reached: {seen}"
            await asyncio.sleep(0.2)

    async def check(self) -> None:
        """Complain if in this mixture something is lost, comes twice or out of order."""
        await self.connected()
        for client in self.clients.values():
            client.tell(f"plain {self.plain} {self.plain + SOME}")
        self.plain += SOME
        self.begin_confirmed()
        for client in self.clients.values():
            await client.wait(f"confirmed {self.confirmed - 1}")
        await eventually(self._is_all_there, 60.0, "all events have arrived", 0.05)
        await asyncio.sleep(0.3)  # for what should not come
        for reader in NAMES:
            for source in NAMES:
                assert self.got(reader, "plain", source) == list(range(self.plain))
                durable = self.got(reader, "durable", source)
                first = list(dict.fromkeys(durable))
                assert first == list(range(self.confirmed)), f"of {source} at {reader}"
                repeated = Counter(durable) - Counter(first)
                assert sum(repeated.values()) <= SOME, "only what was not acknowledged may come again"

    def _is_all_there(self) -> bool:
        return all(
            len(set(self.got(reader, kind, source))) == count
            for reader in NAMES
            for source in NAMES
            for kind, count in (("plain", self.plain), ("durable", self.confirmed))
        )

    async def end(self) -> None:
        await asyncio.gather(*(one.end(9) for one in [*self.clients.values(), *self.brokers.values()]))


async def upgrade(net: Mixed, order: str, before: Path, clients: dict[str, Path]) -> None:
    """Restart brokers in this order, and check every mixture."""
    try:
        await asyncio.gather(*(net.start(name, before) for name in NAMES))
        for name in NAMES:
            await net.brokers[name].wait("ready", 240.0)  # it may have to be compiled
        for name, source in clients.items():
            await net.join(name, source)
        await net.check()
        for name in order:
            net.begin_confirmed()  # while the broker ends, and until it is back
            assert await net.brokers[name].end() == 0
            await net.start(name, TODAY)
            await net.brokers[name].wait("ready", 240.0)
            await net.check()
    finally:
        await net.end()


@pytest.mark.long
@pytest.mark.parametrize("order", ["bac", "acb"])  # old – new – old, and new – old – new, on the way
def test_brokers_are_upgraded_one_by_one(before: Path, tmp_path: Path, order: str) -> None:
    clients = {"a": before, "b": TODAY, "c": before if order == "bac" else TODAY}
    run(upgrade(Mixed(tmp_path), order, before, clients), 600.0)
