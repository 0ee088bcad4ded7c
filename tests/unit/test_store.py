"""The store: what is reported is on disk, damage is said and nothing is overwritten, bounds hold."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.oracles.dying import die_at
from tests.oracles.logs import Store

from covey.broker.config import BrokerConfig
from covey.broker.durable import sqlite as store_writing
from covey.broker.durable.log import (
    Damaged,
    Entry,
    Expire,
    Forget,
    Keep,
    Operation,
    Owner,
    Release,
    ReleaseUpTo,
    Renew,
    Resume,
    Row,
    Trim,
    Unsee,
)
from covey.broker.durable.queues import Outcome
from covey.broker.server import Broker
from covey.errors import ConfigError, CoveyError, StoreError
from covey.protocol.events import encode_event

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    async def limited() -> T:
        async with asyncio.timeout(30):
            return await main

    return asyncio.run(limited())


async def done(store: Store, operation: Operation) -> CoveyError | None:
    return await store.done(operation)


def keep(store: Store, number: int, owners: tuple[int, ...] = (1,), size: int = 50) -> Keep:
    frame = number.to_bytes(8, "big") + b"x" * (size - 8)
    return Keep(store.tickets.next_position(), 7, number, frame, 0.0, tuple(map(Entry, owners)), seen=True)


OUTBOX = Owner(1, "outbox", "", "", "B")


def rows(path: Path, question: str) -> list[Any]:
    """Return what is committed in a store."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(question).fetchall()


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_nobody_else_can_read_what_is_stored(tmp_path: Path) -> None:
    data = tmp_path / "a" / "data"

    async def write() -> None:
        store = Store(data / "store.db", "A")
        store.start()
        await done(store, OUTBOX)
        files = list(data.iterdir())
        assert {file.name for file in files} >= {"store.db", "store.db-wal", "store.db.lock"}
        assert {file.name: mode(file) for file in files} == {file.name: 0o600 for file in files}
        await store.close()

    before = os.umask(0)
    try:
        run(write())
        assert (mode(data), mode(data.parent)) == (0o700, 0o700)
        for file in data.iterdir():
            file.chmod(0o644)  # as earlier versions left them
        run(write())
    finally:
        os.umask(before)


def test_a_directory_of_its_own_is_closed_to_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):  # at first it is empty, then there is a store in it
        tmp_path.chmod(0o755)

        async def main() -> None:
            async with Broker(BrokerConfig("A", port=0, data_dir=str(tmp_path))):
                pass

        run(main())
        assert mode(tmp_path) == 0o700
        assert f"{tmp_path} had mode 0755" in caplog.text
        caplog.clear()


@pytest.mark.parametrize("permissions", [0o755, 0o1777])
def test_a_directory_that_is_shared_is_refused_and_left_alone(tmp_path: Path, permissions: int) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    if permissions == 0o755:
        (shared / "notes.txt").touch()  # somebody else's
    shared.chmod(permissions)
    with pytest.raises(ConfigError, match=f"others can enter the data directory .*chmod 700 {shared}"):
        Store(shared / "store.db", "A")
    assert mode(shared) == permissions & 0o777
    assert [one.name for one in shared.iterdir()] == (["notes.txt"] if permissions == 0o755 else [])


def test_what_is_reported_is_there_after_the_process_ends(tmp_path: Path) -> None:
    async def write() -> None:
        store = Store(tmp_path / "store.db", "A")
        store.start()
        await done(store, OUTBOX)
        for number in range(5):
            assert await done(store, keep(store, number)) is None
        assert await done(store, Release(1, (2,))) is None
        # No close: a copy of the files now is what a crash would leave.
        for file in tmp_path.iterdir():
            (tmp_path / f"crashed-{file.name}").write_bytes(file.read_bytes())
        await store.close()

    async def read() -> None:
        store = Store(tmp_path / "crashed-store.db", "A")
        store.start()
        assert not store.warning
        assert [position for position, _ in await store.read(1, 0, 10)] == [1, 3, 4, 5]
        assert store.tickets.waiting(1) == (4, 200)
        assert list(store.recovered.names) == [(7, number) for number in range(5)]
        assert store.tickets.next_position() > 5
        assert list(store.recovered.owners) == [OUTBOX]
        await store.close()

    run(write())
    run(read())


def test_reports_come_in_order_and_in_groups(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store(tmp_path / "store.db", "A")
        store.start()
        order: list[int] = []
        for number in range(2_000):
            store.submit(keep(store, number), lambda error, number=number: order.append(number))  # type: ignore[misc]
        await done(store, Release(1, ()))
        assert order == list(range(2_000))
        assert store.tickets.commits < 200
        assert store.pending == 0
        await store.close()

    run(main())


def test_an_event_stays_until_the_last_who_waits_is_done(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store(tmp_path / "store.db", "A")
        store.start()
        await done(store, keep(store, 1, owners=(1, 2)))
        await done(store, Release(1, (1,)))
        await done(store, Release(1, (1,)))  # again: nothing happens
        assert await store.read(1, 0, 9) == []
        assert len(await store.read(2, 0, 9)) == 1
        await done(store, Forget(2))
        assert rows(tmp_path / "store.db", "SELECT count(*) FROM event") == [(0,)]
        assert store.tickets.waiting(1) == store.tickets.waiting(2) == (0, 0)
        await store.close()

    run(main())


def test_another_frame_for_one_who_waits(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store(tmp_path / "store.db", "A")
        store.start()
        await done(store, Keep(1, 7, 1, b"plain", 0.0, (Entry(1), Entry(2, b"flooded")), seen=True))
        assert await store.read(1, 0, 9) == [(1, b"plain")]
        assert await store.read(2, 0, 9) == [(1, b"flooded")]
        assert store.tickets.waiting(2) == (1, 7)
        await store.close()

    run(main())


def test_names_beyond_the_window_are_forgotten(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store(tmp_path / "store.db", "A", window=100)
        store.start()
        for number in range(5_000):
            store.submit(keep(store, number, owners=()))
        await done(store, Release(1, ()))
        await store.close()
        store = Store(tmp_path / "store.db", "A", window=100)
        names = list(store.recovered.names)
        assert 100 <= len(names) < 5_000
        assert names[-1] == (7, 4_999)
        await store.close()

    run(main())


def test_positions_are_not_given_again_when_everything_was_released(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store(tmp_path / "store.db", "A")
        store.start()
        event = keep(store, 1)._replace(seen=False)
        await done(store, event)
        await done(store, Release(1, (event.position,)))
        await store.close()
        store = Store(tmp_path / "store.db", "A")
        assert store.tickets.next_position() > event.position
        await store.close()

    run(main())


def test_numbers_of_64_bits(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store(tmp_path / "store.db", "A")
        store.start()
        await done(store, Keep(1, 2**64 - 1, 2**63, b"f", 0.0, (), seen=True))
        await store.close()
        store = Store(tmp_path / "store.db", "A")
        assert list(store.recovered.names) == [(2**64 - 1, 2**63)]
        await store.close()

    run(main())


# -- bounds ------------------------------------------------------------------------------------------------------


def test_a_full_store_fails_events_in_order_and_takes_them_again_when_there_is_room(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store(tmp_path / "store.db", "A", max_bytes=1 << 20)
        store.start()
        accepted = []
        results: list[tuple[int, CoveyError | None]] = []
        for number in range(400):  # more than the file may have: SQLite itself says that it is full
            event = keep(store, number, size=10_000)
            store.submit(event, lambda error, number=number: results.append((number, error)))  # type: ignore[misc]
        await done(store, Release(1, ()))
        accepted = [number for number, error in results if error is None]
        assert 50 < len(accepted) < 400
        assert accepted == list(range(len(accepted))), "nothing is kept behind what is not"
        assert all(isinstance(error, StoreError) for number, error in results[len(accepted) :])
        assert not store.tickets.room_for(10_000)
        assert [int.from_bytes(frame[:8], "big") for _, frame in await store.read(1, 0, 500)] == accepted
        assert isinstance(await done(store, keep(store, 999)), StoreError), "until resume"

        positions = tuple(position for position, _ in await store.read(1, 0, 500))
        assert await done(store, Release(1, positions)) is None
        assert store.tickets.room_for(10_000)
        await done(store, Resume())
        size = (tmp_path / "store.db").stat().st_size
        for number in range(20):
            assert await done(store, keep(store, number, size=10_000)) is None
        assert (tmp_path / "store.db").stat().st_size <= size + (1 << 20), "freed space is used again"
        await store.close()

    run(main())


def test_space_is_used_again(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store(tmp_path / "store.db", "A", max_bytes=4 << 20)
        store.start()
        for turn in range(20):  # ten times as much as fits
            for number in range(40):
                store.submit(keep(store, 100 * turn + number, size=50_000))
            await done(store, Release(1, ()))
            positions = [position for position, _ in await store.read(1, 0, 100)]
            assert len(positions) == 40
            assert await done(store, Release(1, tuple(positions))) is None
        await store.close()
        assert (tmp_path / "store.db").stat().st_size < 6 << 20

    run(main())


def test_one_operation_that_fails_takes_no_other_with_it(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store(tmp_path / "store.db", "A")
        store.start()
        await done(store, OUTBOX)
        errors: list[CoveyError | None] = []
        store.submit(OUTBOX._replace(id=2), errors.append)
        store.submit(Owner(3, "outbox", "", "", None), errors.append)  # type: ignore[arg-type]
        store.submit(Owner([], "outbox", "", "", "C"), errors.append)  # type: ignore[arg-type]
        store.submit(Release(1, ()), errors.append)
        await done(store, Release(1, ()))
        assert [error is None for error in errors] == [True, True, False, True]
        await store.close()

    run(main())


class FullUntilCheckpoint:
    """A connection to a disk that the journal has filled: nothing can be committed before it is emptied."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._full = True

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement == "COMMIT" and self._full:
            raise sqlite3.OperationalError("database or disk is full")
        if "wal_checkpoint" in statement:
            self._full = False
        return self._connection.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def test_a_journal_that_fills_the_disk_is_emptied_before_an_event_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store(tmp_path / "store.db", "A")
        writer = store.log._writer
        writer.connection = FullUntilCheckpoint(writer.connection)  # type: ignore[assignment]
        store.start()
        assert await done(store, keep(store, 1)) is None
        assert [position for position, _ in await store.read(1, 0, 10)] == [1]
        await store.close()

    run(main())


class Disk:
    """A disk whose free bytes a test decides about."""

    f_frsize = 1

    def __init__(self, free: int) -> None:
        self.f_bavail = free


def test_events_are_refused_while_the_journal_still_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What makes room must be written on a disk that is nearly full."""
    disk = Disk(1 << 30)
    monkeypatch.setattr(os, "statvfs", lambda path: disk)

    async def main() -> None:
        store = Store(tmp_path / "store.db", "A")
        store.start()
        await done(store, OUTBOX)
        assert await done(store, keep(store, 1, size=20_000)) is None
        disk.f_bavail = store_writing.SPARE + 10_000
        error = await done(store, keep(store, 2, size=20_000))
        assert "the disk is full" in str(error)
        assert (tmp_path / "store.db-wal").stat().st_size == 0, "the journal was emptied first"
        assert await done(store, Release(1, (1,))) is None
        assert store.tickets.waiting(1) == (0, 0)
        disk.f_bavail = 1 << 30
        await done(store, Resume())
        assert await done(store, keep(store, 3, size=20_000)) is None
        await store.close()

    run(main())


# -- damage ------------------------------------------------------------------------------------------------------


def fill(path: Path, events: int = 300) -> None:
    async def main() -> None:
        store = Store(path, "A")
        store.start()
        await done(store, OUTBOX)
        for number in range(events):
            store.submit(keep(store, number, size=500))
        await done(store, Release(1, ()))
        await store.close()

    run(main())


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_truncated_store_is_moved_aside_and_said(tmp_path: Path, share: float) -> None:
    path = tmp_path / "store.db"
    fill(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    damaged = path.read_bytes()

    async def main() -> None:
        store = Store(path, "A")
        assert "was damaged" in store.warning
        assert "store.db.damaged-1" in store.warning
        assert (tmp_path / "store.db.damaged-1").read_bytes() == damaged
        store.start()
        recovered = await store.read(1, 0, 1_000)
        assert f"{len(recovered):,} entries" in store.warning
        for _, frame in recovered:
            assert len(frame) == 500
        position = store.tickets.next_position()
        assert position > 300 or not recovered
        assert await done(store, Keep(position, 7, 10_000, b"new", 0.0, (Entry(1),), seen=True)) is None
        await store.close()
        again = Store(path, "A")
        assert not again.warning
        await again.close()

    run(main())


def test_most_of_a_store_with_one_bad_page_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    fill(path)
    data = bytearray(path.read_bytes())
    page = len(data) // 4096 // 2
    data[page * 4096 : (page + 1) * 4096] = b"\xff" * 4096
    path.write_bytes(data)

    async def main() -> None:
        store = Store(path, "A")
        assert "was damaged" in store.warning
        store.start()
        rows = (await store.fetch(1, 0, 1_000)).rows
        assert [row.position for row in rows] == list(range(1, 301)), "no event is forgotten"
        lost = [row for row in rows if isinstance(row, Damaged)]
        assert 0 < len(lost) < 100
        assert [row.name for row in lost] == [(7, row.position - 1) for row in lost], "and each has a name"
        await store.close()

    run(main())


def test_a_broker_that_is_killed_while_it_mends_its_store_mends_it_at_its_next_start(tmp_path: Path) -> None:
    """It is killed before each line in turn of what mends; nothing is lost by that."""
    mending = {"_mend", "_salvage", "_put_in_place", "_end_mending"}
    assert all(hasattr(store_writing, name) for name in mending)
    whole = tmp_path / "whole" / "store.db"
    fill(whole)
    data = bytearray(whole.read_bytes())
    page = len(data) // 4096 // 2
    data[page * 4096 : (page + 1) * 4096] = b"\xff" * 4096
    line = deaths = 0
    is_killed = True
    while is_killed:
        path = tmp_path / str(line) / "store.db"
        path.parent.mkdir(mode=0o700)
        path.write_bytes(data)
        pid = os.fork()
        if pid == 0:
            die_at(line, mending)
            store_writing.open_store(path, "A", 1 << 30)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        is_killed = os.WIFSIGNALED(status)
        assert is_killed or os.waitstatus_to_exitcode(status) == 0
        is_in_place = (path.parent / "store.db.damaged-1").exists() and path.exists()
        opened = store_writing.open_store(path, "A", 1 << 30)
        count = opened.connection.execute("SELECT count(*) FROM queue WHERE owner = 1").fetchone()
        opened.connection.close()
        opened.lock.close()
        assert count == (300,)
        assert ("was damaged" in " ".join(opened.warnings)) != is_in_place
        assert (path.parent / "store.db.damaged-1").read_bytes() == data
        left = {one.name for one in path.parent.iterdir()}
        assert not left & {"store.db.new", "store.db.mended", "store.db.damaged-2"}
        line += 1
        deaths += is_killed
    assert deaths > 20


def test_a_damaged_store_of_another_broker_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    fill(path)
    change(path, "UPDATE owner SET name = 'C'")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="is that of the broker A, not of B"):
        Store(path, "B")
    assert path.read_bytes() == before
    assert "store.db.new" not in {one.name for one in tmp_path.iterdir()}


def test_a_journal_without_its_store_is_not_taken_for_that_of_a_new_one(tmp_path: Path) -> None:
    async def write() -> bytes:
        store = Store(tmp_path / "old" / "store.db", "A")
        store.start()
        await done(store, OUTBOX)
        data = (tmp_path / "old" / "store.db-wal").read_bytes()
        await store.close()
        return data

    journal = run(write())
    path = tmp_path / "new" / "store.db"
    path.parent.mkdir(mode=0o700)
    Path(f"{path}-wal").write_bytes(journal)
    store = Store(path, "A")
    assert "was gone, but not its journal" in store.warning
    assert store.recovered.owners == ()
    run(store.close())
    assert (tmp_path / "new" / "store.db.damaged-1-wal").read_bytes() == journal


def test_garbage_is_no_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"not a database at all" * 1_000)
    store = Store(path, "A")
    assert "was damaged" in store.warning
    run(store.close())


def test_a_second_damaged_store_does_not_replace_the_first(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    for content in (b"first", b"second"):
        path.write_bytes(content)
        run(Store(path, "A").close())
    assert (tmp_path / "store.db.damaged-1").read_bytes() == b"first"
    assert (tmp_path / "store.db.damaged-2").read_bytes() == b"second"


def test_a_store_of_another_broker_version_or_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    run(Store(path, "A").close())
    with pytest.raises(ConfigError, match="is that of the broker A, not of B"):
        Store(path, "B")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(ConfigError, match="has format 99, and this version of Covey reads formats up to 3"):
        Store(path, "A")
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    with pytest.raises(ConfigError, match="no store of Covey's"):
        Store(other, "A")
    assert list(tmp_path.glob("*damaged*")) == []


def test_one_process_has_a_store_at_a_time(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db", "A")
    with pytest.raises(ConfigError, match="in use by another broker"):
        Store(tmp_path / "store.db", "A")
    run(store.close())
    run(Store(tmp_path / "store.db", "A").close())


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be used"):
        Store(tmp_path / "file" / "store.db", "A")


# -- what the log finds itself -----------------------------------------------------------------------------------


async def filled(path: Path, count: int) -> Store:
    """Return a store with so many events for the owners 1 and 2, each a second older than the next."""
    store = Store(path / "store.db", "A")
    store.start()
    for number in range(count):
        store.submit(keep(store, number, owners=(1, 2))._replace(stored_s=float(number)))
    await store.settle()
    return store


def test_the_oldest_events_are_dropped_and_named(tmp_path: Path) -> None:
    async def main() -> None:
        store = await filled(tmp_path, 200)
        outcome = await store.outcome(Trim(1, 150))
        assert outcome[:2] == (None, tuple(range(1, 151)))
        assert [position for position, _ in await store.read(1, 0, 500)] == list(range(151, 201))
        assert store.tickets.waiting(1) == (50, 50 * 50)
        assert store.tickets.waiting(2) == (200, 200 * 50), "another owner has its own"
        await store.close()

    run(main())


def test_what_is_too_old_is_dropped_and_named(tmp_path: Path) -> None:
    async def main() -> None:
        store = await filled(tmp_path, 20)
        assert (await store.outcome(Expire(1, 0.0, 100))).gone == ()
        assert (await store.outcome(Expire(1, 5.0, 3))).gone == (1, 2, 3)
        assert (await store.outcome(Expire(1, 5.0, 100))).gone == (4, 5)
        assert (await store.outcome(Expire(7, 5.0, 100))).gone == ()
        assert len(await store.read(1, 0, 100)) == 15
        await store.close()

    run(main())


def test_all_up_to_a_position_is_released(tmp_path: Path) -> None:
    async def main() -> None:
        store = await filled(tmp_path, 200)
        assert await store.outcome(ReleaseUpTo(1, 150)) == Outcome()
        assert [position for position, _ in await store.read(1, 0, 500)] == list(range(151, 201))
        assert await done(store, ReleaseUpTo(2, 1_000)) is None
        assert store.tickets.waiting(2) == (0, 0)
        assert rows(tmp_path / "store.db", "SELECT count(*) FROM event") == [(50,)]
        await store.close()

    run(main())


def test_a_batch_is_carried_out_wholly_or_not_at_all(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store(tmp_path / "store.db", "A")
        store.start()
        bad = Owner([], "outbox", "", "", "C")  # type: ignore[arg-type]
        errors: list[CoveyError | None] = []

        def then(outcome: Any, now_s: float) -> Any:
            errors.append(outcome.error)
            return iter(())

        store.perform([store.tickets.commit(OUTBOX, keep(store, 1), then=then)])
        store.perform([store.tickets.commit(OUTBOX._replace(id=5, name="D"), bad, keep(store, 2), then=then)])
        await store.settle()
        assert [error is None for error in errors] == [True, False]
        assert [position for position, _ in await store.read(1, 0, 9)] == [1]
        assert rows(tmp_path / "store.db", "SELECT id FROM owner") == [(1,)]
        await store.close()

    run(main())


def test_a_read_shows_what_was_reported_before_it(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store(tmp_path / "store.db", "A")
        store.start()
        reported: list[int] = []
        reads: list[tuple[list[int], list[int]]] = []

        def then(read: Any, now_s: float) -> Any:
            reads.append(([row.position for row in read.rows], list(reported)))
            return iter(())

        for number in range(300):
            event = keep(store, number)
            store.submit(event, lambda error, position=event.position: reported.append(position))  # type: ignore[misc]
            store.perform([store.tickets.fetch(1, 0, 1_000, then)])
            if number % 50 == 0:
                await asyncio.sleep(0.002)
        await store.settle()
        await store.fetch(1, 0, 1)
        assert len(reads) == 300
        assert all(shown == before for shown, before in reads)
        await store.close()

    run(main())


def test_a_read_is_bounded_in_bytes(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store(tmp_path / "store.db", "A")
        store.start()
        for number in range(5):
            store.submit(keep(store, number, size=400_000))
        await store.settle()
        read = await store.fetch(1, 0, 10)
        assert [row.position for row in read.rows] == [1, 2, 3]
        assert not read.is_end
        read = await store.fetch(1, 3, 2)
        assert not read.is_end, "the limit is met"
        read = await store.fetch(1, 3, 3)
        assert [row.position for row in read.rows] == [4, 5]
        assert read.is_end
        await store.close()

    run(main())


@pytest.mark.parametrize("table", ["event", "queue"])
def test_a_damaged_event_is_told_apart_when_it_is_read(tmp_path: Path, table: str) -> None:
    async def main() -> None:
        store = Store(tmp_path / "store.db", "A")
        store.start()
        for number in (1, 2, 3):
            other = b"other" if table == "queue" else None
            await done(store, keep(store, number)._replace(entries=(Entry(1, other),)))
        with contextlib.closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as connection:
            column = "id" if table == "event" else "position"
            connection.execute(f"UPDATE {table} SET frame = x'00' WHERE {column} = 2")
        read = await store.fetch(1, 0, 10)
        assert [type(row) for row in read.rows] == [Row, Damaged, Row]
        assert read.rows[1] == Damaged(2, (7, 2))
        await store.close()

    run(main())


# -- what arrives again ----------------------------------------------------------------------------------------------


def arrived_again(number: int, frame: bytes, position: int) -> Renew:
    return Renew(position, 7, number, frame, 5.0)


@pytest.mark.parametrize(
    "damage",
    ["frame = x'00'", "frame = NULL", "number = 77", "publisher = 'zz'", "stored_s = 1e9", "checksum = 1"],
)
def test_a_good_copy_that_arrives_again_takes_the_place_of_a_damaged_event(
    tmp_path: Path, damage: str
) -> None:
    path = tmp_path / "store.db"
    copies = [encode_event(bytes(30), b"", family=0, publisher=7, number=number) for number in (1, 2, 3)]

    async def main() -> None:
        store = Store(path, "A")
        store.start()
        for number, frame in enumerate(copies, start=1):
            await done(store, keep(store, number, owners=(1, 2))._replace(frame=frame))
        await done(store, OUTBOX)
        await done(store, Owner(2, "subscription", "", "r", "mine"))
        change(path, f"UPDATE event SET {damage} WHERE id = 2")
        outcome = await store.outcome(arrived_again(1, b"other", 1))
        assert outcome == Outcome(), "what is right stays as it is"
        assert (await store.outcome(arrived_again(2, copies[1], 2))).renewed == (2,)
        assert (await store.outcome(arrived_again(2, copies[1], 2))).renewed == (), "it is right now"
        assert (await store.outcome(arrived_again(9, copies[2], 9))).renewed == (), "nobody waits for it"
        await store.close()
        again = Store(path, "A")
        again.start()
        for owner in (1, 2):
            assert [frame for _, frame in await again.read(owner, 0, 9)] == copies
            assert again.tickets.waiting(owner) == (3, sum(map(len, copies)))
        for owner in (1, 2):
            assert await done(again, ReleaseUpTo(owner, 3)) is None
        assert rows(path, "SELECT count(*) FROM event") == [(0,)]
        await again.close()

    run(main())


def test_sizes_are_those_of_the_copies(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store(tmp_path / "store.db", "A")
        store.start()
        await done(store, OUTBOX)
        await done(store, keep(store, 1, size=50))
        change(tmp_path / "store.db", "UPDATE event SET checksum = 1 WHERE id = 1")
        await done(store, arrived_again(1, bytes(80), 1))
        assert store.tickets.waiting(1) == (1, 80)
        await done(store, ReleaseUpTo(1, 1))
        assert store.tickets.waiting(1) == (0, 0)
        await store.close()

    run(main())


def test_a_damaged_form_is_found_again_in_the_row_that_was_renewed(tmp_path: Path) -> None:
    """A neighbour gets an event in another form, which is damaged as well: the row has a copy for it."""
    path = tmp_path / "store.db"
    frame = encode_event(bytes(30), b"", family=0, publisher=7, number=1)

    async def main() -> None:
        store = Store(path, "A")
        store.start()
        await done(store, OUTBOX)
        one = keep(store, 1)._replace(frame=frame, entries=(Entry(1, b"another form"),))
        await done(store, one)
        change(path, "UPDATE event SET frame = x'00' WHERE id = 1")
        change(path, "UPDATE queue SET frame = x'00' WHERE position = 1")
        assert (await store.outcome(arrived_again(1, frame, 1))).renewed == (1,)
        assert (await store.fetch(1, 0, 1)).rows == (Damaged(1, (7, 1)),)
        assert await store.find((7, 1)) == {(7, 1): frame}
        await store.close()

    run(main())


def test_the_name_of_a_lost_event_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    fill(path, 5)

    async def main() -> None:
        store = Store(path, "A")
        store.start()
        assert store.recovered.names == {(7, number): number + 1 for number in range(5)}
        await done(store, Unsee(3))
        await store.close()

    run(main())
    again = Store(path, "A")
    assert again.recovered.names == {(7, number): number + 1 for number in (0, 1, 3, 4)}
    run(again.close())


def test_names_say_nothing_of_events_once_a_store_was_mended(tmp_path: Path) -> None:
    """Entries of queues may have been on the page that cannot be read: nobody is told that those events are here."""
    path = tmp_path / "store.db"
    fill(path)
    data = bytearray(path.read_bytes())
    page = len(data) // 4096 // 2
    data[page * 4096 : (page + 1) * 4096] = b"\xff" * 4096
    path.write_bytes(data)

    async def main() -> None:
        store = Store(path, "A")
        assert "was damaged" in store.warning
        assert store.recovered.names == {}
        assert len(store.recovered.doubtful) == 300
        store.start()
        await done(store, keep(store, 5))
        await store.close()

    run(main())
    again = Store(path, "A")
    assert list(again.recovered.names) == [(7, 5)], "it was taken again since"
    assert len(again.recovered.doubtful) == 299
    run(again.close())


def test_the_name_of_an_event_whose_row_is_gone_is_doubtful(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    fill(path, 5)
    change(path, "UPDATE event SET id = 1000 WHERE id = 5")  # the last one: the tables are in order
    store = Store(path, "A")
    assert (7, 4) not in store.recovered.names
    assert store.recovered.doubtful == ((7, 4),)
    run(store.close())


# -- names that were seen, and meta --------------------------------------------------------------------------------


def change(path: Path, statement: str) -> None:
    """Change what is on disk, as a bit that flips does."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute(statement).rowcount == 1


@pytest.mark.parametrize("damage", ["owner = 33", "position = 64", "checksum = 5"])
def test_a_damaged_entry_makes_all_names_doubtful(tmp_path: Path, damage: str) -> None:
    """An event is there, and nobody knows for whom: if it is sent again, it is to be taken for all who want it."""
    path = tmp_path / "store.db"
    fill(path, 5)
    change(path, f"UPDATE queue SET {damage} WHERE position = 3")
    store = Store(path, "A")
    assert store.recovered.names == {}
    assert store.recovered.doubtful == tuple((7, number) for number in range(5))
    run(store.close())


@pytest.mark.parametrize(
    "damage", ["number = 77", "publisher = 77", "position = 4611686018427387904", "number = 'zz'"]
)
def test_a_damaged_name_is_nobodys(tmp_path: Path, damage: str) -> None:
    """Otherwise an event that has this name would be said to be taken, and be lost."""
    path = tmp_path / "store.db"
    fill(path, 5)
    change(path, f"UPDATE seen SET {damage} WHERE number = 3")
    store = Store(path, "A")
    assert "1 damaged rows among the names" in store.warning
    assert list(store.recovered.names) == [(7, number) for number in (0, 1, 2, 4)]
    assert store.recovered.last < 1 << 62
    assert list(store.recovered.owners) == [OUTBOX], "nothing else is touched"
    assert list(tmp_path.glob("*damaged*")) == []
    run(store.close())
    again = Store(path, "A")
    assert again.warning == "", "it is said once"
    run(again.close())


@pytest.mark.parametrize("name", ["last", "commits", "broker"])
def test_damaged_meta_is_mended_by_the_mark(tmp_path: Path, name: str) -> None:
    path = tmp_path / "store.db"

    async def write() -> None:
        store = Store(path, "A")
        store.start()
        await done(store, OUTBOX)
        for number in range(9):
            await done(store, keep(store, number)._replace(seen=False))
        await done(store, ReleaseUpTo(1, 9))
        await store.close()

    run(write())
    value = "'B'" if name == "broker" else "1"
    change(path, f"UPDATE meta SET value = {value} WHERE name = '{name}'")
    store = Store(path, "A")
    assert f"has no {name} with a right checksum" in store.warning
    assert "missing" not in store.warning
    assert store.recovered.missing == 0
    assert store.tickets.next_position() > 9
    assert list(store.recovered.owners) == [OUTBOX]
    run(store.close())
    again = Store(path, "A")
    assert again.warning == ""
    run(again.close())


# -- names of damaged events -----------------------------------------------------------------------------------------


def published(number: int, position: int, *entries: Entry) -> Keep:
    """Return an event that nobody confirms: its name is not remembered."""
    frame = encode_event(b"content", b"payload %d" % number, family=0, publisher=7, number=number)
    return Keep(position, 7, number, frame, 0.0, entries or (Entry(1),), seen=False)


@pytest.mark.parametrize(
    ("damage", "is_certain"),
    [
        ("number = 3", False),
        ("publisher = 8", False),
        ("number = 'zz'", False),
        ("frame = x'00'", False),
        ("frame = cast(substr(frame, 1, length(frame) - 1) || 'x' AS BLOB)", True),
        ("stored_s = 9.0", True),
        ("checksum = 1", True),
    ],
)
def test_a_damaged_event_has_a_name_only_if_its_row_and_its_frame_agree(
    tmp_path: Path, damage: str, is_certain: bool
) -> None:
    """Otherwise another event would be taken for its copy."""
    path = tmp_path / "store.db"

    async def main() -> None:
        store = Store(path, "A")
        store.start()
        await done(store, OUTBOX)
        for number in range(1, 7):
            await done(store, published(number, number))
        change(path, f"UPDATE event SET {damage} WHERE id = 4")
        rows = (await store.fetch(1, 0, 10)).rows
        assert [row.position for row in rows if isinstance(row, Row)] == [1, 2, 3, 5, 6]
        assert rows[3] == Damaged(4, (7, 4) if is_certain else None)
        await store.close()

    run(main())


def test_a_damaged_row_gives_no_event_another_name(tmp_path: Path) -> None:
    """It says that event 4 is event 3; one who waits has the event in other bytes, which are good."""
    path = tmp_path / "store.db"

    async def main() -> None:
        store = Store(path, "A")
        store.start()
        await done(store, OUTBOX)
        other = encode_event(b"content", b"other", family=0, publisher=7, number=4)
        await done(store, published(4, 4, Entry(1, other), Entry(2)))
        assert await store.find((7, 4)) == {(7, 4): published(4, 4).frame}
        change(path, "UPDATE event SET number = 3 WHERE id = 4")
        assert await store.find((7, 3), (7, 4)) == {}
        assert (await store.fetch(2, 0, 10)).rows == (Damaged(4, None),)
        change(path, "UPDATE event SET number = 4, frame = x'00' WHERE id = 4")
        assert await store.find((7, 3), (7, 4)) == {(7, 4): other}
        await store.close()

    run(main())


# -- owners that go ------------------------------------------------------------------------------------------------


def test_what_waits_for_an_owner_goes_when_another_takes_its_name(tmp_path: Path) -> None:
    """Its Forget may have failed: nobody would ever read its queue."""

    async def main() -> None:
        store = Store(tmp_path / "store.db", "A")
        store.start()
        await done(store, OUTBOX)
        await done(store, Owner(2, "outbox", "", "", "C"))
        for number in range(5):
            await done(store, keep(store, number, owners=(1, 2)))
        assert await done(store, OUTBOX._replace(generation=1)) is None
        assert store.tickets.waiting(1) == (5, 250), "this is the same one"
        assert await done(store, OUTBOX._replace(id=3)) is None
        assert (store.tickets.waiting(1), store.tickets.waiting(2)) == ((0, 0), (5, 250))
        assert await done(store, Forget(2)) is None
        assert rows(tmp_path / "store.db", "SELECT count(*) FROM event") == [(0,)]
        await store.close()

    run(main())


def test_orphans_are_removed_and_their_numbers_are_not_given_again(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def main() -> None:
        store = Store(path, "A")
        store.start()
        await done(store, OUTBOX)
        await done(store, Owner(7, "outbox", "", "", "C"))
        for number in range(5):
            await done(store, keep(store, number, owners=(1, 7)))
        await store.close()
        change(path, "DELETE FROM owner WHERE id = 7")  # as versions before have left it
        store = Store(path, "A")
        assert "5 entries of queues that are gone" in " ".join(store.recovered.notices)
        assert store.recovered.sizes == {1: (5, 250)}
        assert store.recovered.last_owner == 7
        store.start()
        await done(store, Forget(1))
        assert rows(path, "SELECT count(*) FROM event") == [(0,)], "nothing is left of them"
        await store.close()
        store = Store(path, "A")
        assert (store.recovered.notices, store.recovered.owners, store.recovered.last_owner) == ((), (), 7)
        await store.close()

    run(main())


def test_numbers_of_nobody_are_forgotten(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store(tmp_path / "store.db", "A")
        store.start()
        await done(store, OUTBOX)
        await done(store, keep(store, 1))
        store.perform([store.tickets.forget(1)])
        await store.settle()
        assert store.tickets._sizes == {}
        await store.close()

    run(main())
