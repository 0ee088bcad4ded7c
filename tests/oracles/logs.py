"""A log in SQLite as a test talks to it: operations with what is told when they are done, reads that can be awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from covey.broker.actions import Action, Commit
from covey.broker.durable.log import (
    Answer,
    Asked,
    Committed,
    Damaged,
    Fetch,
    Find,
    Found,
    Notice,
    Operation,
    Read,
    Release,
)
from covey.broker.durable.queues import Outcome, Tickets
from covey.broker.durable.sqlite import SqliteLog
from covey.errors import CoveyError


class Store:
    """An open log, and what performs the actions that concern it; others are gathered in `performed`."""

    def __init__(self, path: Path, broker: str, **settings: Any) -> None:
        self.log = SqliteLog(path, broker, **settings)
        self.recovered = self.log.open()
        self.warning = " ".join(self.recovered.warnings)
        self.tickets = Tickets(self.recovered)
        self.performed: list[Action] = []
        self.notices: list[Notice] = []  # that the log has said
        self._asked: list[Asked] = []
        self._loop: asyncio.AbstractEventLoop

    def start(self) -> None:
        """Begin to write."""
        self._loop = asyncio.get_running_loop()
        self.log.start(self._report)

    async def close(self) -> None:
        """Write what waits, report it, and close."""
        self._hand_over()
        await asyncio.get_running_loop().run_in_executor(None, self.log.close)

    @property
    def pending(self) -> int:
        """How many operations are not answered."""
        return self.tickets.pending

    def perform(self, actions: Iterable[Action]) -> None:
        """Give the log what is for it, once a turn of the loop."""
        for action in actions:
            if isinstance(action, Commit | Fetch | Find):
                if not self._asked:
                    self._loop.call_soon(self._hand_over)
                self._asked.append(action.batch if isinstance(action, Commit) else action)
            else:
                self.performed.append(action)

    def _report(self, answers: Sequence[Answer]) -> None:
        self._loop.call_soon_threadsafe(self._answered, answers)

    def _hand_over(self) -> None:
        asked, self._asked = self._asked, []
        if asked:
            self.log.submit(asked)

    def _answered(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            if isinstance(answer, Committed):
                self.perform(self.tickets.answered(answer, 0.0))
            elif isinstance(answer, Notice):
                self.notices.append(answer)
            else:
                self.perform(self.tickets.read(answer, 0.0))

    def submit(self, operation: Operation, done: Callable[[CoveyError | None], object] | None = None) -> None:
        """Have an operation carried out."""

        def then(outcome: Outcome, now_s: float) -> Any:
            if done is not None:
                done(outcome.error)
            return iter(())

        self.perform([self.tickets.commit(operation, then=then)])

    async def done(self, operation: Operation) -> CoveyError | None:
        """Return what became of an operation."""
        return (await self.outcome(operation)).error

    async def outcome(self, operation: Operation) -> Outcome:
        """Return what became of an operation, with what it has dropped."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def then(outcome: Outcome, now_s: float) -> Any:
            future.set_result(outcome)
            return iter(())

        self.perform([self.tickets.commit(operation, then=then)])
        return await future

    async def settle(self) -> None:
        """Wait until all that was asked before is answered."""
        await self.done(Release(0, ()))
        while self.pending:
            await asyncio.sleep(0.001)

    async def fetch(self, owner: int, after: int, limit: int) -> Read:
        """Return what the log answers."""
        future: asyncio.Future[Read] = asyncio.get_running_loop().create_future()

        def then(read: Read, now_s: float) -> Any:
            future.set_result(read)
            return iter(())

        self.perform([self.tickets.fetch(owner, after, limit, then)])
        return await future

    async def find(self, *names: tuple[int, int]) -> Mapping[tuple[int, int], bytes]:
        """Return copies of events."""
        future: asyncio.Future[Found] = asyncio.get_running_loop().create_future()

        def then(found: Found, now_s: float) -> Any:
            future.set_result(found)
            return iter(())

        self.perform([self.tickets.find(names, then)])
        found = await future
        assert found.error is None
        return found.copies

    async def read(self, owner: int, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return an owner's next events, of which none may be damaged."""
        found: list[tuple[int, bytes]] = []
        is_end = False
        while not is_end and len(found) < limit:
            read = await self.fetch(owner, found[-1][0] if found else after, limit - len(found))
            assert read.error is None
            is_end = read.is_end
            for row in read.rows:
                assert not isinstance(row, Damaged)
                found.append((row.position, row.frame))
        return found
