"""Runs of scenarios: every built-in one, results that repeat, faults that heal, ends."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.hashing import said_under_hash_seeds

from covey.sim.library import Changes, load, scenario_names
from covey.sim.plot import draw
from covey.sim.result import Result
from covey.sim.runner import round_interval, run
from covey.sim.scenario import parse_toml, read_scenario

BURST = ["workload.events_before=2", "workload.events_after=20", "workload.background=false"]

# Each built-in scenario, small enough for a test.
REDUCED = {
    "tour": [],
    "quotes": ["workload.consumers=1", "workload.toggles=5", "workload.events=20"],
    "rebeca": ["topology.levels=2", "workload.consumers=2", "workload.toggles=5", "workload.events=10"],
    "burst": [*BURST, "workload.subscriptions=400", "workload.broad=2"],
    "burst-80000": [*BURST, "workload.subscriptions=200", "workload.broad=1"],
    "mobile": ["workload.subscribers=150", "workload.publishers=4", "workload.rush_s=120"],
    "workflow": ["workload.small=2", "workload.medium=1", "workload.large=0", "workload.duration_s=60"],
    "xpath": ["workload.subscriptions=20", "workload.churn=3", "workload.events=5"],
    "keywords-trees": [
        "topology.count=20",
        "workload.keywords=10",
        "workload.events=20",
        "workload.nearest=0.3",
    ],
}


def small(name: str, **changes: object) -> Result:
    settings = [*REDUCED[name], *changes.pop("settings", [])]  # type: ignore[misc]
    return run(load(name, Changes(settings=settings, **changes)))  # type: ignore[arg-type]


def by_hand(text: str) -> Result:
    return run(read_scenario(parse_toml(text, "x.toml"), "x.toml"))


def test_every_scenario_has_its_reduction() -> None:
    assert set(REDUCED) == set(scenario_names())


@pytest.mark.parametrize("name", REDUCED)
def test_built_in_scenarios_run(name: str) -> None:
    result = small(name)
    last = result.last
    assert result.settled
    assert result.repeatable
    assert last.delivered_events == result.delays.deliveries > 0
    assert last.control_messages == sum(last.control_by_kind.values())
    assert last.queued == 0
    assert [sample.at_s for sample in result.samples] == sorted(sample.at_s for sample in result.samples)
    assert sum(figures.remote_entries for figures in result.by_broker.values()) == last.remote_entries
    phases = result.phases()
    if phases:
        assert sum(phase["delivered_events"] for phase in phases) == last.delivered_events
    assert msgspec.json.decode(msgspec.json.encode(result.as_dict()))["run"]["seed"] == result.seed


def test_strategies_deliver_the_same() -> None:
    delivered = {
        strategy: small("quotes", strategy=strategy).last.delivered_events
        for strategy in ("flooding", "simple", "covering", "lazy", "packing", "incremental")
    }
    assert len(set(delivered.values())) == 1


def test_a_result_says_how_to_get_it_again() -> None:
    result = small("mobile", seed=3)
    again = run(read_scenario(result.as_dict()["run"]["parameters"], "mobile"))
    assert again.as_dict()["run"] == result.as_dict()["run"]


PROGRAM = """
import sys, msgspec
from covey.sim.library import Changes, load
from covey.sim.runner import run
for name, *settings in (("tour",), ("burst", *sys.argv[1:])):
    result = run(load(name, Changes(seed=4, settings=[*settings, "delays.kind=exponential"])))
    sys.stdout.buffer.write(msgspec.json.encode(result.as_dict()["run"]))
"""


def test_the_same_seed_gives_the_same_bytes_whatever_the_hashing() -> None:
    one, other = said_under_hash_seeds(PROGRAM, *REDUCED["burst"])
    assert one == other != ""


def test_another_seed_gives_another_run() -> None:
    one, other = small("quotes", seed=1), small("quotes", seed=2)
    assert one.as_dict()["run"]["samples"] != other.as_dict()["run"]["samples"]


LINE = """
[topology]
links = [["a", "b"], ["b", "c"]]
[[actions]]
at_s = 0
op = "advertise"
name = "ad"
broker = "a"
filter = "price >= 0"
[[actions]]
at_s = 1
op = "subscribe"
name = "ann"
broker = "c"
filter = "price > 10"
[[actions]]
at_s = {event_s}
op = "publish"
broker = "a"
event = {{ price = 12 }}
"""

FAULTS = {
    "link-down": 'kind = "link-down"\nlink = ["a", "b"]',
    "crash": 'kind = "crash"\nbroker = "b"',
    "partition": 'kind = "partition"\nbrokers = ["a"]',
}


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize(("event_s", "delivered"), [(3.0, 0), (6.0, 1)])
def test_faults_come_and_heal(kind: str, event_s: float, delivered: int) -> None:
    fault = f"[[faults]]\nat_s = 2\nuntil_s = 5\n{FAULTS[kind]}\n"
    result = by_hand(LINE.format(event_s=event_s) + fault)
    assert result.faults == 1
    assert result.last.delivered_events == delivered
    assert result.last.remote_entries == 2


def test_a_fault_without_an_end_lasts() -> None:
    result = by_hand(LINE.format(event_s=6.0) + f"[[faults]]\nat_s = 2\n{FAULTS['crash']}\n")
    assert result.last.delivered_events == 0
    assert result.settled


def test_a_link_is_up_when_the_last_fault_is_over() -> None:
    faults = "".join(
        f"[[faults]]\nat_s = {at}\nuntil_s = {until}\n{FAULTS['link-down']}\n"
        for at, until in ((2, 5), (3, 8))
    )
    assert by_hand(LINE.format(event_s=6.0) + faults).last.delivered_events == 0
    assert by_hand(LINE.format(event_s=9.0) + faults).last.delivered_events == 1


def test_a_slow_link_is_slow_for_a_while() -> None:
    fault = '[[faults]]\nat_s = 2\nuntil_s = 5\nkind = "slow"\nlink = ["b", "c"]\nfactor = 10.0\n'
    slow, healed = (by_hand(LINE.format(event_s=event_s) + fault) for event_s in (3.0, 6.0))
    assert slow.delays.max_s == pytest.approx(0.11)
    assert healed.delays.max_s == pytest.approx(0.02)


def test_a_run_may_end_before_its_actions() -> None:
    cut = by_hand(LINE.format(event_s=6.0) + "[run]\nduration_s = 4\n")
    assert (cut.actions, cut.last.published_events, cut.settled) == (2, 0, True)
    stopped = by_hand(LINE.format(event_s=6.0) + "[run]\nduration_s = 6.005\nsettle = false\n")
    assert (stopped.last.published_events, stopped.last.delivered_events) == (1, 0)
    assert not stopped.settled
    assert stopped.ended_s == 6.005


def test_samples_come_as_often_as_asked() -> None:
    result = by_hand(LINE.format(event_s=6.0) + "[metrics]\nevery_s = 2.0\nby_broker = true\n")
    assert [sample.at_s for sample in result.samples] == [2.0, 4.0, 6.0, 6.02]
    assert result.samples[0].remote_by_broker == (1, 1, 0)
    # What happens at a moment counts after it.
    assert [sample.published_events for sample in result.samples] == [0, 0, 0, 1]
    assert result.ended_s == pytest.approx(6.02)


def test_progress_is_told() -> None:
    told: list[tuple[float, float]] = []
    run(load("tour"), lambda share, now_s: told.append((share, now_s)))
    assert told[-1][0] == 1.0
    assert [share for share, _ in told] == sorted(share for share, _ in told)


def test_mixed_strategies() -> None:
    result = by_hand(LINE.format(event_s=6.0) + '[strategy.brokers]\na = "lazy"\n')
    assert result.strategy == "covering-lazy + covering"
    assert result.last.delivered_events == 1


def test_service_times_can_be_set() -> None:
    times = '[service]\nkind = "table-ii"\npublish_ms = 1000.0\n'
    result = by_hand(LINE.format(event_s=6.0) + times)
    assert result.delays.max_s == pytest.approx(3.02)
    scanned = by_hand(LINE.format(event_s=6.0) + '[service]\nkind = "linear"\nfactor = 1e6\n')
    assert scanned.delays.max_s == pytest.approx(0.02 + 3 * 0.343)  # one entry at each of three brokers
    measured = by_hand(LINE.format(event_s=6.0) + '[service]\nkind = "measured"\n')
    assert not measured.repeatable


def test_round_intervals() -> None:
    assert [round_interval(x) for x in (0.0, 0.3, 1.0, 1.2, 2.1, 7.0)] == [1.0, 0.5, 1.0, 2.0, 5.0, 10.0]


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    result = small("tour", settings=["title=costs $5 and $6"])
    draw([result], tmp_path / "one.png")
    draw([result, small("tour", strategy="simple")], tmp_path / "two.png")
    for name in ("one.png", "two.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
