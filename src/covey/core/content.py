"""What content can be published: asked of every event before it is sent, and by brokers of what clients send.

Filters judge anything that Python holds: a value that is neither number, string nor boolean is *other*, present and
equal to nothing. A network carries less. An event that would arrive as something else than was published is refused
with an EventError that names the attribute:

    attributes   numbers (infinities and large integers too), strings and booleans, under names that are strings.
                 Numbers and strings of other types (numpy's, enumerations, fractions) if they are exactly one of
                 ours. None and an empty mapping are absence, as filters have it
    words        strings
    documents    well-formed XML within the bounds of `Document`, which is how brokers read it
    payload      bytes
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from enum import Enum
from numbers import Real
from operator import eq
from reprlib import Repr
from typing import Any, Final

from covey.core.attributes.values import NUMBER, OTHER, classify, is_encodable
from covey.core.event import MAX_ATTRIBUTES, MAX_EVENT_DEPTH, flatten
from covey.core.xpath.document import Document
from covey.errors import EventError

# Enough for every number that a JSON text of an event may hold, and Python refuses to read more digits than this.
MOST_DIGITS: Final = 4_300

_TOO_SMALL, _TOO_LARGE = -(10 ** (MOST_DIGITS - 1)), 10**MOST_DIGITS  # a sign is one of them
_PLAIN: Final = frozenset((str, int, float, bool))
_TEXTS: Final = frozenset((str,))
_SHOWN: Final = 40  # characters of a name or a value in an error

# An encoding that a text declares for itself is that of bytes it was read from, not of those it is sent as.
_DECLARED: Final = re.compile(r"<\?xml[^>]*?\sencoding\s*=\s*[\"']([A-Za-z][A-Za-z0-9._-]*)[\"']")

_HINTS: Final[tuple[tuple[tuple[type, ...], str], ...]] = (
    ((bytes, bytearray, memoryview), "publish them as the payload, or as a text"),
    ((Decimal,), "float(...) or str(...) of it"),
    ((datetime.datetime,), "its isoformat(), or its timestamp()"),
    ((datetime.date, datetime.time), "its isoformat()"),
    ((datetime.timedelta,), "its total_seconds()"),
    ((Enum,), "its value"),
    ((list, tuple, set, frozenset), "an attribute for each element, or the payload"),
)

_repr = Repr()
_repr.maxlevel, _repr.maxstring, _repr.maxother = 2, _SHOWN, _SHOWN


def check_content(content: Any) -> None:
    """Raise EventError, in one line that names the attribute, unless the content can be published; see above."""
    if isinstance(content, Mapping):
        if len(content) > MAX_ATTRIBUTES:
            raise too_wide()
        if not (is_plain(content) and all(map(_can_travel, content, content.values()))):
            published_attributes(content)
    elif isinstance(content, (set, frozenset)):
        published_words(content)
    elif isinstance(content, (str, bytes)):
        published_document(content)
    elif not isinstance(content, Document):
        raise no_content(content)


def too_wide() -> EventError:
    """Return the error for an event with too many attributes."""
    return EventError(
        f"an event has at most {MAX_ATTRIBUTES:,} attributes (hint: large data goes into the payload)"
    )


def no_content(content: object) -> EventError:
    """Return the error for what is content of no family."""
    return EventError(f"an event is a mapping, a set of words or XML, not {type(content).__name__:.40}")


def is_plain(event: Mapping[Any, Any]) -> bool:
    """Return whether a mapping is flat, its names are strings and its values numbers, strings and booleans."""
    if type(event) is not dict or not _TEXTS.issuperset(map(type, event)):
        return False
    values = event.values()
    # A value that is not equal to itself is NaN.
    return _PLAIN.issuperset(map(type, values)) and all(map(eq, values, values))


def _can_travel(name: str, value: bool | int | float | str) -> bool:
    """Return whether a plain attribute has an encoding."""
    if type(value) is int and not _TOO_SMALL < value < _TOO_LARGE:
        return False
    if type(value) is str and not value.isascii() and not is_encodable(value):
        return False
    return name.isascii() or is_encodable(name)


# -- attributes ----------------------------------------------------------------------------------------------


def published_attributes(event: Mapping[Any, Any]) -> dict[str, bool | int | float | str]:
    """Return the attributes as one flat dictionary of plain values; EventError, naming the first that has none."""
    _check_names(event, "", 1)
    flat = flatten(event)
    if len(flat) > MAX_ATTRIBUTES:
        raise too_wide()
    return {str.__str__(name): _value(name, value) for name, value in flat.items()}


def _check_names(event: Mapping[Any, Any], place: str, depth: int) -> None:
    for name, value in event.items():
        if not isinstance(name, str):
            inside = f" in {place!r:.{_SHOWN}}" if place else ""
            raise EventError(
                f"the name {shown(name)}{inside} is of the type {type(name).__name__:.40}; names of attributes are "
                f"strings"
            )
        if not is_encodable(name):
            raise EventError(f"the name {shown(name)} of an attribute holds an unpaired surrogate")
        if isinstance(value, Mapping):
            inner = f"{place}.{name}" if place else name
            if depth > MAX_EVENT_DEPTH:
                raise EventError(
                    f"the attribute {inner!r:.{_SHOWN}}… nests deeper than {MAX_EVENT_DEPTH} levels"
                )
            _check_names(value, inner, depth + 1)


def _value(name: str, value: object) -> bool | int | float | str:
    kind, plain = classify(value)
    if kind == OTHER:
        raise EventError(_refusal(name, value))
    if type(plain) is str and not plain.isascii() and not is_encodable(plain):
        raise EventError(f"the attribute {name!r:.{_SHOWN}} holds an unpaired surrogate")
    if kind == NUMBER:
        if type(plain) is int and not _TOO_SMALL < plain < _TOO_LARGE:
            raise EventError(
                f"the integer of the attribute {name!r:.{_SHOWN}} has more than {MOST_DIGITS} digits"
            )
        if plain != value:
            raise EventError(
                f"the attribute {name!r:.{_SHOWN}} is {shown(value)}, which no 64-bit floating-point number is exactly "
                f"(hint: float(...) of it)"
            )
    return plain  # type: ignore[no-any-return]


def _refusal(name: str, value: object) -> str:
    said = f"the attribute {name!r:.{_SHOWN}} is "
    if isinstance(value, Real) and value != value:
        return f"{said}not a number (NaN), which no event carries (hint: leave the attribute out)"
    hint = next((hint for types, hint in _HINTS if isinstance(value, types)), "a text or a number for it")
    return (
        f"{said}of the type {type(value).__name__:.40}, {shown(value)}; "
        f"an attribute is a number, a string or a boolean (hint: {hint})"
    )


def shown(value: object) -> str:
    """Return a value for people: on one line, and short."""
    text = " ".join(_repr.repr(value).split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


# -- words, documents, payloads ------------------------------------------------------------------------------


def published_words(words: Iterable[Any]) -> list[str]:
    """Return the words in order, each a plain string; EventError for anything else among them."""
    for word in words:
        if not isinstance(word, str):
            raise EventError(
                f"the word {shown(word)} is of the type {type(word).__name__:.40}, and no string"
            )
        if not is_encodable(word):
            raise EventError(f"the word {shown(word)} holds an unpaired surrogate")
    return sorted(map(str.__str__, words))


def published_document(xml: str | bytes) -> bytes:
    """Return the bytes of a document; EventError unless brokers can read them, and read what a text says."""
    if isinstance(xml, str):
        declared = _DECLARED.match(xml)
        if declared is not None and declared[1].lower() not in ("utf-8", "utf8") and not xml.isascii():
            raise EventError(
                f"the document's text declares the encoding {declared[1]:.40} and travels as UTF-8 "
                f"(hint: publish its bytes, or leave the declaration out)"
            )
        try:
            xml = xml.encode()
        except UnicodeEncodeError:
            raise EventError("the document holds an unpaired surrogate") from None
    Document.parse(xml)
    return bytes(xml)


def published_payload(data: Any) -> bytes:
    """Return a payload as bytes; EventError if it is something else."""
    if type(data) is bytes:
        return data
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise EventError(f"a payload is bytes, not {type(data).__name__:.40} (hint: encode a text)")
