"""A simulated disk, and the log of a broker on it: the contract of `broker.durable.log`.

A `Disk` is what survives the end of a broker: what was committed, and nothing else. A `DiskLog` lives as long as its
broker. What is submitted waits in it until `answers` is called, which commits all that waits as one transaction; who
drives a simulation decides when that is. A broker that is killed before loses it.

    log = DiskLog(disk)
    recovered = log.open()
    log.submit([Batch(1, (Owner(7, "outbox", "", "", "B"),))])
    log.answers()                           [Committed((1,), …)]

A disk can be full, unreadable, fail to write, or have bits flipped, for simulations of what follows from that. It has a
journal: the transactions since its broker started. Its end can be cut off while the broker is down. A disk that *lies*
says that it has written what a power cut then takes. A transaction that was being written when its broker was killed is
*torn*: it is recognised by its checksum, and left out, when the log is opened.

Beside the log is its mark, as beside the one in SQLite (`durable.mark`): how far the log had come, written at most once
a second. So the mark does not know of the end of what was committed in the last second. A disk that lies does so of the
mark as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from zlib import crc32

from covey.broker.durable.log import (
    GAP,
    WINDOW,
    Answer,
    Asked,
    Batch,
    Change,
    Clock,
    Committed,
    Damaged,
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
    Recovered,
    Release,
    ReleaseUpTo,
    Renew,
    Room,
    Row,
    Trim,
    Unsee,
)
from covey.broker.durable.mark import EVERY_S
from covey.errors import StoreError


class Waiting(NamedTuple):
    """An event as one owner gets it."""

    frame: bytes
    checksum: int
    stored_s: float
    name: tuple[int, int]

    @property
    def is_damaged(self) -> bool:
        """Whether these are not the bytes that were stored."""
        return crc32(self.frame) != self.checksum


class Transaction(NamedTuple):
    """What was committed together, and when."""

    at_s: float
    operations: tuple[Operation, ...]


class Mark(NamedTuple):
    """How far a log had come; `is_closed` says that it was closed in order, and nothing was written since."""

    commits: int = 0
    last: int = 0
    is_closed: bool = True


NEW: Final = Mark()


class _State(NamedTuple):
    """What is on a disk."""

    owners: dict[int, Owner]
    queues: dict[int, dict[int, Waiting]]
    names: dict[int, tuple[int, int]]
    last: int
    commits: int

    def copy(self) -> _State:
        """Return a state of its own."""
        queues = {owner: dict(waiting) for owner, waiting in self.queues.items()}
        return _State(dict(self.owners), queues, dict(self.names), self.last, self.commits)


@dataclass
class Disk:
    """What survives. A deep copy of it is what a loss of power at that moment would leave."""

    owners: dict[int, Owner] = field(default_factory=dict)
    queues: dict[int, dict[int, Waiting]] = field(default_factory=dict)  # by owner and position
    names: dict[int, tuple[int, int]] = field(default_factory=dict)  # of confirmed events, by position
    last: int = 0  # the last position that was given away
    commits: int = 0  # transactions so far
    mark: Mark = NEW  # how far it had come, kept by itself: what the rest has forgotten is missing
    clock: Clock | None = None  # what the clocks showed last
    last_owner: int = 0  # the last owner's number that was given away
    is_full: bool = False  # no event can be kept
    is_unreadable: bool = False  # no event can be read
    failing: int = 0  # how many of the next batches cannot be written
    torn: tuple[Operation, ...] = ()  # what was being written when the broker was killed
    journal: list[Transaction] = field(default_factory=list)  # since `_base`
    _base: _State | None = None
    _lies_from: int | None = None  # the first transaction of the journal that is not written in truth
    _true_mark: Mark = NEW  # the mark that is written in truth, while the disk lies

    def positions(self, owner: int) -> list[int]:
        """Return what waits for an owner, in order."""
        return sorted(self.queues.get(owner, ()))

    def size(self, owner: int) -> tuple[int, int]:
        """Return how many events wait for an owner, and how many bytes."""
        waiting = self.queues.get(owner, {})
        return len(waiting), sum(len(one.frame) for one in waiting.values())

    # -- the journal -----------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Begin another journal, unless the one that there is cannot be written."""
        if self._lies_from is None:
            self._base, self.journal = self._state(), []

    @property
    def is_lying(self) -> bool:
        """Whether it says that something is written which is not."""
        return self._lies_from is not None

    def lie(self) -> None:
        """Write nothing from now on, and say that all is written; until `tell_the_truth` or a power cut."""
        if self._lies_from is None:
            self._lies_from, self._true_mark = len(self.journal), self.mark

    def tell_the_truth(self) -> None:
        """Write what is not written yet, and all from now on."""
        self._lies_from = None

    def power_cut(self) -> list[Transaction]:
        """Lose what was not written in truth; return it."""
        if self._lies_from is None:
            return []
        lost = self.truncate(len(self.journal) - self._lies_from)
        self._lies_from, self.mark = None, self._true_mark
        return lost

    def truncate(self, transactions: int) -> list[Transaction]:
        """Cut off the end of the journal; return what was in it. The broker is down."""
        kept = self.journal[: max(0, len(self.journal) - transactions)]
        lost = self.journal[len(kept) :]
        if lost and self._base is not None:
            self.owners, self.queues, self.names, self.last, self.commits = self._base.copy()
            self.journal = []
            for at_s, operations in kept:
                transaction = _Transaction(self, WINDOW, at_s)
                transaction.carry_out(Batch(0, operations))
                transaction.end()
        if self._lies_from is not None:
            self._lies_from = min(self._lies_from, len(self.journal))
        return lost

    def _state(self) -> _State:
        return _State(self.owners, self.queues, self.names, self.last, self.commits).copy()

    # -- damage ----------------------------------------------------------------------------------------------

    def damage(self, position: int) -> None:
        """Change a byte of an event, wherever it waits."""
        for waiting in self.queues.values():
            if position in waiting:
                one = waiting[position]
                waiting[position] = one._replace(frame=one.frame[:-1] + bytes([one.frame[-1] ^ 1]))


class DiskLog:
    """A `Log` on a disk; see the module's text."""

    def __init__(self, disk: Disk, max_bytes: int = 1 << 30, window: int = WINDOW) -> None:
        self.disk = disk
        self._max_bytes, self._window = max_bytes, window
        self._waiting: list[Asked] = []
        self._is_failing = False  # an event could not be kept: no other is, until a Resume
        self._marked_s = -EVERY_S  # when the mark was written last

    @property
    def is_idle(self) -> bool:
        """Whether all that was submitted is answered."""
        return not self._waiting

    def open(self) -> Recovered:
        """Return what is on the disk; what was torn is left out."""
        disk, mark = self.disk, self.disk.mark
        missing = max(0, mark.last - disk.last)
        is_behind = mark.commits > disk.commits or missing > 0
        warning = (
            f"the end of the simulated disk is missing: {mark.commits - disk.commits} transactions, with {missing} "
            "events that were confirmed"
        )
        is_in_order = mark.is_closed and not is_behind
        last_owner = max(disk.last_owner, *(owner for owner, waiting in disk.queues.items() if waiting), 0)
        for orphan in disk.queues.keys() - disk.owners.keys():
            del disk.queues[orphan]
        recovered = Recovered(
            self.room(),
            tuple(disk.owners[id] for id in sorted(disk.owners)),
            {disk.names[position]: position for position in sorted(disk.names)},
            {owner: disk.size(owner) for owner in sorted(disk.queues) if disk.queues[owner]},
            max(disk.last, mark.last) + (0 if is_in_order else GAP),
            self._window,
            (warning,) if is_behind else (),
            known=disk.last,
            missing=missing,
            clock=self._clock(),
            last_owner=last_owner,
        )
        disk.commits = max(disk.commits, mark.commits)
        if missing:
            disk.last = recovered.last  # it is said once
        disk.mark = Mark(disk.commits, disk.last, is_closed=False)
        disk.torn = ()
        disk.checkpoint()
        return recovered

    def write_mark(self, now_s: float) -> float | None:
        """Write the mark if that is due; return when it is due otherwise, None if nothing is to be written."""
        disk = self.disk
        if (disk.mark.commits, disk.mark.last) == (disk.commits, disk.last):
            return None
        if now_s < self._marked_s + EVERY_S:
            return self._marked_s + EVERY_S
        disk.mark, self._marked_s = Mark(disk.commits, disk.last, is_closed=False), now_s
        return None

    def close(self) -> None:
        """Close the log in order; all that was submitted is answered."""
        self.disk.mark = Mark(self.disk.commits, self.disk.last)

    def _clock(self) -> Clock | None:
        last = max(
            (
                (position, one.stored_s)
                for queue in self.disk.queues.values()
                for position, one in queue.items()
            ),
            default=None,
        )
        clock = self.disk.clock
        if last is None or clock is None:
            return clock if last is None else Clock(last[1], last[1])
        return clock._replace(log_s=max(clock.log_s, last[1]))

    def submit(self, asked: Sequence[Asked]) -> None:
        """Take batches and questions."""
        self._waiting += asked

    def tear(self) -> bool:
        """The broker is killed while the first batch that waits is written; return whether there is one."""
        batch = next((one for one in self._waiting if isinstance(one, Batch)), None)
        self.disk.torn = () if batch is None else batch.operations
        return batch is not None

    def room(self) -> Room:
        """Return how full the disk is; an event counts once for each who waits for it."""
        used = sum(self.disk.size(owner)[1] for owner in self.disk.queues)
        return Room(used, self._max_bytes)

    def answers(self, now_s: float = 0.0) -> list[Answer]:
        """Commit all that waits; return the answers, which are due now and to be reported in this order."""
        waiting, self._waiting = self._waiting, []
        # As in SQLite: what is read need not wait for the disk, and shows what was reported before.
        reads = [self._read(one) for one in waiting if isinstance(one, Fetch)]
        finds = [self._find(one) for one in waiting if isinstance(one, Find)]
        return [*reads, *finds, *self._commit([one for one in waiting if isinstance(one, Batch)], now_s)]

    # -- writing ---------------------------------------------------------------------------------------------

    def _commit(self, batches: Sequence[Batch], now_s: float) -> list[Committed]:
        """Carry out batches in order: those of one transaction together, and by itself each that fails."""
        answers: list[Committed] = []
        transaction = _Transaction(self.disk, self._window, now_s)
        for batch in batches:
            if batch.resumes:
                self._is_failing = False
            error = self._failure(batch)
            if error is not None:
                answers += transaction.end()
                transaction = _Transaction(self.disk, self._window, now_s)
                answers.append(Committed((batch.ticket,), error))
            else:
                transaction.carry_out(batch)
        answers += transaction.end()
        if answers:
            answers[-1] = answers[-1]._replace(room=self.room())
        return answers

    def _failure(self, batch: Batch) -> StoreError | None:
        """Return why a batch cannot be carried out, None if it can."""
        disk = self.disk
        error: StoreError | None = None
        if disk.failing:
            disk.failing -= 1
            error = StoreError("the simulated disk cannot write")
        elif batch.keeps and (self._is_failing or disk.is_full):
            error = StoreError("the simulated disk is full")
        if error is not None and batch.keeps:
            self._is_failing = True
        return error

    def _read(self, fetch: Fetch) -> Read:
        if self.disk.is_unreadable:
            return Read(fetch.ticket, fetch.owner, error=StoreError("the simulated disk cannot be read"))
        waiting = self.disk.queues.get(fetch.owner, {})
        rows: list[Row | Damaged] = []
        left = fetch.size
        for position in self.disk.positions(fetch.owner):
            if position > fetch.after:
                if left <= 0 or len(rows) == fetch.limit:
                    break
                one = waiting[position]
                rows.append(Damaged(position, one.name) if one.is_damaged else Row(position, one.frame))
                left -= 0 if one.is_damaged else len(one.frame)
        return Read(fetch.ticket, fetch.owner, tuple(rows), left > 0 and len(rows) < fetch.limit)

    def _find(self, find: Find) -> Found:
        if self.disk.is_unreadable:
            return Found(find.ticket, error=StoreError("the simulated disk cannot be read"))
        copies = {
            one.name: one.frame
            for _, waiting in sorted(self.disk.queues.items(), reverse=True)
            for one in waiting.values()
            if one.name in find.names and not one.is_damaged
        }
        return Found(find.ticket, copies)


class _Transaction:
    """Batches that are carried out together, and what changes by them."""

    def __init__(self, disk: Disk, window: int, at_s: float) -> None:
        self._disk, self._window, self._at_s = disk, window, at_s
        self._tickets: list[int] = []
        self._operations: list[Operation] = []
        self._changes: list[Change] = []
        self._gone: dict[int, tuple[int, ...]] = {}
        self._renewed: dict[int, tuple[int, ...]] = {}

    def carry_out(self, batch: Batch) -> None:
        """Carry out a batch."""
        self._tickets.append(batch.ticket)
        self._operations += batch.operations
        for operation in batch.operations:
            found = self._carry_out(operation)
            if found and isinstance(operation, Trim | Expire | Renew):
                noted = self._renewed if isinstance(operation, Renew) else self._gone
                noted[batch.ticket] = (*noted.get(batch.ticket, ()), *found)

    def end(self) -> list[Committed]:
        """Return what was committed, if there was anything."""
        if not self._tickets:
            return []
        self._disk.journal.append(Transaction(self._at_s, tuple(self._operations)))
        self._disk.commits += 1
        return [
            Committed(
                tuple(self._tickets), changes=tuple(self._changes), gone=self._gone, renewed=self._renewed
            )
        ]

    def _carry_out(self, operation: Operation) -> Sequence[int]:
        """Carry out an operation; return the positions that do not wait any longer, or were damaged."""
        disk = self._disk
        match operation:
            case Keep():
                self._keep(operation)
            case Mend():
                self._mend(operation)
            case Renew():
                return self._renew(operation)
            case Unsee(position):
                disk.names.pop(position, None)
            case Clock():
                disk.clock = operation
            case Owner(id):
                for other in [one.id for one in disk.owners.values() if one[1:5] == operation[1:5]]:
                    if other != id:
                        del disk.owners[other]
                        self._drop(other, disk.positions(other))
                disk.owners[id] = operation
                disk.last_owner = max(disk.last_owner, id)
            case Forget(owner):
                disk.owners.pop(owner, None)
                return self._drop(owner, disk.positions(owner))
            case Release(owner, positions):
                return self._drop(owner, positions)
            case ReleaseUpTo(owner, last):
                return self._drop(owner, [one for one in disk.positions(owner) if one <= last])
            case Trim(owner, events):
                return self._drop(owner, disk.positions(owner)[:events])
            case Expire(owner):
                return self._drop(owner, self._too_old(operation))
        return ()

    def _keep(self, keep: Keep) -> None:
        disk = self._disk
        for owner, frame in keep.entries:
            one = keep.frame if frame is None else frame
            waiting = disk.queues.setdefault(owner, {})
            assert keep.position not in waiting, "no position is given twice"
            name = (keep.publisher, keep.number)
            waiting[keep.position] = Waiting(one, crc32(one), keep.stored_s, name)
            self._changes.append(Change(owner, 1, len(one)))
        disk.last = max(disk.last, keep.position)
        if keep.seen:
            disk.names[keep.position] = (keep.publisher, keep.number)
            if len(disk.names) > self._window:
                del disk.names[min(disk.names)]

    def _mend(self, mend: Mend) -> None:
        owner, position, frame = mend
        waiting = self._disk.queues.get(owner, {})
        if position in waiting:
            self._changes.append(Change(owner, 0, len(frame) - len(waiting[position].frame)))
            waiting[position] = waiting[position]._replace(frame=frame, checksum=crc32(frame))

    def _renew(self, renew: Renew) -> list[int]:
        damaged = [
            owner
            for owner, waiting in self._disk.queues.items()
            if renew.position in waiting and waiting[renew.position].is_damaged
        ]
        for owner in damaged:
            self._mend(Mend(owner, renew.position, renew.frame))
        return [renew.position] if damaged else []

    def _too_old(self, expire: Expire) -> list[int]:
        first = self._disk.positions(expire.owner)[: expire.limit]
        waiting = self._disk.queues.get(expire.owner, {})
        if not first or waiting[first[0]].stored_s >= expire.before_s:
            return []
        return [position for position in first if waiting[position].stored_s < expire.before_s]

    def _drop(self, owner: int, positions: Iterable[int]) -> list[int]:
        waiting = self._disk.queues.get(owner, {})
        found = [position for position in positions if position in waiting]
        if found:
            size = sum(len(waiting.pop(position).frame) for position in found)
            self._changes.append(Change(owner, -len(found), -size))
            if not waiting:
                del self._disk.queues[owner]
        return found
