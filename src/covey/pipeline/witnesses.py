"""Witnesses: a few sampled events with all that they say, which a plan by groups takes along.

Brokers find by them the group that a new subscription joins (`covey.planning.joining`). Which events they are follows
from a hash of their names, so that the same input gives the same plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey.pipeline.sample import hashed
from covey.planning.joining import MOST_CONTENT, MOST_WITNESSES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def witnesses(documents: DataFrame, events: DataFrame, *, seed: int = 0) -> DataFrame:
    """Return the table `witnesses`: some of the documents that somebody wants, with what each says."""
    wanted = documents.where(F.size("interests") > 0).select("event", "broker", "interests")
    told = events.where(F.octet_length("content") <= MOST_CONTENT).select("event", "language", "content")
    chosen = wanted.join(told, "event").withColumn("_place", hashed(f"{seed}:witness"))
    return chosen.orderBy("_place", "event").limit(MOST_WITNESSES).drop("_place")
