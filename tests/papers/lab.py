"""What tests of the lab's papers share."""

from __future__ import annotations

from covey.lab.claim import Verdict
from covey.lab.experiment import SCALES, Results
from covey.lab.figure import Paper


def judged(paper: Paper, results: Results, id: str) -> Verdict:
    """Return the verdict on a claim."""
    return next(claim for claim in paper.claims if claim.id == id).judge(results)


def check_grids(paper: Paper) -> None:
    """Every experiment has cells at both scales, each once, and each is some work."""
    for scale in SCALES:
        for experiment in paper.experiments:
            cells = [tuple(cell.items()) for cell in experiment.cells(scale)]
            assert len(cells) == len(set(cells)) > 0
            assert all(experiment.effort(cell) > 0 for cell in experiment.cells(scale))
