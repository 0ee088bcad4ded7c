"""Queues: events on disk that wait for a consumer, and the durable subscriptions that have such queues.

`Tickets` is what the log was asked for and has not answered yet, with what follows from each answer. The log is never
called from here: whoever performs the actions hands it `Commit`s and `Fetch`es, and brings the answers back.

A `Feed` sends one consumer what it has not confirmed, in order, with a window of it under way. The consumer is a
neighbour broker (what is in its outbox) or a durable subscription (its queue). While the consumer is away, the feed
only knows that something waits. When the consumer is back, everything that is not confirmed is sent again from the
first. New events go out as they come while the consumer keeps up, without being read from the disk again. Once more
waits than the window takes, the feed is *behind*: it reads some at a time, and reads on while it sends those, as
confirmations make room. A damaged event is never sent. While a copy of it is looked for (`repair`), the events behind
it wait; if there is none, it is lost, and people are told which event it was and for whom.

A durable subscription outlives its client's connection. It is known by its client's name and its own (and by the user,
where clients must authenticate). It is an entry of the router as long as it exists, on a link of the broker's own that
is always up, so neighbours never learn whether its client is there. Its events are delivered in the order of their
positions when they are on disk, a window at a time, and stay until they are acknowledged, one by one or all up to a
position. What is not acknowledged comes again, with the same position: when the client attaches again, and after a
time-out. The connection that attaches last gets the events.

What one connection has of a durable subscription is an `Attachment` with a state. `TABLE` has every move, with reasons:

                  ATTACH      TAKE         LEAVE      FORGET   END     ACKNOWLEDGE   REPLACE
    DETACHED      ATTACHED    ignored      ignored    ignored  ENDED   DETACHED      forbidden
    ATTACHED      forbidden   TAKEN_OVER   DETACHED   ENDED    ENDED   ATTACHED      ATTACHED
    TAKEN_OVER    forbidden   ignored      ignored    ignored  ENDED   TAKEN_OVER    refused
    ENDED         forbidden   ignored      ignored    ignored  ignored ignored       refused

A queue that is longer than its limits allow loses its oldest events; that is counted and logged.

`Incidents` are what has gone wrong with a store since the broker started, for the log and for people who look later.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set
from enum import Enum
from hashlib import blake2b
from typing import ClassVar, Final, NamedTuple

from covey.broker.actions import Action, Actions, Commit, Say, Send, SendEvent, Tell
from covey.broker.config import QueueLimits
from covey.broker.durable.log import (
    Batch,
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
    Row,
    Trim,
)
from covey.core.costs import cost_of
from covey.core.families import decode as decode_filter
from covey.core.filter import Filter
from covey.errors import CoveyError, ProtocolError, StoreError
from covey.protocol.control import MAX_NAME, Reply, encode_reply, kind_of
from covey.protocol.events import Acknowledgement, Name, encode_delivery, name_of
from covey.protocol.frames import Kind
from covey.routing.messages import Key, Link, LinkUp, Subscribe, Unsubscribe

MOST: Final = 200  # that are remembered; all are counted elsewhere


class Incident(NamedTuple):
    """One of them: when, by the monotonic clock, and what the log says."""

    at_s: float
    event: str
    fields: dict[str, object]


class Incidents:
    """The last incidents of a broker's store."""

    def __init__(self) -> None:
        self._last: deque[Incident] = deque(maxlen=MOST)

    def say(self, level: int, event: str, fields: dict[str, object], now_s: float) -> Say:
        """Remember an incident; return what logs it."""
        self._last.append(Incident(now_s, event, fields))
        return Say(level, event, fields)

    def all(self) -> Sequence[Incident]:
        """Return those that are remembered, the last one first."""
        return list(reversed(self._last))


OVERHEAD: Final = 160  # bytes that an event costs on disk beside its own
PER_ENTRY: Final = 60  # bytes for each owner who waits for it


def memory_of(operation: Operation) -> int:
    """Return about how many bytes of memory an operation takes while it waits for the disk."""
    match operation:
        case Keep():
            others = {
                id(frame): len(frame) for _, frame in operation.entries if frame is not None
            }  # many share one
            return len(operation.frame) + sum(others.values()) + OVERHEAD + PER_ENTRY * len(operation.entries)
        case Release(_, positions):
            return OVERHEAD + PER_ENTRY * len(positions)
        case Mend(_, _, frame) | Renew(_, _, _, frame):
            return OVERHEAD + len(frame)
        case Owner():
            return OVERHEAD + len(operation.filter)
    return OVERHEAD


class Outcome(NamedTuple):
    """What became of a batch: `gone` are the positions that it has dropped, `renewed` those that were damaged."""

    error: StoreError | None = None
    gone: tuple[int, ...] = ()
    renewed: tuple[int, ...] = ()


Then = Callable[[Outcome, float], Actions]  # what follows once a batch is on disk or cannot be; the time
ThenRead = Callable[[Read, float], Actions]
ThenFound = Callable[[Found, float], Actions]


class Tickets:
    """What the log was asked for, and how full it is as far as it has answered; see the module's text."""

    def __init__(self, recovered: Recovered) -> None:
        self.room = recovered.room
        self.last = recovered.last  # the last position given away
        self.committed = recovered.known  # and the last one whose event is known to be on disk
        self._sizes = dict(recovered.sizes)
        self._last_ticket = 0
        self._commits: dict[int, tuple[tuple[Operation, ...], Then | None]] = {}
        self._fetches: dict[int, ThenRead] = {}
        self._finds: dict[int, ThenFound] = {}
        self._pending_bytes = 0
        self.held_bytes = 0  # of memory, which batches take until the log has answered them
        self._unforgotten: list[int] = []  # owners that the log could not forget
        self.commits = self.kept = 0
        self.damaged = self.repaired = self.unrepaired = 0  # events
        self.incidents = Incidents()

    @property
    def pending(self) -> int:
        """How many batches are not answered yet."""
        return len(self._commits)

    def room_for(self, size: int, entries: int = 1) -> bool:
        """Return whether an event of this size may be kept for so many owners."""
        need = size + OVERHEAD + PER_ENTRY * entries
        return self.room.used_bytes + self._pending_bytes + need <= self.room.max_bytes

    @property
    def is_holding(self) -> bool:
        """Whether an event waits for anybody."""
        return any(count for count, _ in self._sizes.values())

    def waiting(self, owner: int) -> tuple[int, int]:
        """Return how many events wait for an owner, and their bytes."""
        return self._sizes.get(owner, (0, 0))

    def next_position(self) -> int:
        """Return a position that nothing had before."""
        self.last += 1
        return self.last

    def skip(self, position: int) -> None:
        """Give no position up to this one: it may have been given before."""
        self.last = max(self.last, position)

    def commit(self, *operations: Operation, then: Then | None = None) -> Commit:
        """Return the action that has operations carried out, all or none; `then` follows from the answer."""
        self._last_ticket += 1
        self._commits[self._last_ticket] = (operations, then)
        self.held_bytes += sum(map(memory_of, operations))
        for one in operations:
            if isinstance(one, Keep):
                self._pending_bytes += len(one.frame) + OVERHEAD
        return Commit(Batch(self._last_ticket, operations))

    def forget(self, owner: int, then: Then | None = None) -> Commit:
        """Return the action that removes an owner with all that waits for it; it is tried until it works."""

        def forgotten(outcome: Outcome, now_s: float) -> Actions:
            if outcome.error is not None:
                self._unforgotten.append(owner)
            else:
                self._sizes.pop(owner, None)
            if then is not None:
                yield from then(outcome, now_s)

        return self.commit(Forget(owner), then=forgotten)

    def retry(self) -> Actions:
        """Try again to remove owners that could not be removed."""
        owners, self._unforgotten = self._unforgotten, []
        for owner in owners:
            yield self.forget(owner)

    def fetch(self, owner: int, after: int, limit: int, then: ThenRead) -> Fetch:
        """Return the action that reads an owner's next events."""
        self._last_ticket += 1
        self._fetches[self._last_ticket] = then
        return Fetch(self._last_ticket, owner, after, limit)

    def answered(self, answer: Committed, now_s: float) -> Actions:
        """The log has carried out batches, or could not."""
        if answer.room is not None:
            self.room = answer.room
        for owner, events, size in answer.changes:
            count, total = self._sizes.get(owner, (0, 0))
            self._sizes[owner] = (count + events, total + size)
        self.commits += answer.error is None
        for ticket in answer.tickets:
            operations, then = self._commits.pop(ticket)
            self.held_bytes -= sum(map(memory_of, operations))
            for one in operations:
                if isinstance(one, Keep):
                    self._pending_bytes -= len(one.frame) + OVERHEAD
                    if answer.error is None:
                        self.kept += 1
                        self.committed = one.position
            if then is not None:
                outcome = Outcome(answer.error, answer.gone.get(ticket, ()), answer.renewed.get(ticket, ()))
                yield from then(outcome, now_s)

    def find(self, names: Sequence[Name], then: ThenFound) -> Find:
        """Return the action that looks for copies of events in the log."""
        self._last_ticket += 1
        self._finds[self._last_ticket] = then
        return Find(self._last_ticket, tuple(names))

    def say_damage(self, level: int, event: str, damaged: Damaged, title: str, now_s: float) -> Say:
        """Return what tells people of a damaged event: whose it is, as a title."""
        name = "not known" if damaged.name is None else name_of(*damaged.name)
        return self.incidents.say(
            level, event, {"id": name, "position": damaged.position, "of": title}, now_s
        )

    def repaired_by(self, damaged: Damaged, link: Link, now_s: float) -> Actions:
        """The log has found a damaged event, which somebody has just sent again: that copy has taken its place."""
        self.damaged += 1
        self.repaired += 1
        yield self.say_damage(logging.ERROR, "event damaged", damaged, "the store", now_s)
        yield self.say_damage(logging.WARNING, "event repaired", damaged, f"the store, by {link}", now_s)

    def read(self, answer: Read | Found, now_s: float) -> Actions:
        """The log has read events, or looked for some."""
        if isinstance(answer, Read):
            yield from self._fetches.pop(answer.ticket)(answer, now_s)
        else:
            yield from self._finds.pop(answer.ticket)(answer, now_s)


# -- feeds -------------------------------------------------------------------------------------------------------

AT_ONCE: Final = 1_024  # events that are read at a time

Transmit = Callable[[int, bytes], Action]  # of a position and the event's frame: what sends it


class Repair(NamedTuple):
    """What a feed needs for damaged events: who its consumer is, who looks for copies, and what is made of one.

    `lost` hears of those of which there is no copy, and says what the log is to do together with letting go of one.
    """

    title: str  # for people
    seek: Callable[
        [Name, Callable[[bytes | None, float], Actions], float], Actions
    ]  # name, what follows, the time
    form: Callable[[bytes], bytes]  # of a copy as another broker has it: what the consumer gets
    lost: Callable[[Damaged], tuple[Operation, ...]] = lambda damaged: ()


UNREPAIRED: Final = Repair("", lambda name, then, now_s: then(None, now_s), lambda frame: frame)


class Feed:
    """One consumer's events; see the module's text. `reads_ahead` is off only to measure what it is good for."""

    reads_ahead: ClassVar[bool] = True

    def __init__(
        self, tickets: Tickets, owner: int, window: int, window_bytes: int, repair: Repair = UNREPAIRED
    ) -> None:
        self.owner = owner
        self._repair = repair
        self._sought: set[int] = set()  # positions of damaged events, for which a copy is looked for
        self._tickets = tickets
        self._most, self._most_bytes = window, window_bytes
        self._transmit: Transmit | None = None
        # By position, in order: the size, and when it was sent.
        self._under_way: dict[int, tuple[int, float]] = {}
        self._under_way_bytes = 0
        self._cursor = 0  # all up to here was sent to this consumer since it came
        self._is_behind = False  # there is more on disk than was read
        self._ahead: deque[Row | Damaged] = deque()  # what was read and not sent
        self._read_from = 0  # the first position of what was read last
        self._read_to = 0  # the last position of what was read, or sent
        self._fetching = self._fetching_again = 0  # tickets of what is being read for this consumer
        # What is confirmed and on disk still: positions, and what was confirmed up to a position.
        self._confirmed: set[int] = set()
        self._confirmed_up_to: list[int] = []
        # What is to be tried again, each with what is to be done together with it.
        self._failed: list[tuple[Release | ReleaseUpTo, tuple[Operation, ...]]] = []
        self._is_unsound = False  # the log has said that some entries have no position any longer

    @property
    def is_attached(self) -> bool:
        """Whether the consumer is there."""
        return self._transmit is not None

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to be tried again."""
        return not (self._under_way or self._ahead or self._is_behind or self._failed)

    @property
    def under_way(self) -> int:
        """How many events were sent and are not confirmed."""
        return len(self._under_way)

    def attach(self, transmit: Transmit) -> Actions:
        """The consumer is there: send it all that is not confirmed, from the first."""
        self.detach()
        self._transmit = transmit
        self._is_behind = True
        yield from self._read_on()

    def detach(self) -> None:
        """The consumer is gone."""
        self._transmit = None
        self._is_behind = False
        self._cursor = self._read_from = self._read_to = self._fetching = self._fetching_again = 0
        self._ahead.clear()
        self._under_way.clear()
        self._under_way_bytes = 0

    def offer(self, position: int, frame: bytes, now_s: float) -> Actions:
        """Note an event that is on disk now."""
        if self._transmit is None or position <= self._read_to:
            return  # it is read from the log in its turn, or was already
        if self._is_behind or self._ahead or not self._has_room():
            self._is_behind = True
        else:
            yield self._send(position, frame, now_s)

    def tick(self, now_s: float) -> Actions:
        """Try again what could not be done."""
        failed, self._failed = self._failed, []
        for operation, others in failed:
            yield self._release(operation, *others)
        yield from self._pump(now_s)

    # -- reading ---------------------------------------------------------------------------------------------

    def _pump(self, now_s: float) -> Actions:
        """Send what was read, as far as the window allows, and read on."""
        while self._ahead and self._transmit is not None and self._has_room():
            row = self._ahead[0]
            if isinstance(row, Damaged) and row.position in self._sought:
                break  # those behind it wait: its publisher's events come in order
            self._ahead.popleft()
            if isinstance(row, Damaged):
                continue  # it was given up, or confirmed
            if row.position > self._cursor and not self._is_confirmed(row.position):
                yield self._send(row.position, row.frame, now_s)
        yield from self._read_on()

    def _read_on(self) -> Actions:
        # While what was read last is sent, the log reads what comes behind it: two reads are in memory at most.
        is_due = not self._ahead or (self.reads_ahead and self._ahead[0].position >= self._read_from)
        if self._transmit is not None and self._is_behind and is_due and not self._fetching:
            fetch = self._tickets.fetch(self.owner, self._read_to, AT_ONCE, self._take)
            self._fetching = fetch.ticket
            yield fetch

    def _take(self, read: Read, now_s: float) -> Actions:
        if read.ticket != self._fetching:
            return  # it was for a consumer that has gone since
        self._fetching = 0
        if read.error is not None:  # it is tried again with the next confirmation or tick
            yield Say(logging.ERROR, str(read.error), {})
            return
        if read.is_unsound and not self._is_unsound:
            self._is_unsound = True
            text = "entries of a queue are damaged (hint: restart the broker, which mends its store)"
            yield self._tickets.incidents.say(logging.ERROR, text, {"of": self._repair.title}, now_s)
        self._ahead.extend(read.rows)
        if read.rows:
            self._read_from = read.rows[0].position
            self._read_to = max(self._read_to, read.rows[-1].position)
        self._is_behind = not read.is_end
        for row in read.rows:
            if isinstance(row, Damaged):
                yield from self._seek(row, now_s)
        yield from self._pump(now_s)

    # -- damaged events --------------------------------------------------------------------------------------

    def _seek(self, damaged: Damaged, now_s: float) -> Actions:
        """Look for a good copy of an event."""
        position, name = damaged
        if position in self._sought or self._is_confirmed(position):
            return
        self._sought.add(position)
        self._tickets.damaged += 1
        yield self._tickets.say_damage(logging.ERROR, "event damaged", damaged, self._repair.title, now_s)

        def then(frame: bytes | None, now_s: float) -> Actions:
            if position in self._sought:  # otherwise it was confirmed or dropped meanwhile
                self._sought.remove(position)
                yield from (
                    self._give_up(damaged, now_s) if frame is None else self._mend(damaged, frame, now_s)
                )
                yield from self._pump(now_s)

        if name is None:
            yield from then(None, now_s)
        else:
            yield from self._repair.seek(name, then, now_s)

    def _mend(self, damaged: Damaged, copy: bytes, now_s: float) -> Actions:
        """Put a copy in the place of a damaged event, and send it in its turn."""
        frame, position = self._repair.form(copy), damaged.position
        self._tickets.repaired += 1
        yield self._tickets.say_damage(logging.WARNING, "event repaired", damaged, self._repair.title, now_s)
        yield self._tickets.commit(Mend(self.owner, position, frame))
        self._ahead = deque(Row(position, frame) if one == damaged else one for one in self._ahead)
        if position in self._under_way and self._transmit is not None:
            self._under_way[position] = (self._under_way[position][0], now_s)
            yield self._transmit(position, frame)

    def _give_up(self, damaged: Damaged, now_s: float) -> Actions:
        """Nobody has a good copy of an event: it goes."""
        self._tickets.unrepaired += 1
        yield self._tickets.say_damage(logging.ERROR, "event lost", damaged, self._repair.title, now_s)
        self._drop(damaged.position)
        self._confirmed.add(damaged.position)
        yield self._release(Release(self.owner, (damaged.position,)), *self._repair.lost(damaged))

    # -- confirmations ---------------------------------------------------------------------------------------

    def confirm(self, positions: Iterable[int], now_s: float) -> Actions:
        """The consumer is done with these."""
        positions = tuple(positions)
        self._drop_all(positions)
        self._sought.difference_update(positions)
        if positions:
            self._confirmed.update(positions)
            yield self._release(Release(self.owner, positions))
        yield from self._pump(now_s)

    def confirm_up_to(self, position: int, now_s: float) -> Actions:
        """The consumer is done with all up to a position, also with what it got before it came again."""
        position = min(position, self._tickets.committed)  # nobody is done with what is not there yet
        for one in [one for one in self._under_way if one <= position]:
            self._drop(one)
        self._sought = {one for one in self._sought if one > position}
        self._cursor = max(self._cursor, position)  # what was read ahead up to there is not sent
        self._read_to = max(self._read_to, position)
        self._confirmed_up_to.append(position)
        yield self._release(ReleaseUpTo(self.owner, position))
        yield from self._pump(now_s)

    def dropped(self, positions: Sequence[int], now_s: float) -> Actions:
        """The log has dropped these."""
        self._drop_all(positions)
        self._sought.difference_update(positions)
        yield from self._pump(now_s)

    def _drop_all(self, positions: Sequence[int]) -> None:
        for position in positions:
            self._drop(position)
        if self._ahead and max(positions, default=0) > self._cursor:
            gone = set(positions)
            self._ahead = deque(row for row in self._ahead if row.position not in gone)

    def _is_confirmed(self, position: int) -> bool:
        return position in self._confirmed or position <= max(self._confirmed_up_to, default=-1)

    def _release(self, operation: Release | ReleaseUpTo, *others: Operation) -> Commit:
        def then(outcome: Outcome, now_s: float) -> Actions:
            if outcome.error is not None:
                # A full disk: it is tried until it works, or the events come again after a restart.
                self._failed.append((operation, others))
            elif isinstance(operation, Release):
                self._confirmed.difference_update(operation.positions)
            else:
                self._confirmed_up_to.remove(operation.position)
            return iter(())

        return self._tickets.commit(operation, *others, then=then)

    # -- what is not confirmed in time -----------------------------------------------------------------------

    def redeliver(self, before_s: float) -> Actions:
        """Send again what was sent before a time and is not confirmed."""
        if self._fetching_again:
            return
        late = next((position for position, (_, sent_s) in self._under_way.items() if sent_s <= before_s), 0)
        if late:
            yield self._fetch_again(late, before_s)

    def _fetch_again(self, first: int, before_s: float) -> Fetch:
        def then(read: Read, now_s: float) -> Actions:
            if read.ticket == self._fetching_again:
                self._fetching_again = 0
                yield from self._take_again(first, read, before_s, now_s)

        fetch = self._tickets.fetch(self.owner, first - 1, min(AT_ONCE, len(self._under_way)), then)
        self._fetching_again = fetch.ticket
        return fetch

    def _take_again(self, first: int, read: Read, before_s: float, now_s: float) -> Actions:
        if read.error is not None:
            yield Say(logging.ERROR, str(read.error), {})
            return
        found = {row.position: row for row in read.rows}
        last = self._cursor if read.is_end else read.rows[-1].position
        for position in [one for one in self._under_way if first <= one <= last]:
            size, sent_s = self._under_way.get(position, (0, now_s))
            row = found.get(position)
            if row is None:
                self._drop(position)  # it has been dropped from the queue
            elif isinstance(row, Damaged):
                yield from self._seek(row, now_s)
            elif sent_s <= before_s and self._transmit is not None:
                self._under_way[position] = (size, now_s)
                yield self._transmit(position, row.frame)
        if not self._fetching_again:
            late = [one for one, (_, sent_s) in self._under_way.items() if one > last and sent_s <= before_s]
            if late:
                yield self._fetch_again(late[0], before_s)
        yield from self._pump(now_s)

    # -- the window ------------------------------------------------------------------------------------------

    def _has_room(self) -> bool:
        return len(self._under_way) < self._most and self._under_way_bytes < self._most_bytes

    def _send(self, position: int, frame: bytes, now_s: float) -> Action:
        assert self._transmit is not None
        self._cursor = position
        self._read_to = max(self._read_to, position)
        self._under_way[position] = (len(frame), now_s)
        self._under_way_bytes += len(frame)
        return self._transmit(position, frame)

    def _drop(self, position: int) -> None:
        size, _ = self._under_way.pop(position, (0, 0.0))
        self._under_way_bytes -= size


# -- attachments -------------------------------------------------------------------------------------------------


class State(Enum):
    """A durable subscription as one connection sees it; see the module's text."""

    DETACHED = "the connection has left it"
    ATTACHED = "the connection gets its events"
    TAKEN_OVER = "another connection gets them"
    ENDED = "it exists no longer"


class Input(Enum):
    """What can happen to it."""

    ATTACH = "the connection attaches it"
    TAKE = "another connection attaches it"
    LEAVE = "the connection unsubscribes"
    FORGET = "the connection unsubscribes, and the subscription is to end"
    END = "the subscription ends"
    ACKNOWLEDGE = "the connection acknowledges deliveries"
    REPLACE = "the connection gives it another filter"


class Ignored(NamedTuple):
    """Nothing happens."""

    because: str


class Refused(NamedTuple):
    """The client is told that it cannot be, and why: it could not know."""

    because: str


class Forbidden(NamedTuple):
    """The client breaks the protocol."""

    because: str


_ELSEWHERE: Final = "is attached by another connection now"
_USED: Final = Forbidden("a number of a subscription is used once")
TABLE: Final[Mapping[tuple[State, Input], State | Ignored | Refused | Forbidden]] = {
    (State.DETACHED, Input.ATTACH): State.ATTACHED,
    (State.DETACHED, Input.TAKE): Ignored("nothing is taken from it"),
    (State.DETACHED, Input.LEAVE): Ignored("it has left already"),
    (State.DETACHED, Input.FORGET): Ignored("it has left already"),
    (State.DETACHED, Input.END): State.ENDED,
    (State.DETACHED, Input.ACKNOWLEDGE): State.DETACHED,
    (State.DETACHED, Input.REPLACE): Forbidden("there is no such subscription"),
    (State.ATTACHED, Input.ATTACH): _USED,
    (State.ATTACHED, Input.TAKE): State.TAKEN_OVER,
    (State.ATTACHED, Input.LEAVE): State.DETACHED,
    (State.ATTACHED, Input.FORGET): State.ENDED,
    (State.ATTACHED, Input.END): State.ENDED,
    (State.ATTACHED, Input.ACKNOWLEDGE): State.ATTACHED,
    (State.ATTACHED, Input.REPLACE): State.ATTACHED,
    (State.TAKEN_OVER, Input.ATTACH): _USED,
    (State.TAKEN_OVER, Input.TAKE): Ignored("nothing is taken from it"),
    (State.TAKEN_OVER, Input.LEAVE): Ignored("the other connection has it"),
    (State.TAKEN_OVER, Input.FORGET): Ignored("the other connection has it"),
    (State.TAKEN_OVER, Input.END): State.ENDED,
    (State.TAKEN_OVER, Input.ACKNOWLEDGE): State.TAKEN_OVER,
    (State.TAKEN_OVER, Input.REPLACE): Refused(_ELSEWHERE),
    (State.ENDED, Input.ATTACH): _USED,
    (State.ENDED, Input.TAKE): Ignored("there is nothing to take"),
    (State.ENDED, Input.LEAVE): Ignored("there is nothing to leave"),
    (State.ENDED, Input.FORGET): Ignored("it has ended already"),
    (State.ENDED, Input.END): Ignored("it has ended already"),
    (State.ENDED, Input.ACKNOWLEDGE): Ignored("its queue is gone"),
    (State.ENDED, Input.REPLACE): Refused("has ended"),
}


class Attachment:
    """What a connection has, or had, of a durable subscription, under a number of its own."""

    def __init__(self, link: Link, sid: int, subscription: DurableSubscription) -> None:
        self.link, self.sid = link, sid
        self.subscription = subscription
        self.state = State.DETACHED

    def on(self, given: Input) -> bool:
        """Move; return whether anything is to be done. CoveyError if the client cannot have that."""
        match TABLE[self.state, given]:
            case State() as state:
                self.state = state
                return True
            case Ignored():
                return False
            case Refused(because):
                raise CoveyError(f"the durable subscription {self.subscription.owner.name} {because}")
            case Forbidden(because):
                raise ProtocolError(f"the subscription {self.sid}: {because}")


# -- durable subscriptions ---------------------------------------------------------------------------------------

LINK: Final = "~durable"
SAY_EVERY_S: Final = 10.0
KIND: Final = "subscription"
EXPIRE_AT_ONCE: Final = 1_000  # events that one operation drops


class DurableSubscription:
    """One of them, with the connection that gets its events if there is one."""

    def __init__(self, owner: Owner, filter: Filter, feed: Feed) -> None:
        self.owner = owner
        self.filter = filter
        self.feed = feed
        self.written = -1  # the generation that is on disk
        self.attachments: list[Attachment] = []  # of all connections that are there
        self.dropped = 0
        self.is_trimmed = False  # the log is dropping events of its queue
        self.said_s = -SAY_EVERY_S  # when people were told last of such

    @property
    def attached(self) -> Attachment | None:
        """The attachment that gets its events."""
        return next((one for one in self.attachments if one.state is State.ATTACHED), None)

    @property
    def key(self) -> Key:
        """Its key in routing tables: another one for each filter it has."""
        return f"{LINK}/{self.owner.uid:x}-{self.owner.generation:x}"

    @property
    def bytes(self) -> int:
        """How many bytes its filter takes."""
        return cost_of(self.owner.filter).bytes

    @property
    def title(self) -> str:
        """Its name for people."""
        return title_of(self.owner)


def title_of(owner: Owner) -> str:
    """Return a durable subscription's name for people."""
    return f"{owner.client}/{owner.name}"


class Subscriber(NamedTuple):
    """Which client asks, with which request, for which of its subscriptions."""

    link: Link
    user: str
    client: str  # the name that it has given itself
    request: int
    sid: int


def reply_to(who: Subscriber, error: object = None) -> Send:
    """Return the answer to a request; without an error it is done."""
    # Behind the events that were delivered before: after the answer, what was asked for holds for all that come.
    text = "" if error is None else str(error)
    reply = Reply(who.request, text, kind=kind_of(error))
    return Send(who.link, Kind.REPLY, encode_reply(reply), barrier=True)


def _taken_over(one: DurableSubscription) -> str:
    return f"the durable subscription {one.owner.name} {_ELSEWHERE}"


class DurableSubscriptions:
    """All durable subscriptions of one broker. `salt` makes their keys unlike those of others."""

    def __init__(
        self,
        tickets: Tickets,
        limits: QueueLimits,
        next_owner: Callable[[], int],
        salt: str,
        repair: Repair = UNREPAIRED,
    ) -> None:
        self._tickets = tickets
        self._repair = repair
        self.limits = limits
        self._next_owner = next_owner
        self._salt = salt
        self._by_name: dict[tuple[str, str, str], DurableSubscription] = {}
        self._by_key: dict[Key, DurableSubscription] = {}
        self._bytes: Counter[tuple[str, str]] = Counter()  # of filters, by user and client
        self._attachments: dict[Link, dict[int, Attachment]] = {}
        self.grown: set[Key] = set()  # those whose queues may be too long
        self.dropped = 0  # events of all subscriptions, also of those that have ended

    def load(self, owners: Iterable[Owner]) -> Actions:
        """Put what is stored into the router; before any link is up."""
        yield Tell(LinkUp(client=True), LINK)
        for owner in owners:
            if owner.kind == KIND:
                one = self._make(owner, decode_filter(owner.filter))
                one.written = owner.generation
                yield from self._add(one)

    def all(self) -> Sequence[DurableSubscription]:
        """Return all of them."""
        return list(self._by_name.values())

    def keys(self) -> Set[Key]:
        """Return the keys under which they are in the router."""
        return self._by_key.keys()

    def find(self, key: Key) -> DurableSubscription | None:
        """Return one by its key in the router, if that is still its key."""
        return self._by_key.get(key)

    def by_key(self, key: Key) -> DurableSubscription:
        """Return one by its key in the router."""
        return self._by_key[key]

    def attachment(self, link: Link, sid: int) -> Attachment | None:
        """Return what a connection has, or had, of a durable subscription under this number."""
        return self._attachments.get(link, {}).get(sid)

    def _make(self, owner: Owner, filter: Filter) -> DurableSubscription:
        limits = self.limits
        repair = self._repair._replace(title=f"durable subscription {title_of(owner)}")
        feed = Feed(self._tickets, owner.id, limits.window, limits.window_bytes, repair)
        return DurableSubscription(owner, filter, feed)

    def _add(self, one: DurableSubscription) -> Actions:
        self._by_name[one.owner[2:5]] = one
        self._by_key[one.key] = one
        self._bytes[one.owner[2:4]] += one.bytes
        yield Tell(Subscribe(one.key, one.filter), LINK)

    def filter_bytes(self, user: str, client: str) -> int:
        """Return how many bytes the filters of a client's subscriptions take (`core.costs`)."""
        return self._bytes[user, client] if client else 0

    def replaced_bytes(self, who: Subscriber, name: str | None) -> int:
        """Return what the filter takes that a request replaces: of the subscription with that name, or number."""
        if name is not None:
            one = self._by_name.get((who.user, who.client, name))
        else:
            attachment = self.attachment(who.link, who.sid)
            one = None if attachment is None else attachment.subscription
        return 0 if one is None else one.bytes

    # -- what clients ask for --------------------------------------------------------------------------------

    def subscribe(self, who: Subscriber, name: str, filter: Filter) -> Actions:
        """A client has come for its subscription, or makes it; CoveyError if it may not."""
        if not who.client:
            raise CoveyError("a durable subscription needs a client with a name")
        if len(name) > MAX_NAME:
            raise CoveyError(f"a subscription's name has at most {MAX_NAME} characters")
        one = self._by_name.get((who.user, who.client, name))
        if one is None:
            if len(self._by_name) >= self.limits.subscriptions:
                raise CoveyError(f"there may be {self.limits.subscriptions:,} durable subscriptions here")
            owner = self._next_owner()
            one = self._make(
                Owner(owner, KIND, who.user, who.client, name, self._uid(owner), 0, filter.encode()), filter
            )
            yield from self._add(one)
        attachment = yield from self._take(one, who)
        if filter != one.filter:
            yield from self._change(one, filter)
        if one.written == one.owner.generation:
            yield from self._begin(attachment, who)
        else:
            yield self._write(one, lambda outcome, now_s: self._begin(attachment, who, outcome.error))

    def _uid(self, owner: int) -> int:
        digest = blake2b(f"{self._salt}/{owner}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") >> 1

    def _take(self, one: DurableSubscription, who: Subscriber) -> Generator[Action, None, Attachment]:
        old = one.attached
        attachment = Attachment(who.link, who.sid, one)
        if old is not None:
            old.on(Input.TAKE)
            one.feed.detach()
            if old.link != who.link:
                yield Send(old.link, Kind.REPLY, encode_reply(Reply(0, _taken_over(one))))
        attachment.on(Input.ATTACH)
        one.attachments.append(attachment)
        self._attachments.setdefault(who.link, {})[who.sid] = attachment
        return attachment

    def _write(self, one: DurableSubscription, then: Then) -> Commit:
        generation = one.owner.generation

        def written(outcome: Outcome, now_s: float) -> Actions:
            if outcome.error is None:
                one.written = max(one.written, generation)
            yield from then(outcome, now_s)

        return self._tickets.commit(one.owner, then=written)

    def _begin(self, attachment: Attachment, who: Subscriber, error: StoreError | None = None) -> Actions:
        """Begin the delivery, now that all that must be is on disk; with an error it is not."""
        link, sid, one = attachment.link, attachment.sid, attachment.subscription

        def deliver(position: int, frame: bytes) -> Action:
            return SendEvent(link, Kind.DELIVERY, encode_delivery(frame, (sid,), position)[1:])

        if error is not None:
            yield reply_to(who, error)
            if attachment.on(Input.LEAVE):
                one.feed.detach()
            if one.written < 0 and one.attached is None and self.find(one.key) is one:
                yield from self.end(one)  # nothing of it is on disk
        elif attachment.state is State.ATTACHED:
            yield reply_to(who)
            yield from one.feed.attach(deliver)
        elif attachment.state is State.TAKEN_OVER:
            yield reply_to(who, _taken_over(one))
        else:
            yield reply_to(who)  # the client has left it meanwhile

    def replace(self, who: Subscriber, filter: Filter) -> Actions:
        """Give a subscription another filter; what is in its queue stays. ProtocolError if there is none."""
        attachment = self._known(who)
        attachment.on(Input.REPLACE)
        yield from self._change(attachment.subscription, filter)
        yield self._write(
            attachment.subscription, lambda outcome, now_s: iter((reply_to(who, outcome.error),))
        )

    def _known(self, who: Subscriber) -> Attachment:
        attachment = self.attachment(who.link, who.sid)
        if attachment is None:
            raise ProtocolError(f"there is no subscription {who.sid}")
        return attachment

    def _change(self, one: DurableSubscription, filter: Filter) -> Actions:
        old = one.key
        self._bytes[one.owner[2:4]] -= one.bytes
        one.owner = one.owner._replace(generation=one.owner.generation + 1, filter=filter.encode())
        one.filter = filter
        self._bytes[one.owner[2:4]] += one.bytes
        self._by_key[one.key] = one
        yield Tell(Subscribe(one.key, filter), LINK)
        yield Tell(Unsubscribe(old), LINK)
        del self._by_key[old]

    def unsubscribe(self, who: Subscriber, forget: bool) -> Actions:
        """Leave a subscription, or end it. ProtocolError if there is none."""
        attachment = self._known(who)
        one = attachment.subscription
        if not attachment.on(Input.FORGET if forget else Input.LEAVE):
            yield reply_to(who)
            return
        one.feed.detach()
        if forget:
            yield from self.end(one, lambda outcome, now_s: iter((reply_to(who, outcome.error),)))
        else:
            yield reply_to(who)

    def client_gone(self, link: Link) -> None:
        """A client is gone; its durable subscriptions stay."""
        for attachment in self._attachments.pop(link, {}).values():
            one = attachment.subscription
            if attachment.on(Input.LEAVE):
                one.feed.detach()
            one.attachments.remove(attachment)

    def end(self, one: DurableSubscription, then: Then | None = None) -> Actions:
        """A subscription ends, and its queue is deleted."""
        for attachment in one.attachments:
            attachment.on(Input.END)
        one.feed.detach()
        yield Tell(Unsubscribe(one.key), LINK)
        del self._by_key[one.key], self._by_name[one.owner[2:5]]
        self._bytes[one.owner[2:4]] -= one.bytes
        if not self._bytes[one.owner[2:4]]:
            del self._bytes[one.owner[2:4]]
        yield self._tickets.forget(one.owner.id, then)

    def acknowledge(self, link: Link, what: Acknowledgement, now_s: float) -> Actions:
        """A client is done with deliveries, also with those of a subscription that it has left meanwhile."""
        attachment = self.attachment(link, what.sid)
        if attachment is None or not what.positions or not attachment.on(Input.ACKNOWLEDGE):
            return
        feed = attachment.subscription.feed
        if what.cumulative:
            yield from feed.confirm_up_to(max(what.positions), now_s)
        else:
            yield from feed.confirm(what.positions, now_s)

    # -- limits ----------------------------------------------------------------------------------------------

    def trim(self, one: DurableSubscription) -> Actions:
        """Drop the oldest events of a queue that is too long."""
        limits = self.limits
        count, size = self._tickets.waiting(one.owner.id)
        if one.is_trimmed or (count <= limits.events and size <= limits.bytes):
            return
        over = max(count - limits.events, -(-count * (size - limits.bytes) // max(size, 1)))

        def then(outcome: Outcome, now_s: float) -> Actions:
            one.is_trimmed = False
            if outcome.error is None:
                self.grown.add(one.key)  # it may have grown meanwhile
            yield from self._dropped(one, outcome.gone, "is too long", now_s)

        one.is_trimmed = True
        yield self._tickets.commit(Trim(one.owner.id, over), then=then)

    def trim_grown(self) -> Actions:
        """Drop what is too much in queues that have grown."""
        grown, self.grown = self.grown, set()
        for key in grown:
            one = self.find(key)
            if one is not None:
                yield from self.trim(one)

    def tick(self, now_s: float) -> Actions:
        """Deliver again what was not acknowledged in time."""
        for one in self.all():
            if not one.feed.is_idle:
                yield from one.feed.redeliver(now_s - self.limits.again_after_s)
                yield from one.feed.tick(now_s)

    def expire(self, log_s: float) -> Actions:
        """Drop what is too old, by the log's clock, or too much."""
        for one in self.all():
            if self._tickets.waiting(one.owner.id)[0]:
                yield self._expire(one, log_s - self.limits.age_s)
                yield from self.trim(one)

    def _expire(self, one: DurableSubscription, before_s: float) -> Commit:
        def then(outcome: Outcome, now_s: float) -> Actions:
            yield from self._dropped(one, outcome.gone, "has events that are too old", now_s)
            if len(outcome.gone) == EXPIRE_AT_ONCE:
                yield self._expire(one, before_s)

        return self._tickets.commit(Expire(one.owner.id, before_s, EXPIRE_AT_ONCE), then=then)

    def _dropped(self, one: DurableSubscription, positions: Sequence[int], why: str, now_s: float) -> Actions:
        if not positions:
            return
        one.dropped += len(positions)
        self.dropped += len(positions)
        if now_s - one.said_s >= SAY_EVERY_S:
            one.said_s = now_s
            text = f"the queue of the durable subscription {one.title} {why}: its oldest events are dropped, "
            yield Say(logging.WARNING, f"{text}{one.dropped} so far", {})
        yield from one.feed.dropped(positions, now_s)
