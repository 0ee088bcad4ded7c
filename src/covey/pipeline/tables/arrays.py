"""Small things that numpy does in two steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from covey.matching.jit import Longs


def gather(starts: Longs, counts: Longs) -> Longs:
    """Return the places starts[i] … starts[i] + counts[i] - 1, for all i in turn."""
    before: Longs = np.cumsum(counts) - counts
    places: Longs = np.repeat(starts - before, counts)
    return places + np.arange(len(places))


def heads(ordered: NDArray[Any]) -> Longs:
    """Return where runs of equal values begin."""
    if not len(ordered):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
