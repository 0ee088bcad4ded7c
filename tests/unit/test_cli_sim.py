"""`covey sim`: what it prints, JSON, pictures, comparisons, and one line for every mistake."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from covey import cli
from covey.routing.strategy import names

Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.run(["sim", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_run_is_told_in_words(ask: Ask) -> None:
    code, out, err = ask("tour")
    assert (code, err) == (0, "")
    for part in (
        "A tour",
        "covering, 5 brokers",
        "4 faults",
        "seed 1",
        "events delivered",
        "control messages",
    ):
        assert part in out
    code, out, _ = ask(
        "quotes", "--set", "workload.events=10", "--set", "workload.consumers=1", "-s", "simple"
    )
    assert code == 0
    assert "simple, " in out
    assert "toggle" in out


def test_json_repeats_apart_from_the_machine(ask: Ask) -> None:
    one, other = (json.loads(ask("tour", "--json", "--seed", "9")[1]) for _ in range(2))
    assert one["run"] == other["run"]
    assert one["run"]["seed"] == 9
    assert set(one["machine"]) == {"wall_s", "cpu_s", "peak_memory_mb", "arrivals"}
    assert json.loads(ask("tour", "--json", "--no-advertisements")[1])["run"]["parameters"]["strategy"] == {
        "name": "covering",
        "advertisements": False,
        "reduce_advertisements": "none",
    }


def test_strategies_are_compared_side_by_side(ask: Ask, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    code, out, _ = ask("tour", "--compare", "active,simple, lazy,active", "--plot", str(picture))
    assert code == 0
    heading = next(line for line in out.splitlines() if "seed 1" in line)
    assert [word for word in heading.replace("┃", " ").split() if word in names()] == [
        "covering",
        "simple",
        "covering-lazy",
    ]
    assert "events delivered" in out
    assert picture.read_bytes().startswith(b"\x89PNG")
    results = json.loads(ask("tour", "--compare", "active,simple", "--json")[1])
    assert [result["run"]["strategy"] for result in results] == ["covering", "simple"]


def test_everything_there_is_is_listed(ask: Ask) -> None:
    code, out, _ = ask("--list")
    assert code == 0
    for part in ("Scenarios", "tour", "burst-80000", "incremental", "core-edge", "covering-burst"):
        assert part in out
    lists = json.loads(ask("--list", "--json")[1])
    assert list(lists) == ["scenarios", "strategies", "topologies", "workloads"]
    assert all(description for things in lists.values() for description in things.values())


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ([], ["which scenario?"]),
        (["nothing"], ["'nothing'", "tour"]),
        (["tour", "--strategy", "coverin"], ["'coverin'", "covering"]),
        (["tour", "--compare", "active,nothing"], ["'nothing'"]),
        (["tour", "--compare", ","], ["--compare"]),
        (["tour", "--compare", "active", "--strategy", "lazy"], ["exclude"]),
        (["tour", "--set", "workload"], ["--set"]),
        (["tour", "--set", "titel=x"], ["tour", "did you mean title?"]),
        (["burst", "--set", "workload.subscriptions=10"], ["burst: [workload]", "subscriptions"]),
        (["keywords-trees", "--strategy", "covering"], ["keywords-trees: [strategy]", "cycles"]),
        (["tour", "--plot", "picture.txt"], ["--plot", ".png"]),
        (["tour", "--plot", "/no/such/picture.png"], ["--plot", "directory"]),
        (["tour", "--seed", "x"], ["--seed"]),
        (["tour", "--seed", "-1"], ["--seed"]),
    ],
)
def test_a_mistake_is_one_line(ask: Ask, arguments: list[str], parts: list[str]) -> None:
    code, out, err = ask(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("covey: ")
    assert err.count("\n") == 1
    assert len(err) < 600
    for part in parts:
        assert part in err
