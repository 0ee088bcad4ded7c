"""SPA, by similarity of pairs: join the two most similar filters of a broker until theta, wherever they are.

A baseline of paper W: neither hops nor cost are looked at. Of equally similar pairs the one furthest from the
publisher goes first, then that with the smaller numbers.
"""

from __future__ import annotations

import numpy as np

from covey.planning.aggregation.model import Partition, Problem
from covey.planning.aggregation.moves import state_of


def spa(problem: Problem, theta: int) -> tuple[Partition, ...]:
    state = state_of(problem)
    while state.gain < theta:
        values = state.candidates(alike=True)
        equal = np.flatnonzero(values == values.min())
        _, x, y = max((state.pair(int(c)) for c in equal), key=lambda found: (found[0], -found[1], -found[2]))
        state.join((x, y))
    return state.partitions()
