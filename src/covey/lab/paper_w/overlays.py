"""Figure 8: what MEFA and DPA cost on the overlays SO and SA, on 49 brokers.

A subscriber can attach to any of some edge brokers (`reach`), drawn at random: SO takes the one nearest to the
publisher, SA moves subscribers to where others want the same (gamma = 1). SA lengthens ways. So the two are compared
twice: at equal *gain*, where both save the same number of filters, and at equal *load*, where both carry the same
number in total; at equal gain the longer ways of SA are not seen.
"""

from __future__ import annotations

import numpy as np

from covey.lab.experiment import Cell, Experiment, Row, Scale
from covey.lab.paper_w.rows import ACCOUNTINGS, kappa_of, number
from covey.lab.paper_w.settings import BROKERS, CORE, SUBSCRIBERS, core_tree, ranges
from covey.lab.paper_w.synthetic import points
from covey.planning.aggregation.model import AggregationPlan, Problem, Propagation
from covey.planning.aggregation.overlay import at_load, sa, so
from covey.planning.aggregation.registry import aggregate
from covey.planning.aggregation.sample import Sample

NAME = "w-overlays"
METHODS = ("mefa", "dpa", "mefa+")
REACHES, GAMMA = (3, 6), 1.0  # figures show the first
NETWORKS: dict[Scale, tuple[int, int]] = {"small": (5, 1), "paper": (10, 2)}


def cells(scale: Scale) -> list[Cell]:
    """Return the grid: settings and seeds."""
    seeds, networks = NETWORKS[scale]
    return [
        {
            "distribution": "uniform",
            **point,
            "subscribers": SUBSCRIBERS,
            "reach": reach,
            "gamma": GAMMA,
            "seed": seed,
            "networks": networks,
        }
        for seed in range(1, seeds + 1)
        for reach in REACHES
        for point in points(shares=(), sparse=False)
    ]


def run(cell: Cell) -> list[Row]:
    """Compute one cell: a row for each network, accounting, algorithm and comparison."""
    rows: list[Row] = []
    for network in range(number(cell, "networks")):
        rng = np.random.default_rng((number(cell, "seed"), network, 8))
        count, domain = number(cell, "subscribers"), float(cell["domain"] or 0)
        edge = range(CORE, BROKERS)
        reach = [rng.choice(edge, number(cell, "reach"), replace=False).tolist() for _ in range(count)]
        sample = ranges(str(cell["distribution"]), count, float(cell["size"] or 0), domain, rng)
        parents = np.array(core_tree(number(cell, "depth"), number(cell, "degree")), np.int32)
        near, alike = so(parents, reach), sa(parents, reach, sample, float(cell["gamma"] or 0))
        common: Row = {
            "network": network,
            "kappa": kappa_of(sample, domain),
            "delay": "access",
            "moved": int((near.access != alike.access).sum()),
        }
        rows += [{**common, **row} for row in compared(near, alike, sample, float(cell["f"] or 0))]
    return rows


def compared(near: Propagation, alike: Propagation, sample: Sample, f: float) -> list[Row]:
    """Return the costs on SO, and on SA at equal gain and at equal load."""
    rows: list[Row] = []
    for accounting in ACCOUNTINGS:
        one, other = Problem(near, sample, accounting), Problem(alike, sample, accounting)
        theta = one.target(f)
        load = sum(map(len, near.below)) - theta
        for method in METHODS:
            base = aggregate(one, theta=theta, method=method)
            plans: dict[str, AggregationPlan] = {
                "gain": aggregate(other, theta=min(theta, alike.most_gain), method=method),
                "load": at_load(other, load, method),
            }
            rows += [
                {
                    "accounting": accounting,
                    "method": method,
                    "equal": equal,
                    "so": base.cost,
                    "sa": plan.cost,
                    "so_load": base.load,
                    "sa_load": plan.load,
                }
                for equal, plan in plans.items()
            ]
    return rows


OVERLAYS = Experiment(
    NAME,
    "W",
    "Cost of aggregation on the overlays SO and SA",
    cells,
    run,
    effort=lambda cell: number(cell, "networks") * 0.7,
)
