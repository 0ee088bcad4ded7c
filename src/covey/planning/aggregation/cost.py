"""What a plan costs: events carried for nobody after a subscriber left, until brokers have learnt of it.

When a subscriber leaves, an aggregator that forwards its filter within a larger one must collect again what is behind
it, which takes r, and only then tells its parent. Until then events that only the departed wanted are still carried.
So with u(A) the weight of events that exactly one member of A matches (0 for a single filter, withdrawn at once):

    cascade   C = events · leaves · sum over aggregators (v, A) of r(v, A) · u(A)
    top       C = events · leaves · sum over blocks A on the root's link of r(lca(A), A) · u(A)

*Cascade* follows the release on its way up: while an aggregator collects, the link above it carries what only the
departed wanted of that block; all aggregators on the way are added up. *Top* counts an event once, and only if nobody
of the final block wants it; merging as early as possible is then free, so a plan is a partition of the subscribers. r
is the largest number of hops from the aggregator to a member's access broker, at least 1 ("access"), or 1
("constant").

The sum of r · (growth of u) that paper W writes is not used: u can shrink and r is larger further up, so the sum can
fall below 0. These functions are slow and plain; the kernels are tested against them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from covey.planning.aggregation.model import (
    Block,
    Partition,
    Problem,
    Propagation,
    aggregators_of,
)
from covey.planning.aggregation.sample import Sample


def unique_weight(sample: Sample, block: Iterable[int]) -> float:
    """Return u: the weight of events that exactly one member matches, 0 for a block of one."""
    members = list(block)
    if len(members) < 2:
        return 0.0
    return float(sample.weights[sample.matches[members].sum(axis=0) == 1].sum())


def lowest_common(tree: Propagation, block: Block) -> int:
    """Return the broker furthest from the publisher that all members are below."""
    ways = [tree.way(s) for s in block]
    common = set(ways[0]).intersection(*ways[1:])
    return max(common, key=lambda broker: int(tree.depths[broker]))


def charges(problem: Problem, partitions: Sequence[Partition]) -> list[tuple[int, Block]]:
    """Return each (broker, block) whose r · u the problem's accounting adds up."""
    if problem.accounting == "cascade":
        return aggregators_of(problem.tree, partitions)
    blocks = partitions[problem.tree.root]
    return [(lowest_common(problem.tree, block), block) for block in blocks if len(block) > 1]


def cost_of(problem: Problem, partitions: Sequence[Partition], sample: Sample | None = None) -> float:
    """Return the cost of a plan on the problem's events, or on others."""
    events = problem.sample if sample is None else sample
    rate = problem.events * problem.leaves
    return rate * sum(
        problem.delay_of(broker, block) * unique_weight(events, block)
        for broker, block in charges(problem, partitions)
    )


def cost_of_departure(problem: Problem, partitions: Sequence[Partition], subscriber: int) -> float:
    """Return the part of the cost that one subscriber's departure brings, for a leave rate of 1."""
    events = problem.sample
    total = 0.0
    for broker, block in charges(problem, partitions):
        if subscriber in block:
            alone = events.matches[list(block)].sum(axis=0) == 1
            weight = float(events.weights[alone & events.matches[subscriber]].sum())
            total += problem.delay_of(broker, block) * weight
    return problem.events * total


def waste_of(problem: Problem, partitions: Sequence[Partition], sample: Sample | None = None) -> float | None:
    """Return the rate of events that blocks let through for ever when each is forwarded as the hull of its members:
    over all links, what lies in the hull and in no member. None for filters without hulls."""
    events = problem.sample if sample is None else sample
    total = 0.0
    for partition in partitions:
        for block in partition:
            hull = events.hull(block)
            if hull is None:
                return None
            total += float(events.weights[hull & ~events.matches[list(block)].any(axis=0)].sum())
    return problem.events * total
