"""`covey plan` without Spark: what it prints, JSON, and one line for every mistake. tests/spark has the real thing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from covey import cli
from covey.advisor.reading import read_traffic
from covey.datasets.generate import Request as DataRequest
from covey.datasets.generate import generate
from covey.errors import PlanError
from covey.pipeline import jobs, sizing
from covey.pipeline.jobs import Outcome, Progress, Request
from covey.pipeline.sizing import Size
from covey.planning.plan import Plan, PlannedTree


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.run(["plan", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let planning be done by somebody who always takes the same tree; return an input directory."""
    data = tmp_path / "data"
    generate(DataRequest("ranges", data, "random-tree", brokers=6, subscriptions=20, events=30, deliveries=0))

    def plan(request: Request, on_progress: Any) -> Outcome:
        on_progress(Progress("ingest", 1, 1))
        on_progress(Progress("ingest", 1, 1, note="stages/x is damaged (y is missing): computed again"))
        on_progress(Progress("ingest", 1, 1, 0.5, detail="20 subscriptions"))
        stages = request.out_dir / "stages"
        stages.mkdir(parents=True, exist_ok=True)
        for table in ("topology", "subscriptions", "events", "advertisements"):
            if not (stages / table).exists():
                (stages / table).symlink_to(request.input_dir.resolve() / table)
        traffic = read_traffic(stages)
        numbers = {
            "cost": 30.0,
            "cost_fresh": 12.0,
            "table_entries": 44.0,
            "false_positives": 0.0,
            "copies": 30.0,
        }
        made = Plan(
            method="single",
            seed=request.seed,
            brokers=traffic.brokers,
            links=traffic.links,
            trees=(PlannedTree(traffic.brokers[0], tuple((a, b) for a, b, _ in traffic.links)),),
            predictions={"single": numbers, "opt": {"cost": 28.0, "cost_fresh": 11.0}},
            basis={"fresh": 6, "events": 30, "subscriptions": 20},
        )
        file = request.out_dir / "plan.json"
        file.write_bytes(made.encode())
        bad = {"events": {"the content is not JSON: [bold]": 2} | {f"other {n}": 1 for n in range(7)}}
        return Outcome(
            made,
            file,
            bad,
            made.predictions,
            {"ingest": 0.5},
            "single: one tree.\nWhy: [red]asked.",
            master=request.master or "spark://found:7077",
        )

    monkeypatch.setattr(jobs, "plan", plan)
    monkeypatch.setattr(
        sizing, "table_sizes", lambda stages, tree, **given: {("simple", True): Size(4321, 99)}
    )
    return data


def test_a_plan_is_told_in_words(ask: Any, planned: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, text, err = ask(str(planned), "--out", str(out), "--explain")
    assert code == 0, err
    for part in (
        "single (chosen)",
        "opt",
        "fresh events",
        "Replayed: 20 subscriptions, 30 events",
        "covering with advertisements",
        "4,321",
        "set aside: 9 rows of events",
        "2  the content is not JSON: [bold]",
        "3  for other reasons",
        str(out / "quarantine"),
        "Why: [red]asked.",
        "ingest           0.50 s",
        str(out / "report.html"),
        str(out / "plan.json"),
        "master  spark://found:7077",
    ):
        assert part in text, part
    assert "plan: 1 of 1, ingest, 0.5 s: 20 subscriptions" in err
    assert "plan: stages/x is damaged (y is missing): computed again\n" in err
    assert "replay: 1 of" in err
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "spark://found:7077" in page


def test_json_has_everything_and_repeats(ask: Any, planned: Path, tmp_path: Path) -> None:
    results = []
    for _ in range(2):
        code, text, _ = ask(str(planned), "--out", str(tmp_path / "out"), "--json", "-s", "simple")
        assert code == 0
        results.append(json.loads(text))
    assert results[0] == results[1]
    assert results[0]["method"] == "single"
    assert results[0]["master"] == "spark://found:7077"
    assert results[0]["alternatives"][1]["chosen"]
    assert results[0]["advice"]["now"] == "simple with advertisements"
    delivered = {one["delivered"] for one in results[0]["advice"]["tried"] if "delivered" in one}
    assert len(delivered) == 1
    code, text, _ = ask(str(planned), "--out", str(tmp_path / "out"), "--json", "--no-replay")
    assert json.loads(text)["advice"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("{nowhere}", "--out", "{out}"), "there is no directory"),
        (("{data}", "--out", "{data}"), "--out is the input directory"),
        (("{data}", "--out", "{file}"), "is a file and not a directory"),
        (("{data}", "--out", "{file}/sub"), "cannot write into"),
        (("{data}", "--out", "{out}", "--strategy", "nope"), "no strategy 'nope'"),
        (
            ("{data}", "--out", "{out}", "--epochs", "events.at"),
            "--epochs 'events.at' is not one column and its",
        ),
        (("{data}",), "Missing option '--out'"),
        (
            ("{data}", "--out", "{out}", "--driver-memory", "lots"),
            "'lots' is no size of memory (hint: 512m, 4g)",
        ),
        (("{data}", "--out", "{out}", "--conf", "x"), "--conf 'x': expected KEY=VALUE"),
        (
            ("{data}", "--out", "{out}", "--master", "here"),
            "'here' is no Spark master (hint: local, local[2], spark://host:7077, sc://host:15002)",
        ),
    ],
)
def test_mistakes_are_one_line(
    ask: Any, planned: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "file").write_text("")
    names = ("nowhere", "out", "data", "file")
    places = {name: str(tmp_path / name) for name in names}
    code, out, err = ask(*(argument.format(**places) for argument in arguments))
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_what_planning_says_is_one_line(
    ask: Any, planned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(request: Request, on_progress: Any) -> Outcome:
        raise PlanError("the topology is not connected:\nit has 2 parts")

    monkeypatch.setattr(jobs, "plan", fail)
    code, _, err = ask(str(planned), "--out", str(tmp_path / "out"))
    assert (code, err) == (2, "covey: the topology is not connected: it has 2 parts\n")
