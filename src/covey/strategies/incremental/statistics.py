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

from collections import deque
from collections.abc import Iterable, Mapping
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
        self._counts: dict[float, int] = {}
        self.total = 0

    def add(self, distance: float) -> None:
        """Count an event."""
        self._counts[distance] = self._counts.get(distance, 0) + 1
        self.total += 1

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


class Row(NamedTuple):
    """One event that subscriptions got, with the distance it had here."""

    time_s: float
    event: str
    publisher: str
    distance: float


class History:
    """What is known of one subscription: since when it is here, and the events it got, the oldest first."""

    __slots__ = ("rows", "since_s")

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.rows: deque[Row] | None = None  # most get nothing, and an empty one takes room

    def distances(self) -> dict[str, Distances]:
        """Return the distances by publisher. Rows come all the time, this is asked when the subscription leaves."""
        counted: dict[str, Distances] = {}
        for row in self.rows or ():
            of_one = counted.get(row.publisher)
            if of_one is None:
                of_one = counted[row.publisher] = Distances()
            of_one.add(row.distance)
        return counted


class Evidence(NamedTuple):
    """What a window says of one subscription at one moment; `otherwise` of publishers with too few events."""

    publishers: Mapping[str, Distances]
    least: int
    otherwise: float

    def critical(self, publisher: str, threshold: float) -> float:
        """Return the critical distance for a publisher."""
        counted = self.publishers.get(publisher)
        if counted is None or counted.total < self.least:
            return self.otherwise
        return counted.critical(threshold)


class Window:
    """The rows of all subscriptions at one broker, the latest `rows` of the last `length_s` seconds.

    A row is one event that one subscription got. Rows leave in the order in which they came, here and in the
    subscription's history: the one that leaves is the first in both.
    """

    def __init__(self, length_s: float, rows: int, minimum_samples: int) -> None:
        self._length_s = length_s
        self._most_rows = rows
        self._minimum_samples = minimum_samples
        self._rows: deque[tuple[Row, deque[Row]]] = deque()
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

    def record(
        self, places: Iterable[Place], publisher: str, event: str, distance: float, now_s: float
    ) -> None:
        """Note that subscriptions got an event."""
        row = Row(now_s, event, publisher, distance)
        histories, rows = self._histories, self._rows
        for place in places:
            history = histories.get(place)
            if history is not None:
                if history.rows is None:
                    history.rows = deque()
                history.rows.append(row)
                rows.append((row, history.rows))
        self._expire(now_s)

    def _expire(self, now_s: float) -> None:
        rows = self._rows
        first_s = now_s - self._length_s
        while rows and rows[0][0].time_s <= first_s:
            rows.popleft()[1].popleft()
        while len(rows) > self._most_rows:
            row, of_one = rows.popleft()
            self._cut_s = row.time_s
            of_one.popleft()

    def evidence(self, place: Place, now_s: float) -> Evidence:
        """Return what is known of a subscription."""
        self._expire(now_s)
        history = self._histories.get(place)
        if history is None:
            return Evidence({}, self._minimum_samples, FAR)
        return Evidence(history.distances(), self._minimum_samples, self._without_evidence(history, now_s))

    def critical(self, place: Place, publisher: str, threshold: float, now_s: float) -> float:
        """Return the critical distance of a subscription and a publisher."""
        return self.evidence(place, now_s).critical(publisher, threshold)

    def _without_evidence(self, history: History, now_s: float) -> float:
        """Return FAR for a subscription younger than what the window has seen, else 0."""
        return FAR if history.since_s > max(now_s - self._length_s, self._cut_s) else 0.0

    def similarity(self, place: Place, publisher: str, hops: float, now_s: float) -> float:
        """Return φ(hops) of a subscription and a publisher, whatever the number of events."""
        counted = self.evidence(place, now_s).publishers.get(publisher)
        return 0.0 if counted is None else counted.similarity(hops)

    def rows(self, place: Place) -> list[Row]:
        """Return the rows of a subscription that is here, oldest first: for checks and reports."""
        history = self._histories.get(place)
        return [] if history is None else list(history.rows or ())
