"""Dialling neighbours: again and again, with growing pauses of random length, until they answer."""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import Callable
from typing import Final

from covey.broker.config import LinkConfig
from covey.broker.logs import say
from covey.protocol.stream import Stream

log = logging.getLogger("covey.broker")

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 10.0
STEADY_S: Final = 1.0  # that a link must have lasted for the next pause to be short
CONNECT_S: Final = 10.0  # within which the other machine answers


class Dialler:
    """One neighbour that is dialled by us, while `is_needed`: it may have dialled us, too."""

    def __init__(
        self,
        broker: str,
        link: LinkConfig,
        make: Callable[[LinkConfig], Stream],
        say_hello: Callable[[Stream, LinkConfig], None],
        is_needed: Callable[[], bool],
        tls: Callable[[], ssl.SSLContext | None] = lambda: None,
    ) -> None:
        self.link = link
        self.tries = 0
        self._broker = broker
        self._make = make
        self._say_hello = say_hello
        self._is_needed = is_needed
        self._tls = tls
        self._closed = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Dial no more."""
        self.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def cancel(self) -> None:
        """Dial no more, from the next turn of the loop on."""
        self._task.cancel()

    def closed(self) -> None:
        """The connection is gone."""
        self._closed.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        pause_s = FIRST_PAUSE_S
        while True:
            self._closed.clear()
            if not self._is_needed():
                await asyncio.sleep(FIRST_PAUSE_S)
                continue
            try:
                async with asyncio.timeout(CONNECT_S):
                    _, connection = await loop.create_connection(
                        lambda: self._make(self.link), self.link.host, self.link.port, ssl=self._tls()
                    )
            except (OSError, TimeoutError) as error:
                say(
                    log,
                    logging.DEBUG,
                    "neighbour not reached",
                    broker=self._broker,
                    link=self.link.name,
                    reason=error,
                )
            else:
                began_s = loop.time()
                self._say_hello(connection, self.link)
                await self._closed.wait()
                if loop.time() - began_s > STEADY_S:
                    pause_s = FIRST_PAUSE_S
            self.tries += 1
            await asyncio.sleep(pause_s * (0.5 + secrets.randbelow(1000) / 1000))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
