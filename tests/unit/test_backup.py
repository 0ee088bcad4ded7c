"""A copy of a store, made while the store is written: it is whole, says that it is a copy, and overwrites nothing."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.oracles.logs import Store

from covey import cli
from covey.broker.durable import backup as backups
from covey.broker.durable.backup import back_up
from covey.broker.durable.log import Entry, Keep, Owner, Release, Row
from covey.broker.durable.mark import Mark, State, read_mark, write_mark
from covey.broker.durable.sqlite import COPY_GAP, FORMAT, pragma
from covey.broker.plans import FILE, keep_state
from covey.broker.private_files import with_sum
from covey.errors import ConfigError, CoveyError, StoreError
from covey.protocol.control import PlanState

OWNER = Owner(1, "subscription", "ann", "reader", "mine", filter=b"filter")


def event(position: int, size: int = 100) -> Keep:
    frame = (b"event %d " % position).ljust(size, b".")
    return Keep(position, 7, position, frame, float(position), (Entry(1),), seen=True)


def filled(directory: Path, events: int = 20, size: int = 100) -> Path:
    """Return the directory of a closed store with some events."""

    async def main() -> None:
        store = Store(directory / "store.db", "A")
        store.start()
        await store.done(OWNER)
        for position in range(1, events + 1):
            await store.done(event(position, size))
        await store.close()

    asyncio.run(main())
    return directory


def read(directory: Path) -> tuple[Store, list[int]]:
    """Open a store and return it with the positions of all that can be read from it."""

    async def main() -> tuple[Store, list[int]]:
        store = Store(directory / "store.db", "A")
        store.start()
        rows = (await store.fetch(1, 0, 100_000)).rows
        await store.close()
        return store, [row.position for row in rows if isinstance(row, Row)]

    return asyncio.run(main())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_copy_is_the_store_and_says_that_it_is_a_copy(tmp_path: Path) -> None:
    original = filled(tmp_path / "data")
    made = back_up(original, tmp_path / "copy")
    assert (made.broker, made.queues, made.events, made.entries, made.damaged) == ("A", 1, 20, 20, 0)
    assert sorted(one.name for one in made.path.iterdir()) == ["store.db", "store.db.mark"]
    assert [mode(made.path), *map(mode, made.path.iterdir())] == [0o700, 0o600, 0o600]
    assert (known := read_mark(made.path / "store.db")) is not None
    assert (known.state, known.last, known.commits) == (State.COPY, 20, 21)
    store, positions = read(made.path)
    assert positions == list(range(1, 21))
    assert (store.warning, store.recovered.missing) == ("", 0)
    assert "is a copy, made at" in " ".join(store.recovered.notices)
    assert store.tickets.next_position() > COPY_GAP, "the original may have gone on"
    again, _ = read(made.path)
    assert again.recovered.notices == (), "it is said once"
    assert again.tickets.next_position() > COPY_GAP


def test_the_original_does_not_notice(tmp_path: Path) -> None:
    original = filled(tmp_path / "data")
    before = {one.name: one.read_bytes() for one in original.iterdir()}
    back_up(original, tmp_path / "copy")
    assert (original / "store.db").read_bytes() == before["store.db"]
    store, positions = read(original)
    assert (store.warning, store.recovered.notices, positions) == ("", (), list(range(1, 21)))


def test_what_is_committed_while_the_copy_is_made_does_not_tear_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two steps of copying the broker commits, releases, and empties its journal as far as it can."""
    monkeypatch.setattr(backups, "STEP", 2)

    async def main() -> None:
        store = Store(tmp_path / "data" / "store.db", "A")
        store.start()
        await store.done(OWNER)
        for position in range(1, 101):
            await store.done(event(position, 3_000))
        loop, last, steps = asyncio.get_running_loop(), 100, 0

        async def go_on() -> None:
            nonlocal last
            last += 1
            assert await store.done(event(last, 3_000)) is None
            assert await store.done(Release(1, (last - 100,))) is None
            store.log._writer.empty_journal()

        def tell(line: str) -> None:
            nonlocal steps
            steps += 1
            asyncio.run_coroutine_threadsafe(go_on(), loop).result(60)

        made = await loop.run_in_executor(None, back_up, tmp_path / "data", tmp_path / "copy", tell)
        assert steps > 20, "the copy was made in many steps"
        assert (made.events, made.entries, made.damaged) == (100, 100, 0)
        await store.close()

    asyncio.run(main())
    assert read(tmp_path / "copy")[1] == list(range(1, 101)), "as it was when the copy was begun"
    assert read(tmp_path / "data")[1][-1] > 120


def test_the_writer_waits_for_no_reader(tmp_path: Path) -> None:
    store = Store(filled(tmp_path / "data") / "store.db", "A")
    assert pragma(store.log._writer.connection, "busy_timeout") == 0
    asyncio.run(store.close())


def test_a_store_that_was_killed_is_copied_with_its_journal(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store(tmp_path / "data" / "store.db", "A")
        store.start()
        await store.done(OWNER)
        for position in range(1, 11):
            await store.done(event(position))
        shutil.copytree(tmp_path / "data", tmp_path / "killed")
        await store.close()

    asyncio.run(main())
    assert (tmp_path / "killed" / "store.db-wal").stat().st_size > 0
    back_up(tmp_path / "killed", tmp_path / "copy")
    assert read(tmp_path / "copy")[1] == list(range(1, 11))


def test_what_the_original_has_lost_is_not_forgotten_by_copying_it(tmp_path: Path) -> None:
    original = filled(tmp_path / "data")
    write_mark(original / "store.db", Mark(60, 50, 1e9, log_s=5.0))
    back_up(original, tmp_path / "copy")
    store, _ = read(tmp_path / "copy")
    assert store.recovered.missing == 30
    assert "the end of the store" in store.warning
    assert "is a copy" in " ".join(store.recovered.notices)
    assert store.tickets.next_position() > COPY_GAP
    assert store.recovered.clock is not None
    assert store.recovered.clock.log_s == 20.0, "ages go on from what the store and its mark know"


def test_plans_are_copied(tmp_path: Path) -> None:
    original = filled(tmp_path / "data")
    assert backups.PLANS == FILE
    keep_state(original, PlanState(3, "A", 0, {}))
    made = back_up(original, tmp_path / "copy")
    assert made.has_plans
    assert (made.path / FILE).read_bytes() == (original / FILE).read_bytes()
    assert mode(made.path / FILE) == 0o600
    (original / FILE).write_bytes(b"damaged" + with_sum(b"plans"))
    without = back_up(original, tmp_path / "without")
    assert not without.has_plans
    assert "plans.bin is left out: its checksum is wrong" in without.warnings[0]
    assert not (without.path / FILE).exists()


def test_damaged_rows_are_counted_and_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    original = filled(tmp_path / "data")
    with closing(sqlite3.connect(original / "store.db", isolation_level=None)) as connection:
        connection.execute("UPDATE event SET frame = x'00' WHERE id = 3")
        connection.execute("UPDATE queue SET checksum = checksum + 1 WHERE position = 5")
        connection.execute("DELETE FROM event WHERE id = 7")
    assert cli.run(["backup", str(original), str(tmp_path / "copy")]) == 1
    assert "3 rows are damaged" in capsys.readouterr().out
    assert read(tmp_path / "copy")[1] == [one for one in range(1, 21) if one not in (3, 5, 7)]


def test_the_command_says_what_it_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    original = filled(tmp_path / "data")
    assert cli.run(["backup", str(original), str(tmp_path / "copy")]) == 0
    assert "broker A, 20 events for 1 queues" in (said := capsys.readouterr().out)
    assert "all checksums are right" in said
    assert cli.run(["backup", str(original), str(tmp_path / "other"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["events"], found["damaged"], found["path"]) == (20, 0, str(tmp_path / "other"))


def _exists(path: Path) -> None:
    (path / "copy").mkdir()


def _is_under_way(path: Path) -> None:
    (path / "copy.partial").mkdir()


def _is_another_database(path: Path) -> None:
    (path / "data" / "store.db").unlink()
    with closing(sqlite3.connect(path / "data" / "store.db")) as connection:
        connection.execute("CREATE TABLE one (a)")


def _is_newer(path: Path) -> None:
    with closing(sqlite3.connect(path / "data" / "store.db")) as connection:
        connection.execute(f"PRAGMA user_version={FORMAT + 1}")


def _is_no_database(path: Path) -> None:
    (path / "data" / "store.db").write_bytes(b"x" * 8_192)


def _has_no_store(path: Path) -> None:
    (path / "data" / "store.db").unlink()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_exists, "is there already, and nothing is overwritten (hint:"),
        (_is_under_way, "another backup is under way, or one was killed (hint:"),
        (_is_another_database, "is a database, and no store of Covey's"),
        (_is_newer, f"has format {FORMAT + 1}, and this version of Covey copies format {FORMAT} (hint:"),
        (_is_no_database, "not a database (hint:"),
        (_has_no_store, "there is no store.db in"),
    ],
)
def test_what_cannot_be_copied_is_said_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Path], None], said: str
) -> None:
    filled(tmp_path / "data")
    change(tmp_path)
    there = sorted(tmp_path.rglob("*"))
    assert cli.run(["backup", str(tmp_path / "data"), str(tmp_path / "copy")]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    left = [one for one in sorted(tmp_path.rglob("*")) if one not in there]
    assert [one for one in left if one.parent.name != "data"] == [], "nothing is left"


@pytest.mark.parametrize("out", ["data/copy", "data/../data/copy", "nowhere/copy"])
def test_places_where_no_copy_can_be(tmp_path: Path, out: str) -> None:
    with pytest.raises(ConfigError, match="hint"):
        back_up(filled(tmp_path / "data"), tmp_path / out)


def test_a_backup_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    original = filled(tmp_path / "data")

    def tell(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        back_up(original, tmp_path / "copy", tell)
    assert [one.name for one in tmp_path.iterdir()] == ["data"]


def test_a_copy_that_does_not_fit_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backups, "_free", lambda directory: 1 << 20)
    with pytest.raises(ConfigError, match=r"has 1\.0 MiB, of which the broker needs some \(hint"):
        back_up(filled(tmp_path / "data"), tmp_path / "copy")
    assert [one.name for one in tmp_path.iterdir()] == ["data"]


def test_the_backup_is_given_up_before_the_broker_has_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = filled(tmp_path / "data", 200, 3_000)
    monkeypatch.setattr(backups, "STEP", 1)
    free = iter([1 << 40])  # while there is room for the copy; later there is none
    monkeypatch.setattr(backups, "_free", lambda directory: next(free, 0))
    with pytest.raises(StoreError, match="is given up"):
        back_up(original, tmp_path / "copy")
    assert [one.name for one in tmp_path.iterdir()] == ["data"]


def test_a_copy_that_cannot_be_written_is_one_of_our_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backups, "sync_directory", full)
    with pytest.raises(CoveyError, match=r"No space left on device \(hint"):
        back_up(filled(tmp_path / "data"), tmp_path / "copy")
    assert [one.name for one in tmp_path.iterdir()] == ["data"]
