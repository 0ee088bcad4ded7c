"""Simple routing: every subscription is told to every neighbour behind which it is wanted.

The first of the routing algorithms of G. Mühl et al. (*Evaluating Advanced Routing Algorithms for Content-Based
Publish/Subscribe Systems*, 2002): no reduction, so every broker on the way knows every subscription.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Protocol

from covey.core.filter import Filter
from covey.routing.messages import Key, Link
from covey.routing.strategy import register
from covey.routing.table import Place, in_order
from covey.routing.work import BATCH, Work, batches
from covey.strategies.subscriptions import LOOK_UNITS, SubscriptionStrategy
from covey.strategies.told import Item


class Selection(Protocol):
    """The items that are to be told, of those that were added."""

    def add(self, item: Item) -> None:
        """Take another item."""

    def items(self) -> list[Item]:
        """Return what is to be told."""


class Distinct:
    """The items that are not known yet, and of those that are the same by `name` the first."""

    def __init__(self, name: Callable[[Item], Hashable], is_known: Callable[[Item], bool]) -> None:
        self._name, self._is_known = name, is_known
        self._items: dict[Hashable, Item] = {}

    def add(self, item: Item) -> None:
        """Take another item."""
        if not self._is_known(item):
            self._items.setdefault(self._name(item), item)

    def items(self) -> list[Item]:
        """Return what is to be told."""
        return list(self._items.values())


class Simple(SubscriptionStrategy):
    """Every subscription is told under its own key."""

    name = "simple"
    dialect = "subscriptions"
    description = "every subscription is told to every broker that may publish for it"

    def quenched(self, link: Link, item: Item) -> bool:
        """Return whether this very subscription was told: it may have come from several links."""
        return item.key in self._told[link]

    def label(self, link: Link, gone: Item) -> Key | None:
        """Return the subscription's own key, unless another link still has it."""
        told = gone.key in self._told[link] and not self.table.has_source(gone.key, not_of=link)
        return gone.key if told else None

    def uncovered(self, link: Link, gone: Item) -> list[Item]:
        """Return nothing: everything was told before."""
        return []

    def holds(self, link: Link, item: Item) -> bool:
        """Return whether another link still has this very subscription."""
        return self.table.has_source(item.key, not_of=link)

    def missing(self, link: Link, overlapping: Filter | None = None) -> Work[list[Item]]:
        """Return what the neighbour wants and was not told, selected from entries in the order of keys."""
        found = self.selection(link)
        places = yield from in_order(self.places(link, overlapping))
        for some in batches(places, BATCH):
            for place in some:
                filter = self.filter_at(place)
                if filter is not None and self.site.wanted(link, filter):
                    found.add(Item(place[1], filter))
            yield LOOK_UNITS * len(some)
        return found.items()

    def selection(self, link: Link) -> Selection:
        """Return what selects, of the wanted entries, those to be told: each key that was not told, once."""
        return Distinct(lambda item: item.key, lambda item: item.key in self._told[link])

    def places(self, link: Link, overlapping: Filter | None) -> Iterable[Place]:
        """Return where the entries are that are to be told the neighbour; of those that overlap a filter, or of all."""
        if overlapping is None:
            return self.table.places(not_of=link)
        return self.table.places_overlapping(overlapping, not_of=link)

    def filter_at(self, place: Place) -> Filter | None:
        """Return the filter of an entry, None if it has gone."""
        return self.table.filter_at(place)


register(Simple)
