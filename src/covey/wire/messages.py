"""Control frames: what peers say of themselves, what clients ask for, and what routers tell each other.

Each is a MessagePack array that begins with a tag. Filters travel in their wire form, and are judged when they are
read; whatever is wrong with a frame is a ProtocolError.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from covey.core.families import decode as decode_filter
from covey.core.filter import Filter
from covey.errors import FilterError
from covey.routing.messages import (
    Advertise,
    Change,
    Echo,
    Greet,
    Message,
    Pack,
    Probe,
    Subscribe,
    Sync,
    Unadvertise,
    Unsubscribe,
    Update,
)
from covey.wire.decoding import decoder

MAX_NAME: Final = 128  # characters of a broker's, client's or subscription's name


class Hello(msgspec.Struct, frozen=True, tag="hello", array_like=True):
    """Who dials. A broker says its name and `incarnation`, which is another one after every start."""

    version: int
    role: str  # "client" or "broker"
    name: str = ""
    token: str = ""
    user: str = ""
    password: str = ""
    incarnation: int = 0

    def __repr__(self) -> str:
        return f"<hello of the {self.role!r:.20} {self.name!r:.40}>"  # without secrets, wherever it is shown


class Welcome(msgspec.Struct, frozen=True, tag="welcome", array_like=True):
    """Who listens. `number` is what a client writes on its events as their publisher."""

    version: int
    broker: str
    number: int = 0
    incarnation: int = 0
    max_frame: int = 0
    lease_s: float = 0.0


class Goodbye(msgspec.Struct, frozen=True, tag="goodbye", array_like=True):
    """Why the link ends; `retry` says whether to come back is of use."""

    reason: str
    retry: bool = True


class SubscribeRequest(msgspec.Struct, frozen=True, tag="subscribe", array_like=True):
    """A client wants what the filter matches, as its subscription `sid`; numbers grow and are never used again.

    A durable one has a name, under which it outlives the connection.
    """

    request: int
    sid: int
    filter: bytes
    durable: str = ""


class ReplaceRequest(msgspec.Struct, frozen=True, tag="replace", array_like=True):
    """From now on the subscription `sid` has another filter; no event is lost or delivered twice in between."""

    request: int
    sid: int
    filter: bytes


class UnsubscribeRequest(msgspec.Struct, frozen=True, tag="unsubscribe", array_like=True):
    """The subscription ends; with `forget`, a durable one loses what it has stored too."""

    request: int
    sid: int
    forget: bool = False


class AdvertiseRequest(msgspec.Struct, frozen=True, tag="advertise", array_like=True):
    """The client may publish what the filter matches."""

    request: int
    aid: int
    filter: bytes


class UnadvertiseRequest(msgspec.Struct, frozen=True, tag="unadvertise", array_like=True):
    """The advertisement ends."""

    request: int
    aid: int


class FlushRequest(msgspec.Struct, frozen=True, tag="flush", array_like=True):
    """Answer once everything the client has said before is in force in the whole network.

    With `near`, once this broker has handled it: events that it refuses are refused before the answer.
    """

    request: int
    near: bool = False


class Reply(msgspec.Struct, frozen=True, tag="reply", array_like=True):
    """What became of a request; no error is success. Request 0 is none: an event, `event`, was refused."""

    request: int
    error: str = ""
    event: int = 0


Request: TypeAlias = (
    SubscribeRequest
    | ReplaceRequest
    | UnsubscribeRequest
    | AdvertiseRequest
    | UnadvertiseRequest
    | FlushRequest
)
Life: TypeAlias = Hello | Welcome | Goodbye

Routed: TypeAlias = (
    Advertise | Unadvertise | Subscribe | Unsubscribe | Pack | Update | Change | Greet | Sync | Probe | Echo
)


def _encode_filter(value: Any) -> Any:
    if isinstance(value, Filter):
        return value.encode()
    raise NotImplementedError(type(value).__name__)


def _decode_filter(kind: type, value: Any) -> Any:
    if isinstance(value, bytes):
        return decode_filter(value)
    raise FilterError("a filter travels as bytes")


encode: Final = msgspec.msgpack.Encoder(enc_hook=_encode_filter).encode
_decode_life: Final = decoder(Life)
_decode_request: Final = decoder(Request)
_decode_reply: Final = decoder(Reply)
_decode_routed: Final = decoder(Routed, _decode_filter)


def decode_life(body: bytes | memoryview) -> Life:
    """Return what a peer says of itself; ProtocolError for any other bytes."""
    said: Life = _decode_life(body)
    return said


def decode_request(body: bytes | memoryview) -> Request:
    """Return a client's request; ProtocolError for any other bytes."""
    said: Request = _decode_request(body)
    return said


def decode_reply(body: bytes | memoryview) -> Reply:
    """Return the answer to a request; ProtocolError for any other bytes."""
    said: Reply = _decode_reply(body)
    return said


def encode_routed(message: Message, epoch: int = 0) -> bytes:
    """Return the body of a ROUTE frame: the plan's epoch (u16) and the message."""
    return epoch.to_bytes(2, "little") + encode(message)


def decode_routed(body: bytes | memoryview) -> tuple[Message, int]:
    """Return a router's message and its epoch; ProtocolError for any other bytes."""
    message: Message = _decode_routed(memoryview(body)[2:])
    return message, int.from_bytes(body[:2], "little")
