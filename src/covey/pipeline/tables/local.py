"""The first step, in the workers: what one broker's clients ask for, each filter once, in Arrow tables.

    broker string, encoded binary, entries bigint, key string          one row a broker and filter

`entries` counts the subscriptions, `key` is the first of their names; where neither is asked for they are 1 and null.
A table combines with another one by combining the rows of both: so partitions combine what they have before anything is
sent, in portions, and what is sent is combined again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from covey.pipeline.tables.boxes import Boxes

PORTION = 1_000_000  # rows combined at a time
ANSWERS = 1 << 18  # rows that go back to Spark at a time

SCHEMA = pa.schema(
    [("broker", pa.string()), ("encoded", pa.binary()), ("entries", pa.int64()), ("key", pa.string())]
)

Combine = Callable[[pa.Table], pa.Table]


def equal_once(table: pa.Table) -> pa.Table:
    """Return equal filters of a broker as one row, with the sum of their entries and the first of their keys."""
    found = table.group_by(["broker", "encoded"], use_threads=False).aggregate(
        [("entries", "sum"), ("key", "min")]
    )
    return found.select(["broker", "encoded", "entries_sum", "key_min"]).rename_columns(SCHEMA.names)


def uncovered_once(table: pa.Table) -> pa.Table:
    """Do so with what no box of the same run at the broker covers; see `boxes`."""
    kept = Boxes(table["encoded"], broker_codes(table)).uncovered()
    return equal_once(table if kept.all() else table.filter(pa.array(kept)))


def joined_once(table: pa.Table) -> pa.Table:
    """Return the filters of a broker with those joined that merging would join first; see `boxes`."""
    few = equal_once(table)
    rows, wires = Boxes(few["encoded"], broker_codes(few)).joined()
    left = few.take(pa.array(rows))
    return left.set_column(1, "encoded", pa.array(wires, pa.binary()))


def broker_codes(table: pa.Table) -> Any:
    """Return a number for the broker of each row, the same for the same broker."""
    codes = table["broker"].combine_chunks().dictionary_encode()
    if isinstance(codes, pa.ChunkedArray):
        codes = codes.combine_chunks()
    return codes.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def combined(batches: Iterator[pa.RecordBatch], combine: Combine) -> Iterator[pa.Table]:
    """Combine the rows of batches in portions; what comes out may be combined further."""
    held: pa.Table = SCHEMA.empty_table()
    waiting: list[pa.Table] = []
    rows = 0
    for batch in batches:
        waiting.append(pa.table(batch).cast(SCHEMA))
        rows += batch.num_rows
        if rows >= PORTION:
            held = combine(pa.concat_tables([held, *waiting]))
            waiting, rows = [], 0
            if held.num_rows > PORTION // 2:
                yield held
                held = SCHEMA.empty_table()
    if waiting or held.num_rows:
        yield combine(pa.concat_tables([held, *waiting]))


def combine_batches(batches: Iterator[pa.RecordBatch], combine: Combine) -> Iterator[pa.RecordBatch]:
    """Return the combined rows of a partition, as far as its portions show."""
    for table in combined(batches, combine):
        yield from table.combine_chunks().to_batches(max_chunksize=ANSWERS)


def whole(batches: Iterator[pa.RecordBatch], combine: Combine) -> pa.Table:
    """Return all rows of a partition, combined."""
    tables = list(combined(batches, combine))
    if not tables:
        return SCHEMA.empty_table()
    return tables[0] if len(tables) == 1 else combine(pa.concat_tables(tables))


def first_key(keys: pa.Array, groups: Any) -> pa.Array:
    """Return the smallest of the keys of each group; groups are numbered from 0 and none is empty."""
    table = pa.table({"group": groups, "key": keys})
    found = table.group_by("group", use_threads=False).aggregate([("key", "min")])
    return found["key_min"].take(pc.sort_indices(found["group"])).combine_chunks()
