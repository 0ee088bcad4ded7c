"""Samples followed by Structured Streaming: windows hold what a plain look at the rows says, also after a restart."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.conftest import MASTER

from covey.errors import ConfigError, CoveyError
from covey.pipeline.stream import LATE, PAST, REPEATED, Streams, Windows
from covey.pipeline.stream_state import ailment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(
    MASTER.startswith("connect:"), reason="the coordinator's own session is classic"
)

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WINDOWS = Windows(length_s=60, slide_s=20, lateness_s=30)
Row = tuple[str, str, str, datetime, str, str]


def event(name: str, at_s: float, broker: str = "a") -> Row:
    return name, "~1", broker, BEGIN + timedelta(seconds=at_s), "attributes", '{"x": 1}'


def put(streams: Streams, name: str, rows: Sequence[Row]) -> None:
    columns = ("event", "publisher", "broker", "at", "language", "content")
    values: dict[str, Any] = {column: [row[k] for row in rows] for k, column in enumerate(columns)}
    values["at"] = pa.array(values["at"], pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table(values), streams.inbox / "events" / f"{name}.parquet")


def names(streams: Streams) -> list[str]:
    window = streams.window("events")
    return [] if window is None else sorted(row["event"] for row in window.select("event").collect())


def slot_of(row: Row) -> int:
    return int(row[3].timestamp() // WINDOWS.slide_s)


def test_windows_hold_what_is_there_once_and_slide(spark: SparkSession, tmp_path: Path) -> None:
    generator = random.Random(5)
    streams = Streams(spark, tmp_path, WINDOWS)
    assert streams.advance() == {}
    assert streams.window("events") is None
    assert streams.latest_rates() == {}
    known: dict[str, Row] = {}
    for step in range(4):
        rows = [
            event(f"e{step}-{n}", 25 * step + generator.uniform(0, 25), generator.choice("ab"))
            for n in range(30)
        ]
        known |= {row[0]: row for row in rows}
        # Some rows of the step before come once more, as when a file was fetched twice.
        again = [row for row in known.values() if row[0].startswith(f"e{step - 1}-")][:7]
        # And one, where there is no watermark yet, is older than any window that the others can be in.
        ancient = [event("ancient", -1000.0)] if step == 0 else []
        put(streams, f"a-{step}", [*rows, *again, *ancient])
        if step == 2:  # another process goes on from the checkpoint
            streams = Streams(spark, tmp_path, WINDOWS)
        assert streams.advance()["events"] == len(rows) + len(again) + len(ancient)
        assert streams.dropped == ({"events": {REPEATED: len(again)}} if again else {})
        newest = max(map(slot_of, known.values()))
        assert streams.newest_slot() == newest
        slots = WINDOWS.slots(newest)
        expected = sorted(name for name, row in known.items() if slot_of(row) in slots)
        assert names(streams) == expected
        assert streams.count("events") == len(expected)
        streams.forget()
        assert streams.dropped.get("events", {}).get(PAST, 0) == len(ancient)
        assert names(streams) == expected
        for file in (streams.inbox / "events").iterdir():
            file.unlink()
    kept = {int(path.name.split("=")[1]) for path in streams.store.glob("events/batch=*/slot=*")}
    assert kept <= set(WINDOWS.slots(max(map(slot_of, known.values()))))


def test_what_is_too_late_is_left_out_and_rates_are_of_whole_windows(
    spark: SparkSession, tmp_path: Path
) -> None:
    streams = Streams(spark, tmp_path, WINDOWS)
    early = [event(f"early{n}", 5 + n, "ab"[n % 2]) for n in range(10)]
    put(streams, "1", [*early, *early[:3]])
    streams.advance()
    # Some come once more, one by way of another broker: each is counted once.
    put(
        streams,
        "2",
        [*early[:4], event("early5", 10.0, "c"), event("late by little", 35.0), event("now", 200.0)],
    )
    streams.advance()
    assert streams.dropped == {"events": {REPEATED: 5}}
    put(streams, "3", [event("too late", 100.0), event("in time", 190.0), event("now", 200.0)])
    streams.advance()
    assert streams.dropped == {"events": {LATE: 1, REPEATED: 1}}
    assert names(streams) == ["in time", "now"]
    # The state on disk tells how far it is, as Spark has written it.
    assert ailment(tmp_path, 20, BEGIN.timestamp() + 200) == ""
    assert ailment(tmp_path, 20, BEGIN.timestamp() + 150) == "its watermark is 20 s ahead of the clock"
    everything = spark.read.parquet(str(streams.store / "events"))
    assert "too late" not in {row["event"] for row in everything.collect()}
    rates = streams.rates()
    assert rates is not None
    found = {(int(row["end"].timestamp()), row["broker"]): row["events"] for row in rates.collect()}
    expected: Counter[tuple[int, str]] = Counter()
    for row in [*early, event("late by little", 35.0)]:
        first = int(row[3].timestamp()) // 20 * 20 + 20
        for end in range(first, first + 60, 20):
            if end <= BEGIN.timestamp() + 170:  # before the watermark
                expected[end, row[2]] += 1
    assert found == dict(expected)
    last = max(end for end, _ in expected)
    assert streams.latest_rates() == {
        broker: count for (end, broker), count in expected.items() if end == last
    }


def test_what_cannot_be_read_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    streams = Streams(spark, tmp_path, WINDOWS)
    (streams.inbox / "events" / "x.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(CoveyError, match="the stream of events failed") as caught:
        streams.advance()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("values", [(10, 20, 0), (10, 0, 0), (0, 0, 0), (10, 10, -1)])
def test_windows_that_cannot_be(values: tuple[int, int, int]) -> None:
    with pytest.raises(ConfigError):
        Windows(*values)
