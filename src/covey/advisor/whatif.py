"""What if: a network's traffic planned before and after a change, and what differs.

A change takes brokers and links away, adds links, moves clients, or makes some events more frequent. Clients of a
broker that goes away go with it, unless they are moved first. Events are counted by their rate: an event that is twice
as frequent weighs two. Both networks are planned by the same methods and prices, and each keeps the plan with the least
price. Where the trees of before still span the network, what they would cost after the change is told too: that is what
happens if nobody plans again.

Costs, loads and delays are of all sampled events, nothing is held out for reporting: before and after compare well, and
`covey plan` says what to expect of fresh events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from covey.advisor.traffic import Traffic, checked_links
from covey.core.filter import Filter
from covey.errors import ConfigError
from covey.matching.index import Index
from covey.matching.jit import Floats
from covey.planning.graph import Graph
from covey.planning.groups.model import Grouping, Problem
from covey.planning.groups.mult import point_of
from covey.planning.groups.regions import regions_with
from covey.planning.groups.registry import METHODS
from covey.planning.loads import Loads, loads_of
from covey.planning.objective import ENTRY_BYTES, Objective, Offer, Usage, bill, cheapest
from covey.planning.paths import AllPaths
from covey.planning.steiner import best_steiner_costs
from covey.planning.subscriptions import Matches
from covey.planning.tree import Tree
from covey.planning.words import words_of

TRIED = ("single", "held-out", "mixed")
MOST_LINES = 8  # of links that go
BUDGET_S = 10.0
Pair = tuple[str, str]


@dataclass(frozen=True)
class Changes:
    """What changes, in this order: rates, clients that move, brokers and links that go, links that come.

    faster   events that match the filter are so many times as frequent
    moved    all clients of the first broker are at the second
    added    (a, b, cost); a broker that is not there yet comes with its link
    """

    faster: Sequence[tuple[Filter, float]] = ()
    moved: Sequence[Pair] = ()
    removed_brokers: Sequence[str] = ()
    removed_links: Sequence[Pair] = ()
    added: Sequence[tuple[str, str, float]] = ()

    @property
    def any(self) -> bool:
        """Whether anything changes."""
        return bool(self.faster or self.moved or self.removed_brokers or self.removed_links or self.added)

    def lines(self) -> list[str]:
        """Return what changes, a sentence each, in the order of the changes; many links that go are one sentence."""
        gone = [f"{a:.80}–{b:.80}" for a, b in self.removed_links]
        if len(gone) > MOST_LINES:
            named = f"{', '.join(gone[:MOST_LINES])} and {len(gone) - MOST_LINES} more"
            links = [f"{len(gone)} links go away: {named}."]
        else:
            links = [f"The link {link} goes away." for link in gone]
        return [
            *(
                f"Events that match {filter!s:.80} are {factor:g} times as frequent."
                for filter, factor in self.faster
            ),
            *(f"All clients of {start:.80} move to {end:.80}." for start, end in self.moved),
            *(f"The broker {broker:.80} goes away." for broker in self.removed_brokers),
            *links,
            *(f"A link {a:.80}–{b:.80} of cost {cost:g} is built." for a, b, cost in self.added),
        ]


@dataclass(frozen=True)
class State:
    """A network with its plan: what an event costs, and what links and brokers carry."""

    brokers: tuple[str, ...]
    links: tuple[tuple[str, str, float], ...]
    plan: Grouping
    loads: Loads
    numbers: Mapping[str, float]

    @cached_property
    def busiest_link(self) -> tuple[Pair, float]:
        """The link that carries most, and how much."""
        worst = int(self.loads.links.argmax())
        a, b, _ = self.links[worst]
        return (a, b), float(self.loads.links[worst])

    @cached_property
    def busiest_broker(self) -> tuple[str, float]:
        """The broker that handles most messages, and how many."""
        worst = int(self.loads.brokers.argmax())
        return self.brokers[worst], float(self.loads.brokers[worst])

    def load_of(self, link: Pair) -> float | None:
        """What a link carries; None if it is not there."""
        return self._loads.get(link)

    @cached_property
    def _loads(self) -> dict[Pair, float]:
        return {(a, b): float(load) for (a, b, _), load in zip(self.links, self.loads.links, strict=True)}

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        (a, b), on_link = self.busiest_link
        broker, at_broker = self.busiest_broker
        return {
            **self.numbers,
            "method": self.plan.name,
            "busiest_link": [a, b],
            "busiest_link_load": on_link,
            "busiest_broker": broker,
            "busiest_broker_load": at_broker,
        }


@dataclass(frozen=True)
class Comparison:
    """Before and after, what the plan of before would cost after, if it can stay, and what is lost in between."""

    before: State
    after: State
    kept: State | None
    notes: Sequence[str]
    changes: Changes

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "before": self.before.as_dict(),
            "after": self.after.as_dict(),
            "kept": None if self.kept is None else self.kept.as_dict(),
            "notes": list(self.notes),
        }


def what_if(
    traffic: Traffic, changes: Changes, objective: Objective | None = None, methods: Sequence[str] = TRIED
) -> Comparison:
    """Plan before and after the changes; ConfigError in one line for a change that cannot be."""
    prices = objective or Objective()
    before = planned(traffic, np.ones(len(traffic.events)), prices, methods)
    later, rates, notes = changed(traffic, changes)
    after = planned(later, rates, prices, methods)
    return Comparison(before, after, kept(before, later, rates, prices), notes, changes)


def changed(traffic: Traffic, changes: Changes) -> tuple[Traffic, Floats, list[str]]:
    """Return the traffic after the changes, how many times as frequent each event is, and what to know of it."""
    notes: list[str] = []
    rates = np.ones(len(traffic.events))
    for filter, factor in changes.faster:
        if not 0 < factor < 1e6:
            raise ConfigError(f"a rate is multiplied by a number above 0 and below a million, not {factor:g}")
        index = Index()
        index.add(0, filter)
        hit = [len(keys) > 0 for keys in index.match_batch([event.content for event in traffic.events])]
        rates[np.array(hit, np.bool_)] *= factor
        notes.append(f"{sum(hit):,} of {len(hit):,} sampled events match {filter!s:.80}.")
    known = set(traffic.brokers)
    home = {broker: broker for broker in traffic.brokers}
    for start, end in changes.moved:
        for broker in (start, end):
            if broker not in known:
                raise ConfigError(f"there is no broker {broker!r:.80}")
        home = {broker: end if now == start else now for broker, now in home.items()}
    links = _links(traffic, changes, known)
    left = {end for a, b, _ in links for end in (a, b)}
    subscriptions = [
        replace(one, broker=home[one.broker]) for one in traffic.subscriptions if home[one.broker] in left
    ]
    there = [home[event.broker] in left for event in traffic.events]
    events = [
        replace(event, broker=home[event.broker])
        for event, stays in zip(traffic.events, there, strict=True)
        if stays
    ]
    lost = len(traffic.subscriptions) - len(subscriptions), len(traffic.events) - len(events)
    if any(lost):
        notes.append(f"With brokers, {lost[0]:,} subscriptions and {lost[1]:,} sampled events go away.")
    if not subscriptions or not events:
        raise ConfigError("nothing is left: no subscription, or no event (hint: --move-clients)")
    brokers = tuple(sorted(left))
    later = Traffic(brokers, checked_links(links), subscriptions, (), events, traffic.totals)
    return later, rates[np.array(there, np.bool_)], notes


def _links(traffic: Traffic, changes: Changes, known: set[str]) -> list[tuple[str, str, float]]:
    gone = set(changes.removed_brokers)
    for broker in gone - known:
        raise ConfigError(f"there is no broker {broker!r:.80}")
    pairs = {(a, b) for a, b, _ in traffic.links}
    dropped = {(min(pair), max(pair)) for pair in changes.removed_links}
    for a, b in dropped - pairs:
        raise ConfigError(f"there is no link {a}–{b}"[:200])
    for a, b, cost in changes.added:
        if a == b or {a, b} & gone or not (known & {a, b}):
            raise ConfigError(f"the link {a}–{b} does not join two brokers of the network"[:200])
        if not 0 < cost < 1e9:
            raise ConfigError(f"the link {a}–{b} costs {cost:g}; a cost is positive and finite"[:200])
    links = [(a, b, cost) for a, b, cost in traffic.links if not {a, b} & gone and (a, b) not in dropped] + [
        (min(a, b), max(a, b), cost) for a, b, cost in changes.added
    ]
    apart = known - gone - {end for a, b, _ in links for end in (a, b)}
    if not links or apart:
        raise ConfigError(
            f"without these links nothing reaches {', '.join(sorted(apart)) or 'any broker'}"[:200]
        )
    return links


def planned(traffic: Traffic, rates: Floats, objective: Objective, methods: Sequence[str]) -> State:
    """Return the network with the plan of least price."""
    problem = problem_of(traffic, rates, objective)
    found = {name: METHODS[name](problem) for name in methods}
    states = {name: state_of(traffic, problem, grouping) for name, grouping in found.items()}
    offers = [
        Offer(name, one.numbers["cost"], one.numbers["entries"], len(one.plan.trees), one.numbers["price"])
        for name, one in states.items()
    ]
    best, _ = cheapest(objective, offers, "single")
    return states[best.name]


def problem_of(traffic: Traffic, rates: Floats, objective: Objective) -> Problem:
    """Return the traffic as planning takes it: all events are both sample and held out."""
    number = {broker: place for place, broker in enumerate(traffic.brokers)}
    ends = [(number[a], number[b]) for a, b, _ in traffic.links]
    graph = Graph(len(number), ends, [cost for *_, cost in traffic.links])
    filters: dict[bytes, int] = {}
    asked = [filters.setdefault(one.filter.encode(), len(filters)) for one in traffic.subscriptions]
    hosts = [number[one.broker] for one in traffic.subscriptions]
    rows = [
        (number[event.broker], wanted) for event, wanted in zip(traffic.events, traffic.wanted, strict=True)
    ]
    matches = Matches.of(hosts, rows, rates)
    return Problem(
        graph,
        AllPaths(graph),
        matches,
        matches,
        words=[words_of(one.filter) for one in traffic.subscriptions],
        filters=np.array(asked, np.int32),
        filter_bytes=sum(map(len, filters)) / max(1, len(filters)),
        objective=objective,
        budget_s=BUDGET_S,
    )


def state_of(traffic: Traffic, problem: Problem, plan: Grouping) -> State:
    """Return what a plan costs and loads."""
    matches = problem.sample
    loads = loads_of(plan, matches, problem.graph.costs)
    point = point_of(problem, plan)
    count = max(1, matches.document_count)
    used = Usage(
        plan.sample.cost / count,
        point.copies / count,
        point.trials / count,
        point.entries,
        point.entries * (ENTRY_BYTES + problem.filter_bytes),
        len(plan.trees),
        problem.graph.nodes,
    )
    floor = float(best_steiner_costs(problem.paths, matches.documents).sum())
    numbers = {
        "brokers": float(problem.graph.nodes),
        "links": float(len(problem.graph.ends)),
        "subscriptions": float(len(traffic.subscriptions)),
        "events": float(matches.weights.sum()),
        "trees": float(len(plan.trees)),
        "entries": float(point.entries),
        "cost": used.cost,
        "price": bill(problem.objective or Objective(), used).total,
        "over_steiner": plan.sample.cost / floor - 1 if floor else 0.0,
        "delay": loads.delay,
        "stretch": loads.stretch,
    }
    return State(traffic.brokers, traffic.links, plan, loads, numbers)


def kept(before: State, traffic: Traffic, rates: Floats, objective: Objective) -> State | None:
    """Return what the trees of before cost in the network as it is now; None if they cannot stay."""
    place = {(a, b): number for number, (a, b, _) in enumerate(traffic.links)}
    if before.brokers != traffic.brokers:
        return None
    problem = problem_of(traffic, rates, objective)
    trees = []
    for tree in before.plan.trees:
        pairs = [before.links[number][:2] for number in tree.links.tolist()]
        if not all(pair in place for pair in pairs):
            return None
        trees.append(Tree(problem.graph, [place[pair] for pair in pairs], tree.root))
    rule = before.plan.one_copy
    if rule is None and len(trees) > 1:
        return None  # groups are of subscriptions, which may have moved
    plan = regions_with(problem, tuple(trees), rule or "nearest")
    return state_of(traffic, problem, plan if rule else replace(plan, one_copy=None, name="single"))


def link_changes(comparison: Comparison) -> list[tuple[Pair, float | None, float | None]]:
    """Return each link with its load before and after, None where it is not there; those that change most first."""
    pairs: Iterable[Pair] = {
        (a, b) for state in (comparison.before, comparison.after) for a, b, _ in state.links
    }
    rows = [(pair, comparison.before.load_of(pair), comparison.after.load_of(pair)) for pair in pairs]
    return sorted(rows, key=lambda row: (-abs((row[2] or 0.0) - (row[1] or 0.0)), row[0]))
