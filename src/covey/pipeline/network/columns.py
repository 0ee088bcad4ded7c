"""Events as Arrow batches: the default columns, or a column for each attribute.

Without a schema of the user's a row has the default columns (`DEFAULTS`). With one, its columns are attributes by
their names, a struct is a nested one, and a value is null where the event lacks the attribute or has it with another
type:

    string, boolean               strings and booleans, nothing else: 12 is no string
    tinyint, smallint, int, bigint  numbers that are whole and fit; 12.0 is 12, 12.5 is null
    float, double                 numbers; a whole number beyond 2**53 is rounded

The default columns are there too, under names with an underscore: `_event`, `_at`, `_data` and so on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from covey.client.subscription import Delivered
from covey.core.attributes.values import NUMBER, classify
from covey.core.families import DEFAULT_LANGUAGE
from covey.errors import ConfigError
from covey.pipeline.schemas import Column, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

DEFAULTS: Final = Table(
    "received",
    "an event that was received",
    (
        Column("event", "string", "the event's name; a delivery that is repeated has the same"),
        Column("publisher", "string", "who published it: the number that its broker gave the client"),
        Column("at", "timestamp", "when it was received"),
        Column("language", "string", "attributes, xpath or keywords"),
        Column("content", "string", "a JSON object; an XML document; a JSON list of words"),
        Column("data", "binary", "the payload"),
    ),
    key="event",
)

STRING, BOOLEAN, DOUBLE, FLOAT = "string", "boolean", "double", "float"
WHOLE: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
KINDS: Final = (STRING, BOOLEAN, DOUBLE, FLOAT, *WHOLE)


class Arrival(NamedTuple):
    """An event as it came: its frame, and when, in microseconds since 1970."""

    frame: bytes
    at_us: int


Value = Callable[[Delivered, Arrival], Any]


def is_default(schema: StructType) -> bool:
    """Whether these are the default columns, which a user may also have said."""
    wanted = DEFAULTS.schema()
    return [(one.name, one.dataType) for one in schema] == [(one.name, one.dataType) for one in wanted]


def attribute_kinds(schema: StructType) -> dict[str, str]:
    """Return the columns of a user's schema that are attributes, by dotted name, with their kinds.

    ConfigError for a column whose type no attribute has.
    """
    found: dict[str, str] = {}
    if is_default(schema):
        return found
    underscored = {f"_{column.name}": column.type for column in DEFAULTS.columns}

    def look(prefix: str, struct: StructType) -> None:
        for one in struct.fields:
            name, kind = f"{prefix}{one.name}", one.dataType.simpleString()
            if underscored.get(name) == kind:
                continue
            if hasattr(one.dataType, "fields"):
                look(f"{name}.", one.dataType)  # type: ignore[arg-type]
            elif kind in KINDS:
                found[name] = kind
            else:
                raise ConfigError(
                    f"the column {name!r:.60} has the type {kind:.40}, and no attribute has "
                    f"(hint: {', '.join(KINDS)} or a struct of these)"
                )

    look("", schema)
    return found


def converter(schema: StructType, language: str) -> Callable[[Sequence[Arrival]], pa.RecordBatch]:
    """Return what makes a batch, in Spark's own Arrow types, of events; ConfigError if no event has such columns."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    attributes = attribute_kinds(schema)
    if attributes and language != DEFAULT_LANGUAGE:
        raise ConfigError(
            f"events of the language {language} have no attributes (hint: leave out the schema)"
        )
    arrow = to_arrow_schema(schema, timezone="UTC")
    defaults = _defaults(language)
    if is_default(schema):
        values = [defaults[one.name] for one in schema]
    else:
        values = [_value(f"{one.name}", one.dataType, attributes, defaults) for one in schema]

    def convert(arrivals: Sequence[Arrival]) -> pa.RecordBatch:
        events = [Delivered(one.frame) for one in arrivals]
        columns = [
            pa.array([value(*both) for both in zip(events, arrivals, strict=True)], type=one.type)
            for value, one in zip(values, arrow, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=arrow)

    return convert


def _defaults(language: str) -> dict[str, Value]:
    return {
        "event": lambda event, _: event.id,
        "publisher": lambda event, _: event.id.partition(".")[0],
        "at": lambda _, arrival: arrival.at_us,
        "language": lambda *_: language,
        "content": lambda event, _: _content(event, language),
        "data": lambda event, _: event.data,
    }


def _content(event: Delivered, language: str) -> str:
    if language == "xpath":
        return event.raw_content.decode(errors="replace")
    content = event.content
    return _json(sorted(content) if language == "keywords" else content)


def _json(content: Any) -> str:
    try:
        return msgspec.json.encode(content).decode()
    except (OverflowError, msgspec.MsgspecError):
        # An integer beyond 64 bits.
        import json

        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _value(name: str, type_: DataType, attributes: dict[str, str], defaults: dict[str, Value]) -> Value:
    kind = attributes.get(name)
    if kind is not None:
        read = reading(kind)
        return lambda event, _: read(event.content.get(name))
    if not hasattr(type_, "fields"):
        return defaults[name.removeprefix("_")]
    inner = [
        (one.name, _value(f"{name}.{one.name}", one.dataType, attributes, defaults)) for one in type_.fields
    ]

    def struct(event: Delivered, arrival: Arrival) -> dict[str, Any] | None:
        found = {key: value(event, arrival) for key, value in inner}
        return found if any(value is not None for value in found.values()) else None

    return struct


def reading(kind: str) -> Callable[[Any], Any]:
    """Return what gives the value of a column of this kind for an attribute's value; None is null, and absence."""
    if kind == STRING:
        return lambda value: value if type(value) is str else None
    if kind == BOOLEAN:
        return lambda value: value if type(value) is bool else None
    if kind in (DOUBLE, FLOAT):
        return _as_float
    high = 1 << (WHOLE[kind] - 1)

    def whole(value: Any) -> int | None:
        if type(value) is float and value.is_integer():
            value = int(value)
        return value if type(value) is int and -high <= value < high else None

    return whole


def _as_float(value: Any) -> float | None:
    if type(value) is float:
        return value if value == value else None  # not a number is no number
    if classify(value)[0] != NUMBER:
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def batches(
    arrivals: Iterable[Arrival], size: int, convert: Callable[[Sequence[Arrival]], pa.RecordBatch]
) -> Any:
    """Yield Arrow batches of at most so many events."""
    some: list[Arrival] = []
    for arrival in arrivals:
        some.append(arrival)
        if len(some) == size:
            yield convert(some)
            some = []
    if some:
        yield convert(some)
