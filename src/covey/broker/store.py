"""Store: what a broker keeps on disk, written by one thread in groups, reported to the event loop in order.

Whoever wants something written submits an operation and is told, in the event loop and in the order of submission,
when it is on disk or why it is not. The thread takes all that waits as one transaction (group commit), so a commit
costs one wait for the disk however many events it has. A transaction that fails is tried again in halves: an operation
fails alone. When there is no room for an event, all events behind it fail too until `resume`, so that what is tried
again later does not come behind what was sent after it.

Reads are of what is committed, on a connection of their own, a few hundred events at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

from covey.broker.store_file import PAGE, connect, open_store
from covey.errors import CoveyError

GROUP: Final = 4_096  # operations in one transaction
WINDOW: Final = 1 << 16  # names of events that are remembered
OVERHEAD: Final = 160  # bytes that an event costs on disk beside its own; about 60 for each who waits for it
_TRIM_EVERY: Final = 4_096

AGAIN_S: Final = 1.0  # after which something that failed is tried again
AT_ONCE: Final = 64  # rows in a statement
_SOME: Final = f"({', '.join('?' * AT_ONCE)})"
_FOUND: Final = (
    "SELECT position, coalesce(length(queue.frame), length(event.frame), 0) FROM queue "
    f"LEFT JOIN event ON event.id = position WHERE owner = ? AND position IN {_SOME}"
)
_DELETE: Final = f"DELETE FROM queue WHERE owner = ? AND position IN {_SOME}"
_LESS: Final = f"UPDATE event SET refs = refs - 1 WHERE id IN {_SOME}"
_UNWANTED: Final = f"DELETE FROM event WHERE id IN {_SOME} AND refs <= 0"

Done = Callable[[CoveyError | None], None]


class StoreError(CoveyError):
    """Something could not be kept."""


class Entry(NamedTuple):
    """Somebody waits for an event; `frame` is what they get if it is not the event's own."""

    owner: int
    frame: bytes | None = None


class Keep(NamedTuple):
    """An event to be kept for whoever waits for it; `seen` says that its name is to be remembered."""

    position: int
    publisher: int
    number: int
    frame: bytes
    stored_s: float
    entries: tuple[Entry, ...]
    seen: bool


class Release(NamedTuple):
    """Somebody is done with events."""

    owner: int
    positions: tuple[int, ...]


class Owner(NamedTuple):
    """Who waits for events: `kind` is "outbox" or "subscription"; see `store_file`."""

    id: int
    kind: str
    user: str
    client: str
    name: str
    uid: int = 0
    generation: int = 0
    filter: bytes = b""


class Forget(NamedTuple):
    """An owner goes, and all that waits for it."""

    owner: int


Operation = Keep | Release | Owner | Forget
_Group = Sequence[tuple[Operation, Done | None]]
_Results = list[tuple[Operation, Done | None, CoveyError | None]]


class Store:
    """The broker's store; see the module's text. `start` it in the event loop, `close` it there."""

    def __init__(self, path: Path, broker: str, max_bytes: int = 1 << 30, window: int = WINDOW) -> None:
        opened = open_store(path, broker, max_bytes)
        self.warning = opened.warning
        self.max_bytes = max_bytes
        self.window = window
        self.reported: Callable[[], None] = lambda: None  # called after each report
        self._writer = opened.connection
        self._lock = opened.lock
        self._reader = connect(path)
        self._waiting: queue.SimpleQueue[list[tuple[Operation, Done | None]] | None] = queue.SimpleQueue()
        self._gathered: list[tuple[Operation, Done | None]] = []  # in this turn of the loop
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._failing = False
        self._deltas: list[tuple[int, int, int]] = []  # owner, events, bytes: of the transaction under way
        self._later: set[asyncio.TimerHandle] = set()
        self._pending_bytes = 0
        self._pending = 0
        self._closed: asyncio.Future[None]
        self.last: int
        (self.last,) = self._reader.execute("SELECT value FROM meta WHERE name = 'last'").fetchone()
        self.committed = int(self.last)  # the last position that was reported
        self._trimmed = self.committed
        self.used_bytes = self._used()
        self._sizes = self._waiting_now()
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
        self._writer.close()
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

    def _report(self, results: _Results, deltas: Sequence[tuple[int, int, int]], used: int) -> None:
        self.used_bytes = used
        for owner, events, size in deltas:
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

    # -- reading ---------------------------------------------------------------------------------------------

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

    def _rows(self, question: str, values: tuple[Any, ...]) -> list[Any]:
        try:
            return self._reader.execute(question, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"the store cannot be read: {error}") from None

    def owners(self) -> list[Owner]:
        """Return who waits for events here."""
        return [Owner(*row) for row in self._reader.execute("SELECT * FROM owner ORDER BY id")]

    def _waiting_now(self) -> dict[int, tuple[int, int]]:
        rows = self._reader.execute(
            "SELECT owner, count(*), sum(length(coalesce(queue.frame, event.frame))) "
            "FROM queue JOIN event ON event.id = position GROUP BY owner"
        )
        return {owner: (count, size) for owner, count, size in rows}

    def names(self) -> list[tuple[int, int]]:
        """Return the names of events that are remembered, oldest first."""
        rows = self._reader.execute("SELECT publisher, number FROM seen ORDER BY position")
        return [(publisher & _ALL, number & _ALL) for publisher, number in rows]

    def _used(self, connection: sqlite3.Connection | None = None) -> int:
        reader = connection or self._reader
        (pages,) = reader.execute("PRAGMA page_count").fetchone()
        (free,) = reader.execute("PRAGMA freelist_count").fetchone()
        return int(pages - free) * PAGE

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
            deltas: list[tuple[int, int, int]] = []
            self._carry_out(group, results, deltas)
            used = self._used_now()
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants to know
                self._loop.call_soon_threadsafe(self._report, results, deltas, used)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._closed.set_result, None)

    def _used_now(self) -> int:
        try:
            return self._used(self._writer)
        except sqlite3.Error:
            return self.used_bytes

    def _carry_out(self, group: _Group, results: _Results, deltas: list[tuple[int, int, int]]) -> None:
        if not group:
            return
        if self._failing and any(isinstance(operation, Keep) for operation, _ in group):
            refusal = StoreError("the store has no room for events at the moment")
            for item in group:
                if isinstance(item[0], Keep):
                    results.append((*item, refusal))
                else:
                    self._carry_out([item], results, deltas)
            return
        error = self._commit(group)
        if error is not None:
            # The journal may be what fills the disk: with it emptied, the same may well succeed.
            with contextlib.suppress(sqlite3.Error):
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            if len(group) > 1:
                middle = len(group) // 2
                self._carry_out(group[:middle], results, deltas)
                self._carry_out(group[middle:], results, deltas)
                return
            error = self._commit(group)
        if error is None:
            self.commits += 1
            deltas.extend(self._deltas)
            results.extend((*item, None) for item in group)
            return
        if isinstance(group[0][0], Keep):
            self._failing = True
        results.append((*group[0], StoreError(f"the store cannot keep this: {error}")))

    def _commit(self, group: _Group) -> sqlite3.Error | None:
        try:
            self._deltas = []
            self._writer.execute("BEGIN IMMEDIATE")
            self._apply([operation for operation, _ in group])
            self._writer.execute("COMMIT")
        except sqlite3.Error as error:
            if self._writer.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self._writer.execute("ROLLBACK")
            return error
        return None

    def _apply(self, operations: Sequence[Operation]) -> None:
        # Events first, all at once: nobody is done with one before it is there, and who goes takes the last along.
        keeps = [one for one in operations if isinstance(one, Keep)]
        if keeps:
            self._keep(keeps)
        for one in operations:
            if isinstance(one, Release):
                self._release(one.owner, one.positions)
            elif isinstance(one, Owner):
                self._writer.execute("INSERT OR REPLACE INTO owner VALUES (?, ?, ?, ?, ?, ?, ?, ?)", one)
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
        self._deltas.extend(
            (entry.owner, 1, len(one.frame if entry.frame is None else entry.frame))
            for one in keeps
            for entry in one.entries
        )
        last = keeps[-1].position
        self._writer.execute("UPDATE meta SET value = max(value, ?) WHERE name = 'last'", (last,))
        if last - self._trimmed >= _TRIM_EVERY:
            self._trimmed = last
            self._writer.execute(
                "DELETE FROM seen WHERE position <= "
                "(SELECT position FROM seen ORDER BY position DESC LIMIT 1 OFFSET ?)",
                (self.window,),
            )

    def _insert(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        # Many rows a statement: at each, the thread lets another run and must wait for its turn.
        at = 0
        while at < len(rows):
            count = AT_ONCE if len(rows) - at >= AT_ONCE else 1
            row = f"({', '.join('?' * len(rows[at]))})"
            values = [value for one in rows[at : at + count] for value in one]
            self._writer.execute(f"INSERT INTO {table} VALUES {', '.join([row] * count)}", values)
            at += count

    def _release(self, owner: int, positions: Sequence[int]) -> None:
        write = self._writer
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
                self._deltas.append((owner, -len(found), -sum(size for _, size in found)))

    def _forget(self, owner: int) -> None:
        rows = self._writer.execute("SELECT position FROM queue WHERE owner = ?", (owner,)).fetchall()
        self._release(owner, [position for (position,) in rows])
        self._writer.execute("DELETE FROM owner WHERE id = ?", (owner,))


_ALL: Final = (1 << 64) - 1


def _signed(number: int) -> int:
    """Return a number of 64 bits as SQLite has them."""
    return number - (1 << 64) if number >> 63 else number
