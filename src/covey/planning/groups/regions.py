"""One copy of each document, on the tree of the region where it is wanted: a plan that needs no sample.

Groups make a document travel once for each group in which it is wanted, and that is most of what they cost beyond a
Steiner tree. But every tree spans the overlay, so one is enough if all its tables hold all subscriptions. Here brokers
that host are parted into regions around roots, chosen greedily so that hosts are near one (weighted by how many
subscriptions each has) and then moved to the middle of their regions. The tree of a region begins as one of shortest
paths from its root, which run together where several are equally short; branches are then moved while that lowers what
a document is expected to cost (`expected`). Who may want a document together is known without a sample: the hosts of
subscriptions that share a word. The publisher's broker, which knows who wants a document, sends it on one tree only:

    nearest    the one whose root has the least sum of distances to the hosts
    cheapest   the one on which it crosses least

and the first of equals.

Where subscriptions that match together are near each other, that tree is good for the document wherever it comes from.
Only hosts decide, so fresh documents cost what sampled ones do; the sample decides just how many trees there are. The
price is memory: each broker that publishes knows the filters of each broker that hosts (`strategies.regions`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from covey.errors import PlanError
from covey.matching.jit import Floats, Ints, Longs
from covey.planning.documents import Documents
from covey.planning.expected import improve_by_expectation
from covey.planning.groups.model import Grouping, Point, Problem, Traffic
from covey.planning.groups.mult import not_worse, parted, point_of, priced
from covey.planning.low_stretch.plain import heavy_path_links
from covey.planning.paths import AllPaths
from covey.planning.subscriptions import Matches
from covey.planning.tree import Tree
from covey.routing.carrying import RULES, whole

MOST_TREES = 128
ROUNDS = 16


def regions(problem: Problem, *, most: int = MOST_TREES, rule: str = "nearest") -> Grouping:
    """Return as many regions as cost least on the documents held out, at most so many, or one tree unless that surely
    costs more on them.

    Numbers of regions are powers of two, and the smaller of equals. If no documents are held out, a third of the
    sample is.
    """
    return Regions(problem, most).by(rule)


class Regions:
    """The regions of a problem for each number of them that is tried: they do not depend on the rule."""

    def __init__(self, problem: Problem, most: int = MOST_TREES) -> None:
        if most < 1:
            raise PlanError(f"the number of trees cannot be {most}")
        self.problem = parted(problem)
        self._most = most

    @cached_property
    def tried(self) -> list[tuple[Ints, tuple[Tree, ...]]]:
        """The roots and trees of each number of regions, from few to many."""
        problem, most = self.problem, self._most
        order = roots_of(problem.paths, problem.sample.hosts, most)
        counts = sorted({min(1 << power, len(order)) for power in range(most.bit_length())})
        found = [centred(problem.paths, problem.sample.hosts, order[:count]) for count in counts]
        return [(roots, region_trees(problem, roots)) for roots in found]

    def by(self, rule: str) -> Grouping:
        """Return the best number of regions if documents are carried by this rule, as `regions` says."""
        if rule not in RULES:
            raise PlanError(f"no rule {rule!r} (hint: one of {', '.join(RULES)})")
        problem = self.problem
        assert problem.held_out is not None, "documents are held out"
        if problem.sample.subscription_count == 0:
            none = np.zeros(0, np.int32)
            return Grouping("regions", none, (), _none(problem.sample), _none(problem.held_out))
        best: Grouping | None = None
        least = np.inf
        curve: list[Point] = []
        for roots, trees in self.tried:
            found = _with(problem, roots, trees, rule)
            assert found.held_out is not None, "documents are held out"
            curve.append(point_of(problem, found))
            value = priced(problem, curve[-1])
            if value < least:
                best, least = found, value
        assert best is not None, "there is always one region"
        spent = document_costs(problem.held_out.documents, best.trees, rule)
        return not_worse(problem, replace(best, curve=tuple(reversed(curve))), spent)


def placed(problem: Problem, count: int, rule: str = "nearest") -> Grouping:
    """Return so many regions, or as many as there are brokers that host: no document is looked at but to cost it."""
    if rule not in RULES:
        raise PlanError(f"no rule {rule!r} (hint: one of {', '.join(RULES)})")
    if count < 1:
        raise PlanError(f"the number of trees cannot be {count}")
    hosts = problem.sample.hosts
    roots = centred(problem.paths, hosts, roots_of(problem.paths, hosts, count))
    return _with(problem, roots, region_trees(problem, roots), rule)


def roots_of(paths: AllPaths, hosts: Ints, most: int) -> Ints:
    """Return so many roots, or as many as there are brokers that host, each the best to add to those before it.

    The best is the broker with which the distances of all subscriptions from the nearest root add up to least.
    """
    hosting, weights = _hosting(hosts)
    far = paths.distance[hosting].astype(np.float64)  # from each that hosts, a row
    total = weights @ far
    nearest = np.full(len(hosting), np.inf)
    found: list[int] = []
    while len(found) < min(most, len(hosting)) and nearest.any():
        total[found] = np.inf
        found.append(int(total.argmin()))
        # Only what the new root is nearer to changes the sums, and that is less and less.
        nearer = np.flatnonzero(far[:, found[-1]] < nearest)
        before, after = nearest[nearer, None], far[nearer, found[-1], None]
        total -= weights[nearer] @ (np.minimum(far[nearer], before) - np.minimum(far[nearer], after))
        nearest[nearer] = after[:, 0]
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


def region_trees(problem: Problem, roots: Ints) -> tuple[Tree, ...]:
    """Return the tree of the region around each root: for documents that the region is nearest to, as far as known."""
    graph = problem.graph
    everywhere = np.bincount(problem.sample.hosts, minlength=graph.nodes).astype(np.float64)
    trees = [Tree(graph, heavy_path_links(graph, int(root), everywhere), int(root)) for root in roots]
    wanting = _wanting(problem)
    if not wanting:
        return tuple(trees)
    far = problem.paths.distance[roots].astype(np.float64)
    weights = np.zeros((len(roots), graph.nodes))
    for hosts in wanting:
        weights[far[:, hosts].sum(axis=1).argmin(), hosts] += 1.0
    count = sum(map(len, wanting)) / len(wanting)
    return tuple(
        improve_by_expectation(tree, mine, count) if mine.any() else tree
        for tree, mine in zip(trees, weights, strict=True)
    )


def _wanting(problem: Problem) -> list[Longs]:
    """Return for each word the nodes where somebody asks for it; none if words are not known."""
    found: dict[Hashable, set[int]] = {}
    for host, words in zip(
        problem.sample.hosts.tolist(), problem.words or (), strict=problem.words is not None
    ):
        for word in words:
            found.setdefault(word, set()).add(host)
    return [np.array(sorted(hosts), np.int64) for hosts in found.values()]


def _hosting(hosts: Ints) -> tuple[Longs, Floats]:
    """Return the nodes that host, and how many subscriptions each has."""
    nodes, counts = np.unique(hosts, return_counts=True)
    return nodes.astype(np.int64), counts.astype(np.float64)


def carriers(documents: Documents, trees: Sequence[Tree], rule: str) -> Ints:
    """Return for each document the number of the tree on which it travels; 0 if nobody wants it.

    Brokers choose by the same whole numbers (`routing.carrying`), so that they choose the same tree to the last tie.
    """
    wanted = np.diff(documents.offsets) > 0
    if rule == "cheapest":
        scores = np.array([tree.costs(documents) for tree in trees])
    else:
        scores = np.array([_sums(far, documents) for far in whole([tree.depth for tree in trees])])
    return np.where(wanted, scores.argmin(axis=0), 0).astype(np.int32)


def _sums(far: Longs, documents: Documents) -> Longs:
    # Sums over all documents may wrap around; their differences are right all the same.
    before = np.zeros(len(documents.hosts) + 1, np.int64)
    np.cumsum(far[documents.hosts], out=before[1:])
    return before[documents.offsets[1:]] - before[documents.offsets[:-1]]


def regions_with(problem: Problem, trees: tuple[Tree, ...], rule: str) -> Grouping:
    """Return the grouping in which each document travels on one of these trees; a region is around each root."""
    return _with(problem, np.array([tree.root for tree in trees], np.int32), trees, rule)


def _with(problem: Problem, roots: Ints, trees: tuple[Tree, ...], rule: str) -> Grouping:
    hosts = problem.sample.hosts
    group = problem.paths.distance[roots][:, hosts].argmin(axis=0).astype(np.int32)
    sample = _traffic(problem.sample, trees, rule)
    held_out = None if problem.held_out is None else _traffic(problem.held_out, trees, rule)
    return Grouping("regions", group, trees, sample, held_out, one_copy=rule)


def replayed(problem: Problem, grouping: Grouping, matches: Matches) -> Traffic:
    """Return what documents cost with the regions of this grouping."""
    return _traffic(matches, grouping.trees, grouping.one_copy or "nearest")


def document_costs(documents: Documents, trees: Sequence[Tree], rule: str) -> Floats:
    """Return what each document costs on the tree that carries it."""
    chosen = carriers(documents, trees, rule)
    found = np.zeros(len(documents))
    for number, tree in enumerate(trees):
        found[chosen == number] = tree.costs(documents.take(chosen == number))
    return found


def _traffic(matches: Matches, trees: tuple[Tree, ...], rule: str) -> Traffic:
    documents = matches.documents
    chosen = carriers(documents, trees, rule)
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
