"""The store over versions of Covey: what the one before wrote is read, older formats are migrated, newer ones refused.

Format 1, of the version before, has checksums of frames alone; format 2 has none of names that were seen and of meta.
That migrations follow each other is shown with a made-up format 0, whose events have no checksums.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from tests.oracles.dying import die_at
from tests.oracles.logs import Store

from covey.broker import plans
from covey.broker.durable import sqlite
from covey.broker.durable.log import Damaged, Entry, Keep, Owner, Release, Row
from covey.broker.private_files import sync_directory
from covey.errors import ConfigError
from covey.protocol.control import PlanState

# The tables as the version before made them (commit d642115), word for word.
BEFORE = """
PRAGMA page_size=4096; PRAGMA journal_mode=WAL; BEGIN;
CREATE TABLE meta (name TEXT PRIMARY KEY, value);
CREATE TABLE event (id INTEGER PRIMARY KEY, publisher INTEGER, number INTEGER, stored_s REAL, refs INTEGER, checksum INTEGER, frame BLOB);
CREATE TABLE owner (id INTEGER PRIMARY KEY, kind TEXT, user TEXT, client TEXT, name TEXT, uid INTEGER, generation INTEGER, filter BLOB, UNIQUE (kind, user, client, name));
CREATE TABLE queue (owner INTEGER, position INTEGER, checksum INTEGER, frame BLOB, PRIMARY KEY (owner, position)) WITHOUT ROWID;
CREATE TABLE seen (position INTEGER PRIMARY KEY, publisher INTEGER, number INTEGER);
INSERT INTO meta VALUES ('broker', 'A'), ('last', 2);
PRAGMA application_id=1129272901; PRAGMA user_version=1; COMMIT;
"""  # noqa: E501 (as it was)
# Format 2: checksums over whole rows, also of owners, and how many transactions there were.
SECOND = (
    BEFORE.replace("filter BLOB, UNIQUE", "filter BLOB, checksum INTEGER, UNIQUE")
    .replace("('last', 2)", "('last', 2), ('commits', 0)")
    .replace("user_version=1", "user_version=2")
)
# Format 0: as format 1, without checksums.
OLDEST = BEFORE.replace(" checksum INTEGER,", "").replace("user_version=1", "user_version=0")

FRAMES = {1: b"first event", 2: b"second event"}
OWNERS = (
    Owner(1, "outbox", "", "", "B"),
    Owner(2, "subscription", "ann", "app", "all", 7, 1, b"filter"),
)


def without_checksums(connection: sqlite3.Connection) -> None:
    """Make format 1 of format 0."""
    connection.create_function(
        "crc32", 1, lambda data: None if data is None else crc32(data), deterministic=True
    )
    for table, columns in (("event", "id, publisher, number, stored_s, refs"), ("queue", "owner, position")):
        ending = " WITHOUT ROWID" if table == "queue" else ""
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
        assert f"CREATE TABLE {table} ({sqlite._TABLES[table]}){ending};" in BEFORE
        connection.execute(f"CREATE TABLE {table} ({sqlite._TABLES[table]}){ending}")
        connection.execute(f"INSERT INTO {table} SELECT {columns}, crc32(frame), frame FROM old_{table}")
        connection.execute(f"DROP TABLE old_{table}")


@pytest.fixture
def migrating(monkeypatch: pytest.MonkeyPatch) -> None:
    """Format 0 can be migrated."""
    monkeypatch.setattr(sqlite, "MIGRATIONS", {0: without_checksums, **sqlite.MIGRATIONS})


def write(path: Path, tables: str, *, leaves_journal: bool = False) -> None:
    """Write a store with two events: one owner waits for both, the other for the second in other bytes."""
    path.touch()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(tables)
    (version,) = connection.execute("PRAGMA user_version").fetchone()

    def insert(table: str, *row: Any) -> None:
        connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    def add(table: str, *row: Any, frame: bytes | None, bound: int) -> None:
        first = None if frame is None else crc32(frame)
        sums = {0: (), 1: (first,), 2: (bound,)}[version]
        insert(table, *row, *sums, frame)

    def entry(owner: int, position: int, frame: bytes | None = None) -> None:
        add("queue", owner, position, frame=frame, bound=sqlite.entry_sum(owner, position, frame))

    for owner in OWNERS:
        insert("owner", *owner, *((sqlite.owner_sum(owner),) if version == 2 else ()))
    for position, frame in FRAMES.items():
        refs = position
        bound = sqlite.event_sum(position, 9, position, 1e9, frame)
        add("event", position, 9, position, 1e9, refs, frame=frame, bound=bound)
        entry(1, position)
        insert("seen", position, 9, position)
    entry(2, 2, b"other bytes")
    if leaves_journal:  # as a broker that was killed does
        for suffix in ("", "-wal"):
            Path(f"{path}{suffix}.aside").write_bytes(Path(f"{path}{suffix}").read_bytes())
    connection.close()
    if leaves_journal:
        for suffix in ("", "-wal"):
            os.replace(f"{path}{suffix}.aside", f"{path}{suffix}")


def check(path: Path) -> Store:
    """Open the store and check that all is there, and that it can be used; return it closed."""

    async def main() -> Store:
        store = Store(path, "A")
        store.start()
        recovered = store.recovered
        assert recovered.owners == OWNERS
        assert recovered.names == {(9, 1): 1, (9, 2): 2}
        assert recovered.last >= 2
        assert recovered.sizes == {1: (2, 23), 2: (1, 11)}
        assert await store.read(1, 0, 10) == list(FRAMES.items())
        assert await store.read(2, 0, 10) == [(2, b"other bytes")]
        third = recovered.last + 1
        assert await store.done(Keep(third, 9, 3, b"third", 1e9, (Entry(1),), seen=False)) is None
        assert await store.read(1, 2, 10) == [(third, b"third")]
        assert await store.done(Release(1, (third,))) is None
        await store.close()
        return store

    return asyncio.run(main())


def copies(path: Path) -> list[str]:
    """Return the names of the kept copies."""
    return sorted(one.name for one in path.parent.glob(f"{path.name}.format-*"))


@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("leaves_journal", [False, True])
def test_what_a_version_before_wrote_is_migrated(tmp_path: Path, leaves_journal: bool, format: int) -> None:
    path = tmp_path / "store.db"
    write(path, BEFORE if format == 1 else SECOND, leaves_journal=leaves_journal)
    store = check(path)
    assert store.warning == ""
    assert len(store.recovered.notices) == 1
    assert copies(path) == [f"store.db.format-{format}"]
    assert store.recovered.clock == (1e9, 1e9), "it stored the time of day"
    assert check(path).recovered.notices == ()


def test_what_is_damaged_is_so_after_a_migration(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    write(path, BEFORE)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE event SET frame = x'00' WHERE id = 1")
    connection.execute("UPDATE queue SET frame = x'00' WHERE owner = 2")
    connection.close()

    async def main() -> None:
        store = Store(path, "A")
        store.start()
        assert (await store.fetch(1, 0, 10)).rows == (Damaged(1, (9, 1)), Row(2, FRAMES[2]))
        assert (await store.fetch(2, 0, 10)).rows == (Damaged(2, (9, 2)),)
        await store.close()

    asyncio.run(main())


def test_the_tables_of_a_format_are_those_that_it_began_with(tmp_path: Path) -> None:
    """Otherwise files of one format differ: a change of the tables is another format, with a migration."""
    path = tmp_path / "store.db"
    asyncio.run(Store(path, "A").close())
    connection = sqlite3.connect(path)
    made = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    connection.close()
    assert int(sqlite.FORMAT) == 3
    expected = SECOND.replace("PRIMARY KEY, value)", "PRIMARY KEY, value, checksum INTEGER)")
    expected = expected.replace("number INTEGER);", "number INTEGER, checksum INTEGER);")
    assert made == {line.rstrip(";") for line in expected.splitlines() if line.startswith("CREATE")}
    for number, tables in enumerate((BEFORE, SECOND)):
        migrated = tmp_path / str(number) / "store.db"
        migrated.parent.mkdir()
        write(migrated, tables)
        check(migrated)
        connection = sqlite3.connect(migrated)
        assert made == {
            sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        }
        connection.close()


def test_names_have_checksums_after_a_migration(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    write(path, SECOND)
    check(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE seen SET number = 3 WHERE number = 2")
    connection.close()
    store = Store(path, "A")
    assert list(store.recovered.names) == [(9, 1)]
    asyncio.run(store.close())


@pytest.mark.parametrize("leaves_journal", [False, True])
@pytest.mark.usefixtures("migrating")
def test_an_older_format_is_migrated_and_a_copy_kept(tmp_path: Path, leaves_journal: bool) -> None:
    path = tmp_path / "store.db"
    write(path, OLDEST, leaves_journal=leaves_journal)
    notice = check(path).recovered.notices
    assert notice == (
        f"the store {path} was migrated from format 0 to 3; what it was before is kept as store.db.format-0",
    )
    assert copies(path) == ["store.db.format-0"]
    copy = tmp_path / "store.db.format-0"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600, "it has clients' events too"
    connection = sqlite3.connect(copy)
    assert connection.execute("PRAGMA user_version").fetchone() == (0,)
    assert [frame for (frame,) in connection.execute("SELECT frame FROM event")] == list(FRAMES.values())
    connection.close()
    assert check(path).recovered.notices == (), "it is done once"


@pytest.mark.usefixtures("migrating")
def test_a_copy_is_never_overwritten(tmp_path: Path) -> None:
    """Somebody goes back to the old version by its copy, and then forward again."""
    path = tmp_path / "store.db"
    write(path, OLDEST)
    check(path)
    first = (tmp_path / "store.db.format-0").read_bytes()
    path.write_bytes(first)
    check(path)
    assert copies(path) == ["store.db.format-0"], "the same need not be kept twice"
    path.write_bytes(first)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE event SET stored_s = 2e9")
    connection.commit()
    connection.close()
    check(path)
    assert copies(path) == ["store.db.format-0", "store.db.format-0-2"]
    assert (tmp_path / "store.db.format-0").read_bytes() == first


@pytest.mark.usefixtures("migrating")
def test_a_broker_that_is_killed_within_a_migration_migrates_at_its_next_start(tmp_path: Path) -> None:
    """It is killed before each line in turn of what migrates."""
    names = {
        one.__name__
        for one in (
            sqlite._migrate,
            sqlite._keep_copy,
            sync_directory,
            without_checksums,
            sqlite._bind_checksums,
            sqlite._bind_names,
        )
    }
    last, deaths = 0, 0
    is_killed = True
    while is_killed:
        path = tmp_path / str(last) / "store.db"
        path.parent.mkdir()
        write(path, OLDEST, leaves_journal=last % 2 == 1)
        pid = os.fork()
        if pid == 0:
            die_at(last, names)
            sqlite.open_store(path, "A", 1 << 30)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        is_killed = os.WIFSIGNALED(status)
        assert is_killed or os.waitstatus_to_exitcode(status) == 0
        store = check(path)
        assert store.warning == ""
        assert copies(path) == ["store.db.format-0"]
        assert not path.with_name("store.db.copy").exists()
        last += 1
        deaths += is_killed
    assert deaths > 30


@pytest.mark.usefixtures("migrating")
def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    write(path, OLDEST)
    before = path.read_bytes()

    def fails(connection: sqlite3.Connection) -> None:
        without_checksums(connection)
        raise sqlite3.OperationalError("database or disk is full")

    migrations = dict(sqlite.MIGRATIONS)
    monkeypatch.setattr(sqlite, "MIGRATIONS", {**migrations, 0: fails})
    with pytest.raises(ConfigError, match="cannot be used: database or disk is full"):
        Store(path, "A")
    assert path.read_bytes() == before
    monkeypatch.setattr(sqlite, "MIGRATIONS", migrations)
    check(path)


@pytest.mark.usefixtures("migrating")
def test_a_file_that_somebody_reads_is_not_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    write(path, OLDEST, leaves_journal=True)
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM event").fetchall()
    connect = sqlite.connect

    def impatient(*arguments: Any) -> sqlite3.Connection:
        connection = connect(*arguments)
        connection.execute("PRAGMA busy_timeout=50")
        return connection

    monkeypatch.setattr(sqlite, "connect", impatient)
    with pytest.raises(ConfigError, match="another program reads it"):
        Store(path, "A")
    reader.close()
    check(path)


def test_a_format_without_a_migration_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    write(path, OLDEST)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="has format 0, and this version of Covey cannot migrate format 0"):
        Store(path, "A")
    assert path.read_bytes() == before


def test_a_newer_format_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    write(path, BEFORE)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=4")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="has format 4, and this version of Covey reads formats up to 3"):
        Store(path, "A")
    assert path.read_bytes() == before
    assert copies(path) == []


@pytest.mark.usefixtures("migrating")
def test_a_damaged_file_of_an_older_format_is_left_to_the_version_that_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    write(path, OLDEST)
    data = bytearray(path.read_bytes())
    data[3 * 4096 : 4 * 4096] = b"\xff" * 4096
    path.write_bytes(data)
    with pytest.raises(ConfigError, match="has format 0 and is damaged"):
        Store(path, "A")
    assert path.read_bytes() == data
    assert [one.name for one in tmp_path.glob("*damaged*")] == []


# A state of plans in the file `plans.bin` of the version before.
PLANS = bytes.fromhex(
    "a44d19309f3379964ee852c9b4bc555095a5737461746507a141038200c40003c40b7b22706c616e223a20317d"
)
STATE = PlanState(7, "A", 3, {0: b"", 3: b'{"plan": 1}'})


def test_installed_plans_are_written_and_read_as_by_the_version_before(tmp_path: Path) -> None:
    """The file is a checksum and the state in its wire form, to which fields may be added at the end."""
    (tmp_path / "plans.bin").write_bytes(PLANS)
    assert plans.load_state(tmp_path) == STATE
    plans.keep_state(tmp_path, STATE)
    assert (tmp_path / "plans.bin").read_bytes() == PLANS
