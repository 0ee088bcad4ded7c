"""Intake: what the subscription of a stream has received, in order, until Spark is done with it.

Every event has a position, and a stream's offset is one: all up to it. Two kinds of subscription differ in what
positions are, and so in what survives the process.

Durable. Positions are those of the broker's store, which grow, which a repeated delivery keeps, and in whose order
events come. Nothing is acknowledged before Spark has finished a batch with it, so after a restart the broker sends
everything behind the checkpoint again, under the same positions: the batch that was under way has the same events,
none is lost, and those up to the checkpoint are recognised and left out. How much can be under way is the broker's to
say (its setting `durable.window`), which bounds the memory here.

A checkpoint says of which broker its positions are, and which events are at some of them: the first and the last of
recent batches (marks). What comes over a new link begins with the first event that is not acknowledged, which is the
first of some batch, so that it can be recognised. If another broker answers, or the store was made anew so that
positions begin again, new events would look like old ones: that is an error and not a loss.

Live. Positions count the events of this run. What came is gone with the process; a batch that was under way then is
empty when it is run again.

**An end.** A stream that is to end with what there is now cannot ask a broker what that is. A second subscription of
the same client, live, is told of what is published from then on (`end_here`): the first event of the durable one that
the other has heard of, too, is behind the end.

A thread takes what comes, because a batch can take longer than a broker waits for an acknowledgement before it sends
events again: those are dropped here as they come.
"""

from __future__ import annotations

import secrets
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covey.client.link import DROP_NEW
from covey.errors import ConfigError, CoveyError, LinkError, SlowError, TimedOutError
from covey.pipeline.network.columns import Arrival
from covey.pipeline.network.options import Options, settle

if TYPE_CHECKING:
    from covey.client.sync import SyncClient, SyncReceived, SyncSubscription

TURN_S: Final = 0.1  # after which the thread looks whether it should end
AHEAD: Final = 2  # batches that a live intake takes from its client, which has limits and a policy for more
PENDING: Final = 500_000  # events
LATER: Final = 10_000  # events behind the end of a stream that are remembered
MARKS: Final = 16  # places that an offset remembers, two a batch


class Offset(NamedTuple):
    """A place in a stream, as Spark keeps it: `origin` is a broker, or one run of a live stream."""

    origin: str
    position: int
    marks: tuple[tuple[int, str], ...] = ()  # positions up to this one, and the names of the events there

    def as_dict(self) -> dict[str, Any]:
        """Return it as Spark writes it: texts, numbers and dictionaries of these."""
        marks = {str(position): name for position, name in self.marks}
        return {"origin": self.origin, "position": self.position, "marks": marks}

    @staticmethod
    def of(given: dict[str, Any]) -> Offset:
        """Return the offset that Spark has kept; ConfigError if it is of something else."""
        try:
            marks = tuple((int(position), str(name)) for position, name in given["marks"].items())
            return Offset(str(given["origin"]), int(given["position"]), marks)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ConfigError(
                "the checkpoint is not one of this source (hint: a new checkpointLocation)"
            ) from None


class Taken(NamedTuple):
    """An event that waits for Spark."""

    position: int
    at_us: int
    event: SyncReceived


class Intake:
    """One subscription's events; see the module's text. It connects when it is first asked for anything."""

    def __init__(self, options: Options, now_us: Callable[[], int] = lambda: time.time_ns() // 1_000) -> None:
        self._options = options
        self._now_us = now_us
        self._client: SyncClient | None = None
        self._subscription: SyncSubscription | None = None
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        # All of these under the lock of `_changed`:
        self._taken: list[Taken] = []
        self._last = 0  # the position of the last event that was taken
        self._start = Offset("", 0)  # all up to here is done with
        self._is_same = False  # whether the store of this link is known to be that of the start
        self._old_since_s: float | None = (
            None  # when an event came from before the start, not recognised so far
        )
        self._later: set[str] | None = None  # names of events that came after the end was set, if it is
        self._end = 0  # the position of the first of these, once it is known
        self._error: CoveyError | None = None
        self._is_closed = False
        self.origin = secrets.token_hex(8)

    # -- life ------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Connect and subscribe, unless that was done."""
        if self._client is not None:
            return
        options = self._options
        name = options.name if options.durable else ""
        self._client = options.connected(self._note, name=name, on_reconnect=self._reconnected)
        if options.durable:
            self.origin = self._client.broker
        self._subscription = self._client.subscribe(
            options.wanted(),
            durable=options.durable,
            pending_events=PENDING,
            # Of a durable subscription none may be missing in between, or it would count as done with.
            policy="error" if options.durable else options.policy,
        )
        settle(self._client)

    def close(self) -> None:
        """End everything; what is not acknowledged comes again."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        if self._client is not None:
            self._client.close()

    def _note(self, error: CoveyError) -> None:
        if isinstance(error, SlowError) and not self._options.durable and self._options.policy != "error":
            return  # dropped, as its policy says
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def _reconnected(self, broker: str) -> None:
        with self._changed:
            self._is_same = False

    def _begin(self, start: Offset) -> None:
        """Take events from a place on; called with each place that Spark has come to."""
        self.open()
        with self._changed:
            self._check()
            if self._thread is None:
                self._check_origin(start)
                self._start = start if start.origin == self.origin else Offset(self.origin, 0)
                self._last = 0
                self._thread = threading.Thread(target=self._take_all, name="covey-intake", daemon=True)
                self._thread.start()
            self._release(start)

    def _check_origin(self, offset: Offset) -> None:
        if self._options.durable and offset.position and offset.origin != self.origin:
            raise ConfigError(
                f"the checkpoint is of the broker {offset.origin!r:.60}, and this is {self.origin!r:.60}: a durable "
                "subscription is at one broker (hint: the option url, or a new checkpointLocation)"
            )

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._old_since_s is not None and time.monotonic() - self._old_since_s > self._options.timeout:
            raise self._begun_anew()
        if self._subscription is not None and not self._subscription.is_open:
            raise LinkError("the subscription of the stream has ended")

    def _begun_anew(self) -> ConfigError:
        return ConfigError(
            f"the store of the broker {self.origin!r:.60} has begun anew since the checkpoint was written "
            "(hint: a new checkpointLocation)"
        )

    # -- what Spark asks ---------------------------------------------------------------------------------------

    def end_here(self) -> None:
        """Let `latest` go no further than what the broker has now; of a live stream, nothing changes."""
        self.open()
        if not self._options.durable or self._later is not None:
            return
        assert self._client is not None
        self._later = set()
        self._client.subscribe(self._options.wanted(), callback=self._heard, policy=DROP_NEW)

    def _heard(self, event: SyncReceived) -> None:
        with self._changed:
            if self._later is not None and len(self._later) < LATER:
                self._later.add(event.id)

    def _until_end(self) -> list[Taken]:
        """Return what waits for Spark, without what came after the end."""
        if self._later and not self._end:
            self._end = next((one.position for one in self._taken if one.event.id in self._later), 0)
        if not self._end:
            return self._taken
        return self._taken[: bisect_left(self._taken, self._end, key=lambda one: one.position)]

    def beginning(self) -> Offset:
        """Return where a new stream starts: before everything that comes."""
        self.open()
        return Offset(self.origin, 0)

    def latest(self, start: Offset, most: int | None, wait_s: float = 0.0) -> Offset:
        """Return the end of the next batch, of at most so many events; `start` itself if there is nothing.

        All up to `start` is done with.
        """
        self._begin(start)
        until_s = time.monotonic() + wait_s
        with self._changed:
            while not (taken := self._until_end()) and not self._end and self._error is None:
                if (rest_s := until_s - time.monotonic()) <= 0:
                    break
                self._changed.wait(rest_s)
            self._check()
            if not taken:
                return start
            last = taken[-1 if most is None else min(most, len(taken)) - 1]
            if not self._options.durable:
                return Offset(self.origin, last.position)
            ends = {one.position: one.event.id for one in (taken[0], last)}
            return Offset(self.origin, last.position, (*start.marks, *ends.items())[-MARKS:])

    def between(self, start: Offset, end: Offset) -> list[Arrival]:
        """Return the events behind `start` up to `end`; of a durable subscription, waits until they have come again."""
        self._begin(start)
        self._check_origin(end)
        if end.origin != self.origin:
            return []  # of a run that is over
        with self._changed:
            if self._options.durable:
                self._wait_for(end)
            first = start.position if start.origin == self.origin else 0
            return [
                Arrival(one.event.frame, one.at_us)
                for one in self._taken
                if first < one.position <= end.position
            ]

    def _wait_for(self, end: Offset) -> None:
        until_s = time.monotonic() + self._options.timeout
        while self._last < end.position:
            self._check()
            if (rest_s := until_s - time.monotonic()) <= 0:
                raise TimedOutError(
                    f"the broker {self.origin!r:.60} has not sent again the events of the batch under way: its "
                    "queue has dropped them, or they were acknowledged elsewhere (hint: a new checkpointLocation)"
                )
            self._changed.wait(rest_s)

    def done(self, end: Offset) -> None:
        """Acknowledge everything up to a place: Spark will not ask for it again."""
        with self._changed:
            self._release(end)

    def _release(self, end: Offset) -> None:
        if end.origin != self.origin or end.position <= self._start.position:
            return
        self._start = end
        count = bisect_right(self._taken, end.position, key=lambda one: one.position)
        if count:
            if self._options.durable:
                self._taken[count - 1].event.ack(all_before=True)
            del self._taken[:count]
            self._changed.notify_all()

    # -- what comes --------------------------------------------------------------------------------------------

    def _take_all(self) -> None:
        """Take events until the end; runs in a thread of its own."""
        assert self._subscription is not None
        room = AHEAD * self._options.events
        while True:
            with self._changed:
                while not self._options.durable and len(self._taken) >= room and not self._is_closed:
                    self._changed.wait()
                if self._is_closed or self._error is not None:
                    return
            try:
                event = self._subscription.next(timeout_s=TURN_S)
            except TimedOutError:
                continue
            except CoveyError as error:
                self._note(error)
                return
            with self._changed:
                self._take(event)

    def _take(self, event: SyncReceived) -> None:
        position = self._last + 1 if event.position is None else event.position
        if position <= max(self._last, self._start.position):
            self._recognise(event, position)
        elif self._old_since_s is not None:
            self._error = self._begun_anew()
        else:
            self._is_same = True  # what is behind the start comes when nothing from before it is left
            self._last = position
            self._taken.append(Taken(position, self._now_us(), event))
        self._changed.notify_all()

    def _recognise(self, event: SyncReceived, position: int) -> None:
        """Leave out what came before, in this run or another; an event that is not the one it was is an error."""
        name = self._name_at(position)
        if name is None and not self._is_same:
            # What comes next may tell. Until then it must not be acknowledged.
            self._old_since_s = self._old_since_s or time.monotonic()
        elif name is not None and name != event.id:
            self._error = self._begun_anew()
        else:
            self._is_same, self._old_since_s = True, None
            if position <= self._start.position:
                event.ack(all_before=True)

    def _name_at(self, position: int) -> str | None:
        """Return the name of the event that was at a position, if that is remembered."""
        at = bisect_left(self._taken, position, key=lambda one: one.position)
        if at < len(self._taken) and self._taken[at].position == position:
            return self._taken[at].event.id
        return dict(self._start.marks).get(position)
