"""One copy of each document, on the tree of the region where it is wanted: a plan that needs no sample.

Groups make a document travel once for each group in which it is wanted, and that is most of what they cost beyond a
Steiner tree. But every tree spans the overlay, so one is enough if all its tables hold all subscriptions. Here brokers
that host are parted into regions around roots, chosen greedily so that hosts are near one (weighted by how many
subscriptions each has) and then moved to the middle of their regions; the tree of a region is that of shortest paths
from its root. The publisher's broker, which knows who wants a document, sends it on one tree only:

    nearest    the one whose root has the least sum of distances to the hosts
    cheapest   the one on which it crosses least

Where subscriptions that match together are near each other, that tree is good for the document wherever it comes from.
Only hosts decide, so fresh documents cost what sampled ones do; the sample decides just how many trees there are. The
price is memory: each broker has the tables of all trees, each with all subscriptions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from covey.errors import PlanError
from covey.matching.jit import Floats, Ints, Longs
from covey.planning.documents import Documents
from covey.planning.groups.costing import path_tree
from covey.planning.groups.model import Grouping, Point, Problem, Traffic
from covey.planning.groups.mult import not_worse, parted
from covey.planning.paths import AllPaths
from covey.planning.subscriptions import Matches
from covey.planning.tree import Tree

MOST_TREES = 64
ROUNDS = 16
RULES = ("nearest", "cheapest")


def regions(problem: Problem, *, most: int = MOST_TREES, rule: str = "nearest") -> Grouping:
    """Return as many regions as cost least on the documents held out, at most so many, or one tree if that does.

    Numbers of regions are powers of two, and the smaller of equals. If no documents are held out, a third of the
    sample is.
    """
    if rule not in RULES:
        raise PlanError(f"no rule {rule!r} (hint: one of {', '.join(RULES)})")
    if most < 1:
        raise PlanError(f"the number of trees cannot be {most}")
    problem = parted(problem)
    assert problem.held_out is not None, "documents are held out"
    if problem.sample.subscription_count == 0:
        return Grouping(
            "regions",
            np.zeros(0, np.int32),
            (),
            _none(problem.sample),
            _none(problem.held_out),
        )
    order = roots_of(problem.paths, problem.sample.hosts, most)
    known: dict[int, Tree] = {}
    best: Grouping | None = None
    curve: list[Point] = []
    counts = sorted({min(1 << power, len(order)) for power in range(most.bit_length())})
    for count in counts:
        roots = centred(problem.paths, problem.sample.hosts, order[:count])
        for root in roots.tolist():
            known[root] = known.get(root) or path_tree(problem.graph, root)
        found = _with(problem, roots, tuple(known[root] for root in roots.tolist()), rule)
        assert found.held_out is not None, "documents are held out"
        curve.append(Point(count, found.sample.cost, found.held_out.cost, found.sample.copies, 0.0))
        if best is None or best.held_out is None or found.held_out.cost < best.held_out.cost:
            best = found
    assert best is not None, "there is always one region"
    return not_worse(problem, replace(best, curve=tuple(reversed(curve))))


def roots_of(paths: AllPaths, hosts: Ints, most: int) -> Ints:
    """Return so many roots, or as many as there are brokers that host, each the best to add to those before it.

    The best is the broker with which the distances of all subscriptions from the nearest root add up to least.
    """
    hosting, weights = _hosting(hosts)
    far = paths.distance[:, hosting].astype(np.float64)
    nearest = np.full(len(hosting), np.inf)
    found: list[int] = []
    while len(found) < min(most, len(hosting)) and nearest.any():
        total = np.minimum(far, nearest) @ weights
        total[found] = np.inf
        found.append(int(total.argmin()))
        nearest = np.minimum(nearest, far[found[-1]])
    return np.array(found, np.int32)


def centred(paths: AllPaths, hosts: Ints, roots: Ints) -> Ints:
    """Return the roots moved to the middle of their regions, again and again until none moves or often enough."""
    hosting, weights = _hosting(hosts)
    far = paths.distance[:, hosting].astype(np.float64)
    found = roots.copy()
    for _ in range(ROUNDS):
        region = far[found].argmin(axis=0)
        before = found.copy()
        for number in range(len(found)):
            mine = region == number
            best = int((far[:, mine] @ weights[mine]).argmin()) if mine.any() else int(found[number])
            if best not in found:
                found[number] = best
        if np.array_equal(found, before):
            break
    return found


def _hosting(hosts: Ints) -> tuple[Longs, Floats]:
    """Return the nodes that host, and how many subscriptions each has."""
    nodes, counts = np.unique(hosts, return_counts=True)
    return nodes.astype(np.int64), counts.astype(np.float64)


def carriers(
    paths: AllPaths,
    documents: Documents,
    roots: Ints,
    trees: tuple[Tree, ...],
    rule: str,
) -> Ints:
    """Return for each document the number of the tree on which it travels; 0 if nobody wants it."""
    least = np.full(len(documents), np.inf)
    chosen = np.zeros(len(documents), np.int32)
    wanted = np.diff(documents.offsets) > 0
    for number, root in enumerate(roots):
        if rule == "cheapest":
            score = trees[number].costs(documents)
        else:
            score = _distance_sums(paths.distance[root].astype(np.float64), documents)
        better = wanted & (score < least)
        chosen[better] = number
        least[better] = score[better]
    return chosen


def _distance_sums(far: Floats, documents: Documents) -> Floats:
    before = np.zeros(len(documents.hosts) + 1)
    np.cumsum(far[documents.hosts], out=before[1:])
    return before[documents.offsets[1:]] - before[documents.offsets[:-1]]


def _with(problem: Problem, roots: Ints, trees: tuple[Tree, ...], rule: str) -> Grouping:
    hosts = problem.sample.hosts
    group = problem.paths.distance[roots][:, hosts].argmin(axis=0).astype(np.int32)
    assert problem.held_out is not None, "documents are held out"
    sample = _traffic(problem, problem.sample, roots, trees, rule)
    held_out = _traffic(problem, problem.held_out, roots, trees, rule)
    return Grouping("regions", group, trees, sample, held_out, one_copy=rule)


def replayed(problem: Problem, grouping: Grouping, matches: Matches) -> Traffic:
    """Return what documents cost with the regions of this grouping."""
    roots = np.array([tree.root for tree in grouping.trees], np.int32)
    return _traffic(problem, matches, roots, grouping.trees, grouping.one_copy or "nearest")


def _traffic(problem: Problem, matches: Matches, roots: Ints, trees: tuple[Tree, ...], rule: str) -> Traffic:
    documents = matches.documents
    chosen = carriers(problem.paths, documents, roots, trees, rule)
    cost = sum(tree.cost(documents.take(chosen == number)) for number, tree in enumerate(trees))
    sizes = np.diff(documents.offsets)
    wanted = float(documents.weights @ sizes)
    return Traffic(
        float(cost),
        float(documents.weights[sizes > 0].sum()),
        wanted,
        wanted,
        len(documents),
    )


def _none(matches: Matches) -> Traffic:
    return Traffic(0.0, 0.0, 0.0, 0.0, matches.document_count)
