"""Merging at random: the reduction is canonical, the strategy reaches it after any history, and nobody misses anything.

Whole networks are tried by `covey.sim.trial`: clients come, go, move and publish while messages are under way. What it
finds must be nothing for the strategies, and something for each mutant.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import attribute_events, attribute_filters
from tests.xpath_strategies import documents, patterns

from covey.core.families import parse
from covey.core.filter import Filter
from covey.errors import ProtocolError
from covey.routing import strategy as registry
from covey.routing.messages import Link, Subscribe, Unsubscribe
from covey.routing.strategy import Strategy
from covey.routing.work import Job
from covey.sim.trial import Trial
from covey.strategies.merging.maximal import Changes
from covey.strategies.merging.perfect import Merging, Needs, merged
from covey.strategies.merging.reduction import wire_form
from covey.strategies.told import Item

WORDS = ("ash", "birch", "cedar", "elm", "fir")


def boxes() -> st.SearchStrategy[Filter]:
    """Boxes over few values, so that many of them can be joined, some of them twice over."""
    sides = {
        "s": st.sampled_from(["s = 'a'", "s = 'b'", "s = 'c'", "s in ('a', 'b')"]),
        "x": st.integers(0, 4).flatmap(
            lambda low: st.sampled_from([f"x between {low} and {low + k}" for k in (0, 1, 2)])
        ),
        "y": st.sampled_from(
            ["y is null", "y is not null", "y = 1", "y like 'a%b'", "y like '%b'", "y = 'ab'"]
        ),
    }
    return (
        st.fixed_dictionaries({}, optional=sides)
        .filter(bool)
        .map(lambda chosen: parse(" and ".join(chosen.values())))
    )


def keywords() -> st.SearchStrategy[Filter]:
    conjunction = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" and ".join)
    return st.lists(conjunction, min_size=1, max_size=3).map(
        lambda c: parse(" or ".join(c), language="keywords")
    )


def families() -> st.SearchStrategy[Filter]:
    return st.one_of(boxes(), boxes(), boxes(), attribute_filters(), patterns(depth=3), keywords())


def events() -> st.SearchStrategy[Any]:
    plain = st.fixed_dictionaries(
        {},
        optional={
            "s": st.sampled_from("abcd"),
            "x": st.sampled_from([0, 0.5, 1, 2, 3, 4, 5, 6, 7]),
            "y": st.sampled_from([1, 2, "ab", "axb", "b", "c"]),
        },
    )
    return st.one_of(
        plain, plain, attribute_events(), documents(depth=3), st.frozensets(st.sampled_from(WORDS))
    )


# -- the reduction -------------------------------------------------------------------------------------------


@given(st.lists(families(), max_size=12), st.randoms(use_true_random=False))
def test_the_order_does_not_matter(filters: list[Filter], random: Random) -> None:
    shuffled = random.sample(filters + filters[:3], len(filters) + len(filters[:3]))
    assert merged(shuffled) == merged(filters)


@given(st.lists(families(), max_size=12), st.data())
def test_merging_again_changes_nothing_nor_does_leaving_some_out(
    filters: list[Filter], data: st.DataObject
) -> None:
    found = merged(filters)
    assert merged(found) == found
    some = [filter for filter in found if data.draw(st.booleans())]
    assert merged(some) == some


@given(st.lists(families(), max_size=12), st.lists(events(), max_size=12))
def test_the_merge_matches_exactly_what_the_filters_match(filters: list[Filter], sample: list[Any]) -> None:
    found = merged(filters)
    for event in sample:
        assert any(f.matches(event) for f in found) == any(f.matches(event) for f in filters)
    for filter in filters:
        assert any(merger.covers(filter) for merger in found)
    for one in found:
        assert not any(one.covers(two) for two in found if two is not one)


# -- step by step --------------------------------------------------------------------------------------------


def replayed(needs: Needs, steps: Sequence[tuple[list[Filter], list[Filter]]]) -> None:
    """Change the needs step by step; what is told is always the merge, and changes only as was said."""
    told: dict[str, Filter] = {}
    for removed, added in steps:
        changes = needs.change(removed, added)
        for item in changes.left:
            assert told.pop(item.key) == item.filter
        for item in changes.entered:
            assert item.key not in told
            told[item.key] = item.filter
        assert sorted(told.values(), key=wire_form) == merged(needs.filters)
        assert dict(needs.items()) == told


@given(st.lists(families(), min_size=1, max_size=10, unique=True), st.data())
def test_step_by_step_it_comes_to_the_same(filters: list[Filter], data: st.DataObject) -> None:
    needs = Needs()
    for _ in range(data.draw(st.integers(2, 8))):
        chosen = [filter for filter in filters if data.draw(st.integers(0, 2)) == 0]
        here = needs.filters
        needs.change([f for f in chosen if f in here], [f for f in chosen if f not in here])
        assert sorted((item.filter for item in needs.items()), key=wire_form) == merged(needs.filters)
    needs.change(list(needs.filters), [])
    assert not needs.items()
    assert not needs._cascade._shapes


def random_steps(random: Random, pool: list[Filter], count: int) -> list[tuple[list[Filter], list[Filter]]]:
    here: dict[Filter, None] = {}
    steps = []
    for _ in range(count):
        chosen = random.sample(pool, random.choice((1, 1, 1, 2, 5)))
        removed = [f for f in chosen if f in here]
        added = [f for f in chosen if f not in here]
        for filter in removed:
            del here[filter]
        here.update(dict.fromkeys(added))
        steps.append((removed, added))
    return steps


def pool_of(random: Random, count: int) -> list[Filter]:
    texts: set[str] = set()
    while len(texts) < count:
        low = random.randint(0, 30)
        side = f"x between {low} and {low + random.randint(0, 9)}"
        texts.add(
            random.choice(
                (side, f"{side} and s = 's{random.randint(0, 5)}'", f"s = 's{random.randint(0, 9)}'")
            )
        )
    return [parse(text) for text in sorted(texts)]


@pytest.mark.parametrize("seed", range(3))
def test_a_long_history_of_many_filters(seed: int) -> None:
    random = Random(seed)
    replayed(Needs(), random_steps(random, pool_of(random, 80), 60))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100))
def test_longer_histories(seed: int) -> None:
    random = Random(seed + 1000)
    replayed(Needs(), random_steps(random, pool_of(random, 150), 200))


def test_many_keywords_come_and_go() -> None:
    random = Random(5)
    pool = [
        parse(f"w{k}" if k % 3 else f"w{k} or w{k + 1} and w{k // 2}", language="keywords")
        for k in range(150)
    ]
    replayed(Needs(), random_steps(random, pool, 40))


# -- whole networks ------------------------------------------------------------------------------------------


def trials(name: str, seeds: range, *, faults: bool) -> list[str]:
    """Return what trials of a strategy found, with and without advertisements."""
    findings = []
    for seed in seeds:
        for advertisements in (True, False):
            trial = Trial(name, advertisements, ("line", "star", "tree")[seed % 3], seed, faults)
            findings += [f"{trial.command}: {finding}" for finding in trial.run().findings]
    return findings


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let imperfect merging adapt at each event: trials are short."""
    usual = registry.registered("merging-imperfect")
    make = partial(usual.make, every=1, sample=8, budget=0.5, patience=2)
    monkeypatch.setitem(registry._REGISTERED, usual.name, usual._replace(make=make))


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("faults", [False, True])
@pytest.mark.parametrize("name", ["merging", "merging-imperfect", "match-first"])
def test_trials_find_nothing(name: str, faults: bool) -> None:
    assert trials(name, range(9), faults=faults) == []


@pytest.mark.long
@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("faults", [False, True])
@pytest.mark.parametrize("name", ["merging", "merging-imperfect", "match-first"])
def test_many_trials_find_nothing(name: str, faults: bool) -> None:
    assert trials(name, range(100, 250), faults=faults) == []


# -- mutants -------------------------------------------------------------------------------------------------


class WithdrawsFirst(Merging):
    """Withdraws the old merger before it tells the new one."""

    def tell_changes(self, link: Link, changes: Changes) -> None:
        for item in changes.left:
            self.tell(link, Unsubscribe(item.key, tree=self.site.tree))
        for item in changes.entered:
            self.tell(link, Subscribe(item.key, item.filter, tree=self.site.tree))


class ReusesLabels(Merging):
    """Numbers its mergers, and begins at the lowest number that is free."""

    class Numbered(Needs):
        def __init__(self) -> None:
            super().__init__()
            self._numbers: dict[Filter, int] = {}

        def item(self, filter: Filter) -> Item:
            if filter not in self._numbers:
                living = {item.key for item in self._mergers.items()}
                self._numbers = {f: n for f, n in self._numbers.items() if f"m{n}" in living}
                used = set(self._numbers.values())
                self._numbers[filter] = next(n for n in range(10_000) if n not in used)
            return Item(f"m{self._numbers[filter]}", filter)

    def new_needs(self, link: Link) -> Needs:
        return self.Numbered()


class KeepsMergers(Merging):
    """Leaves a merger as it is when a part of it leaves, until all have left."""

    class Lasting(Needs):
        def change(self, removed: Any, added: Any) -> Changes:
            gone = list(removed)
            return super().change(gone if len(gone) == len(self.filters) else [], added)

    def new_needs(self, link: Link) -> Needs:
        return self.Lasting()


class ForgetsTheRest(Merging):
    """Withdraws a merger when a part of it leaves, and forgets the other parts."""

    def tell_changes(self, link: Link, changes: Changes) -> None:
        super().tell_changes(link, Changes([], changes.left) if changes.left else changes)


class LeavesWhatIsUnwanted(Merging):
    """Goes on telling what nobody advertises any more."""

    def unadvertised(self, link: Link, filter: Filter) -> Job:
        return iter(())


@pytest.mark.parametrize(
    ("mutant", "symptom"),
    [
        (WithdrawsFirst, "missed"),
        (ReusesLabels, "mirror"),
        (KeepsMergers, "reduction"),
        (ForgetsTheRest, "missed"),
        (LeavesWhatIsUnwanted, "reduction"),
    ],
)
def test_mutants_are_found(mutant: type[Strategy], symptom: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = registry.registered("merging")
    monkeypatch.setitem(registry._REGISTERED, usual.name, usual._replace(make=mutant))
    for seed in range(60):
        try:
            found = trials("merging", range(seed, seed + 1), faults=False)
        except (AssertionError, KeyError, ValueError, ProtocolError):
            return  # it broke its own invariants, or a neighbour refused what it said
        if any(symptom in finding for finding in found):
            return
    pytest.fail(f"{mutant.__name__} was not found")
