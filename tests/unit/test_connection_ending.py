"""A connection that has said goodbye says nothing more, whatever the peer says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from covey.protocol.connection import Connection
from covey.protocol.frames import Kind, frame
from covey.protocol.outbox import Bounds


class Ended(asyncio.Transport):
    """A transport that remembers what was written, and that it was ended."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.after_end: list[bytes] = []
        self.is_ended = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.is_ended = True

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        pass

    def write(self, data: Any) -> None:
        (self.after_end if self.is_ended else self.written).append(bytes(data))


class Nobody:
    """An owner that does nothing."""

    def opened(self, connection: Connection) -> None:
        pass

    def received(self, connection: Connection, frames: Sequence[bytes]) -> None:
        pass

    def closed(self, connection: Connection, reason: str) -> None:
        pass

    def drained(self, connection: Connection) -> None:
        pass


def test_a_ping_after_goodbye_is_not_answered() -> None:
    async def main() -> Ended:
        connection, transport = Connection(Nobody(), Bounds()), Ended()
        connection.connection_made(transport)
        connection.data_received(frame(Kind.PING, b""))
        await asyncio.sleep(0)
        connection.finish("enough")
        for _ in range(3):
            await asyncio.sleep(0)
        connection.data_received(frame(Kind.PING, b""))
        for _ in range(3):
            await asyncio.sleep(0)
        connection.connection_lost(None)
        return transport

    transport = asyncio.run(main())
    assert transport.is_ended
    assert transport.written[0] == frame(Kind.PONG, b"")
    assert transport.after_end == []
