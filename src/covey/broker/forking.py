"""Brokers as children of one process that has everything compiled: a start takes milliseconds.

The parent opens all sockets first, so that every broker knows where its neighbours listen before any of them runs, and
free ports stay free. It hears from each child through a pipe. A child that loses its parent drains and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from covey.broker.config import BrokerConfig
from covey.broker.daemon import Daemon, loop_factory
from covey.broker.warming import warm_up
from covey.errors import CoveyError


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
