"""A store whose end is missing says so when it is opened, and gives no position twice."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
from pathlib import Path

import pytest
from tests.oracles.logs import Store

from covey.broker.durable import mark as marks
from covey.broker.durable.log import Clock, Damaged, Entry, Keep, Owner, Release
from covey.broker.durable.mark import Mark, Marker, State, mark_of, read_mark, write_mark
from covey.errors import ConfigError

OWNER = Owner(1, "subscription", "ann", "reader", "mine", filter=b"filter")


def event(position: int) -> Keep:
    return Keep(position, 7, position, b"event %d" % position, float(position), (Entry(1),), seen=True)


def crashed(path: Path, events: int = 20) -> Path:
    """Return the directory of a store that was killed when it had kept so many events, one a transaction."""
    left = path / "crashed"

    async def main() -> None:
        store = Store(path / "running" / "store.db", "A")
        store.start()
        await store.done(OWNER)
        for position in range(1, events + 1):
            await store.done(event(position))
        shutil.copytree(path / "running", left)
        await store.close()

    asyncio.run(main())
    # As it is at most a second later, whatever happens to the other files.
    write_mark(left / "store.db", Mark(events + 1, events, 1e9))
    return left


def opened(directory: Path) -> Store:
    store = Store(directory / "store.db", "A")
    asyncio.run(store.close())
    return store


def test_a_store_that_was_killed_and_is_whole_is_not_warned_of(tmp_path: Path) -> None:
    store = opened(crashed(tmp_path))
    assert store.warning == ""
    assert (store.recovered.missing, store.recovered.known) == (0, 20)
    assert store.tickets.next_position() > 20


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_a_journal_whose_end_is_missing_is_noticed(tmp_path: Path, share: float) -> None:
    left = crashed(tmp_path)
    journal = left / "store.db-wal"
    data = journal.read_bytes()
    journal.write_bytes(data[: int(len(data) * share)])
    store = opened(left)
    missing = store.recovered.missing
    assert missing > 0
    assert f"{missing:,} events that it had confirmed" in store.warning
    assert "2001-09-09" in store.warning, "the mark's time"
    assert store.recovered.known == 20 - missing
    assert store.tickets.next_position() > 20, "positions of events that are lost are not given again"
    again = opened(left)
    assert again.warning == "", "it is said once"
    assert again.tickets.next_position() > 20


@pytest.mark.parametrize("flipped", [40, 3_000, 20_000, 60_000])
def test_a_flipped_bit_in_the_journal_is_noticed(tmp_path: Path, flipped: int) -> None:
    left = crashed(tmp_path)
    journal = left / "store.db-wal"
    data = bytearray(journal.read_bytes())
    data[flipped] ^= 4
    journal.write_bytes(data)
    assert opened(left).recovered.missing > 0


def test_a_missing_journal_is_noticed(tmp_path: Path) -> None:
    left = crashed(tmp_path)
    (left / "store.db-wal").unlink()
    store = opened(left)
    assert store.recovered.missing > 0
    assert "the end of the store" in store.warning


def test_a_missing_store_is_noticed(tmp_path: Path) -> None:
    left = crashed(tmp_path)
    for name in ("store.db", "store.db-wal", "store.db-shm"):
        (left / name).unlink()
    store = opened(left)
    assert store.recovered.missing == 20
    assert f"the store {left / 'store.db'} is missing" in store.warning


def test_an_older_copy_of_the_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def write(first: int, last: int) -> None:
        store = Store(path, "A")
        store.start()
        for position in range(first, last):
            await store.done(event(position))
        await store.close()

    asyncio.run(write(1, 4))
    older = path.read_bytes()
    asyncio.run(write(4, 10))
    path.write_bytes(older)
    store = opened(tmp_path)
    assert (store.recovered.known, store.recovered.missing) == (3, 6)
    assert store.tickets.next_position() > 9


def test_transactions_that_kept_nothing_are_missed_too(tmp_path: Path) -> None:
    left = crashed(tmp_path)
    write_mark(left / "store.db", Mark(22, 20, 1e9))
    store = opened(left)
    assert "1 transactions more, with 0 events" in store.warning
    assert store.recovered.missing == 0


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_store_without_a_mark_says_that_it_cannot_tell(tmp_path: Path, how: str) -> None:
    left = crashed(tmp_path)
    if how == "missing":
        mark_of(left / "store.db").unlink()
    else:
        data = bytearray(mark_of(left / "store.db").read_bytes())
        data[-3] ^= 1
        mark_of(left / "store.db").write_bytes(data)
    store = opened(left)
    assert "a missing end would not be noticed" in store.warning
    assert store.recovered.missing == 0
    assert opened(left).warning == ""


def test_a_mark_that_cannot_be_written_is_said_once_and_when_it_can_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "EVERY_S", 0.001)
    path = tmp_path / "store.db"
    tried: list[bool] = []
    is_broken = False
    write = marks.write_mark

    def faulty(store: Path, mark: Mark) -> None:
        tried.append(is_broken)
        if is_broken:
            raise PermissionError(13, "Permission denied")
        write(store, mark)

    monkeypatch.setattr(marks, "write_mark", faulty)

    async def until(count: int) -> None:
        async with asyncio.timeout(30):
            while len(tried) < count:
                await asyncio.sleep(0.001)

    async def main() -> None:
        nonlocal is_broken
        store = Store(path, "A")
        store.start()
        assert await store.done(OWNER) is None
        is_broken = True
        tried.clear()
        assert await store.done(event(1)) is None
        await until(marks.PATIENCE - 1)
        await until(4 * marks.PATIENCE)
        assert await store.done(event(2)) is None, "and nothing else follows from it"
        assert ["cannot be written (Permission denied)" in one.text for one in store.notices] == [True]
        is_broken = False
        await until(len(tried) + 1)
        await store.settle()
        assert [one.is_right for one in store.notices] == [False, True]
        assert not any(one.is_end for one in store.notices)
        await store.close()

    asyncio.run(main())
    mark = read_mark(path)
    assert mark is not None
    assert mark.last == 2


def test_a_disk_that_is_full_for_a_moment_is_not_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = Marker(tmp_path / "store.db", 1, 1, None)

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    for _ in range(3):
        marker.note(1, 1, None)
        with monkeypatch.context() as patch:
            patch.setattr(marks, "write_mark", full)
            assert [marker.write() for _ in range(marks.PATIENCE - 1)] == [None] * (marks.PATIENCE - 1)
            assert marker.due_in_s() is not None
        assert marker.write() is None
        assert marker.due_in_s() is None


def test_the_mark_follows_what_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written within its time also if nothing more comes, and never before what it speaks of is on disk."""
    monkeypatch.setattr(marks, "EVERY_S", 0.02)
    path = tmp_path / "store.db"

    def on_disk() -> tuple[int, int]:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            rows = dict(connection.execute("SELECT name, value FROM meta").fetchall())
        return rows["commits"], rows["last"]

    async def main() -> None:
        store = Store(path, "A")
        store.start()
        for position in range(1, 30):
            await store.done(event(position))
            mark = read_mark(path)
            assert mark is not None
            assert (mark.commits, mark.last) <= on_disk()
        await store.done(Clock(123.0, 1e9))
        mark = read_mark(path)
        for _ in range(1_000):
            if mark is not None and mark.log_s == 123.0:
                break
            await asyncio.sleep(0.01)
            mark = read_mark(path)
        assert mark is not None
        assert (mark.commits, mark.last, mark.log_s, mark.state) == (29, 29, 123.0, State.OPEN)
        await store.close()
        mark = read_mark(path)
        assert mark is not None
        assert mark.state is State.CLOSED

    asyncio.run(main())
    store = opened(tmp_path)
    assert store.recovered.last == store.recovered.known == 29, "closed in order, there is no gap"
    assert store.recovered.clock is not None
    assert store.recovered.clock.log_s == 123.0


def test_a_store_of_another_broker_keeps_its_mark(tmp_path: Path) -> None:
    left = crashed(tmp_path)
    before = mark_of(left / "store.db").read_bytes()
    with pytest.raises(ConfigError):
        Store(left / "store.db", "B")
    assert mark_of(left / "store.db").read_bytes() == before


# -- bits that flip ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE owner SET filter = x'00'",
        "UPDATE owner SET name = 'other'",
        "UPDATE owner SET uid = uid + 1",
    ],
)
def test_a_damaged_record_of_a_subscription_is_noticed_and_said(tmp_path: Path, change: str) -> None:
    left = crashed(tmp_path)
    with contextlib.closing(sqlite3.connect(left / "store.db", isolation_level=None)) as connection:
        connection.execute(change)
    store = opened(left)
    assert "the record of the subscription reader/" in store.warning
    assert store.recovered.owners == ()
    assert (left / "store.db.damaged-1").exists()


@pytest.mark.parametrize(
    ("change", "damaged"),
    [
        ("UPDATE event SET frame = x'00' WHERE id = 20", Damaged(20, (7, 20))),
        ("UPDATE event SET stored_s = -1e300 WHERE id = 20", Damaged(20, (7, 20))),
        ("UPDATE event SET publisher = 8 WHERE id = 20", Damaged(20, (7, 20))),
        ("UPDATE event SET id = 21 WHERE id = 20", Damaged(20, (7, 20))),
        ("UPDATE event SET frame = NULL, stored_s = 'x' WHERE id = 20", Damaged(20, (7, 20))),
        ("UPDATE queue SET position = 21 WHERE position = 20", Damaged(21)),
        ("UPDATE queue SET frame = x'00' WHERE position = 20", Damaged(20, (7, 20))),
        ("UPDATE queue SET checksum = 1 WHERE position = 20", Damaged(20)),
    ],
)
def test_every_change_of_a_row_is_damage(tmp_path: Path, change: str, damaged: Damaged) -> None:
    left = crashed(tmp_path)
    with contextlib.closing(sqlite3.connect(left / "store.db", isolation_level=None)) as connection:
        connection.execute(change)

    async def main() -> None:
        store = Store(left / "store.db", "A")
        store.start()
        rows = (await store.fetch(1, 18, 10)).rows
        assert rows[-1] == damaged
        assert await store.done(Release(1, (damaged.position,))) is None
        assert len((await store.fetch(1, 0, 100)).rows) == 19
        await store.close()

    asyncio.run(main())
