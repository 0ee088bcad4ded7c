"""The guarantees of sections 4 and 5, on random small networks where subscriptions come and go.

A cell is so many networks: random trees of 4 to 8 brokers, with patterns that are above and below each other in
many ways. After every operation the network comes to rest and is looked at; everything is read from brokers' own state.

    routing     a document is published; each subscription that it matches gets it once, others do not, and it crosses
                no link without need
    counts      Property 5: an entry counts all that it stands for. Property 6: a neighbour has the counts of each top
    cancelling  now and then somebody registers a filter and cancels it at once. *Canonical* is what follows from who
                subscribes to what: the filters of each link, their own counts, and what each neighbour was told.
                *Arrangement* is who stands for whom and for how many, which may be chosen in several ways.

`xroute-sets` has no counts and no arrangement; only the rest is looked at.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from covey.core.filter import Filter
from covey.core.xpath.document import Document
from covey.core.xpath.filter import parse_xpath
from covey.lab.experiment import Cell, Experiment, Row, Scale
from covey.sim.handles import Subscription
from covey.sim.network import Network
from covey.strategies.xroute.counted import XRoute

NAME = "x-properties"
FILTERS: tuple[Filter, ...] = tuple(
    map(
        parse_xpath,
        (
            *("/a[b]", "/a[c]", "/a[d]", "/a[b][c]", "/a[b][d]", "/a[c][d]", "/a[b][c][d]"),
            *("/a", "/a/*", "//c", "/*/b", "/a//c", "/a/b/c", "/a[.//c]/d"),
        ),
    )
)
DOCUMENTS: tuple[Document, ...] = tuple(
    map(
        Document.parse,
        (
            *("<a/>", "<a><b/></a>", "<a><c/></a>", "<a><d/></a>", "<a><b/><c/></a>", "<a><b/><d/></a>"),
            *("<a><c/><d/></a>", "<a><b/><c/><d/></a>", "<a><b><c/></b></a>", "<a><e><c/></e><d/></a>"),
            *("<e><b/></e>", "<e><e><c/></e></e>", "<e/>"),
        ),
    )
)
CANCELLATION = 0.4  # how often an operation cancels, if there is something to cancel
RESTORATION = 0.25  # how often it is followed by a registration that is cancelled at once


def cells(scale: Scale) -> list[Cell]:
    """Return so many networks with each form of XROUTE."""
    networks, seeds = (30, 2) if scale == "small" else (100, 10)
    return [
        {"strategy": strategy, "networks": networks, "operations": 20, "seed": seed}
        for strategy in ("xroute", "xroute-sets")
        for seed in range(1, seeds + 1)
    ]


def run(cell: Cell) -> list[Row]:
    """Compute one cell: one row with everything that was counted."""
    random = Random(f"x-properties {cell['seed']}")
    counts: Counter[str] = Counter(dict.fromkeys(COUNTED, 0))
    for number in range(int(cell["networks"] or 0)):
        trial = _Trial(random, str(cell["strategy"]), number, counts)
        for _ in range(int(cell["operations"] or 0)):
            trial.operation()
        trial.end()
    return [dict(counts)]


COUNTED = (
    *("moments", "events", "lost", "duplicates", "unwanted", "needless_hops"),
    *("property_5_checked", "property_5_broken", "property_6_checked", "property_6_broken"),
    *("restorations", "canonical_changes", "arrangement_changes", "left_over"),
)


class _Trial:
    """One network and what happens in it."""

    def __init__(self, random: Random, strategy: str, number: int, counts: Counter[str]) -> None:
        self.random = random
        self.counts = counts
        links = [(f"b{random.randrange(i)}", f"b{i}") for i in range(1, random.randint(4, 8))]
        self.net = Network(links, strategy, advertisements=False, seed=number, delay="exponential")
        self.subscribed: list[Subscription] = []

    def operation(self) -> None:
        """Register or cancel something, and look at everything."""
        if self.subscribed and self.random.random() < CANCELLATION:
            self.net.unsubscribe(self.subscribed.pop(self.random.randrange(len(self.subscribed))))
        else:
            self.subscribed.append(self._register())
        self.net.settle()
        self.look()
        if self.random.random() < RESTORATION:
            self.restore()
            self.look()

    def _register(self) -> Subscription:
        return self.net.subscribe(self.random.choice(self.net.brokers), self.random.choice(FILTERS))

    def look(self) -> None:
        """Check routing and both properties."""
        self.counts["moments"] += 1
        check_counts(self.net, self.counts)
        for document in self.random.sample(DOCUMENTS, 4):
            check_routing(self.net, self.random.choice(self.net.brokers), document, self.counts)

    def restore(self) -> None:
        """Register a filter, cancel it, and compare what there is with what there was."""
        before = canonical(self.net), arrangement(self.net)
        handle = self._register()
        self.net.settle()
        self.net.unsubscribe(handle)
        self.net.settle()
        self.counts["restorations"] += 1
        self.counts["canonical_changes"] += canonical(self.net) != before[0]
        self.counts["arrangement_changes"] += arrangement(self.net) != before[1]

    def end(self) -> None:
        """Cancel everything: nothing may be left."""
        for handle in self.subscribed:
            self.net.unsubscribe(handle)
        self.net.settle()
        self.counts["left_over"] += sum(
            len(strategy_of(self.net, broker).table) for broker in self.net.brokers
        )


def strategy_of(net: Network, broker: str) -> Any:
    """Return the strategy of a broker."""
    return net.nodes[broker].router.trees[0].strategy


def check_routing(net: Network, broker: str, document: Document, counts: Counter[str]) -> None:
    """Publish a document and compare who got it with who wants it."""
    net.clear_deliveries()
    before = net.counters["false_positives"]
    net.publish(broker, document)
    net.settle()
    got = Counter(subscription.name for subscription, _ in net.deliveries)
    wanted = {name for name, sub in net.subscriptions.items() if sub.filter.matches(document)}
    counts["events"] += 1
    counts["lost"] += len(wanted - got.keys())
    counts["unwanted"] += len(got.keys() - wanted)
    counts["duplicates"] += got.total() - len(got)
    counts["needless_hops"] += net.counters["false_positives"] - before


def check_counts(net: Network, counts: Counter[str]) -> None:
    """Check Properties 5 and 6 at every broker: the first within it, the second with each neighbour."""
    for broker in net.brokers:
        strategy = strategy_of(net, broker)
        if not isinstance(strategy, XRoute):
            return
        for link, instance in strategy.instances.items():
            for entry in instance.entries.values():
                own, others = strategy.table.counts(entry.filter, not_of=link)
                others += sum(lower.own + lower.others for lower in entry.below)
                counts["property_5_checked"] += 1
                counts["property_5_broken"] += (entry.own, entry.others) != (own, others)
            told = {fact.filter: fact.counts for fact in strategy.told(link)}
            heard = {fact.filter: fact.counts for fact in strategy_of(net, link).heard(broker)}
            counts["property_6_checked"] += len(told)
            counts["property_6_broken"] += sum(
                told.get(filter) != heard.get(filter) for filter in told.keys() | heard.keys()
            )


def canonical(net: Network) -> object:
    """Return what follows from who subscribes to what: for each link, filters with own counts, and what was told."""
    return {
        (broker, link): (
            {(fact.filter, fact.counts[:1]) for fact in strategy_of(net, broker).heard(link)},
            {(fact.filter, fact.counts[:1]) for fact in strategy_of(net, broker).told(link)},
        )
        for broker in net.brokers
        for link in net.overlay.neighbours[broker]
    }


def arrangement(net: Network) -> object:
    """Return the rest: who stands for whom, and for how many, within brokers and at links."""
    arranged: dict[tuple[str, str], object] = {}
    for broker in net.brokers:
        strategy = strategy_of(net, broker)
        if isinstance(strategy, XRoute):
            for link, instance in strategy.instances.items():
                entries = instance.entries.values()
                stands = {(e.filter, e.others, e.above and e.above.filter) for e in entries}
                arranged[broker, link] = stands, {(f.filter, f.counts) for f in strategy.heard(link)}
    return arranged


PROPERTIES = Experiment(
    NAME, "X", "Perfect routing, cancelling, and Properties 5 and 6, on random networks", cells, run
)
