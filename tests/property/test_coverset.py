"""Sets of filters that narrow down who can cover whom, and indexes in which changes wait, answer as each in turn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import covey
from covey.core.attributes.filter import FALSE, TRUE
from covey.core.filter import Filter
from covey.core.xpath.filter import parse_xpath
from covey.errors import FilterError
from covey.matching import index as index_module
from covey.matching.index import Index
from covey.matching.scan import ScanIndex
from covey.strategies import coverset
from covey.strategies.coverset import CoverSet

TEXTS = (
    "s = 'a'",
    "s = 'b'",
    "s = 'a' and x = 1",
    "s = 'b' and x between 1 and 2",
    "s = 'a' and x between 0 and 3",
    "s in ('a', 'b')",
    "s in ('a', 'b') and x = 1",
    "x = 1",
    "x = 1.0 and y is null",
    "x > 0",
    "s like 'a%'",
    "s like '%a%'",
    "s = 'a' and s not like '%a%b%'",
    "b = true",
    "b = true and s = 'a'",
    "(s = 'a' and x = 1) or (s = 'a' and y = 2)",
    "s = 'a' or x = 1",
)
FILTERS: list[Filter] = [FALSE, TRUE, *map(covey.parse, TEXTS)]
FILTERS += [parse_xpath("/a/b"), parse_xpath("/a")]
EVENTS = [{"s": "a"}, {"s": "b", "x": 1}, {"x": 1}, {"b": True}, {"s": "ab", "y": 2}, {}]

numbers = st.integers(0, len(FILTERS) - 1)


@pytest.mark.parametrize("few", [0, 3, 16])
@given(changes=st.lists(numbers, max_size=40), asked=numbers, begun=st.integers(0, 40))
def test_a_set_answers_as_each_filter_in_turn(few: int, changes: list[int], asked: int, begun: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coverset, "FEW", few)
        found: CoverSet[int] = CoverSet()
        there: dict[int, Filter] = {}
        making = found.indexing(2)  # of which some is done after each change from the one `begun` on
        for step, number in enumerate(changes):
            # The same filter may be there under several keys; every third step one leaves.
            if step % 3 == 2 and there:
                key = list(there)[number % len(there)]
                assert found.remove(key) == there.pop(key)
            else:
                found.add(step, FILTERS[number])
                there[step] = FILTERS[number]
            if step >= begun:
                next(making, None)
            filter = FILTERS[(asked + step) % len(FILTERS)]
            covering = {key for key, other in there.items() if other.covers(filter)}
            assert found.covers(filter) == bool(covering)
            assert sorted(found.covering(filter)) == sorted(covering)
            assert sorted(found.covered(filter)) == [k for k, other in there.items() if filter.covers(other)]
            assert sorted(found.overlapping(filter)) == [
                k for k, other in there.items() if filter.overlaps(other)
            ]
            event = EVENTS[step % len(EVENTS)]
            assert found.matches(event) == any(other.matches(event) for other in there.values())
            assert len(found) == len(there)


def test_values_that_are_taken_for_one_change_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverset, "_value", lambda name, value: hash(str(value)) % 2)
    filters = [covey.parse(f"x = {n} and y = {m}") for n in range(4) for m in range(4)]
    filters += [covey.parse(f"x = {n}") for n in range(4)]
    for few in (3, 16, 100):
        monkeypatch.setattr(coverset, "FEW", few)
        coverset._last_values.cache_clear()
        found: CoverSet[int] = CoverSet()
        for key, filter in enumerate(filters):
            found.add(key, filter)
        for left in (20, 10):
            for asked in filters:
                there = list(enumerate(filters[:left]))
                assert sorted(found.covering(asked)) == [key for key, one in there if one.covers(asked)]
                assert sorted(found.covered(asked)) == [key for key, one in there if asked.covers(one)]
            for key in range(10, left):
                found.remove(key)
        for key in range(10):
            found.remove(key)
        assert not found._by_value
    coverset._last_values.cache_clear()


@pytest.mark.parametrize("waiting", [1, 3, 1_000])
@given(changes=st.lists(numbers, max_size=40))
def test_an_index_in_which_changes_wait_answers_as_the_scan(waiting: int, changes: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_module, "MOST_WAITING", waiting)
        index, plain = Index(), ScanIndex()
        keys: list[int] = []
        for step, number in enumerate(changes):
            if step % 3 == 2 and keys:
                key = keys.pop(number % len(keys))
                index.remove(key)
                plain.remove(key)
            else:
                keys.append(step)
                index.add(step, FILTERS[number], f"link {step % 2}")
                plain.add(step, FILTERS[number], f"link {step % 2}")
            assert len(index) == len(plain)
            assert all(key in index for key in keys)
            if number % 4 == 0:
                filter, event = FILTERS[number], EVENTS[step % len(EVENTS)]
                assert set(index.match(event)) == set(plain.match(event))
                assert index.links(event) == plain.links(event)
                assert index.covers(filter) == bool(plain.covering(filter))
                assert set(index.covering(filter)) == set(plain.covering(filter))
                assert set(index.covered(filter)) == set(plain.covered(filter))
                assert set(index.overlapping(filter)) == set(plain.overlapping(filter))


def test_an_index_in_which_changes_wait_says_at_once_what_is_wrong() -> None:
    index = Index()
    index.add("a", FILTERS[2])
    with pytest.raises(ValueError, match="'a' is in the index already"):
        index.add("a", FILTERS[3])
    index.match({})
    with pytest.raises(ValueError, match="'a' is in the index already"):
        index.add("a", FILTERS[3])
    with pytest.raises(FilterError):
        index.add("b", "x = 1")  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        index.remove("b")
    assert len(index) == 1


@given(changes=st.lists(st.tuples(st.integers(0, 59), st.booleans()), max_size=60))
def test_an_index_is_made_a_little_at_a_time_while_filters_come_and_go(
    changes: list[tuple[int, bool]],
) -> None:
    found: CoverSet[int] = CoverSet()
    there = {key: covey.parse(f"a > {key}") for key in range(40)}
    for key, filter in there.items():
        found.add(key, filter)
    making = found.indexing(4)
    for key, is_made in changes:
        if key in there:
            assert found.remove(key) == there.pop(key)
        else:
            there[key] = covey.parse(f"a > {key}")
            found.add(key, there[key])
        if is_made:
            assert 0 <= next(making, 0) <= 4
    assert all(count <= 4 for count in making)
    assert sorted(found.overlapping(covey.parse("a < 25"))) == sorted(key for key in there if key < 25)
    assert found.covers(covey.parse("a > 70")) == bool(there)
