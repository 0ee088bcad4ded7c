"""Reading the store: what is committed, on a connection of its own, a few hundred events at a time."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from covey.broker.store_operations import Owner
from covey.errors import StoreError

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
