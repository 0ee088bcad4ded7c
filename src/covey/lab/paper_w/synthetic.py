"""Figures 5 and 6: what each algorithm's plan costs on 49 brokers, by size of ranges, depth and degree.

One thing varies at a time, from ranges of 50, depth 2 and degree 2; the required share f of the largest gain is 0.5.
The paper states neither f nor the domain. So the middle is also computed for other f, and all but the sizes for a
larger domain, where ranges lie sparsely.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from covey.lab.experiment import Cell, Experiment, Row, Scale
from covey.lab.paper_w.rows import kappa_of, methods_of, number, planned
from covey.lab.paper_w.settings import DENSE, SPARSE, SUBSCRIBERS, core_tree, edge_brokers, ranges
from covey.planning.aggregation.model import Propagation

NAME = "w-synthetic"
DISTRIBUTIONS = ("uniform", "exponential")
SIZES, SIZE = (10, 25, 50, 75, 100), 50
DEPTHS, DEPTH = (2, 3, 4), 2
DEGREES, DEGREE = (2, 3, 4), 2
SHARES, SHARE = (0.3, 0.5, 0.7, 0.9), 0.5
NETWORKS: dict[Scale, tuple[int, int]] = {
    "small": (5, 1),
    "paper": (10, 1),
}  # cells by seed, networks in each


def points(shares: Sequence[float] = SHARES, *, sparse: bool = True) -> list[Cell]:
    """Return the settings that are compared, each once; the middle also for other shares; all for sparse ranges too."""
    middle: Cell = {"domain": DENSE, "size": SIZE, "depth": DEPTH, "degree": DEGREE, "f": SHARE}
    shapes: list[Cell] = [
        *({"depth": depth} for depth in DEPTHS[1:]),
        *({"degree": degree} for degree in DEGREES[1:]),
    ]
    drawn: list[Cell] = [*({"size": size} for size in SIZES), *shapes]
    varied = [*drawn, *({"f": f} for f in shares if f != SHARE)]
    varied += [{**some, "domain": SPARSE} for some in drawn] if sparse else []
    return [{**middle, **some} for some in varied]


def cells(scale: Scale) -> list[Cell]:
    """Return the grid: settings, distributions and seeds."""
    seeds, networks = NETWORKS[scale]
    return [
        {
            "distribution": distribution,
            **point,
            "subscribers": SUBSCRIBERS,
            "improved": scale == "paper",
            "seed": seed,
            "networks": networks,
        }
        for seed in range(1, seeds + 1)
        for distribution in DISTRIBUTIONS
        for point in points()
    ]


def run(cell: Cell) -> list[Row]:
    """Compute one cell: a row for each network, accounting and algorithm."""
    rows: list[Row] = []
    for network in range(number(cell, "networks")):
        rng = np.random.default_rng((number(cell, "seed"), network, 49))
        count, domain = number(cell, "subscribers"), float(cell["domain"] or 0)
        access = edge_brokers(count, rng)
        sample = ranges(str(cell["distribution"]), count, float(cell["size"] or 0), domain, rng)
        tree = Propagation(core_tree(number(cell, "depth"), number(cell, "degree")), access)
        common: Row = {"network": network, "kappa": kappa_of(sample, domain), "delay": "access"}
        rows += [{**common, **row} for row in planned(tree, sample, float(cell["f"] or 0), methods_of(cell))]
    return rows


SYNTHETIC = Experiment(
    NAME,
    "W",
    "Cost of aggregation on 49 brokers by algorithm, size of ranges, depth and degree",
    cells,
    run,
    effort=lambda cell: number(cell, "networks") * (3.0 if cell["improved"] else 0.3),
)
