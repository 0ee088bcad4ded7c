"""The only copy of an event: on which of several trees it travels, and over which link it comes nearer to a broker.

Every broker has the plan, so every broker answers alike. A broker names the ways on a tree by intervals: brokers are
numbered in preorder from the root, those below a neighbour have numbers in a row, and all others lie towards the root.
So the plan keeps two numbers for each tree and broker, and no table of next hops.

The tree is chosen by whoever publishes, from the brokers that host somebody who wants the event (`hosts`, perhaps with
the publisher's own):

    nearest    the tree whose root has the least sum of distances to the hosts, along the tree
    cheapest   the tree on which the event crosses least on its way from the publisher's broker

and the first of equals. A planner predicts what that costs, so it must choose alike to the last bit. Distances are
therefore whole numbers of one small unit (`whole`): their sums do not depend on the order of adding.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from covey.errors import PlanError
from covey.matching.jit import Ints, Longs
from covey.routing.messages import Tree

RULES: Final = ("nearest", "cheapest")
BITS: Final = 40  # of the greatest distance; 2^22 of them can be added up

Pair = tuple[str, str]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class OneCopy:
    """How the only copy of an event travels: the rule, the root of each tree, and what links cost, 1 unless told.

    The last `spare` trees are for failures: no event sets out on them, and brokers beside a failure send events on over
    them.
    """

    rule: str
    roots: Sequence[str]
    costs: Mapping[Pair, float] = field(default_factory=dict)  # by the two ends, in either order
    spare: int = 0

    def cost(self, a: str, b: str) -> float:
        """Return what a link costs."""
        return self.costs.get((a, b), self.costs.get((b, a), 1.0))


def whole(distances: ArrayLike) -> Longs:
    """Return distances as whole numbers of a unit that is a power of two, the greatest of them below 2^40."""
    given = np.asarray(distances, np.float64)
    _, exponent = np.frexp(given.max(initial=0.0))
    return np.rint(np.ldexp(given, BITS - int(exponent))).astype(np.int64)


class Carrying:
    """Trees that span the same brokers, walked from their roots; PlanError if they do not."""

    def __init__(self, trees: Sequence[Iterable[Pair]], rule: OneCopy) -> None:
        if rule.rule not in RULES:
            raise PlanError(f"no rule {rule.rule!r:.40} for the only copy (hint: one of {', '.join(RULES)})")
        if len(rule.roots) != len(trees):
            raise PlanError(f"a plan of {len(trees)} trees has as many roots, not {len(rule.roots)}")
        self.chosen = (
            len(trees) - rule.spare
        )  # so many trees, the first ones, are those on which events set out
        if not 0 < self.chosen <= len(trees):
            raise PlanError(f"of {len(trees)} trees {rule.spare} cannot be spare")
        links = [list(tree) for tree in trees]
        self.names: tuple[str, ...] = tuple(
            sorted({*rule.roots, *(end for pair in links[0] for end in pair)})
        )
        self.number: dict[str, int] = {name: number for number, name in enumerate(self.names)}
        self._rule = rule
        self.rule = rule.rule
        shape = (len(trees), len(self.names))
        self._parent: Ints = np.full(shape, -1, np.int32)
        self._depth = np.zeros(shape)
        self._place: list[list[int]] = []  # of each broker in preorder
        self._end: list[list[int]] = []  # one more than the last place below it
        self._below: dict[tuple[Tree, int], tuple[list[int], list[str]]] = {}
        for tree, pairs in enumerate(links):
            self._walk(tree, pairs)
        self._far = whole(self._depth)
        self._around: dict[str, tuple[str, ...]] = {}

    def _walk(self, tree: Tree, pairs: Sequence[Pair]) -> None:
        neighbours: list[list[tuple[int, float]]] = [[] for _ in self.names]
        for a, b in pairs:
            if a not in self.number or b not in self.number:
                raise PlanError(f"tree {tree} of the plan does not span the same brokers as tree 0")
            cost = self._rule.cost(a, b)
            neighbours[self.number[a]].append((self.number[b], cost))
            neighbours[self.number[b]].append((self.number[a], cost))
        parent, depth = self._parent[tree], self._depth[tree]
        root = self.number[self._rule.roots[tree]]
        place, stack = [-1] * len(self.names), [root]
        order: list[int] = []
        while stack:
            broker = stack.pop()
            place[broker] = len(order)
            order.append(broker)
            for other, cost in neighbours[broker]:
                if other != parent[broker]:
                    parent[other] = broker
                    depth[other] = depth[broker] + cost
                    stack.append(other)
        if len(order) < len(self.names):
            raise PlanError(f"tree {tree} of the plan does not span the same brokers as tree 0")
        end = [at + 1 for at in place]
        for broker in reversed(order[1:]):
            end[parent[broker]] = max(end[parent[broker]], end[broker])
        self._place.append(place)
        self._end.append(end)

    def carrier(self, publisher: str, hosts: Sequence[str]) -> Tree:
        """Return the tree on which an event travels from a broker to these; the first if there are none."""
        places = [self.number[host] for host in hosts]
        if self._rule.rule == "nearest":
            return int(self._far[: self.chosen, places].sum(axis=1).argmin())
        ends = np.array(sorted({self.number[publisher], *places}), np.int64)
        return int(np.argmin([self._crossed(tree, ends) for tree in range(self.chosen)]))

    def _crossed(self, tree: Tree, ends: Longs) -> int:
        """Return what the smallest subtree costs that has these brokers: each link with some of them on either side."""
        parent = self._parent[tree]
        below = np.zeros(len(parent), np.int64)  # how many of them each broker has at or below it
        while len(ends):
            below += np.bincount(ends, minlength=len(parent))
            ends = parent[ends[parent[ends] >= 0]].astype(np.int64)
        crossed = (below > 0) & (below < below.max()) & (parent >= 0)
        return int((self._far[tree] - self._far[tree, parent])[crossed].sum())

    @property
    def parents(self) -> Ints:
        """The parent of each broker by its number, -1 of the root; a row for each tree."""
        return self._parent

    @property
    def far(self) -> Longs:
        """The distance of each broker from the root, likewise, as whole numbers of a small unit."""
        return self._far

    def far_to_choose(self) -> Longs:
        """Return the distances for a choice among all trees that never takes a spare one.

        A spare tree is further, by more than any other tree has in all, at every broker and over every link.
        """
        far = self._far.copy()
        if self.chosen < len(far):
            crossed = np.where(self._parent < 0, 0, far - np.take_along_axis(far, self._parent, axis=1))
            brokers = far.shape[1]
            more = min(int(crossed.sum(axis=1).max()) + 1, (1 << 62) // (brokers + 1))
            links = self._links_from_root()[self.chosen :] if self.rule == "cheapest" else 0
            far[self.chosen :] += (1 << BITS + 1) + links * more
        return far

    def _links_from_root(self) -> Longs:
        """Return how many links each broker is away from the root of each tree."""
        found = np.zeros(self._parent.shape, np.int64)
        above = self._parent
        while (above >= 0).any():
            found += above >= 0
            above = np.where(above < 0, above, np.take_along_axis(self._parent, np.maximum(above, 0), axis=1))
        return found

    def around(self, broker: str) -> tuple[str, ...]:
        """Return the neighbours of a broker on all trees together, sorted."""
        found = self._around.get(broker)
        if found is None:
            here = self.number[broker]
            above = self._parent[:, here]
            below = np.flatnonzero((self._parent == here).any(axis=0))
            numbers = sorted({*above[above >= 0].tolist(), *below.tolist()})
            found = self._around[broker] = tuple(self.names[number] for number in numbers)
        return found

    def behind(self, broker: str, others: Iterable[str]) -> Bools:
        """Return, for each tree, the brokers to which the way from a broker leads through one of the others."""
        found: Bools = np.zeros(self._parent.shape, bool)
        here = self.number[broker]
        for tree, (places, ends) in enumerate(zip(self._place, self._end, strict=True)):
            place = np.array(places)
            for other in others:
                there = self.number[other]
                if places[there] < places[here] < ends[there]:
                    child = self.number[self.next_hop(tree, other, broker)]
                    beyond = (place < places[child]) | (place >= ends[child])
                    beyond[there] = False
                else:
                    beyond = (place > places[there]) & (place < ends[there])
                found[tree] |= beyond
        return found

    def next_hop(self, tree: Tree, broker: str, host: str) -> str:
        """Return the neighbour of a broker on the tree that is nearer to another one."""
        here, place = self.number[broker], self._place[tree]
        there = place[self.number[host]]
        if not place[here] < there < self._end[tree][here]:
            return self.names[int(self._parent[tree, here])]
        below = self._below.get((tree, here))
        if below is None:
            children = np.flatnonzero(self._parent[tree] == here).tolist()
            children.sort(key=place.__getitem__)
            below = [place[child] for child in children], [self.names[child] for child in children]
            self._below[tree, here] = below
        return below[1][bisect_right(below[0], there) - 1]
