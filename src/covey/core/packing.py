"""The packed form of an event's attributes: one flat MessagePack map, as Spark's tables hold it.

    number    an integer or a float; an integer beyond 64 bits as the extension 1 with its decimal digits
    string, boolean   as they are
    other     an empty array: present, and equal to nothing; NaN stays a float

Names are the flattened ones, each once; what is absent is not there. The form can be judged without Python objects
(`matching/attributes/unpacking.py`), and `unpack` is the plain way back: an event that every filter judges alike.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import eq
from typing import Any, Final

import msgspec

from covey.core.attributes.values import ABSENT, NUMBER, OTHER, classify
from covey.core.event import flatten
from covey.errors import EventError

BIG_INTEGER: Final = 1  # the code of the extension

_SMALLEST: Final = -(2**63)
_LARGEST: Final = 2**64 - 1
# Enough for every number that a JSON text of an event may hold, and Python refuses to read more digits than this.
_MOST_DIGITS: Final = 4_300


def _big_integer(code: int, data: memoryview) -> int:
    if code != BIG_INTEGER or len(data) > _MOST_DIGITS:
        raise ValueError(f"the extension {code} is not one of an event")
    return int(bytes(data))


_PLAIN: Final = frozenset((str, int, float, bool))
_NAMES: Final = frozenset((str,))

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(dict[str, Any], ext_hook=_big_integer).decode
_decode_value: Final = msgspec.msgpack.Decoder(Any, ext_hook=_big_integer).decode


def pack(event: Mapping[str, Any]) -> bytes:
    """Return the packed form of an event; EventError if it nests too deep or a text is not well-formed."""
    # Most events are flat and of plain values: then they are packed as they are.
    if type(event) is dict and _NAMES.issuperset(map(type, event)) and _are_plain(event.values()):
        try:
            return _encode(event)
        except (OverflowError, UnicodeEncodeError):
            pass  # an integer beyond 64 bits, or an unpaired surrogate
    return _pack(event)


def _are_plain(values: Collection[Any]) -> bool:
    # A value that is not equal to itself is NaN, which is packed as something that is equal to nothing.
    return _PLAIN.issuperset(map(type, values)) and all(map(eq, values, values))


def _pack(event: Mapping[str, Any]) -> bytes:
    plain: dict[str, Any] = {}
    for name, value in flatten(event).items():
        kind, simple = classify(value)
        if kind == ABSENT or not isinstance(name, str):
            continue
        if kind == OTHER:
            simple = []
        elif kind == NUMBER and type(simple) is int and not _SMALLEST <= simple <= _LARGEST:
            simple = msgspec.msgpack.Ext(BIG_INTEGER, _digits(name, simple))
        plain[name] = simple
    try:
        return _encode(plain)
    except UnicodeEncodeError:
        raise EventError("an event's text holds an unpaired surrogate") from None


def _digits(name: str, number: int) -> bytes:
    try:
        digits = b"%d" % number
    except ValueError:
        digits = b""
    if not 0 < len(digits) <= _MOST_DIGITS:
        raise EventError(f"the integer of the attribute {name!r:.40} has more than {_MOST_DIGITS} digits")
    return digits


def unpack(data: bytes) -> dict[str, Any]:
    """Return the event that these bytes are the packed form of; EventError if they are none."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise EventError(f"these bytes are no packed event: {error}") from None


def unpack_value(data: bytes | memoryview) -> Any:
    """Return one value of a packed event; ValueError if it is none."""
    return _decode_value(data)
