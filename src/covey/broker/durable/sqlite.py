"""The log in SQLite: a database in WAL mode, and one thread that writes and reads it.

The tables:

    event      what is kept, once, however many owners wait for it: `refs` counts them, and the last takes it along
    owner      who waits: an outbox (a neighbour broker) or a durable subscription
    queue      who waits for which event; `frame` is there where the owner gets other bytes than those of the event
    seen       the names of the last confirmed events, so that one that is sent again is recognised
    meta       the last position and the last owner's number that were given away, how many transactions there were,
               the name of the broker, and up to which position names are doubtful: events may have been lost there when
               the store was mended

Damage. A new file is made under another name and renamed when it is complete, so an empty file is damage, and so is
one that ends within a page. What can still be read of a damaged file is copied to a new one (`store.db.mended`). When
that is complete, the damaged file is moved aside, never overwritten, and the new one takes its place. A broker that is
killed meanwhile begins again, or ends what is left to do, at its next start. One process has a store at a time.

Every row has a checksum over all that it means: an event with its position, name and time, an entry of a queue with its
owner and position, an owner with its filter, a name that was seen with its position, and what meta says with what it
is. So a bit that flips makes an event neither another one nor another's, nor one that was taken already. Only `refs` is
in no checksum: it counts entries, and is counted again when the store is mended.

A missing end. A journal (`-wal`) whose end is missing, and a file that was replaced by an older copy, look whole. The
mark beside the file (`mark`) knows better. After a store was not closed in order, positions go on with a gap: those
that may have been given away and forgotten are not given again.

Formats. The file's head has the number of its format. A file of an older format is migrated when it is opened, one
format after another in one transaction, and a copy of the old file is kept beside it (`store.db.format-1`), which is
never overwritten. A broker that is killed meanwhile leaves the old file or the new one, and does at its next start what
is left to do. A file of a newer format is refused and left as it is.

Writing. The thread takes all batches that wait as one transaction (group commit), so a commit costs one wait for the
disk however many events it has. A transaction that fails is tried again in halves, until a batch fails alone. Fetches
that wait are answered first, on the same connection, so that they show what was reported before and nothing else.
Searches for copies of events go through the whole store, a slice between two transactions.

A full disk. What is committed is in the journal first and must go from there to the file, which grows by it. On a full
disk that is impossible, and then nothing could be written any more, not even that an event is no longer wanted. So the
writer always leaves as much room as the journal may need, and refuses events before they take it. Free pages inside the
file are room: when the disk is short, they are given back to it.
"""

from __future__ import annotations

import contextlib
import fcntl
import filecmp
import os
import queue
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from struct import Struct
from typing import IO, Any, Final
from zlib import crc32

from covey.broker.durable.log import (
    GAP,
    WINDOW,
    Answer,
    Asked,
    Batch,
    Change,
    Clock,
    Committed,
    Damaged,
    Expire,
    Fetch,
    Find,
    Forget,
    Found,
    Keep,
    Mend,
    Notice,
    Operation,
    Owner,
    Read,
    Recovered,
    Release,
    ReleaseUpTo,
    Renew,
    Report,
    Room,
    Row,
    Trim,
    Unsee,
)
from covey.broker.durable.mark import Mark, Marker, State, read_mark
from covey.broker.private_files import (
    close_directory,
    close_to_others,
    make_directory,
    opener,
    sync_directory,
)
from covey.errors import ConfigError, ProtocolError, StoreError
from covey.protocol.events import Name, envelope_of
from covey.protocol.frames import LAST_POSITION

FORMAT: Final = 3  # of the tables below; a change of them is another format, with a migration from this one
APPLICATION: Final = 0x434F5645  # "COVE": says in the file's head whose it is
PAGE: Final = 4096

_TABLES: Final = {
    "meta": "name TEXT PRIMARY KEY, value, checksum INTEGER",
    "event": "id INTEGER PRIMARY KEY, publisher INTEGER, number INTEGER, stored_s REAL, refs INTEGER, "
    "checksum INTEGER, frame BLOB",
    "owner": "id INTEGER PRIMARY KEY, kind TEXT, user TEXT, client TEXT, name TEXT, uid INTEGER, "
    "generation INTEGER, filter BLOB, checksum INTEGER, UNIQUE (kind, user, client, name)",
    "queue": "owner INTEGER, position INTEGER, checksum INTEGER, frame BLOB, PRIMARY KEY (owner, position)",
    "seen": "position INTEGER PRIMARY KEY, publisher INTEGER, number INTEGER, checksum INTEGER",
}
_SUFFIXES: Final = ("", "-wal", "-shm")


# -- checksums ---------------------------------------------------------------------------------------------------

_EVENT_HEAD: Final = Struct("<qqqd")
_ENTRY_HEAD: Final = Struct("<qq")
_NAME: Final = Struct("<qqq")


def event_sum(position: int, publisher: int, number: int, stored_s: float, frame: bytes) -> int:
    """Return the checksum of an event's row; numbers are as SQLite has them."""
    return crc32(frame, crc32(_EVENT_HEAD.pack(position, publisher, number, stored_s)))


def entry_sum(owner: int, position: int, frame: bytes | None) -> int:
    """Return the checksum of an entry of a queue."""
    return crc32(frame or b"", crc32(_ENTRY_HEAD.pack(owner, position)))


def owner_sum(owner: Owner) -> int:
    """Return the checksum of an owner's row."""
    return crc32(repr(tuple(owner)).encode("utf-8", "surrogatepass"))


def name_sum(position: int, publisher: int, number: int) -> int:
    """Return the checksum of a name that was seen; numbers are as SQLite has them."""
    return crc32(_NAME.pack(position, publisher, number))


def meta_sum(name: str, value: object) -> int:
    """Return the checksum of a row of meta."""
    return crc32(repr((name, value)).encode("utf-8", "surrogatepass"))


def is_name(row: tuple[Any, ...]) -> bool:
    """Return whether position, publisher, number and checksum of a name that was seen are as they were stored."""
    position, publisher, number, checksum = row
    return (
        isinstance(publisher, int)
        and isinstance(number, int)
        and name_sum(position, publisher, number) == checksum
    )


def is_event(row: tuple[Any, ...]) -> bool:
    """Return whether position, publisher, number, time, checksum and frame of an event are as they were stored."""
    position, publisher, number, stored_s, checksum, frame = row
    return (
        isinstance(publisher, int)
        and isinstance(number, int)
        and isinstance(stored_s, float)
        and isinstance(frame, bytes)
        and event_sum(position, publisher, number, stored_s, frame) == checksum
    )


# -- formats -----------------------------------------------------------------------------------------------------


def _bind_checksums(connection: sqlite3.Connection) -> None:
    """Make format 2 of format 1, whose checksums are those of frames alone; what is damaged stays so."""

    def bound_event(*row: Any) -> int | None:
        position, publisher, number, stored_s, checksum, frame = row
        if not isinstance(frame, bytes) or crc32(frame) != checksum:
            return None
        return event_sum(position, publisher, number, stored_s, frame)

    def bound_entry(owner: int, position: int, checksum: object, frame: bytes | None) -> int | None:
        is_good = frame is None or crc32(frame) == checksum
        return entry_sum(owner, position, frame) if is_good else None

    connection.create_function("bound_event", 6, bound_event, deterministic=True)
    connection.create_function("bound_entry", 4, bound_entry, deterministic=True)
    connection.execute(
        "UPDATE event SET checksum = bound_event(id, publisher, number, stored_s, checksum, frame)"
    )
    connection.execute("UPDATE queue SET checksum = bound_entry(owner, position, checksum, frame)")
    owners = connection.execute("SELECT * FROM owner").fetchall()
    connection.execute("DROP TABLE owner")
    connection.execute(f"CREATE TABLE owner ({_TABLES['owner']})")
    for row in owners:
        connection.execute("INSERT INTO owner VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", _owner_row(Owner(*row)))
    connection.execute("INSERT INTO meta VALUES ('commits', 0)")


def _bind_names(connection: sqlite3.Connection) -> None:
    """Make format 3 of format 2, which has no checksums in `seen` and `meta`: what is there now is taken for right."""

    def bound(*row: Any) -> int | None:
        return name_sum(*row) if all(isinstance(one, int) for one in row) else None

    connection.create_function("bound_name", 3, bound, deterministic=True)
    connection.create_function("bound_meta", 2, meta_sum, deterministic=True)
    for table, sums in (
        ("seen", "bound_name(position, publisher, number)"),
        ("meta", "bound_meta(name, value)"),
    ):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER")
        connection.execute(f"UPDATE {table} SET checksum = {sums}")
    (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM owner").fetchone()
    connection.execute("INSERT INTO meta VALUES ('owner', ?, ?)", (last, meta_sum("owner", last)))


def _owner_row(owner: Owner) -> tuple[Any, ...]:
    return (*owner, owner_sum(owner))


# By format: what makes the tables of the next one, within a transaction that is the caller's.
MIGRATIONS: Final[Mapping[int, Callable[[sqlite3.Connection], None]]] = {
    1: _bind_checksums,
    2: _bind_names,
}


# -- opening -----------------------------------------------------------------------------------------------------

# Positions that are left out after a copy was put back: the original may have gone on for long.
COPY_GAP: Final = 1 << 40


@dataclass(frozen=True)
class Opened:
    """A store that can be used, and what people must know of how it was found."""

    connection: sqlite3.Connection
    lock: IO[bytes]  # while it is open, no other process opens the store
    warnings: tuple[str, ...] = ()  # of damage
    notices: tuple[str, ...] = ()  # of a migration, or of a directory that was open to others
    commits: int = 0  # transactions so far
    known: int = 0  # the last position of which the store knows
    last: int = 0  # behind which positions are given away
    missing: int = 0  # positions that the mark knows of and the store does not
    mark: Mark | None = None
    is_settled: bool = True  # the mark may be written: what is missing is said, and need not be said again


def open_store(path: Path, broker: str, max_bytes: int) -> Opened:
    """Open the store, made, mended or migrated where that is needed.

    ConfigError if it is another broker's, of a newer format, or cannot be used.
    """
    lock: IO[bytes] | None = None
    try:
        make_directory(path.parent)
        notices = [close_directory(path.parent, path.name)]
        lock = _lock(path)
        mark, warnings = _mark(path)
        if _mended(path).exists():
            warnings.append(_end_mending(path, "it was being mended when the broker ended"))
        is_new = not path.exists()
        if is_new:
            fresh = path.with_name(f"{path.name}.new")
            _make(fresh, broker)
            aside = _put_in_place(fresh, path)
            if aside is not None:
                warnings.append(
                    f"the store {path} was gone, but not its journal, which is kept as {aside.name}-wal"
                )
        problem = _problem(path, broker)
        if problem:
            warnings.append(_mend(path, broker, problem, mark))
        notices.append(_migrate(path))
        close_to_others(Path(f"{path}{suffix}") for suffix in (*_SUFFIXES, ".lock"))
        connection = connect(path, max_bytes)
        try:
            if bad := _forget_bad_names(connection):
                warnings.append(
                    f"the store {path} had {bad:,} damaged rows among the names of events that it has confirmed: "
                    "one of those events, if it is sent again, is taken for a new one"
                )
            return _compared(Opened(connection, lock, mark=mark), path, is_new, warnings, notices)
        except sqlite3.Error:
            connection.close()
            raise
    except ConfigError:
        if lock is not None:
            lock.close()
        raise
    except (OSError, sqlite3.Error) as error:
        if lock is not None:
            lock.close()
        raise ConfigError(f"the store {path} cannot be used: {error}") from None


def _mark(path: Path) -> tuple[Mark | None, list[str]]:
    """Return the mark of a store, if there is one that can be read, and what is wrong with it."""
    try:
        return read_mark(path), []
    except (OSError, ValueError) as error:
        return None, [
            f"the mark of the store {path} is damaged ({error}), so a missing end would not be noticed"
        ]


def _compared(opened: Opened, path: Path, is_new: bool, warnings: list[str], notices: list[str]) -> Opened:
    """Compare a store with its mark: say what is missing, and find out where positions go on."""
    connection, mark = opened.connection, opened.mark
    commits, known = how_far(connection)
    missing = gap = 0
    if mark is None:
        if commits and not warnings:
            warnings.append(f"the store {path} has no mark beside it, so a missing end would not be noticed")
        gap = GAP if commits else 0
    elif mark.commits > commits or mark.last > known:
        missing = max(0, mark.last - known)
        warnings.append(_missing(path, is_new, mark, mark.commits - commits, missing))
        gap = GAP
    elif mark.state is State.OPEN or mark.commits < commits or warnings:
        gap = GAP
    if mark is not None and mark.state is State.COPY:
        gap = COPY_GAP
        notices.append(
            f"the store {path} is a copy, made at {_time(mark.wall_s)}: events that the original has confirmed since "
            "are not in it, and those that were acknowledged since are delivered again"
        )
    if mark is not None:
        commits = max(commits, mark.commits)
    last = max(known, 0 if mark is None else mark.last) + gap
    is_settled = not (missing or gap == COPY_GAP) or _settle(connection, commits, last)
    return Opened(
        connection,
        opened.lock,
        tuple(warnings),
        tuple(filter(None, notices)),
        commits,
        known,
        last,
        missing,
        mark,
        is_settled,
    )


def how_far(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return how many transactions a store had, and the last position of which it knows."""
    meta = _meta(connection)
    events = connection.execute(f"SELECT id, {_COLUMNS}, frame FROM event ORDER BY id DESC")
    names = connection.execute("SELECT * FROM seen ORDER BY position DESC")
    # Damaged rows may have any position: the last good ones are asked.
    event = next((row[0] for row in events if is_event(row)), 0)
    seen = next((row[0] for row in names if is_name(row)), 0)
    events.close()
    names.close()
    return meta.get("commits", 0), max(meta.get("last", 0), event, seen)


def _meta(connection: sqlite3.Connection) -> dict[str, Any]:
    """Return what meta says, without rows whose checksums are wrong."""
    rows = connection.execute("SELECT name, value, checksum FROM meta").fetchall()
    return {name: value for name, value, checksum in rows if meta_sum(name, value) == checksum}


def _put_meta(connection: sqlite3.Connection, name: str, value: int) -> None:
    connection.execute(
        "UPDATE meta SET value = ?, checksum = ? WHERE name = ?", (value, meta_sum(name, value), name)
    )


def _forget_bad_names(connection: sqlite3.Connection) -> int:
    """Remove names that were seen and are damaged, if the disk takes that; return how many there are."""
    rows = connection.execute("SELECT * FROM seen")
    bad = [(row[0],) for row in rows if not is_name(row)]
    if bad:
        with contextlib.suppress(sqlite3.OperationalError):
            connection.executemany("DELETE FROM seen WHERE position = ?", bad)
    return len(bad)


def _settle(connection: sqlite3.Connection, commits: int, last: int) -> bool:
    """Have the store know what its mark knew; return whether the disk takes that."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        for name, value in (("commits", commits), ("last", last)):
            _put_meta(connection, name, value)
        connection.execute("COMMIT")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        return False
    return True


def _missing(path: Path, is_new: bool, mark: Mark, commits: int, positions: int) -> str:
    what = f"the store {path} is missing" if is_new else f"the end of the store {path} is missing"
    return (
        f"{what}: by its mark of {_time(mark.wall_s)} it had {max(commits, 1):,} transactions more, with {positions:,} "
        "events that it had confirmed; those that no neighbour has are lost, and what was acknowledged in them is "
        "delivered again"
    )


def _is_copy(mark: Mark | None) -> bool:
    return mark is not None and mark.state is State.COPY


def _time(wall_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(wall_s))


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


def _make(fresh: Path, broker: str) -> None:
    """Make an empty store, in the place of what was begun there before."""
    for suffix in _SUFFIXES:
        Path(f"{fresh}{suffix}").unlink(missing_ok=True)
    open(fresh, "xb", opener=opener).close()  # SQLite gives its other files the permissions of this one
    connection = sqlite3.connect(fresh, isolation_level=None)
    try:
        connection.execute(f"PRAGMA page_size={PAGE}")
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # free pages can be given back to the disk
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("BEGIN")
        for table, columns in _TABLES.items():
            ending = " WITHOUT ROWID" if table == "queue" else ""
            connection.execute(f"CREATE TABLE {table} ({columns}){ending}")
        for name, value in (("broker", broker), ("last", 0), ("owner", 0), ("commits", 0)):
            connection.execute("INSERT INTO meta VALUES (?, ?, ?)", (name, value, meta_sum(name, value)))
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={FORMAT}")
        connection.execute("COMMIT")
    finally:
        connection.close()


def _put_in_place(fresh: Path, path: Path) -> Path | None:
    """Have a store that is complete take the place of what is there, which is moved aside; return to where.

    The journal goes first: as long as the file itself is not there, nothing has that name.
    """
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    parts = [suffix for suffix in reversed(_SUFFIXES) if Path(f"{path}{suffix}").exists()]
    for suffix in parts:
        os.replace(f"{path}{suffix}", f"{aside}{suffix}")
    os.replace(fresh, path)
    sync_directory(path.parent)
    return aside if parts else None


def _problem(path: Path, broker: str) -> str:
    """Return what is wrong with the file; ConfigError where it is not ours to use or to mend."""
    found = FORMAT  # if the file cannot even say that
    if path.stat().st_size == 0:
        return "the file is empty"
    if path.stat().st_size % PAGE and not _size(Path(f"{path}-wal")):
        return "the file ends within a page"
    connection = sqlite3.connect(path, isolation_level=None, timeout=10.0)
    try:
        if pragma(connection, "application_id") != APPLICATION:
            raise ConfigError(f"{path} is a database, and no store of Covey's")
        found = pragma(connection, "user_version")
        if found > FORMAT:
            raise ConfigError(
                f"the store {path} has format {found}, and this version of Covey reads formats up to {FORMAT} "
                "(hint: start the newer version that wrote it, or put back the copy that it kept)"
            )
        if unknown := [one for one in range(found, FORMAT) if one not in MIGRATIONS]:
            raise ConfigError(
                f"the store {path} has format {found}, and this version of Covey cannot migrate format {unknown[0]} "
                "(hint: start a version in between first)"
            )
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            return _mendable(path, found, str(verdict).replace("\n", " ")[:120])
        (owner,) = connection.execute("SELECT value FROM meta WHERE name = 'broker'").fetchone()
        if found == FORMAT and (damaged := damaged_records(connection)):
            return damaged
        if owner != broker:
            raise ConfigError(f"the store {path} is that of the broker {owner}, not of {broker}")
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "unable to open" in str(error):
            raise
        return _mendable(path, found, str(error))
    except (sqlite3.DatabaseError, TypeError) as error:
        return _mendable(path, found, str(error))
    finally:
        connection.close()
    return ""


def damaged_records(connection: sqlite3.Connection) -> str:
    """Return what is wrong with the rows that must be right before anything is read."""
    for *row, checksum in connection.execute("SELECT * FROM owner").fetchall():
        if owner_sum(Owner(*row)) != checksum:
            return f"the record of the {row[1]} {row[3]}/{row[4]} has a wrong checksum"
    wrong = "typeof(owner) != 'integer' OR typeof(position) != 'integer'"
    if connection.execute(f"SELECT 1 FROM queue WHERE {wrong} LIMIT 1").fetchone():
        return "the table queue has rows that cannot be"
    meta = _meta(connection)
    for name in ("broker", "last", "owner", "commits"):
        if name not in meta:
            return f"the table meta has no {name} with a right checksum"
    return ""


def _mendable(path: Path, found: int, problem: str) -> str:
    """Return the problem; ConfigError for a file of an older format, whose tables only its own version knows."""
    if found < FORMAT:
        raise ConfigError(
            f"the store {path} has format {found} and is damaged ({problem}) "
            "(hint: start the version that wrote it, which mends it, before this one)"
        )
    return problem


def _migrate(path: Path) -> str:
    """Bring the store to today's format, if it has an older one; return what people should know of that.

    Whenever the process is killed, the next start finds the old file or the new one, and the copy is complete before
    the file is changed.
    """
    connection = connect(path)
    try:
        found = pragma(connection, "user_version")
        if found == FORMAT:
            return ""
        # The journal may hold what is not in the file yet; after this the file alone is all there is.
        ((is_busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if is_busy:
            raise sqlite3.OperationalError("another program reads it, and so it cannot be migrated")
        copy = _keep_copy(path, found)
        connection.execute("BEGIN IMMEDIATE")
        for one in range(found, FORMAT):
            MIGRATIONS[one](connection)
        connection.execute(f"PRAGMA user_version={FORMAT}")
        connection.execute("COMMIT")
    finally:
        connection.close()  # an open transaction is rolled back
    return f"the store {path} was migrated from format {found} to {FORMAT}; what it was before is kept as {copy.name}"


def _keep_copy(path: Path, found: int) -> Path:
    """Copy a store, whose journal is empty, beside it; return the copy, which may be there from an attempt before."""
    fresh = path.with_name(f"{path.name}.copy")
    copy, number = path.with_name(f"{path.name}.format-{found}"), 1
    while copy.exists():
        if filecmp.cmp(copy, path, shallow=False):
            return copy
        number += 1
        copy = path.with_name(f"{path.name}.format-{found}-{number}")
    fresh.unlink(missing_ok=True)
    with path.open("rb") as source, open(fresh, "xb", opener=opener) as target:
        shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        os.fsync(target.fileno())
    os.replace(fresh, copy)
    sync_directory(path.parent)
    return copy


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """Return what a pragma of SQLite says that is a number."""
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _mend(path: Path, broker: str, problem: str, mark: Mark | None) -> str:
    """Copy what is readable to a new store, which takes the place of the damaged one; return what people must know.

    The name of the new one says that it is complete. Whenever the process is killed, the next start finds the damaged
    store, and mends it from the beginning, or the new one, and puts it in its place. ConfigError if it is another's.
    """
    fresh = path.with_name(f"{path.name}.new")
    _make(fresh, broker)
    _salvage(path, fresh, mark)
    owner = _owner_of(fresh)
    if owner != broker:
        fresh.unlink()
        raise ConfigError(f"the store {path} is that of the broker {owner}, not of {broker}")
    with fresh.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(fresh, _mended(path))
    sync_directory(path.parent)
    return _end_mending(path, problem)


def _mended(path: Path) -> Path:
    """Return where a store is that is mended and complete, before it takes its place."""
    return path.with_name(f"{path.name}.mended")


def _end_mending(path: Path, problem: str) -> str:
    """Put a mended store in its place; return what people must know."""
    aside = _put_in_place(_mended(path), path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        owners, entries, events = (_count(connection, table) for table in ("owner", "queue", "event"))
    kept = "" if aside is None else f"it is kept as {aside.name}, and "
    return (
        f"the store {path} was damaged ({problem}); {kept}{owners:,} queues with {entries:,} entries and {events:,} "
        "events could be read and go on: others are lost"
    )


def _owner_of(path: Path) -> object:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return _meta(connection)["broker"]


def _salvage(damaged: Path, fresh: Path, mark: Mark | None) -> None:
    """Copy what is readable to an empty store."""
    target = connect(fresh)
    try:
        target.execute("BEGIN")
        with contextlib.closing(sqlite3.connect(damaged, isolation_level=None)) as source:
            _copy_readable(source, target)
        _put_right(target, mark)
        target.execute("COMMIT")
    finally:
        target.close()


def _copy_readable(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    for table in _TABLES:
        for row in _readable(source, table):
            marks = ", ".join("?" * len(row))
            target.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)


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
                    if _is_usable(table, row):
                        yield row
        except sqlite3.Error:
            continue


def _is_usable(table: str, row: tuple[Any, ...]) -> bool:
    """Return whether a row can be copied. A damaged event can: its name is needed to ask others for it."""
    match table:
        case "owner":
            return bool(owner_sum(Owner(*row[:-1])) == row[-1])
        case "queue":
            owner, position, checksum, frame = row
            if not (isinstance(owner, int) and isinstance(position, int)):
                return False
            return isinstance(frame, bytes) or entry_sum(owner, position, None) == checksum
        case "event":
            return all(isinstance(one, int) for one in row[:3])
        case "seen":
            return is_name(row)
    return bool(meta_sum(*row[:2]) == row[2])


def _put_right(target: sqlite3.Connection, mark: Mark | None) -> None:
    """Make what was salvaged consistent: no event that nobody waits for, no entry of an owner that is not known.

    An entry whose event is gone stays: it is found damaged when it is read, and the event is asked for by its name.
    What meta does not say any longer, the mark knows, which is never ahead of what was on disk. The names that were
    seen say from now on what a damaged event is called, and not that there is an event: some may be lost.
    """
    target.execute("DELETE FROM queue WHERE owner NOT IN (SELECT id FROM owner)")
    target.execute("DELETE FROM event WHERE id NOT IN (SELECT position FROM queue)")
    target.execute(
        "CREATE TEMP TABLE refs AS SELECT position, count(*) AS count FROM queue GROUP BY position"
    )
    target.execute("CREATE UNIQUE INDEX temp.by_position ON refs (position)")
    target.execute("UPDATE event SET refs = (SELECT count FROM refs WHERE position = event.id)")
    _doubt_names(target)
    if mark is not None:
        meta = _meta(target)
        for name, value in (("last", mark.last), ("commits", mark.commits)):
            if not meta[name]:
                _put_meta(target, name, value)


def _count(connection: sqlite3.Connection, table: str) -> int:
    (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


_ALL: Final = (1 << 64) - 1
_TRIM_EVERY: Final = 4_096  # positions: how often old names of events are forgotten

SPARE: Final = 1 << 18  # bytes of the disk that are left for writing that events are not wanted any longer
GIVEN_BACK: Final = 16  # free pages that are given back to the disk at a time
AT_ONCE: Final = 64  # rows in a statement
_SOME: Final = f"({', '.join('?' * AT_ONCE)})"
_FOUND: Final = (
    "SELECT position, coalesce(length(queue.frame), length(event.frame), 0) FROM queue "
    f"LEFT JOIN event ON event.id = position WHERE owner = ? AND position IN {_SOME}"
)
_DELETE: Final = f"DELETE FROM queue WHERE owner = ? AND position IN {_SOME}"
_SIZE: Final = (
    "SELECT coalesce(length(queue.frame), length(event.frame), 0) FROM queue "
    "LEFT JOIN event ON event.id = position WHERE owner = ? AND position = ?"
)
_LESS: Final = f"UPDATE event SET refs = refs - 1 WHERE id IN {_SOME}"
_UNWANTED: Final = f"DELETE FROM event WHERE id IN {_SOME} AND refs <= 1"
_FIRST: Final = "SELECT position FROM queue WHERE owner = ? ORDER BY position LIMIT ?"
_UP_TO: Final = "SELECT position FROM queue WHERE owner = ? AND position <= ?"
_COLUMNS: Final = "event.publisher, event.number, event.stored_s, event.checksum"
_AGES: Final = (
    "SELECT position, stored_s FROM queue JOIN event ON event.id = position "
    "WHERE owner = ? ORDER BY position LIMIT ?"
)
_EVENT: Final = f"SELECT id, {_COLUMNS}, event.frame FROM event WHERE id = ?"
_NEXT: Final = (
    f"SELECT position, queue.checksum, queue.frame, {_COLUMNS}, "
    "CASE WHEN queue.frame IS NULL THEN event.frame END FROM queue "
    "LEFT JOIN event ON event.id = position WHERE owner = ? AND position > ? ORDER BY position LIMIT ?"
)
_OWN_FRAMES: Final = (
    "SELECT owner.id, queue.checksum, queue.frame FROM owner CROSS JOIN queue ON queue.owner = owner.id "
    "WHERE position = ? AND frame IS NOT NULL"
)
_WITHOUT_EVENT: Final = (
    "SELECT DISTINCT position FROM queue LEFT JOIN event ON event.id = position WHERE event.id IS NULL"
)
_WHO_SHARE: Final = (
    "SELECT owner.id, coalesce(length(event.frame), 0) FROM owner CROSS JOIN queue ON queue.owner = owner.id "
    "JOIN event ON event.id = position WHERE position = ? AND queue.frame IS NULL"
)
_RENEW: Final = (
    "UPDATE event SET publisher = ?, number = ?, stored_s = ?, checksum = ?, frame = ? WHERE id = ?"
)
_NAMESAKES: Final = "SELECT id FROM owner WHERE kind = ? AND user = ? AND client = ? AND name = ?"
_ORPHANS: Final = "owner NOT IN (SELECT id FROM owner)"
_NEXT_SOUND: Final = _NEXT.replace("position > ?", "position > ? AND typeof(position) = 'integer'")
_MEND: Final = "UPDATE queue SET frame = ?, checksum = ? WHERE owner = ? AND position = ?"


# -- reading -----------------------------------------------------------------------------------------------------


def _recovered(connection: sqlite3.Connection, room: Room, window: int, opened: Opened) -> Recovered:
    owners = connection.execute("SELECT * FROM owner ORDER BY id").fetchall()
    names = connection.execute("SELECT * FROM seen ORDER BY position").fetchall()
    sizes = connection.execute(
        "SELECT owner, count(*), sum(coalesce(length(queue.frame), length(event.frame), 0)), "
        "sum(event.id IS NULL) FROM queue LEFT JOIN event ON event.id = position GROUP BY owner"
    ).fetchall()
    without = set(connection.execute(_WITHOUT_EVENT)) if any(size[3] for size in sizes) else set()
    doubt = _meta(connection).get("doubtful", 0)
    sound: dict[Name, int] = {}
    doubtful: dict[Name, int] = {}
    for position, publisher, number in (row[:3] for row in names if is_name(row)):
        is_doubtful = position <= doubt or (position,) in without
        (doubtful if is_doubtful else sound)[publisher & _ALL, number & _ALL] = position
    return Recovered(
        room,
        tuple(Owner(*row[:-1]) for row in owners),
        sound,
        {owner: (count, size) for owner, count, size, _ in sizes},
        opened.last,
        window,
        opened.warnings,
        opened.notices,
        opened.known,
        opened.missing,
        _clock(connection, opened.mark),
        doubtful=tuple(name for name in doubtful if name not in sound),
    )


def _doubt_names(connection: sqlite3.Connection) -> None:
    """Note that the names that were seen so far say no longer that their events are here, for all who wait."""
    (last,) = connection.execute("SELECT coalesce(max(position), 0) FROM seen").fetchone()
    row = ("doubtful", last, meta_sum("doubtful", last))
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", row)


def _has_bad_entry(connection: sqlite3.Connection) -> bool:
    """Return whether an entry of a queue is damaged: then nothing says any longer who waits for which event."""
    entries = connection.execute("SELECT owner, position, checksum, frame FROM queue")
    return any(
        crc32(_ENTRY_HEAD.pack(owner, position)) != checksum
        if frame is None
        else not isinstance(frame, bytes) or entry_sum(owner, position, frame) != checksum
        for owner, position, checksum, frame in entries
    )


def _last_owner(connection: sqlite3.Connection) -> int:
    """Return the last owner's number that was given away; entries of orphans count while they are there."""
    found = connection.execute("SELECT max(id) FROM owner UNION ALL SELECT max(owner) FROM queue").fetchall()
    known = [id for (id,) in found if isinstance(id, int) and id < LAST_POSITION]
    return int(max(_meta(connection).get("owner", 0), *known, 0))


def _clock(connection: sqlite3.Connection, mark: Mark | None) -> Clock | None:
    """Return what the clocks showed last, as far as the mark and the last event know; None if they know nothing.

    The first versions stored wall time, with which the log's clock begins.
    """
    row = connection.execute(
        f"SELECT id, {_COLUMNS}, event.frame FROM event ORDER BY id DESC LIMIT 1"
    ).fetchone()
    stored_s = row[3] if row is not None and is_event(row) else None
    if mark is not None and mark.log_s is not None:
        return Clock(max(mark.log_s, stored_s or mark.log_s), mark.wall_s)
    return None if stored_s is None else Clock(stored_s, stored_s)


def _read(connection: sqlite3.Connection, fetch: Fetch) -> Read:
    try:
        read = _read_by(_NEXT, connection, fetch)
        if read is None:
            read = _read_by(_NEXT_SOUND, connection, fetch)
            assert read is not None, "all of these positions are numbers"
            read = read._replace(is_unsound=True)
    except Exception as error:  # noqa: BLE001 (nothing that is on a disk may end the thread)
        return Read(fetch.ticket, fetch.owner, error=StoreError(f"the store cannot be read: {error}"))
    return read


def _read_by(question: str, connection: sqlite3.Connection, fetch: Fetch) -> Read | None:
    """Return what is found; None if an entry's position is not even a number."""
    rows: list[Row | Damaged] = []
    left = fetch.size
    with contextlib.closing(connection.execute(question, fetch[1:4])) as cursor:
        for row in cursor:
            if type(row[0]) is not int:
                return None
            one = _plain(fetch.owner, *row) or _checked(connection, fetch.owner, row)
            rows.append(one)
            left -= 0 if isinstance(one, Damaged) else len(one.frame)
            if left <= 0:
                break
    return Read(fetch.ticket, fetch.owner, tuple(rows), left > 0 and len(rows) < fetch.limit)


def _plain(
    owner: int,
    position: int,
    checksum: Any,
    own: Any,
    publisher: Any,
    number: Any,
    stored_s: Any,
    event_checksum: Any,
    frame: Any,
) -> Row | None:
    """Return what `_checked` does for an entry without a frame of its own, if nothing is damaged: nearly all are so."""
    if (
        own is None
        and type(frame) is bytes
        and type(publisher) is int
        and type(number) is int
        and type(stored_s) is float
        and crc32(_ENTRY_HEAD.pack(owner, position)) == checksum
        and crc32(frame, crc32(_EVENT_HEAD.pack(position, publisher, number, stored_s))) == event_checksum
    ):
        return Row(position, frame)
    return None


def _checked(connection: sqlite3.Connection, owner: int, row: tuple[Any, ...]) -> Row | Damaged:
    position, checksum, own, *event, frame = row
    is_own = isinstance(own, bytes)
    if entry_sum(owner, position, own if is_own else None) == checksum:
        if is_own:
            return Row(position, own)
        if is_event((position, *event, frame)):
            return Row(position, frame)
    elif not is_own:
        return Damaged(position)  # nothing says that this owner waits for this event
    return Damaged(position, _name(connection, position, own))


def _name(connection: sqlite3.Connection, position: int, own: object) -> Name | None:
    """Return the name of an event whose row may be damaged or missing; None if it is not known for certain.

    A row whose checksum is right is believed, and a damaged one only if a frame says the same: another event would be
    put in the place of this one otherwise. `own` is the frame of one who waits for it, if it has another one.
    """
    seen = connection.execute("SELECT * FROM seen WHERE position = ?", (position,)).fetchone()
    if seen is not None and is_name(seen):
        return seen[1] & _ALL, seen[2] & _ALL
    event = connection.execute(_EVENT, (position,)).fetchone()
    if event is None or not (isinstance(event[1], int) and isinstance(event[2], int)):
        return None
    name = event[1] & _ALL, event[2] & _ALL
    return name if is_event(event) or name in (name_in(event[-1]), name_in(own)) else None


def name_in(frame: object) -> Name | None:
    """Return the name of an event by its frame, which may be damaged; None if it is no frame."""
    try:
        envelope = envelope_of(frame) if isinstance(frame, bytes) else None
    except ProtocolError:
        return None
    return None if envelope is None else (envelope.publisher, envelope.number)


SCANNED: Final = 4_096  # rows that a search looks at between two transactions
EXAMINED: Final = 16  # and events that may be the right ones
_BEFORE_ALL: Final = -(1 << 63)


class _Scan:
    """A search for copies of events, by their names, a slice at a time: commits do not wait for the whole of it.

    There is no index by name: nothing else would use it, and an index that does not agree with a damaged row keeps that
    row for ever, as SQLite refuses to delete it. So SQLite itself goes through all rows.
    """

    def __init__(self, connection: sqlite3.Connection, finds: Sequence[Find]) -> None:
        self._connection, self._finds = connection, finds
        self._wanted = {name for find in finds for name in find.names}
        self._copies: dict[Name, bytes] = {}
        self._tables = [("seen", "position"), ("event", "id")]  # the last one is next
        self._after = _BEFORE_ALL
        self._found: list[tuple[int, Name]] = []  # where copies may be

    def step(self) -> list[Found]:
        """Look at some more; return the answers if that was all."""
        try:
            if self._found:
                some, self._found = self._found[:EXAMINED], self._found[EXAMINED:]
                for position, name in some:
                    self._examine(position, name)
            elif self._tables and self._wanted:
                self._look_at(*self._tables[-1])
        except Exception as error:  # noqa: BLE001 (nothing that is on a disk may end the thread)
            why = StoreError(f"the store cannot be read: {error}")
            return [Found(find.ticket, error=why) for find in self._finds]
        if self._found or (self._tables and self._wanted):
            return []
        return [
            Found(find.ticket, {name: self._copies[name] for name in find.names if name in self._copies})
            for find in self._finds
        ]

    def _look_at(self, table: str, column: str) -> None:
        """See which of the next rows of a table have names that are wanted."""
        last = self._connection.execute(
            f"SELECT {column} FROM {table} WHERE {column} > ? ORDER BY {column} LIMIT 1 OFFSET {SCANNED - 1}",
            (self._after,),
        ).fetchone()
        up_to = LAST_POSITION if last is None else last[0]
        wanted = sorted(self._wanted)
        values = ", ".join(["(?, ?)"] * len(wanted))
        rows = self._connection.execute(
            f"SELECT {column}, publisher, number FROM {table} WHERE {column} > ? AND {column} <= ? "
            f"AND (publisher, number) IN (VALUES {values})",
            (self._after, up_to, *(_signed(one) for name in wanted for one in name)),
        ).fetchall()
        self._found = [(position, (publisher & _ALL, number & _ALL)) for position, publisher, number in rows]
        self._after = up_to
        if last is None:
            self._tables.pop()
            self._after = _BEFORE_ALL

    def _examine(self, position: int, name: Name) -> None:
        if name in self._wanted:
            frame = _good_copy(self._connection, position, name)
            if frame is not None:
                self._copies[name] = frame
                self._wanted.remove(name)


def _good_copy(connection: sqlite3.Connection, position: int, name: Name) -> bytes | None:
    """Return an undamaged frame of an event of this name: its own, or one that an owner has instead.

    What has led to this position may be damaged, so the name must be that of the row, if it is good, or in the frame.
    """
    row = connection.execute(_EVENT, (position,)).fetchone()
    if row is not None and is_event(row):
        return bytes(row[-1]) if (row[1] & _ALL, row[2] & _ALL) == name else None
    for owner, checksum, frame in connection.execute(_OWN_FRAMES, (position,)):
        is_good = isinstance(frame, bytes) and entry_sum(owner, position, frame) == checksum
        if is_good and name_in(frame) == name:
            return bytes(frame)
    return None


# -- writing -----------------------------------------------------------------------------------------------------


def room_of(operation: Operation) -> int:
    """Return how many bytes an operation may take on disk, at most: an event those in the journal and in the file."""
    if isinstance(operation, Keep | Mend | Renew):
        return 2 * (len(operation.frame) + PAGE)
    return 4 * PAGE * _rows_of(operation)


def _rows_of(operation: Operation) -> int:
    match operation:
        case Release(_, positions):
            return len(positions)
        case Trim(_, events):
            return events
        case ReleaseUpTo():
            return AT_ONCE  # it is not known before; alone it is tried in any case
    return 1


class StoreWriter:
    """The writing end; see the module's text. `window` is how many names of events are remembered."""

    def __init__(self, opened: Opened, path: Path, window: int) -> None:
        self.connection = opened.connection
        # Nobody else writes to this file. A backup reads it, and an emptying of the journal must not wait for that.
        self.connection.execute("PRAGMA busy_timeout=0")
        self._directory = path.parent
        self._journal = path.with_name(f"{path.name}-wal")
        self._window = window
        self.commits = opened.commits
        self.last = opened.known  # the last position that is on disk
        self.last_owner = _last_owner(opened.connection)  # the last owner's number that was given away
        self.clock_s: float | None = None  # what the log's clock showed last, as far as that was said
        self._trimmed = opened.known
        self._changes: list[Change] = []  # of the transaction under way
        self._gone: dict[int, tuple[int, ...]] = {}
        self._renewed: dict[int, tuple[int, ...]] = {}

    def commit(self, batches: Sequence[Batch]) -> Committed:
        """Carry out batches in one transaction; an error if that cannot be, and then none of them is."""
        operations = [operation for batch in batches for operation in batch.operations]
        need = sum(map(room_of, operations))
        if not self._has_room(need):
            self.empty_journal()
            self._give_back(need)
            # Fewer at a time may do; and whatever makes room is tried in any case.
            wants_room = len(batches) > 1 or any(isinstance(one, Keep) for one in operations)
            if wants_room and not self._has_room(need):
                raise sqlite3.OperationalError("the disk is full")
        self._changes, self._gone, self._renewed = [], {}, {}
        keeps = [one for one in operations if isinstance(one, Keep)]
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            before = self.connection.total_changes
            self._apply(batches, keeps)
            if self.connection.total_changes > before:
                _put_meta(self.connection, "commits", self.commits + 1)
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self.connection.execute("ROLLBACK")
            raise
        self.commits += self.connection.total_changes > before
        self.last = max(self.last, keeps[-1].position if keeps else 0)
        self.last_owner = max(self.last_owner, *(one.id for one in operations if isinstance(one, Owner)), 0)
        tickets = tuple(batch.ticket for batch in batches)
        return Committed(tickets, None, None, tuple(self._changes), self._gone, self._renewed)

    def _has_room(self, need: int) -> bool:
        """Return whether the disk has room for so many bytes, and for what is to go from the journal to the file."""
        try:
            disk = os.statvfs(self._directory)
            journal = os.stat(self._journal).st_size
        except OSError:
            return True  # whoever writes will see
        return disk.f_bavail * disk.f_frsize >= journal + need + SPARE

    def _give_back(self, need: int) -> None:
        """Give free pages of the file back to the disk, a few at a time, until there is room or none is free."""
        with contextlib.suppress(sqlite3.Error):
            while not self._has_room(need):
                (before,) = self.connection.execute("PRAGMA freelist_count").fetchone()
                # Each page that is moved costs some in the journal: no more at a time than there is always room for.
                self.connection.execute(f"PRAGMA incremental_vacuum({GIVEN_BACK})").fetchall()
                self.empty_journal()
                (after,) = self.connection.execute("PRAGMA freelist_count").fetchone()
                if after >= before:
                    return  # none is free, or the file is one of the first versions, which cannot shrink

    def empty_journal(self) -> None:
        """Make room on the disk, if the journal has any."""
        with contextlib.suppress(sqlite3.Error):
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def used_bytes(self) -> int:
        """Return how many bytes of the file are in use; sqlite3.Error if that cannot be read."""
        (pages,) = self.connection.execute("PRAGMA page_count").fetchone()
        (free,) = self.connection.execute("PRAGMA freelist_count").fetchone()
        return int(pages - free) * PAGE

    def _apply(self, batches: Sequence[Batch], keeps: Sequence[Keep]) -> None:
        # Events first, all at once: nobody is done with one before it is there, and who goes takes the last along.
        if keeps:
            self._keep(keeps)
        released: dict[int, list[int]] = {}  # by owner: many confirmations have one event each
        for ticket, operations in batches:
            for one in operations:
                if isinstance(one, Release):
                    released.setdefault(one.owner, []).extend(one.positions)
                elif not isinstance(one, Keep):
                    self._release_each(released)
                    self._do(ticket, one)
        self._release_each(released)

    def _do(self, ticket: int, operation: Operation) -> None:
        match operation:
            case ReleaseUpTo(owner, position):
                self._release(owner, self._positions(_UP_TO, owner, position))
            case Trim(owner, events):
                self._drop(ticket, owner, self._positions(_FIRST, owner, events))
            case Expire(owner):
                self._drop(ticket, owner, self._too_old(operation))
            case Mend():
                self._mend(operation)
            case Renew():
                self._renew(ticket, operation)
            case Unsee(position):
                self.connection.execute("DELETE FROM seen WHERE position = ?", (position,))
            case Clock(log_s):
                self.clock_s = log_s  # the mark has it
            case Owner():
                self._own(operation)
            case Forget(owner):
                self.forget(owner)

    def _own(self, owner: Owner) -> None:
        """Put an owner in the place of one of the same name, whose queue goes if it has another number."""
        for (id,) in self.connection.execute(_NAMESAKES, owner[1:5]).fetchall():
            if id != owner.id:
                self.forget(id)
        row = _owner_row(owner)
        marks = ", ".join("?" * len(row))
        self.connection.execute(f"INSERT OR REPLACE INTO owner VALUES ({marks})", row)
        if owner.id > self.last_owner:
            _put_meta(self.connection, "owner", owner.id)

    def forget(self, owner: int) -> None:
        """Remove an owner, known or not, with all that waits for it."""
        self._release(owner, self._positions(_FIRST, owner, -1))
        # Also entries whose positions are damaged.
        self.connection.execute("DELETE FROM queue WHERE owner = ?", (owner,))
        self.connection.execute("DELETE FROM owner WHERE id = ?", (owner,))

    def forget_orphans(self) -> int:
        """Remove what waits for owners that are not there, if the disk takes that; return how many entries there are.

        Nobody would ever read it, and it would take room for ever.
        """
        (entries,) = self.connection.execute(f"SELECT count(*) FROM queue WHERE {_ORPHANS}").fetchone()
        if entries:
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                for (owner,) in self.connection.execute(
                    f"SELECT DISTINCT owner FROM queue WHERE {_ORPHANS}"
                ).fetchall():
                    self.forget(owner)
                self.connection.execute("COMMIT")
            except sqlite3.Error:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
            self._changes = []
        return int(entries)

    def _release_each(self, released: dict[int, list[int]]) -> None:
        for owner, positions in released.items():
            self._release(owner, positions)
        released.clear()

    def _positions(self, question: str, owner: int, number: int) -> list[int]:
        found = self.connection.execute(question, (owner, number)).fetchall()
        return [position for (position,) in found if isinstance(position, int)]

    def _too_old(self, expire: Expire) -> list[int]:
        def is_old(row: tuple[int, object]) -> bool:
            return isinstance(row[1], float) and row[1] < expire.before_s

        first = self.connection.execute(_AGES, (expire.owner, 1)).fetchall()
        if not first or not is_old(first[0]):
            return []  # mostly so
        rows = self.connection.execute(_AGES, (expire.owner, expire.limit)).fetchall()
        # A time is believed only if the row's checksum is right.
        return [row[0] for row in rows if is_old(row) and self._is_good(row[0])]

    def _is_good(self, position: int) -> bool:
        row = self.connection.execute(_EVENT, (position,)).fetchone()
        return row is not None and is_event(row)

    def _mend(self, mend: Mend) -> None:
        owner, position, frame = mend
        found = self.connection.execute(_SIZE, (owner, position)).fetchone()
        if found is not None:
            self.connection.execute(_MEND, (frame, entry_sum(owner, position, frame), owner, position))
            self._changes.append(Change(owner, 0, len(frame) - found[0]))

    def _renew(self, ticket: int, renew: Renew) -> None:
        """Put a good copy in the place of an event's row that is damaged.

        Who waits with a damaged frame of its own finds a copy in that row when it reads.
        """
        position, publisher, number, frame, stored_s = renew
        row = self.connection.execute(_EVENT, (position,)).fetchone()
        if row is None or is_event(row):
            return
        self._renewed[ticket] = (*self._renewed.get(ticket, ()), position)
        before = self.connection.execute(_WHO_SHARE, (position,)).fetchall()
        keep = Keep(position, publisher, number, frame, stored_s, (), seen=False)
        _, *name, time_s, _, checksum, _ = _event_row(keep)
        self.connection.execute(_RENEW, (*name, time_s, checksum, frame, position))
        self._changes += [Change(owner, 0, len(frame) - size) for owner, size in before]

    def _drop(self, ticket: int, owner: int, positions: Sequence[int]) -> None:
        if positions:
            self._release(owner, positions)
            self._gone[ticket] = (*self._gone.get(ticket, ()), *positions)

    def _keep(self, keeps: Sequence[Keep]) -> None:
        self._insert("event", [_event_row(one) for one in keeps if one.entries])
        self._insert(
            "queue",
            [
                (entry.owner, one.position, entry_sum(entry.owner, one.position, entry.frame), entry.frame)
                for one in keeps
                for entry in one.entries
            ],
        )
        self._insert(
            "seen",
            [_seen_row(one) for one in keeps if one.seen],
        )
        self._changes.extend(
            Change(entry.owner, 1, len(one.frame if entry.frame is None else entry.frame))
            for one in keeps
            for entry in one.entries
        )
        last = keeps[-1].position
        _put_meta(self.connection, "last", max(self.last, last))
        if last - self._trimmed >= _TRIM_EVERY:
            self._trimmed = last
            self.connection.execute(
                "DELETE FROM seen WHERE position <= "
                "(SELECT position FROM seen ORDER BY position DESC LIMIT 1 OFFSET ?)",
                (self._window,),
            )

    def _insert(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        # Many rows a statement: at each, the thread lets another run and must wait for its turn.
        at = 0
        while at < len(rows):
            count = AT_ONCE if len(rows) - at >= AT_ONCE else 1
            row = f"({', '.join('?' * len(rows[at]))})"
            values = [value for one in rows[at : at + count] for value in one]
            self.connection.execute(f"INSERT INTO {table} VALUES {', '.join([row] * count)}", values)
            at += count

    def _release(self, owner: int, positions: Sequence[int]) -> None:
        write = self.connection
        for first in range(0, len(positions), AT_ONCE):
            some = list(positions[first : first + AT_ONCE])
            some += [some[0]] * (AT_ONCE - len(some))  # always as many: the statement is compiled once
            found = write.execute(_FOUND, (owner, *some)).fetchall()
            if found:
                write.execute(_DELETE, (owner, *some))
                gone = [position for position, _ in found]
                gone += [-1] * (AT_ONCE - len(gone))
                # First: most have one owner, and need not be written to be deleted.
                write.execute(_UNWANTED, gone)
                write.execute(_LESS, gone)
                self._changes.append(Change(owner, -len(found), -sum(size for _, size in found)))


def _event_row(keep: Keep) -> tuple[Any, ...]:
    position, publisher, number, frame, stored_s, entries, _ = keep
    name = (_signed(publisher), _signed(number))
    checksum = event_sum(position, *name, float(stored_s), frame)
    return (position, *name, float(stored_s), len(entries), checksum, frame)


def _seen_row(keep: Keep) -> tuple[int, int, int, int]:
    row = (keep.position, _signed(keep.publisher), _signed(keep.number))
    return (*row, name_sum(*row))


def _signed(number: int) -> int:
    """Return a number of 64 bits as SQLite has them."""
    return number - (1 << 64) if number >> 63 else number


# -- the thread --------------------------------------------------------------------------------------------------

GROUP: Final = 4_096  # batches in one transaction
MOST_SOUGHT: Final = 4_096  # names in one search
SAY_EVERY_S: Final = 10.0  # at most: of errors that the store does not know


class SqliteLog:
    """A `Log` in a file; see the module's text. `open` it, `start` its thread, and `close` it in the end."""

    def __init__(self, path: Path, broker: str, max_bytes: int = 1 << 30, window: int = WINDOW) -> None:
        self._path, self._broker = path, broker
        self._window = window
        self._room = Room(0, max_bytes)
        self._opened: Opened
        self._writer: StoreWriter
        self._marker: Marker
        self._report: Report
        self._waiting: queue.SimpleQueue[Sequence[Asked] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._failing = False
        self._finds: list[Find] = []  # searches that wait
        self._scan: _Scan | None = None  # those that are under way
        # So that an error that comes again and again does not fill the broker's log.
        self._silent_until_s = 0.0
        self._unanswered: dict[int, Asked] = {}  # by ticket: what the thread has taken and not answered

    def open(self) -> Recovered:
        """Open the file, made, mended or migrated where needed; ConfigError if it is another's or cannot be used."""
        self._opened = opened = open_store(self._path, self._broker, self._room.max_bytes)
        try:
            self._writer = StoreWriter(opened, self._path, self._window)
            if _has_bad_entry(opened.connection):
                with contextlib.suppress(
                    sqlite3.OperationalError
                ):  # on a full disk it is noted at the next start
                    _doubt_names(opened.connection)
            if orphans := self._writer.forget_orphans():
                warning = f"the store {self._path} had {orphans:,} entries of queues that are gone, which are removed"
                opened = replace(opened, notices=(*opened.notices, warning))
            self._room = self._room._replace(used_bytes=self._writer.used_bytes())
            recovered = _recovered(opened.connection, self._room, self._window, opened)
            recovered = recovered._replace(last_owner=self._writer.last_owner)
        except sqlite3.Error as error:
            self._close()
            raise ConfigError(f"the store {self._path} cannot be used: {error}") from None
        clock_s = None if recovered.clock is None else recovered.clock.log_s
        on_disk = opened.last if opened.missing or _is_copy(opened.mark) else opened.known
        self._marker = Marker(self._path, opened.commits, on_disk, clock_s)
        if opened.is_settled:
            self._writer.last = on_disk
            self._marker.write()
        return recovered

    def start(self, report: Report) -> None:
        """Begin to carry out what is submitted. `report` gets the answers, in the log's own thread."""
        self._report = report
        self._thread = threading.Thread(target=self._work, name="covey-store", daemon=True)
        self._thread.start()

    def submit(self, asked: Sequence[Asked]) -> None:
        """Take batches and questions; many at a time, as each call wakes the thread."""
        self._waiting.put(asked)

    def room(self) -> Room:
        """Return how full the file is."""
        return self._room

    def close(self) -> None:
        """Carry out and report what waits, then close the file; it takes as long as the disk does."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
            self._thread = None
        self._close()
        self._marker.write(State.CLOSED)

    def _close(self) -> None:
        self._opened.connection.close()
        self._opened.lock.close()

    # -- in the thread ---------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Carry out what is asked, up to None. Errors are answers; the thread goes on in any case."""
        try:
            is_going = True
            while is_going:
                is_going, asked = self._gather()
                try:
                    self._carry_out_all(asked)
                except Exception as error:  # noqa: BLE001 (everybody else's events depend on this thread)
                    self._fail(f"the store has met an error that it does not know: {error!r}")
        except BaseException as error:  # noqa: BLE001 (who waits for an answer must not wait for ever)
            self._fail(
                f"the store keeps nothing any longer (hint: restart the broker): {error!r}", is_end=True
            )
            while (item := self._waiting.get()) is not None:
                self._unanswered |= {one.ticket: one for one in item}
                self._fail("")

    def _gather(self) -> tuple[bool, Sequence[Asked]]:
        """Return what is asked next, as much of it as there is, and whether more may come."""
        asked: list[Asked] = []
        item = self._next()
        while item is not None:
            asked += item
            self._unanswered |= {one.ticket: one for one in item}
            if len(asked) >= GROUP:
                break
            try:
                item = self._waiting.get_nowait()
            except queue.Empty:
                break
        return item is not None, asked

    def _carry_out_all(self, asked: Sequence[Asked]) -> None:
        connection = self._writer.connection
        fetches = [one for one in asked if isinstance(one, Fetch)]
        if fetches:  # they need not wait for the disk
            self._answer([_read(connection, fetch) for fetch in fetches])
        self._finds += [one for one in asked if isinstance(one, Find)]
        group = [one for one in asked if isinstance(one, Batch)]
        if group:
            self._answer(self._commit(group))
            self._marker.note(self._writer.commits, self._writer.last, self._writer.clock_s)
        self._search()
        if self._marker.due_in_s() == 0.0:
            self._write_mark()

    def _search(self) -> None:
        """Go on with a search for copies, a slice; one search is for all that wait when it begins."""
        if self._scan is None and self._finds:
            # As many names as a statement takes.
            count, names = 1, len(self._finds[0].names)
            while (
                count < len(self._finds) and (names := names + len(self._finds[count].names)) <= MOST_SOUGHT
            ):
                count += 1
            self._scan = _Scan(self._writer.connection, self._finds[:count])
            del self._finds[:count]
        if self._scan is not None and (answers := self._scan.step()):
            self._scan = None
            self._answer(answers)

    def _answer(self, answers: Sequence[Committed | Read | Found]) -> None:
        for answer in answers:
            for ticket in answer.tickets if isinstance(answer, Committed) else (answer.ticket,):
                del self._unanswered[ticket]
        self._report(answers)

    def _fail(self, text: str, *, is_end: bool = False) -> None:
        """Answer what is not answered with an error, and say what has happened."""
        error = StoreError(text or "the store keeps nothing any longer")
        answers: list[Answer] = []
        if text and (is_end or time.monotonic() >= self._silent_until_s):
            self._silent_until_s = time.monotonic() + SAY_EVERY_S
            answers.append(Notice(text, is_end=is_end))
        for ticket, one in self._unanswered.items():
            if isinstance(one, Fetch):
                answers.append(Read(ticket, one.owner, error=error))
            elif isinstance(one, Find):
                answers.append(Found(ticket, error=error))
            else:
                answers.append(Committed((ticket,), error))
                self._failing |= one.keeps
        self._unanswered.clear()
        self._finds, self._scan = [], None
        self._report(answers)

    def _next(self) -> Sequence[Asked] | None:
        """Return what is asked next; while nothing is, the mark is brought up to date. A search does not wait."""
        if self._scan is not None or self._finds:
            try:
                return self._waiting.get_nowait()
            except queue.Empty:
                return ()
        while True:
            try:
                return self._waiting.get(timeout=self._marker.due_in_s())
            except queue.Empty:
                self._write_mark()

    def _write_mark(self) -> None:
        notice = self._marker.write()
        if notice is not None:
            self._report([notice])

    def _commit(self, group: Sequence[Batch]) -> list[Committed]:
        answers = list(self._carry_out(group))
        if answers:
            with contextlib.suppress(sqlite3.Error):
                self._room = self._room._replace(used_bytes=self._writer.used_bytes())
            answers[-1] = answers[-1]._replace(room=self._room)
        return answers

    def _carry_out(self, group: Sequence[Batch]) -> Iterator[Committed]:
        if not group:
            return
        if self._failing and any(batch.keeps for batch in group):
            yield from self._refuse(group)
            return
        answer = self._attempt(group)
        if isinstance(answer, Exception):
            self._writer.empty_journal()  # it may be what fills the disk: without it the same may well succeed
            if len(group) > 1:
                middle = len(group) // 2
                yield from self._carry_out(group[:middle])
                yield from self._carry_out(group[middle:])
                return
            answer = self._attempt(group)
        if isinstance(answer, Exception):
            self._failing |= group[0].keeps
            yield Committed((group[0].ticket,), StoreError(f"the store cannot keep this: {answer}"))
        else:
            yield answer

    def _refuse(self, group: Sequence[Batch]) -> Iterator[Committed]:
        """Refuse events up to a Resume, and carry out the rest."""
        end = next((at for at, batch in enumerate(group) if batch.resumes), len(group))
        for keeps, some in groupby(group[:end], lambda batch: batch.keeps):
            if keeps:
                refusal = StoreError("the store has no room for events at the moment")
                yield Committed(tuple(batch.ticket for batch in some), refusal)
            else:
                yield from self._carry_out(list(some))
        if end < len(group):
            self._failing = False
            yield from self._carry_out(group[end:])

    def _attempt(self, group: Sequence[Batch]) -> Committed | Exception:
        try:
            answer = self._writer.commit(group)
        except Exception as error:  # noqa: BLE001 (as OverflowError: what cannot be written must not end the thread)
            return error
        if any(batch.resumes for batch in group):
            self._failing = False
        return answer
