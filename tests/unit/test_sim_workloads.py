"""Workloads: scripts in the order of time that refer to what is there, repeat themselves, and follow their seed."""

from __future__ import annotations

from itertools import islice

import pytest
from tests.hashing import said_under_hash_seeds
from tests.scripts import SMALL, digest, small, subscribed, written

from covey.core.filter import Filter
from covey.errors import ConfigError
from covey.sim import topology as topologies
from covey.sim.workload import WORKLOADS, build


def test_there_is_a_small_script_of_every_workload() -> None:
    assert list(SMALL) == list(WORKLOADS)


@pytest.mark.parametrize("kind", WORKLOADS)
def test_scripts_are_in_order_and_refer_to_what_is_there(kind: str) -> None:
    topology, _ = SMALL[kind]
    script = small(kind)
    now_s = 0.0
    used: set[str] = set()
    live: dict[str, set[str]] = {"subscribe": set(), "advertise": set()}
    place: dict[str, str] = {}
    for at_s, op, name, broker, what, _ in script:
        assert at_s >= now_s
        now_s = at_s
        if op in ("subscribe", "advertise"):
            assert name not in used
            assert isinstance(what, Filter)
            assert what.family == script.family
            used.add(name)
            live[op].add(name)
            place[name] = broker
        elif op in ("unsubscribe", "unadvertise"):
            live[op.removeprefix("un")].remove(name)
            assert broker == ""
        elif op == "move":
            assert name in live["subscribe"]
            assert place[name] != broker
            place[name] = broker
        else:
            assert name == ""
            assert what is not None
        assert broker == "" or broker in topology.neighbours
    assert live["advertise"]
    assert live["subscribe"]
    assert now_s >= list(script.phases.values())[-2]
    assert list(script.phases.values()) == sorted(script.phases.values())


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_script_can_be_read_again_and_follows_its_seed(kind: str) -> None:
    script = small(kind)
    first = [written(action) for action in script.actions]
    assert [written(action) for action in script.actions] == first
    assert [written(action) for action in small(kind)] == first
    assert [written(action) for action in small(kind, seed=4)] != first


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_script_knows_what_it_was_made_from(kind: str) -> None:
    script = small(kind)
    assert (script.name, script.seed) == (kind, 3)
    assert SMALL[kind][1].items() <= script.parameters.items()
    assert {"topology", "seed"}.isdisjoint(script.parameters)
    assert script.description
    assert "\n" not in script.description


@pytest.mark.parametrize("kind", WORKLOADS)
def test_every_event_is_within_an_advertisement_of_its_broker(kind: str) -> None:
    live: dict[str, tuple[str, Filter]] = {}
    for action in small(kind):
        if action.op == "advertise":
            live[action.name] = (action.broker, action.what)
        elif action.op == "unadvertise":
            del live[action.name]
        elif action.op == "publish":
            assert any(broker == action.broker and f.matches(action.what) for broker, f in live.values())


def test_scripts_do_not_depend_on_hashing() -> None:
    program = "from tests.scripts import digest; print(digest())"
    assert said_under_hash_seeds(program) == [f"{digest()}\n"] * 2


def test_more_events_leave_the_subscriptions_as_they_were() -> None:
    for kind in ("siena", "quotes", "ranges", "keywords", "xpath"):
        assert subscribed(small(kind)) == subscribed(small(kind, events=7))


def test_a_large_script_is_drawn_while_it_is_read() -> None:
    script = build("siena", topologies.line(3), 1, subscriptions=50_000_000, events=0)
    assert sum(1 for _ in islice(script, 2_500)) == 2_500


@pytest.mark.parametrize(
    ("kind", "parameters", "said"),
    [
        ("stocks", {}, "there is no workload 'stocks'; there are: quotes, quote-intervals, siena"),
        ("siena", {"size": 1}, "workload siena has no parameter 'size'; it has: subscriptions, churn, events"),
        ("siena", {"subscriptions": 1.5}, "workload siena: subscriptions must be an integer, not 1.5"),
        ("siena", {"subscriptions": 0}, "subscriptions must be from 1"),
        ("siena", {"skew": 3}, "skew must be from 0 to 2.0, not 3"),
        ("siena", {"event_interval_ms": float("nan")}, "event_interval_ms must be from 0"),
        ("siena", {"publishers": 0}, "publishers must be from 1"),
        ("ranges", {"placement": "normal"}, "placement must be one of 'uniform', 'exponential', not 'normal'"),
        ("quotes", {"locality": 0.2}, "locality must be from 0.33"),
        ("quotes", {"locality": "near"}, "locality must be a number or nothing, not 'near'"),
        ("quotes", {"symbols": 5}, "subscriptions must be from 1 to 5, not 10"),
        ("quotes", {"source": "nowhere"}, "source must be a broker of the topology, not 'nowhere'"),
        ("covering-burst", {"subscriptions": 100}, "more than 100"),
        ("covering-burst", {"roots": 1, "covered": 9_999, "subscriptions": 20_000}, "room for"),
        ("covering-burst", {"broad": 0}, "subscriptions are left and none is broad"),
        ("commuters", {"staying": 0.9}, "staying must be from 0 to 0.4"),
        ("commuters", {"part_s": 7_201.0}, "part_s must be from 0 to 7"),
        ("workflow", {"large_activities": 1_000}, "the number of activities must be from 1 to 200"),
        ("keywords", {"per": "node"}, "per must be one of 'keyword', 'broker', not 'node'"),
        ("xpath", {"dtd": "/nowhere.dtd"}, "'/nowhere.dtd' cannot be read"),
    ],
)  # fmt: skip
def test_bad_parameters_give_one_clear_line(kind: str, parameters: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        list(build(kind, topologies.rebeca(2), 1, **parameters))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_negative_seed_and_a_topology_without_what_is_needed_are_refused() -> None:
    with pytest.raises(ConfigError, match="seed must be at least 0"):
        build("siena", topologies.line(2), -1)
    with pytest.raises(ConfigError, match="locality needs a topology with subnets"):
        build("quotes", topologies.line(2), 1, locality=0.5)
    with pytest.raises(ConfigError, match="two brokers"):
        build("commuters", topologies.line(1), 1)
