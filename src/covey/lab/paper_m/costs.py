"""Figures 4 and 5: what each scheme costs, by how many documents it was planned on and by the size of the network.

Every cost is links crossed a document, on average. `sample_cost` is over the documents that the plan was made with,
`all_cost` over all documents: section VII-B sends all of them over trees that were planned on a sample, and claims are
judged so. SPT is a tree of shortest paths from a random broker on which documents go only where they are wanted;
`flooding` is the same tree without that. SemCast is a reconstruction (`covey.planning.groups.semcast`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import process_time

from covey.lab.experiment import Cell, Experiment, Row
from covey.lab.paper_m.grids import costs_cells, effort, sampling_cells
from covey.lab.paper_m.world import World, integer, real, world
from covey.planning.groups.costing import traffic
from covey.planning.groups.model import Grouping, Problem, Traffic
from covey.planning.groups.regions import replayed
from covey.planning.groups.registry import METHODS
from covey.planning.subscriptions import Matches

SAMPLING, COSTS = "m-sampling", "m-costs"
SCHEMES = ("spt", "flooding", "single", "mult", "held-out", "opt")
CHANNELS = tuple(
    name for name in METHODS if name.startswith("semcast") and not name.startswith("semcast split")
)
MOST_WORDS = 5  # of documents that go over channels: with more, all subscriptions share documents


def run_sampling(cell: Cell) -> list[Row]:
    """Compute one line of figure 4 for each scheme: a row for each share of documents."""
    data = world(cell)
    rows: list[Row] = []
    for share in map(float, str(cell["shares"]).split()):
        problem, fresh = data.problem(share, integer(cell, "seed"))
        for scheme in ("single", "mult", "held-out"):
            found = METHODS[scheme](problem)
            rows.append(
                {
                    "scheme": scheme,
                    "share": share,
                    "trees": len(found.trees),
                    "sample_cost": sent(problem, found, problem.sample).per_document,
                    "fresh_cost": sent(problem, found, fresh).per_document,
                    "all_cost": sent(problem, found, data.matches).per_document,
                    "idle_subscriptions": len(problem.sample.idle()),
                }
            )
    least = METHODS["opt"](data.problem(1.0, 0)[0]).sample.per_document
    return [*rows, {"scheme": "opt", "share": 1.0, "all_cost": least}]


def run_costs(cell: Cell) -> list[Row]:
    """Compute the costs of all schemes on one network."""
    data = world(cell)
    problem, _ = data.problem(real(cell, "sample"), integer(cell, "seed"))
    return list(_rows(data, problem, channels=_is_light(cell)))


def _is_light(cell: Cell) -> bool:
    """Return whether channels take seconds: subscriptions of one keyword, documents of few."""
    return cell["per"] == "keyword" and integer(cell, "words") <= MOST_WORDS


def _rows(data: World, problem: Problem, *, channels: bool) -> Iterator[Row]:
    costed = replace(problem, held_out=data.matches)
    for scheme in (*SCHEMES, *(CHANNELS if channels else ())):
        # Schemes that choose by documents held out must not see the ones that they are costed on.
        given = problem if scheme in ("held-out", "mult") else costed
        began = process_time()
        found = METHODS[scheme](given)
        seconds = process_time() - began
        everything = found.held_out if given is costed else sent(problem, found, data.matches)
        assert everything is not None, "all documents are costed"
        yield {
            "scheme": scheme,
            "trees": len(found.trees),
            "sample_cost": found.sample.per_document,
            "all_cost": everything.per_document,
            "copies": everything.copies / everything.documents,
            "duplicates": everything.duplicates / everything.documents,
            "seconds": seconds,
        }


def sent(problem: Problem, found: Grouping, matches: Matches) -> Traffic:
    """Return what these documents cost with this plan."""
    if found.one_copy is not None:
        return replayed(problem, found, matches)
    assert found.group is not None, f"{found.name} has groups"
    return traffic(matches, found.group, found.trees)


EXPERIMENTS = (
    Experiment(
        SAMPLING,
        "M",
        "Costs on all documents by the share of them that the plan was made with",
        sampling_cells,
        run_sampling,
        effort=lambda cell: 6 * effort(cell),
    ),
    Experiment(
        COSTS, "M", "Costs of all schemes by network, data and reading", costs_cells, run_costs, effort=effort
    ),
)
