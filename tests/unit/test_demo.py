"""The demonstration's parts: what it draws, how it judges, and that it notices what is wrong."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import covey
from covey import cli
from covey.client.admin import metrics_of, total
from covey.demo import acts, burst, findings, run
from covey.demo.burst import Sizes, Told
from covey.demo.crossings import OneTree, Planned, needed
from covey.demo.examples import examples
from covey.demo.findings import Example, Findings, Latency, Phase
from covey.demo.oracle import answered, differences
from covey.demo.pictures import poster, rates
from covey.demo.report import report
from covey.demo.scene import CITIES, LINKS, Scene
from covey.demo.traffic import STAMP, Record
from covey.planning.plan import Plan, PlannedTree
from covey.workloads.covering import VALUES

# -- the scene -----------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_scene() -> None:
    one, same, other = Scene(3, 200, 2), Scene(3, 200, 2), Scene(4, 200, 2)
    assert one.wishes == same.wishes != other.wishes
    assert [one.event(n) for n in range(50)] == [same.event(n) for n in range(50)]
    assert [one.event(n) for n in range(50)] != [other.event(n) for n in range(50)]


def test_the_scene_is_what_it_says() -> None:
    scene = Scene(1, 1000, 4)
    assert {wish.filter.family for wish in scene.wishes} == {"attributes", "keywords", "xpath"}
    assert len({wish.city for wish in scene.wishes}) == len(CITIES)
    assert {end for link in LINKS for end in link} == set(CITIES)
    assert len(LINKS) > len(CITIES), "there is something to plan"
    for number in range(200):
        city, content = scene.event(number)
        event = covey.Document.parse(content) if isinstance(content, str) else content
        assert any(filter.matches(event) for filter in scene.advertisements(city)), content


# -- the oracle ----------------------------------------------------------------------------------------------


def test_the_oracle_answers_as_each_filter_does() -> None:
    scene = Scene(1, 300, 2)
    lines = list(answered(scene, iter(["3\n", "40\n"])))
    assert len(lines) == 40
    for number, line in enumerate(lines):
        content = scene.event(number)[1]
        event = covey.Document.parse(content) if isinstance(content, str) else content
        assert [int(word) for word in line.split()] == [
            wish.number for wish in scene.wishes if wish.filter.matches(event)
        ]


def delivered(record: Record, event: int, subscription: int, content: Any) -> None:
    raw = content.encode() if isinstance(content, str) else b""
    record.taker(subscription)(
        SimpleNamespace(data=STAMP.pack(event, 0), content=content, raw_content=raw)  # type: ignore[arg-type]
    )


def test_a_record_is_compared_with_what_should_have_come() -> None:
    answers = [[1, 2], [], [2]]

    def record(*rows: tuple[int, int]) -> Record:
        made = Record()
        made.contents = [{"n": 0}, {"n": 1}, "<a/>"]
        for event, subscription in rows:
            delivered(made, event, subscription, made.contents[event])
        return made

    assert differences(record((0, 2), (0, 1), (2, 2)), answers) == []
    assert differences(record((0, 2), (2, 2)), answers) == ["event 0 did not reach subscription 1"]
    assert differences(record((0, 1), (0, 2), (2, 2), (1, 7)), answers) == [
        "event 1 reached subscription 7, which does not want it"
    ]
    assert differences(record((0, 1), (0, 2), (2, 2), (2, 2)), answers) == ["1 deliveries came again"]
    garbled = record((0, 1), (0, 2))
    delivered(garbled, 2, 2, "<b/>")
    assert differences(garbled, answers) == ["event 2 came to subscription 2 with other content"]
    stray = record((0, 1), (0, 2), (2, 2))
    delivered(stray, 9, 1, {})
    assert len(differences(stray, answers)) == 2, "an event that nobody published"


# -- crossings -----------------------------------------------------------------------------------------------

SQUARE = (("a", "b"), ("a", "d"), ("b", "c"), ("c", "d"))
ROW = OneTree([("a", "b"), ("b", "c"), ("c", "d")])
ANY = covey.parse("x > 0")
OTHER = covey.parse("x > 1")


def square(one_copy: str | None, **more: Any) -> Plan:
    trees = (
        PlannedTree("a", (("a", "b"), ("b", "c"), ("c", "d"))),
        PlannedTree("d", (("a", "b"), ("a", "d"), ("c", "d"))),
    )
    return Plan("mine", 1, tuple("abcd"), tuple((*link, 1.0) for link in SQUARE), trees, one_copy, **more)


def test_links_on_one_tree() -> None:
    assert ROW.links("a", [("d", ANY), ("b", ANY)]) == Counter([("a", "b"), ("b", "c"), ("c", "d")])
    assert ROW.links("b", [("b", ANY)]) == Counter()
    assert needed(ROW, ["a", "c"], [[("b", ANY)], [("a", ANY)]]) == {("a", "b"): 2, ("b", "c"): 1}


def test_the_only_copy_travels_on_the_tree_that_suits_it() -> None:
    ways = Planned(square("cheapest"))
    assert ways.links("a", [("d", ANY)]) == Counter([("a", "d")])
    assert ways.links("b", [("c", ANY), ("b", ANY)]) == Counter([("b", "c")])
    assert ways.links("b", []) == Counter()


def test_groups_travel_on_their_own_trees() -> None:
    ways = Planned(square(None, groups={("d", OTHER.encode()): 1}))
    assert ways.links("a", [("d", ANY), ("d", OTHER)]) == {
        ("a", "b"): 1,
        ("b", "c"): 1,
        ("c", "d"): 1,
        ("a", "d"): 1,
    }


# -- departures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [20, 60])
def test_intervals_cover_nearly_all_and_not_each_other(count: int) -> None:
    some = burst._intervals(np.random.default_rng(1), count)
    assert len({low for low, _ in some}) == count
    assert len({high - low for low, high in some}) == 1, "of equal length none covers another"
    covered = {value for low, high in some for value in range(low, high + 1)}
    assert len(covered) == pytest.approx(burst.COVERAGE * VALUES, abs=2)


def test_both_strategies_get_the_same_subscriptions_and_events() -> None:
    one, other = (burst.Departures(name, {}, Sizes(), 1) for name in burst.STRATEGIES)
    assert (one._roots, one._covered) == (other._roots, other._covered)
    assert [one._event(n)[1] for n in range(99)] == [other._event(n)[1] for n in range(99)]
    assert all(
        root.covers(filter)
        for _, filter in one._covered.values()
        for root in one._roots.values()
        if root.overlaps(filter)
    )


def test_what_roots_got_is_judged() -> None:
    roots = {0: covey.parse("x > 0")}
    left = Record()
    left.contents = [{"x": 1}, {"x": 2}, {"x": -1}, {"x": 3}]
    for event in (0, 1, 1, 2):
        left.events.append(event)
        left.subscriptions.append(0)
    assert burst._root_differences(left, roots, 2) == [
        "event 1 reached root 0 again",
        "event 2 reached root 0, which does not want it",
    ]
    del left.events[:1], left.subscriptions[:1]
    assert "event 0 did not reach root 0" in burst._root_differences(left, roots, 2)


# -- what is found -------------------------------------------------------------------------------------------


def a_plan() -> Plan:
    """Return a plan of the scene's overlay: two trees, each the first links that join all cities."""
    trees = []
    for root, links in (("london", LINKS), ("tokyo", LINKS[::-1])):
        reached, tree = {root}, []
        while len(reached) < len(CITIES):
            pair = next(pair for pair in links if len(reached.intersection(pair)) == 1)
            reached.update(pair)
            tree.append(pair)
        trees.append(PlannedTree(root, tuple(sorted(tree))))
    overlay = tuple((a, b, 1.0) for a, b in LINKS)
    return Plan("mult", 1, tuple(sorted(CITIES)), overlay, tuple(trees))


def found(**changes: Any) -> Findings:
    before = Phase(0, 100, 300, 300, 10, {("london", "newyork"): 300})
    after = Phase(120, 100, 200, 199, 20, {("london", "newyork"): 100, ("chicago", "newyork"): 100})
    bursts = {
        "covering": Told("covering", [(0.0, 0), (1.0, 500)], [0.5], 500, 9, 10, 20, 0, 30),
        "incremental": Told("incremental", [(0.0, 0), (1.0, 0)], [0.5], 0, 9, 10, 21, 1, 30),
    }
    made = Findings(1, 12, 20, 400, 12, frozenset({("a", "b")}), bursts=bursts, before=before, after=after)
    made.plan = a_plan()
    made.examples = [Example(0, "a", "<&>", (("b", "client 1", "x < 'y'"),))]
    made.points = [(float(n), 10 * n, 30 * n) for n in range(9)]
    made.latency = {"calm": Latency.of(3, [1.0, 2.0, 3.0]), "plan going in": Latency.of(0, [])}
    made.predicted_before, made.predicted_cost, made.deliveries = 3.0, 2.0, 7
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_savings_and_false_positives() -> None:
    made = found()
    assert made.failures() == []
    assert made.saving == made.predicted_saving == pytest.approx(1 / 3)
    assert made.after is not None
    assert made.after.false_positives == 1
    assert made.checked == 67
    assert json.loads(json.dumps(made.as_dict()))["ok"] is True


def test_latency_is_told_by_act(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = Record()
    record.events.extend([0, 1, 1, 2, 5, 4])
    record.delays_ms.extend([9.0, 1.0, 2.0, 3.0, 5.0, 4.0])
    assert record.delays_by_stage([1, 4, 5, 9]) == [[1.0, 2.0, 3.0], [4.0], [5.0], []]
    made = found()
    calm = made.latency["calm"]
    assert (calm.events, calm.deliveries, calm.p50_ms, calm.worst_ms) == (3, 3, 2.0, 3.0)
    assert calm.p99_ms == pytest.approx(2.98)
    assert json.loads(json.dumps(made.as_dict()))["latency"]["calm"]["p50_ms"] == 2.0
    assert '<td class="short">plan going in</td>' in report(made)
    monkeypatch.setattr(run, "play", lambda settings, keep, beside: made)
    assert cli.run(["demo", "--out", str(tmp_path / "r.html")]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "calm" in line]
    assert [line.split() for line in lines] == [["calm", "3", "3", "2.0", "3.0", "3.0"]]


def spoiled(name: str, **changes: Any) -> dict[str, Told]:
    made = found().bursts
    return {**made, name: replace(made[name], **changes)}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"wrong": ["event 1 did not reach subscription 2"]}, "1 deliveries were wrong: event 1 did not"),
        ({"bursts": spoiled("incremental", wrong=["x"])}, "1 deliveries under incremental were wrong"),
        ({"bursts": spoiled("incremental", messages=26)}, "a burst under incremental: 26 messages"),
        ({"bursts": spoiled("covering", messages=0)}, "no burst under covering"),
        ({"after": Phase(0, 100, 300, 300, 10, {("a", "b"): 300})}, "saved nothing"),
    ],
)
def test_what_is_not_as_promised_is_a_failure(
    changes: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = found(**changes)
    assert [said in line for line in made.failures()] == [True]
    monkeypatch.setattr(run, "play", lambda settings, keep, beside: made)
    assert cli.run(["demo", "--out", str(tmp_path / "r.html")]) == 1
    assert said.replace("'", "&#39;") in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_too_long_is_a_warning_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = found(total_s=findings.LIMIT_S + 1)
    monkeypatch.setattr(run, "play", lambda settings, keep, beside: made)
    assert cli.run(["demo", "--out", str(tmp_path / "r.html")]) == 0
    output = capsys.readouterr().out
    assert "longer than 180 s" in output
    assert "Every delivery was checked and right" in output
    assert cli.run(["demo", "--out", str(tmp_path / "none" / "r.html")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


# -- pictures ------------------------------------------------------------------------------------------------


def test_the_report_needs_nothing_else_and_escapes_texts() -> None:
    page = report(found())
    sources = re.findall(r'(?:src|href)\s*=\s*"([^"]*)"', page)
    assert len(sources) == 5
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    assert "&lt;&amp;&gt;" in page
    assert "x &lt; &#39;y&#39;" in page
    assert "prefers-color-scheme: dark" in page
    for source in sources:
        ElementTree.fromstring(b64decode(source.partition(",")[2]))


def test_the_picture_is_a_small_file() -> None:
    text = poster(found())
    ElementTree.fromstring(text)
    assert len(text) < 150_000


def test_rates_are_over_stretches() -> None:
    assert rates([(0.0, 0, 0), (1.0, 10, 30), (2.0, 20, 60), (4.0, 20, 60), (5.0, 40, 80)]) == [
        (1.0, 3.0),
        (3.5, 1.0),
    ]
    assert rates([]) == []


def test_metrics_are_read() -> None:
    text = '# HELP a b\na{link="x"} 3\na{link="y",name="z"} 4\nb 2.5\n'
    assert metrics_of(text) == {"a": {"x": 3.0, "y": 4.0}, "b": {"": 2.5}}
    assert total({"one": metrics_of(text), "other": metrics_of(text)}, "a") == 14


def test_links_are_counted_both_ways() -> None:
    look = {
        "a": metrics_of('covey_link_events_sent_total{link="b"} 3'),
        "b": metrics_of('covey_link_events_sent_total{link="a"} 4'),
    }
    assert acts._by_link(look) == {("a", "b"): 7}


def test_examples_are_events_that_arrived() -> None:
    scene, record = Scene(1, 3000, 2), Record()
    lines = answered(scene, iter(["200"]))
    for number, line in enumerate(lines):
        record.contents.append(scene.event(number)[1])
        for word in line.split():
            record.events.append(number)
            record.subscriptions.append(int(word))
    some = examples(scene, record)
    assert {type(record.contents[one.event]) for one in some} == {
        type(record.contents[number]) for number in set(record.events)
    }
    assert len(some) > 1
    for one in some:
        assert one.source == scene.event(one.event)[0]
        assert len(one.takers) == list(record.events).count(one.event) > 0
