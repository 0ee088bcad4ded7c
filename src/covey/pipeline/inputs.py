"""Tables in a directory: where they are, how they are read, and a digest of what they say.

A table is a directory of Parquet files or a file: events, events.parquet, events.csv, events.json or events.jsonl. What
is text in a file is read as the types that the table has (`values`); what cannot be is refused with the row, not
guessed at. Every row says where it comes from: the file, the line or the row's number in Parquet, and the text.

What tables say has a digest that depends on the rows alone, not on their order, nor on how they are spread over files;
where rows are has another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
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


def read(spark: SparkSession, path: Path, name: str, units: Mapping[str, str] | None = None) -> DataFrame:
    """Return a table as it is in files, and in the column `_source` where each row comes from.

    `units` says which columns of times are numbers, and what they count since 1970: s, ms or us. ConfigError if
    columns are missing or a file cannot be read.
    """
    table = BY_NAME[name]
    try:
        if path.suffix in (".csv", *JSON_ENDINGS):
            return _read_text(spark, path, table, units or {})
        return _read_parquet(spark, path, table, units or {})
    except (*SPARK_ERRORS, OSError) as error:
        raise ConfigError(f"{path} cannot be read: {first_line(error)}") from None


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


def _read_text(spark: SparkSession, path: Path, table: Table, units: Mapping[str, str]) -> DataFrame:
    pieces = pieces_of(path)
    if path.suffix == ".csv":
        for file in files_of(path):
            header = header_of(file)
            if header is not None:
                check_names(header, table, f"the table {table.name} in {file}")
    schema = "file string, name string, is_json boolean, start bigint, end bigint, line bigint"
    asked = spark.createDataFrame([tuple(piece) for piece in pieces], schema)
    spread = asked.repartition(min(len(pieces), MOST_TASKS))
    read_pieces = partial(read_batches, table=table.name, units=dict(units))
    return spread.mapInArrow(read_pieces, table.schema(checked=False).add(SOURCE, source_type()))


def read_batches(
    batches: Iterator[pa.RecordBatch], *, table: str, units: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Read pieces of text, in the workers."""
    spec = BY_NAME[table]
    for batch in batches:
        for given in batch.to_pylist():
            piece = Piece(**given)
            rows: list[Row] = []
            size = 0
            for row in rows_in(piece, spec, units):
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


def _read_parquet(spark: SparkSession, path: Path, table: Table, units: Mapping[str, str]) -> DataFrame:
    frame = spark.read.parquet(str(path.resolve()))
    metadata = frame.metadataColumn("_metadata")
    # Its address is that of a URL, where a plus is a plus.
    address = F.url_decode(F.replace(metadata["file_path"], F.lit("+"), F.lit("%2B")))
    below = F.concat(F.lit(f"{path.name}/"), F.substring_index(address, f"/{path.name}/", -1))
    frame = frame.withColumns(
        {_FILE: F.lit(path.name) if path.is_file() else below, _LINE: metadata["row_index"] + 1}
    )
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
    check(frame, table, f"the table {table.name} in {path}")
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


class Digests(NamedTuple):
    """What tables say, whatever order and files their rows are in; and where each row is."""

    rows: str
    places: str


def digested(frame: DataFrame, name: str) -> DataFrame:
    """Return one row (rows, sum, places): how many rows there are, and the sums of their hashes without and with where
    each is."""
    # A column that is not there says what one of nulls says.
    columns = [
        _as_text(column) if column.name in frame.columns else F.lit(None).cast("string")
        for column in BY_NAME[name].columns
    ]
    places: list[Column] = []
    if SOURCE in frame.columns:
        reason = F.col(f"{SOURCE}.reason")
        columns += [reason, F.when(reason.isNotNull(), F.col(f"{SOURCE}.text"))]
        places = [F.col(f"{SOURCE}.file"), F.col(f"{SOURCE}.line").cast("string")]
    said = [F.coalesce(column, F.lit("\0")) for column in columns]

    def total(*parts: Column) -> Column:
        return F.coalesce(F.sum(F.xxhash64(F.lit(name), *parts).cast("decimal(38,0)")), F.lit(0))

    return frame.agg(
        F.count(F.lit(1)).alias("rows"), total(*said).alias("sum"), total(*said, *places).alias("places")
    )


def _as_text(column: TypedColumn) -> Column:
    """Return a column as text that is the same whatever the session's time zone is."""
    value = F.col(f"`{column.name}`")
    if column.type == "timestamp":
        value = F.unix_micros(value.cast("timestamp"))
    return value.cast("string")


def digest(frames: Mapping[str, DataFrame]) -> Digests:
    """Return the digests of tables; runs an action."""
    parts = [digested(frame, name).withColumn("name", F.lit(name)) for name, frame in frames.items()]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.union(part)
    rows = sorted(
        (row["name"], int(row["rows"]), int(row["sum"]), int(row["places"])) for row in whole.collect()
    )
    return Digests(
        *(
            blake2b(repr(one).encode(), digest_size=16).hexdigest()
            for one in ([row[:3] for row in rows], rows)
        )
    )
