"""Merging: a neighbour is told the exact merge of what it must know.

    merging             filters equal but for one attribute are told as one, exactly   (*perfect* merging)
    merging-imperfect   mergers may let in more, within a budget: see `imperfect`

After the last of the routing algorithms of G. Mühl, L. Fiege, F. C. Gärtner and A. Buchmann (*Evaluating Advanced
Routing Algorithms for Content-Based Publish/Subscribe Systems*, 2002), which stands on top of covering: where `symbol
= 'a'` and `symbol = 'b'` are wanted, `symbol IN ('a', 'b')` is told. What exactly a neighbour is told is a function
of the set of filters it must know (`reduction`), whatever the order in which they came. The rules:

1. An entry that comes or goes changes the groups it belongs to, and those that their mergers belong to; nothing else is
   looked at (`cascade`).
2. The new merger is told before the old one is withdrawn: on a FIFO link there is no gap.
3. A merger's label is a digest of it. It is the same whenever and wherever that filter is told, also after a restart,
   and never stands for another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from covey.core.filter import Filter
from covey.core.keywords.filter import KeywordFilter
from covey.errors import ProtocolError
from covey.routing.digest import Fact
from covey.routing.messages import Key, Link, Subscribe, Unsubscribe
from covey.routing.strategy import Site, register
from covey.routing.work import Job, batches
from covey.strategies.merging.boxes import Box, box_of, filter_of
from covey.strategies.merging.cascade import Cascade
from covey.strategies.merging.keywords import KeywordMerge
from covey.strategies.merging.maximal import Changes, MaximalFilters, label_of
from covey.strategies.merging.reduction import merged
from covey.strategies.policy import FILTERS, Distinct, Everything, Selection
from covey.strategies.subscriptions import SubscriptionStrategy
from covey.strategies.told import Item

MERGE_UNITS: Final = 100  # of work, to change what a neighbour must know by one filter


class Needs:
    """What one neighbour must know, and its merge: the state behind what it is told."""

    def __init__(self) -> None:
        self.filters: dict[Filter, None] = {}
        self._cascade = Cascade()
        self._keywords = KeywordMerge()
        self._mergers = MaximalFilters()

    def change(self, removed: Iterable[Filter], added: Iterable[Filter]) -> Changes:
        """Take filters out that are there, put filters in that are not; return how that changes their merge."""
        boxes: dict[Box, int] = {}
        words: dict[int, list[KeywordFilter]] = {-1: [], 1: []}
        changes: dict[int, list[Filter]] = {-1: [], 1: []}
        for count, filters in ((-1, removed), (1, added)):
            for filter in filters:
                self._note(filter, count)
                box = box_of(filter)
                if box is not None:
                    boxes[box] = count
                elif isinstance(filter, KeywordFilter):
                    words[count].append(filter)
                else:
                    changes[count].append(filter)
        for box, count in self._cascade.change(boxes).items():
            changes[count].append(filter_of(box))
        if words[-1] or words[1]:
            going, coming = self._keywords.change(words[-1], words[1])
            changes[-1] += going
            changes[1] += coming
        return self._mergers.change(map(self.item, changes[-1]), map(self.item, changes[1]))

    def _note(self, filter: Filter, count: int) -> None:
        if count > 0:
            self.filters[filter] = None
        else:
            del self.filters[filter]

    def item(self, filter: Filter) -> Item:
        """Return a merger under its label."""
        return Item(label_of(filter), filter)

    def items(self) -> list[Item]:
        """Return what the neighbour is told."""
        return self._mergers.items()


class Merging(SubscriptionStrategy):
    """Exactly the merge of what a neighbour must know is told."""

    name = "merging"
    dialect = "merging"
    description = "filters equal but for one attribute are told as one, exactly"
    policy = Everything(FILTERS)

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._needs: dict[Link, Needs] = {}

    def new_needs(self, link: Link) -> Needs:
        """Return the state of a neighbour that was told nothing."""
        return Needs()

    def change(self, link: Link, removed: Sequence[Filter], added: Sequence[Filter]) -> None:
        """Change what the neighbour must know, and tell it what follows."""
        if removed or added:
            self.tell_changes(link, self._needs[link].change(removed, added))

    def tell_changes(self, link: Link, changes: Changes) -> None:
        """Tell the neighbour the new mergers, then withdraw the old ones."""
        for item in changes.entered:
            self.tell(link, Subscribe(item.key, item.filter, tree=self.site.tree))
        for item in changes.left:
            self.tell(link, Unsubscribe(item.key, tree=self.site.tree))

    # -- interest --------------------------------------------------------------------------------------------

    def _subscribed(self, source: Link, item: Item) -> None:
        self._entered(source, [item.filter])

    def _unsubscribed(self, source: Link, gone: Item, distances: dict[str, tuple[float, ...]] | None) -> None:
        self._left(source, [gone.filter])

    def _entered(self, source: Link, filters: Sequence[Filter]) -> None:
        """Let the other neighbours know of entries that have come."""
        for link in self.site.neighbours():
            if link != source:
                known = self._needs[link].filters
                self.change(link, [], [f for f in filters if f not in known and self.site.wanted(link, f)])

    def _left(self, source: Link, filters: Sequence[Filter]) -> None:
        """Let the other neighbours know of entries that are gone."""
        for link in self.site.neighbours():
            if link != source:
                known = self._needs[link].filters
                gone = [f for f in filters if f in known and not self.table.held(f, not_by=link)]
                self.change(link, gone, [])

    # -- advertisements --------------------------------------------------------------------------------------

    def selection(self, link: Link) -> Selection:
        """Return what selects the filters that the neighbour is not known to need, each once."""
        known = self._needs[link].filters
        return Distinct(lambda item: item.filter, lambda item: item.filter in known)

    def _tell_missing(self, link: Link, overlapping: Filter | None) -> Job:
        items = yield from self.missing(link, overlapping)
        known = self._needs[link].filters
        for some in batches([item.filter for item in items], self.site.jobs.batch):
            self.change(link, [], [f for f in some if f not in known and self._needs_still(link, f)])
            yield MERGE_UNITS * len(some)

    def _needs_still(self, link: Link, filter: Filter) -> bool:
        return self.table.held(filter, not_by=link) and self.site.wanted(link, filter)

    def unadvertised(self, link: Link, filter: Filter) -> Job:
        """Withdraw what the neighbour wants no more; what it still wants of a merger is told first."""
        known = self._needs[link].filters
        found = dict.fromkeys(entry.filter for entry in self.table.overlapping(filter, not_of=link))
        for some in batches(found, self.site.jobs.batch):
            self.change(link, [f for f in some if f in known and not self.site.wanted(link, f)], [])
            yield MERGE_UNITS * len(some)

    # -- links -----------------------------------------------------------------------------------------------

    def opening(self, link: Link) -> Job:
        """Tell the neighbour all it wants."""
        self._needs[link] = self.new_needs(link)
        yield from self.table.counting()
        yield from self._tell_missing(link, None)

    def learn(self, link: Link, facts: Sequence[Fact]) -> None:
        """Take the facts as the subscriptions that they are, all at once."""
        entered: dict[Filter, None] = {}
        for fact in facts:
            if self._is_new(link, fact.key, fact.filter):
                self.table.add(link, fact.key, fact.filter)
                entered[fact.filter] = None
        self._entered(link, list(entered))

    def _is_new(self, link: Link, key: Key, filter: Filter) -> bool:
        known = self.table.get(link, key)
        if known is not None and known != filter:
            raise ProtocolError(
                f"broker {self.site.broker}: {link} gives the key {key} another filter than before"
            )
        return known is None

    def unlearn(self, link: Link, facts: Sequence[Fact]) -> None:
        """Take the facts as withdrawn, all at once."""
        for fact in facts:
            self.table.remove(link, fact.key)
        self._left(link, list(dict.fromkeys(fact.filter for fact in facts)))

    def close(self, link: Link) -> Job:
        """Forget what the neighbour was told."""
        del self._needs[link]
        return iter(())

    # -- what is known ---------------------------------------------------------------------------------------

    def iter_told(self, link: Link) -> Iterator[Fact]:
        """Return the labels and filters that the neighbour was told."""
        needs = self._needs.get(link)
        return iter(()) if needs is None else (Fact(*item) for item in needs.items())


register(Merging)

__all__ = ["Merging", "Needs", "merged"]
