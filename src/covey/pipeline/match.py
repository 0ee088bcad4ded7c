"""Which subscriptions does each event match: the brokers' own index, in Arrow batches.

    events ─ first row of each partition flagged ─┐
                                                  ├─ left join, broadcast ─ mapInArrow ─ (event, subscription)
    subscriptions ─ one task compiles the index ──┘

**How filters get to workers.** A stage runs no action, so it cannot collect the filters and close over them; and what
a function closes over goes to the driver, into the plan, and under Spark Connect to the server again with every
request about the plan. Instead one task compiles all filters into the index, one row (the table `filters`), and Spark
broadcasts that row as it broadcasts the small side of any join: once to each executor. A joined column would be
repeated in every row, so the row is joined to the first row of each partition alone. Rows keep their order from there
to the worker, which finds the index in the first row it sees.

**How often they are compiled.** Once: the index travels as its arrays, and a worker only lays them into memory
(0.4 s for 100,000 filters, which take 5 s to compile). A worker keeps the last index, by its digest, for the next
partitions and jobs.

**Bound.** A row of Spark is smaller than 2 GiB: about 35 million filters. The driver's memory is a lower bound:
an index that is too large for it is refused where it was compiled (`memory`).

Events are judged from their packed form without a Python object for any of them (`matching/attributes/unpacking.py`).
Most of what that takes is Java's handling of rows and looking up names; `blocks` does both beforehand.
XPath and keyword events are parsed one by one, which costs more than all of Spark.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey.core.attributes.filter import AttributeFilter
from covey.core.families import decode
from covey.core.xpath.document import Document
from covey.errors import EventError
from covey.matching.attributes.index import AttributeIndex
from covey.matching.attributes.unpacking import Unpacker
from covey.matching.index import ATTRIBUTES, KEYWORDS, Index
from covey.matching.jit import Ints, Longs
from covey.pipeline.blocks import by_language, bytes_of
from covey.pipeline.blocks import decode as decode_block
from covey.pipeline.ingest import ingested
from covey.pipeline.memory import Room, room_of
from covey.pipeline.packed import first_in_partition, squeezed, unsqueezed
from covey.pipeline.schemas import BLOCKS, FILTERS, MATCHES, check

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Events judged at a time: a batch of their answers stays small even where an event matches thousands.
STEP = 8_192
# Rows of an answer that go back to Spark at a time.
ANSWERS = 1 << 20
ADDED = 20_000  # filters that are added to an index at a time


def match(events: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """Return the table `matches`: each event with every subscription whose filter matches it, once.

    Raw tables are ingested first; bad rows match nothing. `subscriptions` may be what `compile_filters` returned, which
    is worth while, persisted, for several tables of events; `events` may be what `blocks` returned, which is worth
    while, persisted, for several sets of filters.
    """
    compiled = subscriptions if "filters" in subscriptions.columns else compile_filters(subscriptions)
    if "block" in events.columns:
        check(events, BLOCKS)
        rows, columns = events, ["language", "block"]
    else:
        rows, columns = ingested(events, table="events"), ["event", "language", "encoded"]
    numbered = rows.select(*columns, first_in_partition().alias("part"))
    joined = numbered.join(F.broadcast(compiled), "part", "left")
    return joined.select(*columns, "digest", "filters").mapInArrow(match_batches, MATCHES.schema())


def compile_filters(subscriptions: DataFrame) -> DataFrame:
    """Return the table `filters`: one row with the index of all subscriptions' filters."""
    checked = ingested(subscriptions, table="subscriptions").select("subscription", "encoded")
    # Of an empty table Spark would compute nothing at all; with this row there is an index even then.
    nobody = subscriptions.sparkSession.range(1).select(
        F.lit(None).cast("string").alias("subscription"), F.lit(None).cast("binary").alias("encoded")
    )
    # In an order of its own, the same filters give the same bytes in every run.
    return (
        checked.unionByName(nobody)
        .repartition(1)
        .sortWithinPartitions("subscription")
        .mapInArrow(partial(compile_batches, room=room_of(subscriptions.sparkSession)), FILTERS.schema())
    )


# -- in the workers --------------------------------------------------------------------------------------------


def compile_batches(batches: Iterator[pa.RecordBatch], *, room: Room) -> Iterator[pa.RecordBatch]:
    """Return one batch of one row for all subscriptions; ConfigError if there is no room to broadcast it."""
    names: list[Any] = []
    index = AttributeIndex()
    others: list[tuple[int, bytes]] = []
    count = 0
    for given in batches:
        batch = given.filter(pc.is_valid(given.column("encoded")))
        names.append(batch.column("subscription").cast(pa.string()))
        encoded: list[bytes] = batch.column("encoded").to_pylist()
        for first in range(0, len(encoded), ADDED):
            handles: list[int] = []
            filters: list[AttributeFilter] = []
            for handle, wire in enumerate(encoded[first : first + ADDED], count + first):
                filter = decode(wire)
                if isinstance(filter, AttributeFilter):
                    handles.append(handle)
                    filters.append(filter)
                else:
                    others.append((handle, wire))
            index.add_batch(handles, filters)
        count += len(encoded)
    subscriptions = pa.concat_arrays(names) if names else pa.array([], pa.string())
    blob = squeezed((index, others, subscriptions))
    room.check(len(blob), f"too large to broadcast is the index of {len(subscriptions):,} filters")
    digest = hashlib.blake2b(blob, digest_size=16).hexdigest()
    yield pa.RecordBatch.from_arrays(
        [pa.array([0], pa.int32()), pa.array([digest]), pa.array([blob], pa.binary())],
        [column.name for column in FILTERS.columns],
    )


class Matcher:
    """The index of all filters in one worker."""

    def __init__(self, blob: Any) -> None:
        others: list[tuple[int, bytes]]
        self._attributes: AttributeIndex
        self._attributes, others, self._subscriptions = unsqueezed(blob)
        self._unpacker = Unpacker(self._attributes.channels)
        self._others = Index()
        self._others.add_batch([row for row, _ in others], [decode(wire) for _, wire in others])

    def match(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return the events of a batch with the subscriptions that they match."""
        for first in range(0, batch.num_rows, STEP):
            for language, some in by_language(batch.slice(first, STEP)):
                events, encoded = some.column("event"), some.column("encoded")
                if language == ATTRIBUTES:
                    points = self._unpacker.encode(*bytes_of(encoded))
                    yield from self._answers(events, *self._attributes.match_encoded(points))
                else:
                    yield from self._answers(events, *self._match_others(language, events, encoded))

    def match_block(self, language: str, block: Any) -> Iterator[pa.RecordBatch]:
        """Return the events of a block with the subscriptions that they match."""
        events, encoded, columns = decode_block(block)
        if columns is not None:
            points = self._unpacker.encode_columns(columns)
            yield from self._answers(events, *self._attributes.match_encoded(points))
        else:
            yield from self._answers(events, *self._match_others(language, events, encoded))

    def _match_others(self, language: str, events: pa.Array, encoded: pa.Array) -> tuple[Ints, Longs]:
        contents: list[Any] = []
        for name, content in zip(events.to_pylist(), encoded.to_pylist(), strict=True):
            try:
                if language == KEYWORDS:
                    contents.append(frozenset(_words(content)))
                else:
                    contents.append(Document.parse(content))
            except (EventError, msgspec.DecodeError) as error:
                raise EventError(f"the event {name!r:.80} cannot be read: {error}") from None
        found = self._others.match_batch(contents)
        ends: Longs = np.cumsum([len(rows) for rows in found], dtype=np.int64)
        return np.concatenate(found).astype(np.int32) if found else np.zeros(0, np.int32), ends

    def _answers(self, events: pa.Array, handles: Ints, ends: Longs) -> Iterator[pa.RecordBatch]:
        counts = np.diff(ends, prepend=0)
        which = np.repeat(np.arange(len(counts)), counts)
        for first in range(0, len(which), ANSWERS):
            yield pa.RecordBatch.from_arrays(
                [
                    events.take(pa.array(which[first : first + ANSWERS])),
                    self._subscriptions.take(pa.array(handles[first : first + ANSWERS])),
                ],
                [column.name for column in MATCHES.columns],
            )


_words = msgspec.msgpack.Decoder(list[str]).decode
_kept: dict[str, Matcher] = {}  # by digest: the last one only


def matcher_of(digest: str, blob: Any) -> Matcher:
    """Return the matcher of these filters, made at most once as long as no other filters come between."""
    matcher = _kept.get(digest)
    if matcher is None:
        _kept.clear()
        matcher = _kept[digest] = Matcher(blob)
    return matcher


def match_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Match the events of one partition, whose first row has the filters."""
    matcher: Matcher | None = None
    for batch in batches:
        if matcher is None and batch.num_rows:
            digest = batch.column("digest")[0].as_py()
            assert digest is not None, "the first row of a partition has the filters"
            matcher = matcher_of(digest, batch.column("filters")[0].as_buffer())
        if matcher is None:
            continue
        if "block" not in batch.schema.names:
            yield from matcher.match(batch)
            continue
        for language, block in zip(batch.column("language").to_pylist(), batch.column("block"), strict=True):
            yield from matcher.match_block(language, block.as_buffer())
