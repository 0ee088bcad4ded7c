"""The cheaper of what MEFA and MEFA+ find: neither is always better."""

from __future__ import annotations

from covey.planning.aggregation.cost import cost_of
from covey.planning.aggregation.mefa import mefa
from covey.planning.aggregation.mefa_plus import mefa_plus
from covey.planning.aggregation.model import Partition, Problem


def best(problem: Problem, theta: int) -> tuple[Partition, ...]:
    """Return the cheaper plan, MEFA's if both cost the same; nothing is cheaper than what costs nothing."""
    first = mefa(problem, theta)
    cost = cost_of(problem, first)
    if cost <= 0.0:
        return first
    second = mefa_plus(problem, theta)
    return second if cost_of(problem, second) < cost else first
