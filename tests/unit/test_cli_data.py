"""`covey data generate`: what is written, that it repeats, who gets what, and one line for every mistake."""

from __future__ import annotations

import json
import tracemalloc
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.dataset as datasets
import pyarrow.parquet as parquet
import pytest

from covey import cli
from covey.core.families import parse, parse_content
from covey.datasets import parquet as writing
from covey.datasets.catalogue import WORKLOADS
from covey.datasets.deliveries import LINK_MS
from covey.datasets.generate import Request, generate
from covey.pipeline.schemas import INPUTS


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.run(["data", "generate", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def rows(directory: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = datasets.dataset(directory / table, format="parquet").to_table().to_pylist()
    return found


def content(row: dict[str, Any]) -> Any:
    return parse_content(row["content"], row["language"])


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_workload_writes_tables_that_agree_with_each_other(workload: str, tmp_path: Path) -> None:
    request = Request(
        workload,
        tmp_path,
        "random-graph",
        brokers=12,
        subscriptions=60,
        events=30,
        topology_settings={"degree": 3.0},
    )
    written = generate(request)
    for table in INPUTS:
        schema = datasets.dataset(tmp_path / table.name, format="parquet").schema
        assert schema.names == [column.name for column in table.columns]
        assert written.rows[table.name] == len(rows(tmp_path, table.name))
    links = [(row["a"], row["b"]) for row in rows(tmp_path, "topology")]
    brokers = {end for link in links for end in link}
    assert len(brokers) == 12
    subscriptions, events = rows(tmp_path, "subscriptions"), rows(tmp_path, "events")
    assert (len(subscriptions), len(events)) == (60, 30)
    assert len({row["subscription"] for row in subscriptions}) == 60
    assert [row["event"] for row in events] == [f"e{number}" for number in range(30)]
    assert all(row["broker"] in brokers for row in [*subscriptions, *events])
    # Who gets what, by asking each filter about each event; when, by walking.
    filters = [(row, parse(row["filter"], row["language"])) for row in subscriptions]
    hops = all_distances(links)
    expected = {
        (
            event["event"],
            row["subscription"],
            row["broker"],
            event["at"] + timedelta(milliseconds=LINK_MS * hops[event["broker"], row["broker"]]),
        )
        for event in events
        for row, filter in filters
        if filter.matches(content(event))
    }
    found = rows(tmp_path, "deliveries")
    assert {(row["event"], row["subscription"], row["broker"], row["at"]) for row in found} == expected
    assert len(found) == len(expected)
    # Whatever is published, its producers have announced.
    announced = [
        (row["broker"], parse(row["filter"], row["language"])) for row in rows(tmp_path, "advertisements")
    ]
    for event in events:
        assert any(
            broker == event["broker"] and filter.matches(content(event)) for broker, filter in announced
        )


def test_distances_are_how_far_back_others_want_an_event_too(tmp_path: Path) -> None:
    generate(
        Request(
            "ranges", tmp_path, "random-tree", brokers=12, subscriptions=300, events=100, deliveries=10_000
        )
    )
    hops = all_distances([(row["a"], row["b"]) for row in rows(tmp_path, "topology")])
    origin = {row["event"]: row["broker"] for row in rows(tmp_path, "events")}
    by_event: dict[str, list[dict[str, Any]]] = {}
    for row in rows(tmp_path, "deliveries"):
        by_event.setdefault(row["event"], []).append(row)
    found = []
    for event, mine in by_event.items():
        start = origin[event]
        for row in mine:
            here = row["broker"]
            # On a tree, the ways of two from one origin part where the sums of distances say.
            parted = [
                (hops[here, start] + hops[here, other["broker"]] - hops[start, other["broker"]]) // 2
                for other in mine
                if other is not row
            ]
            assert row["distance"] == min(parted, default=None)
            found.append(row["distance"])
    assert {None, 0, 1} <= set(found)


def all_distances(links: list[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Floyd and Warshall's."""
    brokers = sorted({end for link in links for end in link})
    far = {(a, b): 0 if a == b else 10**6 for a in brokers for b in brokers}
    for a, b in links:
        far[a, b] = far[b, a] = 1
    for via in brokers:
        for a in brokers:
            for b in brokers:
                far[a, b] = min(far[a, b], far[a, via] + far[via, b])
    return far


def test_the_same_seed_gives_the_same_bytes_and_more_events_change_nothing_else(tmp_path: Path) -> None:
    for name, seed, events in (("a", 1, 40), ("b", 1, 40), ("c", 2, 40), ("d", 1, 80)):
        generate(Request("ranges", tmp_path / name, brokers=12, subscriptions=50, events=events, seed=seed))

    def content_of(name: str, table: str) -> bytes:
        return (tmp_path / name / table / "part-00000.parquet").read_bytes()

    for table in INPUTS:
        assert content_of("a", table.name) == content_of("b", table.name)
    assert content_of("a", "events") != content_of("c", "events")
    for name in ("topology", "subscriptions", "advertisements"):
        assert content_of("a", name) == content_of("d", name)
    assert rows(tmp_path / "d", "events")[:40] == rows(tmp_path / "a", "events")


def test_tables_are_written_in_row_groups_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "GROUP_ROWS", 10)
    monkeypatch.setattr(writing, "FILE_ROWS", 30)
    generate(Request("ranges", tmp_path, brokers=12, subscriptions=20, events=65, deliveries=7))
    files = sorted((tmp_path / "events").iterdir())
    groups = [parquet.ParquetFile(file).metadata.num_row_groups for file in files]
    assert groups == [3, 3, 1]
    assert [row["event"] for row in rows(tmp_path, "events")] == [f"e{number}" for number in range(65)]
    assert len(rows(tmp_path, "deliveries")) == 7


def test_memory_does_not_grow_with_the_number_of_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "GROUP_ROWS", 250)
    peaks = []
    for events in (1_500, 6_000):
        request = Request("ranges", tmp_path / str(events), brokers=12, subscriptions=20, events=events)
        tracemalloc.start()
        generate(request)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


def test_the_command_says_what_it_wrote(ask: Any, tmp_path: Path) -> None:
    out = str(tmp_path / "example")
    code, text, _ = ask("W2", "--out", out, "--topology", "rebeca", "--subscriptions", "80", "--events", "9")
    assert code == 0
    assert "intervals" in text
    assert "107 brokers" in text
    assert "80 rows" in text
    code, text, _ = ask("quotes", "--out", out, "--replace", "--deliveries", "0", "--json")
    written = json.loads(text)
    assert written["rows"]["events"] == 1_000
    assert "deliveries" not in written["rows"]
    assert not (tmp_path / "example" / "deliveries").exists()
    assert json.loads((tmp_path / "example" / "about.json").read_text()) == written["about"]


def test_workloads_and_topologies_are_listed(ask: Any) -> None:
    code, text, _ = ask("--list")
    assert code == 0
    assert all(name in text for name in (*WORKLOADS, "transit-stub", "rebeca"))
    assert set(json.loads(ask("--list", "--json")[1])) == {"workloads", "topologies"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "which workload"),
        (("nope", "--out", "x"), "no workload 'nope'"),
        (("ranges", "--out", "x", "--set", "nope=1"), "no parameter 'nope'"),
        (("ranges", "--out", "x", "--set", "locality"), "expected a key"),
        (("keywords", "--out", "x", "--set", "nearest=far"), "nearest must be a number"),
        (("ranges", "--out", "x", "--topology", "ring"), "no topology 'ring'"),
        (("ranges", "--out", "x", "--topology", "rebeca", "--brokers", "9"), "not free"),
        (("ranges", "--out", "x", "--topology", "./nowhere.txt"), "not a file of links"),
        (("ranges", "--out", "{file}/sub"), "cannot write"),
        (("ranges", "--out", "{there}"), "has the table events already"),
    ],
)
def test_mistakes_are_one_line(ask: Any, tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "there" / "events").mkdir(parents=True)
    places = {"file": str(tmp_path / "file"), "there": str(tmp_path / "there")}
    code, out, err = ask(*(argument.format(**places) for argument in arguments))
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
