"""The cheapest plan there is, by integer programming: what heuristics are measured against.

x[v, i, j] says that i and j are in one block on the link above v. Triangles make it a partition, x[v] >= x[child]
makes partitions nested, and y[v, i] >= 1 - sum of x[v, i, j] over j < i makes i a leader unless somebody smaller is
with it: the gain is the number of subscribers that are not leaders. Costs, for the events that each set of filters
shares:

    q[v, i]     i's block was formed at v: somebody is with i who did not come by the same input
    z[v, i, c]  >= q[v, i] - sum of x[v, i, j] over j that match c: of i's block, i alone matches c
    e[v, i, k]  the block of i at v has a delay of k or more; each such k adds a z of its own

Under top there is one x[i, j], and the delay comes from pairs: the hops from one to the lowest broker common with
another. Made for up to 14 subscribers, where it takes seconds; beyond that it may stop with a gap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np

from covey.errors import PlanError
from covey.planning.aggregation.cost import cost_of, lowest_common
from covey.planning.aggregation.model import Partition, Problem, induced
from covey.planning.aggregation.program import Program, Terms

MOST_SUBSCRIBERS = 16
Pair = tuple[int, int]
Together = Callable[[int, int], int]


@dataclass(frozen=True)
class Optimum:
    """The best plan found and a lower bound of every plan's cost; `gap` is 0 when it is the optimum."""

    partitions: tuple[Partition, ...]
    cost: float
    bound: float

    @property
    def gap(self) -> float:
        return 0.0 if self.cost <= self.bound * (1 + 1e-6) + 1e-6 else 1.0 - self.bound / self.cost


def optimum(problem: Problem, theta: int, time_limit_s: float = 60.0) -> Optimum:
    """Solve the integer program; PlanError for too many subscribers or if no plan was found in time."""
    if problem.tree.subscribers > MOST_SUBSCRIBERS:
        raise PlanError(f"the optimum is computed for up to {MOST_SUBSCRIBERS} subscribers")
    if problem.tree.most_gain < theta:
        raise PlanError(f"no plan saves {theta} filters (hint: {problem.tree.most_gain} is the most)")
    if theta <= 0:
        return Optimum(induced(problem.tree, []), 0.0, 0.0)
    build = _cascade if problem.accounting == "cascade" else _top
    program, joined = build(problem, theta)
    values, bound = program.solve(time_limit_s)
    partitions = _partitions(problem, {key for key, number in joined.items() if values[number] > 0.5})
    rate = problem.events * problem.leaves
    return Optimum(partitions, cost_of(problem, partitions), bound * rate)


def _partitions(problem: Problem, joined: set[tuple[int, int, int]]) -> tuple[Partition, ...]:
    partitions = []
    for broker, below in enumerate(problem.tree.below):
        blocks: dict[int, list[int]] = {}
        for s in below:
            leader = next((t for t in below if t < s and (broker, t, s) in joined), s)
            blocks.setdefault(leader, []).append(s)
        partitions.append(tuple(sorted(map(tuple, blocks.values()))))
    return tuple(partitions)


def _shared(problem: Problem, below: tuple[int, ...]) -> list[tuple[frozenset[int], float]]:
    """Return each set of subscribers among `below` that match common events, with the weight of these events."""
    sample, found = problem.compact, dict[frozenset[int], float]()
    for event, weight in enumerate(sample.weights.tolist()):
        matching = frozenset(s for s in below if sample.matches[s, event])
        if matching:
            found[matching] = found.get(matching, 0.0) + weight
    return sorted(found.items(), key=lambda item: sorted(item[0]))


def _partition_rows(program: Program, below: tuple[int, ...], x: Together) -> None:
    for i, j, k in combinations(below, 3):
        for a, b, c in ((i, j, k), (j, k, i), (k, i, j)):
            program.require([(x(a, b), -1.0), (x(b, c), -1.0), (x(a, c), 1.0)], -1.0)


def _gain_terms(program: Program, below: tuple[int, ...], x: Together) -> Terms:
    """Add the leaders of a link, and return the terms that count them."""
    terms: Terms = []
    for number, i in enumerate(below):
        leader = program.variable()
        program.require([(leader, 1.0), *((x(i, j), 1.0) for j in below[:number])], 1.0)
        terms.append((leader, -1.0))
    return terms


def _alone_rows(
    program: Program, problem: Problem, below: tuple[int, ...], x: Together, conditions: dict[int, Terms]
) -> None:
    """Charge the weight of what i alone of its block matches, when all of i's conditions are met."""
    for matching, weight in _shared(problem, below):
        for i in sorted(matching & conditions.keys()):
            alone = program.variable(weight)
            others: Terms = [(x(i, j), 1.0) for j in sorted(matching - {i})]
            wanted: Terms = [(number, -value) for number, value in conditions[i]]
            program.require([(alone, 1.0), *others, *wanted], 1.0 - len(conditions[i]))


def _cascade(problem: Problem, theta: int) -> tuple[Program, dict[tuple[int, int, int], int]]:
    tree, program = problem.tree, Program()
    joined: dict[tuple[int, int, int], int] = {}
    saved: Terms = []
    came_by = {(v, s): child for child, v in enumerate(tree.parents.tolist()) for s in tree.below[child]}
    for broker in reversed(tree.layout.order.tolist()):
        below = tree.below[broker]
        for i, j in combinations(below, 2):
            joined[broker, i, j] = program.variable(whole=True)

        def x(i: int, j: int, broker: int = broker) -> int:
            return joined[broker, min(i, j), max(i, j)]

        formed = {i: program.variable() for i in below} if len(below) > 1 else {}
        for i, j in permutations(below, 2):
            child = came_by.get((broker, i))
            if child is not None and child == came_by.get((broker, j)):
                earlier = joined[child, min(i, j), max(i, j)]
                program.require([(formed[i], 1.0), (x(i, j), -1.0), (earlier, 1.0)], 0.0)
                if i < j:
                    program.require([(x(i, j), 1.0), (earlier, -1.0)], 0.0)
            else:
                program.require([(formed[i], 1.0), (x(i, j), -1.0)], 0.0)
        _partition_rows(program, below, x)
        saved += _gain_terms(program, below, x)
        _alone_rows(program, problem, below, x, {i: [(q, 1.0)] for i, q in formed.items()})
        hops = {s: tree.hops(broker, s) if problem.delay == "access" else 0 for s in below}
        for k in range(2, max(hops.values(), default=0) + 1):
            conditions: dict[int, Terms] = {}
            for i, q in formed.items():
                late = program.variable()
                if hops[i] >= k:
                    program.require([(late, 1.0)], 1.0)
                for j in below:
                    if j != i and hops[j] >= k:
                        program.require([(late, 1.0), (x(i, j), -1.0)], 0.0)
                conditions[i] = [(q, 1.0), (late, 1.0)]
            _alone_rows(program, problem, below, x, conditions)
    program.require(saved, float(theta - sum(map(len, tree.below))))
    return program, joined


def _top(problem: Problem, theta: int) -> tuple[Program, dict[tuple[int, int, int], int]]:
    tree, program = problem.tree, Program()
    everyone = tuple(range(tree.subscribers))
    pairs: dict[Pair, int] = {pair: program.variable(whole=True) for pair in combinations(everyone, 2)}

    def x(i: int, j: int) -> int:
        return pairs[min(i, j), max(i, j)]

    _partition_rows(program, everyone, x)
    saved: Terms = []
    for below in tree.below:
        saved += _gain_terms(program, below, x)
    program.require(saved, float(theta - sum(map(len, tree.below))))
    merged = {i: program.variable() for i in everyone}
    for i, j in permutations(everyone, 2):
        program.require([(merged[i], 1.0), (x(i, j), -1.0)], 0.0)
    _alone_rows(program, problem, everyone, x, {i: [(q, 1.0)] for i, q in merged.items()})
    hops = np.zeros((tree.subscribers, tree.subscribers), int)
    if problem.delay == "access":
        for i, j in permutations(everyone, 2):
            hops[i, j] = tree.hops(lowest_common(tree, (i, j)), i)
    hops = np.maximum(hops, hops.T)
    for k in range(2, hops.max(initial=0) + 1):
        conditions: dict[int, Terms] = {}
        for s in everyone:
            late = program.variable()
            for i, j in combinations(everyone, 2):
                if hops[i, j] >= k:
                    terms: Terms = [(late, 1.0), *((x(s, t), -1.0) for t in (i, j) if t != s)]
                    program.require(terms, 2.0 - len(terms))
            conditions[s] = [(merged[s], 1.0), (late, 1.0)]
        _alone_rows(program, problem, everyone, x, conditions)
    joined = {(v, i, j): pairs[i, j] for v, below in enumerate(tree.below) for i, j in combinations(below, 2)}
    return program, joined
