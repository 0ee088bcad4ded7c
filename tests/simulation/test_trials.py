"""Trials of whole brokers: every promise holds for every seed, a seed replays exactly, and what fails shrinks."""

from __future__ import annotations

from typing import Any

import pytest

from covey.broker.fastpath import FastPath
from covey.errors import ConfigError
from covey.protocol.frames import OLDEST, VERSION
from covey.sim import BrokerNetwork
from covey.sim.broker_script import Script, draw
from covey.sim.broker_trial import RELEASES, BrokerTrial
from tests.hashing import said_under_hash_seeds
from tests.simulation.test_determinism import Transcript

AT_ONCE = 10


def check(seeds: range) -> None:
    """Run seeds; the first that breaks a promise is told with the command that repeats it."""
    for seed in seeds:
        outcome = BrokerTrial.of_seed(seed).run()
        assert not outcome.findings, f"{outcome.findings[0]}\n  repeat it: {outcome.trial.command}"


@pytest.mark.parametrize("first", range(0, 300, AT_ONCE))
def test_every_promise_holds(first: int) -> None:
    check(range(first, first + AT_ONCE))


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 20_000, 250))
def test_every_promise_holds_for_many_seeds(first: int) -> None:
    check(range(first, first + 250))


def transcript(seed: int) -> str:
    """Return what goes into all brokers of a trial and comes out of them, as a digest."""
    heard = Transcript()
    outcome = BrokerTrial.of_seed(seed).run(heard)
    return f"{heard} {outcome.delivered} {outcome.findings}"


def test_a_seed_replays_exactly() -> None:
    program = (
        "from tests.simulation.test_trials import transcript\n"
        "for seed in range(1000, 1006):\n"
        "    print(transcript(seed))\n"
    )
    one, other = said_under_hash_seeds(program)
    assert one.count("\n") == 6
    assert other == one


def test_a_script_is_text() -> None:
    for seed in range(200):
        script = draw(seed)
        assert Script.parse(str(script)) == script
    with pytest.raises(ConfigError, match="line 2 of the script is none: 'whatever'"):
        Script.parse("seed 1\nwhatever")
    unknown = BrokerTrial(Script.parse("seed 1\nlinks a-b\n0 explode a")).run()
    assert unknown.findings == ("crash: CoveyError: there is no step 'explode'",)


def test_any_part_of_a_script_is_a_script() -> None:
    script = draw(7)
    for every in (2, 3, 5):
        assert not BrokerTrial(script.without(script.steps[::every])).run().findings


def versions(net: BrokerNetwork) -> list[int]:
    """Return the versions of the protocol that are spoken on the links of a line a-b-c, from both their ends."""
    ends = (("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"))
    return [net.machine(broker).core.neighbours.records[other].version for broker, other in ends]


def test_brokers_of_two_releases_speak_the_older_version() -> None:
    net = BrokerNetwork([("a", "b"), ("b", "c")], seed=5)
    net.settle()
    assert versions(net) == [VERSION] * 4
    for release, expected in (("before", [OLDEST] * 2 + [VERSION] * 2), ("today", [VERSION] * 4)):
        machine = net.machine("a")
        machine.kill()
        machine.versions = RELEASES[release]
        net.restart("a")
        net.settle()
        assert versions(net) == expected


ROLLING = """
seed 3
links a-b b-c
reader r1 at c
listener l1 at a
publisher p1 at a
0      publish p1 5 confirmed
0      exchange c before
0.01   publish p1 5 confirmed
0.3    exchange b before
0.3    publish p1 5 confirmed
0      rest
0      exchange b today
0.001  publish p1 5 confirmed
0.3    exchange c today
0.3    publish p1 5 plain
0      exchange b today
0      rest
"""


def test_releases_are_exchanged_under_load() -> None:
    outcome = BrokerTrial(Script.parse(ROLLING)).run()
    assert not outcome.findings
    assert outcome.faults["exchange"] == 4, "the fifth changes nothing"
    drawn = [seed for seed in range(60) if any(step.name == "exchange" for step in draw(seed).steps)]
    assert drawn == list(range(0, 60, 6))


PASSING = """seed 3
links a-b
turn_ms 0.05
reader r1 at b
listener l1 at b
publisher p1 at a
0.3    publish p1 3 plain
0.3    publish p1 3 confirmed
0.3    publish p1 3 plain
0      rest"""


def test_events_are_passed_through_in_trials_as_in_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What arrives in a turn is one input where the script says so, and as many other scripts are drawn that say so."""
    pass_through, passed = FastPath.pass_through, 0

    def counted(*given: Any) -> Any:
        nonlocal passed
        writes, left = pass_through(*given)
        passed += len(writes)
        return writes, left

    monkeypatch.setattr(FastPath, "pass_through", counted)
    script = Script.parse(PASSING)
    assert Script.parse(str(script)) == script
    assert BrokerTrial(script).run().findings == ()
    assert passed >= 2, "two bursts, over the link"
    turns = [draw(seed).turn_ms for seed in range(100)]
    assert min(map(turns.count, (0.0, 0.05, 1.0))) >= 10
