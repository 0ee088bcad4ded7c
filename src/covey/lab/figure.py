"""A figure or table of a paper, drawn from kept results so that a reader can lay it beside the original."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from covey.lab.claim import Claim
from covey.lab.experiment import Experiment, Results


class Grid(NamedTuple):
    """A table of a paper: heads of columns, and rows of texts and numbers."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str | float, ...]]


@dataclass(frozen=True)
class Figure:
    """`draw` draws on Matplotlib's axes, or `table` returns a Grid; exactly one of them is given.

    `number` is the paper's own ("2", "6a", "Table II"); `caption` says in our words what is seen, with parameters.
    """

    paper: str
    number: str
    title: str
    caption: str
    experiments: tuple[str, ...]
    draw: Callable[[Results, Any], None] | None = None
    table: Callable[[Results], Grid] | None = None


class Paper(NamedTuple):
    """All that is computed for one paper; `introduction` is for what has no claims and stands on a page of its own."""

    key: str  # R, C, X
    title: str
    experiments: tuple[Experiment, ...]
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    introduction: str = ""
