"""Low-stretch spanning trees by repeated clustering.

N. Alon, R. M. Karp, D. Peleg and D. West, "A Graph-Theoretic Game and Its Application to the k-Server Problem". Links
are put into classes by length, each `base` times as long as the one before. In round j, balls are grown in what is
left of the graph, over links of classes up to j, until for each of these classes the weight that leaves the ball is
at most 1 / x of the weight that it touches; a breadth-first tree of each ball becomes part of the result, and the
ball one node. Average stretch is exp(O(√(log n log log n))), in practice that of a breadth-first tree. With lengths
that are the inverse of multiplicities, links that many documents cross are taken first.
"""

from __future__ import annotations

import numpy as np

from covey.errors import PlanError
from covey.matching.jit import Floats, Ints, Longs, kernel
from covey.planning.graph import Graph, Mask

MAX_CLASSES = 64
LIGHTEST = 1e-6


def akpw_links(
    graph: Graph,
    weights: Floats | None = None,
    allowed: Mask | None = None,
    *,
    lengths: Floats | None = None,
    x: float = 4.0,
    base: float = 4.0,
) -> Ints:
    """Return a spanning forest of the allowed links by these weights and lengths, costs unless told."""
    if x <= 1 or base <= 1:
        raise PlanError(f"x and base must be more than 1, not {x} and {base}")
    numbers = np.arange(len(graph.ends)) if allowed is None else np.flatnonzero(allowed)
    shares = np.ones(len(graph.ends)) if weights is None else weights
    # A link of no weight counts for next to nothing, and not for nothing: balls end only where nothing leaves them.
    positive = shares[shares > 0]
    shares = np.maximum(shares, LIGHTEST * positive.min()) if len(positive) else np.ones(len(shares))
    long = graph.costs if lengths is None else lengths
    chosen = np.zeros(len(graph.ends), np.bool_)
    cluster = np.arange(graph.nodes, dtype=np.int32)
    if not len(numbers):
        return np.zeros(0, np.int32)
    kind = np.floor(np.log(long[numbers] / long[numbers].min()) / np.log(base) + 1e-9).astype(np.int64)
    kind = np.minimum(kind, MAX_CLASSES - 1).astype(np.int32)
    count = graph.nodes
    reach = int(kind.min())
    while len(numbers):
        active = kind <= reach
        if active.any():
            count = _round(graph, numbers[active], kind[active], shares, cluster, count, x, chosen)
        between = cluster[graph.ends[numbers, 0]] != cluster[graph.ends[numbers, 1]]
        numbers, kind = numbers[between], kind[between]
        reach += 1
    return np.flatnonzero(chosen).astype(np.int32)


def _round(
    graph: Graph,
    numbers: Longs,
    kinds: Ints,
    shares: Floats,
    cluster: Ints,
    count: int,
    x: float,
    chosen: Mask,
) -> int:
    """Grow balls over these links between clusters, choose their trees' links; return the new number of clusters."""
    ends = cluster[graph.ends[numbers]]
    here = np.concatenate([ends[:, 0], ends[:, 1]])
    there = np.concatenate([ends[:, 1], ends[:, 0]])
    twice = np.concatenate([numbers, numbers])
    order = np.lexsort((twice, there, here))
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(here, minlength=count), out=offsets[1:])
    volume = np.bincount(here, weights=shares[twice], minlength=count)
    centres = np.lexsort((np.arange(count), -volume)).astype(np.int32)
    merged = np.full(count, -1, np.int32)
    found = int(
        _balls(
            offsets,
            there[order],
            twice[order].astype(np.int32),
            np.concatenate([kinds, kinds])[order],
            shares,
            centres,
            x,
            merged,
            chosen,
        )
    )
    cluster[:] = merged[cluster]
    return found


@kernel
def _balls(
    offsets: Ints,
    neighbours: Ints,
    links: Ints,
    kinds: Ints,
    shares: Floats,
    centres: Ints,
    x: float,
    merged: Ints,
    chosen: Mask,
) -> int:
    """Give each cluster the number of its ball; `merged` comes in as -1."""
    queue = np.empty(len(centres), np.int32)
    leaving = np.empty(MAX_CLASSES, np.float64)
    touched = np.empty(MAX_CLASSES, np.float64)
    counted = np.full(len(centres), -1, np.int32)
    count = 0
    for number in range(len(centres)):
        centre = centres[number]
        if merged[centre] >= 0:
            continue
        merged[centre] = count
        queue[0] = centre
        head, tail = 0, 1
        leaving[:] = 0.0
        touched[:] = 0.0
        while True:
            # The ring from head to tail has just come in: a link leaves the ball while only one end is counted.
            for at in range(head, tail):
                node = queue[at]
                for place in range(offsets[node], offsets[node + 1]):
                    other, share = neighbours[place], shares[links[place]]
                    if counted[other] == count:
                        leaving[kinds[place]] -= share
                    elif merged[other] < 0 or merged[other] == count:
                        leaving[kinds[place]] += share
                        touched[kinds[place]] += share
                counted[node] = count
            enough = True
            for kind in range(MAX_CLASSES):
                if leaving[kind] * x > touched[kind]:
                    enough = False
            if enough:
                break
            ring = tail
            for at in range(head, ring):
                node = queue[at]
                for place in range(offsets[node], offsets[node + 1]):
                    other = neighbours[place]
                    if merged[other] < 0:
                        merged[other] = count
                        chosen[links[place]] = True
                        queue[tail] = other
                        tail += 1
            head = ring
            if head == tail:
                break
        count += 1
    return count
