"""The store's file: an SQLite database in WAL mode, what is in it, and what happens when it is damaged.

    event      what is kept, once, however many wait for it: `refs` counts them, and the last one to go takes it along
    owner      who waits: an outbox (a neighbour broker) or a durable subscription
    queue      who waits for which event; `frame` is there where the owner gets other bytes than those of the event
    seen       the names of the last events that came confirmed, so that one that is sent again is known
    meta       the last position that was given away, and for which broker all this is

A position is an event's number here: they grow, and none is ever given twice. A new file is made under another name and
takes its place when it is complete, so an empty one is damage, and so is one that ends within a page. A damaged one is
moved aside, never overwritten, and what can still be read is copied to a new one. A journal (`-wal`) whose end is
missing cannot be told from a crash before that end was written. One process has a store at a time.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final
from zlib import crc32

from covey.broker.private_files import close_to_others, make_directory, opener
from covey.errors import ConfigError

VERSION: Final = 1
APPLICATION: Final = 0x434F5645  # "COVE": says in the file's head whose it is
PAGE: Final = 4096

_TABLES: Final = {
    "meta": "name TEXT PRIMARY KEY, value",
    "event": "id INTEGER PRIMARY KEY, publisher INTEGER, number INTEGER, stored_s REAL, refs INTEGER, "
    "checksum INTEGER, frame BLOB",
    "owner": "id INTEGER PRIMARY KEY, kind TEXT, user TEXT, client TEXT, name TEXT, uid INTEGER, "
    "generation INTEGER, filter BLOB, UNIQUE (kind, user, client, name)",
    "queue": "owner INTEGER, position INTEGER, checksum INTEGER, frame BLOB, PRIMARY KEY (owner, position)",
    "seen": "position INTEGER PRIMARY KEY, publisher INTEGER, number INTEGER",
}
_SUFFIXES: Final = ("", "-wal", "-shm")


@dataclass(frozen=True)
class Opened:
    """A store that can be used, and what people must know of how it was found."""

    connection: sqlite3.Connection
    lock: IO[bytes]  # while it is open, no other process opens the store
    warning: str = ""


def open_store(path: Path, broker: str, max_bytes: int) -> Opened:
    """Open the store, made or mended where that is needed; ConfigError if it is another broker's or cannot be used."""
    warning = ""
    lock: IO[bytes] | None = None
    try:
        make_directory(path.parent)
        lock = _lock(path)
        if not path.exists():
            _make(path, broker)
        problem = _problem(path, broker)
        if problem:
            warning = _mend(path, broker, problem)
        close_to_others(Path(f"{path}{suffix}") for suffix in (*_SUFFIXES, ".lock"))
        return Opened(connect(path, max_bytes), lock, warning)
    except ConfigError:
        if lock is not None:
            lock.close()
        raise
    except (OSError, sqlite3.Error) as error:
        if lock is not None:
            lock.close()
        raise ConfigError(f"the store {path} cannot be used: {error}") from None


def _lock(path: Path) -> IO[bytes]:
    file = open(f"{path}.lock", "ab", opener=opener)  # noqa: SIM115 (it stays open as long as the store)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ConfigError(f"the store {path} is in use by another broker") from None
    return file


def connect(path: Path, max_bytes: int = 0) -> sqlite3.Connection:
    """Return a connection on which a commit is on disk when it returns; with a bound, the file grows no further."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10.0)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA journal_size_limit=16777216")
    # Some systems overwrite with zeros what is deleted, at the price of writing every event twice.
    connection.execute("PRAGMA secure_delete=OFF")
    if max_bytes:
        # The store refuses what is too much before this bound is met; it is the last resort.
        connection.execute(f"PRAGMA max_page_count={max_bytes * 5 // 4 // PAGE + 256}")
    return connection


def _make(path: Path, broker: str) -> None:
    fresh = path.with_name(path.name + ".new")
    for suffix in _SUFFIXES:
        Path(f"{fresh}{suffix}").unlink(missing_ok=True)
    open(fresh, "xb", opener=opener).close()  # SQLite gives its other files the permissions of this one
    connection = sqlite3.connect(fresh, isolation_level=None)
    try:
        connection.execute(f"PRAGMA page_size={PAGE}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("BEGIN")
        for table, columns in _TABLES.items():
            ending = " WITHOUT ROWID" if table == "queue" else ""
            connection.execute(f"CREATE TABLE {table} ({columns}){ending}")
        connection.execute("INSERT INTO meta VALUES ('broker', ?), ('last', 0)", (broker,))
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={VERSION}")
        connection.execute("COMMIT")
    finally:
        connection.close()
    os.replace(fresh, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _problem(path: Path, broker: str) -> str:
    """Return what is wrong with the file; ConfigError where it is in order and not ours to use."""
    if path.stat().st_size == 0:
        return "the file is empty"
    if path.stat().st_size % PAGE and not _size(Path(f"{path}-wal")):
        return "the file ends within a page"
    connection = sqlite3.connect(path, isolation_level=None, timeout=10.0)
    try:
        if _number(connection, "application_id") != APPLICATION:
            raise ConfigError(f"{path} is a database, and no store of Covey's")
        version = _number(connection, "user_version")
        if version > VERSION:
            raise ConfigError(f"the store {path} has version {version}; this Covey reads up to {VERSION}")
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            return str(verdict).replace("\n", " ")[:120]
        (owner,) = connection.execute("SELECT value FROM meta WHERE name = 'broker'").fetchone()
        if owner != broker:
            raise ConfigError(f"the store {path} is that of the broker {owner}, not of {broker}")
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "unable to open" in str(error):
            raise
        return str(error)
    except (sqlite3.DatabaseError, TypeError) as error:
        return str(error)
    finally:
        connection.close()
    return ""


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    (value,) = connection.execute(f"PRAGMA {pragma}").fetchone()
    return int(value)


def _mend(path: Path, broker: str, problem: str) -> str:
    """Move the damaged store aside and copy what is readable to a new one; return what people must know."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    for suffix in _SUFFIXES:
        if (part := Path(f"{path}{suffix}")).exists():
            os.replace(part, f"{aside}{suffix}")
    _make(path, broker)
    counts = _salvage(aside, path)
    return (
        f"the store {path} was damaged ({problem}); it is kept as {aside.name}, and {counts['owner']:,} queues with "
        f"{counts['queue']:,} entries and {counts['event']:,} events could be read and go on: others are lost"
    )


def _salvage(damaged: Path, path: Path) -> dict[str, int]:
    counts = dict.fromkeys(_TABLES, 0)
    target = connect(path)
    try:
        target.execute("BEGIN")
        source = sqlite3.connect(damaged, isolation_level=None)
        try:
            for table in _TABLES:
                for row in _readable(source, table):
                    marks = ", ".join("?" * len(row))
                    target.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)
                    counts[table] += 1
        finally:
            source.close()
        _put_right(target)
        counts["event"] = _count(target, "event")
        counts["queue"] = _count(target, "queue")
        target.execute("COMMIT")
    finally:
        target.close()
    return counts


def _readable(source: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table from its beginning, then from its end, as far as each can be read."""
    seen: set[tuple[Any, ...]] = set()
    keys = 2 if table == "queue" else 1
    for direction in ("", " DESC"):
        order = f"owner{direction}, position{direction}" if table == "queue" else f"1{direction}"
        try:
            for row in source.execute(f"SELECT * FROM {table} ORDER BY {order}"):
                if row[:keys] not in seen:
                    seen.add(row[:keys])
                    if table not in ("event", "queue") or row[-1] is None or crc32(row[-1]) == row[-2]:
                        yield row
        except sqlite3.Error:
            continue


def _put_right(target: sqlite3.Connection) -> None:
    """Make what was salvaged consistent: no entry without its event, no event that nobody waits for."""
    target.execute("DELETE FROM queue WHERE position NOT IN (SELECT id FROM event)")
    target.execute("DELETE FROM queue WHERE owner NOT IN (SELECT id FROM owner)")
    target.execute("DELETE FROM event WHERE id NOT IN (SELECT position FROM queue)")
    target.execute("UPDATE event SET refs = (SELECT count(*) FROM queue WHERE position = event.id)")
    # Positions that were given away and are not in what can be read must not be given again.
    target.execute(
        "UPDATE meta SET value = 1000000 + max(value, (SELECT coalesce(max(id), 0) FROM event), "
        "(SELECT coalesce(max(position), 0) FROM seen)) WHERE name = 'last'"
    )


def _count(connection: sqlite3.Connection, table: str) -> int:
    (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)
