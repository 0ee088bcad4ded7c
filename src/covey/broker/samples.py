"""When samples are written: now and then, in a thread, so that no disk delays an event."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from pathlib import Path

from covey.broker.config import BrokerConfig
from covey.broker.exchange import Exchange
from covey.broker.logs import say
from covey.broker.sampling import Sampler
from covey.core.filter import Filter
from covey.errors import ConfigError
from covey.extras import require
from covey.routing.messages import Key

log = logging.getLogger("covey.broker")


class Samples:
    """The sampler of one broker, and its timetable; ConfigError if there is nowhere to write to."""

    def __init__(self, exchange: Exchange, config: BrokerConfig) -> None:
        if not config.data_dir:
            raise ConfigError("sample needs a data_dir, where samples go")
        require("spark", "the setting sample")  # they are Parquet files
        self._exchange = exchange
        self._links = [link.name for link in config.links]
        self.sampler = Sampler(config.name, Path(config.data_dir) / "samples", config.sample)
        exchange.sampler = self.sampler
        self._writing: asyncio.Future[None] | None = None
        self._next_s = 0.0

    def tick(self, loop: asyncio.AbstractEventLoop, every_s: float) -> None:
        """Begin to write, if it is time to."""
        self._exchange.time_s = time.time()
        now_s = loop.time()
        if not self._next_s:
            self._next_s = now_s + every_s
        if now_s >= self._next_s and (self._writing is None or self._writing.done()):
            self._next_s = now_s + every_s
            self._writing = self._write(loop)

    async def close(self, loop: asyncio.AbstractEventLoop) -> None:
        """Write what is left."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await asyncio.wait([self._write(loop)])

    def _write(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        router = self._exchange.router
        subscriptions = router.local_subscriptions()
        advertisements: dict[Key, Filter] = {}
        for link in subscriptions:
            advertisements.update(router.advertised_by(link))
        work = partial(
            self.sampler.write, self.sampler.take(), subscriptions, advertisements, list(self._links)
        )
        writing = asyncio.ensure_future(loop.run_in_executor(None, work))
        writing.add_done_callback(self._written)
        return writing

    def _written(self, writing: asyncio.Future[None]) -> None:
        error = None if writing.cancelled() else writing.exception()
        if error is not None:
            say(log, logging.ERROR, "samples not written", broker=self.sampler.broker, reason=error)
