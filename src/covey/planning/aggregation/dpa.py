"""DPA: the cheapest grouping of filters that are neighbours in an order, by dynamic programming, positions ignored.

Paper W, algorithm 1, with its recurrence put right (the printed index has the wrong sign and refers to itself). With
filters by (low, high) and k the merges made among the first i,

    C[0, 0] = 0;   C[i, k] = min over j < i, i - j - 1 <= k of  C[j, k - (i - j - 1)] + u({j+1 .. i})

Cost is not monotone in k, so the answer for at least m merges is the minimum over k >= m. Optimal among contiguous
groupings only: other groupings can be cheaper, even with constant delay and equal sizes, so the paper's claim of
optimality does not hold. On a tree, the smallest m is taken whose grouping, merged as early as possible, really has a
gain of theta. Time O(n³), memory O(n²).
"""

from __future__ import annotations

import numpy as np

from covey.matching.jit import Floats, Longs
from covey.planning.aggregation.model import Partition, Problem, gain_of, induced
from covey.planning.aggregation.sample import Sample


def dpa(problem: Problem, theta: int) -> tuple[Partition, ...]:
    order = problem.sample.order().tolist()
    best, choices = table_of(problem.compact, order)
    count = len(order)
    previous = -1
    for merges in range(count):
        k = merges + int(np.argmin(best[count, merges:]))
        if k == previous:
            continue
        previous = k
        plan = induced(problem.tree, grouping(order, choices, k))
        if gain_of(problem.tree, plan) >= theta:
            return plan
    return induced(problem.tree, [order])


def table_of(sample: Sample, order: list[int]) -> tuple[Floats, Longs]:
    """Return C[i, k], infinite where k merges cannot be made, and the j that each was reached from."""
    count = len(order)
    best = np.full((count + 1, max(count, 1)), np.inf)
    choices = np.zeros(best.shape, np.int64)
    best[0, 0] = 0.0
    unique = _unique_weights(sample, order)
    for i in range(1, count + 1):
        for j in range(i - 1, -1, -1):
            merges = i - j - 1
            reached = np.full(best.shape[1], np.inf)
            reached[merges:] = best[j, : best.shape[1] - merges] + unique[j, i]
            better = reached < best[i]
            best[i, better] = reached[better]
            choices[i, better] = j
    return best, choices


def grouping(order: list[int], choices: Longs, merges: int) -> list[list[int]]:
    """Return the groups behind C[n, merges]."""
    groups, end = [], len(order)
    while end > 0:
        start = int(choices[end, merges])
        groups.append(order[start:end])
        merges -= end - start - 1
        end = start
    return groups[::-1]


def _unique_weights(sample: Sample, order: list[int]) -> Floats:
    """Return u of the filters from j to i - 1 in the order, at [j, i]."""
    count = len(order)
    found = np.zeros((count + 1, count + 1))
    for j in range(count):
        times = sample.matches[order[j]].astype(np.int32)
        for i in range(j + 2, count + 1):
            times += sample.matches[order[i - 1]]
            found[j, i] = sample.weights[times == 1].sum()
    return found
