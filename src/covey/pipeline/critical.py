"""Critical distances: how far off the next interested consumer is, from delivery statistics (paper C, eq. 1 to 3).

A delivery's distance is how many hops from the consumer's broker towards the producer the nearest broker is where
another subscription wants the event too. The *similarity* φ(µ) of a subscription, for one publisher, is the share of
its events with a distance of at most µ; the *critical distance* of a threshold θ is the smallest µ with φ(µ) ≥ θ. So
far a withdrawn filter may be kept on its way at a share of false positives of at most 1 - θ. The strategy
`incremental` computes the same from what a broker remembers (`covey.strategies.incremental.statistics`); here it is for
all brokers at once, and over any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.window import Window

from covey.errors import ConfigError
from covey.pipeline.schemas import CRITICAL

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# 0.55 · 20 is 11.000000000000002 to a computer; the share of 11 in 20 is meant.
_ROUNDING = 1e-9
_KEYS = ("subscription", "broker", "publisher")


def critical(
    deliveries: DataFrame,
    events: DataFrame | None = None,
    *,
    thresholds: Sequence[float],
    minimum_samples: int = 20,
) -> DataFrame:
    """Return the table `critical`: for each subscription and publisher a row for each distance, and one for infinity.

    `events` says who published what; without it all events count as those of one publisher, null. A pair with fewer
    than `minimum_samples` events reaches no threshold: too few say nothing. A threshold of 1 is reached at infinity
    only.
    """
    for threshold in thresholds:
        if not 0 < threshold <= 1:
            raise ConfigError(f"a threshold is {threshold} and not above 0 and up to 1")
    if minimum_samples < 1:
        raise ConfigError(f"at least one event says something, not {minimum_samples}")
    if events is None:
        known = deliveries.withColumn("publisher", F.lit(None).cast("string"))
    else:
        known = deliveries.join(events.select("event", "publisher"), "event", "left")
    # Every pair has a row for infinity, which is where a threshold is reached that is not reached before: each delivery
    # counts once at its own distance, and not at all at infinity.
    at_both = F.explode(
        F.array(
            F.struct(F.col("distance").alias("at"), F.lit(1).alias("one")),
            F.struct(F.lit(None).cast("int").alias("at"), F.lit(0).alias("one")),
        )
    )
    spread = known.select(*_KEYS, at_both.alias("_at"))
    whole = spread.groupBy(*_KEYS, F.col("_at.at").alias("distance")).agg(F.sum("_at.one").alias("events"))
    pair = Window.partitionBy(*_KEYS)
    within = pair.orderBy(F.col("distance").asc_nulls_last()).rowsBetween(Window.unboundedPreceding, 0)
    total, near = F.sum("events").over(pair), F.sum("events").over(within)
    rows = whole.withColumn("total", total).withColumn("_near", near)
    reached = F.array(*[F.when(_is_critical(threshold), F.lit(float(threshold))) for threshold in thresholds])
    enough = F.when(F.col("total") >= minimum_samples, F.filter(reached, lambda one: one.isNotNull()))
    return (
        rows.withColumn("similarity", F.col("_near") / F.col("total"))
        .withColumn("thresholds", F.coalesce(enough, F.array().cast("array<double>")).cast("array<double>"))
        .select(*[column.name for column in CRITICAL.columns])
    )


def _is_critical(threshold: float) -> Column:
    """Say whether a row's distance is the critical one of a threshold."""
    if threshold >= 1:
        return F.col("distance").isNull()
    needed = F.ceil(F.lit(float(threshold)) * F.col("total") - _ROUNDING)
    return (F.col("_near") >= needed) & (F.col("_near") - F.col("events") < needed)
