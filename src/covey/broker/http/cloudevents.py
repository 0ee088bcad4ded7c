"""CloudEvents 1.0 as events, and events as CloudEvents. docs/clients.md says the mapping for people.

    in     context attributes and extensions → attributes of the same name
           data that is a JSON object        → attributes `data.…`, and as bytes the payload
           any other data                    → the payload
    out    an event that was a CloudEvent is one again, the same
           any other: id is its name, source its publisher, type `covey.event`, data its content, and its payload is
           the extension `payload`, in base64

Everything is bounded by the size of the request; whatever is wrong is an EventError of one line. JSON is decoded in one
call, which nothing interrupts: values are made only of what becomes attributes, and of no more than an event may have.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import unquote

import msgspec

from covey.errors import EventError

STRUCTURED: Final = "application/cloudevents+json"
BATCH: Final = "application/cloudevents-batch+json"
VERSION: Final = "1.0"
REQUIRED: Final = ("specversion", "id", "source", "type")
PREFIX: Final = "ce-"

_NAME: Final = re.compile(r"[a-z0-9]{1,64}", re.ASCII)
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_batch: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_skip: Final = msgspec.json.Decoder(msgspec.Raw).decode
_OBJECT: Final = re.compile(rb"[ \t\r\n]*\{")
_TEXT: Final = re.compile(rb"[ \t\r\n]*\"")


class _Counted(msgspec.Struct, gc=False):
    """An event of a batch that is skipped and counted, so that the one that is too many ends it."""

    left: ClassVar[int] = 0

    def __post_init__(self) -> None:
        _Counted.left -= 1
        if _Counted.left < 0:
            raise ValueError("there are more of them than are taken")


_count: Final = msgspec.json.Decoder(list[_Counted]).decode


class Posted(NamedTuple):
    """An event as it is published."""

    content: dict[str, Any]
    payload: bytes


def is_json(media_type: str) -> bool:
    """Return whether data of this type is JSON; data of no type is."""
    kind = media_type.partition(";")[0].strip().lower()
    return kind == "" or kind.endswith(("/json", "+json"))


# -- in ------------------------------------------------------------------------------------------------------


def read_structured(body: bytes | msgspec.Raw, most_bytes: int | None = None) -> Posted:
    """Return the event of a body in the JSON format; EventError for data of more than `most_bytes`."""
    members = _decoded(_members, body, "a CloudEvent is a JSON object")
    data, encoded = members.pop("data", None), members.pop("data_base64", None)
    content = {name: _value(name, _decoded(msgspec.json.decode, raw, name)) for name, raw in members.items()}
    content = _checked({name: value for name, value in content.items() if value is not None})
    if encoded is not None:
        if data is not None:
            raise EventError("a CloudEvent has data or data_base64, not both")
        return Posted(content, _base64(_decoded(msgspec.json.decode, encoded, "data_base64")))
    if data is None or bytes(data) == b"null":
        return Posted(content, b"")
    if not is_json(content.get("datacontenttype", "")):
        if not _TEXT.match(data):
            raise EventError("data that is not JSON is a text, or data_base64")
        text: str = _decoded(msgspec.json.decode, data, "data")
        return Posted(content, text.encode())
    return _with_data(content, bytes(data), most_bytes)


def split_batch(body: bytes, most: int) -> list[msgspec.Raw]:
    """Return the events of a body in the JSON batch format, `most` at most, each for `read_structured`.

    For one thread at a time.
    """
    what = f"a batch of CloudEvents is a JSON array of at most {most:,} objects"
    if body.count(b",") >= most:  # else there cannot be too many
        _Counted.left = most
        _decoded(_count, body, what)
    events: list[msgspec.Raw] = _decoded(_batch, body, what)
    assert len(events) <= most, "they were counted"
    return events


def read_binary(
    headers: Mapping[str, str], media_type: str, body: bytes, most_bytes: int | None = None
) -> Posted:
    """Return the event whose attributes are headers (`ce-id: …`) and whose data is the body.

    EventError for a body of more than `most_bytes` that would become attributes.
    """
    content: dict[str, Any] = {}
    for name, text in headers.items():
        if name.lower().startswith(PREFIX):
            short = name.lower()[len(PREFIX) :]
            content[short] = _value(short, _header(text))
    if media_type:
        content["datacontenttype"] = media_type
    content = _checked(content)
    if not media_type or not is_json(media_type) or not body:
        return Posted(content, body)
    return _with_data(content, body, most_bytes)


def _header(text: str) -> str:
    # As the HTTP binding has it: in quotes perhaps, and percent-encoded.
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = re.sub(r"\\(.)", r"\1", text[1:-1])
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise EventError("a header is not percent-encoded UTF-8") from None


def _with_data(content: dict[str, Any], data: bytes, most_bytes: int | None) -> Posted:
    """Return an event with JSON data, which is its payload: of an object attributes are made as well."""
    if not _OBJECT.match(data):
        _check_json(data)
        return Posted(content, data)
    if most_bytes is not None and len(data) > most_bytes:
        raise EventError(f"data of {len(data):,} bytes; the broker takes events of {most_bytes:,}")
    content["data"] = _decoded(msgspec.json.decode, data, "data")
    return Posted(content, data)


def _check_json(data: bytes) -> None:
    """Raise EventError unless bytes are JSON, without making anything of it."""
    _decoded(bytes.decode, data, "data")
    _decoded(_skip, data, "data")


def _checked(content: dict[str, Any]) -> dict[str, Any]:
    for name in REQUIRED:
        if not isinstance(content.get(name), str) or not content[name]:
            raise EventError(f"a CloudEvent has the attribute {name}, a text")
    if content["specversion"] != VERSION:
        raise EventError(f"CloudEvents {VERSION} are taken, not {content['specversion']!r:.20}")
    if not isinstance(content.get("datacontenttype", ""), str):
        raise EventError("the attribute datacontenttype is a text")
    return content


def _value(name: str, value: Any) -> Any:
    if not _NAME.fullmatch(name) or name in ("data", "data_base64"):
        raise EventError(f"{name!r:.40} is no name of a CloudEvent's attribute: small letters and digits")
    if value is not None and not isinstance(value, (str, bool, int)):
        raise EventError(f"the attribute {name} is a text, an integer or a boolean")
    return value


def _base64(text: Any) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (Base64Error, TypeError, ValueError):
        raise EventError("data_base64 is not base64") from None


def _decoded(decode: Any, data: bytes | msgspec.Raw, what: str) -> Any:
    try:
        return decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ValueError) as error:
        raise EventError(f"{what}: {error!s:.120}") from None


# -- out -----------------------------------------------------------------------------------------------------


def write(name: str, publisher: str, content: Any, payload: bytes) -> bytes:
    """Return an event as a CloudEvent in the JSON format, on one line.

    `content` is a dict of attributes, a frozenset of words, or the text of a document.
    """
    if isinstance(content, dict) and _is_one(content):
        return _encoded(_again(content, payload))
    shown: dict[str, Any] = {
        "specversion": VERSION,
        "id": name,
        "source": f"/clients/{publisher}",
        "type": "covey.event",
    }
    if isinstance(content, dict):
        shown |= {"datacontenttype": "application/json", "data": content}
    elif isinstance(content, frozenset):
        shown |= {"datacontenttype": "application/json", "data": sorted(content)}
    else:
        shown |= {"datacontenttype": "application/xml", "data": content}
    if payload:
        shown["payload"] = b64encode(payload).decode()
    return _encoded(shown)


def _is_one(content: dict[str, Any]) -> bool:
    return content.get("specversion") == VERSION and all(
        isinstance(content.get(name), str) for name in REQUIRED
    )


def _again(content: dict[str, Any], payload: bytes) -> dict[str, Any]:
    shown = {name: value for name, value in content.items() if "." not in name and name != "data"}
    if not payload:
        return shown
    media_type = content.get("datacontenttype", "")
    if is_json(media_type if isinstance(media_type, str) else ""):
        try:
            _check_json(payload)
            # The same text without line breaks: numbers stay as they were written.
            return shown | {"data": msgspec.Raw(msgspec.json.format(payload, indent=-1))}
        except EventError:
            pass
    elif media_type.startswith("text/") or media_type.partition(";")[0].endswith(("/xml", "+xml")):
        try:
            return shown | {"data": payload.decode()}
        except UnicodeDecodeError:
            pass
    return shown | {"data_base64": b64encode(payload).decode()}


def _encoded(shown: dict[str, Any]) -> bytes:
    return msgspec.json.encode(shown)
