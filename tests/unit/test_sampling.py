"""Samples: the same events everywhere, about as many as asked for, in the tables that planning reads."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from covey.broker import sampling
from covey.broker.sampling import Sampler, listed, path_of
from covey.core.families import parse
from covey.errors import ConfigError
from covey.protocol.events import encode_content
from covey.routing.messages import NEVER

CONTENTS = [{"price": 12, "symbol": "ÄÖ"}, "<news><item/></news>", frozenset({"oak", "ash"})]


def test_a_name_decides_and_the_share_is_right(tmp_path: Path) -> None:
    some, other = (Sampler(name, tmp_path, 0.1) for name in "ab")
    names = [(publisher, number) for publisher in (1, 77, 2**63 - 5) for number in range(10_000)]
    taken = [some.takes(*name) for name in names]
    assert taken == [other.takes(*name) for name in names]
    assert 2_800 < sum(taken) < 3_200
    assert not any(Sampler("a", tmp_path, 0.0).takes(*name) for name in names)
    assert all(Sampler("a", tmp_path, 1.0).takes(*name) for name in names)


def test_tables_are_those_of_the_pipeline(tmp_path: Path) -> None:
    sampler = Sampler("a", tmp_path, 1.0)
    for number, content in enumerate(CONTENTS):
        sampler.record(10, number, *encode_content(content), 1_000.5)
    sampler.record(10, 99, 0, b"\xc1", 1_000.5)  # no event
    sampler.delivered(10, 0, ["~1/2", "~1/3"], 2.0, 1_001.0)
    sampler.delivered(10, 1, ["~1/2"], NEVER, 1_001.0)
    sampler.write(
        sampler.take(),
        {"~1": {"~1/2": parse("price > 10"), "~1/3": parse("/news", language="xpath")}},
        {"~2!1": parse("oak", language="keywords")},
        ["c", "b"],
    )
    events = parquet.read_table(tmp_path / "events").to_pylist()
    assert [(row["event"], row["broker"], row["language"]) for row in events] == [
        ("a.0", "a", "attributes"),
        ("a.1", "a", "xpath"),
        ("a.2", "a", "keywords"),
    ]
    assert json.loads(events[0]["content"]) == CONTENTS[0]
    assert json.loads(events[2]["content"]) == ["ash", "oak"]
    assert events[0]["at"].timestamp() == 1_000.5
    deliveries = parquet.read_table(tmp_path / "deliveries").to_pylist()
    assert [(row["subscription"], row["distance"]) for row in deliveries] == [
        ("~1/2", 2),
        ("~1/3", 2),
        ("~1/2", None),
    ]
    subscriptions = parquet.read_table(tmp_path / "subscriptions").to_pylist()
    assert [(row["language"], row["filter"]) for row in subscriptions] == [
        ("attributes", "price > 10"),
        ("xpath", "/news"),
    ]
    topology = parquet.read_table(tmp_path / "topology").to_pylist()
    assert [(row["a"], row["b"]) for row in topology] == [("a", "b"), ("a", "c")]


def test_memory_and_disk_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MOST_ROWS", 3)
    sampler = Sampler("a", tmp_path, 1.0, most_files=2)
    for round_ in range(4):
        for number in range(5):
            sampler.record(round_, number, *encode_content(CONTENTS[0]), 0.0)
        sampler.write(sampler.take(), {}, {}, [])
    assert (sampler.taken, sampler.lost) == (12, 8)
    files = sorted((tmp_path / "events").iterdir())
    assert len(files) == 2
    names = [parquet.read_table(file).column("event")[0].as_py() for file in files]
    assert names == ["2.0", "3.0"], "the newest are kept"


@pytest.mark.parametrize(
    "name", ["../secret.parquet", "..", "", ".a.parquet.new", "/etc/passwd", "a.parquet/../x"]
)
def test_only_files_of_samples_can_be_had(tmp_path: Path, name: str) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "secret.parquet").write_bytes(b"x")
    (tmp_path / "events" / ".a.parquet.new").write_bytes(b"x")
    (tmp_path / "events" / "a.parquet").write_bytes(b"xyz")
    assert path_of(tmp_path, "events", "a.parquet").read_bytes() == b"xyz"
    assert [(row["table"], row["name"], row["bytes"]) for row in listed(tmp_path)] == [
        ("events", "a.parquet", 3)
    ]
    assert listed(None) == []
    for table in ("events", "", "..", "secrets"):
        with pytest.raises(ConfigError):
            path_of(tmp_path, table, name)
    with pytest.raises(ConfigError, match="takes no samples"):
        path_of(None, "events", "a.parquet")
