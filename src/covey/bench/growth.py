"""How costs grow: the exponent e of a cost that grows as size**e, by least squares on logarithms over all sizes.

Two sizes always lie on a line, so an exponent needs at least three.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from covey.bench.comparison import Comparison

LEAST_SIZES: Final = 3


class Growth(NamedTuple):
    """How the costs of one work grow; an exponent is None where there are too few sizes."""

    part: str
    work: str
    axis: str
    sizes: tuple[int, ...]
    ours: float | None
    theirs: dict[str, float | None]


def fitted(sizes: Sequence[float], costs: Sequence[float | None]) -> float | None:
    """Return the slope of log cost over log size; None with fewer than three sizes, or where a cost is not positive."""
    points = [(size, cost) for size, cost in zip(sizes, costs, strict=True) if cost is not None and cost > 0]
    if len({size for size, _ in points}) < LEAST_SIZES or len(points) < len(sizes):
        return None
    x, y = np.log(np.array(points, dtype=float)).T
    x = x - x.mean()
    return float(x @ y / (x @ x))


def growths(comparisons: Sequence[Comparison]) -> list[Growth]:
    """Return the growth of each work that was done at three sizes or more, in the order of the comparisons."""
    series: dict[tuple[str, str, str], dict[str, dict[int, Comparison]]] = {}
    for one in comparisons:
        if one.ours is not None and one.axis:
            series.setdefault(one.series, {}).setdefault(one.baseline, {})[one.size] = one
    result: list[Growth] = []
    for (part, work, axis), by_baseline in series.items():
        ours = {size: one.ours for rows in by_baseline.values() for size, one in sorted(rows.items())}
        sizes = sorted(ours)
        if len(sizes) < LEAST_SIZES:
            continue
        theirs = {
            baseline: fitted(sorted(rows), [rows[size].theirs for size in sorted(rows)])
            for baseline, rows in by_baseline.items()
            if any(one.theirs is not None for one in rows.values())
        }
        result.append(
            Growth(part, work, axis, tuple(sizes), fitted(sizes, [ours[size] for size in sizes]), theirs)
        )
    return result
