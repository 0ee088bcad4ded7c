"""Where brokers are on the map, and in which group: the same for the same brokers and links, whatever their order.

Each connected part is drawn so that distances on the map are as near to distances over links as can be (stress
majorization, Gansner, Koren and North 2004), from a radial drawing of a breadth-first tree; then brokers that are too
near to each other are pushed apart. Parts are put side by side. The unit is the length of a link. A large network is
drawn in two steps, so that its groups lie beside each other: each group by itself, then groups as discs that do not
overlap, each turned so that its links to other groups are short.

Groups are for maps that are too large for a label at each broker. Brokers whose names differ only by a number or by
what is behind the last dash are a group; if names say nothing, parts of the breadth-first tree are.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

ITERATIONS: Final = 50  # of a large part; a small one, which is looked at closely, gets
MORE_ITERATIONS: Final = 400
SMALL: Final = 100  # brokers
LEAST_APART: Final = 0.55  # of a link's length
PUSHES: Final = 40
TURNS: Final = 24  # angles that are tried for a group
GROUPED: Final = 30  # brokers, from which on there are groups
MAX_GROUPS: Final = 40
MOST_MAJORIZED: Final = 1_500  # brokers of a part; a larger one stays radial

Floats = NDArray[np.float64]
Graph = Mapping[str, Sequence[str]]


class Layout(NamedTuple):
    """Positions by broker, and groups by name: their brokers, and the corners of the hull around them."""

    places: dict[str, tuple[float, float]]
    groups: dict[str, dict[str, Any]]


def layout_of(brokers: Iterable[str], links: Iterable[tuple[str, str]]) -> Layout:
    """Return where brokers are; links to brokers that are not listed are passed over."""
    neighbours: dict[str, set[str]] = {name: set() for name in sorted(set(brokers))}
    for a, b in links:
        if a != b and a in neighbours and b in neighbours:
            neighbours[a].add(b)
            neighbours[b].add(a)
    graph: Graph = {name: sorted(others) for name, others in neighbours.items()}
    parts = sorted(_parts(graph), key=lambda part: (-len(part), part[0]))
    grouped = _grouped(graph, parts) if len(graph) >= GROUPED else {}
    drawn = _in_groups(graph, grouped) if grouped else _side_by_side(parts, graph)
    places = {name: (round(x, 3), round(y, 3)) for name, (x, y) in drawn.items()}
    groups = {
        name: {"brokers": members, "hull": _hull([places[one] for one in members])}
        for name, members in sorted(grouped.items())
    }
    return Layout(places, groups)


def _side_by_side(parts: Sequence[Sequence[str]], graph: Graph) -> dict[str, tuple[float, float]]:
    """Return positions of all parts, one right of the other."""
    places: dict[str, tuple[float, float]] = {}
    right = 0.0
    for part in parts:
        drawn = _draw(part, graph)
        drawn -= drawn.min(axis=0)
        for name, (x, y) in zip(part, drawn.tolist(), strict=True):
            places[name] = (right + x, y)
        right += float(np.ptp(drawn[:, 0])) + 1.5
    return places


def _in_groups(graph: Graph, grouped: Mapping[str, Sequence[str]]) -> dict[str, tuple[float, float]]:
    """Return positions of brokers whose groups are discs beside each other; a broker in no group is one by itself."""
    members = {name: list(some) for name, some in grouped.items()}
    taken = {name for some in members.values() for name in some}
    members |= {f"\0{name}": [name] for name in graph if name not in taken}
    of = {name: group for group, some in members.items() for name in some}
    inside = {group: _inside(some, graph) for group, some in members.items()}
    radius = {group: float(np.hypot(*drawn.T).max()) + 0.6 for group, drawn in inside.items()}
    outer: dict[str, set[str]] = {group: set() for group in members}
    for name, others in graph.items():
        outer[of[name]].update(of[other] for other in others if of[other] != of[name])
    between: Graph = {group: sorted(others) for group, others in sorted(outer.items())}
    parts = sorted(_parts(between), key=lambda part: (-len(part), part[0]))
    rough, names = _side_by_side(parts, between), sorted(members)
    size = 2 * float(np.mean([radius[group] for group in names]))
    centres = _discs(
        np.array([rough[name] for name in names]) * size, np.array([radius[name] for name in names])
    )
    centre = dict(zip(names, centres, strict=True))
    places: dict[str, tuple[float, float]] = {}
    for group, some in members.items():
        number = {name: place for place, name in enumerate(some)}
        pulls = [
            (number[name], centre[of[other]] - centre[group])
            for name in some
            for other in graph[name]
            if of[other] != group
        ]
        turned = _towards(inside[group], pulls) + centre[group]
        places |= {name: (x, y) for name, (x, y) in zip(some, turned.tolist(), strict=True)}
    return places


def _inside(some: Sequence[str], graph: Graph) -> Floats:
    """Return positions of a group's brokers around their middle."""
    known = set(some)
    inner: Graph = {name: [other for other in graph[name] if other in known] for name in sorted(some)}
    places = _side_by_side(sorted(_parts(inner), key=lambda part: (-len(part), part[0])), inner)
    drawn: Floats = np.array([places[name] for name in some])
    middle: Floats = (drawn.max(axis=0) + drawn.min(axis=0)) / 2
    return drawn - middle


def _discs(centres: Floats, radii: Floats) -> Floats:
    """Return centres of discs that do not overlap, or hardly: those that do are pushed apart."""
    needed = radii[:, None] + radii[None, :]
    for _ in range(8 * PUSHES):
        x, y = _between(centres)
        apart = np.hypot(x, y)
        np.fill_diagonal(apart, np.inf)
        missing = np.maximum(0.0, needed - apart) / np.maximum(apart, 1e-9)
        if not missing.any():
            break
        centres = centres + 0.5 * np.stack([(missing * x).sum(axis=1), (missing * y).sum(axis=1)], axis=1)
    return centres


def _towards(drawn: Floats, pulls: Sequence[tuple[int, Floats]]) -> Floats:
    """Return a group's drawing turned so that brokers are near to where they are pulled; one of a few angles."""
    if not pulls or len(drawn) == 1:
        return drawn
    best, least = drawn, math.inf
    for step in range(TURNS):
        angle = 2 * math.pi * step / TURNS
        cosine, sine = math.cos(angle), math.sin(angle)
        turned: Floats = drawn @ np.array([[cosine, -sine], [sine, cosine]])
        length = sum(float(np.hypot(*(turned[place] - target))) for place, target in pulls)
        if length < least - 1e-9:
            best, least = turned, length
    return best


def _parts(graph: Graph) -> list[list[str]]:
    """Return the connected parts, each sorted."""
    seen: set[str] = set()
    parts = []
    for name in graph:
        if name not in seen:
            part = sorted(_distances(graph, name))
            seen.update(part)
            parts.append(part)
    return parts


def _distances(graph: Graph, start: str) -> dict[str, int]:
    """Return how many links away each broker is that can be reached."""
    found = {start: 0}
    waiting = deque([start])
    while waiting:
        name = waiting.popleft()
        for other in graph[name]:
            if other not in found:
                found[other] = found[name] + 1
                waiting.append(other)
    return found


def _draw(part: Sequence[str], graph: Graph) -> Floats:
    """Return positions of a connected part, in its order."""
    if len(part) == 1:
        return np.zeros((1, 2))
    number = {name: place for place, name in enumerate(part)}
    distances = np.zeros((len(part), len(part)))
    for name in part:
        for other, far in _distances(graph, name).items():
            distances[number[name], number[other]] = far
    centre = part[int(np.argmin(distances.max(axis=1) * len(part) ** 2 + distances.sum(axis=1)))]
    drawn = _radial(part, graph, centre)
    if len(part) <= MOST_MAJORIZED:
        drawn = _majorized(drawn, distances)
    return _turned(_apart(drawn))


def _radial(part: Sequence[str], graph: Graph, centre: str) -> Floats:
    """Return a radial drawing of the breadth-first tree: each subtree has an angle by its number of leaves."""
    children, order = _tree(graph, centre)
    leaves: dict[str, int] = {}
    for name in reversed(order):
        leaves[name] = sum(leaves[child] for child in children[name]) or 1
    number = {name: place for place, name in enumerate(part)}
    drawn = np.zeros((len(part), 2))
    spans = {centre: (0.0, 2 * math.pi, 0)}
    for name in order:
        begin, end, depth = spans[name]
        angle = (begin + end) / 2
        drawn[number[name]] = depth * math.cos(angle), depth * math.sin(angle)
        at = begin
        for child in children[name]:
            width = (end - begin) * leaves[child] / leaves[name]
            spans[child] = (at, at + width, depth + 1)
            at += width
    return drawn


def _tree(graph: Graph, root: str) -> tuple[dict[str, list[str]], list[str]]:
    """Return the breadth-first tree: children by broker, and brokers in its order."""
    children: dict[str, list[str]] = {root: []}
    order = [root]
    for name in order:
        for other in graph[name]:
            if other not in children:
                children[other] = []
                children[name].append(other)
                order.append(other)
    return children, order


def _majorized(drawn: Floats, distances: Floats) -> Floats:
    """Return the drawing after some steps of stress majorization, each of which can only better it."""
    count = len(drawn)
    np.fill_diagonal(distances, 1.0)
    weights = distances**-2
    np.fill_diagonal(weights, 0.0)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.pinv(laplacian + 1.0 / count)
    for _ in range(MORE_ITERATIONS if count <= SMALL else ITERATIONS):
        apart = np.hypot(*_between(drawn))
        np.fill_diagonal(apart, 1.0)
        scaled = -weights * distances / np.maximum(apart, 1e-9)
        np.fill_diagonal(scaled, 0.0)
        np.fill_diagonal(scaled, -scaled.sum(axis=1))
        drawn = inverse @ (scaled @ drawn)
    return drawn


def _apart(drawn: Floats) -> Floats:
    """Return the drawing with brokers pushed apart that are too near to each other."""
    count = len(drawn)
    # Two at the same place are pushed in directions of their own.
    angles = np.arange(count) * 2.399963
    drawn = drawn + 1e-4 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    for _ in range(PUSHES):
        x, y = _between(drawn)
        apart = np.hypot(x, y)
        np.fill_diagonal(apart, np.inf)
        missing = np.maximum(0.0, LEAST_APART - apart)
        if not missing.any():
            break
        missing /= np.maximum(apart, 1e-9)
        drawn = drawn + 0.5 * np.stack([(missing * x).sum(axis=1), (missing * y).sum(axis=1)], axis=1)
    return drawn


def _between(drawn: Floats) -> tuple[Floats, Floats]:
    """Return how far each broker is from each, in both directions."""
    return drawn[:, None, 0] - drawn[None, :, 0], drawn[:, None, 1] - drawn[None, :, 1]


def _turned(drawn: Floats) -> Floats:
    """Return the drawing turned so that it is wide and not high, and the first broker is not on the right."""
    centred = drawn - drawn.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    if len(axes) < 2:
        axes = np.eye(2)
    turned: Floats = centred @ axes.T
    for axis in (0, 1):
        if turned[0, axis] > 0:
            turned[:, axis] *= -1
    return turned


# -- groups ------------------------------------------------------------------------------------------------------


def _grouped(graph: Graph, parts: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """Return groups by what names have in common, or else by parts of the tree; each with its brokers, sorted."""
    by_name: dict[str, list[str]] = {}
    for name in graph:
        stem = re.sub(r"[-_.:/]?[0-9]+$", "", name)
        stem = stem if stem and stem != name else re.split(r"[-_.:/][^-_.:/]*$", name)[0]
        by_name.setdefault(stem, []).append(name)
    several = {stem: members for stem, members in by_name.items() if len(members) > 1}
    covered = sum(map(len, several.values()))
    if 2 <= len(several) <= MAX_GROUPS and covered * 2 >= len(graph):
        return several
    found: dict[str, list[str]] = {}
    size = max(4, math.ceil(len(graph) / 12))
    for part in parts:
        found |= _cut(part, graph, size)
    return found


def _cut(part: Sequence[str], graph: Graph, size: int) -> dict[str, list[str]]:
    """Return pieces of about a size of a part's breadth-first tree, cut from its leaves and named by their roots."""
    root = max(part, key=lambda name: (len(graph[name]), name))
    children, order = _tree(graph, root)
    pieces: dict[str, list[str]] = {}
    open_: dict[str, list[str]] = {}
    for name in reversed(order):
        mine = [name]
        for child in children[name]:
            mine += open_.pop(child)
        if len(mine) >= size or name == root:
            pieces[f"{name} …"] = sorted(mine)
            mine = []
        open_[name] = mine
    return {name: members for name, members in pieces.items() if len(members) > 1}


def _hull(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the corners of the convex hull (Andrew's monotone chain)."""
    listed = sorted(set(points))
    if len(listed) <= 2:
        return listed

    def half(some: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
        chain: list[tuple[float, float]] = []
        for x, y in some:
            while len(chain) > 1:
                (ax, ay), (bx, by) = chain[-2:]
                if (bx - ax) * (y - ay) - (by - ay) * (x - ax) > 0:
                    break
                chain.pop()
            chain.append((x, y))
        return chain[:-1]

    return half(listed) + half(reversed(listed))
