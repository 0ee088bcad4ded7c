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

Whatever fails, the other trees are still there, and a plan may have spare ones for nothing else (`planning.backup`).
What a neighbour on tree 0 had told stays known while its link is down, and is put right when it is back. A neighbour to
which no link is open is *away*. Where the way to a host leads over a link that is down, or through a neighbour that is
away, the event goes on over the next tree whose way does not; if there is none, over the next one whose way begins
with another link. It changes trees so a few times at most, and is then dropped for that host. So if some tree joins all
others without a link or a broker, as spare trees see to, then the broker beside the failure sends on over that tree as
soon as it knows of it, and nobody need be asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

import msgspec

from covey.core.filter import Filter
from covey.errors import ConfigError, ProtocolError
from covey.matching.index import Index
from covey.routing.carrying import Bools
from covey.routing.messages import Key, Link, Publish, Subscribe, Tree
from covey.routing.strategy import Registered, Site, add
from covey.routing.table import Place, Table
from covey.routing.work import Job
from covey.strategies.homes import WithHomes
from covey.strategies.maximal import maximal
from covey.strategies.told import Item, Told

MOST_DETOURS: Final = 3
MOST_NAME_BYTES: Final = 60_000  # of all brokers together, so that the names fit into the notes of an event
HERE: Final = ""  # stands for the broker itself, where a link says from whom something came


class Regions(WithHomes):
    """A directory on tree 0; on the others nothing is told."""

    name = "regions"
    dialect = "regions"
    matched_once = True
    addresses = True
    remembers = True  # hosts behind a neighbour that is away can be reached on other trees
    description = "one copy of each event, on the one of several trees that suits the brokers that want it"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        if site.plan.carrying is None:
            raise ConfigError("the strategy regions needs a plan that says on which tree an event travels")
        self._carrying = site.plan.carrying
        self._away: tuple[tuple[Link, ...], Bools] | None = (
            None  # those that were away, and who is behind them
        )
        self._is_plain = sum(len(name.encode()) for name in self._carrying.names) < MOST_NAME_BYTES
        self.table = Table(site.local, {})  # of what other brokers have in the directory
        self._holders: Counter[Filter] = Counter()  # how many clients' subscriptions have it
        self._own = Told()  # what this broker has in the directory: the maximal ones of these

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

    def preparing(self) -> Job:
        """Make ready what `unsubscribe` and `places` ask for."""
        return chain(super().preparing(), self.site.local.preparing(), self._own.preparing())

    def _note(self, link: Link, message: Subscribe) -> None:
        if message.home not in self._carrying.number:
            raise ProtocolError(
                f"broker {self.site.broker}: {link} names a broker {message.home!r:.60} that the plan does not have"
            )
        self._homes.setdefault(message.key, message.home)
        self.table.add(link, message.key, message.filter, behind=message.home)

    def places(self, link: Link, overlapping: Filter | None) -> Iterable[Place]:
        """Return where the entries of other links, and of this broker, are that are to be told the neighbour."""
        own = self._own.labels() if overlapping is None else self._own.labels_overlapping(overlapping)
        return chain(super().places(link, overlapping), ((HERE, label) for label in own))

    def filter_at(self, place: Place) -> Filter | None:
        """Return the filter of an entry, None if it has gone."""
        return self._own.filter_of(place[1]) if place[0] == HERE else super().filter_at(place)

    def holds(self, link: Link, item: Item) -> bool:
        """Return whether another link, or this broker, still has it in the directory."""
        return item.key in self._own or super().holds(link, item)

    # -- events ----------------------------------------------------------------------------------------------

    def address(self, publish: Publish, local: Sequence[Place]) -> Publish:
        """Write on the event the brokers that want it, and the tree that suits them."""
        hosts = sorted(self.table.links(publish.event))
        if not hosts:
            return msgspec.structs.replace(publish, destinations=())
        wanting = [*hosts, self.site.broker] if local else hosts
        tree = self._carrying.carrier(self.site.broker, wanting)
        return msgspec.structs.replace(publish, destinations=tuple(hosts), tree=tree)

    @property
    def is_plain(self) -> bool:
        """Compiled code does what `address` and `forward` do (`matching.addressing`), if names fit into notes."""
        return self._is_plain

    def next_hop_index(self) -> Index:
        """Return the directory, whose links are hosts."""
        return self.table.remote

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
        count = len(self.site.plan.trees)
        behind = self._behind_those_away()
        number = self._carrying.number[host]
        if behind is not None and all(
            behind[tree, number] or self._open_link(tree, host) is None for tree in range(count)
        ):
            behind = None  # no way leads around them
        for step in range(count if publish.detours < MOST_DETOURS else 1):
            tree = (publish.tree + step) % count
            link = self._open_link(tree, host)
            if (
                link is None
                or (behind is not None and behind[tree, number])
                or (step == 0 and link == source)
            ):
                continue
            return tree, link
        return None

    def _open_link(self, tree: Tree, host: str) -> Link | None:
        """Return the link towards a host on a tree, None if it is not open."""
        link = self._carrying.next_hop(tree, self.site.broker, host)
        return link if self.site.is_open(tree, link) else None

    def _behind_those_away(self) -> Bools | None:
        """Return, for each tree, to which brokers the way leads through a neighbour that is away; None if nobody is."""
        trees = self.site.plan.trees
        away = tuple(
            link
            for link in self._carrying.around(self.site.broker)
            if not any(self.site.is_open(tree, link) for tree in trees)
        )
        if not away:
            return None
        if self._away is None or self._away[0] != away:
            self._away = away, self._carrying.behind(self.site.broker, away)
        return self._away[1]


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
