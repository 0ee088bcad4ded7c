"""Connection: one byte stream that carries frames both ways, as a state machine, for brokers and clients alike.

It does no I/O, has no clock and calls nobody: bytes and time go in; frames, bytes to write and the next time-out come
out. Whoever owns the stream (`client.stream`, a broker's shell or a simulation) has these duties, in this order:

    1. give it what has come (`receive`, `receive_eof`, `lost`) and what the transport says (`pause_writing`,
       `resume_writing`); a ProtocolError from `receive` is answered with `end`
    2. after every input, write what `to_send` returns until it returns nothing, then do what `closing` says
    3. call `on_timeout` at `next_timeout()`, and read only while it is not `is_held`

The states, and what each input does in each of them, are in `TABLE`; nothing else changes the state.

    GREETING     the peer has not said who it is; its frames are short
    VERIFYING    it has, and its proof is being checked
    OPEN         frames go both ways; a peer that is silent for too long is considered dead
    DRAINING     nothing more is taken to be sent: the outbox empties, goodbye is the last word, then the sending side
                 is shut; what the peer sends until it does the same is still read
    CLOSED       nothing is read or sent any more, except for the last words of `end`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from enum import IntEnum
from typing import Final, NamedTuple, Protocol, TypeAlias

from covey.errors import ProtocolError
from covey.protocol.control import Goodbye, encode
from covey.protocol.frames import MAX_GREETING, OLDEST, Kind, Splitter, frame
from covey.protocol.outbox import READ_AHEAD, Bounds, Outbox, Verdict

GREETING_S: Final = 10.0  # within which a peer says who it is, and within which that is verified
LAST_WORDS_S: Final = 5.0  # that a peer has to end its side, once it was told goodbye
LAST_BYTES: Final = 1 << 20  # of what waits, that `end` still sends

# Parts of a lease: how often a silent end says something, and how much silence is death. A peer's silence is noticed
# within the two together, less than one lease.
BEAT: Final = 0.2
SILENCE: Final = 0.75

_PING: Final = frame(Kind.PING, b"")
_PONG: Final = frame(Kind.PONG, b"")


class State(IntEnum):
    """Where a connection is in its life; see the module's text. A connection only moves forward."""

    GREETING = 0
    VERIFYING = 1
    OPEN = 2
    DRAINING = 3
    CLOSED = 4


class Input(IntEnum):
    """What can happen to a connection: one for each method that the state decides about."""

    DATA = 0  # receive
    EOF = 1  # receive_eof
    SEND = 2  # send, send_events
    VERIFY = 3  # verifying
    GREET = 4  # greeted
    FINISH = 5  # finish
    END = 6  # end
    ABORT = 7  # abort
    LOST = 8  # lost
    TIMEOUT = 9  # on_timeout, when something is due


class Ignored(NamedTuple):
    """The input does nothing in this state."""

    because: str


class Refused(NamedTuple):
    """The input is an error in this state: a ProtocolError with these words."""

    because: str


Outcome: TypeAlias = State | Ignored | Refused

_GONE: Final = Ignored("the connection has ended")

TABLE: Final[Mapping[State, Mapping[Input, Outcome]]] = {
    State.GREETING: {
        Input.DATA: State.GREETING,
        Input.EOF: State.CLOSED,
        Input.SEND: State.GREETING,
        Input.VERIFY: State.VERIFYING,
        Input.GREET: State.OPEN,
        Input.FINISH: State.DRAINING,
        Input.END: State.CLOSED,
        Input.ABORT: State.CLOSED,
        Input.LOST: State.CLOSED,
        Input.TIMEOUT: State.CLOSED,
    },
    State.VERIFYING: {
        Input.DATA: State.VERIFYING,
        Input.EOF: State.CLOSED,
        Input.SEND: State.VERIFYING,
        Input.VERIFY: Refused("a peer is verified once"),
        Input.GREET: State.OPEN,
        Input.FINISH: State.DRAINING,
        Input.END: State.CLOSED,
        Input.ABORT: State.CLOSED,
        Input.LOST: State.CLOSED,
        Input.TIMEOUT: State.CLOSED,
    },
    State.OPEN: {
        Input.DATA: State.OPEN,
        Input.EOF: State.CLOSED,
        Input.SEND: State.OPEN,
        Input.VERIFY: Refused("a peer is verified before it is greeted"),
        Input.GREET: Refused("a peer is greeted once"),
        Input.FINISH: State.DRAINING,
        Input.END: State.CLOSED,
        Input.ABORT: State.CLOSED,
        Input.LOST: State.CLOSED,
        Input.TIMEOUT: State.OPEN,  # a heartbeat; too long a silence is ABORT
    },
    State.DRAINING: {
        Input.DATA: State.DRAINING,
        Input.EOF: State.DRAINING,  # the peer still reads what waits for it
        Input.SEND: Ignored("goodbye was the last word"),
        Input.VERIFY: Ignored("whoever the peer is, the connection is about to end"),
        Input.GREET: Ignored("whoever the peer is, the connection is about to end"),
        Input.FINISH: Ignored("goodbye is said once"),
        Input.END: State.CLOSED,
        Input.ABORT: State.CLOSED,
        Input.LOST: State.CLOSED,
        Input.TIMEOUT: State.DRAINING,  # silence and the time for last words are ABORT
    },
    State.CLOSED: {
        Input.DATA: _GONE,
        Input.EOF: _GONE,
        Input.SEND: _GONE,
        Input.VERIFY: _GONE,
        Input.GREET: _GONE,
        Input.FINISH: _GONE,
        Input.END: Ignored("the first reason counts"),
        Input.ABORT: State.CLOSED,  # what the transport still holds is dropped
        Input.LOST: State.CLOSED,
        Input.TIMEOUT: State.CLOSED,  # the peer does not read the last words: ABORT
    },
}


class Closing(IntEnum):
    """What the owner of the stream is to do with it, after it has written what there is; it only grows."""

    NOTHING = 0
    SHUT_WRITE = 1  # end the sending side; the other is still read
    CLOSE = 2  # close the stream once the transport has sent what it holds
    ABORT = 3  # close it at once


class Outlet(Protocol):
    """The sending half of a connection, as those see it who only send; a `Connection` is one."""

    def send(self, kind: int, body: bytes, *, barrier: bool = False) -> None:
        """Send a control frame; with `barrier` it waits for all events that were sent before."""

    def send_events(self, chunk: bytes, count: int = 1) -> Verdict:
        """Send `count` whole frames with events."""


class Signals:
    """What connections of one owner have to tell it; the owner empties the lists.

    `touched` are connections that may have something to send, or that end; `pressed` are those whose outbox has met its
    bounds, with what became of the events.
    """

    def __init__(self) -> None:
        self.touched: list[Connection] = []
        self.pressed: list[tuple[Connection, Verdict]] = []


class Connection:
    """One stream of frames; see the module's text. Times are seconds of one monotonic clock.

    `can_half_close` says whether the sending side of the stream can be shut by itself; the owner sets it.
    """

    def __init__(
        self,
        bounds: Bounds,
        lease_s: float,
        now_s: float,
        splitter: type[Splitter] = Splitter,
        signals: Signals | None = None,
    ) -> None:
        self._signals = signals
        self.is_touched = False  # it is in the list of signals
        self.state = State.GREETING
        self.closing = Closing.NOTHING
        self.reason = "the peer closed the link"  # why it ended or ends
        self.version = OLDEST  # of the protocol; set by whoever reads the peer's greeting
        self.outbox = Outbox(bounds)
        self.writable = True
        self.can_half_close = True
        self.received_bytes = self.sent_bytes = 0
        self.splitter = splitter(MAX_GREETING)
        self._lease_s = lease_s
        self.heard_s = self.sent_s = (
            now_s  # whoever passes events on past `receive` and `to_send` notes that here
        )
        self._due_s = now_s + min(GREETING_S, lease_s)  # the greeting's end, then the next heartbeat
        self._last_words_s: float | None = None  # when a peer that does not end its side is cut off
        self._last_words: list[bytes] = []
        self._has_heard_all = False  # the peer sends nothing more
        self._was_full = False
        self._holds: set[str] = set()

    def _touch(self) -> None:
        """Have the owner look at this connection."""
        if self._signals is not None and not self.is_touched:
            self.is_touched = True
            self._signals.touched.append(self)

    def _move(self, given: Input) -> bool:
        """Go where the table says; return whether the input counts."""
        outcome = TABLE[self.state][given]
        if isinstance(outcome, State):
            self.state = outcome
            return True
        if isinstance(outcome, Refused):
            raise ProtocolError(outcome.because)
        return False

    # -- life ------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether something can still be sent."""
        return self.state <= State.OPEN

    def opened(self, now_s: float) -> None:
        """The stream is there only now, after a TLS handshake that took time of its own: the peer's begins anew."""
        self.heard_s = self.sent_s = now_s
        self._due_s = now_s + min(GREETING_S, self._lease_s)

    def verifying(self, now_s: float) -> None:
        """The peer has said who it is, and its proof is being checked, which takes our time and not the peer's."""
        if self._move(Input.VERIFY):
            self._due_s = now_s + min(GREETING_S, self._lease_s)

    def greeted(self, max_frame: int, lease_s: float, now_s: float) -> None:
        """The peer has said who it is: from now on it may say more, in frames of at most `max_frame` bytes."""
        if self._move(Input.GREET):
            self.splitter.limit = max_frame
            self._lease_s = lease_s
            self._due_s = now_s + lease_s * BEAT

    def finish(self, reason: str, *, retry: bool = True, heard_all: bool = False) -> None:
        """Take nothing more to be sent; once all that waits is, say goodbye, and end when the peer does.

        What the peer says meanwhile is still heard. With `heard_all` it has said goodbye itself.
        """
        if heard_all and not self.can_half_close:
            # TLS cannot be half closed: goodbye is all that there is to hear. Otherwise the peer's end of its side is.
            self._has_heard_all = True
        if self._move(Input.FINISH):
            self.reason = reason
            self._put(frame(Kind.GOODBYE, encode(Goodbye(reason, retry))), barrier=True)
        elif self.state is State.DRAINING and not self.outbox:
            self._shut()

    def _shut(self) -> None:
        """All is said: shut the sending side, and close the stream if all is heard, too.

        To close while the peer may have said something that is not read yet would be a reset, and what the peer has
        not read by then would be lost.
        """
        if self._has_heard_all:
            self._close(Closing.CLOSE)
        elif self.can_half_close:
            self._close(Closing.SHUT_WRITE)

    def end(self, reason: str, *, retry: bool = True, tell: bool = True) -> None:
        """End the connection after what waits in the transport; with `tell` the peer is told why."""
        has_said_goodbye = self.state is State.DRAINING
        if not self._move(Input.END):
            return
        self.reason = reason
        if tell:
            self._last_words = self.outbox.take(LAST_BYTES)  # nothing, once the sending side is shut
            if not has_said_goodbye:
                self._last_words.append(frame(Kind.GOODBYE, encode(Goodbye(reason, retry))))
        self._close(Closing.CLOSE)

    def abort(self, reason: str = "") -> None:
        """End the connection at once."""
        if reason and self.state is not State.CLOSED:
            self.reason = reason
        self._move(Input.ABORT)
        self._last_words = []
        self._close(Closing.ABORT)

    def lost(self, reason: str = "") -> None:
        """Note that the stream is gone, with an error's words if it was one."""
        if reason and self.state is not State.CLOSED:
            self.reason = reason
        self._move(Input.LOST)
        self._last_words = []
        self._last_words_s = None
        self.closing = Closing.NOTHING

    def _close(self, how: Closing) -> None:
        if how > self.closing:
            self.closing = how
            self._touch()

    # -- time ------------------------------------------------------------------------------------------------

    def next_timeout(self) -> float | None:
        """Return when `on_timeout` is to be called, None if nothing is waited for."""
        if self.state is State.CLOSED:
            return None if self.closing is Closing.ABORT else self._last_words_s
        return self._due_s if self._last_words_s is None else min(self._due_s, self._last_words_s)

    def on_timeout(self, now_s: float) -> None:
        """Do what is due: end a greeting that takes too long, send a heartbeat, or notice a peer's silence."""
        due_s = self.next_timeout()
        if due_s is None or now_s < due_s:
            return
        before = self.state
        if before is not State.CLOSED and now_s - due_s > self._lease_s * BEAT:
            self._slept(now_s)
            return
        self._move(Input.TIMEOUT)
        if self._last_words_s is not None and now_s >= self._last_words_s:
            # A peer that does not read keeps a closing stream open for ever.
            self.abort()
        elif before is State.GREETING:
            self._give_up("the peer has not said who it is")
        elif before is State.VERIFYING:
            self._give_up("who the peer is could not be verified in time")
        else:
            self._beat(now_s)

    def _slept(self, now_s: float) -> None:
        """Give the peer time: it is this process that slept, and what the peer has said since then is not read yet."""
        self.heard_s = now_s
        self._due_s = now_s + self._lease_s * BEAT
        if self._last_words_s is not None:
            self._last_words_s = now_s + LAST_WORDS_S
        if self.state is State.OPEN:
            self._put(_PING)  # the peer has heard nothing, either

    def _give_up(self, reason: str) -> None:
        self.reason = reason
        self._close(Closing.CLOSE)

    def _beat(self, now_s: float) -> None:
        beat_s = self._lease_s * BEAT
        if self._holds:
            self.heard_s = now_s  # it is us who do not listen: what the peer said is not read yet
        if now_s - self.heard_s > self._lease_s * SILENCE:
            self.abort(f"nothing was heard for {self._lease_s:g} s")
            return
        if now_s - self.sent_s > beat_s / 2 and self.is_open:
            self._put(_PING)
        self._due_s = now_s + beat_s

    # -- in --------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now_s: float) -> Sequence[bytes]:
        """Return the frames that are complete with these bytes, each with its kind first; pings are answered.

        ProtocolError for a frame that is too long or empty; then nothing that comes later can be understood.
        """
        self.heard_s = now_s
        self.received_bytes += len(data)
        if not self._move(Input.DATA):
            return ()
        frames, is_pinged = self.splitter.take(data)
        if is_pinged and self.is_open:
            self._put(_PONG)
        return frames

    def receive_eof(self) -> None:
        """Note that the peer has ended its side; it may still read ours."""
        if not self._move(Input.EOF):
            return
        self._has_heard_all = True
        if self.state is State.CLOSED:
            self._close(Closing.CLOSE)
        elif not self.outbox:
            self._shut()

    def hold(self, why: str, now_s: float) -> None:
        """Have the stream not read for now; there may be several reasons."""
        self._holds.add(why)
        self._touch()

    def go_on(self, why: str, now_s: float) -> None:
        """Have the stream read again, unless there is another reason not to."""
        self._holds.discard(why)
        self._touch()
        if not self._holds:
            self.heard_s = now_s  # what the peer said meanwhile is not read yet

    @property
    def holds(self) -> Set[str]:
        """Why the stream is not to be read for now."""
        return self._holds

    @property
    def is_held(self) -> bool:
        """Whether the stream is not to be read for now."""
        return bool(self._holds)

    # -- out -------------------------------------------------------------------------------------------------

    def send(self, kind: int, body: bytes, *, barrier: bool = False) -> None:
        """Send a control frame; with `barrier` it waits for all events that were sent before."""
        if self._move(Input.SEND):
            self._put(frame(kind, body), barrier=barrier)

    def send_events(self, chunk: bytes, count: int = 1) -> Verdict:
        """Send `count` whole frames with events, as the bounds allow; return what became of them."""
        if not self._move(Input.SEND):
            return Verdict.DROPPED
        verdict = self.outbox.put_events(chunk, count)
        self._touch()
        if verdict is not Verdict.TAKEN and self._signals is not None:
            self._signals.pressed.append((self, verdict))
        if verdict is Verdict.LOST:
            self.end(f"the peer reads too slowly: {self.outbox.count:,} events wait for it")
        elif verdict is Verdict.FULL:
            self._was_full = True
        return verdict

    @property
    def passes(self) -> bool:
        """Whether what it is to send can be written at once, as nothing waits before it."""
        return self.state is State.OPEN and self.writable and not self.outbox

    def _put(self, chunk: bytes, *, barrier: bool = False) -> None:
        self._touch()
        if self.outbox.put_control(chunk, barrier=barrier) is Verdict.LOST:
            self.abort("the peer reads too slowly: too much control traffic waits for it")

    def to_send(self, now_s: float) -> list[bytes]:
        """Return what is to be written now, in order: at most about READ_AHEAD bytes; nothing while not `writable`."""
        if self.state is State.CLOSED:
            chunks, self._last_words = self._last_words, []
        else:
            chunks = self.outbox.take(READ_AHEAD) if self.writable and self.outbox else []
            if self.state is State.DRAINING and not self.outbox:
                self._shut()
        if chunks:
            self.sent_s = now_s
            self.sent_bytes += sum(map(len, chunks))
        if self._last_words_s is None and self._has_said_all:
            self._last_words_s = now_s + LAST_WORDS_S
        return chunks

    @property
    def _has_said_all(self) -> bool:
        if self.state is State.CLOSED:
            return self.closing is Closing.CLOSE
        return self.state is State.DRAINING and not self.outbox

    def take_drained(self) -> bool:
        """Return, once, that the outbox has room again after it was full (`Verdict.FULL`)."""
        if not self._was_full or self.outbox.is_over:
            return False
        self._was_full = False
        return True

    def pause_writing(self) -> None:
        """The transport holds enough."""
        self.writable = False

    def resume_writing(self) -> None:
        """The transport takes more."""
        self.writable = True
        self._touch()
