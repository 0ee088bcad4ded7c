"""Connection: one TCP stream that carries frames both ways, with heartbeats, for brokers and clients alike.

It decides nothing: whole frames go to its owner, in order; what is to be sent waits in `Lanes` until the transport
takes it. A peer that says nothing for a lease is taken for dead. Everything an owner does with frames happens in the
event loop's thread.

    owner.opened(connection)               the stream is there; nobody has said anything yet
    owner.received(connection, frames)     some frames, each with its kind first; pings are answered already
    owner.closed(connection, reason)       once, whoever ended it
    owner.drained(connection)              so much was sent that a link that was full has room again
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from covey.errors import CoveyError, ProtocolError
from covey.wire.frames import MAX_GREETING, Kind, Splitter, frame
from covey.wire.lanes import READ_AHEAD, Bounds, Lanes, Verdict
from covey.wire.messages import Goodbye, encode

HIGH_WATER: Final = 1 << 20  # bytes that a transport may hold
GREETING_S: Final = 10.0  # within which a peer says who it is

_PING: Final = frame(Kind.PING, b"")
_PONG: Final = frame(Kind.PONG, b"")


class Owner(Protocol):
    """Whom a connection reports to; see the module's text."""

    def opened(self, connection: Connection) -> None:
        """The stream is there."""

    def received(self, connection: Connection, frames: list[bytes]) -> None:
        """Some frames have come; a CoveyError that is raised ends the link with it as the reason."""

    def closed(self, connection: Connection, reason: str) -> None:
        """The stream is gone."""

    def drained(self, connection: Connection) -> None:
        """There is room again."""


class Connection(asyncio.Protocol):
    """One stream of frames; see the module's text."""

    def __init__(self, owner: Owner, bounds: Bounds, lease_s: float = 30.0) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._splitter = Splitter(MAX_GREETING)
        self._transport: asyncio.Transport | None = None
        self._lease_s = lease_s
        self._heard_s = self._loop.time()
        self._sent_s = self._heard_s
        self._timer: asyncio.TimerHandle | None = None
        self._can_write = True
        self._pumping = False
        self._is_full = False
        self._reason = "the peer closed the link"
        self._ending = False
        self._greeted = False
        self.lanes = Lanes(bounds)
        self.peer = ""  # its address, for people
        self.host = ""  # of that, without the port
        self.was_slow = False  # the link ended because the peer read too slowly
        self.received_bytes = self.sent_bytes = 0

    # -- life ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The stream is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(HIGH_WATER)
        address = transport.get_extra_info("peername")
        self.peer = f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address or "")
        self.host = str(address[0]) if isinstance(address, tuple) else self.peer
        self._timer = self._loop.call_later(min(GREETING_S, self._lease_s), self._beat)
        self._owner.opened(self)

    def greeted(self, max_frame: int, lease_s: float) -> None:
        """Note that the peer has said who it is: from now on it may say more."""
        self._greeted = True
        self._splitter.limit = max_frame
        self._lease_s = lease_s
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop.call_later(self._lease_s / 3, self._beat)

    def _beat(self) -> None:
        now_s = self._loop.time()
        if self._timer is not None and now_s - self._timer.when() > self._lease_s / 3:
            self._heard_s = now_s  # it was us who slept: what the peer said meanwhile is not read yet
        self._timer = None
        if not self._greeted:
            self.end("the peer has not said who it is", tell=False)
        elif now_s - self._heard_s > self._lease_s:
            self._reason = f"nothing was heard for {self._lease_s:g} s"
            self.abort()
        else:
            if now_s - self._sent_s > self._lease_s / 3:
                self._put(_PING)
            self._timer = self._loop.call_later(self._lease_s / 3, self._beat)

    def end(self, reason: str, *, retry: bool = True, tell: bool = True) -> None:
        """End the link after what waits in the transport; the peer is told why."""
        if self._ending or self._transport is None:
            return
        self._ending = True
        self._reason = reason
        if tell and not self._transport.is_closing():
            for chunk in self.lanes.take(HIGH_WATER):
                self._transport.write(chunk)
            self._transport.write(frame(Kind.GOODBYE, encode(Goodbye(reason, retry))))
        self._transport.close()
        # A peer that does not read keeps a closing transport open for ever.
        self._loop.call_later(5.0, self._transport.abort)

    def abort(self, reason: str = "") -> None:
        """End the link at once."""
        if reason:
            self._reason = reason
        self._ending = True
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The stream is gone."""
        if self._timer is not None:
            self._timer.cancel()
        if exc is not None and not self._ending:
            self._reason = str(exc) or type(exc).__name__
        self._transport = None
        self._owner.closed(self, self._reason)

    @property
    def is_open(self) -> bool:
        """Whether something can still be sent."""
        return self._transport is not None and not self._ending

    def extra(self, name: str) -> object:
        """Return what the transport knows, such as `ssl_object`."""
        return None if self._transport is None else self._transport.get_extra_info(name)

    # -- in --------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Cut what has come into frames and hand them on."""
        self._heard_s = self._loop.time()
        self.received_bytes += len(data)
        if self._ending:
            return
        try:
            frames = self._splitter.feed(data)
            if frames:
                frames = self._alive(frames)
            if frames:
                self._owner.received(self, frames)
        except CoveyError as error:
            self.end(str(error), retry=not isinstance(error, ProtocolError))

    def _alive(self, frames: list[bytes]) -> list[bytes]:
        """Answer pings; return the other frames."""
        others = [one for one in frames if one[0] != Kind.PING and one[0] != Kind.PONG]
        if len(others) != len(frames) and any(one[0] == Kind.PING for one in frames):
            self._put(_PONG)
        return others

    def hold(self) -> None:
        """Read nothing more for now."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def go_on(self) -> None:
        """Read again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # -- out -------------------------------------------------------------------------------------------------

    def send(self, kind: int, body: bytes, *, barrier: bool = False) -> None:
        """Send a control frame."""
        if self._transport is not None and not self._ending:
            self._put(frame(kind, body), barrier=barrier)

    def send_events(self, chunk: bytes, count: int = 1) -> Verdict:
        """Send `count` whole frames with events, as the link's bounds allow."""
        if self._transport is None or self._ending:
            return Verdict.DROPPED
        verdict = self.lanes.put_events(chunk, count)
        if verdict is Verdict.LOST:
            self.was_slow = True
            self.end(f"the peer reads too slowly: {self.lanes.count:,} events wait for it")
        elif verdict is Verdict.FULL:
            self._is_full = True
        self._pump_soon()
        return verdict

    def _put(self, chunk: bytes, *, barrier: bool = False) -> None:
        if self.lanes.put_control(chunk, barrier=barrier) is Verdict.LOST:
            self.was_slow = True
            self.abort("the peer reads too slowly: too much control traffic waits for it")
        self._pump_soon()

    def _pump_soon(self) -> None:
        if not self._pumping and self._can_write:
            self._pumping = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        while self._can_write and self._transport is not None and self.lanes:
            chunks = self.lanes.take(READ_AHEAD)
            if not chunks:
                break
            data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
            self._sent_s = self._loop.time()
            self.sent_bytes += len(data)
            self._transport.write(data)
        if self._is_full and not self.lanes.is_over:
            self._is_full = False
            self._owner.drained(self)

    def pause_writing(self) -> None:
        """The transport holds enough."""
        self._can_write = False

    def resume_writing(self) -> None:
        """The transport takes more."""
        self._can_write = True
        self._pump()
