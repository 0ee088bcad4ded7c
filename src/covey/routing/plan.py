"""A plan of dissemination trees: which links are on which tree, and how interest and events use the trees.

There are two kinds of plans:

    groups     a subscription belongs to the tree of its group, by the broker where it is and its filter, and is told
               there; an event travels on the tree of each group that wants it           (the strategy `trees`; with
               an aggregation, which says what is merged where on the trees, the strategy `aggregation`)
    one copy   every subscription is told on tree 0; an event travels on one tree, which its publisher's broker chooses
               from the brokers that want it (`carrying`)                                 (the strategy `regions`)

The plan is data that every broker has alike; a broker knows its own part of it by asking. Strategies that know one tree
have the plan ONE_TREE, on which every link is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

from covey.core.filter import Filter
from covey.errors import PlanError
from covey.routing.aggregation import NOTHING, Aggregation
from covey.routing.carrying import Carrying, OneCopy
from covey.routing.messages import Tree

Group = Callable[[str, Filter], Tree]  # of a filter at a broker

__all__ = ["ONE_TREE", "Group", "OneCopy", "TreePlan"]


class TreePlan:
    """Trees as lists of links between broker names.

    `group` names the tree of a subscription, from the name of its broker and its filter; by default a digest of the
    filter does. With `one_copy` there are neither groups nor an aggregation: the publisher's broker must know every
    filter, and where it is. PlanError if there is no tree, if one has a cycle, or if trees for
    one copy do not all span the same brokers.
    """

    def __init__(
        self,
        trees: Sequence[Iterable[tuple[str, str]]],
        group: Group | None = None,
        *,
        one_copy: OneCopy | None = None,
        aggregation: Aggregation | None = None,
    ) -> None:
        if not trees:
            raise PlanError("a plan has at least one tree")
        links = [list(tree) for tree in trees]
        for tree, pairs in enumerate(links):
            _check_acyclic(tree, pairs)
        self._links: list[frozenset[frozenset[str]]] | None = [
            frozenset(map(frozenset, pairs)) for pairs in links
        ]
        self.trees: Sequence[Tree] = range(len(trees))
        self.carrying: Carrying | None = None
        self._group = group
        self.aggregation: Aggregation = NOTHING if aggregation is None else aggregation
        if one_copy is not None:
            if aggregation is not None:
                raise PlanError(
                    "a plan for one copy merges nothing: its brokers must know who wants an event"
                )
            if group is not None:
                raise PlanError("a plan for one copy has no groups: every subscription is told on tree 0")
            self.carrying = Carrying(links, one_copy)

    @property
    def strategy(self) -> str:
        """The name of the strategy that follows the plan."""
        if self.carrying is not None:
            return "regions"
        return "trees" if self.aggregation is NOTHING else "aggregation"

    @property
    def telling(self) -> Sequence[Tree]:
        """The trees on which brokers tell each other what is advertised and wanted."""
        return self.trees if self.carrying is None else self.trees[:1]

    def has_link(self, tree: Tree, broker: str, other: str) -> bool:
        """Return whether the tree goes over the link between the two brokers."""
        return self._links is None or frozenset((broker, other)) in self._links[tree]

    def neighbours(self, tree: Tree, broker: str) -> list[str]:
        """Return the brokers next to this one on a tree, sorted; none of a tree that is whatever links there are."""
        if self._links is None:
            return []
        return sorted(
            other for link in self._links[tree] if broker in link for other in link if other != broker
        )

    def links(self, overlay: Iterable[tuple[str, str]]) -> list[list[tuple[str, str]]]:
        """Return the links of each tree, as the overlay has them; PlanError if it lacks one."""
        overlay = list(overlay)
        found = [[link for link in overlay if self.has_link(tree, *link)] for tree in self.trees]
        for tree, links in enumerate(found):
            if self._links is not None and len(links) < len(self._links[tree]):
                raise PlanError(f"tree {tree} of the plan uses a link that the overlay does not have")
        return found

    def group(self, broker: str, filter: Filter) -> Tree:
        """Return the tree on which a subscription with this filter, of a client at this broker, is told."""
        if len(self.telling) == 1:
            return 0
        if self._group is not None:
            tree = self._group(broker, filter)
            if tree not in self.trees:
                raise PlanError(
                    f"the plan puts {filter!s:.60} at {broker} on tree {tree}, which it does not have"
                )
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
        self.carrying = None
        self.aggregation = NOTHING
        self._group = None


ONE_TREE = _OneTree()
