"""Annealing from the greedy plans: the plan to use when a second or two may be spent on it.

The greedy algorithms only join, and see two blocks at a time. Here a plan is also taken apart: an input leaves its
block on one link, on several or on all, a whole block is dissolved, an input moves over to another block. Moves that
pay later are let through by temperature, and the required gain may be missed for a while at a penalty, which follows
how often that happens. The first round starts from the cheapest greedy plan, the others from the best found; the
result is never worse than any greedy plan. Work is bounded by the number of proposals; nothing depends on the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from covey.matching.jit import Floats, Ints
from covey.planning.aggregation.anneal_kernels import DRAWS, anneal_cascade, anneal_top
from covey.planning.aggregation.cost import cost_of
from covey.planning.aggregation.dpa import dpa
from covey.planning.aggregation.mefa import mefa
from covey.planning.aggregation.mefa_plus import mefa_plus
from covey.planning.aggregation.model import Partition, Problem, induced
from covey.planning.aggregation.moves import TopState, blocks_of, loaded
from covey.planning.aggregation.spa import spa

CHUNK = 500  # proposals between two adjustments
NEIGHBOURS = 8
HOT, COLD = 10.0, 0.1  # temperatures, in units of what a filter saved costs on average
PLUS_LIMIT = 300  # subscribers up to which MEFA+ and DPA are among the starts

Plan = tuple[Partition, ...]


def starts_of(problem: Problem, theta: int) -> list[Plan]:
    """Return the greedy plans to begin with."""
    makers: list[Callable[[Problem, int], Plan]] = [mefa, spa]
    if problem.tree.subscribers <= PLUS_LIMIT:
        makers.append(mefa_plus)
        if problem.sample.lows is not None:
            makers.append(dpa)
    return [maker(problem, theta) for maker in makers]


def improved(
    problem: Problem,
    theta: int,
    *,
    seed: int = 0,
    rounds: int = 4,
    proposals: int | None = None,
    starts: Sequence[Plan] | None = None,
) -> Plan:
    """Return a plan with a gain of at least theta, no dearer than any of the starts, which must have that gain.

    `proposals` are for each round; without it they grow with the number of (broker, subscriber) pairs.
    """
    rng = np.random.default_rng(seed)
    each = proposals if proposals is not None else _proposals(problem)
    costs = [(cost_of(problem, plan, problem.compact), plan) for plan in starts or starts_of(problem, theta)]
    cost, best = min(costs, key=lambda found: found[0])
    rate = problem.events * problem.leaves
    for _ in range(rounds):
        if cost <= rate * 1e-9 * problem.compact.total:
            break
        plan = _anneal(problem, theta, best, each, rng)
        found = cost_of(problem, plan, problem.compact)
        if found < cost:
            best, cost = plan, found
    return best


def _proposals(problem: Problem) -> int:
    """Return the proposals of a round: a second or two of them for 120 subscribers on 49 brokers. Under top each takes
    time in proportion to the blocks, which are large, but there are fewer blocks to choose from."""
    if problem.accounting == "top":
        return min(20_000 + 300 * problem.tree.subscribers, 200_000)
    return min(10_000 + 1_000 * len(problem.tree.layout.broker), 2_000_000)


def _anneal(problem: Problem, theta: int, start: Plan, proposals: int, rng: np.random.Generator) -> Plan:
    """Anneal once and return the best plan that reached theta."""
    state = loaded(problem, start)
    unit = max(state.cost, 1e-6 * problem.compact.total) / max(theta, 1)
    totals: Floats = np.array([state.cost, state.gain, state.cost])
    label = state.groups.label if isinstance(state, TopState) else state.blocks.label
    best: Ints = label.copy()
    near = neighbours_of(problem)
    margin = 1e-9 * problem.compact.total
    penalty = 2.0 * unit
    chunks = max(1, proposals // CHUNK)
    temperatures = np.geomspace(HOT, COLD, chunks) * unit
    places = places_of(problem)
    for temperature in temperatures.tolist():
        draws = rng.random((CHUNK, DRAWS))
        if isinstance(state, TopState):
            below = anneal_top(
                state.groups,
                state.ways,
                state.table,
                problem.tree.parents,
                problem.tree.access,
                near,
                draws,
                theta,
                temperature,
                penalty,
                totals,
                best,
                margin,
            )
        else:
            below = anneal_cascade(
                state.layout,
                state.blocks,
                state.table,
                state.filters,
                state.hops,
                places,
                near,
                draws,
                theta,
                temperature,
                penalty,
                totals,
                best,
                margin,
            )
        if below > 0.5 * CHUNK:
            penalty *= 1.1
        elif below < 0.2 * CHUNK:
            penalty /= 1.1
    if isinstance(state, TopState):
        groups: dict[int, list[int]] = {}
        for subscriber, leader in enumerate(best.tolist()):
            groups.setdefault(leader, []).append(subscriber)
        return induced(problem.tree, groups.values())
    return blocks_of(problem, best)


def neighbours_of(problem: Problem) -> Ints:
    """Return, for each subscriber, those with the most similar filters."""
    alike = problem.compact.similarity()
    np.fill_diagonal(alike, -1.0)
    count = max(1, min(NEIGHBOURS, len(alike) - 1))
    return np.ascontiguousarray(np.argsort(-alike, axis=1, kind="stable")[:, :count].astype(np.int32))


def places_of(problem: Problem) -> Ints:
    """Return the slot of each subscriber at each broker, -1 where it is not below."""
    layout = problem.tree.layout
    places = np.full((problem.tree.brokers, problem.tree.subscribers), -1, np.int32)
    places[layout.broker, layout.subscriber] = np.arange(len(layout.broker))
    return places
