"""A plain counting index: the textbook algorithm, to compare with.

Every constraint stands in a list for its channel, sorted by one end. An event's value satisfies a stretch of each list;
each satisfied constraint counts one for its filter, and a filter matches when all its constraints were counted. It
touches every satisfied constraint, where the real index touches one constraint a filter. Filters are given once and for
all, with one conjunction each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from covey.core.attributes.filter import AttributeFilter
from covey.matching.attributes.channels import Channels
from covey.matching.jit import Floats, Ints, Longs, kernel


@kernel
def count_batch(
    starts: Longs,
    names: Ints,
    points: Floats,
    bounds: Longs,
    keys: Floats,
    others: Floats,
    rows: Ints,
    sizes: Ints,
    counts: Ints,
    touched: Ints,
    out: Ints,
    ends: Longs,
) -> int:
    """Match events one after the other; return how many were matched before `out` was full.

    bounds[3c], bounds[3c + 1], bounds[3c + 2] and bounds[3c + 3] bound the constraints of channel c by a low end only
    (keys ascending), by a high end only (descending), and by both (keys are low ends, others the high ones).
    """
    found = 0
    for number in range(len(starts) - 1):
        if found + len(sizes) > len(out):
            return number
        seen = 0
        for k in range(starts[number], starts[number + 1]):
            value, base = points[k], 3 * names[k]
            for side in range(3):
                for place in range(bounds[base + side], bounds[base + side + 1]):
                    if keys[place] > value if side != 1 else keys[place] < value:
                        break
                    if side == 2 and others[place] < value:
                        continue
                    row = rows[place]
                    if counts[row] == 0:
                        touched[seen] = row
                        seen += 1
                    counts[row] += 1
        for k in range(seen):
            row = touched[k]
            if counts[row] == sizes[row]:
                out[found] = row
                found += 1
            counts[row] = 0
        ends[number] = found
    return len(starts) - 1


class CountingIndex:
    """Filters of one conjunction each, numbered as they come."""

    def __init__(self, batches: Iterable[list[AttributeFilter]]) -> None:
        self._made = 1
        self._holding: list[int] = []
        self.channels = Channels(self._make)
        intervals: list[tuple[int, float, float]] = []
        sizes: list[int] = []
        for filters in batches:
            for filter in filters:
                (conjunction,) = filter.conjunctions
                before = len(intervals)
                for name, constraint in conjunction.constraints:
                    intervals += self.channels.intervals_of(name, constraint)
                sizes.append(len(intervals) - before)
        names, lows, highs = (np.array(column) for column in zip(*intervals, strict=True))
        rows = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        side = np.where(np.isinf(highs), 0, np.where(np.isinf(lows), 1, 2))
        keys = np.where(side == 1, highs, lows)
        # Descending where the high end counts.
        order = np.lexsort((np.where(side == 1, -keys, keys), 3 * names + side))
        places = (3 * names + side)[order]
        self._bounds = np.searchsorted(places, np.arange(3 * self._made + 1))
        self._keys, self._others, self._rows = keys[order], highs[order], rows[order]
        self._sizes = np.array(sizes, dtype=np.int32)
        self._counts = np.zeros(len(sizes), dtype=np.int32)
        self._touched = np.zeros(len(sizes), dtype=np.int32)

    def _make(self, channel: int, holds: bool) -> None:
        self._made = max(self._made, channel + 1)
        if holds:
            self._holding.append(channel)

    def encode(self, events: Iterable[Mapping[str, Any]]) -> tuple[Longs, Ints, Floats]:
        """Return events in the form that `match_encoded` takes: what holds unless an event says otherwise is said."""
        starts, names, values = self.channels.encode(events)
        if not self._holding:
            return starts, names, values
        holding = np.array(self._holding, np.int32)
        some_names: list[Ints] = []
        some_values: list[Floats] = []
        for start, end in pairwise(starts.tolist()):
            silent = holding[~np.isin(holding, names[start:end])]
            said = start + np.flatnonzero(values[start:end] == values[start:end])
            some_names.append(np.concatenate([names[said], silent]))
            some_values.append(np.concatenate([values[said], np.ones(len(silent))]))
        sizes = [0, *map(len, some_names)]
        return np.cumsum(sizes), np.concatenate(some_names), np.concatenate(some_values)

    def match_encoded(self, starts: Longs, names: Ints, points: Floats) -> list[Ints]:
        """Return the numbers of the filters that match each event."""
        out = np.zeros(len(self._sizes) + 1_000_000, dtype=np.int32)
        ends = np.zeros(len(starts) - 1, dtype=np.int64)
        result: list[Ints] = []
        while len(result) < len(starts) - 1:
            done = count_batch(
                starts[len(result) :],
                names,
                points,
                self._bounds,
                self._keys,
                self._others,
                self._rows,
                self._sizes,
                self._counts,
                self._touched,
                out,
                ends,
            )
            places = pairwise([0, *ends[:done].tolist()])
            result.extend(out[a:b].copy() for a, b in places)
        return result
