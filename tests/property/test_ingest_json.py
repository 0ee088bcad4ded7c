"""Events' JSON: what the quick reader gives is what the reader gives that looks at every name, or it gives nothing."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from covey.core.packing import pack
from covey.errors import EventError
from covey.pipeline.ingest import encode_attributes, quick_object

NAMES = st.sampled_from(["a", "b", "a:b", ":", "", "é", "a.b", '"', "\\", "\t"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**66), 2**66),
    st.floats(allow_nan=False, allow_infinity=False),
    NAMES,
    st.text(max_size=5),
)
SPACE = st.sampled_from(["", " ", "\n ", "\t"])


class Pairs(list[tuple[str, Any]]):
    """An object whose names may repeat."""


VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(NAMES, inner), max_size=3).map(Pairs),
)
OBJECTS = st.lists(st.tuples(NAMES, VALUES), max_size=4).map(Pairs)


def written(value: Any, space: str, ascii_only: bool) -> str:
    """Return a value as JSON, with space wherever there may be some."""
    if isinstance(value, Pairs):
        inside = [
            f"{space}{json.dumps(name, ensure_ascii=ascii_only)}{space}:{space}{written(one, space, ascii_only)}"
            for name, one in value
        ]
        return f"{{{','.join(inside)}{space}}}"
    if isinstance(value, list):
        return f"[{','.join(written(one, space, ascii_only) for one in value)}{space}]"
    return json.dumps(value, ensure_ascii=ascii_only)


def by_the_slow_reader(text: str) -> Any:
    """Read with Python's own reader; ValueError for a name that is there twice, and for what is beyond all numbers."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise ValueError("twice")
        return dict(pairs)

    def finite(digits: str) -> float:
        if math.isinf(float(digits)):
            raise ValueError("out of range")
        return float(digits)

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    decoder = json.JSONDecoder(object_pairs_hook=once, parse_float=finite, parse_constant=refuse)
    return decoder.decode(text)


def check(text: str) -> None:
    """The quick reader gives the slow one's answer or none; the packed form is that of the slow one's answer."""
    try:
        expected = by_the_slow_reader(text)
    except (ValueError, RecursionError):
        expected = None
    quick = quick_object(text)
    assert quick is None or (same(quick, expected) and list(quick) == list(expected))
    try:
        packed = pack(expected) if isinstance(expected, dict) else None
    except EventError:
        packed = None
    try:
        assert encode_attributes(text) == packed
    except EventError:
        assert packed is None


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types throughout: 1 is not 1.0, and 0.0 is not -0.0."""
    return repr(one) == repr(other)


@given(OBJECTS, SPACE, st.booleans())
def test_the_quick_reader_agrees_or_is_silent(value: Pairs, space: str, ascii_only: bool) -> None:
    check(written(value, space, ascii_only))


@given(st.text(alphabet='{}[]":,\\u0a1e-. \n', max_size=30))
@example('{"a":1,"a" : 2}')
@example('{"a":":","a":2}')
@example('{"a":"\\u003a","a":2}')
@example('{"b":"\\u003a","a":1,"a":2}')
@example('{"a":{"b":1,"b":2}}')
@example('{"a":[{"b":1,"b":2}],"c":"::"}')
@example('{"a":1e999}')
@example('{"a":-0}')
@example('{"a":-0.0}')
@example('{"a":NaN}')
@example('{"a":"\\ud800"}')
@example("[1]")
@example('{"a":' + "[" * 5_000)
@example('{"a":' + "[" * 700 + "]" * 700 + "}")
@example('{"a":' + '{"a":' * 700 + "1" + "}" * 701)
def test_texts_that_are_hardly_json(text: str) -> None:
    check(text)


@pytest.mark.parametrize(
    "text", ['{"a": 1, "b": "x"}', '{"at": "12:30"}', '{"a": {"b": 1}, "c": [{"d": ":"}]}', "{}"]
)
def test_usual_events_are_read_quickly(text: str) -> None:
    assert quick_object(text) == json.loads(text)
