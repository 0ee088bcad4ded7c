"""What strategies share whose brokers tell each other subscriptions: the bookkeeping of tables and of what was told.

    table[L]    what came from link L: entries (L, key) with a filter
    told[U]     what neighbour U was told and what has not been withdrawn: labels with a filter

The mirror invariant holds all of it together: what U's table has from us is told[U], delayed by the link, and only we
change it. A label is the key of the subscription under which a filter was first told; it stays while somebody here
still holds that filter, whoever that is by then.

A strategy says two things: whether a filter is quenched towards U, because what U was told suffices for it, and what an
announcement makes superfluous. The moves are the same for all:

    subscribed     tell U, unless U does not want it or it is quenched
    unsubscribed   tell U what is quenched no longer, *then* withdraw it
    advertised     tell U what it wants now
    unadvertised   withdraw what U does not want any more; nothing can be uncovered by that
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from covey.core.filter import Filter
from covey.errors import ProtocolError
from covey.matching.index import Index
from covey.routing.digest import Fact
from covey.routing.messages import Key, Link, Message, Pack, Subscribe, Unsubscribe
from covey.routing.strategy import Site, Strategy, unexpected
from covey.routing.table import Table
from covey.routing.work import Job, Work, batches
from covey.strategies.told import Item, Told

TELL_UNITS: Final = 25  # of work, to tell a neighbour one thing or to withdraw it
LOOK_UNITS: Final = 25  # to see whether a neighbour is to be told an entry


class SubscriptionStrategy(Strategy):
    """Base of the strategies whose messages are Subscribe and Unsubscribe."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.table = Table(site.local, site.clients)
        self._told: dict[Link, Told] = {}

    # -- what a strategy decides -----------------------------------------------------------------------------

    @abstractmethod
    def quenched(self, link: Link, item: Item) -> bool:
        """Return whether what the neighbour was told makes it superfluous to tell it the item."""

    @abstractmethod
    def uncovered(self, link: Link, gone: Item) -> list[Item]:
        """Return what the neighbour must be told when `gone` is withdrawn; told[link] is without it already.

        One item for each class of equal filters, none of them quenched by another one or by what was told.
        """

    @abstractmethod
    def missing(self, link: Link, overlapping: Filter | None = None) -> Work[list[Item]]:
        """Return what the neighbour wants and was not told, reduced likewise; of what overlaps a filter, or of all."""

    def holds(self, link: Link, item: Item) -> bool:
        """Return whether the item is still to be told to the neighbour on behalf of somebody else."""
        return self.table.held(item.filter, not_by=link)

    def superfluous(self, link: Link, items: Sequence[Item]) -> list[Item]:
        """Return what of the things told becomes superfluous by telling the items."""
        return []

    def label(self, link: Link, gone: Item) -> Key | None:
        """Return the label to withdraw now that an entry is gone; None if the neighbour needs what it was told."""
        label = self._told[link].label_of(gone.filter)
        return None if label is None or self.table.held(gone.filter, not_by=link) else label

    # -- interest --------------------------------------------------------------------------------------------

    def subscribe(self, link: Link, key: Key, filter: Filter) -> None:
        """Note a client's subscription and tell the neighbours."""
        self.table.added(link, key)
        self._subscribed(link, Item(key, filter))

    def unsubscribe(self, link: Link, key: Key, filter: Filter) -> None:
        """Forget a client's subscription and tell the neighbours."""
        self.table.removed(link, key, filter)
        self._unsubscribed(link, Item(key, filter), None)

    def receive(self, link: Link, message: Message) -> None:
        """Handle what a neighbour says."""
        match message:
            case Subscribe():
                self._receive_subscribe(link, message)
            case Unsubscribe(key=key, distances=distances):
                if self.table.get(link, key) is not None:
                    filter = self.table.remove(link, key)
                    self._unsubscribed(link, Item(key, filter), distances)
            case Pack(messages=messages):
                for inner in messages:
                    self.receive(link, inner)
            case _:
                raise unexpected(message, self)

    def _receive_subscribe(self, link: Link, message: Subscribe) -> None:
        known = self.table.get(link, message.key)
        if known is None:
            self._note(link, message)
            self._subscribed(link, Item(message.key, message.filter))
        elif known != message.filter:
            raise ProtocolError(
                f"broker {self.site.broker}: {link} gives the key {message.key} another filter than before"
            )

    def _note(self, link: Link, message: Subscribe) -> None:
        """Put what is new into the table."""
        self.table.add(link, message.key, message.filter)

    def _subscribed(self, source: Link, item: Item) -> None:
        for link in self.site.neighbours():
            if link != source and self.site.wanted(link, item.filter) and not self.quenched(link, item):
                self.announce(link, [item])

    def _unsubscribed(self, source: Link, gone: Item, distances: dict[str, tuple[float, ...]] | None) -> None:
        triggered: set[Filter] = set()
        for link in self.site.neighbours():
            if link == source:
                continue
            told = self._told[link]
            label = self.label(link, gone)
            if label is None:
                continue
            told.remove(label)
            items = self.uncovered(link, Item(label, gone.filter))
            triggered.update(item.filter for item in items)
            self.announce(link, items)
            self.tell(link, Unsubscribe(label, tree=self.site.tree))
        self.site.counters["triggered"] += len(triggered)

    def announce(self, link: Link, items: Sequence[Item]) -> None:
        """Tell the neighbour the items, then withdraw what they make superfluous."""
        told = self._told[link]
        superfluous = self.superfluous(link, items)
        for item in items:
            told.add(item.key, item.filter)
            self.tell(link, Subscribe(item.key, item.filter, tree=self.site.tree))
        for item in superfluous:
            self.retract(link, item.key)

    def retract(self, link: Link, label: Key) -> None:
        """Withdraw what the neighbour was told and needs no more; nothing is uncovered by that."""
        self._told[link].remove(label)
        self.tell(link, Unsubscribe(label, tree=self.site.tree))

    def tell(self, link: Link, message: Subscribe | Unsubscribe) -> None:
        """Send a message to a neighbour."""
        self.site.send(link, message)

    # -- advertisements --------------------------------------------------------------------------------------

    def advertised(self, link: Link, filter: Filter) -> Job:
        """Tell the neighbour what it wants now."""
        yield from self._tell_missing(link, filter)

    def _tell_missing(self, link: Link, overlapping: Filter | None) -> Job:
        before = self.site.jobs.changes
        items = yield from self.missing(link, overlapping)
        for some in batches(items, self.site.jobs.batch):
            if self.site.jobs.changes == before:
                self.announce(link, some)
            else:
                self._tell_what_is_left(link, some)
            yield TELL_UNITS * len(some)

    def _tell_what_is_left(self, link: Link, items: Sequence[Item]) -> None:
        """Tell the neighbour what was missing some time ago, or what is missing because such an item has gone."""
        for item in items:
            if not self.holds(link, item):
                self.announce(link, self.uncovered(link, item))
            elif self.site.wanted(link, item.filter) and not self.quenched(link, item):
                self.announce(link, [item])

    def unadvertised(self, link: Link, filter: Filter) -> Job:
        """Withdraw what the neighbour wants no more."""
        yield from self._told[link].preparing()
        for labels in batches(sorted(self._told[link].labels_overlapping(filter)), self.site.jobs.batch):
            self.retract_unwanted(link, labels)
            yield TELL_UNITS * len(labels)

    def retract_unwanted(self, link: Link, labels: Iterable[Key]) -> None:
        """Withdraw those of the things told that the neighbour wants no more."""
        told = self._told[link]
        for label in labels:
            filter = told.filter_of(label)
            if filter is not None and not self.site.wanted(link, filter):
                self.retract(link, label)

    # -- links -----------------------------------------------------------------------------------------------

    def opening(self, link: Link) -> Job:
        """Tell the neighbour all it wants."""
        self._told[link] = Told()
        yield from self.preparing()
        yield from self.table.counting()
        yield from self._tell_missing(link, None)

    def preparing(self) -> Job:
        """Make ready what the strategy asks of tables once it has a neighbour."""
        return iter(())

    def learn(self, link: Link, facts: Sequence[Fact]) -> None:
        """Take the facts as the subscriptions that they are."""
        for fact in facts:
            self.receive(link, Subscribe(fact.key, fact.filter, tree=self.site.tree))

    def unlearn(self, link: Link, facts: Sequence[Fact]) -> None:
        """Take the facts as withdrawn."""
        for fact in facts:
            self.receive(link, Unsubscribe(fact.key, tree=self.site.tree))

    def close(self, link: Link) -> None:
        """Forget what the neighbour was told."""
        del self._told[link]

    # -- events ----------------------------------------------------------------------------------------------

    def next_hops(self, event: object) -> Iterable[Link]:
        """Return the neighbours that have a matching entry."""
        return self.table.links(event)

    def next_hop_index(self) -> Index | None:
        """Return the index of the neighbours' entries."""
        return self.table.remote

    # -- what is known ---------------------------------------------------------------------------------------

    def iter_heard(self, link: Link) -> Iterator[Fact]:
        """Return the neighbour's entries."""
        return (Fact(key, filter) for key, filter in list(self.table.of_link(link).items()))

    def remote_size(self) -> int:
        """Return the number of entries of all neighbours."""
        return sum(len(self.table.of_link(link)) for link in self.site.neighbours())

    def iter_told(self, link: Link) -> Iterator[Fact]:
        """Return the labels and filters that the neighbour was told."""
        told = self._told.get(link)
        return iter(()) if told is None else (Fact(*item) for item in told.iter_items())
