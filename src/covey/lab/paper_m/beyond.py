"""Ours, beyond the paper: plans that fresh documents can trust.

Two aims that the paper does not have. Both are about documents that no plan has seen.

`m-fresh`     a plan is never worse than one tree. The number of groups is chosen on a third of the sample that nothing
              is fitted to (`held-out`), and likewise the number of regions (`regions`); both keep one tree if it is as
              good there. Trees are then fitted to the whole sample, as is the one tree (`single`) beside them.
`m-regions`   a plan ends within a quarter of the Steiner trees (OPT) on all documents, without any sample: brokers
              that host are parted into regions, each with a tree, and a document travels on one tree only: the one
              whose root is nearest to those who want it (`nearest`), or on which it crosses least (`cheapest`). What is
              known without a sample is who subscribes to what, and where. Every tree's tables hold all subscriptions.
"""

from __future__ import annotations

from covey.lab.experiment import Cell, Experiment, Row
from covey.lab.paper_m.costs import sent
from covey.lab.paper_m.grids import effort, fresh_cells, regions_cells
from covey.lab.paper_m.world import integer, real, world
from covey.planning.groups.costing import finished
from covey.planning.groups.regions import placed
from covey.planning.groups.registry import METHODS
from covey.planning.steiner import steiner_costs
from covey.routing.carrying import RULES

FRESH, REGIONS = "m-fresh", "m-regions"
PLANS = ("single", "mult", "held-out", "regions")
TREES = (64, 128, 256)


def run_fresh(cell: Cell) -> list[Row]:
    """Compute what each plan costs on the documents that it was not made with."""
    data = world(cell)
    problem, fresh = data.problem(real(cell, "sample"), integer(cell, "seed"))
    least = float(steiner_costs(data.paths, fresh.documents).sum())
    rows: list[Row] = []
    for scheme in PLANS:
        found = METHODS[scheme](problem)
        if found.one_copy is None and found.group is not None:
            # The choice is made: the groups stay, and their trees are fitted to the whole sample.
            found = finished(problem, scheme, found.group)
        cost = sent(problem, found, fresh).cost
        rows.append({"scheme": scheme, "trees": len(found.trees), "cost": cost, "over": cost / least})
    one = real(rows[0], "cost")
    return [{**row, "of_one_tree": real(row, "cost") / one} for row in rows]


def run_regions(cell: Cell) -> list[Row]:
    """Compute what regions cost on all documents, and beside them what is planned on a sample."""
    data = world(cell)
    problem, _ = data.problem(real(cell, "sample"), integer(cell, "seed"))
    least = float(steiner_costs(data.paths, data.matches.documents).sum())
    rows: list[Row] = []
    for scheme in ("single", "mult"):
        found = METHODS[scheme](problem)
        cost = sent(problem, found, data.matches).cost
        rows.append({"scheme": scheme, "rule": "", "trees": len(found.trees), "over": cost / least})
    for trees in TREES:
        for rule in RULES:
            found = placed(problem, trees, rule)
            cost = sent(problem, found, data.matches).cost
            rows.append({"scheme": "regions", "rule": rule, "trees": trees, "over": cost / least})
    return rows


EXPERIMENTS = (
    Experiment(
        FRESH,
        "M",
        "Ours: plans by documents held out against one tree, on fresh documents",
        fresh_cells,
        run_fresh,
        version=2,
        effort=effort,
    ),
    Experiment(
        REGIONS,
        "M",
        "Ours: one copy by region, planned without a sample, against Steiner trees",
        regions_cells,
        run_regions,
        version=3,
        effort=effort,
    ),
)
