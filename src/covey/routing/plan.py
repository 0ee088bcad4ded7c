"""A plan of dissemination trees: which links are on which tree, and which tree a subscription belongs to.

The plan is data that every broker has alike; a broker knows its own part of it by asking. Strategies that know one tree
have the plan ONE_TREE, on which every link is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

from covey.core.filter import Filter
from covey.errors import PlanError
from covey.routing.messages import Key, Tree

Group = Callable[[Key, Filter], Tree]


class TreePlan:
    """Trees as lists of links between broker names; `group` names the tree of a subscription, by default a digest does.

    PlanError if there is no tree, or if one of them has a cycle.
    """

    def __init__(self, trees: Sequence[Iterable[tuple[str, str]]], group: Group | None = None) -> None:
        if not trees:
            raise PlanError("a plan has at least one tree")
        self._links: list[frozenset[frozenset[str]]] | None = []
        for tree, links in enumerate(trees):
            pairs = list(links)
            _check_acyclic(tree, pairs)
            self._links.append(frozenset(frozenset(pair) for pair in pairs))
        self.trees: Sequence[Tree] = range(len(trees))
        self._group = group

    def has_link(self, tree: Tree, broker: str, other: str) -> bool:
        """Return whether the tree goes over the link between the two brokers."""
        return self._links is None or frozenset((broker, other)) in self._links[tree]

    def links(self, overlay: Iterable[tuple[str, str]]) -> list[list[tuple[str, str]]]:
        """Return the links of each tree, as the overlay has them; PlanError if it lacks one."""
        overlay = list(overlay)
        found = [[link for link in overlay if self.has_link(tree, *link)] for tree in self.trees]
        for tree, links in enumerate(found):
            if self._links is not None and len(links) < len(self._links[tree]):
                raise PlanError(f"tree {tree} of the plan uses a link that the overlay does not have")
        return found

    def group(self, key: Key, filter: Filter) -> Tree:
        """Return the tree of a subscription."""
        if len(self.trees) == 1:
            return 0
        if self._group is not None:
            tree = self._group(key, filter)
            if tree not in self.trees:
                raise PlanError(f"the plan puts {key} on tree {tree}, which it does not have")
            return tree
        number = blake2b(filter.encode(), digest_size=8).digest()
        return int.from_bytes(number, "big") % len(self.trees)


def _check_acyclic(tree: Tree, links: Iterable[tuple[str, str]]) -> None:
    parent: dict[str, str] = {}

    def root(broker: str) -> str:
        while parent.setdefault(broker, broker) != broker:
            parent[broker] = parent[parent[broker]]
            broker = parent[broker]
        return broker

    for a, b in links:
        if root(a) == root(b):
            raise PlanError(f"tree {tree} of the plan has a cycle over the link {a}–{b}")
        parent[root(a)] = root(b)


class _OneTree(TreePlan):
    """The overlay itself as the only tree: every link is on it."""

    def __init__(self) -> None:
        self._links = None
        self.trees = range(1)
        self._group = None


ONE_TREE = _OneTree()
