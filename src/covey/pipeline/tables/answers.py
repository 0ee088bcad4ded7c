"""What the workers return: rows of the tables, from arrays of numbers."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from covey.matching.jit import Longs
from covey.pipeline.tables.overlay import Overlay
from covey.pipeline.tables.wanting import Wanting

ANSWERS = 1 << 18  # rows that go back to Spark at a time

SCHEMA = pa.schema(
    [
        ("broker", pa.string()),
        ("link", pa.string()),
        ("encoded", pa.binary()),
        ("entries", pa.int64()),
        ("key", pa.string()),
        ("owner", pa.string()),
    ]
)


class Network(NamedTuple):
    """What every worker knows: the tree, and what is advertised where, if advertisements are used."""

    overlay: Overlay
    advertised: list[tuple[str, bytes]] | None

    def packed(self) -> bytes:
        """Return it as bytes."""
        return pickle.dumps((self.overlay.links, self.advertised))

    @staticmethod
    def unpacked(blob: bytes) -> Network:
        """Return what was packed by a task of the same job."""
        links, advertised = pickle.loads(blob)
        return Network(Overlay(links), advertised)

    def wanting(self) -> Wanting:
        """Return who wants what."""
        return Wanting(self.overlay, self.advertised)


class Parcel(NamedTuple):
    """The rows of a partition, and the network that came with the first of them."""

    network: Network | None
    batches: Iterator[pa.RecordBatch]


def opened(batches: Iterator[pa.RecordBatch]) -> Parcel:
    """Return the network and the rows without it; None if there are no rows."""
    for batch in batches:
        if batch.num_rows:
            blob = batch.column("network")[0].as_py()
            assert blob is not None, "the first row of a partition has the network"
            network = Network.unpacked(blob)
            return Parcel(network, _without(batch, batches))
    return Parcel(None, iter(()))


def _without(first: pa.RecordBatch, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first.drop_columns(["network"])
    for batch in batches:
        yield batch.drop_columns(["network"])


def rows_of(
    overlay: Overlay,
    ways: Longs,
    encoded: pa.Array,
    entries: Any = None,
    keys: pa.Array | None = None,
    owners: pa.Array | None = None,
) -> Iterator[pa.RecordBatch]:
    """Return rows for what is told over each way; without entries, one each."""
    names = pa.array(overlay.brokers, pa.string())
    nothing = pa.nulls(len(ways), pa.string())
    columns = [
        names.take(pa.array(overlay.hears[ways])),
        names.take(pa.array(overlay.tells[ways])),
        encoded,
        pa.array(np.ones(len(ways), np.int64) if entries is None else entries, pa.int64()),
        nothing if keys is None else keys,
        nothing if owners is None else owners,
    ]
    columns = [
        column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns
    ]
    yield from pa.Table.from_arrays(columns, schema=SCHEMA).to_batches(max_chunksize=ANSWERS)
