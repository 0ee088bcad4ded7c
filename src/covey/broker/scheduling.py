"""Scheduling: whose frames are handled next, how many of them, and who has to wait.

What has come waits by connection, in its order. A turn takes some of it from each connection that has something, so
that no flood from one delays the others (deficit round robin). Shares are equal in *work*, counted in units of about a
microsecond of processor time: an event costs little, a subscription much more. A connection that has used more than its
share, because one frame was larger than that, waits until its share has grown again, as long as others have work.
A connection of which nothing has waited comes before those that were in turns already, which get half of a turn at
least: whoever says little need not wait until all have had theirs that say much.

What a frame costs is estimated by its kind and length, and for events by what those before it of the same connection
have cost: an event that goes to a hundred connections costs a hundred times one that goes to nobody. What it has cost
beyond that, which is only known when it is done (`core.work`), is charged to its connection then. A turn in which more
was done than a turn is for ends at once. Frames that it has not come to are put back, and are the first of their
connections in a later turn. Connections of which nothing was handled are the next; one that the turn had begun with
comes behind all others again.

What a turn has to send goes out at its end. So connections that have sent little do not share each turn with those that
have sent much, nor with a slice of long work (`jobs`): a turn does one of the two at most, by turns if there is both,
and after it comes a turn without, if somebody has sent little meanwhile. So what little there is waits for one long
piece of work, of about half a millisecond, and not for two.

What waits is counted. Beyond one bound the router is told that the broker is congested (and holds back what can wait);
a connection of which too much waits is not read until less does, and TCP slows its sender.

A connection can be *blocked*: what it has sent waits, in its order, and nothing more is read from it until it is
unblocked. That is how a full outbox with the policy `block` slows those who fill it, and nobody else: on a tree that
cannot end in a circle, as an event never goes back to where it came from. A connection that takes nothing while its
outbox is full is ended after a while. With any policy a connection that reads too slowly is named: in the log once an
episode, and in `slow`, how often.

`Joining` says when the shell waits a moment before it reads again, so that one turn handles what many connections send.
A turn costs about as much as some events: the process wakes up, asks which sockets have something, steps the core and
writes to each receiver. Where many connections send single events, each finds a broker that sleeps, and pays for a turn
of its own. While they do, the shell pauses after each turn, for PAUSE_S at most, and what has come meanwhile is read
and handled together. An event waits half of that longer on average.

The rule is fixed and sees nothing but the time and how many small reads there were since the last turn:

    APART       turns follow each other at once. If, over a window, more than RATE reads a second were handled, and
                few of them together, pauses begin
    TOGETHER    there is a pause after each turn, until fewer than RATE reads a second come in

Clients that wait for an answer before they send more are slowed down by pauses, and nothing is gained. That shows:
fewer reads come in than without pauses. Then pauses end, and are tried again after AGAIN_S at the earliest.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import ceil
from typing import Final

from covey.protocol.batches import Frames
from covey.protocol.frames import Kind
from covey.protocol.outbox import Verdict

TURN: Final = 1_000.0  # units of work that one turn does, of all connections together
HEAVY: Final = 40.0  # from which what a connection has in a turn is much
LEAST: Final = 50.0  # that a connection gets of a turn
EVENT: Final = 0.5  # of an event, and 1 for each EVENT_BYTES of it
EVENT_BYTES: Final = 4_096
CONTROL: Final = 30.0  # of any other frame,
CONTROL_BYTE: Final = 0.3  # and of each byte of it: a longer filter, or more of them

FADES: Final = (
    0.9  # of what events of a connection have cost, from turn to turn, until some are as dear again
)

CHEAP: Final = 20.0  # units of an event beyond its length, up to which a few need not wait for a turn

MOST_CHARGED: Final = 1_000_000.0  # that a connection can owe: a second, after which it is forgiven

HELD_AT: Final = 20_000  # frames of one connection, beyond which it is not read
HELD_BYTES: Final = 32 << 20

EPISODE_S: Final = 10.0  # of one slow connection, during which it is named once
MAX_NAMED: Final = 1_000  # of whom is counted by name

_EVENTS: Final = 1 << Kind.EVENT  # the kinds of frames that are all events

Work = tuple[int, Frames]  # a connection, and frames of it


def affordable(frames: Frames, credit: float, extra: float = 0.0) -> tuple[int, float]:
    """Return how many of these frames a credit pays for, at least one, and their work; the last may overdraw it.

    `extra` is what each event costs beyond what its length says.
    """
    if frames.kinds == _EVENTS:
        cost = (EVENT + extra) * frames.number + frames.size / EVENT_BYTES
        if cost <= credit or frames.number == 1:  # as mostly
            return frames.number, cost
        each = cost / frames.number
        count = max(1, min(frames.number, ceil(credit / each)))
        return count, count * each
    # Only as far as the credit goes: there may be thousands behind that, which later turns count.
    count, cost = 0, 0.0
    for kind, length in frames.outlines():
        cost += (
            EVENT + extra + length / EVENT_BYTES if kind == Kind.EVENT else CONTROL + length * CONTROL_BYTE
        )
        count += 1
        if cost >= credit:
            break
    return count, cost


@dataclass(slots=True)
class _Waiting:
    """What one connection has sent."""

    chunks: deque[Frames] = field(default_factory=deque)
    count: int = 0
    bytes: int = 0
    credit: float = 0.0
    extra: float = 0.0  # units that an event of it has cost lately, beyond what its length says
    is_held: bool = False
    is_due: bool = False  # it is in the queue of turns

    @property
    def is_over(self) -> bool:
        return self.count > HELD_AT or self.bytes > HELD_BYTES

    @property
    def is_under(self) -> bool:
        return self.count <= HELD_AT // 2 and self.bytes <= HELD_BYTES // 2


class Scheduler:
    """Frames by connection; see the module's text."""

    def __init__(self, congested_at: int, calm_at: int) -> None:
        self.congested_at, self.calm_at = congested_at, calm_at
        self.count = 0  # frames that wait
        self.longest = 0
        self.is_congested = False
        self._waiting: dict[int, _Waiting] = {}
        self._blocked: set[int] = set()
        self._fresh: deque[int] = deque()  # of which nothing waited before; they come first
        self._due: deque[int] = deque()
        self._was_long = False  # whether anybody had much in the last turn, or it was for long work
        self._had_jobs = False  # which of the two it was last

    @property
    def has_work(self) -> bool:
        """Whether a turn would find something."""
        return bool(self._due or self._fresh)

    def put(self, connection: int, frames: Frames) -> bool:
        """Take frames of a connection; return whether it is not to be read from now on."""
        waiting = self._waiting.get(connection)
        if waiting is None:
            waiting = self._waiting[connection] = _Waiting()
        waiting.chunks.append(frames)
        waiting.count += frames.number
        waiting.bytes += frames.size
        self.count += frames.number
        if self.count > self.longest:
            self.longest = self.count
        if not waiting.is_due and connection not in self._blocked:
            waiting.is_due = True
            (self._fresh if waiting.credit >= 0 else self._due).append(connection)
        if waiting.is_held or not waiting.is_over:
            return False
        waiting.is_held = True
        return True

    def is_clear(self, connection: int) -> bool:
        """Return whether a few events of a connection, of which nothing waits, would be handled in the next turn."""
        if connection in self._blocked:
            return False
        waiting = self._waiting.get(connection)
        if waiting is None:
            waiting = self._waiting[connection] = _Waiting()  # so that what its events cost can be charged
        return waiting.credit >= 0 and waiting.extra <= CHEAP and not waiting.chunks

    def put_back(self, work: Sequence[Work], begun: Collection[int]) -> None:
        """Take work back that was handed out and not handled: it comes before all else of its connections.

        These are the next ones; but those that have `begun`, of which something was handled, come behind all others.
        """
        for connection, frames in reversed(work):
            waiting = self._waiting.get(connection)
            if waiting is None:
                waiting = self._waiting[connection] = _Waiting()
            waiting.chunks.appendleft(frames)
            waiting.count += len(frames)
            waiting.bytes += frames.size
            waiting.credit += affordable(frames, MOST_CHARGED, waiting.extra)[1]
            self.count += len(frames)
        back = {connection: self._waiting[connection] for connection, _ in work}
        first = [one for one in back if one not in begun and one not in self._blocked]
        last = [one for one in back if one in begun and one not in self._blocked]
        self._due = deque([*first, *(one for one in self._due if one not in back), *last])
        for connection, waiting in back.items():
            waiting.is_due = connection not in self._blocked

    def charge(self, connection: int, units: float) -> None:
        """Count what the work of a connection has cost beyond the estimate."""
        waiting = self._waiting.get(connection)
        if waiting is not None:
            waiting.credit = max(waiting.credit - units, -MOST_CHARGED)

    def charge_events(self, connection: int, events: int, units: float) -> None:
        """Count what events of a connection have cost beyond their length; the next ones may cost as much."""
        waiting = self._waiting.get(connection)
        if waiting is not None:
            self.charge(connection, units - events * waiting.extra)
            waiting.extra = min(units / events, MOST_CHARGED)

    def _make_due(self, connection: int, waiting: _Waiting) -> None:
        if not waiting.is_due and waiting.chunks and connection not in self._blocked:
            waiting.is_due = True
            self._due.append(connection)

    def turn(self, *, has_jobs: bool = False) -> tuple[list[Work], list[int], bool]:
        """Return what is to be handled now, in its order, the connections that are to be read again, and what else.

        That is whether a slice of long work is to be done too, if there is any.
        """
        light, heavy, resumed = self._round()
        if not light and not heavy and self._due:
            self._forgive()
            light, heavy, resumed = self._round()
        may_be_long = not (light and self._was_long)
        does_jobs = has_jobs and may_be_long and not (heavy and self._had_jobs)
        if heavy and (does_jobs or not may_be_long):
            self.put_back(heavy, {connection for connection, _ in heavy})  # others come before them again
            heavy = []
        self._was_long = does_jobs or bool(heavy)
        if self._was_long:
            self._had_jobs = does_jobs
        return light + heavy, resumed, does_jobs

    def _round(self) -> tuple[list[Work], list[Work], list[int]]:
        """Return what connections with little in this turn have sent, those with much, and who is to be read again."""
        light: list[Work] = []
        heavy: list[Work] = []
        resumed: list[int] = []
        left, rounds = TURN, len(self._due)
        share = max(LEAST, TURN / max(1, rounds + len(self._fresh)))
        while self._fresh and left > (TURN / 2 if rounds else 0.0):
            left -= self._serve(self._fresh.popleft(), share, light, heavy, resumed)
        again = [self._due.pop() for _ in range(len(self._due) - rounds)]
        self._due += self._fresh  # they have come before those that have had their first turn now
        self._due += reversed(again)
        self._fresh.clear()
        while rounds > 0 and left > 0:
            rounds -= 1
            left -= self._serve(self._due.popleft(), share, light, heavy, resumed)
        return light, heavy, resumed

    def _serve(
        self, connection: int, share: float, light: list[Work], heavy: list[Work], resumed: list[int]
    ) -> float:
        """Take what a connection may have handled in a turn; return how many units of work that is."""
        waiting = self._waiting.get(connection)
        if waiting is None:
            return 0.0  # it is gone
        waiting.is_due = False
        if connection in self._blocked or not waiting.chunks:
            return 0.0
        alone = not (self._due or self._fresh or light or heavy)
        waiting.credit = share if alone else min(waiting.credit + share, 2 * share)
        work: list[Work] = []
        taken = 0.0
        while waiting.chunks and waiting.credit > 0:
            frames, cost = self._take(waiting)
            waiting.credit -= cost
            taken += cost
            work.append((connection, frames))
        if taken < HEAVY:
            light += work
        else:
            heavy += work
        waiting.extra *= FADES
        if waiting.is_held and waiting.is_under:
            waiting.is_held = False
            resumed.append(connection)
        if waiting.chunks:
            self._make_due(connection, waiting)
        else:
            waiting.credit = min(waiting.credit, 0.0)
        return taken

    def _forgive(self) -> None:
        """All have used more than their share: let the one that has used least of it go on at once."""
        some = [self._waiting[one] for one in self._due if one in self._waiting]
        most = max((waiting.credit for waiting in some), default=0.0)
        for waiting in some:
            waiting.credit -= most

    def _take(self, waiting: _Waiting) -> tuple[Frames, float]:
        """Take the frames of the next chunk that a connection's credit covers, at least one."""
        frames = waiting.chunks.popleft()
        count, cost = affordable(frames, waiting.credit, waiting.extra)
        if count < frames.number:
            frames, rest = frames.split(count)
            waiting.chunks.appendleft(rest)
        self.count -= count
        waiting.count -= count
        waiting.bytes -= frames.size
        return frames, cost

    def block(self, connection: int) -> bool:
        """Let what a connection has sent wait; return whether it did not before."""
        if connection in self._blocked:
            return False
        self._blocked.add(connection)
        return True

    def unblock(self, connection: int) -> None:
        """Handle again what a connection has sent."""
        self._blocked.discard(connection)
        if connection in self._waiting:
            self._make_due(connection, self._waiting[connection])

    def is_blocked(self, connection: int) -> bool:
        """Return whether what a connection has sent has to wait."""
        return connection in self._blocked

    def waits(self, connection: int) -> bool:
        """Return whether anything of a connection is not handled yet."""
        return connection in self._waiting and bool(self._waiting[connection].chunks)

    def size_of(self, connection: int) -> int:
        """Return how many bytes of a connection are not handled yet."""
        waiting = self._waiting.get(connection)
        return 0 if waiting is None else waiting.bytes

    def finish(self, connection: int) -> list[Frames]:
        """Forget a connection that is gone; return what it had sent and nobody has handled."""
        waiting = self._waiting.pop(connection, None)
        self._blocked.discard(connection)
        if waiting is None:
            return []
        self.count -= waiting.count
        return list(waiting.chunks)

    def congestion(self) -> bool | None:
        """Return whether the broker is congested now, if that has changed; None if it has not."""
        on = self.count > (self.calm_at if self.is_congested else self.congested_at)
        if on == self.is_congested:
            return None
        self.is_congested = on
        return on


class Pressure:
    """The full outboxes of one broker, and who waits for them; see the module's text."""

    def __init__(self) -> None:
        self.slow: Counter[str] = Counter()  # how often, by a peer's name for people
        self._sources: dict[int, dict[int, None]] = {}  # that wait, by the full connection
        self._full_since_s: dict[int, tuple[float, int]] = {}  # with the bytes that it had taken then
        self._named_s: dict[int, float] = {}

    def pressed(
        self, connection: int, verdict: Verdict, sent_bytes: int, sources: Iterable[int], now_s: float
    ) -> list[int]:
        """Note that the bounds of an outbox are met; return which of those who filled it have to wait."""
        if verdict is not Verdict.FULL:
            return []
        self._full_since_s.setdefault(connection, (now_s, sent_bytes))
        waiting = [source for source in sources if source != connection]
        self._sources.setdefault(connection, {}).update(dict.fromkeys(waiting))
        return waiting

    def wait_for(self, what: int, sources: Iterable[int]) -> None:
        """Note that sources wait for something that is no connection, until it is `drained`."""
        self._sources.setdefault(what, {}).update(dict.fromkeys(sources))

    def is_news(self, connection: int, verdict: Verdict, name: str, now_s: float) -> bool:
        """Return whether people should be told of a slow connection: once an episode."""
        last_s = self._named_s.get(connection)
        if last_s is not None and now_s - last_s < EPISODE_S and verdict is not Verdict.LOST:
            return False
        self._named_s[connection] = now_s
        if name in self.slow or len(self.slow) < MAX_NAMED:
            self.slow[name] += 1
        return True

    def drained(self, connection: int) -> list[int]:
        """Note that a full outbox has room again; return who waits for nobody any longer."""
        self._full_since_s.pop(connection, None)
        return [
            source
            for source in self._sources.pop(connection, ())
            if not any(source in others for others in self._sources.values())
        ]

    def gone(self, connection: int) -> list[int]:
        """Forget a connection, full or waiting; return who waits for nobody any longer."""
        self._named_s.pop(connection, None)
        freed = self.drained(connection)
        for others in self._sources.values():
            others.pop(connection, None)
        return freed

    def waits(self, connection: int) -> bool:
        """Return whether a connection waits for a full outbox."""
        return any(connection in sources for sources in self._sources.values())

    @property
    def is_felt(self) -> bool:
        """Whether any outbox is full."""
        return bool(self._full_since_s)

    def stalled(self, sent_bytes: Mapping[int, int], stalled_s: float, now_s: float) -> list[int]:
        """Return the full connections that have taken nothing for too long."""
        found = []
        for connection, (since_s, taken) in list(self._full_since_s.items()):
            if sent_bytes.get(connection, taken) != taken:
                self._full_since_s[connection] = (now_s, sent_bytes[connection])
            elif now_s - since_s > stalled_s:
                found.append(connection)
        return found

    @property
    def full(self) -> dict[int, list[int]]:
        """Who waits for whom."""
        return {connection: list(self._sources.get(connection, ())) for connection in self._full_since_s}


PAUSE_S: Final = 0.001  # from the beginning of one turn to the next
WINDOW_S: Final = (
    0.032  # over which reads are counted; clients that wait for answers lose one in a second by pauses
)
RATE: Final = 4_000  # reads a second that are worth pauses
SMALL: Final = 4_096  # bytes of a read that counts: who sends more gains nothing
FEW: Final = 8  # reads a turn, from which pauses gain little
LEAST_LEFT: Final = 0.75  # of the reads without pauses, that come in with pauses if nobody waits for answers
AGAIN_S: Final = 1.0  # after pauses that slowed clients down


class Mode(Enum):
    """Whether there are pauses; see the module's text."""

    APART = "turns follow each other at once"
    TOGETHER = "there is a pause after each turn"


class Joining:
    """The pauses of one broker; see the module's text."""

    def __init__(self) -> None:
        self.mode = Mode.APART
        self.reads = self.turns = 0  # since the present window began; the owner counts
        self.look_s = 0.0  # before which the owner need not ask for a pause
        self._since_s = 0.0
        self._before = 0.0  # reads a second without pauses
        self._again_s = 0.0

    def pause_s(self, began_s: float, now_s: float) -> float:
        """Return how long to pause after a turn that began then; 0 for not at all."""
        if now_s - self._since_s >= WINDOW_S:
            self._judge(now_s)
        if self.mode is Mode.APART:
            self.look_s = self._since_s + WINDOW_S
            return 0.0
        self.look_s = 0.0
        return max(0.0, began_s + PAUSE_S - now_s)

    def _judge(self, now_s: float) -> None:
        rate, joined = self.reads / (now_s - self._since_s), self.reads / self.turns
        if self.mode is Mode.APART:
            if rate >= RATE and joined < FEW and now_s >= self._again_s:
                self.mode, self._before = Mode.TOGETHER, rate
        elif (
            rate < LEAST_LEFT * self._before
        ):  # whether clients wait or have less to say cannot be told apart
            self.mode, self._again_s = Mode.APART, now_s + AGAIN_S
        elif rate < RATE:
            self.mode = Mode.APART
        self._since_s, self.reads, self.turns = now_s, 0, 0
