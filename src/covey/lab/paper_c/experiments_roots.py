"""What covers what among the subscriptions of the mobile scenario (V-B), and what leaves with a root: counts, no run.

A *root* is a filter that no other one covers. The population is that of the workload `commuters`, all subscriptions in
one set, as if one broker had them. For each root: how many subscriptions it covers; how many of these no other root
covers; and how many of those are triggered when the root leaves, which is only the maximal ones, since they cover the
rest. A root that somebody else holds too triggers nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile

from covey.core.filter import Filter
from covey.lab.experiment import Cell, Experiment, Row, Scale
from covey.lab.paper_c.driving import integer
from covey.matching.index import Index
from covey.sim import topology, workload
from covey.strategies.maximal import maximal

SUBSCRIBERS: dict[Scale, int] = {"small": 2_000, "paper": 200_000}
MANY = 2_000  # as many as each root covers in print


def cells(scale: Scale) -> list[Cell]:
    """Return one population."""
    return [{"subscribers": SUBSCRIBERS[scale], "seed": 1}]


def population(subscribers: int, seed: int) -> list[Filter]:
    """Return the filters of the mobile scenario's subscribers."""
    script = workload.build("commuters", topology.build("star", count=17), seed, subscribers=subscribers)
    arriving = takewhile(lambda action: action.op in ("advertise", "subscribe"), script)
    return [action.what for action in arriving if action.op == "subscribe"]


def run(cell: Cell) -> list[Row]:
    """Count what the roots cover and trigger."""
    return [count_roots(population(integer(cell, "subscribers"), integer(cell, "seed")))]


def count_roots(filters: Sequence[Filter]) -> Row:
    """Return the counts of one set of subscriptions."""
    held = Counter(filters)
    distinct = list(held)
    index = Index()
    index.add_batch(range(len(distinct)), distinct)
    roots = [place for place, filter in enumerate(distinct) if len(index.covering(filter)) == 1]
    told = Index()
    told.add_batch(roots, [distinct[place] for place in roots])
    covered: list[int] = []
    alone: list[int] = []
    triggered: list[int] = []
    for root in roots:
        below = [place for place in index.covered(distinct[root]) if place != root]
        told.remove(root)
        bare = [(place, distinct[place]) for place in sorted(below) if not told.covers(distinct[place])]
        told.add(root, distinct[root])
        covered.append(sum(held[distinct[place]] for place in below) + held[distinct[root]] - 1)
        alone.append(sum(held[filter] for _, filter in bare))
        triggered.append(len(maximal(bare)) if held[distinct[root]] == 1 else 0)
    many = [count for count, below in zip(triggered, covered, strict=True) if below > MANY]
    return {
        "kind": "total",
        "distinct": len(distinct),
        "roots": len(roots),
        "roots_of_many": len(many),
        "covered_mean": _mean(covered),
        "covered_max": max(covered),
        "covered_alone_mean": _mean(alone),
        "triggered_mean": _mean(triggered),
        "triggered_max": max(triggered),
        "triggered_of_many_mean": _mean(many),
    }


def _mean(counts: Sequence[int]) -> float:
    return sum(counts) / len(counts) if counts else 0.0


ROOTS = Experiment("c-roots", "C", "what the roots of the mobile scenario cover and trigger", cells, run)
