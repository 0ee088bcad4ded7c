"""Plans of one problem by all algorithms, under both accountings, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from covey.lab.experiment import Cell, Row
from covey.planning.aggregation.model import Accounting, Problem, Propagation
from covey.planning.aggregation.registry import aggregate
from covey.planning.aggregation.sample import Sample

ACCOUNTINGS: tuple[Accounting, ...] = get_args(Accounting)
PRINTED = ("mefa", "dpa", "spa", "aa")  # the paper's order, the cheapest first
OURS = ("mefa+", "improved")


def methods_of(cell: Cell) -> Sequence[str]:
    """Return the algorithms of a cell: `improved` takes seconds, the others hundredths of one."""
    return [*PRINTED, "mefa+", *(["improved"] if cell["improved"] else [])]


def planned(tree: Propagation, sample: Sample, f: float, methods: Sequence[str]) -> Iterator[Row]:
    """Yield a row for each accounting and algorithm, for delays that grow with hops."""
    for accounting in ACCOUNTINGS:
        problem = Problem(tree, sample, accounting)
        for method in methods:
            plan = aggregate(problem, f, method=method)
            yield {
                "accounting": accounting,
                "method": method,
                "cost": plan.cost,
                "gain": plan.gain,
                "theta": plan.theta,
                "load": plan.load,
            }


def number(cell: Cell, key: str) -> int:
    """Return a whole number of a cell."""
    value = cell[key]
    assert isinstance(value, int)
    return value


def kappa_of(sample: Sample, domain: float) -> float:
    """Return how often ranges cover the domain on average."""
    assert sample.lows is not None
    assert sample.highs is not None
    return float((sample.highs - sample.lows).sum() / domain)
