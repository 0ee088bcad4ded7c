"""Incremental filter aggregation: covering that withdraws a filter hop by hop, and stops where that is not worth it.

After M. Chen, S. Hu, V. Muthusamy and H.-A. Jacobsen, *Congestion Avoidance with Incremental Filter Aggregation in
Content-Based Routing Networks*. When a broad filter S leaves, covering tells at once all that S quenched: a burst that
grows towards the publishers. But there S is ever more *similar* to what it quenched: most of its events have to come so
far anyway. So its unsubscription stops at the first broker where it would trigger many subscriptions and S has become
similar enough; from there on to the publisher S stays, and stands for what it covers. This costs false positives
between brokers, never at a client.

    events          carry the hops since more than one subscription wanted them; a subscriber's broker remembers them
                    (`statistics`)
    unsubscriptions carry, for each publisher ahead, the hops to the broker where S is similar enough, for each tier
    a tier          (M, θ): when M subscriptions would be triggered or more, similarity θ is enough

The rules, beside those of active covering, at a broker that S has left, for each neighbour U that was told S:

1. T[U] is what only S quenches towards U; M counts the T of all such neighbours. The tier is the first with M in it.
2. S is *kept* towards U if T[U] is not empty, there is a tier, and all publishers behind U whose advertisement overlaps
   S are 0 hops away in it. One that the unsubscription does not name is far away. An unsubscription without hops, and
   one that triggers nothing, always goes on.
3. If not, T[U] is told, *then* S is withdrawn, with one hop less for each publisher behind U.
4. What is kept remains told, so it quenches as before. It goes on (rule 3) as soon as it quenches too few; it has an
   owner again when its key comes back; what covers it retracts it; unadvertising and a broken link end it.
5. The owner measures the false positives of what it keeps, and lets it go on when they are more than θ allows.
6. A congested broker keeps S whatever the hops, if there is a tier, and decides again by rules 1 to 3 afterwards.

All is by key, not by filter: a label never outlives its subscription here, except as kept. Without advertisements no
publisher has a name, nothing can be promised, and all is as in active covering.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, Literal

import msgspec

from covey.core.filter import Filter
from covey.routing.messages import Key, Link, Publish, Unsubscribe
from covey.routing.strategy import Site, register
from covey.routing.table import Place
from covey.routing.work import Job
from covey.strategies.incremental.kept import Distances, Kept, KeptTowards
from covey.strategies.incremental.settings import LINK, Settings
from covey.strategies.incremental.statistics import FAR, Window
from covey.strategies.policy import KEYS, Uncovered
from covey.strategies.subscriptions import SubscriptionStrategy
from covey.strategies.told import Item

# What may leave a kept filter with too little to quench: a subscription, one that is gone, an advertisement that is.
Change = Literal["came", "left", "unadvertised"]
CAME: Final = "came"
LEFT: Final = "left"
UNADVERTISED: Final = "unadvertised"


class Incremental(SubscriptionStrategy):
    """Covering that keeps some of what left; see the module's text. Options are those of `Settings`."""

    name = "incremental"
    dialect = "subscriptions"
    policy = Uncovered(KEYS, withdraws=True)
    perfect = False
    names_publishers = True
    description = (
        "covering that keeps a filter that left, near publishers, rather than tell a burst of what it covered"
    )
    options = tuple(field.name for field in fields(Settings))

    def __init__(self, site: Site, **options: Any) -> None:
        super().__init__(site)
        self.settings = Settings(**options)
        self.window = Window(self.settings.window_s, self.settings.window_rows, self.settings.minimum_samples)
        self._kept: dict[Link, KeptTowards] = {}

    def kept(self, link: Link) -> list[Kept]:
        """Return what is kept towards the neighbour, the oldest first."""
        towards = self._kept.get(link)
        return [] if towards is None else towards.all()

    # -- interest --------------------------------------------------------------------------------------------

    def subscribe(self, link: Link, key: Key, filter: Filter) -> None:
        """Note a client's subscription and tell the neighbours."""
        self.window.begin((link, key), self.site.now_s)
        super().subscribe(link, key, filter)

    def unsubscribe(self, link: Link, key: Key, filter: Filter) -> None:
        """Forget a client's subscription and tell the neighbours, with what is known of it."""
        self.table.removed(link, key, filter)
        distances = None
        if any(key in told for told in self._told.values()):
            distances = self.critical_distances((link, key), filter)
        self.window.forget((link, key))
        self._unsubscribed(link, Item(key, filter), distances)

    def critical_distances(self, place: Place, filter: Filter) -> dict[str, tuple[float, ...]]:
        """Return, for every publisher ahead that the subscription can get events from, its critical distances."""
        publishers = {name for link in self.site.neighbours() for name in self.site.publishers(link, filter)}
        known = self.window.evidence(place, self.site.now_s)
        return {
            publisher: tuple(known.critical(publisher, tier.similarity) for tier in self.settings.tiers)
            for publisher in sorted(publishers)
        }

    def _subscribed(self, source: Link, item: Item) -> None:
        for link in self.site.neighbours():
            if link == source:
                continue
            if item.key in self._told[link]:
                self.adopt(link, item.key)
            elif self.site.wanted(link, item.filter) and not self.quenched(link, item):
                self.announce(link, [item])
        self._count(self.collect(item.filter, CAME))

    def adopt(self, link: Link, key: Key) -> None:
        """Let what was kept have an owner again: the neighbour knows it, so nothing is said."""
        if self._kept[link].remove(key) is not None:
            self.site.counters["adopted"] += 1

    def _unsubscribed(
        self, source: Link, gone: Item, distances: Mapping[str, tuple[float, ...]] | None
    ) -> None:
        links = [
            link for link in self.site.neighbours() if link != source and self.label(link, gone) is not None
        ]
        triggered = self.prune(links, gone, distances)
        triggered += self.collect(gone.filter, LEFT, but=gone.key)
        self._count(triggered)

    def retract(self, link: Link, label: Key) -> None:
        """Withdraw what the neighbour needs no more; if it was kept, it is so no longer."""
        self._kept[link].remove(label)
        super().retract(link, label)

    def _count(self, triggered: Iterable[Item]) -> None:
        self.site.counters["triggered"] += len({item.filter for item in triggered})

    # -- pruning: rules 1 to 3 -------------------------------------------------------------------------------

    def prune(self, links: Sequence[Link], gone: Item, distances: Distances | None) -> list[Item]:
        """Withdraw what has left from neighbours that were told it, or keep it there; return what was triggered."""
        for link in links:
            self._told[link].remove(gone.key)
        uncovered = {link: self.uncovered(link, gone) for link in links}
        burst = len({item.filter for items in uncovered.values() for item in items})
        triggered: list[Item] = []
        for link, items in uncovered.items():
            kept = self._to_keep(link, gone, items, distances, burst)
            if kept is not None:
                self.keep(link, kept)
                self.site.counters["spared"] += len(items)
            else:
                self.replace(link, gone, items, distances)
                triggered += items
        return triggered

    def _to_keep(
        self, link: Link, gone: Item, items: Sequence[Item], distances: Distances | None, burst: int
    ) -> Kept | None:
        tier = self.settings.tier(len(items) if self.settings.burst == LINK else burst)
        if tier is None or not items or not distances:
            return None
        critical = self.is_critical(link, gone.filter, distances, tier)
        if not critical and not self.site.congested:
            return None
        return Kept(
            gone.key,
            gone.filter,
            distances,
            self.settings.tiers[tier].similarity,
            held=not critical,
            spare=len(items) - self.settings.least,
        )

    def is_critical(self, link: Link, filter: Filter, distances: Distances, tier: int) -> bool:
        """Return whether the filter is similar enough here for all publishers behind the neighbour."""
        publishers = self.site.publishers(link, filter)
        return bool(publishers) and all(
            tier < len(hops) and hops[tier] <= 0
            for hops in (distances.get(publisher, ()) for publisher in publishers)
        )

    def keep(self, link: Link, kept: Kept) -> None:
        """Say nothing to the neighbour: it goes on knowing what it was told."""
        self._told[link].add(kept.key, kept.filter)
        self._kept[link].add(kept)
        self.site.counters["held" if kept.held else "kept"] += 1

    def replace(self, link: Link, gone: Item, items: Sequence[Item], distances: Distances | None) -> None:
        """Tell the neighbour the items, then withdraw what they were quenched by."""
        self.announce(link, items)
        ahead = None if distances is None else self.step(link, gone.filter, distances)
        self.tell(link, Unsubscribe(gone.key, ahead, tree=self.site.tree))

    def step(self, link: Link, filter: Filter, distances: Distances) -> dict[str, tuple[float, ...]]:
        """Return the distances as seen from the neighbour, of the publishers behind it."""
        publishers = self.site.publishers(link, filter)
        return {
            publisher: tuple(max(hops - 1.0, 0.0) for hops in distances[publisher])
            for publisher in publishers
            if publisher in distances
        }

    # -- the life of what is kept: rules 4 to 6 --------------------------------------------------------------

    def collect(self, changed: Filter, change: Change, *, but: Key = "") -> list[Item]:
        """Let what quenches too few after a change go on, except `but`; return what was triggered.

        What is quenched is counted again only when more may have gone since the last time than there was to spare.
        A filter that leaves is one less for those that cover it, and none for others: what they quench besides was not
        covered by it, so not by what is told in its place. One that comes takes at most what it covers itself. That
        something is let go on, or is told for another reason than a new subscription, leaves the others as they are:
        what it could take from them was covered before, too, by what stood in its place.
        """
        if not any(self._kept.values()):
            return []
        lost = 1 if change == LEFT else self._may_take(changed) if change == CAME else len(self.table) + 1
        if not lost:
            return []
        triggered: list[Item] = []
        for link in self.site.neighbours():
            kept = self._kept[link]
            concerned = kept.covering(changed) if change == LEFT else kept.overlapping(changed)
            for key in concerned:
                if key != but and key in kept and self._quenches_too_few(link, kept[key], lost):
                    self.site.counters["collected"] += 1
                    triggered += self.let_go(link, kept[key], kept[key].distances)
        return triggered

    def _may_take(self, came: Filter) -> int:
        """Return how many other filters here a new one covers."""
        covered = {entry.filter for entry in self.table.covered(came, not_of="")}
        covered.discard(came)
        return len(covered)

    def _quenches_too_few(self, link: Link, kept: Kept, fewer: int) -> bool:
        kept.spare -= fewer
        if kept.spare < 0:
            told = self._told[link]
            told.remove(kept.key)
            kept.spare = len(self.uncovered(link, Item(kept.key, kept.filter))) - self.settings.least
            told.add(kept.key, kept.filter)
        return kept.spare < 0

    def let_go(self, link: Link, kept: Kept, distances: Distances | None) -> list[Item]:
        """Withdraw what was kept, with these distances; the next broker decides again. Return what was triggered."""
        gone = Item(kept.key, kept.filter)
        self._kept[link].remove(kept.key)
        self._told[link].remove(kept.key)
        items = self.uncovered(link, gone)
        self.replace(link, gone, items, distances)
        return items

    def reactivate(self) -> None:
        """Withdraw everything that is kept here, all the way: tables become those of active covering."""
        triggered: list[Item] = []
        for link in self.site.neighbours():
            while kept := self.kept(link):
                self.site.counters["reactivated"] += 1
                triggered += self.let_go(link, kept[0], None)
        self._count(triggered)

    def congestion(self, on: bool) -> None:
        """When the broker has caught up, decide about everything that was held meanwhile."""
        if on:
            return
        held: dict[tuple[Key, int], list[tuple[Link, Kept]]] = {}  # by what was withdrawn in one input
        for link in self.site.neighbours():
            for kept in self.kept(link):
                if kept.held:
                    held.setdefault((kept.key, id(kept.distances)), []).append((link, kept))
        for together in held.values():
            _, kept = together[0]
            links = [link for link, _ in together if self._kept[link].remove(kept.key) is not None]
            self._count(self.prune(links, Item(kept.key, kept.filter), kept.distances))

    # -- advertisements and links ----------------------------------------------------------------------------

    def unadvertised(self, link: Link, filter: Filter) -> Job:
        """Withdraw what the neighbour wants no more, kept or not."""
        yield from super().unadvertised(link, filter)
        self._count(self.collect(filter, UNADVERTISED))

    def opening(self, link: Link) -> Job:
        """Tell the neighbour all it wants; nothing is kept from the last time."""
        self._kept[link] = KeptTowards()
        yield from super().opening(link)

    def close(self, link: Link) -> Job:
        """Forget what the neighbour was told; what was kept there is gone."""
        del self._kept[link]
        return super().close(link)

    # -- events ----------------------------------------------------------------------------------------------

    def forward(
        self, publish: Publish, source: Link, local: Sequence[Place]
    ) -> Iterable[tuple[Link, Publish]]:
        """Send it to the neighbours that have a matching entry, with its distance; remember the distance here."""
        links = self.ordered(self.table.links(publish.event), source)
        distance = self.distance(publish, source, links, local)
        if local:
            self.window.record(local, publish.publisher, publish.id, distance, self.site.now_s)
        if source in self._told and self._kept[source] and self.settings.meter_events:
            self._judge(publish, source, wanted=bool(links or local))
        if distance != publish.distance:
            publish = msgspec.structs.replace(publish, distance=distance)
        return [(link, publish) for link in links]

    def distance_here(self, publish: Publish, source: Link, local: Sequence[Place]) -> float:
        """Return the distance that is remembered for the subscriptions here."""
        links = self.ordered(self.table.links(publish.event), source)
        return self.distance(publish, source, links, local)

    def distance(
        self, publish: Publish, source: Link, links: Sequence[Link], local: Sequence[Place]
    ) -> float:
        """Return the event's distance behind this broker: how far back more than one subscription wanted it."""
        if self.interested(publish, links, local) >= 2:
            return 0.0
        return publish.distance + 1.0 if source in self._told else FAR

    def interested(self, publish: Publish, links: Sequence[Link], local: Sequence[Place]) -> int:
        """Return how many subscriptions here and behind `links` want the event; 2 if more do."""
        if local or len(links) != 1:
            return min(len(local) + len(links), 2)
        return min(sum(place[0] == links[0] for place in self.table.matching(publish.event)), 2)

    def _judge(self, publish: Publish, source: Link, *, wanted: bool) -> None:
        kept = self._kept[source]
        for key in kept.matching(publish.event):
            beyond = key in kept and kept[key].judge(wanted, self.settings.meter_events)
            if beyond and not self.site.congested:
                self.site.counters["advanced"] += 1
                self._count(self.let_go(source, kept[key], kept[key].distances))


register(Incremental)
