"""A sample of a network's traffic: the whole overlay, some subscriptions, advertisements and events.

Brokers are never sampled: what strategies differ in depends on the overlay as a whole. `sizes` says how many
subscriptions and events a replay can take so that it ends in bounded time, whatever the network's size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from covey.core.filter import Filter
from covey.errors import PlanError
from covey.matching.index import Index
from covey.planning.compute_tree import compute_tree
from covey.planning.documents import Documents
from covey.planning.graph import Graph
from covey.planning.paths import AllPaths

# A replay of the costliest strategy sends each subscription over every link, and each event too.
MOST_SUBSCRIPTION_HOPS = 5_000
MOST_EVENT_HOPS = 30_000
LEAST = 20
MOST = 2_000


@dataclass(frozen=True)
class Placed:
    """A filter at a broker."""

    broker: str
    filter: Filter


@dataclass(frozen=True)
class Published:
    """An event at the broker where it was published."""

    broker: str
    content: Any


@dataclass(frozen=True)
class Traffic:
    """See the module's text.

    links     (a, b, cost), each once
    single    the links of a tree for strategies that need one, if it is known
    totals    how many subscriptions, advertisements and events there are in all, of which these are a sample
    notes     what a reader of results must know of the sample, a sentence each
    """

    brokers: tuple[str, ...]
    links: tuple[tuple[str, str, float], ...]
    subscriptions: Sequence[Placed]
    advertisements: Sequence[Placed]
    events: Sequence[Published]
    totals: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    single: tuple[tuple[str, str], ...] | None = None

    @cached_property
    def wanted(self) -> list[list[int]]:
        """For each event the numbers of the subscriptions that match it, sorted: what must be delivered."""
        index = Index()
        index.add_batch(range(len(self.subscriptions)), [one.filter for one in self.subscriptions])
        found = index.match_batch([event.content for event in self.events])
        return [np.sort(np.asarray(keys, np.int64)).tolist() for keys in found]

    @property
    def is_tree(self) -> bool:
        """Whether the overlay, which is connected, has no cycle."""
        return len(self.links) == len(self.brokers) - 1

    @cached_property
    def costs(self) -> dict[tuple[str, str], float]:
        """What one event costs over a link, in either direction."""
        return {pair: cost for a, b, cost in self.links for pair in ((a, b), (b, a))}

    @cached_property
    def tree(self) -> tuple[tuple[str, str], ...]:
        """The overlay if it is a tree, else the single tree that is known or is best for these events (COMPUTETREE)."""
        pairs = tuple((a, b) for a, b, _ in self.links)
        if self.is_tree or self.single is not None:
            return pairs if self.single is None else self.single
        number = {broker: place for place, broker in enumerate(self.brokers)}
        ends = [(number[a], number[b]) for a, b in pairs]
        graph = Graph(len(self.brokers), ends, [cost for *_, cost in self.links])
        hosts = [number[one.broker] for one in self.subscriptions]
        documents = Documents.of(
            (number[event.broker], sorted({hosts[place] for place in places}))
            for event, places in zip(self.events, self.wanted, strict=True)
        )
        chosen = compute_tree(graph, AllPaths(graph), documents).tree
        return tuple(
            (self.brokers[one], self.brokers[other]) for one, other in graph.ends[chosen.links].tolist()
        )


def sizes(brokers: int) -> tuple[int, int]:
    """Return how many subscriptions and how many events are replayed in a network of so many brokers."""
    each = tuple(
        min(MOST, max(LEAST, most // max(1, brokers))) for most in (MOST_SUBSCRIPTION_HOPS, MOST_EVENT_HOPS)
    )
    return each[0], each[1]


def checked_links(rows: Sequence[tuple[str, str, float]]) -> tuple[tuple[str, str, float], ...]:
    """Return each link once, the smaller name first, at its lowest cost, sorted; PlanError if they connect not all."""
    least: dict[tuple[str, str], float] = {}
    for a, b, cost in rows:
        pair = (a, b) if a < b else (b, a)
        least[pair] = min(cost, least.get(pair, cost))
    if not least:
        raise PlanError("there is no link in the topology")
    above: dict[str, str] = {}

    def top(broker: str) -> str:
        while (higher := above.setdefault(broker, broker)) != broker:
            above[broker] = broker = above[higher]
        return broker

    for a, b in least:
        above[top(a)] = top(b)
    if len({top(broker) for broker in list(above)}) > 1:
        raise PlanError("the topology is not connected (hint: plan each part by itself)")
    return tuple((a, b, cost) for (a, b), cost in sorted(least.items()))
