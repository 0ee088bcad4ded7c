"""The steady state of each strategy, as one pure function.

What a neighbour must know is the reduction of the filters of all other links that are wanted there. The strategies get
to it step by step, message by message; here it is said at once, so that a test can compare the two. A strategy that is
not listed has a steady state that depends on what happened before: lazy covering on the order of subscriptions,
incremental aggregation and imperfect merging on the events seen. For those only the duty of all holds: what a neighbour
was told covers what it must know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from covey.core.filter import Filter
from covey.strategies.maximal import maximal
from covey.strategies.merging.reduction import merged

Reduce = Callable[[Sequence[Filter]], list[Filter]]


class Reduction(NamedTuple):
    """A reduction.

    along_paths   reducing what is reduced already, hop by hop, comes to the same as reducing all
    by_home       the filters of each broker's clients are reduced by themselves, all of them; of what is left, a
                  neighbour is told what is wanted there
    """

    reduce: Reduce
    along_paths: bool = True
    by_home: bool = False


def nothing(filters: Sequence[Filter]) -> list[Filter]:
    """Tell nothing."""
    return []


def everything(filters: Sequence[Filter]) -> list[Filter]:
    """Tell all of it."""
    return list(filters)


def distinct(filters: Sequence[Filter]) -> list[Filter]:
    """Tell each filter once."""
    return list(dict.fromkeys(filters))


def uncovered(filters: Sequence[Filter]) -> list[Filter]:
    """Tell the filters that no other one covers."""
    return [item[1] for item in maximal([("", filter) for filter in distinct(filters)])]


REDUCTIONS: dict[str, Reduction] = {
    "flooding": Reduction(nothing),
    "simple": Reduction(everything),
    "match-first": Reduction(everything),
    "identity": Reduction(distinct),
    "covering": Reduction(uncovered),
    "covering-packing": Reduction(uncovered),
    "merging": Reduction(merged, along_paths=False),
    "trees": Reduction(uncovered),
    "regions": Reduction(uncovered, by_home=True),
    "xroute": Reduction(uncovered),
    "xroute-sets": Reduction(uncovered),
}
