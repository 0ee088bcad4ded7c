"""Packed events are judged as dictionaries are: by the unpacking kernel, by the plain way back, by the filters."""

from __future__ import annotations

import math
import pickle
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import special_values
from tests.oracles.filter_texts import events_for, texts, trees

from covey.core.attributes.filter import AttributeFilter
from covey.core.attributes.parser import parse_attributes
from covey.core.packing import _pack, pack, unpack
from covey.errors import EventError, FilterError
from covey.matching.attributes.channels import Batch
from covey.matching.attributes.columns import columns_of
from covey.matching.attributes.index import AttributeIndex
from covey.matching.attributes.unpacking import Unpacker

SIZES = (0, 1, 31, 32, 127, 128, 255, 256, 65_535, 65_536)
INTEGERS = (*(2**bits + by for bits in (7, 8, 15, 16, 31, 32, 53, 63, 64, 70) for by in (-1, 0, 1)), 10**400)
ODD_EVENTS: list[dict[str, Any]] = [
    {},
    {"a": 0},
    {"a": 1e300},
    {"a": None, "b": {}},
    {"a": {"b": {"c": 1}}, "a.b.c": 2},
    {"a": [1], "b": b"x", "c": math.nan},
    {"a": math.inf, "b": -math.inf, "c": -0.0},
    {f"name{number}": number for number in range(70_000)},
    *({"a": "x" * size, "n" * (size or 1): 1} for size in SIZES),
    *({"a": sign * number, "b": float(min(number, 10**300))} for number in INTEGERS for sign in (1, -1)),
]


def joined(packed: list[bytes]) -> tuple[Any, Any]:
    return np.frombuffer(b"".join(packed), np.uint8), np.cumsum([0, *map(len, packed)], dtype=np.int64)


def encode(unpacker: Unpacker, packed: list[bytes]) -> Batch:
    return unpacker.encode(*joined(packed))


def encode_columns(unpacker: Unpacker, packed: list[bytes]) -> Batch:
    return unpacker.encode_columns(columns_of(*joined(packed)))


def matches(index: AttributeIndex, batch: Batch) -> list[list[int]]:
    handles, ends = index.match_encoded(batch)
    found = handles.tolist()
    return [sorted(found[start:end]) for start, end in pairwise([0, *ends.tolist()])]


def index_of(filters: list[AttributeFilter]) -> AttributeIndex:
    index = AttributeIndex()
    index.add_batch(range(len(filters)), filters)
    return index


def is_encodable(value: Any) -> bool:
    try:
        pack({"value": value})
    except EventError:
        return False
    return True


@given(st.data())
def test_packed_events_match_what_dictionaries_match(data: st.DataObject) -> None:
    filters: list[AttributeFilter] = []
    events: list[dict[str, Any]] = []
    for tree in data.draw(st.lists(trees, min_size=1, max_size=8)):
        try:
            filters.append(parse_attributes(data.draw(texts(tree))))
        except FilterError as error:
            assert "conjunctions" in error.problem
            continue
        events.extend(data.draw(st.lists(events_for(tree), max_size=4)))
    filters += data.draw(st.lists(st.sampled_from(special_values.filters()), max_size=8))
    events = [event for event in events if is_encodable(event)] + special_values.events()
    index = index_of(filters)
    expected = [[k for k, filter in enumerate(filters) if filter.matches(event)] for event in events]
    packed = [pack(event) for event in events]
    assert matches(index, encode(Unpacker(index.channels), packed)) == expected
    assert matches(index, encode_columns(Unpacker(index.channels), packed)) == expected
    assert matches(index, index.encode(map(unpack, packed))) == expected
    # And in another process, where the index arrives as its bytes.
    copy = pickle.loads(pickle.dumps(index))
    assert matches(copy, encode(Unpacker(copy.channels), packed)) == expected


def test_every_form_of_a_value() -> None:
    numbers = (0, 127, 128, 255, 256, 2**32, 2**53, 2**53 + 1, 2**63 - 1, 1e300)
    texts_ = [f"a = {number}" for number in numbers] + [f"a > {number}" for number in numbers]
    texts_ += [f"a < -{number}" for number in numbers] + [
        "a = 'x'",
        f"a = '{'x' * 31}'",
        f"a = '{'x' * 256}'",
    ]
    texts_ += [
        "a is null",
        "b is null",
        "a is not null",
        "a.b.c = 2",
        "name69999 = 69999",
        "b > 5 and a <> 3",
        "n = 1",
    ]
    filters = [parse_attributes(text) for text in texts_]
    index = index_of(filters)
    packed = [pack(event) for event in ODD_EVENTS]
    expected = [[k for k, filter in enumerate(filters) if filter.matches(event)] for event in ODD_EVENTS]
    assert matches(index, encode(Unpacker(index.channels), packed)) == expected
    assert matches(index, encode_columns(Unpacker(index.channels), packed)) == expected
    # Each of them can fail: there is an event that it matches.
    seen = set().union(*expected)
    assert [str(filter)[:40] for k, filter in enumerate(filters) if k not in seen] == []


def test_the_same_points_in_the_same_order() -> None:
    filters = [
        parse_attributes(text) for text in ("a = 1 and b > 2", "s = 'x'", "t is null", "u in (1, 'y')")
    ]
    index = index_of(filters)
    events: list[dict[str, Any]] = [
        {"a": 1, "b": 3.5, "s": "x", "u": "y"},
        {"t": True, "u": 1},
        {"s": "z", "u": "no"},
    ]
    packed, expected = [pack(event) for event in events], index.encode(events)
    for ours, columns, theirs in zip(
        encode(Unpacker(index.channels), packed),
        encode_columns(Unpacker(index.channels), packed),
        expected,
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(columns, theirs)


@given(st.binary(max_size=24))
def test_bytes_that_are_no_event_are_told(garbage: bytes) -> None:
    index = index_of([parse_attributes("a = 1 and b = 'x' and c in (1, 2)")])
    for bad in (garbage, pack({"a": 1, "b": "x"})[:-1], pack({"a": 1}) + b"\0"):
        try:
            plain = unpack(bad)
            flat = pack(plain) == bad
        except EventError:
            flat = False
        if not flat:
            # What is not in the one form may be read or refused, but never beyond its end.
            for reading in (encode, encode_columns):
                try:
                    reading(Unpacker(index.channels), [pack({"a": 1}), bad])
                except EventError as error:
                    assert "event 1 " in str(error) or "UTF-8" in str(error)
    for bad in (
        b"",
        b"\x81",
        b"\x81\xa1",
        b"\x81\xa1a",
        b"\x81\xa1a\xcd\1",
        b"\x81\xa1a\x81\xa1b\1",
        b"\x90",
        b"\1",
    ):
        with pytest.raises(EventError, match="event 0 "):
            encode(Unpacker(index.channels), [bad])
        with pytest.raises(EventError, match="event 0 "):
            encode_columns(Unpacker(index.channels), [bad])
        with pytest.raises(EventError):
            unpack(bad if bad != b"\x81\xa1a\x81\xa1b\1" else b"")


def test_what_cannot_be_packed_is_told() -> None:
    with pytest.raises(EventError, match="unpaired surrogate"):
        pack({"a": "\ud800"})
    with pytest.raises(EventError, match="more than 4300 digits"):
        pack({"a": 10**5000})
    with pytest.raises(EventError, match="no packed event"):
        unpack(msgspec.msgpack.encode({"a": msgspec.msgpack.Ext(7, b"1")}))


SCALARS = (
    st.text(max_size=3)
    | st.integers()
    | st.floats()
    | st.booleans()
    | st.none()
    | st.sampled_from([2**64, -(2**63) - 1, "\ud800", [1], {"a": 1}, 2**63])
)


@given(st.dictionaries(st.text(max_size=3) | st.just("\udfff") | st.integers(0, 3), SCALARS, max_size=5))
def test_plain_events_are_packed_as_any_other(event: dict[Any, Any]) -> None:
    def answer(packing: Any) -> object:
        try:
            return packing(event)
        except EventError as error:
            return str(error)

    assert answer(pack) == answer(_pack)
