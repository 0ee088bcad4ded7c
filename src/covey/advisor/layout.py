"""Where brokers are drawn: a tree around its root, every subtree in a sector of its own.

The radius is the number of links from the root, the width of a sector the number of leaves in it, so links of the tree
do not cross and thousands of brokers stay apart. The same tree gives the same picture.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from covey.reports.drawing import Points


def radial(brokers: Sequence[str], links: Iterable[tuple[str, str]], root: str | None = None) -> Points:
    """Return a point for each broker, the farthest at distance 1 from the root; its centre unless one is named.

    Brokers that the links do not reach stand on a circle outside.
    """
    neighbours: dict[str, list[str]] = {broker: [] for broker in brokers}
    for a, b in links:
        neighbours[a].append(b)
        neighbours[b].append(a)
    centre = _centre(neighbours, brokers[0]) if root is None else root
    order, parent = _walk(neighbours, centre)
    depth = {centre: 0}
    for broker in order[1:]:
        depth[broker] = depth[parent[broker]] + 1
    leaves = dict.fromkeys(order, 0)
    for broker in reversed(order):
        leaves[broker] = leaves[broker] or 1
        if broker != centre:
            leaves[parent[broker]] += leaves[broker]
    deepest = max(1, max(depth.values()))
    begin = {centre: 0.0}
    points: dict[str, tuple[float, float]] = {}
    for broker in order:
        angle = 2 * math.pi * (begin[broker] + leaves[broker] / 2) / leaves[centre]
        radius = depth[broker] / deepest
        points[broker] = (radius * math.cos(angle), radius * math.sin(angle))
        start = begin[broker]
        for other in sorted(neighbours[broker], key=lambda name: (leaves[name], name)):
            if other != parent.get(broker):
                begin[other] = start
                start += leaves[other]
    stray = [broker for broker in brokers if broker not in points]
    for number, broker in enumerate(stray):
        angle = 2 * math.pi * number / len(stray)
        points[broker] = (1.15 * math.cos(angle), 1.15 * math.sin(angle))
    return points


def _walk(neighbours: Mapping[str, Sequence[str]], start: str) -> tuple[list[str], dict[str, str]]:
    """Return the brokers from `start`, nearest first, and the one before each."""
    order, parent, seen = [start], {}, {start}
    for broker in order:
        for other in neighbours[broker]:
            if other not in seen:
                seen.add(other)
                parent[other] = broker
                order.append(other)
    return order, parent


def _centre(neighbours: Mapping[str, Sequence[str]], start: str) -> str:
    """Return the middle of a longest path."""
    first = _walk(neighbours, start)[0][-1]
    order, parent = _walk(neighbours, first)
    path = [order[-1]]
    while path[-1] != first:
        path.append(parent[path[-1]])
    return path[len(path) // 2]
