"""What a network is made of before anything happens: brokers, links, the strategy of each broker, and trees.

A strategy that knows one tree needs an overlay without cycles. `trees` and `regions` run over any connected one;
without a plan they get spanning trees of it, each grown breadth first from another broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from covey.errors import ConfigError
from covey.routing.plan import ONE_TREE, OneCopy, TreePlan
from covey.routing.strategy import Registered, registered

DEFAULT_TREES = 3

Pair = tuple[str, str]


class Overlay:
    """Checked at once: ConfigError for links that do not fit together, a cycle, or strategies that cannot meet."""

    def __init__(self, topology: Any, strategy: str | Mapping[str, str], plan: TreePlan | None) -> None:
        links, brokers = links_of(topology)
        self.links: tuple[Pair, ...] = links
        self.brokers: tuple[str, ...] = brokers
        self.neighbours: dict[str, list[str]] = {broker: [] for broker in brokers}
        for a, b in links:
            self.neighbours[a].append(b)
            self.neighbours[b].append(a)
        self.strategy_of = self._strategies(strategy)
        self.cyclic = self._has_cycle()
        kinds = [registered(name) for name in self.strategy_of.values()]
        if any(kind.trees for kind in kinds):
            self.plan = self._grown(kinds[0].one_copy) if plan is None else plan
            self.trees = self.plan.links(self.links)
            self._check_plan(kinds)
        else:
            if plan is not None:
                raise ConfigError(f"the strategy {kinds[0].name} has no use for a plan of trees")
            if self.cyclic:
                raise ConfigError(
                    f"the strategy {kinds[0].name} needs an overlay without cycles, and this one has some "
                    "(hint: use the strategy trees, or a spanning tree)"
                )
            self.trees, self.plan = [list(links)], ONE_TREE
        self._on_tree: list[dict[str, list[str]]] = []
        for tree in self.trees:
            neighbours: dict[str, list[str]] = {}
            for a, b in tree:
                neighbours.setdefault(a, []).append(b)
                neighbours.setdefault(b, []).append(a)
            self._on_tree.append(neighbours)

    def _check_plan(self, kinds: Sequence[Registered]) -> None:
        carrying = self.plan.carrying
        for kind in kinds:
            if kind.one_copy != (carrying is not None):
                raise ConfigError(f"the plan is for the strategy {self.plan.strategy}, not for {kind.name}")
        missing = [broker for broker in self.brokers if carrying and broker not in carrying.number]
        if missing:
            raise ConfigError(f"the trees of the plan do not reach broker {missing[0]!r:.40}")

    def _strategies(self, strategy: str | Mapping[str, str]) -> dict[str, str]:
        if isinstance(strategy, str):
            return dict.fromkeys(self.brokers, registered(strategy).name)
        missing = [broker for broker in self.brokers if broker not in strategy]
        if missing:
            raise ConfigError(f"no strategy is given for broker {missing[0]}")
        names = {broker: registered(strategy[broker]).name for broker in self.brokers}
        for a, b in self.links:
            one, other = registered(names[a]), registered(names[b])
            if one.dialect != other.dialect:
                raise ConfigError(
                    f"broker {a} ({one.name}) and broker {b} ({other.name}) cannot be neighbours: "
                    "their strategies do not understand each other"
                )
        return names

    def _has_cycle(self) -> bool:
        seen: set[str] = set()
        parts = 0
        for broker in self.brokers:
            if broker not in seen:
                parts += 1
                seen.update(self._reach(broker)[0])
        return len(self.links) > len(self.brokers) - parts

    def _reach(self, root: str) -> tuple[list[str], list[Pair]]:
        """Return the brokers that a root reaches, nearest first, and the links it reaches them over."""
        order, links, seen = [root], [], {root}
        for broker in order:
            for other in self.neighbours[broker]:
                if other not in seen:
                    seen.add(other)
                    order.append(other)
                    links.append((broker, other))
        return order, links

    def behind(
        self, tree: int, broker: str, other: str, is_up: Callable[[str, str], bool] = lambda a, b: True
    ) -> set[str]:
        """Return the brokers that a tree reaches from `broker` over the neighbour `other`, over links that are up."""
        found, queue = {other}, [(other, broker)]
        for here, came_from in queue:
            for there in self._on_tree[tree].get(here, ()):
                if there != came_from and there not in found and is_up(here, there):
                    found.add(there)
                    queue.append((there, here))
        return found

    def _grown(self, one_copy: bool) -> TreePlan:
        """Return a few spanning trees, from roots spread over the list of brokers."""
        order, _ = self._reach(self.brokers[0])
        if len(order) < len(self.brokers):
            raise ConfigError("the overlay is not connected, so no tree spans it")
        count = min(DEFAULT_TREES, len(self.brokers))
        roots: Sequence[str] = [order[number * len(order) // count] for number in range(count)]
        trees = [self._reach(root)[1] for root in roots]
        return TreePlan(trees, one_copy=OneCopy("nearest", roots) if one_copy else None)


def links_of(topology: Any) -> tuple[tuple[Pair, ...], tuple[str, ...]]:
    """Return the links and the brokers of a topology; ConfigError if they do not fit together."""
    links = getattr(topology, "links", topology)
    brokers = dict.fromkeys(getattr(topology, "brokers", ()))
    pairs: dict[frozenset[str], Pair] = {}
    for link in links:
        try:
            a, b = link
        except (TypeError, ValueError):
            raise ConfigError(f"a link is a pair of broker names, not {link!r:.60}") from None
        if not (isinstance(a, str) and isinstance(b, str)) or a == b:
            raise ConfigError(f"a link joins two different brokers by name, not {link!r:.60}")
        if frozenset((a, b)) in pairs:
            raise ConfigError(f"the link between {a} and {b} is given twice")
        pairs[frozenset((a, b))] = (a, b)
        brokers.update({a: None, b: None})
    if not brokers:
        raise ConfigError("an overlay has at least one broker")
    return tuple(pairs.values()), tuple(brokers)
