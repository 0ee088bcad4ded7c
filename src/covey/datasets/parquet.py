"""Tables as Parquet, written while they are drawn: a directory a table, a file every so many rows, in row groups.

Memory holds one row group at a time, however long the table becomes. The same rows give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from covey.errors import ConfigError
from covey.pipeline.schemas import Table

GROUP_ROWS = 20_000
FILE_ROWS = 500_000

_TYPES = {
    "string": pa.string(),
    "double": pa.float64(),
    "int": pa.int32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}

OnRows = Callable[[str, int], None]  # the table's name, how many of its rows are written


def arrow_schema(table: Table) -> Any:
    """Return the Arrow schema of a raw table, each column with its comment."""
    fields = [
        pa.field(column.name, _TYPES[column.type], metadata={"comment": column.comment})
        for column in table.columns
    ]
    return pa.schema(fields)


class TableWriter:
    """Writes the rows of one raw table into a directory of its own, which it makes; ConfigError if it cannot."""

    def __init__(self, directory: Path, table: Table, on_rows: OnRows) -> None:
        self.table = table
        self.rows = 0  # that were added, written or not
        self._directory = directory / table.name
        self._on_rows = on_rows
        self._schema = arrow_schema(table)
        self._waiting: list[Sequence[Any]] = []
        self._file: Any = None
        self._file_rows = 0
        self._files = 0

    def add(self, *row: Any) -> None:
        """Add a row, its values in the order of the columns."""
        self._waiting.append(row)
        self.rows += 1
        if len(self._waiting) == GROUP_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what is waiting, as one row group."""
        if self._waiting:
            columns = zip(*self._waiting, strict=True)
            arrays = [
                pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)
            ]
            self._waiting = []
            self._write(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def _write(self, batch: Any) -> None:
        """Write an Arrow batch of rows, as one row group."""
        try:
            if self._file is None:
                self._directory.mkdir(parents=True, exist_ok=True)
                name = f"part-{self._files:05}.parquet"
                self._file = pq.ParquetWriter(self._directory / name, self._schema, compression="zstd")
            self._file.write_batch(batch, row_group_size=max(1, batch.num_rows))
            self._file_rows += batch.num_rows
            if self._file_rows >= FILE_ROWS:
                self._close_file()
        except OSError as error:
            raise ConfigError(f"cannot write the table {self.table.name}: {error}") from None
        self._on_rows(self.table.name, self.rows)

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file, self._file_rows = None, 0
            self._files += 1

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.flush()
            if not self.rows:
                # An empty table is a table: without a file its columns would be unknown.
                self._write(pa.RecordBatch.from_pylist([], schema=self._schema))
        self._close_file()


def write_about(directory: Path, about: Mapping[str, Any]) -> None:
    """Write what the tables were made from, beside them."""
    text = json.dumps(about, indent=2, sort_keys=True, ensure_ascii=False)
    (directory / "about.json").write_text(text + "\n", encoding="utf-8")
