"""Random runs of incremental aggregation, with everything checked that must hold; and how to run a variant of it.

One seed is one run: a small tree of brokers, a few dozen inputs, messages in flight between them. The promises:

    at rest      every live subscription gets what it matches, once; brokers agree on what they told each other; what is
                 wanted is covered by what was told, no filter told covers another, none told is unwanted; what was told
                 and has no source is kept, and the other way round; what is kept quenches enough
    in flight    a subscription that was there at the last rest and stays misses nothing; nobody gets anything twice or
                 unasked
    at the end   with everything re-activated the tables are those of covering; when all have left, nothing is left
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from covey.core.families import parse
from covey.core.filter import Filter
from covey.routing import strategy as registry
from covey.routing.messages import Congestion, Publish
from covey.sim import Network, checkers
from covey.sim.handles import Advertisement, Subscription
from covey.strategies.incremental.kept import Kept
from covey.strategies.incremental.pruning import Incremental
from covey.strategies.told import Item

VALUES = 16
MIXED = ("simple", "covering", "covering-lazy", "covering-packing", "incremental")
TIERS = (((1, 0.9),), ((2, 0.5),), ((4, 0.3), (1, 0.8)), ((3, 0.6),))


@contextmanager
def variant(make: Callable[..., registry.Strategy], **options: Any) -> Iterator[None]:
    """Let "incremental" mean something else for a while: another class, or other settings for some brokers only."""
    honest = registry._REGISTERED["incremental"]
    registry._REGISTERED["incremental"] = honest._replace(make=partial(make, **options))
    try:
        yield
    finally:
        registry._REGISTERED["incremental"] = honest


def between(low: int, high: int, name: str = "x") -> Filter:
    """Return a filter on one attribute."""
    return parse(f"{name} between {low} and {high}")


def strategy_at(net: Network, broker: str) -> Any:
    """Return the strategy of a broker."""
    return net.nodes[broker].router.trees[0].strategy


def kept_in(net: Network) -> dict[tuple[str, str], list[Kept]]:
    """Return what is kept, by owner: broker and neighbour."""
    found = {}
    for broker in net.brokers:
        strategy = strategy_at(net, broker)
        if isinstance(strategy, Incremental):
            for link in strategy.site.neighbours():
                if kept := strategy.kept(link):
                    found[broker, link] = kept
    return found


def congest(net: Network, broker: str, on: bool) -> None:
    """Tell a broker that its queue is long, or short again; whatever it has to say goes out."""
    net.nodes[broker].arrive(Congestion(on), broker)


def reactivate(net: Network) -> None:
    """Withdraw everything that is kept anywhere."""
    while owners := kept_in(net):
        for broker, _ in owners:
            strategy_at(net, broker).reactivate()
            congest(net, broker, strategy_at(net, broker).site.congested)
        net.settle()


def subscribe_again(net: Network, handle: Subscription, broker: str) -> None:
    """Let a cancelled subscription come back under the key that it had."""
    net.subscriptions[handle.name] = handle
    net.clients.subscribe_at(handle, broker, handle.name)


def random_tree(random: Random, count: int) -> list[tuple[str, str]]:
    """Return the links of a tree of brokers."""
    return [(str(random.randrange(broker)), str(broker)) for broker in range(1, count)]


WEIGHTS = {
    "subscribe": 30,
    "unsubscribe": 22,
    "again": 8,
    "publish": 30,
    "advertise": 5,
    "unadvertise": 3,
    "congestion": 6,
    "rest": 5,
}
FAULTS = {"link_down": 4, "link_up": 6}


@dataclass
class Run:
    """One run; `findings` has what was wrong."""

    seed: int
    faults: bool = False
    mixed: bool = False
    advertisements: bool = True
    weights: Mapping[str, int] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        random = self.random = Random(f"incremental {self.seed}")
        links = random_tree(random, random.randint(2, 8))
        self.dimensions = random.randint(1, 2)
        self.options = {
            "tiers": random.choice(TIERS),
            "burst": random.choice(("broker", "link")),
            "window_s": random.choice((0.02, 0.1, 0.5, 600.0)),
            "window_rows": random.choice((5, 1000)),
            "minimum_samples": random.choice((1, 3)),
            "meter_events": random.choice((0, 4, 10)),
        }
        brokers = sorted({name for link in links for name in link})
        names = {broker: random.choice(MIXED) if self.mixed else "incremental" for broker in brokers}
        make = registry._REGISTERED["incremental"].make
        with variant(make, **self.options):
            self.net = Network(
                links,
                names,
                advertisements=self.advertisements,
                seed=self.seed,
                delay="exponential",
                remembered_events=0,
            )
        self.links = links
        self.net.on_delivery = self._delivered
        self.ads: list[Advertisement] = []
        self.gone: list[tuple[str, Subscription]] = []
        self.lives: Counter[str] = Counter()
        self.settled: set[Subscription] = set()
        self.settled_ads: set[Advertisement] = set()
        self.due: dict[str, set[Subscription]] = {}
        self.got: Counter[tuple[str, int, str]] = Counter()
        self.down: list[tuple[str, str]] = []

    def run(self) -> list[str]:
        """Do things at random, then re-activate everything, then let everyone leave; return what was wrong."""
        self._advertise()
        for _ in range(8):
            self._subscribe()
        weights = {**WEIGHTS, **(FAULTS if self.faults else {}), **self.weights}
        for _ in range(self.random.randint(20, 70)):
            [name] = self.random.choices(list(weights), list(weights.values()))
            getattr(self, f"_{name}")()
            for _ in range(self.random.randint(0, 5)):
                self.net.engine.step()
            if self.findings:
                return self.findings
        self._end()
        return self.findings

    # -- what is noticed and drawn ---------------------------------------------------------------------------

    def _delivered(self, subscription: Subscription, publish: Publish, delay_s: float) -> None:
        life = (subscription.name, self.lives[subscription.name], publish.id)
        self.got[life] += 1
        if self.got[life] > 1:
            self.findings.append(f"{subscription} got {publish.id} twice")
        if not subscription.filter.matches(publish.event):
            self.findings.append(f"{subscription} got {publish.event}, which it did not ask for")

    def _has(self, subscription: Subscription, id: str) -> bool:
        return self.got[subscription.name, self.lives[subscription.name], id] > 0

    def _broker(self) -> str:
        return self.random.choice(self.net.brokers)

    def _filter(self, *, announced: bool = False) -> Filter:
        """Return a broad filter or a narrow one, so that one often covers many; announcements are broad."""
        sides = []
        broad = announced or self.random.random() < 0.4
        for name in ("x", "y")[: self.dimensions]:
            width = self.random.randint(VALUES // 2, VALUES) if broad else self.random.randint(0, 3)
            low = self.random.randint(0, max(0, VALUES - 1 - width))
            sides.append(f"{name} between {low} and {min(VALUES - 1, low + width)}")
        return parse(" and ".join(sides))

    # -- what is done ----------------------------------------------------------------------------------------

    def _subscribe(self) -> None:
        client = f"client {self.random.randint(1, 3)}" if self.random.random() < 0.2 else None
        self.net.subscribe(self._broker(), self._filter(), client=client)

    def _unsubscribe(self) -> None:
        if self.net.subscriptions:
            handle = self.random.choice(list(self.net.subscriptions.values()))
            self.settled.discard(handle)
            self.gone.append((handle.broker, handle))
            self.net.unsubscribe(handle)

    def _again(self) -> None:
        """Let one come back under its old key, where it was or elsewhere: often the last one that left."""
        if self.gone:
            place, handle = self.gone.pop(self.random.choice((-1, self.random.randrange(len(self.gone)))))
            broker = self.random.choice((place, self._broker()))
            self.net.at(self.net.now_s, self._come_back, handle, broker)  # after it has left

    def _come_back(self, handle: Subscription, broker: str) -> None:
        self.lives[handle.name] += 1
        subscribe_again(self.net, handle, broker)

    def _advertise(self) -> None:
        self.ads.append(self.net.advertise(self._broker(), self._filter(announced=True)))

    def _unadvertise(self) -> None:
        if len(self.ads) > 1:
            advertisement = self.ads.pop(self.random.randrange(len(self.ads)))
            self.settled_ads.discard(advertisement)
            self.net.unadvertise(advertisement)

    def _event(self) -> dict[str, int]:
        return {name: self.random.randrange(VALUES) for name in ("x", "y")[: self.dimensions]}

    def _publish(self) -> None:
        broker = self.random.choice(self.ads).broker
        event = self._event()
        announced = [ad for ad in self.ads if ad.broker == broker and ad.filter.matches(event)]
        ready = not announced or any(ad in self.settled_ads for ad in announced) or not self.advertisements
        id = self.net.publish(broker, event)
        if ready and not self.down:
            self.due[id] = {handle for handle in self.settled if handle.filter.matches(event)}

    def _congestion(self) -> None:
        congest(self.net, self._broker(), self.random.random() < 0.5)

    def _link_down(self) -> None:
        link = self.random.choice(self.links)
        if link not in self.down:
            self.down.append(link)
            self.settled.clear()  # what fails may lose what is under way
            self.due.clear()
            self.net.link_down(*link)

    def _link_up(self) -> None:
        if self.down:
            self.net.link_up(*self.down.pop(self.random.randrange(len(self.down))))

    # -- what is checked -------------------------------------------------------------------------------------

    def _rest(self) -> None:
        while self.down:
            self._link_up()
        self.net.settle()
        for id, handles in self.due.items():
            for handle in sorted(handles & self.settled, key=lambda handle: handle.name):
                if not self._has(handle, id):
                    self.findings.append(f"{handle}, which stayed, missed {id}")
        self.due.clear()
        self.findings += rest_findings(self.net)
        for broker in sorted({ad.broker for ad in self.ads}):
            for _ in range(2):
                self._check_deliveries(broker)
        self.settled = set(self.net.subscriptions.values())
        self.settled_ads = set(self.ads)

    def _check_deliveries(self, broker: str) -> None:
        event = self._event()
        id = self.net.publish(broker, event)
        self.net.settle()
        for handle in self.net.subscriptions.values():
            if handle.filter.matches(event) and not self._has(handle, id):
                self.findings.append(f"at rest {handle} missed {event} from {broker}")

    def _end(self) -> None:
        self._rest()
        for broker in self.net.brokers:
            congest(self.net, broker, False)
        reactivate(self.net)
        self._rest()
        if self.advertisements and not self.mixed and not kept_in(self.net):
            self.findings += checkers_as_covering(self.net, self.links)
        for handle in list(self.net.subscriptions.values()):
            self.net.unsubscribe(handle)
            if self.random.random() < 0.5:
                self.net.settle()
        self.net.settle()
        self.counters = self.net.router_counters()
        for broker in self.net.brokers:
            strategy = strategy_at(self.net, broker)
            for link in strategy.site.neighbours():
                if strategy.told(link) or strategy.heard(link):
                    self.findings.append(f"{broker} and {link} still know something of each other")
        if kept_in(self.net):
            self.findings.append(f"{next(iter(kept_in(self.net)))} still keeps something")


def checkers_as_covering(net: Network, links: list[tuple[str, str]]) -> list[str]:
    """Return where tables differ from those of covering, for the clients that are there."""
    other = Network(links, "covering")
    for ad in net.live_advertisements():
        other.advertise(ad.broker, ad.filter)
    for handle in net.subscriptions.values():
        other.subscribe(handle.broker, handle.filter)
    other.settle()
    findings = []
    for broker, entries in other.tables.items():
        expected = sorted((link, str(filter)) for link, filter in entries)
        found = sorted((link, str(filter)) for link, filter in net.tables[broker])
        if found != expected:
            findings.append(f"re-activated, {broker} has {found} and not {expected}")
    return findings


def rest_findings(net: Network) -> list[str]:
    """Return what is wrong with a network at rest."""
    findings = checkers.mirror(net) + checkers.coverage(net)
    for broker in net.brokers:
        strategy = strategy_at(net, broker)
        if isinstance(strategy, Incremental):
            for link in strategy.site.neighbours():
                findings += [f"{broker} to {link}: {text}" for text in _link_findings(strategy, link)]
    return findings


def _link_findings(strategy: Incremental, link: str) -> list[str]:
    findings = []
    told = {fact.key: fact.filter for fact in strategy.told(link)}
    kept = {item.key: item for item in strategy.kept(link)}
    if not kept.keys() <= told.keys():
        findings.append(f"{sorted(kept.keys() - told.keys())} are kept and were not told")
        return findings
    for key, filter in told.items():
        if any(other != key and filter.covers(told[other]) for other in told):
            findings.append(f"{filter} was told beside what it covers")
        if not strategy.site.wanted(link, filter):
            findings.append(f"{filter} was told and is not wanted")
        if strategy.table.has_source(key, not_of=link) == (key in kept):
            findings.append(f"{filter} is kept and has a source, or neither")
    for entry in strategy.table.entries(not_of=link):
        wanted = strategy.site.wanted(link, entry.filter)
        if wanted and not any(filter.covers(entry.filter) for filter in told.values()):
            findings.append(f"{entry.filter} is wanted, and nothing told covers it")
    for item in kept.values():
        quenched = _quenched(strategy, link, item)
        least = strategy.settings.least if strategy.settings.burst == "link" else 1
        if quenched < least:
            findings.append(f"{item.filter} is kept for {quenched} others only")
        if item.spare > quenched - strategy.settings.least:
            findings.append(f"{item.filter} is thought to quench more than the {quenched} that it does")
    return findings


def _quenched(strategy: Incremental, link: str, kept: Kept) -> int:
    """Return how many subscriptions would be triggered if the kept one went."""
    told = strategy._told[link]
    told.remove(kept.key)
    count = len(strategy.uncovered(link, Item(kept.key, kept.filter)))
    told.add(kept.key, kept.filter)
    return count
