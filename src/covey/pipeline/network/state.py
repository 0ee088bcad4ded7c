"""The network's own state as tables: what brokers show on their admin pages, a row for each thing.

    subscriptions   what clients have subscribed to            /subz
    clients         connected clients                          /linkz
    links           links to neighbours                        /linkz
    tables          entries of routing tables                  /routez
    rates           what each broker has counted, with its     /varz
                    clock: two reads give rates
    plans           dissemination trees that are installed     /planz

Each address of admin pages is one task. A read shows a moment of each broker, not one moment of the whole network. What
a page says is untrusted: a value of another type than its column fails the read with one line that names the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from covey.client.admin import Pages
from covey.errors import ConfigError, CoveyError
from covey.pipeline.network.options import Options
from covey.pipeline.schemas import Column, Table

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

BATCH: Final = 4_096  # rows of an Arrow batch
Row = dict[str, Any]

_TYPES: Final = {
    "array<string>": pa.list_(pa.string()),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_BROKER = Column("broker", "string", "the broker's name")
_LINK = Column("link", "string", "the link by which the broker knows it")
_FILTER = (
    Column("language", "string", "attributes, xpath or keywords"),
    Column("filter", "string", "the filter's text, cut after 500 characters"),
)
_TRAFFIC = (
    Column("dropped", "bigint", "events dropped because the queue was full"),
    Column("received_bytes", "bigint", "bytes received"),
    Column("sent_bytes", "bigint", "bytes sent"),
    Column("queue_events", "bigint", "events that wait to be sent"),
    Column("queue_bytes", "bigint", "bytes that wait to be sent"),
    Column("slow", "boolean", "whether more than half of what may wait does, or events were dropped"),
    Column("peer", "string", "the address at the other end; empty if it is not connected"),
)
_COUNTERS = (
    "events_published",
    "events_received",
    "events_forwarded",
    "events_delivered",
    "events_refused",
    "events_dropped",
    "events_unreadable",
    "events_unadvertised",
    "duplicates_suppressed",
)


class State(NamedTuple):
    """A table, and how its rows are read from the pages of one broker."""

    table: Table
    rows: Callable[[Pages], Iterator[Row]]


def _subscriptions(pages: Pages) -> Iterator[Row]:
    broker = _broker(pages)
    for row in pages.rows("/subz"):
        yield row | {"broker": broker, "subscription": row.get("key"), "user": row.get("name")}


def _links(pages: Pages) -> Iterator[Row]:
    broker = _broker(pages)
    for row in pages.rows("/linkz"):
        if row.get("kind") == "neighbour":
            yield row | {"broker": broker, "neighbour": row.get("link"), "is_open": row.get("open")}


def _clients(pages: Pages) -> Iterator[Row]:
    broker = _broker(pages)
    for row in pages.rows("/linkz"):
        if row.get("kind") == "client":
            yield row | {"broker": broker, "user": (row.get("permissions") or {}).get("name")}


def _tables(pages: Pages) -> Iterator[Row]:
    broker = _broker(pages)
    for what in ("entries", "advertisements"):
        for row in pages.rows("/routez", what=what):
            yield row | {"broker": broker, "what": what.replace("entries", "subscription").rstrip("s")}


def _rates(pages: Pages) -> Iterator[Row]:
    varz = pages.get("/varz")
    at = datetime.fromtimestamp(float(varz["time_s"]), UTC)
    yield {name: varz["totals"].get(name) for name in _COUNTERS} | {
        **{name: varz.get(name) for name in ("broker", "uptime_s", "subscriptions", "entries", "clients")},
        "at": at,
    }


def _plans(pages: Pages) -> Iterator[Row]:
    planz = pages.get("/planz")
    for epoch in planz["epochs"]:
        for tree in epoch["trees"]:
            known = {"broker": planz.get("broker"), "version": planz.get("version")}
            yield {**known, **epoch, **tree, "is_current": epoch["current"], "is_planned": epoch["planned"]}


def _broker(pages: Pages) -> Any:
    return pages.get("/varz").get("broker")


TABLES: Final = {
    state.table.name: state
    for state in (
        State(
            Table(
                "subscriptions",
                "a subscription of a connected client",
                (
                    _BROKER,
                    _LINK,
                    Column("subscription", "string", "its key in the network"),
                    Column("user", "string", "whose permissions the client has"),
                    *_FILTER,
                ),
            ),
            _subscriptions,
        ),
        State(
            Table(
                "clients",
                "a connected client",
                (
                    _BROKER,
                    _LINK,
                    Column("user", "string", "whose permissions it has"),
                    Column("subscriptions", "bigint", "how many subscriptions it has"),
                    Column("advertisements", "bigint", "how many advertisements it has"),
                    Column("filter_bytes", "bigint", "bytes of all its filters"),
                    Column("published", "bigint", "events that it published"),
                    Column("delivered", "bigint", "events delivered to it"),
                    Column("refused", "bigint", "its requests and events that were refused"),
                    *_TRAFFIC,
                ),
            ),
            _clients,
        ),
        State(
            Table(
                "links",
                "a link to a neighbour that is configured",
                (
                    _BROKER,
                    Column("neighbour", "string", "the neighbour's name"),
                    Column("up", "boolean", "whether the neighbour is connected"),
                    Column("is_open", "boolean", "whether both know what each must know of the other"),
                    Column("entries", "bigint", "entries of the routing table for this link"),
                    Column("received", "bigint", "events received"),
                    Column("sent", "bigint", "events sent"),
                    *_TRAFFIC,
                ),
            ),
            _links,
        ),
        State(
            Table(
                "tables",
                "an entry of a routing table",
                (
                    _BROKER,
                    Column("what", "string", "subscription or advertisement"),
                    _LINK,
                    Column("tree", "bigint", "the dissemination tree that it is for"),
                    Column("key", "string", "its key in the network"),
                    *_FILTER,
                    Column("home", "string", "the broker that it comes from, where the strategy says so"),
                    Column("publisher", "string", "who advertises; null for a subscription"),
                ),
            ),
            _tables,
        ),
        State(
            Table(
                "rates",
                "a broker, with what it has counted since it started",
                (
                    _BROKER,
                    Column("at", "timestamp", "when, by the broker's clock"),
                    Column("uptime_s", "double", "seconds since it started"),
                    Column("clients", "bigint", "connected clients"),
                    Column("subscriptions", "bigint", "subscriptions of its clients"),
                    Column("entries", "bigint", "entries of its routing table for neighbours"),
                    *(
                        Column(name, "bigint", f"as the metric `covey_{name}_total` (docs/admin.md)")
                        for name in _COUNTERS
                    ),
                ),
            ),
            _rates,
        ),
        State(
            Table(
                "plans",
                "a dissemination tree at a broker",
                (
                    _BROKER,
                    Column("version", "bigint", "of the broker's state of plans"),
                    Column("epoch", "bigint", "the plan that the tree belongs to"),
                    Column("is_current", "boolean", "whether events set out in this epoch"),
                    Column("is_planned", "boolean", "false for the overlay's own tree"),
                    Column("tree", "bigint", "the tree's number"),
                    Column("links_up", "array<string>", "the broker's neighbours on the tree that are up"),
                ),
            ),
            _plans,
        ),
    )
}


class StateReader(DataSourceReader):
    """Reads one of these tables; ConfigError for a schema that has other columns or types."""

    def __init__(self, options: Options, schema: StructType) -> None:
        known = {field.name: field.dataType for field in TABLES[options.table].table.schema()}
        for field in schema:
            if known.get(field.name) != field.dataType:
                raise ConfigError(
                    f"the table {options.table} has no column {field.name} of the type"
                    f" {field.dataType.simpleString()} (hint: give no schema, and select)"
                )
        self._options = options
        self._names = list(schema.names)

    def partitions(self) -> list[InputPartition]:
        """One for each address."""
        return [InputPartition(url) for url in self._options.admin]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one broker; runs in an executor."""
        options = self._options
        pages = Pages(partition.value, options.token, options.tls_ca)
        state = TABLES[options.table]
        rows = _told(state.rows(pages), pages.url)
        columns = [column for column in state.table.columns if column.name in self._names]
        columns.sort(key=lambda column: self._names.index(column.name))
        while some := list(islice(rows, BATCH)):
            yield _batch(some, columns, pages.url)


def _told(rows: Iterator[Row], url: str) -> Iterator[Row]:
    """Yield rows; CoveyError if a page is not made as a broker makes it."""
    try:
        yield from rows
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, OSError) as error:
        said = f"{type(error).__name__} {error!s:.80}"
        raise CoveyError(f"{url} does not answer as a broker does: {said}") from None


def _batch(rows: list[Row], columns: list[Column], url: str) -> pa.RecordBatch:
    arrays = []
    for column in columns:
        try:
            arrays.append(pa.array([row.get(column.name) for row in rows], _TYPES[column.type]))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise CoveyError(
                f"{url} does not answer as a broker does: {column.name} is no {column.type}"
            ) from None
    return pa.RecordBatch.from_arrays(arrays, [column.name for column in columns])
