"""What a subscription costs a broker, by the size of its table, and a network, by its brokers, under our strategies.

At one broker: a router with four open neighbours has a table of filters from one of them; then new ones are subscribed
and cancelled again, one at a time. Costs are microseconds of CPU time for one `Router.handle`. Beside it:

    scan     the same decision under covering by asking every filter that neighbours were told; all three were told the
             same, so it is made once, and nothing is sent: less than a router does
    simple   the same operations under the strategy that tells all to all, and so decides nothing

What neighbours are told is compared with the scan's decision, also for filters that others cover or that cover others.
`routing_network` has the whole network.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from statistics import mean
from typing import Final, NamedTuple

import numpy as np

import covey.strategies  # noqa: F401 (registers them)
from covey.bench.comparison import Comparison
from covey.bench.cover import decide
from covey.bench.routing_network import networks
from covey.bench.timing import best_us
from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import compare as comparison
from covey.core.attributes.filter import AttributeFilter, trusted
from covey.matching.scan import ScanIndex
from covey.routing.messages import Greet, LinkUp, Subscribe, Sync, Unsubscribe
from covey.routing.outputs import Output, Send
from covey.routing.router import Router
from covey.workloads.attributes import WORKLOADS

NEIGHBOURS: Final = 4
SAMPLE: Final = 200
SCANNED: Final = 8
ROUNDS: Final = 3
STRATEGIES: Final = ("identity", "covering", "covering-lazy", "incremental", "merging")
TABLE: Final = "siena-3"
SEED: Final = 20_26


class Costs(NamedTuple):
    """Microseconds of one `Router.handle`."""

    subscribe_us: float
    unsubscribe_us: float


Told = tuple[
    set[AttributeFilter], set[AttributeFilter]
]  # what a neighbour is told, and what it is told no more


def compare(
    progress: Callable[[str], None],
    *,
    sizes: Sequence[int],
    brokers: Sequence[int],
    subscriptions: int,
    events: int,
    strategies: Sequence[str] = STRATEGIES,
) -> list[Comparison]:
    """Return what subscribing costs at tables of these sizes, then in networks of so many brokers."""
    result: list[Comparison] = []
    for size in sorted(sizes):
        result += _tables(size, strategies, progress)
    return result + networks(progress, brokers=brokers, subscriptions=subscriptions, events=events)


def _tables(size: int, strategies: Sequence[str], progress: Callable[[str], None]) -> list[Comparison]:
    workload = next(one for one in WORKLOADS if one.name == TABLE)
    drawn = workload.filters(np.random.default_rng(SEED), size + SAMPLE)
    # Equal filters share a label, by which one could not see who is told no more.
    filters = list(dict.fromkeys(drawn))
    table, fresh = filters[:-SAMPLE], filters[-SAMPLE:]
    progress(f"a table of {size:,}, simple")
    simple = measure("simple", table, fresh)
    result: list[Comparison] = []
    for strategy in strategies:
        progress(f"a table of {size:,}, {strategy}")
        ours = measure(strategy, table, fresh)
        rows: list[tuple[str, float, str, float, bool | None]] = [
            ("a subscription or a cancellation", mean(ours), "simple", mean(simple), None)
        ]
        if strategy == "covering":
            scan_us, equal = _scan(table, fresh)
            rows.append(("a subscription", ours.subscribe_us, "scan", scan_us, equal))
        result += [
            Comparison(
                part="routing",
                work=f"{strategy}: {work}, at one broker",
                unit="µs",
                axis="filters",
                size=size,
                ours=cost,
                baseline=baseline,
                theirs=theirs,
                equal=equal,
            )
            for work, cost, baseline, theirs, equal in rows
        ]
    return result


def open_router(strategy: str) -> Router:
    """Return a router whose neighbours are all open."""
    router = Router("b", strategy, advertisements=False)
    for number in range(NEIGHBOURS):
        link = f"n{number}"
        router.handle(LinkUp(), link)
        router.handle(Greet(router.trees[0].dialect, (), ()), link)
        router.handle(Sync("advertisements", 1, {}), link)
        router.handle(Sync("subscriptions", 1, {}), link)
    return router


def filled(strategy: str, table: Sequence[AttributeFilter]) -> tuple[Router, dict[str, AttributeFilter]]:
    """Return a router that has these filters from its first neighbour, and what it has told the second, by label."""
    router = open_router(strategy)
    told: dict[str, AttributeFilter] = {}
    for number, filter in enumerate(table):
        for output in router.handle(Subscribe(f"s{number}", filter), "n0"):
            if isinstance(output, Send) and output.link == "n1":
                message = output.message
                if isinstance(message, Subscribe) and isinstance(message.filter, AttributeFilter):
                    told[message.key] = message.filter
                elif isinstance(message, Unsubscribe):
                    del told[message.key]
    return router, told


def measure(strategy: str, table: Sequence[AttributeFilter], fresh: Sequence[AttributeFilter]) -> Costs:
    """Return the microseconds of one subscription and one cancellation at a full table."""
    router, _ = filled(strategy, table)
    best = Costs(math.inf, math.inf)
    for turn in range(ROUNDS):
        subscribing = cancelling = 0.0
        for number, filter in enumerate(fresh):
            key = f"f{turn}.{number}"
            began = time.thread_time()
            router.handle(Subscribe(key, filter), "n0")
            middle = time.thread_time()
            router.handle(Unsubscribe(key), "n0")
            subscribing += middle - began
            cancelling += time.thread_time() - middle
        each = 1e6 / len(fresh)
        best = Costs(min(best[0], subscribing * each), min(best[1], cancelling * each))
    return best


def _scan(table: Sequence[AttributeFilter], fresh: Sequence[AttributeFilter]) -> tuple[float, bool]:
    """Return what a decision costs by scan, and whether neighbours of a router under covering are told just that."""
    router, told = filled("covering", table)
    scan = ScanIndex()
    for key, filter in told.items():
        scan.add(key, filter)
    equal = True
    for number, filter in enumerate([*fresh[:SCANNED], *related(table[:SCANNED])]):
        outputs = router.handle(Subscribe(f"f{number}", filter), "n0")
        covered, beneath = decide(scan, filter)
        expected: Told = (set(), set()) if covered else ({filter}, {told[key] for key in beneath})
        equal &= changes(outputs, told) == {f"n{n}": expected for n in range(1, NEIGHBOURS) if not covered}
        router.handle(Unsubscribe(f"f{number}"), "n0")
    few = fresh[:SCANNED]
    return best_us(lambda: [decide(scan, filter) for filter in few], len(few), rounds=2), equal


def related(table: Sequence[AttributeFilter]) -> list[AttributeFilter]:
    """Return for each filter one that it covers and one that covers it: random filters seldom do either."""
    found: list[AttributeFilter] = []
    for filter in table:
        constraints = filter.conjunctions[0].constraints
        more = tuple(sorted([*constraints, ("also", comparison("=", 1))], key=lambda one: one[0]))
        found += [trusted((Conjunction(more),)), trusted((Conjunction(constraints[1:]),))]
    return found


def changes(outputs: Sequence[Output], told: dict[str, AttributeFilter]) -> dict[str, Told]:
    """Return by neighbour which filters these outputs tell it, and which no more."""
    found: dict[str, Told] = {}
    for output in outputs:
        assert isinstance(output, Send), "nothing but filters is under way"
        news, gone = found.setdefault(output.link, (set(), set()))
        if isinstance(output.message, Subscribe):
            assert isinstance(output.message.filter, AttributeFilter)
            news.add(output.message.filter)
        elif isinstance(output.message, Unsubscribe):
            gone.add(told[output.message.key])
    return found
