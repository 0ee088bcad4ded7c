"""Parts of the kernel of `star`: growing balls and cones within one part of a graph, and where to end them.

Nodes of the part are those with `part[node] == mine`; links to others are not there. A sequence has nodes by
distance.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from covey.matching.jit import Floats, Ints, called
from covey.planning.graph import Mask
from covey.planning.heap import drop, push

# Offsets, neighbours, links, lengths, weights, and whether a link may be used.
Adjacency: TypeAlias = tuple[Ints, Ints, Ints, Floats, Floats, Mask]


@called
def reach(
    adjacency: Adjacency,
    part: Ints,
    mine: int,
    centre: int,
    limit: float,
    distance: Floats,
    far: Floats,
    cone: bool,
    sequence: Ints,
    room: tuple[Floats, Ints],
) -> int:
    """Write the nodes of a part within `limit` of the centre in order of distance and return how many there are.

    For a cone, forward links have no length; `far` says which they are. `distance` comes in as inf and is left so for
    nodes that are not reached.
    """
    offsets, neighbours, links, lengths, _, allowed = adjacency
    keys, items = room
    distance[centre] = 0.0
    size = push(keys, items, 0, 0.0, centre)
    found = 0
    while size > 0:
        key, node = keys[0], items[0]
        size = drop(keys, items, size)
        if key > distance[node]:
            continue
        sequence[found] = node
        found += 1
        for place in range(offsets[node], offsets[node + 1]):
            other, link = neighbours[place], links[place]
            if part[other] != mine or not allowed[link]:
                continue
            length = lengths[link]
            if cone and far[node] + length == far[other]:
                length = 0.0
            if key + length < distance[other] and key + length <= limit:
                distance[other] = key + length
                size = push(keys, items, size, key + length, other)
    return found


@called
def weight(adjacency: Adjacency, part: Ints, mine: int, sequence: Ints, count: int) -> float:
    """Return the weight of all links within a part."""
    offsets, neighbours, links, _, weights, allowed = adjacency
    twice = 0.0
    for at in range(count):
        node = sequence[at]
        for place in range(offsets[node], offsets[node + 1]):
            if part[neighbours[place]] == mine and allowed[links[place]]:
                twice += weights[links[place]]
    return twice / 2


@called
def cut(
    adjacency: Adjacency,
    part: Ints,
    mine: int,
    sequence: Ints,
    count: int,
    distance: Floats,
    low: float,
    high: float,
    mark: Ints,
    stamp: int,
) -> tuple[int, float]:
    """Return how many nodes of the sequence the best radius from low to high takes in, and the weight inside.

    Best is the least cut (sum of weight / length) over the weight of all links touched; ties go to the smaller radius.
    """
    offsets, neighbours, links, lengths, weights, allowed = adjacency
    leaving, touched, held = 0.0, 0.0, 0.0
    best, best_ratio, best_held = 0, np.inf, 0.0
    for at in range(count):
        node = sequence[at]
        if distance[node] > high:
            break
        mark[node] = stamp
        for place in range(offsets[node], offsets[node + 1]):
            other, link = neighbours[place], links[place]
            if part[other] != mine or not allowed[link]:
                continue
            if mark[other] == stamp:
                leaving -= weights[link] / lengths[link]
                held += weights[link]
            else:
                leaving += weights[link] / lengths[link]
                touched += weights[link]
        if at + 1 < count and distance[sequence[at + 1]] <= max(low, distance[node]):
            continue
        ratio = leaving / touched if touched > 0.0 else 0.0
        if ratio < best_ratio:
            best, best_ratio, best_held = at + 1, ratio, held
    return best, best_held


@called
def cone_size(
    adjacency: Adjacency,
    part: Ints,
    mine: int,
    sequence: Ints,
    count: int,
    distance: Floats,
    width: float,
    levels: int,
    total: float,
    mark: Ints,
    stamp: int,
) -> int:
    """Return how many nodes of the sequence a cone takes in; `total` is the weight of the part that it is cut from.

    Widths are tried in levels, each the next share of the greatest. The first is left only if the cone holds more
    than a small share of the part, later ones the more readily; what the last level takes in is taken.
    """
    size = count
    if distance[sequence[count - 1]] == 0.0:
        return size  # nothing lies within the width that does not belong to the cone anyway
    for level in range(levels):
        low, high = level * width / levels, (level + 1) * width / levels
        size, held = cut(adjacency, part, mine, sequence, count, distance, low, high, mark, stamp + level)
        share = 2 ** (np.log2(max(total, 1.0)) ** ((levels - 1 - level) / levels))
        if held <= total / share:
            break
    return size


@called
def bridge(adjacency: Adjacency, part: Ints, mine: int, inside: int, far: Floats, node: int) -> int:
    """Return the link on a shortest path from the ball to a node that is still free, -1 if there is none."""
    offsets, neighbours, links, lengths, _, allowed = adjacency
    if part[node] == mine:
        for place in range(offsets[node], offsets[node + 1]):
            other, link = neighbours[place], links[place]
            if part[other] == inside and allowed[link] and far[other] + lengths[link] == far[node]:
                return link
    return -1
