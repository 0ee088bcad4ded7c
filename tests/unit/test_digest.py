"""Digest and difference: two ends agree after one exchange, at a price that follows the difference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import covey
from covey.routing.digest import MAX_BUCKETS, Digest, Fact, check, pieces, unchanged
from covey.routing.digest import difference as differing
from covey.routing.digest import digest as digesting
from covey.routing.work import result

FILTERS = [covey.parse(f"x between {n} and {n + 3}") for n in range(40)]

facts = st.builds(
    Fact,
    key=st.integers(0, 60).map(str),
    filter=st.sampled_from(FILTERS),
    owner=st.sampled_from(["", "p"]),
    counts=st.sampled_from([(), (1, 0), (2, 5)]),
)
sets_of_facts = st.lists(facts, unique_by=lambda fact: fact.key, max_size=50)


def digest(known: list[Fact]) -> Digest:
    return result(digesting(known))


def difference(true: list[Fact], theirs: Digest) -> tuple[int, dict[int, list[Fact]]]:
    return result(differing(true, theirs))


def as_set(found: list[Fact]) -> set[tuple[object, ...]]:
    return {(fact.key, fact.filter, fact.owner, fact.counts) for fact in found}


@given(sets_of_facts, sets_of_facts, st.integers(1, 60))
def test_after_one_exchange_both_know_the_same(remembered: list[Fact], true: list[Fact], size: int) -> None:
    buckets, changed = difference(true, digest(remembered))
    known = result(unchanged(remembered, buckets, changed))
    mentioned: set[int] = set()
    for piece in pieces(changed, size):
        check(buckets, piece)
        assert sum(map(len, piece.values())) <= size
        mentioned |= piece.keys()
        known += [fact for content in piece.values() for fact in content]
    assert as_set(known) == as_set(true)
    assert len(known) == len(true)
    assert mentioned == changed.keys()


@given(sets_of_facts)
def test_what_is_the_same_is_not_sent(known: list[Fact]) -> None:
    assert difference(known[::-1], digest(known))[1] == {}


def test_a_small_difference_in_much_costs_little() -> None:
    known = [Fact(str(n), FILTERS[n % 40]) for n in range(5_000)]
    _, changed = difference([*known[1:], Fact("new", FILTERS[0])], digest(known))
    assert sum(map(len, changed.values())) < 60


def test_a_changed_count_is_a_difference() -> None:
    one, other = Fact("", FILTERS[0], counts=(1, 0)), Fact("", FILTERS[0], counts=(1, 1))
    assert difference([other], digest([one]))[1] == {0: [other]}


def test_a_digest_is_bounded() -> None:
    with pytest.raises(covey.ProtocolError, match="buckets"):
        difference([], (0,) * (MAX_BUCKETS + 1))
    with pytest.raises(covey.ProtocolError, match="bucket"):
        check(4, [4])
