"""Tables in a directory: where they are, how they are read, and a digest of what they say.

A table is a directory of Parquet files or a file: events, events.parquet, events.csv, events.json or events.jsonl. What
is text in a file is read as the types that the table has; what cannot be is refused with the row, not guessed at. A
time without an offset is one of the session's time zone.

The digest depends on the rows alone, not on their order, nor on how they are spread over files.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey.errors import ConfigError
from covey.pipeline.failures import SPARK_ERRORS, first_line
from covey.pipeline.schemas import BY_NAME, Column, Table, check

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

ENDINGS = ("", ".parquet", ".csv", ".json", ".jsonl")
# What stands for text that is no value of the type: ingestion refuses it, where null would pass for a default.
_REFUSED: Mapping[str, str] = {"double": "'NaN'", "int": "-1"}


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
            f"{directory} has no table {name} (hint: a directory {name} or a file {name}.parquet, .csv or .jsonl;"
            f" it has {', '.join(there)[:200] or 'nothing'})"
        )
    return None


def read(spark: SparkSession, path: Path, name: str) -> DataFrame:
    """Return a table as it is in a file; ConfigError if columns are missing or it cannot be read."""
    table = BY_NAME[name]
    where = str(path.resolve())
    try:
        if path.suffix == ".csv":
            frame = _typed(spark.read.csv(where, header=True, multiLine=True, escape='"'), table)
        elif path.suffix in (".json", ".jsonl"):
            frame = _typed(spark.read.json(where, primitivesAsString=True), table)
        else:
            frame = spark.read.parquet(where)
        check(frame, table, f"the table {name} in {path}")
    except SPARK_ERRORS as error:
        raise ConfigError(f"{path} cannot be read: {first_line(error)}") from None
    return frame


def _typed(frame: DataFrame, table: Table) -> DataFrame:
    """Return columns of text as the types that the table has."""
    for column in table.columns:
        if column.name in frame.columns and column.type != "string":
            text = F.col(f"`{column.name}`")
            value = F.expr(f"try_cast(`{column.name}` as {column.type})")
            if column.type in _REFUSED:
                wrong = F.expr(f"cast({_REFUSED[column.type]} as {column.type})")
                value = F.when(text.isNotNull(), F.coalesce(value, wrong))
            frame = frame.withColumn(column.name, value)
    return frame


def digested(frame: DataFrame, name: str) -> DataFrame:
    """Return one row (rows, sum): how many rows there are, and the sum of their hashes."""
    columns = [
        F.coalesce(_as_text(column), F.lit("\0"))
        for column in BY_NAME[name].columns
        if column.name in frame.columns
    ]
    hashed = F.xxhash64(F.lit(name), *columns).cast("decimal(38,0)")
    return frame.agg(F.count(F.lit(1)).alias("rows"), F.coalesce(F.sum(hashed), F.lit(0)).alias("sum"))


def _as_text(column: Column) -> SparkColumn:
    """Return a column as text that is the same whatever the session's time zone is."""
    value = F.col(f"`{column.name}`")
    if column.type == "timestamp":
        value = F.unix_micros(value.cast("timestamp"))
    return value.cast("string")


def digest(frames: Mapping[str, DataFrame]) -> str:
    """Return the digest of tables; runs an action."""
    parts = [digested(frame, name).withColumn("name", F.lit(name)) for name, frame in frames.items()]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.union(part)
    rows = sorted((row["name"], int(row["rows"]), int(row["sum"])) for row in whole.collect())
    return blake2b(repr(rows).encode(), digest_size=16).hexdigest()
