"""The sink: each task of a write has a client of its own and publishes its rows in order.

A task is done when the broker has all its events: with `confirm` on its disk, without it in its hands. A task that
fails is run again by Spark, and so is a batch of a stream after a restart, and then events are published again that
were published before: at least once, with other names the second time. There is no transaction over tasks, so nothing
is to be done when Spark commits or aborts.

With `identify` an attribute tells which row an event is, QUERY/BATCH/PARTITION/ROW, by which consumers know what comes
again: the same however often its task runs, as long as the query's source gives the same rows to the same partitions
again. A write that is no stream is a query of one batch, 0, with a name that its tasks share.

Rows wait where they come from: with `confirm` so many are on their way at a time, without it the client takes
only what its link takes.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from covey.errors import ConfigError, CoveyError, LinkError, RefusedError
from covey.pipeline.network.options import Options
from covey.pipeline.network.rows import publisher_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"  # what Spark tells tasks of streams
AT_ONCE: Final = 2_000  # events that are confirmed together, within the time-out


@dataclass
class Published(WriterCommitMessage):
    """How many events a task has published."""

    events: int


def publish(
    options: Options, schema: StructType, batches: Iterator[pa.RecordBatch], write: str = ""
) -> Published:
    """Publish rows; CoveyError if one of them is no event, or the broker does not take it.

    `write` is what tells a write that is no stream from others.
    """
    events_of = publisher_of(schema, options.language, options.identify)
    task = f"{_task(write)}/" if options.identify else ""
    advertised = options.advertised()
    failed: list[CoveyError] = []
    count = rows = 0

    def broken(reason: str) -> None:
        if not options.confirm:
            failed.append(LinkError(f"the link broke, and what was under way may be lost: {reason}"))

    with options.connected(failed.append, on_disconnect=broken) as client:
        if advertised is not None:
            client.advertise(advertised)
        for batch in batches:
            events = events_of(batch, task, rows)
            rows += batch.num_rows
            while some := list(islice(events, AT_ONCE)):
                try:
                    count += client.publish_many(some, confirm=options.confirm)
                except RefusedError as error:
                    if "data_dir" in str(error):
                        raise RefusedError(f"{error}; or set the option confirm to false") from None
                    raise
                _raise(failed)
        if not options.confirm:
            client.flush(near=True)  # what the broker has against an event is said before the answer
            _raise(failed)
    return Published(count)


def _task(write: str) -> str:
    """Return what this task writes: the query or write, the batch and the partition."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "tasks write"
    if write:
        return f"{write}/0/{context.partitionId()}"
    query, batch = context.getLocalProperty(QUERY), context.getLocalProperty(BATCH)
    if not query or not batch:
        raise ConfigError(
            "Spark does not say which batch this is, so that the option identify cannot be used"
        )
    return f"{query}/{batch}/{context.partitionId()}"


def _raise(failed: list[CoveyError]) -> None:
    if failed:
        raise failed[0]


class BatchSink(DataSourceArrowWriter):
    """Publishes a table."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError('what is published cannot be overwritten (hint: mode("append"))')
        publisher_of(schema, options.language, options.identify)  # says what is wrong before anything runs
        self._options = options
        self._schema = schema
        self._write = secrets.token_hex(8)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        """Publish the rows of one task."""
        return publish(self._options, self._schema, iterator, self._write)


class StreamSink(DataSourceStreamArrowWriter):
    """Publishes a stream, batch by batch."""

    def __init__(self, options: Options, schema: StructType) -> None:
        publisher_of(schema, options.language, options.identify)
        self._options = options
        self._schema = schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        """Publish the rows of one task of one batch."""
        return publish(self._options, self._schema, iterator)
