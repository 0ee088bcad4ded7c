"""Every strategy keeps every promise on random networks (see covey.sim.trial for the promises).

A strategy is here because it is registered, and for no other reason. A failure prints the command that repeats it.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor

import pytest
from tests.hashing import said_under_hash_seeds

import covey
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
