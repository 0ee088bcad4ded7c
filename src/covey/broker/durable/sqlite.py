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


Reading the store: what is committed, on a connection of its own, a few hundred events at a time.

Writing the store: operations, many in one transaction, by the thread that has the connection.

What is committed is in the journal first and must go from there to the file, which grows by it: on a full disk that
cannot be, and then nothing could be written any more, not even that something is not wanted any longer. So there is
always as much room left as the journal may need, and events are refused before they take it.

A commit is all or nothing. What it changes of how much waits for whom is returned, so that nobody has to count.


Store: what a broker keeps on disk, written by one thread in groups, reported to the event loop in order.

Whoever wants something written submits an operation and is told, in the event loop and in the order of submission,
when it is on disk or why it is not. The thread takes all that waits as one transaction (group commit), so a commit
costs one wait for the disk however many events it has. A transaction that fails is tried again in halves: an operation
fails alone. When there is no room for an event, all events behind it fail too until `resume`, so that what is tried
again later does not come behind what was sent after it.

What can be asked for is in `store_operations`, the statements in `store_writing` and `store_reading`, the file itself
in `store_file`.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, NamedTuple
from zlib import crc32

from covey.broker.durable.log import Forget, Keep, Operation, Owner, Release
from covey.broker.private_files import close_to_others, make_directory, opener
from covey.errors import ConfigError, CoveyError, StoreError

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


_ALL: Final = (1 << 64) - 1


class StoreReader:
    """Who waits here, and for what; StoreError if it cannot be read."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._reader = connection
        self.committed: int  # the last position that was reported
        ((self.committed,),) = self._rows("SELECT value FROM meta WHERE name = 'last'")

    def read(self, owner: int, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return the next events for an owner behind a position, as pairs of position and frame."""
        return self._rows(
            "SELECT position, coalesce(queue.frame, event.frame) FROM queue JOIN event ON event.id = position "
            "WHERE owner = ? AND position > ? ORDER BY position LIMIT ?",
            (owner, after, limit),
        )

    def positions(self, owner: int, after: int, last: int, limit: int) -> list[int]:
        """Return the positions of an owner's next events, up to a last one."""
        rows = self._rows(
            "SELECT position FROM queue WHERE owner = ? AND position > ? AND position <= ? ORDER BY position LIMIT ?",
            (owner, after, min(last, self.committed), limit),
        )
        return [position for (position,) in rows]

    def oldest(self, owner: int, count: int) -> list[int]:
        """Return the positions of an owner's first events."""
        return self.positions(owner, 0, self.committed, count)

    def too_old(self, owner: int, before_s: float, count: int) -> list[int]:
        """Return the positions of an owner's first events, of those that were stored before a time."""
        rows = self._rows(
            "SELECT position, stored_s FROM queue JOIN event ON event.id = position WHERE owner = ? "
            "ORDER BY position LIMIT ?",
            (owner, 1),
        )
        if not rows or rows[0][1] >= before_s:
            return []
        rows = self._rows(
            "SELECT position FROM (SELECT position, stored_s FROM queue JOIN event ON event.id = position "
            "WHERE owner = ? ORDER BY position LIMIT ?) WHERE stored_s < ?",
            (owner, count, before_s),
        )
        return [position for (position,) in rows]

    def _rows(self, question: str, values: tuple[Any, ...] = ()) -> list[Any]:
        try:
            return self._reader.execute(question, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"the store cannot be read: {error}") from None

    def owners(self) -> list[Owner]:
        """Return who waits for events here."""
        return [Owner(*row) for row in self._rows("SELECT * FROM owner ORDER BY id")]

    def all_waiting(self) -> dict[int, tuple[int, int]]:
        """Return how many events wait for each owner, and their bytes."""
        rows = self._rows(
            "SELECT owner, count(*), sum(length(coalesce(queue.frame, event.frame))) "
            "FROM queue JOIN event ON event.id = position GROUP BY owner"
        )
        return {owner: (count, size) for owner, count, size in rows}

    def names(self) -> list[tuple[int, int]]:
        """Return the names of events that are remembered, oldest first."""
        rows = self._rows("SELECT publisher, number FROM seen ORDER BY position")
        return [(publisher & _ALL, number & _ALL) for publisher, number in rows]


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


def room_of(operation: Operation) -> int:
    """Return how many bytes an operation may take on disk, at most: an event those in the journal and in the file."""
    if isinstance(operation, Keep):
        return 2 * (len(operation.frame) + PAGE)
    return 4 * PAGE * len(operation.positions) if isinstance(operation, Release) else 4 * PAGE


class Change(NamedTuple):
    """How much more, or less, waits for somebody."""

    owner: int
    events: int
    size: int  # bytes


class StoreWriter:
    """The writing end; see the module's text. `window` is how many names of events are remembered."""

    def __init__(self, connection: sqlite3.Connection, path: Path, window: int, last: int) -> None:
        self.connection = connection
        self._directory = path.parent
        self._journal = path.with_name(f"{path.name}-wal")
        self._window = window
        self._trimmed = last
        self._changes: list[Change] = []  # of the transaction under way

    def commit(self, operations: Sequence[Operation]) -> list[Change]:
        """Carry out operations; sqlite3.Error if that cannot be, and then none of them is."""
        need = sum(map(room_of, operations))
        if not self._has_room(need):
            self.empty_journal()
            # Fewer at a time may do; and whatever makes room is tried in any case.
            wants_room = len(operations) > 1 or any(isinstance(one, Keep) for one in operations)
            if wants_room and not self._has_room(need):
                raise sqlite3.OperationalError("the disk is full")
        self._changes = []
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            self._apply(operations)
            self.connection.execute("COMMIT")
        except sqlite3.Error:
            if self.connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self.connection.execute("ROLLBACK")
            raise
        return self._changes

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

    def _apply(self, operations: Sequence[Operation]) -> None:
        # Events first, all at once: nobody is done with one before it is there, and who goes takes the last along.
        keeps = [one for one in operations if isinstance(one, Keep)]
        if keeps:
            self._keep(keeps)
        for one in operations:
            if isinstance(one, Release):
                self._release(one.owner, one.positions)
            elif isinstance(one, Owner):
                self.connection.execute("INSERT OR REPLACE INTO owner VALUES (?, ?, ?, ?, ?, ?, ?, ?)", one)
            elif isinstance(one, Forget):
                self._forget(one.owner)

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
                write.execute(_LESS, gone)
                write.execute(_UNWANTED, gone)
                self._changes.append(Change(owner, -len(found), -sum(size for _, size in found)))

    def _forget(self, owner: int) -> None:
        rows = self.connection.execute("SELECT position FROM queue WHERE owner = ?", (owner,)).fetchall()
        self._release(owner, [position for (position,) in rows])
        self.connection.execute("DELETE FROM owner WHERE id = ?", (owner,))


def _signed(number: int) -> int:
    """Return a number of 64 bits as SQLite has them."""
    return number - (1 << 64) if number >> 63 else number


GROUP: Final = 4_096  # operations in one transaction
WINDOW: Final = 1 << 16  # names of events that are remembered
OVERHEAD: Final = 160  # bytes that an event costs on disk beside its own; about 60 for each who waits for it
AGAIN_S: Final = 1.0  # after which something that failed is tried again

Done = Callable[[CoveyError | None], None]
_Group = Sequence[tuple[Operation, Done | None]]
_Results = list[tuple[Operation, Done | None, CoveyError | None]]


class Store(StoreReader):
    """The broker's store; see the module's text. `start` it in the event loop, `close` it there."""

    def __init__(self, path: Path, broker: str, max_bytes: int = 1 << 30, window: int = WINDOW) -> None:
        opened = open_store(path, broker, max_bytes)
        self.warning = opened.warning
        self.max_bytes = max_bytes
        self.window = window
        super().__init__(connect(path))
        self.reported: Callable[[], None] = lambda: None  # called after each report
        self._writer = StoreWriter(opened.connection, path, window, self.committed)
        self._lock = opened.lock
        self._waiting: queue.SimpleQueue[list[tuple[Operation, Done | None]] | None] = queue.SimpleQueue()
        self._gathered: list[tuple[Operation, Done | None]] = []  # in this turn of the loop
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._failing = False
        self._later: set[asyncio.TimerHandle] = set()
        self._pending_bytes = 0
        self._pending = 0
        self._closed: asyncio.Future[None]
        self.last = self.committed
        self.used_bytes = self._writer.used_bytes()
        self._sizes = self.all_waiting()
        self.commits = self.kept = 0

    def start(self) -> None:
        """Begin to write."""
        self._loop = asyncio.get_running_loop()
        self._closed = self._loop.create_future()
        self._thread = threading.Thread(target=self._work, name="covey-store", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Write what waits, report it, and close the file."""
        for timer in self._later:
            timer.cancel()
        if self._thread is not None:
            self._hand_over()
            self._waiting.put(None)
            await self._closed
            self._thread.join()
            self._thread = None
        self._reader.close()
        self._writer.connection.close()
        self._lock.close()

    # -- in the event loop -----------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """How many operations are not reported yet."""
        return self._pending

    def room_for(self, size: int, entries: int = 1) -> bool:
        """Return whether an event of this size may be kept for so many."""
        need = size + OVERHEAD + 60 * entries
        return self.used_bytes + self._pending_bytes + need <= self.max_bytes

    def next_position(self) -> int:
        """Return a position that nothing had before."""
        self.last += 1
        return self.last

    def submit(self, operation: Operation, done: Done | None = None) -> None:
        """Have an operation carried out; `done` is told when it is on disk, or why it is not."""
        self._pending += 1
        if isinstance(operation, Keep):
            self._pending_bytes += len(operation.frame) + OVERHEAD
        if not self._gathered:
            self._loop.call_soon(self._hand_over)
        self._gathered.append((operation, done))

    def _hand_over(self) -> None:
        # Once a turn: whenever the thread is woken, the two take turns, and both wait.
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            self._waiting.put(gathered)

    def submit_later(self, operation: Operation, done: Done | None = None) -> None:
        """Try an operation again that has failed."""

        def again() -> None:
            self._later.discard(timer)
            self.submit(operation, done)

        timer = self._loop.call_later(AGAIN_S, again)
        self._later.add(timer)

    def waiting(self, owner: int) -> tuple[int, int]:
        """Return how many events wait for an owner, and their bytes."""
        return self._sizes.get(owner, (0, 0))

    def resume(self) -> None:
        """Try to keep events again after some could not be."""
        self._failing = False

    def _report(self, results: _Results, changes: Sequence[Change], used_bytes: int) -> None:
        self.used_bytes = used_bytes
        for owner, events, size in changes:
            count, total = self._sizes.get(owner, (0, 0))
            self._sizes[owner] = (count + events, total + size)
        for operation, done, error in results:
            self._pending -= 1
            if isinstance(operation, Keep):
                self._pending_bytes -= len(operation.frame) + OVERHEAD
                self.kept += error is None
                self.committed = operation.position
            if done is not None:
                done(error)
        self.reported()

    # -- in the store's own thread ---------------------------------------------------------------------------

    def _work(self) -> None:
        going = True
        while going:
            group: list[tuple[Operation, Done | None]] = []
            item = self._waiting.get()
            while item is not None:
                group += item
                if len(group) >= GROUP:
                    break
                try:
                    item = self._waiting.get_nowait()
                except queue.Empty:
                    break
            going = item is not None
            results: _Results = []
            changes: list[Change] = []
            self._carry_out(group, results, changes)
            used_bytes = self._used_now()
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants to know
                self._loop.call_soon_threadsafe(self._report, results, changes, used_bytes)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._closed.set_result, None)

    def _used_now(self) -> int:
        try:
            return self._writer.used_bytes()
        except sqlite3.Error:
            return self.used_bytes

    def _carry_out(self, group: _Group, results: _Results, changes: list[Change]) -> None:
        if not group:
            return
        if self._failing and any(isinstance(operation, Keep) for operation, _ in group):
            refusal = StoreError("the store has no room for events at the moment")
            for item in group:
                if isinstance(item[0], Keep):
                    results.append((*item, refusal))
                else:
                    self._carry_out([item], results, changes)
            return
        error = self._commit(group, changes)
        if error is not None:
            self._writer.empty_journal()  # it may be what fills the disk: without it the same may well succeed
            if len(group) > 1:
                middle = len(group) // 2
                self._carry_out(group[:middle], results, changes)
                self._carry_out(group[middle:], results, changes)
                return
            error = self._commit(group, changes)
        if error is None:
            results.extend((*item, None) for item in group)
            return
        if isinstance(group[0][0], Keep):
            self._failing = True
        results.append((*group[0], StoreError(f"the store cannot keep this: {error}")))

    def _commit(self, group: _Group, changes: list[Change]) -> sqlite3.Error | None:
        try:
            changes += self._writer.commit([operation for operation, _ in group])
        except sqlite3.Error as error:
            return error
        self.commits += 1
        return None
