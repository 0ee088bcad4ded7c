"""Coroutines with a time limit, and waiting for something to become true."""

from __future__ import annotations

import asyncio
import socket
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import count
from os import getpid
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

# Below the ports that the system gives to outgoing connections, so that none of those takes one in between.
_PORTS = count(12_000 + getpid() * 97 % 15_000)


class Done(NamedTuple):
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str


def run(main: Coroutine[Any, Any, T], limit_s: float = 60.0) -> T:
    """Run a coroutine in a loop of its own; TimeoutError if it takes longer, AssertionError if a callback fails."""
    failures: list[str] = []

    async def limited() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(_text(context)))
        async with asyncio.timeout(limit_s):
            return await main

    result = asyncio.run(limited())
    assert not failures, failures[0]
    return result


def _text(context: dict[str, Any]) -> str:
    error = context.get("exception")
    trace = "".join(traceback.format_exception(error)) if error is not None else ""
    return f"{context.get('message')}\n{trace}"


async def eventually(
    condition: Callable[[], Any], limit_s: float = 30.0, what: str = "", pause_s: float = 0.01
) -> None:
    """Return once the condition holds; AssertionError if it does not in time."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + limit_s
    while not condition():
        assert loop.time() < until_s, f"not within {limit_s:g} s: {what or condition}"
        await asyncio.sleep(pause_s)


class Punctuality:
    """Whether the event loop ran when it should; on a machine that is busy with others it may not."""

    def __init__(self) -> None:
        self.latest_s = 0.0  # the longest that anything had to wait

    @property
    def is_good(self) -> bool:
        """Whether what was timed in this process means anything."""
        return self.latest_s < 0.1


@asynccontextmanager
async def punctuality() -> AsyncIterator[Punctuality]:
    """Watch the event loop."""
    found = Punctuality()
    loop = asyncio.get_running_loop()

    async def watch() -> None:
        while True:
            due_s = loop.time() + 0.01
            await asyncio.sleep(0.01)
            found.latest_s = max(found.latest_s, loop.time() - due_s)

    watching = loop.create_task(watch())
    try:
        yield found
    finally:
        watching.cancel()


def free_port() -> int:
    """Return a port on which nobody listens, another one at each call."""
    for number in _PORTS:
        port = 10_000 + (number - 10_000) % 20_000
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("there is always another number")
