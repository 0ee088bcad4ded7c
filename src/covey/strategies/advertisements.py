"""What a neighbour is told of advertisements: by the policies that subscriptions are told by.

    none        each is told
    identity    of equal ones one is told
    covering    what nothing else covers is told; a broader one replaces those that it covers
    merging     the exact merge of all is told

G. Mühl et al. (*Evaluating Advanced Routing Algorithms for Content-Based Publish/Subscribe Systems*, 2002) keep the
table of advertisements by the same algorithms as that of subscriptions, and M. Chen et al. aggregate both. Each way
works with every strategy, since a strategy asks one thing of advertisements: whether one of a neighbour's overlaps a
filter. A strategy that keeps books by publisher (`Strategy.names_publishers`) asks who may publish too: for it the
advertisements of each publisher are reduced by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from covey.core.filter import Filter
from covey.routing.advertisements import (
    NONE,
    Advertisement,
    Advertisements,
    Announcement,
    Teller,
    register_reduction,
)
from covey.routing.digest import Fact
from covey.routing.messages import Key, Link
from covey.strategies.covering import Covering
from covey.strategies.identity import Identity
from covey.strategies.merging.maximal import Changes
from covey.strategies.merging.perfect import Needs
from covey.strategies.policy import Policy
from covey.strategies.simple import Simple
from covey.strategies.told import Item, Told


class _Holders:
    """Who else has advertisements of one publisher, or of all."""

    def __init__(self, known: Advertisements, publisher: str | None) -> None:
        self._known, self._publisher = known, publisher

    def has_source(self, key: Key, *, not_of: Link) -> bool:
        return self._known.has_source(key, not_of=not_of)

    def held(self, filter: Filter, *, not_by: Link) -> bool:
        return any(item.filter == filter for item in self.covered(filter, not_of=not_by))

    def covered(self, filter: Filter, *, not_of: Link) -> Iterator[Item]:
        """Yield what the filter covers; nothing is looked at before it is asked for."""
        for key, advertisement in self._known.covered(filter, not_of=not_of):
            if self._publisher is None or advertisement.publisher == self._publisher:
                yield Item(key, advertisement.filter)


class ByPolicy(Teller):
    """What a policy tells, of each publisher by itself or of all together."""

    def __init__(self, policy: Policy, known: Advertisements, link: Link, by_publisher: bool) -> None:
        self._policy, self._known, self._link, self._by_publisher = policy, known, link, by_publisher
        self._told: dict[str | None, Told] = {}
        self._publishers: dict[Key, str] = {}  # of each label

    def came(self, key: Key, advertisement: Advertisement) -> Announcement:
        """Tell it, unless it is quenched."""
        told = self._told.setdefault(self._group(advertisement), Told())
        item = Item(key, advertisement.filter)
        if self._policy.quenched(told, item):
            return Announcement([], [])
        superfluous = self._policy.superfluous(told, [item])
        entered = self._enter(told, [item], advertisement.publisher)
        for one in superfluous:
            self._leave(told, one.key)
        return Announcement(entered, [one.key for one in superfluous])

    def left(self, key: Key, advertisement: Advertisement) -> Announcement:
        """Tell what only it covered, and withdraw it."""
        group = self._group(advertisement)
        told, item = self._told.get(group), Item(key, advertisement.filter)
        label = None if told is None else self._policy.names.label(told, item)
        holders = _Holders(self._known, group)
        if told is None or label is None or self._policy.names.held(holders, item, not_by=self._link):
            return Announcement([], [])
        self._leave(told, label)
        uncovered = self._policy.uncovered(told, holders.covered(item.filter, not_of=self._link))
        entered = self._enter(told, uncovered, advertisement.publisher)
        if not len(told):
            del self._told[group]
        return Announcement(entered, [label])

    def _group(self, advertisement: Advertisement) -> str | None:
        return advertisement.publisher if self._by_publisher else None

    def _enter(self, told: Told, items: Iterable[Item], publisher: str) -> list[Fact]:
        entered = []
        for item in items:
            told.add(item.key, item.filter)
            self._publishers[item.key] = publisher
            entered.append(Fact(item.key, item.filter, publisher))
        return entered

    def _leave(self, told: Told, label: Key) -> None:
        told.remove(label)
        del self._publishers[label]

    def facts(self) -> Iterator[Fact]:
        """Return what the neighbour knows."""
        items = [item for told in self._told.values() for item in told.items()]
        publishers = dict(self._publishers)
        return (Fact(item.key, item.filter, publishers[item.key]) for item in items)


class Merged(Teller):
    """The exact merge, of each publisher by itself or of all together."""

    def __init__(self, known: Advertisements, link: Link, by_publisher: bool) -> None:
        self._known, self._link, self._by_publisher = known, link, by_publisher
        self._needs: dict[str | None, Needs] = {}

    def came(self, key: Key, advertisement: Advertisement) -> Announcement:
        """Tell the merge with it, if that is another one."""
        group = self._group(advertisement)
        needs = self._needs.setdefault(group, Needs())
        filter = advertisement.filter.compact()
        return self._announced(group, needs.change([], [] if filter in needs.filters else [filter]))

    def left(self, key: Key, advertisement: Advertisement) -> Announcement:
        """Tell the merge without it, if nobody else has it."""
        group, filter = self._group(advertisement), advertisement.filter.compact()
        needs = self._needs.get(group)
        if (
            needs is None
            or filter not in needs.filters
            or _Holders(self._known, group).held(filter, not_by=self._link)
        ):
            return Announcement([], [])
        changes = needs.change([filter], [])
        if not needs.filters:
            del self._needs[group]
        return self._announced(group, changes)

    def _group(self, advertisement: Advertisement) -> str | None:
        return advertisement.publisher if self._by_publisher else None

    def _fact(self, group: str | None, item: Item) -> Fact:
        """Return a merger; it is nobody's own, unless it is of one publisher."""
        return Fact(item.key if group is None else f"{item.key} {group}", item.filter, group or "")

    def _announced(self, group: str | None, changes: Changes) -> Announcement:
        return Announcement(
            [self._fact(group, item) for item in changes.entered],
            [self._fact(group, item).key for item in changes.left],
        )

    def facts(self) -> Iterator[Fact]:
        """Return what the neighbour knows."""
        return iter(
            [self._fact(group, item) for group, needs in self._needs.items() for item in needs.items()]
        )


register_reduction(NONE, partial(ByPolicy, Simple.policy))
register_reduction(Identity.name, partial(ByPolicy, Identity.policy))
register_reduction(Covering.name, partial(ByPolicy, Covering.policy))
register_reduction("merging", Merged)
