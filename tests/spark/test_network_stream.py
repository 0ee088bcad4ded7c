"""Streams from the network and into it: nothing is lost over a restart, and what is written is published."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from tests.spark.brokers import Running, running, until
from tests.spark.conftest import MASTER

from covey.broker.config import AdminConfig
from covey.pipeline import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from covey.client.sync import SyncSubscription


in_this_process = pytest.mark.skipif(
    MASTER.startswith("connect:"), reason="a server runs the program's function in a process of its own"
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(data_dir=tmp_path_factory.mktemp("broker"), admin=AdminConfig(port=0)) as one:
        yield one


def stream(
    spark: SparkSession, broker: Running, schema: str = "n bigint, _event string", **options: Any
) -> DataFrame:
    return spark.readStream.format("covey").schema(schema).options(url=broker.url, **options).load()


def start(
    frame: DataFrame, take: Callable[[DataFrame, int], None], checkpoint: Path, **trigger: Any
) -> StreamingQuery:
    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    return (writer.trigger(**trigger) if trigger else writer).start()


def taken(events: SyncSubscription, count: int) -> list[Any]:
    return [events.next(timeout_s=20) for _ in range(count)]


@in_this_process
def test_a_restart_in_the_middle_loses_nothing(spark: SparkSession, broker: Running, tmp_path: Path) -> None:
    batches: dict[int, list[int]] = {}
    failed: list[int] = []

    def take(frame: DataFrame, number: int) -> None:
        found = [row.n for row in frame.collect()]
        if sum(map(len, batches.values())) >= 200 and not failed:
            failed.extend(found)
            raise RuntimeError(f"the program fails in batch {number}")
        batches[number] = found

    with broker.client() as client:

        def publish(some: range) -> None:
            client.publish_many([{"n": n, "wanted": True} for n in some], confirm=True)
            client.publish_many([{"n": n, "wanted": False} for n in some], confirm=True)

        def frame() -> DataFrame:
            return stream(spark, broker, durable="jobs", filter="wanted = TRUE", maxEventsPerTrigger=100)

        # The first run makes the subscription; from then on the broker keeps what matches.
        start(frame(), take, tmp_path, availableNow=True).awaitTermination(60)
        publish(range(500))
        query = start(frame(), take, tmp_path)
        until(lambda: not query.isActive)
        assert "the program fails in batch" in str(query.exception())
        assert failed
        publish(range(500, 600))
        start(frame(), take, tmp_path, availableNow=True).awaitTermination(60)
    assert max(map(len, batches.values())) <= 100
    assert failed in batches.values()  # the batch that failed came again, as it was
    assert [n for number in sorted(batches) for n in batches[number]] == list(range(600))


def test_a_live_stream_into_the_network_again(spark: SparkSession, broker: Running, tmp_path: Path) -> None:
    quotes = stream(spark, broker, "symbol string, price double", filter="price > 10")
    told = quotes.select(F.concat("symbol", F.lit("!")).alias("alarm"), F.struct("price").alias("at"))
    with broker.client() as client, client.subscribe("alarm like '%!'") as alarms:
        query = (
            told.writeStream.format("covey")
            .options(url=broker.url, advertise="exists alarm", checkpointLocation=str(tmp_path))
            .start()
        )
        try:
            # Once its subscription is in force, what is published comes.
            until(lambda: query.lastProgress is not None)
            client.publish_many([{"symbol": f"S{n}", "price": n} for n in range(40)])
            found = [event.content for event in taken(alarms, 29)]
        finally:
            query.stop()
        assert query.exception() is None
    assert found == [{"alarm": f"S{n}!", "at.price": float(n)} for n in range(11, 40)]


def test_a_table_is_published_and_read_back(spark: SparkSession, broker: Running) -> None:
    rows = [(1, "a", 0.5, True, {"deep": None}, b"x"), (2, None, None, False, {"deep": 7}, None)]
    schema = "n int, text string, ratio double, flag boolean, s struct<deep bigint>, data binary"
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    with broker.client() as client, client.subscribe("n > 0") as events:
        options = {"url": broker.url, "advertise": "n > 0", "identify": "row"}
        frame.write.format("covey").mode("append").options(**options).save()
        found = taken(events, 2)
        names = [event.content.pop("row") for event in found]
        assert [name[-6:] for name in names] == ["/0/0/0", "/0/0/1"]
        assert len({name[:-6] for name in names}) == 1
        assert [(event.content, event.data) for event in found] == [
            ({"n": 1, "text": "a", "ratio": 0.5, "flag": True}, b"x"),
            ({"n": 2, "flag": False, "s.deep": 7}, b""),
        ]
    contents = [
        ('{"a": {"b": 1}, "c": "é"}', "attributes", b"1"),
        ('["nokia", "phone"]', "keywords", None),
        ("<a><b/></a>", "xpath", None),
    ]
    whole = spark.createDataFrame(contents, "content string, language string, data binary").coalesce(1)
    with (
        broker.client() as client,
        client.subscribe("a.b = 1") as some,
        client.subscribe("nokia", "keywords") as words,
        client.subscribe("/a/b", "xpath") as documents,
    ):
        whole.write.format("covey").mode("append").options(url=broker.url, confirm="false").save()
        assert (taken(some, 1)[0].content, some.received) == ({"a.b": 1, "c": "é"}, 1)
        assert taken(words, 1)[0].content == {"nokia", "phone"}
        assert taken(documents, 1)[0].raw_content == b"<a><b/></a>"


@in_this_process
def test_a_batch_that_runs_again_says_the_same_of_its_rows(
    spark: SparkSession, broker: Running, tmp_path: Path
) -> None:
    """A driver that ends after a batch and before it has noted that runs it again: consumers know its events."""
    spark.range(40).repartition(2).write.parquet(str(tmp_path / "rows"))
    with broker.client(name="consumer") as client:
        events = client.subscribe("row LIKE '%'", durable="rows")

        def run() -> StreamingQuery:
            rows = spark.readStream.schema("id bigint").parquet(str(tmp_path / "rows"))
            options = {"url": broker.url, "identify": "row", "checkpointLocation": str(tmp_path / "at")}
            writer = rows.writeStream.format("covey").options(**options)
            query = writer.trigger(availableNow=True).start()
            assert query.awaitTermination(120)
            return query

        query = run()
        for noted in (tmp_path / "at" / "commits").iterdir():
            noted.unlink()
        assert run().id == query.id
        came = [(event["row"], event["id"]) for event in taken(events, 80)]
        events.unsubscribe(forget=True)
    assert len({name for name, _ in came}) == len(set(came)) == 40
    assert {number for _, number in came} == set(range(40))
    assert all(re.fullmatch(rf"{query.id}/0/[01]/\d+", name) for name, _ in came)


def test_what_cannot_be_published(spark: SparkSession, broker: Running) -> None:
    def write(expression: str, mode: str = "append", **options: Any) -> str:
        writer = spark.range(1).selectExpr(expression).write.format("covey").mode(mode)
        with pytest.raises(PySparkException) as caught:
            writer.options(**{"url": broker.url} | options).save()
        return str(caught.value)

    assert "the column 'x' has the type array<int>, and no attribute has" in write("array(1) as x")
    assert "the attribute 'x.y' is not a number (NaN)" in write("struct(double('NaN') as y) as x")
    assert "the attribute 'tags' is of the type list" in write("""'{"tags": [1]}' as content""")
    assert "a content is not a JSON object" in write("'[1]' as content")
    assert "cannot be overwritten" in write("1 as x", "overwrite")
    assert "the column 'x' is what the option identify sets" in write("1 as x", identify="x")
    assert "only events with attributes can be identified" in write(
        """'["a"]' as content""", identify="x", language="keywords"
    )
    assert "no broker can be reached at 127.0.0.1:1" in write("1 as x", url="covey://127.0.0.1:1")
    with running() as forgetful:
        refused = write("1 as x", url=forgetful.url)
    assert "data_dir" in refused
    assert "set the option confirm to false" in refused


def test_a_stream_without_a_broker_says_so(spark: SparkSession, broker: Running, tmp_path: Path) -> None:
    frame = spark.readStream.format("covey").options(url="covey://127.0.0.1:1", timeout=2).load()
    query = start(frame, lambda *_: None, tmp_path)
    until(lambda: not query.isActive)
    assert "no broker can be reached at 127.0.0.1:1" in str(query.exception())


class Asked(DataSource):
    """A stream of numbers that notes, when Spark asks what comes next, which batches Spark has noted as done."""

    @classmethod
    def name(cls) -> str:
        return "asked"

    def schema(self) -> str:
        return "n int, done string"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        done = Path(self.options["commits"])

        class Reader(DataSourceStreamReader):
            def initialOffset(self) -> dict[str, Any]:  # noqa: N802
                return {"n": 0, "done": ""}

            def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802
                noted = sorted(path.name for path in done.glob("[0-9]*"))
                return {"n": start["n"] + 1, "done": " ".join(noted)} if start["n"] < 4 else start

            def partitions(self, start: Any, end: dict[str, Any]) -> list[InputPartition]:
                return [InputPartition((end["n"], end["done"]))]

            def read(self, partition: InputPartition) -> Iterator[tuple[int, str]]:
                yield partition.value

        return Reader()


@in_this_process
def test_spark_asks_for_more_only_after_it_has_noted_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    """What `network/stream.py` relies on: all up to the start that Spark asks with will not be asked for again."""
    spark.dataSource.register(Asked)
    frame = spark.readStream.format("asked").option("commits", str(tmp_path / "commits")).load()
    rows: list[Any] = []
    query = start(frame, lambda some, _: rows.extend(some.collect()), tmp_path)
    until(lambda: len(rows) == 4)
    query.stop()
    assert [(row.n, row.done) for row in rows] == [(1, ""), (2, "0"), (3, "0 1"), (4, "0 1 2")]


def test_registering_by_hand(spark: SparkSession, broker: Running) -> None:
    """For set-ups where Spark does not find the format; where it does, nothing changes."""
    register(spark)
    assert spark.read.format("covey").options(url=broker.url, seconds=0.2).load().count() == 0


def test_the_document_is_a_program(spark: SparkSession, broker: Running, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    assert broker.broker.admin is not None
    pages = f"http://127.0.0.1:{broker.broker.admin.port}"
    space: dict[str, Any] = {"spark": spark, "url": broker.url, "folder": str(tmp_path), "pages": pages}
    with contextlib.redirect_stdout(io.StringIO()):
        for block in blocks:
            exec(block, space)
