"""Brokers on threads of the tests' own process, and clients that publish to them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar

from covey.broker.config import BrokerConfig
from covey.broker.server import Broker
from covey.client.sync import SyncClient, connect_sync

T = TypeVar("T")


class Loop:
    """An event loop in a thread of its own, for brokers and clients beside whatever the test does."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], limit_s: float = 60.0) -> T:
        """Return what a coroutine returns there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(limit_s)

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30.0)
        self._loop.close()


class Running:
    """A broker that runs."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.url = f"covey://127.0.0.1:{broker.port}"

    @contextmanager
    def client(self, **options: Any) -> Iterator[SyncClient]:
        """Yield a client of it."""
        with connect_sync(self.url, **options) as client:
            yield client


@contextmanager
def running(name: str = "paris", data_dir: Path | None = None, **settings: Any) -> Iterator[Running]:
    """Yield a broker that listens; it ends with the block."""
    config = BrokerConfig(name, port=0, data_dir=str(data_dir) if data_dir else "")
    loop, stack = Loop(), AsyncExitStack()
    try:
        made = stack.enter_async_context(Broker(replace(config, **settings)))
        yield Running(loop.run(made, limit_s=300))  # the first time ever everything is compiled
    finally:
        loop.run(stack.aclose())
        loop.close()


def until(condition: Callable[[], Any], limit_s: float = 30.0) -> None:
    """Return once the condition holds; AssertionError if it does not in time."""
    until_s = monotonic() + limit_s
    while not condition():
        assert monotonic() < until_s, f"not within {limit_s:g} s"
        sleep(0.02)


@contextmanager
def publishing(broker: Running, make: Callable[[int], Any], a_second: int = 1_000) -> Iterator[None]:
    """Publish the events 0, 1, 2 and so on while the block runs."""
    is_over = threading.Event()

    def work() -> None:
        with broker.client() as client:
            number = 0
            while not is_over.wait(0.01):
                client.publish_many([make(number + one) for one in range(a_second // 100)])
                number += a_second // 100

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(30)
