"""Throttle: who has failed too often has to wait, a little longer after each further failure.

A failure fills a bucket, which leaks as time goes by; while it is full, nothing more is even looked at. Buckets are by
whatever the caller names (an address and a user), and there are never more of them than allowed: the oldest are
forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable


class Throttle:
    """Buckets of failures; the time is the caller's."""

    def __init__(self, burst: int = 5, leak_s: float = 5.0, at_most: int = 10_000) -> None:
        self._burst = burst
        self._leak_s = leak_s
        self._at_most = at_most
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()  # failures, as of when

    def wait_s(self, who: Hashable, now_s: float) -> float:
        """Return how long it has to wait until it may try again: 0 if it may now."""
        level = self._level(who, now_s)
        return max(0.0, (level - self._burst + 1) * self._leak_s) if level > self._burst - 1 else 0.0

    def failed(self, who: Hashable, now_s: float) -> None:
        """Note a failure."""
        level = self._level(who, now_s) + 1.0
        self._buckets[who] = (level, now_s)
        self._buckets.move_to_end(who)
        while len(self._buckets) > self._at_most:
            self._buckets.popitem(last=False)

    def _level(self, who: Hashable, now_s: float) -> float:
        level, then_s = self._buckets.get(who, (0.0, now_s))
        return max(0.0, level - (now_s - then_s) / self._leak_s)

    def __len__(self) -> int:
        return len(self._buckets)
