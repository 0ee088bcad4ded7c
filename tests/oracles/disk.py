"""A simulated log: the contract of `covey.broker.durable.log` over a disk that is a value, and commits when told to.

Nothing is on the disk before `step`. What is not stepped when a broker is killed is lost; what was stays. The disk can
damage events and be full, for tests of what follows from that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from covey.broker.durable.log import (
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


@dataclass
class Disk:
    """What survives a kill."""

    owners: dict[int, Owner] = field(default_factory=dict)
    queues: dict[int, dict[int, bytes]] = field(default_factory=dict)  # frames by owner and position
    stored_s: dict[int, float] = field(default_factory=dict)  # by position
    names: dict[tuple[int, int], None] = field(default_factory=dict)
    last: int = 0
    damaged: set[int] = field(default_factory=set)  # positions
    is_full: bool = False

    def take(self, operation: Operation) -> list[int]:
        """Carry out an operation; return the positions that it has dropped."""
        match operation:
            case Keep():
                self.last = max(self.last, operation.position)
                self.stored_s[operation.position] = operation.stored_s
                if operation.seen:
                    self.names[operation.publisher, operation.number] = None
                for owner, frame in operation.entries:
                    self.queues.setdefault(owner, {})[operation.position] = frame or operation.frame
            case Owner():
                self.owners[operation.id] = operation
            case Forget(owner):
                self.owners.pop(owner, None)
                self.queues.pop(owner, None)
            case Release(owner, positions):
                self._drop(owner, positions)
            case ReleaseUpTo(owner, last):
                self._drop(owner, [one for one in self.positions(owner) if one <= last])
            case Trim(owner, events):
                return self._drop(owner, self.positions(owner)[:events])
            case Expire(owner, before_s, limit):
                first = self.positions(owner)[:limit]
                if first and self.stored_s[first[0]] < before_s:
                    return self._drop(owner, [one for one in first if self.stored_s[one] < before_s])
        return []

    def positions(self, owner: int) -> list[int]:
        """Return what waits for an owner, in order."""
        return sorted(self.queues.get(owner, {}))

    def size(self, owner: int) -> tuple[int, int]:
        """Return how many events wait for an owner, and their bytes."""
        queue = self.queues.get(owner, {})
        return len(queue), sum(map(len, queue.values()))

    def _drop(self, owner: int, positions: Sequence[int]) -> list[int]:
        queue = self.queues.get(owner, {})
        return [one for one in positions if queue.pop(one, None) is not None]


class SimulatedLog:
    """A `Log` over a `Disk`; see the module's text."""

    def __init__(self, disk: Disk, max_bytes: int = 1 << 30) -> None:
        self.disk = disk
        self.waiting: list[Asked] = []
        self._max_bytes = max_bytes
        self._is_failing = False

    def open(self) -> Recovered:
        """Return what is on the disk."""
        disk = self.disk
        owners = tuple(disk.owners[id] for id in sorted(disk.owners))
        sizes = {owner: disk.size(owner) for owner in disk.queues}
        return Recovered(self.room(), owners, tuple(disk.names), sizes, disk.last)

    def submit(self, asked: Sequence[Asked]) -> None:
        """Take batches and questions."""
        self.waiting += asked

    def room(self) -> Room:
        """Return how full the disk is."""
        return Room(sum(self.disk.size(owner)[1] for owner in self.disk.queues), self._max_bytes)

    def step(self) -> list[Answer]:
        """Carry out all that waits; return the answers, which are to be reported in their order."""
        waiting, self.waiting = self.waiting, []
        answers: list[Answer] = [self._commit(one) for one in waiting if isinstance(one, Batch)]
        return answers + [self._read(one) for one in waiting if isinstance(one, Fetch)]

    def _commit(self, batch: Batch) -> Committed:
        if batch.resumes:
            self._is_failing = False
        if batch.keeps and (self.disk.is_full or self._is_failing):
            self._is_failing = True
            return Committed((batch.ticket,), StoreError("the disk is full"))
        before = {owner: self.disk.size(owner) for owner in self.disk.queues}
        gone = [position for one in batch.operations for position in self.disk.take(one)]
        changes = []
        for owner in before.keys() | self.disk.queues.keys():
            (events, size), (now, now_size) = before.get(owner, (0, 0)), self.disk.size(owner)
            if (events, size) != (now, now_size):
                changes.append(Change(owner, now - events, now_size - size))
        dropped = {batch.ticket: tuple(gone)} if gone else {}
        return Committed((batch.ticket,), None, self.room(), tuple(changes), dropped)

    def _read(self, fetch: Fetch) -> Read:
        queue = self.disk.queues.get(fetch.owner, {})
        behind = [one for one in self.disk.positions(fetch.owner) if one > fetch.after]
        some: list[int] = []
        size = 0
        while len(some) < min(len(behind), fetch.limit) and size < fetch.size:
            some.append(behind[len(some)])
            size += len(queue[some[-1]])
        rows = tuple(Damaged(one) if one in self.disk.damaged else Row(one, queue[one]) for one in some)
        is_end = len(rows) == len(behind) and len(rows) < fetch.limit and size < fetch.size
        return Read(fetch.ticket, fetch.owner, rows, is_end)
