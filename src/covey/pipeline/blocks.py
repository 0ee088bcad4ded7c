"""Events in blocks: thousands of them as one value, which Spark moves without touching each.

Of what matching takes in Spark, most is not matching: each event goes as a row through Java, is copied into an Arrow
batch, and its names and texts are looked up. A block is all that done beforehand: the names of its events, and their
attributes as columns (`matching/attributes/columns.py`); events of other languages as they are. It pays where the same
events are matched more than once, or by filters that come later; `match` takes blocks in place of events.

What is in a block comes from a file, so it is checked when it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from covey.errors import EventError
from covey.matching.attributes.columns import Columns, columns_of
from covey.matching.attributes.packed import FLOAT
from covey.matching.index import ATTRIBUTES
from covey.pipeline.ingest import ingested
from covey.pipeline.schemas import BLOCKS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SIZE = 8_192
VERSION = 1


class Strings(msgspec.Struct, array_like=True):
    """Byte strings one after the other: where each ends, as int32, and all their bytes."""

    ends: bytes
    data: bytes


class Block(msgspec.Struct, array_like=True):
    """What a block's bytes hold. `contents` are events that are not of the language attributes, else `columns`."""

    version: int
    events: Strings
    contents: Strings | None
    columns: Flat | None


class Flat(msgspec.Struct, array_like=True):
    """Columns as bytes; an array with its type, the narrowest that holds it. No kinds: all are floats."""

    names: list[str]
    texts: list[str]
    owners: tuple[str, bytes]
    packed: list[bytes]
    ends: tuple[str, bytes]
    name: tuple[str, bytes]
    kind: bytes
    value: tuple[str, bytes]


def blocks(events: DataFrame, *, size: int = SIZE) -> DataFrame:
    """Return the table `blocks`: the same events, at most `size` of a language in a block; raw ones are ingested."""
    checked = ingested(events, table="events").select("event", "language", "encoded")

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return block_batches(batches, size)

    return checked.mapInArrow(pack, BLOCKS.schema())


# -- in the workers --------------------------------------------------------------------------------------------


def block_batches(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Return a batch of blocks for each batch of events."""
    for batch in batches:
        rows: list[tuple[str, int, bytes]] = []
        for language, some in by_language(batch):
            for first in range(0, some.num_rows, size):
                part = some.slice(first, size)
                rows.append((language, part.num_rows, encode(language, part)))
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        types = (pa.string(), pa.int32(), pa.binary())
        yield pa.RecordBatch.from_arrays(
            [pa.array(values, type_) for values, type_ in zip(columns, types, strict=True)],
            [column.name for column in BLOCKS.columns],
        )


def by_language(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Return the rows of each language; mostly there is but one."""
    languages = batch.column("language")
    distinct = pc.unique(languages).to_pylist()
    for language in sorted(distinct):
        some = batch if len(distinct) == 1 else batch.filter(pc.equal(languages, language))
        yield language, some


def encode(language: str, batch: pa.RecordBatch) -> bytes:
    """Return the bytes of a block of ingested events of one language."""
    names = _strings(batch.column("event").cast(pa.string()))
    if language != ATTRIBUTES:
        return _encoder.encode(Block(VERSION, names, _strings(batch.column("encoded")), None))
    columns = columns_of(*bytes_of(batch.column("encoded")))
    flat = Flat(
        columns.names,
        columns.texts,
        _array(columns.owners),
        columns.packed,
        _array(columns.ends),
        _array(columns.name),
        b"" if (columns.kind == FLOAT).all() else columns.kind.tobytes(),
        _array(columns.value),
    )
    return _encoder.encode(Block(VERSION, names, None, flat))


def decode(data: Any) -> tuple[pa.Array, pa.Array | None, Columns | None]:
    """Return the names of a block's events, and their contents or columns; EventError for bytes that are no block."""
    try:
        block = _decoder.decode(data)
        if block.version != VERSION:
            raise EventError(
                f"blocks of version {block.version} cannot be read; this reads version {VERSION}"
            )
        events = _string_array(block.events, pa.string())
        if block.columns is not None:
            columns = _columns(block.columns)
            if len(columns) != len(events):
                raise EventError("a block has not one name for each event")
            return events, None, columns
        if block.contents is None:
            raise EventError("a block has no events")
        contents = _string_array(block.contents, pa.binary())
        if len(contents) != len(events):
            raise EventError("a block has not one name for each event")
        return events, contents, None
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise EventError(f"these bytes are no block of events: {error}") from None


def _columns(flat: Flat) -> Columns:
    name, value = _read(flat.name, np.int32), _read(flat.value, np.float64)
    kind = np.frombuffer(flat.kind, np.uint8) if flat.kind else np.full(len(name), FLOAT, np.uint8)
    ends, owners = _read(flat.ends, np.int32), _read(flat.owners, np.int32)
    return Columns(flat.names, flat.texts, owners, flat.packed, ends, name, kind, value)


_NARROW = ("u1", "<i2", "<i4")


def _array(values: NDArray[Any]) -> tuple[str, bytes]:
    for kind in _NARROW:
        limits = np.iinfo(kind)
        if not len(values) or (values.min() >= limits.min and values.max() <= limits.max):
            narrow = values.astype(kind)
            if values.dtype.kind == "i" or (narrow == values).all():
                return kind, narrow.tobytes()
    return "<f8", values.astype("<f8").tobytes()


def _read(array: tuple[str, bytes], wanted: type[Any]) -> NDArray[Any]:
    kind, data = array
    if kind not in _NARROW and not (kind == "<f8" and wanted is np.float64):
        raise EventError(f"a block has an array of the type {kind!r:.20}")
    return np.frombuffer(data, kind).astype(wanted)


def bytes_of(column: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of a binary column, and where each value begins, and at last ends.

    Whoever owns the column's buffers, the bytes cannot be written and the places can: kernels are compiled for that.
    """
    large = column.cast(pa.large_binary())
    _, offsets, data = large.buffers()
    starts = np.frombuffer(offsets, np.int64)[large.offset : large.offset + len(large) + 1].copy()
    values = np.frombuffer(data if data is not None else b"", np.uint8)
    values.flags.writeable = False
    return values, starts


def _strings(column: pa.Array) -> Strings:
    data, starts = bytes_of(column.cast(pa.binary()))
    ends = (starts[1:] - starts[0]).astype("<i4")
    return Strings(ends.tobytes(), data[starts[0] : starts[-1]].tobytes())


def _string_array(strings: Strings, type_: pa.DataType) -> pa.Array:
    ends = np.frombuffer(strings.ends, "<i4")
    if (len(ends) and ends[0] < 0) or (np.diff(ends) < 0).any():
        raise EventError("a block's texts do not end one after the other")
    if (int(ends[-1]) if len(ends) else 0) != len(strings.data):
        raise EventError("a block's texts do not end where its bytes do")
    offsets = np.concatenate([np.zeros(1, np.int32), ends])
    array = pa.Array.from_buffers(
        type_, len(ends), [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(strings.data)]
    )
    array.validate(full=True)
    return array


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Block)
