"""Documents: sampled events as planning sees them, with the interests that each matches.

Content plays no part from here on. Every event belongs to one part, by a hash of its name: on no other event, partition
or machine does it depend.

    training   trees and groups are fitted to these
    held-out   these choose between alternatives
    fresh      nothing was fitted to these or chosen by them: what they cost is reported
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey.errors import ConfigError
from covey.matching.jit import Ints
from covey.pipeline.ingest import ingested
from covey.pipeline.match import Matcher, compile_filters, matcher_of
from covey.pipeline.packed import Overlay, attach
from covey.pipeline.sample import hashed, threshold
from covey.pipeline.schemas import DOCUMENTS
from covey.planning.subscriptions import Matches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TRAINING, HELD_OUT, FRESH = "training", "held-out", "fresh"
PARTS = (TRAINING, HELD_OUT, FRESH)


def documents(
    events: DataFrame,
    interests: DataFrame,
    *,
    held_out: float = 1 / 6,
    fresh: float = 1 / 6,
    seed: int = 0,
) -> DataFrame:
    """Return the table `documents`: each event once, also those that match nobody."""
    if not (0 <= held_out <= 1 and 0 <= fresh <= 1 and held_out + fresh <= 1):
        raise ConfigError(f"the shares {held_out} held out and {fresh} fresh are not parts of one whole")
    known = interests.select(
        F.col("interest").cast("string").alias("subscription"),
        "broker",
        F.lit("").alias("language"),
        F.lit("").alias("filter"),
        "encoded",
    )
    place = hashed(f"{seed}:part")
    part = (
        F.when(place < threshold(fresh), FRESH)
        .when(place < threshold(fresh + held_out), HELD_OUT)
        .otherwise(TRAINING)
    )
    checked = ingested(events, table="events").select(
        "event", "broker", part.alias("part"), "language", "encoded"
    )
    # Matched as `match` does it, but an event's interests stay together: no row for each of them, and no shuffle.
    compiled = compile_filters(known).select(
        F.col("part").alias("_first"), "digest", F.col("filters").alias("packed")
    )
    return attach(checked, compiled).mapInArrow(document_batches, DOCUMENTS.schema())


# -- in the workers --------------------------------------------------------------------------------------------


def document_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the events of a partition with the interests that they match; the first row has the filters."""
    matcher: Matcher | None = None
    for batch in batches:
        if matcher is None and batch.num_rows:
            digest = batch.column("digest")[0].as_py()
            assert digest is not None, "the first row of a partition has the filters"
            matcher = matcher_of(digest, batch.column("packed")[0].as_buffer())
        if matcher is not None:
            columns = [batch.column(name) for name in ("event", "broker", "part")]
            lists = _matched(matcher, batch)
            yield pa.RecordBatch.from_arrays([*columns, lists], [column.name for column in DOCUMENTS.columns])


def _matched(matcher: Matcher, batch: pa.RecordBatch) -> pa.Array:
    """Return for each event of a batch the interests that it matches, sorted."""
    # The place of an event stands for its name: answers come with it.
    places = pa.array(np.arange(batch.num_rows, dtype=np.int32))
    asked = pa.RecordBatch.from_arrays(
        [places, batch.column("language"), batch.column("encoded")], ["event", "language", "encoded"]
    )
    answers = [
        (answer.column("event").to_numpy(), answer.column("subscription").cast(pa.int32()).to_numpy())
        for answer in matcher.match(asked)
    ]
    empty = np.zeros(0, np.int32)
    events = np.concatenate([empty, *(events for events, _ in answers)])
    found = np.concatenate([empty, *(interests for _, interests in answers)])
    offsets = np.zeros(batch.num_rows + 1, np.int32)
    np.cumsum(np.bincount(events, minlength=batch.num_rows), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(found[np.lexsort((found, events))]))


def matches_of(documents: pa.Table | pa.RecordBatch, overlay: Overlay, hosts: Ints) -> Matches:
    """Return rows of documents as planning's matches, in their order."""
    column = documents.column("interests")
    lists = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(lists, pa.ChunkedArray):  # of no chunks at all
        lists = pa.array([], lists.type)
    offsets = lists.offsets.to_numpy().astype(np.int64)
    found = lists.values.to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]]
    return Matches(hosts, overlay.numbers(documents.column("broker")), offsets - offsets[0], found)


def hosts_of(interests: pa.Table, overlay: Overlay) -> Ints:
    """Return the node of each interest, by its number."""
    hosts = np.zeros(interests.num_rows, np.int32)
    hosts[interests.column("interest").to_numpy()] = overlay.numbers(interests.column("broker"))
    return hosts
