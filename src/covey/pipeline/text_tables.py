"""Tables as text, CSV and lines of JSON: every record with its file, its line and its source text. No Spark here.

A record that cannot be read is a row too: what cannot be read of it is null, and it says why. Nothing is skipped but
empty lines, and nothing is filled in: a row of CSV with too few or too many fields, a line that is not UTF-8, a name
that a JSON object has twice, a value that is not of its column's type are all refused.

    CSV    the first record of each file names the columns; fields are as in RFC 4180 and may go over several lines; an
           empty field is null
    JSON   an object a line; a column that it does not have is null. A number or a boolean in a column of text is its
           text, a text in a column of numbers is read as one

A file is read in pieces, each by one task. Pieces of JSON end where a line ends. A file of CSV is one piece, as a line
may end within a field, and so is a compressed file (.gz, .bz2).

If a quoted field is never closed, the first line alone is refused and reading goes on with the next.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

from covey.errors import ConfigError
from covey.pipeline.schemas import Column, Table
from covey.pipeline.values import BARE_NUMBER, epochs_hint, reader

PIECE_BYTES: Final = 16 << 20
MAX_RECORD: Final = 16 << 20  # bytes; more than the largest content takes with every character escaped
KEPT_TEXT: Final = 10_000  # characters of a record beyond that size
JSON_ENDINGS: Final = (".json", ".jsonl")
_OPENERS: Final[Mapping[str, Callable[[Path], Any]]] = {".gz": gzip.open, ".bz2": bz2.open}
_UNKNOWN: Final = (".deflate", ".lz4", ".lzo", ".snappy", ".xz", ".zip", ".zst")
_BROKEN: Final = (OSError, EOFError, zlib.error)

Line = tuple[int, bytes]  # its number, from 1, and what it is, with its end


class Piece(NamedTuple):
    """A part of a file: bytes from `start` to `end` (-1: all), whose first line has the number `line`.

    `file` is where workers find it, `name` where it is in the input directory.
    """

    file: str
    name: str
    is_json: bool
    start: int
    end: int
    line: int


class Row(NamedTuple):
    """A record: what each column is, null where it cannot be read, and then a reason why."""

    values: Sequence[Any]
    line: int
    text: str
    reason: str | None


# -- files and pieces ------------------------------------------------------------------------------------------


def files_of(path: Path) -> list[Path]:
    """Return the files of a table, itself or those below it without hidden ones; ConfigError if there are none."""
    if path.is_file():
        return [path]
    below = [file for file in sorted(path.rglob("*")) if file.is_file()]
    found = [file for file in below if not any(part[0] in "._" for part in file.relative_to(path).parts)]
    if not found:
        raise ConfigError(f"{path} has no files")
    for file in found:
        if file.suffix in _UNKNOWN:
            raise ConfigError(f"{file} cannot be read: only .gz and .bz2 are decompressed")
    return found


def pieces_of(path: Path, size: int = PIECE_BYTES, files: Sequence[Path] | None = None) -> list[Piece]:
    """Return the pieces of a table, or of these files of it; reads files of JSON that have more than one."""
    found: list[Piece] = []
    for file in files_of(path) if files is None else files:
        name = str(file.relative_to(path.parent))
        is_json = path.suffix in JSON_ENDINGS
        whole = not is_json or file.suffix in _OPENERS or file.stat().st_size <= size
        ends = [(-1, 0)] if whole else list(_line_ends(file, size))
        start, line = 0, 1
        for end, lines in ends:
            found.append(Piece(str(file.resolve()), name, is_json, start, end, line))
            start, line = end, line + lines
    return found


def _line_ends(file: Path, size: int) -> Iterator[tuple[int, int]]:
    """Yield where pieces end, and how many lines each has."""
    with file.open("rb") as data:
        end = 0
        while chunk := data.read(size):
            end += len(chunk)
            lines = chunk.count(b"\n")
            while not chunk.endswith(b"\n") and (chunk := data.readline(size)):
                end += len(chunk)
                lines += chunk.count(b"\n")
            yield end, lines


def header_of(file: Path) -> list[str] | None:
    """Return the columns that a file of CSV has, None if it is empty; ConfigError if one is there twice."""
    try:
        with _opened(file) as data:
            record = next(csv_records(_lines(data, 0, -1, 1)), None)
    except _BROKEN as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None
    if record is None:
        return None
    _, fields, _, problem = record
    if fields is None:
        raise ConfigError(f"the first line of {file}, which names the columns, cannot be read: {problem}")
    (most, count), *_ = Counter(fields).most_common(1)
    if count > 1:
        raise ConfigError(f"{file} has the column {most!r:.80} twice")
    return fields


# -- records ---------------------------------------------------------------------------------------------------


def rows_in(
    piece: Piece, table: Table, units: Mapping[str, str], columns: Mapping[str, str] | None = None
) -> Iterator[Row]:
    """Yield the rows of a piece, with times in these units; ConfigError if the file cannot be read at all.

    `columns` has where a column is that is not under its own name: a column of CSV, or the path of a field in JSON.
    """
    readers = {column.name: _reader(column, table, units) for column in table.columns}
    try:
        with _opened(Path(piece.file)) as data:
            lines = _lines(data, piece.start, piece.end, piece.line)
            yield from (_json_rows if piece.is_json else _csv_rows)(lines, readers, columns or {})
    except _BROKEN as error:
        raise ConfigError(f"{piece.name} cannot be read: {error}") from None


def _opened(file: Path) -> BinaryIO:
    open_file: Callable[[Path], Any] = _OPENERS.get(file.suffix, _open_plain)
    opened: BinaryIO = open_file(file)
    # Compressed files read lines in Python, which takes ten times as long as it does here.
    return opened if open_file is _open_plain else cast(BinaryIO, BufferedReader(cast(Any, opened)))


def _open_plain(file: Path) -> BinaryIO:
    return file.open("rb")


def _lines(data: BinaryIO, start: int, end: int, number: int) -> Iterator[Line]:
    """Yield the lines of a piece; of one that is too long, a little more than may be read."""
    at = start
    if start:
        data.seek(start)
    while (end < 0 or at < end) and (line := data.readline(MAX_RECORD + 1)):
        at += len(line)
        rest = line
        while not rest.endswith(b"\n") and (rest := data.readline(MAX_RECORD)):
            at += len(rest)
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")  # the mark of UTF-8
        yield number, line
        number += 1


def _text(line: bytes) -> str:
    """Return a line as text; ValueError if it is too long, or not UTF-8."""
    if len(line) > MAX_RECORD:
        raise ValueError(f"the record has more than {MAX_RECORD} bytes")
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise ValueError("the line is not UTF-8") from None


def _source(line: bytes) -> str:
    """Return a record that cannot be read for people: without its end, its bytes that are not UTF-8 as escapes."""
    kept = line if len(line) <= MAX_RECORD else line[:KEPT_TEXT]
    return kept.decode(errors="backslashreplace").rstrip("\r\n")


def _json_rows(
    lines: Iterator[Line], readers: Mapping[str, Reader], columns: Mapping[str, str]
) -> Iterator[Row]:
    nothing = [None] * len(readers)
    # A field is meant as a column by its own name only if the column is not said to be elsewhere.
    own = {name: read for name, read in readers.items() if name not in columns}
    for number, line in lines:
        if not line.strip():
            continue
        try:
            text = _text(line).rstrip("\r\n")
            given = _json_object(text)
            _refuse_likely(given, own)
            found = {name: given.get(name) for name in own}
            found |= {name: _field(given, path) for name, path in columns.items()}
        except ValueError as error:
            yield Row(nothing, number, _source(line), _said(error))
        else:
            values, problem = _values(readers, found, _json_text)
            yield Row(values, number, text, problem)


class _Number(str):
    """A number of JSON, as it is written."""


class _Pairs(list[tuple[str, Any]]):
    """An object of JSON."""


def refuse_constant(text: str) -> None:
    """Refuse NaN and infinities, which Python would read."""
    raise ValueError(f"{text} is no JSON number")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_Pairs, parse_float=_Number, parse_int=_Number, parse_constant=refuse_constant
)


def _json_object(text: str) -> dict[str, Any]:
    try:
        found = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        said = "it nests too deep" if isinstance(error, RecursionError) else str(error)
        if isinstance(error, json.JSONDecodeError):
            # The place in the line would make each a reason of its own.
            said = f"{error.msg} (hint: an object a line)"
        raise ValueError(f"the line is not JSON: {said}") from None
    if not isinstance(found, _Pairs):
        raise ValueError("the line is not a JSON object")
    given = dict(found)
    if len(given) < len(found):
        raise ValueError("the JSON object has a name twice")
    return given


def _field(given: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path such as meta.time, None if it is not there; a field of the whole name comes first."""
    if path in given:
        return given[path]
    value: Any = _Pairs(given.items())
    for part in path.split("."):
        inner = dict(value) if isinstance(value, _Pairs) else {}
        if isinstance(value, _Pairs) and len(inner) < len(value):
            raise ValueError("a JSON object has a name twice")
        value = inner.get(part)
    return value


def _json_text(name: str, value: object) -> str | None:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"the column {name} holds an unpaired surrogate") from None
        return value
    if isinstance(value, list):
        kind = "object" if isinstance(value, _Pairs) else "list"
        raise ValueError(f"the column {name} is a JSON {kind} and not a text")
    return None if value is None else str(value).lower()  # true, false


def _csv_rows(
    lines: Iterator[Line], readers: Mapping[str, Reader], columns: Mapping[str, str]
) -> Iterator[Row]:
    nothing = [None] * len(readers)
    records = csv_records(lines)
    _, header, _, _ = next(records, (0, [], "", None))
    assert header is not None, "it was read before"
    places = {name: place for place, name in enumerate(header)}
    for number, fields, text, problem in records:
        if fields is None:
            yield Row(nothing, number, text, problem)
        elif len(fields) != len(header):
            reason = f"the row has {len(fields)} fields and the header {len(header)}"
            yield Row(nothing, number, text, reason)
        else:
            given = {name: fields[place] for name, place in places.items()}
            given |= {name: fields[places[path]] for name, path in columns.items()}
            values, wrong = _values(readers, given, _csv_text)
            yield Row(values, number, text, wrong)


def _csv_text(name: str, value: str | None) -> str | None:
    return value or None


def csv_records(lines: Iterator[Line]) -> Iterator[tuple[int, list[str] | None, str, str | None]]:
    """Yield each record's line, its fields, its source text; without fields, what is wrong with it."""
    # Python's default is an eighth of what a content may have; this is of the process, and only ever raised.
    csv.field_size_limit(max(MAX_RECORD, csv.field_size_limit()))
    waiting: deque[Line] = deque()
    while one := waiting.popleft() if waiting else next(lines, None):
        if (text := _plain(one[1])) is not None:
            if text:  # the line is not empty
                yield one[0], text.split(","), text, None
            continue
        waiting.appendleft(one)
        taken: list[Line] = []
        try:
            fields = next(csv.reader(_supply(lines, waiting, taken), strict=True))
        except (csv.Error, ValueError) as error:
            first, *others = taken
            waiting.extendleft(reversed(others))
            yield first[0], None, _source(first[1]), _said(error)
        else:
            if fields:
                yield taken[0][0], fields, "".join(line.decode() for _, line in taken).rstrip("\r\n"), None


def _plain(line: bytes) -> str | None:
    """Return a line's text, without its end, if it is a record whose fields are what is between commas, as most are."""
    if b'"' in line or b"\0" in line or len(line) > MAX_RECORD:
        return None
    try:
        text = line.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        return None
    return None if "\r" in text else text


def _supply(lines: Iterator[Line], waiting: deque[Line], taken: list[Line]) -> Iterator[str]:
    """Yield the lines of one record, as far as its reader asks for them."""
    size = 0
    while one := waiting.popleft() if waiting else next(lines, None):
        taken.append(one)
        size += len(one[1])
        if size > MAX_RECORD and len(taken) > 1:
            raise ValueError(f"the record has more than {MAX_RECORD} bytes (hint: is a quote left open?)")
        yield _text(one[1])


# -- columns ---------------------------------------------------------------------------------------------------

Reader = Callable[[str | None], Any]


def _reader(column: Column, table: Table, units: Mapping[str, str]) -> Reader:
    """Return what reads a column's text; ValueError names the column."""
    if column.type == "string":
        return lambda text: text
    read = reader(column.type, units.get(column.name))

    def named(text: str | None) -> Any:
        if text is None:
            return None
        try:
            return read(text)
        except ValueError as error:
            hint = epochs_hint(table.name, column.name) if str(error) == BARE_NUMBER else ""
            raise ValueError(f"the column {column.name} {error}{hint}") from None

    return named


def _values(
    readers: Mapping[str, Reader], given: Mapping[str, Any], text_of: Callable[[str, Any], str | None]
) -> tuple[list[Any], str | None]:
    """Return the values of all columns that can be read, and what is wrong with the first that cannot."""
    values: list[Any] = []
    problem = None
    for name, read in readers.items():
        try:
            values.append(read(text_of(name, given.get(name))))
        except ValueError as error:
            values.append(None)
            problem = problem or _said(error)
    return values, problem


def _refuse_likely(given: Mapping[str, Any], readers: Mapping[str, Reader]) -> None:
    for name in given:
        if name not in readers and (likely := name.strip().lower()) in readers:
            mend = "leave it out" if likely in given else f"write it as {likely}"
            raise ValueError(f"the column {name!r:.40} is not {likely} (hint: {mend})")


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
