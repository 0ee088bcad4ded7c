"""Publishing: events become frames, wait for the link, and are remembered until they are confirmed.

Frames are gathered and handed to the link in one piece, at the end of the loop's turn or when there are many: a
publisher pays for encoding and little else. While there is no link they wait here, within bounds. An event that is to
be confirmed is kept until the broker has it on disk, and sent again on every new link before: at least once. Others are
sent once, or lost with the link: at most once. Either way a publisher's events keep their order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from struct import Struct
from typing import Any, Final, NoReturn

from covey.client.link import Link
from covey.core.content import published_payload
from covey.core.event import Event
from covey.core.packing import pack_published
from covey.errors import CoveyError, EventError, LinkError, RefusedError
from covey.protocol.events import ATTRIBUTES, ENVELOPE, FAMILY_SHIFT, KEPT, encode_content
from covey.protocol.frames import LENGTH, MAX_FRAME, Kind

CHUNK: Final = 1 << 16  # bytes that are gathered before they are handed to the link

_HEAD: Final = Struct("<IBBHIQQHH")  # a frame's length and an event's envelope
_EVENT: Final = int(Kind.EVENT)
_PUBLISHER_AT: Final = 12  # in a frame with its length
_PUBLISHER: Final = Struct("<Q")

assert LENGTH.size + ENVELOPE.size == _HEAD.size


class Batch:
    """Events that somebody waits for together: until `complete` was said, and each is confirmed or refused."""

    __slots__ = ("_is_complete", "done", "left", "refusals")

    def __init__(self) -> None:
        self.left = 0
        self.refusals: dict[int, CoveyError] = {}  # by the events' numbers
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_complete = False

    def complete(self) -> None:
        """No event is added any more. Those before may all have been confirmed."""
        self._is_complete = True
        self._look()

    def settled(self) -> None:
        """One of the events is confirmed or refused."""
        self.left -= 1
        self._look()

    def _look(self) -> None:
        if self.left == 0 and self._is_complete and not self.done.done():
            self.done.set_result(None)

    def raise_refusals(self, total: int) -> None:
        """Raise why events were refused, if any was."""
        if not self.refusals:
            return
        first = next(iter(self.refusals.values()))
        if total == 1:
            raise first
        reasons = {number: str(error) for number, error in self.refusals.items()}
        kinds = {
            number: error.kind
            for number, error in self.refusals.items()
            if isinstance(error, RefusedError) and error.retry
        }
        raise RefusedError(
            f"{len(reasons):,} of {total:,} events are refused, the first one: {first}",
            reasons,
            next(iter(kinds.values())) if len(kinds) == len(reasons) else "",
            kinds,
        )


class Outgoing:
    """What a client publishes, on its way to the link; see the module's text."""

    def __init__(self, buffer_events: int, buffer_bytes: int) -> None:
        self._buffer_events, self._buffer_bytes = buffer_events, buffer_bytes
        self._link: Link | None = None
        self._frames: list[bytes] = []
        self._size = 0
        self._scheduled = False
        self._rooms: list[asyncio.Future[None]] = []
        self.is_full = False  # publishers are to wait
        self._publisher = 0
        self._number = 0
        self._sent_number = 0  # the last that was handed to a link
        self._max_frame = MAX_FRAME
        self._unconfirmed: dict[int, tuple[bytes, Batch]] = {}
        self.refusal: CoveyError | None = None  # why nothing is taken, if that is so
        self.dropped = 0  # unconfirmed or not, what was given up while there was no link

    # -- taking ----------------------------------------------------------------------------------------------

    def put(self, content: Any, data: bytes, batch: Batch | None = None) -> bool:
        """Take an event; return whether the publisher should wait (`room`) before the next one.

        EventError if it cannot be carried or is too large, LinkError if there is no link and no room for it.
        """
        if type(content) is dict:  # as most are
            return self.put_packed(ATTRIBUTES, pack_published(content), data, batch)
        family, packed = encode_content(content)
        return self.put_packed(family, packed, data, batch)

    def put_packed(self, family: int, packed: bytes, data: bytes, batch: Batch | None = None) -> bool:
        """Take an event whose content is packed already; as `put`."""
        if type(data) is not bytes:
            data = published_payload(data)
        length = _HEAD.size - 4 + len(packed) + len(data)
        if length > self._max_frame:
            self.check_size(packed, data)
        if self._link is None or self.refusal is not None:
            self._make_sure_of_room(length)
        self._number = number = self._number + 1
        flags = family << FAMILY_SHIFT if batch is None else family << FAMILY_SHIFT | KEPT
        head = _HEAD.pack(length, _EVENT, flags, 0, len(packed), self._publisher, number, 0, 0)
        frame = b"".join((head, packed, data))
        if batch is not None:
            self._unconfirmed[number] = (frame, batch)
            batch.left += 1
        self._frames.append(frame)
        self._size += length
        if self._size >= CHUNK:
            self.flush()
            return self._link is not None
        if not self._scheduled and self._link is not None:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._flush_soon)
        return self.is_full

    def check_size(self, packed: bytes, data: bytes) -> None:
        """Raise EventError for an event that the broker to which there is, or was last, a link does not take."""
        length = _HEAD.size - 4 + len(packed) + len(data)
        if length > self._max_frame:
            raise EventError(f"an event of {length:,} bytes; the broker takes {self._max_frame:,}")

    def put_all(self, events: Iterable[Any], batch: Batch | None) -> Iterable[None]:
        """Take events, each content, (content, data) or Event; stop whenever the publisher should wait."""
        for event in events:
            if type(event) is tuple and len(event) == 2:
                must_wait = self.put(event[0], event[1], batch)
            elif type(event) is Event:
                must_wait = self.put(event.content, event.payload, batch)
            else:
                must_wait = self.put(event, b"", batch)
            if must_wait:
                yield

    def _make_sure_of_room(self, length: int) -> None:
        if self.refusal is not None:
            raise_again(self.refusal)
        if len(self._frames) >= self._buffer_events or self._size + length > self._buffer_bytes:
            self.dropped += 1
            raise LinkError(
                f"there is no link to a broker, and {len(self._frames):,} events wait for one already"
            )

    async def room(self) -> None:
        """Let the loop send, and return when there is room for more."""
        await asyncio.sleep(0)
        while self.is_full and self._link is not None:
            room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._rooms.append(room)
            await room

    def has_room(self) -> None:
        """Publishers can go on."""
        self.is_full = False
        rooms, self._rooms = self._rooms, []
        for room in rooms:
            if not room.done():
                room.set_result(None)

    # -- sending ---------------------------------------------------------------------------------------------

    def _flush_soon(self) -> None:
        self._scheduled = False
        self.flush()

    def flush(self) -> None:
        """Hand what has gathered to the link, if there is one."""
        if self._link is None or not self._frames or not self._link.is_open:
            return
        frames, self._frames = self._frames, []
        self._size = 0
        self._sent_number = self._number
        verdict = self._link.connection.send_events(b"".join(frames), len(frames))
        if verdict.name == "FULL":
            self.is_full = True

    @property
    def is_empty(self) -> bool:
        """Whether everything is handed to a link, and confirmed where that was asked for."""
        return not self._frames and not self._unconfirmed

    @property
    def waiting(self) -> int:
        """How many events have not been handed to a link."""
        return len(self._frames)

    def link_up(self, link: Link) -> list[EventError]:
        """There is a link: send what is not confirmed, and what has waited, with our number on it.

        Return what is wrong with those that this broker does not take and nobody waits for.
        """
        self._max_frame = link.max_frame or MAX_FRAME
        again = [frame for number, (frame, _) in self._unconfirmed.items() if number <= self._sent_number]
        publisher = _PUBLISHER.pack(link.number)
        refused: list[EventError] = []
        frames = self._within_bounds([*again, *self._frames], refused)
        self._frames = [
            b"".join((frame[:_PUBLISHER_AT], publisher, frame[_PUBLISHER_AT + 8 :])) for frame in frames
        ]
        self._publisher = link.number
        self._link = link
        self.is_full = False
        self.flush()
        return refused

    def _within_bounds(self, frames: list[bytes], refused: list[EventError]) -> list[bytes]:
        """Return the frames that the broker takes: it would end the link for one that is too long."""
        longest = self._max_frame + LENGTH.size
        for frame in frames:
            if len(frame) > longest:
                number = _HEAD.unpack_from(frame)[6]
                problem = (
                    f"an event of {len(frame) - LENGTH.size:,} bytes waited for a link; this broker takes"
                )
                error = EventError(f"{problem} {self._max_frame:,}")
                if not self.refused(number, error):
                    refused.append(error)
        return [frame for frame in frames if len(frame) <= longest]

    def link_down(self) -> None:
        """There is no link: from now on events wait here."""
        self._link = None
        self.has_room()

    # -- confirming ------------------------------------------------------------------------------------------

    def taken(self, publisher: int, number: int) -> None:
        """The broker has an event on disk."""
        found = self._unconfirmed.pop(number, None) if publisher == self._publisher else None
        if found is not None:
            found[1].settled()

    def refused(self, number: int, error: CoveyError) -> bool:
        """The broker does not take an event; return whether somebody waits for it."""
        found = self._unconfirmed.pop(number, None)
        if found is None:
            return False
        found[1].refusals[number] = error
        found[1].settled()
        return True

    def forget(self, batch: Batch) -> None:
        """Nobody waits for these any longer: they are not sent again."""
        if not batch.left:
            return
        for number in [number for number, (_, one) in self._unconfirmed.items() if one is batch]:
            del self._unconfirmed[number]

    def fail(self, error: CoveyError) -> None:
        """There will be no link any more."""
        for _, batch in self._unconfirmed.values():
            if not batch.done.done():
                batch.done.set_exception(error)
        self._unconfirmed.clear()
        self.dropped += len(self._frames)
        self._frames.clear()
        self.link_down()


def raise_again(error: CoveyError) -> NoReturn:
    """Raise the same error afresh: one that is raised twice shows where it was raised first."""
    raise type(error)(str(error))
