"""What strategies share whose brokers tell each other subscriptions: the bookkeeping of tables and of what was told.

    table[L]    what came from link L: entries (L, key) with a filter
    told[U]     what neighbour U was told and what has not been withdrawn: labels with a filter

The mirror invariant holds all of it together: what U's table has from us is told[U], delayed by the link, and only we
change it. A label is the key of the subscription under which a filter was first told; it stays while somebody here
still holds that filter, whoever that is by then.

This is the teller of all these strategies. What it tells, what it withdraws and what it takes for one is said by the
`policy` of the strategy (`strategies.policy`), so most strategies are a name and a policy. The
moves are the same for all:

    subscribed     tell U, unless U does not want it or it is quenched
    unsubscribed   tell U what is quenched no longer, *then* withdraw it
    advertised     tell U what it wants now
    unadvertised   withdraw what U does not want any more; nothing can be uncovered by that
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap
from typing import Final

from covey.core.filter import Filter
from covey.core.work import ACCOUNT
from covey.errors import ProtocolError
from covey.matching.index import Index
from covey.routing.digest import Fact
from covey.routing.messages import Key, Link, Message, Pack, Subscribe, Unsubscribe
from covey.routing.strategy import Site, Strategy, unexpected
from covey.routing.table import Place, Table, in_order
from covey.routing.work import BATCH, Job, Work, as_they_are, batches, ordered, taken
from covey.strategies.policy import Policy, Selection
from covey.strategies.told import Item, Told

TELL_UNITS: Final = 25  # of work, to tell a neighbour one thing or to withdraw it
LOOK_UNITS: Final = 25  # to see whether a neighbour is to be told an entry
UNCOVER_UNITS: Final = 60.0  # to see what it is to be told now that a thing told has gone


class SubscriptionStrategy(Strategy):
    """The strategies whose messages are Subscribe and Unsubscribe; each has a policy."""

    policy: Policy  # of the class, or, if it has settings, of the instance

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.table = Table(site.local, site.clients)
        self._told: dict[Link, Told] = {}

    # -- what the policy decides -----------------------------------------------------------------------------

    def quenched(self, link: Link, item: Item) -> bool:
        """Return whether what the neighbour was told makes it superfluous to tell it the item."""
        return self.policy.quenched(self._told[link], item)

    def uncovered(self, link: Link, gone: Item) -> list[Item]:
        """Return what the neighbour must be told when `gone` is withdrawn; told[link] is without it already."""
        return self.policy.uncovered(self._told[link], self._covered(link, gone.filter))

    def _covered(self, link: Link, filter: Filter) -> Iterator[Item]:
        """Yield what the filter covers and the neighbour wants; nothing is looked at before it is asked for."""
        for entry in self.table.covered(filter, not_of=link):
            if self.site.wanted(link, entry.filter):
                yield Item(entry.key, entry.filter)

    def superfluous(self, link: Link, items: Sequence[Item]) -> list[Item]:
        """Return what of the things told becomes superfluous by telling the items."""
        return self.policy.superfluous(self._told[link], items)

    def holds(self, link: Link, item: Item) -> bool:
        """Return whether the item is still to be told to the neighbour on behalf of somebody else."""
        return self.policy.names.held(self.table, item, not_by=link)

    def label(self, link: Link, gone: Item) -> Key | None:
        """Return the label to withdraw now that an entry is gone; None if the neighbour needs what it was told."""
        label = self.policy.names.label(self._told[link], gone)
        return None if label is None or self.holds(link, gone) else label

    def selection(self, link: Link) -> Selection:
        """Return what selects, of the wanted entries, those to be told."""
        return self.policy.selection(self._told[link])

    # -- all there is to tell --------------------------------------------------------------------------------

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

    def places(self, link: Link, overlapping: Filter | None) -> Iterable[Place]:
        """Return where the entries are that are to be told the neighbour; of those that overlap a filter, or of all."""
        if overlapping is None:
            return self.table.places(not_of=link)
        return self.table.places_overlapping(overlapping, not_of=link)

    def filter_at(self, place: Place) -> Filter | None:
        """Return the filter of an entry, None if it has gone."""
        return self.table.filter_at(place)

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
            filter = self.table.of_link(link)[message.key]  # the compact one
            self._subscribed(link, Item(message.key, filter))
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
            if self.policy.compares:
                ACCOUNT.spend(UNCOVER_UNITS + TELL_UNITS * len(items))
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
        yield from self.preparing()
        yield from self._tell_missing(link, filter)

    def _tell_missing(self, link: Link, overlapping: Filter | None) -> Job:
        before = self.site.jobs.changes
        items = yield from self.missing(link, overlapping)
        for some in taken(items, self.site.jobs.batch):
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
        found = yield from ordered(self._told[link].labels_overlapping(filter))
        for labels in batches(found, self.site.jobs.batch):
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
        yield from self.table.counting(keys=self.policy.names.by_key)
        yield from self._tell_missing(link, None)

    def preparing(self) -> Job:
        """Make ready what the strategy asks of tables once it has a neighbour."""
        return self.table.preparing() if self.policy.compares else iter(())

    def learn(self, link: Link, facts: Sequence[Fact]) -> None:
        """Take the facts as the subscriptions that they are."""
        for fact in facts:
            self.receive(link, Subscribe(fact.key, fact.filter, tree=self.site.tree))

    def unlearn(self, link: Link, facts: Sequence[Fact]) -> None:
        """Take the facts as withdrawn."""
        for fact in facts:
            self.receive(link, Unsubscribe(fact.key, tree=self.site.tree))

    def close(self, link: Link) -> Job:
        """Forget what the neighbour was told."""
        return self._told.pop(link).dissolving()

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
        return starmap(Fact, as_they_are(self.table.of_link(link)))

    def remote_size(self) -> int:
        """Return the number of entries of all neighbours."""
        return sum(len(self.table.of_link(link)) for link in self.site.neighbours())

    def iter_told(self, link: Link) -> Iterator[Fact]:
        """Return the labels and filters that the neighbour was told."""
        told = self._told.get(link)
        return iter(()) if told is None else (Fact(*item) for item in told.iter_items())
