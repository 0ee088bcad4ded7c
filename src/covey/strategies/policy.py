"""What a neighbour is told, of what there is to tell it: the policy of a strategy, which is three choices.

    names       which things told are one: KEYS, each subscription for itself; FILTERS, all of an equal filter
    what        EVERYTHING, each name once; or `Uncovered`: only what nothing covers that the neighbour was told
    withdraws   whether `Uncovered` withdraws at once what something new covers, or lets it stay until it leaves

The moves are the teller's (`subscriptions`, and `advertisements` for what producers may publish): it tells what the
policy does not hold for quenched, then withdraws what the policy finds superfluous; and when something leaves, it tells
what that uncovers, then withdraws it. So whatever a policy says, nothing is missing in between.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, Protocol

from covey.core.filter import Filter
from covey.routing.messages import Key, Link
from covey.strategies.maximal import Maximal
from covey.strategies.told import Item, Told


class Holders(Protocol):
    """Who has what there is to tell."""

    def has_source(self, key: Key, *, not_of: Link) -> bool:
        """Return whether a link other than `not_of` has it under the key."""

    def held(self, filter: Filter, *, not_by: Link) -> bool:
        """Return whether a link other than `not_by` has exactly this filter."""


class Names(ABC):
    """Which things told are one."""

    by_key: bool

    @abstractmethod
    def name(self, item: Item) -> Hashable:
        """Return what things told that are one have in common."""

    @abstractmethod
    def label(self, told: Told, item: Item) -> Key | None:
        """Return the label under which the neighbour was told it; None if it was not."""

    @abstractmethod
    def held(self, holders: Holders, item: Item, *, not_by: Link) -> bool:
        """Return whether a link other than `not_by` has it too."""


class _Keys(Names):
    by_key = True

    def name(self, item: Item) -> Hashable:
        return item.key

    def label(self, told: Told, item: Item) -> Key | None:
        return item.key if item.key in told else None

    def held(self, holders: Holders, item: Item, *, not_by: Link) -> bool:
        return holders.has_source(item.key, not_of=not_by)


class _Filters(Names):
    by_key = False

    def name(self, item: Item) -> Hashable:
        return item.filter

    def label(self, told: Told, item: Item) -> Key | None:
        return told.label_of(item.filter)

    def held(self, holders: Holders, item: Item, *, not_by: Link) -> bool:
        return holders.held(item.filter, not_by=not_by)


KEYS: Final[Names] = _Keys()
FILTERS: Final[Names] = _Filters()


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


class MaximalUntold(Maximal[Item]):
    """The maximal ones of the items that nothing covers that was told."""

    def __init__(self, told: Told) -> None:
        super().__init__()
        self._told = told

    def add(self, item: Item) -> None:
        """Take another item."""
        if not self._told.cover(item.filter):
            super().add(item)


class Policy(ABC):
    """What one neighbour is told; `told` has what it knows already."""

    compares: bool  # whether it asks what is covered by what

    def __init__(self, names: Names) -> None:
        self.names = names

    @abstractmethod
    def quenched(self, told: Told, item: Item) -> bool:
        """Return whether what the neighbour was told makes it superfluous to tell it the item."""

    @abstractmethod
    def uncovered(self, told: Told, candidates: Iterable[Item]) -> list[Item]:
        """Return what is to be told now that something has left `told`; the candidates are what that had covered.

        One item for each class of equal filters, none of them quenched by another one or by what was told.
        """

    @abstractmethod
    def superfluous(self, told: Told, items: Sequence[Item]) -> list[Item]:
        """Return what of the things told becomes superfluous by telling the items."""

    @abstractmethod
    def selection(self, told: Told) -> Selection:
        """Return what selects, of all there is, what is to be told."""


class Everything(Policy):
    """Each name is told once."""

    compares = False

    def quenched(self, told: Told, item: Item) -> bool:
        """Return whether it was told: it may have come from several links."""
        return self.names.label(told, item) is not None

    def uncovered(self, told: Told, candidates: Iterable[Item]) -> list[Item]:
        """Return nothing: everything was told before."""
        return []

    def superfluous(self, told: Told, items: Sequence[Item]) -> list[Item]:
        """Return nothing: each stands for itself."""
        return []

    def selection(self, told: Told) -> Selection:
        """Return what selects each name that was not told, once."""
        return Distinct(self.names.name, lambda item: self.quenched(told, item))


class Uncovered(Policy):
    """What nothing covers that was told."""

    compares = True

    def __init__(self, names: Names, *, withdraws: bool) -> None:
        super().__init__(names)
        self._withdraws = withdraws

    def quenched(self, told: Told, item: Item) -> bool:
        """Return whether something that was told covers it."""
        return told.cover(item.filter)

    def uncovered(self, told: Told, candidates: Iterable[Item]) -> list[Item]:
        """Return the maximal ones of the candidates that nothing else covers."""
        found = self.selection(told)
        for item in candidates:
            found.add(item)
        return found.items()

    def superfluous(self, told: Told, items: Sequence[Item]) -> list[Item]:
        """Return what the items cover, unless it may stay."""
        if not self._withdraws:
            return []
        return list(dict.fromkeys(one for item in items for one in told.covered(item.filter)))

    def selection(self, told: Told) -> Selection:
        """Return what selects the maximal ones of what nothing covers that was told."""
        return MaximalUntold(told)
