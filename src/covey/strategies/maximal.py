"""The maximal ones of several filters: those that no other one covers, and of equal ones the first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from covey.core.filter import Filter
from covey.routing.messages import Key
from covey.strategies.coverset import CoverSet

Labelled = TypeVar("Labelled", bound=tuple[Key, Filter])


def maximal(items: Iterable[Labelled]) -> list[Labelled]:
    """Return the items whose filter no other one's covers, in their order; of those that cover each other the first."""
    kept: dict[int, Labelled] = {}
    filters: CoverSet[int] = CoverSet()
    for number, item in enumerate(items):
        filter = item[1]
        if not filters.covers(filter):
            for covered in list(filters.covered(filter)):
                filters.remove(covered)
                del kept[covered]
            filters.add(number, filter)
            kept[number] = item
    return list(kept.values())
