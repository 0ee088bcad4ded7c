"""Brokers as processes, forked from one that has everything compiled: a start takes milliseconds, not seconds.

with Nursery() as nursery:                   (outside of any event loop; tests use the fixture `nursery`)
    process = nursery.start(config)
    process.wait("listening")
    process.kill()                           SIGKILL; also .stop() SIGSTOP, .go_on() SIGCONT, .end() SIGTERM

The nursery ends its brokers when it ends, and when the process that started it is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from struct import Struct
from typing import Any

from covey.broker.config import BrokerConfig
from covey.broker.process import serve
from covey.broker.warming import warm_up

_LENGTH = Struct("<I")


def _serve(config: BrokerConfig, report: Callable[[str], None]) -> None:
    asyncio.run(serve(config, report))


class Process:
    """One broker's process."""

    def __init__(self, pid: int, news: Path) -> None:
        self.pid = pid
        self._news = news

    def said(self) -> str:
        """Return what it has reported: lines such as "listening 7400", and how it failed, if it did."""
        return self._news.read_text() if self._news.exists() else ""

    def wait(self, what: str, limit_s: float = 30.0) -> None:
        """Return once it has reported this; AssertionError if it does not in time."""
        until_s = time.monotonic() + limit_s
        while what not in self.said():
            assert time.monotonic() < until_s, f"not {what} within {limit_s:g} s, but: {self.said()}"
            time.sleep(0.005)

    @property
    def is_alive(self) -> bool:
        """Whether the process is there."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def wait_gone(self, limit_s: float = 30.0) -> None:
        """Return once the process has ended."""
        until_s = time.monotonic() + limit_s
        while self.is_alive:
            assert time.monotonic() < until_s, f"process {self.pid} does not end: {self.said()}"
            time.sleep(0.005)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.signal(signal.SIGKILL)
        self.wait_gone()

    def stop(self) -> None:
        """Let it do nothing for now."""
        self.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        self.signal(signal.SIGCONT)

    def end(self) -> None:
        """Ask it to end."""
        self.signal(signal.SIGTERM)


class Nursery:
    """A process that forks brokers; see the module's text."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="covey-nursery-")
        self._started = 0
        self._pid = 0
        self._socket: socket.socket

    def __enter__(self) -> Nursery:
        ours, theirs = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            ours.close()
            _forked(lambda: _run_nursery(theirs))
        theirs.close()
        self._socket = ours
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()
        os.waitpid(self._pid, 0)
        self._folder.cleanup()

    def start(self, config: BrokerConfig) -> Process:
        """Fork a broker."""
        return self.run(_serve, config)

    def run(self, call: Callable[..., None], *arguments: Any) -> Process:
        """Fork a process that makes a call; its last argument is a function with which it can report."""
        self._started += 1
        news = Path(self._folder.name) / f"{self._started}"
        _send(self._socket, (call, arguments, news))
        return Process(_receive(self._socket), news)


def _run_nursery(commands: socket.socket) -> None:
    warm_up()
    # Brokers with admin pages would each load aiohttp: a second of CPU time, of which a busy machine has few.
    import_module("covey.broker.http.admin")
    import_module("covey.broker.http.events")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever ends is gone at once
    children: list[int] = []
    with contextlib.suppress(EOFError):
        while True:
            call, arguments, news = _receive(commands)
            pid = os.fork()
            if pid == 0:
                commands.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _forked(lambda: _call(call, arguments, news))  # noqa: B023 (it runs now)
            children.append(pid)
            _send(commands, pid)
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _call(call: Callable[..., None], arguments: tuple[Any, ...], news: Path) -> None:
    def report(line: str) -> None:
        with news.open("a") as file:
            file.write(line + "\n")

    try:
        call(*arguments, report)
    except BaseException:
        report(traceback.format_exc())
        raise


def _forked(main: Callable[[], None]) -> None:
    """Run the child's part and end the process: nothing of the parent's is run, flushed or cleaned up here."""
    code = 1
    try:
        main()
        code = 0
    except BaseException:  # noqa: BLE001 (the process ends here, whatever it was)
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(code)


def _send(to: socket.socket, value: Any) -> None:
    data = pickle.dumps(value)
    to.sendall(_LENGTH.pack(len(data)) + data)


def _receive(come_from: socket.socket) -> Any:
    (length,) = _LENGTH.unpack(_exactly(come_from, _LENGTH.size))
    return pickle.loads(_exactly(come_from, length))


def _exactly(come_from: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = come_from.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
