"""Brokers at random places of a square, linked to those near them: GT-ITM's geometric graphs.

The model is Waxman's with a sharp limit, in Zegura, Calvert and Bhattacharjee, "How to Model an Internetwork" (INFOCOM
1996): two brokers are linked if they are near. Here the shortest pairs are linked, as many as the wanted degree needs;
parts that this leaves apart are then joined to the rest, the smallest first, each by its shortest pair. Such a graph
has many short cycles and long ways, where a transit-stub graph has few cycles and short ways.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from random import Random

from covey.errors import ConfigError
from covey.sim.topology.catalogue import check_range
from covey.sim.topology.graph import Link, Topology
from covey.sim.topology.shapes import MAX_BROKERS

Place = tuple[float, float]
Pair = tuple[float, int, int]  # length and both numbers, the smaller first


def geometric(count: int, seed: int, degree: float = 6.0) -> Topology:
    """Return a connected graph of brokers b1 … in a square with `degree` neighbours on average, a few more if that
    alone does not connect it. ConfigError when there are not so many pairs."""
    check_range("count", count, 1, MAX_BROKERS)
    check_range("seed", seed, 0)
    most = count * (count - 1) // 2
    wanted = round(count * degree / 2) if degree == degree else -1
    if not 0 <= wanted <= most:
        raise ConfigError(f"degree must be from 0 to {count - 1} for {count} brokers, not {degree}")
    random = Random(seed)
    places = [(random.random(), random.random()) for _ in range(count)]
    pairs = _shortest(places, wanted)
    pairs += _joints(places, pairs)
    brokers = tuple(f"b{number}" for number in range(1, count + 1))
    links: tuple[Link, ...] = tuple((brokers[a], brokers[b]) for _, a, b in pairs)
    return Topology("geometric", links, brokers)


def _shortest(places: list[Place], wanted: int) -> list[Pair]:
    """Return the shortest pairs, so many, the shortest first; of equals those with smaller numbers."""
    radius = math.sqrt((2 * wanted + 1) / len(places) / math.pi / len(places))
    while True:
        near = _within(places, radius)
        if len(near) >= wanted:
            return sorted(near)[:wanted]
        radius *= 1.2


def _within(places: list[Place], radius: float) -> list[Pair]:
    """Return all pairs that are at most so far from each other, found by looking into neighbouring squares only."""
    squares: dict[tuple[int, int], list[int]] = defaultdict(list)
    found: list[Pair] = []
    for number, place in enumerate(places):
        x, y = int(place[0] / radius), int(place[1] / radius)
        for column in (x - 1, x, x + 1):
            for row in (y - 1, y, y + 1):
                for other in squares.get((column, row), ()):
                    far = math.dist(place, places[other])
                    if far <= radius:
                        found.append((far, other, number))
        squares[x, y].append(number)
    return found


def _joints(places: list[Place], pairs: Iterable[Pair]) -> list[Pair]:
    """Return pairs that join what the others leave apart."""
    part = list(range(len(places)))  # a number of each part's; that of the part it is in
    members = {number: [number] for number in part}

    def join(a: int, b: int) -> None:
        kept, gone = sorted((part[a], part[b]), key=lambda name: (-len(members[name]), name))
        for number in members[gone]:
            part[number] = kept
        members[kept] += members.pop(gone)

    for _, a, b in pairs:
        if part[a] != part[b]:
            join(a, b)
    found: list[Pair] = []
    while len(members) > 1:
        smallest = min(members.items(), key=lambda item: (len(item[1]), item[0]))[1]
        inside = set(smallest)
        far, a, b = min(
            (math.dist(places[number], place), number, other)
            for number in smallest
            for other, place in enumerate(places)
            if other not in inside
        )
        found.append((far, min(a, b), max(a, b)))
        join(a, b)
    return found
