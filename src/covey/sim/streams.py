"""Byte streams between machines of a simulation: in order, with delays, and with what can happen to TCP connections.

A stream has two ends, and each has an owner, which is told what arrives. What one end writes arrives at the other
later, in its order; while the other does not read, it waits there, and a writer that is far ahead is paused. An end
can shut its sending side, close, or abort; a stream can be cut, which both ends hear of, or fall silent in one
direction or both, which nobody hears of. It can stall for a time, and something on the way can end one direction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from covey.broker.effects import Ending
from covey.protocol.frames import Kind, frame
from covey.sim.delays import Delay
from covey.sim.engine import Engine

RESET: Final = "the connection was reset"

_HEARTBEATS: Final = frozenset((frame(Kind.PING, b""), frame(Kind.PONG, b"")))


class Owner(Protocol):
    """Who has an end of a stream; numbers are those that it has given to its ends."""

    @property
    def is_reading(self) -> bool:
        """Whether it takes what arrives; otherwise that waits."""

    def received(self, number: int, data: bytes) -> None:
        """Bytes have come."""

    def heard_eof(self, number: int) -> None:
        """The other end sends nothing more."""

    def closed(self, number: int, reason: str) -> None:
        """The stream is gone; no reason: in order."""

    def paused(self, number: int, is_paused: bool) -> None:
        """The stream holds enough for now, or takes more again."""


class _Eof(Enum):
    EOF = "the other end sends nothing more"


@dataclass(eq=False)
class End:
    """One end of a stream."""

    owner: Owner
    number: int
    other: End = field(init=False, repr=False)
    is_open: bool = True
    is_shut: bool = False  # its sending side
    is_held: bool = False  # its owner reads nothing from it
    is_paused: bool = False  # its owner is to write nothing
    is_silent: bool = False  # nothing arrives at it any more
    unread: int = 0  # bytes that were written to it
    waiting: deque[bytes | _Eof] = field(default_factory=deque)  # what has arrived and is not read
    last_s: float = 0.0  # when the last thing arrives that is under way to it


class Streams:
    """All streams of a simulation; `note` is called whenever something happens that is no heartbeat."""

    def __init__(self, engine: Engine, delay: Delay, most_bytes: int, note: Callable[[], None]) -> None:
        self._engine, self._delay, self._most, self._note = engine, delay, most_bytes, note
        self._under_way = 0  # how much is, heartbeats left aside
        self._harmed: set[End] = (
            set()
        )  # open ends that are to notice, after a time, that nothing comes or goes

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing but heartbeats is under way, and nobody who reads has yet to notice that a stream is dead."""
        return not self._under_way and not any(end.owner.is_reading for end in self._harmed)

    def join(self, a: Owner, a_number: int, b: Owner, b_number: int) -> tuple[End, End]:
        """Return the two ends of a new stream."""
        one, other = End(a, a_number), End(b, b_number)
        one.other, other.other = other, one
        self._note()
        return one, other

    def write(self, end: End, data: bytes) -> None:
        """Have bytes arrive at the other end."""
        if not end.is_open or end.is_shut:
            return
        other = end.other
        is_beat = data in _HEARTBEATS
        if not is_beat:
            self._note()
        if not other.is_open:
            self._later(end, self._reset, end)
            return
        other.unread += len(data)
        if is_beat:
            self._engine.at(self._due_s(other), self._arrive, other, data)
        else:
            self._later(other, self._arrive, other, data)
        if other.unread > self._most and not end.is_paused:
            end.is_paused = True
            end.owner.paused(end.number, True)

    def end(self, end: End, how: Ending) -> None:
        """End a stream as its owner asks for; the other end hears of it behind what was written before."""
        if not end.is_open:
            return
        if how is Ending.ABORT:
            self._later(end.other, self._reset, end.other)
        elif not end.is_shut:
            end.is_shut = True
            self._later(end.other, self._arrive, end.other, _Eof.EOF)
        if how is not Ending.SHUT:
            self._close(end, "")

    def drop(self, end: End) -> None:
        """Its owner is gone, without a word: the other end hears of that behind what was written before."""
        if end.is_open:
            end.is_open = False
            self._harmed.discard(end)
            self._later(end.other, self._reset, end.other)

    def cut(self, end: End, reason: str) -> None:
        """Both ends lose the stream, with all that is under way."""
        self._close(end, reason)
        self._close(end.other, reason)

    def silence(self, end: End) -> None:
        """Let nothing arrive at either end any more, not even that the other is gone."""
        self.deafen(end)
        self.deafen(end.other)

    def deafen(self, end: End) -> None:
        """Let nothing arrive at one end any more; what that end writes still arrives."""
        end.is_silent = True
        if end.is_open:
            self._harmed.add(end)

    def stall(self, end: End, for_s: float) -> None:
        """Let what is written to an end from now on arrive after so many seconds, in its order."""
        end.last_s = max(end.last_s, self._engine.now_s + for_s)

    def half_close(self, end: End) -> None:
        """Have something on the way end what an end sends: the other end hears so, and its own owner does not."""
        if end.is_open and not end.is_shut:
            end.is_shut = True
            self._harmed.add(end)
            self._later(end.other, self._arrive, end.other, _Eof.EOF)

    def hold(self, end: End, is_held: bool) -> None:
        """Read nothing from an end, or read again."""
        end.is_held = is_held
        self.read(end)

    def read(self, end: End) -> None:
        """Give the owner what waits at an end, as far as it reads."""
        while end.waiting and end.is_open and not end.is_held and end.owner.is_reading:
            one = end.waiting.popleft()
            if isinstance(one, _Eof):
                end.owner.heard_eof(end.number)
                continue
            end.unread -= len(one)
            end.owner.received(end.number, one)
            writer = end.other
            if writer.is_paused and 2 * end.unread <= self._most and writer.is_open:
                writer.is_paused = False
                writer.owner.paused(writer.number, False)

    def _due_s(self, end: End) -> float:
        """Return when something that is sent to an end now happens there: after all that is under way to it."""
        end.last_s = max(end.last_s, self._engine.now_s + self._delay())
        return end.last_s

    def _later(self, end: End, action: Callable[..., None], *arguments: object) -> None:
        """Do something at an end, after all that is under way to it."""
        self._under_way += 1
        self._engine.at(self._due_s(end), self._happen, action, arguments)

    def _happen(self, action: Callable[..., None], arguments: tuple[object, ...]) -> None:
        self._under_way -= 1
        action(*arguments)

    def _arrive(self, end: End, what: bytes | _Eof) -> None:
        if end.is_open and not end.is_silent:
            end.waiting.append(what)
            self.read(end)

    def _reset(self, end: End) -> None:
        if not end.is_silent:
            self._close(end, RESET)

    def _close(self, end: End, reason: str) -> None:
        if end.is_open:
            self._note()
            end.is_open = False
            self._harmed.discard(end)
            end.waiting.clear()
            end.owner.closed(end.number, reason)
