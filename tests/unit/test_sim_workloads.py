"""Workloads: scripts in the order of time that refer to what is there, repeat themselves, and are as published."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import islice
from typing import Any

import numpy as np
import pytest
from tests.hashing import said_under_hash_seeds

from covey.core.attributes.filter import AttributeFilter
from covey.core.filter import Filter
from covey.core.xpath.document import Document
from covey.errors import ConfigError
from covey.sim import topology as topologies
from covey.sim.topology import Topology
from covey.sim.workload import WORKLOADS, Action, Script, build
from covey.sim.workload.keywords import nearest_brokers
from covey.workloads.attributes import DOMAIN
from covey.workloads.covering import VALUES
from covey.workloads.processes import Flow, draw_flow

REBECA = topologies.rebeca(3)

SMALL: dict[str, tuple[Topology, dict[str, Any]]] = {
    "quotes": (REBECA, {"consumers": 3, "toggles": 40, "events": 50, "locality": 0.5}),
    "quote-intervals": (REBECA, {"consumers": 3, "toggles": 40, "events": 50}),
    "siena": (topologies.random_tree(12, 1), {"subscriptions": 150, "churn": 60, "events": 80}),
    "siena-3": (topologies.line(4), {"subscriptions": 50, "churn": 20, "events": 40, "publishers": 3}),
    "ranges": (topologies.star(5), {"subscriptions": 80, "churn": 30, "events": 60, "locality": 0.5}),
    "covering-burst": (
        topologies.core_edge(),
        {"subscriptions": 900, "roots": 4, "covered": 50, "broad": 3, "events_before": 30, "events_after": 40},
    ),
    "workflow": (
        topologies.domains(),
        {"small": 6, "medium": 5, "large": 3, "duration_s": 200.0, "administrate_every_s": 60.0,
         "administrate_for_s": 20.0},
    ),
    "commuters": (topologies.star(), {"subscribers": 200, "publishers": 4, "rush_s": 600.0, "rushes": 2}),
    "keywords": (
        topologies.transit_stub(60, 1, extra=0.5),
        {"keywords": 60, "nearest": 0.1, "events": 80, "publishers": 5, "skew": 0.5},
    ),
    "xpath": (
        topologies.xroute64(1),
        {"subscriptions": 60, "churn": 20, "events": 5, "parsed": False},
    ),
}  # fmt: skip


def small(kind: str, seed: int = 3, **parameters: Any) -> Script:
    topology, usual = SMALL[kind]
    return build(kind, topology, seed, **{**usual, **parameters})


def written(action: Action) -> str:
    """Return an action as text that does not depend on the order of sets."""
    what = sorted(action.what) if isinstance(action.what, frozenset) else str(action.what)
    return f"{action._replace(what=None)!r} {what}"


def digest() -> str:
    """Return a digest of all small scripts, for the comparison between processes."""
    text = "\n".join(written(action) for kind in SMALL for action in small(kind))
    return hashlib.sha256(text.encode()).hexdigest()


def subscribed(script: Script) -> dict[str, Filter]:
    return {action.name: action.what for action in script if action.op == "subscribe"}


def phase_of(script: Script, at_s: float) -> str:
    return [name for name, start_s in script.phases.items() if start_s <= at_s][-1]


def by_phase(script: Script) -> Counter[tuple[str, str]]:
    return Counter((phase_of(script, action.at_s), action.op) for action in script)


def published(script: Script, phase: str) -> list[Action]:
    return [a for a in script if a.op == "publish" and phase_of(script, a.at_s) == phase]


# --- what holds for all ---


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
    program = "from tests.unit.test_sim_workloads import digest; print(digest())"
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


# --- quotes ---


def test_consumers_have_distinct_quotes_and_are_spread_evenly() -> None:
    """Mühl et al., section 2: consumers are equally distributed, each has 10 random but distinct subscriptions."""
    script = build("quotes", REBECA, 1, consumers=4)
    arrivals = [action for action in script if action.op == "subscribe"]
    assert len(arrivals) == 22 * 4 * 10
    assert set(Counter(action.broker for action in arrivals).values()) == {40}
    wanted: dict[str, set[Filter]] = {}
    for action in arrivals:
        wanted.setdefault(action.client, set()).add(action.what)
    assert {len(filters) for filters in wanted.values()} == {10}
    assert [action.broker for action in script if action.op == "advertise"] == ["r1"]


def test_toggling_keeps_about_half_active_and_brings_back_the_same_filters() -> None:
    script = small("quotes", toggles=300, events=0, locality=None)
    counts = by_phase(script)
    everybody = 22 * 3
    assert counts["subscribe", "subscribe"] == everybody * 10
    assert counts["halve", "unsubscribe"] == everybody // 2 * 10
    assert counts["toggle", "subscribe"] + counts["toggle", "unsubscribe"] == 3_000
    assert abs(counts["toggle", "subscribe"] - counts["toggle", "unsubscribe"]) < 500
    filters: dict[str, set[Filter]] = {}
    for name, filter in subscribed(script).items():
        filters.setdefault(name.rpartition(".")[0], set()).add(filter)
    assert {len(same) for same in filters.values()} == {1}
    halved = small("quotes", toggles=300, active=0.5, locality=None)
    assert by_phase(halved)["subscribe", "subscribe"] == everybody // 2 * 10
    assert by_phase(halved)["halve", "unsubscribe"] == 0


@pytest.mark.parametrize(("locality", "shared"), [(1 / 3, 0), (2 / 3, 30), (1.0, 90)])
def test_locality_says_what_subnets_have_in_common(locality: float, shared: int) -> None:
    """Mühl et al., section 5: interests are disjoint for d = 1/3 and identical for d = 1."""
    script = build("quotes", REBECA, 1, consumers=60, symbols=90, locality=locality)
    wanted: list[set[Filter]] = [set(), set(), set()]
    subnets = [set(REBECA.role(f"subnet-{i}")) for i in (1, 2, 3)]
    for action in script:
        if action.op == "subscribe":
            (subnet,) = (i for i in range(3) if action.broker in subnets[i])
            wanted[subnet].add(action.what)
    assert [len(filters) for filters in wanted] == [round(locality * 90)] * 3
    assert len(wanted[0] & wanted[1]) == len(wanted[1] & wanted[2]) == shared
    assert len(wanted[0] | wanted[1] | wanted[2]) == 90


def test_intervals_lie_around_the_mean_price_and_skew_favours_the_first_symbols() -> None:
    script = small("quote-intervals", skew=1.0, consumers=20)
    filters = list(subscribed(script).values())
    middle = [
        f.matches({"symbol": str(f).partition("'")[2].partition("'")[0], "price": 50.0}) for f in filters
    ]
    assert all(middle)
    assert not any(f.matches({"symbol": "S000", "price": -0.1}) for f in filters)
    first = sum("'S000'" in str(f) for f in filters)
    last = sum("'S900'" in str(f) for f in filters)
    assert first > 20 * (last + 1)


# --- populations ---


def test_siena_3_has_no_broad_filter() -> None:
    def sizes(kind: str) -> set[int]:
        filters = subscribed(small(kind, subscriptions=300)).values()
        return {len(f.conjunctions[0].constraints) for f in filters if isinstance(f, AttributeFilter)}

    assert sizes("siena-3") == set(range(3, 11))
    assert sizes("siena") == set(range(1, 11))


def test_churn_replaces_one_subscription_at_a_time() -> None:
    counts = by_phase(small("siena"))
    assert counts["subscribe", "subscribe"] == 150
    assert counts["run", "subscribe"] == counts["run", "unsubscribe"] == 60
    assert counts["run", "publish"] == 80


def test_ranges_are_placed_as_asked() -> None:
    def share_below(placement: str) -> float:
        script = small("ranges", subscriptions=1_000, churn=0, placement=placement, locality=0.0)
        starts = [float(str(f).split()[2]) / DOMAIN for f in subscribed(script).values()]
        return sum(start < 0.15 for start in starts) / len(starts)

    assert 0.11 < share_below("uniform") < 0.19
    assert 0.59 < share_below("exponential") < 0.68
    script = small("ranges", subscriptions=400, churn=0, locality=1.0)
    hosts = topologies.star(5).role("edge")
    for action in script:
        if action.op == "subscribe":
            start = float(str(action.what).split()[2]) / DOMAIN
            assert int(start * 4) == hosts.index(action.broker)


def test_patterns_differ_unless_told_and_documents_can_be_parsed() -> None:
    script = small("xpath", subscriptions=300, churn=0, parsed=True)
    assert len(set(subscribed(script).values())) == 300
    assert all(isinstance(action.what, Document) for action in script if action.op == "publish")
    repeated = small("xpath", subscriptions=300, churn=0, unique=False, height=2)
    assert len(set(subscribed(repeated).values())) < 300
    with pytest.raises(ConfigError, match="different patterns"):
        list(small("xpath", height=1, wildcard=0.0))


# --- the covering burst ---


@pytest.fixture(scope="module")
def burst() -> Script:
    return build("covering-burst", topologies.core_edge(), 5, subscriptions=8_000)


def test_the_burst_has_the_published_numbers(burst: Script) -> None:
    """Chen et al., section V.A: roots leave one every 0.5 s while an event is published every 10 ms."""
    counts = by_phase(burst)
    assert counts["subscribe", "subscribe"] == 8_000
    assert counts["before", "publish"] == 20 * 300
    assert counts["unsubscribe", "unsubscribe"] == 20
    assert counts["unsubscribe", "publish"] == 20 * 50
    assert counts["after", "publish"] == 1_000
    leaving = [action.at_s for action in burst if action.op == "unsubscribe"]
    assert np.allclose(np.diff(leaving), 0.5)
    full = build("covering-burst", topologies.core_edge(), 5)
    assert full.parameters["subscriptions"] == 80_000
    assert "20 roots with 955 covered" in full.description


def test_each_root_covers_its_own_and_those_do_not_cover_each_other(burst: Script) -> None:
    filters = subscribed(burst)
    roots = [name for name in filters if name.startswith("root") and "." not in name]
    assert len(roots) == 20
    for root in roots:
        covered = [f for name, f in filters.items() if name.startswith(f"{root}.")]
        assert len(covered) == 96
        assert all(filters[root].covers(f) and not f.covers(filters[root]) for f in covered)
        assert not any(f.covers(g) for f in covered for g in covered if f is not g)
        matched = [any(f.matches({"topic": root, "value": v}) for f in covered) for v in range(0, VALUES, 50)]
        assert 0.91 <= sum(matched) / len(matched) <= 1.0
    assert not any(filters[a].overlaps(filters[b]) for a in roots for b in roots if a != b)


def test_all_others_are_covered_at_their_broker_by_broad_ones_that_stay(burst: Script) -> None:
    place = {action.name: action.broker for action in burst if action.op == "subscribe"}
    gone = {action.name for action in burst if action.op == "unsubscribe"}
    filters = subscribed(burst)
    broad = [name for name in filters if name.startswith("broad")]
    assert Counter(place[name] for name in broad) == dict.fromkeys(
        topologies.core_edge().role("subscribers"), 50
    )
    assert gone == {f"root{number}" for number in range(20)}
    others = [name for name in filters if name.startswith("other")]
    assert len(others) == 8_000 - 20 * 97 - 30 * 50
    topics = {str(filters[name]).split("'")[1]: name for name in broad}
    for name in others:
        coverer = topics[str(filters[name]).split("'")[1]]
        assert place[coverer] == place[name]
        assert filters[coverer].covers(filters[name])


def test_roots_come_anywhere_in_the_order_and_events_are_even(burst: Script) -> None:
    arrivals = [action.name for action in burst if action.op == "subscribe"]
    places = sorted(arrivals.index(f"root{number}") for number in range(20))
    assert places[0] < 2_000
    assert places[-1] > 6_000
    before = published(burst, "before")
    assert set(Counter(a.what["topic"] for a in before).values()) == {300}
    assert set(Counter((a.what["topic"], a.broker) for a in before).values()) == {100}
    tenths = Counter(a.what["value"] * 10 // VALUES for a in before)
    assert set(tenths) == set(range(10))
    # Chi-squared with 9 degrees of freedom stays below 27.9 in 999 of 1,000 cases.
    assert sum((count - 600) ** 2 / 600 for count in tenths.values()) < 27.9
    later = Counter(a.what["topic"] for a in published(burst, "unsubscribe") + published(burst, "after"))
    assert len(later) == 20
    assert sum((count - 100) ** 2 / 100 for count in later.values()) < 43.8


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


# --- keywords ---


def test_keywords_are_asked_for_in_a_neighbourhood() -> None:
    """Majumder et al., section VII: at most 10 brokers, of the nearest x% around a random one, ask for a keyword."""
    graph = topologies.transit_stub(500, 3, extra=0.5)
    script = build("keywords", graph, 1, keywords=40, nearest=0.02, events=0)
    hosts: dict[Filter, list[str]] = {}
    for action in script:
        if action.op == "subscribe":
            hosts.setdefault(action.what, []).append(action.broker)
    assert len(hosts) == 40
    assert {len(brokers) for brokers in hosts.values()} == {10}
    reach = [
        min(max(graph.distances(root)[b] for b in brokers) for root in brokers) for brokers in hosts.values()
    ]
    assert max(reach) <= 4


def test_nearest_brokers_are_no_farther_than_any_other() -> None:
    graph = topologies.transit_stub(80, 3)
    generator = np.random.default_rng(1)
    hops = graph.distances("t1.1")
    found = nearest_brokers(graph, "t1.1", 20, generator)
    assert len(set(found)) == 20
    assert max(hops[b] for b in found) <= min(hops[b] for b in graph.brokers if b not in found)
    assert len(nearest_brokers(graph, "t1.1", 200, generator)) == 80
    assert nearest_brokers(graph, "t1.1", 3, generator, among={"s5.1"}) == ["s5.1"]


def test_documents_have_words_that_somebody_asks_for() -> None:
    script = small("keywords", words=4, near=2)
    filters = list(subscribed(script).values())
    documents = [action.what for action in script if action.op == "publish"]
    assert {len(document) for document in documents} <= {1, 2, 3, 4}
    assert all(any(f.matches(document) for f in filters) for document in documents)


def test_a_broker_can_ask_for_all_its_keywords_at_once() -> None:
    apart = small("keywords", keywords=400, nearest=1.0)
    together = small("keywords", keywords=400, nearest=1.0, per="broker")
    words: dict[str, set[str]] = {}
    for script in (apart, together):
        asked: dict[str, set[str]] = {}
        for action in script:
            if action.op == "subscribe":
                asked.setdefault(action.broker, set()).update(str(action.what).split(" or "))
        words = words or asked
        assert asked == words
    assert len(subscribed(apart)) == 4_000
    assert 60 <= len(subscribed(together)) <= 120
