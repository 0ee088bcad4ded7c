"""The data source "covey", as Spark finds it: which reader or writer for what.

Spark makes it anew in every process that needs it, from the options alone. Nothing here connects: that is for those
who read and write, where they do.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from covey.pipeline.network.columns import DEFAULTS
from covey.pipeline.network.options import READ, STREAM, WRITE, options_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from covey.pipeline.network.batch import LiveReader
    from covey.pipeline.network.sink import BatchSink, StreamSink
    from covey.pipeline.network.state import StateReader
    from covey.pipeline.network.stream import StreamReader

NAME = "covey"


class CoveySource(DataSource):
    """Live events as tables and streams, and the other way round; docs/spark.md."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        options_of(options)  # so that mistakes are said when a table is named, not when it is first used

    @classmethod
    def name(cls) -> str:
        """Return what users call the format."""
        return NAME

    def schema(self) -> StructType:
        """Return the default columns, of events or of a table of the network's state."""
        from covey.pipeline.network.state import TABLES

        table = options_of(self.options).table
        return TABLES[table].table.schema() if table else DEFAULTS.schema()

    def reader(self, schema: StructType) -> LiveReader | StateReader:
        """Return a bounded read of what comes, or of what brokers show of themselves."""
        from covey.pipeline.network.batch import FilteringReader, LiveReader
        from covey.pipeline.network.state import StateReader

        options = options_of(self.options, READ)
        if options.table:
            return StateReader(options, schema)
        return FilteringReader(options, schema) if options.pushdown else LiveReader(options, schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 (Spark's name)
        """Return a stream of what comes."""
        from covey.pipeline.network.stream import StreamReader

        return StreamReader(options_of(self.options, STREAM), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        """Return what publishes a table."""
        from covey.pipeline.network.sink import BatchSink

        return BatchSink(options_of(self.options, WRITE), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: N802 (Spark's name)
        """Return what publishes a stream."""
        from covey.pipeline.network.sink import StreamSink

        return StreamSink(options_of(self.options, WRITE), schema)


def register(spark: SparkSession) -> None:
    """Tell a session of the format "covey", where Spark does not find it by itself."""
    spark.dataSource.register(CoveySource)
