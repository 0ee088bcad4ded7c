"""The lab's runs on real brokers: what follows from the algorithm is what the simulator says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from covey import cli
from covey.lab import live
from covey.lab.experiment import Row
from covey.sim.preparation import Prepared, prepare
from covey.sim.scenario import read_scenario

# What the order in which brokers hear of things cannot change.
SAME = ("phase", "actions", "entries", "entries_max", "forwarded_events", "delivered_events")


def prepared(strategy: str) -> Prepared:
    tables = {
        "seed": 3,
        "topology": {"links": [["a", "b"], ["b", "c"], ["b", "d"]]},
        "workload": {
            "kind": "quote-intervals",
            "consumers": 2,
            "subscriptions": 4,
            "symbols": 4,
            "active": 0.5,
            "toggles": 6,
            "events": 40,
            "event_interval_ms": 2.0,
            "pause_s": 0.5,
        },
        "strategy": {"name": strategy},
        "delays": {"kind": "constant", "mean_ms": 0.1},
    }
    return prepare(read_scenario(tables, "live"))


@pytest.mark.parametrize("strategy", ["simple", "covering"])
def test_brokers_do_what_the_simulator_says(strategy: str) -> None:
    scenario = prepared(strategy)
    simulated = live.simulated(scenario)
    played = asyncio.run(live.Live(scenario).play())
    assert [[row[key] for key in SAME] for row in played] == [[row[key] for key in SAME] for row in simulated]
    assert [row["phase"] for row in played] == ["advertise", "subscribe", "toggle", "publish"]

    def control_messages(rows: list[Row]) -> list[object]:
        return [row["control_messages"] for row in rows]

    if strategy == "simple":  # each message is told on, whatever came before it
        assert control_messages(played) == control_messages(simulated)
    published = played[-1]
    assert published["delivered_events"], "somebody wants something"
    assert isinstance(published["delay_p99_s"], float)
    assert 0 < published["delay_p99_s"] < 60


def test_what_is_asked_of_brokers_must_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, said in (
        (["X", "--on", "brokers"], "no paper 'X' runs on brokers (hint: R, C, all)"),
        (["R", "--on", "paper"], "expected --on simulator or --on brokers, not 'paper'"),
        (["R", "--on", "brokers", "--master", "local"], "(hint: --on brokers without --master)"),
    ):
        assert cli.run(["lab", "run", *arguments]) == 2
        captured = capsys.readouterr()
        assert said in captured.err
        assert captured.err.count("\n") == 1


def test_the_command_draws_both_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(live.STRATEGIES, "r-live", ("simple",))
    small = {**live.SIZES["r-live"]["small"], "topology": {"links": [["a", "b"]]}}
    monkeypatch.setitem(live.SIZES, "r-live", {"small": small, "paper": small})
    assert cli.run(["lab", "run", "R", "--on", "brokers"]) == 0
    assert "r-live-1.md" in capsys.readouterr().out
    table = (tmp_path / "lab-results/figures-small/r-live-1.md").read_text()
    heads, _, simulated, brokers = [line.split(" | ") for line in table.splitlines()]
    assert heads[1] == "on"
    assert (simulated[1], brokers[1]) == ("simulator", "brokers")
    assert simulated[2:5] == brokers[2:5]
