"""Brokers in this process over real sockets, with a limit on how long a test may take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from covey.broker.config import BrokerConfig, LinkConfig
from covey.broker.server import Broker
from covey.matching.index import warm_up

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T], within_s: float = 30.0) -> T:
    """Run a test's coroutine; TimeoutError if it does not end."""

    warm_up()  # compiles, the first time on a machine

    async def limited() -> T:
        return await asyncio.wait_for(work, within_s)

    return asyncio.run(limited())


async def until(condition: Callable[[], object], within_s: float = 10.0) -> None:
    """Return once the condition holds; TimeoutError if it does not come to hold."""
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.01)


async def eventually(ask: Callable[[], Awaitable[object]], within_s: float = 10.0) -> None:
    """Return once what is asked for is true; TimeoutError if it does not come to be."""
    async with asyncio.timeout(within_s):
        while not await ask():
            await asyncio.sleep(0.02)


def url(broker: Broker) -> str:
    """Return where clients reach a broker."""
    return f"covey://127.0.0.1:{broker.port}"


def dialling(name: str, neighbour: Broker, **settings: Any) -> BrokerConfig:
    """Return the settings of a broker that dials another."""
    link = LinkConfig(neighbour.config.name, "127.0.0.1", neighbour.port)
    return BrokerConfig(name, port=0, links=(link,), **settings)


def is_linked(broker: Broker, name: str) -> bool:
    """Return whether the link to a neighbour is up and open."""
    return any(name in part.neighbours() for part in broker.exchange.router.trees.values())
