"""Store: what a broker keeps on disk, written by one thread in groups, reported to the event loop in order.

Whoever wants something written submits an operation and is told, in the event loop and in the order of submission,
when it is on disk or why it is not. The thread takes all that waits as one transaction (group commit), so a commit
costs one wait for the disk however many events it has. A transaction that fails is tried again in halves: an operation
fails alone. When there is no room for an event, all events behind it fail too until `resume`, so that what is tried
again later does not come behind what was sent after it.

What can be asked for is in `store_operations`, the statements in `store_writing` and `store_reading`, the file itself
in `store_file`.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from covey.broker.store_file import connect, open_store
from covey.broker.store_operations import Keep, Operation
from covey.broker.store_reading import StoreReader
from covey.broker.store_writing import Change, StoreWriter
from covey.errors import CoveyError, StoreError

GROUP: Final = 4_096  # operations in one transaction
WINDOW: Final = 1 << 16  # names of events that are remembered
OVERHEAD: Final = 160  # bytes that an event costs on disk beside its own; about 60 for each who waits for it
AGAIN_S: Final = 1.0  # after which something that failed is tried again

Done = Callable[[CoveyError | None], None]
_Group = Sequence[tuple[Operation, Done | None]]
_Results = list[tuple[Operation, Done | None, CoveyError | None]]


class Store(StoreReader):
    """The broker's store; see the module's text. `start` it in the event loop, `close` it there."""

    def __init__(self, path: Path, broker: str, max_bytes: int = 1 << 30, window: int = WINDOW) -> None:
        opened = open_store(path, broker, max_bytes)
        self.warning = opened.warning
        self.max_bytes = max_bytes
        self.window = window
        super().__init__(connect(path))
        self.reported: Callable[[], None] = lambda: None  # called after each report
        self._writer = StoreWriter(opened.connection, path, window, self.committed)
        self._lock = opened.lock
        self._waiting: queue.SimpleQueue[list[tuple[Operation, Done | None]] | None] = queue.SimpleQueue()
        self._gathered: list[tuple[Operation, Done | None]] = []  # in this turn of the loop
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._failing = False
        self._later: set[asyncio.TimerHandle] = set()
        self._pending_bytes = 0
        self._pending = 0
        self._closed: asyncio.Future[None]
        self.last = self.committed
        self.used_bytes = self._writer.used_bytes()
        self._sizes = self.all_waiting()
        self.commits = self.kept = 0

    def start(self) -> None:
        """Begin to write."""
        self._loop = asyncio.get_running_loop()
        self._closed = self._loop.create_future()
        self._thread = threading.Thread(target=self._work, name="covey-store", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Write what waits, report it, and close the file."""
        for timer in self._later:
            timer.cancel()
        if self._thread is not None:
            self._hand_over()
            self._waiting.put(None)
            await self._closed
            self._thread.join()
            self._thread = None
        self._reader.close()
        self._writer.connection.close()
        self._lock.close()

    # -- in the event loop -----------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """How many operations are not reported yet."""
        return self._pending

    def room_for(self, size: int, entries: int = 1) -> bool:
        """Return whether an event of this size may be kept for so many."""
        need = size + OVERHEAD + 60 * entries
        return self.used_bytes + self._pending_bytes + need <= self.max_bytes

    def next_position(self) -> int:
        """Return a position that nothing had before."""
        self.last += 1
        return self.last

    def submit(self, operation: Operation, done: Done | None = None) -> None:
        """Have an operation carried out; `done` is told when it is on disk, or why it is not."""
        self._pending += 1
        if isinstance(operation, Keep):
            self._pending_bytes += len(operation.frame) + OVERHEAD
        if not self._gathered:
            self._loop.call_soon(self._hand_over)
        self._gathered.append((operation, done))

    def _hand_over(self) -> None:
        # Once a turn: whenever the thread is woken, the two take turns, and both wait.
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            self._waiting.put(gathered)

    def submit_later(self, operation: Operation, done: Done | None = None) -> None:
        """Try an operation again that has failed."""

        def again() -> None:
            self._later.discard(timer)
            self.submit(operation, done)

        timer = self._loop.call_later(AGAIN_S, again)
        self._later.add(timer)

    def waiting(self, owner: int) -> tuple[int, int]:
        """Return how many events wait for an owner, and their bytes."""
        return self._sizes.get(owner, (0, 0))

    def resume(self) -> None:
        """Try to keep events again after some could not be."""
        self._failing = False

    def _report(self, results: _Results, changes: Sequence[Change], used_bytes: int) -> None:
        self.used_bytes = used_bytes
        for owner, events, size in changes:
            count, total = self._sizes.get(owner, (0, 0))
            self._sizes[owner] = (count + events, total + size)
        for operation, done, error in results:
            self._pending -= 1
            if isinstance(operation, Keep):
                self._pending_bytes -= len(operation.frame) + OVERHEAD
                self.kept += error is None
                self.committed = operation.position
            if done is not None:
                done(error)
        self.reported()

    # -- in the store's own thread ---------------------------------------------------------------------------

    def _work(self) -> None:
        going = True
        while going:
            group: list[tuple[Operation, Done | None]] = []
            item = self._waiting.get()
            while item is not None:
                group += item
                if len(group) >= GROUP:
                    break
                try:
                    item = self._waiting.get_nowait()
                except queue.Empty:
                    break
            going = item is not None
            results: _Results = []
            changes: list[Change] = []
            self._carry_out(group, results, changes)
            used_bytes = self._used_now()
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants to know
                self._loop.call_soon_threadsafe(self._report, results, changes, used_bytes)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._closed.set_result, None)

    def _used_now(self) -> int:
        try:
            return self._writer.used_bytes()
        except sqlite3.Error:
            return self.used_bytes

    def _carry_out(self, group: _Group, results: _Results, changes: list[Change]) -> None:
        if not group:
            return
        if self._failing and any(isinstance(operation, Keep) for operation, _ in group):
            refusal = StoreError("the store has no room for events at the moment")
            for item in group:
                if isinstance(item[0], Keep):
                    results.append((*item, refusal))
                else:
                    self._carry_out([item], results, changes)
            return
        error = self._commit(group, changes)
        if error is not None:
            self._writer.empty_journal()  # it may be what fills the disk: without it the same may well succeed
            if len(group) > 1:
                middle = len(group) // 2
                self._carry_out(group[:middle], results, changes)
                self._carry_out(group[middle:], results, changes)
                return
            error = self._commit(group, changes)
        if error is None:
            results.extend((*item, None) for item in group)
            return
        if isinstance(group[0][0], Keep):
            self._failing = True
        results.append((*group[0], StoreError(f"the store cannot keep this: {error}")))

    def _commit(self, group: _Group, changes: list[Change]) -> sqlite3.Error | None:
        try:
            changes += self._writer.commit([operation for operation, _ in group])
        except sqlite3.Error as error:
            return error
        self.commits += 1
        return None
