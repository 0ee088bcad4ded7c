"""XROUTE on random networks, in both forms: what must hold after every message and at rest, whatever happens.

And the proof that the checks can see: each repair of the printed protocol undone, one at a time, is found out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from tests.oracles import bit_filters, xroute_checks
from tests.oracles.xroute_mutants import MUTANTS, MUTUAL, MutualTable, lets_pass
from tests.oracles.xroute_runs import FILTERS, Run, failing_seed, random_links

import covey
from covey.core.filter import Filter
from covey.matching.index import Index
from covey.routing.messages import Link, Message
from covey.routing.work import result
from covey.sim import Network
from covey.strategies.xroute.counted import XRoute
from covey.strategies.xroute.instance import Instance
from covey.strategies.xroute.sets import XRouteSets
from covey.strategies.xroute.table import LinkTable, is_above

FORMS = ("xroute", "xroute-sets")
SEEDS = 12
LONG_SEEDS = 1500


@pytest.mark.parametrize("rest", [True, False], ids=["settled", "under way"])
@pytest.mark.parametrize("advertisements", [False, True], ids=["everywhere", "as advertised"])
@pytest.mark.parametrize("strategy", FORMS)
def test_every_promise_is_kept(strategy: str, advertisements: bool, rest: bool) -> None:
    for seed in range(SEEDS):
        Run(seed, strategy, advertisements=advertisements, rest=rest).go()


@pytest.mark.long
@pytest.mark.parametrize("rest", [True, False], ids=["settled", "under way"])
@pytest.mark.parametrize("advertisements", [False, True], ids=["everywhere", "as advertised"])
@pytest.mark.parametrize("strategy", FORMS)
def test_every_promise_is_kept_for_long(strategy: str, advertisements: bool, rest: bool) -> None:
    for seed in range(1000, 1000 + LONG_SEEDS):
        Run(seed, strategy, advertisements=advertisements, rest=rest, operations=30).go()


@pytest.mark.parametrize("strategy", FORMS)
def test_every_promise_is_kept_when_links_fail(strategy: str) -> None:
    for seed in range(SEEDS):
        Run(seed, strategy, advertisements=seed % 2 == 0, rest=False, faults=True).go()


# -- other filters -----------------------------------------------------------------------------------------------

# One area cut into boxes in several ways, a box of it, one around it, and one across.
CUT: list[Filter] = [
    covey.parse(text)
    for text in (
        "(x between 0 and 2 and y between 0 and 1) or (x between 0 and 1 and y between 0 and 2)",
        "(x between 0 and 2 and y between 0 and 1) or (x between 0 and 1 and y between 1 and 2)",
        "(x between 1 and 2 and y between 0 and 1) or (x between 0 and 1 and y between 0 and 2)",
        "x between 0 and 1 and y between 0 and 1",
        "x between 0 and 2 and y between 0 and 2",
        "x between 1 and 2",
    )
]
POINTS = [{"x": x, "y": y} for x in range(3) for y in range(3)]

MIXED: list[Filter] = [
    *(covey.parse(text) for text in ("a > 1", "a > 2", "b = 1", "a > 2 and b = 1")),
    *(covey.parse(text, language="keywords") for text in ("u", "u and v", "v or w", "u or v or w")),
    *(covey.parse(text, language="xpath") for text in ("/n", "/n//m", "//m", "/n/m[k]", "/n[m]")),
]
MIXED_EVENTS: list[Any] = [
    {"a": 3, "b": 1},
    {"a": 2},
    {"b": 1},
    frozenset("uv"),
    frozenset("w"),
    "<n><m><k/></m></n>",
    "<n><o><m/></o></n>",
    "<o><m/></o>",
]


@pytest.mark.parametrize("strategy", FORMS)
def test_filters_that_cover_each_other_do_no_harm(strategy: str) -> None:
    for seed in range(SEEDS):
        Run(seed, strategy, rest=seed % 2 == 0, filters=CUT, events=POINTS).go()


@pytest.mark.parametrize("strategy", FORMS)
def test_filters_of_all_families_live_side_by_side(strategy: str) -> None:
    for seed in range(SEEDS // 2):
        Run(
            seed, strategy, advertisements=seed % 2 == 0, filters=MIXED, events=MIXED_EVENTS, operations=30
        ).go()


# -- both forms beside each other, and beside covering -----------------------------------------------------------


class Twins:
    """The same life in several networks that differ in the strategy only."""

    def __init__(self, seed: int, strategies: Sequence[str], advertisements: bool) -> None:
        self.random = Random(f"twins {seed}")
        links = random_links(self.random)
        self.nets = [Network(links, name, advertisements=advertisements, seed=seed) for name in strategies]
        self.subscribed: list[list[Any]] = []
        self.advertised: list[list[Any]] = []

    def operation(self) -> None:
        """Do the same thing, at random, in all of them."""
        random, nets = self.random, self.nets
        broker, filter = random.choice(nets[0].brokers), random.choice(FILTERS)
        if nets[0].advertisements and random.random() < 0.3:
            if self.advertised and random.random() < 0.4:
                handles = self.advertised.pop(random.randrange(len(self.advertised)))
                for net, handle in zip(nets, handles, strict=True):
                    net.unadvertise(handle)
            else:
                self.advertised.append([net.advertise(broker, filter) for net in nets])
        elif self.subscribed and random.random() < 0.4:
            handles = self.subscribed.pop(random.randrange(len(self.subscribed)))
            for net, handle in zip(nets, handles, strict=True):
                net.unsubscribe(handle)
        else:
            self.subscribed.append([net.subscribe(broker, filter) for net in nets])
        for net in nets:
            net.settle()

    def tables(self) -> list[dict[str, set[tuple[Link, Filter]]]]:
        """Return the tables of each network."""
        return [{broker: set(entries) for broker, entries in net.tables.items()} for net in self.nets]


@pytest.mark.parametrize("advertisements", [False, True], ids=["everywhere", "as advertised"])
def test_both_forms_have_the_same_tables_after_every_operation(advertisements: bool) -> None:
    """And covering has them, too. The form with counts pays for them with messages."""
    total: Counter[str] = Counter()
    for seed in range(SEEDS):
        twins = Twins(seed, (*FORMS, "covering"), advertisements)
        for _ in range(30):
            twins.operation()
            counted, sets, covering = twins.tables()
            assert counted == sets == covering
        for net in twins.nets[:2]:
            for kind in ("update", "change"):
                total[kind] += net.counters[f"{kind}_messages"]
    assert total["change"] < total["update"]


# -- producers that want anything at all -------------------------------------------------------------------------


class FakeSite:
    """The surroundings of one strategy: neighbours, what they want, and what is sent."""

    tree = 0
    now_s = 0.0
    congested = False

    def __init__(self, broker: str, *neighbours: str) -> None:
        self.broker = broker
        self.local = Index()
        self.counters: Counter[str] = Counter()
        self.links = neighbours
        self.sent: list[tuple[str, Message]] = []
        self.unwanted: dict[str, set[Filter]] = {}

    def neighbours(self) -> Sequence[str]:
        return self.links

    def wanted(self, link: str, filter: Filter) -> bool:
        return filter not in self.unwanted.get(link, set())

    def publishers(self, link: str, filter: Filter) -> Sequence[str]:
        return ()

    def send(self, link: str, message: Message) -> None:
        self.sent.append((link, message))


class Chain:
    """Brokers down, middle and up, in which `up` wants whatever it likes, whether that makes sense or not."""

    def __init__(self, make: type[Any], seed: int) -> None:
        self.random = Random(f"chain {seed}")
        sites = {
            "down": FakeSite("down", "middle"),
            "middle": FakeSite("middle", "down", "up"),
            "up": FakeSite("up", "middle"),
        }
        self.sites, self.at = sites, {name: make(site) for name, site in sites.items()}
        for name, site in sites.items():
            for link in site.links:
                result(self.at[name].opening(link))
        self.keys: dict[str, dict[str, Filter]] = {"down": {}, "middle": {}}

    def operation(self, number: int) -> None:
        """Let a subscription come or go, or `up` change its mind."""
        middle, unwanted = self.at["middle"], self.sites["middle"].unwanted
        if self.random.random() < 0.25:
            before = set(unwanted.get("up", ()))
            now = {filter for filter in FILTERS if self.random.random() < 0.4}
            unwanted["up"] = before | now
            result(middle.unadvertised("up", bit_filters.ALL["111"]))
            unwanted["up"] = now
            result(middle.advertised("up", bit_filters.ALL["111"]))
        else:
            broker = self.random.choice(["down", "middle"])
            keys = self.keys[broker]
            if keys and self.random.random() < 0.4:
                key = self.random.choice(sorted(keys))
                filter = keys.pop(key)
                self.sites[broker].local.remove(("client", key))
                self.at[broker].unsubscribe("client", key, filter)
            else:
                key, filter = f"k{number}", self.random.choice(FILTERS)
                keys[key] = filter
                self.sites[broker].local.add(("client", key), filter)
                self.at[broker].subscribe("client", key, filter)
        for name in ("down", "middle", "up"):
            for link, message in self.sites[name].sent:
                self.at[link].receive(name, message)
            self.sites[name].sent.clear()

    def check(self) -> None:
        """What `up` has is what `middle` says it told, and the maximal ones of what `up` wants."""
        middle, up = self.at["middle"], self.at["up"]
        facts = {(fact.filter, fact.counts) for fact in middle.told("up")}
        assert facts == {(fact.filter, fact.counts) for fact in up.heard("middle")}
        known = middle.table.filters(not_of="up")
        wanted = [filter for filter in known if self.sites["middle"].wanted("up", filter)]
        maximal = {f for f in wanted if not any(middle.table.is_above(other, f) for other in wanted)}
        assert {filter for filter, _ in facts} == maximal
        if isinstance(middle, XRoute):
            xroute_checks.check_instance(middle, "up", middle.instances["up"])


@pytest.mark.parametrize("make", [XRoute, XRouteSets])
def test_a_neighbour_may_want_a_filter_and_not_what_covers_it(make: type[Any]) -> None:
    """Overlap tests may err by saying yes, so that what is wanted need not grow with the filter."""
    for seed in range(3 * SEEDS):
        chain = Chain(make, seed)
        for number in range(40):
            chain.operation(number)
            chain.check()


# -- an order with holes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", FORMS)
def test_an_order_that_is_not_transitive_loses_nothing(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Covering may give up on large filters and so miss a pair. Tables may grow by that, and counts stay right."""
    pairs = [(f, g) for f in FILTERS for g in FILTERS if is_above(f, g)]
    holes: set[tuple[Filter, Filter]] = set()

    def above(self: object, filter: Filter, other: Filter) -> bool:
        return is_above(filter, other) and (filter, other) not in holes

    monkeypatch.setattr(LinkTable, "is_above", above)
    monkeypatch.setattr(Instance, "is_above", above)
    for seed in range(2 * SEEDS):
        random = Random(f"holes {seed}")
        holes = set(random.sample(pairs, random.randint(1, len(pairs) // 2)))
        run = Run(seed, strategy, operations=0)
        for _ in range(30):
            run.operation()
            run.net.settle()
            for broker in run.net.brokers:
                for link in run.net.overlay.neighbours[broker]:
                    xroute_checks.check_mirror(run.net, broker, link)
                for event in bit_filters.EVENTS:
                    wanted = xroute_checks.wanted_route(run.net, broker, event)
                    assert wanted <= xroute_checks.route(run.net, broker, event)
        while run.subscribed:
            run.withdraw()
        run.net.settle()
        xroute_checks.check_empty(run.net)


# -- the checks can see ------------------------------------------------------------------------------------------

ENOUGH = 40


@pytest.mark.parametrize("repair", MUTANTS)
def test_a_repair_undone_is_found(repair: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for attribute, mistake in MUTANTS[repair].items():
        monkeypatch.setattr(XRoute, attribute, mistake)
    assert failing_seed(ENOUGH) is not None


class Routes(Run):
    """A run in which only the ways of events are looked at."""

    def step(self) -> bool:
        return self.net.engine.step()

    def settle(self) -> None:
        self.net.settle()
        for broker in self.net.brokers:
            for event in self.events:
                wanted = xroute_checks.wanted_route(self.net, broker, event)
                assert xroute_checks.route(self.net, broker, event) == wanted


@pytest.mark.parametrize("repair", ["D7", "D8", "D9"])
def test_three_repairs_are_of_counts_and_change_no_way(repair: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In runs of this length: counts that drift far enough would be refused."""
    for attribute, mistake in MUTANTS[repair].items():
        monkeypatch.setattr(XRoute, attribute, mistake)
    monkeypatch.setattr(XRoute, "check", lets_pass)
    for seed in range(SEEDS, 2 * SEEDS):
        Routes(seed).go()


@pytest.mark.parametrize("strategy", FORMS)
def test_mutual_covering_taken_for_an_order_is_found(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for attribute, mistake in MUTUAL.items():
        monkeypatch.setattr(XRoute, attribute, mistake)
    monkeypatch.setattr(XRouteSets, "table_type", MutualTable)
    assert failing_seed(ENOUGH, strategy=strategy, filters=CUT, events=POINTS) is not None
