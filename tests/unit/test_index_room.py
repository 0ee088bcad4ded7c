"""The heap of an attribute index: kernels take no more words than there are, whatever filters come and go."""

from __future__ import annotations

import random

import pytest

import covey
from covey.core.attributes.filter import conjunction
from covey.matching.attributes.heap import HEAP_ROOM, TOP
from covey.matching.attributes.index import AttributeIndex
from covey.matching.index import Index


def spans(number: int, sides: int) -> covey.Filter:
    """Return a filter of wide ranges, all of different channels, none like that of another number."""
    chance = random.Random(number)
    return conjunction(
        [(f"w{k}", "between", (chance.random() * 10, 20 + chance.random() * 10)) for k in range(sides)]
    )


def taken_beyond(index: AttributeIndex) -> int:
    """Return how many words of the heap are in use that do not exist; at most none."""
    return int(index.store.meta[TOP] - index.store.meta[HEAP_ROOM])


@pytest.mark.parametrize(("sides", "count"), [(3, 2_000), (40, 300), (200, 40), (600, 12)])
def test_wide_filters_that_are_compared_stay_within_the_heap(sides: int, count: int) -> None:
    index = Index()
    for _ in index.preparing():  # as routers do: postings are kept from now on
        pass
    for number in range(count):
        index.add(number, spans(number, sides))
        assert taken_beyond(index.attributes()) <= 0, number
    assert len(index.covered(conjunction([("w0", ">", -1)]))) == count
    for number in range(count):
        index.remove(number)
        assert taken_beyond(index.attributes()) <= 0, number


@pytest.mark.parametrize("sides", [2, 60])
def test_rows_of_a_full_short_list_go_to_full_buckets_within_the_heap(sides: int) -> None:
    index = Index()
    most = -(10**9)
    for number in range(1_500):
        index.add(number, spans(number % 350 * 1_000 + number // 350, sides))
        most = max(most, taken_beyond(index.attributes()))
    assert most <= 0
