"""How large every strategy's routing tables would be with all subscriptions: a job on the tables that planning keeps.

Strategies with the same reduction have tables of the same size, so each reduction is computed once. Merging walks the
tree with the filters themselves, in one task, and is left out beyond MOST_MERGED of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from covey.strategies.merging.reduction import merged
from covey.strategies.reductions import REDUCTIONS, Reduction, nothing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_MERGED = 5_000


class Size(NamedTuple):
    """Entries of all brokers together, and of the broker that has the most."""

    entries: int
    largest: int


Sizes = dict[tuple[str, bool], Size]  # by strategy, and whether subscriptions follow advertisements


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
    from covey.pipeline.failures import SPARK_ERRORS, failure
    from covey.pipeline.session import session

    spark = session(master, log, bulk=True)
    try:
        return _computed(spark, stages, tree, interests, on_reduction)
    except SPARK_ERRORS as error:
        raise failure(error, "sizes of tables", log) from None


def _computed(
    spark: SparkSession,
    stages: Path,
    tree: Sequence[tuple[str, str]],
    interests: int,
    on_reduction: Callable[[str], None],
) -> Sizes:
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

    from covey import pipeline

    def accepted(table: str) -> DataFrame | None:
        path = stages / f"judged-{table}"
        if not path.exists():
            return None
        return pipeline.accept(spark.read.parquet(str(path.resolve())), table=table)

    subscriptions, advertisements = accepted("subscriptions"), accepted("advertisements")
    assert subscriptions is not None, "planning has judged them"
    topology = spark.createDataFrame([(a, b, 1.0) for a, b in tree], "a string, b string, cost double")
    known: dict[tuple[Reduction, bool], Size] = {}
    found: Sizes = {}
    for strategy, reduction in REDUCTIONS.items():
        for told in (True, False) if advertisements is not None else (False,):
            if reduction.reduce is nothing:
                known[reduction, told] = Size(0, 0)
            if reduction.reduce is merged and interests > MOST_MERGED:
                continue
            if (reduction, told) not in known:
                on_reduction(strategy)
                sizes = pipeline.sizes(
                    subscriptions, advertisements if told else None, topology, strategy=strategy
                )
                by_broker = sizes.groupBy("broker").agg(F.sum("entries").alias("entries"))
                row = by_broker.agg(F.sum("entries").alias("all"), F.max("entries").alias("most")).collect()[
                    0
                ]
                known[reduction, told] = Size(int(row["all"] or 0), int(row["most"] or 0))
            found[strategy, told] = known[reduction, told]
    return found
