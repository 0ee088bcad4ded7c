"""The advisor: replays against what filters and trees say, the choice, and how a sample is drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import covey
from covey.advisor import replay as replaying
from covey.advisor.advice import Tried, advise, candidates, change, choose, figures, headline
from covey.advisor.reading import hosted, read_plans, read_traffic
from covey.advisor.replay import Candidate, Measured, TooSlowError, WrongDeliveryError, attempt, replay
from covey.advisor.traffic import Placed, Published, Traffic, checked_links, sizes
from covey.datasets.generate import Request, generate
from covey.errors import ConfigError, PlanError
from covey.planning.plan import Plan, PlannedTree

LINKS = (("a", "b", 1.0), ("b", "c", 2.5), ("c", "d", 1.0), ("a", "d", 10.0))


def traffic(links: tuple[tuple[str, str, float], ...] = LINKS) -> Traffic:
    wants = [("c", "x > 5"), ("d", "x > 7"), ("a", "x < 3"), ("a", "x < 3"), ("d", "x > 100")]
    return Traffic(
        brokers=("a", "b", "c", "d"),
        links=links,
        subscriptions=[Placed(broker, covey.parse(text)) for broker, text in wants],
        advertisements=[Placed("a", covey.parse("x >= 0")), Placed("b", covey.parse("x >= 0"))],
        events=[Published("a", {"x": 1}), Published("a", {"x": 6}), Published("b", {"x": 8})],
    )


def test_costs_are_those_of_the_tree_by_hand() -> None:
    given = traffic()
    assert given.wanted == [[2, 3], [0], [0, 1]]
    # The tree is a–b–c–d: the link a–d costs ten.
    assert set(given.tree) == {("a", "b"), ("b", "c"), ("c", "d")}
    for told in (True, False):
        measured = replay(given, Candidate("covering", "covering", told))
        assert measured.cost == 0 + (1.0 + 2.5) + (2.5 + 1.0)
        assert (measured.forwarded, measured.false_positives, measured.delivered) == (4, 0, 5)
    # Without advertisements everyone knows of everyone's: a filter and its equal are one entry.
    assert replay(given, Candidate("identity", "identity", False)).entries == 4 * 3
    assert replay(given, Candidate("simple", "simple", False)).entries == 5 * 3
    flooded = replay(given, Candidate("flooding", "flooding", False))
    assert (flooded.cost, flooded.entries) == (3 * 4.5, 0)
    assert flooded.false_positives == 9 - 4


def test_every_strategy_delivers_the_same() -> None:
    results = {one.label: attempt(traffic(), one) for one in candidates({})}
    measured = [result for result in results.values() if isinstance(result, Measured)]
    assert len(results) == 2 * len(covey.strategies())
    assert {result.delivered for result in measured} == {5}
    assert len(measured) >= 2 * 12, {
        name: result for name, result in results.items() if isinstance(result, str)
    }


def plan(*trees: tuple[str, tuple[tuple[str, str], ...]], one_copy: str | None = None) -> Plan:
    given = traffic()
    encoded = {(one.broker, one.filter.encode()) for one in given.subscriptions}
    groups = {key: place % len(trees) for place, key in enumerate(sorted(encoded))}
    planned = tuple(PlannedTree(root, tuple(sorted(links))) for root, links in trees)
    return Plan("mine", 1, given.brokers, checked_links(LINKS), planned, one_copy, groups)


def test_a_plan_is_replayed_on_its_trees() -> None:
    chain = ("a", (("a", "b"), ("b", "c"), ("c", "d")))
    ring = ("d", (("a", "b"), ("a", "d"), ("c", "d")))
    single = replay(traffic(), Candidate("plan", "trees", False, plan(chain)))
    assert single.cost == 7.0
    both = replay(traffic(), Candidate("plan", "trees", False, plan(chain, ring)))
    assert both.delivered == 5
    assert both.cost > single.cost
    one_copy = plan(chain, ring, one_copy="nearest")
    assert one_copy.to_tree_plan().strategy == "regions"
    assert replay(traffic(), Candidate("plan", "regions", True, one_copy)).delivered == 5


def test_a_wrong_delivery_is_never_passed_over() -> None:
    given = traffic()
    given.wanted[1].append(4)  # somebody else should have got it, so what is delivered is too little
    with pytest.raises(WrongDeliveryError, match="delivered 5 events and not the 6"):
        attempt(given, Candidate("covering", "covering", True))
    given = traffic()
    given.wanted[1][0] = 1  # as many as wanted, but another one
    with pytest.raises(WrongDeliveryError):
        attempt(given, Candidate("covering", "covering", True))


def test_a_replay_ends() -> None:
    with pytest.raises(TooSlowError, match="stopped after 0 s"):
        replay(traffic(), Candidate("simple", "simple", True), limit_s=0.0)


def test_what_cannot_run_says_why() -> None:
    chain = plan(("a", (("a", "b"), ("b", "c"), ("c", "d"))))
    problem = attempt(traffic(), Candidate("covering", "covering", True, chain))
    assert problem == "the strategy covering has no use for a plan of trees"


def tried(name: str, cost: float, entries: int, control: int) -> Tried:
    measured = Measured(cost, 0, 0, entries, 0, control, 0, 0.0)
    return Tried(Candidate(name, name, True), measured)


def test_traffic_decides_then_tables_then_control_messages() -> None:
    cheap = tried("cheap", 100, 1_000, 50)
    assert choose([tried("small", 110, 10, 50), cheap, Tried(cheap.candidate, None, "cannot")]) is cheap
    small = tried("small", 101.9, 900, 60)
    assert choose([cheap, small]) is small
    quiet = tried("quiet", 101.9, 910, 40)
    assert choose([cheap, small, quiet]) is quiet
    assert choose([tried("first", 1, 1, 1), tried("second", 1, 1, 1)]).candidate.name == "first"
    assert change(90, 100) == "10% less"
    assert change(3, 2) == "50% more"
    assert (change(5, 5), change(5, 0), change(1000, 1001)) == (
        "no difference",
        "5 instead of none",
        "almost no change",
    )


def a_try(name: str, cost: float, entries: int, control: int, planned: bool = False) -> Tried:
    measured = Measured(cost, 1, 0, entries, 1, control, 1, 0.0)
    return Tried(Candidate(name, name, True, plan(CHAIN) if planned else None), measured)


CHAIN = ("a", (("a", "b"), ("b", "c"), ("c", "d")))
NOW = a_try("covering", 128.0, 100, 100)


@pytest.mark.parametrize(
    ("best", "words"),
    [
        ((100.0, 100, 76), "22% less traffic for the same routing tables: use the plan `regions` with"),
        ((100.0, 120, 76), "22% less traffic for 20% larger routing tables: use"),
        ((100.0, 80, 176), "22% less traffic and 20% smaller routing tables: use"),
        ((129.9, 50, 76), "50% smaller routing tables for 1% more traffic: use"),
        (
            (128.0, 100, 76),
            "24% fewer control messages for the same traffic and the same routing tables: use",
        ),
        ((127.9, 100, 100), "Almost nothing is gained by the plan `regions` with advertisements instead of"),
    ],
)
def test_the_headline_begins_with_what_is_gained(best: tuple[float, int, int], words: str) -> None:
    said = headline(a_try("plan regions", *best, planned=True), NOW)
    assert said.startswith(words), said
    assert said.endswith("instead of `covering` with advertisements.")


def test_the_figures_are_a_sentence_with_one_and_with_many() -> None:
    assert figures(a_try("x", 100.0, 1, 1), NOW, 100) == (
        "In the replay an event costs 1.00 on average instead of 1.28, all routing tables together have 1 entry (99%"
        " fewer), and 1 control message sets them up (99% fewer)."
    )
    assert figures(NOW, NOW, 100) == (
        "In the replay an event costs 1.28 on average, all routing tables together have 100 entries, and 100 control"
        " messages set them up."
    )
    cannot = replace(NOW, measured=None, problem="it took too long")
    assert headline(a_try("x", 1.0, 1, 1), cannot) == (
        "Use `x` with advertisements: `covering` with advertisements, which runs now, cannot run here (it took too"
        " long)."
    )


def test_what_runs_now_stays_where_nothing_is_gained() -> None:
    advice = advise(traffic(), {}, now="covering-lazy", only=("covering", "simple"))
    best = advice.best.measured
    assert best is not None
    names = [one.candidate.name for one in advice.tried if one.measured and one.measured.as_good(best)]
    assert names == ["covering", "covering-lazy"]
    assert advice.best is advice.now
    assert advice.headline == (
        "Stay with `covering-lazy` with advertisements: nothing that was replayed does better."
    )


def test_advice_names_one_and_says_why() -> None:
    chain = plan(("a", (("a", "b"), ("b", "c"), ("c", "d"))))
    seen = []
    advice = advise(
        traffic(),
        {"single": chain},
        now="simple",
        only=("flooding", "merging"),
        on_candidate=lambda candidate, number, count: seen.append((candidate.label, number, count)),
    )
    assert [number for _, number, _ in seen] == list(range(1, 9))
    assert advice.now.candidate.label == "simple with advertisements"
    assert advice.best.candidate.name in ("merging", "plan single")
    assert advice.best.candidate.phrase in advice.headline
    assert advice.as_dict()["sentence"] == advice.sentence == f"{advice.headline} {advice.figures}"
    assert any("cycles" in note for note in advice.notes)
    told = advice.as_dict()
    assert told == advise(traffic(), {"single": chain}, now="simple", only=("flooding", "merging")).as_dict()
    assert len(told["tried"]) == 8
    with pytest.raises(ConfigError, match="no strategy 'nope'"):
        advise(traffic(), {}, now="nope")


def test_the_planned_tree_is_the_one_that_strategies_run_on() -> None:
    detour = plan(("a", (("a", "b"), ("a", "d"), ("c", "d"))))
    advice = advise(traffic(), {"single": detour}, only=())
    costs = {one.measured.cost for one in advice.tried if one.measured}
    assert costs == {(10 + 1) + (1 + 10 + 1)}


# -- reading -------------------------------------------------------------------------------------------------


def write(directory: Path, name: str, rows: list[dict[str, Any]]) -> None:
    (directory / name).mkdir(parents=True)
    parquet.write_table(pa.Table.from_pylist(rows), directory / name / "part.parquet")


def test_a_sample_depends_on_names_and_seed_alone(tmp_path: Path) -> None:
    generate(Request("ranges", tmp_path, brokers=30, subscriptions=2_000, events=3_000, deliveries=0))
    assert sizes(30) == (166, 1_000)
    one, again, other = (read_traffic(tmp_path, seed) for seed in (1, 1, 2))
    assert one.subscriptions == again.subscriptions
    assert one.events == again.events
    assert len(one.subscriptions) == 166
    assert len(one.events) == 1_000
    assert len(one.brokers) == 30
    assert one.totals == {"subscriptions": 2_000, "events": 3_000, "advertisements": 30}
    assert other.subscriptions != one.subscriptions
    # Written in another order, the same rows are taken.
    table = parquet.read_table(tmp_path / "subscriptions")
    turned = table.take(pa.array(range(table.num_rows))[::-1])
    (tmp_path / "subscriptions" / "part-00000.parquet").unlink()
    parquet.write_table(turned, tmp_path / "subscriptions" / "part-00000.parquet")
    assert read_traffic(tmp_path, 1).subscriptions == one.subscriptions


def test_what_was_set_aside_is_not_replayed(tmp_path: Path) -> None:
    write(
        tmp_path,
        "judged-topology",
        [
            {"a": "b", "b": "a", "cost": 2.0, "reason": None},
            {"a": "a", "b": "b", "cost": None, "reason": None},
            {"a": "a", "b": "z", "cost": 1.0, "reason": "bad"},
        ],
    )
    row = {"language": "attributes", "filter": "x > 1", "reason": None}
    names = ("good", "stray", "broken", "refused")
    subscriptions = [{**row, "subscription": name, "broker": "a"} for name in names]
    subscriptions[1]["broker"] = "z"
    subscriptions[2]["filter"] = "x >"
    subscriptions[3]["reason"] = "there twice"
    write(tmp_path, "judged-subscriptions", subscriptions)
    event = {"broker": "b", "language": "attributes", "reason": None}
    texts = ['{"x": 2}', "[1]", "nonsense", '{"x": NaN}']
    events = [{**event, "event": f"e{place}", "content": text} for place, text in enumerate(texts)]
    events.append({**event, "event": "k", "language": "keywords", "content": '["a", "b"]'})
    write(tmp_path, "judged-events", events)
    found = read_traffic(tmp_path)
    assert found.links == (("a", "b", 1.0),)
    assert [(one.broker, str(one.filter)) for one in found.subscriptions] == [("a", "x > 1")]
    assert sorted(str(one.content) for one in found.events) == sorted(
        [str({"x": 2}), str(frozenset(["a", "b"]))]
    )
    assert [(one.broker, one.filter.family) for one in found.advertisements] == [
        ("b", "attributes"),
        ("b", "keywords"),
    ]
    assert any("no table of advertisements" in note for note in found.notes)


def test_fresh_events_are_taken_where_there_are_enough(tmp_path: Path) -> None:
    generate(Request("ranges", tmp_path, brokers=12, subscriptions=50, events=200))
    parts = [{"event": f"e{place}", "part": "fresh" if place < 30 else "training"} for place in range(200)]
    write(tmp_path, "documents", parts)
    found = read_traffic(tmp_path)
    assert len(found.events) == 30
    assert any("Nothing was fitted" in note for note in found.notes)


def test_plans_of_all_alternatives_are_read(tmp_path: Path) -> None:
    chain, ring = (("a", "b"), ("b", "c"), ("c", "d")), (("a", "b"), ("a", "d"), ("c", "d"))
    chosen = plan(("a", chain))
    ends = [(a, b) for a, b, _ in chosen.links]
    interests = sorted(chosen.groups)
    write(
        tmp_path,
        "interests",
        [
            {"interest": place, "broker": broker, "encoded": encoded, "subscriptions": place + 1}
            for place, (broker, encoded) in enumerate(interests)
        ],
    )
    rules = {
        "mine": "groups",
        "regions": "nearest",
        "flooding": "flooding",
        "spt": "groups",
        "two": "groups",
        "cut": "cheapest",
    }
    write(
        tmp_path,
        "groups",
        [
            {"alternative": name, "interest": place, "group": place % 2 if name == "two" else 0, "rule": rule}
            for name, rule in rules.items()
            for place in range(len(interests))
        ],
    )
    write(
        tmp_path,
        "trees",
        [
            {
                "alternative": name,
                "group": group,
                "root": "d",
                "links": bytes([sum(1 << ends.index(link) for link in links)]),
            }
            for name in rules
            for group, links in enumerate((chain, ring) if name in ("two", "regions", "cut") else (chain,))
        ],
    )
    plans = read_plans(tmp_path, chosen)
    assert list(plans) == ["mine", "cut", "regions", "two"]
    assert plans["cut"].one_copy == "cheapest"
    assert plans["mine"] is chosen
    assert plans["regions"].one_copy == "nearest"
    assert [tree.links for tree in plans["two"].trees] == [chain, ring]
    assert plans["two"].groups == {key: place % 2 for place, key in enumerate(interests)}
    assert read_plans(tmp_path, chosen, interests[:1])["two"].groups == {interests[0]: 0}
    assert sum(hosted(tmp_path, chosen).values()) == sum(range(1, len(interests) + 1))
    assert read_plans(tmp_path / "nowhere", chosen) == {"mine": chosen}
    assert sum(hosted(tmp_path / "nowhere", chosen).values()) == len(interests)


def test_an_overlay_in_parts_is_refused() -> None:
    with pytest.raises(PlanError, match="not connected"):
        checked_links([("a", "b", 1.0), ("c", "d", 1.0)])
    with pytest.raises(PlanError, match="no link"):
        checked_links([])
    assert checked_links([("b", "a", 3.0), ("a", "b", 2.0)]) == (("a", "b", 2.0),)
    assert replace(traffic(), links=LINKS[:3]).is_tree
    assert replaying.fingerprint([(1, 2), (3, 4)]) == replaying.fingerprint([(3, 4), (1, 2)])
    assert replaying.fingerprint([(1, 2), (1, 2)]) != replaying.fingerprint([(1, 2), (2, 1)])
