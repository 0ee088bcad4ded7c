"""The report: one page that needs nothing from outside, in which names from strangers' files are only names."""

from __future__ import annotations

import math
import re
from base64 import b64decode
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

from markupsafe import Markup
from tests.unit.test_advisor_pictures import assert_follows

import covey
from covey.advisor.advice import advise
from covey.advisor.forecast import Comparison, Merged
from covey.advisor.layout import radial
from covey.advisor.report import Contents, expected, predicted, report
from covey.advisor.summary import entries_text, runner_up, saved, saving_text, summarise
from covey.advisor.traffic import Placed, Published, Traffic
from covey.pipeline.request import explained, first_line
from covey.planning.plan import Plan, PlannedTree
from covey.reports.page import Cell, Content, Table, Tag, fragment

EVIL = '<script>alert("1")</script>'
FORMULA = "$\\frac{1}"
BROKERS = tuple(sorted(("b", EVIL, FORMULA, "d")))


def chain() -> tuple[tuple[str, str], ...]:
    return tuple(pairwise(BROKERS))


def a_plan(trees: int = 1, **basis: Any) -> Plan:
    links = tuple((a, b, 1.0) for a, b in chain())
    planned = tuple(PlannedTree(BROKERS[place], chain()) for place in range(trees))
    filters = [covey.parse(f"x > {place}").encode() for place in range(6)]
    groups = {(BROKERS[place % 4], encoded): place % trees for place, encoded in enumerate(filters)}
    predictions = {
        "single": {
            "cost": 60.0,
            "cost_training": 40.0,
            "cost_fresh": 20.0,
            "table_entries": 18.0,
            "trees": 1.0,
        },
        EVIL: {"cost": 50.0, "cost_training": 34.0, "cost_fresh": 15.0, "table_entries": 20.0, "trees": 2.0},
        "flooding": {"cost": 90.0, "cost_training": 60.0, "cost_fresh": 30.0},
        "opt": {"cost": 48.0, "cost_training": 33.0, "cost_fresh": 14.0},
    }
    known = {"training": 20, "fresh": 10, "sampled": 30, "events": 30, "subscriptions": 6, **basis}
    return Plan(EVIL, 1, BROKERS, links, planned, None, groups, {}, (), predictions, known)


def traffic() -> Traffic:
    return Traffic(
        BROKERS,
        tuple((a, b, 1.0) for a, b in chain()),
        [Placed(BROKERS[3], covey.parse("x > 1"))],
        [],
        [Published(BROKERS[0], {"x": 2})],
    )


def test_merging_that_brokers_do_is_forecast_and_measured_in_the_report() -> None:
    given = contents()
    row = {"tree": 0, "broker": EVIL, "towards": "b", "block": 0, "members": [1, 2], "gain": 3, "cost": 0.5}
    plan = replace(given.plan, aggregation=(row,))
    assert "Brokers merge them" not in report(replace(given, plan=plan))
    merged = Comparison(
        Merged(4_321, 0, 1.5, 2.25), Merged(4_321, 0, 1.75, 2.25), Merged(5_432, 0, 1.25, 2.0)
    )
    page = report(replace(given, plan=plan, merged=merged))
    assert "Brokers merge them" in page
    for shown in ("4,321", "5,432", "1.75", "2.25"):
        assert shown in page
    assert EVIL not in page


def contents(trees: int = 1, **basis: Any) -> Contents:
    plan = a_plan(trees, **basis)
    return Contents(
        plan,
        summarise(plan, "covering"),
        {broker: place for place, broker in enumerate(BROKERS)},
        {"events": {f"the broker {EVIL} is unknown": 3}},
        {"ingest": 1.25},
        f"why: {EVIL}",
        advise(traffic(), {EVIL: plan}, only=("simple",)),
        {"input": EVIL},
    )


class Page(HTMLParser):
    """Collects what a page loads and runs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.sources: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.sources += [str(value) for name, value in attrs if name in ("src", "href", "action")]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_needs_nothing_and_runs_nothing() -> None:
    text = report(contents(trees=3))
    page = Page(text)
    assert not page.open
    assert "script" not in page.tags
    assert page.tags.count("img") == 4
    assert all(source.startswith("data:image/") for source in page.sources)
    assert EVIL not in text
    assert EVIL in "".join(page.texts)
    assert "url(" not in text
    pictures = [b64decode(source.partition("base64,")[2]).decode() for source in page.sources]
    assert not any("<script" in picture for picture in pictures)
    assert any("&lt;script" in picture for picture in pictures)
    assert text == report(contents(trees=3))
    for picture in pictures:
        assert_follows(picture)


def test_the_lead_is_sentences_for_people() -> None:
    given = contents(trees=3)
    assert given.advice is not None
    page = report(given)
    lead = page.partition('<section class="lead">')[2].partition("</section>")[0]
    first = lead.partition("<p>")[2].partition("</p>")[0]
    assert unescape(re.sub("</?code>", "`", first)) == given.advice.headline
    assert "25.0%" in page
    assert "less traffic than covering on one tree, predicted on fresh events" in page
    bare = replace(given, advice=None, explain="")
    text = " ".join(Page(report(bare)).texts)
    assert (
        "is expected to need 25.0% less traffic than covering on one tree, predicted on fresh events, for 1.1 times the"
        " table entries." in text
    )
    assert f"Planned 3 dissemination trees for 6 filters on 4 brokers (method: {EVIL})." in text
    entries = {"cost_fresh": 20.0, "table_entries": 100.0}, {"table_entries": 390.0}
    larger = {**bare.plan.predictions, "single": entries[0]}
    larger[bare.plan.method] = {**larger[bare.plan.method], **entries[1]}
    (sentence,) = expected(
        replace(bare, summary=summarise(replace(bare.plan, predictions=larger), "covering"))
    )
    assert sentence.endswith("predicted on fresh events, for 3.9 times the table entries.")
    worse = replace(bare.plan, predictions={**bare.plan.predictions, "single": {"cost_fresh": 10.0}})
    assert predicted(replace(bare, summary=summarise(worse, "covering"))) == (
        "50.0%",
        "more traffic than covering on one tree, predicted on fresh events",
    )
    same = replace(bare.plan, predictions={**bare.plan.predictions, "single": {"cost_fresh": 15.0}})
    assert expected(replace(bare, summary=summarise(same, "covering"))) == [
        "The plan is not expected to save any traffic compared with one tree."
    ]


def test_table_entries_beside_those_of_one_tree_in_words() -> None:
    assert entries_text(390, 100) == ", for 3.9 times the table entries"
    assert entries_text(80, 100) == ", with 20% fewer table entries"
    assert entries_text(100, 100) == ", with the same number of table entries"
    assert entries_text(102, 100) == ", with about as many table entries"
    assert entries_text(None, 100) == entries_text(100, None) == entries_text(100, 0) == ""


def test_a_table_can_be_copied_as_text() -> None:
    cells: list[Content] = [
        Cell("a <b>", [Tag("new")], below=Markup("<details>folded</details>")),
        1234567,
        "x\ty,z",
    ]
    made = Table(["name", "count", "why & how"], [cells, ["c", None, ""]], copy=True)
    assert made.copied == "name\tcount\twhy & how\na <b> new\t1234567\tx y,z\nc\t\t"
    assert made.columns == ["short", "number", "short"]
    text = shown(made)
    assert "<pre>name\tcount\twhy &amp; how\na &lt;b&gt; new\t1234567\tx y,z" in text
    assert '<td class="short">a &lt;b&gt;<span class="tag">new</span><details>folded</details></td>' in text
    assert '<td class="number">1,234,567</td>' in text
    assert shown(Table(["name"], [["a"]])).count("<pre>") == 0


def shown(table: Table) -> str:
    """Return a table as HTML."""
    return fragment("readings.html", count="", page="", criterion="", proof="", table=table)


def test_numbers_stand_at_the_right_of_columns_of_numbers_alone() -> None:
    mixed = shown(Table(["", "value"], [["a", 1234.5678], ["b", "two"], ["c", 0.5]]))
    assert '<td class="number left">1,235</td>' in mixed
    assert '<table class="pairs">' in mixed
    assert '<td></td><th scope="col" class="short">value</th>' in mixed
    wide = shown(
        Table(["name", "x", "y"], [["a", 1, 2], ["b", Cell("<none>", tone="fine", span=2)]], ["now"])
    )
    assert '<tr class="now"><td class="short">a</td><td class="number">1</td>' in wide
    assert '<td class="fine" colspan="2">&lt;none&gt;</td>' in wide
    assert shown(Table(["", ""], [["a", "b"]])).count("<thead>") == 0


def test_the_explanation_begins_with_a_sentence() -> None:
    plan = a_plan(trees=3)
    assert explained(plan).splitlines()[0] == first_line(plan)
    assert first_line(plan, 28.46) == (
        f"Planned 3 dissemination trees for 6 filters on 4 brokers in 28.5 s (method: {EVIL})."
    )
    many = replace(plan, trees=plan.trees[:1], groups={}, basis={"interests": 3638})
    assert first_line(many).startswith("Planned 1 dissemination tree for 3,638 filters on 4 brokers (")
    assert first_line(replace(many, basis={"interests": 1})).startswith(
        "Planned 1 dissemination tree for 1 filter on"
    )


def test_the_page_says_what_matters() -> None:
    text = " ".join(Page(report(contents())).texts)
    for part in ("25.0%", "simple", "recommended", "runs now", "is unknown", "Digest of plan.json", "ingest"):
        assert part in text, part
    assert "3 rows of the table events could not be used" in text
    assert "How many groups" not in text
    counts = {"documents": 5, "others": 2}
    curve = [
        {"groups": 10, "sample": 3.0, "held_out": 4.0, **counts},
        {"groups": 1, "sample": 5.0, "held_out": None, **counts},
    ]
    assert "How many groups" in report(contents(curve=curve))
    assert "How many groups" not in report(contents(curve=[{"groups": 10, "sample": 3.0}] * 2))


def test_prices_and_the_front_are_explained() -> None:
    offers = [
        {"name": "single", "trees": 1, "cost": 4.0, "entries": 100, "price": 5.0, "front": True},
        {"name": EVIL, "trees": 7, "cost": 3.0, "entries": 300, "price": 4.0, "front": True},
        {"name": "regions", "trees": 2, "cost": 5.0, "entries": 300, "price": 6.0, "front": False},
    ]
    prices = {"entry": 2.0, "migration": 1.0, "period": 1000.0, "max_entries": 500, "min_saving": 0.1}
    made = contents(offers=[*offers, {"name": "broken"}], prices=prices)
    numbers = {"price": 4.5, "price_traffic": 3.0, "cost_fresh": 12.0}
    plan = replace(made.plan, predictions={**made.plan.predictions, "single": numbers})
    page = report(replace(made, plan=plan, summary=summarise(plan, "covering")))
    assert "What an event costs in all" in page
    assert "At most 500 entries were allowed." in page
    assert "at least 10.0% of the price of one tree" in page
    assert "1 less traffic an event (25.0%) for 200 more entries" in page
    assert "That pays while an entry costs less than 5; it costs 3 without its memory." in page
    poor = contents(fresh=0)
    assert "too few events" in report(Contents(poor.plan, poor.summary, {}))
    assert "Nothing was replayed" in report(Contents(poor.plan, poor.summary, {}))


def test_the_largest_merges_are_shown_and_all_are_counted() -> None:
    def row(place: int, **more: Any) -> dict[str, Any]:
        told = {"tree": place % 2, "broker": EVIL, "towards": "b", "block": place, "members": [1, 2, place]}
        return {**told, "gain": place, "cost": 0.25, "held_out_cost": 0.5, **more}

    plain = contents(trees=2)
    assert "Filters forwarded as one" not in report(plain)
    rows = (
        *(row(place) for place in range(1, 30)),
        row(99, towards=None, held_out_cost=None, members="none"),
    )
    text = " ".join(Page(report(replace(plain, plan=replace(plain.plan, aggregation=rows)))).texts)
    assert "30 merges on 2 trees together save 534 entries of routing tables" in text
    assert "at a cost of 7.5, and of 14.5 by events held out" in text
    assert "and 10 more, which save less each" in text
    assert "publishers here" in text
    one = replace(plain, plan=replace(plain.plan, aggregation=(row(1),)))
    assert "1 merge on 1 tree together save 1 entry" in " ".join(Page(report(one)).texts)


def test_savings_are_judged_on_fresh_events() -> None:
    summary = summarise(a_plan(), "covering")
    assert [row.name for row in summary.rows] == ["opt", EVIL, "single", "flooding"]
    assert summary.judged == "cost_fresh"
    assert saved(summary) == 0.25
    assert runner_up(summary) == f"Next: single, 2 an event on fresh events, where {EVIL} costs 1.5."
    assert summary.rows[2].costs == {"cost_training": 2.0, "cost_fresh": 2.0}
    assert saved(summarise(a_plan(), "flooding")) == 0.5
    held = summarise(a_plan(fresh=0, training=0), "simple")
    assert held.judged == "cost"
    assert held.rows[1].costs == {"cost": 50 / 30}
    texts = [saving_text(value) for value in (0.25, -0.1, 0.0, 0.00001, None)]
    assert texts == ["25.0%", "-10.0%", "0%", "0%", ""]
    assert summary.as_dict()["alternatives"][1]["saving"] == 0.25


def test_brokers_of_a_tree_are_drawn_apart_and_links_do_not_cross() -> None:
    brokers = [f"b{number}" for number in range(200)]
    links = [
        (brokers[(number * 7919 % number) if number else 0], brokers[number]) for number in range(1, 200)
    ]
    points = radial(brokers, links)
    assert len(points) == 200
    assert len({(round(x, 9), round(y, 9)) for x, y in points.values()}) == 200
    assert max(math.hypot(x, y) for x, y in points.values()) <= 1 + 1e-9
    rooted = radial(brokers, links, "b9")
    assert rooted["b9"] == (0.0, 0.0)
    assert rooted == radial(brokers, links, "b9")
    crossings = sum(
        crosses(rooted[a], rooted[b], rooted[c], rooted[d])
        for place, (a, b) in enumerate(links)
        for c, d in links[:place]
        if not {a, b} & {c, d}
    )
    assert crossings == 0
    outside = radial([*brokers, "stray"], links)
    assert math.hypot(*outside["stray"]) > 1


Point = tuple[float, float]


def crosses(a: Point, b: Point, c: Point, d: Point) -> bool:
    def turn(p: Point, q: Point, r: Point) -> float:
        return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])

    return turn(a, b, c) * turn(a, b, d) < -1e-12 and turn(c, d, a) * turn(c, d, b) < -1e-12


def test_names_are_cut_for_pictures() -> None:
    from covey.reports.words import cut

    assert cut("a" * 100) == "a" * 27 + "…"
    assert cut("a\n b") == "a b"
    assert re.fullmatch(r"\S+", cut("x"))
