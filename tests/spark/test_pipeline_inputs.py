"""Tables of catalogs, and columns under other names: the same rows are the same input, wherever they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.conftest import MASTER
from tests.spark.test_pipeline_jobs import TABLES, write_parquet

from covey.errors import ConfigError
from covey.pipeline.checkpoints import Checkpoints
from covey.pipeline.ingestion import Ingestion
from covey.pipeline.inputs import content_identity, read_catalog
from covey.pipeline.request import Request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(MASTER.startswith("connect:"), reason="tested without Spark Connect")

NEEDED = {name: TABLES[name] for name in ("topology", "subscriptions", "events")}


@pytest.fixture
def view(spark: SparkSession) -> Iterator[str]:
    """The events, as a view whose contents are in a struct and whose names have a capital."""
    rows = [
        (name, broker, (language, content)) for name, broker, language, content in reversed(NEEDED["events"])
    ]
    frame = spark.createDataFrame(
        rows, "Name string, broker string, said struct<language:string,text:string>"
    )
    frame.repartition(3).createOrReplaceTempView("happened")
    yield "happened"
    spark.catalog.dropTempView("happened")


def ingested(spark: SparkSession, source: Path, out: Path, **more: Any) -> Ingestion:
    found = Ingestion(spark, Request(source, out, **more), Checkpoints(spark, out / "stages"))
    found.run()
    return found


def test_the_same_rows_are_the_same_input(spark: SparkSession, tmp_path: Path, view: str) -> None:
    source = write_parquet(tmp_path / "input", NEEDED)
    expected = ingested(spark, source, tmp_path / "plain")
    (source / "events.parquet").unlink()
    (source / "subscriptions.parquet").unlink()
    names = ("id", "at", "speaks", "wants")
    lines = [json.dumps({"it": dict(zip(names, row, strict=True))}) for row in NEEDED["subscriptions"]]
    (source / "subscriptions.jsonl").write_text("\n".join(lines), encoding="utf-8")
    columns = {
        "events.event": "Name",
        "events.language": "said.language",
        "events.content": "said.text",
        "subscriptions.subscription": "it.id",
        "subscriptions.broker": "it.at",
        "subscriptions.language": "it.speaks",
        "subscriptions.filter": "it.wants",
    }
    found = ingested(spark, source, tmp_path / "mapped", columns=columns, tables={"events": view})
    assert found.basis == expected.basis
    assert found.quarantined == expected.quarantined
    with pytest.raises(ConfigError, match=r"the table events in happened has no column said\.more"):
        ingested(
            spark,
            source,
            tmp_path / "x",
            columns=columns | {"events.at": "said.more"},
            tables={"events": view},
        )


def test_a_table_of_a_catalog_is_known_by_its_rows(spark: SparkSession, view: str) -> None:
    columns = {"event": "Name", "language": "said.language", "content": "said.text"}
    first = read_catalog(spark, view, "events", {}, columns)
    again = read_catalog(spark, view, "events", {}, columns).orderBy("Name")
    assert content_identity(first) == content_identity(again)
    fewer = again.limit(len(NEEDED["events"]) - 1)
    assert content_identity(first) != content_identity(fewer)
    with pytest.raises(ConfigError, match=r"the table 'no\.such' cannot be read: "):
        read_catalog(spark, "no.such", "events")
