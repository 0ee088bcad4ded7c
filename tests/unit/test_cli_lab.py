"""`covey lab`: what it prints and writes, exit codes, and one line for every mistake. Cells run in this process."""

from __future__ import annotations

import csv
import json
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import toy_paper

from covey import cli
from covey.lab import papers, runner
from covey.pipeline.session import NoJavaError

HERE = ("--master", "here")
Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ask:
    monkeypatch.setattr(papers, "MODULES", {"T": "tests.toy_paper"})
    monkeypatch.setattr(papers, "BESIDE", {})
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.run(["lab", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def troubled(monkeypatch: pytest.MonkeyPatch) -> None:
    some = replace(toy_paper.TROUBLES, cells=lambda scale: [{"how": "raise"}, {"how": "fine"}])
    figure = replace(toy_paper.FIGURES[0], number="2", experiments=("t-troubles",))
    paper = toy_paper.PAPER
    monkeypatch.setattr(
        toy_paper,
        "PAPER",
        paper._replace(experiments=(*paper.experiments, some), figures=(*paper.figures, figure)),
    )


def test_list(ask: Ask) -> None:
    code, out, err = ask("list")
    assert (code, err) == (0, "")
    assert "T  A toy & its <figures>" in out
    assert "t-squares: Squares <of> numbers (cells: 3 small, 5 paper)" in out
    assert "claims: T1, T2" in out
    (paper,) = json.loads(ask("list", "--json")[1])
    assert [figure["number"] for figure in paper["figures"]] == ["1", "Table I"]


def test_run_computes_once_and_draws(ask: Ask, tmp_path: Path) -> None:
    code, out, err = ask("run", "T", *HERE)
    assert code == 0
    assert "lab: 7 of 7 cells" in err
    assert out.count("\n") == 2
    assert (tmp_path / "lab-results/figures-small/t-figure-1.png").is_file()
    assert (tmp_path / "lab-results/figures-small/t-table-i.md").is_file()
    assert len(list((tmp_path / "lab-results").glob("*.parquet"))) == 7
    assert ask("run", "all", *HERE)[::2] == (0, "")


def test_run_of_one_figure(ask: Ask, tmp_path: Path) -> None:
    code, out, _ = ask(
        "run", "t", "--figure", "Table I", "--results", "kept", "--out", "drawn", *HERE, "--json"
    )
    assert code == 0
    (row,) = json.loads(out)["figures"]
    assert (row["figure"], row["cells"], row["file"]) == ("T Table I", 4, "drawn/t-table-i.md")
    assert len(list((tmp_path / "kept").glob("t-fractions-*.parquet"))) == 4
    assert not list((tmp_path / "kept").glob("t-squares-*"))


def test_run_at_paper_scale(ask: Ask, tmp_path: Path) -> None:
    code, _, err = ask("run", "T", "--figure", "1", "--scale", "paper", "--format", "svg", *HERE)
    assert code == 0
    assert "5 of 5 cells" in err
    assert (tmp_path / "lab-results/figures-paper/t-figure-1.svg").is_file()
    rows = json.loads(ask("scoreboard", "--json", *HERE)[1])
    assert [row["scale"] for row in rows] == ["paper", "paper"]  # fractions are the same at both


@pytest.mark.usefixtures("troubled")
def test_a_cell_that_fails_is_reported_and_the_rest_goes_on(ask: Ask, tmp_path: Path) -> None:
    code, out, err = ask("run", "T", *HERE)
    assert code == 1
    assert "covey: t-troubles failed with how=raise: ValueError: no such thing (toy_paper.py, line" in err
    assert "9 of 9 cells" in err
    assert "t-figure-1.png" in out
    code, _, err = ask("run", "T", *HERE, "--json")
    assert code == 1
    assert "1 of 1 cells" in err
    assert ask("report", *HERE)[0] == 1
    assert "how=raise" in (tmp_path / "lab-report.html").read_text()


def test_scoreboard_computes_what_is_missing(ask: Ask) -> None:
    code, out, err = ask("scoreboard", "--json", *HERE)
    assert code == 0
    assert "7 of 7 cells" in err
    rows: list[dict[str, Any]] = json.loads(out)
    assert [row["claim"] for row in rows] == ["T1", "T2"]
    assert [row["holds"] for row in rows] == [True, False]
    assert {"claim", "paper", "says", "measured", "holds", "reason"} <= set(rows[0])
    code, out, err = ask("scoreboard")
    assert (code, err) == (0, "")
    assert "1 of 2 claims hold" in out
    assert "Squares <never> shrink" in out


def test_rows_are_exported_as_csv(ask: Ask, tmp_path: Path) -> None:
    code, out, err = ask("export", "t-squares")
    assert (code, out) == (1, "\n")
    assert "3 cells of t-squares are missing at small scale" in err
    ask("run", "T", *HERE)
    code, out, err = ask("export", "t-squares", "--csv", "squares.csv")
    assert (code, err) == (0, "")
    assert "squares.csv" in out
    rows = list(csv.DictReader((tmp_path / "squares.csv").read_text().splitlines()))
    assert [(row["n"], row["square"]) for row in rows] == [("0", "0"), ("1", "1"), ("2", "4")]
    code, _, err = ask("export", "t-nothing")
    assert code == 2
    assert "there is no experiment 't-nothing'" in err


def test_a_damaged_file_is_one_line_and_computed_again(ask: Ask, tmp_path: Path) -> None:
    ask("run", "T", *HERE)
    next((tmp_path / "lab-results").glob("t-squares-*")).write_bytes(b"PAR1")
    code, _, err = ask("scoreboard", "--json", *HERE)
    assert code == 0
    assert err.count("damaged") == 1
    assert "1 of 1 cells" in err
    assert ask("scoreboard", "--json", *HERE)[2] == ""


def test_a_master_that_does_not_answer(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    # Other tests of this process may have started Spark.
    monkeypatch.setattr("covey.pipeline.session.running", lambda: None)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        code, out, err = ask("run", "T", "--master", f"spark://127.0.0.1:{taken.getsockname()[1]}")
    assert (code, out) == (2, "")
    assert "covey: no Spark master answers at spark://127.0.0.1" in err


def test_report(ask: Ask, tmp_path: Path) -> None:
    assert ask("report", "--out", "page.html", *HERE)[:2] == (0, "page.html\n")
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("run", "Q"), "no paper 'Q'"),
        (("run", "T", "--figure", "9"), "no figure '9' (hint: 1, Table I)"),
        (("run", "T", "--scale", "huge"), "--scale small or --scale paper"),
        (("run", "T", "--format", "gif"), "--format png"),
        (("run", "T", "--master", "nowhere"), "'nowhere' is no Spark master"),
        (("run", "T", "--master", "nowhere"), "sc://host:15002, or here, without Spark)"),
        (("run", "T", "--results", "/dev/null"), "not a directory"),
        (("run",), "Missing argument"),
        (("report", "--out", "no/such/page.html"), "expected a file in a directory that is there"),
    ],
)
def test_mistakes_are_one_line(ask: Ask, arguments: tuple[str, ...], part: str) -> None:
    code, out, err = ask(*arguments)
    assert (code, out) == (2, "")
    assert part in err
    assert err.startswith("covey: ")
    assert err.count("\n") == 1


def test_without_java_the_lab_offers_what_it_has(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise NoJavaError

    monkeypatch.setattr(runner, "running", lambda: None)
    monkeypatch.setattr(runner, "session", fail)
    code, _, err = ask("run", "T")
    assert code == 2
    assert "pip install 'covey[java]'; or --master here, without Spark)" in err.splitlines()[-1]


def test_a_directory_of_data_must_be_there(ask: Ask, tmp_path: Path) -> None:
    for command in (["run", "T"], ["scoreboard"], ["report"], ["document"]):
        code, _, err = ask(*command, "--data-files", str(tmp_path / "nowhere"), *HERE)
        assert code != 0
        assert err.count("\n") == 1
        assert "nowhere' is not a directory (hint: --data-files or COVEY_LAB_DATA)" in err
    assert ask("run", "T", "--data-files", str(tmp_path), *HERE)[0] == 0
    assert ask("run", "T", *HERE)[0] == 0
