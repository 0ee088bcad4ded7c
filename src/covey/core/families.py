"""The families of filters: which language is read by whom, and which bytes.

A filter's text does not say its language, so the caller does. Its wire form begins with a byte that does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from covey.core.attributes.filter import decode_attributes
from covey.core.attributes.parser import parse_attributes
from covey.core.filter import Filter
from covey.core.keywords.parser import decode_keywords, parse_keywords
from covey.core.xpath.document import Document
from covey.core.xpath.filter import decode_xpath, parse_xpath
from covey.errors import EventError, FilterError

DEFAULT_LANGUAGE = "attributes"

_PARSERS: dict[str, Callable[[str], Filter]] = {
    "attributes": parse_attributes,
    "xpath": parse_xpath,
    "keywords": parse_keywords,
}
_DECODERS: dict[bytes, Callable[[bytes], Filter]] = {
    b"A": decode_attributes,
    b"X": decode_xpath,
    b"K": decode_keywords,
}

LANGUAGES = tuple(_PARSERS)


def parse(text: str, language: str = DEFAULT_LANGUAGE) -> Filter:
    """Return the filter that `text` describes in `language`; raise FilterError if it describes none."""
    parser = _PARSERS.get(language)
    if parser is None:
        raise FilterError(f"there is no filter language {language!r:.40}", expected=", ".join(LANGUAGES))
    return parser(text)


def decode(data: bytes) -> Filter:
    """Return the filter whose `encode` gave `data`; raise FilterError for any other bytes."""
    if not isinstance(data, bytes):
        raise FilterError(f"an encoded filter is bytes, not {type(data).__name__}")
    decoder = _DECODERS.get(data[:1])
    if decoder is None:
        begin = f"begin with {data[:1]!r}" if data else "are empty"
        raise FilterError(f"these bytes are no encoded filter: they {begin}", expected="A, X or K first")
    return decoder(data)


def parse_content(text: str, language: str) -> Any:
    """Return the content of an event from its text: JSON, XML, or a JSON list of words; EventError if it is none."""
    if language == "xpath":
        return Document.parse(text)
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise EventError(f"the content is not JSON: {error}") from None
    if language == "keywords" and isinstance(value, list) and all(isinstance(word, str) for word in value):
        return frozenset(value)
    if language == "attributes" and isinstance(value, dict):
        return value
    raise EventError(f"the content is none of the language {language!r:.40}")


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is no JSON number")
