"""The coordinator's decisions and its eyes, without network and Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from covey.advisor.rounds import rounds_page
from covey.client.admin import Pages
from covey.coordinator.gathering import gather
from covey.coordinator.judging import Costs, Probation, judge, propose
from covey.coordinator.looking import BrokerLook, Look, Traffic, counts_of, traffic_between
from covey.coordinator.memory import Memory
from covey.coordinator.rounds import Round, read_rounds
from covey.coordinator.samples import Times, check
from covey.coordinator.settings import Settings
from covey.errors import ConfigError, CoveyError, PlanError
from covey.planning.plan import Plan, PlannedTree

# -- decisions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("planned", "installed", "caution", "action"),
    [
        (8.0, 10.0, 0, "install"),  # 20%, and 5% are asked for
        (9.5, 10.0, 0, "install"),
        (9.6, 10.0, 0, "keep"),
        (10.0, 10.0, 0, "keep"),
        (12.0, 10.0, 0, "keep"),
        (8.0, 10.0, 2, "install"),
        (8.0, 10.0, 3, "keep"),  # 40% are asked for
        (1.0, 10.0, 60, "install"),
        (0.0, 0.0, 0, "keep"),
        (8.0, None, 9, "install"),  # what is in use cannot stay
    ],
)
def test_a_plan_is_installed_if_it_saves_enough(
    planned: float, installed: float | None, caution: int, action: str
) -> None:
    verdict = propose(Costs(planned, installed, None, None), 0.05, caution)
    assert verdict.action == action, verdict.reason


def test_without_a_threshold_a_plan_must_still_save_something() -> None:
    assert propose(Costs(10.0, 10.0, None, None), 0.0).action == "keep"
    assert propose(Costs(9.99, 10.0, None, None), 0.0).action == "install"


@pytest.mark.parametrize(
    ("measured", "before_now", "action", "saving"),
    [
        (6.0, 10.0, "confirm", 0.4),
        (10.1, 10.0, "confirm", -0.01),  # within the tolerance
        (10.3, 10.0, "take back", -0.03),
        (15.0, 20.0, "confirm", 0.25),  # traffic has become dearer, and would have under the plan before
        (8.0, 5.0, "take back", -0.6),  # traffic has become cheaper, but not for this plan
    ],
)
def test_a_plan_is_judged_by_what_the_one_before_would_cost_now(
    measured: float, before_now: float, action: str, saving: float
) -> None:
    probation = Probation(predicted=0.3, predicted_before=10.0, measured_before=10.0)
    after = Traffic(1000, round(1000 * measured))
    verdict = judge(probation, Costs(1.0, 1.0, before_now, None), after, 0.02)
    assert (verdict.action, verdict.predicted) == (action, 0.3)
    assert verdict.measured == pytest.approx(saving)


def test_what_no_prediction_knows_of_is_not_laid_at_the_plan_s_door() -> None:
    # Before, twice as much was measured as predicted; now it is the same again: nothing has changed.
    probation = Probation(predicted=0.3, predicted_before=10.0, measured_before=20.0)
    verdict = judge(probation, Costs(1.0, 1.0, 10.0, None), Traffic(100, 2000), 0.02)
    assert verdict.measured == pytest.approx(0.0)
    # Nothing was measured before: predictions are all there is.
    verdict = judge(Probation(0.3, 10.0, None), Costs(1.0, 1.0, 10.0, None), Traffic(100, 500), 0.02)
    assert verdict.measured == pytest.approx(0.5)
    # The plan before fits the overlay no longer.
    verdict = judge(Probation(0.3, 10.0, 8.0), Costs(1.0, 1.0, None, None), Traffic(100, 400), 0.02)
    assert verdict.measured == pytest.approx(0.5)
    assert (
        judge(Probation(0.3, None, None), Costs(1.0, 1.0, None, None), Traffic(100, 400), 0.02).action
        == "confirm"
    )
    assert judge(probation, Costs(1.0, 1.0, 10.0, None), Traffic(), 0.02).action == "keep"


def test_costs_are_of_an_event_and_of_fresh_ones_if_there_are_any() -> None:
    plan = Plan(
        "mine",
        1,
        ("a", "b"),
        (("a", "b", 1.0),),
        (PlannedTree("a", (("a", "b"),)),),
        predictions={
            "mine": {"cost": 90.0, "cost_fresh": 20.0},
            "installed": {"cost": 120.0, "cost_fresh": 40.0},
            "opt": {"cost": 60.0, "cost_fresh": 10.0},
        },
        basis={"fresh": 10, "sampled": 60},
    )
    assert Costs.of(plan) == Costs(2.0, 4.0, None, 1.0)
    assert Costs.of(plan).saving == 0.5
    assert Costs.of(replace(plan, basis={"fresh": 0, "sampled": 60})) == Costs(1.5, 2.0, None, 1.0)


# -- looking ---------------------------------------------------------------------------------------------------


def pages_of(
    broker: str, up: list[str], on_tree: list[str], neighbours: list[str] | None = None, **more: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    varz = {
        "broker": broker,
        "totals": {
            "events_published": more.get("published", 0),
            "events_forwarded": more.get("forwarded", 0),
        },
        "entries": 3,
        "subscriptions": 2,
        "neighbours": neighbours or up,
        "links_up": up,
    }
    epochs = [{"epoch": 0, "current": True, "planned": False, "trees": [{"tree": 0, "links_up": on_tree}]}]
    planz = {"version": more.get("version", 0), "installation": more.get("installation"), "epochs": epochs}
    return varz, planz


def look_of(**brokers: tuple[dict[str, Any], dict[str, Any]]) -> Look:
    return Look({name: BrokerLook.of(f"http://{name}", *pages) for name, pages in brokers.items()})


#   a ─ b
#    ╲  │
#      c
TRIANGLE = {
    "a": pages_of("a", ["b", "c"], ["b"]),
    "b": pages_of("b", ["a", "c"], ["a", "c"]),
    "c": pages_of("c", ["a", "b"], ["b"]),
}


def test_the_overlay_s_own_tree_is_a_plan() -> None:
    look = look_of(**TRIANGLE)
    plan = look.overlay_plan()
    assert plan.trees[0].links == (("a", "b"), ("b", "c"))
    assert [link[:2] for link in plan.links] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert look.is_whole()
    assert not look.is_installing
    assert not look.strangers()


def test_a_link_is_up_if_both_ends_say_so() -> None:
    look = look_of(**{**TRIANGLE, "c": pages_of("c", ["b"], ["b"])})
    assert look.links() == {("a", "b"), ("b", "c")}
    assert look.is_whole()
    broken = look_of(**{**TRIANGLE, "b": pages_of("b", ["a", "c"], ["a"])})
    assert not broken.is_whole()
    with pytest.raises(PlanError):
        broken.overlay_plan()
    assert not Look(look.brokers, {"http://d": "gone"}).is_whole()


def test_who_is_not_named_and_what_is_under_way_is_seen() -> None:
    assert look_of(a=pages_of("a", ["b"], ["b"], ["b", "z"]), b=pages_of("b", ["a"], ["a"])).strangers() == {
        "z"
    }
    waiting = look_of(**{**TRIANGLE, "a": pages_of("a", ["b"], ["b"], installation={"step": "waiting"})})
    assert waiting.is_installing
    switched = look_of(**{**TRIANGLE, "a": pages_of("a", ["b"], ["b"], installation={"step": "switched"})})
    assert not switched.is_installing
    assert switched.is_settling
    assert look_of(**{**TRIANGLE, "a": pages_of("a", ["b"], ["b"], version=3)}).is_installing


def test_traffic_is_what_was_counted_between_looks() -> None:
    before = look_of(
        a=pages_of("a", [], [], published=10, forwarded=30), b=pages_of("b", [], [], published=5)
    )
    now = look_of(
        a=pages_of("a", [], [], published=14, forwarded=42),
        b=pages_of("b", [], [], published=3, forwarded=1),  # started again
        c=pages_of("c", [], [], published=100, forwarded=100),  # new: of before nothing is known
    )
    traffic = traffic_between(counts_of(before), counts_of(now))
    assert traffic == Traffic(7, 13)
    assert traffic.per_event == pytest.approx(13 / 7)
    assert Traffic().per_event is None


# -- memory and settings ---------------------------------------------------------------------------------------


def test_memory_comes_back(tmp_path: Path) -> None:
    memory = Memory(
        rounds=3,
        counts={"a": (1, 2)},
        traffic=Traffic(5, 6),
        probation=Probation(0.5, None, 3.0),
        caution=1,
        fetched={"http://a": {"events/x": 7}},
        installed="digest",
        at="http://a",
    )
    memory.save(tmp_path)
    assert Memory.load(tmp_path) == memory
    assert Memory.load(tmp_path / "none") == Memory()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 1}', '{"version": 9}', '{"version": 1, "x": 2}']
)
def test_a_damaged_memory_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "coordinator.json").write_text(text)
    with pytest.raises(ConfigError) as caught:
        Memory.load(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [{"urls": ()}, {"urls": ("x", "x")}, {"threshold": 2.0}, {"every_s": -1.0}, {"least_events": 0}],
    ids=["none", "twice", "threshold", "every", "least"],
)
def test_settings_that_cannot_be(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Settings(**{"urls": ("http://127.0.0.1:1",), "data_dir": tmp_path, **change})


# -- gathering -------------------------------------------------------------------------------------------------


def table_bytes(columns: Mapping[str, list[Any]], types: Mapping[str, pa.DataType] | None = None) -> bytes:
    out = pa.BufferOutputStream()
    arrays = {
        name: pa.array(values, (types or {}).get(name, pa.string())) for name, values in columns.items()
    }
    parquet.write_table(pa.table(arrays), out)
    return bytes(out.getvalue())


SUBSCRIPTIONS = {"broker": ["a", "a"], "language": ["attributes"] * 2, "filter": ["x = 1", "x = 2"]}


class FakePages(Pages):
    """Pages that are a dictionary."""

    def __init__(self, url: str, pages: dict[str, Any], files: dict[tuple[str, str], bytes]) -> None:
        super().__init__(url)
        self.pages, self.files = pages, files
        self.fetched: list[str] = []

    def get(self, path: str, **query: object) -> Any:
        if path not in self.pages:
            raise CoveyError(f"no broker shows its pages at {self.url}")
        return self.pages[path]

    def get_bytes(self, path: str, **query: object) -> bytes:
        self.fetched.append(str(query["name"]))
        return self.files[str(query["table"]), str(query["name"])]


def row(table: str, name: Any, written: Any = 1) -> dict[str, Any]:
    return {"table": table, "name": name, "bytes": 1, "written_ns": written}


def test_files_are_fetched_once_and_tables_when_they_change(tmp_path: Path) -> None:
    varz, planz = pages_of("a", [], [])
    first = table_bytes({"subscription": ["s1", "s2"], **SUBSCRIPTIONS})
    second = table_bytes({"subscription": ["s2", "s3"], **SUBSCRIPTIONS})
    files = {("subscriptions", "a.parquet"): first}
    listing = {"rows": [row("subscriptions", "a.parquet")]}
    pages = FakePages("http://a", {"/varz": varz, "/planz": planz, "/samplez": listing}, files)
    memory = Memory()
    found = gather([pages], tmp_path, memory)
    assert (found.joined, found.left, found.files) == (2, 0, {"subscriptions": 1})
    assert gather([pages], tmp_path, memory).files == {}
    files["subscriptions", "a.parquet"] = second
    listing["rows"] = [row("subscriptions", "a.parquet", 2)]
    found = gather([pages], tmp_path, memory)
    assert (found.joined, found.left) == (1, 1)
    assert pages.fetched == ["a.parquet"] * 2
    gone = FakePages("http://b", {}, {})
    found = gather([gone], tmp_path, memory)
    assert list(found.look.away) == ["http://b"]
    assert not list((tmp_path / "tables" / "subscriptions").iterdir()), "nobody asks a any more"


@pytest.mark.parametrize(
    "listing",
    [
        [],
        {"rows": [row("events", "../x.parquet")]},
        {"rows": [row("events", "a/b.parquet")]},
        {"rows": [row("secrets", "a.parquet")]},
        {"rows": [row("events", 3)]},
        {"rows": [row("events", "a.txt")]},
        {"rows": [row("events", "a.parquet", "now")]},
        {"rows": [row("events", "x" * 300 + ".parquet")]},
        {"rows": [row("events", "a\n.parquet")]},
    ],
    ids=["list", "above", "below", "table", "number", "ending", "time", "long", "line"],
)
def test_names_that_are_none_are_passed_over(tmp_path: Path, listing: Any) -> None:
    varz, planz = pages_of("a", [], [])
    pages = FakePages("http://a", {"/varz": varz, "/planz": planz, "/samplez": listing}, {})
    assert gather([pages], tmp_path, Memory()).files == {}
    assert pages.fetched == []


def test_what_is_no_table_of_its_kind_is_left_out_and_said(tmp_path: Path) -> None:
    good = table_bytes({"subscription": ["s1", "s2"], **SUBSCRIPTIONS})

    def problem_of(data: bytes) -> str:
        return check(data, "subscriptions", "a", Times(0.0)).problem

    assert problem_of(good) == ""
    assert "no Parquet" in problem_of(b"PAR1 nothing PAR1")
    assert "no column" in problem_of(table_bytes(SUBSCRIPTIONS))
    wrong = table_bytes({"subscription": [1, 2], **SUBSCRIPTIONS}, {"subscription": pa.int64()})
    assert "and not string" in problem_of(wrong)
    middle = len(good) // 3
    damaged = good[:middle] + bytes(64) + good[middle + 64 :]
    assert problem_of(damaged) != ""
    varz, planz = pages_of("a", [], [])
    listing = {"rows": [row("subscriptions", "a.parquet")]}
    files = {("subscriptions", "a.parquet"): damaged}
    pages = FakePages("http://a", {"/varz": varz, "/planz": planz, "/samplez": listing}, files)
    found = gather([pages], tmp_path, Memory())
    assert found.files == {}
    assert "left out" in found.problems[0]
    assert "\n" not in found.problems[0]


def test_a_page_of_something_else_is_no_broker(tmp_path: Path) -> None:
    pages = FakePages("http://a", {"/varz": {"hello": 1}, "/planz": []}, {})
    assert "does not answer as a broker does" in gather([pages], tmp_path, Memory()).look.away["http://a"]


# -- the page --------------------------------------------------------------------------------------------------


def test_rounds_are_shown_and_reasons_are_only_texts(tmp_path: Path) -> None:
    rounds = [
        vars(Round(1, 0.0, "wait", '<script>alert("1")</script>')),
        vars(
            Round(2, 10.0, "install", "x", measured=3.0, planned=1.0, installed=3.0, predicted_saving=0.667)
        ),
        vars(Round(3, 20.0, "take back", "y", measured=5.0, measured_saving=-0.5)),
        vars(Round(4, 30.0, dropped={"events": {"late": 7000}}, quarantined={"events": {"why": 77}})),
    ]
    page = rounds_page(rounds)
    assert "<script" not in page
    assert "7,077" in page
    assert "4 rounds: 1 plan was installed, and 1 was taken back." in page
    assert "66.7%" in page
    assert "-50.0%" in page
    assert rounds_page([]).count("<tr>") == 1
    text = "".join(f"{json.dumps(one)}\n" for one in rounds)
    (tmp_path / "rounds.jsonl").write_text(text + '{"number": 5, "at')
    assert read_rounds(tmp_path) == rounds


def test_a_round_is_one_line() -> None:
    told = Round(7, 0.0, "confirm", "why", events=1200, subscriptions=3, joined=2, left=1, measured=1.5)
    told.predicted_saving, told.measured_saving, told.problems = 0.5, 0.45, ["one", "two"]
    assert told.line() == (
        "round 7: confirm, why; 1,200 events in the window, 3 subscriptions; 2 came and 1 went; an event crosses"
        " 1.50 links; saves 45.0%, predicted were 50.0%; problems: one and 1 more (0.0 s)"
    )
