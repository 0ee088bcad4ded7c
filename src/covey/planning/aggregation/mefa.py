"""MEFA, the most efficient first: join the pair with the least growth of cost for each unit of gain, until theta.

Paper W, algorithm 2. Values are kept for all pairs and exactly up to date: after a move, those of all pairs whose
blocks lie inside a changed block are computed again (`cascade_candidates.refresh`), so no stale value is ever believed.
A lazy heap would be a heuristic here, as costs may fall when blocks grow: the cost is neither sub- nor supermodular,
and the bound 1 + rho ln theta of the paper does not hold. Time O(n² · links · bytes) to begin with, and for each move
that of the pairs it concerns; memory O(sum of squares of subscribers below each broker).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from covey.planning.aggregation.model import Partition, Problem
from covey.planning.aggregation.moves import loaded, state_of


def mefa(problem: Problem, theta: int, *, start: Sequence[Partition] | None = None) -> tuple[Partition, ...]:
    """Return a plan with a gain of at least theta; what `start` has merged stays so."""
    state = state_of(problem) if start is None else loaded(problem, start)
    while state.gain < theta:
        ratios = state.candidates(alike=False)
        _, x, y = state.pair(int(np.argmin(ratios)))
        state.join((x, y))
    return state.partitions()
