"""History: the last hour as curves, bursts in them, and percentiles from histograms. No clock: time is an argument."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

STEP_S: Final = 5.0
POINTS: Final = 720  # an hour
SERIES: Final = ("published", "received", "forwarded", "delivered", "nobody", "control", "dropped", "queue")

# A burst is far above what was before it: its mean by so many standard deviations, and by this factor.
BURST_DEVIATIONS: Final = 4.0
BURST_FACTOR: Final = 2.0
BEFORE: Final = 60  # points by which a burst is judged
LEAST_BEFORE: Final = 6
LEAST_RATE: Final = 5.0  # below which nothing is a burst


class Curve:
    """The last hour of some numbers; values of one step are averaged, and the largest queue is kept."""

    def __init__(self) -> None:
        self.points: deque[tuple[float, ...]] = deque(maxlen=POINTS)
        self._sums = [0.0] * len(SERIES)
        self._count = 0

    def add(self, values: Mapping[str, float]) -> None:
        """Take the values of a moment."""
        for place, name in enumerate(SERIES):
            value = float(values.get(name, 0.0))
            self._sums[place] = (
                max(self._sums[place], value) if name == "queue" else self._sums[place] + value
            )
        self._count += 1

    def close_step(self) -> None:
        """End a step: what came in it becomes a point, zeros if nothing did."""
        count = max(1, self._count)
        self.points.append(
            tuple(
                round(total if name == "queue" else total / count, 2)
                for name, total in zip(SERIES, self._sums, strict=True)
            )
        )
        self._sums, self._count = [0.0] * len(SERIES), 0


class History:
    """Curves of the whole network ("") and of each broker; at most `most` brokers have one."""

    def __init__(self, most: int = 1_000) -> None:
        self._curves: dict[str, Curve] = {"": Curve()}
        self._most = most
        self._next_s: float | None = None

    def add(self, view: Mapping[str, Any], now_s: float) -> None:
        """Take what is shown now."""
        if self._next_s is None:
            self._next_s = now_s + STEP_S
        while now_s >= self._next_s:
            for curve in self._curves.values():
                curve.close_step()
            # After a pause of more than an hour nothing of before is left.
            self._next_s = max(self._next_s + STEP_S, now_s - STEP_S * POINTS)
        self._curves[""].add(view["totals"])
        for row in view["brokers"]:
            if row["name"] not in self._curves and len(self._curves) <= self._most:
                self._curves[row["name"]] = Curve()
            if row["name"] in self._curves:
                self._curves[row["name"]].add(row)

    def curves(self, broker: str = "") -> dict[str, Any]:
        """Return the curves of a broker, or of the network: series by name, the last point last; and bursts."""
        curve = self._curves.get(broker)
        points = [] if curve is None else list(curve.points)
        series = {name: [point[place] for point in points] for place, name in enumerate(SERIES)}
        return {
            "step_s": STEP_S,
            "series": series,
            "bursts": {name: bursts(series[name]) for name in ("published", "control")},
        }


def bursts(values: Sequence[float]) -> list[tuple[int, int]]:
    """Return the bursts in a series, as the first and the last point of each.

    What a burst has added is not counted as "before" by the next points: a long one is one burst.
    """
    found: list[tuple[int, int]] = []
    calm: deque[float] = deque(maxlen=BEFORE)
    for place, value in enumerate(values):
        if len(calm) >= LEAST_BEFORE:
            mean = sum(calm) / len(calm)
            deviation = (sum((one - mean) ** 2 for one in calm) / len(calm)) ** 0.5
            if value > max(mean + BURST_DEVIATIONS * deviation, BURST_FACTOR * mean, LEAST_RATE):
                if found and found[-1][1] == place - 1:
                    found[-1] = (found[-1][0], place)
                else:
                    found.append((place, place))
                continue
        calm.append(value)
    return found


def percentile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """Return below which time so large a share of samples is, by straight lines within buckets; None without samples.

    In the last bucket, which has no end, it is the bound below it.
    """
    total = sum(counts)
    if not total or len(counts) != len(bounds) + 1:
        return None
    wanted, below = share * total, 0.0
    for place, count in enumerate(counts):
        if count and below + count >= wanted:
            if place == len(bounds):
                return bounds[-1]
            low = bounds[place - 1] if place else 0.0
            return low + (bounds[place] - low) * (wanted - below) / count
        below += count
    return bounds[-1]


def added(histograms: Iterable[Sequence[int]]) -> list[int]:
    """Return the sum of histograms of the same buckets; those of another length than the first are left out."""
    total: list[int] = []
    for counts in histograms:
        if not total:
            total = list(counts)
        elif len(counts) == len(total):
            total = [one + two for one, two in zip(total, counts, strict=True)]
    return total
