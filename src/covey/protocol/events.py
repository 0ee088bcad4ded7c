"""Frames that carry events, and those with which events are confirmed; little-endian, readable without decoding.

    EVENT         kind u8 · flags u8 · tree u16 · content length u32 · publisher u64 · number u64
                  · epoch u16 · notes length u16 · content · notes · payload
    DELIVERY      kind u8 · flags u8 · count u16 · count × sid u32
                  [· position u64, of a durable subscription] · an EVENT
    TAKEN         count u32 · count × (publisher u64 · number u64)             these are on disk with the sender
    ACKNOWLEDGE   sid u32 · cumulative u8 · count u32 · count × position u64   the client is done with these
    WHOLE         u8                                                           whether all interest behind the sender
                                                                               that matters to the other is told

The content is in the packed form of attributes (`core.packing`), a MessagePack array of words, or XML. Publisher and
number together are the event's name, unique in a network: brokers give each client a number that nobody else has.
Notes are a MessagePack array and rare. A broker on the way changes tree, flags and notes; content and payload travel as
they are, and nobody needs to decode them to pass them on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from covey.core.content import no_content, published_document, published_words
from covey.core.event import Event
from covey.core.packing import pack_published, unpack
from covey.core.xpath.document import Document
from covey.errors import EventError, ProtocolError
from covey.protocol.frames import LAST_POSITION, Kind
from covey.routing.messages import Publish

FLOODED: Final = 1  # outside its publisher's advertisements
KEPT: Final = 2  # on disk where it comes from, until the receiver says that it has it on disk too
FAMILY_SHIFT: Final = 2  # two bits: the family of filters that judges it
ATTRIBUTES, XPATH, KEYWORDS = range(3)

DURABLE: Final = 1  # of a delivery: it has a position, to be acknowledged

ENVELOPE: Final = Struct("<BBHIQQHH")
DELIVERED: Final = Struct("<BBH")
_POSITION: Final = Struct("<Q")

_encode: Final = msgspec.msgpack.Encoder().encode


class Notes(msgspec.Struct, frozen=True, array_like=True):
    """What strategies write on the envelope; see `Publish`."""

    distance: float = 0.0
    destinations: tuple[str, ...] | None = None
    detours: int = 0


_decode_notes: Final = msgspec.msgpack.Decoder(Notes).decode
_decode_words: Final = msgspec.msgpack.Decoder(list[str]).decode
_NO_NOTES: Final = Notes()


class Envelope(NamedTuple):
    """The fixed part of an EVENT frame."""

    kind: int
    flags: int
    tree: int
    content_length: int
    publisher: int
    number: int
    epoch: int
    notes_length: int


def encode_content(content: Any) -> tuple[int, bytes]:
    """Return the family of filters that judges the content, and its bytes; EventError if it cannot be published."""
    if type(content) is dict or isinstance(content, Mapping):  # as most are: the first is asked sooner
        return ATTRIBUTES, pack_published(content)
    if isinstance(content, (set, frozenset)):
        return KEYWORDS, _encode(published_words(content))
    if isinstance(content, (str, bytes)):
        return XPATH, published_document(content)
    if isinstance(content, Document):
        raise EventError("a parsed document cannot travel (hint: publish its text)")
    raise no_content(content)


def decode_content(family: int, data: bytes) -> Any:
    """Return what filters judge; EventError if the bytes are no content of that family."""
    if family == ATTRIBUTES:
        return unpack(data)
    if family == XPATH:
        return Document.parse(data)
    if family != KEYWORDS:
        raise EventError(f"there is no family {family} of filters")
    try:
        return frozenset(_decode_words(data))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EventError(f"these bytes are no words: {error}") from None


def name_of(publisher: int, number: int) -> str:
    """Return an event's name in the network."""
    return f"{publisher:x}.{number:x}"


def link_of(publisher: int) -> str:
    """Return the name of the link over which a client with this number is attached."""
    return f"~{publisher:x}"


def encode_event(
    content: bytes,
    payload: bytes,
    *,
    family: int,
    publisher: int,
    number: int,
    flags: int = 0,
    tree: int = 0,
    epoch: int = 0,
    notes: bytes = b"",
) -> bytes:
    """Return an EVENT frame without its length."""
    head = ENVELOPE.pack(
        Kind.EVENT, flags | family << FAMILY_SHIFT, tree, len(content), publisher, number, epoch, len(notes)
    )
    return b"".join((head, content, notes, payload))


def envelope_of(frame: bytes) -> Envelope:
    """Return the envelope of an EVENT frame; ProtocolError if its lengths are not those of a frame."""
    if len(frame) < ENVELOPE.size:
        raise ProtocolError("an event's frame is too short")
    envelope = Envelope._make(ENVELOPE.unpack_from(frame))
    if ENVELOPE.size + envelope.content_length + envelope.notes_length > len(frame):
        raise ProtocolError("an event's frame is shorter than it says")
    return envelope


def family_of(envelope: Envelope) -> int:
    """Return the family of filters that judges the event."""
    return envelope.flags >> FAMILY_SHIFT & 3


def publish_of(frame: bytes, envelope: Envelope) -> Publish:
    """Return the message that a frame carries; ProtocolError or EventError if it carries none."""
    first = ENVELOPE.size + envelope.content_length
    last = first + envelope.notes_length
    notes = _NO_NOTES
    if envelope.notes_length:
        try:
            notes = _decode_notes(frame[first:last])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ProtocolError(f"an event's notes cannot be read: {error!s:.120}") from None
    return Publish(
        event=Event(decode_content(family_of(envelope), frame[ENVELOPE.size : first]), frame[last:]),
        id=name_of(envelope.publisher, envelope.number),
        publisher=link_of(envelope.publisher),
        distance=notes.distance,
        destinations=notes.destinations,
        detours=notes.detours,
        flooded=bool(envelope.flags & FLOODED),
        tree=envelope.tree,
    )


def forwarded(frame: bytes, envelope: Envelope, publish: Publish, epoch: int = 0) -> bytes:
    """Return the frame with the envelope that a message has now; content and payload are taken as they are."""
    notes = b""
    if publish.distance or publish.destinations is not None or publish.detours:
        notes = _encode(Notes(publish.distance, publish.destinations, publish.detours))
    flags = envelope.flags & ~FLOODED | (FLOODED if publish.flooded else 0)
    same = (flags, publish.tree, epoch) == (envelope.flags, envelope.tree, envelope.epoch)
    if same and not notes and not envelope.notes_length:
        return frame
    head = ENVELOPE.pack(
        Kind.EVENT,
        flags,
        publish.tree,
        envelope.content_length,
        envelope.publisher,
        envelope.number,
        epoch,
        len(notes),
    )
    last = ENVELOPE.size + envelope.content_length
    return b"".join((head, frame[ENVELOPE.size : last], notes, frame[last + envelope.notes_length :]))


_OF_DURABLE: Final = Struct(f"{DELIVERED.format}IQ")  # a delivery to one durable subscription


def encode_delivery(frame: bytes, sids: Sequence[int], position: int | None = None) -> bytes:
    """Return a DELIVERY frame without its length; with a position it is for one durable subscription."""
    if position is not None and len(sids) == 1:  # a long backlog is nothing else
        return _OF_DURABLE.pack(Kind.DELIVERY, DURABLE, 1, sids[0], position) + frame
    flags = 0 if position is None else DURABLE
    head = DELIVERED.pack(Kind.DELIVERY, flags, len(sids)) + Struct(f"<{len(sids)}I").pack(*sids)
    return b"".join((head, b"" if position is None else _POSITION.pack(position), frame))


class Delivery(NamedTuple):
    """A DELIVERY frame, taken apart; `event` is the EVENT frame in it."""

    sids: tuple[int, ...]
    position: int | None
    event: bytes


def delivery_of(frame: bytes) -> Delivery:
    """Return what a DELIVERY frame says; ProtocolError if it is none."""
    if len(frame) < DELIVERED.size:
        raise ProtocolError("a delivery's frame is too short")
    _, flags, count = DELIVERED.unpack_from(frame)
    after = DELIVERED.size + 4 * count
    position = None
    if len(frame) < after + (_POSITION.size if flags & DURABLE else 0):
        raise ProtocolError("a delivery's frame is shorter than it says")
    sids = Struct(f"<{count}I").unpack_from(frame, DELIVERED.size)
    if flags & DURABLE:
        (position,) = _POSITION.unpack_from(frame, after)
        after += _POSITION.size
    return Delivery(sids, position, frame[after:])


MOST_CONFIRMED: Final = 4_096  # names or positions in a frame

_COUNT: Final = Struct("<I")
_NAME: Final = Struct("<QQ")
_ACKNOWLEDGED: Final = Struct("<IBI")

Name: TypeAlias = tuple[int, int]  # an event's publisher and number


class Acknowledgement(NamedTuple):
    """What a client is done with of one durable subscription: these positions, or all up to the largest."""

    sid: int
    cumulative: bool
    positions: tuple[int, ...]


def encode_taken(names: Sequence[Name]) -> Iterator[bytes]:
    """Yield the bodies of as many TAKEN frames as there must be."""
    for first in range(0, len(names), MOST_CONFIRMED):
        some = names[first : first + MOST_CONFIRMED]
        yield _COUNT.pack(len(some)) + b"".join([_NAME.pack(*name) for name in some])


def decode_taken(body: bytes) -> list[Name]:
    """Return the names of a TAKEN frame; ProtocolError if it is none."""
    if len(body) < _COUNT.size or len(body) != _COUNT.size + _NAME.size * _COUNT.unpack_from(body)[0]:
        raise ProtocolError("what was taken cannot be read")
    return list(_NAME.iter_unpack(body[_COUNT.size :]))


def encode_acknowledge(sid: int, positions: Sequence[int], *, cumulative: bool) -> bytes:
    """Return the body of an ACKNOWLEDGE frame."""
    return _ACKNOWLEDGED.pack(sid, cumulative, len(positions)) + Struct(f"<{len(positions)}Q").pack(
        *positions
    )


def decode_acknowledge(body: bytes) -> Acknowledgement:
    """Return what an ACKNOWLEDGE frame says; ProtocolError if it is none."""
    if len(body) >= _ACKNOWLEDGED.size:
        sid, cumulative, count = _ACKNOWLEDGED.unpack_from(body)
        if len(body) == _ACKNOWLEDGED.size + 8 * count:
            positions = Struct(f"<{count}Q").unpack_from(body, _ACKNOWLEDGED.size)
            if max(positions, default=0) >= LAST_POSITION:
                raise ProtocolError(f"an acknowledgement names {max(positions)}, which is no position")
            return Acknowledgement(sid, bool(cumulative), positions)
    raise ProtocolError("an acknowledgement cannot be read")
