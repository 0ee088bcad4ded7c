"""The tables: every column with its type and what it means.

`Table.columns` are what a user gives, `Table.added` what ingestion adds. Parquet is where tables usually are, but a
stage sees only DataFrames. docs/pipeline.md shows the same, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from covey.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class Column(NamedTuple):
    """A column: its type as Spark writes it, and what it means. An optional one may be missing, as if all were null."""

    name: str
    type: str
    comment: str
    optional: bool = False


class Table(NamedTuple):
    """A table: what each row is, its columns, those that ingestion adds, and the column that tells rows apart."""

    name: str
    comment: str
    columns: tuple[Column, ...]
    added: tuple[Column, ...] = ()
    key: str | None = None

    def schema(self, *, checked: bool = True) -> StructType:
        """Return the Spark schema, every column with its comment; without `checked`, of the table as it is given."""
        from pyspark.sql.types import StructType

        schema = StructType()
        for column in (*self.columns, *(self.added if checked else ())):
            # This reader of types has a longer name for one that is written short everywhere else.
            kind = "integer" if column.type == "int" else column.type
            schema.add(column.name, kind, nullable=True, metadata={"comment": column.comment})
        return schema


_LANGUAGE = Column("language", "string", "attributes, xpath or keywords")
_FILTER = Column("filter", "string", "the filter's text in that language")
_ENCODED_FILTER = Column("encoded", "binary", "the filter's wire form")
_EVENT = Column("event", "string", "the event's name")
_SUBSCRIPTION = Column("subscription", "string", "the subscription's name")

TOPOLOGY = Table(
    "topology",
    "a link between two brokers",
    (
        Column("a", "string", "the broker at one end"),
        Column("b", "string", "the broker at the other end"),
        Column("cost", "double", "what one event over the link costs; null is 1", optional=True),
    ),
)
SUBSCRIPTIONS = Table(
    "subscriptions",
    "a consumer's filter at a broker",
    (_SUBSCRIPTION, Column("broker", "string", "the consumer's broker"), _LANGUAGE, _FILTER),
    (_ENCODED_FILTER,),
    "subscription",
)
ADVERTISEMENTS = Table(
    "advertisements",
    "what a producer may publish at a broker",
    (
        Column("advertisement", "string", "the advertisement's name"),
        Column("broker", "string", "the producer's broker"),
        _LANGUAGE,
        _FILTER,
    ),
    (_ENCODED_FILTER,),
    "advertisement",
)
EVENTS = Table(
    "events",
    "an event that was published",
    (
        _EVENT,
        Column("publisher", "string", "who published it", optional=True),
        Column("broker", "string", "the producer's broker"),
        Column("at", "timestamp", "when it was published", optional=True),
        _LANGUAGE,
        Column("content", "string", "a JSON object; an XML document; a JSON list of words"),
    ),
    (
        Column(
            "encoded",
            "binary",
            "the content without text to parse: a flat MessagePack map; the XML; a MessagePack list",
        ),
    ),
    "event",
)
DELIVERIES = Table(
    "deliveries",
    "an event that reached a subscription",
    (
        _EVENT,
        _SUBSCRIPTION,
        Column("broker", "string", "the consumer's broker"),
        Column("distance", "int", "links on its way; null is infinite", optional=True),
        Column("at", "timestamp", "when it arrived", optional=True),
    ),
)
QUARANTINE = Table(
    "quarantine",
    "a row that could not be used",
    (
        Column("table", "string", "the table it was in"),
        Column("row", "string", "the row as JSON"),
        Column("reason", "string", "what is wrong, in one line"),
    ),
)
MATCHES = Table(
    "matches",
    "an event and a subscription whose filter matches it",
    (_EVENT, _SUBSCRIPTION),
)
FILTERS = Table(
    "filters",
    "all subscriptions' filters as one index, in a single row",
    (
        Column("part", "int", "0"),
        Column("digest", "string", "what tells this index from every other"),
        Column(
            "filters", "binary", "the index and the subscriptions' names; for Covey of the same version only"
        ),
    ),
)

INPUTS = (TOPOLOGY, SUBSCRIPTIONS, ADVERTISEMENTS, EVENTS, DELIVERIES)
TABLES = (*INPUTS, QUARANTINE, MATCHES, FILTERS)
BY_NAME = {table.name: table for table in TABLES}

# Types that are taken for another one: every value of the first is one of the second.
_WIDER = {
    "double": {"float", "tinyint", "smallint", "int", "bigint", "decimal"},
    "int": {"tinyint", "smallint", "bigint"},
    "timestamp": {"timestamp_ntz", "date"},
    "string": {"varchar", "char"},
}


def table_named(name: str) -> Table:
    """Return an input table; ConfigError for any other name."""
    for table in INPUTS:
        if table.name == name:
            return table
    raise ConfigError(
        f"there is no input table {name!r:.40} (hint: {', '.join(table.name for table in INPUTS)})"
    )


def check(frame: DataFrame, table: Table, name: str | None = None) -> None:
    """Raise ConfigError, in one line, if columns are missing or of a wrong type. Others may be there too."""
    found = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    said = name or f"the table {table.name}"
    missing = [column.name for column in table.columns if column.name not in found and not column.optional]
    if missing:
        raise ConfigError(
            f"{said} has no column {_listed(missing)} (it has {_listed(list(found)) or 'none'})"
        )
    wrong = [
        f"{column.name} is {found[column.name]} and not {column.type}"
        for column in (*table.columns, *table.added)
        if column.name in found and not _fits(found[column.name], column.type)
    ]
    if wrong:
        raise ConfigError(f"{said} has columns of a wrong type: {'; '.join(wrong)}")


def _fits(found: str, wanted: str) -> bool:
    # A column of nothing but nulls has the type void.
    return found in (wanted, "void") or found.split("(")[0] in _WIDER.get(wanted, set())


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(names)
    return text if len(text) <= 200 else f"{text[:200]}…"
