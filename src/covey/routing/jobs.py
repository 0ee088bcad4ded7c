"""Jobs: long work of a router, done a slice at a time.

A link that comes up or goes down, or an advertisement that many filters overlap, may concern a hundred thousand
entries. Such work is a *job*: an iterator that does a little between two of its values, each of which is how much that
was, in units of about a microsecond of processor time; comparisons of large filters count beside that (`core.work`).
Between two values the router is consistent, and handles other inputs. Without slices every job is done to its end
before `handle` returns.

The jobs of one link are done in the order in which they were added, and until they are done the link is *busy*: its
driver holds back what the neighbour says, except events. A job of a link that goes down is dropped, unless it is
lasting: what a link leaves behind is removed whether the link comes back or not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Final, NamedTuple

from covey.core.work import ACCOUNT
from covey.routing.messages import Link
from covey.routing.work import WHOLE, Job

SLICE: Final = 150  # units that one slice of a live broker does
BATCH_UNITS: Final = 50  # as a rule, for what one filter takes
PIECE: Final = 8  # times as many facts as filters are handled at a time go into a piece of a Sync


class _Queued(NamedTuple):
    job: Job
    is_lasting: bool


class Jobs:
    """The jobs of one router, by link; see the module's text. `slice_units` is how much is done at a time."""

    def __init__(self, slice_units: int | None) -> None:
        # How many filters are handled between two values of a job, and how many facts go into a piece of a Sync.
        self.batch = WHOLE if slice_units is None else max(1, slice_units // BATCH_UNITS)
        self.piece = WHOLE if slice_units is None else PIECE * self.batch
        self.changes = 0  # how often tables may have changed between two slices of a job
        self._slice_units = slice_units
        self._queues: dict[Link, deque[_Queued]] = {}
        self._last: Link | None = None  # whose job was worked on last

    def add(self, link: Link, job: Job, *, lasting: bool = False) -> None:
        """Add a job of a link, and begin it if the link has no other; without slices, do all of it."""
        if self._slice_units is None:
            for _ in job:
                pass
            return
        queue = self._queues.setdefault(link, deque())
        queue.append(_Queued(job, lasting))
        if len(queue) == 1:
            self.work(link)

    def drop(self, link: Link) -> None:
        """Drop the jobs of a link that has gone down, except lasting ones."""
        queue = self._queues.get(link)
        if queue is None:
            return
        for queued in queue:
            if not queued.is_lasting and isinstance(queued.job, Generator):
                queued.job.close()
        left = deque(queued for queued in queue if queued.is_lasting)
        if left:
            self._queues[link] = left
        else:
            del self._queues[link]

    def is_busy(self, link: Link) -> bool:
        """Return whether a link has a job."""
        return link in self._queues

    @property
    def busy(self) -> list[Link]:
        """The links that have a job, the one whose turn it is first."""
        return list(self._queues)

    def work(self, link: Link) -> None:
        """Do one slice of the first job of a link. An error ends the job, and is the caller's."""
        assert self._slice_units is not None, "without slices no job is left"
        if link != self._last:
            self._last = link
            self.changes += 1
        queue = self._queues.pop(link)
        job, spent, before, is_done = queue[0].job, 0, ACCOUNT.units, True
        try:
            for units in job:
                spent += units
                if ACCOUNT.units - before + spent >= self._slice_units:
                    is_done = False
                    break
        finally:
            if is_done:
                queue.popleft()
            if queue:
                self._queues[link] = queue  # behind the others
