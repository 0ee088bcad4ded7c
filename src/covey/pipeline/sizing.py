"""How large every strategy's routing tables would be with all subscriptions, by the tables that planning keeps.

Strategies with the same reduction have tables of the same size, so each reduction is computed once. Merging walks the
tree with the filters themselves, in one task, and is left out beyond MOST_MERGED of them.

Up to FEW_ROWS subscriptions and advertisements, the steps of `tables` are taken here, one after the other on all rows:
that takes less than Spark needs to begin. Beyond, they are jobs of Spark. Both come to the same sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from covey.strategies.merging.reduction import merged
from covey.strategies.reductions import REDUCTIONS, Reduction, everything, nothing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_MERGED = 5_000
FEW_ROWS = 20_000


class Size(NamedTuple):
    """Entries of all brokers together, and of the broker that has the most."""

    entries: int
    largest: int


Sizes = dict[tuple[str, bool], Size]  # by strategy, and whether subscriptions follow advertisements
SizeOf = Callable[[str, bool], Size]


def table_sizes(
    stages: Path,
    tree: Sequence[tuple[str, str]],
    *,
    master: str | None,
    log: Path,
    interests: int,
    on_reduction: Callable[[str], None] = lambda strategy: None,
) -> Sizes:
    """Return the sizes of tables on a tree, for each strategy that has a reduction, with advertisements and without.

    `stages` has what planning has judged; without a table of advertisements there are sizes without them only.
    `interests` is how many filters there are, equal ones at a broker as one. PlanError or ConfigError in one line if
    Spark fails.
    """
    if _rows_in(stages / "judged-subscriptions") + _rows_in(stages / "judged-advertisements") <= FEW_ROWS:
        return _each(_here(stages, tree), _has_advertisements(stages), interests, on_reduction)
    from covey.pipeline.failures import SPARK_ERRORS, failure
    from covey.pipeline.session import session

    spark = session(master, log, bulk=True)
    try:
        return _each(_on_spark(spark, stages, tree), _has_advertisements(stages), interests, on_reduction)
    except SPARK_ERRORS as error:
        raise failure(error, "sizes of tables", log) from None


def _each(
    size_of: SizeOf, advertisements: bool, interests: int, on_reduction: Callable[[str], None]
) -> Sizes:
    """Return the size for each strategy, asked once for each reduction."""
    known: dict[tuple[Reduction, bool], Size] = {}
    found: Sizes = {}
    for strategy, reduction in REDUCTIONS.items():
        for told in (True, False) if advertisements else (False,):
            if reduction.reduce is nothing:
                known[reduction, told] = Size(0, 0)
            if reduction.reduce is merged and interests > MOST_MERGED:
                continue
            if (reduction, told) not in known:
                on_reduction(strategy)
                known[reduction, told] = size_of(strategy, told)
            found[strategy, told] = known[reduction, told]
    return found


def _has_advertisements(stages: Path) -> bool:
    return (stages / "judged-advertisements").exists()


def _rows_in(table: Path) -> int:
    return sum(parquet.read_metadata(file).num_rows for file in table.rglob("part-*.parquet"))


def _here(stages: Path, tree: Sequence[tuple[str, str]]) -> SizeOf:
    """Return what computes sizes in this process."""
    from covey.pipeline.ingest import REASON
    from covey.pipeline.tables.answers import Network
    from covey.pipeline.tables.local import SCHEMA
    from covey.pipeline.tables.overlay import Overlay
    from covey.pipeline.tables.spread import count_batches
    from covey.pipeline.tables.steps import Step, reduction_of, steps_of

    def accepted(table: str) -> pa.Table:
        rows = parquet.read_table(stages / f"judged-{table}", columns=["broker", "encoded", REASON])
        return rows.filter(pc.is_null(rows.column(REASON)))

    subscriptions = accepted("subscriptions")
    count = subscriptions.num_rows
    columns = [
        subscriptions.column("broker").combine_chunks(),
        subscriptions.column("encoded").combine_chunks(),
        pa.array(np.ones(count, np.int64)),
        pa.nulls(count, pa.string()),
    ]
    whole = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    advertised: list[tuple[str, bytes]] = []
    if _has_advertisements(stages):
        rows = accepted("advertisements")
        pairs = zip(rows.column("broker").to_pylist(), rows.column("encoded").to_pylist(), strict=True)
        advertised = sorted(set(pairs))

    def size_of(strategy: str, told: bool) -> Size:
        *first, last = steps_of(strategy, keys=False, advertisements=told)
        if reduction_of(strategy).reduce is everything:
            first, last = [], Step(count_batches)  # they need not be written down to be counted
        batches = [whole]
        for step in first:
            batches = list(step.compute(iter(batches)))
        table = pa.Table.from_batches(batches, SCHEMA).combine_chunks()
        if not table.num_rows:
            return Size(0, 0)
        network = Network(Overlay(tree), advertised if told else None).packed()
        (batch,) = table.to_batches()
        given = batch.append_column("network", pa.array([network, *[None] * (len(batch) - 1)], pa.binary()))
        by_broker: Counter[str] = Counter()
        for entries in last.compute(iter([given])):
            for broker, number in zip(
                entries.column("broker").to_pylist(), entries.column("entries").to_pylist(), strict=True
            ):
                by_broker[broker] += number
        return Size(sum(by_broker.values()), max(by_broker.values(), default=0))

    return size_of


def _on_spark(spark: SparkSession, stages: Path, tree: Sequence[tuple[str, str]]) -> SizeOf:
    """Return what computes sizes by jobs of Spark."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

    from covey import pipeline

    def accepted(table: str) -> DataFrame:
        return pipeline.accept(spark.read.parquet(str((stages / f"judged-{table}").resolve())), table=table)

    subscriptions = accepted("subscriptions")
    advertisements = accepted("advertisements") if _has_advertisements(stages) else None
    topology = spark.createDataFrame([(a, b, 1.0) for a, b in tree], "a string, b string, cost double")

    def size_of(strategy: str, told: bool) -> Size:
        sizes = pipeline.sizes(subscriptions, advertisements if told else None, topology, strategy=strategy)
        by_broker = sizes.groupBy("broker").agg(F.sum("entries").alias("entries"))
        (row,) = by_broker.agg(F.sum("entries").alias("all"), F.max("entries").alias("most")).collect()
        return Size(int(row["all"] or 0), int(row["most"] or 0))

    return size_of
