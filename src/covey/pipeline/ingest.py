"""Ingestion: raw tables to checked ones; what cannot be used is set aside with the reason, never lost.

    judge        every row with the columns that ingestion adds, a `reason`, null if the row is good, and `_source`:
                 where the row comes from, if the raw table has that column (`inputs.read`)
    accept       the good rows of a judged table, without the reason
    quarantine   the bad ones, as rows of the table `quarantine`
    ingest       judge, then accept

Whoever wants both the good rows and the bad ones persists what `judge` returns, and is spared judging twice.

A filter's text is parsed here once and travels as its wire form from then on; an event's content is parsed once and
travels packed. Distinct filter texts of a batch are parsed once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.window import Window

from covey.core.families import LANGUAGES, parse
from covey.core.packing import pack
from covey.core.xpath.document import Document
from covey.errors import ConfigError, CoveyError, EventError
from covey.pipeline.schemas import QUARANTINE, SOURCE, Table, check, source_type, table_named
from covey.pipeline.text_tables import refuse_constant
from covey.pipeline.values import FIRST_US, LAST_US, OUT_OF_RANGE

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame

REASON = "reason"
# The most that is taken of one event, which is also what an XML document may have.
MAX_CONTENT = 1 << 20
MAX_WORDS = 1 << 16
_UNKNOWN_BROKER = "the broker {} is not in the topology"

Verdict = tuple[bytes | None, str | None]  # what ingestion adds to a row, or why the row cannot be used


def ingest(raw: DataFrame, *, table: str, distinct: bool = True) -> DataFrame:
    """Return the good rows of a raw table with the columns that ingestion adds."""
    return accept(judge(raw, table=table, distinct=distinct), table=table)


def judge(
    raw: DataFrame, *, table: str, distinct: bool = True, brokers: Sequence[str] | None = None
) -> DataFrame:
    """Return all rows of a raw table with the columns that ingestion adds and the reason why a row cannot be used.

    With `brokers`, the names of all brokers of the topology, rows at other brokers are refused.

    With `distinct`, which takes a shuffle, all but the first of several rows with the same name are refused; first
    in the order of their other columns, so that it is the same one in every run. ConfigError if columns are missing.
    """
    spec = table_named(table)
    check(raw, spec)
    kinds = {field.name: field.dataType.simpleString() for field in raw.schema.fields}
    reasons = []
    columns = []
    for column in spec.columns:
        value = F.col(f"`{column.name}`") if column.name in kinds else F.lit(None)
        if column.type == "int" and kinds.get(column.name) == "bigint":
            # A cast would end the job, or take another number.
            fits = value.between(-(1 << 31), (1 << 31) - 1)
            reasons.append(
                F.when(value.isNotNull() & ~fits, F.lit(f"the column {column.name} {OUT_OF_RANGE}"))
            )
            value = F.when(fits, value)
        columns.append(value.cast(column.type).alias(column.name))
    reason, source = _sourced(raw, reasons, [column.name for column in spec.columns if column.name in kinds])
    given = raw.select(*columns, reason.alias(REASON), source.alias(SOURCE))
    judged = spec.schema().add(REASON, "string").add(SOURCE, source_type())
    known = None if brokers is None else frozenset(brokers)
    result = given.mapInArrow(partial(judge_batches, table=table, brokers=known), judged)
    return _refuse_repeated(result, spec) if distinct and spec.key else result


def _sourced(raw: DataFrame, reasons: list[Column], names: list[str]) -> tuple[Column, Column]:
    """Return why a row cannot be taken as its types, and where it comes from, with what it was."""
    nothing = F.lit(None).cast(source_type())
    source = F.col(SOURCE) if SOURCE in raw.columns else nothing
    reason = F.coalesce(source["reason"], *reasons)
    if not reasons:
        return reason, source
    fields = {name: source[name] for name in source_type().names}
    fields["text"] = F.coalesce(source["text"], row_json(names))
    kept = F.struct(*[value.alias(name) for name, value in fields.items()])
    return reason, F.when(F.coalesce(*reasons).isNotNull(), kept).otherwise(source)


def accept(judged: DataFrame, *, table: str) -> DataFrame:
    """Return the good rows of a judged table."""
    spec = table_named(table)
    names = [column.name for column in (*spec.columns, *spec.added)]
    return judged.where(F.col(REASON).isNull()).select(*names)


def quarantine(judged: DataFrame, *, table: str) -> DataFrame:
    """Return the bad rows of a judged table as rows of the table `quarantine`."""
    spec = table_named(table)
    row = row_json([column.name for column in spec.columns])
    place = [F.col(f"{SOURCE}.{field}") for field in ("file", "line", "text")]
    values = (F.lit(table), F.col(REASON), *place[:2], F.coalesce(place[2], row), row)
    named = [value.alias(column.name) for value, column in zip(values, QUARANTINE.columns, strict=True)]
    return judged.where(F.col(REASON).isNotNull()).select(*named)


def row_json(names: Sequence[str]) -> Column:
    """Return columns of a row as JSON."""
    options = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
    return F.to_json(F.struct(*[F.col(f"`{name}`") for name in names]), options)


def _refuse_repeated(judged: DataFrame, table: Table) -> DataFrame:
    key = str(table.key)
    # Where rows are decides only between equal ones.
    others = [F.col(column.name) for column in table.columns if column.name != key]
    others += [F.col(f"{SOURCE}.file"), F.col(f"{SOURCE}.line")]
    place = F.row_number().over(Window.partitionBy(key).orderBy(F.col(REASON).isNotNull(), *others))
    repeated = F.format_string(f"the {key} %s is there more than once", F.substring(key, 1, 80))
    # Rows without a name, which are bad already, are not repetitions of each other.
    reason = F.coalesce(REASON, F.when((F.col("_place") > 1) & F.col(key).isNotNull(), repeated))
    return judged.withColumn("_place", place).withColumn(REASON, reason).drop("_place")


# -- in the workers --------------------------------------------------------------------------------------------


def judge_batches(
    batches: Iterator[pyarrow.RecordBatch], *, table: str, brokers: Set[str] | None = None
) -> Iterator[pyarrow.RecordBatch]:
    """Judge the rows of Arrow batches."""
    import pyarrow as pa

    spec, judge_row = table_named(table), _JUDGES[table]
    for batch in batches:
        arrays = [batch.column(column.name) for column in spec.columns]
        # Python has no time beyond the year 9999, and a number is all that is looked at.
        plain = [one.cast(pa.int64()) if pa.types.is_timestamp(one.type) else one for one in arrays]
        known: dict[Any, Verdict] = {}
        verdicts = [judge_row(row, known) for row in zip(*(one.to_pylist() for one in plain), strict=True)]
        reason = batch.column(REASON)
        if reason.null_count < batch.num_rows:
            given = reason.to_pylist()
            verdicts = [(None, why) if why else verdict for why, verdict in zip(given, verdicts, strict=True)]
        if brokers is not None:
            places = batch.column("broker").to_pylist()
            if not set(places) <= brokers:
                verdicts = [
                    verdict if verdict[1] or place in brokers else (None, _UNKNOWN_BROKER.format(place[:80]))
                    for verdict, place in zip(verdicts, places, strict=True)
                ]
        if spec.added:
            arrays.append(pa.array([None if reason else added for added, reason in verdicts], pa.binary()))
        arrays += [pa.array([reason for _, reason in verdicts], pa.string()), batch.column(SOURCE)]
        names = [column.name for column in (*spec.columns, *spec.added)]
        yield pa.RecordBatch.from_arrays(arrays, [*names, REASON, SOURCE])


def _judge_link(row: Sequence[Any], known: dict[Any, Verdict]) -> Verdict:
    a, b, cost = row
    if reason := _unnamed(a=a, b=b):
        return None, reason
    if a == b:
        return None, f"the link goes from {a!r:.80} to itself"
    if cost is not None and not 0 < cost < math.inf:
        return None, f"the cost {cost} is not a finite number above 0"
    return None, None


def _judge_filter(row: Sequence[Any], known: dict[Any, Verdict], *, key: str) -> Verdict:
    name, broker, language, text = row
    if reason := _unnamed(**{key: name, "broker": broker}) or _unspoken(language):
        return None, reason
    if text is None:
        return None, "the filter is null"
    verdict = known.get((language, text))
    if verdict is None:
        try:
            verdict = parse(text, language).encode(), None
        except CoveyError as error:
            verdict = None, _line(error)
        known[language, text] = verdict
    return verdict


def _judge_event(row: Sequence[Any], known: dict[Any, Verdict]) -> Verdict:
    name, _, broker, at, language, content = row
    if not (name and broker and language in LANGUAGES and (at is None or FIRST_US <= at <= LAST_US)):
        return None, _unnamed(event=name, broker=broker) or _unspoken(language) or _untimely(at)
    if content is None:
        return None, "the content is null"
    if len(content) > MAX_CONTENT:
        return None, f"the content has {len(content)} characters; at most {MAX_CONTENT} are read"
    try:
        return _ENCODERS[language](content), None
    except CoveyError as error:
        return None, _line(error)


def _judge_delivery(row: Sequence[Any], known: dict[Any, Verdict]) -> Verdict:
    event, subscription, broker, distance, at = row
    reason = _unnamed(event=event, subscription=subscription, broker=broker) or _untimely(at)
    if reason is None and distance is not None and distance < 0:
        reason = f"the distance {distance} is below 0"
    return None, reason


def _unnamed(**names: str | None) -> str | None:
    for what, name in names.items():
        if not name:
            return f"the column {what} is {'null' if name is None else 'empty'}"
    return None


def _untimely(at_us: int | None) -> str | None:
    if at_us is None or FIRST_US <= at_us <= LAST_US:
        return None
    return f"the column at {OUT_OF_RANGE}"


def _unspoken(language: str | None) -> str | None:
    if language in LANGUAGES:
        return None
    return f"there is no language {language!r:.40}; expected {', '.join(LANGUAGES)}"


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def encode_attributes(content: str) -> bytes:
    """Return the packed form of a JSON object; EventError if the text is none."""
    event = quick_object(content)
    if event is None:
        event = _json(content)
        if not isinstance(event, dict):
            raise EventError(f"the content is a JSON {_json_type(event)} and not an object")
    return pack(event)


def encode_keywords(content: str) -> bytes:
    """Return a JSON list of words as a MessagePack list, sorted, each word once; EventError if the text is none."""
    words = _json(content)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise EventError("the content is not a JSON list of words")
    if len(words) > MAX_WORDS:
        raise EventError(f"the content has {len(words)} words; at most {MAX_WORDS} are read")
    try:
        return msgspec.msgpack.encode(sorted(set(words)))
    except UnicodeEncodeError:  # an escape in JSON can be half a character, which no text has
        raise EventError("a word holds an unpaired surrogate") from None


def encode_xml(content: str) -> bytes:
    """Return XML as bytes; EventError if it is not a document."""
    Document.parse(content)
    return content.encode()


def quick_object(content: str) -> dict[str, Any] | None:
    """Return a JSON object as `_json` reads it, faster; None if that is not known to be so.

    A reader that is compiled keeps the last of several values of one name, and says nothing. That no name is there
    twice is known if every colon of the text is in a name or a text that was kept, or follows a name that was.
    """
    colons = content.count(":")
    try:
        event = _read_json(content)
        if type(event) is dict and (
            len(event) == colons or ("\\" not in content and _colons_of(event) == colons)
        ):
            return event
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass  # what is wrong is said by the other reader
    return None


def _colons_of(value: Any) -> int:
    """Return how many colons an object has as JSON whose texts are as they are, without escapes."""
    if isinstance(value, str):
        return value.count(":")
    if isinstance(value, dict):
        names = ":".join(value).count(":") + 1 if value else 0
        return names + sum(map(_colons_of, value.values()))
    return sum(map(_colons_of, value)) if isinstance(value, list) else 0


def _json(content: str) -> Any:
    # Python's own reader: it reads integers of any size exactly. What is not JSON, NaN, it would read too; a number
    # beyond all numbers as infinity; and of several values of one name the last.
    try:
        return _DECODER.decode(content)
    except (ValueError, RecursionError) as error:
        raise EventError(f"the content is not JSON: {_line(error)}") from None


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text:.40} is out of range")
    return value


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a name twice")
    return found


_read_json = msgspec.json.Decoder().decode
_DECODER = json.JSONDecoder(
    parse_float=_finite, parse_constant=refuse_constant, object_pairs_hook=_named_once
)


def _json_type(value: object) -> str:
    names = {list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


_ENCODERS: dict[str, Callable[[str], bytes]] = {
    "attributes": encode_attributes,
    "keywords": encode_keywords,
    "xpath": encode_xml,
}
_JUDGES: dict[str, Callable[[Sequence[Any], dict[Any, Verdict]], Verdict]] = {
    "topology": _judge_link,
    "subscriptions": partial(_judge_filter, key="subscription"),
    "advertisements": partial(_judge_filter, key="advertisement"),
    "events": _judge_event,
    "deliveries": _judge_delivery,
}
assert set(_ENCODERS) == set(LANGUAGES), "every language's events can be encoded"


def ingested(frame: DataFrame, *, table: str) -> DataFrame:
    """Return the frame if it was ingested, else what ingestion makes of it: stages take raw tables too."""
    spec = table_named(table)
    if all(column.name in frame.columns for column in spec.added):
        check(frame, spec)
        return frame
    if not spec.added:
        raise ConfigError(f"rows of the table {table} do not show whether they were ingested")
    return ingest(frame, table=table)
