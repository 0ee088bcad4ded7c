"""Brokers on a thread of the tests' own process, and clients that publish to them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
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
    began: list[Running | BaseException] = []
    has_begun = threading.Event()
    loop = asyncio.new_event_loop()
    ending = asyncio.Event()
    config = BrokerConfig(name, port=0, data_dir=str(data_dir) if data_dir else "", **settings)

    async def serve() -> None:
        try:
            async with Broker(config) as broker:
                began.append(Running(broker))
                has_begun.set()
                await ending.wait()
        except BaseException as error:
            began.append(error)
            raise
        finally:
            has_begun.set()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    has_begun.wait(300)  # the first time ever everything is compiled
    one = began[0]
    assert isinstance(one, Running), one
    try:
        yield one
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join(30)
        loop.close()


def until(condition: Callable[[], Any], limit_s: float = 30.0) -> None:
    """Return once the condition holds; AssertionError if it does not in time."""
    until_s = monotonic() + limit_s
    while not condition():
        assert monotonic() < until_s, f"not within {limit_s:g} s"
        sleep(0.02)
