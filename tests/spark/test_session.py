"""Sessions of others: used as they are, with nothing of theirs overridden, and too much for them refused."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.conftest import MASTER
from tests.spark.test_pipeline_jobs import GOOD, write_parquet

from covey import pipeline
from covey.errors import ConfigError
from covey.pipeline import jobs, packed, session
from covey.pipeline.failures import SPARK_ERRORS, failure
from covey.pipeline.inputs import row_hash
from covey.pipeline.memory import Room, room_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZONE, TIMEOUT = "spark.sql.session.timeZone", "spark.sql.broadcastTimeout"


def test_a_session_that_runs_wins_over_the_default(spark: SparkSession, tmp_path: Path) -> None:
    before = spark.conf.getAll
    assert session.session(None, tmp_path / "log") is spark
    assert session.session(MASTER, tmp_path / "log", bulk=True, driver_memory="600m") is spark
    assert spark.conf.getAll == before
    assert session.master_of(spark) == MASTER
    asking: list[tuple[dict[str, Any], str]] = [
        ({"master": "spark://127.0.0.1:7077"}, f"Spark runs on {MASTER} already, and cannot run on spark://"),
        ({"driver_memory": "64g"}, "runs already with 1g of memory, and cannot have 64g"),
        (
            {"conf": {"spark.ui.enabled": "true"}},
            f"spark.ui.enabled cannot be changed: Spark runs on {MASTER}",
        ),
    ]
    for asked, said in asking:
        with pytest.raises(ConfigError) as caught:
            session.session(asked.pop("master", None), tmp_path / "log", **asked)
        assert str(caught.value).startswith(said) or said in str(caught.value)


def test_settings_that_somebody_has_set_stay(spark: SparkSession) -> None:
    spark.conf.set(TIMEOUT, "77")
    try:
        with session.unless_set(spark, {TIMEOUT: "7200", "spark.sql.files.maxRecordsPerFile": "5"}):
            assert spark.conf.get(TIMEOUT) == "77"
            assert spark.conf.get("spark.sql.files.maxRecordsPerFile") == "5"
        assert spark.conf.get(TIMEOUT) == "77"
        assert "spark.sql.files.maxRecordsPerFile" not in spark.conf.getAll
    finally:
        spark.conf.unset(TIMEOUT)


def test_jobs_say_what_they_are_for(spark: SparkSession) -> None:
    if MASTER.startswith("connect:"):
        with session.described(spark, "a, b"):
            assert "a; b" in spark.getTags()
        assert "a; b" not in spark.getTags()
        return
    context = spark.sparkContext
    context.setJobDescription("the caller's own")
    try:
        with session.described(spark, "covey plan: ingest"):
            assert context.getLocalProperty(session.DESCRIPTION) == "covey plan: ingest"
            assert context.getLocalProperty(session.GROUP) == "covey plan"
        assert context.getLocalProperty(session.DESCRIPTION) == "the caller's own"
        assert context.getLocalProperty(session.GROUP) is None
        context.setJobGroup("mine", "to be cancelled")
        with session.described(spark, "covey plan: ingest"):
            assert context.getLocalProperty(session.GROUP) == "mine", "the caller can cancel it"
        assert context.getLocalProperty(session.DESCRIPTION) == "to be cancelled"
    finally:
        for key in (session.DESCRIPTION, session.GROUP):
            context.setLocalProperty(key, None)  # type: ignore[arg-type] # as Spark itself has it


def test_the_hash_of_a_row_does_not_depend_on_the_time_zone(spark: SparkSession) -> None:
    rows = [("e", "p", "a", datetime(2026, 5, 4, 10, tzinfo=UTC), "keywords", "[]")]
    columns = "event string, publisher string, broker string, at timestamp, language string, content string"
    frame = spark.createDataFrame(rows, columns).localCheckpoint()
    before = spark.conf.get(ZONE)
    found = {frame.select(row_hash("events")).collect()[0][0]}
    try:
        spark.conf.set(ZONE, "Asia/Tokyo")
        found.add(frame.select(row_hash("events")).collect()[0][0])
    finally:
        spark.conf.set(ZONE, str(before))
    assert len(found) == 1


def test_an_index_that_the_driver_has_no_memory_for_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = room_of(spark)
    assert 0.9 * 2**30 < room.heap <= 2**30
    assert room.threads == 2
    source = write_parquet(tmp_path / "input", GOOD)
    small = Room(6_400, 2)
    monkeypatch.setattr(import_module("covey.pipeline.match"), "room_of", lambda session: small)
    subscriptions = spark.read.parquet(str(source / "subscriptions.parquet"))
    with pytest.raises(SPARK_ERRORS) as caught:
        pipeline.compile_filters(subscriptions).collect()
    told = failure(caught.value, "it")
    assert isinstance(told, ConfigError)
    assert str(told).startswith("too large to broadcast are the indexes of 20 filters: 0.0 MB packed")
    assert "(hint: --driver-memory 1g; for a session that is not Covey's, spark.driver.memory=1g" in str(told)
    monkeypatch.setattr(packed, "room_of", lambda session: small)
    topology = spark.read.parquet(str(source / "topology.parquet"))
    with pytest.raises(SPARK_ERRORS) as caught:
        packed.pack({"topology": topology}, build=packed.overlay_in).collect()
    assert str(failure(caught.value, "it")).startswith("too much to broadcast in the tables topology: 0.0 MB")


def test_planning_in_a_session_of_others_refuses_another_master(spark: SparkSession, tmp_path: Path) -> None:
    source = write_parquet(tmp_path / "input", GOOD)
    request = jobs.Request(source, tmp_path / "out", master="yarn")
    with pytest.raises(ConfigError, match="cannot run on yarn too"):
        jobs.plan(request, spark=spark)
