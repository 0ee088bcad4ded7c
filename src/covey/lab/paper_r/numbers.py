"""Reading numbers out of rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from covey.lab.experiment import Results, Row, Value


def number(row: Row, key: str) -> float:
    """Return a value that must be a number."""
    value = row[key]
    assert isinstance(value, int | float), f"{key} is {value!r}"
    return float(value)


def whole(row: Row, key: str) -> int:
    """Return a value that must be a whole number."""
    value = number(row, key)
    assert value.is_integer(), f"{key} is {value}"
    return int(value)


def at_sizes(results: Results, experiment: str, measure: str, **where: Value) -> dict[int, float]:
    """Return a measure of the drawn rows by consumers a local broker, in their order; the mean over seeds."""
    found: dict[int, list[float]] = {}
    for row in results.rows(experiment, **{"purpose": "curve", **where}):
        found.setdefault(whole(row, "consumers"), []).append(number(row, measure))
    return {size: sum(values) / len(values) for size, values in sorted(found.items())}


def rises(values: Sequence[float]) -> bool:
    """Return whether no value is below the one before it."""
    return all(a <= b for a, b in pairwise(values))
