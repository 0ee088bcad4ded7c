"""The maximal ones of several filters: those that no other one covers, and of equal ones the first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from covey.core.filter import Filter
from covey.matching.index import Index
from covey.routing.messages import Key

# Up to so many are compared in pairs; an index is quicker beyond.
FEW = 12

Labelled = TypeVar("Labelled", bound=tuple[Key, Filter])


def maximal(items: Iterable[Labelled]) -> list[Labelled]:
    """Return the items whose filter no other one's covers, in their order; of those that cover each other the first."""
    items = list(items)
    if len(items) <= FEW:
        return _by_pairs(items)
    index = Index()
    kept: dict[int, Labelled] = {}
    for number, item in enumerate(items):
        filter = item[1]
        if not index.covers(filter):
            for covered in list(index.covered(filter)):
                index.remove(covered)
                del kept[covered]
            index.add(number, filter)
            kept[number] = item
    return list(kept.values())


def _by_pairs(items: list[Labelled]) -> list[Labelled]:
    kept: list[Labelled] = []
    for item in items:
        filter = item[1]
        if not any(other[1].covers(filter) for other in kept):
            kept = [other for other in kept if not filter.covers(other[1])]
            kept.append(item)
    return kept
