"""Constraints as sets: every operation against membership of many values, and the order laws of covering."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests import special_values
from tests.strategies import (
    EVENT_NUMBERS,
    EVENT_OTHERS,
    EVENT_STRINGS,
    NUMBERS,
    PATTERNS,
    RARE_NUMBERS,
    STRINGS,
    attribute_values,
    conditions_on_one,
    constraints,
)

from covey.core.attributes import constraint as conditions
from covey.core.attributes import cuts, strings
from covey.core.attributes.constraint import EVERYTHING, Constraint

VALUES: list[Any] = [*EVENT_NUMBERS, *EVENT_STRINGS, *EVENT_OTHERS, *special_values.VALUES]
VALUES += [number + step for number in NUMBERS for step in (-0.25, 0.25)]
VALUES += [text + "\0" for text in STRINGS]
VALUES += ["".join(letters) for size in range(5) for letters in product("abz", repeat=size)]

# There is one between any two constants, so a subset of these is a subset. No event has most of them: numbers count as
# dense, even where two float64 are neighbours.
_CONSTANTS = sorted(map(Fraction, {*NUMBERS, *RARE_NUMBERS, *special_values.NUMBERS}))
MIDPOINTS = [(low + high) / 2 for low, high in pairwise(_CONSTANTS)]


def _contains(side: Constraint, value: Any) -> bool:
    if isinstance(value, Fraction):
        return cuts.contains_number(side.numbers, value)  # type: ignore[arg-type]
    return side.contains(value)


@given(constraints(), constraints(), attribute_values())
@settings(max_examples=300)
def test_intersection_holds_what_both_hold(a: Constraint, b: Constraint, value: Any) -> None:
    both = a.intersect(b)
    for each in (*VALUES, value):
        assert both.contains(each) == (a.contains(each) and b.contains(each))
    assert both == b.intersect(a)


@given(constraints(), constraints(), attribute_values())
@settings(max_examples=300)
def test_union_holds_what_either_holds(a: Constraint, b: Constraint, value: Any) -> None:
    either = a.union(b)
    assume(either is not None)
    assert either is not None
    for each in (*VALUES, value):
        assert either.contains(each) == (a.contains(each) or b.contains(each))


@given(constraints(), constraints())
@settings(max_examples=300)
def test_union_is_symmetric(a: Constraint, b: Constraint) -> None:
    assert a.union(b) == b.union(a)


@given(constraints(likes=False), constraints(likes=False))
def test_without_patterns_there_is_always_a_union(a: Constraint, b: Constraint) -> None:
    assert a.union(b) is not None


@given(constraints(), constraints(), attribute_values())
@settings(max_examples=300)
def test_difference_holds_what_only_the_first_holds(a: Constraint, b: Constraint, value: Any) -> None:
    pieces = a.difference(b)
    assert not any(piece.is_empty for piece in pieces)
    for each in (*VALUES, value):
        assert any(p.contains(each) for p in pieces) == (a.contains(each) and not b.contains(each))


@given(constraints(), constraints(), attribute_values())
@settings(max_examples=300)
def test_hull_holds_both(a: Constraint, b: Constraint, value: Any) -> None:
    hull = a.hull(b)
    assert hull.covers(a)
    assert hull.covers(b)
    assert hull.span().covers(hull)
    exact = a.union(b)
    assert exact is None or exact == hull
    for each in (*VALUES, value):
        assert hull.contains(each) or not (a.contains(each) or b.contains(each))


@given(constraints(), constraints())
@settings(max_examples=500)
def test_covers_and_overlaps_agree_with_membership(a: Constraint, b: Constraint) -> None:
    inside = all(a.contains(value) for value in VALUES if b.contains(value))
    meeting = any(a.contains(value) and b.contains(value) for value in VALUES)
    assert inside or not a.covers(b)
    assert a.overlaps(b) or not meeting
    assert a.overlaps(b) == b.overlaps(a) == (not a.intersect(b).is_empty)
    if a.is_plain and b.is_plain:
        assert a.covers(b) == (a.intersect(b) == b)
        assert a.covers(b) == (not b.difference(a))


@given(constraints(likes=False), constraints(likes=False))
@settings(max_examples=500)
def test_covers_is_complete_without_patterns(a: Constraint, b: Constraint) -> None:
    theirs, ours = ([_contains(side, value) for value in (*VALUES, *MIDPOINTS)] for side in (b, a))
    assert a.covers(b) == all(held for held, asked in zip(ours, theirs, strict=True) if asked)
    assert a.overlaps(b) == any(map(all, zip(ours, theirs, strict=True)))


@given(constraints(), constraints(), constraints())
@settings(max_examples=500)
def test_covers_is_a_partial_order(a: Constraint, b: Constraint, c: Constraint) -> None:
    assert a.covers(a)
    if a.covers(b) and b.covers(c):
        assert a.covers(c)
    if a.covers(b) and b.covers(a):
        assert all(a.contains(value) == b.contains(value) for value in VALUES)
        assert a == b or not (a.is_plain and b.is_plain)


def patterned() -> st.SearchStrategy[Constraint]:
    like = st.builds(conditions.like, st.sampled_from(PATTERNS))
    unlike = st.builds(conditions.not_like, st.sampled_from(PATTERNS))
    order = st.builds(conditions.compare, st.sampled_from(("<", ">=", "<>")), st.sampled_from(STRINGS))
    return st.lists(st.one_of(like, unlike, order), min_size=1, max_size=4).map(
        lambda parts: _intersection(parts)
    )


def _intersection(parts: list[Constraint]) -> Constraint:
    result = EVERYTHING
    for part in parts:
        result = result.intersect(part)
    return result


@given(patterned(), patterned(), patterned())
@settings(max_examples=1000)
def test_covers_is_a_partial_order_with_patterns_too(a: Constraint, b: Constraint, c: Constraint) -> None:
    if a.covers(b):
        assert all(a.contains(value) for value in VALUES if b.contains(value))
        assert not b.covers(c) or a.covers(c)
    assert a.covers(a.intersect(b))


@given(patterned())
def test_normal_form_is_stable(a: Constraint) -> None:
    assert strings.normal(*a.string_set) == a.string_set
    assert a.intersect(a) == a
    assert a.union(a) == a
    assert hash(a) == hash(Constraint(**{name: getattr(a, name) for name in a.__struct_fields__}))


@given(conditions_on_one())
def test_everything_and_nothing(a: Constraint) -> None:
    assert EVERYTHING.covers(a)
    assert a.intersect(EVERYTHING) == a
    assert a.union(EVERYTHING) == EVERYTHING
    assert a.difference(a) == []
    assert all(not p.overlaps(a) for p in EVERYTHING.difference(a)) or not a.is_plain
