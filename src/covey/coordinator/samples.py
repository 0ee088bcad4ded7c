"""Files of samples: what comes from a broker becomes a table of known rows, or is left out and counted.

Everything in a file is untrusted: that it is Parquet, what its footer says, types, names, texts and times. What goes on
to the streams and to the planner was written here, of rows that were looked at:

    text      every text is UTF-8
    names     what tells rows of the table apart is there
    broker    a broker samples its own clients: rows of another one are nobody's word
    times     there is one, and it is no later than the coordinator's clock allows

Times are those of the broker's clock. If that clock is off by more than the bound, every time of the file is corrected
by what it was off when the file was fetched: events of a broker with a wrong clock are events that somebody published,
and a plan without them would be a plan for other traffic. A clock that was set since leaves times that no correction
mends: those that lie in the future then are left out, so that none of them moves a watermark, and those that lie in the
past are late. A row that is so much older than the newest of its file that no window has both is left out too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from covey.pipeline.schemas import BY_NAME, Table
from covey.pipeline.stream import PAST

MOST_BYTES: Final = 1 << 29  # of a table's texts, as its footer says and as they are
MOST_ROWS: Final = 4_000_000
BATCH: Final = 1 << 12  # rows that are looked at in one go

NO_TEXT: Final = "not UTF-8"
NO_NAME: Final = "without a name"
NOT_ITS_OWN: Final = "of another broker"
NO_TIME: Final = "without a time"
FUTURE: Final = "from the future"

_NAMES: Final = {
    "events": ("event",),
    "deliveries": ("event", "subscription"),
    "subscriptions": ("subscription",),
    "advertisements": ("advertisement",),
}
_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_TYPES: Final = {"string": pa.string(), "int": pa.int32(), "timestamp": pa.timestamp("us", tz="UTC")}

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Times:
    """Which times are believed.

    now_s     the coordinator's clock when the file was fetched
    skew_s    how far the broker's clock is ahead of it
    bound_s   the skew up to which times are taken as they are, and how far in the future a time may be
    span_s    how much older than the newest row of its file a row may be
    """

    now_s: float
    skew_s: float = 0.0
    bound_s: float = 30.0
    span_s: float = float("inf")

    @property
    def correction_s(self) -> float:
        """What is taken from every time."""
        return self.skew_s if abs(self.skew_s) > self.bound_s else 0.0


@dataclass(frozen=True)
class Checked:
    """What has become of a file: a table as Parquet, and how many rows it lacks for each reason; or why it is none."""

    problem: str = ""
    table: pa.Table | None = None
    dropped: Counter[str] = field(default_factory=Counter)

    def encode(self) -> bytes:
        """Return the table as the bytes of a file."""
        out = pa.BufferOutputStream()
        parquet.write_table(self.table, out)
        return bytes(out.getvalue())


def check(data: bytes, table: str, broker: str, times: Times) -> Checked:
    """Return what can be used of a file that a broker gave as one of that table; nothing is raised."""
    spec = BY_NAME[table]
    texts = [column.name for column in spec.columns if column.type == "string"]
    dropped: Counter[str] = Counter()
    kept = []
    try:
        problem = _problem_of(parquet.ParquetFile(pa.BufferReader(data)), spec)
        if problem:
            return Checked(problem)
        # Texts are read as numbers of distinct ones: a small file can say the same long text a million times.
        file = parquet.ParquetFile(pa.BufferReader(data), read_dictionary=texts)
        size = 0
        for batch in file.iter_batches(BATCH, columns=[column.name for column in spec.columns]):
            size += sum(_bytes_of(batch.column(name)) for name in texts)
            if size > MOST_BYTES:
                return Checked(f"it takes more than {MOST_BYTES:,} bytes")
            kept.append(_usable(batch, spec, broker, times, dropped))
        whole = pa.Table.from_batches(kept, _schema(spec))
        return Checked(table=_of_one_span(whole, times.span_s, dropped), dropped=dropped)
    except (pa.ArrowException, OSError, ValueError, LookupError, ArithmeticError) as error:
        return Checked(f"it is no Parquet: {' '.join(str(error).split())[:120]}")


# -- files -----------------------------------------------------------------------------------------------------


def _problem_of(file: parquet.ParquetFile, spec: Table) -> str:
    """Return why a file is no table of that kind, by its footer; "" if it may be one."""
    groups = (file.metadata.row_group(group) for group in range(file.metadata.num_row_groups))
    if sum(group.total_byte_size for group in groups) > MOST_BYTES:
        return f"it would take more than {MOST_BYTES:,} bytes"
    if file.metadata.num_rows > MOST_ROWS:
        return f"it has more than {MOST_ROWS:,} rows"
    schema = file.schema_arrow
    for column in spec.columns:
        count = schema.names.count(column.name)
        if count != 1:
            return f"it has {'no column' if not count else 'several columns'} {column.name}"
        kind = schema.field(column.name).type
        if not _fits(kind, column.type):
            return f"its column {column.name} is {kind!s:.80} and not {column.type}"
    return ""


def _fits(kind: pa.DataType, wanted: str) -> bool:
    if wanted == "timestamp":
        return bool(pa.types.is_timestamp(kind))
    if wanted == "int":
        return bool(pa.types.is_int32(kind))
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value))


def _schema(spec: Table) -> pa.Schema:
    return pa.schema([(column.name, _TYPES[column.type]) for column in spec.columns])


def _bytes_of(texts: pa.Array) -> int:
    if not pa.types.is_dictionary(texts.type):
        return int(texts.nbytes)
    lengths = pc.binary_length(texts.dictionary).cast(pa.int64())
    return pc.sum(lengths.take(texts.indices)).as_py() or 0


# -- rows ------------------------------------------------------------------------------------------------------


def _usable(
    batch: pa.RecordBatch, spec: Table, broker: str, times: Times, dropped: Counter[str]
) -> pa.RecordBatch:
    """Return the rows that can be used, in the table's own types; the others are counted, each for one reason."""
    columns: dict[str, Any] = {}
    good = np.ones(len(batch), np.bool_)

    def drop(reason: str, bad: Mask) -> None:
        nonlocal good
        count = int((good & bad).sum())
        if count:
            dropped[reason] += count
            good = good & ~bad

    for column in spec.columns:
        values = batch.column(column.name)
        if column.type == "string":
            values, bad = _text(values)
            drop(NO_TEXT, bad)
        columns[column.name] = values
    for name in _NAMES[spec.name]:
        drop(NO_NAME, _not(pc.greater(pc.binary_length(columns[name]), 0)))
    drop(NOT_ITS_OWN, _not(pc.equal(columns["broker"], broker)))
    if "at" in columns:
        for reason, bad in _judged(columns["at"], times):
            drop(reason, bad)
        columns["at"] = _corrected(columns["at"], good, times)
    kept = pa.RecordBatch.from_arrays(list(columns.values()), schema=_schema(spec))
    return kept.filter(pa.array(good))


def _text(values: pa.Array) -> tuple[pa.Array, Mask]:
    """Return texts as such, and which are none; these are null."""
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    distinct = values.dictionary
    try:
        distinct.validate(full=True)
        wrong = pa.nulls(len(distinct), pa.bool_()).fill_null(False)
    except pa.ArrowInvalid:
        binary = distinct.cast(pa.large_binary() if pa.types.is_large_string(distinct.type) else pa.binary())
        texts = [_decoded(one) for one in binary.to_pylist()]
        wrong = pa.array([text is None for text in texts], pa.bool_())
        distinct = pa.array(texts, pa.string())
    bad = wrong.take(values.indices).fill_null(False).to_numpy(zero_copy_only=False)
    return distinct.take(values.indices).cast(pa.string()), bad


def _decoded(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _not(values: pa.Array) -> Mask:
    """Return where it is not so, or nobody knows."""
    mask: Mask = ~values.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def _judged(at: pa.Array, times: Times) -> Iterator[tuple[str, Mask]]:
    """Yield which times cannot be used, and why."""
    yield NO_TIME, at.is_null().to_numpy(zero_copy_only=False)
    seconds = _numbers(at) / _PER_SECOND[at.type.unit] - times.correction_s
    yield FUTURE, seconds > times.now_s + times.bound_s
    yield PAST, seconds < 0


def _corrected(at: pa.Array, good: Mask, times: Times) -> pa.Array:
    """Return times of the coordinator's clock, in microseconds; those of other rows than the good ones are null."""
    per_second = _PER_SECOND[at.type.unit]
    numbers = np.where(good, _numbers(at), 0)  # what is left is small enough to be multiplied
    if per_second > 1_000_000:
        numbers //= per_second // 1_000_000
    else:
        numbers *= 1_000_000 // per_second
    numbers -= round(times.correction_s * 1e6)
    return pa.array(numbers, pa.int64(), mask=~good).cast(_TYPES["timestamp"])


def _numbers(at: pa.Array) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = at.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _of_one_span(table: pa.Table, span_s: float, dropped: Counter[str]) -> pa.Table:
    """Return the rows that one window can have together with the newest."""
    if "at" not in table.column_names or not len(table):
        return table
    numbers = table.column("at").cast(pa.int64()).to_numpy()
    old = numbers < numbers.max() - span_s * 1e6
    if old.any():
        dropped[PAST] += int(old.sum())
    return table.filter(pa.array(~old))
