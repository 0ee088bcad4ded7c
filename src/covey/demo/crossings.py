"""Which links an event must cross, on a tree or by a plan, to reach those who want it: the least that brokers can send.

Messages on links beyond that are false positives: they went where nobody wanted the event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from covey.core.filter import Filter
from covey.planning.plan import Plan

Pair = tuple[str, str]


class Ways(Protocol):
    """How events travel."""

    def links(self, source: str, wanted: Iterable[tuple[str, Filter]]) -> Counter[Pair]:
        """Return how often an event from `source` crosses each link, for filters at these brokers."""


class OneTree:
    """All events on one tree."""

    def __init__(self, links: Iterable[Pair]) -> None:
        self._neighbours: dict[str, list[str]] = {}
        for a, b in links:
            self._neighbours.setdefault(a, []).append(b)
            self._neighbours.setdefault(b, []).append(a)
        self._towards: dict[str, Mapping[str, str]] = {}

    def links(self, source: str, wanted: Iterable[tuple[str, Filter]]) -> Counter[Pair]:
        """Return the links between the source and the brokers that want it, each once."""
        return self.to_hosts(source, {broker for broker, _ in wanted})

    def to_hosts(self, source: str, hosts: Iterable[str]) -> Counter[Pair]:
        """Return the links between the source and these brokers, each once."""
        before = self._before(source)
        crossed: set[Pair] = set()
        for host in hosts:
            while host != source:
                crossed.add((min(host, before[host]), max(host, before[host])))
                host = before[host]
        return Counter(crossed)

    def _before(self, source: str) -> Mapping[str, str]:
        """Return for each broker the one before it on the way from the source."""
        if source not in self._towards:
            before: dict[str, str] = {}
            order = [source]
            for broker in order:
                for other in self._neighbours.get(broker, ()):
                    if other != before.get(broker):
                        before[other] = broker
                        order.append(other)
            self._towards[source] = before
        return self._towards[source]


class Planned:
    """Each event on the trees that the plan has for it."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._trees = [OneTree(tree.links) for tree in plan.trees]
        self._carrying = plan.to_tree_plan().carrying

    def links(self, source: str, wanted: Iterable[tuple[str, Filter]]) -> Counter[Pair]:
        """Return the links that each of its copies crosses."""
        by_tree: dict[int, set[str]] = {}
        if self._carrying is not None:
            hosts = {broker for broker, _ in wanted}
            if hosts:
                by_tree[self._carrying.carrier(source, sorted(hosts))] = hosts
        else:
            for broker, filter in wanted:
                by_tree.setdefault(self._plan.tree_of(broker, filter), set()).add(broker)
        crossed: Counter[Pair] = Counter()
        for tree, some in by_tree.items():
            crossed.update(self._trees[tree].to_hosts(source, some))
        return crossed


def needed(
    ways: Ways, sources: Sequence[str], wanted: Sequence[Sequence[tuple[str, Filter]]]
) -> Counter[Pair]:
    """Return how often each link must be crossed for events from these sources, which these want."""
    crossed: Counter[Pair] = Counter()
    for source, some in zip(sources, wanted, strict=True):
        crossed.update(ways.links(source, some))
    return crossed
