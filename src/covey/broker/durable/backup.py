"""A copy of a broker's data directory, made while the broker runs; `covey backup` is its command.

What is copied: the store (`store.db`, with what its journal has), and the plans that are installed (`plans.bin`). The
mark of the copy says that it is one (`mark.State.COPY`), so a broker that is started with it says so, and gives no
position again that the original may have given away. Samples of traffic, and copies of older formats, stay behind.

Consistent. One reading transaction lasts from the first page to the last, so the copy is the store as it was between
two commits, however much is committed meanwhile. Readers do not hold up the writer of a SQLite store. While one is
there, however, the journal is not emptied: it grows by what is committed. If the disk of the store gets short by that,
the backup is given up, and not the broker.

Checked. Every checksum of the copy is read before the copy gets its name. Damaged rows are copied as they are and
counted: a broker that has the copy may still find good ones with its neighbours.

Whole or not at all. The copy is made in a directory beside its place, with another name, and renamed when everything is
on disk. Nothing that exists is overwritten.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from covey.broker.durable.mark import Mark, State, read_mark, write_mark
from covey.broker.durable.sqlite import (
    APPLICATION,
    FORMAT,
    PAGE,
    damaged_records,
    entry_sum,
    how_far,
    is_event,
    is_name,
    pragma,
)
from covey.broker.private_files import opener, sync_directory, without_sum
from covey.errors import ConfigError, StoreError

STORE: Final = "store.db"
PLANS: Final = "plans.bin"  # as `covey.broker.plans` has it, which brings the compiler
STEP: Final = 256  # pages that are copied at a time
LONGEST_PAUSE_S: Final = 0.05  # between two steps, in which others have the disk
SYNC_EVERY: Final = 64  # steps: so that what is left for the last sync does not hold up the broker's
LEFT: Final = 64 << 20  # bytes that are left free on the disk of the store
SPARE: Final = 1 << 20  # bytes that are left free on another disk, where the copy is
CHECKED: Final = 10_000  # rows between two lines of progress

Tell = Callable[[str], None]  # takes a line for people: how far it is


class Backup(NamedTuple):
    """What a copy has in it."""

    broker: str
    path: Path
    size: int  # bytes of the store
    queues: int  # durable subscriptions and neighbours for which events may wait
    events: int
    entries: int  # an event counts once for everyone for whom it waits
    damaged: int  # rows whose checksums are wrong
    has_plans: bool
    warnings: tuple[str, ...] = ()


def back_up(directory: Path, out: Path, tell: Tell = lambda line: None) -> Backup:
    """Copy the data directory of a broker, which may run, to a new directory.

    ConfigError if there is no store, or no place for the copy. StoreError if the copy cannot be made; then nothing is
    left of it.
    """
    store = directory / STORE
    _look(directory, out)
    partial = out.with_name(f"{out.name}.partial")
    try:
        partial.mkdir(mode=0o700)
    except FileExistsError:
        raise ConfigError(
            f"{partial} is there: another backup is under way, or one was killed (hint: remove it if none is)"
        ) from None
    except OSError as error:
        raise ConfigError(f"{partial} cannot be made: {error.strerror or error}") from None
    try:
        mark = _mark(store)  # before the store: then the store has all that its mark speaks of
        copy = partial / STORE
        _copy_store(store, copy, tell)
        found = _checked(copy, mark, tell)
        has_plans, warnings = _copy_plans(directory / PLANS, partial / PLANS)
        sync_directory(partial)
        os.rename(partial, out)
        sync_directory(out.parent)
    except sqlite3.Error as error:
        raise StoreError(f"the store {store} cannot be copied to {out}: {error}{_hint(error)}") from None
    except OSError as error:
        raise StoreError(
            f"the store {store} cannot be copied to {out}: {error.strerror or error}{_hint(error)}"
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return found._replace(path=out, has_plans=has_plans, warnings=warnings)


def _look(directory: Path, out: Path) -> None:
    """ConfigError if there is nothing to copy, or if the copy cannot be where it should."""
    if not os.access(directory, os.R_OK | os.X_OK) and directory.exists():
        raise ConfigError(f"{directory} cannot be read (hint: be the user that the broker runs as)")
    if not (directory / STORE).is_file():
        raise ConfigError(f"there is no {STORE} in {directory} (hint: name the data_dir of a broker)")
    if os.path.lexists(out):
        raise ConfigError(f"{out} is there already, and nothing is overwritten (hint: name a new directory)")
    if not out.parent.is_dir():
        raise ConfigError(f"there is no directory {out.parent} for the copy (hint: mkdir -p {out.parent})")
    if out.resolve().is_relative_to(directory.resolve()):
        raise ConfigError(f"{out} is in the directory that is to be copied (hint: another disk for the copy)")


def _hint(error: Exception) -> str:
    said = str(error)
    if isinstance(error, PermissionError) or "unable to open" in said or "readonly" in said:
        return " (hint: be the user that the broker runs as)"
    if isinstance(error, OSError) or "full" in said:
        return " (hint: another disk for the copy)"
    if "malformed" in said or "not a database" in said:
        return " (hint: restart the broker, which mends its store, and back up then)"
    return ""


def _mark(store: Path) -> Mark | None:
    """Return the mark of the original, None if it has none that can be read."""
    try:
        return read_mark(store)
    except ValueError:
        return None


# -- copying -----------------------------------------------------------------------------------------------------


@contextmanager
def _reading(store: Path) -> Iterator[sqlite3.Connection]:
    """Give a connection that reads the store as it is at one moment, and never writes to it."""
    uri = f"{store.resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10.0)) as source:
        source.execute("BEGIN")
        if pragma(source, "application_id") != APPLICATION:
            raise ConfigError(f"{store} is a database, and no store of Covey's")
        found = pragma(source, "user_version")
        if found != FORMAT:
            raise ConfigError(
                f"the store {store} has format {found}, and this version of Covey copies format {FORMAT} "
                "(hint: use the version of Covey that the broker runs with)"
            )
        yield source


def _copy_store(store: Path, copy: Path, tell: Tell) -> None:
    with _reading(store) as source:
        size = pragma(source, "page_count") * PAGE
        free, is_shared = _free(copy.parent), os.stat(store).st_dev == os.stat(copy.parent).st_dev
        if free < size + (LEFT if is_shared else SPARE):
            raise ConfigError(
                f"the copy takes {_mib(size)}, and {copy.parent.parent} has {_mib(free)}"
                f"{', of which the broker needs some' if is_shared else ''} "
                "(hint: another disk for the copy)"
            )
        with open(copy, "xb", opener=opener) as file, closing(sqlite3.connect(copy)) as target:
            target.execute("PRAGMA synchronous=OFF")  # it is synced here, and a part of a copy is of no use
            target.execute("PRAGMA journal_mode=OFF")
            pace = _Pace(store, file.fileno(), tell)
            source.backup(target, pages=STEP, progress=pace.step)
        with copy.open("rb") as file:
            os.fsync(file.fileno())


class _Pace:
    """What happens between two steps of copying: others have the disk, and it is seen that it has room."""

    def __init__(self, store: Path, file: int, tell: Tell) -> None:
        self._store, self._file, self._tell = store, file, tell
        self._steps = 0
        self._since_s = time.monotonic()

    def step(self, status: int, left: int, pages: int) -> None:
        """Some pages are copied."""
        self._steps += 1
        self._tell(f"{_mib((pages - left) * PAGE)} of {_mib(pages * PAGE)} copied")
        if self._steps % SYNC_EVERY == 0:
            os.fsync(self._file)
            self._see_to_journal()
        took_s = time.monotonic() - self._since_s
        if left:
            time.sleep(min(took_s, LONGEST_PAUSE_S))
        self._since_s = time.monotonic()

    def _see_to_journal(self) -> None:
        """StoreError if the journal, which cannot be emptied meanwhile, takes the disk's last room."""
        journal = Path(f"{self._store}-wal")
        size = journal.stat().st_size if journal.exists() else 0
        if _free(self._store.parent) < size + LEFT:
            raise StoreError(
                "the backup is given up, because the disk of its broker gets short: the journal grows while a backup "
                f"lasts, and has {_mib(size)} now (hint: another disk for the copy)"
            )


def _free(directory: Path) -> int:
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"


def _copy_plans(source: Path, copy: Path) -> tuple[bool, tuple[str, ...]]:
    """Copy the plans, if there are any; a damaged file is left out, with a warning, as neighbours know the plan."""
    try:
        data = source.read_bytes()
    except FileNotFoundError:
        return False, ()
    try:
        without_sum(data)
    except ValueError as error:
        return False, (f"{source} is left out: {error}; neighbours know the plan",)
    with open(copy, "xb", opener=opener) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return True, ()


# -- checking ----------------------------------------------------------------------------------------------------


def _checked(copy: Path, original: Mark | None, tell: Tell) -> Backup:
    """Check a copy row by row, and write its mark; StoreError if it is not even a database."""
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        problem = "" if verdict == "ok" else str(verdict)
        problem = problem or damaged_records(connection)
        if problem:
            raise StoreError(
                f"the copy of the store is damaged ({' '.join(problem.split())[:120]}) "
                "(hint: restart the broker, which mends its store, and back up then)"
            )
        (broker,) = connection.execute("SELECT value FROM meta WHERE name = 'broker'").fetchone()
        (queues,) = connection.execute("SELECT count(*) FROM owner").fetchone()
        events, bad_events = _judged(_events(connection), "events", tell)
        entries, bad_entries = _judged(_entries(connection), "entries", tell)
        _, bad_names = _judged(map(is_name, connection.execute("SELECT * FROM seen")), "names", tell)
        commits, known = how_far(connection)
    # What the original has lost already is not forgotten by copying it.
    commits = max(commits, 0 if original is None else original.commits)
    known = max(known, 0 if original is None else original.last)
    log_s = None if original is None else original.log_s
    write_mark(copy, Mark(commits, known, time.time(), State.COPY, log_s))
    size = copy.stat().st_size
    bad = bad_events + bad_entries + bad_names
    return Backup(str(broker), copy.parent, size, queues, events, entries, bad, False)


def _judged(verdicts: Iterable[bool], what: str, tell: Tell) -> tuple[int, int]:
    """Return how many rows there are, and how many of them are damaged."""
    count = bad = 0
    for is_good in verdicts:
        count += 1
        bad += not is_good
        if count % CHECKED == 0:
            tell(f"{count:,} {what} checked")
    return count, bad


def _events(connection: sqlite3.Connection) -> Iterator[bool]:
    rows = connection.execute("SELECT id, publisher, number, stored_s, checksum, frame FROM event")
    return map(is_event, rows)


def _entries(connection: sqlite3.Connection) -> Iterator[bool]:
    """Yield whether each entry is as it was stored, and has an event or a frame of its own."""
    rows = connection.execute(
        "SELECT owner, position, queue.checksum, queue.frame, event.id "
        "FROM queue LEFT JOIN event ON event.id = position"
    )
    for owner, position, checksum, frame, event in rows:
        is_own = isinstance(frame, bytes)
        yield entry_sum(owner, position, frame if is_own else None) == checksum and (
            is_own or event is not None
        )
