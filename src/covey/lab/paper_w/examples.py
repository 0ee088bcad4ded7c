"""What can be checked exactly: the numbers of Figure 3, and small counterexamples to what the paper proves.

    figure 3      two brokers in a row, s1 = [1,4) and s2 = [5,9) at the outer one, s3 = [2,5) at the other
    constant      DPA is optimal when the delay is constant (section IV)
    ratio         DPA is within the ratio of delays of the optimum (Theorem 2); here all delays are equal
    submodular    the cost is submodular (Theorem 3): what a merge adds does not grow with what was merged before
    bound         MEFA is within 1 + rho ln theta of the optimum (Theorem 4)
    sum           the cost is the sum of r times the growth of the unique range, as printed

The part `submodular` is also tried at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from covey.lab.experiment import Cell, Experiment, Row, Scale
from covey.lab.paper_w.instances import filters
from covey.lab.paper_w.rows import number
from covey.planning.aggregation.cost import cost_of_departure, unique_weight
from covey.planning.aggregation.model import Delay, Partition, Problem, Propagation, gain_of
from covey.planning.aggregation.moves import state_of
from covey.planning.aggregation.optimum import optimum
from covey.planning.aggregation.registry import aggregate
from covey.planning.aggregation.sample import Sample

NAME = "w-examples"
RANDOM_TESTS: dict[Scale, int] = {"small": 400, "paper": 4_000}
RANDOM_RANGES = 5
Merge = tuple[int, int]

# The plans of Figure 3: blocks at the broker next to the publisher, and at the outer one.
FIGURE_3: dict[str, tuple[Partition, Partition]] = {
    "a": (((0, 1), (2,)), ((0, 1),)),
    "b": (((0, 1, 2),), ((0,), (1,))),
    "c": (((0,), (1, 2)), ((0,), (1,))),
}
PRINTED = {"a": (2, 3), "b": (2, 1), "c": (1, 0)}  # saved, cost if s1 leaves


def cells(scale: Scale) -> list[Cell]:
    """Return the exact examples, and the random tests of submodularity."""
    return [
        {"part": "exact", "tests": 0, "seed": 0},
        {"part": "random", "tests": RANDOM_TESTS[scale], "seed": 1},
    ]


def run(cell: Cell) -> list[Row]:
    """Compute one cell: a row for each number that is expected, or one with counts of violations."""
    if cell["part"] == "random":
        return [violations(number(cell, "tests"), number(cell, "seed"))]
    return [
        {"example": example, "what": what, "expected": expected, "found": found, "same": expected == found}
        for example, what, expected, found in (*figure_3(), *counterexamples())
    ]


def figure_3() -> list[tuple[str, str, float, float]]:
    """Return the printed numbers and ours; the optima are ours alone."""
    problem = at_brokers([-1, 0], [1, 1, 0], [(1, 4), (5, 9), (2, 5)])
    rows: list[tuple[str, str, float, float]] = []
    for name, plan in FIGURE_3.items():
        saved, cost = PRINTED[name]
        rows.append(("figure 3", f"({name}) saves", saved, gain_of(problem.tree, plan)))
        rows.append(("figure 3", f"({name}) costs if s1 leaves", cost, cost_of_departure(problem, plan, 0)))
    for theta, least in ((1, 2), (2, 6), (3, 13)):
        found = round(optimum(problem, theta).cost, 6)
        rows.append(("figure 3 optimum", f"least cost for a saving of {theta}, any leaver", least, found))
    return rows


def counterexamples() -> list[tuple[str, str, float, float]]:
    """Return for each statement numbers that contradict it."""
    constant = at_one([(2, 3), (2, 6), (7, 8)], "constant")
    between = at_one([(0, 4), (0, 9), (3, 20), (4, 9)], "constant")
    halves = at_one([(0, 7), (7, 14), (0, 14)])
    bound = at_one([(0, 10), (10, 20), (0, 20), (30, 40), (30, 41)])
    growth = unique_weight(halves.sample, (0, 1, 2)) - unique_weight(halves.sample, (0, 1))
    return [
        ("constant", "DPA on [2,3), [2,6), [7,8), one merge", 3, _cost(constant, 1, "dpa")),
        ("constant", "optimum of it", 2, _least(constant, 1)),
        ("ratio", "DPA on [0,4), [0,9), [3,20), [4,9), two merges", 11, _cost(between, 2, "dpa")),
        ("ratio", "optimum of it", 0, _least(between, 2)),
        ("submodular", "[0,7), [7,14), [0,14): 1 with 3, added to 1 with 2", -14, _added(halves, [(0, 1)])),
        ("submodular", "the same, added to 1 with 2 and 2 with 3", 0, _added(halves, [(0, 1), (1, 2)])),
        ("bound", "MEFA on two halves, their whole and two others, theta = 2", 11, _cost(bound, 2, "mefa")),
        ("bound", "optimum of it", 0, _least(bound, 2)),
        ("sum", "[0,7) and [7,14) at r = 1, then [0,14) at r = 3", -28, 14 + 3 * growth),
    ]


def violations(tests: int, seed: int) -> Row:
    """Return how often the cost of random merges at one broker is not submodular, and not supermodular."""
    rng = np.random.default_rng((seed, 3))
    sub = super_ = negative = 0
    for test in range(tests):
        sample = filters(
            "equal" if test % 2 else "uniform", RANDOM_RANGES, float(rng.choice([1.0, 2.0])), rng
        )
        problem = Problem(Propagation([-1], [0] * RANDOM_RANGES), sample)
        pairs = list(combinations(range(RANDOM_RANGES), 2))
        merges = [pairs[int(at)] for at in rng.permutation(len(pairs))[:4]]
        few = int(rng.integers(0, 2))
        on_few, on_many = (_added(problem, merges[:count], merges[-1]) for count in (few, 3))
        sub += on_few < on_many - 1e-9
        super_ += on_few > on_many + 1e-9
        negative += min(on_few, on_many) < -1e-9
    return {"not_submodular": sub, "not_supermodular": super_, "negative": negative}


# -- small parts -------------------------------------------------------------------------------------------------


def at_brokers(
    parents: Sequence[int], access: Sequence[int], ranges: Sequence[Merge], delay: Delay = "access"
) -> Problem:
    """Return the problem of these ranges, cascade accounting."""
    lows, highs = zip(*ranges, strict=True)
    return Problem(Propagation(parents, access), Sample.of_ranges(lows, highs), delay=delay)


def at_one(ranges: Sequence[Merge], delay: Delay = "access") -> Problem:
    """Return the problem of these ranges at a single broker, where both accountings are the same."""
    return at_brokers([-1], [0] * len(ranges), ranges, delay)


def _cost(problem: Problem, theta: int, method: str) -> float:
    return round(aggregate(problem, theta=theta, method=method).cost, 6)


def _least(problem: Problem, theta: int) -> float:
    return round(optimum(problem, theta).cost, 6)


def _added(problem: Problem, before: Sequence[Merge], merge: Merge = (0, 2)) -> float:
    """Return what a merge adds to the cost after others."""
    state = state_of(problem)
    for one in before:
        state.join(one)
    cost = state.cost
    state.join(merge)
    return float(state.cost - cost)


EXAMPLES = Experiment(NAME, "W", "Figure 3, and counterexamples to three theorems", cells, run)
