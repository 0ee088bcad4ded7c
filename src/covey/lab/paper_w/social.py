"""A network of friends: that of a file, or a stand-in of the same shape.

The paper takes 120 brokers from SNAP's ego-Facebook network (4,039 people, 88,234 friendships), which is not ours to
carry along: an edge list of the name FILE is used if it was given (`covey.lab.data`). It is the union of ten people's
circles of friends, numbered circle by circle, so friends have near numbers; half of all people have more than 25
friends, a few hundreds, and friends of a friend are mostly friends.

The stand-in has about the same counts: ten circles of uneven sizes with consecutive numbers, in each of which one
person knows all. The others arrive one by one; each chooses friends, a few or many, mostly those who came just before,
and now and then by how many friends one has. So there are groups within circles, some people with many friends,
and friends of a friend are mostly friends; numbers within a circle are then drawn anew. Few friendships join circles.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from covey.lab import data
from covey.sim.topology.files import parse_edges

FILE = "facebook_combined.txt"  # the name under which SNAP has it
PEOPLE, CIRCLES = 4_039, 10
FRIENDS = 22.5  # that one who arrives chooses, on average
SPREAD = 0.9  # of the logarithm of that number
CLOSE = 0.9  # the share of them that came just before
BRIDGES = 400  # friendships across circles


class People(NamedTuple):
    """The friends of each person, by number, sorted."""

    friends: tuple[tuple[int, ...], ...]

    @property
    def links(self) -> int:
        return sum(map(len, self.friends)) // 2


def people(graph: str, seed: int) -> People:
    """Return the network of the file that was given, or a stand-in, which is the same for the same seed."""
    return _from_file() if graph == "file" else stand_in(seed)


@lru_cache(maxsize=1)
def _from_file() -> People:
    topology = parse_edges(data.content(FILE), Path(FILE))
    names = list(topology.brokers)
    if all(name.isascii() and name.isdigit() for name in names):
        names.sort(key=int)
    numbers = {name: number for number, name in enumerate(names)}
    return _people(len(names), [(numbers[a], numbers[b]) for a, b in topology.links])


@lru_cache(maxsize=2)
def stand_in(seed: int) -> People:
    """Return a network of the shape of ego-Facebook."""
    rng = np.random.default_rng((seed, PEOPLE))
    weights = rng.permutation(np.arange(1, CIRCLES + 1) ** -0.8)
    bounds = np.round(np.cumsum(weights) / weights.sum() * PEOPLE).astype(int).tolist()
    links: set[tuple[int, int]] = set()
    first = 0
    for bound in bounds:
        links |= _circle(first, bound, rng)
        first = bound
    for _ in range(BRIDGES):
        a, b = sorted(rng.choice(PEOPLE, 2, replace=False).tolist())
        links.add((a, b))
    return _people(PEOPLE, sorted(links))


def _circle(first: int, end: int, rng: np.random.Generator) -> set[tuple[int, int]]:
    """Return the friendships of a circle of the people from `first` to `end` - 1, in which `first` knows all."""
    links: set[tuple[int, int]] = {(0, person) for person in range(1, end - first)}
    popular: list[int] = [0, 1]  # each person as often as it has friends
    for person in range(2, end - first):
        wanted = min(1 + int(FRIENDS * rng.lognormal(-0.5 * SPREAD**2, SPREAD)), person - 1)
        close = max(1, round(CLOSE * wanted))
        others = {person - 1 - back for back in range(close)}
        for which in rng.random(wanted - close).tolist():
            others.add(popular[int(which * len(popular))])
        links |= {(other, person) for other in others}
        popular += [*others, *[person] * len(others)]
    numbers = [first, *(first + 1 + rng.permutation(end - first - 1)).tolist()]
    return {(min(numbers[a], numbers[b]), max(numbers[a], numbers[b])) for a, b in links}


def _people(count: int, links: list[tuple[int, int]]) -> People:
    friends: list[list[int]] = [[] for _ in range(count)]
    for a, b in links:
        friends[a].append(b)
        friends[b].append(a)
    return People(tuple(tuple(sorted(known)) for known in friends))
