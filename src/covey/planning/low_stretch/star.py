"""Low-stretch spanning trees by star decomposition.

M. Elkin, Y. Emek, D. A. Spielman and S.-H. Teng, "Lower-Stretch Spanning Trees": for every weighting of the links
there is a spanning tree whose average stretch is O(log² n log log n), and this finds one. A part of the graph with
centre x0 and radius ρ is taken apart into a star: a ball around x0 whose radius is from ρ/3 to 2ρ/3, and cones, each
around a node just outside the ball and joined to it by one link, the bridge, on a shortest path from x0. Each of them
is taken apart in the same way until single nodes are left; the bridges are the tree.

- Ball and cones end where they cut little for their size: where the sum of weight / length over the links that leave is
  smallest in comparison with the weight of the links that they touch. The paper stops at the first radius that is good
  enough; the best one is as good.
- A link is forward if it leads away from x0 on a shortest path. The cone of width w around x is what can be reached
  from x when links that are not forward have at most length w together. With w ≤ ερ/2, every part keeps within
  (1 + ε)ρ of x0.
- Cones widen in levels (the paper's improved decomposition): the next level is tried only while the cone still holds
  too much of the part, so that large cones may be wide and small ones are narrow.
- The paper contracts very short links at each step, to bound the depth by log n. Here ε is chosen for the depth that
  the ratio of lengths allows: the same bound on stretch if that ratio is polynomial in n, without the bookkeeping.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from covey.errors import PlanError
from covey.matching.jit import Floats, Ints, kernel
from covey.planning.graph import Graph, Mask, connected
from covey.planning.low_stretch.growing import bridge, cone_size, cut, reach, weight


@dataclass(frozen=True)
class Star:
    """One decomposition: `part[v]` is 0 in the ball and then numbers the cones; each has a centre.

    `bridges[k]` joins cone k + 1 to the ball.
    """

    part: Ints
    centres: Ints
    bridges: Ints


def star_links(graph: Graph, root: int, weights: Floats | None = None, allowed: Mask | None = None) -> Ints:
    """Return a spanning forest of the allowed links with low average stretch by these weights of links.

    The centre of the root's component is the root; others have the node with the greatest weight around it.
    """
    work = _Work(graph, root, weights, allowed)
    work.run(-1)
    return np.flatnonzero(work.chosen).astype(np.int32)


def star_decomposition(graph: Graph, root: int, weights: Floats | None = None) -> Star:
    """Return the first star of a connected graph with at least two nodes."""
    graph.check_connected("a star decomposition")
    if graph.nodes < 2:
        raise PlanError("a star decomposition needs two nodes")
    work = _Work(graph, root, weights, None)
    count = work.run(1)
    part = np.empty(graph.nodes, np.int32)
    for number in range(count):
        part[work.order[work.starts[number] : work.ends[number]]] = number
    bridges = np.flatnonzero(work.chosen)
    cone = part[graph.ends[bridges]].max(axis=1)
    return Star(part, work.centres[:count].copy(), bridges[np.argsort(cone)].astype(np.int32))


def epsilon(graph: Graph) -> float:
    """Return by which share of its radius a part may grow in one step: the sum over all steps stays below a half."""
    spread = graph.nodes
    if len(graph.costs):
        spread = max(spread, graph.costs.sum() / graph.costs.min())
    return 1.0 / (2.0 * math.log(spread + 32.0, 4.0 / 3.0))


class _Work:
    """The parts that are still to be taken apart, as segments of `order`, and the bridges chosen so far."""

    def __init__(self, graph: Graph, root: int, weights: Floats | None, allowed: Mask | None) -> None:
        self.graph = graph
        self.allowed = np.ones(len(graph.ends), np.bool_) if allowed is None else allowed
        shares = np.ones(len(graph.ends)) if weights is None else weights
        used = shares[self.allowed & (shares > 0)]
        # Weights count links: the lightest is one link.
        self.weights = shares / used.min() if len(used) else np.ones(len(graph.ends))
        count, label = connected(graph, self.allowed)
        self.chosen = np.zeros(len(graph.ends), np.bool_)
        self.order = np.argsort(label, kind="stable").astype(np.int32)
        self.starts = np.zeros(graph.nodes, np.int32)
        self.ends = np.zeros(graph.nodes, np.int32)
        self.centres = np.zeros(graph.nodes, np.int32)
        self.ends[:count] = np.cumsum(np.bincount(label, minlength=count))
        self.starts[1:count] = self.ends[: count - 1]
        volume = volumes(graph, np.where(self.allowed, self.weights, 0.0))
        by_volume = np.lexsort((-volume, label))
        self.centres[:count] = by_volume[self.starts[:count]]
        self.centres[label[root]] = root
        self.count = count
        self.levels = max(1, round(math.log2(max(2.0, math.log2(max(2, graph.nodes))))))

    def run(self, steps: int) -> int:
        """Take so many parts apart, all of them if -1, and return how many are left."""
        graph = self.graph
        return int(
            _stars(
                graph.offsets,
                graph.neighbours,
                graph.links,
                graph.costs,
                self.weights,
                self.allowed,
                epsilon(graph),
                self.levels,
                steps,
                self.order,
                self.starts,
                self.ends,
                self.centres,
                self.count,
                self.chosen,
            )
        )


def volumes(graph: Graph, weights: Floats) -> Floats:
    """Return for each node the sum of the weights of its links."""
    both = np.repeat(weights, 2)
    return np.bincount(graph.ends.ravel(), weights=both, minlength=graph.nodes).astype(np.float64)


@kernel
def _stars(
    offsets: Ints,
    neighbours: Ints,
    links: Ints,
    lengths: Floats,
    weights: Floats,
    allowed: Mask,
    growth: float,
    levels: int,
    steps: int,
    order: Ints,
    starts: Ints,
    ends: Ints,
    centres: Ints,
    count: int,
    chosen: Mask,
) -> int:
    """Take parts from the stack apart and push what they become, the ball first; return the height of the stack."""
    nodes = len(order)
    part = np.empty(nodes, np.int32)
    for number in range(count):
        for at in range(starts[number], ends[number]):
            part[order[at]] = number
    fresh = count
    adjacency = (offsets, neighbours, links, lengths, weights, allowed)
    room = (np.empty(len(neighbours) + 1, np.float64), np.empty(len(neighbours) + 1, np.int32))
    far = np.full(nodes, np.inf)
    near = np.full(nodes, np.inf)
    sequence = np.empty(nodes, np.int32)
    cone = np.empty(nodes, np.int32)
    mark = np.full(nodes, -1, np.int32)
    stamp = 0
    while count > 0 and steps != 0:
        count -= 1
        start, end, centre = starts[count], ends[count], centres[count]
        if end - start == 1:
            continue
        steps -= 1
        mine = part[centre]
        found = reach(adjacency, part, mine, centre, np.inf, far, far, False, sequence, room)
        radius = far[sequence[found - 1]]
        total = weight(adjacency, part, mine, sequence, found)
        ball, _ = cut(adjacency, part, mine, sequence, found, far, radius / 3, 2 * radius / 3, mark, stamp)
        stamp += 1
        for at in range(ball):
            part[sequence[at]] = fresh
            order[start + at] = sequence[at]
        starts[count], ends[count], centres[count] = start, start + ball, centre
        count += 1
        inside = fresh
        fresh += 1
        filled = start + ball
        width = growth * radius / 2
        for at in range(ball, found):
            tip = sequence[at]
            link = bridge(adjacency, part, mine, inside, far, tip)
            if link < 0:
                continue
            chosen[link] = True
            seen = reach(adjacency, part, mine, tip, width, near, far, True, cone, room)
            size = cone_size(adjacency, part, mine, cone, seen, near, width, levels, total, mark, stamp)
            stamp += levels
            for place in range(seen):
                near[cone[place]] = np.inf
            for place in range(size):
                part[cone[place]] = fresh
                order[filled + place] = cone[place]
            starts[count], ends[count], centres[count] = filled, filled + size, tip
            count += 1
            fresh += 1
            filled += size
        for at in range(found):
            far[sequence[at]] = np.inf
    return count
