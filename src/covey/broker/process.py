"""The broker as a process: it runs until a signal ends it, and says when it listens and is ready.

SIGTERM, SIGINT      drain and end; a second one ends at once
SIGUSR2              be a lame duck: send clients away one after another, then drain and end
SIGHUP               read the configuration again, and take what can change while the broker runs

`Family` is several brokers as children of one process that has everything compiled: a start takes milliseconds. The
parent opens all sockets first, so that every broker knows where its neighbours listen before any of them runs, and free
ports stay free. It hears from each child through a pipe. A child that loses its parent drains and ends.

Garbage without long pauses: what a broker keeps is not looked through again and again. Python's collector looks for
circles among all objects, and with many subscriptions that takes longer than an event may wait. What a broker holds for
long is freed by its counts alone; circles are rare, of errors mostly. So what has lived for some seconds is set aside,
where the collector does not look, and everything is looked through once an hour.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from covey.broker.admission import descriptors_of
from covey.broker.config import BrokerConfig
from covey.broker.server import Broker
from covey.broker.warming import warm_up
from covey.errors import CoveyError

ASIDE_S: Final = 5.0
EVERYTHING_S: Final = 3_600.0
# The collector looks through new objects when there are 1,000 more than before. While others are let go of, as when
# a client with many subscriptions leaves, that may not be for long, and then there are 100,000. So it also does after
# some turns of work: never more than a few thousand, in about a millisecond. Those that outlive that are old.
THRESHOLDS: Final = (1_000, 3, 1_000_000)
TURNS: Final = 8


class Garbage:
    """The collector of one process; `close` gives it back as it was."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._before = gc.get_threshold()
        self._next_s = self._loop.time() + EVERYTHING_S
        self._turns = 0
        gc.set_threshold(*THRESHOLDS)
        gc.freeze()
        self._timer = self._loop.call_later(ASIDE_S, self._tick)

    def _tick(self) -> None:
        if self._loop.time() >= self._next_s:
            self._next_s = self._loop.time() + EVERYTHING_S
            gc.unfreeze()
            gc.collect()
        gc.freeze()
        self._timer = self._loop.call_later(ASIDE_S, self._tick)

    def turned(self) -> None:
        """A broker has worked for a turn."""
        self._turns += 1
        if self._turns >= TURNS:
            self._turns = 0
            gc.collect(1)

    def close(self) -> None:
        """Look at everything again."""
        self._timer.cancel()
        gc.unfreeze()
        gc.set_threshold(*self._before)


log = logging.getLogger("covey.broker")

POLL_S: Final = 0.01

Report = Callable[[str], None]
Reread = Callable[[], BrokerConfig]


def _say_nothing(news: str) -> None:
    pass


def raise_descriptors(config: BrokerConfig) -> None:
    """Let this process have as many descriptors as its settings want, as far as the system allows."""
    wanted = descriptors_of(config)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted and soft != resource.RLIM_INFINITY:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


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
        raise_descriptors(config)
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
        self.broker.after_work = garbage.turned
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


@dataclass
class Child:
    """One broker's process, and what it has reported."""

    name: str
    pid: int
    news: int  # the pipe's end
    said: list[str] = field(default_factory=list)
    is_alive: bool = True

    def has_said(self, word: str) -> bool:
        """Return whether it has reported something that begins with this word."""
        return any(line.split()[0] == word for line in self.said)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; CoveyError if that cannot be."""
    try:
        return socket.create_server((host, port), backlog=1024, reuse_port=False)
    except OSError as error:
        raise CoveyError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None


class Family:
    """The brokers of an overlay as processes of this machine."""

    def __init__(self) -> None:
        self.children: list[Child] = []
        self._life_read, self._life_write = os.pipe()  # whose end children notice
        self._selector = selectors.DefaultSelector()

    def start(self, configs: Mapping[str, BrokerConfig], sockets: Mapping[str, socket.socket]) -> None:
        """Fork a process for each broker, which is given its socket."""
        warm_up()
        for name, config in configs.items():
            news, report = os.pipe()
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                os.close(news)
                os.close(self._life_write)
                for other, one in sockets.items():
                    if other != name:
                        one.close()
                _child(config, sockets[name], report, self._life_read)
            os.close(report)
            child = Child(name, pid, news)
            self.children.append(child)
            self._selector.register(news, selectors.EVENT_READ, child)
        for one in sockets.values():
            one.close()

    def listen(self, seconds: float) -> list[tuple[Child, str]]:
        """Wait for news, at most so long; return who said what. "gone" is said of who has ended."""
        news: list[tuple[Child, str]] = []
        for key, _ in self._selector.select(seconds):
            child: Child = key.data
            data = os.read(child.news, 65_536)
            if data:
                lines = data.decode().splitlines()
            else:
                lines = ["gone"]
                child.is_alive = False
                self._selector.unregister(child.news)
                os.close(child.news)
                os.waitpid(child.pid, 0)
            child.said += lines
            news += [(child, line) for line in lines]
        return news

    def wait(self, said: str, within_s: float) -> None:
        """Return once all children have said this; CoveyError if one ends before or it takes too long."""
        until_s = time.monotonic() + within_s
        while missing := [child for child in self.children if not child.has_said(said)]:
            for child in missing:
                if not child.is_alive:
                    raise CoveyError(f"broker {child.name} has ended before it was {said}")
            if time.monotonic() > until_s:
                raise CoveyError(f"broker {missing[0].name} is not {said} within {within_s:g} s")
            self.listen(0.1)

    def signal(self, number: int) -> None:
        """Send a signal to all."""
        for child in self.children:
            if child.is_alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.pid, number)

    def stop(self, within_s: float) -> None:
        """Let all drain and end; end at once who does not in time."""
        self.signal(signal.SIGTERM)
        until_s = time.monotonic() + within_s
        while any(child.is_alive for child in self.children):
            if time.monotonic() > until_s:
                self.signal(signal.SIGKILL)
            self.listen(0.05)
        self._selector.close()
        os.close(self._life_read)
        os.close(self._life_write)


def _child(config: BrokerConfig, listening: socket.socket, report: int, life: int) -> NoReturn:
    """Be a broker until it ends; nothing of the parent's is run or flushed here."""
    code = 1
    try:
        os.setsid()  # a terminal's Ctrl-C is for the parent, which then ends us
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)

        def say(line: str) -> None:
            with contextlib.suppress(OSError):
                os.write(report, f"{line}\n".encode())

        async def main() -> None:
            daemon = Daemon(config, say, listening=listening)
            asyncio.get_running_loop().add_reader(life, daemon.end)
            try:
                await daemon.run()
            finally:
                asyncio.get_running_loop().remove_reader(life)

        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(main())
        code = 0
    except CoveyError as error:
        print(f"covey: {error}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(code)
