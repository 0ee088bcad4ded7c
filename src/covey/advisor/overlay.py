"""Which links to build and which to drop: a network's overlay, proposed from its own traffic.

Links are built one after the other. Those that promise most are planned in earnest, and the one with the least price is
taken if the network is cheaper with it, the upkeep of the link included, and deliveries keep to the bound on delay.
What a link promises: every event goes its own way to each broker that wants it, and saves what the link shortens of
that way. That counts paths that trees share several times, so it only says what to look at.

A link is dropped if no event crosses it in the plan, and no failure of a single link or broker would part the overlay
that does not part it already. So dropping costs neither traffic nor a second way.

The result is never dearer than the overlay that is there, by the prices given. It is found step by step: two links
that only pay together are not found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from covey.advisor.traffic import Traffic, checked_links
from covey.advisor.whatif import TRIED, Changes, Comparison, Pair, State, planned, what_if
from covey.errors import ConfigError
from covey.matching.jit import Floats
from covey.planning.graph import Graph
from covey.planning.objective import Objective
from covey.planning.paths import AllPaths

PROMISING = 6  # links that are planned in earnest, of those that promise most
MOST_LINKS = 20
MOST_BROKERS = 500
MOST_NAMED = 12  # links in a sentence
LEAST_SAVING = 1e-9  # of a price


class Bounds(NamedTuple):
    """What may be proposed: at most so many links of this cost, and what a link costs to keep, an event.

    `cost` None is the middle one of the costs of the links there are. 99 of 100 deliveries have to come within `delay`,
    in link costs, or within what they take today if that is longer.
    """

    links: int = 3
    cost: float | None = None
    upkeep: float = 0.0
    delay: float | None = None


class Built(NamedTuple):
    """A link that is built, with the network's numbers after it."""

    link: Pair
    cost: float
    after: State


@dataclass(frozen=True)
class Proposal:
    """Links to build, in order, and links to drop; `comparison` is the network before and after all of it."""

    built: tuple[Built, ...]
    dropped: tuple[Pair, ...]
    comparison: Comparison

    def sentences(self) -> list[str]:
        """Say what to do, a line for each link."""
        found, last = [], self.comparison.before.numbers
        for one in self.built:
            now = one.after.numbers
            a, b = one.link
            less = 1 - now["cost"] / last["cost"] if last["cost"] else 0.0
            delay = f"p99 delay {last['delay']:,.3g} → {now['delay']:,.3g}"
            found.append(f"build {a}–{b} (cost {one.cost:g}): {less:.1%} less traffic, {delay}")
            last = now
        if self.dropped:
            links = f"{len(self.dropped)} link{'s' if len(self.dropped) > 1 else ''}"
            named = ", ".join(f"{a}–{b}" for a, b in self.dropped[:MOST_NAMED])
            more = f" and {len(self.dropped) - MOST_NAMED} more" if len(self.dropped) > MOST_NAMED else ""
            found.append(f"drop {links} that no event crosses and no failure needs: {named}{more}")
        return found or ["the overlay stays as it is: no link that is built or dropped saves anything"]

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "built": [{"link": list(one.link), "cost": one.cost, **one.after.numbers} for one in self.built],
            "dropped": [list(pair) for pair in self.dropped],
            **self.comparison.as_dict(),
        }


def propose(
    traffic: Traffic,
    bounds: Bounds | None = None,
    objective: Objective | None = None,
    methods: Sequence[str] = TRIED,
) -> Proposal:
    """Return what to build and to drop; ConfigError for bounds that cannot be."""
    wanted, prices = bounds or Bounds(), objective or Objective()
    _check(wanted, traffic)
    cost = wanted.cost or float(np.median([cost for *_, cost in traffic.links]))
    rates = np.ones(len(traffic.events))
    now, state = traffic, planned(traffic, rates, prices, methods)
    before = state
    longest = max(wanted.delay or 0.0, before.numbers["delay"])
    built: list[Built] = []
    while len(built) < wanted.links:
        options = []
        for pair in promising(now, cost):
            later = with_links(now, [*now.links, (*pair, cost)])
            after = planned(later, rates, prices, methods)
            if after.numbers["delay"] <= longest:
                options.append((after.numbers["price"], pair, later, after))
        if not options:
            break
        price, pair, later, after = min(options, key=lambda option: option[:2])
        if price + wanted.upkeep > state.numbers["price"] * (1 - LEAST_SAVING):
            break
        built.append(Built(pair, cost, after))
        now, state = later, after
    dropped = spare(now, state, {one.link for one in built})
    changes = Changes(added=[(*one.link, one.cost) for one in built], removed_links=dropped)
    if not changes.any:
        return Proposal((), (), Comparison(before, before, None, (), changes))
    return Proposal(tuple(built), tuple(dropped), what_if(traffic, changes, prices, methods))


def _check(bounds: Bounds, traffic: Traffic) -> None:
    if not 0 <= bounds.links <= MOST_LINKS:
        raise ConfigError(f"between 0 and {MOST_LINKS} links are proposed at a time, not {bounds.links}")
    if bounds.cost is not None and not 0 < bounds.cost < 1e9:
        raise ConfigError(f"a link cannot cost {bounds.cost:g}: a cost is positive and finite")
    if not 0 <= bounds.upkeep < 1e9:
        raise ConfigError(f"the upkeep of a link cannot be {bounds.upkeep:g}: it is 0 or more")
    if bounds.delay is not None and not bounds.delay > 0:
        raise ConfigError(f"a delay cannot be bounded by {bounds.delay:g}: a bound is above 0")
    if len(traffic.brokers) > MOST_BROKERS:
        raise ConfigError(
            f"links are proposed for at most {MOST_BROKERS} brokers, not {len(traffic.brokers)}"
        )


def with_links(traffic: Traffic, links: Sequence[tuple[str, str, float]]) -> Traffic:
    """Return the same traffic over other links: who wants which event stays known."""
    found = replace(traffic, links=checked_links(links), single=None)
    found.__dict__["wanted"] = traffic.wanted
    return found


def demand(traffic: Traffic) -> Floats:
    """Return how many events of each broker (rows) each broker wants (columns)."""
    number = {broker: place for place, broker in enumerate(traffic.brokers)}
    hosts = np.array([number[one.broker] for one in traffic.subscriptions], np.intp)
    found = np.zeros((len(number), len(number)))
    for event, subscriptions in zip(traffic.events, traffic.wanted, strict=True):
        found[number[event.broker], np.unique(hosts[subscriptions])] += 1.0
    return found


def promising(traffic: Traffic, cost: float) -> list[Pair]:
    """Return the links that are not there and would shorten most, the best first."""
    number = {broker: place for place, broker in enumerate(traffic.brokers)}
    ends = [(number[a], number[b]) for a, b, _ in traffic.links]
    graph = Graph(len(number), ends, [link_cost for *_, link_cost in traffic.links])
    distance = np.asarray(AllPaths(graph).distance, float)
    flow = demand(traffic)
    flow += flow.T  # a link serves both ways
    gain = flow * np.maximum(distance - cost, 0.0)
    gain[tuple(np.array([*ends, *((b, a) for a, b in ends)]).T)] = 0.0
    gain[np.tril_indices(len(gain))] = 0.0
    # What a pair wants of each other says where to look; then all ways that the link would shorten are counted.
    order = np.argsort(-gain, axis=None, kind="stable")[: 8 * PROMISING]
    pairs = [divmod(int(place), len(gain)) for place in order if gain.flat[place] > 0]
    promises = []
    for a, b in pairs:
        there = distance[:, [a]] + cost + distance[[b], :]
        back = distance[:, [b]] + cost + distance[[a], :]
        shorter = np.maximum(distance - np.minimum(there, back), 0.0)
        promises.append((-float((flow * shorter).sum()), a, b))
    return [(traffic.brokers[a], traffic.brokers[b]) for _, a, b in sorted(promises)[:PROMISING]]


def spare(traffic: Traffic, state: State, kept: set[Pair]) -> list[Pair]:
    """Return links that can go, one after the other: nothing crosses them, and no failure needs them."""
    number = {broker: place for place, broker in enumerate(traffic.brokers)}
    links = [(a, b) for a, b, _ in traffic.links]
    used = {
        state.links[link][:2] for tree in state.plan.trees for link in tree.links.tolist()
    }  # trees span all brokers: whoever subscribes tomorrow has a way
    there = {(number[a], number[b]) for a, b in links}
    safe = parting(len(number), there)
    dropped = []
    for a, b in sorted(set(links) - used - kept):
        without = there - {(number[a], number[b])}
        if parting(len(number), without) == safe:
            there = without
            dropped.append((a, b))
    return dropped


def parting(nodes: int, links: set[tuple[int, int]]) -> tuple[frozenset[tuple[int, int]], frozenset[int]]:
    """Return the links and the nodes without any one of which a connected graph falls apart."""
    near: list[list[int]] = [[] for _ in range(nodes)]
    for a, b in links:
        near[a].append(b)
        near[b].append(a)
    entered, low = [-1] * nodes, [0] * nodes
    bridges, cuts = set(), set()
    count = below_root = 0
    entered[0] = 0
    way: list[tuple[int, int, int]] = [
        (0, -1, 0)
    ]  # a walk in depth: node, where it came from, next neighbour
    while way:
        node, parent, place = way.pop()
        if place < len(near[node]):
            way.append((node, parent, place + 1))
            other = near[node][place]
            if entered[other] < 0:
                count += 1
                entered[other] = low[other] = count
                way.append((other, node, 0))
            elif other != parent:
                low[node] = min(low[node], entered[other])
        elif parent >= 0:
            low[parent] = min(low[parent], low[node])
            below_root += parent == 0
            if low[node] > entered[parent]:
                bridges.add((min(node, parent), max(node, parent)))
            if parent != 0 and low[node] >= entered[parent]:
                cuts.add(parent)
    if below_root > 1:
        cuts.add(0)
    return frozenset(bridges), frozenset(cuts)
