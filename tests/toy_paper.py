"""A small paper for tests of the lab: squares, a line and a table, a claim that holds and one that does not.

An experiment of its own has cells that fail: one raises, one takes its process with it.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from covey.lab.claim import Claim, Criterion, Verdict
from covey.lab.experiment import Cell, Experiment, Results, Row, Scale
from covey.lab.figure import Figure, Grid, Paper


def whole(cell: Cell) -> int:
    n = cell["n"]
    assert isinstance(n, int)
    return n


def squares(scale: Scale) -> list[Cell]:
    return [{"n": n, "seed": 7} for n in range(3 if scale == "small" else 5)]


def square(cell: Cell) -> list[Row]:
    n = whole(cell)
    return [{"square": n * n, "pid": os.getpid(), "label": f"<{n}>"}]


def fractions(scale: Scale) -> list[Cell]:
    return [{"n": n, "kind": kind} for kind in ("half", "third") for n in (1, 2)]


def fraction(cell: Cell) -> list[Row]:
    return [{"value": whole(cell) / (2 if cell["kind"] == "half" else 3)}]


def troubles(scale: Scale) -> list[Cell]:
    return [{"how": how} for how in ("raise", "fine", "die")]


def trouble(cell: Cell) -> list[Row]:
    if cell["how"] == "raise":
        raise ValueError("no such\nthing")
    if cell["how"] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return [{"value": 1}]


def draw_squares(results: Results, axes: Any) -> None:
    axes.plot(*results.series("t-squares", "n", "square"), label="squares for $5 & <more>")
    axes.set_xlabel("n")
    axes.legend()


def fraction_grid(results: Results) -> Grid:
    return Grid(
        ("kind", "value"),
        [(str(row["kind"]), float(str(row["value"]))) for row in results.rows("t-fractions")],
    )


def squares_grow(results: Results) -> Verdict:
    _, values = results.series("t-squares", "n", "square")
    return Verdict(f"up to {values[-1]:.0f}", values == sorted(values))


def thirds_are_larger(results: Results) -> Verdict:
    half = results.rows("t-fractions", kind="half", n=1)[0]["value"]
    third = results.rows("t-fractions", kind="third", n=1)[0]["value"]
    assert isinstance(half, float)
    assert isinstance(third, float)
    return Verdict(f"{third:.2f} < {half:.2f}", third > half, "a third is less than a half")


SQUARES = Experiment(
    "t-squares", "T", "Squares <of> numbers", squares, square, effort=lambda cell: float(str(cell["n"]))
)
FRACTIONS = Experiment("t-fractions", "T", "Fractions", fractions, fraction)
TROUBLES = Experiment("t-troubles", "T", "Troubles", troubles, trouble)

FIGURES = (
    Figure("T", "1", "Squares & more", "Squares <grow>.", ("t-squares",), draw=draw_squares),
    Figure("T", "Table I", "Fractions", "Fractions of n.", ("t-fractions",), table=fraction_grid),
)
CRITERION = Criterion("exactly.", "page 1")
CLAIMS = (
    Claim("T1", "T", "Squares <never> shrink", ("t-squares",), squares_grow, CRITERION),
    Claim(
        "T2",
        "T",
        "A third is more than a half",
        ("t-fractions",),
        thirds_are_larger,
        CRITERION,
        proof="1/3 < 1/2.",
    ),
)
PAPER = Paper("T", "A toy & its <figures>", (SQUARES, FRACTIONS), FIGURES, CLAIMS)
