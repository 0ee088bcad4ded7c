"""The scoreboard: every claim of the papers under each of its readings, and what that makes of the claim.

Claims and figures are computed from kept results: at the papers' scale where all cells of a reading are kept, otherwise
at the small scale. `needed` says what must be computed first for there to be all of them. A claim or figure is computed
only from all of its cells; an error in it is then its own, and is not caught.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from covey.lab.claim import Claim, Kind, Reading
from covey.lab.experiment import Choice, Experiment, Results, Scale, agrees
from covey.lab.figure import Paper
from covey.lab.outcome import Outcome
from covey.lab.papers import experiments_of
from covey.lab.store import Store, collect, distinct_cells

Status = Literal["as printed", "under a reading", "contradicted", "not judged"]


class Spread(NamedTuple):
    """A number that decides, over seeds: the verdict's own, from all rows, and the least and greatest of one seed."""

    value: float
    least: float
    most: float


class Judged(NamedTuple):
    """A claim under one reading. `holds` is None if rows are missing, `why` says then which."""

    reading: str
    kind: Kind
    rests_on: str
    where: dict[str, Choice]
    measured: str
    holds: bool | None
    why: str
    scale: Scale
    seeds: int  # judged one by one
    holding_seeds: int
    spread: dict[str, Spread]


class Standing(NamedTuple):
    """A row of the scoreboard. `reading` is the one that decides, `measured` and `reason` are what it gives."""

    claim: str
    paper: str
    says: str
    measured: str
    holds: bool
    reason: str
    scale: Scale
    status: Status
    reading: str
    rests_on: str
    criterion: str
    page: str
    after_looking: bool
    proof: str
    readings: list[Judged]

    @property
    def best_supported(self) -> Judged:
        """The reading that the text supports best."""
        return self.readings[0]


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

    def scale(self, names: Sequence[str], where: Mapping[str, Choice] | None = None) -> Scale:
        """Return the scale from which to take these experiments: the papers', if nothing of it is missing."""
        return "small" if self.missing(names, "paper", where) else "paper"

    def missing(self, names: Sequence[str], scale: Scale, where: Mapping[str, Choice] | None = None) -> int:
        """Return how many cells of these experiments, under a reading, are not kept or failed."""
        return sum(
            self._gaps(experiment, scale, where or {}) for experiment in experiments_of(self.paper, names)
        )

    def results(self, names: Sequence[str], scale: Scale) -> Results:
        """Return the rows of these experiments."""
        return collect(self.outcomes(names, scale))

    def failures(self, names: Sequence[str], scale: Scale) -> list[Outcome]:
        """Return the cells of these experiments that failed."""
        return [outcome for outcome in self.outcomes(names, scale) if outcome.error]

    def lacking(self, names: Sequence[str], scale: Scale, where: Mapping[str, Choice] | None = None) -> str:
        """Return why claims and figures of these experiments cannot be computed; empty if they can."""
        missing = self.missing(names, scale, where)
        if not missing:
            return ""
        failed = [one for one in self.failures(names, scale) if agrees(one.cell, where or {})]
        first = f", the first failure: {failed[0].error}" if failed else ""
        return f"{missing} of its cells are missing, {len(failed)} of them failed{first}"

    def _gaps(self, experiment: Experiment, scale: Scale, where: Mapping[str, Choice]) -> int:
        kept = sum(
            not outcome.error and agrees(outcome.cell, where)
            for outcome in self.outcomes([experiment.name], scale)
        )
        cells = sum(agrees(cell, where) for cell in distinct_cells(experiment, scale))
        assert cells, f"{experiment.name} has no cell of the reading {dict(where)} at {scale} scale"
        return cells - kept


def needed(paper: Paper, store: Store) -> list[Experiment]:
    """Return the experiments whose small scale is used by a claim or a figure."""
    kept = Kept(paper, store)
    users: list[tuple[Sequence[str], Mapping[str, Choice]]] = [
        (claim.experiments, reading.where) for claim in paper.claims for reading in claim.readings
    ]
    users += [(figure.experiments, {}) for figure in paper.figures]
    names = {name for used, where in users if kept.scale(used, where) == "small" for name in used}
    return experiments_of(paper, sorted(names))


def scoreboard(papers: Iterable[Paper], store: Store) -> list[Standing]:
    """Judge every claim from what is kept."""
    return [standing for paper in papers for standing in standings(Kept(paper, store))]


def standings(kept: Kept) -> list[Standing]:
    """Judge every claim of one paper."""
    return [
        standing(claim, [_from_kept(claim, reading, kept) for reading in claim.readings])
        for claim in kept.paper.claims
    ]


def standing(claim: Claim, readings: list[Judged]) -> Standing:
    """Return what the readings make of a claim: the first that holds decides, printed ones before others."""
    deciding = [one for one in readings if one.kind != "probe"]
    ordered = sorted(deciding, key=lambda one: (not one.holds, one.kind != "printed"))
    chosen = ordered[0]
    status: Status = "contradicted"
    if chosen.holds:
        status = "as printed" if chosen.kind == "printed" else "under a reading"
    elif any(one.holds is None for one in deciding):
        status = "not judged"
    shown = chosen if chosen.holds else readings[0]
    return Standing(
        claim.id,
        claim.paper,
        claim.says,
        shown.measured,
        bool(chosen.holds),
        shown.why,
        shown.scale,
        status,
        shown.reading,
        shown.rests_on,
        claim.criterion.text,
        claim.criterion.page,
        claim.criterion.after_looking,
        claim.proof if status == "contradicted" else "",
        readings,
    )


def _from_kept(claim: Claim, reading: Reading, kept: Kept) -> Judged:
    scale = kept.scale(claim.experiments, reading.where)
    lacking = kept.lacking(claim.experiments, scale, reading.where)
    if lacking:
        return _unjudged(reading, scale, lacking)
    return judged(claim, reading, kept.results(claim.experiments, scale), scale)


def _unjudged(reading: Reading, scale: Scale, why: str) -> Judged:
    where = dict(reading.where)
    return Judged(reading.name, reading.kind, reading.rests_on, where, "nothing", None, why, scale, 0, 0, {})


def judged(claim: Claim, reading: Reading, results: Results, scale: Scale) -> Judged:
    """Judge a claim under one reading, from all rows and, where there are several seeds, from each one's."""
    mine = results.under(reading.where)
    verdict = claim.judge(mine)
    seeds = mine.seeds(claim.experiments) if claim.by_seed else []
    each = [claim.judge(mine.under({"seed": seed})) for seed in seeds] if len(seeds) > 1 else []
    spread = {
        name: Spread(
            float(value),
            min((float(one.values[name]) for one in each if name in one.values), default=float(value)),
            max((float(one.values[name]) for one in each if name in one.values), default=float(value)),
        )
        for name, value in verdict.values.items()
    }
    return Judged(
        reading.name,
        reading.kind,
        reading.rests_on,
        dict(reading.where),
        verdict.measured,
        bool(verdict.holds),  # a judge may answer with NumPy's booleans
        verdict.reason,
        scale,
        len(each),
        sum(bool(one.holds) for one in each),
        spread,
    )
