"""Every strategy keeps every promise on random networks (see covey.sim.trial for the promises).

A strategy is here because it is registered, and for no other reason. A failure prints the command that repeats it.
"""

from __future__ import annotations

import os
import shlex
from concurrent.futures import ProcessPoolExecutor

import pytest
from tests.hashing import said_under_hash_seeds

import covey
from covey import cli
from covey.sim.channel import Channel
from covey.sim.trial import TOPOLOGIES, Trial, applies

SEEDS = 300
FAULT_SEEDS = 75
LONG_SEEDS = 20_000
BLOCK = 75


def trials(strategy: str, advertisements: bool, seeds: range, faults: bool) -> list[Trial]:
    overlays = [topology for topology in TOPOLOGIES if applies(strategy, topology)]
    return [
        Trial(strategy, advertisements, overlays[(seed + seed // 4) % len(overlays)], seed, faults)
        for seed in seeds
    ]


def check(strategy: str, advertisements: bool, seeds: range, faults: bool) -> list[str]:
    """Return the first finding of each broken trial, with the command that repeats it."""
    broken = []
    for trial in trials(strategy, advertisements, seeds, faults):
        outcome = trial.run()
        if outcome.findings:
            broken.append(f"{outcome.findings[0]}\n    repeat it: {trial.command}")
    return broken


@pytest.mark.parametrize("start", range(0, SEEDS, BLOCK))
@pytest.mark.parametrize("advertisements", [True, False], ids=["advertisements", "no-advertisements"])
@pytest.mark.parametrize("strategy", covey.strategies())
def test_promises_hold_on_random_networks(strategy: str, advertisements: bool, start: int) -> None:
    broken = check(strategy, advertisements, range(start, start + BLOCK), faults=False)
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("advertisements", [True, False], ids=["advertisements", "no-advertisements"])
@pytest.mark.parametrize("strategy", covey.strategies())
def test_promises_hold_after_faults_have_healed(strategy: str, advertisements: bool) -> None:
    broken = check(strategy, advertisements, range(FAULT_SEEDS), faults=True)
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("faults", [False, True])
@pytest.mark.parametrize("strategy", covey.strategies())
def test_every_strategy_is_tried_with_every_service_model(strategy: str, faults: bool) -> None:
    drawn = [trial.service_times().kind for trial in trials(strategy, True, range(FAULT_SEEDS), faults)]
    assert set(drawn) == {"zero", "table-ii", "linear", "any"}
    assert 0.3 < drawn.count("zero") / len(drawn) < 0.7


@pytest.mark.parametrize("kind", ["zero", "table-ii", "linear", "any"])
def test_the_command_of_a_trial_repeats_it(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    trial = next(t for t in trials("covering", False, range(100), True) if t.service_times().kind == kind)
    assert cli.run([*shlex.split(trial.command)[1:], "--transcript"]) == 0
    *said, summary = capsys.readouterr().out.splitlines()
    assert tuple(said) == trial.run().transcript
    assert summary.startswith("covering: 1 runs, 0 broken")


def test_the_command_that_is_printed_repeats_a_broken_trial(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = Channel.send
    monkeypatch.setattr(Channel, "send", lambda self, message, known: right(self, message, self.incarnation))
    assert cli.run(["trial", "covering", "--count", "20", "--faults"]) == 1
    finding, command = capsys.readouterr().err.splitlines()[:2]
    assert finding.startswith("refused: broker ")
    assert cli.run(shlex.split(command.partition("repeat it: covey ")[2])) == 1
    assert capsys.readouterr().err.splitlines() == [finding, command]


def check_mixed(strategy: str, seeds: range) -> list[str]:
    """Return what is broken, with and without advertisements and faults in turn."""
    kinds = [(True, False), (False, False), (True, True), (False, True)]
    broken: list[str] = []
    for number, (advertisements, faults) in enumerate(kinds):
        broken += check(strategy, advertisements, seeds[number :: len(kinds)], faults)
    return broken


@pytest.mark.long
@pytest.mark.parametrize("strategy", covey.strategies())
def test_promises_hold_on_very_many_random_networks(strategy: str) -> None:
    blocks = [range(start, start + 200) for start in range(0, LONG_SEEDS, 200)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(check_mixed, strategy, block) for block in blocks]
        broken = [line for job in jobs for line in job.result()]
    assert not broken, "\n".join(broken[:10])


DIGEST = """
import hashlib, covey
from covey.sim.trial import Trial
for strategy in covey.strategies():
    lines = []
    for seed in (3, 11, 26, 47):
        for faults in (False, True):
            lines += Trial(strategy, seed % 2 == 0, "tree", seed, faults).run().transcript
    print(strategy, len(lines), hashlib.sha256("\\n".join(lines).encode()).hexdigest())
"""


def test_the_same_seed_gives_the_same_transcript_whatever_the_hash_seed() -> None:
    digests = said_under_hash_seeds(DIGEST)
    assert digests[0] == digests[1]
    assert len(digests[0].splitlines()) == len(covey.strategies())
