"""The maximal ones of several filters: those that no other one covers, and of equal ones the first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from covey.core.filter import Filter
from covey.routing.messages import Key
from covey.strategies.coverset import CoverSet

Labelled = TypeVar("Labelled", bound=tuple[Key, Filter])


class Maximal(Generic[Labelled]):
    """The maximal ones of the items so far, in their order; of those that cover each other the first."""

    def __init__(self) -> None:
        self._kept: dict[int, Labelled] = {}
        self._filters: CoverSet[int] = CoverSet()
        self._count = 0

    def add(self, item: Labelled) -> None:
        """Take another item."""
        filter = item[1]
        if not self._filters.covers(filter):
            for covered in list(self._filters.covered(filter)):
                self._filters.remove(covered)
                del self._kept[covered]
            self._filters.add(self._count, filter)
            self._kept[self._count] = item
        self._count += 1

    def items(self) -> list[Labelled]:
        """Return the maximal ones."""
        return list(self._kept.values())


def maximal(items: Iterable[Labelled]) -> list[Labelled]:
    """Return the items whose filter no other one's covers, in their order; of those that cover each other the first."""
    found: Maximal[Labelled] = Maximal()
    for item in items:
        found.add(item)
    return found.items()
