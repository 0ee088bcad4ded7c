"""Writing the store: operations, many in one transaction, by the thread that has the connection.

What is committed is in the journal first and must go from there to the file, which grows by it: on a full disk that
cannot be, and then nothing could be written any more, not even that something is not wanted any longer. So there is
always as much room left as the journal may need, and events are refused before they take it.

A commit is all or nothing. What it changes of how much waits for whom is returned, so that nobody has to count.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

from covey.broker.store_file import PAGE
from covey.broker.store_operations import Forget, Keep, Operation, Owner, Release

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
