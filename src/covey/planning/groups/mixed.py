"""Mixed plans: one tree for most documents, and more trees for those that gain.

One tree is good for documents that many want, and poor for those with few takers, whose paths it does not have. Here
each document travels in one copy on the cheapest of several trees. The first is the one that serves all best
(COMPUTETREE), so no document, sampled or not, crosses more than with that tree alone. Trees are added one by one,
always the candidate that saves most on the sample (the greedy choice of facilities), as many as have the least price on
documents held out. Candidates are shortest paths from the brokers that publish most and from the middle of regions of
hosts, and COMPUTETREE for the documents that one tree serves worst.

The price is that of `regions-cheapest`: a directory at each broker, and the publisher's broker tries each tree.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from covey.matching.jit import Floats, Ints
from covey.planning.budget import Budget, tree_ns
from covey.planning.compute_tree import compute_tree
from covey.planning.documents import Documents
from covey.planning.groups.baselines import single
from covey.planning.groups.costing import Costing, path_tree
from covey.planning.groups.model import Grouping, Point, Problem
from covey.planning.groups.mult import not_worse, parted, point_of, priced
from covey.planning.groups.regions import centred, document_costs, region_trees, regions_with, roots_of
from covey.planning.steiner import steiner_costs
from covey.planning.tree import Tree

MOST_TREES = 32
PUBLISHERS = 24  # of which shortest paths are candidates
REGIONS = 24
WORST = (0.1, 0.3)  # shares of the documents for which one tree is worst, for each of which a tree is made
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # of trees that are tried
RULE = "cheapest"


def mixed(problem: Problem, *, most: int = MOST_TREES) -> Grouping:
    """Return one tree and those that lower the price on the documents held out, at most so many in all."""
    problem = parted(problem)
    alone = single(problem)
    if problem.sample.subscription_count == 0 or not alone.trees:
        return replace(alone, name="mixed")
    budget = Budget(problem.budget_s)
    documents = Costing(problem).sample.documents  # a part of a large sample
    first = alone.trees[0]
    trees = [first, *candidates(problem, first, documents, budget)]
    order = greedy(np.array([tree.costs(documents) for tree in trees]), most)
    best: Grouping | None = None
    least = np.inf
    curve: list[Point] = []
    for count in sorted({min(number, len(order)) for number in COUNTS}):
        found = regions_with(problem, tuple(trees[number] for number in order[:count]), RULE)
        curve.append(point_of(problem, found))
        value = priced(problem, curve[-1])
        if value < least:
            best, least = found, value
    assert best is not None, "there is always the first tree"
    assert problem.held_out is not None, "documents are held out"
    spent = document_costs(problem.held_out.documents, best.trees, RULE)
    best = replace(best, name="mixed", curve=tuple(reversed(curve)), stopped=budget.stopped)
    return not_worse(problem, best, spent)


def candidates(problem: Problem, first: Tree, documents: Documents, budget: Budget) -> list[Tree]:
    """Return trees that may be good for documents for which the first is not, as many as the budget allows."""
    graph, nodes = problem.graph, problem.graph.nodes
    volume = np.bincount(documents.publishers, documents.weights, minlength=nodes)
    heavy = [int(node) for node in np.argsort(-volume, kind="stable")[:PUBLISHERS] if volume[node] > 0]
    hosts = problem.sample.hosts
    roots = centred(problem.paths, hosts, roots_of(problem.paths, hosts, REGIONS))
    found: list[Tree] = []
    for number, root in enumerate(heavy):
        if budget.stops(f"after {number} of {len(heavy)} trees around publishers"):
            return found
        found.append(path_tree(graph, root))
        budget.spend(tree_ns(2, nodes, len(documents.hosts)))
    found += region_trees(problem, roots)
    budget.spend(tree_ns(2 * len(roots), nodes, len(documents.hosts)))
    excess = first.costs(documents) - steiner_costs(problem.paths, documents)
    worst = np.argsort(-excess, kind="stable")
    for share in WORST:
        if budget.stops("before trees for the documents that one tree serves worst"):
            return found
        some = documents.take(np.sort(worst[: max(1, round(share * len(documents)))]))
        found.append(compute_tree(graph, problem.paths, some).tree)
        budget.spend(tree_ns(10, nodes, len(some.hosts)))
    return found


def greedy(costs: Floats, most: int) -> Ints:
    """Return the rows to take, in their order: the first, then always the one that lowers the sum of minima most.

    Rows that save nothing are left out.
    """
    chosen = [0]
    now = costs[0].copy()
    while len(chosen) < min(most, len(costs)):
        gains = np.maximum(now - costs, 0.0).sum(axis=1)
        best = int(gains.argmax())
        if gains[best] <= 1e-9 * max(1.0, float(now.sum())):
            break
        chosen.append(best)
        now = np.minimum(now, costs[best])
    return np.array(chosen, np.int32)
