"""What roots cover and trigger: the counts against a plain reading of their definitions."""

from __future__ import annotations

from random import Random

import pytest

from covey.core.attributes.parser import parse_attributes
from covey.core.filter import Filter
from covey.lab.paper_c.experiments_roots import count_roots, population


def test_a_chain_triggers_its_next_only() -> None:
    """Of x > 1, x > 2, ... one root covers all others, and one is triggered when it leaves."""
    row = count_roots([parse_attributes(f"x > {value}") for value in range(50)])
    assert (row["roots"], row["covered_max"], row["triggered_max"]) == (1, 49, 1)
    assert row["covered_alone_mean"] == 49


def test_a_root_that_another_holds_triggers_nothing() -> None:
    texts = ["x > 0", "x > 0", "x = 1", "x = 2"]
    row = count_roots([parse_attributes(text) for text in texts])
    assert (row["roots"], row["covered_max"], row["triggered_max"]) == (1, 3, 0)
    assert count_roots([parse_attributes(text) for text in texts[1:]])["triggered_max"] == 2


@pytest.mark.parametrize("seed", range(5))
def test_counts_are_those_of_the_definitions(seed: int) -> None:
    filters = population(150, seed)
    filters += Random(seed).sample(filters, 10)
    distinct = list(dict.fromkeys(filters))
    roots = [f for f in distinct if not any(g.covers(f) for g in distinct if g != f)]
    triggered, covered = [], []
    for root in roots:
        covered.append(sum(root.covers(f) for f in filters) - 1)
        left = list(filters)
        left.remove(root)
        told = [f for f in roots if f != root]
        triggered.append(0 if root in left else len(_maximal_without(told, left)))
    row = count_roots(filters)
    assert row["roots"] == len(roots)
    assert row["covered_mean"] == pytest.approx(sum(covered) / len(roots))
    assert row["triggered_mean"] == pytest.approx(sum(triggered) / len(roots))
    assert row["triggered_max"] == max(triggered)


def _maximal_without(told: list[Filter], left: list[Filter]) -> set[Filter]:
    """Return what is covered by nothing that is left and was not told."""
    return {f for f in left if f not in told and not any(g.covers(f) for g in left if g != f)}
