"""Interests: the distinct filters of each broker, which is what planning works on.

Equal filters at one broker match the same events and cost the same, however many consumers have them. Interests are
numbered in the order of (broker, filter's wire form): the same subscriptions have the same numbers in every run.

**How they are numbered.** Each broker's interests are sorted and numbered by one task; what all brokers before it have
is added, from a table of brokers, which is small.
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
    place = F.row_number().over(Window.partitionBy("broker").orderBy("encoded")) - 1
    # All brokers in one partition: a row each, which is thousands where interests are millions.
    # One row a broker, so one task; a window without a partition is a warning of Connect.
    earlier = Window.partitionBy(F.lit(0)).orderBy("broker").rowsBetween(Window.unboundedPreceding, -1)
    sizes = counted.groupBy("broker").agg(F.count(F.lit(1)).alias("_size"))
    offsets = sizes.select("broker", F.coalesce(F.sum("_size").over(earlier), F.lit(0)).alias("_before"))
    numbered = counted.withColumn("_place", place).join(F.broadcast(offsets), "broker")
    return numbered.withColumn("interest", (F.col("_place") + F.col("_before")).cast("int")).select(
        *[column.name for column in INTERESTS.columns]
    )
