"""The programs of a measured network, each in a process of its own, forked from one that has everything loaded.

A program is told what to do through a pipe and answers through it. Times are of the clock that all processes share.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import time
from collections.abc import Awaitable, Callable
from math import nan
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

from covey.bench.network_ends import CoveyEnd, End, published_ns
from covey.broker.daemon import loop_factory
from covey.errors import CoveyError

PACE_S: Final = 0.001  # between two batches of a paced publisher
PATIENCE_S: Final = 60.0

_fork = multiprocessing.get_context("fork")


class Served(NamedTuple):
    """Servers that run: where to publish and where to subscribe, and the processes that do the work."""

    ports: tuple[int, int]
    pids: tuple[int, ...] = ()  # none, where they cannot be told

    def cpu_s(self) -> float:
        """Return the CPU time that the servers have used so far; not a number where that cannot be known."""
        try:
            return sum(map(_cpu_s, self.pids)) if self.pids else nan
        except OSError:  # no /proc on this system
            return nan


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # in user and in system mode


class Program:
    """One process and the pipe to it; `with` ends it."""

    def __init__(
        self, main: Callable[..., Awaitable[None]], *arguments: Any, patience_s: float = PATIENCE_S
    ) -> None:
        self._patience_s = patience_s
        self._pipe, there = _fork.Pipe()
        self._process = _fork.Process(target=_run, args=(main, there, *arguments), daemon=True)
        self._process.start()
        there.close()
        self.expect("ready")

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    def say(self, what: Any) -> None:
        """Tell the program something."""
        self._pipe.send(what)

    def expect(self, what: str = "") -> Any:
        """Return what it says next, which must be `what` if that is given; CoveyError if it says nothing."""
        if not self._pipe.poll(self._patience_s):
            raise CoveyError("a program of the measurement does not answer")
        try:
            said = self._pipe.recv()
        except EOFError:
            raise CoveyError("a program of the measurement has ended") from None
        if what and said != what:
            raise CoveyError(f"a program of the measurement says {said!r:.200}")
        return said

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.join(10)
        self._pipe.close()


def _run(main: Callable[..., Awaitable[None]], pipe: Connection, *arguments: Any) -> None:
    # What was loaded before the fork is never garbage.
    gc.freeze()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_reporting(main, pipe, *arguments))


async def _reporting(main: Callable[..., Awaitable[None]], pipe: Connection, *arguments: Any) -> None:
    try:
        await main(pipe, *arguments)
    except (CoveyError, OSError) as error:
        pipe.send(f"{type(error).__name__}: {error}")


async def _hear(pipe: Connection) -> Any:
    """Return what is said next, without holding up the loop."""
    return await asyncio.get_running_loop().run_in_executor(None, pipe.recv)


async def publisher(pipe: Connection, make: Callable[[], End], port: int) -> None:
    """Publish what is asked for, (count, events a second or 0 for all at once), and say when it began."""
    end = make()
    await end.open(port)
    await end.announce()
    pipe.send("ready")
    while True:
        count, rate = await _hear(pipe)
        start_s = time.monotonic()
        if rate:
            await _paced(end, count, rate, start_s)
        else:
            await end.publish(range(count))
        await end.flush()
        pipe.send((start_s, time.monotonic(), time.process_time()))


async def _paced(end: End, count: int, rate: float, start_s: float) -> None:
    done = 0
    while done < count:
        due = min(count, int((time.monotonic() - start_s) * rate) + 1)
        if due > done:
            await end.publish(range(done, due))
            done = due
        await asyncio.sleep(PACE_S)


class Received(NamedTuple):
    """What a subscriber saw: how many events, when the last came, and how long each took."""

    events: int
    last_s: float
    delays_us: list[float]
    cpu_s: float


async def subscriber(pipe: Connection, make: Callable[[], End], port: int, connections: int) -> None:
    """Receive as many events as is asked for, (count, whether to note how long each took), and say what was seen."""
    delays_us: list[float] = []
    seen, last_s, timed = 0, 0.0, False

    def take(payload: bytes) -> None:
        nonlocal seen, last_s
        seen += 1
        if timed:
            delays_us.append((time.monotonic_ns() - published_ns(payload)) / 1e3)
        elif not seen % 64:
            last_s = time.monotonic()

    ends = [make() for _ in range(connections)]
    for end in ends:
        await end.open(port)
        await end.subscribe(take)
    pipe.send("ready")
    while True:
        count, timed = await _hear(pipe)
        until_s = time.monotonic() + PATIENCE_S / 2
        while seen < count and time.monotonic() < until_s:
            await asyncio.sleep(0.01)
        pipe.send(Received(seen, last_s, delays_us.copy(), time.process_time()))
        seen = 0
        delays_us.clear()


async def others(pipe: Connection, port: int, count: int) -> None:
    """Subscribe to what nobody publishes, and stay."""
    end = CoveyEnd()
    await end.open(port)
    await end.subscribe_others(range(count))
    pipe.send("ready")
    await asyncio.get_running_loop().create_future()
