"""Gathering: one look at all brokers, and whatever they have sampled since the last one.

Files of events and deliveries go to the inbox of streams, each once; tables of subscriptions and advertisements replace
what a broker had before. Names and contents come from outside: a file that is not a table of its kind is left out and
said. Whoever does not answer is away; its last tables stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as parquet

from covey.client.pages import Pages
from covey.coordinator.looking import BrokerLook, Look
from covey.coordinator.memory import Memory, write_whole
from covey.errors import CoveyError
from covey.pipeline.schemas import BY_NAME

STREAMED: Final = ("events", "deliveries")
REPLACED: Final = ("subscriptions", "advertisements")
AT_ONCE: Final = 8  # brokers that are asked at one time
MOST_BYTES: Final = 1 << 29  # of a table as its file says it is when unpacked


@dataclass
class Gathered:
    """What a round has found: the look, new files by table, subscriptions that came and went, and what was wrong."""

    look: Look
    files: dict[str, int] = field(default_factory=dict)
    joined: int = 0
    left: int = 0
    problems: list[str] = field(default_factory=list)


def gather(pages: Iterable[Pages], directory: Path, memory: Memory) -> Gathered:
    """Look at all brokers; new samples go to directory/inbox, tables to directory/tables. `memory` learns of them."""
    asked = list(pages)
    for table in (*STREAMED, *REPLACED):
        (directory / ("inbox" if table in STREAMED else "tables") / table).mkdir(parents=True, exist_ok=True)
    found = Gathered(look_at(asked))
    for one in asked:
        if one.url not in found.look.away:
            try:
                _fetch(one, directory, memory, found)
            except CoveyError as error:
                found.problems.append(str(error))
    _forget_others({key_of(one.url) for one in asked}, directory)
    return found


def look_at(pages: Iterable[Pages]) -> Look:
    """Return what brokers say of themselves now, all asked at one time."""
    asked = list(pages)
    looks: dict[str, BrokerLook] = {}
    away: dict[str, str] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for one, answer in zip(asked, pool.map(_look, asked), strict=True):
            if isinstance(answer, str):
                away[one.url] = answer
            elif answer.broker in looks:
                away[one.url] = f"the broker {answer.broker} answers at {looks[answer.broker].url} too"
            else:
                looks[answer.broker] = answer
    return Look(looks, away)


def key_of(url: str) -> str:
    """Return what the files from one address are told by."""
    return blake2b(url.encode(), digest_size=6).hexdigest()


def _look(pages: Pages) -> BrokerLook | str:
    try:
        return BrokerLook.of(pages.url, pages.get("/varz"), pages.get("/planz"))
    except CoveyError as error:
        return str(error)
    except (KeyError, TypeError, ValueError, IndexError, StopIteration, AttributeError) as error:
        return f"{pages.url} does not answer as a broker does: {type(error).__name__} {error!s:.80}"


def _fetch(pages: Pages, directory: Path, memory: Memory, found: Gathered) -> None:
    known = memory.fetched.setdefault(pages.url, {})
    there: dict[str, int] = {}
    for row in _rows(pages.get("/samplez")):
        table, name, written = row
        key = f"{table}/{name}"
        if known.get(key) == written:
            there[key] = written
            continue
        target = directory / ("inbox" if table in STREAMED else "tables") / table
        file = target / f"{key_of(pages.url)}-{name}"
        try:
            data = pages.get_bytes("/samplez", table=table, name=name)
        except CoveyError as error:  # it may have left meanwhile
            found.problems.append(str(error))
            continue
        there[key] = written
        problem = problem_of(data, table)
        if problem:
            found.problems.append(f"{pages.url}: {table}/{name:.80} is left out: {problem}")
            continue
        if table == "subscriptions":
            joined, left = _changes(file, data)
            found.joined += joined
            found.left += left
        write_whole(file, data)
        found.files[table] = found.files.get(table, 0) + 1
    memory.fetched[pages.url] = there  # of what is not listed any more nothing need be known


def _rows(answer: Any) -> list[tuple[str, str, int]]:
    """Return the files that can be fetched, each with its table, name and time."""
    rows = []
    for row in answer.get("rows", ()) if isinstance(answer, dict) else ():
        table, name, written = row.get("table"), row.get("name"), row.get("written_ns")
        fits = isinstance(name, str) and isinstance(written, int) and name.endswith(".parquet")
        if table in (*STREAMED, *REPLACED) and fits and _is_plain(name):
            rows.append((table, name, written))
    return rows


def _is_plain(name: str) -> bool:
    """Return whether a name is that of a file in a directory and of nothing else."""
    return name.isprintable() and len(name.encode()) <= 200 and not {"/", "\\", ":"} & set(name)


def problem_of(data: bytes, table: str) -> str:
    """Return why bytes are no table of that kind, "" if they are one."""
    try:
        file = parquet.ParquetFile(pa.BufferReader(data))
        schema, groups = file.schema_arrow, range(file.metadata.num_row_groups)
        if sum(file.metadata.row_group(group).total_byte_size for group in groups) > MOST_BYTES:
            return f"it would take more than {MOST_BYTES:,} bytes"
        file.read()  # as a page that is damaged would stop the stream
    except (pa.ArrowException, OSError, ValueError) as error:
        return f"it is no Parquet: {' '.join(str(error).split())[:120]}"
    types: dict[str, Callable[[Any], bool]] = {
        "string": lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
        "timestamp": pa.types.is_timestamp,
        "int": pa.types.is_int32,
    }
    for column in BY_NAME[table].columns:
        if column.name not in schema.names:
            return f"it has no column {column.name}"
        if not types[column.type](schema.field(column.name).type):
            return f"its column {column.name} is {schema.field(column.name).type} and not {column.type}"
    return ""


def _changes(file: Path, data: bytes) -> tuple[int, int]:
    """Return how many subscriptions have come and gone since the last table of this broker."""
    new = set(_names(pa.BufferReader(data)))
    old = set(_names(file)) if file.exists() else set()
    return len(new - old), len(old - new)


def _names(source: Any) -> list[str]:
    names: list[str] = parquet.read_table(source, columns=["subscription"]).column(0).to_pylist()
    return names


def _forget_others(keys: set[str], directory: Path) -> None:
    """Remove the tables of addresses that are asked no more."""
    for table in REPLACED:
        for file in (directory / "tables" / table).glob("*.parquet"):
            if file.name.split("-")[0] not in keys:
                file.unlink()
