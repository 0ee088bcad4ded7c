"""Several brokers in one process, over real sockets.

async with Live([("a", "b"), ("b", "c")], lease_s=1.0) as net:
    async with net.client("a") as publisher, net.client("c") as subscriber:
        ...
    await net.stop("b")
    await net.start("b")

It begins when all links are open, or those of `waits_for`. The second broker of a link dials the first; a link in
`proxied` goes through a proxy, `net.proxies["a", "b"]`. Brokers keep their ports when they are started again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from tests.e2e.helpers.proxy import Proxy
from tests.e2e.helpers.running import eventually, free_port

from covey.broker.config import BrokerConfig, LinkConfig
from covey.broker.server import Broker
from covey.client.client import Client, connect

Pair = tuple[str, str]


def names_of(links: Iterable[Pair]) -> list[str]:
    """Return the brokers of some links, each once."""
    return list(dict.fromkeys(name for pair in links for name in pair))


def configs(
    links: Iterable[Pair],
    ports: Mapping[str, int],
    through: Mapping[Pair, int] | None = None,
    brokers: Iterable[str] = (),
    priorities: Mapping[Pair, int] | None = None,
    **settings: Any,
) -> dict[str, BrokerConfig]:
    """Return the configuration of each broker; `through` has the ports of proxies."""
    pairs = list(links)
    found: dict[str, list[LinkConfig]] = {name: [] for name in [*names_of(pairs), *brokers]}
    for pair in pairs:
        priority = (priorities or {}).get(pair, LinkConfig.priority)
        first, second = pair
        found[first].append(LinkConfig(second, priority=priority))
        port = (through or {}).get(pair, ports[first])
        found[second].append(LinkConfig(first, "127.0.0.1", port, priority))
    return {
        name: BrokerConfig(name, port=ports[name], links=tuple(own), **settings)
        for name, own in found.items()
    }


class Live:
    """A network of brokers; see the module's text."""

    def __init__(
        self,
        links: Iterable[Pair] = (),
        *,
        brokers: Iterable[str] = (),
        proxied: Iterable[Pair] = (),
        priorities: Mapping[Pair, int] | None = None,
        per_broker: Mapping[str, Mapping[str, Any]] | None = None,
        waits_for: Iterable[Pair] | None = None,
        **settings: Any,
    ) -> None:
        self.links = list(links)
        self.names = list(dict.fromkeys([*names_of(self.links), *brokers]))
        self.ports = {name: free_port() for name in self.names}
        self.brokers: dict[str, Broker] = {}
        self.proxies: dict[Pair, Proxy] = {pair: Proxy(self.ports[pair[0]]) for pair in proxied}
        self.configs: dict[str, BrokerConfig] = {}
        self._priorities = priorities
        self._waits_for = waits_for
        self._per_broker = per_broker or {}
        self._settings = settings
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Live:
        for proxy in self.proxies.values():
            await self._stack.enter_async_context(proxy)
        through = {pair: proxy.port for pair, proxy in self.proxies.items()}
        self.configs = configs(
            self.links, self.ports, through, self.names, self._priorities, **self._settings
        )
        for name, own in self._per_broker.items():
            self.configs[name] = replace(self.configs[name], **own)
        try:
            for name in self.names:
                await self.start(name)
            await self.linked(self._waits_for)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.gather(*(self.stop(name) for name in list(self.brokers)))
        await self._stack.aclose()

    async def start(self, name: str) -> Broker:
        """Start a broker, again with its old port."""
        broker = self.brokers[name] = Broker(self.configs[name])
        await broker.start()
        return broker

    async def stop(self, name: str) -> None:
        """Stop a broker; the network goes on without it."""
        await self.brokers.pop(name).stop()

    def open_links(self, name: str) -> set[str]:
        """Return the neighbours with which a broker's router exchanges subscriptions."""
        broker = self.brokers[name]
        return set(broker.core.router.trees[0].neighbours()) & set(broker.core.neighbours.attached)

    async def linked(self, links: Iterable[Pair] | None = None, limit_s: float = 30.0) -> None:
        """Return once all these links are open at both ends."""
        wanted = self.links if links is None else list(links)

        def all_open() -> bool:
            return all(b in self.open_links(a) and a in self.open_links(b) for a, b in wanted)

        await eventually(all_open, limit_s, "links are open")

    def url(self, name: str) -> str:
        """Return a broker's address."""
        return f"covey://127.0.0.1:{self.ports[name]}"

    def client(self, name: str, **settings: Any) -> Client:
        """Return a client of a broker, to be entered."""
        return connect(self.url(name), **settings)

    def tables(self) -> dict[str, list[tuple[str, str]]]:
        """Return what each broker knows from its neighbours, as link and filter, sorted."""
        return {
            name: sorted((link, str(filter)) for link, filter in broker.core.router.remote_entries())
            for name, broker in self.brokers.items()
        }
