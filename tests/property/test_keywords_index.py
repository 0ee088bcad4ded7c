"""The keyword index against the linear scan, while filters come and go."""

from __future__ import annotations

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from covey.core.keywords.filter import KeywordFilter
from covey.matching.keywords import KeywordIndex

# Few words, so that filters meet, and one that no filter starts with, so that words are new and forgotten.
WORDS = [f"w{k}" for k in range(12)]

conjunctions = st.sets(st.sampled_from(WORDS), min_size=1, max_size=6)
filters = st.lists(conjunctions, min_size=1, max_size=4).map(KeywordFilter.any_of) | st.just(
    KeywordFilter.any_of([[]])
)
documents = st.frozensets(st.sampled_from([*WORDS, "unknown"]))


class IndexAgainstScan(RuleBasedStateMachine):
    """Handles are reused in the order in which a caller would: the smallest free one first."""

    handles = Bundle("handles")

    def __init__(self) -> None:
        super().__init__()
        self.index = KeywordIndex()
        self.filters: dict[int, KeywordFilter] = {}

    @rule(target=handles, keywords=filters, far=st.booleans())
    def add(self, keywords: KeywordFilter, far: bool) -> int:
        handle = next(k for k in range(1000 if far else 0, 3000) if k not in self.filters)
        self.index.add(handle, keywords)
        self.filters[handle] = keywords
        return handle

    @rule(handle=consumes(handles))
    def remove(self, handle: int) -> None:
        self.index.remove(handle, self.filters.pop(handle))

    @rule(document=documents)
    def match(self, document: frozenset[str]) -> None:
        expected = [handle for handle, keywords in self.filters.items() if keywords.matches(document)]
        assert sorted(self.index.match(document)) == sorted(expected)

    @rule(keywords=filters)
    def covering(self, keywords: KeywordFilter) -> None:
        expected = [handle for handle, other in self.filters.items() if other.covers(keywords)]
        assert sorted(self.index.covering(keywords)) == sorted(expected)

    @rule(keywords=filters)
    def covered(self, keywords: KeywordFilter) -> None:
        expected = [handle for handle, other in self.filters.items() if keywords.covers(other)]
        assert sorted(self.index.covered(keywords)) == sorted(expected)

    @rule(keywords=filters)
    def overlapping(self, keywords: KeywordFilter) -> None:
        assert sorted(self.index.overlapping(keywords)) == sorted(self.filters)

    @invariant()
    def counts_its_filters(self) -> None:
        assert len(self.index) == len(self.filters)


TestIndexAgainstScan = IndexAgainstScan.TestCase
TestIndexAgainstScan.settings = settings(
    settings(), max_examples=settings().max_examples // 2, stateful_step_count=40
)


def random_filter(generator: random.Random, vocabulary: int) -> KeywordFilter:
    return KeywordFilter.any_of(
        [
            {f"w{int(vocabulary ** generator.random())}" for _ in range(generator.randint(1, 5))}
            for _ in range(generator.choice([1, 1, 1, 2, 3]))
        ]
    )


def test_thousands_of_filters_come_and_go() -> None:
    generator = random.Random(7)
    index = KeywordIndex()
    filters: dict[int, KeywordFilter] = {}
    for _ in range(4):
        for handle in range(2000):
            if handle not in filters:
                filters[handle] = random_filter(generator, 500)
                index.add(handle, filters[handle])
        for handle in generator.sample(sorted(filters), 1500):
            index.remove(handle, filters.pop(handle))
        for _ in range(10):
            document = {f"w{int(500 ** generator.random())}" for _ in range(40)}
            asked = random_filter(generator, 500)
            assert sorted(index.match(document)) == sorted(
                h for h, f in filters.items() if f.matches(document)
            )
            assert sorted(index.covering(asked)) == sorted(h for h, f in filters.items() if f.covers(asked))
            assert sorted(index.covered(asked)) == sorted(h for h, f in filters.items() if asked.covers(f))
    for handle in sorted(filters):
        index.remove(handle, filters[handle])
    assert len(index) == 0
    assert len(index.match({"w1", "w2"})) == 0
    # With the last filter gone, its memory is used again: filling once more needs no more than before.
    top = int(index._meta[0])
    for handle in range(500):
        index.add(handle, KeywordFilter.any_of([[f"w{handle}", "shared"]]))
    assert int(index._meta[0]) <= top + 8192


def test_other_events_match_nothing() -> None:
    index = KeywordIndex()
    index.add(0, KeywordFilter.any_of([[]]))
    for content in ({"a": 1}, "a", None, [1]):
        assert len(index.match(content)) == 0
    assert list(index.match(set())) == [0]
    assert list(index.match({1, ("x",), "a"})) == [0]
