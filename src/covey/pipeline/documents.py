"""Documents: sampled events as planning sees them, with the interests that each matches.

Content plays no part from here on. Every event belongs to one part, by a hash of its name: on no other event, partition
or machine does it depend.

    training   trees and groups are fitted to these
    held-out   these choose between alternatives
    fresh      nothing was fitted to these or chosen by them: what they cost is reported
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey.errors import ConfigError
from covey.matching.jit import Ints
from covey.pipeline.ingest import ingested
from covey.pipeline.match import STEP, Matcher, compile_filters, matched, met
from covey.pipeline.packed import Overlay
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
    filters: DataFrame | None = None,
    chunks: int = 0,
) -> DataFrame:
    """Return the table `documents`: each event once, also those that match nobody.

    `filters` is what `compile_interests` has made of the interests, if that is known; it is broadcast, or spread over
    tasks with so many `chunks` of events for each shard, as `match` does it.
    """
    if not (0 <= held_out <= 1 and 0 <= fresh <= 1 and held_out + fresh <= 1):
        raise ConfigError(f"the shares {held_out} held out and {fresh} fresh are not parts of one whole")
    place = hashed(f"{seed}:part")
    part = (
        F.when(place < threshold(fresh), FRESH)
        .when(place < threshold(fresh + held_out), HELD_OUT)
        .otherwise(TRAINING)
    )
    checked = ingested(events, table="events").select(
        "event", "broker", part.alias("part"), "language", "encoded"
    )
    # Matched as `match` does it, but an event's interests stay together: no row for each of them, and no shuffle
    # unless filters are spread.
    compiled = compile_interests(interests) if filters is None else filters
    found = met(checked, compiled, chunks).mapInArrow(
        partial(document_batches, spread=chunks > 0), DOCUMENTS.schema()
    )
    if not chunks:
        return found
    whole = F.sort_array(F.flatten(F.collect_list("interests"))).alias("interests")
    return found.groupBy("event", "broker", "part").agg(whole)


def compile_interests(interests: DataFrame, *, shards: int = 1) -> DataFrame:
    """Return the table `filters` of interests, by their numbers."""
    known = interests.select(
        F.col("interest").cast("string").alias("subscription"),
        "broker",
        F.lit("").alias("language"),
        F.lit("").alias("filter"),
        "encoded",
    )
    return compile_filters(known, shards=shards)


# -- in the workers --------------------------------------------------------------------------------------------


def document_batches(batches: Iterator[pa.RecordBatch], *, spread: bool) -> Iterator[pa.RecordBatch]:
    """Yield the events of a partition with the interests that they match, of those shards that they are for."""
    for matchers, batch in matched(batches, spread=spread):
        for first in range(0, batch.num_rows, STEP):
            some = batch.slice(first, STEP)
            columns = [some.column(name) for name in ("event", "broker", "part")]
            lists = matched_numbers(matchers, some)
            yield pa.RecordBatch.from_arrays([*columns, lists], [column.name for column in DOCUMENTS.columns])


def matched_numbers(matchers: Sequence[Matcher], batch: pa.RecordBatch) -> pa.Array:
    """Return for each event of a batch the interests that it matches, sorted."""
    # The place of an event stands for its name: answers come with it, and no pair is ever named.
    places = pa.array(np.arange(batch.num_rows, dtype=np.int32))
    asked = pa.RecordBatch.from_arrays(
        [places, batch.column("language"), batch.column("encoded")], ["event", "language", "encoded"]
    )
    pairs: list[Any] = [np.zeros(0, np.int64)]
    offsets = np.zeros(batch.num_rows + 1, np.int32)
    for matcher in matchers:
        for events, handles, ends in matcher.found(asked):
            counts = np.diff(ends, prepend=0)
            mine = events.to_numpy().astype(np.int64)
            offsets[mine + 1] += counts.astype(np.int32)
            pairs.append(np.repeat(mine << 32, counts) + matcher.numbers[handles])
    # By event and then by interest.
    found = np.sort(np.concatenate(pairs)).astype(np.uint32).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(np.cumsum(offsets, dtype=np.int32)), pa.array(found))


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
