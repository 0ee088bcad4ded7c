"""Where subscribers attach: the overlay on which aggregation is planned.

Paper W, section VI. SO: each subscriber at the adjacent broker nearest to the publisher, brokers in a breadth-first
tree. SA: from there, subscribers move to other brokers in their reach where others want the same. The measure is the
sum, over brokers, of what exactly one of its local clients wants; a client alone counts in full, or clients would be
scattered. A move is worth its fall of the measure, delta m, for each extra hop to the publisher, delta d; moves
without extra hops go first, then those worth most, as long as delta m > gamma · delta d. The measure falls each time,
so it ends.

Overlays are to be compared at equal load, the filters carried in total: SA lengthens ways, which equal gain would
hide.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from covey.errors import PlanError
from covey.matching.jit import Floats, Ints
from covey.planning.aggregation.model import NONE, AggregationPlan, Problem, Propagation
from covey.planning.aggregation.registry import aggregate
from covey.planning.aggregation.sample import Sample


def shortest_tree(neighbours: Sequence[Sequence[int]], root: int) -> Ints:
    """Return the parents in the breadth-first tree, smaller numbers first; PlanError if a broker is out of reach."""
    parents = np.full(len(neighbours), NONE, np.int32)
    reached, seen = [root], {root}
    for broker in reached:
        for other in sorted(neighbours[broker]):
            if other not in seen:
                seen.add(other)
                parents[other] = broker
                reached.append(other)
    if len(reached) < len(neighbours):
        raise PlanError("a broker is not connected to the publisher's")
    return parents


def so(parents: Ints, reach: Sequence[Sequence[int]]) -> Propagation:
    """Attach each subscriber to the broker in its reach that is nearest to the publisher."""
    depths = Propagation(parents, []).depths
    for subscriber, brokers in enumerate(reach):
        if not len(brokers):
            raise PlanError(f"subscriber {subscriber} reaches no broker")
    access = [min(brokers, key=lambda broker: (int(depths[broker]), broker)) for brokers in reach]
    return Propagation(parents, access)


def sa(parents: Ints, reach: Sequence[Sequence[int]], sample: Sample, gamma: float = 1.0) -> Propagation:
    """Attach as SO does, then move subscribers to where others want the same."""
    tree = so(parents, reach)
    access, depths, events = tree.access.copy(), tree.depths, sample.compact()
    counts = np.zeros((tree.brokers, events.matches.shape[1]), np.int32)
    np.add.at(counts, access, events.matches)
    while True:
        best: tuple[bool, float, int, int] | None = None
        for subscriber, brokers in enumerate(reach):
            home = int(access[subscriber])
            leaving = _growth(counts[home], events, subscriber, -1)
            for broker in sorted(set(brokers) - {home}):
                fall = -leaving - _growth(counts[broker], events, subscriber, 1)
                hops = max(0, int(depths[broker] - depths[home]))
                if fall > 1e-9 * events.total and fall > gamma * hops:
                    move = (hops > 0, -fall / max(1, hops), subscriber, broker)
                    best = move if best is None else min(best, move)
        if best is None:
            return Propagation(parents, access)
        subscriber, broker = best[2:]
        counts[access[subscriber]] -= events.matches[subscriber]
        counts[broker] += events.matches[subscriber]
        access[subscriber] = broker


def _growth(counts: Ints, events: Sample, subscriber: int, sign: int) -> float:
    """Return by how much a broker's measure grows when a subscriber comes (sign 1) or leaves (-1)."""
    wanted = events.matches[subscriber]
    before, weights = counts[wanted], events.weights[wanted]
    return float(weights[before + sign == 1].sum() - weights[before == 1].sum())


def local_measure(tree: Propagation, sample: Sample) -> float:
    """Return the sum over brokers of the weight of what exactly one local client wants."""
    counts = np.zeros((tree.brokers, sample.matches.shape[1]), np.int32)
    np.add.at(counts, tree.access, sample.matches)
    weights: Floats = sample.weights
    return float(((counts == 1) * weights).sum())


def at_load(problem: Problem, load: int, method: str = "best") -> AggregationPlan:
    """Plan so that all links together carry at most `load` filters."""
    carried = sum(len(below) for below in problem.tree.below)
    return aggregate(problem, theta=max(0, carried - load), method=method)
