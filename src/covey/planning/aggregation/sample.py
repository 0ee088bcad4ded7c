"""Filters as bit sets over events with weights: all that the cost of aggregation needs to know of them.

The unique range of a block is the weight of the events that exactly one member matches. With events drawn from the
stream the weights are all 1 and uneven rates are taken into account by themselves. One-dimensional ranges need no
drawing: between two neighbouring ends all points are matched alike, so each such segment is one event, whose weight
is its length, or the probability of it when a distribution of events is given. Paper W leaves uneven rates to the
future.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from covey.errors import PlanError
from covey.matching.jit import Floats, Ints

Bytes = NDArray[np.uint8]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Sample:
    """`matches[f, e]`: filter f matches event e, which stands for `weights[e]`.

    With `lows`, `highs` (filters × attributes; half-open) and `points` (events × attributes) hulls are known too.
    """

    matches: Bools
    weights: Floats
    lows: Floats | None = None
    highs: Floats | None = None
    points: Floats | None = None

    def __post_init__(self) -> None:
        if self.matches.ndim != 2 or self.weights.shape != (self.matches.shape[1],):
            raise PlanError("a sample has one row a filter, and one column and one weight an event")
        if not np.isfinite(self.weights).all() or (self.weights < 0).any():
            raise PlanError("the weight of an event is a number, and not below 0")

    @classmethod
    def of_matches(cls, matrix: ArrayLike, weights: ArrayLike | None = None) -> Sample:
        """Take a matrix of events × filters that says which event matches which filter."""
        matches = np.ascontiguousarray(np.asarray(matrix, bool).T)
        return cls(matches, _weights(weights, matches.shape[1]))

    @classmethod
    def of_ranges(
        cls, lows: ArrayLike, highs: ArrayLike, cumulative: Callable[[Floats], Floats] | None = None
    ) -> Sample:
        """Take half-open ranges exactly. `cumulative` maps x to the weight of all events below x; without it, the
        weight of a segment is its length."""
        low, high = np.asarray(lows, float), np.asarray(highs, float)
        if low.ndim != 1 or low.shape != high.shape or not (low <= high).all():
            raise PlanError("a range has two ends, the lower one first")
        ends = np.unique(np.concatenate([low, high]))
        left, right = ends[:-1], ends[1:]
        matches: Bools = np.asarray((low[:, None] <= left) & (right <= high[:, None]))
        weights = right - left if cumulative is None else cumulative(right) - cumulative(left)
        return cls(matches, np.asarray(weights, float), low[:, None], high[:, None], left[:, None])

    @classmethod
    def of_boxes(
        cls, lows: ArrayLike, highs: ArrayLike, events: ArrayLike, weights: ArrayLike | None = None
    ) -> Sample:
        """Take half-open boxes (filters × attributes) and the points (events × attributes) they are to judge."""
        low, high, points = np.asarray(lows, float), np.asarray(highs, float), np.asarray(events, float)
        if low.ndim != 2 or low.shape != high.shape or points.ndim != 2 or points.shape[1] != low.shape[1]:
            raise PlanError("boxes and events have the same attributes")
        matches: Bools = np.asarray(((low[:, None] <= points) & (points < high[:, None])).all(axis=2))
        return cls(matches, _weights(weights, len(points)), low, high, points)

    @property
    def filters(self) -> int:
        return len(self.matches)

    @property
    def total(self) -> float:
        """The weight of all events."""
        return float(self.weights.sum())

    def compact(self) -> Sample:
        """Return the sample without events that no filter matches or that weigh nothing, and with those that the same
        filters match made one. Hulls are forgotten; the order of filters is kept."""
        wanted = self.matches.any(axis=0) & (self.weights > 0)
        if not wanted.any():
            return Sample(np.zeros((self.filters, 1), bool), np.zeros(1), self.lows, self.highs)
        columns, home = np.unique(np.packbits(self.matches[:, wanted], axis=0), axis=1, return_inverse=True)
        weights = np.bincount(home.ravel(), self.weights[wanted], columns.shape[1]).astype(float)
        matches = np.unpackbits(columns, axis=0, count=self.filters).astype(bool)
        return Sample(matches, weights, self.lows, self.highs)

    @cached_property
    def bits(self) -> Bytes:
        """The bit sets, eight events a byte, rows padded to whole 64-bit words."""
        packed = np.packbits(self.matches, axis=1, bitorder="little")
        padding = -packed.shape[1] % 8
        return np.ascontiguousarray(np.pad(packed, ((0, 0), (0, padding))))

    @cached_property
    def table(self) -> Floats:
        """For each byte of a bit set and each of its 256 values the weight of the events in it."""
        padded = np.zeros(self.bits.shape[1] * 8)
        padded[: len(self.weights)] = self.weights
        values = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
        return np.ascontiguousarray(padded.reshape(-1, 8) @ values.T)

    def similarity(self) -> Floats:
        """Return the Jaccard similarity of all pairs of filters: weight of both over weight of either; 1 for two
        filters that match nothing."""
        return similarity(self.matches, self.weights)

    def order(self) -> Ints:
        """Return the filters in the order in which `dpa` groups them: by (low, high) of the first attribute.

        Filters that are only known by what they match are put in a chain, each behind the one that is most like it of
        those that are left, from the one that most events match.
        """
        if self.lows is None or self.highs is None:
            return _chain(self.similarity(), self.matches.astype(float) @ self.weights)
        return np.lexsort((self.highs[:, 0], self.lows[:, 0])).astype(np.int32)

    def hull(self, block: tuple[int, ...]) -> Bools | None:
        """Return which events the smallest box around the members matches, None where there are no boxes."""
        if self.lows is None or self.highs is None or self.points is None:
            return None
        chosen = list(block)
        low, high = self.lows[chosen].min(axis=0), self.highs[chosen].max(axis=0)
        return np.asarray(((low <= self.points) & (self.points < high)).all(axis=1))


def similarity(matches: Bools, weights: Floats) -> Floats:
    """Return the Jaccard similarity of all pairs of rows."""
    rows = matches.astype(float)
    both = (rows * weights) @ rows.T
    alone = np.diag(both)
    either = alone[:, None] + alone - both
    return np.divide(both, either, out=np.ones_like(both), where=either > 0)


def _chain(alike: Floats, weights: Floats) -> Ints:
    left = np.ones(len(weights), bool)
    order = np.zeros(len(weights), np.int32)
    here = int(np.argmax(weights)) if len(weights) else 0
    for place in range(len(weights)):
        order[place] = here
        left[here] = False
        here = int(np.argmax(np.where(left, alike[here], -1.0)))
    return order


def _weights(weights: ArrayLike | None, events: int) -> Floats:
    return np.ones(events) if weights is None else np.array(weights, float)
