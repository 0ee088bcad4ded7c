"""Interests: the distinct filters of each broker, which is what planning works on.

Equal filters at one broker match the same events and cost the same, however many consumers have them. Interests are
numbered in the order of (broker, filter's wire form): the same subscriptions have the same numbers in every run.

**How they are numbered.** Subscriptions are shuffled once, by their brokers, so that each broker's interests are
counted, sorted and numbered by one task. What all brokers before it have is added, from a table with a row for each
broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.window import Window

from covey.pipeline.ingest import ingested
from covey.pipeline.schemas import INTERESTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def interests(subscriptions: DataFrame) -> DataFrame:
    """Return the table `interests` of checked subscriptions; raw ones are ingested first."""
    checked = ingested(subscriptions, table="subscriptions").select("broker", "encoded")
    counted = (
        checked.repartition("broker")
        .groupBy("broker", "encoded")
        .agg(F.count(F.lit(1)).alias("subscriptions"))
    )
    place = F.row_number().over(Window.partitionBy("broker").orderBy("encoded")) - 1
    # A row for each broker: thousands where interests are millions.
    sizes = counted.groupBy("broker").agg(F.count(F.lit(1)).alias("_size")).coalesce(1)
    offsets = sizes.mapInArrow(offset_batches, "broker string, _before bigint")
    numbered = counted.withColumn("_place", place).join(F.broadcast(offsets), "broker")
    return numbered.withColumn("interest", (F.col("_place") + F.col("_before")).cast("int")).select(
        *[column.name for column in INTERESTS.columns]
    )


# -- in the worker ---------------------------------------------------------------------------------------------


def offset_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield for each broker how many interests the brokers have whose names sort before its own."""
    given = list(batches)
    if not given:
        return
    sizes = pa.Table.from_batches(given).sort_by("broker")
    counts = sizes.column("_size").to_numpy()
    before = np.cumsum(counts) - counts
    rows = pa.table({"broker": sizes.column("broker"), "_before": pa.array(before, pa.int64())})
    yield from rows.to_batches()
