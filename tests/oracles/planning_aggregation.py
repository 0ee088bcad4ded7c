"""Aggregation the slow way: interval arithmetic, all plans one by one, departures one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from covey.planning.aggregation.model import (
    Block,
    Partition,
    Problem,
    Propagation,
    aggregators_of,
    gain_of,
    induced,
)
from covey.planning.aggregation.sample import Sample

Range = tuple[int, int]


def problem_of(
    parents: Sequence[int],
    access: Sequence[int],
    ranges: Sequence[Range],
    accounting: str = "cascade",
    **more: object,
) -> Problem:
    lows, highs = zip(*ranges, strict=True)
    return Problem(Propagation(parents, access), Sample.of_ranges(lows, highs), accounting, **more)  # type: ignore[arg-type]


def random_problem(
    seed: int, subscribers: int, brokers: int, accounting: str, delay: str = "access"
) -> Problem:
    rng = np.random.default_rng(seed)
    parents = [-1, *(int(rng.integers(0, v)) for v in range(1, brokers))]
    lows = rng.integers(0, 20, subscribers)
    ranges = [
        (int(low), int(low + size)) for low, size in zip(lows, rng.integers(1, 15, subscribers), strict=True)
    ]
    return problem_of(
        parents, rng.integers(0, brokers, subscribers).tolist(), ranges, accounting, delay=delay
    )


def exact_cost(problem: Problem, ranges: Sequence[Range], partitions: Sequence[Partition]) -> int:
    """Return the cost by cutting ranges at integer points, straight from the definition."""
    tree = problem.tree

    def unique(block: Block) -> int:
        cells = [x for s in block for x in range(*ranges[s])]
        return sum(1 for x in set(cells) if cells.count(x) == 1)

    def delay(broker: int, block: Block) -> int:
        if problem.delay == "constant":
            return 1
        return max([1, *(tree.way(s).index(broker) for s in block)])

    if problem.accounting == "cascade":
        return sum(delay(v, block) * unique(block) for v, block in aggregators_of(tree, partitions))
    total = 0
    for block in partitions[tree.root]:
        if len(block) > 1:
            meeting = next(v for v in tree.way(block[0]) if all(v in tree.way(s) for s in block))
            total += delay(meeting, block) * unique(block)
    return total


def groupings(items: Sequence[Block]) -> Iterator[list[Block]]:
    """Yield all ways to join items into blocks."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for others in groupings(rest):
        yield [first, *others]
        for number, block in enumerate(others):
            yield [*others[:number], tuple(sorted(first + block)), *others[number + 1 :]]


def all_plans(tree: Propagation) -> Iterator[tuple[Partition, ...]]:
    """Yield all nested plans."""

    def plans_below(broker: int) -> Iterator[dict[int, Partition]]:
        own: list[Block] = [(s,) for s in tree.below[broker] if tree.access[s] == broker]
        for parts in product(*(list(plans_below(child)) for child in tree.children[broker])):
            lower = {v: partition for part in parts for v, partition in part.items()}
            inputs = own + [block for child in tree.children[broker] for block in lower[child]]
            for blocks in groupings(inputs):
                yield {**lower, broker: tuple(sorted(blocks))}

    for plan in plans_below(tree.root):
        yield tuple(plan[broker] for broker in range(tree.brokers))


def cheapest(problem: Problem, ranges: Sequence[Range], theta: int) -> int:
    """Return the least cost of all plans with a gain of theta or more."""
    tree = problem.tree
    if problem.accounting == "cascade":
        plans = all_plans(tree)
    else:
        plans = (induced(tree, groups) for groups in groupings([(s,) for s in range(tree.subscribers)]))
    return min(exact_cost(problem, ranges, plan) for plan in plans if gain_of(tree, plan) >= theta)


def departures(
    problem: Problem, ranges: Sequence[Range], partitions: Sequence[Partition], runs: int, seed: int
) -> tuple[float, float]:
    """Return the mean number of needless events for one departure, and its standard error.

    One subscriber leaves. Its release goes up; each aggregator on the way takes r to collect what is behind it, and
    meanwhile events come, one for each unit of range and time on average. An event is needless if the old filter lets
    it through and no member that stays wants it.
    """
    rng, tree = np.random.default_rng(seed), problem.tree
    domain = max(high for _, high in ranges)
    counts = np.zeros(runs)
    aggregators = set(aggregators_of(tree, partitions))
    for run in range(runs):
        leaver = int(rng.integers(tree.subscribers))
        for broker in tree.way(leaver):
            block = next(block for block in partitions[broker] if leaver in block)
            if (broker, block) not in aggregators:
                continue
            for x in rng.random(rng.poisson(domain * problem.delay_of(broker, block))) * domain:
                wanting = [s for s in block if ranges[s][0] <= x < ranges[s][1]]
                counts[run] += wanting == [leaver]
    return float(counts.mean()), float(counts.std() / np.sqrt(runs))
