"""Paper R in the lab: G. Mühl et al., *Evaluating Advanced Routing Algorithms for Content-Based Publish/Subscribe
Systems* (2002).

The cells of the small scale, the costly ones with fewer consumers; every figure is drawn and every claim judged.
"""

from __future__ import annotations

import io

import numpy as np
import pytest
from matplotlib.figure import Figure as Sheet
from tests.papers.lab import check_grids, judged, of_one_seed

from covey.lab.claim import Claim
from covey.lab.experiment import Cell, Results, Row
from covey.lab.figure import Figure
from covey.lab.paper_r.experiments import EXPERIMENTS, run_overhead, run_tables
from covey.lab.paper_r.grids import tables_cells
from covey.lab.paper_r.paper import PAPER
from covey.sim.topology import rebeca

MUST_HOLD = {"R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R12"}


def _shortened(cell: Cell) -> Cell | None:
    """Return the cell with fewer consumers where it would take seconds; none of those for a middle locality."""
    if cell.get("locality") in (1 / 2, 2 / 3, 5 / 6):
        return None
    costly = str(cell.get("strategy")).startswith("merging") or cell.get("kind") == "intervals"
    dear = costly and not cell["advertisements"] and ("rounds" in cell or cell["strategy"] != "covering")
    few = "1" if dear else "1 2"
    # Under locality identity's overhead is compared between populations, which takes all rounds.
    once = "rounds" in cell and (cell["strategy"] != "identity" or cell["locality"] is None)
    shorter: Cell = {"sizes": few} if costly else {"rounds": 1} if once else {}
    return {**cell, **shorter}


@pytest.fixture(scope="module")
def results() -> Results:
    rows: dict[str, list[Row]] = {}
    for experiment in EXPERIMENTS:
        for cell in filter(None, map(_shortened, of_one_seed(experiment))):
            rows.setdefault(experiment.name, []).extend({**cell, **row} for row in experiment.run(cell))
    return Results(rows)


@pytest.mark.parametrize("claim", PAPER.claims, ids=lambda claim: claim.id)
def test_claims_are_judged_and_the_exact_ones_hold(claim: Claim, results: Results) -> None:
    for reading in claim.readings:
        verdict = judged(PAPER, results, claim.id, reading.name)
        assert verdict.measured != "not measured"
        if claim.id in MUST_HOLD:
            assert verdict.holds, verdict
        elif not verdict.holds:
            assert verdict.reason


@pytest.mark.parametrize("claim", PAPER.claims, ids=lambda claim: claim.id)
def test_without_rows_no_claim_holds(claim: Claim) -> None:
    assert not claim.judge(Results({})).holds


@pytest.mark.parametrize("figure", PAPER.figures, ids=lambda figure: figure.number)
def test_figures_have_curves_and_axes(figure: Figure, results: Results) -> None:
    if figure.table is not None:
        grid = figure.table(results)
        assert all(len(row) == len(grid.columns) for row in grid.rows)
        assert [row[2] for row in grid.rows] == pytest.approx([1, 0.328, 0.104, 0.03], abs=6e-4)
        return
    assert figure.draw is not None
    sheet = Sheet()
    axes = sheet.subplots()
    figure.draw(results, axes)
    sheet.savefig(io.BytesIO(), format="png")
    assert len(axes.lines) >= 2
    assert all(len(np.asarray(line.get_xydata())) for line in axes.lines)
    assert axes.get_xlabel()
    assert axes.get_ylabel()


def test_every_reading_has_cells() -> None:
    check_grids(PAPER)


def test_figures_are_those_of_the_paper() -> None:
    numbers = {figure.number for figure in PAPER.figures}
    assert numbers == {"Table 3", *map(str, range(2, 17))}
    assert [claim.id for claim in PAPER.claims] == [f"R{number}" for number in range(1, 13)]


def test_events_are_forwarded_where_somebody_asks_for_them_and_nowhere_else(results: Results) -> None:
    checked = [
        row["payload_as_needed"]
        for name in ("r-locality", "r-dynamics")
        for row in results.rows(name)
        if row["payload_as_needed"] is not None
    ]
    assert len(checked) > 30
    assert all(checked)


@pytest.mark.parametrize("advertisements", [True, False])
def test_rows_given_in_proportion_are_what_is_simulated(advertisements: bool) -> None:
    cell = next(
        cell
        for cell in tables_cells("small")
        if cell["strategy"] == "simple" and cell["advertisements"] is advertisements
    )
    small: Cell = {**cell, "levels": 2, "subscriptions": 4, "extrapolated_sizes": "3 5"}
    given = [row for row in run_tables(small) if row["extrapolated"]]
    simulated = run_tables({**small, "sizes": "3 5", "extrapolated_sizes": ""})
    for one, other in zip(given, simulated, strict=True):
        different = {key for key in one if key in other and one[key] != other[key]}
        assert different <= {"extrapolated", "saved", "fullest_share"}
    changing: Cell = {**small, "rounds": 2, "payload": True}
    given = [row for row in run_overhead(changing) if row["extrapolated"]]
    simulated = run_overhead({**changing, "sizes": "1 2 3 5", "extrapolated_sizes": ""})[2:]
    for one, other in zip(given, simulated, strict=True):
        different = {key for key in one if one[key] != other[key]}
        assert different <= {"extrapolated", "payload_as_needed"}


def test_the_paper_scale_is_the_paper_s() -> None:
    brokers = rebeca(4)
    assert (len(brokers.role("router")), len(brokers.role("local"))) == (40, 67)
    for cell in tables_cells("paper"):
        assert (cell["levels"], cell["symbols"]) == (4, 1_000)
    sizes = [str(cell["sizes"]).split() for cell in tables_cells("paper") if cell["purpose"] == "curve"]
    assert max(int(size) for some in sizes for size in some) * 67 * 10 == 134_000
