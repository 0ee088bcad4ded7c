"""A connection that has said goodbye says nothing more, whatever the peer says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from covey.protocol.frames import Kind, frame
from covey.protocol.outbox import Bounds
from covey.protocol.stream import Stream


class Ended(asyncio.Transport):
    """A transport that remembers what was written, and that it was ended."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.after_end: list[bytes] = []
        self.is_ended = False
        self.is_closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.is_ended = True

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        pass

    def write(self, data: Any) -> None:
        (self.after_end if self.is_ended else self.written).append(bytes(data))


class Nobody:
    """An owner that does nothing."""

    def opened(self, connection: Stream) -> None:
        pass

    def received(self, connection: Stream, frames: Sequence[bytes]) -> None:
        pass

    def closed(self, connection: Stream, reason: str) -> None:
        pass

    def drained(self, connection: Stream) -> None:
        pass


def come(stream: Stream, data: bytes) -> None:
    """Let bytes come as an event loop does."""
    stream.get_buffer(-1)[: len(data)] = data
    stream.buffer_updated(len(data))


def test_a_ping_after_goodbye_is_not_answered() -> None:
    async def main() -> Ended:
        connection, transport = Stream(Nobody(), Bounds()), Ended()
        connection.connection_made(transport)
        come(connection, frame(Kind.PING, b""))
        await asyncio.sleep(0)
        connection.finish("enough")
        for _ in range(3):
            await asyncio.sleep(0)
        come(connection, frame(Kind.PING, b""))
        for _ in range(3):
            await asyncio.sleep(0)
        connection.connection_lost(None)
        return transport

    transport = asyncio.run(main())
    assert transport.is_ended
    assert transport.written[0] == frame(Kind.PONG, b"")
    assert transport.after_end == []


def test_an_error_after_goodbye_writes_nothing_to_a_side_that_is_shut() -> None:
    async def main() -> Ended:
        connection, transport = Stream(Nobody(), Bounds()), Ended()
        connection.connection_made(transport)
        connection.finish("enough")
        for _ in range(3):
            await asyncio.sleep(0)
        come(connection, frame(Kind.REQUEST, bytes(1 << 16)))  # too long
        connection.connection_lost(None)
        return transport

    transport = asyncio.run(main())
    assert transport.is_ended
    assert transport.is_closed
    assert transport.after_end == []
