"""Whatever happens at a broker that the topology does not have is set aside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey.pipeline.ingest import REASON

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def locate(judged: DataFrame, topology: DataFrame) -> DataFrame:
    """Return a judged table with a reason also for rows at brokers that are not in the checked topology."""
    ends = topology.select(F.col("a").alias("_broker")).union(topology.select("b"))
    known = ends.distinct().withColumn("_known", F.lit(True))
    unknown = F.when(
        F.col("_known").isNull(),
        F.format_string("the broker %s is not in the topology", F.substring("broker", 1, 80)),
    )
    return (
        judged.join(F.broadcast(known), judged["broker"] == known["_broker"], "left")
        .withColumn(REASON, F.coalesce(REASON, unknown))
        .drop("_broker", "_known")
    )
