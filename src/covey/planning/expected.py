"""A dissemination tree for documents that nobody has seen: by what is expected of them.

A document is thought of as published anywhere, each node as likely as another, and wanted by `count` hosts that are
drawn independently, each node by its share of the weights. It crosses a link if somebody of them is on either side:

    1 - (1 - W)^count (1 - P) - W^count P

where W and P are the shares of weight and of nodes on one side. The expected cost of a tree is the sum over its links
of that times what the link costs: no sample is needed. Hosts of real documents are not independent, so this is a guide
for building trees and no prediction; but it has what matters, that a link which is used anyway costs nothing more, and
that long ways which few use are dear.

Improvement moves one branch at a time: a node with all below it goes from its parent to another neighbour. Only sums on
the two ways to the root change. Nodes are tried in preorder, each moves to where it saves most (the first neighbour
of equals), and rounds end when none moves.
"""

from __future__ import annotations

import numpy as np

from covey.errors import PlanError
from covey.matching.jit import Floats, Ints, kernel, part
from covey.planning.graph import Graph
from covey.planning.tree import Tree

ROUNDS = 6
TOLERANCE = 1e-9  # of a link's cost: less is rounding


def expected_cost(tree: Tree, weights: Floats, count: float) -> float:
    """Return the expected cost of a document on the tree."""
    shares = _shares(tree.graph, weights, count)
    spread = np.full(len(shares), 1.0 / len(shares))
    for node in tree.order[:0:-1]:
        shares[tree.parent[node]] += shares[node]
        spread[tree.parent[node]] += spread[node]
    below = tree.order[1:]
    inside, outside = np.clip(shares[below], 0.0, 1.0), np.clip(1.0 - shares[below], 0.0, 1.0)
    crossed = 1.0 - outside**count * (1.0 - spread[below]) - inside**count * spread[below]
    return float(tree.graph.costs[tree.parent_link[below]] @ crossed)


def improve_by_expectation(tree: Tree, weights: Floats, count: float, *, rounds: int = ROUNDS) -> Tree:
    """Return the tree with branches moved while that lowers the expected cost; its root stays.

    PlanError for weights that are negative or add up to nothing, or a count below 1.
    """
    graph = tree.graph
    shares = _shares(graph, weights, count)
    if rounds < 0:
        raise PlanError(f"the number of rounds cannot be {rounds}")
    parent, via = tree.parent.copy(), tree.parent_link.copy()
    _move_branches(
        graph.offsets,
        graph.neighbours,
        graph.links,
        graph.costs,
        tree.order,
        parent,
        via,
        shares,
        np.full(graph.nodes, 1.0 / graph.nodes),
        float(count),
        rounds,
    )
    return Tree(graph, np.delete(via, tree.root), tree.root)


def _shares(graph: Graph, weights: Floats, count: float) -> Floats:
    given = np.asarray(weights, np.float64)
    if (
        given.shape != (graph.nodes,)
        or not np.isfinite(given).all()
        or (given < 0).any()
        or not given.sum() > 0
    ):
        raise PlanError(f"{graph.nodes} nodes need as many weights, none of them negative and not all 0")
    if not count >= 1:
        raise PlanError(f"a document is expected to have one host at least, not {count}")
    return given / given.sum()


@part
def _crossed(inside: float, spread: float, count: float) -> float:
    """Return how likely a link is crossed below which these shares of weight and of nodes are."""
    share = min(max(inside, 0.0), 1.0)
    return 1.0 - (1.0 - share) ** count * (1.0 - spread) - share**count * spread


@kernel
def _move_branches(
    offsets: Ints,
    neighbours: Ints,
    links: Ints,
    costs: Floats,
    order: Ints,
    parent: Ints,
    via: Ints,
    shares: Floats,
    spread: Floats,
    count: float,
    rounds: int,
) -> None:
    """Move branches; `shares` and `spread` come for each node alone and are used for all that is below it."""
    root = order[0]
    for at in range(len(order) - 1, 0, -1):
        node = order[at]
        shares[parent[node]] += shares[node]
        spread[parent[node]] += spread[node]
    for _ in range(rounds):
        moved = False
        for at in range(1, len(order)):
            node = order[at]
            share, part_ = shares[node], spread[node]
            own = _crossed(share, part_, count)
            gone = -costs[via[node]] * own
            above = parent[node]
            while above != root:  # as if the branch were not there
                before = _crossed(shares[above], spread[above], count)
                shares[above] -= share
                spread[above] -= part_
                gone += costs[via[above]] * (_crossed(shares[above], spread[above], count) - before)
                above = parent[above]
            least, best = -TOLERANCE * costs[via[node]], -1
            for place in range(offsets[node], offsets[node + 1]):
                change = gone + costs[links[place]] * own
                above = neighbours[place]
                if above == parent[node] and links[place] == via[node]:
                    continue
                while above != root and above != node:
                    before = _crossed(shares[above], spread[above], count)
                    after = _crossed(shares[above] + share, spread[above] + part_, count)
                    change += costs[via[above]] * (after - before)
                    above = parent[above]
                if above != node and change < least:  # what is below it cannot be above it
                    least, best = change, place
            if best >= 0:
                parent[node] = neighbours[best]
                via[node] = links[best]
                moved = True
            above = parent[node]
            while above != root:
                shares[above] += share
                spread[above] += part_
                above = parent[above]
        if not moved:
            return
