"""Similarity: pairs of interests that match the same events, and how alike they are.

Pairs come from inverted lists: each event names every pair of the interests that it matches. Events that match very
many name very many pairs and say little, so those beyond `most` name none; in the counts of either interest, which the
measure divides by, they do not count either. Pairs less alike than `least` are left out.

**Bound.** An event names at most most² / 2 pairs; a task adds up those of STEP pairs at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey.errors import ConfigError
from covey.matching.jit import Ints, Longs
from covey.pipeline.schemas import SIMILARITY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STEP = 4_000_000
_PAIRS = "a int, b int, common bigint"


def similarity(documents: DataFrame, *, least: float = 0.1, most: int = 1_000) -> DataFrame:
    """Return the table `similarity` of documents: every pair once, with a < b."""
    if not 0 <= least <= 1:
        raise ConfigError(f"the least similarity is {least} and not between 0 and 1")
    if most < 2:
        raise ConfigError(f"an event that names pairs matches at least 2 interests, not {most}")
    lists = documents.where(F.size("interests").between(1, most)).select("interests")
    # A pair of an interest with itself counts the events that it matches.
    pairs = lists.mapInArrow(partial(pair_batches, step=STEP), _PAIRS)
    common = pairs.groupBy("a", "b").agg(F.sum("common").alias("common"))
    single = common.where("a = b")
    counts = {
        side: single.select(F.col("a").alias(side), F.col("common").alias(f"_of_{side}"))
        for side in ("a", "b")
    }
    jaccard = F.col("common") / (F.col("_of_a") + F.col("_of_b") - F.col("common"))
    return (
        common.where("a < b")
        .join(counts["a"], "a")
        .join(counts["b"], "b")
        .withColumn("jaccard", jaccard)
        .where(F.col("jaccard") >= least)
        .select(*[column.name for column in SIMILARITY.columns])
    )


# -- in the workers --------------------------------------------------------------------------------------------


def pair_batches(batches: Iterator[pa.RecordBatch], *, step: int) -> Iterator[pa.RecordBatch]:
    """Yield how many events of a partition match both interests of each pair, summed over some events at a time."""
    for batch in batches:
        lists = batch.column("interests")
        offsets = lists.offsets.to_numpy().astype(np.int64)
        values = lists.values.to_numpy(zero_copy_only=False).astype(np.int32)
        sizes = np.diff(offsets)
        ends = np.cumsum(sizes * (sizes + 1) // 2)
        first = 0
        while first < len(sizes):
            before = ends[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(ends, before + step, "right")))
            yield _summed(offsets[first : last + 1], values)
            first = last


def _summed(offsets: Longs, values: Ints) -> pa.RecordBatch:
    keys = []
    sizes = np.diff(offsets)
    for size in np.unique(sizes).tolist():  # rows of one length are a rectangle
        rows = values[offsets[:-1][sizes == size][:, None] + np.arange(size)].astype(np.int64)
        one, other = np.triu_indices(size)
        keys.append(((rows[:, one] << 32) | rows[:, other]).ravel())
    pairs, counts = np.unique(np.concatenate(keys), return_counts=True)
    return pa.RecordBatch.from_arrays(
        [
            pa.array((pairs >> 32).astype(np.int32)),
            pa.array((pairs & 0xFFFFFFFF).astype(np.int32)),
            pa.array(counts.astype(np.int64)),
        ],
        ["a", "b", "common"],
    )
