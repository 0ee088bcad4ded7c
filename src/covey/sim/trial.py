"""A trial: a random small network, random clients, every promise checked. One seed is one trial, and replays it.

Clients subscribe, cancel, announce, revoke, publish and move while messages are under way; between some operations the
network comes to rest and is checked (`checkers`). The promises about deliveries, judged by nothing but the filters:

    at rest       an event reaches every live subscription that matches it, once, and no other
    in between    a subscription that was there at the last rest and stays misses nothing that is published meanwhile
                  by a producer whose announcement was in force then; nobody gets anything twice or unasked
    perfect       at rest no event crosses a link behind which nobody wants it, if the strategy promises that
    at the end    when everybody has left, nobody knows anything

With faults, links and brokers fail and come back; the promises then hold once all has healed.

In half of the trials brokers take time over messages, so that inputs wait while links come and go: which half, and how
long, is drawn from the seed too (`Trial.service_times`). In half of them, routers work for their links in slices
(`Trial.slice_units`). A broker that refuses what another one says is a broken promise like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any, TypeAlias

from covey.errors import ConfigError, ProtocolError
from covey.routing.advertisements import WAYS
from covey.routing.describe import describe
from covey.routing.messages import Message, Publish
from covey.routing.strategy import registered
from covey.sim import checkers
from covey.sim.handles import Advertisement, Subscription
from covey.sim.network import Network
from covey.sim.service import Service
from covey.sim.topology import line, random_graph, random_tree, star
from covey.sim.trial_material import Material, draw_service_times, material, planned_aggregation

Check = Callable[[Network], list[str]]
Happening: TypeAlias = tuple[float, str, Message | str]  # when, to whom, and what

TOPOLOGIES = ("line", "star", "tree", "graph")

# How often each thing is done, in parts.
WEIGHTS = {
    "subscribe": 30,
    "unsubscribe": 16,
    "publish": 26,
    "advertise": 7,
    "unadvertise": 4,
    "move": 5,
    "rest": 6,
}
FAULT_WEIGHTS = {"link_fault": 5, "crash": 2, "slow": 2, "heal": 6}


@dataclass(frozen=True)
class Trial:
    """What makes a trial what it is."""

    strategy: str
    advertisements: bool = True
    topology: str = "tree"
    seed: int = 0
    faults: bool = False

    @property
    def command(self) -> str:
        """The command that runs exactly this trial."""
        parts = ["covey trial", self.strategy, f"--topology {self.topology}", f"--seed {self.seed}"]
        parts.append("--advertisements" if self.advertisements else "--no-advertisements")
        return " ".join([*parts, *(["--faults"] if self.faults else [])])

    def service_times(self) -> Service:
        """Return how long brokers work in this trial, as its seed says; a model is used for one run."""
        # From a generator of its own: what clients do is the same with every model.
        random = Random(f"service times {self.topology} {self.seed}")
        return draw_service_times(random, registered(self.strategy).name)

    def slice_units(self) -> int | None:
        """Return in what slices routers work for their links in this trial; None: in one piece."""
        return Random(f"slices {self.topology} {self.seed}").choice([None, None, 1, 100])

    def reduce_advertisements(self) -> str:
        """Return what brokers tell each other of advertisements in this trial."""
        return Random(f"advertisements {self.topology} {self.seed}").choice(WAYS)

    def run(self, check: Check | None = None) -> Outcome:
        """Run it and return what was found, also by a check that is made after every single arrival."""
        return _Run(self, check).run()


@dataclass(frozen=True)
class Outcome:
    """What a trial found; nothing, if all is well."""

    trial: Trial
    findings: tuple[str, ...]
    happened: tuple[Happening, ...]
    published: int
    delivered: int

    @cached_property
    def transcript(self) -> tuple[str, ...]:
        """What happened, message by message; few want to read it, and writing it takes as long as many a trial."""
        return tuple(
            f"{now_s:.6f} {who} " + (what if isinstance(what, str) else describe(what))
            for now_s, who, what in self.happened
        )


def applies(strategy: str, topology: str) -> bool:
    """Return whether a strategy can run over such an overlay: one with cycles needs trees."""
    return topology != "graph" or registered(strategy).trees


class _Run:
    """One run: the network, and what is expected of it."""

    def __init__(self, trial: Trial, check: Check | None) -> None:
        self.trial = trial
        self.random = Random(f"trial {trial.topology} {trial.seed}")
        self.material: Material = material(self.random)
        topology = self._topology()
        merges = registered(trial.strategy).name == "aggregation"
        self.net = Network(
            topology,
            trial.strategy,
            advertisements=trial.advertisements,
            reduce_advertisements=trial.reduce_advertisements(),
            seed=trial.seed,
            delay="exponential",
            service_times=trial.service_times(),
            slice_units=trial.slice_units(),
            trees=planned_aggregation(self.random, topology, self.material) if merges else None,
        )
        self.perfect = registered(trial.strategy).perfect
        self.net.observer = self._observe
        self.net.on_delivery = self._delivered
        self.happened: list[Happening] = []
        self.findings: list[str] = []
        self.ads: list[Advertisement] = []
        self.settled: set[Subscription] = set()
        self.settled_ads: set[Advertisement] = set()
        self.due: dict[str, tuple[Any, set[Subscription]]] = {}
        self.got: Counter[tuple[Subscription, str]] = Counter()
        self.published = 0
        self.broken: list[tuple[str, ...]] = []
        if check is not None:
            self.net.engine.observer = lambda: self.findings.extend(check(self.net))

    def _topology(self) -> Any:
        count = self.random.randint(2, 8)
        match self.trial.topology:
            case "line":
                return line(count)
            case "star":
                return star(max(3, count))
            case "tree":
                return random_tree(count, self.trial.seed)
            case "graph":
                return random_graph(max(4, count), self.trial.seed, degree=2.6)
        raise ConfigError(f"there is no topology {self.trial.topology!r:.40} for trials")

    def run(self) -> Outcome:
        """Do things at random, then let everyone leave."""
        try:
            self._do_things()
            self._rest()
            self._end()
        except ProtocolError as error:
            self.findings.append(f"refused: {error}")
        return Outcome(
            self.trial, tuple(self.findings), tuple(self.happened), self.published, self.got.total()
        )

    def _do_things(self) -> None:
        weights = WEIGHTS | (FAULT_WEIGHTS if self.trial.faults else {})
        for _ in range(self.random.randint(20, 60)):
            [name] = self.random.choices(list(weights), list(weights.values()))
            getattr(self, f"_{name}")()
            for _ in range(self.random.randint(0, 5)):
                self.net.engine.step()
            if self.findings:
                break

    # -- what is noticed -------------------------------------------------------------------------------------

    def _observe(self, sender: str, receiver: str, message: Message) -> None:
        self.happened.append((self.net.now_s, f"{sender} -> {receiver}:", message))

    def _delivered(self, subscription: Subscription, publish: Publish, delay_s: float) -> None:
        self.happened.append((self.net.now_s, subscription.name, f"gets {publish.id}"))
        self.got[subscription, publish.id] += 1
        if self.got[subscription, publish.id] > 1:
            self.findings.append(f"{subscription} got {publish.id} twice")
        if not subscription.filter.matches(publish.event):
            self.findings.append(f"{subscription} got {publish.event!r}, which it did not ask for")
        if subscription.name not in self.net.subscriptions:
            self.findings.append(f"{subscription} got {publish.id} after it was cancelled")

    # -- what is done ----------------------------------------------------------------------------------------

    def _broker(self) -> str:
        return self.random.choice(self.net.brokers)

    def _subscribe(self) -> None:
        client = f"client {self.random.randint(1, 3)}" if self.random.random() < 0.2 else None
        self.net.subscribe(self._broker(), self.material.filter(), client=client)

    def _unsubscribe(self) -> None:
        if self.net.subscriptions:
            subscription = self.random.choice(list(self.net.subscriptions.values()))
            self.settled.discard(subscription)
            self.net.unsubscribe(subscription)

    def _move(self) -> None:
        if self.net.subscriptions and not self.broken:
            self.net.move(self.random.choice(list(self.net.subscriptions.values())), self._broker())

    def _advertise(self) -> None:
        self.ads.append(self.net.advertise(self._broker(), self.material.announcement()))

    def _unadvertise(self) -> None:
        if self.ads:
            advertisement = self.ads.pop(self.random.randrange(len(self.ads)))
            self.settled_ads.discard(advertisement)
            self.net.unadvertise(advertisement)

    def _publish(self) -> None:
        event = self.material.event()
        broker = self._broker()
        if self.ads and self.random.random() < 0.8:
            broker = self.random.choice(self.ads).broker
        announced = [ad for ad in self.ads if ad.broker == broker and ad.filter.matches(event)]
        # A new announcement is in force at its own broker at once, elsewhere later: that event may come too early.
        ready = not announced or any(ad in self.settled_ads for ad in announced)
        id = self.net.publish(broker, event)
        self.published += 1
        if not self.broken and (ready or not self.trial.advertisements):
            self.due[id] = (event, {s for s in self.settled if s.filter.matches(event)})

    # -- faults ----------------------------------------------------------------------------------------------

    def _fault(self, *what: str) -> None:
        self.broken.append(what)
        self.settled.clear()  # what fails may lose what is under way
        self.due.clear()

    def _link_fault(self) -> None:
        a, b = self.random.choice(self.net.overlay.links)
        self._fault("link", a, b)
        self.net.link_down(a, b)

    def _crash(self) -> None:
        broker = self._broker()
        self._fault("broker", broker)
        self.net.crash(broker)

    def _slow(self) -> None:
        a, b = self.random.choice(self.net.overlay.links)
        self.net.slow_down(a, b, self.random.choice([1.0, 20.0]))

    def _heal(self) -> None:
        """Mend one thing; the network need not be at rest."""
        if self.broken:
            kind, *names = self.broken.pop(self.random.randrange(len(self.broken)))
            if kind == "link":
                self.net.link_up(*names)
            else:
                self.net.restart(*names)

    # -- what is checked -------------------------------------------------------------------------------------

    def _rest(self) -> None:
        """Let everything arrive, mend what is broken, and check."""
        while self.broken:
            self._heal()
        for a, b in self.net.overlay.links:
            self.net.slow_down(a, b, 1.0)
        self.net.settle()
        for id, (event, subscriptions) in self.due.items():
            missed = [s for s in subscriptions if s.name in self.net.subscriptions and not self.got[s, id]]
            if missed:
                who = min(missed, key=lambda s: s.name)
                self.findings.append(f"{who}, which stayed, missed {event!r} ({id})")
        self.due.clear()
        self.findings += checkers.check_all(self.net)
        self._check_deliveries()
        self.settled = set(self.net.subscriptions.values())
        self.settled_ads = set(self.ads)

    def _check_deliveries(self) -> None:
        sources = sorted({ad.broker for ad in self.ads} | {self._broker()})
        for broker in sources:
            event = self.material.event()
            announced = not self.trial.advertisements or any(
                ad.broker == broker and ad.filter.matches(event) for ad in self.ads
            )
            before = self.net.counters["false_positives"]
            id = self.net.publish(broker, event)
            self.published += 1
            self.net.settle()
            for subscription in self.net.subscriptions.values():
                if subscription.filter.matches(event) and not self.got[subscription, id]:
                    self.findings.append(f"at rest {subscription} missed {event!r} from {broker}")
            wasted = self.net.counters["false_positives"] - before
            if wasted and self.perfect and announced:
                self.findings.append(f"at rest {event!r} from {broker} crossed {wasted} links for nobody")

    def _end(self) -> None:
        for subscription in list(self.net.subscriptions.values()):
            self.net.unsubscribe(subscription)
        for advertisement in self.ads:
            self.net.unadvertise(advertisement)
        self.net.settle()
        self.findings += checkers.emptiness(self.net)
