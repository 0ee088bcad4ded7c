"""What a subscriber's broker remembers of the events it got: how far behind each the next interested one is.

    distance   of an event and a subscription S at its broker: hops from there, towards the publisher, to the nearest
               broker where another subscription wants the event too; FAR if there is none on the whole way
    φ(µ)       the similarity at µ hops: the share of a publisher's events with distance <= µ. It is the share of S's
               events that have to come so far for somebody else even when S has left, so it never falls with µ
    critical   of a threshold θ: the smallest µ with φ(µ) >= θ

A row (event, publisher, subscription, distance) stays in the window for a time, or until there are too many; the rows
of a subscription go with it. Too few rows are no evidence. They mean one of two things: the subscription is younger
than the window, so that nothing is known (FAR), or the publisher is silent, so that nothing is risked (0).
"""

from __future__ import annotations

from collections import Counter, deque
from math import ceil
from typing import Final, NamedTuple

from covey.routing.table import Place

FAR: Final = float("inf")

# 0.55 · 20 is 11.000000000000002 to a computer; the share of 11 in 20 is meant.
_ROUNDING: Final = 1e-9


class Distances:
    """How many events of one publisher had which distance, for one subscription."""

    __slots__ = ("_counts", "total")

    def __init__(self) -> None:
        self._counts: Counter[float] = Counter()
        self.total = 0

    def add(self, distance: float) -> None:
        """Count an event."""
        self._counts[distance] += 1
        self.total += 1

    def drop(self, distance: float) -> None:
        """Count it no more."""
        self._counts[distance] -= 1
        self.total -= 1
        if not self._counts[distance]:
            del self._counts[distance]

    def similarity(self, hops: float) -> float:
        """Return φ(hops); 0 if there are no events."""
        near = sum(count for distance, count in self._counts.items() if distance <= hops)
        return near / self.total if self.total else 0.0

    def critical(self, threshold: float) -> float:
        """Return the fewest hops at which the similarity reaches the threshold; FAR if it never does, or must be 1."""
        if threshold >= 1.0:
            return FAR
        needed = ceil(threshold * self.total - _ROUNDING)
        near = 0
        for distance in sorted(self._counts):
            near += self._counts[distance]
            if near >= needed:
                return distance
        return FAR


class History:
    """What is known of one subscription: since when it is here, and the distances of each publisher's events."""

    __slots__ = ("publishers", "since_s")

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.publishers: dict[str, Distances] = {}

    def add(self, publisher: str, distance: float) -> None:
        """Count an event."""
        counted = self.publishers.get(publisher)
        if counted is None:
            counted = self.publishers[publisher] = Distances()
        counted.add(distance)

    def drop(self, publisher: str, distance: float) -> None:
        """Count it no more."""
        counted = self.publishers[publisher]
        counted.drop(distance)
        if not counted.total:
            del self.publishers[publisher]


class Row(NamedTuple):
    """One event that one subscription got."""

    time_s: float
    event: str
    publisher: str
    distance: float
    history: History


class Window:
    """The rows of all subscriptions at one broker, the latest `rows` of the last `length_s` seconds."""

    def __init__(self, length_s: float, rows: int, minimum_samples: int) -> None:
        self._length_s = length_s
        self._most_rows = rows
        self._minimum_samples = minimum_samples
        self._rows: deque[Row] = deque()
        self._histories: dict[Place, History] = {}
        self._cut_s = -FAR  # rows up to this time had to go because there were too many

    def __len__(self) -> int:
        return len(self._rows)

    def begin(self, place: Place, now_s: float) -> None:
        """Note a new subscription."""
        self._histories[place] = History(now_s)

    def forget(self, place: Place) -> None:
        """Forget a subscription with its rows: they are counted nowhere, and leave the window with their time."""
        self._histories.pop(place, None)

    def record(self, place: Place, publisher: str, event: str, distance: float, now_s: float) -> None:
        """Note that a subscription got an event."""
        history = self._histories.get(place)
        if history is None:
            return
        history.add(publisher, distance)
        self._rows.append(Row(now_s, event, publisher, distance, history))
        self._expire(now_s)

    def _expire(self, now_s: float) -> None:
        rows = self._rows
        while rows and rows[0].time_s <= now_s - self._length_s:
            row = rows.popleft()
            row.history.drop(row.publisher, row.distance)
        while len(rows) > self._most_rows:
            row = rows.popleft()
            self._cut_s = row.time_s
            row.history.drop(row.publisher, row.distance)

    def critical(self, place: Place, publisher: str, threshold: float, now_s: float) -> float:
        """Return the critical distance of a subscription and a publisher."""
        self._expire(now_s)
        history = self._histories.get(place)
        if history is None:
            return FAR
        counted = history.publishers.get(publisher)
        if counted is not None and counted.total >= self._minimum_samples:
            return counted.critical(threshold)
        return self._without_evidence(history, now_s)

    def _without_evidence(self, history: History, now_s: float) -> float:
        """Return FAR for a subscription younger than what the window has seen, else 0."""
        return FAR if history.since_s > max(now_s - self._length_s, self._cut_s) else 0.0

    def similarity(self, place: Place, publisher: str, hops: float, now_s: float) -> float:
        """Return φ(hops) of a subscription and a publisher, whatever the number of events."""
        self._expire(now_s)
        history = self._histories.get(place)
        counted = None if history is None else history.publishers.get(publisher)
        return 0.0 if counted is None else counted.similarity(hops)

    def rows(self, place: Place) -> list[Row]:
        """Return the rows of a subscription that is here, oldest first: for checks and reports."""
        history = self._histories.get(place)
        return [row for row in self._rows if row.history is history]
