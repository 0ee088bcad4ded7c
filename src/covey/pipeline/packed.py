"""How what every task needs gets to every task: small tables packed into one row, which Spark broadcasts.

A stage runs no action, so it cannot collect the overlay and close over it. One task packs whole tables into the bytes
of a single row; the row is joined to the first row of each partition alone (as in `match`), and the worker keeps what
it made of the bytes, by their digest, for the next partitions and stages.

**Bound.** A row of Spark is smaller than 2 GiB, and the packing task holds the tables in memory. That task refuses
a row for which the driver has too little memory (`memory`).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey.errors import PlanError
from covey.matching.jit import Ints
from covey.pipeline.memory import Room, room_of
from covey.pipeline.session import slots
from covey.planning.graph import Graph
from covey.planning.paths import AllPaths

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Made = TypeVar("Made")
Build = Callable[[dict[str, pa.Table]], Any]

_CODEC = pa.Codec("zstd", compression_level=1)
_PARTITION_ROWS = 1 << 33  # Spark's row numbers are this times the partition, plus the place in it
_SCHEMA = "_first int, digest string, packed binary"


def pack(tables: Mapping[str, DataFrame], *, build: Build) -> DataFrame:
    """Return one row (_first = 0, digest, packed): what `build` makes of all rows of these tables, pickled.

    Rows come in no order. Columns of one name must have one type in all tables.
    """
    spark = next(iter(tables.values())).sparkSession
    types = {"_table": "string"}
    for frame in tables.values():
        types |= {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    # Of empty tables Spark would compute nothing at all; with this row there is a result even then.
    whole = spark.range(0, 1, 1, 1).select(
        *[F.lit(None).cast(kind).alias(one) for one, kind in types.items()]
    )
    columns = {name: tuple(frame.columns) for name, frame in tables.items()}
    for name, frame in tables.items():
        own = {"_table": F.lit(name), **{column: F.col(f"`{column}`") for column in columns[name]}}
        whole = whole.union(
            frame.select(*[own.get(one, F.lit(None).cast(kind)).alias(one) for one, kind in types.items()])
        )
    task = partial(_packed, build=build, columns=columns, room=room_of(spark))
    # Small tables have a task each, and more of these than there are cores: as many as can run at a time are enough.
    few = whole.coalesce(slots(str(spark.conf.get("spark.master", None) or "")))
    return few.repartition(1).mapInArrow(task, _SCHEMA)


def first_in_partition() -> Column:
    """Return a column that is 0 in the first row of each partition and null in the others.

    What is joined to it gets to every task once, before its other rows.
    """
    return F.when(F.monotonically_increasing_id() % _PARTITION_ROWS == 0, F.lit(0))


def attach(frame: DataFrame, packed: DataFrame) -> DataFrame:
    """Return the rows with the columns digest and packed, which are null but in the first row of a partition."""
    numbered = frame.withColumn("_first", first_in_partition())
    return numbered.join(F.broadcast(packed), "_first", "left").drop("_first")


# -- in the workers --------------------------------------------------------------------------------------------


def _packed(
    batches: Iterator[pa.RecordBatch], *, build: Build, columns: Mapping[str, tuple[str, ...]], room: Room
) -> Iterator[pa.RecordBatch]:
    parts: dict[str, list[pa.RecordBatch]] = {name: [] for name in columns}
    schema: pa.Schema | None = None
    for batch in batches:
        schema = batch.schema
        for name in columns:
            some = batch.filter(pa.compute.equal(batch.column("_table"), name))
            if some.num_rows:
                parts[name].append(some)
    assert schema is not None, "there is always a row"
    tables = {
        name: pa.Table.from_batches(mine, schema).select(list(columns[name])).combine_chunks()
        for name, mine in parts.items()
    }
    blob = squeezed(build(tables))
    room.check(len(blob), f"too much to broadcast in the tables {', '.join(tables)}")
    yield pa.RecordBatch.from_arrays(
        [
            pa.array([0], pa.int32()),
            pa.array([blake2b(blob, digest_size=16).hexdigest()]),
            pa.array([blob], pa.binary()),
        ],
        ["_first", "digest", "packed"],
    )


def squeezed(value: Any) -> bytes:
    """Return a value as bytes for a row that is broadcast: on its way there Java copies them half a dozen times."""
    pickled = pickle.dumps(value, protocol=5)
    small: bytes = _CODEC.compress(pickled, asbytes=True)
    return len(pickled).to_bytes(8, "little") + small


def unsqueezed(data: Any) -> Any:
    """Return the value of such bytes, which a task of the same job made, as Spark itself sends all that tasks run."""
    view = memoryview(data)
    return pickle.loads(_CODEC.decompress(view[8:], int.from_bytes(view[:8], "little")))


_kept: dict[str, tuple[str, Any]] = {}  # by the name of what is made: the last one only


def unpacked(digest: str, packed: Any, make: Callable[[Any], Made]) -> Made:
    """Return what `make` makes of what was packed, made once as long as nothing else of this kind comes between."""
    known = _kept.get(make.__qualname__)
    if known is None or known[0] != digest:
        _kept.pop(make.__qualname__, None)
        known = _kept[make.__qualname__] = digest, make(unsqueezed(packed))
    made: Made = known[1]
    return made


def attached(
    batches: Iterator[pa.RecordBatch], make: Callable[[Any], Made]
) -> Iterator[tuple[Made, pa.RecordBatch]]:
    """Yield the batches of a partition, each with what was attached to the first row."""
    made: Made | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        if made is None:
            digest = batch.column("digest")[0].as_py()
            assert digest is not None, "the first row of a partition has what is attached"
            made = unpacked(digest, batch.column("packed")[0].as_buffer(), make)
        yield made, batch


# -- the overlay -----------------------------------------------------------------------------------------------


class Overlay:
    """The overlay with its brokers' names, in their order, and all shortest paths."""

    def __init__(self, names: tuple[str, ...], graph: Graph) -> None:
        self.names = names
        self.graph = graph
        self.number = {name: place for place, name in enumerate(names)}
        self._paths: AllPaths | None = None

    @property
    def paths(self) -> AllPaths:
        """All shortest paths; computed when they are first asked for."""
        if self._paths is None:
            self._paths = AllPaths(self.graph)
        return self._paths

    def numbers(self, brokers: pa.Array | pa.ChunkedArray) -> Ints:
        """Return the numbers of brokers; PlanError for one that is not there."""
        found = pa.compute.index_in(brokers, pa.array(self.names, pa.string()))
        if found.null_count:
            lost = brokers.filter(found.is_null())[0].as_py()
            raise PlanError(f"the broker {lost!r:.80} is not in the topology")
        return np.asarray(found.to_numpy(zero_copy_only=False), np.int32)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.names, self.graph.nodes, self.graph.ends, self.graph.costs

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        names, nodes, ends, costs = state
        self.__init__(names, Graph(nodes, ends, costs))  # type: ignore[misc]


def overlay_of(topology: pa.Table) -> Overlay:
    """Return the overlay of the table's rows, whatever their order; links by the names of their ends."""
    rows = topology.select(["a", "b"]).to_pylist()
    costs = topology.column("cost").to_pylist() if "cost" in topology.schema.names else [None] * len(rows)
    links = sorted(
        (*sorted((row["a"], row["b"])), 1.0 if cost is None else cost)
        for row, cost in zip(rows, costs, strict=True)
    )
    if not links:
        raise PlanError("the topology has no link")
    names = tuple(sorted({end for a, b, _ in links for end in (a, b)}))
    number = {name: place for place, name in enumerate(names)}
    ends = np.array([(number[a], number[b]) for a, b, _ in links], np.int32)
    return Overlay(names, Graph(len(names), ends, np.array([cost for *_, cost in links])))


def overlay_in(tables: dict[str, pa.Table]) -> Overlay:
    """Build the overlay from the packed table `topology`."""
    return overlay_of(tables["topology"])


def same(value: Made) -> Made:
    """Return the value: for what needs nothing made of it."""
    return value
