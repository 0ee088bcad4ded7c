"""A script that breaks a promise shrinks to what matters, always to the same, and `covey trial --brokers` shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from covey import cli
from covey.broker.durable.log import LogClock
from covey.sim.broker_script import Script
from covey.sim.broker_trial import BrokerTrial, shrink

# A month passes on the wall of b while events wait there, among many things that do not matter.
LONG = """
seed 3
links a-b b-c
strategy merging
delay_ms 5
users True
reader r1 at b
listener l1 at c
publisher p1 at a
publisher p2 at c
0      subscribe l1 x>=5
0.01   publish p2 3 plain
0.3    advertise p1 n>=0
0.05   leave r1
0      reset b c
0.3    publish p1 5 confirmed
0.003  drop l1
1.2    allow c p2 all all
0.3    jump b 2592000
0      kill c 3
1.2    restart c
35     publish p1 1 plain
0      unsubscribe l1
0      advertise p2 x<=7
"""


@pytest.fixture
def age_by_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a bug back: events grow old by the clock on the wall, which may jump."""
    monkeypatch.setattr(LogClock, "read", lambda self, now_s: now_s + self._wall_ahead_s)


@pytest.mark.usefixtures("age_by_the_wall")
def test_what_fails_shrinks_to_what_matters() -> None:
    trial = BrokerTrial(Script.parse(LONG))
    assert trial.run().findings[0].startswith("lost: r1 at b")
    small = shrink(trial, budget=60)
    assert small.run().findings[0].startswith("lost: r1 at b")
    assert {step.name for step in small.script.steps} == {"leave", "publish", "jump"}
    assert len(small.script.steps) <= 5
    assert {actor.role for actor in small.script.actors} == {"reader", "publisher"}
    assert len(small.script.links) <= 1
    assert (small.script.strategy, small.script.users, small.script.final) == ("covering", False, ())
    assert shrink(trial, budget=60) == small, "it is the same each time"
    assert Script.parse(str(small.script)) == small.script


def test_what_does_not_fail_stays_as_it_is() -> None:
    trial = BrokerTrial(Script.parse(LONG))
    assert shrink(trial) == trial
    assert trial.run().findings == ()


@pytest.mark.usefixtures("age_by_the_wall")
def test_the_budget_bounds_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = 0
    run = BrokerTrial.run

    def counted(self: BrokerTrial) -> object:
        nonlocal runs
        runs += 1
        return run(self)

    monkeypatch.setattr(BrokerTrial, "run", counted)
    small = shrink(BrokerTrial(Script.parse(LONG)), budget=12)
    assert runs == 12
    assert len(small.script.steps) < 14


# -- the command -------------------------------------------------------------------------------------------------


def test_the_command_runs_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["trial", "--brokers", "--seed", "5", "--count", "2", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    outcomes = [BrokerTrial.of_seed(seed).run() for seed in (5, 6)]
    assert said["trials"] == 2
    assert said["broken"] == []
    assert said["events"] == sum(one.published for one in outcomes)
    assert said["confirmed"] == sum(one.confirmed for one in outcomes)
    assert said["deliveries"] == sum(one.delivered for one in outcomes)
    assert said["faults"] == sum(said["faults_by_kind"].values())
    assert said["faults"] == sum(sum(one.faults.values()) for one in outcomes)


@pytest.mark.usefixtures("age_by_the_wall")
def test_the_command_shows_what_is_broken_and_its_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "long.txt"
    path.write_text(LONG)
    monkeypatch.chdir(tmp_path)
    assert cli.run(["trial", "--brokers", "--script", "long.txt", "--shrink"]) == 1
    said = capsys.readouterr()
    assert "lost: r1 at b" in said.err
    assert "  repeat it: covey trial --brokers --script long.txt\n" in said.err
    script, _, numbers = said.out.partition("\n\n")
    assert "broken      1" in numbers
    Path("small.txt").write_text(script)
    assert cli.run(["trial", "--brokers", "--script", "small.txt", "--json"]) == 1
    (broken,) = json.loads(capsys.readouterr().out)["broken"]
    assert broken["seed"] == 3
    assert broken["findings"][0].startswith("lost: r1 at b")


def test_a_failing_seed_is_told_with_the_command_that_repeats_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogClock, "jumped", lambda self, now_s, wall_s: 0.0)  # no jump is said
    count = 0
    while cli.run(["trial", "--brokers", "--seed", str(count), "--count", "10"]) == 0:
        capsys.readouterr()
        count += 10
    said = capsys.readouterr().err
    command = said.partition("repeat it: ")[2].partition("\n")[0]
    assert command.startswith("covey trial --brokers --seed ")
    assert cli.run(command.split()[1:]) == 1
    assert "has not said that its clock has jumped" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trial"], "name a strategy, or all; or try whole brokers with --brokers"),
        (
            ["trial", "covering", "--shrink"],
            "--shrink and --script are for trials of whole brokers, with --brokers",
        ),
        (
            ["trial", "covering", "--brokers"],
            "each seed draws strategy, topology, advertisements and faults itself",
        ),
        (["trial", "--brokers", "--script", "nothing"], "--script 'nothing': No such file or directory"),
        (["trial", "--brokers", "--script", "bad"], "line 2 of the script is none: 'whatever'"),
        (["trial", "--brokers", "--script", "binary"], "--script 'binary': it is no text"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad").write_text("seed 1\nwhatever")
    Path("binary").write_bytes(b"\xff\xfe")
    assert cli.run(words) != 0
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_transcript_has_what_goes_in_and_comes_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["trial", "--brokers", "--seed", "2", "--transcript"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("Opened(" in line for line in lines)
    assert any("Write(" in line for line in lines)
    assert max(map(len, lines)) <= 160
