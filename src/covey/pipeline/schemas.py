"""The tables: every column with its type and what it means.

`Table.columns` are what a user gives, `Table.added` what ingestion adds. Parquet is where tables usually are, but a
stage sees only DataFrames. docs/pipeline.md shows the same, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from covey.errors import ConfigError
from covey.pipeline.values import epochs_hint

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
        from pyspark.sql.types import ArrayType, StructType

        schema = StructType()
        for column in (*self.columns, *(self.added if checked else ())):
            item = column.type.removeprefix("array<").removesuffix(">")
            # This reader of types knows no arrays, and has longer names for two that are written short everywhere else.
            one = StructType().add("item", {"int": "integer", "bigint": "long"}.get(item, item))[0].dataType
            kind = one if item == column.type else ArrayType(one)
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
        Column(
            "distance",
            "int",
            "hops towards the producer to the next broker where others want it; null is infinite",
            optional=True,
        ),
        Column("at", "timestamp", "when it arrived", optional=True),
    ),
)
QUARANTINE = Table(
    "quarantine",
    "a row that could not be used",
    (
        Column("table", "string", "the table it was in"),
        Column("reason", "string", "what is wrong, in one line"),
        Column(
            "file",
            "string",
            "the file it was in, from the input directory; null if it was not read from a file",
        ),
        Column("line", "bigint", "the line at which it begins, from 1; in Parquet, the number of the row"),
        Column("text", "string", "the source text; of a row that was not text, the row as JSON"),
        Column("row", "string", "as JSON, what was read of the row"),
    ),
)
MATCHES = Table(
    "matches",
    "an event and a subscription whose filter matches it",
    (_EVENT, _SUBSCRIPTION),
)
BLOCKS = Table(
    "blocks",
    "some thousand events of one language, in one value",
    (
        _LANGUAGE,
        Column("events", "int", "how many events there are"),
        Column("block", "binary", "the events' names and contents; see `covey.pipeline.blocks`"),
    ),
)
FILTERS = Table(
    "filters",
    "a shard: the index of up to 500,000 subscriptions' filters",
    (
        Column("digest", "string", "what tells this index from every other"),
        Column(
            "filters", "binary", "the index and the subscriptions' names; for Covey of the same version only"
        ),
    ),
)
_INTEREST = Column("interest", "int", "its number, from 0 in the order of broker and filter")
_ALTERNATIVE = Column("alternative", "string", "the method of planning")
_GROUP = Column("group", "int", "the group's number, from 0")
INTERESTS = Table(
    "interests",
    "a filter that a broker's consumers have, whoever and however many they are",
    (
        _INTEREST,
        Column("broker", "string", "the consumers' broker"),
        _ENCODED_FILTER,
        Column("subscriptions", "bigint", "how many have it"),
    ),
)
DOCUMENTS = Table(
    "documents",
    "a sampled event with the interests that it matches",
    (
        _EVENT,
        Column("broker", "string", "the producer's broker"),
        Column("part", "string", "training, held-out or fresh"),
        Column("interests", "array<int>", "the interests that it matches, sorted; may be empty"),
    ),
)
SIMILARITY = Table(
    "similarity",
    "two interests that match the same events",
    (
        Column("a", "int", "the smaller interest"),
        Column("b", "int", "the larger interest"),
        Column("common", "bigint", "how many events both match"),
        Column("jaccard", "double", "that number over the number of events that either matches"),
    ),
)
GROUPS = Table(
    "groups",
    "an interest's group by one method of planning",
    (
        _ALTERNATIVE,
        Column("interest", "int", "the interest; null in a row that gives a group's tree"),
        _GROUP,
        Column("root", "string", "the root of the tree that is given; null if the tree is computed"),
        Column("links", "binary", "its links, as in the table trees; null if it is computed"),
        Column("rule", "string", "groups, nearest, cheapest or flooding: how events travel on the trees"),
        Column(
            "curve",
            "string",
            "in one row of a method that tried several numbers of groups: what training documents (sample) and those"
            " held out cost with each, as JSON",
        ),
        Column("stopped", "string", "in one row of a method whose budget was spent: where it stopped"),
    ),
)
TREES = Table(
    "trees",
    "a group's tree",
    (
        _ALTERNATIVE,
        _GROUP,
        Column("root", "string", "the broker at the tree's root"),
        Column(
            "links",
            "binary",
            "a bit for each link of the topology in the order of their ends, set if it is on the tree; the lowest bit"
            " of a byte comes first",
        ),
    ),
)
COSTS = Table(
    "costs",
    "what a part of the documents costs by one method of planning",
    (
        _ALTERNATIVE,
        Column("part", "string", "training, held-out or fresh"),
        Column("documents", "bigint", "how many there are, also those that match nobody"),
        Column("cost", "double", "what they cost: links crossed, by the links' costs"),
        Column("wasted", "double", "how much of it is on links beyond which nobody wants the event"),
        Column("copies", "bigint", "how often an event sets out on a tree"),
        Column("deliveries", "bigint", "how often an event gets to a broker that wants it, on any tree"),
        Column("wanted", "bigint", "how many brokers want each event, added up"),
        Column("trees", "int", "how many trees there are; null for a Steiner tree for each event"),
        Column("entries", "bigint", "how many entries all routing tables have together"),
        Column("bytes", "bigint", "about how much memory they take"),
        Column("tried", "int", "on how many trees the publisher's broker tries each event"),
    ),
)
WITNESSES = Table(
    "witnesses",
    "a sampled event that somebody wants, with what it says",
    (
        _EVENT,
        Column("broker", "string", "the producer's broker"),
        Column("interests", "array<int>", "the interests that it matches, sorted"),
        _LANGUAGE,
        Column("content", "string", "a JSON object; an XML document; a JSON list of words"),
    ),
)
PLAN = Table(
    "plan",
    "the plan, in a single row",
    (
        Column("method", "string", "the method that was chosen"),
        Column("plan", "binary", "the plan's file"),
    ),
)
AGGREGATION = Table(
    "aggregation",
    "some filters that leave a broker of a tree as one",
    (
        _ALTERNATIVE,
        Column("tree", "int", "the group whose tree it is"),
        Column("entry", "string", "the broker towards which filters travel: where most events are published"),
        Column("broker", "string", "the broker that merges"),
        Column("towards", "string", "the next broker on the way to the entry; null at the entry itself"),
        Column("block", "int", "the number of the merge on that tree, from 0"),
        Column("members", "array<int>", "the interests whose filters are one from there on, sorted"),
        Column("gain", "bigint", "how many filters less all links to the entry and its own table carry"),
        Column("cost", "double", "needless events on links, of each event, if each member leaves once"),
        Column("held_out_cost", "double", "the same on held-out events; null if there are none"),
    ),
)
CRITICAL = Table(
    "critical",
    "a distance at which a subscription's events were wanted by others too",
    (
        _SUBSCRIPTION,
        Column("broker", "string", "the consumer's broker"),
        Column("publisher", "string", "who published the events; null if that is not known"),
        Column("distance", "int", "hops towards the publisher; null is infinite"),
        Column("events", "bigint", "how many events had this distance"),
        Column("total", "bigint", "how many events there were of that publisher"),
        Column("similarity", "double", "the share of these with a distance up to this one"),
        Column("thresholds", "array<double>", "the thresholds whose critical distance this is"),
    ),
)

INPUTS = (TOPOLOGY, SUBSCRIPTIONS, ADVERTISEMENTS, EVENTS, DELIVERIES)
TABLES = (
    *INPUTS,
    QUARANTINE,
    MATCHES,
    BLOCKS,
    FILTERS,
    INTERESTS,
    DOCUMENTS,
    SIMILARITY,
    GROUPS,
    TREES,
    COSTS,
    WITNESSES,
    PLAN,
    AGGREGATION,
    CRITICAL,
)
BY_NAME = {table.name: table for table in TABLES}

# Where a row comes from: a column that raw and judged tables may have.
SOURCE = "_source"
_SOURCE_FIELDS = {"file": "string", "line": "long", "text": "string", "reason": "string"}

NUMERIC = {"tinyint", "smallint", "int", "bigint", "float", "double", "decimal"}
# Types that are taken for another one: every value of the first is one of the second, or is refused.
_WIDER = {
    "double": NUMERIC - {"double"},
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
    check_names([column for column in found if column != SOURCE], table, said)
    wrong = [
        f"{column.name} is {found[column.name]} and not {column.type}{_hint(table, column, found[column.name])}"
        for column in (*table.columns, *table.added)
        if column.name in found and not _fits(found[column.name], column.type)
    ]
    if wrong:
        raise ConfigError(f"{said} has columns of a wrong type: {'; '.join(wrong)}")


def check_names(found: Sequence[str], table: Table, said: str) -> None:
    """Raise ConfigError, in one line, if columns are missing, or one has almost the name of a column."""
    missing = {column.name: column.optional for column in table.columns if column.name not in found}
    needed = [name for name, optional in missing.items() if not optional]
    if needed:
        raise ConfigError(f"{said} has no column {_listed(needed)} (it has {_listed(found) or 'none'})")
    for name in found:
        if (likely := name.strip().lower()) in missing:
            raise ConfigError(
                f"{said} has a column {name!r:.80} (hint: write it as {likely}, or leave it out)"
            )


def source_type() -> StructType:
    """Return the type of the column that says where a row comes from."""
    from pyspark.sql.types import StructType

    schema = StructType()
    for name, kind in _SOURCE_FIELDS.items():
        schema.add(name, kind)
    return schema


def _hint(table: Table, column: Column, found: str) -> str:
    is_number = column.type == "timestamp" and found.split("(")[0] in NUMERIC
    return epochs_hint(table.name, column.name) if is_number else ""


def _fits(found: str, wanted: str) -> bool:
    # A column of nothing but nulls has the type void.
    return found in (wanted, "void") or found.split("(")[0] in _WIDER.get(wanted, set())


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(names)
    return text if len(text) <= 200 else f"{text[:200]}…"
