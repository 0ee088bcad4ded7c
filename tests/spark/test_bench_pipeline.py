"""The benchmark of the pipeline on real Spark, at tiny sizes: equal answers, and differences are noticed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from covey.bench import pipeline
from covey.bench.bulk import plain_tables, write_subscriptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def silent(_: str) -> None:
    pass


@pytest.mark.long
def test_match_is_compared_with_a_join(spark: SparkSession, tmp_path: Path) -> None:
    (found,) = pipeline.matching(spark, tmp_path, silent, 400, (300,))
    assert (found.size, found.axis, found.equal) == (300, "events", True)
    assert found.ours is not None
    assert found.theirs is not None


def test_the_join_finds_pairs_that_filters_match(spark: SparkSession) -> None:
    filters = pipeline.WORKLOAD.filters(np.random.default_rng(1), 400)
    events = pipeline.WORKLOAD.events(np.random.default_rng(2), 300)
    expected = {
        (f"e{e}", f"s{s}")
        for e, event in enumerate(events)
        for s, filter in enumerate(filters)
        if filter.matches(event)
    }
    assert expected, "there is something to find"
    assert pipeline.pairs(pipeline.joined(spark, events, filters)) == expected


def test_tables_in_bulk_are_compared_with_plain_python(spark: SparkSession, tmp_path: Path) -> None:
    (found,) = pipeline.in_bulk(spark, tmp_path, silent, (150,))
    assert (found.size, found.axis, found.equal) == (150, "subscriptions", True)


def test_tables_of_another_strategy_differ(tmp_path: Path) -> None:
    write_subscriptions(tmp_path / "in", "intervals", 150)
    covering, identity = (
        plain_tables(tmp_path / "in", strategy, advertised=False) for strategy in ("covering", "identity")
    )
    assert covering.total() < identity.total()


def test_without_java_the_part_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from covey.bench import parts
    from covey.bench import spark as shared
    from covey.errors import ConfigError

    def none(*_: object, **__: object) -> None:
        raise ConfigError("there is no Java")

    monkeypatch.setattr(shared, "session", none)
    (one,) = parts.measured("pipeline", silent, quick=True)
    assert (one.part, one.ours, one.note) == ("pipeline", None, "there is no Java")
