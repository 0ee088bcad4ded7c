"""The lab's comparison of strategies: every strategy on every workload, those of plug-ins and programs too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import covey
from covey import cli
from covey.lab import comparison
from covey.lab.drawing import page_picture
from covey.lab.experiment import Results, Row
from covey.lab.outcome import compute
from covey.lab.papers import chosen, everything, papers
from covey.lab.store import Store, collect
from covey.routing import strategy as strategies
from covey.routing.strategy import register
from covey.strategies.policy import FILTERS, Uncovered
from covey.strategies.subscriptions import SubscriptionStrategy


def test_every_strategy_meets_every_workload() -> None:
    cells = comparison.cells("small")
    pairs = {(cell["workload"], cell["strategy"]) for cell in cells}
    assert len(pairs) == len(cells) == len(comparison.WORKLOADS) * len(covey.strategies())
    assert {workload.paper for workload in comparison.WORKLOADS.values()} == {"R", "C", "X", "M"}
    assert all(cell["code"] == "" for cell in cells)
    assert len(comparison.cells("paper")) == 3 * (len(cells) - len(comparison.TOO_DEAR))


def few(workload: str) -> Results:
    """Return the rows of three strategies on one workload, with nothing for the others."""
    cells = [
        cell
        for cell in comparison.cells("small")
        if cell["workload"] == workload and cell["strategy"] in ("flooding", "simple", "covering")
    ]
    outcomes = [compute(comparison.EXPERIMENT, cell) for cell in cells]
    assert [outcome.error for outcome in outcomes] == [None] * 3
    return collect(outcomes)


@pytest.mark.parametrize("workload", ["quote intervals", "tree patterns"])
def test_what_is_counted_is_what_the_strategies_are_about(workload: str) -> None:
    rows: dict[str, Row] = {str(row["strategy"]): row for row in few(workload).rows(comparison.NAME)}
    flooding, simple, covering = rows["flooding"], rows["simple"], rows["covering"]
    assert flooding["entries"] == 0
    assert number(covering, "entries") < number(simple, "entries")
    assert number(flooding, "for_nobody") > number(simple, "for_nobody")
    assert number(flooding, "forwarded") > number(covering, "forwarded")
    assert number(simple, "delay_p99_s") > 0
    assert number(simple, "queue_peak") >= 1


def number(row: Row, key: str) -> float:
    value = row[key]
    assert isinstance(value, int | float)
    return value


def test_pictures_and_tables_of_what_is_there() -> None:
    results = few("quotes")
    for figure in comparison.FIGURES:
        if figure.draw is not None:
            text = page_picture(figure, results).decode()
            assert all(name in text for name in ("flooding", "simple", "covering", "keywords"))
    grid = next(figure.table for figure in comparison.FIGURES if figure.title == "Quotes")
    assert grid is not None
    lines = grid(results).rows
    assert [line[0] for line in lines] == ["flooding", "simple", "covering"]
    entries = comparison.value(results, "quotes", "simple", "entries")
    assert entries is not None
    assert entries == lines[1][1]
    assert comparison.value(results, "burst", "simple", "entries") is None


def test_it_stands_beside_the_papers() -> None:
    assert comparison.KEY not in [paper.key for paper in papers()]
    assert [paper.key for paper in everything()] == [*(paper.key for paper in papers()), comparison.KEY]
    assert [paper.key for paper in chosen("s")] == [comparison.KEY]
    assert comparison.KEY not in [paper.key for paper in chosen("all")]


class Mine(SubscriptionStrategy):
    name = "mine-compared"
    dialect = "subscriptions"
    description = "covering under another name"
    policy = Uncovered(FILTERS, withdraws=True)


@pytest.fixture
def registered() -> Iterator[None]:
    register(Mine)
    yield
    del strategies._REGISTERED[Mine.name]


@pytest.mark.usefixtures("registered")
def test_a_strategy_of_ones_own_is_compared_and_known_by_its_text() -> None:
    mine = [cell for cell in comparison.cells("small") if cell["strategy"] == Mine.name]
    assert len(mine) == len(comparison.WORKLOADS)
    assert {len(str(cell["code"])) for cell in mine} == {12}
    base = {**mine[0], "strategy": "covering", "code": ""}
    assert compute(comparison.EXPERIMENT, mine[0]).rows == compute(comparison.EXPERIMENT, base).rows


def test_pages_of_it_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(comparison, "PAPER", comparison.of(["simple", "covering"], ["quotes"]))
    assert cli.run(["lab", "document", "--paper", "S", "--out", "compared.md", "--master", "here"]) == 0
    text = (tmp_path / "compared.md").read_text()
    assert text.startswith("# All strategies on the papers' workloads\n\nEach strategy ran")
    assert "claim" not in text
    assert len(list((tmp_path / "compared").glob("*.svg"))) == 5
    assert cli.run(["lab", "report", "--paper", "S", "--out", "compared.html", "--master", "here"]) == 0
    page = (tmp_path / "compared.html").read_text()
    assert "<title>All strategies on the papers" in page.replace("&#x27;", "'")
    assert "Scoreboard" not in page
    assert not Store(tmp_path / "lab-results").missing(comparison.PAPER.experiments[0], "small")
