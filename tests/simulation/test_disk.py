"""The simulated log beside the real one: the same batches and questions have the same answers."""

from __future__ import annotations

import queue
import tempfile
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from covey.broker.durable.log import (
    GAP,
    Answer,
    Asked,
    Batch,
    Committed,
    Damaged,
    Entry,
    Expire,
    Fetch,
    Find,
    Forget,
    Found,
    Keep,
    Mend,
    Operation,
    Owner,
    Read,
    Release,
    ReleaseUpTo,
    Resume,
    Row,
    Trim,
)
from covey.broker.durable.sqlite import SqliteLog
from covey.sim.disk import Disk, DiskLog

OWNERS = (1, 2, 3)
NUMBER = st.integers(0, 12)
OWNER = st.sampled_from(OWNERS)
KEEP = st.tuples(st.just("keep"), st.sets(OWNER), st.booleans())
OTHER = st.one_of(
    st.builds(Release, OWNER, st.lists(NUMBER, max_size=4).map(tuple)),
    st.builds(ReleaseUpTo, OWNER, NUMBER),
    st.builds(Trim, OWNER, st.integers(0, 3)),
    st.builds(Expire, OWNER, st.floats(0, 12), st.integers(1, 4)),
    st.builds(lambda id, uid: Owner(id, "outbox", "", "", str(id), uid), OWNER, NUMBER),
    st.builds(Forget, OWNER),
    st.builds(Mend, OWNER, NUMBER, st.just(b"mended")),
    st.just(Resume()),
)
FETCH = st.builds(Fetch, st.just(0), OWNER, NUMBER, st.integers(1, 5), st.integers(1, 40))
FIND = st.lists(NUMBER, max_size=3).map(
    lambda numbers: Find(0, tuple((1 << 63, number) for number in numbers))
)
BATCHES = st.lists(
    st.one_of(st.lists(st.one_of(KEEP, OTHER), min_size=1, max_size=3), FETCH, FIND), max_size=12
)


def said(answers: Sequence[Answer]) -> object:
    """Return what answers say, however transactions are cut."""
    tickets: list[int] = []
    sizes: Counter[tuple[int, str]] = Counter()
    gone: dict[int, tuple[int, ...]] = {}
    reads: list[Read | Found] = []
    for answer in answers:
        if isinstance(answer, Read | Found):
            reads.append(answer)
            continue
        assert isinstance(answer, Committed)
        assert answer.error is None
        tickets += answer.tickets
        gone |= answer.gone
        for owner, events, size in answer.changes:
            sizes[owner, "events"] += events
            sizes[owner, "size"] += size
    return tickets, {key: number for key, number in sizes.items() if number}, gone, reads


@settings(deadline=None, max_examples=30, phases=(Phase.explicit, Phase.generate))
@given(BATCHES)
def test_it_answers_as_the_log_in_sqlite_does(drawn: list[object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        disk, real = Disk(), SqliteLog(path, "A")
        simulated = DiskLog(disk)
        simulated.open()
        real.open()
        answered: queue.SimpleQueue[Sequence[Answer]] = queue.SimpleQueue()
        real.start(answered.put)
        position = 0
        for ticket, one in enumerate(drawn, start=1):
            asked: Asked
            if isinstance(one, Fetch | Find):
                asked = one._replace(ticket=ticket)
            else:
                assert isinstance(one, list)
                operations: list[Operation] = []
                for operation in sorted(one, key=lambda operation: not _is_keep(operation)):
                    if _is_keep(operation):
                        position += 1
                        operations.append(_keep(position, *operation[1:]))
                    else:
                        operations.append(operation)
                asked = Batch(ticket, tuple(operations))
            simulated.submit([asked])
            real.submit([asked])
            assert said(simulated.answers()) == said(answered.get(timeout=10))
        real.close()
        again = SqliteLog(path, "A")
        expected = again.open()
        again.start(answered.put)
        again.close()
        simulated.close()
        recovered = DiskLog(disk).open()
        assert recovered._replace(room=expected.room) == expected._replace(notices=())


def _is_keep(operation: object) -> bool:
    return isinstance(operation, tuple) and operation[:1] == ("keep",)


def _keep(position: int, owners: set[int], is_seen: bool) -> Keep:
    entries = tuple(Entry(owner, b"own" if owner == 2 else None) for owner in sorted(owners))
    return Keep(position, 1 << 63, position, b"x" * position, float(position), entries, is_seen)


A = Owner(1, "outbox", "", "", "A")


def keep(position: int) -> Keep:
    return Keep(position, 7, position, b"event %d" % position, float(position), (Entry(1),), seen=True)


def committed(log: DiskLog, *operations: Operation) -> list[Answer]:
    log.submit([Batch(99, operations)])
    return log.answers()


def test_what_waits_is_lost_and_what_was_committed_is_not() -> None:
    disk = Disk()
    log = DiskLog(disk)
    log.open()
    committed(log, A, keep(1))
    log.submit([Batch(3, (keep(2),))])
    assert not log.is_idle
    left = deepcopy(disk)
    assert DiskLog(disk).open() == DiskLog(left).open()
    recovered = DiskLog(disk).open()
    assert recovered.owners == (A,)
    assert (recovered.known, recovered.names, recovered.sizes) == (1, {(7, 1): 1}, {1: (1, 7)})
    assert recovered.last > GAP, "it was not closed in order: more positions may have been given away"


def test_an_event_that_cannot_be_kept_holds_up_those_behind_it() -> None:
    disk = Disk()
    log = DiskLog(disk)
    log.open()
    committed(log, A, keep(1))
    disk.is_full = True
    log.submit([Batch(2, (keep(2),)), Batch(3, (Release(1, (1,)),))])
    first, second = log.answers()
    assert isinstance(first, Committed)
    assert isinstance(second, Committed)
    assert first.tickets == (2,)
    assert first.error is not None
    assert second.tickets == (3,)
    assert second.error is None
    disk.is_full = False
    (third,) = committed(log, keep(3))
    assert isinstance(third, Committed)
    assert third.error is not None
    (fourth,) = committed(log, Resume(), keep(4))
    assert isinstance(fourth, Committed)
    assert fourth.error is None
    assert disk.positions(1) == [4]


def test_damage_is_noticed_and_nothing_can_be_read_from_a_broken_disk() -> None:
    disk = Disk()
    log = DiskLog(disk)
    log.open()
    committed(log, A, keep(1), keep(2))
    disk.damage(1)
    log.submit([Fetch(5, 1, 0, 10)])
    assert log.answers() == [Read(5, 1, (Damaged(1, (7, 1)), Row(2, b"event 2")), is_end=True)]
    disk.is_unreadable = True
    log.submit([Fetch(6, 1, 0, 10)])
    (answer,) = log.answers()
    assert isinstance(answer, Read)
    assert answer.error is not None


def test_only_the_last_names_are_remembered() -> None:
    disk = Disk()
    log = DiskLog(disk, window=2)
    log.open()
    committed(log, A, *map(keep, range(1, 5)))
    assert list(log.open().names) == [(7, 3), (7, 4)]


def test_the_mark_knows_all_but_the_last_second() -> None:
    disk = Disk()
    log = DiskLog(disk)
    log.open()
    committed(log, A, keep(1))
    assert log.write_mark(10.0) is None
    committed(log, keep(2))
    committed(log, keep(3))
    assert log.write_mark(10.5) == 11.0, "once a second"
    assert [one.operations for one in disk.truncate(1)] == [(keep(3),)]
    again = DiskLog(disk).open()
    assert (again.missing, again.warnings) == (0, ())
    log = DiskLog(disk)
    log.open()
    committed(log, keep(GAP + 9))
    assert log.write_mark(11.0) is None
    disk.truncate(1)
    again = DiskLog(disk).open()
    assert (again.known, again.missing) == (2, GAP + 7)
    assert "1 transactions" in again.warnings[0]
    assert DiskLog(disk).open().warnings == (), "it is said once"


def test_a_disk_that_lies_forgets_its_mark_too() -> None:
    disk = Disk()
    log = DiskLog(disk)
    log.open()
    committed(log, A, keep(1))
    log.write_mark(10.0)
    disk.lie()
    committed(log, keep(2))
    committed(log, keep(3))
    log.write_mark(20.0)
    assert disk.is_lying
    assert [operation for one in disk.power_cut() for operation in one.operations] == [keep(2), keep(3)]
    assert not disk.is_lying
    assert disk.positions(1) == [1]
    again = DiskLog(disk).open()
    assert (again.known, again.missing, again.warnings) == (1, 0, ())
    disk.lie()
    committed(log, keep(4))
    disk.tell_the_truth()
    assert disk.power_cut() == []
    assert disk.positions(1) == [1, 4]
