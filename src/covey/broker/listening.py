"""Listening: sockets from which a broker accepts streams itself, so that each counts from its first moment.

The event loop's own servers say nothing of a stream before its TLS handshake is done, and go on accepting while they
can. A `Listener` hands over every stream as soon as it is accepted. When the process has no descriptors left, it says
so and accepts nothing for a moment: streams wait in the system's queue.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

BACKLOG: Final = 1_024  # streams that wait to be accepted
AT_ONCE: Final = 8  # that are accepted in one turn of the loop, of which each takes a tenth of a millisecond
PAUSE_S: Final = 1.0  # without descriptors or memory

_SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

Accepted = Callable[[socket.socket, Any], None]
Say = Callable[..., None]


async def bound_sockets(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen at all addresses of a host; OSError if that cannot be."""
    infos = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(infos):
            one = socket.socket(family, kind, protocol)
            sockets.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(address)
            one.listen(BACKLOG)
    except OSError:
        for one in sockets:
            one.close()
        raise
    return sockets


class Pace:
    """Lets so much go on in one turn of the event loop, in its order, so that a crowd does not hold up the others."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun = 0  # in this turn
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def turn(self, weight: int = 1) -> None:
        """Return when it is the caller's turn; what weighs more than a turn's all has one to itself."""
        loop = asyncio.get_running_loop()
        if self._begun == 0:
            loop.call_soon(self._next)
        if not self._waiting and self._fits(weight):
            self._begun += weight
            return
        waiting: asyncio.Future[None] = loop.create_future()
        self._waiting.append((waiting, weight))
        await waiting

    def _fits(self, weight: int) -> bool:
        return self._begun == 0 or self._begun + weight <= self._most

    def _next(self) -> None:
        self._begun = 0
        while self._waiting and self._fits(self._waiting[0][1]):
            one, weight = self._waiting.popleft()
            if not one.done():  # else it has been cancelled
                one.set_result(None)
                self._begun += weight
        if self._begun:
            asyncio.get_running_loop().call_soon(self._next)


class Listener:
    """Accepts streams from sockets that listen, and gives each to `accepted` with its peer's address."""

    def __init__(self, sockets: Sequence[socket.socket], accepted: Accepted, say: Say) -> None:
        self._loop = asyncio.get_running_loop()
        self._sockets = list(sockets)
        self._accepted = accepted
        self._say = say
        self._timer: asyncio.TimerHandle | None = None
        self._is_short = False
        self.port = int(self._sockets[0].getsockname()[1])
        for one in self._sockets:
            one.setblocking(False)
        self._watch()

    def close(self) -> None:
        """Accept nobody any longer; who waits to be accepted is reset."""
        if self._timer is not None:
            self._timer.cancel()
        else:
            self._unwatch()
        for one in self._sockets:
            one.close()
        self._sockets = []

    def _watch(self) -> None:
        self._timer = None
        for one in self._sockets:
            self._loop.add_reader(one, self._accept, one)

    def _unwatch(self) -> None:
        for one in self._sockets:
            self._loop.remove_reader(one)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                stream, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _SHORTAGES:
                    raise
                self._pause(error)
                return
            self._is_short = False
            stream.setblocking(False)
            if stream.family != socket.AF_UNIX:
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._accepted(stream, address)
            if not self._sockets:
                return  # it was closed meanwhile

    def _pause(self, error: OSError) -> None:
        if not self._is_short:
            self._is_short = True
            self._say(logging.ERROR, "accepting pauses", reason=error.strerror, hint="a higher ulimit -n")
        self._unwatch()
        self._timer = self._loop.call_later(PAUSE_S, self._watch)
