"""Samples of events: each with the same probability, and the same ones wherever the question is asked.

Whether an event is in a sample depends on its name and the seed alone: on no other event, partition or machine. So
samples of two tables agree, a sample with a smaller p is part of one with a larger p, and a broker can tell with
`taken`, without Spark, which of its events the planner will look at.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_DIGITS = 15  # hexadecimal digits of the hash that are used: 60 bits, which fit a BIGINT


def sample(
    events: DataFrame,
    *,
    p: float = 1.0,
    seed: int = 0,
    window: timedelta | None = None,
    until: datetime | None = None,
    slide: timedelta | None = None,
) -> DataFrame:
    """Return each event with probability p.

    With `window`, only events with `until - window < at <= until`, where `until` is by default the time of the newest
    event. With `slide` too, all windows of that length that end at multiples of `slide`: every event once for each
    window that it is in, with the window's end in a column `until`.
    """
    if not 0.0 <= p <= 1.0:
        raise ConfigError(f"the probability of a sample is {p} and not between 0 and 1")
    if window is not None and window <= timedelta(0):
        raise ConfigError(f"the window of a sample is {window} and not longer than 0")
    if slide is not None and (window is None or until is not None or not timedelta(0) < slide <= window):
        raise ConfigError(
            f"a sample slides by {slide}: it needs a window that is at least as long, and no other end"
        )
    chosen = events if p == 1.0 else events.where(hashed(seed) < F.lit(threshold(p)))
    if window is None:
        return chosen
    if slide is not None:
        return _slid(chosen, window, slide)
    length = F.make_dt_interval(secs=F.lit(window.total_seconds()))
    if until is not None:
        end = F.lit(until).cast("timestamp")
        return chosen.where((F.col("at") <= end) & (F.col("at") > end - length))
    # The newest of all events, taken or not: another p has the same window.
    newest = events.agg(F.max("at").alias("_newest"))
    inside = F.col("at") > F.col("_newest") - length
    return chosen.join(F.broadcast(newest), inside, "inner").drop("_newest")


def _slid(events: DataFrame, window: timedelta, slide: timedelta) -> DataFrame:
    """Return events by window; computed on microseconds, where Spark's own windows are closed at the other end."""
    step, length = (round(span.total_seconds() * 1e6) for span in (slide, window))
    at = F.unix_micros("at")
    # The windows of an event end at or after it, and less than the window's length later.
    first = F.ceil(at / F.lit(step).cast("decimal(20,0)")).cast("bigint") * step
    ends = F.sequence(first, at + (length - 1), F.lit(step).cast("bigint"))
    ends = F.when(first <= at + (length - 1), ends).otherwise(F.array().cast("array<bigint>"))
    # An event without a time is in no window.
    return events.where(F.col("at").isNotNull()).withColumn(
        "until", F.explode(F.transform(ends, F.timestamp_micros))
    )


def taken(event: str, *, p: float, seed: int = 0) -> bool:
    """Return whether `sample` takes the event of that name."""
    digest = hashlib.md5(f"{seed}:{event}".encode(), usedforsecurity=False).hexdigest()
    return int(digest[:_DIGITS], 16) < threshold(p)


def threshold(p: float) -> int:
    """Return the number below which a share p of all hashes are."""
    return round(p * float(16**_DIGITS))


def hashed(salt: int | str) -> Column:
    """Return a number of 60 bits that depends on the event's name and the salt alone."""
    digest = F.md5(F.concat(F.lit(f"{salt}:"), F.col("event")).cast("binary"))
    return F.conv(F.substring(digest, 1, _DIGITS), 16, 10).cast("bigint")
