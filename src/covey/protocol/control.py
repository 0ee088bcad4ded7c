"""Control frames: what peers say of themselves, what clients ask for, and what brokers tell each other.

The body of each is a MessagePack array that begins with a tag. Filters travel in their wire form and are judged when
they are read. Any other bytes are a ProtocolError. Fields that a reader does not know, at the end of an array, are
ignored, and those that the writer did not know have their default: so a later version can say more.

Versions: Hello and Welcome name the oldest and the newest version that the speaker can speak, and both ends use the
newest one that they have in common. So brokers and clients can be upgraded one after another.

OVERLAY frames, of the overlay itself and of the use of the link between two brokers:

    States       links of brokers, each newer than what the receiver is known to have; passed on to everyone
    Attach       the sender wants to route over this link, and is ready for what the receiver's router says
    Detach       it does so no longer: what it said before is void, and the receiver is to answer Detached
    Detached     the answer: whatever the sender said before this, it said before it heard Detach

PLAN frames:

    PlanState    which plans are installed, each under an epoch, and the epoch in which events set out; the larger
                 version counts, and is passed on to everyone
    Ready        a broker's tables of all epochs of a version are complete

STORE frames, of what brokers keep on disk, from version 2 on:

    Reached      the sender's store has given away positions up to this one, and all of them are on disk
    Recalled     what the receiver has said last with Reached: a store that does not know of it has lost its end
    Wanted       events of which the sender looks for a copy, as its own are damaged; answered by COPY or Lacking
    Lacking      events of which neither the sender nor any broker behind it has a copy
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from covey.core.families import decode as decode_filter
from covey.core.filter import Filter
from covey.errors import FilterError, ProtocolError
from covey.protocol.frames import LAST_POSITION, OLDEST, VERSION
from covey.routing.messages import (
    Advertise,
    Change,
    Echo,
    Greet,
    Message,
    Pack,
    Piece,
    Probe,
    Subscribe,
    Sync,
    Unadvertise,
    Unsubscribe,
    Update,
)


def decoder(
    types: Any, hook: Callable[[type, Any], Any] | None = None
) -> Callable[[bytes | memoryview], Any]:
    """Return what reads a value of one of these types; `hook` makes those that MessagePack does not know.

    It raises ProtocolError for any other bytes, whatever they are.
    """
    decode = msgspec.msgpack.Decoder(types, dec_hook=hook).decode

    def checked(body: bytes | memoryview) -> Any:
        try:
            return decode(body)
        except FilterError as error:
            raise ProtocolError(f"a frame has a filter that is none: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"a frame cannot be read: {error!s:.120}") from None

    return checked


MAX_NAME: Final = 128  # characters of a broker's, client's or subscription's name


class Versions(NamedTuple):
    """The versions of the protocol that somebody speaks: all from the oldest to the newest."""

    oldest: int
    newest: int

    def __str__(self) -> str:
        if self.oldest == self.newest:
            return f"version {self.oldest}"
        return f"versions {self.oldest} to {self.newest}"

    def common(self, theirs: Versions) -> int | None:
        """Return the newest version that both speak, None if there is none."""
        newest = min(self.newest, theirs.newest)
        return newest if newest >= max(self.oldest, theirs.oldest) else None


OURS: Final = Versions(OLDEST, VERSION)


class Hello(msgspec.Struct, frozen=True, tag="hello", array_like=True):
    """Who dials. A broker says its name and `incarnation`, which is another one after every start.

    `version` is the oldest one that the speaker can speak, because peers of version 1 compare it with theirs and know
    no other field; `newest` is the newest, and 0 from a peer that speaks only `version`.
    """

    version: int
    role: str  # "client" or "broker"
    name: str = ""
    token: str = ""
    user: str = ""
    password: str = ""
    incarnation: int = 0
    newest: int = 0

    def __repr__(self) -> str:
        return f"<hello of the {self.role!r:.20} {self.name!r:.40}>"  # without secrets, wherever it is shown


class Welcome(msgspec.Struct, frozen=True, tag="welcome", array_like=True):
    """Who listens; the versions are as in Hello. `number` is what a client writes on its events as their publisher."""

    version: int
    broker: str
    number: int = 0
    incarnation: int = 0
    max_frame: int = 0
    lease_s: float = 0.0
    newest: int = 0


def versions_of(said: Hello | Welcome) -> Versions:
    """Return the versions that a peer speaks; ProtocolError if there can be no such versions."""
    versions = Versions(said.version, said.newest or said.version)
    if not 1 <= versions.oldest <= versions.newest:
        raise ProtocolError(f"a peer names versions that cannot be: {said.version} to {said.newest}")
    return versions


def agreed_version(ours: Versions, said: Hello | Welcome, us: str) -> int:
    """Return the newest version that a peer and we speak; ProtocolError, which `us` begins, if there is none."""
    theirs = versions_of(said)
    version = ours.common(theirs)
    if version is None:
        raise ProtocolError(f"{us} speaks {ours} of the protocol, and its peer {theirs}")
    return version


class Goodbye(msgspec.Struct, frozen=True, tag="goodbye", array_like=True):
    """Why the link ends; `retry` says whether to come back is of use."""

    reason: str
    retry: bool = True


class SubscribeRequest(msgspec.Struct, frozen=True, tag="subscribe", array_like=True):
    """A client wants what the filter matches, as its subscription `sid`; numbers grow and are never used again.

    A durable one has a name, under which it outlives the connection. A client that attaches it again says the last
    position that it had of it: a broker whose disk has forgotten that position learns so what it has lost.
    """

    request: int
    sid: int
    filter: bytes
    durable: str = ""
    reached: int = 0


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
    Advertise
    | Unadvertise
    | Subscribe
    | Unsubscribe
    | Pack
    | Update
    | Change
    | Greet
    | Sync
    | Piece
    | Probe
    | Echo
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
    return message, routed_epoch(body)


def routed_epoch(body: bytes | memoryview) -> int:
    """Return the epoch of a router's message, whatever it says."""
    return int.from_bytes(body[:2], "little")


LAST_SEQUENCE: Final = 1 << 62  # whoever hears of itself speaks louder, and must find a number for that

LinkStatus: TypeAlias = tuple[int, bool]  # the link's priority, and whether it is up


class BrokerLinks(msgspec.Struct, frozen=True, array_like=True):
    """The links of one broker, as it sees them; a higher sequence number is newer."""

    broker: str
    sequence: int
    links: dict[str, LinkStatus]


class States(msgspec.Struct, frozen=True, tag="states", array_like=True):
    """Some link states."""

    states: tuple[BrokerLinks, ...]


class Attach(msgspec.Struct, frozen=True, tag="attach", array_like=True):
    """The sender routes over this link as soon as the receiver says so too."""


class Detach(msgspec.Struct, frozen=True, tag="detach", array_like=True):
    """The sender routes over this link no longer."""


class Detached(msgspec.Struct, frozen=True, tag="detached", array_like=True):
    """The sender has heard Detach."""


Overlaid: TypeAlias = States | Attach | Detach | Detached

encode_overlaid: Final = msgspec.msgpack.Encoder().encode
_read_overlaid: Final = decoder(Overlaid)


def decode_overlaid(body: bytes | memoryview) -> Overlaid:
    """Return what an OVERLAY frame says; ProtocolError for any other bytes."""
    said: Overlaid = _read_overlaid(body)
    if isinstance(said, States) and not all(0 <= state.sequence < LAST_SEQUENCE for state in said.states):
        raise ProtocolError("a link state has a sequence number after which there is none")
    return said


MOST_EPOCHS: Final = 4  # at one time
LAST_EPOCH: Final = (1 << 16) - 1
LAST_VERSION: Final = 1 << 62


class PlanState(msgspec.Struct, frozen=True, tag="state", array_like=True):
    """All that is installed. An epoch without a plan, b"", is the overlay itself with the configured strategy."""

    version: int
    author: str  # the broker that made this version; of two with one number, the larger name counts
    current: int
    plans: dict[int, bytes]

    @property
    def order(self) -> tuple[int, str]:
        """What decides between two states."""
        return self.version, self.author


class Ready(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The broker has synchronised with all its neighbours in every epoch of that version."""

    version: int
    author: str
    broker: str


PlanMessage: TypeAlias = PlanState | Ready

BARE: Final = PlanState(0, "", 0, {0: b""})

encode_plan: Final = msgspec.msgpack.Encoder().encode
_read_plan: Final = decoder(PlanMessage)


def decode_plan(body: bytes | memoryview) -> PlanMessage:
    """Return what a neighbour says of plans; ProtocolError for any other bytes."""
    said: PlanMessage = _read_plan(body)
    if not 0 <= said.version < LAST_VERSION:
        raise ProtocolError("a state of plans has a version after which there is none")
    if isinstance(said, PlanState):
        epochs = said.plans
        if (
            said.current not in epochs
            or len(epochs) > MOST_EPOCHS
            or not all(0 <= e <= LAST_EPOCH for e in epochs)
        ):
            raise ProtocolError("a state of plans names epochs that cannot be")
    return said


class Reached(msgspec.Struct, frozen=True, tag="reached", array_like=True):
    """The sender's store has come so far."""

    position: int


class Recalled(msgspec.Struct, frozen=True, tag="recalled", array_like=True):
    """The receiver's store had come so far."""

    position: int


class Wanted(msgspec.Struct, frozen=True, tag="wanted", array_like=True):
    """The sender wants copies of events, by publisher and number; `search` is the name of the search."""

    search: str
    names: tuple[tuple[int, int], ...]


class Lacking(msgspec.Struct, frozen=True, tag="lacking", array_like=True):
    """The answer to Wanted: the sender has no copy of these events, and nobody behind it has."""

    search: str
    names: tuple[tuple[int, int], ...]


Stored: TypeAlias = Reached | Recalled | Wanted | Lacking

encode_stored: Final = msgspec.msgpack.Encoder().encode
_read_stored: Final = decoder(Stored)


def decode_stored(body: bytes | memoryview) -> Stored:
    """Return what a neighbour says of stores; ProtocolError for any other bytes."""
    said: Stored = _read_stored(body)
    if isinstance(said, Reached | Recalled):
        if not 0 <= said.position < LAST_POSITION:
            raise ProtocolError("a position after which there is none")
    elif any(publisher >> 64 or number >> 64 for publisher, number in said.names):
        raise ProtocolError("an event has a name that cannot be")
    return said
