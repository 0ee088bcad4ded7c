"""The broker as a process: it runs until a signal ends it, and says when it listens and is ready.

SIGTERM, SIGINT      drain and end; a second one ends at once
SIGUSR2              be a lame duck: send clients away one after another, then drain and end
SIGHUP               read the configuration again, and take what can change while the broker runs
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable
from typing import Any, Final

from covey.broker.config import BrokerConfig
from covey.broker.garbage import Garbage
from covey.broker.server import Broker
from covey.errors import CoveyError

log = logging.getLogger("covey.broker")

POLL_S: Final = 0.01

Report = Callable[[str], None]
Reread = Callable[[], BrokerConfig]


def _say_nothing(news: str) -> None:
    pass


class Daemon:
    """One broker and the signals that concern it. `reread` gives the configuration as it is now."""

    def __init__(
        self,
        config: BrokerConfig,
        report: Report = _say_nothing,
        *,
        listening: socket.socket | None = None,
        reread: Reread | None = None,
    ) -> None:
        self.broker = Broker(config, listening)
        self._report = report
        self._reread = reread
        self._ending = asyncio.Event()
        self._spread_s = 0.0
        self._is_draining = False

    async def run(self) -> None:
        """Run until a signal ends it; `report` hears "listening PORT", "ready", "linked", "draining" and "ended"."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.end)
        loop.add_signal_handler(signal.SIGUSR2, self.be_lame)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        await self.broker.start()
        garbage = Garbage()
        self._report(f"listening {self.broker.port}")
        becoming_ready = loop.create_task(self._become_ready())
        await self._ending.wait()
        becoming_ready.cancel()
        self._report("draining")
        self._is_draining = True
        await self.broker.drain(self.broker.config.drain_s, self._spread_s)
        await asyncio.gather(becoming_ready, return_exceptions=True)
        await self.broker.stop()
        garbage.close()
        self._report("ended")

    async def _become_ready(self) -> None:
        while not self.broker.is_ready:
            await asyncio.sleep(POLL_S)
        self.broker.say(logging.INFO, "ready")
        self._report("ready")
        neighbours = self.broker.core.neighbours
        while not all(map(neighbours.is_open, neighbours.records)):
            await asyncio.sleep(POLL_S)
        self._report("linked")

    def end(self) -> None:
        """Drain and end; at once, if it is draining already."""
        if self._is_draining:
            self.broker.abort()
        self._ending.set()

    def be_lame(self) -> None:
        """Send clients away one after another, then end."""
        self._spread_s = self.broker.config.lame_duck_s
        self._ending.set()

    def reload(self) -> None:
        """Take the configuration as it is now, as far as a running broker can; a wrong one changes nothing."""
        try:
            if self._reread is None:
                raise CoveyError("there is no file to read it from")
            refused = self.broker.reconfigure(self._reread())
        except CoveyError as error:
            self.broker.say(logging.ERROR, "settings refused", reason=error)
            self._report(f"refused {error}")
            return
        for line in refused:
            self.broker.say(logging.WARNING, "setting refused", reason=line)
            self._report(f"refused {line}")
        self._report("reloaded")


async def serve(config: BrokerConfig, report: Report = _say_nothing, **settings: Any) -> None:
    """Run a broker until a signal ends it; see `Daemon`."""
    await Daemon(config, report, **settings).run()


def run(config: BrokerConfig, report: Report = _say_nothing, **settings: Any) -> None:
    """Run a broker in an event loop of its own, a fast one where there is one."""
    logging.getLogger("covey").setLevel(config.log_level.upper())
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(config, report, **settings))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes fast event loops, None for the standard library's."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
