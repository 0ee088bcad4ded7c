"""Stream: a `Connection` on an asyncio transport. It decides nothing.

What comes is read into one buffer, copied once and given to the connection; what the connection has to send is written
at the end of the event loop's turn, all at once. Whole frames go to the owner, in order. Everything happens in the
event loop's thread.

    owner.opened(stream)               the stream is there; nobody has said anything yet
    owner.received(stream, frames)     some frames, each with its kind first; pings are answered already
    owner.closed(stream, reason)       once, whoever ended it
    owner.drained(stream)              so much was sent that a connection that was full has room again
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol, cast

from covey.errors import CoveyError, ProtocolError
from covey.protocol.connection import Closing, Connection
from covey.protocol.frames import Splitter
from covey.protocol.outbox import Bounds, Outbox, Verdict

HIGH_WATER: Final = 1 << 20  # bytes that a transport may hold
READ_BYTES: Final = 1 << 18  # that are read at once
SMALL: Final = 1 << 12  # bytes of a chunk, below which to copy it costs less than to write it by itself


class Owner(Protocol):
    """Whom a stream reports to; see the module's text."""

    def opened(self, stream: Stream, /) -> None:
        """The stream is there."""

    def received(self, stream: Stream, frames: Sequence[bytes], /) -> None:
        """Some frames have come; a CoveyError that is raised ends the connection with it as the reason."""

    def closed(self, stream: Stream, reason: str, /) -> None:
        """The stream is gone."""

    def drained(self, stream: Stream, /) -> None:
        """There is room again."""


class _Buffers(threading.local):
    """One buffer a thread: an event loop fills it and has it emptied before it reads from another stream."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(READ_BYTES))


_buffers: Final = _Buffers()


class Stream(asyncio.BufferedProtocol):
    """A transport and its connection; see the module's text."""

    def __init__(
        self, owner: Owner, bounds: Bounds, lease_s: float = 30.0, splitter: type[Splitter] = Splitter
    ) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        # Windows begins to read before there is anything, so there each stream has a buffer of its own.
        self._buffer = memoryview(bytearray(READ_BYTES)) if sys.platform == "win32" else _buffers.view
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s: float | None = None
        self._will_flush = False
        self._carried_out = Closing.NOTHING
        self.connection = Connection(bounds, lease_s, self._loop.time(), splitter)
        self.on_pressure: Callable[[Stream, Verdict], None] | None = None  # when the outbox's bounds are met
        self.peer = ""  # its address, for people
        self.host = ""  # of that, without the port

    # -- life ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The stream is there."""
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        transport.set_write_buffer_limits(HIGH_WATER)
        address = transport.get_extra_info("peername")
        self.peer = f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address or "")
        self.host = str(address[0]) if isinstance(address, tuple) else self.peer
        self.connection.can_half_close = transport.can_write_eof()
        self.connection.opened(self._loop.time())
        self._write()  # it may have been aborted before it was there
        self._owner.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The stream is gone."""
        self._transport = None
        self.connection.lost("" if exc is None else str(exc) or type(exc).__name__)
        self._set_timer()
        self._owner.closed(self, self.connection.reason)

    def verifying(self) -> None:
        """See `Connection.verifying`."""
        self.connection.verifying(self._loop.time())
        self._set_timer()

    def greeted(self, max_frame: int, lease_s: float) -> None:
        """See `Connection.greeted`."""
        self.connection.greeted(max_frame, lease_s, self._loop.time())
        self._set_timer()

    def finish(self, reason: str, *, retry: bool = True, heard_all: bool = False) -> None:
        """See `Connection.finish`."""
        if self._transport is not None:
            self.connection.finish(reason, retry=retry, heard_all=heard_all)
            self._flush_soon()

    def end(self, reason: str, *, retry: bool = True, tell: bool = True) -> None:
        """See `Connection.end`."""
        if self._transport is not None:
            self.connection.end(reason, retry=retry, tell=tell)
            self._write()

    def abort(self, reason: str = "") -> None:
        """See `Connection.abort`."""
        self.connection.abort(reason)
        self._write()

    @property
    def is_open(self) -> bool:
        """Whether something can still be sent."""
        return self._transport is not None and self.connection.is_open

    @property
    def version(self) -> int:
        """The version of the protocol that both ends have agreed on."""
        return self.connection.version

    @version.setter
    def version(self, version: int) -> None:
        self.connection.version = version

    @property
    def outbox(self) -> Outbox:
        """What waits to be sent."""
        return self.connection.outbox

    @property
    def received_bytes(self) -> int:
        """How many bytes have come."""
        return self.connection.received_bytes

    @property
    def sent_bytes(self) -> int:
        """How many bytes the transport was given."""
        return self.connection.sent_bytes

    def extra(self, name: str) -> object:
        """Return what the transport knows, such as `ssl_object`."""
        return None if self._transport is None else self._transport.get_extra_info(name)

    # -- in --------------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the event loop is to read to."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Have what has come cut into frames and hand them on."""
        data = bytes(self._buffer[:nbytes])  # which frames may refer to for as long as they like
        try:
            frames = self.connection.receive(data, self._loop.time())
            if frames:
                self._owner.received(self, frames)
        except CoveyError as error:
            self.end(str(error), retry=not isinstance(error, ProtocolError))
        if self.connection.outbox:
            self._flush_soon()

    def eof_received(self) -> bool:
        """The peer has ended its side; return whether ours stays open."""
        self.connection.receive_eof()
        self._write()
        return self.connection.can_half_close and self.connection.closing < Closing.CLOSE

    def hold(self, why: str = "") -> None:
        """Read nothing more for now; there may be several reasons."""
        self.connection.hold(why, self._loop.time())
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def go_on(self, why: str = "") -> None:
        """Read again, unless there is another reason not to."""
        self.connection.go_on(why, self._loop.time())
        if not self.is_held and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    @property
    def is_held(self) -> bool:
        """Whether nothing is read for now."""
        return self.connection.is_held

    # -- out -------------------------------------------------------------------------------------------------

    def send(self, kind: int, body: bytes, *, barrier: bool = False) -> None:
        """See `Connection.send`."""
        if self._transport is not None:
            self.connection.send(kind, body, barrier=barrier)
            self._flush_soon()

    def send_events(self, chunk: bytes, count: int = 1) -> Verdict:
        """See `Connection.send_events`."""
        if not self.is_open:
            return Verdict.DROPPED
        verdict = self.connection.send_events(chunk, count)
        if verdict is not Verdict.TAKEN and self.on_pressure is not None:
            self.on_pressure(self, verdict)
        self._flush_soon()
        return verdict

    def _flush_soon(self) -> None:
        if not self._will_flush:
            self._will_flush = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._will_flush = False
        self._write()
        if self.connection.take_drained():
            self._owner.drained(self)

    def _write(self) -> None:
        """Write what there is, and do with the transport what the connection says."""
        transport, connection = self._transport, self.connection
        if transport is None:
            return
        now_s = self._loop.time()
        while not transport.is_closing() and (chunks := connection.to_send(now_s)):
            if len(chunks) == 1:
                transport.write(chunks[0])
            elif sum(map(len, chunks)) < SMALL * len(chunks):
                transport.write(b"".join(chunks))
            else:
                transport.writelines(chunks)
        if connection.closing > self._carried_out:
            self._carried_out = connection.closing
            self._carry_out(transport, connection.closing)
        self._set_timer()

    def _carry_out(self, transport: asyncio.Transport, closing: Closing) -> None:
        if closing is Closing.SHUT_WRITE:
            with suppress(OSError):  # it is gone, and we have not heard of it yet
                if not transport.is_closing():
                    transport.write_eof()
        elif closing is Closing.CLOSE:
            transport.close()
        else:
            transport.abort()

    def _set_timer(self) -> None:
        due_s = self.connection.next_timeout() if self._transport is not None else None
        if due_s == self._timer_s:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_s = due_s
        self._timer = None if due_s is None else self._loop.call_at(due_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = self._timer_s = None
        self.connection.on_timeout(self._loop.time())
        self._write()

    def pause_writing(self) -> None:
        """The transport holds enough."""
        self.connection.pause_writing()

    def resume_writing(self) -> None:
        """The transport takes more."""
        self.connection.resume_writing()
        self._flush()
