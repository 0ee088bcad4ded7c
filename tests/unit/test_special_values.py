"""Special values (`tests/special_values.py`): every way into an index gives the answers of `Filter.matches`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from tests import special_values

import covey
from covey.core.attributes.parser import parse_attributes
from covey.core.families import decode
from covey.core.packing import pack
from covey.matching.attributes.channels import Batch
from covey.matching.attributes.columns import columns_of
from covey.matching.attributes.index import AttributeIndex
from covey.matching.attributes.unpacking import Unpacker
from covey.matching.counting import CountingIndex
from covey.matching.index import Index
from covey.pipeline.blocks import decode as decode_block
from covey.pipeline.blocks import encode as encode_block
from covey.pipeline.tables.boxes import CoverOrder
from covey.strategies.merging.maximal import MaximalFilters, item_of

FILTERS = special_values.filters()
EVENTS = special_values.events()
EXPECTED = [[k for k, filter in enumerate(FILTERS) if filter.matches(event)] for event in EVENTS]


def joined(events: list[dict[str, Any]]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    packed = [pack(event) for event in events]
    return np.frombuffer(b"".join(packed), np.uint8), np.cumsum([0, *map(len, packed)], dtype=np.int64)


def from_dictionaries(index: AttributeIndex, events: list[dict[str, Any]]) -> Batch:
    return index.encode(events)


def from_numpy(index: AttributeIndex, events: list[dict[str, Any]]) -> Batch:
    """Numbers of rare types go another way."""
    return index.encode(
        [
            {name: np.float64(value) if type(value) is float else value for name, value in event.items()}
            for event in events
        ]
    )


def from_packed(index: AttributeIndex, events: list[dict[str, Any]]) -> Batch:
    return Unpacker(index.channels).encode(*joined(events))


def from_columns(index: AttributeIndex, events: list[dict[str, Any]]) -> Batch:
    return Unpacker(index.channels).encode_columns(columns_of(*joined(events)))


def from_blocks(index: AttributeIndex, events: list[dict[str, Any]]) -> Batch:
    encoded = pa.array([pack(event) for event in events], pa.binary())
    batch = pa.record_batch({"event": pa.array(["e"] * len(events), pa.string()), "encoded": encoded})
    _, _, columns = decode_block(encode_block("attributes", batch))
    assert columns is not None
    return Unpacker(index.channels).encode_columns(columns)


def from_old_blocks(index: AttributeIndex, events: list[dict[str, Any]]) -> Batch:
    """Blocks on disk may have been written when their zeros still had signs."""
    columns = columns_of(*joined(events))
    columns.value[columns.value == 0] = -0.0
    return Unpacker(index.channels).encode_columns(columns)


WAYS = [from_dictionaries, from_numpy, from_packed, from_columns, from_blocks, from_old_blocks]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_into_the_index_answers_as_filters_do(way: Any) -> None:
    index = AttributeIndex()
    index.add_batch(range(len(FILTERS)), FILTERS)
    handles, ends = index.match_encoded(way(index, EVENTS))
    found = [sorted(handles[start:end].tolist()) for start, end in pairwise([0, *ends.tolist()])]
    for event, ours, theirs in zip(EVENTS, found, EXPECTED, strict=True):
        assert [str(FILTERS[k]) for k in ours] == [str(FILTERS[k]) for k in theirs], event


@pytest.mark.parametrize("way", WAYS)
def test_no_zero_has_a_sign_in_the_index(way: Any) -> None:
    """So that whatever looks at the bits of a value, today or some day, takes equal ones for equal."""
    index = AttributeIndex()
    index.add_batch(
        range(4), [parse_attributes(text) for text in ("a = 0", "a > 0", "b in (0, 9)", "b >= 0")]
    )
    _, _, values = way(index, [{"a": -0.0, "b": 5}, {"a": 3, "b": -0.0}, {"a": 0, "b": 0.0}])
    assert (values == 0).any()
    assert not np.signbit(values[values == 0]).any()


def test_one_event_at_a_time_is_answered_alike() -> None:
    index = Index()
    index.add_batch(range(len(FILTERS)), FILTERS, [f"link {k % 7}" for k in range(len(FILTERS))])
    for event, expected in zip(EVENTS, EXPECTED, strict=True):
        assert set(index.match(event)) == set(expected), event
        assert index.links(event) == {f"link {k % 7}" for k in expected}, event


def test_the_counting_index_answers_alike() -> None:
    some = [k for k, filter in enumerate(FILTERS) if str(filter) != "FALSE" and "NULL" not in str(filter)]
    index = CountingIndex([[FILTERS[k] for k in some]])
    found = index.match_encoded(*index.encode(EVENTS))
    assert [sorted(some[k] for k in row.tolist()) for row in found] == [
        [k for k in expected if k in set(some)] for expected in EXPECTED
    ]


def test_a_zero_with_a_sign_does_not_cost_its_neighbours_their_matches() -> None:
    """Equal values of a block are judged once: whichever comes first must not decide with its sign."""
    index = AttributeIndex()
    index.add_batch(range(3), [parse_attributes(text) for text in ("a = 0", "a in (0, 3)", "a <> 3")])
    events: list[dict[str, Any]] = [{"a": -0.0}, {"a": 0.0}, {"a": 0}]
    for way in WAYS:
        _, ends = index.match_encoded(way(index, events))
        assert ends.tolist() == [3, 6, 9], way.__name__


SIGNED = [
    "a = {}",
    "a <> {}",
    "a > {}",
    "a <= {}",
    "a in ({}, 5)",
    "a between {} and 3",
    "a not between -1 and {}",
]


@pytest.mark.parametrize("text", SIGNED)
def test_a_filter_with_a_signed_zero_is_the_filter_without(text: str) -> None:
    plain = covey.parse(text.format("0"))
    for zero in ("-0.0", "-0", "0.0", "-0e0", "-1e-400"):
        signed = covey.parse(text.format(zero))
        assert (signed, hash(signed), str(signed), signed.encode()) == (
            plain,
            hash(plain),
            str(plain),
            plain.encode(),
        )
        assert decode(signed.encode()) == plain


@pytest.mark.parametrize(
    ("op", "value", "same"),
    [
        ("=", -0.0, 0),
        ("<", np.float64(-0.0), 0),
        ("in", [-0.0, 0, 0.0, 4], [0, 4]),
        ("not in", [-0.0, 4], [0, 4]),
        ("between", (-0.0, -0.0), (0, 0)),
    ],
)
def test_a_signed_zero_from_python_is_the_one_without(op: str, value: Any, same: Any) -> None:
    signed, plain = covey.conjunction([("a", op, value)]), covey.conjunction([("a", op, same)])
    assert (signed, hash(signed), str(signed), signed.encode()) == (
        plain,
        hash(plain),
        str(plain),
        plain.encode(),
    )


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        # A whole number between two floats must not be rounded onto one of them.
        ("a >= 9007199254740993", "a > 9007199254740991"),
        ("a <= -9007199254740993", "a < -9007199254740991"),
        ("a >= -9007199254740991", "a > -9007199254740993"),
        ("a <= 9007199254740991", "a < 9007199254740993"),
        ("a between -9007199254740991 and 9", "a > -9007199254740993 and a < 9"),
    ],
)
def test_covering_is_not_misled_by_rounding(wide: str, narrow: str) -> None:
    """The second is not inside the first: ±2⁵³ lies between them."""
    coverer, covered = covey.parse(wide), covey.parse(narrow)
    assert any(covered.matches({"a": n}) > coverer.matches({"a": n}) for n in (2**53, -(2**53)))
    index = Index()
    index.add("wide", coverer)
    index.add("narrow", covered)
    assert set(index.covering(covered)) == {"narrow"}
    assert set(index.covered(coverer)) == {"wide"}


@pytest.mark.parametrize(
    "neighbours", [("a < 1.5", "a <= 1.4999999999999998"), ("a > -1.5", "a >= -1.4999999999999998")]
)
def test_of_filters_with_neighbouring_ends_one_is_maximal(neighbours: tuple[str, str]) -> None:
    """Each covers the other as far as events go, and neither must be left out for the other's sake."""
    # Among so many an index is asked who covers whom.
    filters = [covey.parse(f"b > {n} and c > {-n}") for n in range(30)]
    filters += [covey.parse(text) for text in (*neighbours, "a in (1, 'x') and d = 1")]
    known = MaximalFilters()
    known.change([], [item_of(filter) for filter in filters])
    assert sum(str(item.filter).startswith(("a <", "a >")) for item in known.items()) == 1
    order = CoverOrder(pa.array([filter.encode() for filter in filters], pa.binary()))
    kept = np.flatnonzero(order.maximal(np.arange(len(filters)))).tolist()
    assert sum(str(order.filter(rank)).startswith(("a <", "a >")) for rank in kept) == 1
