"""Samples: the same events everywhere, as often as asked, in the right windows."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from covey import pipeline
from covey.errors import ConfigError
from covey.pipeline.sample import taken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = datetime(2026, 5, 1, 12, 0, 0)
NAMES = [f"event {number} ü" for number in range(2_000)]


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    rows = [(name, START + timedelta(seconds=number)) for number, name in enumerate(NAMES)]
    return spark.createDataFrame([*rows, ("no time", None)], "event string, at timestamp")


def names(frame: DataFrame) -> set[str]:
    return {row.event for row in frame.select("event").collect()}


def test_a_sample_is_what_the_hash_says(events: DataFrame) -> None:
    for p, seed in ((0.03, 1), (0.5, 1), (0.5, 2)):
        expected = {name for name in [*NAMES, "no time"] if taken(name, p=p, seed=seed)}
        assert names(pipeline.sample(events, p=p, seed=seed)) == expected
        assert abs(len(expected) / 2_001 - p) < 0.04
        assert names(pipeline.sample(events.repartition(5), p=p, seed=seed)) == expected
    few, many, other = (
        names(pipeline.sample(events, p=p, seed=s)) for p, s in ((0.1, 1), (0.5, 1), (0.1, 2))
    )
    assert few < many
    assert few != other
    assert names(pipeline.sample(events, p=1.0)) == {*NAMES, "no time"}
    assert names(pipeline.sample(events, p=0.0)) == set()


def test_the_window_is_the_last_one(events: DataFrame) -> None:
    assert names(pipeline.sample(events, window=timedelta(seconds=3))) == set(NAMES[-3:])
    until = START + timedelta(seconds=10)
    assert names(pipeline.sample(events, window=timedelta(seconds=4), until=until)) == set(NAMES[7:11])
    # The window does not depend on which events were taken.
    some = names(pipeline.sample(events, p=0.5, window=timedelta(seconds=100)))
    assert some == {name for name in NAMES[-100:] if taken(name, p=0.5)}


@pytest.mark.parametrize(("length", "step"), [(6, 2), (5, 2), (4, 4), (3, 1)])
def test_sliding_windows(events: DataFrame, length: int, step: int) -> None:
    slid = pipeline.sample(
        events.limit(2_001), window=timedelta(seconds=length), slide=timedelta(seconds=step)
    )
    found = {(row.event, row.until) for row in slid.where("event < 'event 2'").collect()}
    expected: set[tuple[str, Any]] = set()
    for number, name in enumerate(NAMES):
        at = START + timedelta(seconds=number)
        for second in range(number, number + length):
            until = START + timedelta(seconds=second)
            # The windows end at multiples of the step since 1970.
            if round((until - datetime(1970, 1, 1)).total_seconds()) % step == 0 and name < "event 2":
                assert until - timedelta(seconds=length) < at <= until
                expected.add((name, until))
    assert found == expected


def test_what_makes_no_sense_is_told(events: DataFrame) -> None:
    for wrong in (
        {"p": 1.5},
        {"p": float("nan")},
        {"window": timedelta(0)},
        {"slide": timedelta(seconds=1)},
        {"window": timedelta(seconds=1), "slide": timedelta(seconds=2)},
    ):
        with pytest.raises(ConfigError):
            pipeline.sample(events, **wrong)
