"""Brokers on a thread of the tests' own process, and clients that publish to them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import Queue
from time import monotonic, sleep
from typing import Any

from covey.broker.config import BrokerConfig
from covey.broker.server import Broker
from covey.client.sync import SyncClient, connect_sync


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
    began: Queue[tuple[Running, asyncio.AbstractEventLoop, asyncio.Event] | BaseException] = Queue()
    config = BrokerConfig(name, port=0, data_dir=str(data_dir) if data_dir else "")
    config = replace(config, **settings)

    async def serve() -> None:
        async with Broker(config) as broker:
            ending = asyncio.Event()
            began.put((Running(broker), asyncio.get_running_loop(), ending))
            await ending.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            began.put(error)
            raise

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    one = began.get(timeout=300)  # the first time ever everything is compiled
    if isinstance(one, BaseException):
        raise one
    try:
        yield one[0]
    finally:
        one[1].call_soon_threadsafe(one[2].set)
        thread.join(30)


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
