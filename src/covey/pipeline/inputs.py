"""Tables in a directory: where they are, how they are read, and how a job knows them again.

A table is a directory of Parquet files or a file: events, events.parquet, events.csv, events.json or events.jsonl. What
is text in a file is read as the types that the table has (`values`); what cannot be is refused with the row, not
guessed at. Every row says where it comes from: the file, the line or the row's number in Parquet, and the text.

Files have an identity, a digest of their bytes, by which a job knows whether it has read them before. What tables say
has a digest that depends on the rows alone, not on their order, nor on how they are spread over files.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as parquet
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey.errors import ConfigError
from covey.pipeline.failures import SPARK_ERRORS, first_line
from covey.pipeline.ingest import row_json
from covey.pipeline.schemas import BY_NAME, INPUTS, NUMERIC, SOURCE, Table, check, check_names, source_type
from covey.pipeline.schemas import Column as TypedColumn
from covey.pipeline.text_tables import JSON_ENDINGS, Piece, Row, files_of, header_of, pieces_of, rows_in
from covey.pipeline.values import FIRST_US, LAST_US, OUT_OF_RANGE, UNITS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ENDINGS = ("", ".parquet", ".csv", ".json", ".jsonl")
TIMES = [f"{table.name}.{one.name}" for table in INPUTS for one in table.columns if one.type == "timestamp"]
MOST_TASKS = 1_000  # among which pieces of text are spread
BATCH_ROWS = 10_000
BATCH_CHARACTERS = 32 << 20
_FILE, _LINE, _TEXT, _PROBLEM = "_covey_file", "_covey_line", "_covey_text", "_covey_problem_{}"


def path_of(directory: Path, name: str, *, needed: bool = True) -> Path | None:
    """Return where a table is; None if it is not there, or ConfigError if it is needed."""
    if not directory.is_dir():
        raise ConfigError(f"there is no directory {str(directory)!r:.200}")
    found = [path for ending in ENDINGS if (path := directory / f"{name}{ending}").exists()]
    if len(found) > 1:
        raise ConfigError(f"the table {name} is there twice: {', '.join(path.name for path in found)}")
    if found:
        return found[0]
    if needed:
        there = sorted(path.name for path in directory.iterdir())
        raise ConfigError(
            f"{directory} has no table {name} (hint: a directory {name} or a file {name}.parquet, .csv, .json or"
            f" .jsonl; it has {', '.join(there)[:200] or 'nothing'})"
        )
    return None


def missing(
    directory: Path,
    needed: Sequence[str],
    optional: Sequence[str],
    columns: Mapping[str, str],
    *,
    without: Container[str] = (),
) -> Iterator[str]:
    """Yield a line for each table and for the columns of each table that are not there, as far as files say so.

    Spark is not asked. Tables of `without` are elsewhere. What cannot be read is Spark's to say.
    """
    said = set()
    for name in (*needed, *optional):
        if name in without:
            continue
        try:
            path = path_of(directory, name, needed=name in needed)
            if path is not None:
                _check_names_in(path, BY_NAME[name], columns_of(columns, name))
        except ConfigError as error:
            if str(error) not in said:
                said.add(str(error))
                yield str(error)


def _check_names_in(path: Path, table: Table, columns: Mapping[str, str]) -> None:
    """Raise ConfigError if files of CSV or Parquet lack columns."""
    if path.suffix in JSON_ENDINGS:
        return
    for file in files_of(path)[: None if path.suffix == ".csv" else 1]:
        said = f"the table {table.name} in {file if path.suffix == '.csv' else path}"
        if path.suffix == ".csv":
            header = header_of(file)
        else:
            try:
                header = parquet.read_schema(file).names
            except (OSError, pa.ArrowException):
                return
        if header is not None:
            _check_header(header, table, columns, said, nested=path.suffix != ".csv")


def _check_header(
    header: Sequence[str], table: Table, columns: Mapping[str, str], said: str, *, nested: bool
) -> None:
    places = {name: path.split(".")[0] if nested else path for name, path in columns.items()}
    if lost := [columns[name] for name, place in places.items() if place not in header]:
        there = ", ".join(header)
        raise ConfigError(f"{said} has no column {', '.join(lost):.200} (it has {there[:200] or 'none'})")
    known = {column.name for column in table.columns}
    others = [name for name in header if name in known or name not in places.values()]
    check_names([*others, *places], table, said)


def read(
    spark: SparkSession,
    path: Path,
    name: str,
    units: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    files: Sequence[Path] | None = None,
) -> DataFrame:
    """Return a table as it is in files, all or these, and in the column `_source` where each row comes from.

    `units` says which columns of times are numbers, and what they count since 1970: s, ms or us. `columns` says where
    a column is that does not have its own name; a point goes into a struct, or into an object of JSON. ConfigError if
    columns are missing or a file cannot be read.
    """
    table = BY_NAME[name]
    try:
        if path.suffix in (".csv", *JSON_ENDINGS):
            return _read_text(spark, path, table, units or {}, columns or {}, files)
        return _read_parquet(spark, path, table, units or {}, columns or {}, files)
    except (*SPARK_ERRORS, OSError) as error:
        raise ConfigError(f"{path} cannot be read: {first_line(error)}") from None


def read_catalog(
    spark: SparkSession,
    source: str,
    name: str,
    units: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return a table of the session's catalogs, such as catalog.db.table, as `read` returns files.

    ConfigError if there is no such table, or columns are missing.
    """
    table = BY_NAME[name]
    try:
        frame = spark.table(source)
        frame.schema  # noqa: B018 - through Spark Connect, this is where it is looked for
    except SPARK_ERRORS as error:
        raise ConfigError(f"the table {source!r:.200} cannot be read: {first_line(error)}") from None
    nowhere = {_FILE: F.lit(source), _LINE: F.lit(None).cast("bigint")}
    said = f"the table {name} in {source}"
    return _sourced(_mapped(frame.withColumns(nowhere), columns or {}, said), table, units or {}, said)


def content_identity(frame: DataFrame) -> str:
    """Return a digest of all rows of a raw table, whatever their order; runs a job."""
    values = [F.coalesce(F.to_json(F.struct(F.col(f"`{name}`"))), F.lit("")) for name in frame.columns]
    hashed = F.sum(F.xxhash64(*values).cast("decimal(38,0)"))
    return repr(tuple(frame.agg(F.count(F.lit(1)), hashed).collect()[0]) + tuple(frame.columns))


def columns_of(columns: Mapping[str, str], table: str) -> dict[str, str]:
    """Return where the columns of one table are, from what is given as {"events.at": "meta.time"}."""
    return {
        column.name: columns[f"{table}.{column.name}"]
        for column in BY_NAME[table].columns
        if f"{table}.{column.name}" in columns
    }


def check_columns(columns: Mapping[str, str]) -> None:
    """Raise ConfigError if there is no such column, or what it is to be is no name."""
    known = [f"{table.name}.{column.name}" for table in INPUTS for column in table.columns]
    for column, path in columns.items():
        if column not in known:
            names = ", ".join(known)
            raise ConfigError(f"there is no column {column!r:.80} (hint: {names})")
        if not all(path.split(".")) or "`" in path or not path.isprintable():
            raise ConfigError(
                f"{column} cannot be the column {path!r:.80} (hint: a name, or names with points)"
            )


def check_tables(tables: Mapping[str, str]) -> None:
    """Raise ConfigError for a table that no input has, or for what is no name in a catalog."""
    known = [table.name for table in INPUTS]
    for table, source in tables.items():
        if table not in known:
            names = ", ".join(known)
            raise ConfigError(f"there is no input table {table!r:.40} (hint: {names})")
        if not all(source.split(".")) or not source.isprintable():
            raise ConfigError(f"{source!r:.80} is no name of a table (hint: catalog.db.table)")


def units_of(epochs: Mapping[str, str], table: str) -> dict[str, str]:
    """Return the units of one table's columns, from those that are given as {"events.at": "ms"}."""
    return {
        column.name: epochs[f"{table}.{column.name}"]
        for column in BY_NAME[table].columns
        if f"{table}.{column.name}" in epochs
    }


def check_epochs(epochs: Mapping[str, str]) -> None:
    """Raise ConfigError if there is no such column of times, or no such unit."""
    for column, unit in epochs.items():
        if column not in TIMES:
            raise ConfigError(f"there is no column of times {column!r:.80} (hint: {', '.join(TIMES)})")
        if unit not in UNITS:
            raise ConfigError(f"{column} cannot count {unit!r:.40} (hint: {', '.join(UNITS)})")


def _read_text(
    spark: SparkSession,
    path: Path,
    table: Table,
    units: Mapping[str, str],
    columns: Mapping[str, str],
    files: Sequence[Path] | None,
) -> DataFrame:
    pieces = pieces_of(path, files=files)
    if path.suffix == ".csv":
        for file in files_of(path) if files is None else files:
            header = header_of(file)
            if header is not None:
                _check_header(header, table, columns, f"the table {table.name} in {file}", nested=False)
    schema = "file string, name string, is_json boolean, start bigint, end bigint, line bigint"
    asked = spark.createDataFrame([tuple(piece) for piece in pieces], schema)
    spread = asked.repartition(min(len(pieces), MOST_TASKS))
    read_pieces = partial(read_batches, table=table.name, units=dict(units), columns=dict(columns))
    return spread.mapInArrow(read_pieces, table.schema(checked=False).add(SOURCE, source_type()))


def read_batches(
    batches: Iterator[pa.RecordBatch], *, table: str, units: Mapping[str, str], columns: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Read pieces of text, in the workers."""
    spec = BY_NAME[table]
    for batch in batches:
        for given in batch.to_pylist():
            piece = Piece(**given)
            rows: list[Row] = []
            size = 0
            for row in rows_in(piece, spec, units, columns):
                rows.append(row)
                size += len(row.text)
                if len(rows) == BATCH_ROWS or size > BATCH_CHARACTERS:
                    yield _batch(rows, spec, piece.name)
                    rows, size = [], 0
            yield _batch(rows, spec, piece.name)


def _batch(rows: Sequence[Row], table: Table, file: str) -> pa.RecordBatch:
    types = {
        "string": pa.string(),
        "double": pa.float64(),
        "int": pa.int32(),
        "timestamp": pa.timestamp("us", "UTC"),
    }
    arrays = [
        pa.array([row.values[place] for row in rows], types[column.type])
        for place, column in enumerate(table.columns)
    ]
    source = {
        "file": pa.array([file] * len(rows), pa.string()),
        "line": pa.array([row.line for row in rows], pa.int64()),
        "text": pa.array([row.text for row in rows], pa.string()),
        "reason": pa.array([row.reason for row in rows], pa.string()),
    }
    arrays.append(pa.StructArray.from_arrays([*source.values()], [*source]))
    return pa.RecordBatch.from_arrays(arrays, [*(column.name for column in table.columns), SOURCE])


def _read_parquet(
    spark: SparkSession,
    path: Path,
    table: Table,
    units: Mapping[str, str],
    columns: Mapping[str, str],
    files: Sequence[Path] | None,
) -> DataFrame:
    if files is None or path.is_file():
        frame = spark.read.parquet(str(path.resolve()))
    else:
        # Directories such as day=2026-11-18 are columns, as they are where all files are read.
        base = path.resolve()
        inside = [str(base / file.relative_to(path)) for file in files]
        frame = spark.read.option("basePath", str(base)).parquet(*inside)
    metadata = frame.metadataColumn("_metadata")
    # Its address is that of a URL, where a plus is a plus.
    address = F.url_decode(F.replace(metadata["file_path"], F.lit("+"), F.lit("%2B")))
    below = F.concat(F.lit(f"{path.name}/"), F.substring_index(address, f"/{path.name}/", -1))
    frame = frame.withColumns(
        {_FILE: F.lit(path.name) if path.is_file() else below, _LINE: metadata["row_index"] + 1}
    )
    said = f"the table {table.name} in {path}"
    return _sourced(_mapped(frame, columns, said), table, units, said)


def _mapped(frame: DataFrame, columns: Mapping[str, str], said: str) -> DataFrame:
    """Return the frame with columns under the names that the table has for them."""
    for path in columns.values():
        kind: Any = frame.schema
        for part in path.split("."):
            fields = {field.name: field.dataType for field in getattr(kind, "fields", ())}
            if part not in fields:
                listed = ", ".join(name for name in fields if name not in (_FILE, _LINE))
                raise ConfigError(f"{said} has no column {path} (there is {listed[:200] or 'nothing'})")
            kind = fields[part]
    quoted = {name: ".".join(f"`{part}`" for part in path.split(".")) for name, path in columns.items()}
    return frame.withColumns({name: F.col(path) for name, path in quoted.items()}) if quoted else frame


def _sourced(frame: DataFrame, table: Table, units: Mapping[str, str], said: str) -> DataFrame:
    """Return a frame that has the columns of files and lines with these in `_source`, and with its times as times."""
    text = reason = F.lit(None).cast("string")
    timed = {name: unit for name, unit in units.items() if name in frame.columns}
    if timed:
        # What is no time is null from here on.
        frame = frame.withColumn(
            _TEXT, row_json([one.name for one in table.columns if one.name in frame.columns])
        )
        for name, unit in timed.items():
            frame = _timed(frame, table, name, unit)
        reason = F.coalesce(*[F.col(_PROBLEM.format(name)) for name in timed])
        text = F.when(reason.isNotNull(), F.col(_TEXT))
    check(frame, table, said)
    parts = (F.col(_FILE), F.col(_LINE), text, reason)
    named = [part.alias(field.name) for part, field in zip(parts, source_type(), strict=True)]
    return frame.withColumn(SOURCE, F.struct(*named)).drop(_FILE, _LINE, _TEXT, *map(_PROBLEM.format, timed))


def _timed(frame: DataFrame, table: Table, name: str, unit: str) -> DataFrame:
    """Return the frame with a column of numbers as times, and a column of what is wrong with a row's number."""
    kind = frame.schema[name].dataType.simpleString().split("(")[0]
    if kind not in NUMERIC:
        raise ConfigError(f"the column {name} of {table.name} is {kind}: --epochs is for numbers")
    number, factor = F.col(f"`{name}`"), 10 ** UNITS[unit]
    if kind in ("tinyint", "smallint", "int"):
        number = number.cast("bigint")
    fits = number.between(math.ceil(FIRST_US / factor), LAST_US // factor)
    problem = F.when(number.isNotNull() & ~fits, F.lit(f"the column {name} {OUT_OF_RANGE}"))
    micros = F.when(fits, F.floor(number * factor).cast("bigint"))
    marked = frame.withColumn(_PROBLEM.format(name), problem)
    return marked.withColumn(name, F.timestamp_micros(micros))


def identities(path: Path) -> dict[Path, str]:
    """Return for each file of a table a digest of its name and all its bytes."""
    return {
        file: blake2b(
            repr((str(file.relative_to(path.parent)), _bytes_digest(file))).encode(), digest_size=16
        ).hexdigest()
        for file in files_of(path)
    }


def _bytes_digest(file: Path) -> str:
    try:
        with file.open("rb") as data:
            return file_digest(data, lambda: blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from None


def row_hash(name: str) -> Column:
    """Return a hash of a row of a checked table, of what the input says: not of where the row was, nor in which format.

    The sum of these over a table is the same whatever the order of its rows and their parts.
    """
    values = [F.coalesce(_as_text(column), F.lit("\0")) for column in BY_NAME[name].columns]
    return F.xxhash64(F.lit(name), *values).cast("decimal(38,0)")


def _as_text(column: TypedColumn) -> Column:
    """Return a column as text that is the same whatever the session's time zone is."""
    value = F.col(f"`{column.name}`")
    if column.type == "timestamp":
        value = F.unix_micros(value)
    return value.cast("string")
