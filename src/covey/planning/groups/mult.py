"""MULT: groups by likeness of matched documents, as many as cost least.

A. Majumder, N. Shrivastava, R. Rastogi and A. Srinivasan, "Scalable Content-Based Routing in Pub/Sub Systems",
Algorithm 3. Merging needs no costs, so all merges come first (`likeness`), and numbers of groups are tried afterwards:
all classes (or the most that may be tried), half as many, and so on to one; then in between around the best, until
neighbours differ by few. Groups that two numbers have in common are costed once. With `every`, each number is tried.

`mult` takes the number that costs least on the sample, as the paper does. `held_out` takes the one that costs least on
documents that nothing was fitted to, and keeps one tree unless they leave no doubt: a small sample likes many groups,
and fresh documents pay for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from covey.errors import PlanError
from covey.matching.jit import Floats, Ints
from covey.planning.groups.assign import settled
from covey.planning.groups.baselines import single
from covey.planning.groups.costing import Costing, document_costs, finished
from covey.planning.groups.entries import directory_entries, table_entries
from covey.planning.groups.likeness import Dendrogram, dendrogram
from covey.planning.groups.model import Grouping, Point, Problem, members_of, numbered

MOST_GROUPS = 1_024
STEP = 1.1  # neighbouring numbers of groups that differ by no more than this are near enough
TRAINING_SHARE = 2 / 3
TOO_DEAR = 1e15  # beyond every price: what breaks a limit
DOUBT = 2.0  # standard errors that what is saved on documents held out must exceed: it was chosen by them


def mult(
    problem: Problem,
    *,
    measure: str = "jaccard",
    groups: int | None = None,
    most: int = MOST_GROUPS,
    every: bool = False,
) -> Grouping:
    """Return the groups that cost least on the sample, or so many if `groups` is given, as far as that goes."""
    merging = Merging(problem, measure)
    if groups is not None:
        return finished(problem, "mult", merging.group(groups))
    if problem.sample.subscription_count == 0:
        return finished(problem, "mult", merging.group(1))
    best, curve = merging.search(lambda point: point.sample, most, every)
    return finished(problem, "mult", merging.group(best), curve, merging.costing)


def held_out(problem: Problem, *, measure: str = "jaccard", most: int = MOST_GROUPS) -> Grouping:
    """Return the groups that cost least on the documents held out, one group unless that surely costs more on them.

    If none are held out, a third of the sample is, drawn by the seed, and the costs in the result are of these parts.
    """
    problem = parted(problem)
    if problem.sample.subscription_count == 0:
        return finished(problem, "held-out", np.zeros(0, np.int32))
    merging = Merging(problem, measure)
    best, curve = merging.search(lambda point: priced(problem, point), most, False)
    chosen = finished(problem, "held-out", merging.group(best), curve, merging.costing)
    assert problem.held_out is not None, "documents are held out"
    assert chosen.group is not None, "there are groups"
    return not_worse(problem, chosen, document_costs(problem.held_out, chosen.group, chosen.trees))


def parted(problem: Problem) -> Problem:
    """Return the problem with documents held out: a third of the sample, unless there are some."""
    if problem.held_out is not None:
        return problem
    training, others = problem.sample.split(TRAINING_SHARE, problem.seed)
    return replace(problem, sample=training, held_out=others)


def priced(problem: Problem, point: Point) -> float:
    """Return what a point of a curve is judged by: its price, or what documents held out cost.

    A point with more entries than allowed is dearer than any that fits, and the fewer entries the better.
    """
    if problem.objective is None:
        return point.held_out or 0.0
    if not problem.objective.fits(point.entries):
        return TOO_DEAR + point.entries
    return problem.billed(point).total


def not_worse(problem: Problem, chosen: Grouping, spent: Floats) -> Grouping:
    """Return what was chosen, or one group unless that surely costs more on the documents held out.

    `spent` is what each of these costs with what was chosen. One tree for all is the safe choice: against it, a saving
    counts only if it is clearly more than chance makes of so few documents, else fresh ones may pay for it.
    """
    alone = single(problem)
    assert problem.held_out is not None, "documents are held out"
    assert alone.group is not None, "there is one group"
    saved = document_costs(problem.held_out, alone.group, alone.trees) - spent
    error = float(saved.std(ddof=1)) * len(saved) ** 0.5 if len(saved) > 1 else 0.0  # of the sum
    if saved.sum() <= DOUBT * error + _extra(problem, chosen, alone):
        return replace(alone, name=chosen.name, curve=chosen.curve, stopped=chosen.stopped)
    return chosen


def _extra(problem: Problem, chosen: Grouping, alone: Grouping) -> float:
    """Return what the documents held out pay more for what was chosen than for one group, beside their traffic."""
    if problem.objective is None or not problem.objective.traffic:
        return 0.0
    assert problem.held_out is not None, "documents are held out"
    count = problem.held_out.document_count
    fixed = [problem.billed(point_of(problem, one)).fixed for one in (chosen, alone)]
    return (fixed[0] - fixed[1]) * count / problem.objective.traffic


def point_of(problem: Problem, grouping: Grouping) -> Point:
    """Return a grouping as a point of a curve, with its entries."""
    hosts, trees = problem.sample.hosts, len(grouping.trees)
    assert grouping.group is not None, "there are groups"
    if grouping.one_copy:
        entries = directory_entries(problem.graph.nodes, hosts, problem.asked)
    else:
        entries = table_entries(grouping.trees, grouping.group, hosts, problem.asked)
    sample, others = grouping.sample, grouping.held_out
    return Point(
        groups=trees,
        sample=sample.cost,
        held_out=None if others is None else others.cost,
        copies=sample.copies,
        duplicates=sample.duplicates,
        entries=entries,
        documents=sample.documents,
        others=0 if others is None else others.documents,
        trials=sample.copies * trees if grouping.one_copy == "cheapest" else 0.0,
        one_copy=grouping.one_copy is not None,
    )


class Merging:
    """The groups of a problem for each number of groups."""

    def __init__(self, problem: Problem, measure: str) -> None:
        self.problem = problem
        self.costing = Costing(problem)
        self.tree: Dendrogram = dendrogram(problem.sample, measure=measure, seed=problem.seed)
        sample = problem.sample
        self.classes = settled(
            problem.paths,
            sample.hosts,
            self.tree.classes,
            self.tree.count,
            problem.words,
        )

    def group(self, groups: int) -> Ints:
        """Return the group of each subscription, of at most so many groups; one group if likeness leaves more."""
        if groups < 1:
            raise PlanError(f"the number of groups cannot be {groups}")
        if groups < max(2, self.tree.fewest) or self.tree.count < 2:
            return np.zeros(len(self.classes), np.int32)
        return numbered(self.tree.labels(min(groups, self.tree.count))[self.classes])

    def search(self, value: Callable[[Point], float], most: int, every: bool) -> tuple[int, list[Point]]:
        """Return the number of groups with the least value, the smaller of equals, and all that were tried."""
        known: dict[int, Point] = {}
        fewest, highest = max(2, self.tree.fewest), max(1, min(most, self.tree.count))

        def try_(groups: int) -> None:
            if groups in known or not (groups == 1 or fewest <= groups <= highest):
                return
            # Few groups come first, so that there is always something to choose from.
            if known and self.costing.budget.stops(f"before it tried {groups:,} groups"):
                return
            known[groups] = self.costing.point(members_of(self.group(groups)))

        if every:
            for groups in range(1, highest + 1):
                try_(groups)
        halved = [highest]
        while halved[-1] // 2 > fewest:
            halved.append(halved[-1] // 2)
        for groups in (1, fewest, *reversed(halved)):
            try_(groups)
        while True:
            best = min(known, key=lambda groups: (value(known[groups]), groups))
            before = len(known)
            for middle in _between(sorted(known), best):
                try_(middle)
            if len(known) == before:
                return best, [known[groups] for groups in sorted(known, reverse=True)]


def _between(tried: list[int], best: int) -> list[int]:
    """Return a number half way, as a ratio, from the best to each neighbour that is not near enough."""
    place = tried.index(best)
    found = []
    for low, high in ((place - 1, place), (place, place + 1)):
        if low >= 0 and high < len(tried) and tried[high] > STEP * tried[low]:
            found.append(round((tried[low] * tried[high]) ** 0.5))
    return found
