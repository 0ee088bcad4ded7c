"""Blocks of events come back as they were, and bytes that are no block are refused."""

from __future__ import annotations

import contextlib
import math
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.core.packing import pack, unpack
from covey.errors import EventError
from covey.matching.attributes.columns import Columns
from covey.pipeline.blocks import Block, block_batches, bytes_of, decode, encode

EVENTS: list[dict[str, Any]] = [
    {},
    {"a": 1, "b": "x"},
    {"a": -0.5, "b": "x", "c": True, "d": [1]},
    {"b": "y", "a": "x", "e": 2**60, "f": math.inf},
    {"a": 70_000, "c": False, "e": 10**40},
]


def batch(events: list[dict[str, Any]]) -> pa.RecordBatch:
    names = [f"e{k}" for k in range(len(events))]
    encoded = pa.array([pack(event) for event in events], pa.binary())
    return pa.record_batch({"event": pa.array(names, pa.string()), "encoded": encoded})


def events_of(columns: Columns) -> list[dict[str, Any]]:
    found, first = [], 0
    for last in columns.ends.tolist():
        points = range(first, last)
        found.append(
            {
                columns.names[columns.name[at]]: columns.value_of(columns.kind[at], float(columns.value[at]))
                for at in points
            }
        )
        first = last
    return found


@pytest.mark.parametrize("events", [EVENTS, EVENTS[1:2], EVENTS[:1], [], [{"a": k} for k in range(300)]])
def test_events_come_back(events: list[dict[str, Any]]) -> None:
    names, contents, columns = decode(encode("attributes", batch(events)))
    assert contents is None
    assert columns is not None
    assert names.to_pylist() == [f"e{k}" for k in range(len(events))]
    assert events_of(columns) == [unpack(pack(event)) for event in events]


def test_part_of_a_batch_comes_back() -> None:
    names, _, columns = decode(encode("attributes", batch(EVENTS).slice(1, 2)))
    assert columns is not None
    assert names.to_pylist() == ["e1", "e2"]
    assert events_of(columns) == [unpack(pack(event)) for event in EVENTS[1:3]]


def test_other_languages_stay_as_they_are() -> None:
    given_ = pa.record_batch({"event": ["a", "b"], "encoded": pa.array([b"<x/>", b""], pa.binary())})
    names, contents, columns = decode(encode("xpath", given_))
    assert contents is not None
    assert (names.to_pylist(), contents.to_pylist(), columns) == (["a", "b"], [b"<x/>", b""], None)


def test_languages_are_parted_and_blocks_are_small() -> None:
    rows = pa.record_batch(
        {
            "event": ["a", "b", "c", "d"],
            "language": ["xpath", "attributes", "xpath", "xpath"],
            "encoded": pa.array([b"<x/>", pack({"a": 1}), b"<y/>", b"<z/>"], pa.binary()),
        }
    )
    [found] = block_batches(iter([rows]), 2)
    assert found.select(["language", "events"]).to_pylist() == [
        {"language": "attributes", "events": 1},
        {"language": "xpath", "events": 2},
        {"language": "xpath", "events": 1},
    ]


@given(st.data())
def test_a_spoilt_block_is_refused_or_read_but_never_beyond_its_end(data: st.DataObject) -> None:
    block = bytearray(encode("attributes", batch(EVENTS)))
    at = data.draw(st.integers(0, len(block) - 1))
    block[at] = data.draw(st.integers(0, 255))
    for spoilt in (bytes(block), bytes(block[:at])):
        with contextlib.suppress(EventError):
            _, _, columns = decode(spoilt)
            if columns is not None:
                assert len(columns.ends) == len(EVENTS)


def spoilt(**changes: Any) -> bytes:
    block = msgspec.msgpack.decode(encode("attributes", batch(EVENTS)), type=Block)
    assert block.columns is not None
    return msgspec.msgpack.encode(
        msgspec.structs.replace(block, columns=msgspec.structs.replace(block.columns, **changes))
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ends": ("u1", b"\0\2\1\3\4")}, "one after the other"),
        ({"ends": ("u1", b"\0\0\0\0\0")}, "one after the other"),
        ({"names": ["a"]}, "names that it does not have"),
        ({"texts": []}, "different lengths"),
        ({"packed": []}, "values that it does not have"),
        ({"kind": b"\1"}, "different lengths"),
        ({"kind": b"\7" * 13}, "unknown kind"),
        ({"name": ("<f8", np.zeros(13).tobytes())}, "an array of the type"),
        ({"name": ("O", b"")}, "an array of the type"),
        ({"value": ("<i4", b"\0")}, "no block"),
    ],
)
def test_what_does_not_fit_together_is_told(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(EventError, match=reason):
        decode(spoilt(**changes))


def test_other_versions_are_told() -> None:
    with pytest.raises(EventError, match="version 2 cannot be read"):
        decode(msgspec.msgpack.encode([2, [b"", b""], None, None]))
    with pytest.raises(EventError, match="no events"):
        decode(msgspec.msgpack.encode([1, [b"", b""], None, None]))


def test_kernels_get_arrays_of_one_type_whoever_owns_the_bytes() -> None:
    """Arrays that can be written are of another type for the compiler: each kernel would be compiled twice."""
    ours = pa.array([b"one", b"", b"three"], pa.binary())
    received = pa.ipc.open_stream(_sent(ours)).read_next_batch().column(0)
    received_large = pa.ipc.open_stream(_sent(ours.cast(pa.large_binary()))).read_next_batch().column(0)
    for column in (ours, received, received_large, received.slice(1, 2), pa.array([], pa.binary())):
        data, starts = bytes_of(column)
        assert (data.flags.writeable, starts.flags.writeable) == (False, True)
        assert [data[first:last].tobytes() for first, last in pairwise(starts)] == column.to_pylist()


def _sent(column: pa.Array) -> bytes:
    """Return a column as Spark sends it."""
    batch = pa.RecordBatch.from_arrays([column], ["values"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]
