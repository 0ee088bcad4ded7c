"""What tests of the lab's papers share."""

from __future__ import annotations

from covey.lab.claim import Claim, Verdict
from covey.lab.experiment import SCALES, Cell, Experiment, Results, agrees
from covey.lab.figure import Paper


def claim_of(paper: Paper, id: str) -> Claim:
    """Return a claim."""
    return next(claim for claim in paper.claims if claim.id == id)


def judged(paper: Paper, results: Results, id: str, reading: str = "") -> Verdict:
    """Return the verdict on a claim under one of its readings, the first unless one is named."""
    claim = claim_of(paper, id)
    chosen = next(one for one in claim.readings if reading in ("", one.name))
    return claim.judge(results.under(chosen.where))


def of_one_seed(experiment: Experiment) -> list[Cell]:
    """Return the cells of the small scale that the first seed has: enough to see that all is computed."""
    return [cell for cell in experiment.cells("small") if agrees(cell, {"seed": (0, 1)})]


def check_grids(paper: Paper) -> None:
    """Every experiment has cells at both scales, each once, and each is some work; every reading has cells."""
    cells = {
        (scale, experiment.name): experiment.cells(scale)
        for scale in SCALES
        for experiment in paper.experiments
    }
    for (scale, name), mine in cells.items():
        distinct = {tuple(cell.items()) for cell in mine}
        assert len(mine) == len(distinct) > 0, (scale, name)
    for experiment in paper.experiments:
        assert all(experiment.effort(cell) > 0 for cell in experiment.cells("small"))
    for claim in paper.claims:
        assert claim.criterion.page
        for reading in claim.readings:
            for scale in SCALES:
                for name in claim.experiments:
                    assert any(agrees(cell, reading.where) for cell in cells[scale, name]), (
                        claim.id,
                        reading.name,
                    )
