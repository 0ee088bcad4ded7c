"""The benchmarks run, and compare equal answers; what they measure is nobody's test."""

from __future__ import annotations

import numpy as np
import pytest

import covey
from covey.bench import cover, match, network, network_ends
from covey.bench.timing import exponent
from covey.matching.counting import CountingIndex
from covey.matching.scan import ScanIndex
from covey.workloads.attributes import WORKLOADS, Workload


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_the_counting_index_agrees_with_the_scan(workload: Workload) -> None:
    filters = workload.filters(np.random.default_rng(1), 500)
    events = workload.events(np.random.default_rng(2), 30)
    scan = ScanIndex()
    for key, filter in enumerate(filters):
        scan.add(key, filter)
    counting = CountingIndex([filters[:200], filters[200:]])
    answers = counting.match_encoded(*counting.encode(events))
    assert [set(answer.tolist()) for answer in answers] == scan.match_batch(events)


def test_match_measures_every_workload() -> None:
    said: list[str] = []
    rows = match.run((200, 400), said.append)
    assert [(row["workload"], row["size"]) for row in rows] == [
        (workload.name, size) for workload in WORKLOADS for size in (200, 400)
    ]
    assert all(row["equal"] and row["ours_us"] > 0 and row["bytes_per_filter"] > 0 for row in rows)
    assert len(said) == len(rows)


def test_cover_measures_every_workload() -> None:
    rows = cover.run((300,), lambda _: None)
    assert [row["workload"] for row in rows] == [workload.name for workload in WORKLOADS]
    assert all(row["equal"] and 0 < row["roots"] <= 300 for row in rows)


def test_the_same_seed_gives_the_same_workload() -> None:
    for workload in WORKLOADS:
        first, second = (workload.filters(np.random.default_rng(3), 50) for _ in range(2))
        assert first == second
        assert workload.events(np.random.default_rng(4), 9) == workload.events(np.random.default_rng(4), 9)


def test_the_exponent_of_growth() -> None:
    rows = [{"size": 10, "x": 2.0}, {"size": 1000, "x": 20.0}]
    assert exponent(rows, "x") == pytest.approx(0.5)
    assert exponent(rows[:1], "x") is None


def test_the_network_is_measured_without_losing_events() -> None:
    (row,) = network.run(
        lambda _: None, events=2_000, filters=50, hops=(2,), subscribers=(), peers=False, half_load_s=0.2
    )
    assert (row["system"], row["hops"], row["lost"]) == ("covey", 2, 0)
    assert row["events_s"] > 0
    assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["max_ms"]


def test_a_filter_of_others_matches_no_event_that_is_measured() -> None:
    others = [covey.parse(network_ends.other_filter(number)) for number in range(1_000)]
    assert len(set(others)) == 1_000
    assert not any(
        one.matches(network_ends.content_of(number)) for one in others for number in range(0, 100, 9)
    )
