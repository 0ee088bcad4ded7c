"""Rows as events: columns are attributes, or one column is the content.

content [, data] [, language]    the content as text, as the source gives it: a JSON object, an XML document, a JSON
                                 list of words. Its other columns (event, publisher, at) may be there and are left out
any others                       an attribute each; a null is an absent one, a struct a nested one. A binary
                                 column `data` is the payload
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from covey.core.families import DEFAULT_LANGUAGE, LANGUAGES
from covey.errors import ConfigError, EventError
from covey.pipeline.network.columns import DEFAULTS, KINDS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

CONTENT, DATA, LANGUAGE = "content", "data", "language"
_KNOWN: Final = {column.name: column.type for column in DEFAULTS.columns}

Pairs = Iterator[tuple[Any, bytes]]
# Of a batch of a task, what tells the task from others, and how many rows it had before.
ToEvents = Callable[["pa.RecordBatch", str, int], Pairs]

_read_object: Final = msgspec.json.Decoder(dict[str, Any]).decode
_read_words: Final = msgspec.json.Decoder(list[str]).decode


def publisher_of(schema: StructType, language: str, identify: str = "") -> ToEvents:
    """Return what makes events, as pairs of content and payload, of batches with these columns.

    With `identify`, the attribute of that name gets the task and the row's number. ConfigError if a column has a type
    that no event can have.
    """
    events_of = _publisher_of(schema, language)
    if identify in schema.names:
        raise ConfigError(f"the column {identify!r:.60} is what the option identify sets")

    def identified(batch: pa.RecordBatch, task: str, rows: int) -> Pairs:
        for row, (content, payload) in enumerate(events_of(batch), rows):
            if not isinstance(content, dict):
                raise EventError("only events with attributes can be identified")
            yield content | {identify: f"{task}{row}"}, payload

    return identified if identify else lambda batch, task, rows: events_of(batch)


def _publisher_of(schema: StructType, language: str) -> Callable[[pa.RecordBatch], Pairs]:
    types = {one.name: one.dataType.simpleString() for one in schema}
    has_data = types.get(DATA) == "binary"
    if types.get(CONTENT) == "string":
        strange = [name for name, kind in types.items() if _KNOWN.get(name) != kind]
        if strange:
            raise ConfigError(
                f"the column {strange[0]!r:.60} does not go with a column content, which is the whole event "
                f"(hint: rename content if it is an attribute)"
            )
        return _of_contents(has_data, LANGUAGE in types, language)
    if language != DEFAULT_LANGUAGE:
        raise ConfigError(f"events of the language {language} need a column content of type string")
    names = [name for name in types if not (name == DATA and has_data)]
    for one in schema:
        if one.name in names:
            _check(one.name, one.dataType)
    return _of_attributes(names, has_data)


def _check(name: str, type_: DataType) -> None:
    kind = type_.simpleString()
    if hasattr(type_, "fields"):
        for one in type_.fields:
            _check(f"{name}.{one.name}", one.dataType)
    elif kind not in KINDS:
        raise ConfigError(
            f"the column {name!r:.60} has the type {kind:.40}, and no attribute has "
            f"(hint: cast it to one of {', '.join(KINDS)})"
        )


def _of_attributes(names: list[str], has_data: bool) -> Callable[[pa.RecordBatch], Pairs]:
    def events(batch: pa.RecordBatch) -> Pairs:
        columns = [batch.column(name).to_pylist() for name in names]
        payloads = _payloads(batch, has_data)
        for at, payload in enumerate(payloads):
            # What is null is absent.
            yield (
                {
                    name: column[at]
                    for name, column in zip(names, columns, strict=True)
                    if column[at] is not None
                },
                payload,
            )

    return events


def _of_contents(has_data: bool, has_language: bool, language: str) -> Callable[[pa.RecordBatch], Pairs]:
    def events(batch: pa.RecordBatch) -> Pairs:
        contents = batch.column(CONTENT).to_pylist()
        languages = batch.column(LANGUAGE).to_pylist() if has_language else [language] * len(contents)
        for text, said, payload in zip(contents, languages, _payloads(batch, has_data), strict=True):
            yield content_of(text, said or language), payload

    return events


def _payloads(batch: pa.RecordBatch, has_data: bool) -> list[bytes]:
    if not has_data:
        return [b""] * batch.num_rows
    return [payload or b"" for payload in batch.column(DATA).to_pylist()]


def content_of(text: str | None, language: str) -> Any:
    """Return the content that a text is; EventError, with the text's beginning, if it is none."""
    if text is None:
        raise EventError("a row has no content")
    if language not in LANGUAGES:
        raise EventError(f"there is no language {language!r:.40} (hint: {', '.join(LANGUAGES)})")
    if language == "xpath":
        return text
    try:
        return _read_object(text) if language == DEFAULT_LANGUAGE else frozenset(_read_words(text))
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        wanted = "a JSON object" if language == DEFAULT_LANGUAGE else "a JSON list of words"
        raise EventError(f"a content is not {wanted}: {error!s:.120}, in {text!r:.60}") from None
