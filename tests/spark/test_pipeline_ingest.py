"""Ingestion on real Spark: good rows gain their encoded form, bad ones are kept with the reason."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import covey
from covey import pipeline
from covey.core.packing import unpack
from covey.errors import ConfigError
from covey.pipeline import schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).replace(tzinfo=None)

# Rows and what is wrong with them, None if nothing is.
SUBSCRIPTIONS: list[tuple[tuple[Any, ...], str | None]] = [
    (("s1", "b1", "attributes", "price > 10 and symbol = 'IBM'"), None),
    (("s2", "b1", "attributes", "price > 10 and symbol = 'IBM'"), None),
    (("s3", "b1", "xpath", "/news//item[title]"), None),
    (("s4", "b2", "keywords", "nokia or motorola"), None),
    (("s5", "b2", "attributes", "price >"), "the text ends too early"),
    (("s6", "b2", "klingon", "x"), "there is no language 'klingon'"),
    (("s7", None, "attributes", "a = 1"), "the column broker is null"),
    (("", "b2", "attributes", "a = 1"), "the column subscription is empty"),
    ((None, "b2", "attributes", "a = 1"), "the column subscription is null"),
    ((None, "b3", "attributes", "a = 1"), "the column subscription is null"),
    (("s8", "b2", "attributes", None), "the filter is null"),
    (("s9", "b2", None, "a = 1"), "there is no language None"),
    (("s2", "b9", "attributes", "a = 1"), "the subscription s2 is there more than once"),
    (("s10", "b9", "attributes", "a ="), "the text ends too early"),
    (("s10", "b9", "attributes", "a = 1"), None),
]
EVENTS: list[tuple[tuple[Any, ...], str | None]] = [
    (("e1", "p", "b1", AT, "attributes", '{"symbol": "IBM", "quote": {"price": 12.5}}'), None),
    (("e2", None, "b1", None, "attributes", '{"n": 123456789012345678901234567890, "l": [1]}'), None),
    (("e3", "p", "b1", AT, "xpath", "<news><item/></news>"), None),
    (("e4", "p", "b1", AT, "keywords", '["phone", "nokia", "phone"]'), None),
    (("e5", "p", "b1", AT, "attributes", "[1, 2]"), "a JSON list and not an object"),
    (("e6", "p", "b1", AT, "attributes", "7"), "a JSON number and not an object"),
    (("e7", "p", "b1", AT, "attributes", '{"a": NaN}'), "NaN is no JSON number"),
    (("e8", "p", "b1", AT, "attributes", '{"a": '), "not JSON"),
    (("e9", "p", "b1", AT, "attributes", "[" * 100_000), "not JSON"),
    (("e10", "p", "b1", AT, "attributes", '{"a":' * 40 + "1" + "}" * 40), "nest deeper than 32"),
    (("e11", "p", "b1", AT, "attributes", '{"a": "\\ud800"}'), "unpaired surrogate"),
    (("e12", "p", "b1", AT, "xpath", "<a><b></a>"), "mismatched tag"),
    (("e13", "p", "b1", AT, "keywords", '{"a": 1}'), "not a JSON list of words"),
    (("e14", "p", "b1", AT, "keywords", "[1]"), "not a JSON list of words"),
    (("e15", "p", "b1", AT, "keywords", None), "the content is null"),
    (("e17", "p", "b1", AT, "attributes", '{"a": 1, "a": 2}'), "an object has a name twice"),
    (("e18", "p", "b1", AT, "attributes", '{"a": -1e999}'), "-1e999 is out of range"),
    (("e16", "p", "b1", AT, "attributes", '{"a":"' + "x" * (1 << 20) + '"}'), "at most 1048576 are read"),
]
TOPOLOGY: list[tuple[tuple[Any, ...], str | None]] = [
    (("b1", "b2", None), None),
    (("b2", "b3", 2.5), None),
    (("b3", "b3", 1.0), "from 'b3' to itself"),
    (("b3", None, 1.0), "the column b is null"),
    (("b3", "b4", 0.0), "the cost 0.0 is not"),
    (("b3", "b4", float("nan")), "the cost nan is not"),
    (("b3", "b4", float("inf")), "the cost inf is not"),
]
DELIVERIES: list[tuple[tuple[Any, ...], str | None]] = [
    (("e1", "s1", "b1", 3, AT), None),
    (("e1", "s1", "b1", None, None), None),
    (("e1", "s1", "b1", -1, AT), "the distance -1 is below 0"),
    (("e1", None, "b1", 1, AT), "the column subscription is null"),
]
ALL = {"subscriptions": SUBSCRIPTIONS, "events": EVENTS, "topology": TOPOLOGY, "deliveries": DELIVERIES}


def frame(spark: SparkSession, table: str, rows: list[tuple[Any, ...]]) -> DataFrame:
    return spark.createDataFrame(rows, schemas.BY_NAME[table].schema(checked=False))


@pytest.mark.parametrize("table", ALL)
def test_good_rows_are_accepted_and_bad_ones_quarantined(spark: SparkSession, table: str) -> None:
    rows = ALL[table]
    judged = pipeline.judge(frame(spark, table, [row for row, _ in rows]), table=table)
    accepted = pipeline.accept(judged, table=table).collect()
    width = len(schemas.BY_NAME[table].columns)
    assert sorted(map(str, (tuple(row)[:width] for row in accepted))) == sorted(
        str(row) for row, reason in rows if reason is None
    )
    refused = [
        (json.loads(row.row), row.reason) for row in pipeline.quarantine(judged, table=table).collect()
    ]
    bad = [(row, reason) for row, reason in rows if reason is not None]
    assert len(refused) == len(bad)
    names = [column.name for column in schemas.BY_NAME[table].columns]
    for row, reason in bad:
        key = [shown(value) for value in row]
        found = [why for kept, why in refused if [kept[name] for name in names] == key]
        assert len(found) == 1, (row[0], found, refused)
        assert reason in found[0]
        assert "\n" not in found[0]


def shown(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    return (
        str(value).replace("nan", "NaN").replace("inf", "Infinity")
        if value != value or value == float("inf")
        else value
    )


def test_encoded_forms_say_what_the_texts_say(spark: SparkSession) -> None:
    raw = frame(spark, "subscriptions", [row for row, _ in SUBSCRIPTIONS])
    for row in pipeline.ingest(raw, table="subscriptions").collect():
        assert covey.decode(bytes(row.encoded)) == covey.parse(row.filter, language=row.language)
    events = pipeline.ingest(frame(spark, "events", [row for row, _ in EVENTS]), table="events").collect()
    encoded = {row.event: bytes(row.encoded) for row in events}
    assert unpack(encoded["e1"]) == {"symbol": "IBM", "quote.price": 12.5}
    assert unpack(encoded["e2"]) == {"n": 123456789012345678901234567890, "l": []}
    assert encoded["e3"] == b"<news><item/></news>"
    assert msgspec.msgpack.decode(encoded["e4"]) == ["nokia", "phone"]
    assert {row.event: row.at for row in events}["e1"] == AT


def test_missing_columns_and_wrong_types_are_said_in_a_line(spark: SparkSession) -> None:
    bare = spark.createDataFrame([(1,)], "event int")
    with pytest.raises(
        ConfigError, match=r"the table events has no column broker, language, content \(it has event\)"
    ):
        pipeline.judge(bare, table="events")
    odd = spark.createDataFrame([(1, "b", "x")], "a int, b string, cost string")
    with pytest.raises(ConfigError, match="a is int and not string; cost is string and not double"):
        pipeline.judge(odd, table="topology")
    with pytest.raises(ConfigError, match="no input table 'plans'"):
        pipeline.judge(odd, table="plans")
    # Optional columns may be missing, and whole numbers are numbers.
    for columns, row in (("a string, b string", ("x", "y")), ("a string, b string, cost int", ("x", "y", 2))):
        (kept,) = pipeline.ingest(spark.createDataFrame([row], columns), table="topology").collect()
        assert kept.cost == (row[2] if len(row) == 3 else None)


def test_rows_with_the_same_name_may_be_let_through(spark: SparkSession) -> None:
    raw = frame(spark, "events", [EVENTS[0][0], EVENTS[0][0]])
    assert pipeline.ingest(raw, table="events").count() == 1
    assert pipeline.ingest(raw, table="events", distinct=False).count() == 2
