"""The log: what a broker keeps on disk, as a contract in values. `sqlite` implements it.

An *owner* is somebody for whom events wait: an outbox (a neighbour broker) or a durable subscription. An event is kept
once, at a *position*, with an entry for each owner. Positions grow, and none is given twice.

The owner of a log hands it batches of operations and questions, and gets answers:

    Batch(ticket, operations)              carried out wholly or not at all → Committed(tickets, error, …)
    Fetch(ticket, owner, after, …)         the owner's next events          → Read(ticket, owner, rows, …)
    Find(ticket, names)                    undamaged copies of some events  → Found(ticket, copies, …)

The log's duties:

 1. A `Committed` without an error is reported when its batches would survive a power cut. The log may commit many
    batches at a time: one `Committed` is one transaction. A batch fails alone.
 2. Batches are reported in the order in which they were submitted.
 3. A `Read` shows exactly those batches that were reported before it. A `Find` takes long, and nothing waits for it:
    what is kept or released meanwhile may be in its `Found` or not.
 4. The checksum of every event is checked when the event is read. A damaged event is a `Damaged` in its place, with its
    name if that is known. It stays until it is released, or until a `Mend` or a `Renew` puts a good copy in its place.
 5. If an event cannot be kept, all events behind it fail too, until a `Resume`. So what is tried again later does not
    come behind what was sent after it. Other operations are carried out.
 6. `Trim` and `Expire` find their events themselves, and `Committed.gone` says which ones they were.
 7. What was committed and is not there when the log is opened is said: `Recovered.missing` and `Recovered.warnings`.
    Positions that may have been given away are not given again: `Recovered.last` is beyond them.
 8. Everything that is asked is answered once, whatever happens. What people must know of the log as a whole is a
    `Notice`, which answers nothing. After one that says `is_end`, every answer is an error.

Times in the log (`Keep.stored_s`, `Expire.before_s`, `Clock.log_s`) are seconds of the log's own clock. That clock is
not the one on the wall, which may jump: it goes on only while the broker runs, as fast as the monotonic clock, and from
where the log's last life has left it (`Recovered.clock`). The first life begins it with the time of day.

`LogClock` is that clock, by which events grow old. It shows seconds, goes on as the monotonic clock does while the
broker runs, and stands still while it does not: an event that waits in a broker that is down does not age. The clock on
the wall is only watched. If it moves by more than `TOLERANCE_S` against the monotonic clock, it has jumped, and people
are told; nothing else follows from that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from covey.errors import StoreError

WINDOW: Final = 1 << 16  # names of events that are remembered
# Positions that are left out behind the last one that is known, where more may have been given away and forgotten: more
# than a broker gives away within the time by which a mark, or what neighbours were told, may be behind.
GAP: Final = 1 << 20


# -- operations --------------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """An owner waits for an event; `frame` is what the owner gets if it is not the event's own."""

    owner: int
    frame: bytes | None = None


class Keep(NamedTuple):
    """Keep an event for its owners; `seen` says that its name is to be remembered. `stored_s` is the log's time."""

    position: int
    publisher: int
    number: int
    frame: bytes
    stored_s: float
    entries: tuple[Entry, ...]
    seen: bool


class Release(NamedTuple):
    """An owner is done with some events; those that do not wait for it are ignored."""

    owner: int
    positions: tuple[int, ...]


class ReleaseUpTo(NamedTuple):
    """An owner is done with all events up to a position."""

    owner: int
    position: int


class Trim(NamedTuple):
    """Drop the oldest events of an owner, so many of them."""

    owner: int
    events: int


class Expire(NamedTuple):
    """Drop those of an owner's oldest `limit` events that were stored before a time; none if the first was not."""

    owner: int
    before_s: float
    limit: int


class Mend(NamedTuple):
    """Put a good copy in the place of a damaged event, for one owner; nothing happens if it waits no longer."""

    owner: int
    position: int
    frame: bytes


class Renew(NamedTuple):
    """An event that was kept at a position has arrived again: if what is there is damaged, this copy takes its place.

    That is for all who wait for it. Nothing happens if nobody does, or if what is there is as it was stored: once this
    is carried out, the log has the event for everybody who waits for it. `stored_s` is the log's time.
    """

    position: int
    publisher: int
    number: int
    frame: bytes
    stored_s: float


class Unsee(NamedTuple):
    """Forget the name of the event at a position: that event is lost, and is to be taken if it is sent again."""

    position: int


class Clock(NamedTuple):
    """Remember what the clocks show: the log's own, and the one on the wall."""

    log_s: float
    wall_s: float


class Owner(NamedTuple):
    """Add an owner, or replace what is known of it: `kind` is "outbox" or "subscription".

    One of the same kind, user, client and name that has another number goes, with all that waits for it. Numbers grow,
    and none is given twice.
    """

    id: int
    kind: str
    user: str
    client: str
    name: str
    uid: int = 0
    generation: int = 0
    filter: bytes = b""


class Forget(NamedTuple):
    """Remove an owner and all that waits for it."""

    owner: int


class Resume(NamedTuple):
    """Try again to keep events, after some could not be kept."""


Operation = (
    Keep | Release | ReleaseUpTo | Trim | Expire | Mend | Renew | Unsee | Clock | Owner | Forget | Resume
)


# -- what is asked -----------------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """Operations that are carried out together or not at all; the answer has the ticket."""

    ticket: int
    operations: tuple[Operation, ...]

    @property
    def keeps(self) -> bool:
        """Whether an event is among them."""
        return any(isinstance(operation, Keep) for operation in self.operations)

    @property
    def resumes(self) -> bool:
        """Whether events are to be kept again from here on."""
        return any(isinstance(operation, Resume) for operation in self.operations)


class Fetch(NamedTuple):
    """Read an owner's next events behind a position: at most `limit` of them, and none beyond `size` bytes."""

    ticket: int
    owner: int
    after: int
    limit: int
    size: int = 1 << 20


class Find(NamedTuple):
    """Look for undamaged copies of events, by publisher and number; it may take long, as nothing is sorted by name."""

    ticket: int
    names: tuple[tuple[int, int], ...]


Asked = Batch | Fetch | Find


# -- what is answered --------------------------------------------------------------------------------------------


class Room(NamedTuple):
    """How full a log is; free pages inside its file count as free."""

    used_bytes: int
    max_bytes: int


class Change(NamedTuple):
    """How many more events wait for an owner, and how many more bytes; both may be negative."""

    owner: int
    events: int
    size: int


class Committed(NamedTuple):
    """Batches that are on disk, or those that are not with the reason."""

    tickets: tuple[int, ...]
    error: StoreError | None = None
    room: Room | None = None  # None: as before
    changes: tuple[Change, ...] = ()
    gone: Mapping[int, tuple[int, ...]] = {}  # positions, by the ticket of what dropped them
    renewed: Mapping[int, tuple[int, ...]] = {}  # and of damaged events, by that of what renewed them


class Row(NamedTuple):
    """An event as its owner gets it."""

    position: int
    frame: bytes


class Damaged(NamedTuple):
    """An event whose checksum is wrong: it must not be delivered. `name` is None if it is not known for certain.

    It is certain if something says it that has a checksum of its own, or if two parts of what is damaged agree on it.
    """

    position: int
    name: tuple[int, int] | None = None


class Read(NamedTuple):
    """An owner's next events, in order: at least one if there is any. `is_end`: there are no more.

    `is_unsound`: some entries have no position any longer, and are left out until the log is opened again.
    """

    ticket: int
    owner: int
    rows: tuple[Row | Damaged, ...] = ()
    is_end: bool = False
    error: StoreError | None = None
    is_unsound: bool = False


class Found(NamedTuple):
    """Copies of those events that were asked for and are here, as frames by name."""

    ticket: int
    copies: Mapping[tuple[int, int], bytes] = {}
    error: StoreError | None = None


class Notice(NamedTuple):
    """What people must know of the log: something goes wrong, or is right again. `is_end`: it keeps nothing more."""

    text: str
    is_right: bool = False
    is_end: bool = False


Answer = Committed | Read | Found | Notice
Report = Callable[[Sequence[Answer]], None]


class Recovered(NamedTuple):
    """What a log holds when it is opened."""

    room: Room
    owners: tuple[Owner, ...] = ()
    # The last events that were confirmed, oldest first: their names, with the positions at which they were kept.
    names: Mapping[tuple[int, int], int] = {}
    sizes: Mapping[int, tuple[int, int]] = {}  # events and bytes that wait, by owner
    last: int = 0  # positions are given away behind this one
    window: int = WINDOW  # how many names are remembered
    warnings: tuple[str, ...] = ()  # what people must know of damage
    notices: tuple[str, ...] = ()  # what else they should know, such as that the file was migrated
    known: int = 0  # the last position of which the log knows; none up to `last` is given again
    missing: int = 0  # positions that were given away and of which the log does not know: events at its end
    clock: Clock | None = None  # what was remembered last; None if nothing was
    last_owner: int = 0  # the last owner's number that was given away
    # Names of events that the log had, and may have lost for some who wait: to be taken if they are sent again.
    doubtful: tuple[tuple[int, int], ...] = ()


class Log(Protocol):
    """What durable delivery keeps its events in; see the module's text."""

    def open(self) -> Recovered:
        """Open the log, made or mended where needed; ConfigError if it belongs to another broker or cannot be used."""

    def submit(self, asked: Sequence[Asked]) -> None:
        """Take batches and questions. The answers are reported later, never from within this call."""

    def room(self) -> Room:
        """Return how full the log is, as far as it has reported."""


TOLERANCE_S: Final = 5.0  # between two looks at the clocks; clocks that are set right slowly move by less


class LogClock:
    """See the module's text. `before` is what the log has remembered of its last life."""

    def __init__(self, before: Clock | None, now_s: float, wall_s: float) -> None:
        begin_s = wall_s if before is None else before.log_s
        self._ahead_s = begin_s - now_s
        self._wall_ahead_s = wall_s - now_s
        self.jumps = 0  # of the clock on the wall
        # How far the wall clock has gone back since the log was written last; forward, the broker may have been down.
        self._behind_s = 0.0 if before is None else before.wall_s - wall_s

    def read(self, now_s: float) -> float:
        """Return the log's time."""
        return now_s + self._ahead_s

    def remembered(self, now_s: float, wall_s: float) -> Clock:
        """Return what the log is to remember."""
        return Clock(self.read(now_s), wall_s)

    def jumped(self, now_s: float, wall_s: float) -> float:
        """Return by how many seconds the clock on the wall has jumped since it was looked at last; 0: it has not."""
        jump_s = wall_s - now_s - self._wall_ahead_s
        if self._behind_s > TOLERANCE_S:
            jump_s = -self._behind_s
        self._behind_s = 0.0
        self._wall_ahead_s = wall_s - now_s
        if abs(jump_s) <= TOLERANCE_S:
            return 0.0
        self.jumps += 1
        return jump_s
