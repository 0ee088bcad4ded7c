"""The scoreboard: for every claim of the papers what the paper says, what we measured, whether it holds and why.

Claims and figures are computed from kept results: at the papers' scale where all cells of their experiments are kept,
otherwise at the small scale. `needed` says what must be computed first for there to be all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from covey.lab.claim import Claim, Verdict
from covey.lab.experiment import Experiment, Results, Scale
from covey.lab.figure import Paper
from covey.lab.outcome import LACKING, Outcome, describe
from covey.lab.papers import experiments_of
from covey.lab.store import Store, collect, distinct_cells


class Standing(NamedTuple):
    """A row of the scoreboard."""

    claim: str
    paper: str
    says: str
    measured: str
    holds: bool
    reason: str
    scale: Scale


class Kept:
    """What a store keeps of one paper, each experiment looked up once."""

    def __init__(self, paper: Paper, store: Store) -> None:
        self.paper = paper
        self._store = store
        self._outcomes: dict[tuple[str, Scale], list[Outcome]] = {}

    def outcomes(self, names: Sequence[str], scale: Scale) -> list[Outcome]:
        """Return what is kept of these experiments, failures too."""
        found = []
        for experiment in experiments_of(self.paper, names):
            key = (experiment.name, scale)
            if key not in self._outcomes:
                self._outcomes[key] = self._store.outcomes([experiment], scale)
            found += self._outcomes[key]
        return found

    def scale(self, names: Sequence[str]) -> Scale:
        """Return the scale from which to take these experiments: the papers', if nothing of it is missing."""
        return "paper" if not any(map(self._gaps, experiments_of(self.paper, names))) else "small"

    def results(self, names: Sequence[str], scale: Scale) -> Results:
        """Return the rows of these experiments."""
        return collect(self.outcomes(names, scale))

    def failures(self, names: Sequence[str], scale: Scale) -> list[Outcome]:
        """Return the cells of these experiments that failed."""
        return [outcome for outcome in self.outcomes(names, scale) if outcome.error]

    def _gaps(self, experiment: Experiment) -> bool:
        kept = [outcome for outcome in self.outcomes([experiment.name], "paper") if not outcome.error]
        return len(kept) < len(distinct_cells(experiment, "paper"))


def needed(paper: Paper, store: Store) -> list[Experiment]:
    """Return the experiments whose small scale is used by a claim or a figure."""
    kept = Kept(paper, store)
    users = [
        *(claim.experiments for claim in paper.claims),
        *(figure.experiments for figure in paper.figures),
    ]
    names = {name for used in users if kept.scale(used) == "small" for name in used}
    return experiments_of(paper, sorted(names))


def scoreboard(papers: Iterable[Paper], store: Store) -> list[Standing]:
    """Judge every claim from what is kept."""
    return [standing for paper in papers for standing in standings(Kept(paper, store))]


def standings(kept: Kept) -> list[Standing]:
    """Judge every claim of one paper."""
    found = []
    for claim in kept.paper.claims:
        scale = kept.scale(claim.experiments)
        measured, holds, reason = judged(claim, kept, scale)
        # A judge may answer with NumPy's booleans.
        found.append(Standing(claim.id, claim.paper, claim.says, measured, bool(holds), reason, scale))
    return found


def judged(claim: Claim, kept: Kept, scale: Scale) -> Verdict:
    """Return the verdict on a claim. What cannot be judged does not hold, and the reason says why."""
    failures = kept.failures(claim.experiments, scale)
    failed = f"{len(failures)} cells failed, the first with {failures[0].error}" if failures else ""
    results = kept.results(claim.experiments, scale)
    if not results.has(claim.experiments):
        return Verdict("nothing", False, failed or "its experiments have not been run")
    try:
        verdict = claim.judge(results)
    except LACKING as error:
        return Verdict("nothing", False, "; ".join(filter(None, [f"not judged: {describe(error)}", failed])))
    return verdict._replace(reason="; ".join(filter(None, [verdict.reason, failed])))
