"""MEFA+: MEFA that may also join several blocks at once.

A pair that costs much may cost nothing with a third that covers both; moves of two blocks cannot see that. So each
broker is also offered all its blocks at once, and each pair together with all blocks it covers. Not always better
than MEFA: `best` runs both. Time grows with the cube of the blocks on the root's link; meant for up to some 300
subscribers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from covey.planning.aggregation.model import Partition, Problem
from covey.planning.aggregation.moves import state_of


def mefa_plus(problem: Problem, theta: int) -> tuple[Partition, ...]:
    state = state_of(problem)
    while state.gain < theta:
        ratios = state.candidates(alike=False)
        candidate = int(np.argmin(ratios))
        value, blocks = state.larger()
        chosen: Sequence[int] = blocks if value < ratios[candidate] else state.pair(candidate)[1:]
        state.join(chosen)
    return state.partitions()
