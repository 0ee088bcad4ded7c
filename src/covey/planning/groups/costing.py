"""What groups cost: the tree of each is computed for its sampled documents, and its cost kept.

A group whose sampled documents all go to one broker needs no search: shortest paths from there are the best tree. While
groupings are compared, trees are chosen among few candidates, and on part of a large sample; what is returned in the
end has trees chosen among more, for all documents, and is costed on all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from covey.matching.jit import Floats, Ints
from covey.planning.budget import Budget, tree_ns
from covey.planning.compute_tree import compute_tree
from covey.planning.documents import Documents
from covey.planning.graph import Graph
from covey.planning.groups.entries import tree_entries
from covey.planning.groups.model import Grouping, Point, Problem, Traffic, members_of
from covey.planning.low_stretch.plain import shortest_path_links
from covey.planning.paths import AllPaths
from covey.planning.subscriptions import Matches
from covey.planning.tree import Tree

QUICK_ROOTS = 1
FINAL_ROOTS = 4
MOST_FINAL = 200  # groups; with more, the final trees too are chosen among few candidates
MOST_SCORED = 10_000  # documents


@dataclass(frozen=True)
class Worth:
    """What one group costs on the sample and on documents held out, and how often it carries a document."""

    sample: float
    held_out: float
    copies: float
    deliveries: float
    entries: int = 0


class Costing:
    """The costs of groups of one problem; each is computed once."""

    def __init__(self, problem: Problem, roots: int = QUICK_ROOTS) -> None:
        self.problem = problem
        self.roots = roots
        self.sample = _part(problem.sample, problem.seed)
        self.held_out = None if problem.held_out is None else _part(problem.held_out, problem.seed)
        self.computed = 0
        self.budget = Budget(problem.budget_s)
        self._known: dict[bytes, Worth] = {}
        self._trees: dict[bytes, tuple[int, Ints]] = {}  # root and links, where a tree was searched for

    def worth(self, members: Ints) -> Worth:
        """Return what a group costs; members are sorted."""
        key = _key(members)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._worth(key, members)
            self.computed += 1
        return known

    def point(self, groups: Sequence[Ints]) -> Point:
        """Return what these groups cost together."""
        worths = [self.worth(members) for members in groups]
        wanted = _count(self.sample.documents)
        return Point(
            len(groups),
            sum(worth.sample for worth in worths),
            None if self.held_out is None else sum(worth.held_out for worth in worths),
            sum(worth.copies for worth in worths),
            sum(worth.deliveries for worth in worths) - wanted,
            sum(worth.entries for worth in worths),
            self.sample.document_count,
            0 if self.held_out is None else self.held_out.document_count,
        )

    def tree(self, members: Ints, roots: int) -> Tree | None:
        """Return the tree on which the group was costed, if it is the one for all documents and so many roots."""
        known = self._trees.get(_key(members))
        if known is None or roots != self.roots or self.sample is not self.problem.sample:
            return None
        root, links = known
        return Tree(self.problem.graph, links, root)

    def _worth(self, key: bytes, members: Ints) -> Worth:
        documents = self.sample.documents_of(members)
        paths = self.problem.paths
        copies, deliveries = float(documents.weights.sum()), _count(documents)
        others = None if self.held_out is None else self.held_out.documents_of(members)
        host = single_host(documents)
        if host is not None:
            cost = float(_straight(paths, host, documents).sum())
            if others is None or not (others.hosts != host).any():
                held_out = 0.0 if others is None else float(_straight(paths, host, others).sum())
            else:  # a subscription that matches nothing in the sample is on another broker
                held_out = path_tree(self.problem.graph, host).cost(others)
            return Worth(cost, held_out, copies, deliveries, self._entries(members, None, host))
        choice = compute_tree(self.problem.graph, paths, documents, roots=self.roots)
        hosts = len(documents.hosts) + (0 if others is None else len(others.hosts))
        self.budget.spend(tree_ns(2 * self.roots + 2, self.problem.graph.nodes, hosts))
        self._trees[key] = choice.tree.root, choice.tree.links
        held_out = 0.0 if others is None else choice.tree.cost(others)
        return Worth(choice.cost, held_out, copies, deliveries, self._entries(members, choice.tree, 0))

    def _entries(self, members: Ints, tree: Tree | None, root: int) -> int:
        """Return how many entries the group's tables have, if they have a price; without a tree, on shortest paths."""
        if self.problem.objective is None:
            return 0
        hosts, asked = self.problem.sample.hosts[members], self.problem.asked[members]
        if tree is None and (hosts == root).all():
            return (self.problem.graph.nodes - 1) * len(np.unique(asked))
        return int(tree_entries(tree or path_tree(self.problem.graph, root), hosts, asked)[1].sum())


def finished(
    problem: Problem, name: str, group: Ints, curve: Iterable[Point] = (), costing: Costing | None = None
) -> Grouping:
    """Return these groups with their final trees and what all documents cost on them.

    `costing` may be given if the problem's groups were costed: it may know the trees.
    """
    groups = members_of(group)
    roots = FINAL_ROOTS if len(groups) <= MOST_FINAL else QUICK_ROOTS
    trees = tuple(
        (costing.tree(members, roots) if costing else None) or tree_of(problem, members, roots)
        for members in groups
    )
    found = with_trees(problem, name, group, trees, curve)
    return replace(found, stopped=costing.budget.stopped) if costing else found


def _key(members: Ints) -> bytes:
    return blake2b(members.tobytes(), digest_size=16).digest()


def with_trees(
    problem: Problem,
    name: str,
    group: Ints,
    trees: tuple[Tree, ...],
    curve: Iterable[Point] = (),
) -> Grouping:
    """Return these groups with these trees and what all documents cost on them."""
    sample = traffic(problem.sample, group, trees)
    held_out = None if problem.held_out is None else traffic(problem.held_out, group, trees)
    return Grouping(name, group, trees, sample, held_out, tuple(curve))


def tree_of(problem: Problem, members: Ints, roots: int = FINAL_ROOTS) -> Tree:
    """Return the tree of a group."""
    documents = problem.sample.documents_of(members)
    host = single_host(documents)
    if host is not None:
        return path_tree(problem.graph, host)
    return compute_tree(problem.graph, problem.paths, documents, roots=roots).tree


def path_tree(graph: Graph, root: int) -> Tree:
    """Return the tree of shortest paths from a node."""
    return Tree(graph, shortest_path_links(graph, root, graph.costs), root)


def traffic(matches: Matches, group: Ints, trees: Sequence[Tree]) -> Traffic:
    """Return what these documents cost on these trees."""
    cost = copies = deliveries = 0.0
    for members, tree in zip(members_of(group), trees, strict=True):
        documents = matches.documents_of(members)
        cost += tree.cost(documents)
        copies += float(documents.weights.sum())
        deliveries += _count(documents)
    return Traffic(cost, copies, deliveries, _count(matches.documents), matches.document_count)


def document_costs(matches: Matches, group: Ints, trees: Sequence[Tree]) -> Floats:
    """Return what each of these documents costs on these trees; the sum is the cost of `traffic`."""
    found = np.zeros(matches.document_count)
    for members, tree in zip(members_of(group), trees, strict=True):
        numbers, documents = matches.numbered_documents_of(members)
        found[numbers] += tree.costs(documents)
    return found


def single_host(documents: Documents) -> int | None:
    """Return the one node to which all documents go, or None if there are several or none."""
    hosts = documents.hosts
    return int(hosts[0]) if len(hosts) and (hosts == hosts[0]).all() else None


def _straight(paths: AllPaths, host: int, documents: Documents) -> Floats:
    return documents.weights * paths.distance[host, documents.publishers].astype(np.float64)


def _count(documents: Documents) -> float:
    """Return how many hosts the documents have, by weight."""
    return float(documents.weights @ np.diff(documents.offsets))


def _part(matches: Matches, seed: int) -> Matches:
    if matches.document_count <= MOST_SCORED:
        return matches
    return matches.split(MOST_SCORED / matches.document_count, seed)[0]
