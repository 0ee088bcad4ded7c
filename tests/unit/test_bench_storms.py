"""`covey bench storms`: a tiny storm beside a calm pair, what is counted and what is said; no figure is judged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from covey import cli
from covey.bench import storm_kinds, storms
from covey.bench.storm_kinds import STORMS

COLUMNS = {
    "calm_p50_ms",
    "calm_p99_ms",
    "p50_ms",
    "p99_ms",
    "worst_ms",
    "aim_ms",
    "broker_cpu_s",
    "memory_mb",
}


def test_every_storm_has_a_name_a_bound_and_a_text() -> None:
    assert len({one.name for one in STORMS}) == len(STORMS) >= 11
    for one in STORMS:
        assert one.run.__doc__
        assert one.bound_bytes > 0
        assert set(one.settings()) <= {"client_bounds", "security"}


def test_a_storm_is_measured_beside_a_calm_pair(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--quick", "--seconds", "0.3", "--json", "--case", "wide events"]
    assert cli.run(["bench", "storms", *words]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["storm"] == "wide events"
    assert row.keys() >= COLUMNS
    assert row["lost"] == row["links_lost"] == 0
    assert row["done"] > 0
    assert row["aim_ms"] == pytest.approx(2 * row["calm_p99_ms"] + 5, abs=0.01)
    assert row["is_met"] == (row["p99_ms"] <= row["aim_ms"])
    assert 0 < row["calm_p50_ms"] <= row["calm_p99_ms"]


@pytest.mark.parametrize("words", [["--case", "none"], ["--seconds", "0"]])
def test_mistakes_are_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["bench", "storms", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_is_said_names_the_storms_that_missed_the_aim() -> None:
    good: dict[str, Any] = {"storm": "a", "is_met": True, "links_lost": 0, "lost": 0}
    assert storms.said([good]) == "all 1 storms met the aim"
    for change in ({"is_met": False}, {"links_lost": 1}, {"lost": 2}):
        said = storms.said([good, good | {"storm": "b"} | change])
        assert said == "1 of 2 storms met the aim; not: b"


def test_a_storm_that_is_not_known_cannot_be_let_loose() -> None:
    with pytest.raises(ValueError, match="unpack"):
        storm_kinds.storm(None, "none", storm_kinds.Target(1, 1), 1.0)  # type: ignore[arg-type]
