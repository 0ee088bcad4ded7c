"""A stream of events, for Spark's micro-batches.

Spark runs a reader's methods in two places. `initialOffset`, `latestOffset`, `partitions`, `commit` and `stop` run in
one Python process on the driver, which lives as long as the query; `read` runs in executors, in other processes each
time. A subscription belongs to one connection, so it is the driver's (`intake`), and a partition is not a place to
read from but the events themselves, as the frames in which they came; executors decode them.

    latestOffset(start, limit)   all up to `start` is done with; the end of what has come since, within the limit
    partitions(start, end)       those events; after a restart the batch that was under way is asked for first, and the
                                 broker of a durable subscription has sent its events again
    commit(end)                  acknowledge

Spark calls `commit` for a batch when it plans the next one. A batch that fills the window of a durable subscription
leaves no room for the events from which the next would be planned, and neither would happen. So `start` acknowledges,
too: Spark asks with a new start only once the batch before it is in the commit log of the checkpoint, from where it
would begin again. (This does not hold if progress is tracked asynchronously, a mode that Spark has for other sinks and
sources.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from covey.pipeline.network.batch import BATCH
from covey.pipeline.network.columns import Arrival, batches, converter
from covey.pipeline.network.intake import Intake, Offset
from covey.pipeline.network.options import Options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

PARTITION: Final = 10_000  # events of one task
WAIT_S: Final = 0.05  # for an event, when Spark asks: it would ask again only after a while


class Events(InputPartition):
    """Some events, in order."""

    def __init__(self, arrivals: list[Arrival]) -> None:
        self.arrivals = arrivals

    def __repr__(self) -> str:
        return f"<{len(self.arrivals):,} events>"


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of what matches a filter; see the module's text."""

    def __init__(self, options: Options, schema: StructType) -> None:
        converter(schema, options.language)  # says what is wrong with the schema before anything runs
        options.wanted()
        self._options = options
        self._schema = schema
        self._intake: Intake | None = None  # only on the driver
        self._wait_s = WAIT_S

    @property
    def _events(self) -> Intake:
        if self._intake is None:
            self._intake = Intake(self._options)
        return self._intake

    # -- on the driver -----------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name, as are those below)
        """Return where a new query begins; it is subscribed then."""
        return self._events.beginning().as_dict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return how large a batch may be."""
        return ReadMaxRows(self._options.events)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Be one that ends: with what the broker has now, or when nothing has come for a while."""
        self._wait_s = self._options.idle
        self._events.end_here()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next batch."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._events.latest(Offset.of(start), most, self._wait_s).as_dict()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the events of a batch."""
        arrivals = self._events.between(Offset.of(start), Offset.of(end))
        return [Events(arrivals[at : at + PARTITION]) for at in range(0, len(arrivals), PARTITION)]

    def commit(self, end: dict[str, Any]) -> None:
        """Acknowledge a batch and all before it."""
        self._events.done(Offset.of(end))

    def stop(self) -> None:
        """End the subscription; a durable one goes on gathering."""
        if self._intake is not None:
            self._intake.close()

    # -- in executors ------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the events of a partition."""
        assert isinstance(partition, Events)
        yield from batches(partition.arrivals, BATCH, converter(self._schema, self._options.language))
