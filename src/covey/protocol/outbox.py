"""Outbox: what waits to be sent over one connection, bounded, control before events.

Control has a queue of its own and goes first, so that a flood of events delays no subscription. It keeps its own order,
and some messages may not overtake events: what was published before an Unadvertise must get there before it, as its way
is forgotten then, and a Probe asks whether it has. Such a message is a *barrier*: it, and all control after it, waits
for the events before it.

Events beyond the bounds are dealt with by the link's policy:

    disconnect    the link ends: the peer learns that it missed something
    drop-oldest   the events that waited longest make room
    drop-new      new ones are not taken
    block         they are taken, and the caller stops reading from whoever sends more, until there is room again

Control is never dropped: when it grows beyond its own bound, the peer is lost and the link ends.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Final

from covey.protocol.frames import LENGTH, Kind

DISCONNECT, DROP_OLDEST, DROP_NEW, BLOCK = POLICIES = ("disconnect", "drop-oldest", "drop-new", "block")


@dataclass(frozen=True)
class Bounds:
    """How much may wait, and what happens to more."""

    events: int = 100_000
    bytes: int = 64 << 20
    policy: str = DISCONNECT
    control_bytes: int = 256 << 20


class Verdict(Enum):
    """What became of something that was to be sent."""

    TAKEN = 1
    DROPPED = 2  # it, or something older
    FULL = 3  # taken, beyond the bounds: the caller is to hold its sources back
    LOST = 4  # the link is to end


class Outbox:
    """What waits for one link. A chunk is the bytes of one or several whole frames."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.dropped = 0
        self._control: deque[tuple[bytes, int | None]] = (
            deque()
        )  # with the number of the event chunk it waits for
        self._events: deque[tuple[bytes, int]] = deque()
        self._control_bytes = 0
        self._event_bytes = 0
        self._event_count = 0
        self._put = 0  # event chunks so far
        self._taken = 0  # of them, taken or dropped

    @property
    def count(self) -> int:
        """How many events wait."""
        return self._event_count

    @property
    def size(self) -> int:
        """How many bytes wait."""
        return self._event_bytes + self._control_bytes

    @property
    def is_over(self) -> bool:
        """Whether more than half of what is allowed waits."""
        return 2 * self._event_count > self.bounds.events or 2 * self._event_bytes > self.bounds.bytes

    def __bool__(self) -> bool:
        return bool(self._control or self._events)

    def put_control(self, chunk: bytes, *, barrier: bool = False) -> Verdict:
        """Take a control frame; with `barrier` it waits for all events that are here."""
        self._control.append((chunk, self._put if barrier else None))
        self._control_bytes += len(chunk)
        return Verdict.LOST if self._control_bytes > self.bounds.control_bytes else Verdict.TAKEN

    def put_events(self, chunk: bytes, count: int = 1) -> Verdict:
        """Take `count` events in one chunk, as the policy says."""
        bounds = self.bounds
        verdict = Verdict.TAKEN
        if self._event_count + count > bounds.events or self._event_bytes + len(chunk) > bounds.bytes:
            if count > 1 and bounds.policy in (DROP_OLDEST, DROP_NEW):
                return self._put_each(chunk)
            verdict = self._make_room(chunk, count)
            if verdict in (Verdict.LOST, Verdict.DROPPED) and bounds.policy != DROP_OLDEST:
                return verdict
        self._events.append((chunk, count))
        self._event_bytes += len(chunk)
        self._event_count += count
        self._put += 1
        return verdict

    def _put_each(self, chunk: bytes) -> Verdict:
        """Take the events of a chunk that is too large one by one; what became of the last of them that had to go."""
        verdict, at, bounds = Verdict.TAKEN, 0, self.bounds
        while at < len(chunk):
            last = at + LENGTH.size + LENGTH.unpack_from(chunk, at)[0]
            if bounds.policy == DROP_NEW and (
                self._event_count >= bounds.events or self._event_bytes + last - at > bounds.bytes
            ):
                self.dropped += 1  # not even copied: of a queue that is full, that is all that is done
                one = Verdict.DROPPED
            else:
                one = self.put_events(chunk[at:last])
            verdict = verdict if one is Verdict.TAKEN else one
            at = last
        return verdict

    def _make_room(self, chunk: bytes, count: int) -> Verdict:
        bounds = self.bounds
        if bounds.policy == DISCONNECT:
            return Verdict.LOST
        if bounds.policy == BLOCK:
            return Verdict.FULL
        if bounds.policy == DROP_NEW:
            self.dropped += count
            return Verdict.DROPPED
        while self._events and (
            self._event_count + count > bounds.events or self._event_bytes + len(chunk) > bounds.bytes
        ):
            _, old = self._next_events()
            self.dropped += old
        return Verdict.DROPPED

    def _next_events(self) -> tuple[bytes, int]:
        chunk, count = self._events.popleft()
        self._event_bytes -= len(chunk)
        self._event_count -= count
        self._taken += 1
        return chunk, count

    def drop_deliveries(self) -> None:
        """Forget every event that waits, durable deliveries among control too; what waited for events can go."""
        self._events.clear()
        self._event_bytes = self._event_count = 0
        self._taken = self._put
        self._control = deque(one for one in self._control if one[0][LENGTH.size] != Kind.DELIVERY)
        self._control_bytes = sum(len(chunk) for chunk, _ in self._control)

    def take(self, size: int) -> list[bytes]:
        """Return chunks to be sent now, in their order: about `size` bytes, and at least one if there is one.

        They are no more than MOST_CHUNKS: many small ones take longer than their bytes say.
        """
        chunks: list[bytes] = []
        total = 0
        while total < size and len(chunks) < MOST_CHUNKS:
            if self._control:
                chunk, waits_for = self._control[0]
                if waits_for is None or waits_for <= self._taken:
                    self._control.popleft()
                    self._control_bytes -= len(chunk)
                    chunks.append(chunk)
                    total += len(chunk)
                    continue
            if not self._events:
                break
            chunk, _ = self._next_events()
            chunks.append(chunk)
            total += len(chunk)
        return chunks


READ_AHEAD: Final = 1 << 18  # bytes that are handed to the transport at a time,
MOST_CHUNKS: Final = 256  # in so many pieces
