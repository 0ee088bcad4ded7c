"""The floor under every broker in Python: a server that forwards and matches nothing, and how a program uses it.

A frame is a length and a msgpack array of an event's attributes and its payload. The server splits what it reads by
length, as whoever forwards must, and writes whole frames to everyone who listens, many at a time; it never looks
inside. A row of such servers are hops. What Covey takes beyond that is the price of knowing who wants an event.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from struct import Struct
from typing import Any, Final, cast

import msgspec

from covey.bench.network_ends import OnPayload, content_of, payload_rest
from covey.bench.network_programs import Program, Served
from covey.broker.forking import listen

NAME: Final = "forwarder"
LISTEN: Final = b"L"  # what a connection says first: that it wants all that comes,
SPEAK: Final = b"S"  # or that it will send
FLUSH: Final = 0  # a frame of this length asks for an answer
BATCH: Final = 64
AHEAD_BYTES: Final = 1 << 30  # as brokers are given in this measurement: nothing is held back

_LENGTH: Final = Struct("<I")
_TIME: Final = Struct("<q")


class _Port(asyncio.Protocol):
    """One connection of the server."""

    def __init__(self, listeners: list[asyncio.Transport]) -> None:
        self._listeners = listeners
        self._transport: asyncio.Transport
        self._rest = b""
        self._kind = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A fast loop's transports are no subclass of the standard library's.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(AHEAD_BYTES)

    def data_received(self, data: bytes) -> None:
        """Split by length, and forward whole frames."""
        if not self._kind:
            self._kind, data = data[:1], data[1:]
            if self._kind == LISTEN:
                self._listeners.append(self._transport)
                self._transport.write(LISTEN)
        whole = self._rest + data if self._rest else data
        place, end = 0, len(whole)
        asked = False
        while place + _LENGTH.size <= end:
            (length,) = _LENGTH.unpack_from(whole, place)
            if place + _LENGTH.size + length > end:
                break
            asked |= length == FLUSH
            place += _LENGTH.size + length
        self._rest = whole[place:]
        if place:
            for listener in self._listeners:
                listener.write(whole[:place])
        if asked:
            self._transport.write(LISTEN)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport in self._listeners:
            self._listeners.remove(self._transport)


async def forwarder(pipe: Connection, own: Any, onward_port: int | None) -> None:
    """Serve the socket; if there is a next one in the row, everything goes there too."""
    loop = asyncio.get_running_loop()
    listeners: list[asyncio.Transport] = []
    if onward_port is not None:
        onward, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", onward_port)
        onward.set_write_buffer_limits(AHEAD_BYTES)
        onward.write(SPEAK)
        listeners.append(onward)
    await loop.create_server(lambda: _Port(listeners), sock=own)
    pipe.send("ready")
    await loop.create_future()


@contextlib.contextmanager
def forwarders(hops: int) -> Iterator[Served]:
    """Run servers in a row."""
    sockets = [listen("127.0.0.1", 0) for _ in range(hops)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    with contextlib.ExitStack() as stack:
        pids = []
        for number in reversed(range(hops)):
            onward = ports[number + 1] if number + 1 < hops else None
            pids.append(stack.enter_context(Program(forwarder, sockets[number], onward)).pid)
        for one in sockets:
            one.close()
        yield Served((ports[0], ports[-1]), tuple(pids))


class FloorEnd(asyncio.Protocol):
    """A client of a forwarder; see `network_ends.End`."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._on_payload: OnPayload | None = None
        self._answers = asyncio.Queue[None]()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._rest = b""
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(tuple[dict[str, Any], bytes]).decode

    def data_received(self, data: bytes) -> None:
        """Decode events; LISTEN alone is the server's answer, and nothing is published before everybody has it."""
        if self._on_payload is None or data == LISTEN:
            self._answers.put_nowait(None)
            return
        whole = self._rest + data if self._rest else data
        place, end, size = 0, len(whole), _LENGTH.size
        while place + size <= end:
            (length,) = _LENGTH.unpack_from(whole, place)
            if place + size + length > end:
                break
            if length:
                self._on_payload(self._decode(whole[place + size : place + size + length])[1])
            place += size + length
        self._rest = whole[place:]

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    async def open(self, port: int) -> None:
        """Connect."""
        self._transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: self, "127.0.0.1", port
        )

    async def subscribe(self, on_payload: OnPayload) -> None:
        """Ask for everything."""
        self._on_payload = on_payload
        self._transport.write(LISTEN)
        await self._answers.get()

    async def announce(self) -> None:
        """Say that events will come."""
        self._transport.write(SPEAK)
        await self.flush()

    async def publish(self, events: Iterable[int]) -> None:
        """Publish them, BATCH frames at a time."""
        frames: list[bytes] = []
        for number in events:
            body = self._encode((content_of(number), _TIME.pack(time.monotonic_ns()) + payload_rest()))
            frames += (_LENGTH.pack(len(body)), body)
            if len(frames) == 2 * BATCH:
                await self._write(frames)
                frames = []
        await self._write(frames)

    async def _write(self, frames: list[bytes]) -> None:
        self._transport.write(b"".join(frames))
        await self._may_write.wait()

    async def flush(self) -> None:
        """Ask the server, and wait for its answer."""
        self._transport.write(_LENGTH.pack(FLUSH))
        await self._answers.get()

    async def close(self) -> None:
        """Disconnect."""
        self._transport.close()
