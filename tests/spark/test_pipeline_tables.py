"""Tables in bulk on real Spark: against the simulator, sizes, what a broker reads of them, and errors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from tests.oracles.table_steps import Case, case, simulated
from tests.spark.conftest import MASTER
from tests.unit.test_pipeline_sizing import write_stages

from covey import pipeline
from covey.core.filter import Filter
from covey.errors import ConfigError
from covey.pipeline import schemas, sizing
from covey.pipeline.tables.load import read_table
from covey.pipeline.tables.stage import ENTRIES, SIZES
from covey.strategies.reductions import REDUCTIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LANGUAGES = {"A": "attributes", "X": "xpath", "K": "keywords"}
SEED = 18  # nine brokers, 29 subscriptions, two advertisements


def frame(spark: SparkSession, table: str, placed: list[tuple[str, Filter]], letter: str) -> DataFrame:
    """Raw rows: the stages ingest them."""
    rows = [
        (f"{letter}{number}", broker, LANGUAGES[chr(filter.encode()[0])], str(filter))
        for number, (broker, filter) in enumerate(placed, start=1)
    ]
    return spark.createDataFrame(rows, schemas.table_named(table).schema(checked=False))


@pytest.fixture(scope="module")
def given() -> Case:
    return case(SEED)


@pytest.fixture(scope="module")
def frames(spark: SparkSession, given: Case) -> dict[str, DataFrame]:
    return {
        "subscriptions": frame(spark, "subscriptions", given.subscriptions, "s").repartition(3),
        "advertisements": frame(spark, "advertisements", given.advertisements, "a"),
        "topology": spark.createDataFrame(given.links, "a string, b string"),
    }


def entries(found: DataFrame) -> Counter[tuple[str, str, bytes]]:
    assert found.columns == [column.name for column in ENTRIES.columns]
    counts: Counter[tuple[str, str, bytes]] = Counter()
    for row in found.collect():
        counts[row.broker, row.link, bytes(row.encoded)] += row.entries
    return counts


@pytest.mark.parametrize("strategy", ["simple", "covering", "merging"])
def test_the_tables_are_the_simulators(strategy: str, given: Case, frames: dict[str, DataFrame]) -> None:
    found = pipeline.tables(
        frames["subscriptions"], frames["advertisements"], frames["topology"], strategy=strategy
    )
    expected = simulated(given, strategy, advertisements=True)
    assert expected.total() > 5
    assert entries(found) == expected


@pytest.mark.parametrize("strategy", ["match-first", "active"])
def test_sizes(strategy: str, given: Case, frames: dict[str, DataFrame]) -> None:
    found = pipeline.sizes(
        frames["subscriptions"], frames["advertisements"], frames["topology"], strategy=strategy
    )
    assert found.columns == [column.name for column in SIZES.columns]
    expected = {(a, b): 0 for pair in given.links for a, b in (pair, pair[::-1])}
    for (broker, link, _), count in simulated(given, strategy, advertisements=True).items():
        expected[broker, link] += count
    assert 0 in expected.values(), "a link over which nothing is told has a row too"
    assert {(row.broker, row.link): row.entries for row in found.collect()} == expected


def test_jobs_size_tables_as_this_process_does(
    spark: SparkSession, given: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_stages(tmp_path, given)
    # Those whose last step is another one.
    some = {name: REDUCTIONS[name] for name in ("simple", "covering")}
    monkeypatch.setattr(sizing, "REDUCTIONS", some)

    def sizes() -> sizing.Sizes:
        return sizing.table_sizes(tmp_path, given.links, master=MASTER, log=tmp_path / "log", interests=29)

    here = sizes()
    monkeypatch.setattr(sizing, "FEW_ROWS", 0)
    assert sizes() == here
    assert len(here) == 4


def test_a_broker_reads_its_table(given: Case, frames: dict[str, DataFrame], tmp_path: Path) -> None:
    where, announced = str(tmp_path / "entries"), str(tmp_path / "announced")
    subscriptions, advertisements, topology = frames.values()
    pipeline.tables(
        subscriptions, advertisements, topology, strategy="covering", keys=True
    ).write.partitionBy("broker").parquet(where)
    pipeline.announcements(advertisements, topology).write.parquet(announced)
    expected = simulated(given, "covering", advertisements=True)
    names = {f"s{k}": placed for k, placed in enumerate(given.subscriptions, start=1)}
    producers = {f"a{k}": placed for k, placed in enumerate(given.advertisements, start=1)}
    found: Counter[tuple[str, str, bytes]] = Counter()
    for broker in {end for link in given.links for end in link}:
        starts = read_table(where, broker, strategy="covering", announcements=announced)
        for start in starts:
            found.update((broker, start.link, fact.filter.encode()) for fact in start.subscriptions)
            assert all(names[fact.key][1] == fact.filter for fact in start.subscriptions)
            assert all(producers[fact.key][1] == fact.filter for fact in start.advertisements)
        # Every producer's advertisement is behind one link, but those of producers here.
        keys = [fact.key for start in starts for fact in start.advertisements]
        assert sorted(keys) == sorted(key for key, (home, _) in producers.items() if home != broker)
    assert found == expected
    with pytest.raises(ConfigError, match="xroute cannot start with a table"):
        read_table(where, "b1", strategy="xroute")
    with pytest.raises(ConfigError, match="is not a table of entries"):
        read_table(tmp_path / "none", "b1", strategy="covering")


def test_entries_without_keys_cannot_be_read(
    spark: SparkSession, given: Case, frames: dict[str, DataFrame], tmp_path: Path
) -> None:
    where = str(tmp_path / "entries")
    found = pipeline.tables(frames["subscriptions"], None, frames["topology"], strategy="identity")
    found.write.parquet(where)
    assert entries(spark.read.parquet(where)) == simulated(given, "identity", advertisements=False)
    with pytest.raises(ConfigError, match=r"entries without keys \(hint: tables\(…, keys=True\)\)"):
        read_table(where, "b0", strategy="identity")


def test_what_makes_no_sense_is_told(spark: SparkSession, frames: dict[str, DataFrame]) -> None:
    subscriptions, advertisements, topology = frames.values()
    with pytest.raises(ConfigError, match="the tables of incremental depend on what happened before"):
        pipeline.tables(subscriptions, None, topology, strategy="incremental")
    with pytest.raises(ConfigError, match="the table topology has no column b"):
        pipeline.tables(subscriptions, None, topology.drop("b"), strategy="identity")
    cycle = topology.union(spark.createDataFrame([("b0", "b9"), ("b9", "b1")], "a string, b string"))
    with pytest.raises(Exception, match="ConfigError: the topology is no tree: a cycle goes over the link"):
        pipeline.tables(subscriptions, None, cycle, strategy="identity").collect()
    few = spark.createDataFrame([("b0", "b1")], "a string, b string")
    with pytest.raises(Exception, match=r"ConfigError: a subscription names the broker 'b[2-9]'"):
        pipeline.tables(subscriptions, None, few, strategy="covering").collect()
    here = subscriptions.where("broker in ('b0', 'b1')")
    with pytest.raises(Exception, match=r"ConfigError: an advertisement names the broker 'b[2-9]'"):
        pipeline.tables(here, advertisements, few, strategy="simple").collect()


def test_the_stages_run_no_action(frames: dict[str, DataFrame]) -> None:
    """Reading the rows would fail, so whoever returns has not read them."""
    bad = frames["subscriptions"].where(F.raise_error("the rows are read").isNull())
    stages = [
        pipeline.tables(bad, frames["advertisements"], frames["topology"], strategy="merging"),
        pipeline.sizes(bad, None, frames["topology"], strategy="simple"),
    ]
    assert all(stage.columns for stage in stages)
    with pytest.raises(Exception, match="the rows are read"):
        bad.collect()
