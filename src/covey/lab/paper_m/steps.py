"""Figures 6, 7 and 8: what each number of groups costs, and what it takes to find the best.

MULT (Algorithm 3) is tried at every number of groups, each class of subscriptions with the same documents being one
from the start. MULT2 (Algorithm 2) ends where no merge saves anything. Below that, its cost is not defined; nor is
MULT's order of merges once no two groups share a document, and only one group is tried after that.

What both spend their time on is trees: `evaluations` counts the groups for which a tree was computed. As built, a group
is costed once however often it comes up, and MULT2 looks only at pairs that share a document. As printed, Algorithm 2
looks at all pairs, and Algorithm 3 at each group once: `printed_evaluations` is that number, for as many subscriptions
as there are (every one a group at first) and as many groups as were left in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import process_time

import numpy as np

from covey.lab.experiment import Cell, Experiment, Row
from covey.lab.paper_m.costs import sent
from covey.lab.paper_m.grids import effort, steps_cells, times_cells
from covey.lab.paper_m.world import World, integer, real, world
from covey.matching.jit import Ints
from covey.planning.groups.assign import settled
from covey.planning.groups.costing import Costing, finished
from covey.planning.groups.likeness import classes_of
from covey.planning.groups.model import Point, Problem, members_of
from covey.planning.groups.mult import Merging
from covey.planning.groups.mult2 import HYBRID_GROUPS, merged_by_saving

STEPS, TIMES = "m-steps", "m-times"


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
    subscriptions = problem.sample.subscription_count
    return {
        "scheme": scheme,
        "seconds": seconds,
        "evaluations": costing.computed,
        "printed_evaluations": printed_evaluations(scheme, subscriptions, len(found.trees)),
        "subscriptions": subscriptions,
        "classes": int(np.unique(classes(problem)).size),
        "trees": len(found.trees),
        # By the trees that the search itself compared: final ones are chosen among more candidates.
        "search_cost": costing.point(members_of(group)).sample / problem.sample.document_count,
        "sample_cost": found.sample.per_document,
        "all_cost": sent(problem, found, data.matches).per_document,
    }


def printed_evaluations(scheme: str, subscriptions: int, left: int) -> int | None:
    """Return for how many groups and pairs of groups the printed algorithm computes a tree; None for the hybrid.

    Algorithm 3 goes on to one group, a new one with each merge. Algorithm 2 starts with all pairs; a merge makes as
    many new ones as there are other groups.
    """
    if scheme == "mult":
        return 2 * subscriptions - 1
    if scheme == "mult2":
        pairs = subscriptions * (subscriptions - 1) // 2
        return subscriptions + pairs + sum(others - 1 for others in range(left, subscriptions))
    return None


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
)
