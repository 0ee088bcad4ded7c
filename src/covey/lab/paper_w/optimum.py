"""How far each algorithm is from the optimum, which an integer program finds, on random instances small enough for it.

No paper of the five has this. An instance whose program is not solved within the limit is kept with `proved` false
and counts for nothing. The optimum is often 0, when filters together match nothing that a single one does; then there
is no ratio, and only whether the algorithm found it.
"""

from __future__ import annotations

from covey.lab.experiment import Cell, Experiment, Row, Scale
from covey.lab.paper_w.instances import flat, small
from covey.lab.paper_w.rows import number
from covey.planning.aggregation.optimum import optimum
from covey.planning.aggregation.registry import aggregate

NAME = "w-optimum"
METHODS = ("aa", "spa", "dpa", "mefa", "mefa+", "best", "improved")

# Scale -> family -> first number, number of instances, instances a cell, most subscribers.
GRID: dict[Scale, dict[str, tuple[int, int, int, int]]] = {
    "small": {"trees": (5_000, 32, 4, 7), "flat": (0, 24, 6, 8)},
    "paper": {"trees": (5_000, 240, 4, 11), "flat": (0, 240, 24, 8)},
}
LIMIT_S = 60


def cells(scale: Scale) -> list[Cell]:
    """Return the grid: families and stretches of instances."""
    return [
        {"family": family, "first": at, "instances": each, "most": most, "limit_s": LIMIT_S}
        for family, (first, count, each, most) in GRID[scale].items()
        for at in range(first, first + count, each)
    ]


def run(cell: Cell) -> list[Row]:
    """Compute one cell: a row for each instance and algorithm."""
    rows: list[Row] = []
    for at in range(number(cell, "first"), number(cell, "first") + number(cell, "instances")):
        problem, f = flat(at) if cell["family"] == "flat" else small(at, number(cell, "most"))
        theta = problem.target(f)
        exact = optimum(problem, theta, number(cell, "limit_s"))
        common: Row = {
            "instance": at,
            "subscribers": problem.tree.subscribers,
            "brokers": problem.tree.brokers,
            "accounting": problem.accounting,
            "delay": problem.delay,
            "f": f,
            "theta": theta,
            "optimum": exact.cost,
            "proved": exact.gap <= 0,
        }
        rows += [
            {**common, "method": method, "cost": aggregate(problem, theta=theta, method=method).cost}
            for method in METHODS
        ]
    return rows


OPTIMUM = Experiment(
    NAME,
    "W",
    "Cost of each algorithm's plan beside the optimum, on small random instances",
    cells,
    run,
    effort=lambda cell: number(cell, "instances") * (4.0 if cell["family"] == "trees" else 0.5),
)
