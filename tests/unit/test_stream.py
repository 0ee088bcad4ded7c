"""Connections on transports: what is read, what is written, and what is not after goodbye."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import uvloop

from covey.client.stream import Stream
from covey.protocol.control import Goodbye, encode
from covey.protocol.frames import Kind, Splitter, frame
from covey.protocol.outbox import Bounds


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


class Heard(Nobody):
    """An owner that remembers what has come."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def received(self, connection: Stream, frames: Sequence[bytes]) -> None:
        self.frames += frames


def test_streams_that_read_into_one_buffer_keep_what_they_have_read() -> None:
    async def main() -> None:
        owners = [Heard(), Heard()]
        streams = [Stream(owner, Bounds()) for owner in owners]
        for stream in streams:
            stream.connection_made(Ended())
        said = [frame(Kind.HELLO, bytes([number]) * 50) for number in (1, 2)]
        for first, last in ((0, 7), (7, 30), (30, 55)):
            for stream, one in zip(streams, said, strict=True):
                come(stream, one[first:last])
        assert [owner.frames for owner in owners] == [[one[4:]] for one in said]
        for stream in streams:
            stream.connection_lost(None)

    asyncio.run(main())


def test_a_stream_that_was_aborted_before_it_was_there_is_aborted_then() -> None:
    class Aborted(Ended):
        is_aborted = False

        def abort(self) -> None:
            self.is_aborted = True

    async def main() -> None:
        stream, transport = Stream(Nobody(), Bounds()), Aborted()
        stream.abort("nobody waits for it any longer")
        stream.connection_made(transport)
        assert transport.is_aborted
        stream.connection_lost(None)

    asyncio.run(main())


class Leaving(Heard):
    """An owner with much to send, which answers a goodbye."""

    events = 200

    def opened(self, connection: Stream) -> None:
        connection.greeted(1 << 20, 30.0)
        for _ in range(self.events):
            connection.send_events(frame(Kind.EVENT, bytes(1 << 16)))

    def received(self, connection: Stream, frames: Sequence[bytes]) -> None:
        assert [one[0] for one in frames] == [Kind.GOODBYE]
        connection.finish("the peer has said goodbye", heard_all=True)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_peer_that_has_ended_its_side_gets_all_that_waits_for_it(new_loop: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Stream(Leaving(), Bounds()), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        writer.write(frame(Kind.GOODBYE, encode(Goodbye("enough"))))
        writer.write_eof()
        await asyncio.sleep(0.1)  # it has been heard before anything is read
        async with asyncio.timeout(20):
            frames = Splitter(1 << 20).feed(await reader.read())
        assert [one[0] for one in frames] == [Kind.EVENT] * Leaving.events + [Kind.GOODBYE]
        writer.close()
        await writer.wait_closed()
        server.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
