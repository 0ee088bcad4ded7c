"""Live events as Spark tables: columns, limits, filters that the network judges, mistakes. Nothing is registered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    In,
    IsNotNull,
    IsNull,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from tests.oracles.spark_conditions import judge
from tests.spark.brokers import Running, publishing, running

from covey.pipeline.network.columns import DEFAULTS
from covey.pipeline.network.source import NAME

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SOURCES = Path(__file__).parents[2] / "src"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def broker() -> Iterator[Running]:
    with running() as one:
        yield one


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.unset(PUSHDOWN)


def table(
    spark: SparkSession, broker: Running, schema: str | None = None, **options: str | float
) -> DataFrame:
    given: dict[str, str | float] = {"url": broker.url, "seconds": 10, "events": 50, **options}
    reader = spark.read.format(NAME).options(**given)
    return (reader.schema(schema) if schema else reader).load()


def an_event(number: int) -> Any:
    content = {
        "n": number,
        "symbol": "IBM" if number % 20 == 0 else f"S{number % 7}",
        "price": number / 4,
        "deep": {"odd": bool(number % 2)},
    }
    # Now and then a type that the schemas below do not expect.
    return (content | ({"price": "much"} if number % 5 == 0 else {}), b"payload %d" % number)


def test_the_default_columns(spark: SparkSession, broker: Running) -> None:
    with publishing(broker, an_event):
        frame = table(spark, broker, filter="n >= 0 and symbol = 'IBM'")
        rows = frame.collect()
    assert frame.schema == DEFAULTS.schema()
    assert len(rows) == 50
    contents = [json.loads(row.content) for row in rows]
    first = contents[0]["n"]
    assert [one["n"] for one in contents] == list(range(first, first + 50 * 20, 20))
    assert contents[0] == {"n": first, "symbol": "IBM", "price": "much", "deep.odd": False}
    assert [bytes(row.data) for row in rows] == [b"payload %d" % one["n"] for one in contents]
    assert len({row.event for row in rows}) == 50
    assert {row.publisher for row in rows} == {rows[0].event.partition(".")[0]}
    assert {row.language for row in rows} == {"attributes"}
    now = datetime.now(UTC).replace(tzinfo=None)
    assert all(now - timedelta(minutes=2) < row["at"] < now + timedelta(minutes=1) for row in rows)


def test_columns_are_attributes_of_their_type_or_null(spark: SparkSession, broker: Running) -> None:
    schema = "n bigint, symbol string, price double, deep struct<odd boolean, even boolean>, whole int"
    schema += ", no struct<x int>, _event string, _data binary"
    with publishing(broker, lambda n: {**an_event(n)[0], "whole": n / 2}):
        rows = table(spark, broker, schema).collect()
    assert len(rows) == 50
    for row in rows:
        n = row.n
        assert row.symbol == ("IBM" if n % 20 == 0 else f"S{n % 7}")
        assert row.price == (None if n % 5 == 0 else n / 4)
        assert row.deep.asDict() == {"odd": bool(n % 2), "even": None}
        assert row.whole == (n // 2 if n % 2 == 0 else None)
        assert row.no is None
        assert (len(row._event) > 3, bytes(row._data)) == (True, b"")


def test_words_and_documents(spark: SparkSession, broker: Running) -> None:
    with publishing(broker, lambda n: {"nokia", f"w{n}"} if n % 2 else f"<a><b n='{n}'/></a>"):
        words = table(spark, broker, language="keywords", filter="nokia", events=5).collect()
        documents = table(spark, broker, language="xpath", filter="/a/b", events=5).collect()
    assert all(json.loads(row.content)[0] == "nokia" and row.language == "keywords" for row in words)
    assert all(row.content.startswith("<a><b n='") and row.language == "xpath" for row in documents)
    assert len(words) == len(documents) == 5


def test_a_read_ends_with_its_time(spark: SparkSession, broker: Running) -> None:
    assert table(spark, broker, seconds=0.5).count() == 0


def test_the_network_judges_what_is_pushed(spark: SparkSession, broker: Running, pushing: None) -> None:
    schema = "n bigint, symbol string, price double, deep struct<odd boolean>"
    with publishing(broker, an_event, 4_000):
        frame = table(spark, broker, schema, pushdown="true", filter="n < 1000000000")
        # One event in 20 is of IBM. All 50 that the subscription may bring are, so the network has judged that.
        rows = frame.where("symbol = 'IBM' and price is null and deep.odd = false and n > -5").collect()
        assert [row.n for row in rows] == list(range(rows[0].n, rows[0].n + 50 * 20, 20))
        # Without the option nothing is taken over, and the same table serves several queries.
        frame = table(spark, broker, schema)
        assert 1 <= frame.where("symbol = 'IBM'").count() <= 4
        assert frame.count() == 50


def test_without_the_setting_spark_says_what_is_missing(spark: SparkSession, broker: Running) -> None:
    with pytest.raises(PySparkException, match=r"spark\.sql\.python\.filterPushdown\.enabled"):
        table(spark, broker, pushdown="true", seconds=0.2).collect()


VALUES: dict[str, list[Any]] = {
    "string": [None, "", "a", "ab", "a%b", "b_", "é", "\U0001f600", "z\uffff"],
    "boolean": [None, True, False],
    "double": [None, 0.0, -0.0, 0.5, 1.0, -1e300, float("inf")],
    "int": [None, 0, 1, -7, 2**31 - 1],
}


def as_column(one: Filter) -> Column:
    if isinstance(one, Not):
        return ~as_column(one.child)
    column = F.col(one.attribute[0])  # type: ignore[attr-defined]
    said: Any = getattr(one, "value", None)
    match one:
        case EqualTo():
            return column == F.lit(said)
        case EqualNullSafe():
            return column.eqNullSafe(said)
        case GreaterThan():
            return column > F.lit(said)
        case LessThanOrEqual():
            return column <= F.lit(said)
        case In():
            return column.isin(*said)
        case IsNull():
            return column.isNull()
        case IsNotNull():
            return column.isNotNull()
        case StringStartsWith():
            return column.startswith(said)
        case StringEndsWith():
            return column.endswith(said)
        case StringContains():
            return column.contains(said)
    raise AssertionError(one)


def test_the_oracle_of_conditions_is_spark(spark: SparkSession) -> None:
    """tests/property/test_network_pushdown.py trusts it."""
    conditions: list[Filter] = []
    for kind, values in VALUES.items():
        path, known = (kind,), [value for value in values if value is not None]
        conditions += [IsNull(path), IsNotNull(path), EqualNullSafe(path, None), In(path, (known[0], None))]
        conditions += [make(path, value) for make in (EqualTo, EqualNullSafe) for value in known]
        if kind != "boolean":
            conditions += [make(path, value) for make in (GreaterThan, LessThanOrEqual) for value in known]
        if kind == "string":
            shapes = (StringStartsWith, StringEndsWith, StringContains)
            conditions += [make(path, value) for make in shapes for value in ("", "a", "%", "_", "\uffff")]
    conditions += [Not(one) for one in conditions]
    longest = max(map(len, VALUES.values()))
    rows = [tuple(values[at % len(values)] for values in VALUES.values()) for at in range(longest)]
    schema = ", ".join(f"{kind} {kind}" for kind in VALUES)
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    found = frame.select(F.array(*map(as_column, conditions)).alias("judged"), *VALUES).collect()
    for row in found:
        assert row.judged == [judge(one, row.asDict()) for one in conditions]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": "red"}, "there is no option 'colour' (hint: url, token"),
        ({"events": "many"}, "the option events is 'many': it must be a number"),
        ({"confirm": "false"}, "the option confirm is for write, not for read"),
    ],
)
def test_mistakes_are_said_in_one_line(
    spark: SparkSession, broker: Running, options: Any, message: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        table(spark, broker, **options).collect()
    assert any(message in line for line in str(caught.value).splitlines()), str(caught.value)


def test_a_schema_that_no_event_has(spark: SparkSession, broker: Running) -> None:
    with pytest.raises(
        PySparkException, match="the column 'when' has the type timestamp, and no attribute has"
    ):
        table(spark, broker, "when timestamp").collect()


def test_secrets_are_in_no_plan_and_no_error(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    reader = spark.read.format(NAME).options(user="ann", password="hunter2", url="covey://127.0.0.1:1")
    frame = reader.load()
    frame.explain(mode="extended")
    with pytest.raises(PySparkException, match=r"no broker can be reached at 127\.0\.0\.1:1") as caught:
        frame.collect()
    with pytest.raises(PySparkException) as other:
        spark.read.format(NAME).options(url="covey://ann:hunter2@127.0.0.1:1:x").load()
    assert "is no address of a broker" in str(other.value)
    assert "hunter2" not in capsys.readouterr().out + str(caught.value) + str(other.value)


DISCOVERY = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print([one.name for one in spark.read.format("covey").load().schema], "covey" in sys.modules)
spark.stop()
"""


def test_spark_finds_the_format_by_itself() -> None:
    """In a process that has never heard of Covey; only the path says where it is installed."""
    done = subprocess.run(
        [sys.executable, "-c", DISCOVERY],
        env=os.environ
        | {"PYTHONPATH": str(SOURCES), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == [*f"{[column.name for column in DEFAULTS.columns]}".split(), "False"], (
        done.stderr
    )
