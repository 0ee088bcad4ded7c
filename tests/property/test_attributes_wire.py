"""The wire form: every filter comes back, and no bytes do anything but raise FilterError or come back as they were."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import attribute_filters

from covey.core.attributes.filter import AttributeFilter, decode_attributes
from covey.errors import FilterError


def refused_or_same(data: bytes) -> bool:
    """Decode; return whether the bytes were refused, having checked that otherwise they are canonical."""
    try:
        f = decode_attributes(data)
    except FilterError:
        return True
    assert f.encode() == data
    assert AttributeFilter(f.conjunctions) == f
    assert decode_attributes(f.encode()) == f
    return False


@given(attribute_filters(max_conjunctions=5))
@settings(max_examples=300)
def test_round_trip(f: AttributeFilter) -> None:
    data = f.encode()
    again = decode_attributes(data)
    assert again == f
    assert hash(again) == hash(f)
    assert again.conjunctions == f.conjunctions
    assert again.encode() == data == f.encode()


@given(st.binary(max_size=60))
@settings(max_examples=300)
def test_any_bytes(data: bytes) -> None:
    refused_or_same(data)
    refused_or_same(b"A" + data)


@given(attribute_filters(), st.data())
@settings(max_examples=500)
def test_damaged_bytes(f: AttributeFilter, data: st.DataObject) -> None:
    damaged = bytearray(f.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(damaged) - 1)) if damaged else 0
        change = data.draw(st.sampled_from(("set", "flip", "cut", "insert", "drop")))
        if change == "set":
            damaged[place : place + 1] = bytes([data.draw(st.integers(0, 255))])
        elif change == "flip" and damaged:
            damaged[place] ^= 1 << data.draw(st.integers(0, 7))
        elif change == "cut":
            del damaged[place:]
        elif change == "drop":
            del damaged[place : place + 1]
        else:
            damaged[place:place] = bytes([data.draw(st.integers(0, 255))])
    refused_or_same(bytes(damaged))


# Values of the right shape that are mostly not what an encoder makes.
SCALAR = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 4),
    st.sampled_from((2**63, 2**63 - 1, -(2**63), 2**64 - 1)),
    st.floats(),
    st.sampled_from(("", "a", "a\0", "a%", "%a", "%%", "\\", "_%", "a%_", "%\\a", "%\\%", "b")),
)
SIDE = st.one_of(
    SCALAR,
    st.lists(SCALAR, max_size=3),
    st.lists(SCALAR, min_size=1, max_size=3).map(lambda values: [values]),
    st.tuples(st.integers(0, 16), *[st.lists(SCALAR, max_size=4)] * 4).map(list),
)
FORM = st.lists(
    st.lists(st.tuples(st.sampled_from(("a", "b", "c", "")), SIDE), max_size=3).map(
        lambda sides: [part for side in sides for part in side]
    ),
    max_size=3,
)


@given(FORM)
@settings(max_examples=1000)
def test_well_shaped_bytes(form: list[object]) -> None:
    refused_or_same(b"A" + msgspec.msgpack.encode(form))


@given(st.text(alphabet="a%_\\", max_size=6))
def test_patterns_on_the_wire_are_canonical(pattern: str) -> None:
    refused_or_same(b"A" + msgspec.msgpack.encode([["a", [pattern]]]))
    refused_or_same(b"A" + msgspec.msgpack.encode([["a", [None, pattern]]]))
