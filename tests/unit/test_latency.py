"""Histograms of latency, and how seldom a broker says how it is."""

from __future__ import annotations

import pytest

from covey.broker.introspection import BOUNDS_S, Histogram, Latencies, Pulse


def test_a_sample_is_in_the_bucket_that_ends_at_it_or_above() -> None:
    histogram = Histogram()
    for seconds in (0.0, BOUNDS_S[0], BOUNDS_S[0] * 1.01, BOUNDS_S[-1], BOUNDS_S[-1] + 1):
        histogram.observe(seconds)
    assert histogram.counts == [2, 1, *[0] * (len(BOUNDS_S) - 3), 1, 1]
    assert histogram.total_s == sum((0.0, BOUNDS_S[0], BOUNDS_S[0] * 1.01, BOUNDS_S[-1], BOUNDS_S[-1] + 1))


def test_one_commit_at_a_time_is_timed() -> None:
    latencies = Latencies()
    latencies.commit_begins(7, 1.0)
    assert latencies.waits_for_commit
    latencies.committed((5, 6), 1.2)
    assert latencies.waits_for_commit
    latencies.committed((7, 8), 1.5)
    assert not latencies.waits_for_commit
    latencies.committed((9,), 2.0)
    assert sum(latencies.report()["commit"]) == 1
    assert latencies.commit.total_s == 0.5


def test_lines_take_at_most_their_share() -> None:
    now_s, spent_s, made = [0.0], [0.0], [0]

    def make(gap_s: float) -> bytes:
        assert gap_s == pytest.approx(
            2.0 if made[0] else Pulse.LEAST_S
        )  # what the line before has taken, in its share
        made[0] += 1
        spent_s[0] += 0.02
        return str(made[0]).encode()

    pulse = Pulse(make, lambda: now_s[0], lambda: spent_s[0])
    lines = []
    for _ in range(1_000):  # two who ask ten times a second
        lines += [pulse.line(), pulse.line()]
        now_s[0] += 0.1
    assert spent_s[0] <= now_s[0] * Pulse.SHARE + 0.02
    assert 45 <= made[0] <= 50  # one every 2 s, where somebody asks
    assert lines[0] == lines[1] == b"1"
    assert pulse.wait_s(0.25) >= 0.25
    assert pulse.wait_s(5.0) == 5.0
