"""Random instances small enough for the integer program, and larger ones, for measuring how far algorithms are off.

*Trees* are of all sorts: uniform and exponential ranges, equal and mixed sizes, boxes, sparse and dense, shallow and
deep trees, both accountings, both delays, a required share f of the gain from 0.3 to 0.9. *Flat* ones are what DPA is
said to be optimal for: one broker, delay constant; equal sizes, sizes within a half of the mean, and any sizes.
The same number gives the same instance.
"""

from __future__ import annotations

import numpy as np

from covey.planning.aggregation.model import Accounting, Delay, Problem, Propagation
from covey.planning.aggregation.sample import Sample

SHARES = (0.3, 0.5, 0.7, 0.9)
KINDS = ("uniform", "exponential", "equal", "boxes")
FLAT_KINDS = ("equal", "uniform", "any")
DENSITIES = (0.75, 1.5, 3.0, 6.0)
SIZE = 50.0
FLAT_SUBSCRIBERS = 8


def filters(kind: str, count: int, density: float, rng: np.random.Generator) -> Sample:
    """Return random filters whose sizes add up to `density` times the domain."""
    domain = count * SIZE / density
    if kind == "boxes":
        side = domain * np.sqrt(density / count)
        low = rng.random((count, 2)) * domain
        high = low + side * (0.5 + rng.random((count, 2)))
        return Sample.of_boxes(low, high, rng.random((150, 2)) * domain)
    if kind == "equal":
        sizes = np.full(count, SIZE)
    elif kind == "any":
        sizes = np.ceil(2 * SIZE * rng.random(count))
    else:
        sizes = np.ceil(SIZE * (0.5 + rng.random(count)))
    if kind == "exponential":
        low = np.floor(rng.exponential(domain * 0.15, count))
    else:
        low = np.floor(rng.random(count) * domain)
    return Sample.of_ranges(low, low + sizes)


def random_tree(brokers: int, reach: int, rng: np.random.Generator) -> list[int]:
    """Return the parents of a random tree in which each broker hangs under one of the `reach` before it."""
    return [-1, *(int(rng.integers(max(0, v - reach), v)) for v in range(1, brokers))]


def small(number: int, most: int = 11) -> tuple[Problem, float]:
    """Return an instance of 6 to `most` subscribers and the share of the gain it asks for."""
    rng = np.random.default_rng((number, 20))
    count, brokers = int(rng.integers(6, most + 1)), int(rng.integers(1, 10))
    kind, density = KINDS[number % 4], float(rng.choice(DENSITIES))
    parents = random_tree(brokers, int(rng.choice([2, 4, 9])), rng)
    propagation = Propagation(parents, rng.integers(brokers // 3, brokers, count).tolist())
    accounting: Accounting = "cascade" if number // 4 % 2 == 0 else "top"
    sample = filters(kind, count, density, rng)
    delay: Delay = "constant" if rng.random() < 0.2 else "access"
    return Problem(propagation, sample, accounting, delay), SHARES[number // 8 % 4]


def flat(number: int) -> tuple[Problem, float]:
    """Return an instance at a single broker, delay constant, and the share of the gain it asks for."""
    rng = np.random.default_rng((number, 8))
    sample = filters(FLAT_KINDS[number % 3], FLAT_SUBSCRIBERS, float(rng.choice(DENSITIES)), rng)
    return Problem(Propagation([-1], [0] * FLAT_SUBSCRIBERS), sample, delay="constant"), SHARES[
        number // 3 % 4
    ]


def large(count: int, seed: int, accounting: Accounting) -> Problem:
    """Return ranges on 49 brokers of which subscribers are at the outer ones."""
    rng = np.random.default_rng((seed, count))
    propagation = Propagation(random_tree(49, 12, rng), rng.integers(5, 49, count).tolist())
    return Problem(propagation, filters("uniform", count, 3.0, rng), accounting)
