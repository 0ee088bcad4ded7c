"""Latency: how long things take in a broker, as histograms.

    hop      a turn of the broker, from its first read to its last write
    queue    from when a peer's socket is full, so that what is for it waits, until it takes more
    commit   a confirmed event, from when the broker hands it to the disk until it is there

The shell takes one sample a turn, a wait or a commit; nothing is measured event by event.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

# Upper ends of buckets; the last bucket has none.
BOUNDS_S: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip


class Histogram:
    """How many samples were in each bucket, and their sum."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count a sample; one of exactly a bound is in the bucket that ends there, as Prometheus has it."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds


class Latencies:
    """The histograms of one broker."""

    def __init__(self) -> None:
        self.hop, self.queue, self.commit = Histogram(), Histogram(), Histogram()
        self._sample: tuple[int, float] | None = (
            None  # the ticket of a commit that is timed, and when it began
        )

    @property
    def waits_for_commit(self) -> bool:
        """Whether a commit is timed; others are not meanwhile."""
        return self._sample is not None

    def commit_begins(self, ticket: int, now_s: float) -> None:
        """Time this commit."""
        self._sample = ticket, now_s

    def committed(self, tickets: tuple[int, ...], now_s: float) -> None:
        """Note commits that are on disk, or have failed."""
        if self._sample is not None and self._sample[0] in tickets:
            self.commit.observe(now_s - self._sample[1])
            self._sample = None

    def report(self) -> dict[str, list[int]]:
        """Return the counts of each histogram, by name."""
        return {name: list(getattr(self, name).counts) for name in ("hop", "queue", "commit")}
