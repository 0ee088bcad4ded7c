"""Merging: what is merged is covered, exact merges add nothing, and a budget is kept."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.test_attributes_filter import EVENTS, box_events, small_filters
from tests.strategies import attribute_conjunctions, attribute_events, attribute_filters

from covey.core.attributes.filter import AttributeFilter, hull
from covey.core.attributes.merging import merge_many


@given(attribute_filters(), attribute_filters(), st.lists(attribute_events(), max_size=10))
@settings(max_examples=300)
def test_merge_covers_both_and_adds_nothing_if_exact(
    a: AttributeFilter, b: AttributeFilter, events: list[dict[str, Any]]
) -> None:
    merged, exact = a.merge(b)
    assert merged.covers(a)
    assert merged.covers(b)
    assert exact
    for event in events + EVENTS[::5]:
        assert merged.matches(event) == (a.matches(event) or b.matches(event))


@given(small_filters(2), small_filters(2))
@settings(max_examples=60)
def test_exact_merge_adds_nothing_by_brute_force(a: AttributeFilter, b: AttributeFilter) -> None:
    merged, exact = a.merge(b)
    assert exact
    for event in box_events(a.conjunctions + b.conjunctions):
        assert merged.matches(event) == (a.matches(event) or b.matches(event))


@given(attribute_filters(), attribute_filters())
@settings(max_examples=200)
def test_hull_is_one_conjunction_that_covers_both(a: AttributeFilter, b: AttributeFilter) -> None:
    both = hull(a, b)
    assert both == hull(b, a)
    assert len(both.conjunctions) <= 1
    assert both.covers(a)
    assert both.covers(b)


@given(small_filters(1), small_filters(1), small_filters(1))
@settings(max_examples=200)
def test_hull_is_the_smallest_conjunction(a: AttributeFilter, b: AttributeFilter, c: AttributeFilter) -> None:
    if len(c.conjunctions) == 1 and c.covers(a) and c.covers(b):
        assert c.covers(hull(a, b))


@given(
    st.lists(st.one_of(attribute_conjunctions(), attribute_filters()), max_size=12),
    st.lists(attribute_events(), max_size=30),
    st.sampled_from((0.0, 0.05, 0.3, 1.0)),
)
@settings(max_examples=300)
def test_merging_many(filters: list[AttributeFilter], sample: list[dict[str, Any]], budget: float) -> None:
    results = merge_many(filters, sample=sample, budget=budget)
    assert sorted(index for r in results for index in r.members) == list(range(len(filters)))
    assert [r.members[0] for r in results] == sorted(min(r.members) for r in results)
    for r in results:
        members = [filters[index] for index in r.members]
        assert all(r.filter.covers(member) for member in members)
        wrong = [e for e in sample if r.filter.matches(e) and not any(m.matches(e) for m in members)]
        assert len(wrong) == r.false_positives or budget == 0.0
        if r.exact:
            assert not wrong
            for event in EVENTS[::5]:
                assert r.filter.matches(event) == any(m.matches(event) for m in members)
    assert sum(r.false_positives for r in results) <= budget * len(sample)
    assert budget > 0.0 or all(r.exact for r in results)


@given(st.lists(attribute_conjunctions(), max_size=12), st.randoms(use_true_random=False))
def test_exact_merging_does_not_depend_on_order(filters: list[AttributeFilter], random: Any) -> None:
    shuffled = list(filters)
    random.shuffle(shuffled)
    one = {r.filter for r in merge_many(filters)}
    other = {r.filter for r in merge_many(shuffled)}
    assert len(one) == len(other)
