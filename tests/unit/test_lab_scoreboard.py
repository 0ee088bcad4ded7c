"""The scoreboard: judged from what is kept, at the papers' scale where that is whole, and honest about gaps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.toy_paper import CLAIMS, FIGURES, FRACTIONS, PAPER, SQUARES, TROUBLES

from covey.errors import ConfigError
from covey.lab import papers
from covey.lab.claim import Claim, Verdict
from covey.lab.experiment import Experiment, Scale
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
    assert first == ("T1", "T", "Squares <never> shrink", "up to 4", True, "", "small")
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


def test_what_was_not_run_or_cannot_be_judged_does_not_hold(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert [(row.measured, row.holds) for row in scoreboard([PAPER], store)] == [("nothing", False)] * 2
    fill(store, "small", SQUARES)

    def judge(results: object) -> Verdict:
        raise IndexError("no rows")

    (row,) = scoreboard([with_claim(replace(CLAIMS[0], judge=judge), SQUARES)], store)
    assert not row.holds
    assert "not judged: IndexError: no rows" in row.reason


def test_failed_cells_are_in_the_reason(tmp_path: Path) -> None:
    store = Store(tmp_path)
    some = replace(TROUBLES, cells=lambda scale: [{"how": "raise"}, {"how": "fine"}])
    fill(store, "small", some)
    claim = Claim("T3", "T", "Fine", ("t-troubles",), lambda results: Verdict("1", True, "as it should"))
    (row,) = scoreboard([with_claim(claim, some)], store)
    assert row.holds
    assert row.reason.startswith("as it should; 1 cells failed, the first with ValueError: no such thing")


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
