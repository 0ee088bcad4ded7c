"""Attribute filters: the order laws, and every decision against brute force over a small finite domain.

Without general LIKE patterns a filter tells apart only finitely many values: its constants, one value between each
two of them and beyond, and one of every other kind. All events made of those are tried, so that a subset of them is a
subset: soundness and completeness at once.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import attribute_events, attribute_filters, hostile_filters

from covey.core.attributes import boxes
from covey.core.attributes import constraint as conditions
from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import Constraint
from covey.core.attributes.filter import FALSE, TRUE, AttributeFilter
from covey.core.attributes.like import parse_pattern, pattern_text
from covey.core.attributes.simplify import MAX_CONJUNCTIONS, is_simplified, simplify
from covey.core.attributes.strings import pattern_cuts
from covey.core.attributes.wire import _is_canonical_pattern
from covey.core.event import Event
from covey.core.families import decode
from covey.errors import FilterError

# Constants 1, 2, 'a', 'b' and booleans; then these values are all that can be told apart.
DOMAIN: tuple[Any, ...] = (None, True, False, float("nan"), 0, 1, 1.5, 2, 3, "", "a", "a\0", "b", "c")
NAMES = ("a", "b", "c")
EVENTS = [{"a": x, "b": y} | third for x in DOMAIN for y in DOMAIN for third in ({}, {"c": 1}, {"c": "a"})]
EVENTS += [{"a": x, "b": 1, "c": y} for x in DOMAIN[1:] for y in DOMAIN[1:]]


def small_constraints() -> st.SearchStrategy[Constraint]:
    ordered = st.sampled_from((1, 2, "a", "b"))
    anything = st.sampled_from((1, 2, "a", "b", True, False))
    return st.one_of(
        st.builds(conditions.compare, st.sampled_from(conditions.COMPARISONS), ordered),
        st.builds(conditions.compare, st.sampled_from(("=", "<>")), anything),
        st.builds(conditions.within, st.lists(anything, min_size=1, max_size=3)),
        st.builds(conditions.null),
        st.builds(conditions.present),
    )


def small_filters(max_conjunctions: int = 4) -> st.SearchStrategy[AttributeFilter]:
    side = st.builds(AttributeFilter.of, st.sampled_from(NAMES), small_constraints())
    box = st.lists(side, min_size=1, max_size=3).map(AttributeFilter.all_of)
    return st.lists(box, min_size=1, max_size=max_conjunctions).map(AttributeFilter.any_of)


def box_events(boxes: Iterable[Conjunction]) -> list[dict[str, Any]]:
    """All events of the domain over the attributes that the boxes limit."""
    names = sorted({name for box in boxes for name, _ in box.constraints})
    return [
        {name: value for name, value in zip(names, values, strict=True) if value is not None}
        for values in product(DOMAIN, repeat=len(names))
    ]


@given(small_filters(), small_filters())
@settings(max_examples=150)
def test_covers_and_overlaps_equal_brute_force(a: AttributeFilter, b: AttributeFilter) -> None:
    events = box_events(a.conjunctions + b.conjunctions)
    in_a = [a.matches(event) for event in events]
    in_b = [b.matches(event) for event in events]
    assert a.covers(b) == all(x or not y for x, y in zip(in_a, in_b, strict=True))
    assert b.covers(a) == all(y or not x for x, y in zip(in_a, in_b, strict=True))
    assert a.overlaps(b) == b.overlaps(a) == any(x and y for x, y in zip(in_a, in_b, strict=True))


@given(small_filters(3), st.data())
@settings(max_examples=60)
def test_a_filter_cut_into_pieces_is_covered_by_all_of_them_together(f: AttributeFilter, data: Any) -> None:
    halves = [f]
    for name in NAMES:
        side = data.draw(small_constraints())
        pieces = conditions.EVERYTHING.difference(side)
        halves = [
            AttributeFilter.all_of([half, AttributeFilter.of(name, piece)])
            for half in halves
            for piece in (side, *pieces)
        ]
    whole = AttributeFilter.any_of(halves)
    assert whole.covers(f)
    assert f.covers(whole)


def _cut(box: AttributeFilter, cuts: list[tuple[str, Constraint]]) -> list[AttributeFilter]:
    """Cut the box in two along each side in turn, oldest part first."""
    parts = [box]
    for name, side in cuts if box != FALSE else ():
        whole = parts.pop(0)
        rests = conditions.EVERYTHING.difference(side)
        halves = [AttributeFilter.all_of([whole, AttributeFilter.of(name, c)]) for c in (side, *rests)]
        parts += [half for half in halves if half != FALSE]
    return parts


@given(
    small_filters(1),
    st.lists(st.tuples(st.sampled_from(NAMES), small_constraints()), min_size=2, max_size=6),
    st.lists(small_filters(1), max_size=2),
    st.integers(0, 6),
)
@settings(max_examples=300)
def test_unions_of_parts_cover_the_whole_exactly_if_no_part_is_missing(
    whole: AttributeFilter,
    cuts: list[tuple[str, Constraint]],
    more: list[AttributeFilter],
    missing: int,
) -> None:
    parts = _cut(whole, cuts)
    if missing < len(parts):
        del parts[missing]
    # Boxes as they are, not simplified: joining would hide what cutting has to find.
    union = [box for part in (*parts, *more) for box in part.conjunctions]
    events = box_events([*union, *whole.conjunctions])
    expected = all(any(box.matches(event) for box in union) for event in events if whole.matches(event))
    assert boxes.covers(union, whole.conjunctions) == expected


@given(attribute_filters(), attribute_filters(), attribute_filters())
@settings(max_examples=300)
def test_covers_is_a_partial_order(a: AttributeFilter, b: AttributeFilter, c: AttributeFilter) -> None:
    assert a.covers(a)
    assert TRUE.covers(a)
    assert a.covers(FALSE)
    if a.covers(b) and b.covers(c):
        assert a.covers(c)
    if a.covers(b) and b.covers(a):
        assert all(a.matches(event) == b.matches(event) for event in EVENTS)


@given(st.one_of(small_filters(), attribute_filters()), st.one_of(small_filters(), attribute_filters()))
@settings(max_examples=300)
def test_wire_forms_are_compared_as_what_they_say(a: AttributeFilter, b: AttributeFilter) -> None:
    for one, other in ((a, b), (b, a), (a, a)):
        mine, theirs = (decode(each.encode()) for each in (one, other))
        for left, right in ((mine, theirs), (mine.compact(), theirs.compact()), (mine, other), (one, theirs)):
            assert left.covers(right) == one.covers(other)
            assert left.overlaps(right) == one.overlaps(other)


@given(attribute_filters(), attribute_filters(), st.lists(attribute_events(), min_size=5, max_size=20))
@settings(max_examples=300)
def test_covers_and_overlaps_are_true_to_matching(
    a: AttributeFilter, b: AttributeFilter, events: list[dict[str, Any]]
) -> None:
    for event in events + EVENTS[::7]:
        if b.matches(event):
            assert a.matches(event) or not a.covers(b)
            assert a.overlaps(b) or not a.matches(event)
    assert a.overlaps(b) == b.overlaps(a)


@given(attribute_filters(), attribute_filters(), st.lists(attribute_events(), min_size=5, max_size=20))
@settings(max_examples=300)
def test_any_of_and_all_of_are_or_and_and(
    a: AttributeFilter, b: AttributeFilter, events: list[dict[str, Any]]
) -> None:
    either, both = AttributeFilter.any_of([a, b]), AttributeFilter.all_of([a, b])
    for event in events + EVENTS[::5]:
        assert either.matches(event) == (a.matches(event) or b.matches(event))
        assert both.matches(event) == (a.matches(event) and b.matches(event))
    assert either == AttributeFilter.any_of([b, a])
    assert both == AttributeFilter.all_of([b, a])
    assert either.covers(a)
    assert either.covers(b)
    assert a.covers(both)


@given(st.lists(attribute_filters(), min_size=1, max_size=4))
def test_simplification_is_stable_and_its_parts_are_simplified(filters: list[AttributeFilter]) -> None:
    f = AttributeFilter.any_of(filters)
    assert is_simplified(f.conjunctions)
    assert simplify(reversed(f.conjunctions)) == f.conjunctions
    assert AttributeFilter.any_of([f, *filters]) == f
    if f.conjunctions:
        part = f.conjunctions[1:]
        assert simplify(part) == part
    assert not any(side.is_empty or side.is_everything for c in f.conjunctions for _, side in c.constraints)


@given(st.lists(st.text("ab%_", min_size=1, max_size=5), min_size=2, max_size=6), st.booleans())
def test_patterns_are_simplified_as_simplifying_them_says(texts: list[str], is_wide: bool) -> None:
    boxes = []
    for k, text in enumerate(texts):
        side = conditions.like(text)
        sides = {"a": side} if not is_wide else {"a": side, "b": conditions.compare("=", k % 2)}
        if not side.is_everything:
            boxes.append(Conjunction(tuple(sides.items())))
    found = tuple(sorted(set(boxes)))
    assert is_simplified(found) == (simplify(found) == found)


@given(st.text("ab%_\\é", min_size=1, max_size=6))
def test_patterns_on_the_wire_have_their_one_form(text: str) -> None:
    try:
        tokens = parse_pattern(text, "\\")
        expected = pattern_text(tokens) == text and pattern_cuts(tokens) is None
    except FilterError:
        with pytest.raises(FilterError):
            _is_canonical_pattern(text)
        return
    assert _is_canonical_pattern(text) == expected


@given(attribute_filters(), attribute_events())
def test_an_event_matches_wrapped_as_bare(f: AttributeFilter, event: dict[str, Any]) -> None:
    assert f.matches(Event(event, b"payload")) == f.matches(event)
    assert not f.matches({"a", "b"})
    assert not f.matches("<a/>")


@given(attribute_filters(), attribute_events())
def test_matching_is_what_the_constraints_say(f: AttributeFilter, event: dict[str, Any]) -> None:
    from covey.core.event import lookup

    expected = any(
        all(side.contains(lookup(event, name)) for name, side in box.constraints) for box in f.conjunctions
    )
    assert f.matches(event) == expected


@given(attribute_filters())
def test_copies_are_equal(f: AttributeFilter) -> None:
    again = pickle.loads(pickle.dumps(f))
    assert again == f
    assert hash(again) == hash(f)
    assert AttributeFilter(f.conjunctions) == f


@given(hostile_filters())
@settings(max_examples=50)
def test_limits_hold(f: AttributeFilter | None) -> None:
    if f is not None:
        assert len(f.conjunctions) <= MAX_CONJUNCTIONS
        assert f.covers(f)


@given(st.integers(1, 12), st.integers(2, 4))
@settings(max_examples=20)
def test_distributing_ends_in_an_answer_or_an_error(factors: int, width: int) -> None:
    side = [
        AttributeFilter.any_of(
            AttributeFilter.of(f"n{i}_{j}", conditions.compare("=", 1)) for j in range(width)
        )
        for i in range(factors)
    ]
    try:
        f = AttributeFilter.all_of(side)
    except FilterError:
        assert width**factors > MAX_CONJUNCTIONS
    else:
        assert len(f.conjunctions) == width**factors
