"""An index with few filters asks them in turn, and makes arrays when that is no longer cheaper."""

from __future__ import annotations

import pickle

import pytest

import covey
from covey.core.filter import Filter
from covey.errors import EventError
from covey.matching.index import FEW, PATIENCE, VERY_FEW, Index, warm_up_documents

EVENTS = {"attributes": {"a": 3}, "xpath": "<a><b3/></a>", "keywords": frozenset(("a", "w3"))}


def filter_of(family: str, number: int) -> Filter:
    if family == "attributes":
        return covey.parse(f"a = {number}")
    if family == "xpath":
        return covey.parse(f"/a/b{number}", language="xpath")
    return covey.parse(f"a and w{number}", language="keywords")


def filled(family: str, count: int) -> Index:
    index = Index()
    for number in range(count):
        index.add(number, filter_of(family, number), "link")
    return index


def has_arrays(index: Index, family: str) -> bool:
    return index._attributes is not None if family == "attributes" else family in index._others


def ask(index: Index, family: str) -> None:
    event, filter = EVENTS[family], filter_of(family, 3)
    assert set(index.match(event)) == {3}
    assert [set(keys.tolist()) for keys in index.match_batch([event, {}])] == [{3}, set()]
    assert index.links(event) == {"link"}
    assert index.links_batch([event, {}]) == [{"link"}, set()]
    assert index.covers(filter)
    assert set(index.covering(filter)) == {3}
    assert set(index.covered(filter)) == {3}
    assert 3 in index.overlapping(filter)


@pytest.mark.parametrize("family", EVENTS)
def test_arrays_are_made_for_more_than_a_few(family: str) -> None:
    index = filled(family, FEW)
    ask(index, family)
    assert not has_arrays(index, family)
    index.add(FEW, filter_of(family, FEW), "link")
    ask(index, family)
    assert has_arrays(index, family)
    index.remove_batch([number for number in range(FEW + 1) if number != 3])
    ask(index, family)
    index.remove(3)
    assert not index.match(EVENTS[family])
    assert not index.covering(filter_of(family, 3))


def test_arrays_are_made_for_a_few_that_are_asked_often() -> None:
    index = filled("attributes", VERY_FEW + 1)
    for _ in range(PATIENCE // (VERY_FEW + 1)):
        index.match({"a": 3})
    assert not has_arrays(index, "attributes")
    assert set(index.match({"a": 3})) == {3}
    assert has_arrays(index, "attributes")


def test_very_few_are_always_asked_in_turn() -> None:
    index = filled("attributes", VERY_FEW)
    for _ in range(PATIENCE):
        assert set(index.match({"a": 3})) == {3}
    assert not has_arrays(index, "attributes")


def test_few_filters_refuse_what_arrays_refuse() -> None:
    index = filled("attributes", 2)
    event: dict[str, object] = {"a": 1}
    for _ in range(40):
        event = {"n": event}
    for _ in range(2):
        with pytest.raises(EventError, match="nest deeper than 32 levels"):
            index.match(event)
        index.attributes()
    with pytest.raises(EventError):
        filled("xpath", 1).match("<a>")
    assert not Index().match("<a>")


@pytest.mark.parametrize("family", EVENTS)
def test_an_index_of_a_few_can_go_to_another_process(family: str) -> None:
    index = pickle.loads(pickle.dumps(filled(family, 4)))
    ask(index, family)
    index.remove(3)
    assert not index.match(EVENTS[family])


def test_documents_can_be_warmed_up() -> None:
    warm_up_documents()
