"""The packed form of an event's attributes: one flat MessagePack map, as Spark's tables hold it.

    number    an integer or a float; an integer beyond 64 bits as the extension 1 with its decimal digits
    string, boolean   as they are
    other     an empty array: present, and equal to nothing. Only events of tables have it: it cannot be published

Names are the flattened ones, each once; what is absent is not there. The form can be judged without Python objects
(`matching/attributes/unpacking.py`), and `unpack` is the plain way back: an event that every filter judges alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final

import msgspec

from covey.core.attributes.values import ABSENT, OTHER, classify
from covey.core.content import MOST_DIGITS, is_plain, published_attributes, too_wide
from covey.core.event import MAX_ATTRIBUTES, flatten
from covey.errors import EventError

BIG_INTEGER: Final = 1  # the code of the extension

_SMALLEST: Final = -(2**63)
_LARGEST: Final = 2**64 - 1


def _big_integer(code: int, data: memoryview) -> int:
    if code != BIG_INTEGER or len(data) > MOST_DIGITS:
        raise ValueError(f"the extension {code} is not one of an event")
    return int(bytes(data))


# Types whose values MessagePack has as they are. It has others too, as texts: times, decimals, enumerations.
_SIMPLE: Final = frozenset((str, int, float, bool, type(None)))
_VALUES: Final[Callable[[Any], Iterable[Any]]] = dict.values
_DICTS: Final = frozenset((dict,))
_TEXTS: Final = frozenset((str,))

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(dict[str, Any], ext_hook=_big_integer).decode
_decode_value: Final = msgspec.msgpack.Decoder(Any, ext_hook=_big_integer).decode


def pack(event: Mapping[str, Any]) -> bytes:
    """Return the packed form of an event that is judged, whatever its values are; `pack_published` refuses some.

    EventError if it nests too deep or a text is not well-formed.
    """
    # Most events are flat and of plain values: then they are packed as they are.
    if is_plain(event):
        try:
            return _encode(event)
        except (OverflowError, UnicodeEncodeError):
            pass  # an integer beyond 64 bits, or an unpaired surrogate
    return _pack(event)


def pack_plain(event: Mapping[str, Any]) -> tuple[bytes | None, Mapping[str, Any]]:
    """Return the packed form of an event if all its values are plain or None, which takes no look at each of them in
    Python, None if the event has to be looked at; and the event, which is flat then if it had to be flattened.

    A name that is no text, and NaN, are left for the reader of the bytes to find.
    """
    if type(event) is not dict or not _SIMPLE.issuperset(map(type, chain(event, event.values()))):
        event = flatten(event)  # most that are not flat and plain only nest
        if not _SIMPLE.issuperset(map(type, chain(event, event.values()))):
            return None, event
    try:
        return _encode(event), event
    except (OverflowError, UnicodeEncodeError):
        return None, event


def pack_many(events: Sequence[Mapping[str, Any]]) -> list[bytes]:
    """Return the packed forms of events that are judged; EventError, though they can be judged, if one has none."""
    if (
        _DICTS.issuperset(map(type, events))
        and _TEXTS.issuperset(map(type, chain.from_iterable(events)))
        and _SIMPLE.issuperset(map(type, chain.from_iterable(map(_VALUES, events))))
    ):
        with suppress(OverflowError, UnicodeEncodeError):
            return list(map(_encode, events))
    return list(map(pack, events))


def pack_published(event: Mapping[Any, Any]) -> bytes:
    """Return the packed form of an event that is published; EventError, naming the attribute, if it has none."""
    if len(event) > MAX_ATTRIBUTES:
        raise too_wide()
    if is_plain(event):
        try:
            return _encode(event)
        except (OverflowError, UnicodeEncodeError):
            pass
    plain = published_attributes(event)
    return _encode({name: _packed(name, value) for name, value in plain.items()})


def _pack(event: Mapping[str, Any]) -> bytes:
    plain: dict[str, Any] = {}
    for name, value in flatten(event).items():
        kind, simple = classify(value)
        if kind == ABSENT or not isinstance(name, str):
            continue
        plain[name] = [] if kind == OTHER else _packed(name, simple)
    try:
        return _encode(plain)
    except UnicodeEncodeError:
        raise EventError("an event's text holds an unpaired surrogate") from None


def _packed(name: str, value: bool | int | float | str) -> Any:
    """Return a plain value as MessagePack takes it."""
    if type(value) is not int or _SMALLEST <= value <= _LARGEST:
        return value
    try:
        digits = b"%d" % value
    except ValueError:
        digits = b""
    if not 0 < len(digits) <= MOST_DIGITS:
        raise EventError(f"the integer of the attribute {name!r:.40} has more than {MOST_DIGITS} digits")
    return msgspec.msgpack.Ext(BIG_INTEGER, digits)


def unpack(data: bytes) -> dict[str, Any]:
    """Return the event that these bytes are the packed form of; EventError if they are none."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise EventError(f"these bytes are no packed event: {error}") from None


def unpack_value(data: bytes | memoryview) -> Any:
    """Return one value of a packed event; ValueError if it is none."""
    return _decode_value(data)
