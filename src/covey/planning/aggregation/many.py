"""Aggregation for a tree of thousands of subscribers: what can be merged at once, and the heaviest of the rest.

The algorithms are for hundreds. So, in this order:

1. Subscribers that match no event of the sample are left alone: nothing is known of them.
2. Those at one broker whose filters match the same events are a *bundle*, merged at that broker. Nobody else's events
   are lost or gained by it: whatever one of them leaves behind, another one wants.
3. The heaviest bundles, those that most events match, are planned as one subscriber each: by `improved` up to
   MOST_IMPROVED of them on up to MOST_PLACES pairs of a broker and a bundle below it, else by `quick`, which merges
   what is free and then the most efficient, unless a method is named. Beyond MOST_PLANNED, bundles pass through as
   they are.
4. What was found is said and judged for all members: gain and cost count them one by one.

Cost is *cascade*, delays grow with hops (see `cost`). A plan for bundles takes each for a single subscriber, so its
cost is never less than that of step 4.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from covey.matching.jit import Ints
from covey.planning.aggregation.cost import unique_weight
from covey.planning.aggregation.model import (
    Block,
    Partition,
    Problem,
    Propagation,
    aggregators_of,
    check,
    induced,
    inputs_of,
)
from covey.planning.aggregation.registry import aggregate
from covey.planning.aggregation.sample import Sample

MOST_IMPROVED = 80
MOST_PLACES = 500
MOST_PLANNED = 150


class Merge(NamedTuple):
    """An aggregator: `members` leave `broker` as one filter, towards its parent (NONE at the root).

    `inputs` is what they came as; `gain` the filters that links no longer carry because of it. The costs are for one
    departure of each member, on the sample and on held-out events; None without them.
    """

    broker: int
    towards: int
    members: Block
    inputs: int
    gain: int
    cost: float
    held_out_cost: float | None


def merges(
    parents: Sequence[int] | Ints,
    access: Sequence[int] | Ints,
    sample: Sample,
    share: float,
    *,
    held_out: Sample | None = None,
    most_improved: int = MOST_IMPROVED,
    most_planned: int = MOST_PLANNED,
    method: str | None = None,
) -> list[Merge]:
    """Return what to merge where for a share of the largest gain of the bundles that are planned, by broker.

    `method` is one of `registry.ALGORITHMS`; by default `improved` where there is little to plan, else `quick`.
    """
    problem = Problem(Propagation(parents, access), sample, held_out=held_out)
    bundles = bundles_of(problem)
    planned = plan_bundles(problem, bundles, share, most_improved, most_planned, method)
    partitions = expanded(problem.tree, bundles, planned)
    check(problem.tree, partitions)
    found: list[Merge] = []
    counted = -1
    inputs: dict[int, int] = {}
    for broker, block in aggregators_of(problem.tree, partitions):  # by broker
        if broker != counted:
            counted, inputs = broker, _inputs(problem.tree, partitions, broker)
        found.append(_merge(problem, broker, block, inputs[block[0]]))
    return found


def bundles_of(problem: Problem) -> list[Block]:
    """Return the subscribers that match something, those of a broker that match the same together, heaviest first."""
    sample, found = problem.sample, defaultdict[tuple[int, bytes], list[int]](list)
    rows = np.packbits(sample.matches, axis=1)
    weights = np.array([sample.weights[row].sum() for row in sample.matches])
    for subscriber in np.flatnonzero(weights > 0).tolist():
        found[int(problem.tree.access[subscriber]), rows[subscriber].tobytes()].append(subscriber)
    blocks = [tuple(members) for members in found.values()]
    return sorted(blocks, key=lambda block: (-float(weights[block[0]]), block))


def plan_bundles(
    problem: Problem,
    bundles: Sequence[Block],
    share: float,
    most_improved: int,
    most_planned: int,
    method: str | None = None,
) -> tuple[Partition, ...]:
    """Return a plan for the heaviest bundles, each as its first member; subscribers are numbers of bundles."""
    first = [bundle[0] for bundle in bundles[:most_planned]]
    tree = Propagation(problem.tree.parents, problem.tree.access[first].tolist())
    sample = Sample(np.ascontiguousarray(problem.sample.matches[first]), problem.sample.weights)
    small = Problem(tree, sample)
    if len(first) < 2 or not small.target(share):
        return induced(tree, [])
    few = len(first) <= most_improved and sum(map(len, tree.below)) <= MOST_PLACES
    return aggregate(small, share, method=method or ("improved" if few else "quick")).partitions


def expanded(
    tree: Propagation, bundles: Sequence[Block], planned: Sequence[Partition]
) -> tuple[Partition, ...]:
    """Return the plan for all subscribers: planned blocks with all members, other bundles and subscribers apart."""
    home = {s: number for number, bundle in enumerate(bundles) for s in bundle}
    partitions = []
    for below, blocks in zip(tree.below, planned, strict=True):
        block_of = {number: block[0] for block in blocks for number in block}
        whole: dict[tuple[str, int], list[int]] = {}
        for s in below:
            number = home.get(s)
            if number is None:
                whole["alone", s] = [s]
            elif number in block_of:
                whole.setdefault(("block", block_of[number]), []).append(s)
            else:
                whole.setdefault(("bundle", number), []).append(s)
        partitions.append(tuple(sorted(map(tuple, whole.values()))))
    return tuple(partitions)


def _inputs(tree: Propagation, partitions: Sequence[Partition], broker: int) -> dict[int, int]:
    """Return for each block of a broker, by its first member, what number of inputs it is made of."""
    home = {s: block[0] for block in partitions[broker] for s in block}
    return dict(Counter(home[one[0]] for one in inputs_of(tree, partitions, broker)))


def _merge(problem: Problem, broker: int, block: Block, inputs: int) -> Merge:
    tree, held_out = problem.tree, problem.held_out
    delay = problem.delay_of(broker, block)
    return Merge(
        broker=broker,
        towards=int(tree.parents[broker]),
        members=block,
        inputs=inputs,
        # Each link from here to the publisher carries so many fewer: with nested plans this adds up to the gain.
        gain=(inputs - 1) * int(tree.depths[broker]),
        cost=delay * unique_weight(problem.sample, block),
        held_out_cost=None if held_out is None else delay * unique_weight(held_out, block),
    )
