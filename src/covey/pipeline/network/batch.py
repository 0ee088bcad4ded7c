"""A bounded read: the events that match, from now on, until there are so many or so much time is over.

The read is one task: it subscribes, waits until that is in force in the whole network, and gives what comes. Events
that were published before are not there, and another run of the same query sees other events: persist what is to be
looked at twice. A task that fails is run again, with the events of its own time.

Filters of the query become part of the subscription where they can (`pushdown`), if the user wants that: Spark must be
told too (`spark.sql.python.filterPushdown.enabled`), and it has a flaw there. Spark 4.3 keeps the reader that took the
filters of one query for all queries of the same DataFrame, so that a second one, with other filters or none, would get
the events of the first. So a DataFrame with `pushdown` is for one query, and without that option nothing is taken
over.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from covey.core.attributes.filter import AttributeFilter
from covey.core.families import decode
from covey.errors import CoveyError, TimedOutError
from covey.pipeline.network.columns import Arrival, attribute_kinds, batches, converter
from covey.pipeline.network.options import Options, settle
from covey.pipeline.network.pushdown import push

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

BATCH: Final = 4_096  # rows of an Arrow batch


class LiveReader(DataSourceReader):
    """Reads what comes within the options' limits."""

    def __init__(self, options: Options, schema: StructType) -> None:
        converter(schema, options.language)  # says what is wrong with the schema before anything runs
        self._options = options
        self._schema = schema
        self._filter = options.wanted().encode()

    def partitions(self) -> list[InputPartition]:
        """One: an event comes once over one subscription."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield what comes; runs in an executor."""
        convert = converter(self._schema, self._options.language)
        yield from batches(self._arrivals(), BATCH, convert)

    def _arrivals(self) -> Iterator[Arrival]:
        options, wanted = self._options, decode(self._filter)
        if isinstance(wanted, AttributeFilter) and not wanted.conjunctions:
            return  # nothing matches it
        left = options.events
        failed: list[CoveyError] = []
        with options.connected(failed.append) as client:
            events = client.subscribe(wanted, pending_events=max(left, 1_000), policy="drop-new")
            settle(client)
            until_s = time.monotonic() + options.seconds
            while left > 0 and (rest_s := until_s - time.monotonic()) > 0:
                try:
                    event = events.next(timeout_s=rest_s)
                except TimedOutError:
                    break
                yield Arrival(event.frame, time.time_ns() // 1_000)
                left -= 1
        if left > 0 and failed:
            raise failed[0]


class FilteringReader(LiveReader):
    """The same, which takes Spark's filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        """Take over what the network can judge; return what Spark must."""
        asked = decode(self._filter)
        if not isinstance(asked, AttributeFilter):
            return filters
        pushed = push(asked, filters, attribute_kinds(self._schema))
        self._filter = pushed.filter.encode()
        return pushed.left
