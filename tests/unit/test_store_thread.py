"""The store's thread: whatever it is asked and whatever it finds on the disk, it answers everything, and goes on."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.oracles.logs import Store

from covey.broker.durable import sqlite
from covey.broker.durable.log import (
    Batch,
    Committed,
    Damaged,
    Entry,
    Fetch,
    Find,
    Found,
    Keep,
    Notice,
    Operation,
    Owner,
    Read,
    Release,
)
from covey.broker.durable.sqlite import SqliteLog, StoreWriter
from covey.errors import ProtocolError, StoreError
from covey.protocol.events import decode_acknowledge, encode_acknowledge
from covey.protocol.frames import LAST_POSITION

OUTBOX = Owner(1, "outbox", "", "", "B")


def keep(number: int) -> Keep:
    return Keep(number, 7, number, b"event %d" % number, 0.0, (Entry(1),), seen=True)


async def opened(path: Path, events: int = 5) -> Store:
    store = Store(path, "A")
    store.start()
    operations: list[Operation] = [OUTBOX, *map(keep, range(1, events + 1))]
    for operation in operations:
        store.submit(operation)
    await store.settle()
    assert store.tickets.kept == events
    return store


@pytest.mark.parametrize("cumulative", [False, True])
def test_a_position_that_no_store_gives_is_no_acknowledgement(cumulative: bool) -> None:
    last = LAST_POSITION - 1
    said = decode_acknowledge(encode_acknowledge(1, [last], cumulative=cumulative))
    assert said.positions == (last,)
    with pytest.raises(ProtocolError, match="no position"):
        decode_acknowledge(encode_acknowledge(1, [3, last + 1], cumulative=cumulative))


def test_what_sqlite_cannot_take_fails_alone(tmp_path: Path) -> None:
    """As OverflowError, which is no error of SQLite's."""

    async def main() -> None:
        store = await opened(tmp_path / "store.db")
        answers = await asyncio.gather(
            store.done(Release(1, (1,))),
            store.done(Release(1, ((1 << 64) - 1,))),
            store.done(keep(6)),
        )
        assert [type(answer) for answer in answers] == [type(None), StoreError, type(None)]
        assert [position for position, _ in await store.read(1, 0, 10)] == [2, 3, 4, 5, 6]
        assert (await store.fetch(1, 1 << 64, 10)).error is not None
        assert await store.done(Release(1, (2,))) is None
        await store.close()

    asyncio.run(main())


DAMAGES = {
    "queue.position text": "UPDATE queue SET position = 'zz' WHERE position = 3",
    "queue.position real": "UPDATE queue SET position = 3.5 WHERE position = 3",
    "queue.checksum": "UPDATE queue SET checksum = 'a' WHERE position = 3",
    "event.publisher": "UPDATE event SET publisher = 'zz' WHERE id = 3",
    "event.stored_s": "UPDATE event SET stored_s = 'zz' WHERE id = 3",
    "event.frame": "UPDATE event SET frame = NULL WHERE id = 3",
    "event.checksum": "UPDATE event SET checksum = x'00' WHERE id = 3",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_rows_whose_types_are_damaged_while_the_broker_runs(tmp_path: Path, damage: str) -> None:
    async def main() -> None:
        store = await opened(tmp_path / "store.db")
        with contextlib.closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as connection:
            connection.execute(damage)
        read = await store.fetch(1, 0, 10)
        assert read.error is None
        assert read.is_end
        good = [row.position for row in read.rows if not isinstance(row, Damaged)]
        assert good == [1, 2, 4, 5]
        if "SET position" in damage:
            assert len(read.rows) == 4
            assert read.is_unsound, "somebody must be told"
        else:
            assert isinstance(read.rows[2], Damaged)
            assert not read.is_unsound
        assert (await store.find((7, 2), (7, 3)))[7, 2] == b"event 2"
        assert await store.done(Release(1, (1, 2, 4, 5))) is None
        await store.close()

    asyncio.run(main())


def test_the_thread_survives_whatever_is_raised_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        store = await opened(tmp_path / "store.db")

        def fails(*arguments: Any) -> Any:
            raise ValueError("of a kind that nobody has thought of")

        with monkeypatch.context() as patch:
            patch.setattr(SqliteLog, "_commit", fails)
            patch.setattr(sqlite, "_read", fails)
            assert isinstance(await store.done(Release(1, (1,))), StoreError)
            assert (await store.fetch(1, 0, 10)).error is not None
        assert any("nobody has thought of" in one.text for one in store.notices)
        assert not any(one.is_end for one in store.notices)
        assert await store.done(Release(1, (1,))) is None
        await store.close()

    asyncio.run(main())


def test_a_transaction_that_fails_by_any_error_is_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        store = await opened(tmp_path / "store.db")

        def fails(*arguments: Any) -> Any:
            raise ValueError("within a transaction")

        with monkeypatch.context() as patch:
            patch.setattr(StoreWriter, "_release_each", fails)
            assert isinstance(await store.done(keep(6)), StoreError)
        store.submit(keep(7))  # refused up to a Resume
        assert [position for position, _ in await store.read(1, 0, 10)] == [1, 2, 3, 4, 5]
        assert await store.done(Release(1, (1,))) is None
        await store.close()

    asyncio.run(main())


def test_a_log_that_ends_says_so_and_answers_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not end by any error; if it does by something else, nobody waits for it in vain."""

    async def main() -> None:
        store = await opened(tmp_path / "store.db")

        def ends(*arguments: Any) -> Any:
            raise SystemExit

        monkeypatch.setattr(SqliteLog, "_commit", ends)
        assert isinstance(await store.done(Release(1, (1,))), StoreError)
        assert [one.is_end for one in store.notices] == [True]
        assert isinstance(await store.done(keep(6)), StoreError)
        assert (await store.fetch(1, 0, 10)).error is not None
        await store.close()

    asyncio.run(main())


def test_what_is_answered_is_not_answered_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error behind an answer: only what has none gets another."""
    log = SqliteLog(tmp_path / "store.db", "A")
    log.open()
    answers: list[Any] = []

    def fails() -> float:
        raise ValueError("behind the answers")

    monkeypatch.setattr(log._marker, "due_in_s", fails)
    log._next = log._waiting.get  # type: ignore[method-assign]
    log.submit([Batch(1, (OUTBOX,)), Fetch(2, 1, 0, 10)])
    log.start(answers.extend)
    log._waiting.put(None)
    assert log._thread is not None
    log._thread.join()
    assert [one.ticket for one in answers if isinstance(one, Read)] == [2]
    assert [one.tickets for one in answers if isinstance(one, Committed)] == [(1,)]
    assert [one.is_end for one in answers if isinstance(one, Notice)] == [False]
    log._close()


def test_commits_and_reads_do_not_wait_for_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search goes through the whole store, a slice between two transactions."""
    monkeypatch.setattr(sqlite, "SCANNED", 10)
    log = SqliteLog(tmp_path / "store.db", "A")
    log.open()
    log.submit([Batch(1, (OUTBOX, *map(keep, range(1, 201))))])
    log.submit([Find(2, ((7, 200), (7, 5), (9, 9))), Find(3, ((7, 5),)), Fetch(4, 1, 0, 1)])
    log.submit([Batch(5, (Release(1, (1,)),))])
    answers: list[Any] = []
    is_done = threading.Event()

    def report(some: Sequence[Any]) -> None:
        answers.extend(some)
        if isinstance(some[-1], Found):
            is_done.set()

    log.start(report)
    assert is_done.wait(30.0)
    log.close()
    assert [type(one) for one in answers] == [Read, Committed, Found, Found]
    assert answers[1].tickets == (1, 5)
    assert answers[2] == Found(2, {(7, 200): b"event 200", (7, 5): b"event 5"})
    assert answers[3] == Found(3, {(7, 5): b"event 5"}), "one search is for all that wait"


def test_a_search_asks_the_database_for_slices_and_not_for_each_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many statements there are, and how many rows come to Python, however many events there are."""
    statements: list[str] = []

    async def main() -> None:
        store = await opened(tmp_path / "store.db", 500)
        monkeypatch.setattr(sqlite, "SCANNED", 100)
        connection = store.log._writer.connection
        connection.set_trace_callback(statements.append)
        assert await store.find((9, 9)) == {}
        connection.set_trace_callback(None)
        await store.close()

    asyncio.run(main())
    assert 0 < len(statements) <= 2 * 2 * (500 // 100 + 1)
    assert all("LIMIT 1 OFFSET" in one or "IN (VALUES" in one for one in statements)


def test_a_row_whose_name_is_damaged_can_be_released(tmp_path: Path) -> None:
    """Which an index by name would not allow."""

    async def main() -> None:
        path = tmp_path / "store.db"
        store = await opened(path)
        await store.close()
        (page,) = [
            number
            for number in range(len(path.read_bytes()) // 4096)
            if b"event 3" in path.read_bytes()[number * 4096 : (number + 1) * 4096]
        ]
        data = bytearray(path.read_bytes())
        at = data.index(b"event 3", page * 4096)
        record = data[at - 30 : at]
        # The name stands before the time and the checksum: publisher 7 is one byte there.
        data[at - 30 + record.rindex(b"\x07\x03")] = 9
        path.write_bytes(data)
        store = Store(path, "A")
        store.start()
        read = await store.fetch(1, 0, 10)
        assert read.rows[2] == Damaged(3, (7, 3)), "its name is remembered elsewhere"
        assert await store.find((7, 3), (9, 3)) == {}
        assert await store.done(Release(1, (1, 2, 3, 4, 5))) is None
        assert store.tickets.waiting(1) == (0, 0)
        await store.close()

    asyncio.run(main())
