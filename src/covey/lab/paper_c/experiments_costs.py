"""What covering costs without unsubscriptions (V-A1, Table II): time in `Router.handle`, by kind of message.

The subscriptions of the burst are issued, then events are published; nobody leaves. The print splits a subscription
into matching and covering detection. Ours does both in one call, so the part of covering is what a subscription costs
more than it does without covering. Unsubscriptions are those by which brokers retract what became covered. Times are
this machine's processor times: they differ from day to day, and only their proportions compare with the print.

Our tables are indexed: the time of a message hardly grows with them. So some messages, drawn at random, are also held
against the same table filter by filter, and that is timed apart: an event against every entry; a subscription against
what each neighbour was told, to find what covers it and, with active covering, what it covers; and, as matching, a
subscription against every entry of the table, to find out whether an equal one is there, and every advertisement.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, cast

from covey.lab.experiment import Cell, Experiment, Row, Scale
from covey.lab.paper_c.driving import even, integer, text
from covey.matching.index import warm_up
from covey.routing.messages import Link, Message, Pack, Publish, Subscribe, Unsubscribe
from covey.routing.outputs import Output
from covey.routing.router import Router
from covey.sim.library import Changes, load
from covey.sim.preparation import Prepared, prepare
from covey.sim.runner import Driver, before

COVERING = ("covering", "covering-lazy")
STRATEGIES = (*COVERING, "simple")
KINDS: dict[type, str] = {
    Subscribe: "subscribe",
    Unsubscribe: "unsubscribe",
    Publish: "publish",
    Pack: "pack",
}
ROOTS = 20

SIZES: dict[Scale, dict[str, int]] = {
    "small": {"subscriptions": 2_400, "covered": 96, "broad": 5, "events": 2_000, "scanned": 300},
    "paper": {"subscriptions": 42_000, "covered": 501, "broad": 50, "events": 200_000, "scanned": 1_000},
}
BROKERS_AN_EVENT = 20  # about so many work on an event, and a tenth of them on a subscription


class Times:
    """Seconds and messages by kind, of all brokers."""

    def __init__(self) -> None:
        self.spent_s: dict[str, float] = dict.fromkeys((*KINDS.values(), "other"), 0.0)
        self.handled: Counter[str] = Counter()
        self.scan_s: dict[str, float] = dict.fromkeys(self.spent_s, 0.0)
        self.scanned: Counter[str] = Counter()
        self.matching_s = 0.0  # of subscriptions, by a scan, without detecting what is covered


class _Clock:
    """A router whose work is timed, by kind of message; everything else is the router's own."""

    def __init__(self, router: Router, times: Times, random: Random, shares: dict[str, float]) -> None:
        self._router = router
        self._times = times
        self._random = random
        self._shares = shares

    def __getattr__(self, name: str) -> Any:
        return getattr(self._router, name)

    def handle(self, message: Message, source: Link, now_s: float) -> list[Output]:
        """Let the router handle a message and take the time, and now and then that of a scan before it."""
        kind, times = KINDS.get(type(message), "other"), self._times
        if self._random.random() < self._shares.get(kind, 0.0):
            times.scan_s[kind] += scan_s(self._router, message, source)
            times.scanned[kind] += 1
            if isinstance(message, Subscribe):
                times.matching_s += matching_s(self._router, message)
        began = time.thread_time()
        outputs = self._router.handle(message, source, now_s)
        times.spent_s[kind] += time.thread_time() - began
        times.handled[kind] += 1
        return outputs


def scan_s(router: Router, message: Message, source: Link) -> float:
    """Return how long it takes to hold a message against the router's table, one filter after the other."""
    if isinstance(message, Publish):
        entries = [filter for _, filter in router.remote_entries()]
        entries += [filter for held in router.local_subscriptions().values() for filter in held.values()]
        began = time.thread_time()
        for filter in entries:
            filter.matches(message.event)
        return time.thread_time() - began
    assert isinstance(message, Subscribe)
    strategy, mine = router.trees[0].strategy, message.filter
    if strategy.name not in COVERING:
        return 0.0
    links = [
        link for link in strategy.site.neighbours() if link != source and strategy.site.wanted(link, mine)
    ]
    told = [[fact.filter for fact in strategy.told(link)] for link in links]
    began = time.thread_time()
    for filters in told:
        if not any(filter.covers(mine) for filter in filters) and strategy.name == "covering":
            for filter in filters:
                mine.covers(filter)
    return time.thread_time() - began


def matching_s(router: Router, message: Subscribe) -> float:
    """Return how long it takes to compare a subscription with every entry and every advertisement, one by one."""
    entries = [filter for _, filter in router.remote_entries()]
    tree = router.trees[0]
    advertised = [
        known.filter
        for link in tree.strategy.site.neighbours()
        for known in tree.advertised.of_link(link).values()
    ]
    mine = message.filter
    began = time.thread_time()
    for filter in entries:
        if filter == mine:
            break
    for filter in advertised:
        filter.overlaps(mine)
    return time.thread_time() - began


def cells(scale: Scale) -> list[Cell]:
    """Return one cell for each strategy and seed."""
    seeds = range(1, 6) if scale == "small" else (1,)
    return [{"strategy": strategy, "seed": seed, **SIZES[scale]} for seed in seeds for strategy in STRATEGIES]


def run(cell: Cell) -> list[Row]:
    """Subscribe and publish, and return the time by kind of message."""
    settings = [f"workload.{key}={integer(cell, key)}" for key in ("subscriptions", "covered", "broad")]
    settings += [
        f"workload.roots={ROOTS}",
        f"workload.events_before={integer(cell, 'events') // ROOTS}",
        "service.kind=zero",
        "run.judge=false",
    ]
    end_s = before(_prepared(cell, settings).phases["unsubscribe"])
    warm_up()  # compiling must not be measured
    driver = Driver(_prepared(cell, [*settings, f"run.duration_s={end_s!r}"]))
    times, random, scanned = Times(), Random(integer(cell, "seed")), integer(cell, "scanned")
    shares = {
        "publish": scanned / (BROKERS_AN_EVENT * integer(cell, "events")),
        "subscribe": scanned / (BROKERS_AN_EVENT / 10 * integer(cell, "subscriptions")),
    }
    for node in driver.net.nodes.values():
        node.router = cast("Router", _Clock(node.router, times, random, shares))
    driver.drive()
    largest = max(node.router.remote_size() for node in driver.net.nodes.values())
    return even(
        [
            {
                "kind": kind,
                "messages": times.handled[kind],
                "total_s": times.spent_s[kind],
                "mean_ms": 1_000.0 * times.spent_s[kind] / max(1, times.handled[kind]),
                "scans": times.scanned[kind],
                "scan_ms": 1_000.0 * times.scan_s[kind] / max(1, times.scanned[kind]),
                "matching_ms": 1_000.0 * times.matching_s / max(1, times.scanned["subscribe"]),
                "table_max": largest,
            }
            for kind in ("subscribe", "unsubscribe", "publish")
        ]
    )


def _prepared(cell: Cell, settings: Sequence[str]) -> Prepared:
    changes = Changes(strategy=text(cell, "strategy"), seed=integer(cell, "seed"), settings=settings)
    return prepare(load("burst", changes))


def effort(cell: Cell) -> float:
    """Return the time compared with other cells."""
    return (integer(cell, "subscriptions") + integer(cell, "events")) / 200


COSTS = Experiment("c-costs", "C", "processing time without unsubscriptions", cells, run, effort=effort)
