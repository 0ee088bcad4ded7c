"""The log in SQLite: a database in WAL mode, and one thread that writes and reads it.

The tables:

    event      what is kept, once, however many owners wait for it: `refs` counts them, and the last takes it along
    owner      who waits: an outbox (a neighbour broker) or a durable subscription
    queue      who waits for which event; `frame` is there where the owner gets other bytes than those of the event
    seen       the names of the last confirmed events, so that one that is sent again is recognised
    meta       the last position that was given away, and the name of the broker

Damage. A new file is made under another name and renamed when it is complete, so an empty file is damage, and so is
one that ends within a page. A damaged file is moved aside, never overwritten, and what can still be read is copied to
a new one. A journal (`-wal`) whose end is missing cannot be told from a crash before that end was written. One process
has a store at a time.

Formats. The file's head has the number of its format. A file of an older format is migrated when it is opened, one
format after another in one transaction, and a copy of the old file is kept beside it (`store.db.format-1`), which is
never overwritten. A broker that is killed meanwhile leaves the old file or the new one, and does at its next start what
is left to do. A file of a newer format is refused and left as it is.

Writing. The thread takes all batches that wait as one transaction (group commit), so a commit costs one wait for the
disk however many events it has. A transaction that fails is tried again in halves, until a batch fails alone. Fetches
that wait are answered first, on the same connection, so that they show what was reported before and nothing else.

A full disk. What is committed is in the journal first and must go from there to the file, which grows by it. On a full
disk that is impossible, and then nothing could be written any more, not even that an event is no longer wanted. So the
writer always leaves as much room as the journal may need, and refuses events before they take it.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import IO, Any, Final
from zlib import crc32

from covey.broker.durable.log import (
    WINDOW,
    Asked,
    Batch,
    Change,
    Committed,
    Damaged,
    Expire,
    Fetch,
    Forget,
    Keep,
    Operation,
    Owner,
    Read,
    Recovered,
    Release,
    ReleaseUpTo,
    Report,
    Room,
    Row,
    Trim,
)
from covey.broker.private_files import close_to_others, make_directory, opener
from covey.errors import ConfigError, StoreError

FORMAT: Final = 1  # of the tables below; a change of them is another format, with a migration from this one
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

# By format: what makes the tables of the next one, within a transaction that is the caller's. None is needed so far.
MIGRATIONS: Final[Mapping[int, Callable[[sqlite3.Connection], None]]] = {}


@dataclass(frozen=True)
class Opened:
    """A store that can be used, and what people must know of how it was found."""

    connection: sqlite3.Connection
    lock: IO[bytes]  # while it is open, no other process opens the store
    warning: str = ""  # of damage
    notice: str = ""  # of a migration


def open_store(path: Path, broker: str, max_bytes: int) -> Opened:
    """Open the store, made, mended or migrated where that is needed.

    ConfigError if it is another broker's, of a newer format, or cannot be used.
    """
    warning = notice = ""
    lock: IO[bytes] | None = None
    try:
        make_directory(path.parent)
        lock = _lock(path)
        if not path.exists():
            _make(path, broker)
        problem = _problem(path, broker)
        if problem:
            warning = _mend(path, broker, problem)
        notice = _migrate(path)
        close_to_others(Path(f"{path}{suffix}") for suffix in (*_SUFFIXES, ".lock"))
        return Opened(connect(path, max_bytes), lock, warning, notice)
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
        connection.execute(f"PRAGMA user_version={FORMAT}")
        connection.execute("COMMIT")
    finally:
        connection.close()
    os.replace(fresh, path)
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    folder = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _problem(path: Path, broker: str) -> str:
    """Return what is wrong with the file; ConfigError where it is not ours to use or to mend."""
    found = FORMAT  # if the file cannot even say that
    if path.stat().st_size == 0:
        return "the file is empty"
    if path.stat().st_size % PAGE and not _size(Path(f"{path}-wal")):
        return "the file ends within a page"
    connection = sqlite3.connect(path, isolation_level=None, timeout=10.0)
    try:
        if _number(connection, "application_id") != APPLICATION:
            raise ConfigError(f"{path} is a database, and no store of Covey's")
        found = _number(connection, "user_version")
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
        found = _number(connection, "user_version")
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
    _sync_directory(path.parent)
    return copy


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


_ALL: Final = (1 << 64) - 1
_TRIM_EVERY: Final = 4_096  # positions: how often old names of events are forgotten

SPARE: Final = 1 << 18  # bytes of the disk that are left for writing that events are not wanted any longer
AT_ONCE: Final = 64  # rows in a statement
_SOME: Final = f"({', '.join('?' * AT_ONCE)})"
_FOUND: Final = (
    "SELECT position, coalesce(length(queue.frame), length(event.frame), 0) FROM queue "
    f"LEFT JOIN event ON event.id = position WHERE owner = ? AND position IN {_SOME}"
)
_DELETE: Final = f"DELETE FROM queue WHERE owner = ? AND position IN {_SOME}"
_LESS: Final = f"UPDATE event SET refs = refs - 1 WHERE id IN {_SOME}"
_UNWANTED: Final = f"DELETE FROM event WHERE id IN {_SOME} AND refs <= 0"
_FIRST: Final = "SELECT position FROM queue WHERE owner = ? ORDER BY position LIMIT ?"
_UP_TO: Final = "SELECT position FROM queue WHERE owner = ? AND position <= ?"
_AGES: Final = (
    "SELECT position, stored_s FROM queue JOIN event ON event.id = position "
    "WHERE owner = ? ORDER BY position LIMIT ?"
)
_NEXT: Final = (
    "SELECT position, coalesce(queue.frame, event.frame), coalesce(queue.checksum, event.checksum) FROM queue "
    "LEFT JOIN event ON event.id = position WHERE owner = ? AND position > ? ORDER BY position LIMIT ?"
)


# -- reading -----------------------------------------------------------------------------------------------------


def _recovered(connection: sqlite3.Connection, room: Room, window: int, opened: Opened) -> Recovered:
    ((last,),) = connection.execute("SELECT value FROM meta WHERE name = 'last'").fetchall()
    owners = connection.execute("SELECT * FROM owner ORDER BY id").fetchall()
    names = connection.execute("SELECT publisher, number FROM seen ORDER BY position").fetchall()
    sizes = connection.execute(
        "SELECT owner, count(*), sum(coalesce(length(queue.frame), length(event.frame), 0)) "
        "FROM queue LEFT JOIN event ON event.id = position GROUP BY owner"
    ).fetchall()
    return Recovered(
        room,
        tuple(Owner(*row) for row in owners),
        tuple((publisher & _ALL, number & _ALL) for publisher, number in names),
        {owner: (count, size) for owner, count, size in sizes},
        last,
        window,
        (opened.warning,) if opened.warning else (),
        (opened.notice,) if opened.notice else (),
    )


def _read(connection: sqlite3.Connection, fetch: Fetch) -> Read:
    rows: list[Row | Damaged] = []
    left = fetch.size
    try:
        with contextlib.closing(connection.execute(_NEXT, fetch[1:4])) as cursor:
            for row in cursor:
                rows.append(one := _checked(*row))
                left -= 0 if isinstance(one, Damaged) else len(one.frame)
                if left <= 0:
                    break
    except sqlite3.Error as error:
        return Read(fetch.ticket, fetch.owner, error=StoreError(f"the store cannot be read: {error}"))
    return Read(fetch.ticket, fetch.owner, tuple(rows), left > 0 and len(rows) < fetch.limit)


def _checked(position: int, frame: object, checksum: object) -> Row | Damaged:
    if isinstance(frame, bytes) and crc32(frame) == checksum:
        return Row(position, frame)
    return Damaged(position)


# -- writing -----------------------------------------------------------------------------------------------------


def room_of(operation: Operation) -> int:
    """Return how many bytes an operation may take on disk, at most: an event those in the journal and in the file."""
    if isinstance(operation, Keep):
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

    def __init__(self, connection: sqlite3.Connection, path: Path, window: int, last: int) -> None:
        self.connection = connection
        self._directory = path.parent
        self._journal = path.with_name(f"{path.name}-wal")
        self._window = window
        self.trimmed = last
        self._changes: list[Change] = []  # of the transaction under way
        self._gone: dict[int, tuple[int, ...]] = {}

    def commit(self, batches: Sequence[Batch]) -> Committed:
        """Carry out batches in one transaction; sqlite3.Error if that cannot be, and then none of them is."""
        operations = [operation for batch in batches for operation in batch.operations]
        need = sum(map(room_of, operations))
        if not self._has_room(need):
            self.empty_journal()
            # Fewer at a time may do; and whatever makes room is tried in any case.
            wants_room = len(batches) > 1 or any(isinstance(one, Keep) for one in operations)
            if wants_room and not self._has_room(need):
                raise sqlite3.OperationalError("the disk is full")
        self._changes, self._gone = [], {}
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            self._apply(batches, [one for one in operations if isinstance(one, Keep)])
            self.connection.execute("COMMIT")
        except sqlite3.Error:
            if self.connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self.connection.execute("ROLLBACK")
            raise
        tickets = tuple(batch.ticket for batch in batches)
        return Committed(tickets, changes=tuple(self._changes), gone=self._gone)

    def _has_room(self, need: int) -> bool:
        """Return whether the disk has room for so many bytes, and for what is to go from the journal to the file."""
        try:
            disk = os.statvfs(self._directory)
            journal = os.stat(self._journal).st_size
        except OSError:
            return True  # whoever writes will see
        return disk.f_bavail * disk.f_frsize >= journal + need + SPARE

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
            case Owner():
                columns = ", ".join("?" * len(operation))
                self.connection.execute(f"INSERT OR REPLACE INTO owner VALUES ({columns})", operation)
            case Forget(owner):
                self._release(owner, self._positions(_FIRST, owner, -1))
                self.connection.execute("DELETE FROM owner WHERE id = ?", (owner,))

    def _release_each(self, released: dict[int, list[int]]) -> None:
        for owner, positions in released.items():
            self._release(owner, positions)
        released.clear()

    def _positions(self, question: str, owner: int, number: int) -> list[int]:
        return [position for (position,) in self.connection.execute(question, (owner, number)).fetchall()]

    def _too_old(self, expire: Expire) -> list[int]:
        first = self.connection.execute(_AGES, (expire.owner, 1)).fetchall()
        if not first or first[0][1] >= expire.before_s:
            return []  # mostly so
        rows = self.connection.execute(_AGES, (expire.owner, expire.limit)).fetchall()
        return [position for position, stored_s in rows if stored_s < expire.before_s]

    def _drop(self, ticket: int, owner: int, positions: Sequence[int]) -> None:
        if positions:
            self._release(owner, positions)
            self._gone[ticket] = (*self._gone.get(ticket, ()), *positions)

    def _keep(self, keeps: Sequence[Keep]) -> None:
        self._insert(
            "event",
            [
                (
                    one.position,
                    _signed(one.publisher),
                    _signed(one.number),
                    one.stored_s,
                    len(one.entries),
                    crc32(one.frame),
                    one.frame,
                )
                for one in keeps
                if one.entries
            ],
        )
        self._insert(
            "queue",
            [
                (entry.owner, one.position, None if entry.frame is None else crc32(entry.frame), entry.frame)
                for one in keeps
                for entry in one.entries
            ],
        )
        self._insert(
            "seen",
            [(one.position, _signed(one.publisher), _signed(one.number)) for one in keeps if one.seen],
        )
        self._changes.extend(
            Change(entry.owner, 1, len(one.frame if entry.frame is None else entry.frame))
            for one in keeps
            for entry in one.entries
        )
        last = keeps[-1].position
        self.connection.execute("UPDATE meta SET value = max(value, ?) WHERE name = 'last'", (last,))
        if last - self.trimmed >= _TRIM_EVERY:
            self.trimmed = last
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
                write.execute(_LESS, gone)
                write.execute(_UNWANTED, gone)
                self._changes.append(Change(owner, -len(found), -sum(size for _, size in found)))


def _signed(number: int) -> int:
    """Return a number of 64 bits as SQLite has them."""
    return number - (1 << 64) if number >> 63 else number


# -- the thread --------------------------------------------------------------------------------------------------

GROUP: Final = 4_096  # batches in one transaction


class SqliteLog:
    """A `Log` in a file; see the module's text. `open` it, `start` its thread, and `close` it in the end."""

    def __init__(self, path: Path, broker: str, max_bytes: int = 1 << 30, window: int = WINDOW) -> None:
        self._path, self._broker = path, broker
        self._window = window
        self._room = Room(0, max_bytes)
        self._opened: Opened
        self._writer: StoreWriter
        self._report: Report
        self._waiting: queue.SimpleQueue[Sequence[Asked] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._failing = False

    def open(self) -> Recovered:
        """Open the file, made, mended or migrated where needed; ConfigError if it is another's or cannot be used."""
        self._opened = opened = open_store(self._path, self._broker, self._room.max_bytes)
        try:
            self._writer = StoreWriter(opened.connection, self._path, self._window, 0)
            self._room = self._room._replace(used_bytes=self._writer.used_bytes())
            recovered = _recovered(opened.connection, self._room, self._window, opened)
        except sqlite3.Error as error:
            self._close()
            raise ConfigError(f"the store {self._path} cannot be used: {error}") from None
        self._writer.trimmed = recovered.last
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

    def _close(self) -> None:
        self._opened.connection.close()
        self._opened.lock.close()

    # -- in the thread ---------------------------------------------------------------------------------------

    def _work(self) -> None:
        going = True
        while going:
            group: list[Batch] = []
            fetches: list[Fetch] = []
            item = self._waiting.get()
            while item is not None:
                for one in item:
                    if isinstance(one, Batch):
                        group.append(one)
                    else:
                        fetches.append(one)
                if len(group) >= GROUP:
                    break
                try:
                    item = self._waiting.get_nowait()
                except queue.Empty:
                    break
            going = item is not None
            if fetches:  # they need not wait for the disk
                self._report([_read(self._writer.connection, fetch) for fetch in fetches])
            if group:
                self._report(self._commit(group))

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
        if isinstance(answer, sqlite3.Error):
            self._writer.empty_journal()  # it may be what fills the disk: without it the same may well succeed
            if len(group) > 1:
                middle = len(group) // 2
                yield from self._carry_out(group[:middle])
                yield from self._carry_out(group[middle:])
                return
            answer = self._attempt(group)
        if isinstance(answer, sqlite3.Error):
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

    def _attempt(self, group: Sequence[Batch]) -> Committed | sqlite3.Error:
        try:
            answer = self._writer.commit(group)
        except sqlite3.Error as error:
            return error
        if any(batch.resumes for batch in group):
            self._failing = False
        return answer
