"""OVERLAY frames: what brokers tell each other of the overlay itself, and of the use of the link between them.

    States       link states, each newer than what the receiver is known to have; passed on to everyone
    Attach       the sender wants to route over this link, and is ready for what the receiver's router says
    Detach       it does so no longer: what it said before is void, and the receiver is to answer Detached
    Detached     the answer: whatever the sender said before this, it said before it heard Detach

Each is a MessagePack array that begins with a tag.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from covey.errors import ProtocolError
from covey.wire.decoding import decoder

LAST_SEQUENCE: Final = 1 << 62  # whoever hears of itself speaks louder, and must find a number for that

LinkStatus: TypeAlias = tuple[int, bool]  # the link's priority, and whether it is up


class LinkState(msgspec.Struct, frozen=True, array_like=True):
    """The links of one broker, as it sees them; a higher sequence number is newer."""

    broker: str
    sequence: int
    links: dict[str, LinkStatus]


class States(msgspec.Struct, frozen=True, tag="states", array_like=True):
    """Some link states."""

    states: tuple[LinkState, ...]


class Attach(msgspec.Struct, frozen=True, tag="attach", array_like=True):
    """The sender routes over this link as soon as the receiver says so too."""


class Detach(msgspec.Struct, frozen=True, tag="detach", array_like=True):
    """The sender routes over this link no longer."""


class Detached(msgspec.Struct, frozen=True, tag="detached", array_like=True):
    """The sender has heard Detach."""


Overlaid: TypeAlias = States | Attach | Detach | Detached

encode_overlaid: Final = msgspec.msgpack.Encoder().encode
_decode: Final = decoder(Overlaid)


def decode_overlaid(body: bytes | memoryview) -> Overlaid:
    """Return what an OVERLAY frame says; ProtocolError for any other bytes."""
    said: Overlaid = _decode(body)
    if isinstance(said, States) and not all(0 <= state.sequence < LAST_SEQUENCE for state in said.states):
        raise ProtocolError("a link state has a sequence number after which there is none")
    return said
