"""Figures 6, 7 and 8: what each number of groups costs, and what it takes to find the best.

MULT (Algorithm 3) is tried at every number of groups, each class of subscriptions with the same documents being one
from the start. MULT2 (Algorithm 2) ends where no merge saves anything. Below that, its cost is not defined; nor is
MULT's order of merges once no two groups share a document, and only one group is tried after that.

What both spend their time on is trees: `evaluations` counts the groups for which a tree was computed. As built, a group
is costed once however often it comes up, and MULT2 looks only at pairs that share a document. As printed, Algorithm 2
looks at all pairs, and Algorithm 3 at each group once; both start with every subscription a group of its own. So
printed they are timed on small problems of growing size (`m-printed`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import process_time

import numpy as np

from covey.lab.experiment import Cell, Experiment, Row
from covey.lab.paper_m.costs import sent
from covey.lab.paper_m.grids import effort, printed_cells, steps_cells, times_cells
from covey.lab.paper_m.world import World, integer, real, world
from covey.matching.jit import Ints
from covey.planning.groups.assign import settled
from covey.planning.groups.costing import Costing, finished
from covey.planning.groups.likeness import classes_of
from covey.planning.groups.model import Point, Problem, members_of
from covey.planning.groups.mult import Merging
from covey.planning.groups.mult2 import HYBRID_GROUPS, TOLERANCE, merged_by_saving

STEPS, TIMES, PRINTED = "m-steps", "m-times", "m-printed"


def run_steps(cell: Cell) -> list[Row]:
    """Compute a row for each number of groups, by likeness and by saving."""
    data = world(cell)
    problem, fresh = data.problem(real(cell, "sample"), integer(cell, "seed"))
    scored = replace(problem, held_out=fresh)
    rows = [
        _row("mult", point, problem, fresh.document_count) for point in by_likeness(scored, Costing(scored))
    ]
    if cell["by_saving"]:
        points: list[Point] = []
        merged_by_saving(problem, classes(problem), tell=points.append)
        rows += [_row("mult2", point, problem, 0) for point in points]
    return rows


def by_likeness(problem: Problem, costing: Costing) -> list[Point]:
    """Return what each number of groups costs that Algorithm 3 goes through, from many to few."""
    merging = Merging(problem, "jaccard")
    numbers = [*range(merging.tree.count, max(1, merging.tree.fewest - 1), -1), 1]
    return [costing.point(members_of(merging.group(number))) for number in dict.fromkeys(numbers)]


def classes(problem: Problem) -> Ints:
    """Return what MULT2 starts from: subscriptions with the same documents, and where those without any go."""
    found, count = classes_of(problem.sample)
    return settled(problem.paths, problem.sample.hosts, found, count, problem.words)


def _row(scheme: str, point: Point, problem: Problem, fresh: int) -> Row:
    documents = problem.sample.document_count
    return {
        "scheme": scheme,
        "trees": point.groups,
        "sample_cost": point.sample / documents,
        "fresh_cost": None if point.held_out is None else point.held_out / fresh,
        "copies": point.copies / documents,
        "duplicates": point.duplicates / documents,
    }


def run_times(cell: Cell) -> list[Row]:
    """Compute time and evaluations of each algorithm, and what it ends with."""
    data = world(cell)
    problem, _ = data.problem(real(cell, "sample"), integer(cell, "seed"))
    _warm_up(cell)
    return [
        _timed(data, problem, "mult", _mult),
        _timed(
            data,
            problem,
            "mult2",
            lambda problem, costing: merged_by_saving(problem, classes(problem), costing),
        ),
        _timed(data, problem, "hybrid", _hybrid),
    ]


def _mult(problem: Problem, costing: Costing) -> Ints:
    points = by_likeness(problem, costing)
    best = min(points, key=lambda point: (point.sample, point.groups))
    return Merging(problem, "jaccard").group(best.groups)


def _hybrid(problem: Problem, costing: Costing) -> Ints:
    merging = Merging(problem, "jaccard")
    return merged_by_saving(problem, merging.group(max(HYBRID_GROUPS, merging.tree.fewest, 1)), costing)


def _timed(data: World, problem: Problem, scheme: str, search: Callable[[Problem, Costing], Ints]) -> Row:
    costing = Costing(problem)
    began = process_time()
    group = search(problem, costing)
    seconds = process_time() - began
    found = finished(problem, scheme, group)
    return {
        "scheme": scheme,
        "seconds": seconds,
        "evaluations": costing.computed,
        "subscriptions": problem.sample.subscription_count,
        "classes": int(np.unique(classes(problem)).size),
        "trees": len(found.trees),
        # By the trees that the search itself compared: final ones are chosen among more candidates.
        "search_cost": costing.point(members_of(group)).sample / problem.sample.document_count,
        "sample_cost": found.sample.per_document,
        "all_cost": sent(problem, found, data.matches).per_document,
    }


def run_printed(cell: Cell) -> list[Row]:
    """Compute the time of Algorithms 2 and 3 as printed, each from one group a subscription."""
    data = world(cell)
    problem, _ = data.problem(real(cell, "sample"), integer(cell, "seed"))
    _warm_up(cell)
    rows: list[Row] = []
    for scheme, search in (("mult", likeness_as_printed), ("mult2", saving_as_printed)):
        costing = Costing(problem)
        began = process_time()
        groups = search(problem, costing)
        rows.append(
            {
                "scheme": scheme,
                "subscriptions": problem.sample.subscription_count,
                "seconds": process_time() - began,
                "evaluations": costing.computed,
                "trees": len(groups),
                "sample_cost": costing.point(groups).sample / problem.sample.document_count,
            }
        )
    return rows


def likeness_as_printed(problem: Problem, costing: Costing) -> list[Ints]:
    """Algorithm 3: merge the two groups that are most alike down to one group; return the cheapest grouping on the way.

    Alike is the Jaccard index of the documents that two groups match.
    """
    documents = _documents_of(problem)
    groups = [np.array([number], np.int32) for number in range(len(documents))]
    matched = [set(mine) for mine in documents]
    best, least = groups, costing.point(groups).sample
    while len(groups) > 1:
        one, two = max(
            ((a, b) for a in range(len(groups)) for b in range(a + 1, len(groups))),
            key=lambda pair: _jaccard(matched[pair[0]], matched[pair[1]]),
        )
        groups = _merged(groups, one, two)
        matched[one] |= matched.pop(two)
        cost = costing.point(groups).sample
        if cost < least:
            best, least = groups, cost
    return best


def saving_as_printed(problem: Problem, costing: Costing) -> list[Ints]:
    """Algorithm 2: of all pairs merge the one that saves the greatest share of what both cost, while one saves any."""
    groups = [np.array([number], np.int32) for number in range(problem.sample.subscription_count)]
    while len(groups) > 1:
        worth = [costing.worth(group).sample for group in groups]
        shares = {
            (a, b): _share_saved(worth[a] + worth[b], costing.worth(_joined(groups[a], groups[b])).sample)
            for a in range(len(groups))
            for b in range(a + 1, len(groups))
        }
        one, two = max(shares, key=lambda pair: shares[pair])
        if shares[one, two] <= TOLERANCE:
            break
        groups = _merged(groups, one, two)
    return groups


def _share_saved(apart: float, together: float) -> float:
    return (apart - together) / apart if apart else 0.0


def _joined(one: Ints, two: Ints) -> Ints:
    return np.sort(np.concatenate([one, two]))


def _merged(groups: list[Ints], one: int, two: int) -> list[Ints]:
    """Return the groups with the second, which is later, in the place of the first."""
    return [
        _joined(groups[one], groups[two]) if place == one else group
        for place, group in enumerate(groups)
        if place != two
    ]


def _documents_of(problem: Problem) -> list[list[int]]:
    """Return the sampled documents that each subscription matches."""
    sample = problem.sample
    found: list[list[int]] = [[] for _ in range(sample.subscription_count)]
    for number in range(sample.document_count):
        for subscription in sample.subscriptions[
            sample.offsets[number] : sample.offsets[number + 1]
        ].tolist():
            found[subscription].append(number)
    return found


def _jaccard(one: set[int], two: set[int]) -> float:
    union = len(one | two)
    return len(one & two) / union if union else 0.0


def _warm_up(cell: Cell) -> None:
    """Load the compiled code, which must not count: plan for a small network of the same kind."""
    small = {**cell, "brokers": 40, "keywords": 20, "documents": 60}
    problem, _ = world(small).problem(0.5, 1)
    _hybrid(problem, Costing(problem))
    by_likeness(problem, Costing(problem))


EXPERIMENTS = (
    Experiment(
        STEPS,
        "M",
        "Costs and duplicates by the number of trees",
        steps_cells,
        run_steps,
        effort=lambda cell: effort(cell) * (10 if cell["by_saving"] else 2),
    ),
    Experiment(
        TIMES,
        "M",
        "Times and tree evaluations of MULT, MULT2 and the hybrid",
        times_cells,
        run_times,
        effort=lambda cell: effort(cell) * (40 if cell["per"] == "broker" else 8),
    ),
    Experiment(
        PRINTED,
        "M",
        "Times of Algorithms 2 and 3 as printed, by the number of subscriptions",
        printed_cells,
        run_printed,
        effort=lambda cell: integer(cell, "keywords") ** 2 / 40,
    ),
)
