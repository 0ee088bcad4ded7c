"""Merging as in REBECA: a merger replaces entries of one destination, and is dissolved when one of its parts cancels.

G. Mühl, L. Fiege, F. C. Gärtner and A. Buchmann (*Evaluating Advanced Routing Algorithms for Content-Based
Publish/Subscribe Systems*, 2002) describe merging on top of covering: a broker replaces routing entries that refer to
the same destination by one whose filter covers them all, and forwards the merger like a normal subscription. The merger
is removed if a part of it is unsubscribed, or if a subscription arrives that covers a part of it or all of it.

    entry       what a neighbour said: (link, key) with a filter
    stand-in    what the routing table has for it: the entry itself, or a merger of several entries of the same link
    hidden      an entry that a stand-in of its link covers and that is no part of it

The routing table has stand-ins, and covering tells neighbours what is maximal among them. What the text leaves open:

1. Mergers are exact: two filters are merged if they are equal but for one attribute (`boxes`), or are keywords.
2. Dissolving is a step of its own: the merger is withdrawn like any subscription, so that its other parts are told;
   then what can be merged is merged again. What replaces a filter is told before the filter is withdrawn.
3. Entries of clients are not merged: a client's filters are matched one by one anyway.

In contrast to `merging`, the tables depend on the order in which subscriptions come and go, and a cancellation costs as
many messages as the merger has maximal parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from covey.core.filter import Filter
from covey.core.keywords.filter import KeywordFilter
from covey.errors import ProtocolError
from covey.routing.digest import Fact
from covey.routing.messages import Key, Link, Message, Pack, Subscribe, Unsubscribe
from covey.routing.strategy import Site, register, unexpected
from covey.strategies.covering import Covering
from covey.strategies.coverset import CoverSet
from covey.strategies.maximal import Maximal
from covey.strategies.merging.boxes import Box, box_of, filter_of, names_of, steps, with_side
from covey.strategies.merging.keywords import merged_keywords
from covey.strategies.merging.maximal import label_of
from covey.strategies.subscriptions import SubscriptionStrategy
from covey.strategies.told import Item


class Step(NamedTuple):
    """A change of the stand-ins: these come, then those go."""

    entered: list[Item]
    left: list[Item]


class Destination:
    """The entries of one link, and the stand-ins that the routing table has for them."""

    def __init__(self) -> None:
        self.entries: dict[Key, Filter] = {}
        self._visible: CoverSet[Key] = CoverSet()  # stand-ins
        self._parts: CoverSet[Key] = CoverSet()  # entries that a stand-in was made of
        self._hidden: CoverSet[Key] = CoverSet()
        self._members: dict[Key, dict[Key, None]] = {}  # of each stand-in
        self._owner: dict[Key, Key] = {}  # the stand-in of each part
        self._boxes: dict[
            tuple[int, Box], dict[Key, None]
        ] = {}  # stand-ins by all sides but the one at a place
        self._keywords: dict[Key, None] = {}
        self._entered: dict[Key, Filter] = {}  # stand-ins, since the last step
        self._left: dict[Key, Filter] = {}

    def items(self) -> list[Item]:
        """Return the stand-ins."""
        return [Item(label, filter) for label, filter in self._visible.items()]

    # -- changes ---------------------------------------------------------------------------------------------

    def add(self, key: Key, filter: Filter) -> list[Step]:
        """Take a new entry; return how the stand-ins change, step by step."""
        self.entries[key] = filter
        if self._visible.covers(filter):
            self._hidden.add(key, filter)
            return []
        broken = dict.fromkeys(self._owner[part] for part in sorted(self._parts.covered(filter)))
        return self._rebuilt(broken, [Item(key, filter)], dissolves=bool(broken))

    def remove(self, keys: Iterable[Key]) -> list[Step]:
        """Forget entries; return how the stand-ins change. A stand-in that loses a part is dissolved."""
        broken: dict[Key, None] = {}
        for key in keys:
            del self.entries[key]
            if key in self._hidden:
                self._hidden.remove(key)
            else:
                broken[self._owner[key]] = None
        return self._rebuilt(broken, [], dissolves=True) if broken else []

    def _rebuilt(self, broken: Iterable[Key], new: Sequence[Item], *, dissolves: bool) -> list[Step]:
        """Replace broken stand-ins by their entries that are still there, then merge; one step if nothing dissolves."""
        loose = list(new)
        for label in broken:
            loose += self._dissolve(label)
        entered = self._uncovered(loose)
        for item in entered:
            self._stand(item, {item.key: None})
        made = [self._step()] if dissolves else []
        for item in entered:
            self._merge(item.key)
        made.append(self._step())
        return [step for step in made if step.entered or step.left]

    def _dissolve(self, label: Key) -> list[Item]:
        """Take a stand-in away; return those of its parts, and of what is hidden behind it, that are still there."""
        filter = self._fall(label)
        found = []
        for key in self._members.pop(label):
            del self._owner[key]
            self._parts.remove(key)
            if key in self.entries:
                found.append(Item(key, self.entries[key]))
        hidden = sorted(self._hidden.covered(filter))
        return found + [Item(key, self._hidden.remove(key)) for key in hidden]

    def _uncovered(self, items: Sequence[Item]) -> list[Item]:
        """Return the maximal ones of the items that no stand-in covers; the others are hidden."""
        found: Maximal[Item] = Maximal()
        for item in items:
            if not self._visible.covers(item.filter):
                found.add(item)
        kept = found.items()
        names = {item.key for item in kept}
        for item in items:
            if item.key not in names:
                self._hidden.add(item.key, item.filter)
        return kept

    def _step(self) -> Step:
        """Return how the stand-ins have changed since the last step."""
        step = Step([Item(*one) for one in self._entered.items()], [Item(*one) for one in self._left.items()])
        self._entered, self._left = {}, {}
        return step

    # -- stand-ins -------------------------------------------------------------------------------------------

    def _stand(self, item: Item, members: dict[Key, None]) -> None:
        """Put a stand-in up for some entries."""
        if self._left.pop(item.key, None) is None:
            self._entered[item.key] = item.filter
        self._visible.add(item.key, item.filter)
        self._members[item.key] = members
        for key in members:
            self._owner[key] = item.key
            self._parts.add(key, self.entries[key])
        for place in self._places(item.filter):
            self._boxes.setdefault(place, {})[item.key] = None
        if isinstance(item.filter, KeywordFilter):
            self._keywords[item.key] = None

    def _fall(self, label: Key) -> Filter:
        """Take a stand-in away, whatever becomes of its parts; return its filter."""
        filter = self._visible.remove(label)
        if self._entered.pop(label, None) is None:
            self._left[label] = filter
        for place in self._places(filter):
            mates = self._boxes[place]
            del mates[label]
            if not mates:
                del self._boxes[place]
        self._keywords.pop(label, None)
        return filter

    @staticmethod
    def _places(filter: Filter) -> list[tuple[int, Box]]:
        box = box_of(filter) or ()
        return [(place, box[:place] + box[place + 1 :]) for place in range(len(box))]

    def _merge(self, label: Key) -> None:
        """Merge a stand-in with others as long as there is one that it can be merged with."""
        while label in self._visible:
            found = self._mate(label, self._visible[label])
            if found is None:
                return
            mate, filter = found
            joined = [label, mate, *sorted(set(self._visible.covered(filter)) - {label, mate})]
            members: dict[Key, None] = {}
            for one in joined:
                members |= self._members.pop(one)
                self._fall(one)
            for key in members:
                self._parts.remove(key)
            label = label_of(filter)
            self._stand(Item(label, filter), members)

    def _mate(self, label: Key, filter: Filter) -> tuple[Key, Filter] | None:
        """Return a stand-in with which this one can be merged exactly, and the merger."""
        box = box_of(filter)
        if box is not None:
            for unite, place, name in steps(names_of(box)):
                rest = box[:place] + box[place + 1 :]
                for mate in self._boxes.get((place, rest), ()):
                    other = box_of(self._visible[mate])
                    if mate == label or other is None or other[place][0] != name:
                        continue
                    sides = unite(rest, name, [box[place][1], other[place][1]])
                    if len(sides) == 1:
                        return mate, filter_of(with_side(rest, place, name, sides[0]))
        elif isinstance(filter, KeywordFilter):
            for mate in self._keywords:
                other_words = self._visible[mate]
                assert isinstance(other_words, KeywordFilter)
                united = merged_keywords([filter, other_words]) if mate != label else []
                if len(united) == 1:
                    return mate, united[0]
        return None


class RebecaMerging(SubscriptionStrategy):
    """Covering over stand-ins."""

    name = "merging-rebeca"
    dialect = "merging-rebeca"
    policy = Covering.policy
    description = (
        "entries of a neighbour are merged, and a merger is dissolved when a part of it is withdrawn"
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._destinations: dict[Link, Destination] = {}

    # -- what a neighbour says -------------------------------------------------------------------------------

    def receive(self, link: Link, message: Message) -> None:
        """Handle what a neighbour says."""
        match message:
            case Subscribe(key=key, filter=filter):
                self._heard(link, key, filter)
            case Unsubscribe(key=key):
                self._withdrawn(link, [key])
            case Pack(messages=messages):
                for inner in messages:
                    self.receive(link, inner)
            case _:
                raise unexpected(message, self)

    def _heard(self, link: Link, key: Key, filter: Filter) -> None:
        destination = self._destinations.setdefault(link, Destination())
        known = destination.entries.get(key)
        if known is None:
            self._take(link, destination.add(key, filter))
        elif known != filter:
            raise ProtocolError(
                f"broker {self.site.broker}: {link} gives the key {key} another filter than before"
            )

    def _withdrawn(self, link: Link, keys: Iterable[Key]) -> None:
        destination = self._destinations.get(link)
        if destination is not None:
            gone = [key for key in dict.fromkeys(keys) if key in destination.entries]
            self._take(link, destination.remove(gone))
            if not destination.entries:
                del self._destinations[link]

    def _take(self, link: Link, changes: Sequence[Step]) -> None:
        """Change the table as the stand-ins change, and tell the neighbours."""
        for step in changes:
            for item in step.entered:
                self.table.add(link, item.key, item.filter)
                self._subscribed(link, item)
            for item in step.left:
                self.table.remove(link, item.key)
                self._unsubscribed(link, item, None)

    def unlearn(self, link: Link, facts: Sequence[Fact]) -> None:
        """Take the facts as withdrawn, all at once: a merger is dissolved once, whatever it loses."""
        self._withdrawn(link, [fact.key for fact in facts])

    # -- what is known ---------------------------------------------------------------------------------------

    def iter_heard(self, link: Link) -> Iterator[Fact]:
        """Return the neighbour's entries, as it told them."""
        destination = self._destinations.get(link)
        return (
            iter(()) if destination is None else iter([Fact(*item) for item in destination.entries.items()])
        )

    def remote_entries(self) -> list[tuple[Link, Filter]]:
        """Return the remote part of the routing table: the stand-ins."""
        return [
            (link, filter) for link in self.site.neighbours() for filter in self.table.of_link(link).values()
        ]


register(RebecaMerging)
