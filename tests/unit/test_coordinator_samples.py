"""Samples are untrusted: what a coordinator takes of them, what it leaves out, by whose clock, and how it heals."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from tests.unit.test_coordinator import FakePages, pages_of, row

from covey.coordinator.coordinator import Coordinator
from covey.coordinator.gathering import gather
from covey.coordinator.looking import skew_of
from covey.coordinator.memory import Memory
from covey.coordinator.rounds import Round
from covey.coordinator.samples import (
    FUTURE,
    NO_NAME,
    NO_TEXT,
    NO_TIME,
    NOT_ITS_OWN,
    Checked,
    Times,
    check,
)
from covey.coordinator.settings import Settings, lateness_for
from covey.errors import ConfigError
from covey.pipeline.ingest import REASON, judge_batches
from covey.pipeline.schemas import SOURCE
from covey.pipeline.stream import PAST, Windows
from covey.pipeline.stream_state import ailment, begin_anew, prepare

NOW_S = 1.8e9
YEAR_S = 366 * 86_400
EVENTS = ("event", "publisher", "broker", "at", "language", "content")
MICROSECONDS = pa.timestamp("us", tz="UTC")


def event(name: str | None, at_s: float | None, broker: str | None = "a", content: str = "{}") -> list[Any]:
    return [name, "~1", broker, None if at_s is None else round(at_s * 1e6), "attributes", content]


def file_of(rows: Sequence[Sequence[Any]], kind: pa.DataType = MICROSECONDS, **more: pa.Array) -> bytes:
    """Return a file of events; rows have times in units of the column."""
    columns: dict[str, pa.Array] = {}
    for place, name in enumerate(EVENTS):
        values = [row[place] for row in rows]
        columns[name] = (
            pa.array(values, pa.int64()).cast(kind) if name == "at" else pa.array(values, pa.string())
        )
    out = pa.BufferOutputStream()
    parquet.write_table(pa.table({**columns, **more}), out)
    return bytes(out.getvalue())


def names(checked: Checked) -> list[str]:
    assert checked.problem == ""
    assert checked.table is not None
    found: list[str] = checked.table.column("event").to_pylist()
    return found


def times(checked: Checked) -> list[float]:
    assert checked.table is not None
    return [at / 1e6 for at in checked.table.column("at").cast(pa.int64()).to_pylist()]


# -- rows ------------------------------------------------------------------------------------------------------


def test_rows_that_cannot_be_used_are_left_out_and_counted() -> None:
    rows = [
        event("good", NOW_S - 5),
        event(None, NOW_S),
        event("", NOW_S),
        event("other", NOW_S, "b"),
        event("nobody", NOW_S, None),
        event("never", None),
        event("next year", NOW_S + YEAR_S),
        event("before there were clocks", -5.0),
        event("yesterday", NOW_S - 86_400),
        event("a little ahead", NOW_S + 3),
    ]
    checked = check(file_of(rows), "events", "a", Times(NOW_S, span_s=4000.0))
    assert names(checked) == ["good", "a little ahead"]
    assert times(checked) == [NOW_S - 5, NOW_S + 3]
    assert checked.dropped == {NO_NAME: 2, NOT_ITS_OWN: 2, NO_TIME: 1, FUTURE: 1, PAST: 2}


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_of_any_unit_are_judged_without_overflow(unit: str, zone: str | None) -> None:
    per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    rows = [event(name, 0.0) for name in ("first", "last", "now")]
    for one, at in zip(rows, (-(2**63), 2**63 - 1, int(NOW_S) * per_second), strict=True):
        one[3] = at
    checked = check(file_of(rows, pa.timestamp(unit, tz=zone)), "events", "a", Times(NOW_S, YEAR_S))
    assert names(checked) == ["now"]
    assert times(checked) == [NOW_S - YEAR_S]
    assert checked.dropped == {PAST: 1, FUTURE: 1}


def test_texts_that_are_none_are_left_out_by_rows() -> None:
    whole = ["good", "a", "bad"]
    data = "".join(whole).encode().replace(b"bad", b"b\xff\xfe")
    ends = pa.array([0, 4, 5, 8], pa.int32()).buffers()[1]
    broken = pa.StringArray.from_buffers(3, ends, pa.py_buffer(data))
    rows = [event(name, NOW_S) for name in whole]
    checked = check(file_of(rows, event=broken), "events", "a", Times(NOW_S))
    assert names(checked) == ["good", "a"]
    assert checked.dropped == {NO_TEXT: 1}


@pytest.mark.parametrize(
    "more",
    [
        {"at": pa.array(["now"])},
        {"at": pa.array([1.0])},
        {"event": pa.array([["nested"]])},
        {"event": pa.array([{"x": 1}])},
        {"content": pa.array([b"{}"], pa.binary())},
        {"broker": pa.nulls(1)},
    ],
    ids=["text", "number", "list", "struct", "bytes", "nulls"],
)
def test_columns_of_another_type_are_a_problem_of_the_file(more: dict[str, pa.Array]) -> None:
    checked = check(file_of([event("e", NOW_S)], **more), "events", "a", Times(NOW_S))
    assert checked.table is None
    assert "and not" in checked.problem
    assert "\n" not in checked.problem


def test_a_column_twice_and_texts_that_explode(monkeypatch: pytest.MonkeyPatch) -> None:
    table = parquet.read_table(pa.BufferReader(file_of([event("e", NOW_S)])))
    out = pa.BufferOutputStream()
    parquet.write_table(table.append_column("event", table.column("event")), out)
    assert "several columns event" in check(bytes(out.getvalue()), "events", "a", Times(NOW_S)).problem
    # A few thousand bytes say that there is a thousand times as much text.
    data = file_of([event(f"e{number}", NOW_S, content="x" * 10_000) for number in range(1_000)])
    assert len(data) < 50_000
    assert len(names(check(data, "events", "a", Times(NOW_S)))) == 1_000
    monkeypatch.setattr("covey.coordinator.samples.MOST_BYTES", 5_000_000)
    assert "it takes more than 5,000,000 bytes" in check(data, "events", "a", Times(NOW_S)).problem


def test_whatever_bytes_and_rows_are_nothing_is_raised() -> None:
    generator = random.Random(3)
    values: list[Any] = [None, "", "a", "~1", "x" * 5000, "\x00", '{"x": 1}', "ü\u2028", '["\\ud800"]']
    times_us: list[Any] = [
        None,
        0,
        2**63 - 1,
        -(2**63),
        *(round((NOW_S + off) * 1e6) for off in (-9, 0, 9e9)),
    ]
    for _ in range(30):
        rows = [
            [generator.choice(times_us if name == "at" else values) for name in EVENTS] for _ in range(40)
        ]
        checked = check(file_of(rows), "events", "a", Times(NOW_S, generator.choice([0.0, -1e9, 1e9])))
        assert checked.table is not None
        assert len(checked.table) + checked.dropped.total() == len(rows), "every row is taken or counted"
        assert check(checked.encode(), "events", "a", Times(NOW_S)).dropped.keys() <= {FUTURE, PAST}
    good = file_of([event(f"e{number}", NOW_S) for number in range(50)])
    for _ in range(400):
        data = bytearray(good)
        for _ in range(generator.randint(1, 6)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        checked = check(
            bytes(data[: generator.choice([len(data), generator.randrange(len(data))])]),
            "events",
            "a",
            Times(NOW_S),
        )
        assert (checked.table is None) == bool(checked.problem)


def test_contents_that_are_none_end_no_planner() -> None:
    """The planner's own judge takes any text: what it cannot use has a reason."""
    contents = [
        '["\\ud800"]',
        '{"x": "\\udfff"}',
        "[" * 50_000,
        "1" * 9_000,
        "NaN",
        "<a>",
        "<a>\x00</a>",
        "",
        "null",
    ]
    languages = ["attributes", "keywords", "xpath", "", "no language"]
    rows = [("e", None, "a", None, language, content) for language in languages for content in contents]
    kinds = [MICROSECONDS if name == "at" else pa.string() for name in EVENTS]
    arrays = [pa.array(list(some), kind) for some, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    nothing = pa.nulls(len(rows), pa.string())  # that reading has found wrong, and where each row comes from
    batch = pa.RecordBatch.from_arrays([*arrays, nothing, nothing], [*EVENTS, REASON, SOURCE])
    (judged,) = judge_batches(iter([batch]), table="events")
    assert None not in judged.column("reason").to_pylist()


# -- clocks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clock_s", "skew_s"),
    [
        (100.0, 0.0),
        (101.5, 0.0),  # read while the answer was on its way
        (103.0, 1.0),
        (99.5, -0.5),
        (100.0 + YEAR_S, YEAR_S - 2.0),
        (0, -100.0),
        (None, None),
        ("100", None),
        (True, None),
        (float("inf"), None),
        (float("nan"), None),
        (1e300, None),
    ],
)
def test_a_clock_is_off_by_the_least_that_it_can_be(clock_s: Any, skew_s: float | None) -> None:
    assert skew_of(clock_s, 100.0, 102.0) == skew_s


def test_times_of_a_clock_that_is_off_are_corrected_and_others_are_not() -> None:
    off = file_of([event("e", NOW_S + YEAR_S - 7)])
    assert times(check(off, "events", "a", Times(NOW_S, YEAR_S))) == [NOW_S - 7]
    behind = file_of([event("e", NOW_S - YEAR_S - 7)])
    assert times(check(behind, "events", "a", Times(NOW_S, -YEAR_S))) == [NOW_S - 7]
    near = file_of([event("e", NOW_S + 13)])
    assert times(check(near, "events", "a", Times(NOW_S, 20.0))) == [NOW_S + 13]
    # The clock was set right since: of what it was then nothing is known.
    assert check(off, "events", "a", Times(NOW_S, 0.0)).dropped == {FUTURE: 1}


def served(broker: str, clock_s: float | None, data: bytes) -> FakePages:
    varz, planz = pages_of(broker, [], [])
    listing = {"rows": [row("events", "x.parquet")]}
    pages = {"/varz": varz if clock_s is None else {**varz, "time_s": clock_s}, "/planz": planz}
    return FakePages(f"http://{broker}", {**pages, "/samplez": listing}, {("events", "x.parquet"): data})


def test_each_broker_is_judged_by_its_own_clock(tmp_path: Path) -> None:
    ahead = served("a", NOW_S + YEAR_S, file_of([event("a1", NOW_S + YEAR_S), event("a2", None)]))
    right = served("b", NOW_S, file_of([event("b1", NOW_S, "b"), event("b2", NOW_S + YEAR_S, "b")]))
    silent = served("c", None, file_of([event("c1", NOW_S, "c"), event("c2", NOW_S + YEAR_S, "c")]))
    found = gather([ahead, right, silent], tmp_path, Memory(), clock=lambda: NOW_S)
    assert {name: one.skew_s for name, one in found.look.brokers.items()} == {
        "a": YEAR_S,
        "b": 0.0,
        "c": None,
    }
    assert found.problems == ["the clock of a is 31,622,400.0 s ahead"]
    assert found.dropped == {"events": {NO_TIME: 1, FUTURE: 2}}
    taken = parquet.read_table(tmp_path / "inbox" / "events")
    assert sorted(taken.column("event").to_pylist()) == ["a1", "b1", "c1"]
    assert set(taken.column("at").cast(pa.int64()).to_pylist()) == {round(NOW_S * 1e6)}


@pytest.mark.parametrize(
    "listing",
    [
        5,
        {"rows": 5},
        {"rows": {"x": 1}},
        {"rows": [5, None, [], "x"]},
        {"rows": [{"table": ["events"], "name": "x.parquet", "written_ns": 1}]},
        {"rows": [row("events", f"{number}.parquet") for number in range(5000)]},
    ],
    ids=["number", "rows", "object", "row", "table", "many"],
)
def test_listings_are_untrusted_too(tmp_path: Path, listing: Any) -> None:
    pages = served("a", NOW_S, b"")
    pages.pages["/samplez"] = listing
    pages.files = dict.fromkeys((("events", f"{number}.parquet") for number in range(5000)), b"no table")
    found = gather([pages], tmp_path, Memory(), clock=lambda: NOW_S)
    assert found.files == {}
    assert len(pages.fetched) <= 1000


def test_what_a_broker_lists_no_longer_is_no_table_of_now(tmp_path: Path) -> None:
    columns = ("subscription", "broker", "language", "filter")
    out = pa.BufferOutputStream()
    parquet.write_table(pa.table({name: ["a"] for name in columns}), out)
    pages = served("a", NOW_S, b"")
    pages.files = {("subscriptions", name): bytes(out.getvalue()) for name in ("old.parquet", "new.parquet")}
    memory = Memory()
    for name in ("old.parquet", "new.parquet"):
        pages.pages["/samplez"] = {"rows": [row("subscriptions", name)]}
        gather([pages], tmp_path, memory)
        assert len(list((tmp_path / "tables" / "subscriptions").iterdir())) == 1


# -- rounds ----------------------------------------------------------------------------------------------------


def test_lateness_is_more_than_a_round(tmp_path: Path) -> None:
    assert lateness_for(300.0) == Windows().lateness_s == 660
    Settings(("http://a",), tmp_path)
    with pytest.raises(ConfigError, match="--lateness 1260"):
        Settings(("http://a",), tmp_path, windows=Windows(3600, 300, 60), every_s=600.0)
    with pytest.raises(ConfigError):
        Settings(("http://a",), tmp_path, max_skew_s=0.0)


def test_what_is_left_out_is_in_the_round() -> None:
    told = Round(1, 0.0)
    told.drop({"events": {"late": 2, FUTURE: 1}, "deliveries": {"late": 1}})
    told.drop({"events": {"late": 1}})
    told.quarantine({"events": {f"reason {number}": number for number in range(1, 21)}})
    assert told.dropped == {"events": {"late": 3, FUTURE: 1}, "deliveries": {"late": 1}}
    assert len(told.quarantined["events"]) == 11
    assert sum(told.quarantined["events"].values()) == 210
    assert "rows left out: 210 quarantined, 4 late, 1 from the future" in told.line()
    json.dumps(vars(told))


def test_nothing_that_happens_in_a_round_ends_the_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("covey.coordinator.coordinator.gather", fail)
    with Coordinator(Settings(("http://127.0.0.1:1",), tmp_path)) as coordinator:
        told = coordinator.round()
    assert (told.action, told.reason) == ("failed", "RuntimeError: two lines")
    assert "Traceback" in caplog.text


# -- state on disk ---------------------------------------------------------------------------------------------


def _of_another_version(directory: Path) -> None:
    (directory / "checkpoints" / "layout").unlink()


def _ahead(directory: Path) -> None:
    (directory / "store" / "events" / "batch=1" / f"slot={int(NOW_S + YEAR_S) // 300}").mkdir()


def _without_time(directory: Path) -> None:
    (directory / "store" / "events" / "batch=1" / "slot=__HIVE_DEFAULT_PARTITION__").mkdir()


def _begun(directory: Path) -> None:
    text = f'v1\n{{"batchWatermarkMs":{round((NOW_S + YEAR_S) * 1e3)},"conf":{{}}}}\n{{"logOffset":0}}'
    (directory / "checkpoints" / "events" / "offsets" / "3").write_text(text)


def _ended(directory: Path) -> None:
    text = f'v1\n{{"nextBatchWatermarkMs":{round((NOW_S + YEAR_S) * 1e3)}}}'
    (directory / "checkpoints" / "rates" / "commits" / "3").write_text(text)


def healthy(directory: Path) -> None:
    prepare(directory, 300)
    for name in ("events", "rates"):
        for kind, key in (("offsets", "batchWatermarkMs"), ("commits", "nextBatchWatermarkMs")):
            (directory / "checkpoints" / name / kind).mkdir(parents=True)
            text = f'v1\n{{"{key}":{round((NOW_S - 660) * 1e3)}}}\n{{}}\n[1]\nno json'
            (directory / "checkpoints" / name / kind / "2").write_text(text)
    (directory / "store" / "events" / "batch=1" / f"slot={int(NOW_S) // 300}").mkdir(parents=True)


def test_state_that_streams_can_go_on_from(tmp_path: Path) -> None:
    assert ailment(tmp_path, 300, NOW_S) == ""
    healthy(tmp_path)
    assert ailment(tmp_path, 300, NOW_S) == ""
    assert "another slide" in ailment(tmp_path, 60, NOW_S)


@pytest.mark.parametrize("spoil", [_of_another_version, _ahead, _without_time, _begun, _ended])
def test_spoilt_state_is_told_and_begins_anew(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    healthy(tmp_path)
    spoil(tmp_path)
    assert ailment(tmp_path, 300, NOW_S) != ""
    begin_anew(tmp_path, 300)
    assert ailment(tmp_path, 300, NOW_S) == ""
    assert not (tmp_path / "store").exists()


def test_a_coordinator_heals_before_it_looks(tmp_path: Path) -> None:
    """A directory of the version before, with a file in its inbox that nobody has looked at."""
    inbox = tmp_path / "inbox" / "events"
    inbox.mkdir(parents=True)
    (inbox / "x.parquet").write_bytes(b"")
    (tmp_path / "checkpoints" / "events").mkdir(parents=True)
    Memory(fetched={"http://127.0.0.1:1": {"events/x.parquet": 1}}).save(tmp_path)
    with Coordinator(Settings(("http://127.0.0.1:1",), tmp_path)) as coordinator:
        coordinator._spark = lambda: None  # type: ignore[method-assign,assignment,return-value]
        told = coordinator.round()
    assert told.problems[0].startswith("the window begins anew: it was written by another version")
    assert told.reason.startswith("away:")
    assert not any(inbox.iterdir())
    assert ailment(tmp_path, 300, time.time()) == ""
    assert Memory.load(tmp_path).fetched == {}
