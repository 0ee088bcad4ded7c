"""Computed cells, kept as Parquet files, one a cell.

    <results>/<experiment>-<digest of experiment, version and parameters>.parquet

A column for each parameter of the cell and each key of its rows, so that other tools can read them too. What the file
is, is in the schema's metadata under `covey`: the outcome without its rows. A column whose values are not of one
type holds them as JSON texts, and the metadata names it.

A file is written under another name and then renamed: it is whole or not there. One that is damaged all the same, or
of another version, counts as missing and is computed again. A cell that failed keeps its error, and is missing too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from covey.errors import ConfigError
from covey.lab.experiment import Cell, Experiment, Results, Row, Scale, Value
from covey.lab.outcome import Outcome, digest

METADATA = b"covey"
TYPES: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
}
INT64 = range(-(2**63), 2**63)


class Store:
    """Outcomes in a directory, which is made when the first is saved. `tell` is told of damaged files, a line each."""

    def __init__(self, directory: Path | str, tell: Callable[[str], None] = lambda line: None) -> None:
        self.directory = Path(directory)
        self._tell = tell
        self._told: set[Path] = set()
        if self.directory.exists() and not self.directory.is_dir():
            raise ConfigError(f"the results cannot be kept in {str(directory)!r}: it is not a directory")

    def path(self, experiment: Experiment, cell: Cell) -> Path:
        """Return where the outcome of a cell is kept."""
        return self._path(experiment.name, digest(experiment.name, experiment.version, cell))

    def save(self, outcome: Outcome) -> Path:
        """Keep an outcome; return its file."""
        path = self._path(outcome.experiment, digest(outcome.experiment, outcome.version, outcome.cell))
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        with self._writing():
            pq.write_table(to_table(outcome), temporary)
            temporary.replace(path)
        return path

    def log(self) -> Path:
        """Return the file for what Spark prints, in a directory that is there."""
        with self._writing():
            return self.directory / "spark.log"

    def load(self, experiment: Experiment, cell: Cell) -> Outcome | None:
        """Return the outcome of a cell, failed or not, or None if there is none that can be used."""
        path = self.path(experiment, cell)
        try:
            outcome = from_table(pq.read_table(path))
            if outcome.cell != dict(cell) or outcome.experiment != experiment.name:
                raise ValueError("it is the outcome of another cell")
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            # Arrow's errors are among these.
            if path not in self._told:
                self._told.add(path)
                reason = " ".join(str(error).split())
                self._tell(f"{path} is damaged and will be computed again: {reason[:120]}")
            return None
        return outcome

    def missing(self, experiment: Experiment, scale: Scale) -> list[Cell]:
        """Return the cells that have not been computed, or failed, each once."""
        return [cell for cell, outcome in self._look(experiment, scale) if outcome is None or outcome.error]

    def outcomes(self, experiments: Iterable[Experiment], scale: Scale) -> list[Outcome]:
        """Return all that is kept of the experiments at a scale, failures too, in the order of their grids."""
        return [
            outcome
            for experiment in experiments
            for _, outcome in self._look(experiment, scale)
            if outcome is not None
        ]

    def results(self, experiments: Iterable[Experiment], scale: Scale) -> Results:
        """Return the rows that are kept, each with the parameters of its cell."""
        return collect(self.outcomes(experiments, scale))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            yield
        except OSError as error:
            reason = error.strerror or error
            raise ConfigError(f"cannot write to {str(self.directory)!r:.80}: {reason}") from None

    def _path(self, experiment: str, name: str) -> Path:
        return self.directory / f"{experiment}-{name}.parquet"

    def _look(self, experiment: Experiment, scale: Scale) -> list[tuple[Cell, Outcome | None]]:
        return [(cell, self.load(experiment, cell)) for cell in distinct_cells(experiment, scale)]


def distinct_cells(experiment: Experiment, scale: Scale) -> list[Cell]:
    """Return the cells of a grid, each once."""
    cells = {digest(experiment.name, experiment.version, cell): cell for cell in experiment.cells(scale)}
    return list(cells.values())


def collect(outcomes: Iterable[Outcome]) -> Results:
    """Return the rows of outcomes, each with the parameters of its cell; those that failed have none."""
    rows: dict[str, list[Row]] = {}
    for outcome in outcomes:
        if outcome.error is None:
            rows.setdefault(outcome.experiment, []).extend({**outcome.cell, **row} for row in outcome.rows)
    return Results(rows)


# -- outcomes as tables ----------------------------------------------------------------------------------------


def to_table(outcome: Outcome) -> pa.Table:
    """Return an outcome as a table with metadata."""
    rows = [{**outcome.cell, **row} for row in outcome.rows]
    names = list(dict.fromkeys(name for row in (outcome.cell, *rows) for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    mixed = [name for name, values in columns.items() if column_type(values) is None]
    arrays = [
        pa.array([json.dumps(value) for value in values])
        if name in mixed
        else pa.array(values, column_type(values))
        for name, values in columns.items()
    ]
    about = asdict(replace(outcome, rows=[])) | {"mixed": mixed, "count": len(rows)}
    schema = pa.schema(
        [pa.field(name, array.type) for name, array in zip(names, arrays, strict=True)],
        metadata={METADATA: json.dumps(about).encode()},
    )
    return pa.Table.from_arrays(arrays, schema=schema)


def from_table(table: pa.Table) -> Outcome:
    """Return the outcome of a table; KeyError, TypeError or ValueError if it is none."""
    about: dict[str, Any] = json.loads((table.schema.metadata or {})[METADATA])
    mixed, count = about.pop("mixed"), about.pop("count")
    columns: dict[str, list[Any]] = {name: table.column(name).to_pylist() for name in table.column_names}
    for name in mixed:
        columns[name] = [json.loads(text) for text in columns[name]]
    if columns and table.num_rows != count:
        raise ValueError(f"it has {table.num_rows} rows, not {count}")
    about["rows"] = [{name: values[at] for name, values in columns.items()} for at in range(count)]
    return Outcome(**about)


def column_type(values: Sequence[Value]) -> pa.DataType | None:
    """Return the Parquet type that keeps all these values as they are, or None if there is none."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pa.null()
    if len(kinds) > 1 or any(isinstance(value, int) and value not in INT64 for value in values):
        return None
    return TYPES.get(kinds.pop())
