"""An experiment is a grid of parameters as data, and a function that computes one cell of it.

Cells know nothing of each other: each can run anywhere, at any time, and be run again. What a cell computes is kept as
rows; figures and claims are computed from kept rows, never from a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Value: TypeAlias = str | int | float | bool | None
Cell: TypeAlias = Mapping[str, Value]  # the parameters of one cell
Row: TypeAlias = dict[str, Value]  # one result; keys of the cell are added to it when it is read
Choice: TypeAlias = Value | tuple[Value, ...]  # of a dimension: a value, or any of several

Scale = Literal["small", "paper"]
SCALES: tuple[Scale, ...] = ("small", "paper")


@dataclass(frozen=True)
class Experiment:
    """A grid, and how to compute a cell.

    `run` is a function at the top of a module, deterministic in the cell, `seed` among its parameters where it draws.
    Raise `version` when the meaning of rows changes: what was kept is then computed anew. `effort` says how long a cell
    takes compared with others, so that long ones can begin first. `inputs` are data files (see `data`) that cells read
    if they were given.
    """

    name: str
    paper: str
    title: str
    cells: Callable[[Scale], Sequence[Cell]]
    run: Callable[[Cell], list[Row]]
    version: int = 1
    effort: Callable[[Cell], float] = lambda cell: 1.0
    inputs: tuple[str, ...] = ()


def agrees(row: Mapping[str, Value], where: Mapping[str, Choice]) -> bool:
    """Return whether a row or cell has none of these dimensions with another value; None is no value of it."""
    return all(
        row.get(key) is None or (row[key] in value if isinstance(value, tuple) else row[key] == value)
        for key, value in where.items()
    )


class Results:
    """The rows of experiments, each with the parameters of its cell; `reading` has the dimensions that chose them."""

    def __init__(
        self, rows: Mapping[str, Sequence[Row]], reading: Mapping[str, Choice] | None = None
    ) -> None:
        self._rows = rows
        self.reading: Mapping[str, Choice] = reading or {}

    def under(self, where: Mapping[str, Choice]) -> Results:
        """Return the rows that agree with these dimensions. A row without one of them agrees with any value of it."""
        rows = {
            name: [row for row in mine if agrees(row, where)] if where else mine
            for name, mine in self._rows.items()
        }
        return Results(rows, {**self.reading, **where})

    def seeds(self, experiments: Iterable[str]) -> list[int]:
        """Return the seeds of the experiments' rows."""
        found = {row.get("seed") for name in experiments for row in self._rows.get(name, ())}
        return sorted(seed for seed in found if isinstance(seed, int))

    def rows(self, experiment: str, **where: Value) -> list[Row]:
        """Return the rows of an experiment in which the given keys have the given values."""
        return [
            row
            for row in self._rows.get(experiment, ())
            if all(row.get(key) == value for key, value in where.items())
        ]

    def series(self, experiment: str, x: str, y: str, **where: Value) -> tuple[list[float], list[float]]:
        """Return a curve: the means of `y` over rows with the same `x`, by increasing `x`."""
        points: dict[float, list[float]] = {}
        for row in self.rows(experiment, **where):
            at, value = row.get(x), row.get(y)
            if isinstance(at, int | float) and isinstance(value, int | float):
                points.setdefault(float(at), []).append(float(value))
        xs = sorted(points)
        return xs, [sum(points[at]) / len(points[at]) for at in xs]

    def has(self, experiments: Iterable[str]) -> bool:
        """Return whether there are rows of every one of the experiments."""
        return all(self._rows.get(name) for name in experiments)
