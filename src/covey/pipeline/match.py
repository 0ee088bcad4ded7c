"""Which subscriptions does each event match: the brokers' own index, in Arrow batches.

    subscriptions ─ by a hash of their names ─ each task compiles indexes of up to SHARD filters: rows of `filters`

    events ─ first row of each partition flagged ─┐
                                                  ├─ left join, broadcast ─ mapInArrow ─ (event, subscription)
    filters ──────────────────────────────────────┘

    events ─ once for each shard, in chunks ─┐
                                             ├─ shuffled and sorted ─ mapInArrow ─ (event, subscription)
    filters ─ once for each chunk ───────────┘

**How filters get to workers.** A stage runs no action, so it cannot collect the filters and close over them; and what
a function closes over goes to the driver, into the plan, and under Spark Connect to the server again with every
request about the plan. Instead tasks compile filters into indexes, the rows of the table `filters`. A row is a shard:
it knows nothing of the others, so that filters that come later are compiled alone, and their rows added.

*Broadcast*, where all shards fit the driver and each worker: they go once to each executor, as the small side of any
join does. A joined column would be repeated in every row, so they are joined to the first row of each partition alone.
Rows keep their order from there to the worker, which finds the indexes before anything else.

*Spread*, where they do not: every shard meets every event in a shuffle, and nothing of the filters passes through the
driver but the shards' digests. A task has one shard in memory at a time, as its row is sorted before the events that
it is for. Events travel once for each shard, and each shard once for each chunk of the events.

**How often they are compiled.** Once: an index travels as its arrays, and a worker only lays them into memory
(which takes a fraction of what compiling took). A worker keeps its last indexes, by their digests, for the next
partitions and jobs.

**Bound.** A shard has at most SHARD filters. What is broadcast is bounded by the driver's memory: more than that is
refused where it was compiled (`memory`). What is spread has no bound but the time that it takes.

Events are judged from their packed form without a Python object for any of them (`matching/attributes/unpacking.py`).
Most of what that takes is Java's handling of rows and looking up names; `blocks` does both beforehand.
XPath and keyword events are parsed one by one, which costs more than all of Spark.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey.core.attributes.filter import AttributeFilter
from covey.core.families import decode
from covey.core.xpath.document import Document
from covey.errors import ConfigError, EventError, PlanError
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
SHARD = 500_000  # filters of one index


def match(events: DataFrame, subscriptions: DataFrame, *, chunks: int = 0) -> DataFrame:
    """Return the table `matches`: each event with every subscription whose filter matches it, once.

    Raw tables are ingested first; bad rows match nothing. `subscriptions` may be what `compile_filters` returned, or a
    union of such tables, which is worth while, persisted, for several tables of events; `events` may be what `blocks`
    returned, which is worth while, persisted, for several sets of filters.

    Filters are broadcast, unless there are `chunks`: then each shard of them goes to so many tasks, which share the
    events. Persist compiled filters then, as they are looked at twice.
    """
    compiled = subscriptions if "filters" in subscriptions.columns else compile_filters(subscriptions)
    if "block" in events.columns:
        check(events, BLOCKS)
        rows, columns = events, ["language", "block"]
    else:
        rows, columns = ingested(events, table="events"), ["event", "language", "encoded"]
    return met(rows.select(*columns), compiled, chunks).mapInArrow(
        partial(match_batches, spread=chunks > 0), MATCHES.schema()
    )


def compile_filters(subscriptions: DataFrame, *, shards: int = 1) -> DataFrame:
    """Return the table `filters`: indexes of all subscriptions' filters, made by so many tasks.

    What one task makes is to be broadcast, and ConfigError if the driver has no room for that. What several make is to
    be spread.
    """
    if shards < 1:
        raise ConfigError(f"filters are compiled by 1 task or more, not {shards}")
    checked = ingested(subscriptions, table="subscriptions").select("subscription", "encoded")
    # Of an empty table Spark would compute nothing at all; with this row there is an index even then.
    nobody = subscriptions.sparkSession.range(1).select(
        F.lit(None).cast("string").alias("subscription"), F.lit(None).cast("binary").alias("encoded")
    )
    room = room_of(subscriptions.sparkSession) if shards == 1 else None
    # In an order of its own, the same filters give the same bytes in every run.
    return (
        checked.unionByName(nobody)
        .repartition(shards, "subscription")
        .sortWithinPartitions("subscription")
        .mapInArrow(partial(compile_batches, room=room, most=SHARD), FILTERS.schema())
    )


def met(events: DataFrame, filters: DataFrame, chunks: int) -> DataFrame:
    """Return the events with the columns `digest` and `filters`, so that `matched` finds each event with all shards.

    Broadcast, or with `chunks` spread (see the module's text).
    """
    known = filters.select("digest", "filters")
    if not chunks:
        flagged = events.withColumn("_first", first_in_partition())
        shards = known.withColumn("_first", F.lit(0))
        return flagged.join(F.broadcast(shards), "_first", "left").drop("_first")
    chunk = F.pmod(F.xxhash64(*events.columns), F.lit(chunks)).cast("int")
    asked = events.withColumns({"_chunk": chunk, "_place": F.lit(1)}).crossJoin(
        F.broadcast(known.select("digest").distinct())
    )
    every = F.explode(F.sequence(F.lit(0), F.lit(chunks - 1)))
    shards = known.withColumns({"_chunk": every, "_place": F.lit(0)})
    order = ["digest", "_chunk"]
    return (
        shards.unionByName(asked, allowMissingColumns=True)
        .repartition(*order)
        .sortWithinPartitions(*order, "_place")
        .select(*events.columns, "digest", "filters")
    )


# -- in the workers --------------------------------------------------------------------------------------------


def compile_batches(
    batches: Iterator[pa.RecordBatch], *, room: Room | None = None, most: int = SHARD
) -> Iterator[pa.RecordBatch]:
    """Yield a row for each `most` subscriptions; ConfigError if there is no room to broadcast all of them."""
    count = size = 0
    for some in _cut(batches, most):
        blob = _index_of(some)
        count, size = count + sum(batch.num_rows for batch in some), size + len(blob)
        if room is not None:
            room.check(size, f"too large to broadcast are the indexes of {count:,} filters")
        yield pa.RecordBatch.from_arrays(
            [pa.array([_digest_of(some)]), pa.array([blob], pa.binary())],
            [column.name for column in FILTERS.columns],
        )


def _cut(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[list[pa.RecordBatch]]:
    """Yield the rows of filters that can be used, `most` at a time; of a partition that has none, nothing, once."""
    waiting: list[pa.RecordBatch] = []
    room, is_first, is_empty = most, True, True
    for given in batches:
        is_empty = False
        batch = given.filter(pc.is_valid(given.column("encoded")))
        while batch.num_rows >= room:
            yield [*waiting, batch.slice(0, room)]
            batch, waiting, room, is_first = batch.slice(room), [], most, False
        if batch.num_rows:
            waiting.append(batch)
            room -= batch.num_rows
    if waiting or (is_first and not is_empty):
        yield waiting


def _digest_of(batches: Sequence[pa.RecordBatch]) -> str:
    """Return a digest of subscriptions: not of their index, whose arrays have room in which anything may be."""
    found = hashlib.blake2b(digest_size=16)
    for name in ("subscription", "encoded"):
        column = [batch.column(name).cast(pa.binary()) for batch in batches]
        data, starts = bytes_of(pa.concat_arrays(column) if column else pa.array([], pa.binary()))
        found.update((starts - starts[0]).tobytes())
        found.update(data[starts[0] : starts[-1]].tobytes())
    return found.hexdigest()


def _index_of(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Return the index of these rows, with the names of the subscriptions, packed."""
    index = AttributeIndex()
    others: list[tuple[int, bytes]] = []
    count = 0
    for batch in batches:
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
    names = [batch.column("subscription").cast(pa.string()) for batch in batches]
    return squeezed((index, others, pa.concat_arrays(names) if names else pa.array([], pa.string())))


class Matcher:
    """The index of one shard of filters in one worker."""

    def __init__(self, blob: Any) -> None:
        others: list[tuple[int, bytes]]
        self._attributes: AttributeIndex
        self._attributes, others, self._subscriptions = unsqueezed(blob)
        self._unpacker = Unpacker(self._attributes.channels)
        self._others = Index()
        self._others.add_batch([row for row, _ in others], [decode(wire) for _, wire in others])

    def match(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return the events of a batch with the subscriptions that they match."""
        for events, handles, ends in self.found(batch):
            yield from self._answers(events, handles, ends)

    def found(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.Array, Ints, Longs]]:
        """Yield some events of a batch at a time, the handles of what they match, and where those of each event end.

        A handle is the place of a subscription in the order of names.
        """
        for first in range(0, batch.num_rows, STEP):
            for language, some in by_language(batch.slice(first, STEP)):
                events, encoded = some.column("event"), some.column("encoded")
                if language == ATTRIBUTES:
                    points = self._unpacker.encode(*bytes_of(encoded))
                    yield events, *self._attributes.match_encoded(points)
                else:
                    yield events, *self._match_others(language, events, encoded)

    @cached_property
    def numbers(self) -> Ints:
        """The names of all subscriptions as numbers, by handle; for names that are."""
        numbers: Ints = self._subscriptions.cast(pa.int32()).to_numpy()
        return numbers

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
_kept: dict[str, Matcher] = {}  # by digest: the last ones that were asked for together


def matchers_of(shards: Mapping[str, Any]) -> list[Matcher]:
    """Return the matchers of shards, by digest; each made at most once as long as no other shards come between."""
    for digest in _kept.keys() - shards.keys():
        del _kept[digest]
    for digest, blob in shards.items():
        if digest not in _kept:
            _kept[digest] = Matcher(blob)
    return [_kept[digest] for digest in shards]


def matched(
    batches: Iterator[pa.RecordBatch], *, spread: bool
) -> Iterator[tuple[list[Matcher], pa.RecordBatch]]:
    """Yield the events of a partition that `met` has made, some at a time, with the matchers that they are for."""
    for shards, batch in (_spread if spread else _broadcast)(batches):
        yield matchers_of(shards), batch


def _spread(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[dict[str, Any], pa.RecordBatch]]:
    """Yield events with the shard that came before them: shards are rows of their own, without an event."""
    shard: dict[str, Any] = {}
    for batch in batches:
        first = 0
        for place in np.flatnonzero(pc.is_valid(batch.column("filters")).to_numpy(zero_copy_only=False)):
            if place > first:
                yield _checked(shard, batch.slice(first, place - first))
            shard, first = _shard_in(batch, int(place)), int(place) + 1
        if batch.num_rows > first:
            yield _checked(shard, batch.slice(first))


def _checked(shard: dict[str, Any], batch: pa.RecordBatch) -> tuple[dict[str, Any], pa.RecordBatch]:
    """Return both; PlanError if these events, which are in the order of shards, are not for this one."""
    for place in (0, batch.num_rows - 1):
        if batch.column("digest")[place].as_py() not in shard:
            raise PlanError("filters that were compiled twice are not the same ones")
    return shard, batch


def _broadcast(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[dict[str, Any], pa.RecordBatch]]:
    """Yield all events with all shards: the first event is there once for each of them."""
    shards: dict[str, Any] = {}
    waiting: pa.RecordBatch | None = None  # the first event as it was last seen
    for given in batches:
        batch = given
        if waiting is not None or not shards:
            flags = pc.is_valid(given.column("filters")).to_numpy(zero_copy_only=False)
            heads = int(np.argmin(flags)) if not flags.all() else len(flags)
            for place in range(heads):
                shards |= _shard_in(given, place)
            if heads == len(flags):
                waiting = given.slice(heads - 1) if heads else waiting
                continue
            if heads:
                batch = given.slice(heads - 1)
            elif waiting is not None:
                yield shards, waiting
            waiting = None
            assert shards, "the first row of a partition has the filters"
        yield shards, batch
    if waiting is not None:
        yield shards, waiting


def _shard_in(batch: pa.RecordBatch, place: int) -> dict[str, Any]:
    return {batch.column("digest")[place].as_py(): batch.column("filters")[place].as_buffer()}


def match_batches(batches: Iterator[pa.RecordBatch], *, spread: bool) -> Iterator[pa.RecordBatch]:
    """Match the events of one partition, with which `met` has brought the filters."""
    for matchers, batch in matched(batches, spread=spread):
        for matcher in matchers:
            if "block" not in batch.schema.names:
                yield from matcher.match(batch)
                continue
            for language, block in zip(
                batch.column("language").to_pylist(), batch.column("block"), strict=True
            ):
                yield from matcher.match_block(language, block.as_buffer())
