"""Merging keyword filters: their union is one filter, and where that would be too large, a few.

A union of keyword filters is exact, so there is only one question: which of them go together when one filter cannot
hold all. They are halved by the bits of a digest, again and again until a part fits. The digest is that of a filter's
first conjunction, and the first conjunction of a union is the first of one of its parts: so a part stays where it was
when parts are merged again at the next broker, and a filter that comes or goes changes its own part only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b

from covey.core.keywords.filter import KeywordFilter
from covey.core.keywords.normal import Conjunction, Vocabulary, minimal_masks
from covey.core.keywords.text import MAX_CONJUNCTIONS, write
from covey.strategies.maximal import maximal
from covey.strategies.merging.maximal import MaximalFilters, item_of
from covey.strategies.told import Item

DIGEST_BITS = 64


@lru_cache(maxsize=1 << 16)
def digest_of(conjunction: Conjunction) -> int:
    """Return bits that stand for a conjunction, the same everywhere."""
    return int.from_bytes(
        blake2b("\0".join(conjunction).encode(), digest_size=DIGEST_BITS // 8).digest(), "big"
    )


def union_of(filters: Sequence[KeywordFilter]) -> KeywordFilter | None:
    """Return the filter that matches what any of them matches; None if it would be too large."""
    if len(filters) == 1:
        return filters[0]
    vocabulary = Vocabulary()
    masks = minimal_masks(
        (vocabulary.mask(words) for filter in filters for words in filter.conjunctions), MAX_CONJUNCTIONS
    )
    formula = None if masks is None else vocabulary.formula(masks)
    return None if formula is None or write(formula) is None else KeywordFilter(formula)


def parts_of(filters: Sequence[KeywordFilter], depth: int = 0) -> list[KeywordFilter]:
    """Return unions of the filters, halved until each fits; filters that no bit tells apart stay as they are."""
    if not filters:
        return []
    union = union_of(filters)
    if union is not None:
        return [union]
    if depth == DIGEST_BITS:
        return list(filters)
    halves: tuple[list[KeywordFilter], list[KeywordFilter]] = ([], [])
    for filter in filters:
        halves[half(filter, depth)].append(filter)
    return parts_of(halves[0], depth + 1) + parts_of(halves[1], depth + 1)


def half(filter: KeywordFilter, depth: int) -> int:
    """Return to which half of a part at that depth the filter belongs."""
    return digest_of(filter.conjunctions[0]) >> depth & 1


def merged_keywords(filters: Iterable[KeywordFilter]) -> list[KeywordFilter]:
    """Return few filters that match what any of them matches: maximal ones, joined in parts, until nothing changes."""
    current = sorted(set(filters), key=KeywordFilter.encode)
    while True:
        largest = [filter for _, filter in maximal([("", filter) for filter in current])]
        found = sorted(set(parts_of(largest)), key=KeywordFilter.encode)
        if found == current:
            return found
        current = found


# -- step by step --------------------------------------------------------------------------------------------


class Parts:
    """The parts of filters that come and go: `parts_of`, with what each half came to."""

    def __init__(self, depth: int = 0) -> None:
        self._depth = depth
        self._filters: dict[KeywordFilter, None] = {}
        self._halves: tuple[Parts, Parts] | None = None
        self.parts: list[KeywordFilter] = []

    def change(self, removed: Sequence[KeywordFilter], added: Sequence[KeywordFilter]) -> None:
        """Take filters out, put filters in; `parts` follows."""
        for filter in removed:
            del self._filters[filter]
        self._filters.update(dict.fromkeys(added))
        filters = list(self._filters)
        union = union_of(filters) if filters else None
        if union is not None or not filters or self._depth == DIGEST_BITS:
            self._halves = None
            self.parts = filters if union is None else [union]
            return
        if self._halves is None:
            self._halves = (Parts(self._depth + 1), Parts(self._depth + 1))
            removed, added = (), filters
        for bit, part in enumerate(self._halves):
            leaving = [filter for filter in removed if half(filter, self._depth) == bit]
            coming = [filter for filter in added if half(filter, self._depth) == bit]
            if leaving or coming:
                part.change(leaving, coming)
        self.parts = self._halves[0].parts + self._halves[1].parts


class KeywordMerge:
    """What `merged_keywords` says of filters that come and go."""

    def __init__(self) -> None:
        self._maximal = MaximalFilters()
        self._parts = Parts()
        self._merged: dict[KeywordFilter, None] = {}

    def change(
        self, removed: Sequence[KeywordFilter], added: Sequence[KeywordFilter]
    ) -> tuple[list[KeywordFilter], list[KeywordFilter]]:
        """Take filters out, put filters in; return what goes of the merged ones, and what comes."""
        changes = self._maximal.change(map(item_of, removed), map(item_of, added))
        self._parts.change(_filters_of(changes.left), _filters_of(changes.entered))
        before, parts = self._merged, self._parts.parts
        # One part is settled; several may cover each other, and then what is left may fit together.
        self._merged = dict.fromkeys(parts if len(parts) < 2 else merged_keywords(parts))
        going = [filter for filter in before if filter not in self._merged]
        return going, [filter for filter in self._merged if filter not in before]


def _filters_of(items: Iterable[Item]) -> list[KeywordFilter]:
    return [item.filter for item in items if isinstance(item.filter, KeywordFilter)]
