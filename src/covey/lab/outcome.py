"""What computing one cell gave: its rows, or the error that ended it, and how long it took.

An outcome is a plain value that travels as JSON, so that a cell can be computed in another process or on another
machine. A cell may fail in any way at all: that is an outcome too, and the other cells go on.
"""

from __future__ import annotations

import gc
import json
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from covey import __version__
from covey.lab.experiment import Cell, Experiment, Row, Value

COLLECT_AFTER = 5_000_000  # objects made and not yet freed
MAX_ERROR_LENGTH = 500


@dataclass(frozen=True)
class Outcome:
    """One computed cell. `error` is None when it succeeded; `covey` is the version that computed it."""

    experiment: str
    version: int
    cell: dict[str, Value]
    rows: list[Row] = field(default_factory=list)
    wall_s: float = 0.0
    error: str | None = None
    covey: str = __version__

    def encode(self) -> str:
        """Return the outcome as JSON, which keeps 1, 1.0, true and not-a-number apart."""
        return json.dumps(asdict(self))


def decode(text: str) -> Outcome:
    """Return the outcome that `encode` wrote."""
    return Outcome(**json.loads(text))


def digest(experiment: str, version: int, cell: Cell) -> str:
    """Return the name of a cell: the same for the same experiment, version and parameters in any order."""
    text = json.dumps([experiment, version, dict(cell)], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:20]


def compute(experiment: Experiment, cell: Cell) -> Outcome:
    """Compute one cell here."""
    return compute_with(experiment.name, experiment.version, experiment.run, cell)


def compute_with(name: str, version: int, run: Callable[[Cell], list[Row]], cell: Cell) -> Outcome:
    """Compute one cell with the experiment's function; whatever goes wrong in it becomes the outcome's error."""
    began = time.perf_counter()
    rows: list[Row] = []
    problem: str | None = None
    try:
        with _rare_collections():
            rows = [plain_row(row) for row in run(dict(cell))]
    except Exception as error:  # noqa: BLE001 (any failure of a cell is reported, and never ends the others)
        problem = describe(error)
    return Outcome(name, version, dict(cell), rows, time.perf_counter() - began, problem)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Look for cycles of dead objects rarely: a network makes hardly any, and looking takes a quarter of the time."""
    before = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def failure(experiment: Experiment, cell: Cell, problem: str) -> Outcome:
    """Return the outcome of a cell that could not say itself what went wrong."""
    return Outcome(experiment.name, experiment.version, dict(cell), error=problem[:MAX_ERROR_LENGTH])


def plain_row(row: Mapping[str, Any]) -> Row:
    """Return a row with Python's own scalars for NumPy's; TypeError for anything that is no scalar."""
    return {key: plain_value(key, value) for key, value in row.items()}


def plain_value(key: str, value: Any) -> Value:
    """Return a value of a row as Python's own scalar."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"the value of {key!r} in a row is a {type(value).__name__}, not a scalar")


def describe(error: BaseException) -> str:
    """Return an error in one line: its kind, its text and the place that raised it."""
    text = " ".join(str(error).split())
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {text}"[:MAX_ERROR_LENGTH] + place
