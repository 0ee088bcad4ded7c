"""The synthetic setting of section VII: 49 brokers, 5 of them core, and ranges of subscribers at the edge.

What the paper leaves open is read so. **Brokers**: the publisher's core broker is linked to the four others; trees of
edge brokers hang below all five in turn, each with `depth` levels and `degree` children a broker, as many as there are
brokers for (the last one may be cut short). So the number of brokers is the same at every depth and degree.
**Subscribers**: at edge brokers, at random. **Ranges**: sizes from half to one and a half times the mean one; they
begin anywhere (uniform), or mostly near the lower end (exponential, with a mean of 15 % of the domain). **Events** are
uniform over the domain.
The coverage kappa = subscribers · mean size / domain says how dense ranges lie.
"""

from __future__ import annotations

import numpy as np

from covey.planning.aggregation.sample import Sample

BROKERS, CORE = 49, 5
SUBSCRIBERS = 60
NEAR = 0.15  # mean lower end of exponential ranges, as a share of the domain
DENSE, SPARSE = 1_000, 4_000  # domains: kappa 3 and 0.75 with 60 subscribers and ranges of 50


def core_tree(depth: int, degree: int) -> list[int]:
    """Return the parent of each broker; brokers 0 to 4 are the core, 0 the publisher's."""
    parents = [-1, *[0] * (CORE - 1)]
    trees = 0
    while len(parents) < BROKERS:
        level = [len(parents)]
        parents.append(trees % CORE)
        trees += 1
        for _ in range(depth - 1):
            above, level = level, []
            for broker in above:
                level += range(len(parents), min(len(parents) + degree, BROKERS))
                parents += [broker] * (min(len(parents) + degree, BROKERS) - len(parents))
    return parents


def ranges(distribution: str, count: int, size: float, domain: float, rng: np.random.Generator) -> Sample:
    """Return the ranges of `count` subscribers, judged exactly for uniform events."""
    sizes = np.ceil(size * (0.5 + rng.random(count)))
    if distribution == "exponential":
        low = np.floor(rng.exponential(domain * NEAR, count))
    else:
        low = np.floor(rng.random(count) * domain)
    return Sample.of_ranges(low, low + sizes)


def edge_brokers(count: int, rng: np.random.Generator) -> list[int]:
    """Return an edge broker for each of `count` subscribers."""
    return [int(broker) for broker in rng.integers(CORE, BROKERS, count)]
