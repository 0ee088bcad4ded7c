"""Frames: how a stream of bytes is cut into pieces, each of a kind.

    frame     length (u32) · kind (u8) · body             the length counts the kind and the body; little-endian

Kinds below 32 are control: they have a queue of their own, and their bodies are MessagePack. The others carry
events, in a layout that can be read without decoding (`protocol.events`). A frame is at most as long as the reader
allows, and the length is judged before anything is kept for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import Final

from covey.errors import ProtocolError

VERSION: Final = 2  # the newest version of the protocol that is spoken here
OLDEST: Final = 1  # and the oldest one
STORES: Final = 2  # the version from which brokers tell each other of their stores
PIECES: Final = 2  # since this version a Sync may come in pieces
MAX_FRAME: Final = 1 << 20  # bytes, unless a broker is told otherwise
MAX_GREETING: Final = 1 << 14  # of a peer that has not said yet who it is
LAST_POSITION: Final = 1 << 62  # of an event in a store: all that are given away are below it

LENGTH: Final = Struct("<I")
_HEAD: Final = Struct("<IB")


class Kind(IntEnum):
    """The kinds of frames."""

    HELLO = 1  # who dials, and what it may do
    WELCOME = 2  # the answer of who listens
    GOODBYE = 3  # why the link ends now
    PING = 4
    PONG = 5
    REQUEST = 8  # a client's wish
    REPLY = 9  # what became of it
    ROUTE = 16  # a message of one router to another
    OVERLAY = 17  # what brokers tell each other of the overlay itself
    PLAN = 18  # what they tell each other of plans
    WHOLE = 19  # whether a broker knows, and has told, all interest behind it
    STORE = 20  # what brokers tell each other of what they keep
    EVENT = 32  # an event on its way
    DELIVERY = 33  # an event for subscriptions of a client
    TAKEN = 34  # events that are on disk with the sender, so that the other may forget them
    ACKNOWLEDGE = 35  # deliveries to durable subscriptions that a client is done with
    COPY = 36  # an event as the sender keeps it, for a broker whose own copy is damaged


def frame(kind: int, body: bytes) -> bytes:
    """Return one frame."""
    return _HEAD.pack(len(body) + 1, kind) + body


def framed(one: bytes) -> bytes:
    """Return a frame that is there with its kind first, as splitters give them, with its length before it."""
    return LENGTH.pack(len(one)) + one


class Splitter:
    """Cuts what arrives into frames, without their lengths; ProtocolError for one that is too long or empty."""

    def __init__(self, limit: int = MAX_GREETING) -> None:
        self.limit = limit
        self._pieces: list[bytes] = []  # of a frame that is not complete
        self._have = 0
        self._need = 0  # bytes, before which nothing can be complete

    def feed(self, data: bytes) -> Sequence[bytes]:
        """Return the frames that are complete with these bytes, each with its kind first."""
        if self._pieces:
            # A long frame comes in many pieces: they are joined once, when it is there.
            self._pieces.append(data)
            self._have += len(data)
            if self._have < self._need:
                return ()
            data = b"".join(self._pieces)
            self._pieces.clear()
        frames, at = self._cut(data)
        if at < len(data):
            self._pieces.append(data[at:] if at else data)
            self._have, self._need = len(data) - at, LENGTH.size
            if self._have >= LENGTH.size:
                self._need += LENGTH.unpack_from(data, at)[0]
        return frames

    def take(self, data: bytes) -> tuple[Sequence[bytes], bool]:
        """Return the frames that are complete with these bytes but for heartbeats, and whether there was a ping."""
        return self.without_heartbeats(self.feed(data))

    def _cut(self, data: bytes) -> tuple[Sequence[bytes], int]:
        """Return the complete frames, and where the first one that is not begins."""
        frames: list[bytes] = []
        at, end = 0, len(data)
        while end - at >= LENGTH.size:
            (length,) = LENGTH.unpack_from(data, at)
            if not 1 <= length <= self.limit:
                raise ProtocolError(f"a frame of {length:,} bytes; from 1 to {self.limit:,} are allowed")
            last = at + LENGTH.size + length
            if last > end:
                break
            frames.append(data[at + LENGTH.size : last])
            at = last
        return frames, at

    def without_heartbeats(self, frames: Sequence[bytes]) -> tuple[Sequence[bytes], bool]:
        """Return the other frames, and whether there was a ping."""
        if not frames:
            return frames, False
        others = [one for one in frames if one[0] != Kind.PING and one[0] != Kind.PONG]
        return others, len(others) < len(frames) and any(one[0] == Kind.PING for one in frames)

    @property
    def waiting(self) -> int:
        """How many bytes of an incomplete frame are kept."""
        return self._have if self._pieces else 0
