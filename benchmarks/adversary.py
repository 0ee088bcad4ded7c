"""Which filters and events are the index's worst, beside a scan over columns in NumPy? Hill climbing looks for them.

    python benchmarks/adversary.py [--filters N] [--minutes M] [--seed S]

A workload is drawn from PARAMETERS: how many attributes there are, how many of them a filter constrains, by equalities
or by ranges, how wide the ranges are and how many have one end only, how many values equalities have, and how uneven
attributes, values and places are chosen. Starting from several corners, one parameter at a time is changed at random,
and the change is kept if matching has become slower beside the scan: both take all matches of the same events, in CPU
time of the same process, after the index has moved its rows to where they are cheapest. Every answer is compared with
the scan's. The worst workload that was found is printed, and each that was worse than those before it on the way.

The aim is a ratio below 3 at 100,000 filters.
"""

from __future__ import annotations

import argparse
import random
import time
from typing import Any, Final

import numpy as np

from covey.bench.timing import best_us
from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import Constraint, between, compare
from covey.core.attributes.filter import AttributeFilter, trusted
from covey.matching.attributes.index import AttributeIndex

EVENTS: Final = 32
SETTLING: Final = 400
Workload = dict[str, float]

# The values each parameter can have, in order: a step of the climber goes to a neighbouring one, or to any.
PARAMETERS: Final[dict[str, tuple[float, ...]]] = {
    "attributes": (1, 2, 3, 4, 6, 8, 10, 12, 16),
    "constraints": (1, 2, 3, 4, 5, 6, 8, 10, 12),  # of a filter, at most as many as there are attributes
    "equalities": (0.0, 0.2, 0.5, 0.8, 1.0),  # share of constraints
    "values": (1, 2, 4, 16, 64, 1024),
    "least": (0.0, 0.01, 0.05, 0.2, 0.3, 0.5, 0.7, 0.9),  # of ranges' widths, as shares of the domain
    "spread": (0.0, 0.05, 0.15, 0.25, 0.4, 0.6, 1.0),  # of the widths
    "one_sided": (0.0, 0.2, 0.5, 1.0),
    "skew": (0.0, 0.5, 1.0, 2.0),  # of attributes and values
    "places": (0.0, 0.5, 0.9),  # share of ranges and events that lie in a hundredth of the domain
}
CORNERS: Final[tuple[Workload, ...]] = tuple(
    dict(zip(PARAMETERS, values, strict=True))
    for values in (
        (10, 10, 0.0, 1, 0.7, 0.25, 0.0, 0.0, 0.0),
        (3, 3, 0.0, 1, 0.3, 0.4, 0.0, 0.0, 0.0),
        (16, 4, 0.0, 1, 0.7, 0.25, 0.2, 0.0, 0.0),
        (8, 4, 0.5, 4, 0.5, 0.25, 0.5, 1.0, 0.0),
        (2, 1, 0.0, 1, 0.2, 0.6, 0.5, 0.0, 0.5),
        (16, 8, 0.2, 2, 0.5, 0.4, 0.5, 0.5, 0.9),
    )
)


def _places(generator: np.random.Generator, shape: tuple[int, ...], crowded: float) -> np.ndarray:
    """Draw places of the domain, some of them in its crowded hundredth."""
    places: np.ndarray = generator.random(shape)
    return np.where(generator.random(shape) < crowded, 0.5 + places / 100, places)


def _ranks(generator: np.random.Generator, shape: tuple[int, ...], count: int, skew: float) -> np.ndarray:
    weights = 1.0 / np.arange(1, count + 1) ** skew
    return np.minimum(np.searchsorted(np.cumsum(weights / weights.sum()), generator.random(shape)), count - 1)


class Drawn:
    """Filters and events of one workload, as objects and as columns."""

    def __init__(self, workload: Workload, filters: int, seed: int) -> None:
        generator = np.random.default_rng(seed)
        attributes, skew = int(workload["attributes"]), workload["skew"]
        count, values = min(int(workload["constraints"]), attributes), int(workload["values"])
        # Distinct attributes by Gumbel noise; those of the first names are equalities.
        noise = generator.gumbel(size=(filters, attributes)) - skew * np.log(np.arange(1, attributes + 1))
        chosen = np.zeros((filters, attributes), np.bool_)
        np.put_along_axis(chosen, np.argpartition(-noise, count - 1, axis=1)[:, :count], True, axis=1)
        self.equal = np.arange(attributes) < round(workload["equalities"] * attributes)
        widths = workload["least"] + workload["spread"] * generator.random((filters, attributes))
        middles = _places(generator, (filters, attributes), workload["places"])
        lows, highs = middles - widths / 2, middles + widths / 2
        open_ends = generator.random((filters, attributes)) < workload["one_sided"]
        upper = generator.random((filters, attributes)) < 0.5
        lows[open_ends & upper], highs[open_ends & ~upper] = -np.inf, np.inf
        ranks = _ranks(generator, (filters, attributes), values, skew).astype(np.float64)
        self.lows = np.where(chosen, np.where(self.equal, ranks, lows), -np.inf)
        self.highs = np.where(chosen, np.where(self.equal, ranks, highs), np.inf)
        self.chosen = chosen
        points = _places(generator, (EVENTS, attributes), workload["places"])
        self.points = np.where(self.equal, _ranks(generator, (EVENTS, attributes), values, skew), points)

    def filters(self) -> list[AttributeFilter]:
        """Return the filters as objects."""
        result = []
        rows = zip(self.chosen.tolist(), self.lows.tolist(), self.highs.tolist(), strict=True)
        for chosen, lows, highs in rows:
            sides = [
                (f"a{k:02}", _constraint(low, high))
                for k, (used, low, high) in enumerate(zip(chosen, lows, highs, strict=True))
                if used
            ]
            result.append(trusted((Conjunction(tuple(sides)),)))
        return result

    def events(self) -> list[dict[str, Any]]:
        """Return the events as dictionaries."""
        return [{f"a{k:02}": value for k, value in enumerate(row)} for row in self.points.tolist()]

    def scan(self, number: int, columns: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Return the numbers of the filters that match an event, column by column."""
        holds: np.ndarray = np.ones(len(self.lows), np.bool_)
        for (low, high), value in zip(columns, self.points[number], strict=True):
            holds &= (low <= value) & (value <= high)
        return np.flatnonzero(holds)


def _constraint(low: float, high: float) -> Constraint:
    if low == high:
        return compare("=", low)
    if low == -np.inf:
        return compare("<=", high)
    return compare(">=", low) if high == np.inf else between(low, high)


def ratio(workload: Workload, filters: int, seed: int) -> tuple[float, dict[str, float]]:
    """Return how much longer the index takes than the scan, and the figures behind that."""
    drawn = Drawn(workload, filters, seed)
    index = AttributeIndex()
    index.add_batch(range(filters), drawn.filters())
    batch = index.encode(drawn.events())
    before, same = -1, 0
    for _ in range(SETTLING):
        index.match_encoded(batch)
        same = same + 1 if index.store.in_grids() == before else 0
        before = index.store.in_grids()
        if same == 8:
            break
    columns = [
        (np.ascontiguousarray(low), np.ascontiguousarray(high))
        for low, high in zip(drawn.lows.T, drawn.highs.T, strict=True)
    ]
    ours = best_us(lambda: index.match_encoded(batch), EVENTS, rounds=5)
    some = EVENTS // 4
    theirs = best_us(lambda: [drawn.scan(number, columns) for number in range(some)], some, rounds=3)
    found, ends = index.match_encoded(batch)
    for number, part in enumerate(np.split(found, ends[:-1])[:some]):
        if not np.array_equal(np.sort(part), drawn.scan(number, columns)):
            raise SystemExit(f"the index and the scan differ: {workload}, seed {seed}")
    figures = {"ours_us": ours, "scan_us": theirs, "matches": len(found) / EVENTS}
    return ours / theirs, figures | {"gridded": index.store.in_grids() / max(1, index.store.rows)}


def _changed(workload: Workload, generator: random.Random) -> Workload:
    """Return the workload with one parameter changed."""
    name = generator.choice(list(PARAMETERS))
    choices = PARAMETERS[name]
    place = choices.index(workload[name])
    near = [choices[other] for other in (place - 1, place + 1) if 0 <= other < len(choices)]
    value = generator.choice(near) if generator.random() < 0.6 else generator.choice(choices)
    return workload | {name: value}


def climb(filters: int, minutes: float, seed: int) -> tuple[float, Workload]:
    """Look for the worst workload for so long, each corner for an equal share; return its ratio and the workload."""
    generator, end = random.Random(seed), time.monotonic() + 60 * minutes
    worst, at = 0.0, CORNERS[0]
    for number, corner in enumerate(CORNERS):
        turn = time.monotonic() + (end - time.monotonic()) / (len(CORNERS) - number)
        here, height, candidate = corner, 0.0, corner
        while time.monotonic() < turn or height == 0.0:
            found, figures = ratio(candidate, filters, seed)
            if found > height:
                here, height = candidate, found
            if found > worst:
                worst, at = found, candidate
                said = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
                print(f"{worst:6.3f}  {said}  {at}", flush=True)
            candidate = _changed(here, generator)
    return worst, at


def main() -> None:
    """Look for the worst workload, and say which it is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--filters", type=int, default=100_000)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    worst, workload = climb(options.filters, options.minutes, options.seed)
    print(f"worst ratio to the columnar scan at {options.filters:,} filters: {worst:.3f}, with {workload}")


if __name__ == "__main__":
    main()
