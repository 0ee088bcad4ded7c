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
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol, cast

from covey.errors import CoveyError, ProtocolError
from covey.protocol.control import Goodbye, encode
from covey.protocol.frames import MAX_GREETING, Kind, Splitter, frame
from covey.protocol.outbox import READ_AHEAD, Bounds, Lanes, Verdict

HIGH_WATER: Final = 1 << 20  # bytes that a transport may hold
GREETING_S: Final = 10.0  # within which a peer says who it is
LAST_WORDS_S: Final = 5.0  # that a peer has to end its side, once it was told goodbye

# Parts of a lease: how often a silent end says something, and how much silence is death. A peer's silence is noticed
# within the two together, less than one lease.
BEAT: Final = 0.2
SILENCE: Final = 0.75

_PING: Final = frame(Kind.PING, b"")
_PONG: Final = frame(Kind.PONG, b"")


class Owner(Protocol):
    """Whom a connection reports to; see the module's text."""

    def opened(self, connection: Connection) -> None:
        """The stream is there."""

    def received(self, connection: Connection, frames: Sequence[bytes]) -> None:
        """Some frames have come; a CoveyError that is raised ends the link with it as the reason."""

    def closed(self, connection: Connection, reason: str) -> None:
        """The stream is gone."""

    def drained(self, connection: Connection) -> None:
        """There is room again."""


class Connection(asyncio.Protocol):
    """One stream of frames; see the module's text."""

    def __init__(
        self, owner: Owner, bounds: Bounds, lease_s: float = 30.0, splitter: type[Splitter] = Splitter
    ) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._splitter = splitter(MAX_GREETING)
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
        self._finishing = False
        self._has_heard_all = False  # the peer has said goodbye
        self._has_said_all = False
        self._greeted = False
        self._holds: set[str] = set()
        self.on_pressure: Callable[[Connection, Verdict], None] | None = None  # when a link's bounds are met
        self.lanes = Lanes(bounds)
        self.peer = ""  # its address, for people
        self.host = ""  # of that, without the port
        self.received_bytes = self.sent_bytes = 0

    # -- life ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The stream is there."""
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
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
            self._timer = self._loop.call_later(self._lease_s * BEAT, self._beat)

    def _beat(self) -> None:
        now_s = self._loop.time()
        slept = self._timer is not None and now_s - self._timer.when() > self._lease_s * BEAT
        if slept or self._holds:
            self._heard_s = now_s  # it is us who slept or did not listen: what the peer said is not read yet
        self._timer = None
        if not self._greeted:
            self.end("the peer has not said who it is", tell=False)
        elif now_s - self._heard_s > self._lease_s * SILENCE:
            self._reason = f"nothing was heard for {self._lease_s:g} s"
            self.abort()
        else:
            if now_s - self._sent_s > self._lease_s * BEAT / 2 and not self._finishing:
                self._put(_PING)
            self._timer = self._loop.call_later(self._lease_s * BEAT, self._beat)

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

    def finish(self, reason: str, *, retry: bool = True, heard_all: bool = False) -> None:
        """Take nothing more to be sent; once all that waits is, say goodbye, and end when the peer does.

        What the peer says meanwhile is still heard; `heard_all` is that it has said goodbye.
        """
        self._has_heard_all = self._has_heard_all or heard_all
        if self._ending or self._transport is None:
            return
        if self._finishing:
            if self._has_said_all:
                self._last_words()
            return
        self._reason = reason
        self._put(frame(Kind.GOODBYE, encode(Goodbye(reason, retry))), barrier=True)
        self._finishing = True

    def _last_words(self) -> None:
        transport = self._transport
        assert transport is not None
        self._has_said_all = True
        if not transport.can_write_eof() and self._has_heard_all:
            transport.close()  # TLS cannot be half closed, and nobody has anything more to say
        # To close at once would be a reset, if the peer has said something that is not read yet, and what it has not
        # read would be lost.
        if transport.can_write_eof() and not transport.is_closing():
            with suppress(OSError):  # it is gone, and we have not heard of it yet
                transport.write_eof()
        self._loop.call_later(LAST_WORDS_S, transport.abort)

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
        return self._transport is not None and not self._ending and not self._finishing

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
                frames, is_pinged = self._splitter.without_heartbeats(frames)
                if is_pinged:
                    self._put(_PONG)
            if frames:
                self._owner.received(self, frames)
        except CoveyError as error:
            self.end(str(error), retry=not isinstance(error, ProtocolError))

    def hold(self, why: str = "") -> None:
        """Read nothing more for now; there may be several reasons."""
        self._holds.add(why)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def go_on(self, why: str = "") -> None:
        """Read again, unless there is another reason not to."""
        self._holds.discard(why)
        if not self._holds and self._transport is not None and not self._transport.is_closing():
            self._heard_s = self._loop.time()
            self._transport.resume_reading()

    @property
    def is_held(self) -> bool:
        """Whether nothing is read for now."""
        return bool(self._holds)

    # -- out -------------------------------------------------------------------------------------------------

    def send(self, kind: int, body: bytes, *, barrier: bool = False) -> None:
        """Send a control frame."""
        if self.is_open:
            self._put(frame(kind, body), barrier=barrier)

    def send_events(self, chunk: bytes, count: int = 1) -> Verdict:
        """Send `count` whole frames with events, as the link's bounds allow."""
        if not self.is_open:
            return Verdict.DROPPED
        verdict = self.lanes.put_events(chunk, count)
        if verdict is not Verdict.TAKEN and self.on_pressure is not None:
            self.on_pressure(self, verdict)
        if verdict is Verdict.LOST:
            self.end(f"the peer reads too slowly: {self.lanes.count:,} events wait for it")
        elif verdict is Verdict.FULL:
            self._is_full = True
        self._pump_soon()
        return verdict

    def _put(self, chunk: bytes, *, barrier: bool = False) -> None:
        if self._finishing:
            return  # goodbye was the last word
        if self.lanes.put_control(chunk, barrier=barrier) is Verdict.LOST:
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
        if self._finishing and not self.lanes and not self._ending:
            self._last_words()

    def pause_writing(self) -> None:
        """The transport holds enough."""
        self._can_write = False

    def resume_writing(self) -> None:
        """The transport takes more."""
        self._can_write = True
        self._pump()
