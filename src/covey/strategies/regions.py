"""One copy of each event, on the tree of the region where it is wanted.

Under `trees` an event travels once for each group that wants it. Here it travels on one of the planned trees, and
reaches everybody over that one: see `planning.groups.regions` for what that saves and which trees are planned. The
publisher's broker must know who wants an event before it can choose, so every broker has a *directory*: for each broker
that hosts clients, their filters, without those that others of the same broker cover.

    interest   what is maximal at a host is told along tree 0, with the host's name, towards all producers
    choice     the publisher's broker matches an event once, against the directory; from the hosts it finds follows
               the tree (`routing.carrying`), and they are written on the event
    carriage   every other broker splits that list by the links over which the hosts lie on that tree, as the plan has
               it, and matches for its own clients alone

So there is one table, however many trees there are, and brokers on the way need none. An event crosses exactly the
links between its publisher's broker and the hosts on one tree: what a planner predicts.

A subscription that stays is in the directory of every producer's broker, itself or one of its own host's that covers
it, because what takes its place is told before it is withdrawn. A client that moves must wait until what was addressed
to its old broker has arrived there, as under match-first.

Whatever fails, the other trees are still there. What a neighbour on tree 0 had told stays known while its link is down,
and is put right when it is back. Where a host lies behind a link that is down, the event goes on over the next tree
whose way begins with another link; it changes trees so a few times at most, and is then dropped for that host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from covey.core.filter import Filter
from covey.errors import ConfigError, ProtocolError
from covey.routing.digest import Fact
from covey.routing.messages import Key, Link, Publish, Subscribe, Tree
from covey.routing.strategy import Registered, Site, add
from covey.routing.table import Entry, Place, Table
from covey.strategies.homes import WithHomes
from covey.strategies.maximal import maximal
from covey.strategies.told import Item, Told

MOST_DETOURS: Final = 3
HERE: Final = ""  # stands for the broker itself, where a link says from whom something came


class Regions(WithHomes):
    """A directory on tree 0; on the others nothing is told."""

    name = "regions"
    dialect = "regions"
    matched_once = True
    description = "one copy of each event, on the one of several trees that suits the brokers that want it"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        if site.plan.carrying is None:
            raise ConfigError("the strategy regions needs a plan that says on which tree an event travels")
        self._carrying = site.plan.carrying
        self.table = Table(site.local, {})  # of what other brokers have in the directory
        self._holders: Counter[Filter] = Counter()  # how many clients' subscriptions have it
        self._own = Told()  # what this broker has in the directory: the maximal ones of these
        self._kept: set[Link] = set()  # the neighbours that are away, and what they told is still known

    # -- interest --------------------------------------------------------------------------------------------

    def subscribe(self, link: Link, key: Key, filter: Filter) -> None:
        """Note a client's subscription; if nothing else here covers it, enter it in the directory."""
        self._holders[filter] += 1
        if self._own.cover(filter):
            return
        covered = self._own.covered(filter)
        self._enter(Item(key, filter))
        for item in covered:
            self._own.remove(item.key)
            self._unsubscribed(HERE, item, None)

    def unsubscribe(self, link: Link, key: Key, filter: Filter) -> None:
        """Forget a client's subscription; if it was in the directory, enter what it covered, then take it out."""
        self._holders[filter] -= 1
        if self._holders[filter]:
            return
        del self._holders[filter]
        label = self._own.label_of(filter)
        if label is None:
            return
        self._own.remove(label)
        uncovered = self._uncovered(filter)
        self.site.counters["triggered"] += len(uncovered)
        for item in uncovered:
            self._enter(item)
        self._unsubscribed(HERE, Item(label, filter), None)

    def _enter(self, item: Item) -> None:
        self._own.add(item.key, item.filter)
        self._subscribed(HERE, item)

    def _uncovered(self, gone: Filter) -> list[Item]:
        """Return the maximal ones of the clients' filters that only `gone` covered."""
        places: list[Place] = sorted(self.site.local.covered(gone))
        items = [Item(key, self.site.clients[link][key]) for link, key in places]
        return maximal(item for item in items if not self._own.cover(item.filter))

    def _note(self, link: Link, message: Subscribe) -> None:
        if message.home not in self._carrying.number:
            raise ProtocolError(
                f"broker {self.site.broker}: {link} names a broker {message.home!r:.60} that the plan does not have"
            )
        self._homes.setdefault(message.key, message.home)
        self.table.add(link, message.key, message.filter, behind=message.home)

    def wanted(self, link: Link, overlapping: Filter | None) -> list[Entry]:
        """Return the entries of other links, and of this broker, that the neighbour wants."""
        own = self._own.items() if overlapping is None else self._own.overlapping(overlapping)
        mine = [Entry(HERE, item.key, item.filter) for item in own if self.site.wanted(link, item.filter)]
        return sorted([*super().wanted(link, overlapping), *mine], key=lambda entry: (entry.key, entry.link))

    # -- links -----------------------------------------------------------------------------------------------

    def close(self, link: Link) -> list[Fact]:
        """Keep what the neighbour told: its hosts can be reached on other trees."""
        del self._told[link]
        self._kept.add(link)
        return self.heard(link)

    def learn(self, link: Link, facts: Sequence[Fact]) -> None:
        """Take the facts as the subscriptions that they are, instead of what was kept."""
        if link in self._kept:
            self._kept.remove(link)
            self.relearn(link, facts)
        else:
            super().learn(link, facts)

    # -- events ----------------------------------------------------------------------------------------------

    def address(self, publish: Publish, local: Sequence[Place]) -> Publish:
        """Write on the event the brokers that want it, and the tree that suits them."""
        hosts = sorted(self.table.links(publish.event))
        if not hosts:
            return msgspec.structs.replace(publish, destinations=())
        wanting = [*hosts, self.site.broker] if local else hosts
        tree = self._carrying.carrier(self.site.broker, wanting)
        return msgspec.structs.replace(publish, destinations=tuple(hosts), tree=tree)

    def next_hops(self, event: object) -> Iterable[Link]:
        """Return the neighbours on this tree behind which hosts lie that want the event."""
        tree, here = self.site.tree, self.site.broker
        return {self._carrying.next_hop(tree, here, host) for host in self.table.links(event)}

    def forward(
        self, publish: Publish, source: Link, local: Sequence[Place]
    ) -> Iterable[tuple[Link, Publish]]:
        """Send it over each link behind which hosts lie that it is for, with their names."""
        behind: dict[tuple[Tree, Link], list[str]] = {}
        for host in publish.destinations or ():
            if host in self._carrying.number and host != self.site.broker:
                way = self._way(publish, source, host)
                if way is None:
                    self.site.counters["dropped_destinations"] += 1
                else:
                    behind.setdefault(way, []).append(host)
        return [
            (
                link,
                msgspec.structs.replace(
                    publish,
                    destinations=tuple(hosts),
                    tree=tree,
                    detours=publish.detours + (tree != publish.tree),
                ),
            )
            for (tree, link), hosts in behind.items()
        ]

    def _way(self, publish: Publish, source: Link, host: str) -> tuple[Tree, Link] | None:
        """Return the link towards a host, on the event's tree or on the next one on which it is up; None if on none."""
        count, here = len(self.site.plan.trees), self.site.broker
        link = self._carrying.next_hop(publish.tree, here, host)
        if link != source and self.site.is_open(publish.tree, link):
            return publish.tree, link
        for step in range(1, count if publish.detours < MOST_DETOURS else 1):
            tree = (publish.tree + step) % count
            link = self._carrying.next_hop(tree, here, host)
            if self.site.is_open(tree, link):
                return tree, link
        return None


add(
    Registered(
        name=Regions.name,
        make=Regions,
        dialect=Regions.dialect,
        perfect=Regions.perfect,
        description=Regions.description,
        trees=True,
        one_copy=True,
    )
)
