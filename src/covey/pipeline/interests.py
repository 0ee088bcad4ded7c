"""Interests: the distinct filters of each broker, which is what planning works on.

Equal filters at one broker match the same events and cost the same, however many consumers have them. Interests are
numbered in the order of (broker, filter's wire form): the same subscriptions have the same numbers in every run.

**Bound.** One task numbers all interests: it sorts them, 100 bytes each, on disk if need be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.window import Window

from covey.pipeline.ingest import ingested
from covey.pipeline.schemas import INTERESTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def interests(subscriptions: DataFrame) -> DataFrame:
    """Return the table `interests` of checked subscriptions; raw ones are ingested first."""
    checked = ingested(subscriptions, table="subscriptions")
    counted = checked.groupBy("broker", "encoded").agg(F.count(F.lit(1)).alias("subscriptions"))
    place = F.row_number().over(Window.partitionBy(F.lit(0)).orderBy("broker", "encoded")) - 1
    return counted.withColumn("interest", place).select(*[column.name for column in INTERESTS.columns])
