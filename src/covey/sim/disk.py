"""A simulated disk, and the log of a broker on it: the contract of `broker.durable.log`.

A `Disk` is what survives the end of a broker: what was committed, and nothing else. A `DiskLog` lives as long as its
broker. What is submitted waits in it until `answers` is called, which commits all that waits as one transaction; who
drives a simulation decides when that is. A broker that is killed before loses it.

    log = DiskLog(disk)
    recovered = log.open()
    log.submit([Batch(1, (Owner(7, "outbox", "", "", "B"),))])
    log.answers()                           [Committed((1,), …)]

A disk can be damaged, full, or unreadable, for simulations of what follows from that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from zlib import crc32

from covey.broker.durable.log import (
    WINDOW,
    Answer,
    Asked,
    Batch,
    Change,
    Committed,
    Damaged,
    Expire,
    Fetch,
    Forget,
    Keep,
    Operation,
    Owner,
    Read,
    Recovered,
    Release,
    ReleaseUpTo,
    Room,
    Row,
    Trim,
)
from covey.errors import StoreError


class Waiting(NamedTuple):
    """An event as one owner gets it."""

    frame: bytes
    checksum: int
    stored_s: float

    @property
    def is_damaged(self) -> bool:
        """Whether these are not the bytes that were stored."""
        return crc32(self.frame) != self.checksum


@dataclass
class Disk:
    """What survives. A deep copy of it is what a loss of power at that moment would leave."""

    owners: dict[int, Owner] = field(default_factory=dict)
    queues: dict[int, dict[int, Waiting]] = field(default_factory=dict)  # by owner and position
    names: dict[int, tuple[int, int]] = field(default_factory=dict)  # of confirmed events, by position
    last: int = 0  # the last position that was given away
    is_full: bool = False  # no event can be kept
    is_unreadable: bool = False  # no event can be read

    def positions(self, owner: int) -> list[int]:
        """Return what waits for an owner, in order."""
        return sorted(self.queues.get(owner, ()))

    def size(self, owner: int) -> tuple[int, int]:
        """Return how many events wait for an owner, and how many bytes."""
        waiting = self.queues.get(owner, {})
        return len(waiting), sum(len(one.frame) for one in waiting.values())

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

    @property
    def is_idle(self) -> bool:
        """Whether all that was submitted is answered."""
        return not self._waiting

    def open(self) -> Recovered:
        """Return what is on the disk."""
        disk = self.disk
        return Recovered(
            self.room(),
            tuple(disk.owners[id] for id in sorted(disk.owners)),
            tuple(disk.names[position] for position in sorted(disk.names)),
            {owner: disk.size(owner) for owner in sorted(disk.queues) if disk.queues[owner]},
            disk.last,
            self._window,
        )

    def submit(self, asked: Sequence[Asked]) -> None:
        """Take batches and questions."""
        self._waiting += asked

    def room(self) -> Room:
        """Return how full the disk is; an event counts once for each who waits for it."""
        used = sum(self.disk.size(owner)[1] for owner in self.disk.queues)
        return Room(used, self._max_bytes)

    def answers(self) -> list[Answer]:
        """Commit all that waits; return the answers, which are due now and to be reported in this order."""
        waiting, self._waiting = self._waiting, []
        # As in SQLite: what is read need not wait for the disk, and shows what was reported before.
        reads = [self._read(one) for one in waiting if isinstance(one, Fetch)]
        return [*reads, *self._commit([one for one in waiting if isinstance(one, Batch)])]

    # -- writing ---------------------------------------------------------------------------------------------

    def _commit(self, batches: Sequence[Batch]) -> list[Committed]:
        """Carry out batches in order: those of one transaction together, and by itself each that fails."""
        answers: list[Committed] = []
        transaction = _Transaction(self.disk, self._window)
        for batch in batches:
            if batch.resumes:
                self._is_failing = False
            if batch.keeps and (self._is_failing or self.disk.is_full):
                self._is_failing = True
                answers += transaction.end()
                transaction = _Transaction(self.disk, self._window)
                answers.append(Committed((batch.ticket,), StoreError("the simulated disk is full")))
            else:
                transaction.carry_out(batch)
        answers += transaction.end()
        if answers:
            answers[-1] = answers[-1]._replace(room=self.room())
        return answers

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
                rows.append(Damaged(position) if one.is_damaged else Row(position, one.frame))
                left -= 0 if one.is_damaged else len(one.frame)
        return Read(fetch.ticket, fetch.owner, tuple(rows), left > 0 and len(rows) < fetch.limit)


class _Transaction:
    """Batches that are carried out together, and what changes by them."""

    def __init__(self, disk: Disk, window: int) -> None:
        self._disk, self._window = disk, window
        self._tickets: list[int] = []
        self._changes: list[Change] = []
        self._gone: dict[int, tuple[int, ...]] = {}

    def carry_out(self, batch: Batch) -> None:
        """Carry out a batch."""
        self._tickets.append(batch.ticket)
        for operation in batch.operations:
            gone = self._carry_out(operation)
            if gone and isinstance(operation, Trim | Expire):
                self._gone[batch.ticket] = (*self._gone.get(batch.ticket, ()), *gone)

    def end(self) -> list[Committed]:
        """Return what was committed, if there was anything."""
        if not self._tickets:
            return []
        return [Committed(tuple(self._tickets), changes=tuple(self._changes), gone=self._gone)]

    def _carry_out(self, operation: Operation) -> Sequence[int]:
        """Carry out an operation; return the positions that do not wait any longer."""
        disk = self._disk
        match operation:
            case Keep():
                self._keep(operation)
            case Owner(id):
                disk.owners[id] = operation
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
            waiting[keep.position] = Waiting(one, crc32(one), keep.stored_s)
            self._changes.append(Change(owner, 1, len(one)))
        disk.last = max(disk.last, keep.position)
        if keep.seen:
            disk.names[keep.position] = (keep.publisher, keep.number)
            if len(disk.names) > self._window:
                del disk.names[min(disk.names)]

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
