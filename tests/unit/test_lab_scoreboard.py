"""The scoreboard: judged from what is kept, at the papers' scale where that is whole, and honest about gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.toy_paper import CLAIMS, CRITERION, FIGURES, FRACTIONS, PAPER, SQUARES, TROUBLES

from covey.errors import ConfigError
from covey.lab import papers
from covey.lab.claim import Claim, Kind, Reading, Verdict
from covey.lab.experiment import Choice, Experiment, Results, Row, Scale
from covey.lab.figure import Paper
from covey.lab.outcome import Outcome
from covey.lab.runner import HERE, Step, run, tasks
from covey.lab.scoreboard import Kept, needed, scoreboard
from covey.lab.store import Store


def fill(store: Store, scale: Scale, *experiments: Experiment) -> None:
    run(store, tasks(store, experiments, scale), HERE)


def with_claim(claim: Claim, *experiments: Experiment) -> Paper:
    return Paper("T", "A toy", experiments, (), (claim,))


def test_every_claim_is_a_row(tmp_path: Path) -> None:
    store = Store(tmp_path)
    fill(store, "small", SQUARES, FRACTIONS)
    first, second = scoreboard([PAPER], store)
    assert first[:8] == ("T1", "T", "Squares <never> shrink", "up to 4", True, "", "small", "as printed")
    assert (second.status, second.proof) == ("contradicted", "1/3 < 1/2.")
    assert (second.claim, second.holds, second.reason) == ("T2", False, "a third is less than a half")


def test_the_papers_scale_is_used_where_it_is_whole(tmp_path: Path) -> None:
    store = Store(tmp_path)
    fill(store, "small", SQUARES, FRACTIONS)
    store.save(replace_n(store, 3))
    assert scoreboard([PAPER], store)[0].scale == "small"
    fill(store, "paper", SQUARES)
    row = scoreboard([PAPER], store)[0]
    assert (row.scale, row.measured) == ("paper", "up to 16")


def replace_n(store: Store, n: int) -> Outcome:
    kept = store.load(SQUARES, {"n": 2, "seed": 7})
    assert kept is not None
    return replace(kept, cell={"n": n, "seed": 7})


def test_needed_is_the_small_scale_of_what_is_not_whole(tmp_path: Path) -> None:
    store = Store(tmp_path)
    spare = replace(SQUARES, name="t-spare")
    paper = PAPER._replace(experiments=(SQUARES, FRACTIONS, spare))
    assert needed(paper, store) == [SQUARES, FRACTIONS]
    fill(store, "paper", SQUARES)
    assert needed(paper, store) == [FRACTIONS]


def test_what_was_not_run_is_not_judged(tmp_path: Path) -> None:
    store = Store(tmp_path)
    rows = scoreboard([PAPER], store)
    assert [(row.measured, row.holds, row.status) for row in rows] == [("nothing", False, "not judged")] * 2
    assert rows[0].reason.startswith("3 of its cells are missing, 0 of them failed")


def test_a_judge_sees_all_rows_or_is_not_asked_and_its_own_errors_are_not_hidden(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def judge(results: object) -> Verdict:
        raise IndexError("a judge's own error")

    broken = with_claim(replace(CLAIMS[0], judge=judge), SQUARES)
    assert scoreboard([broken], store)[0].status == "not judged"
    fill(store, "small", SQUARES)
    with pytest.raises(IndexError, match="a judge's own error"):
        scoreboard([broken], store)


def test_a_claim_with_failed_cells_is_not_judged(tmp_path: Path) -> None:
    store = Store(tmp_path)
    some = replace(TROUBLES, cells=lambda scale: [{"how": "raise"}, {"how": "fine"}])
    fill(store, "small", some)
    claim = Claim("T3", "T", "Fine", ("t-troubles",), lambda results: Verdict("1", True), CRITERION)
    (row,) = scoreboard([with_claim(claim, some)], store)
    assert not row.holds
    assert row.reason.startswith(
        "1 of its cells are missing, 1 of them failed, the first failure: ValueError: no"
    )


# -- readings ----------------------------------------------------------------------------------------------------


def of_three(where: Mapping[str, Choice], kind: Kind, least: int) -> Reading:
    return Reading(
        f"at least {least}", "" if kind == "probe" else "The text says so.", {**where, "least": least}, kind
    )


def at_least(results: Results) -> Verdict:
    """A number of rows of the reading's seeds; the claim holds if the largest is as large as the reading asks for."""
    values = [int(str(row["value"])) for row in results.rows("t-drawn")]
    return Verdict(
        f"{values}", max(values) >= int(str(results.reading["least"])), "", {"largest": max(values)}
    )


DRAWN = Experiment(
    "t-drawn",
    "T",
    "Drawn",
    lambda scale: [{"seed": seed, "way": way} for seed in (1, 2, 3) for way in ("plain", "steep")],
    lambda cell: [{"value": int(str(cell["seed"])) * (10 if cell["way"] == "steep" else 1)}],
)
PLAIN, STEEP = {"way": "plain"}, {"way": "steep"}


@pytest.mark.parametrize(
    ("readings", "status", "reading"),
    [
        ((of_three(PLAIN, "printed", 3), of_three(STEEP, "supported", 3)), "as printed", 0),
        ((of_three(STEEP, "supported", 3), of_three(PLAIN, "printed", 3)), "as printed", 1),
        ((of_three(PLAIN, "printed", 4), of_three(STEEP, "supported", 4)), "under a reading", 1),
        ((of_three(PLAIN, "supported", 31), of_three(STEEP, "supported", 31)), "contradicted", 0),
        ((of_three(PLAIN, "supported", 4), of_three(STEEP, "probe", 4)), "contradicted", 0),
    ],
)
def test_readings_decide_and_probes_do_not(
    tmp_path: Path, readings: tuple[Reading, ...], status: str, reading: int
) -> None:
    store = Store(tmp_path)
    fill(store, "small", DRAWN)
    claim = Claim("T4", "T", "Large", ("t-drawn",), at_least, CRITERION, readings, "No.", by_seed=True)
    (row,) = scoreboard([with_claim(claim, DRAWN)], store)
    assert (row.status, row.reading) == (status, readings[reading].name)
    assert bool(row.proof) == (status == "contradicted")
    assert row.best_supported.reading == readings[0].name
    plain = next(one for one in row.readings if one.where["way"] == "plain")
    assert plain.spread == {"largest": (3.0, 1.0, 3.0)}
    assert plain.seeds == 3


def test_a_reading_is_judged_at_the_papers_scale_when_its_own_cells_are_there(tmp_path: Path) -> None:
    store = Store(tmp_path)
    by_scale = replace(DRAWN, cells=lambda scale: [{**cell, "scale": scale} for cell in DRAWN.cells(scale)])
    fill(store, "small", by_scale)
    todo = [task for task in tasks(store, [by_scale], "paper") if task.cell["way"] == "steep"]
    run(store, todo, HERE)
    readings = (of_three(PLAIN, "printed", 4), of_three(STEEP, "supported", 4))
    claim = Claim("T4", "T", "Large", ("t-drawn",), at_least, CRITERION, readings)
    (row,) = scoreboard([with_claim(claim, by_scale)], store)
    assert [one.scale for one in row.readings] == ["small", "paper"]
    assert row.scale == "paper"


def test_a_dimension_that_a_row_does_not_have_agrees_with_every_value() -> None:
    rows: list[Row] = [{"a": 1, "b": 2}, {"a": 2, "b": None}, {"a": 3}]
    results = Results({"t": rows})
    assert results.under({"b": 2}).rows("t") == rows
    assert results.under({"b": 3}).rows("t") == rows[1:]
    assert results.under({"a": (1, 3)}).rows("t") == [rows[0], rows[2]]
    assert results.under({"a": 1}).under({"b": 2}).reading == {"a": 1, "b": 2}


def test_a_judge_may_answer_with_numpys_booleans(tmp_path: Path) -> None:
    store = Store(tmp_path)
    fill(store, "small", SQUARES)
    claim = replace(CLAIMS[0], judge=lambda results: Verdict("1", np.bool_(True)))  # type: ignore[arg-type]
    assert scoreboard([with_claim(claim, SQUARES)], store)[0].holds is True


def test_an_experiment_that_a_claim_names_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="t-fractions"):
        scoreboard([with_claim(CLAIMS[1], SQUARES)], Store(tmp_path))


def test_long_cells_come_first_and_each_is_kept_at_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    todo = tasks(store, [SQUARES], "paper")
    assert [task.cell["n"] for task in todo] == [4, 3, 2, 1, 0]
    seen: list[tuple[int, int]] = []

    def tell(step: Step) -> None:
        seen.append((step.done, len(list(tmp_path.glob("*.parquet")))))
        if step.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(store, todo, HERE, tell)
    assert seen == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert [task.cell["n"] for task in tasks(store, [SQUARES], "paper")] == [1, 0]


def test_kept_results_are_looked_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    fill(store, "small", SQUARES)
    kept = Kept(PAPER, store)
    first = kept.outcomes(["t-squares"], "small")
    monkeypatch.setattr(store, "load", None)
    assert kept.outcomes(["t-squares"], "small") == first


def test_papers_that_are_not_there_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {"Q": "covey.lab.paper_q.paper", "T": "tests.toy_paper", "U": "covey.lab.no_such"}
    monkeypatch.setattr(papers, "MODULES", modules)
    assert papers.papers() == [PAPER]
    assert papers.chosen("t") == papers.chosen("all") == [PAPER]
    with pytest.raises(ConfigError, match="no paper 'Q'"):
        papers.chosen("Q")


def test_one_paper_loads_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {"T": "tests.toy_paper", "U": "tests.papers.lab"}  # the latter has no PAPER
    monkeypatch.setattr(papers, "MODULES", modules)
    assert papers.chosen("T") == [PAPER]
    with pytest.raises(AttributeError):
        papers.chosen("all")


@pytest.mark.parametrize(
    ("number", "found"),
    [
        (None, ["7a", "7b", "7", "17", "Table II"]),
        ("7", ["7"]),
        ("7a", ["7a"]),
        ("Figure 7(A)", ["7a"]),
        ("fig. 17", ["17"]),
        ("table ii", ["Table II"]),
        ("1", []),
        ("", []),
    ],
)
def test_figures_are_found_by_their_numbers(number: str | None, found: list[str]) -> None:
    figures = tuple(replace(FIGURES[0], number=one) for one in ("7a", "7b", "7", "17", "Table II"))
    paper = PAPER._replace(figures=figures)
    assert [figure.number for figure in papers.figures_of(paper, number)] == found
    parts = PAPER._replace(figures=figures[:2])
    assert [figure.number for figure in papers.figures_of(parts, "7")] == ["7a", "7b"]
