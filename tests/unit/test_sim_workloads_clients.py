"""Workloads whose clients come, go and move as published: commuters and workflows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.scripts import small, subscribed

from covey.core.filter import Filter
from covey.sim import topology as topologies
from covey.sim.workload import Action, build
from covey.workloads.processes import Flow, draw_flow

# --- commuters ---


def test_commuters_move_once_a_rush_and_return() -> None:
    """Chen et al., section V.B: 60% commute, 20% stay, 20% move at random."""
    script = small("commuters")
    home = {action.name: action.broker for action in script if action.op == "subscribe"}
    moves: dict[str, list[Action]] = {}
    for action in script:
        if action.op == "move":
            moves.setdefault(action.name, []).append(action)
    commuting, staying, wandering = (
        [f"s{i}" for i in part] for part in (range(120), range(120, 160), range(160, 200))
    )
    middle_s = script.phases["rush"] + 600
    for name in commuting:
        there, back = moves[name]
        assert there.at_s < middle_s <= back.at_s
        assert back.broker == home[name] != there.broker
    assert not any(name in moves for name in staying)
    assert sum(name in moves for name in wandering) > 15
    assert set(home.values()) == set(topologies.star().role("edge"))


def test_part_of_a_rush_is_its_beginning() -> None:
    """The same actions at the same times as in the whole, up to that moment."""
    whole, part = small("commuters"), small("commuters", part_s=200.0)
    end_s = whole.phases["rush"] + 200
    assert list(part) == [action for action in whole if action.at_s < end_s]
    assert {"move", "publish"} <= {action.op for action in part}
    assert part.phases == {**whole.phases, "end": end_s + 10}
    assert small("commuters", part_s=1_200.0).phases == whole.phases


def test_publishers_pause_as_long_as_they_should() -> None:
    script = small("commuters")
    times: dict[str, list[float]] = {}
    for action in script:
        if action.op == "publish":
            times.setdefault(action.client, []).append(action.at_s)
    assert len(times) == 4
    pauses = np.concatenate([np.diff(of_one) for of_one in times.values()])
    assert pauses.min() >= 1
    assert pauses.max() <= 15
    assert 7 < pauses.mean() < 9


def test_wanderers_mostly_go_to_neighbouring_cells() -> None:
    script = small("commuters", commuting=0.0, staying=0.0, wander_interval_s=60.0)
    cells = topologies.star().role("edge")
    now: dict[str, int] = {}
    steps: Counter[int] = Counter()
    for action in script:
        if action.op == "subscribe":
            now[action.name] = cells.index(action.broker)
        elif action.op == "move":
            old, new = now[action.name], cells.index(action.broker)
            steps[max(abs(old // 4 - new // 4), abs(old % 4 - new % 4))] += 1
            now[action.name] = new
    assert set(steps) <= {1, 2, 3}
    assert steps[1] > 2 * steps[2] > 4 * steps[3]


# --- workflow ---


def test_flows_wait_for_what_comes_before() -> None:
    generator = np.random.default_rng(1)
    for size in (1, 3, 10, 26):
        flow = draw_flow(generator, size, parallel=0.4, loop=0.3)
        listens = flow.listens()
        assert list(listens) == list(range(size))
        runs = flow.unrolled(generator)
        assert {run.activity for run in runs} == set(range(size))
        for place, run in enumerate(runs):
            assert all(earlier < place for earlier in run.after)
            assert {runs[earlier].activity for earlier in run.after} <= set(listens[run.activity])


def test_a_loop_listens_to_its_end() -> None:
    a, b, c = (Flow(activity=i) for i in range(3))
    flow = Flow(parts=(Flow(parts=(a, b), rounds=2), c))
    assert flow.listens() == {0: (1,), 1: (0,), 2: (1,)}
    side = Flow(parts=(Flow(parts=(a, b), parallel=True), c))
    assert side.listens() == {0: (), 1: (), 2: (0, 1)}
    assert side.first == (0, 1)


def test_engines_are_where_the_class_of_a_process_allows() -> None:
    """Chen et al., section V.C: one engine, engines of one domain, engines anywhere."""
    domains = topologies.domains()
    script = build("workflow", domains, 2, duration_s=70.0)
    used: dict[str, set[str]] = {}
    activities: dict[str, set[int]] = {}
    for action in script:
        if action.op == "publish" and action.what["kind"] == "status":
            used.setdefault(action.what["process"], set()).add(action.broker)
            activities.setdefault(action.what["process"], set()).add(action.what["activity"])
    assert len(used) == 200
    engines = set(domains.role("engines"))
    assert all(brokers <= engines for brokers in used.values())
    sizes = Counter(len(of_one) for of_one in activities.values())
    assert sizes == {3: 80, 10: 80, 26: 40}
    for process, brokers in used.items():
        heads = {broker[:2] for broker in brokers}
        assert len(activities[process]) > 3 or len(brokers) == 1
        assert len(activities[process]) > 10 or len(heads) == 1


def test_monitors_stay_and_administrators_come_back() -> None:
    script = build("workflow", topologies.domains(), 2, small=20, medium=0, large=0, duration_s=1_800.0)
    filters = subscribed(script)
    ended = {action.name: action.at_s for action in script if action.op == "unsubscribe"}
    begun = {action.name: action.at_s for action in script if action.op == "subscribe"}
    monitors = [name for name in filters if name.startswith("monitor")]
    assert len(monitors) == 6
    assert not any(name in ended for name in monitors)
    visits = [name for name in filters if name.startswith("administrator")]
    assert len(visits) == 4 * 3
    assert all(ended[name] - begun[name] == pytest.approx(60) for name in visits)
    assert all(
        begun[f"administrator0.{i + 1}"] - begun[f"administrator0.{i}"] == pytest.approx(600) for i in (0, 1)
    )
    triggers = [f for name, f in filters.items() if "trigger" in name]
    assert all(filters[visits[0]].covers(f) for f in triggers)
    process = monitors[0].removeprefix("monitor-")
    instances = [f for name, f in filters.items() if name.startswith(f"{process}.") and "<" in name]
    assert instances
    assert all(filters[monitors[0]].covers(f) for f in instances)


def test_activities_hear_those_before_them() -> None:
    """An event of an activity is published while those that wait for it are subscribed."""
    live: dict[str, Filter] = {}
    heard = missed = 0
    for action in small("workflow"):
        if action.op == "subscribe":
            live[action.name] = action.what
        elif action.op == "unsubscribe":
            del live[action.name]
        elif action.op == "publish":
            prefix = f"{action.what['process']}.{action.what['instance']}."
            waiting = [f for name, f in live.items() if name.startswith(prefix)]
            hits = sum(f.matches(action.what) for f in waiting)
            heard += hits > 0
            missed += hits == 0
    # Triggers and the last activities of an instance have nobody in it that waits for them.
    assert heard > missed
