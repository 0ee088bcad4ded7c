"""Merging: two filters, hulls, many filters, and the budget."""

from __future__ import annotations

import pytest

from covey.core.attributes import constraint as conditions
from covey.core.attributes.filter import FALSE, TRUE, AttributeFilter, conjunction, hull
from covey.core.attributes.merging import Merged, merge_many
from covey.core.keywords.parser import parse_keywords
from covey.errors import FilterError


def price(low: float, high: float, symbol: str = "IBM") -> AttributeFilter:
    return conjunction([("symbol", "=", symbol), ("price", "between", (low, high))])


def test_merging_two() -> None:
    assert price(1, 9).merge(price(2, 3)) == (price(1, 9), True)
    assert price(2, 3).merge(price(1, 9)) == (price(1, 9), True)
    assert price(1, 5).merge(price(4, 9)) == (price(1, 9), True)
    apart = price(1, 5).merge(price(1, 5, "MSFT"))
    assert apart == (conjunction([("symbol", "in", ["IBM", "MSFT"]), ("price", "between", (1, 5))]), True)
    either = price(1, 5).merge(price(2, 9, "MSFT"))
    assert either.exact
    assert isinstance(either.filter, AttributeFilter)
    assert len(either.filter.conjunctions) == 2
    assert FALSE.merge(price(1, 2)) == (price(1, 2), True)
    assert TRUE.merge(price(1, 2)) == (TRUE, True)


def test_a_merge_beyond_the_limits_is_a_hull() -> None:
    many = [
        AttributeFilter.any_of(
            [conjunction([("a", "<", k), ("b", ">", k)]) for k in range(start, start + 40)]
        )
        for start in (0, 40)
    ]
    merged, exact = many[0].merge(many[1])
    assert not exact
    assert merged == conjunction([("a", "<", 79), ("b", ">", 0)])
    assert merged.covers(many[0])
    assert merged.covers(many[1])


def test_a_merge_too_long_for_the_wire_is_a_hull() -> None:
    texts = [[f"{k:04}" + "x" * 300 for k in range(start, start + 150)] for start in (0, 150)]
    halves = [AttributeFilter.of("a", conditions.within(found)) for found in texts]
    merged, exact = halves[0].merge(halves[1])
    assert not exact
    assert merged == AttributeFilter.of("a", conditions.between(texts[0][0], texts[1][-1]))
    assert merged.encode()


def test_hulls() -> None:
    gap = hull(price(1, 2), price(5, 6, "MSFT"))
    assert gap.covers(price(5, 6))
    assert not gap.matches({"symbol": "IBM", "price": 3})
    assert hull(price(1, 2), conjunction([("volume", ">", 1)])) == TRUE
    assert hull(price(1, 2), conjunction([("price", "=", 2)])) == conjunction([("price", "between", (1, 2))])
    assert hull(FALSE, price(1, 2)) == price(1, 2)
    assert hull(FALSE, FALSE) == FALSE
    likes = [conjunction([("a", "like", pattern)]) for pattern in ("%ax", "%bx")]
    assert hull(*likes) == conjunction([("a", "like", "%")])


def test_exact_merging_of_many() -> None:
    filters = [price(1, 5), price(2, 3), price(5, 9), price(1, 9, "MSFT"), price(3, 4, "SAP"), price(1, 5)]
    results = merge_many(filters)
    both = conjunction([("symbol", "in", ["IBM", "MSFT"]), ("price", "between", (1, 9))])
    assert results == [Merged(both, (0, 1, 2, 3, 5), True, 0), Merged(price(3, 4, "SAP"), (4,), True, 0)]
    assert merge_many([]) == []
    assert merge_many([TRUE, price(1, 2), FALSE]) == [Merged(TRUE, (0, 1, 2), True, 0)]


def test_merging_within_a_budget_takes_the_cheapest_first() -> None:
    filters = [price(1, 2), price(1, 2.5, "MSFT"), price(50, 90, "SAP")]
    sample = [{"symbol": s, "price": p} for s in ("IBM", "MSFT", "SAP") for p in (1, 2.25, 60, 70)]
    assert len(merge_many(filters, sample=sample)) == 3
    results = merge_many(filters, sample=sample, budget=0.1)
    assert [(r.members, r.exact, r.false_positives) for r in results] == [((0, 1), False, 1), ((2,), True, 0)]
    assert len(merge_many(filters, sample=sample, budget=1.0)) == 1
    assert len(merge_many(filters, sample=[], budget=1.0)) == 3


def test_other_families_and_mixed_lists() -> None:
    words = [parse_keywords(text) for text in ("nokia", "nokia and phone", "watch")]
    results = merge_many([*words, price(1, 2), price(2, 3)])
    assert [r.members for r in results] == [(0, 1), (2,), (3, 4)]
    assert results[0].filter == words[0]
    sample = [{"nokia"}, {"watch"}, {"symbol": "IBM", "price": 1}]
    for r in merge_many([*words, price(1, 2)], sample=sample, budget=0.5):
        assert all(r.filter.covers([*words, price(1, 2)][index]) for index in r.members)


@pytest.mark.parametrize("budget", [-0.1, 1.1, float("nan")])
def test_budgets_are_shares(budget: float) -> None:
    with pytest.raises(FilterError):
        merge_many([], budget=budget)


def test_a_thousand_filters() -> None:
    filters = [price(k % 37, k % 37 + 1, f"S{k % 101}") for k in range(1000)]
    results = merge_many(filters)
    assert sorted(index for r in results for index in r.members) == list(range(1000))
    assert len(results) < 110
