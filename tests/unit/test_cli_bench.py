"""`covey bench all` and what is made from its figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.test_bench_comparison import LINEAR, MISSING, QUADRATIC, made, row

from covey import cli
from covey.bench import parts
from covey.bench.comparison import Run, load, save
from covey.bench.document import BEGIN, END


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], bool]]:
    """Let runs find LINEAR at once; return what was asked for."""
    asked: list[tuple[list[str], bool]] = []

    def run(names: list[str], progress: parts.Progress, *, quick: bool) -> Run:
        progress("at work")
        asked.append((names, quick))
        return made([*LINEAR, *QUADRATIC, MISSING])

    monkeypatch.setattr(parts, "run", run)
    return asked


def test_all_prints_both_tables(
    runs: list[tuple[list[str], bool]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["bench", "all"]) == 0
    printed = capsys.readouterr().out
    for part in (
        "sorting",
        "1,000 numbers",
        "× 21",
        "yes",
        "there is no Java",
        "scan 1.00, bubbles 2.00",
        "0.50",
    ):
        assert part in printed
    assert runs == [(list(parts.PARTS), False)]


def test_parts_can_be_asked_for_alone(runs: list[tuple[list[str], bool]]) -> None:
    for words in (
        ["routing"],
        ["planning", "--quick"],
        ["keywords"],
        ["pipeline"],
        ["all", "--part", "planning", "--part", "covering"],
    ):
        assert cli.run(["bench", *words]) == 0
    assert runs == [
        (["routing"], False),
        (["planning"], True),
        (["keywords"], False),
        (["pipeline"], False),
        (["covering", "planning"], False),  # in their own order
    ]


def test_figures_are_saved_drawn_and_put_into_a_page(
    runs: list[tuple[list[str], bool]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, picture, page = tmp_path / "rows.json", tmp_path / "growth.svg", tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    assert cli.run(["bench", "all", "--json", "--out", str(rows), "--plot", str(picture)]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(rows.read_text())
    assert load(rows).comparisons == [*LINEAR, *QUADRATIC, MISSING]
    assert cli.run(["bench", "plot", str(rows), "--out", str(tmp_path / "again.svg")]) == 0
    assert (tmp_path / "again.svg").read_bytes() == picture.read_bytes()
    assert cli.run(["bench", "document", str(rows), "--out", str(page)]) == 0
    assert "| toy | sorting |" in page.read_text()
    assert (tmp_path / "images" / "growth.svg").read_bytes() == picture.read_bytes()


def test_it_fails_when_answers_differ(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = made([*LINEAR, row(5, 1.0, 1.0, equal=False)])
    monkeypatch.setattr(parts, "run", lambda *_, **__: wrong)
    assert cli.run(["bench", "all"]) == 2
    assert "answers differ" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["all", "--part", "none"],
        ["all", "--out", "/nowhere/rows.json"],
        ["all", "--plot", "rows.gif"],
        ["plot", "/nowhere/rows.json"],
        ["document", "/nowhere/rows.json"],
    ],
)
def test_mistakes_are_one_line_before_anything_is_measured(
    words: list[str], runs: list[tuple[list[str], bool]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["bench", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert runs == []


def test_a_page_without_markers_is_left_alone(tmp_path: Path) -> None:
    save(made(LINEAR), tmp_path / "rows.json")
    page = tmp_path / "page.md"
    page.write_text("no place\n")
    assert cli.run(["bench", "document", str(tmp_path / "rows.json"), "--out", str(page)]) == 2
    assert page.read_text() == "no place\n"
    assert not (tmp_path / "images").exists()


@pytest.mark.long
def test_a_quick_run_of_everything(tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    assert cli.run(["bench", "all", "--quick", "--out", str(rows)]) == 0
    run = load(rows)
    assert {one.part for one in run.comparisons} == set(parts.PARTS)
    assert not run.differing
