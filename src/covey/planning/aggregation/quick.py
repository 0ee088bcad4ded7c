"""A plan for hundreds of subscribers in little time: what is free first, and MEFA only for what is missing.

Filters that match the same events, at whatever brokers, can be one from where they meet on: whatever one leaves behind
another one wants, so by the sample that costs nothing. Such classes are merged whole, those that most events match
first, as most is known of them, until theta. If that is enough, no plan is cheaper. If not, `best` plans anew where
there are few subscribers, and else MEFA goes on from there: then there are fewer blocks left to compare.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from covey.planning.aggregation.best import best
from covey.planning.aggregation.mefa import mefa
from covey.planning.aggregation.model import Block, Partition, Problem, Propagation, induced

FEW = 60  # subscribers up to which `best` plans what is not free


def quick(problem: Problem, theta: int) -> tuple[Partition, ...]:
    """Return a plan with a gain of at least theta."""
    chosen: list[Block] = []
    gain = 0
    for members in classes_of(problem):
        if gain >= theta:
            break
        more = class_gain(problem.tree, members)
        if more:
            chosen.append(members)
            gain += more
    if gain >= theta:
        return induced(problem.tree, chosen)
    if problem.tree.subscribers <= FEW:
        return best(problem, theta)
    return mefa(problem, theta, start=induced(problem.tree, chosen))


def classes_of(problem: Problem) -> Iterator[Block]:
    """Yield subscribers whose filters match the same events, two or more; the heaviest first."""
    sample = problem.compact
    rows, found = np.packbits(sample.matches, axis=1), defaultdict[bytes, list[int]](list)
    for subscriber in range(problem.tree.subscribers):
        found[rows[subscriber].tobytes()].append(subscriber)
    weight = {
        members[0]: float(sample.weights[sample.matches[members[0]]].sum()) for members in found.values()
    }
    for members in sorted(found.values(), key=lambda mine: (-weight[mine[0]], mine)):
        if len(members) > 1:
            yield tuple(members)


def class_gain(tree: Propagation, members: Block) -> int:
    """Return what merging these wherever they meet saves: on each link, one less than there are of them below."""
    ways = [tree.way(subscriber) for subscriber in members]
    return sum(map(len, ways)) - len(set().union(*ways))
