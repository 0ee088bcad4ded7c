"""Frames with which events and deliveries are confirmed; little-endian, as all of these.

TAKEN         count u32 · count × (publisher u64 · number u64)             these are on disk with the sender
ACKNOWLEDGE   sid u32 · cumulative u8 · count u32 · count × position u64   the client is done with these
WHOLE         u8                                                           whether all interest behind the sender
                                                                           that matters to the other is told
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from covey.errors import ProtocolError

MOST: Final = 4_096  # names or positions in a frame

_COUNT: Final = Struct("<I")
_NAME: Final = Struct("<QQ")
_HEAD: Final = Struct("<IBI")

Name: TypeAlias = tuple[int, int]  # an event's publisher and number


class Acknowledgement(NamedTuple):
    """What a client is done with of one durable subscription: these positions, or all up to the largest."""

    sid: int
    cumulative: bool
    positions: tuple[int, ...]


def encode_taken(names: Sequence[Name]) -> Iterator[bytes]:
    """Yield the bodies of as many TAKEN frames as there must be."""
    for first in range(0, len(names), MOST):
        some = names[first : first + MOST]
        yield _COUNT.pack(len(some)) + b"".join([_NAME.pack(*name) for name in some])


def decode_taken(body: bytes) -> list[Name]:
    """Return the names of a TAKEN frame; ProtocolError if it is none."""
    if len(body) < _COUNT.size or len(body) != _COUNT.size + _NAME.size * _COUNT.unpack_from(body)[0]:
        raise ProtocolError("what was taken cannot be read")
    return list(_NAME.iter_unpack(body[_COUNT.size :]))


def encode_acknowledge(sid: int, positions: Sequence[int], *, cumulative: bool) -> bytes:
    """Return the body of an ACKNOWLEDGE frame."""
    return _HEAD.pack(sid, cumulative, len(positions)) + Struct(f"<{len(positions)}Q").pack(*positions)


def decode_acknowledge(body: bytes) -> Acknowledgement:
    """Return what an ACKNOWLEDGE frame says; ProtocolError if it is none."""
    if len(body) >= _HEAD.size:
        sid, cumulative, count = _HEAD.unpack_from(body)
        if len(body) == _HEAD.size + 8 * count:
            return Acknowledgement(sid, bool(cumulative), Struct(f"<{count}Q").unpack_from(body, _HEAD.size))
    raise ProtocolError("an acknowledgement cannot be read")
