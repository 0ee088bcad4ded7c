"""A TCP proxy between two ends of a link, with which the link can fail in the ways that links do.

cut          all connections are reset, and new ones refused until `heal`
stall        nothing passes, both ways or one way, and nobody is told: what a partition is to both ends
throttle     what passes takes its time
half_close   whoever dialled hears the end of the stream; what it says still passes
corrupt      some bytes are inserted into what passes next, towards the listener
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

DIALLER: Final = "dialler"
LISTENER: Final = "listener"


class _End(asyncio.Protocol):
    """One of the two streams of a connection through the proxy."""

    def __init__(self, proxy: Proxy, other: _End | None = None) -> None:
        self.proxy = proxy
        self.other = other
        self.is_dialler = other is None
        self.transport: Any = None
        self.waiting: list[bytes] = []  # for the other end to be there
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.proxy.ends.add(self)
        if not self.is_dialler:
            assert self.other is not None
            self.other.other = self
            for data in self.other.waiting:
                self.transport.write(data)
            if self.other.ended:
                with suppress(OSError):  # the listener is gone already
                    self.transport.write_eof()
            if self.is_stalled:
                self.transport.pause_reading()
        elif self.proxy.is_cut:
            self.transport.abort()
        else:
            if self.is_stalled:
                self.transport.pause_reading()
            self.proxy.accepted += 1
            self.proxy.dial(self)

    @property
    def is_stalled(self) -> bool:
        """Whether what this end says does not pass."""
        return (DIALLER if self.is_dialler else LISTENER) in self.proxy.stalled

    def resume(self) -> None:
        """Let pass what this end says, unless that is stalled."""
        if not self.is_stalled and not self.transport.is_closing():
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self.proxy.bytes_per_s:
            self.transport.pause_reading()
            asyncio.get_running_loop().call_later(len(data) / self.proxy.bytes_per_s, self.resume)
        if self.is_dialler and self.proxy.garbage:
            data = self.proxy.garbage + data
            self.proxy.garbage = b""
        if self.other is None:
            self.waiting.append(data)
        elif not self.other.transport.is_closing():
            self.proxy.passed += len(data)
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        self.ended = True
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.write_eof()
        return True  # the other direction goes on

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self.proxy.ends.discard(self)
        if self.other is not None and not self.other.transport.is_closing():
            if exc is None:
                self.other.transport.close()
            else:
                self.other.transport.abort()


class Proxy:
    """`async with Proxy(port) as proxy`: whoever dials `proxy.port` is put through to `port`."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.ends: set[_End] = set()
        self.is_cut = False
        self.stalled: frozenset[str] = frozenset()  # whose words do not pass
        self.bytes_per_s = 0.0  # 0: as fast as they come
        self.garbage = b""
        self.accepted = self.passed = 0
        self._dialling: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server

    async def __aenter__(self) -> Proxy:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _End(self), "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        self._abort()
        for task in self._dialling:
            task.cancel()
        await asyncio.gather(*self._dialling, return_exceptions=True)
        await asyncio.sleep(0)

    def dial(self, end: _End) -> None:
        """Connect to the listener on behalf of one who has dialled us."""
        task = asyncio.get_running_loop().create_task(self._dial(end))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)

    async def _dial(self, end: _End) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: _End(self, end), "127.0.0.1", self.target)
        except OSError:
            end.transport.abort()

    def _abort(self) -> None:
        for end in list(self.ends):
            end.transport.abort()

    def cut(self) -> None:
        """Reset every connection and refuse new ones."""
        self.is_cut = True
        self._abort()

    def stall(self, *whose: str) -> None:
        """Let nothing pass, or nothing of what the DIALLER or the LISTENER says, and tell nobody."""
        self.stalled = frozenset(whose or (DIALLER, LISTENER))
        for end in self.ends:
            if end.is_stalled:
                end.transport.pause_reading()

    def throttle(self, bytes_per_s: float) -> None:
        """Let no more pass than that, each way."""
        self.bytes_per_s = bytes_per_s

    def heal(self) -> None:
        """Let everything pass again, at once."""
        self.is_cut, self.stalled, self.bytes_per_s = False, frozenset(), 0.0
        for end in list(self.ends):
            end.resume()

    def half_close(self) -> None:
        """Tell those who dialled that the listener has said its last."""
        for end in self.ends:
            if end.is_dialler:
                end.transport.write_eof()

    def corrupt(self, garbage: bytes) -> None:
        """Insert these bytes before what a dialler says next."""
        self.garbage = garbage
