"""The mark: a small file beside a store that says how far the store had come.

SQLite cannot tell a journal whose end is missing from a crash before that end was written, nor an older copy of a file
from the file. The mark can: it is synced by itself, after what it speaks of is on disk, so a store that knows less than
its mark has lost its end.

The mark is never ahead of what is on disk. It is behind by at most what was committed within `EVERY_S` (one second),
and by the time of one sync: what is lost of that, the mark does not know. Neighbours know of it (`delivery`), because
they are told with every confirmation.

    OPEN      a broker has the store open, or was killed
    CLOSED    the store was closed in order, and nothing was written since
    COPY      the store is a copy, a backup: the original may have gone on
"""

from __future__ import annotations

import time
from enum import Enum
from pathlib import Path
from typing import Final

import msgspec

from covey.broker.durable.log import Notice
from covey.broker.private_files import replace_file, with_sum, without_sum

EVERY_S: Final = 1.0  # between two writings of the mark, while something is committed
PATIENCE: Final = 5  # writings in a row that may fail before people are told


class State(Enum):
    """What was done last with the store; see the module's text."""

    OPEN = "open"
    CLOSED = "closed"
    COPY = "copy"


class Mark(msgspec.Struct, frozen=True):
    """How far a store had come: transactions, the last position that was given away, and what its clock showed."""

    commits: int
    last: int
    wall_s: float  # when that was
    state: State = State.OPEN
    log_s: float | None = None  # None, if its clock has not begun


def mark_of(store: Path) -> Path:
    """Return where the mark of a store is."""
    return store.with_name(f"{store.name}.mark")


def read_mark(store: Path) -> Mark | None:
    """Return a store's mark, None if there is none; ValueError if it is damaged, OSError if it cannot be read."""
    try:
        data = mark_of(store).read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(without_sum(data), type=Mark)
    except msgspec.DecodeError as error:
        raise ValueError(f"it cannot be read: {error}") from None


def write_mark(store: Path, mark: Mark) -> None:
    """Put a mark in the place of the one before, synced; OSError if the disk does not take it."""
    replace_file(mark_of(store), with_sum(msgspec.json.encode(mark)))


class Marker:
    """Keeps the mark of an open store; `note` what is on disk, and `write` when `due_in_s` says so.

    A disk that does not take the mark now is asked again a second later. People are told if that goes on, and when it
    is over.
    """

    def __init__(self, store: Path, commits: int, last: int, clock_s: float | None) -> None:
        self._store = store
        self._commits, self._last = commits, last
        self._clock_s = clock_s
        self._is_behind = True
        self._next_s = 0.0  # it is not written before
        self._failures = 0  # in a row

    def note(self, commits: int, last: int, clock_s: float | None) -> None:
        """Something is on disk; `clock_s` is what the log's clock shows, if that was said."""
        self._commits, self._last = commits, last
        self._clock_s = self._clock_s if clock_s is None else clock_s
        self._is_behind = True

    def due_in_s(self) -> float | None:
        """Return after how many seconds the mark is to be written, None if it need not be."""
        return max(0.0, self._next_s - time.monotonic()) if self._is_behind else None

    def write(self, state: State = State.OPEN) -> Notice | None:
        """Write what was noted last, if the disk takes it; return what people must know now of that."""
        self._next_s = time.monotonic() + EVERY_S
        try:
            write_mark(self._store, Mark(self._commits, self._last, time.time(), state, self._clock_s))
        except OSError as error:  # a full disk, or one that others have taken away: the mark stays behind
            self._failures += 1
            if self._failures != PATIENCE:
                return None
            return Notice(
                f"the mark of the store {self._store} cannot be written ({error.strerror or error}), so a missing end "
                "would not be noticed (hint: let the broker write beside its store, and make room on that disk)"
            )
        was_said, self._failures = self._failures >= PATIENCE, 0
        self._is_behind = False
        return (
            Notice(f"the mark of the store {self._store} is written again", is_right=True)
            if was_said
            else None
        )
