"""Matching on real Spark: against the scan, against a plain join, in other processes, without an action."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from tests import special_values

import covey
from covey import pipeline
from covey.core.attributes.sql import to_spark_sql
from covey.errors import ConfigError
from covey.matching.scan import ScanIndex
from covey.pipeline import schemas

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

FILTERS = [
    ("attributes", "price > 10 and symbol = 'IBM'"),
    ("attributes", "price between 5 and 15"),
    ("attributes", "symbol in ('IBM', 'HP') or price <> 12"),
    ("attributes", "symbol like 'I_M%'"),
    ("attributes", "volume is null"),
    ("attributes", "quote.depth >= 3 and volume is not null"),
    ("attributes", "volume = 9007199254740993"),
    ("attributes", "open = true"),
    ("attributes", "symbol = 'it''s \\ \"x\"'"),
    ("attributes", "TRUE"),
    ("attributes", "FALSE"),
    ("xpath", "/news//item[title]"),
    ("xpath", "//sport"),
    ("keywords", "nokia or (phone and cheap)"),
    ("keywords", "motorola"),
]
EVENTS: list[tuple[str, Any]] = [
    ("attributes", {"symbol": "IBM", "price": 12}),
    ("attributes", {"symbol": "IBM", "price": 10.0, "volume": 9007199254740993}),
    ("attributes", {"symbol": "IBM", "price": "12", "volume": 9007199254740992}),
    ("attributes", {"symbol": 'it\'s \\ "x"', "quote": {"depth": 3}, "volume": 1}),
    ("attributes", {"symbol": "HP", "price": 7, "open": True}),
    ("attributes", {"open": 1, "price": [1]}),
    ("attributes", {"price": 10**30, "volume": None}),
    ("attributes", {}),
    ("xpath", "<news><world><item><title/></item></world></news>"),
    ("xpath", "<news><sport/></news>"),
    ("keywords", ["nokia", "new"]),
    ("keywords", ["phone", "cheap", "motorola"]),
    ("keywords", []),
]


def subscription_frame(spark: SparkSession, filters: list[tuple[str, str]]) -> DataFrame:
    rows = [(f"s{k}", "b", language, text) for k, (language, text) in enumerate(filters)]
    return spark.createDataFrame(rows, schemas.SUBSCRIPTIONS.schema(checked=False))


def event_frame(spark: SparkSession, events: list[tuple[str, Any]]) -> DataFrame:
    rows = [
        (f"e{k}", "p", "b", None, language, content if language == "xpath" else json.dumps(content))
        for k, (language, content) in enumerate(events)
    ]
    return spark.createDataFrame(rows, schemas.EVENTS.schema(checked=False))


def scanned(events: list[tuple[str, Any]], filters: list[tuple[str, str]]) -> set[tuple[str, str]]:
    scan = ScanIndex()
    for k, (language, text) in enumerate(filters):
        scan.add(f"s{k}", covey.parse(text, language=language))
    contents = [frozenset(content) if language == "keywords" else content for language, content in events]
    return {(f"e{k}", str(key)) for k, content in enumerate(contents) for key in scan.match(content)}


def found(frame: DataFrame) -> set[tuple[str, str]]:
    rows = [(row.event, row.subscription) for row in frame.collect()]
    assert len(rows) == len(set(rows)), "each pair once"
    return set(rows)


def test_all_families_match_as_the_scan_does(spark: SparkSession) -> None:
    events, subscriptions = event_frame(spark, EVENTS), subscription_frame(spark, FILTERS)
    expected = scanned(EVENTS, FILTERS)
    assert len({event for event, _ in expected}) > 10
    assert found(pipeline.match(events, subscriptions)) == expected
    # Ingested or not, in one partition or in many, some of them empty, with a compiled index or without.
    checked = pipeline.ingest(events, table="events")
    compiled = pipeline.compile_filters(pipeline.ingest(subscriptions, table="subscriptions"))
    assert compiled.count() == 1
    assert found(pipeline.match(checked.repartition(7), compiled)) == expected
    assert (
        found(pipeline.match(checked.coalesce(1).union(checked.where("event > 'e5'").limit(0)), compiled))
        == expected
    )


def test_events_in_blocks_match_as_rows_do(spark: SparkSession) -> None:
    events, subscriptions = event_frame(spark, EVENTS), subscription_frame(spark, FILTERS)
    blocks = pipeline.blocks(events.coalesce(1), size=3)
    counts = blocks.groupBy("language").sum("events").collect()
    assert {(row[0], row[1]) for row in counts} == {("attributes", 8), ("xpath", 2), ("keywords", 3)}
    assert max(row.events for row in blocks.collect()) == 3
    assert found(pipeline.match(blocks, subscriptions)) == scanned(EVENTS, FILTERS)
    assert found(pipeline.match(blocks.limit(0), subscriptions)) == set()


def test_filters_in_shards_meet_every_event(spark: SparkSession, tmp_path: Path) -> None:
    """Broadcast or spread, from rows or blocks, and with filters that came a day later."""
    events = pipeline.ingest(event_frame(spark, EVENTS), table="events").persist()
    subscriptions = pipeline.ingest(subscription_frame(spark, FILTERS), table="subscriptions").persist()
    expected = scanned(EVENTS, FILTERS)
    today = F.substring("subscription", 2, 9).cast("int") >= 9

    yesterday = str(tmp_path / "yesterday")
    pipeline.compile_filters(subscriptions.where(~today), shards=3).write.parquet(yesterday)
    assert spark.read.parquet(yesterday).count() == 3
    added = pipeline.compile_filters(subscriptions.where(today), shards=2)
    whole = spark.read.parquet(yesterday).unionByName(added).persist()
    assert found(pipeline.match(events, whole)) == expected
    assert found(pipeline.match(events, whole, chunks=2)) == expected
    assert found(pipeline.match(pipeline.blocks(events, size=3), whole, chunks=3)) == expected
    assert found(pipeline.match(events.limit(1), whole, chunks=1)) == {
        pair for pair in expected if pair[0] == "e0"
    }
    # A shard that is there twice is one.
    assert found(pipeline.match(events, whole.unionByName(whole), chunks=1)) == expected
    assert found(pipeline.match(events, whole.unionByName(whole))) == expected
    with pytest.raises(ConfigError, match="by 1 task or more, not 0"):
        pipeline.compile_filters(subscriptions, shards=0)


def test_special_values_match_as_the_scan_does(spark: SparkSession) -> None:
    """As rows, in blocks, and as Spark SQL."""
    filters = [("attributes", str(filter)) for filter in special_values.filters()]
    events: list[tuple[str, Any]] = [("attributes", event) for event in special_values.events()]
    # One partition: a signed zero and its neighbours are in one block.
    frame = event_frame(spark, events).coalesce(1)
    compiled = pipeline.compile_filters(subscription_frame(spark, filters)).persist()
    expected = scanned(events, filters)
    assert found(pipeline.match(frame, compiled)) == expected
    assert found(pipeline.match(pipeline.blocks(frame), compiled)) == expected
    # Each condition as SQL takes Spark long to compile: these are those on zeros, the whole of what SQL could mistake.
    asked = [
        covey.parse(text)
        for text in ("a = 0", "a <> 0", "a < 0", "a in (0, 7)", "a between 0 and 0", "a > 9007199254740992")
    ] + [covey.conjunction([("a", "in", range(30))])]
    typed = spark.createDataFrame([(float(number),) for number in special_values.NUMBERS], "a double")
    columns = [F.expr(to_spark_sql(filter, {"a": "double"})) for filter in asked]  # type: ignore[arg-type]
    for number, *said in typed.select("a", *columns).collect():
        assert said == [filter.matches({"a": number}) for filter in asked], number


def test_nothing_matches_nothing(spark: SparkSession) -> None:
    events, subscriptions = event_frame(spark, EVENTS), subscription_frame(spark, FILTERS)
    assert found(pipeline.match(events, subscriptions.limit(0))) == set()
    assert found(pipeline.match(events.where("event = 'none'"), subscriptions)) == set()
    bad = subscription_frame(spark, [("attributes", "a ="), *FILTERS])
    assert len(found(pipeline.match(events, bad))) == len(scanned(EVENTS, FILTERS))


def test_a_worker_does_not_mistake_one_index_for_another(spark: SparkSession) -> None:
    events = pipeline.ingest(event_frame(spark, EVENTS), table="events")
    for some in (FILTERS, FILTERS[:2], FILTERS[::-1]):
        assert found(pipeline.match(events, subscription_frame(spark, some))) == scanned(EVENTS, some)


def test_many_events_in_many_batches(spark: SparkSession) -> None:
    generator = random.Random(5)
    filters = [
        ("attributes", f"a > {generator.randrange(100)} and b = {generator.randrange(4)}") for _ in range(40)
    ]
    events = [
        ("attributes", {"a": generator.randrange(100), "b": generator.randrange(5)})
        if generator.random() < 0.95
        else ("keywords", ["x"])
        for _ in range(3_000)
    ]
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        assert found(
            pipeline.match(event_frame(spark, events), subscription_frame(spark, filters))
        ) == scanned(events, filters)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def test_a_plain_join_finds_the_same(spark: SparkSession) -> None:
    """The independent oracle: every filter as Spark SQL on a table with a column for each attribute."""
    generator = random.Random(9)
    symbols = ["IBM", "it's", "a\\b", '"', "${x}", "100%", "", "é"]
    rows: list[tuple[Any, ...]] = [
        (
            f"e{k}",
            generator.choice([None, *symbols]),
            generator.choice([None, 1.5, -2.0, 12.0, 1e300]),
            generator.choice([None, 0, 7, 2**53 + 1, -(2**62)]),
            generator.choice([None, True, False]),
        )
        for k in range(60)
    ]
    quoted = ["'" + symbol.replace("'", "''") + "'" for symbol in symbols]
    texts = [
        *(f"symbol = {text} or price < 0" for text in quoted),
        *(f"not (symbol <> {text} and volume >= 7)" for text in quoted),
        *(f"symbol like {text[:-1]}%' and open = true" for text in quoted if "\\" not in text),
        "not (price > 1 or volume > 1)",
        "price is null and open <> true",
        "volume in (7, 9007199254740993) or not open = false",
        "symbol > 'a' and price not between 0 and 2",
        "price = 'IBM' or volume = 7",
        "symbol = 7 or open = true",
    ]
    typed = spark.createDataFrame(
        rows, "event string, symbol string, price double, volume bigint, open boolean"
    )
    kinds = {"symbol": "string", "price": "double", "volume": "bigint", "open": "boolean"}
    expected = {
        (row.event, f"s{k}")
        for k, text in enumerate(texts)
        for row in typed.where(to_spark_sql(covey.parse(text), kinds)).select("event").collect()  # type: ignore[arg-type]
    }
    names = ("symbol", "price", "volume", "open")
    events: list[tuple[str, Any]] = [("attributes", dict(zip(names, row[1:], strict=True))) for row in rows]
    filters = [("attributes", text) for text in texts]
    assert len(expected) > 200
    assert expected == scanned(events, filters)
    assert found(pipeline.match(event_frame(spark, events), subscription_frame(spark, filters))) == expected
    by_stage = {row.event for row in pipeline.where(typed, filter=texts[0]).collect()}
    assert by_stage == {event for event, subscription in expected if subscription == "s0"}


def test_where_reads_the_columns_types(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, ("x", 2.5)), (2, ("y", None))], "n int, q struct<s string, d double>")
    assert [row.n for row in pipeline.where(frame, filter="q.s = 'x' and q.d > 2 and n = 1").collect()] == [1]
    assert [row.n for row in pipeline.where(frame, filter="n = 'x' or q.d is null").collect()] == [2]
    with pytest.raises(covey.FilterError, match="no column 'z'"):
        pipeline.where(frame, filter="z = 1")


def test_stages_run_no_action(spark: SparkSession) -> None:
    """Reading the rows would fail, so whoever returns has not read them."""

    def unread(frame: DataFrame) -> DataFrame:
        return frame.where(F.raise_error("the rows are read").isNull())

    events, subscriptions = unread(event_frame(spark, EVENTS)), unread(subscription_frame(spark, FILTERS))
    frames = [
        pipeline.match(events, subscriptions),
        pipeline.match(events, subscriptions, chunks=2),
        pipeline.compile_filters(subscriptions),
        pipeline.ingest(events, table="events"),
        pipeline.quarantine(pipeline.judge(events, table="events"), table="events"),
        pipeline.sample(events, p=0.5),
        pipeline.where(events, filter="event = 'e1'"),
    ]
    assert all(frame.columns for frame in frames)
    for frame in (events, subscriptions):
        with pytest.raises(Exception, match="the rows are read"):
            frame.collect()
