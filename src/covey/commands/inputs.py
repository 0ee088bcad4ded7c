"""Events that a command is given: as JSON, XML or words, in arguments, files or standard input.

Everything is bounded before it is read in full, and every mistake is an error of one line.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from covey.core.event import MAX_EVENT_DEPTH
from covey.core.xpath.document import Document
from covey.errors import ConfigError, EventError, FilterError

MAX_INPUT_BYTES = 1 << 20
PATIENCE_S = 0.5  # after which Ctrl-C is noticed at the latest


def read_argument(argument: str) -> str:
    """Return an argument's text: itself, standard input for `-`, or a file's content for `@file`."""
    if argument == "-":
        return _bounded(sys.stdin.buffer, "standard input")
    if argument.startswith("@"):
        name = argument[1:]
        try:
            with Path(name).open("rb") as file:
                return _bounded(file, name)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(f"cannot read {name!r}: {reason}") from None
    if len(argument) > MAX_INPUT_BYTES:
        raise EventError(f"an event has more than {MAX_INPUT_BYTES:,} bytes")
    return argument


def read_event(argument: str, language: str) -> object:
    """Return the event that an argument gives for filters of `language`; raise EventError for none."""
    event = parse_event(read_argument(argument), language)
    return Document.parse(event) if language == "xpath" else event


def parse_event(text: str, language: str) -> Any:
    """Return the event that a text gives, as it is published: attributes, words, or the text of a document."""
    if language == "attributes":
        return _attributes(text)
    if language == "xpath":
        Document.parse(text)
        return text
    if language == "keywords":
        return _words(text)
    raise FilterError(f"there is no filter language {language!r:.40}")


def input_lines() -> Iterator[bytes]:
    """Return the lines of standard input as they come; one that is too long comes as far as it is allowed, and more."""
    try:
        file = sys.stdin.fileno()
    except OSError:  # it is no file, but what a test has put in its place
        yield from iter(lambda: sys.stdin.buffer.readline(MAX_INPUT_BYTES + 1), b"")
        return
    rest = b""
    while True:
        # A signal that comes just before a read does not interrupt it: nothing is read that is not there.
        while not select.select([file], [], [], PATIENCE_S)[0]:
            pass
        data = os.read(file, 1 << 16)
        *lines, rest = (rest + data).split(b"\n")
        yield from lines
        if not data or len(rest) > MAX_INPUT_BYTES:
            if rest:
                yield rest
            return


def read_bytes(argument: str) -> bytes:
    """Return an argument as bytes: its text, or a file's content for `@file`."""
    if not argument.startswith("@"):
        return argument.encode(errors="surrogateescape")
    try:
        with Path(argument[1:]).open("rb") as file:
            data = file.read(MAX_INPUT_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"cannot read {argument[1:]!r}: {reason}") from None
    if len(data) > MAX_INPUT_BYTES:
        raise EventError(f"{argument[1:]} has more than {MAX_INPUT_BYTES:,} bytes")
    return data


def _bounded(stream: BinaryIO, name: str) -> str:
    data = stream.read(MAX_INPUT_BYTES + 1)
    if len(data) > MAX_INPUT_BYTES:
        raise EventError(f"{name} has more than {MAX_INPUT_BYTES:,} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise EventError(f"{name} is not UTF-8 text: byte {error.start + 1} is wrong") from None


def _attributes(text: str) -> Mapping[str, Any]:
    value = _json(text, 'a JSON object, for example {"symbol": "IBM", "price": 12}')
    if not isinstance(value, dict):
        raise EventError(f"an event is a JSON object, not {_json_kind(value)}")
    level: list[Any] = [value]
    for _ in range(MAX_EVENT_DEPTH):
        level = [inner for item in level for inner in _inside(item)]
        if not level:
            return value
    raise EventError(f"the event nests deeper than {MAX_EVENT_DEPTH} levels")


def _inside(value: object) -> list[Any]:
    """Return what in a JSON value can nest further."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [item for item in items if isinstance(item, dict | list)]


def _words(text: str) -> frozenset[str]:
    """Return the words of a text, or of a JSON array when words have spaces."""
    if not text.lstrip().startswith("["):
        return frozenset(text.split())
    value = _json(text, 'words, or a JSON array of them, for example ["new york", "taxi"]')
    if not all(isinstance(word, str) for word in value):
        raise EventError("a document is a JSON array of words, and every word is a string")
    return frozenset(value)


def _json(text: str, expected: str) -> Any:
    try:
        return msgspec.json.decode(text.encode("utf-8"))
    except UnicodeEncodeError:
        problem = "it has an unpaired surrogate or a byte that is not UTF-8"
    except RecursionError:
        problem = "it nests too deeply"
    except (msgspec.MsgspecError, ValueError) as error:
        problem = str(error).replace("JSON is malformed: ", "")
    raise EventError(f"the event cannot be read: {problem}; expected {expected}")


def _json_kind(value: object) -> str:
    kinds = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")
