"""The aggregation algorithms by name, all with one signature.

mefa       greedy by cost for each unit of gain          mefa+     the same, with larger moves
best       the cheaper of these two                      improved  annealing from all greedy plans
quick      what is free, then one of these
dpa        dynamic programming along the order           spa, aa   baselines: by similarity, all or none
optimum    integer program, for few subscribers
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from covey.errors import PlanError
from covey.planning.aggregation.aa import aa
from covey.planning.aggregation.best import best
from covey.planning.aggregation.cost import cost_of, waste_of
from covey.planning.aggregation.dpa import dpa
from covey.planning.aggregation.improve import improved
from covey.planning.aggregation.mefa import mefa
from covey.planning.aggregation.mefa_plus import mefa_plus
from covey.planning.aggregation.model import (
    AggregationPlan,
    Partition,
    Problem,
    aggregators_of,
    check,
    gain_of,
)
from covey.planning.aggregation.optimum import optimum
from covey.planning.aggregation.quick import quick
from covey.planning.aggregation.spa import spa

Algorithm: TypeAlias = Callable[[Problem, int], tuple[Partition, ...]]


def exact(problem: Problem, theta: int) -> tuple[Partition, ...]:
    """Return the cheapest plan, or PlanError if it could not be proved so in a minute."""
    found = optimum(problem, theta)
    if found.gap > 0:
        raise PlanError(f"the optimum was not reached in time: a gap of {found.gap:.1%} is left")
    return found.partitions


ALGORITHMS: dict[str, Algorithm] = {
    "aa": aa,
    "spa": spa,
    "dpa": dpa,
    "mefa": mefa,
    "mefa+": mefa_plus,
    "best": best,
    "quick": quick,
    "improved": improved,
    "optimum": exact,
}


def aggregate(
    problem: Problem, share: float | None = None, *, theta: int | None = None, method: str = "improved"
) -> AggregationPlan:
    """Plan with one of ALGORITHMS a gain of at least `theta`, or of a share of the largest gain there is.

    Exactly one of the two is given. The plan is checked: nested, and with the gain asked for.
    """
    if (share is None) == (theta is None):
        raise PlanError("give either theta or a share of the largest gain")
    if method not in ALGORITHMS:
        raise PlanError(f"no aggregation {method!r} (hint: one of {', '.join(ALGORITHMS)})")
    target = theta if theta is not None else problem.target(share or 0.0)
    if target > problem.tree.most_gain:
        raise PlanError(f"no plan saves {target} filters (hint: {problem.tree.most_gain} is the most)")
    partitions = ALGORITHMS[method](problem, target)
    check(problem.tree, partitions)
    gain = gain_of(problem.tree, partitions)
    assert gain >= target, f"{method} reached a gain of {gain}, not {target}"
    return plan_of(problem, partitions, target, method)


def plan_of(
    problem: Problem, partitions: tuple[Partition, ...], theta: int = 0, method: str = "given"
) -> AggregationPlan:
    """Return partitions with what they are worth."""
    held_out = problem.held_out
    return AggregationPlan(
        method=method,
        theta=theta,
        partitions=partitions,
        aggregators=tuple(aggregators_of(problem.tree, partitions)),
        gain=gain_of(problem.tree, partitions),
        cost=cost_of(problem, partitions),
        held_out_cost=None if held_out is None else cost_of(problem, partitions, held_out),
        waste=waste_of(problem, partitions),
    )
