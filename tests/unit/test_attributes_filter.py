"""Attribute filters: building, matching, covering, limits."""

from __future__ import annotations

import copy
import pickle
from collections import UserDict
from typing import Any

import pytest

from covey.core.attributes import constraint as conditions
from covey.core.attributes.boxes import covers as boxes_cover
from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import Constraint
from covey.core.attributes.filter import (
    FALSE,
    TRUE,
    AttributeFilter,
    conjunction,
    decode_attributes,
    trusted,
)
from covey.core.event import Event
from covey.errors import FilterError


def eq(name: str, value: object) -> AttributeFilter:
    return AttributeFilter.of(name, conditions.compare("=", value))


QUOTE = conjunction([("symbol", "=", "IBM"), ("price", "between", (10, 20))])


def test_matching() -> None:
    assert QUOTE.matches({"symbol": "IBM", "price": 12})
    assert QUOTE.matches(Event({"symbol": "IBM", "price": 20.0, "more": [1]}, b"payload"))
    assert QUOTE.matches(UserDict({"symbol": "IBM", "price": 12}))
    assert not QUOTE.matches({"symbol": "IBM", "price": 20.5})
    assert not QUOTE.matches({"symbol": "IBM"})
    assert not QUOTE.matches({"symbol": "IBM", "price": "12"})
    assert not QUOTE.matches({"symbol": "IBM", "price": True})
    assert not QUOTE.matches({"symbol": "IBM", "price": float("nan")})
    assert not QUOTE.matches({"symbol", "price"})
    assert not QUOTE.matches(None)


def test_nested_names() -> None:
    nested = eq("quote.price", 5)
    assert nested.matches({"quote": {"price": 5}})
    assert nested.matches({"quote.price": 5})
    assert not nested.matches({"quote.price": 6, "quote": {"price": 5}})
    assert not nested.matches({"quote": 5})
    present = AttributeFilter.of("quote", conditions.present())
    assert not present.matches({"quote": {"price": 5}})
    assert present.matches({"quote": float("nan")})


def test_odd_strings_in_events_do_no_harm() -> None:
    f = conjunction([("a", ">", "b"), ("a", "like", "%c_")])
    assert f.matches({"a": "\ud800c\udfff"})
    assert not f.matches({"a": "\ud800"})


@pytest.mark.parametrize(
    ("items", "event", "matches"),
    [
        ([], {}, True),
        ([("a", "=", 1)], {"a": 1.0}, True),
        ([("a", "<>", 1)], {"a": 2}, True),
        ([("a", ">", 1), ("a", "<", 3)], {"a": 2}, True),
        ([("a", ">", 1), ("a", "<", 3)], {"a": 3}, False),
        ([("a", "not between", (1, 3))], {"a": 4}, True),
        ([("a", "in", {1, "x"})], {"a": "x"}, True),
        ([("a", "NOT  IN", [1, 2])], {"a": 3}, True),
        ([("a", "like", "x%")], {"a": "xy"}, True),
        ([("a", "not like", ("x!%", "!"))], {"a": "xy"}, True),
        ([("a", "is null")], {}, True),
        ([("a", "is not null")], {}, False),
        ([("a", "exists")], {"a": [1]}, True),
        ([("a", "=", 1), ("a", "=", 2)], {"a": 1}, False),
        ([["a", "=", True]], {"a": True}, True),
    ],
)
def test_conjunction_from_items(items: Any, event: dict[str, object], matches: bool) -> None:
    assert conjunction(items).matches(event) is matches


@pytest.mark.parametrize(
    "item",
    [
        ("a", "~", 1),
        ("a", "="),
        ("a", "exists", 1),
        ("a",),
        "a=1",
        5,
        ("", "=", 1),
        (1, "=", 1),
        ("a", 5, 1),
        ("n" * 257, "=", 1),
        ("\ud800", "=", 1),
        ("a", "between", 5),
        ("a", "between", "ab"),
        ("a", "in", "ab"),
        ("a", "in", []),
        ("a", "like", 5),
        ("a", "like", ("a", 5)),
        ("a", "=", float("nan")),
        ("a", "=", 2**63),
    ],
)
def test_bad_items_are_named_by_their_index(item: Any) -> None:
    with pytest.raises(FilterError, match="item 1"):
        conjunction([("a", "=", 1), item])


def test_true_and_false() -> None:
    assert TRUE.matches({})
    assert not FALSE.matches({"a": 1})
    assert conjunction([]) == TRUE
    assert AttributeFilter.all_of([]) == TRUE
    assert AttributeFilter.any_of([]) == FALSE
    assert AttributeFilter.of("a", conditions.EVERYTHING) == TRUE
    assert AttributeFilter.of("a", conditions.NOTHING) == FALSE
    assert TRUE.covers(FALSE)
    assert not FALSE.covers(TRUE)
    assert FALSE.covers(FALSE)
    assert not FALSE.overlaps(TRUE)


def test_simplification() -> None:
    any_of, all_of = AttributeFilter.any_of, AttributeFilter.all_of
    assert any_of([eq("a", 1), eq("a", 2)]) == conjunction([("a", "in", [1, 2])])
    assert any_of([eq("a", 1), all_of([eq("a", 1), eq("b", 1)])]) == eq("a", 1)
    assert all_of([eq("a", 1), any_of([eq("a", 2), eq("b", 1)])]) == all_of([eq("a", 1), eq("b", 1)])
    halves = [conjunction([("a", op, 5), ("b", "=", 1)]) for op in ("<", ">=")]
    assert any_of(halves) == conjunction([("a", "<>", 5), ("b", "=", 1)]).merge(halves[1]).filter
    everywhere = [AttributeFilter.of("a", c) for c in (conditions.null(), conditions.present())]
    assert any_of(everywhere) == TRUE
    square = [
        conjunction([("a", x, 5), ("b", y, 5)]) for x in ("<", ">=") for y in ("<", ">=")
    ]  # four quarters of the plane of numbers
    number = conjunction([("a", "<>", 0), ("b", "<>", 0)])
    assert any_of(square).covers(number)
    assert len(any_of(square).conjunctions) == 1


def test_unions_cover_what_no_part_covers() -> None:
    # An L and its missing corner, none of which can be joined.
    parts = [
        conjunction([("a", "<", 5), ("b", "<", 9)]),
        conjunction([("a", "between", (5, 9)), ("b", "<", 5)]),
        conjunction([("a", "between", (4, 9)), ("b", "between", (5, 8))]),
    ]
    union = AttributeFilter.any_of(parts)
    assert len(union.conjunctions) == 3
    assert union.covers(conjunction([("a", "between", (0, 9)), ("b", "between", (0, 8))]))
    assert not union.covers(conjunction([("a", "between", (0, 9)), ("b", "between", (0, 8.5))]))
    assert not union.covers(conjunction([("a", "between", (0, 9))]))


def test_unions_of_boxes_over_six_attributes() -> None:
    names = "abcdef"
    tiles = [
        Conjunction(
            tuple(
                (name, conditions.compare("<" if corner >> k & 1 else ">=", 10 + k))
                for k, name in enumerate(names)
            )
        )
        for corner in range(64)
    ]
    cube = conjunction([(name, "between", (0, 20)) for name in names]).conjunctions
    assert boxes_cover(tiles, cube)
    assert not boxes_cover(tiles[1:], cube)


def test_unions_with_patterns_cover_soundly() -> None:
    either = AttributeFilter.any_of(
        [
            conjunction([("a", "like", "%x"), ("b", "=", 1)]),
            conjunction([("a", "not like", "%x"), ("b", ">", 0)]),
        ]
    )
    assert either.covers(conjunction([("a", "between", ("a", "b")), ("b", "=", 1)]))
    assert not either.covers(conjunction([("a", "between", ("a", "b")), ("b", "=", 2)]))


def test_too_much_is_refused() -> None:
    pairs = [AttributeFilter.any_of([eq(f"x{k}", 1), eq(f"y{k}", 1)]) for k in range(20)]
    with pytest.raises(FilterError, match="conjunctions"):
        AttributeFilter.all_of(pairs)
    assert len(AttributeFilter.all_of(pairs[:6]).conjunctions) == 64
    with pytest.raises(FilterError, match="conjunctions"):
        AttributeFilter.any_of([eq(f"x{k}", 1) for k in range(65)])
    many = AttributeFilter.any_of([eq("x", 2 * k) for k in range(1000)])
    assert len(many.conjunctions) == 1


def test_filters_are_values() -> None:
    again = conjunction([("price", "between", (10, 20.0)), ("symbol", "in", ["IBM"])])
    assert again == QUOTE
    assert hash(again) == hash(QUOTE)
    assert eq("a", 1) != QUOTE
    assert QUOTE != "text"
    assert pickle.loads(pickle.dumps(QUOTE)) == QUOTE
    assert copy.deepcopy(QUOTE) == QUOTE
    with pytest.raises(AttributeError):
        QUOTE.conjunctions = ()
    with pytest.raises(AttributeError):
        del QUOTE.conjunctions
    assert AttributeFilter(reversed(QUOTE.conjunctions)) == QUOTE


def test_other_families_neither_cover_nor_overlap() -> None:
    from covey.core.keywords.filter import KeywordFilter
    from covey.core.keywords.parser import parse_keywords

    words = parse_keywords("a or b")
    assert isinstance(words, KeywordFilter)
    assert not TRUE.covers(words)
    assert not TRUE.overlaps(words)
    with pytest.raises(FilterError):
        TRUE.merge(words)


def test_a_decoded_filter_is_the_same_before_and_after_its_conjunctions_are_made() -> None:
    several = AttributeFilter.any_of([QUOTE, conjunction([("x", "in", [1, "a", True])])])
    for whole in (QUOTE, TRUE, FALSE, several):
        decoded = decode_attributes(whole.encode())
        kept = decoded.compact()
        assert kept == decoded == whole
        assert hash(kept) == hash(decoded) == hash(whole)
        assert kept.conjunctions == decoded.conjunctions == whole.conjunctions
        assert kept == decoded == whole
        assert kept.compact() is kept
        assert whole.compact() is whole
        assert pickle.loads(pickle.dumps(kept)) == pickle.loads(pickle.dumps(decoded)) == whole
        for one in (whole, decoded, kept):
            assert one.overlaps(TRUE) == TRUE.overlaps(one) == (whole != FALSE)
            with pytest.raises(AttributeError):
                one.wire = b""
    with pytest.raises(AttributeError, match="no attribute 'constraints'"):
        getattr(decode_attributes(TRUE.encode()), "constraints")  # noqa: B009 (it has none, as types say too)


def test_numbers_computed_as_floats_make_equal_filters() -> None:
    computed = trusted((Conjunction((("x", Constraint(numbers=((1.0, 0), (-0.0 + 3.0, 1)))),)),))
    plain = conjunction([("x", "between", (1, 3))])
    assert computed == plain
    assert hash(computed) == hash(plain)
    assert computed.encode() == plain.encode()
    assert decode_attributes(computed.encode()) == computed


def test_a_filter_too_long_for_the_wire_has_a_hash() -> None:
    values = [f"{k:03}" + "x" * 400 for k in range(300)]
    long, again = (
        AttributeFilter.any_of([eq("a", value) for value in some]) for some in (values, values[::-1])
    )
    assert long == again
    assert hash(long) == hash(again)
    with pytest.raises(FilterError):
        long.encode()
