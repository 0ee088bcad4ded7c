"""An event as a client gets it.

It is the DELIVERY frame that it came in, and nothing else: what is never looked at is never decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as struct_error
from typing import Any, Final

from covey.core.packing import unpack
from covey.errors import CoveyError, ProtocolError
from covey.protocol.events import (
    ATTRIBUTES,
    DELIVERED,
    DURABLE,
    ENVELOPE,
    FAMILY_SHIFT,
    decode_content,
    name_of,
)
from covey.protocol.frames import Kind

_POSITION: Final = Struct("<Q")
_TO_ONE: Final = DELIVERED.pack(
    Kind.DELIVERY, 0, 1
)  # how a delivery to one subscription, not durable, begins
_LENGTHS: Final = Struct(
    "<8x xB2xI18xH"
)  # of such a one: the event's flags, the lengths of content and notes
_FIRST: Final = DELIVERED.size + 4 + ENVELOPE.size

assert _LENGTHS.size == _FIRST

Acknowledge = Callable[
    [int, bool], bool
]  # a position, and whether all before it too; False if it is too late


class Delivered:
    """An event that matched a subscription; its parts are read from its frame when they are asked for."""

    __slots__ = ("_content", "_frame")

    _content: Any

    def __init__(self, frame: bytes) -> None:
        self._frame = frame
        self._content = None  # not decoded yet

    def _parts(self) -> tuple[int, int, int, int]:
        """Return the family of filters, where content and payload begin, and where the content ends."""
        frame = self._frame
        try:
            if frame[:4] == _TO_ONE:
                flags, content_length, notes_length = _LENGTHS.unpack_from(frame)
                first = _FIRST
            else:
                at = DELIVERED.size + 4 * (frame[2] | frame[3] << 8)
                if frame[1] & DURABLE:
                    at += _POSITION.size
                _, flags, _, content_length, _, _, _, notes_length = ENVELOPE.unpack_from(frame, at)
                first = at + ENVELOPE.size
        except struct_error:
            raise ProtocolError("an event's frame is too short") from None
        last = first + content_length
        if last + notes_length > len(frame):
            raise ProtocolError("an event's frame is shorter than it says")
        return flags >> FAMILY_SHIFT & 3, first, last + notes_length, last

    @property
    def content(self) -> Any:
        """What filters judge: a dict of attributes, a frozenset of words or a Document."""
        content = self._content
        if content is None:
            family, first, _, last = self._parts()
            packed = self._frame[first:last]
            content = unpack(packed) if family == ATTRIBUTES else decode_content(family, packed)
            self._content = content
        return content

    @property
    def raw_content(self) -> bytes:
        """The content as it travels: packed attributes, packed words, or the text of a document."""
        _, first, _, last = self._parts()
        return self._frame[first:last]

    @property
    def data(self) -> bytes:
        """The payload."""
        return self._frame[self._parts()[2] :]

    @property
    def id(self) -> str:
        """The event's name, which no other event of the network has."""
        first = self._parts()[1]
        _, _, _, _, publisher, number, _, _ = ENVELOPE.unpack_from(self._frame, first - ENVELOPE.size)
        return name_of(publisher, number)

    @property
    def position(self) -> int | None:
        """Its place in the store, if the subscription is durable."""
        frame = self._frame
        if not frame[1] & DURABLE:
            return None
        position: int = _POSITION.unpack_from(frame, DELIVERED.size + 4 * (frame[2] | frame[3] << 8))[0]
        return position

    @property
    def frame(self) -> bytes:
        """The DELIVERY frame that it came in, from which `Delivered` makes it again, in any process."""
        return self._frame

    @property
    def size(self) -> int:
        """How many bytes came for it."""
        return len(self._frame)

    def __getitem__(self, name: str) -> Any:
        return self.content[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute, or the default if the event has none of that name."""
        return self.content.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self.content

    def __repr__(self) -> str:
        return f"<event {self.id}: {self.content!r:.80}>"


class Received(Delivered):
    """An event of a subscription."""

    __slots__ = ()

    async def ack(self, *, all_before: bool = False) -> None:
        """Say that this event is done with: it will not be delivered again to its durable subscription.

        With `all_before`, so are all that were delivered before it. Nothing is waited for: until the broker has read
        it, a broken link brings the event again. CoveyError if the subscription is not durable.
        """
        raise CoveyError("only events of durable subscriptions can be acknowledged")


class Kept(Received):
    """An event of a durable subscription."""

    __slots__ = ("_acknowledge",)

    def __init__(self, frame: bytes, acknowledge: Acknowledge) -> None:
        super().__init__(frame)
        self._acknowledge = acknowledge

    async def ack(self, *, all_before: bool = False) -> None:
        """Say that this event is done with; see `Received.ack`."""
        assert self.position is not None, "a durable delivery has a position"
        if not self._acknowledge(self.position, all_before):
            raise CoveyError("the subscription has ended: what was not acknowledged before comes again")
