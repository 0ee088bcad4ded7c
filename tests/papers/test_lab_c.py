"""Paper C in the lab (M. Chen et al., incremental filter aggregation): small cells, every figure, every claim.

Cells are smaller still than at small scale. What must hold exactly holds at any size; of the other claims only the
direction can be asked at this one.
"""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.figure import Figure as Canvas
from tests.papers.lab import check_grids, judged, of_one_seed

from covey.lab.claim import Verdict
from covey.lab.experiment import SCALES, Cell, Experiment, Results, Row
from covey.lab.paper_c.experiments_burst import BASE
from covey.lab.paper_c.paper import PAPER

SMALLER: dict[str, dict[str, Any]] = {
    "c-burst": {"subscriptions": 250, "roots": 6, "broad": 1, "subscribe_ms": 20, "events_after": 20},
    "c-costs": {"subscriptions": 400, "covered": 10, "broad": 2, "events": 100, "scanned": 100},
    "c-mobile": {"subscribers": 80, "publishers": 4, "rush_s": 60},
    "c-roots": {"subscribers": 400},
    "c-workflow": {"small": 3, "medium": 0, "large": 0, "duration_s": 20},
    "c-similarity": {"networks": 8},
}
FIGURES = [
    "1",
    *(f"6{letter}" for letter in "abcd"),
    *(f"7{letter}" for letter in "abcdef"),
    *(f"9{letter}" for letter in "abc"),
    *(f"10{letter}" for letter in "abc"),
    "Table II",
]


def smaller(experiment: Experiment, cell: Cell) -> Cell:
    """Return a cell of small scale made smaller."""
    if cell.get("check") == "table-i":
        return cell
    changed = dict(cell) | SMALLER[experiment.name]
    if experiment.name == "c-burst":
        covered = changed["covered"]
        assert isinstance(covered, int)
        changed["covered"] = covered // 3
        changed["events_before"] = 80 if cell["strategy"] == "incremental" else 2
    return changed


@pytest.fixture(scope="module")
def results() -> Results:
    """Run every cell of every experiment, smaller."""
    rows: dict[str, list[Row]] = {}
    for experiment in PAPER.experiments:
        found = rows.setdefault(experiment.name, [])
        for cell in of_one_seed(experiment):
            changed = smaller(experiment, cell)
            found += [{**changed, **row} for row in experiment.run(changed)]
    return Results(rows)


@pytest.fixture(scope="module")
def verdicts(results: Results) -> dict[str, Verdict]:
    """Judge every claim."""
    return {claim.id: judged(PAPER, results, claim.id) for claim in PAPER.claims}


def test_the_paper_is_complete() -> None:
    """Every claim and figure is there once, and names experiments that there are."""
    assert [claim.id for claim in PAPER.claims] == [f"C{number}" for number in range(1, 13)]
    assert [figure.number for figure in PAPER.figures] == FIGURES
    names = {experiment.name for experiment in PAPER.experiments}
    used = {name for claim in PAPER.claims for name in claim.experiments}
    used |= {name for figure in PAPER.figures for name in figure.experiments}
    assert used == names


@pytest.mark.parametrize("scale", SCALES)
def test_cells_are_data_and_differ(scale: Any) -> None:
    """No two cells of an experiment are the same, and each has a seed and an effort."""
    for experiment in PAPER.experiments:
        cells = [tuple(sorted(cell.items())) for cell in experiment.cells(scale)]
        assert len(set(cells)) == len(cells)
        for cell in experiment.cells(scale):
            assert "seed" in cell
            assert experiment.effort(cell) > 0


def test_every_reading_has_cells() -> None:
    check_grids(PAPER)


def test_paper_scale_has_the_papers_sizes() -> None:
    """80,000 subscriptions in the burst, 42,000 and 200,000 events in Table II, 200,000 who move, 200 processes."""
    cells = {experiment.name: experiment.cells("paper")[0] for experiment in PAPER.experiments}
    assert (cells["c-burst"]["subscriptions"], cells["c-burst"]["covered"]) == (80_000, 955)
    assert (cells["c-costs"]["subscriptions"], cells["c-costs"]["events"]) == (42_000, 200_000)
    assert [cells["c-workflow"][key] for key in ("small", "medium", "large")] == [80, 80, 40]
    assert [cells["c-mobile"][key] for key in ("subscribers", "publishers")] == [200_000, 2_000]
    assert cells["c-roots"]["subscribers"] == 200_000


@pytest.mark.parametrize("number", FIGURES)
def test_every_figure_is_drawn(results: Results, number: str) -> None:
    """Axes have labels and series with names; the table has the print's numbers beside ours."""
    [figure] = [figure for figure in PAPER.figures if figure.number == number]
    assert figure.caption
    if figure.table is not None:
        grid = figure.table(results)
        work = [
            "Sub matching",
            "Sub covering",
            "Unsub",
            "Pub",
            "Total",
            "Sub covering, scanned",
            "Pub, scanned",
        ]
        assert [row[0] for row in grid.rows] == work
        assert {len(row) for row in grid.rows} == {len(grid.columns)}
        assert grid.rows[3][1] == "600 (3)"
        return
    assert figure.draw is not None
    axes = Canvas().subplots()
    figure.draw(results, axes)
    assert axes.get_xlabel()
    assert axes.get_ylabel()
    assert len(axes.get_legend_handles_labels()[1]) >= 2
    assert len(axes.lines) + len(axes.patches) >= 2


@pytest.mark.parametrize("id", ["C1", "C2", "C3", "C4"])
def test_iii_and_iv_what_is_exact_holds(verdicts: dict[str, Verdict], id: str) -> None:
    """Covered subscriptions travel along paths; similarity never falls and is what distances say; Table I."""
    assert verdicts[id].holds, verdicts[id]


def test_v_false_positives_never_reach_a_client(results: Results, verdicts: dict[str, Verdict]) -> None:
    """Whatever is forwarded in vain, no client gets what it did not ask for; and no decision exceeds its 10%."""
    for experiment in ("c-burst", "c-mobile", "c-workflow"):
        totals = results.rows(experiment, kind="total")
        assert totals
        assert [row["unasked"] for row in totals] == [0] * len(totals)
    bounds = results.rows("c-similarity", check="bound")
    assert sum(int(row["kept"] or 0) for row in bounds) > 0
    assert {(row["beyond"], row["unasked"]) for row in bounds} == {(0, 0)}
    assert verdicts["C12"].measured.endswith("0 unasked deliveries")


def test_v_a2_incremental_triggers_less_the_nearer_the_publisher(results: Results) -> None:
    """Active covering triggers more at every broker from A to E; incremental as much at A, and less at E."""
    where: dict[str, Any] = {"kind": "broker", "service": "zero", "triggered_each": 2_100, "seed": 1}
    results = results.under(BASE)
    counts = {
        strategy: [int(row["triggered"] or 0) for row in results.rows("c-burst", strategy=strategy, **where)]
        for strategy in ("covering", "incremental")
    }
    assert counts["covering"] == sorted(counts["covering"])
    assert counts["incremental"][0] <= counts["covering"][0]
    assert counts["incremental"][-1] < counts["covering"][-1]


def test_v_a1_a_scan_takes_longer_the_larger_the_table(results: Results) -> None:
    """Tables that an event is held against are largest without covering; nothing is detected there.

    Sizes are compared, not times: at this scale the machine's noise is larger than what a few filters more take.
    """
    rows = {row["strategy"]: row for row in results.rows("c-costs", kind="publish")}
    assert all(float(row["scan_ms"] or 0) > 0 for row in rows.values())
    tables = {strategy: int(row["table_max"] or 0) for strategy, row in rows.items()}
    assert 0 < tables["covering"] < tables["simple"]
    told = {row["strategy"]: row for row in results.rows("c-costs", kind="subscribe")}
    assert float(told["covering"]["scan_ms"] or 0) > 0
    assert told["simple"]["scan_ms"] == 0
    assert all(int(row["scans"] or 0) > 0 for row in (*rows.values(), *told.values()))


def test_v_a2_delays_that_grow_with_tables_are_long_with_active_covering(results: Results) -> None:
    """Where times grow with tables, the burst delays events far longer than incremental does, and queues are longer."""
    where: dict[str, Any] = {"kind": "total", "service": "linear", "triggered_each": 2_100}
    results = results.under(BASE)
    [active] = results.rows("c-burst", strategy="covering", **where)
    [pruned] = results.rows("c-burst", strategy="incremental", **where)
    assert float(active["delay_mean_s"] or 0) > float(pruned["delay_mean_s"] or 0)
    assert int(active["core_queue_peak"] or 0) > int(pruned["core_queue_peak"] or 0)


def test_every_claim_has_a_verdict_with_numbers_and_a_reason(verdicts: dict[str, Verdict]) -> None:
    """Also those that do not hold, which say why."""
    for id, verdict in verdicts.items():
        assert any(letter.isdigit() for letter in verdict.measured), id
        assert verdict.reason, id
