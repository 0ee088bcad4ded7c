"""Brokers as processes with disks, links through proxies, and clients that note all they are told: for faults.

async with Faulty(nursery, folder, RING) as net:
    reader = await net.reader("c", "reader")              durable, of everything; `ordinary` is without
    publisher = await net.publisher("a", "p")             confirms event after event, until told to stop
    net.kill("b"); net.start("b")
    net.proxies["a", "b"].stall()
    await net.settle()                                    all that is confirmed has arrived
    net.promises.check()

Every link goes through a proxy of this process, or brokers are in network namespaces. A broker logs to a file in its
folder.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from tests.e2e.helpers.namespaces import Namespaces, enter
from tests.e2e.helpers.network import Pair, configs, names_of
from tests.e2e.helpers.nursery import Nursery, Process
from tests.e2e.helpers.promises import CONFIRMED, Promises, Published, Received
from tests.e2e.helpers.proxy import Proxy
from tests.e2e.helpers.running import eventually, free_port

from covey.broker import logs
from covey.broker.config import AdminConfig, BrokerConfig
from covey.broker.process import serve
from covey.broker.security import hash_token, read_security
from covey.client.admin import Pages
from covey.client.client import Client, connect
from covey.errors import CoveyError, RefusedError

LINE: list[Pair] = [("a", "b"), ("b", "c")]
RING: list[Pair] = [*LINE, ("c", "d"), ("d", "a")]
STAR: list[Pair] = [("hub", leaf) for leaf in "abcd"]
GRID: list[Pair] = [
    ("a", "b"),
    ("b", "c"),
    ("d", "e"),
    ("e", "f"),
    ("a", "d"),
    ("b", "e"),
    ("c", "f"),
]  # 3 × 2
TOPOLOGIES = {"line": LINE, "ring": RING, "star": STAR, "grid": GRID}

OPEN = read_security({"anonymous": {"allow": True}, "neighbours": {"trusted": True}})
TOKEN = "let me"
LEASE_S = 1.0
EVERYTHING = "n > 0"


def _serve(config: BrokerConfig, file: Path, namespace: str, report: Callable[[str], None]) -> None:
    if namespace:
        enter(namespace)
    with file.open("a") as stream:
        logs.configure("info", stream=stream)
        asyncio.run(serve(config, report))


class Publisher:
    """A client that publishes, one event after another, and notes what it is told."""

    def __init__(self, client: Client, noted: Published, random: Random, pause_s: float) -> None:
        self.client = client
        self.noted = noted
        self._random, self._pause_s = random, pause_s
        self.is_going = True
        self.task: asyncio.Task[None] | None = None

    def go(self) -> None:
        """Publish until told to stop."""
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self.is_going:
            await self.publish()
            await asyncio.sleep(self._random.random() * 2 * self._pause_s)

    async def publish(self, count: int = 1) -> None:
        """Publish some events; those that are refused, or not answered, are noted as such."""
        for _ in range(count):
            content, data = self.noted.next()
            try:
                await self.client.publish(content, data, confirm=self.noted.kind == CONFIRMED)
            except RefusedError:
                self.noted.refused.add(content["n"])
            except CoveyError:
                await asyncio.sleep(0.05)  # nobody knows what became of it
            else:
                self.noted.confirmed.add(content["n"]) if self.noted.kind == CONFIRMED else None

    async def stop(self) -> None:
        """Publish the event under way to its end, and no other."""
        self.is_going = False
        if self.task is not None:
            await self.task

    async def kill(self) -> None:
        """End as a killed process does: whatever is under way is nobody's."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
            self.task = None
        abort(self.client)


class Reader:
    """A client with one subscription, which it attaches again and again; it acknowledges most of what it gets."""

    def __init__(
        self,
        client_of: Callable[[], Client],
        noted: Received,
        promises: Promises,
        random: Random,
        acknowledges: float,
        durable: str,
    ) -> None:
        self.noted = noted
        self.client: Client | None = None
        self.acknowledges = acknowledges
        self._client_of, self._promises, self._random, self._durable = client_of, promises, random, durable
        self._task: asyncio.Task[None] | None = None

    def go(self) -> None:
        """Read until told to stop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def flush(self) -> None:
        """Subscribe, and wait until that is in force everywhere; from now on events are due."""
        async with (
            self._client_of() as client,
            client.subscribe(str(self.noted.filter), durable=self._durable),
        ):
            await client.flush()
        self._promises.in_force(self.noted)

    async def _run(self) -> None:
        while True:
            with suppress(CoveyError):
                async with self._client_of() as client:
                    self.client = client
                    await self._read(client)
            await asyncio.sleep(0.02)

    async def _read(self, client: Client) -> None:
        async with client.subscribe(str(self.noted.filter), durable=self._durable) as events:
            async for event in events:
                self._promises.deliver(self.noted, event)
                lot = self._random.random()
                if self._durable and lot < self.acknowledges:
                    await event.ack(all_before=lot < self.acknowledges / 2)
                elif self._durable and lot > 0.995:
                    return  # and come back

    async def stop(self) -> None:
        """Read no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def kill(self) -> None:
        """End as a killed process does."""
        if self._task is not None:
            self._task.cancel()
            if self.client is not None:
                abort(self.client)
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None


def abort(client: Client) -> None:
    """Break a client's link without a word, for good."""
    client._session.options = replace(client._session.options, reconnect_for_s=0.0)
    link = client._session.link
    if link is not None:
        link.connection.abort()


class Faulty:
    """A network of processes; see the module's text."""

    def __init__(
        self,
        nursery: Nursery,
        folder: Path,
        links: Sequence[Pair],
        *,
        seed: object = 1,
        has_admin: bool = False,
        namespaces: Namespaces | None = None,
        per_broker: Mapping[str, Mapping[str, Any]] | None = None,
        **settings: Any,
    ) -> None:
        self.nursery, self.folder, self.links = nursery, folder, list(links)
        self.random = Random(f"{seed}")
        self.promises = Promises()
        self.names = names_of(self.links) or list(per_broker or ())
        self.ports = {name: free_port() for name in self.names}
        self.admin_ports = {name: free_port() for name in self.names} if has_admin else {}
        self.namespaces = namespaces
        proxied = self.links if namespaces is None else ()
        self.proxies: dict[Pair, Proxy] = {pair: Proxy(self.ports[pair[0]]) for pair in proxied}
        self.configs: dict[str, BrokerConfig] = {}
        self.processes: dict[str, Process] = {}
        self.publishers: list[Publisher] = []
        self.readers: list[Reader] = []
        self._per_broker = per_broker or {}
        self._settings = {"lease_s": LEASE_S, **settings}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Faulty:
        for proxy in self.proxies.values():
            await self._stack.enter_async_context(proxy)
        through = {pair: proxy.port for pair, proxy in self.proxies.items()}
        found = configs(self.links, self.ports, through, self.names, **self._settings)
        for name, config in found.items():
            own: dict[str, Any] = {"data_dir": str(self.disk(name))}
            if self.namespaces is not None:
                links = [replace(one, host=self.host(one.name) if one.host else "") for one in config.links]
                own |= {"host": self.host(name), "links": tuple(links), "security": OPEN}
            if self.admin_ports:
                own["admin"] = AdminConfig(self.admin_ports[name], token=hash_token(TOKEN))
            self.configs[name] = replace(config, **{**own, **self._per_broker.get(name, {})})
        try:
            for name in self.names:
                self.start(name)
            await self.ready()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        for publisher in self.publishers:
            await publisher.kill()
        for reader in self.readers:
            await reader.stop()
        ended = [name for name, process in self.processes.items() if not process.is_alive]
        for name in self.processes.keys() - ended:
            self.processes[name].kill()
        await self._stack.aclose()
        assert not ended, f"{ended[0]} has ended by itself: {self.processes[ended[0]].said()[-2_000:]}"

    # -- brokers ---------------------------------------------------------------------------------------------

    def disk(self, name: str) -> Path:
        """Return the folder of a broker's disk."""
        return self.folder / name

    def host(self, name: str) -> str:
        """Return the address of a broker."""
        return "127.0.0.1" if self.namespaces is None else self.namespaces.address(name)

    def log(self, name: str) -> str:
        """Return what a broker has logged, in all its lives."""
        file = self.folder / f"{name}.log"
        return file.read_text() if file.exists() else ""

    def start(self, name: str) -> None:
        """Start a broker, with its old port and disk."""
        where = "" if self.namespaces is None else self.namespaces.namespace(name)
        self.processes[name] = self.nursery.run(
            _serve, self.configs[name], self.folder / f"{name}.log", where
        )

    def kill(self, name: str) -> None:
        """SIGKILL."""
        process = self.processes.pop(name)
        assert process.is_alive, f"{name} has ended by itself: {process.said()[-2_000:]}"
        process.kill()

    def hang(self, name: str) -> None:
        """SIGSTOP."""
        self.processes[name].stop()

    def go_on(self, name: str) -> None:
        """SIGCONT."""
        self.processes[name].go_on()

    async def drain(self, name: str, limit_s: float = 20.0) -> None:
        """SIGTERM, and wait for the end."""
        process = self.processes.pop(name)
        process.end()
        try:
            await eventually(lambda: not process.is_alive, limit_s, f"{name} ends: {process.said()}")
        except BaseException:
            process.kill()
            raise

    async def ready(self, *names: str, limit_s: float = 30.0) -> None:
        """Return once these brokers, or all that run, listen and have compared tables."""
        for name in names or list(self.processes):
            process = self.processes[name]
            await eventually(lambda: "ready" in process.said().split(), limit_s, process.said())  # noqa: B023

    def pages(self, name: str) -> Pages:
        """Return a broker's admin pages."""
        return Pages(f"http://127.0.0.1:{self.admin_ports[name]}", TOKEN)

    # -- clients ---------------------------------------------------------------------------------------------

    def client(self, brokers: str | Iterable[str], name: str, **settings: Any) -> Client:
        """Return a client of a broker, or of one of several; to be entered."""
        some = [brokers] if isinstance(brokers, str) else list(brokers)
        urls = [f"covey://{self.host(one)}:{self.ports[one]}" for one in some]
        return connect(urls, name=name, **{"timeout_s": 20.0, "longest_pause_s": 0.1, **settings})

    async def publisher(
        self,
        broker: str | Sequence[str],
        name: str,
        *,
        kind: str = CONFIRMED,
        pause_s: float = 0.005,
        advertises: bool = True,
        goes: bool = True,
    ) -> Publisher:
        """Return a new publisher; it publishes at once if it `goes`."""
        is_ordered = isinstance(broker, str) and kind == CONFIRMED
        noted = self.promises.publisher(name, kind, is_ordered=is_ordered)
        client = await self._stack.enter_async_context(self.client(broker, f"publisher-{name}"))
        if advertises:
            await client.advertise(f"source = '{name}'")
        one = Publisher(client, noted, Random(f"{name} {self.random.random()}"), pause_s)
        self.publishers.append(one)
        if goes:
            one.go()
        return one

    async def reader(
        self,
        broker: str,
        name: str,
        filter: str = EVERYTHING,
        *,
        acknowledges: float = 0.7,
        goes: bool = True,
    ) -> Reader:
        """Return a new client with a durable subscription, which is in force."""
        return await self._subscriber(broker, name, filter, acknowledges, "all", goes)

    async def ordinary(self, broker: str, name: str, filter: str = EVERYTHING) -> Reader:
        """Return a new client with an ordinary subscription."""
        return await self._subscriber(broker, name, filter, 0.0, "", True)

    async def _subscriber(
        self, broker: str, name: str, filter: str, acknowledges: float, durable: str, goes: bool
    ) -> Reader:
        noted = self.promises.subscription(name, filter, is_durable=bool(durable))
        random = Random(f"{name} {self.random.random()}")
        one = Reader(lambda: self.client(broker, name), noted, self.promises, random, acknowledges, durable)
        self.readers.append(one)
        if durable:
            await one.flush()
        if goes:
            one.go()
        return one

    async def confirmed(self, count: int, limit_s: float = 30.0) -> None:
        """Return once so many more events are confirmed."""
        wanted = self.promises.confirmed + count
        await eventually(
            lambda: self.promises.confirmed >= wanted, limit_s, f"{count} more events are confirmed"
        )

    async def stop_publishing(self) -> None:
        """Let all publishers come to an end."""
        await asyncio.gather(*(one.stop() for one in self.publishers))

    async def settle(self, limit_s: float = 30.0) -> None:
        """Let publishers come to an end and wait for all that is due; AssertionError if it does not come."""
        await self.stop_publishing()
        loop = asyncio.get_running_loop()
        until_s = loop.time() + limit_s
        while self.promises.missing() and not self.promises.wrong and loop.time() < until_s:
            await asyncio.sleep(0.05)
        self.promises.check()
        assert self.promises.confirmed, "something was confirmed"


logging.getLogger("covey").addHandler(logging.NullHandler())
