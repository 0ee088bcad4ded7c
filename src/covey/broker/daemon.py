"""The broker as a process: it runs until a signal ends it, and says when it listens.

SIGTERM, SIGINT      end
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from covey.broker.config import BrokerConfig
from covey.broker.server import Broker

Report = Callable[[str], None]


def _say_nothing(news: str) -> None:
    pass


async def serve(config: BrokerConfig, report: Report = _say_nothing) -> None:
    """Run a broker until a signal ends it; `report` hears "listening PORT", "ready" and "ended"."""
    loop = asyncio.get_running_loop()
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    async with Broker(config) as broker:
        report(f"listening {broker.port}")
        report("ready")
        await ending.wait()
    report("ended")
