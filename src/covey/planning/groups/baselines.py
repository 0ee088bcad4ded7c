"""SINGLE, SPT, flooding and OPT: what groups are measured against.

single     one tree for all, by COMPUTETREE
spt        one tree of shortest paths from a random broker; documents go only where they are wanted
flooding   the same tree, but each document that somebody wants crosses every link of it
unicast    a group for each broker that hosts: shortest paths from everywhere, nothing shared between brokers
opt        a Steiner tree for each document, as if every document had trees of its own: no plan costs less, up to
           the error of the heuristic
"""

from __future__ import annotations

import numpy as np

from covey.planning.groups.costing import finished, path_tree, with_trees
from covey.planning.groups.model import Grouping, Problem, Traffic, numbered
from covey.planning.steiner import steiner_costs
from covey.planning.subscriptions import Matches
from covey.planning.tree import Tree


def single(problem: Problem) -> Grouping:
    """Return one group with the tree that COMPUTETREE chooses for the sample."""
    return finished(problem, "single", np.zeros(problem.sample.subscription_count, np.int32))


def spt(problem: Problem) -> Grouping:
    """Return one group with shortest paths from a broker drawn by the problem's seed."""
    group = np.zeros(problem.sample.subscription_count, np.int32)
    trees = (_random_tree(problem),) if len(group) else ()
    return with_trees(problem, "spt", group, trees)


def flooding(problem: Problem) -> Grouping:
    """Return the tree of `spt` with what it costs if nothing is filtered on the way."""
    tree = _random_tree(problem)
    group = np.zeros(problem.sample.subscription_count, np.int32)
    sample = _flooded(problem.sample, tree)
    held_out = None if problem.held_out is None else _flooded(problem.held_out, tree)
    return Grouping("flooding", group, (tree,) if len(group) else (), sample, held_out)


def unicast(problem: Problem) -> Grouping:
    """Return a group for each broker that hosts a subscription."""
    return finished(problem, "unicast", numbered(problem.sample.hosts))


def opt(problem: Problem) -> Grouping:
    """Return the cost of a Steiner tree for each document; there are no groups."""
    sample = _steiner(problem, problem.sample)
    held_out = None if problem.held_out is None else _steiner(problem, problem.held_out)
    return Grouping("opt", None, (), sample, held_out)


def _random_tree(problem: Problem) -> Tree:
    root = int(np.random.default_rng(problem.seed).integers(problem.graph.nodes))
    return path_tree(problem.graph, root)


def _flooded(matches: Matches, tree: Tree) -> Traffic:
    documents = matches.documents
    sizes = np.diff(documents.offsets)
    sent = float(documents.weights[sizes > 0].sum())
    wanted = float(documents.weights @ sizes)
    cost = sent * float(tree.graph.costs[tree.links].sum())
    return Traffic(cost, sent, wanted, wanted, len(documents))


def _steiner(problem: Problem, matches: Matches) -> Traffic:
    documents = matches.documents
    sizes = np.diff(documents.offsets)
    wanted = float(documents.weights @ sizes)
    sent = float(documents.weights[sizes > 0].sum())
    return Traffic(
        float(steiner_costs(problem.paths, documents).sum()),
        sent,
        wanted,
        wanted,
        len(documents),
    )
