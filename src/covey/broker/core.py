"""BrokerCore: a whole broker as one machine without sockets, clocks, threads or chance.

    effects = core.step(input, now)      the only way in, and the only way out
    core.deadline()                      when it wants a Tick, in monotonic seconds; None: it waits for nothing

Inputs and effects are the values of `effects`; time is an argument, and randomness is given to the constructor. The
same inputs give the same effects. A live broker (`server`) and the simulator (`sim.brokers`) drive the same machine.

The core owns the connections and the parts, and passes between them what each must know: `admission` (places,
and who clients are), `sessions` (clients), `neighbours` (links, the overlay's tree), `plans` (epochs,
installation), `durable` (confirmed events), `fastpath` (events of a turn). A part knows neither the core nor its
siblings: its methods take values and yield actions (`actions`), which `perform` carries out one by one, each with all
that follows from it.

What has come from connections is handled in turns of bounded work (`scheduling`), all connections of a turn together.
Long work, such as a client with many subscriptions that leaves, is done a slice at a time, in steps of its own.

`Tally` has what connections that are gone had counted, so that a broker's totals never go back.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from random import Random
from typing import Any, Final

import covey.strategies  # noqa: F401 (registers them)
from covey.broker import actions, effects
from covey.broker.actions import Action
from covey.broker.admission import (
    Admission,
    ClientShows,
    Leaves,
    Logins,
    NeighbourComes,
    Place,
    Stranger,
    hello_to,
    judge,
    places_of,
    welcome_to,
)
from covey.broker.config import MAX_LINK_FRAME, BrokerConfig, changed
from covey.broker.durable.delivery import SURE, Durable, NoDurable, confirm_unkept
from covey.broker.durable.log import Committed, Fetch, Find, Notice, Recovered
from covey.broker.durable.queues import LINK, Subscriber
from covey.broker.effects import Effect, Ending, Input, Instant
from covey.broker.fastpath import FastPath, Passage, Read
from covey.broker.neighbours import Greeting, Neighbour, Neighbours, Overlay
from covey.broker.plans import OWN, Epochs, Outputs, Plans, router_maker
from covey.broker.sampling import Sampler
from covey.broker.scheduling import CONTROL, CONTROL_BYTE, TURN, Pressure, Scheduler, Work
from covey.broker.security import EVERYTHING, Permissions, Security, allows, network_of
from covey.broker.sessions import Limits, Session, Sessions
from covey.core.filter import Filter
from covey.core.work import ACCOUNT
from covey.errors import (
    AccessError,
    BusyError,
    ConfigError,
    CoveyError,
    EventError,
    LinkError,
    ProtocolError,
)
from covey.extras import require
from covey.protocol.batches import MOST_SIDS, FastSplitter, Frames
from covey.protocol.connection import Closing, Connection, Outlet, Signals, State
from covey.protocol.control import (
    OURS,
    Goodbye,
    PlanState,
    ReplaceRequest,
    SubscribeRequest,
    Versions,
    decode_life,
    decode_request,
    encode,
)
from covey.protocol.events import KEPT, Envelope, encode_delivery, link_of
from covey.protocol.frames import STORES, Kind, frame, framed
from covey.protocol.outbox import MOST_CHUNKS, Verdict
from covey.routing.messages import Congestion, Echo, Key, Link, Publish, Sync, Unsubscribe
from covey.routing.outputs import Deliver, Output
from covey.routing.router import Router

REMEMBERED: Final = 100  # connections that ended, with the reasons


@dataclass(frozen=True)
class Ended:
    """A connection that is gone."""

    link: str
    name: str  # for people
    peer: str
    reason: str
    at_s: float


class Tally:
    """Sums over connections that are gone: of all clients together, of each neighbour."""

    def __init__(self) -> None:
        self.clients: Counter[str] = Counter()
        self.neighbours: dict[str, Counter[str]] = {}
        self.connections = 0  # that were opened
        self.ended: deque[Ended] = deque(maxlen=REMEMBERED)

    def client_gone(self, connection: Connection, counts: dict[str, int], ended: Ended) -> None:
        """Add what the connection of a client, and its session, had counted."""
        self.clients.update(counts_of(connection))
        self.clients.update(counts)
        self.ended.append(ended)

    def neighbour_gone(self, connection: Connection, counts: dict[str, int], ended: Ended) -> None:
        """Add what the connection of a neighbour had counted."""
        known = self.neighbours.setdefault(ended.link, Counter())
        known.update(counts_of(connection))
        known.update(counts)
        self.ended.append(ended)


def counts_of(connection: Connection) -> dict[str, int]:
    """Return what a connection counts."""
    return {
        "received_bytes": connection.received_bytes,
        "sent_bytes": connection.sent_bytes,
        "dropped": connection.outbox.dropped,
    }


# Units of work (`core.work`), of about a microsecond: beside events that the kernel handles, a turn does no more than
# SPENT and what one frame takes. A router that hears something takes TOLD, or WITHDRAWN; the first one is in what
# frames cost anyway.
SPENT: Final = 250.0
TOLD: Final = 40.0
WITHDRAWN: Final = 10.0
TICKS: Final = 8  # in a lease: how often what has taken too long is looked for
MOST_WRITTEN: Final = 1 << 20  # bytes that one connection is written in a step
GOING: Final = "the broker is going away"
NO_ROOM: Final = "the broker has no room for more connections"
CROWDED: Final = "too many connections have not said who they are: come back a little later"
GONE_BYTES: Final = 64 << 20  # of what clients had sent that have gone since, all together
LAST_WAIT_S: Final = 1.0  # for connections that were aborted
PASSWORD, FULL, BLOCKED, BUSY = "password", "full", "blocked", "busy"  # why a connection is not read
DISK: Final = -1  # stands for the log's disk among those whose sources wait, which are connections
REFUSALS_SAID: Final = 20  # peers that were refused, each with a line of its own, until the next look around

CLIENT_COUNTS: Final = ("published", "delivered", "refused")
NEIGHBOUR_COUNTS: Final = ("received", "sent")


class Phase(Enum):
    """How far a broker's life has come. From EMPTYING on it drains, within a time."""

    SERVING = "clients and neighbours are served"
    EMPTYING = "nobody is accepted or dialled; what has come is handled, and what is to be kept is on disk"
    DISMISSING = "clients get what waits for them, then goodbye; what they say until then is handled"
    PARTING = (
        "neighbours get what waits for them, then goodbye; they keep this broker's interest for its return"
    )
    ABORTING = "time is over: connections are ended at once"
    ENDED = "nobody is connected any longer"


@dataclass(eq=False, slots=True)
class Peer:
    """A connection and who is at its other end."""

    number: int
    connection: Connection
    stranger: Stranger
    who: Session | Neighbour | None = None  # once it has been admitted
    shows: ClientShows | None = None  # while it is judged
    behind: list[bytes] = field(default_factory=list)  # what it has said meanwhile
    is_held: bool = False  # the shell does not read it
    ending: Closing = Closing.NOTHING  # what the shell was told
    is_gone: bool = False  # its stream has ended, and something that it had sent is still to be handled
    due_s: float = float("inf")  # when its time-out stands in the heap

    @property
    def address(self) -> str:
        """Where it is, for people."""
        return self.stranger.address

    @property
    def title(self) -> str:
        """Who it is, for people."""
        if isinstance(self.who, Neighbour):
            return f"broker {self.who.link}"
        return self.address if self.who is None else f"client {self.who.link} at {self.address}"


class BrokerCore:
    """One broker without its sockets; see the module's text. `plans` is what was installed before it ended last."""

    def __init__(
        self,
        config: BrokerConfig,
        security: Security,
        plans: PlanState,
        *,
        incarnation: int,
        random: Random,
        now: Instant,
        descriptors: int | None = None,
        versions: Versions = OURS,
    ) -> None:
        self.config = config
        self._versions = versions  # of the protocol, that it speaks: in trials, those of an earlier release
        self.security = security
        self._descriptors = descriptors
        self.admission = Admission(places_of(config, descriptors))
        self.logins = Logins(security, self.admission.places.strangers)
        self.incarnation = incarnation
        self.phase = Phase.SERVING
        self.now = now  # of the present step
        self.counters: Counter[str] = Counter()
        self.peers: dict[int, Peer] = {}
        self.tally = Tally()
        self.scheduler = Scheduler(config.congested_at, config.calm_at)
        self.pressure = Pressure()
        self.sampler = _sampler(config)
        self.epochs = Epochs(router_maker(config), plans)
        self.sessions = Sessions(self.epochs, _limits(config), self.counters)
        overlay = Overlay(config.name, int(now.wall_s * 1e6), config.max_brokers)
        self.neighbours = Neighbours(self.epochs, overlay, config.forget_after_s, random)
        self.plans = Plans(config.name, self.epochs)
        self.durable: Durable | NoDurable = NoDurable()
        self.fastpath = FastPath(self.epochs)
        self._random = random
        self._signals = Signals()
        self._of: dict[Outlet, Peer] = {}
        self._refusals = 0  # since the last look around
        self._crowded_s = -1e9  # when it was said last that there are too many strangers
        self._source: Peer | None = None  # whose frames are being handled
        self._source_units = 0.0  # work that was done before them (`core.work`)
        self._turn_units = float("inf")  # and at which a turn ends
        self._gone: list[Peer] = []  # clients that have gone, while what they had sent is handled
        self._sent_units = 0.0  # what sending events has cost,
        self._sent_until = float("inf")  # and at which a turn ends
        self._control_units = 0.0  # what requests have cost by themselves
        self._jobs = 0  # slices of them that were done
        self._held: list[Read] = []  # of clients, while the network switches to another plan
        self._timeouts: list[tuple[float, int]] = []  # a heap: when a connection wants to be looked at
        self._effects: list[Effect] = []
        self._unsent: list[Peer] = []  # that have more to send
        self._next_tick_s = now.monotonic_s
        self.calm_until_s = (
            0.0  # before which nothing is due, and events are passed through; 0 if that is not known
        )
        self._started_s = now.monotonic_s
        self._until_s = 0.0  # by when draining has to be done
        self._leaving: deque[Peer] = deque()  # clients that are sent away one after another
        self._leave_s = self._leave_every_s = 0.0
        self._samples_s = now.monotonic_s + config.sample_every_s
        self._is_writing_samples = False

    # -- the machine -----------------------------------------------------------------------------------------

    def step(self, given: Input, now: Instant) -> list[Effect]:
        """Take one input; return what is to be done, in this order."""
        self.now = now
        if type(given) is effects.Arrived and now.monotonic_s < self.calm_until_s:
            # `_arrived` would do the same with these events, on their way through queues: nothing waits before them,
            # and they are no more than a turn takes.
            writes, left = self.fastpath.pass_through(given.reads, self, now.monotonic_s)
            if not (left or self._effects or self._signals.touched or self._signals.pressed):
                return writes
            self._effects = [*writes, *self._effects]
            given = effects.Arrived(left)
        self.calm_until_s = 0.0
        self.fastpath.forget_passages()
        _STEP[type(given)](self, given)
        if type(given) is effects.Received and not (self._signals.touched or self._effects):
            return []  # as most are: it waits for its turn
        return self._finish()

    def recovered(self, recovered: Recovered, now: Instant) -> list[Effect]:
        """Take up what is on disk, before anything else; only where there is a log."""
        self.now = now
        self.durable = Durable(
            self.epochs,
            recovered,
            self.incarnation,
            self.config.durable,
            now_s=now.monotonic_s,
            wall_s=now.wall_s,
        )
        self.perform(self.durable.load())
        self._revoke_durable()  # permissions may have been cut while the broker was down
        return self._finish()

    def start(self, now: Instant) -> list[Effect]:
        """Know the neighbours and begin to dial them; before anybody is let in."""
        self.now = now
        self._started_s = now.monotonic_s
        self._say_places()
        self.perform(self.neighbours.configure(self.config.links, now.monotonic_s))
        self.neighbours.start_dialling()
        return self._finish()

    def deadline(self) -> float | None:
        """Return the monotonic second at which a Tick is due; it may be past. None: never."""
        if self.calm_until_s:
            return self.calm_until_s  # nothing but passed events since this was asked last
        if self.phase is Phase.ENDED:
            return None
        if self.scheduler.has_work or self._has_jobs or self._unsent:
            return self.now.monotonic_s
        due_s = self._next_tick_s
        if self._timeouts:
            due_s = min(due_s, self._timeouts[0][0])
        for part_s in (self.neighbours.deadline(), self.plans.deadline()):
            if part_s is not None:
                due_s = min(due_s, part_s)
        if self.phase is not Phase.SERVING:
            due_s = min(due_s, self._until_s)
            if self._leaving:
                due_s = min(due_s, self._leave_s)
        elif not self.plans.is_holding and not self.scheduler.is_congested:
            self.calm_until_s = due_s
        return due_s

    def is_ready(self, now_s: float) -> bool:
        """Return whether the log works and tables were compared with all neighbours, or a lease was waited for that."""
        if self.phase is not Phase.SERVING or self.durable.has_ended:
            return False
        return now_s - self._started_s > self.config.lease_s or all(
            map(self.neighbours.is_open, self.neighbours.records)
        )

    def _finish(self) -> list[Effect]:
        """End a step: see how far draining is, send what is to be sent, and return all effects."""
        self._drain()
        self.perform(self.durable.flush())
        self._note_pressure(None)
        unsent, self._unsent = self._unsent, []
        for peer in unsent:
            if peer.number in self.peers:
                self._flush(peer)
        signals = self._signals
        while signals.touched:
            touched, signals.touched = signals.touched, []
            for connection in touched:
                connection.is_touched = False
                found = self._of.get(connection)
                if found is not None:
                    self._flush(found)
        asked, self._effects = self._effects, []
        return asked

    def _flush(self, peer: Peer) -> None:
        connection, now_s = peer.connection, self.now.monotonic_s
        before, chunks = connection.sent_bytes, 0
        while buffers := connection.to_send(now_s):
            self._effects.append(effects.Write(peer.number, buffers))
            if not connection.outbox:
                break  # as mostly
            chunks += len(buffers)
            if connection.sent_bytes - before >= MOST_WRITTEN or chunks >= MOST_CHUNKS:
                # The rest in the next step: by then the shell has said whether the stream takes more.
                self._unsent.append(peer)
                break
        if connection.closing > peer.ending:
            peer.ending = connection.closing
            self._effects.append(effects.End(peer.number, _ENDINGS[connection.closing]))
        if connection.take_drained():
            self._unblock(self.pressure.drained(peer.number))
        if connection.is_held != peer.is_held:
            peer.is_held = connection.is_held
            self._effects.append(effects.Hold(peer.number) if peer.is_held else effects.Resume(peer.number))
        self._watch(peer)

    def _watch(self, peer: Peer) -> None:
        due_s = peer.connection.next_timeout()
        if due_s is not None and due_s < peer.due_s:
            peer.due_s = due_s
            heappush(self._timeouts, (due_s, peer.number))

    def _say(self, level: int, event: str, /, **fields: object) -> None:
        plain = {name: str(one) if isinstance(one, Exception) else one for name, one in fields.items()}
        self._effects.append(effects.Log(level, event, plain))

    # -- connections -----------------------------------------------------------------------------------------

    def _say_places(self) -> None:
        clients = self.admission.places.clients
        if clients < places_of(self.config, None).clients:
            self._say(
                logging.WARNING,
                "few descriptors",
                descriptors=self._descriptors,
                clients=clients,
                hint="a higher ulimit -n, or a lower max_connections",
            )

    def _knocked(self, given: effects.Knocked) -> None:
        now_s = self.now.monotonic_s
        for number in self.admission.knock(given.connection, network_of(given.host)):
            self.counters["refused_crowded"] += 1
            if now_s - self._crowded_s > self.config.lease_s:
                self._crowded_s = now_s
                self._say(logging.WARNING, "too many strangers", peer=given.host, reason=CROWDED)
            peer = self.peers.get(number)
            if peer is not None:
                # It is told, as far as it listens, and nothing waits for it.
                goodbye = frame(Kind.GOODBYE, encode(Goodbye(CROWDED, retry=True)))
                self._effects.append(effects.Write(number, [goodbye]))
                peer.connection.abort(CROWDED)
            else:
                self._effects.append(effects.End(number, Ending.ABORT))

    def _opened(self, given: effects.Opened) -> None:
        if not given.dialled and not self.admission.has(given.connection):
            self._knocked(effects.Knocked(given.connection, given.host))
        stranger = Stranger(given.peer, network_of(given.host), given.certificate, given.dialled)
        peer = self._add(given.connection, stranger, given.can_half_close)
        connection = peer.connection
        if given.dialled:
            self.admission.take(given.connection, Place.NEIGHBOUR)
            self.neighbours.dialled(given.dialled, self.now.monotonic_s)
        if self.phase is not Phase.SERVING:
            connection.end(GOING)
        elif given.dialled:
            try:
                self.security.check_dialled(given.certificate, given.dialled)
            except AccessError as error:
                self._say(logging.WARNING, "neighbour not trusted", link=given.dialled, reason=error)
                connection.end(str(error))
                return
            hello = hello_to(self.config, self.security, self.incarnation, self._versions)
            connection.send(Kind.HELLO, encode(hello))

    def _attached_here(self, given: effects.Attached) -> None:
        stranger = Stranger(given.peer, given.peer, None, "")
        peer = self._add(given.connection, stranger, can_half_close=False)
        if self.phase is not Phase.SERVING:
            peer.connection.end(GOING)
        else:
            self._client_comes(peer, given.permissions, "")

    def _add(self, number: int, stranger: Stranger, can_half_close: bool) -> Peer:
        config = self.config
        connection = Connection(
            config.bounds(), config.lease_s, self.now.monotonic_s, FastSplitter, self._signals
        )
        connection.can_half_close = can_half_close
        peer = self.peers[number] = self._of[connection] = Peer(number, connection, stranger)
        self.tally.connections += 1
        self._watch(peer)
        return peer

    def _received(self, given: effects.Received) -> None:
        peer = self.peers.get(given.connection)
        if peer is None:
            return
        connection = peer.connection
        try:
            frames = connection.receive(given.data, self.now.monotonic_s)
            if peer.who is None and frames:
                frames = self._greet(peer, frames)
            some = Frames.of(frames)
            if some.number and self.scheduler.put(peer.number, some):
                connection.hold(FULL, self.now.monotonic_s)
        except CoveyError as error:
            connection.end(str(error), retry=not isinstance(error, ProtocolError))

    def _heard_eof(self, given: effects.HeardEof) -> None:
        peer = self.peers.get(given.connection)
        if peer is not None:
            peer.connection.receive_eof()

    def _paused(self, given: effects.Paused) -> None:
        peer = self.peers.get(given.connection)
        if peer is not None:
            peer.connection.pause_writing()

    def _writable(self, given: effects.Writable) -> None:
        peer = self.peers.get(given.connection)
        if peer is not None:
            peer.connection.resume_writing()

    def _closed(self, given: effects.Closed) -> None:
        self.logins.left(given.connection)
        peer = self.peers.get(given.connection)
        if peer is None:
            self.admission.leave(given.connection)
            return
        peer.connection.lost(given.reason)
        if isinstance(peer.who, Session) and self.scheduler.waits(peer.number) and self._may_linger(peer):
            # What it had said before it went counts. It is handled in turns, as if it were here. It
            # waits for nobody meanwhile, and nobody for it; its place is taken, as its memory is.
            peer.is_gone = True
            self._gone.append(peer)
            self._unblock(self.pressure.gone(peer.number))
            self.scheduler.unblock(peer.number)
        else:
            self._part(peer)

    def _may_linger(self, peer: Peer) -> bool:
        """Return whether what a client that has gone had sent still has room; else it is forgotten, unanswered.

        Or one that comes, sends as much as may wait, and goes, again and again, would fill the memory.
        """
        waiting = sum(self.scheduler.size_of(one.number) for one in (*self._gone, peer))
        if waiting <= GONE_BYTES:
            return True
        self.scheduler.finish(peer.number)
        if not self.counters["refused_gone"]:
            self._say(logging.WARNING, "requests dropped", peer=peer.address, waiting_bytes=waiting)
        self.counters["refused_gone"] += 1
        return False

    def _part(self, peer: Peer) -> None:
        """Forget a connection that has ended; what it had said is handled first."""
        self.admission.leave(peer.number)
        self._handle([(peer.number, frames) for frames in self.scheduler.finish(peer.number)])
        del self.peers[peer.number], self._of[peer.connection]
        self._unblock(self.pressure.gone(peer.number))
        self.scheduler.unblock(peer.number)  # it may have filled something even now
        self._leave(peer, peer.connection.reason)
        if peer.stranger.dialled:
            self.neighbours.dial_ended(peer.stranger.dialled, self.now.monotonic_s)

    def _part_with_gone(self) -> None:
        """Forget clients that have gone, and of whom nothing is left to be handled."""
        gone, self._gone = self._gone, []
        for peer in gone:
            if self.scheduler.waits(peer.number):
                self._gone.append(peer)
            else:
                self._part(peer)

    def _leave(self, peer: Peer, reason: str) -> None:
        """Whoever was at the other end of a connection is gone."""
        who, peer.who = peer.who, None
        if isinstance(who, Session):
            self._say(logging.DEBUG, "client gone", link=who.link, peer=peer.address, reason=reason)
            self.durable.client_gone(who.link)
            self.perform(self.sessions.depart(who.link))
            counts = {name: getattr(who, name) for name in CLIENT_COUNTS}
            self.tally.client_gone(peer.connection, counts, self._ended(peer, who, reason))
        elif isinstance(who, Neighbour) and who.connection is peer.connection:
            is_expected = self.phase is not Phase.SERVING or who.has_said_goodbye
            level = logging.INFO if is_expected else logging.WARNING
            self._say(level, "link down", link=who.link, peer=peer.address, reason=reason)
            counts = {name: getattr(who, name) for name in NEIGHBOUR_COUNTS}
            self.tally.neighbour_gone(peer.connection, counts, self._ended(peer, who, reason))
            self.perform(self.neighbours.disconnected(who.link, self.now.monotonic_s))

    def _ended(self, peer: Peer, who: Session | Neighbour, reason: str) -> Ended:
        name = who.permissions.name if isinstance(who, Session) else who.link
        return Ended(who.link, name, peer.address, reason, self.now.monotonic_s)

    def _peer_of(self, who: Session | Neighbour) -> Peer | None:
        """Return the connection of somebody, if it is there."""
        outlet = who.connection if isinstance(who, Neighbour) else who.outlet
        return None if outlet is None else self._of.get(outlet)

    def peer_at(self, link: Link) -> Peer | None:
        """Return the connection of a session or neighbour, if it is there."""
        who = self.sessions.connected.get(link) or self.neighbours.connected.get(link)
        return None if who is None else self._peer_of(who)

    # -- greetings -------------------------------------------------------------------------------------------

    def _greet(self, peer: Peer, frames: Sequence[bytes]) -> Sequence[bytes]:
        """Hear who somebody is; return what is behind that, if it can be handled now."""
        if peer.shows is None:
            try:
                self._admit(peer, frames[0])
            except (AccessError, BusyError) as error:
                self._refuse_peer(peer, error)
            frames = frames[1:]
        if peer.shows is not None:
            peer.behind += frames
            return ()
        return frames if peer.who is not None else ()

    def _refuse_peer(self, peer: Peer, error: AccessError | BusyError) -> None:
        self._count_refusal(peer.address, error)
        peer.connection.end(str(error), retry=isinstance(error, BusyError))

    def _count_refusal(self, peer: str, error: AccessError | BusyError) -> None:
        self.counters["refused_busy" if isinstance(error, BusyError) else "refused_credentials"] += 1
        self._refusals += 1
        if self._refusals <= REFUSALS_SAID:
            self._say(logging.WARNING, "peer refused", peer=peer, reason=error)

    def _admit(self, peer: Peer, first: bytes) -> None:
        found = judge(first, peer.stranger, self.config, self.security, self.now.monotonic_s, self._versions)
        if isinstance(found, Leaves):
            peer.connection.abort(found.reason)
            return
        peer.connection.version = found.version
        if isinstance(found, ClientShows):
            peer.shows = found
            host, now_s = peer.stranger.host, self.now.monotonic_s
            self.perform(self.logins.show(peer.number, found.shown, host, now_s))
        else:
            self._neighbour_comes(peer, found)

    def _showed(self, given: effects.Showed) -> None:
        host, now_s = network_of(given.host), self.now.monotonic_s
        self.perform(self.logins.show(given.connection, given.shown, host, now_s))

    def _operated(self, given: effects.Operated) -> None:
        has_room = self.admission.take(given.connection, Place.ADMIN)
        self._admitted(given.connection, EVERYTHING if has_room else None)

    def _admitted(self, number: int, permissions: Permissions | None) -> None:
        """Answer a request over HTTP; without permissions there is no room for it."""
        if permissions is None:
            self.counters["refused_room"] += 1
            self._effects.append(effects.Admitted(number, EVERYTHING, BusyError(NO_ROOM)))
        else:
            self._effects.append(effects.Admitted(number, permissions))

    def _turned_away(self, given: effects.TurnedAway) -> None:
        self.counters[f"refused_{given.reason}"] += 1

    def _verifying(self, action: actions.Verifying) -> None:
        self.admission.take(action.login, Place.VERIFYING)
        peer, now_s = self.peers.get(action.login), self.now.monotonic_s
        if peer is not None and not peer.connection.is_held:
            peer.connection.verifying(now_s)
            peer.connection.hold(PASSWORD, now_s)

    def _verify(self, action: actions.Verify) -> None:
        self._effects.append(effects.Verify(action.check, action.password, action.expected))

    def _verified(self, given: effects.Verified) -> None:
        self.perform(self.logins.verified(given.check, given.is_right, self.now.monotonic_s))

    def _entered(self, action: actions.Entered) -> None:
        peer, has_room = self.peers.get(action.login), self.admission.take(action.login, Place.CLIENT)
        if peer is None:
            self._admitted(action.login, action.permissions if has_room else None)
            return
        shows, peer.shows = peer.shows, None
        assert shows is not None, "it has shown something"
        now_s = self.now.monotonic_s
        if peer.connection.is_open and not has_room:
            self.counters["refused_room"] += 1
            peer.connection.end(NO_ROOM)
        elif peer.connection.is_open:
            self._client_comes(peer, action.permissions, shows.name)
            behind, peer.behind = peer.behind, []
            if behind and self.scheduler.put(peer.number, Frames.of(behind)):
                peer.connection.hold(FULL, now_s)
        peer.connection.go_on(PASSWORD, now_s)

    def _denied(self, action: actions.Denied) -> None:
        peer = self.peers.get(action.login)
        if peer is not None:
            peer.shows = None
            self._refuse_peer(peer, action.error)
        else:
            self._count_refusal(action.address, action.error)
            self._effects.append(effects.Admitted(action.login, EVERYTHING, action.error))
            self._knocked(effects.Knocked(action.login, action.address))  # it is a stranger, if it was none

    def _client_comes(self, peer: Peer, permissions: Permissions, name: str) -> None:
        for old in [one for one in self._gone if _is_same(one.who, permissions, name)]:
            self._gone.remove(old)  # what somebody has said comes before what it says when it is back
            self._part(old)
        number, connection, config = self._random.getrandbits(63), peer.connection, self.config
        connection.send(Kind.WELCOME, encode(welcome_to(config, self.incarnation, number, self._versions)))
        connection.greeted(config.max_frame, config.lease_s, self.now.monotonic_s)
        session = peer.who = Session(link_of(number), number, connection, permissions, name)
        self.durable.client_up(session.link)
        self.fastpath.client_up(session)
        self.perform(self.sessions.admit(session))

    def _neighbour_comes(self, peer: Peer, found: NeighbourComes) -> None:
        name, connection = found.name, peer.connection
        neighbour, link = self.neighbours.records.get(name), self.config.link(name)
        if neighbour is None or link is None:
            raise ProtocolError(f"{name!r:.40} is no neighbour of {self.config.name} any longer")
        old = None if neighbour.connection is None else self._of.get(neighbour.outlet)
        if old is not None:
            # If two brokers dial each other at once, both keep the connection of the one whose name sorts first.
            # Otherwise the neighbour has lost the old connection without our noticing: the new one counts.
            is_same = neighbour.incarnation == found.incarnation
            is_old_ours, is_new_ours = bool(old.stranger.dialled), not found.has_dialled
            if (
                old.connection.is_open
                and is_same
                and is_old_ours != is_new_ours
                and is_old_ours == (self.config.name < name)
            ):
                connection.end("there is a link already")
                return
            self._handle([(old.number, frames) for frames in self.scheduler.finish(old.number)])
            self._leave(old, "the neighbour has dialled again")
            old.connection.abort("the neighbour has dialled again")
        if found.has_dialled:
            connection.send(
                Kind.WELCOME, encode(welcome_to(self.config, self.incarnation, ours=self._versions))
            )
        connection.greeted(MAX_LINK_FRAME, self.config.lease_s, self.now.monotonic_s)
        connection.outbox.bounds = self.config.bounds(link)
        peer.who = neighbour
        self.admission.take(peer.number, Place.NEIGHBOUR)
        self._say(logging.INFO, "link up", link=name, peer=peer.address)
        greeting = Greeting(connection, found.incarnation, found.version)
        self.perform(self.neighbours.greeted(name, greeting, self.now.monotonic_s))

    # -- turns -----------------------------------------------------------------------------------------------

    def _arrived(self, given: effects.Arrived) -> None:
        for number, data in given.reads.items():
            self._received(effects.Received(number, data))
        self._tick(effects.Tick())

    def _tick(self, given: effects.Tick) -> None:
        now_s = self.now.monotonic_s
        while self._timeouts and self._timeouts[0][0] <= now_s:
            _, number = heappop(self._timeouts)
            peer = self.peers.get(number)
            if peer is not None:
                peer.due_s = float("inf")
                peer.connection.on_timeout(now_s)
                self._watch(peer)
        self._note_congestion()
        work, resumed, does_jobs = self.scheduler.turn(has_jobs=self._has_jobs)
        for number in resumed:
            self.peers[number].connection.go_on(FULL, now_s)
        self._handle_turn(work)
        if self._gone:
            self._part_with_gone()
        self._note_congestion()
        if does_jobs:
            self._work_on_jobs()
        deadline_s = self.neighbours.deadline()
        if deadline_s is not None and deadline_s <= now_s:
            self.perform(self.neighbours.tick(now_s))
        deadline_s = self.plans.deadline()
        if deadline_s is not None and deadline_s <= now_s:
            self.perform(self.plans.tick(now_s))
        if now_s >= self._next_tick_s:
            self._next_tick_s = now_s + max(0.01, self.config.lease_s / TICKS)
            self._look_around(now_s)

    @property
    def _has_jobs(self) -> bool:
        return self.sessions.has_work or self.plans.has_work or self.neighbours.has_work

    def _work_on_jobs(self) -> None:
        """Do a slice of one of the jobs that there are: for clients that leave, plans and links by turns."""
        for _ in range(3):
            self._jobs += 1
            if self._jobs % 3 == 0 and self.sessions.has_work:
                return self.perform(self.sessions.work())
            if self._jobs % 3 == 1 and self.plans.has_work:
                return self.perform(self.plans.work())
            if self._jobs % 3 == 2 and self.neighbours.has_work:
                return self._work_for_link()
        return None

    def _work_for_link(self) -> None:
        """Do a slice of what routers have to do for links of neighbours."""
        link, epoch = self.neighbours.next_work()
        try:
            self.perform(self.neighbours.work(link, epoch))
            self._hold_if_busy(link)
        except ProtocolError as error:
            peer = self.peer_at(link)
            if peer is not None:
                self._end_of_mistake(peer, error)

    def _hold_if_busy(self, link: Link) -> None:
        """Do not read a neighbour of whose router too much waits; its events wait too then, and nothing is lost."""
        peer = self.peer_at(link)
        if peer is None:
            return
        is_held = BUSY in peer.connection.holds
        if self.neighbours.is_full(link, is_held=is_held) != is_held:
            (peer.connection.go_on if is_held else peer.connection.hold)(BUSY, self.now.monotonic_s)

    def _look_around(self, now_s: float) -> None:
        """Look for what has taken too long."""
        if self._refusals > REFUSALS_SAID:
            self._say(logging.WARNING, "peers refused", count=self._refusals - REFUSALS_SAID)
        self._refusals = 0
        self.perform(self.plans.tick(now_s))
        self.perform(self.durable.tick(now_s, self.now.wall_s))
        for number in self.pressure.stalled(
            {number: peer.connection.sent_bytes for number, peer in self.peers.items()},
            self.config.stalled_s,
            now_s,
        ):
            self.counters["stalled_links"] += 1
            self.peers[number].connection.abort(f"it has taken nothing for {self.config.stalled_s:g} s")
        if self.sampler is not None and now_s >= self._samples_s and not self._is_writing_samples:
            self._write_samples()

    def _note_congestion(self) -> None:
        on = self.scheduler.congestion()
        if on is not None:
            self._carry_out_all(self.epochs.handle(Congestion(on), self.config.name, self.now.monotonic_s))

    def _handle(self, work: Sequence[Work]) -> None:
        """Handle frames of connections, each in its order."""
        reads, peers = [], self.peers
        for number, some in work:
            who = peers[number].who
            if who is not None:
                reads.append(Read(who.link, who, some.data, some.address, some.at, some.end))
        if reads:
            self.fastpath.handle(reads, self, self.now.monotonic_s)

    def _handle_turn(self, work: Sequence[Work]) -> None:
        """Handle frames until a turn's work is done, and put back what is left of them."""
        reads = []
        for number, frames in work:
            who = self.peers[number].who
            if who is not None:
                reads.append((number, frames, Read.of(who, frames)))
        if not reads:
            return
        self._turn_units, self._sent_until = self._units + SPENT, self._sent_units + TURN
        try:
            self.fastpath.handle([read for _, _, read in reads], self, self.now.monotonic_s)
        finally:
            self._turn_units = self._sent_until = float("inf")
        begun = {number for number, frames, read in reads if read.at > frames.at}
        left = [
            (number, frames.rest(read.at))
            for number, frames, read in reads
            if read.at < read.end and number in self.peers
        ]
        if left:
            self.scheduler.put_back(left, begun)

    @property
    def is_spent(self) -> bool:
        """Whether a turn has done its work."""
        return self._units >= self._turn_units or self._sent_units >= self._sent_until

    @property
    def _units(self) -> float:
        return ACCOUNT.units + self._control_units

    # -- what the fast path asks and leaves (`fastpath.Desk`) ------------------------------------------------

    @property
    def clients(self) -> dict[Link, Session]:
        """The sessions that are connected."""
        return self.sessions.connected

    @property
    def linked(self) -> Mapping[Link, Neighbour]:
        """The neighbours to which there is a connection."""
        return self.neighbours.connected

    @property
    def links_version(self) -> int:
        """A number that is another one after every change of who is linked, and over which links routers talk."""
        return self.neighbours.version

    @property
    def is_holding(self) -> bool:
        """Whether what clients say has to wait."""
        return self.plans.is_holding

    @property
    def is_keeping(self) -> bool:
        """Whether confirmed events are kept here."""
        return self.durable.keeps

    @property
    def time_s(self) -> float:
        """The time of day."""
        return self.now.wall_s

    def sender(self, number: int) -> Passage | None:
        """Return whoever sends over a connection; None if what it says has to wait for a turn."""
        peer = self.peers.get(number)
        if peer is None or peer.who is None or not self.scheduler.is_clear(number):
            return None
        connection = peer.connection
        if connection.state is not State.OPEN or connection.splitter.waiting:
            return None
        return Passage(number, peer.who, connection, connection.splitter.limit)

    def receiver(self, peer: Session | Neighbour) -> Passage | None:
        """Return the connection of somebody who receives; None if nothing can be written to it at once."""
        found = self._peer_of(peer)
        if found is None or not found.connection.passes:
            return None
        bounds = found.connection.outbox.bounds
        return Passage(found.number, peer, found.connection, bounds.bytes, bounds.events)

    def is_used(self, neighbour: Neighbour, epoch: int) -> bool:
        """Return whether routers of that epoch talk over the link to a neighbour."""
        return self.neighbours.is_used(neighbour.link, epoch)

    def hold(self, read: Read) -> None:
        """Let a read of a client wait, and what the client says meanwhile: in the inbox, which has a bound."""
        self._held.append(read)
        peer = self._peer_of(read.peer)
        if peer is not None and not peer.is_gone:
            self.scheduler.block(peer.number)

    def begin(self, link: Link | None) -> None:
        """What follows is done for frames of that link; None: no longer."""
        if link is None:
            self._note_pressure(self._source)
            if self._source is not None:
                self.scheduler.charge(self._source.number, ACCOUNT.units - self._source_units)
            self._source = None
        else:
            self._source = self.peer_at(link)
            self._source_units = ACCOUNT.units

    def charge(self, peer: Session | Neighbour, events: int, units: float) -> None:
        """Count what so many events that somebody has sent have cost."""
        self._sent_units += units
        found = self._peer_of(peer)
        if found is not None:
            self.scheduler.charge_events(found.number, events, units)

    def failed(self, read: Read, error: CoveyError) -> None:
        """A link has said what it may not: nothing more of it is handled."""
        peer = self._peer_of(read.peer)
        if peer is not None:
            self._end_of_mistake(peer, error)

    def _end_of_mistake(self, peer: Peer, error: CoveyError) -> None:
        self._say(logging.WARNING, "link ended", peer=peer.address, reason=error)
        peer.connection.end(str(error), retry=False)

    def control(self, read: Read, frame: bytes) -> None:
        """Handle a frame that carries no event; CoveyError if its link is to end."""
        self._control_units += CONTROL + CONTROL_BYTE * len(frame)
        if frame[0] == Kind.GOODBYE:
            self._goodbye(read.peer, frame)
        elif isinstance(read.peer, Session):
            self._client_says(read.peer, frame)
        else:
            self._neighbour_says(read.peer.link, frame)

    def _goodbye(self, who: Session | Neighbour, frame: bytes) -> None:
        said, peer = decode_life(memoryview(frame)[1:]), self._peer_of(who)
        if isinstance(said, Goodbye) and peer is not None:
            peer.connection.finish(said.reason, heard_all=True)  # it still listens to what we have for it
            if isinstance(who, Neighbour):
                who.has_said_goodbye = True

    def _client_says(self, session: Session, frame: bytes) -> None:
        if frame[0] == Kind.REQUEST:
            request = decode_request(memoryview(frame)[1:])
            try:
                self.perform(self.sessions.request(session, request, self.stored_bytes(session)))
            except ProtocolError:
                raise
            except CoveyError as error:  # of whoever was to do what the client may ask for
                session.answer(request.request, error)
        elif frame[0] == Kind.ACKNOWLEDGE:
            self.perform(self.durable.acknowledge(session.link, frame[1:], self.now.monotonic_s))
            self._wait_for_disk(session.link)
        else:
            raise ProtocolError(f"a client does not send frames of the kind {frame[0]}")

    def stored_bytes(self, session: Session) -> int:
        """Return how many bytes the filters of a client's durable subscriptions take."""
        return self.durable.filter_bytes(session.permissions.name, session.name)

    def _neighbour_says(self, link: Link, frame: bytes) -> None:
        body = memoryview(frame)[1:]
        if frame[0] == Kind.ROUTE:
            self.perform(self.neighbours.routed(link, body))
            self._hold_if_busy(link)
        elif frame[0] == Kind.OVERLAY:
            self.perform(self.neighbours.received(link, body, self.now.monotonic_s))
        elif frame[0] == Kind.PLAN:
            self.perform(self.plans.received(link, body, self.now.monotonic_s))
        elif frame[0] in (Kind.TAKEN, Kind.WHOLE, Kind.STORE, Kind.COPY):
            self.perform(self.durable.said(link, frame, self.now.monotonic_s))
        else:
            raise ProtocolError(f"a neighbour broker does not send frames of the kind {frame[0]}")

    def waits(self, link: Link, epoch: int, frame: bytes) -> bool:
        """Put a neighbour's event aside if the router of its epoch is not ready for it; return whether that is so."""
        adoption = self.epochs.adopting.get(epoch)
        if adoption is None or not self.neighbours.is_used(link, epoch):
            return False
        adoption.waiting.append((link, frame))
        return True

    def unreadable(self, envelope: Envelope, read: Read, error: EventError) -> None:
        """An event is none: it is left alone, and nothing else, as the frames around it are as they should be."""
        if isinstance(read.peer, Session):
            read.peer.refuse(envelope.number, f"this is no event: {error}")
            return
        # The client's broker should have refused it. Nobody can tell whom it is for: it ends here.
        if not self.counters["unreadable_events"]:
            self._say(logging.WARNING, "unreadable event", link=read.link, reason=error)
        self.counters["unreadable_events"] += 1
        if envelope.flags & KEPT:
            self.perform(confirm_unkept(read.link, envelope))

    def confirmed(self, frame: bytes, envelope: Envelope, publish: Publish, read: Read) -> None:
        """Take a confirmed event."""
        self.perform(self.durable.arrived(frame, envelope, publish, read.link, self.now.monotonic_s))
        if read.link in self.clients:  # what neighbours send has a window of its own
            self._wait_for_disk(read.link)

    def elsewhere(self, link: Link, keys: tuple[Key, ...], frame: bytes, source: Link | None) -> None:
        """An event is for subscriptions that no connected client has: for durable ones, or nobody can be told."""
        if link == LINK:
            self.perform(self.durable.deliver(keys, frame, self.now.monotonic_s))
            if source is not None:
                self._wait_for_disk(source)

    # -- pressure --------------------------------------------------------------------------------------------

    def full(self, link: Link, sources: Sequence[Link]) -> None:
        """A receiver has taken more than it should: those who have filled it are to wait."""
        peer = self.peer_at(link)
        if peer is not None:
            # Who has filled it is known here, and not by whoever looks at signals later.
            signals = self._signals
            signals.pressed = [one for one in signals.pressed if one != (peer.connection, Verdict.FULL)]
            found = [one for one in map(self.peer_at, sources) if one is not None]
            self._press(peer, Verdict.FULL, found)

    def _wait_for_disk(self, link: Link) -> None:
        """Somebody has sent something for the disk: if too much waits there, nothing more of it is handled for now."""
        peer = self.peer_at(link) if self.durable.is_choked else None
        if peer is not None and peer.number in self.peers and not peer.is_gone:
            self.pressure.wait_for(DISK, [peer.number])
            if self.scheduler.block(peer.number):
                peer.connection.hold(BLOCKED, self.now.monotonic_s)

    def _note_pressure(self, source: Peer | None) -> None:
        """Look at the outboxes whose bounds were met, by what was handled for a source."""
        pressed, self._signals.pressed = self._signals.pressed, []
        for connection, verdict in pressed:
            peer = self._of.get(connection)
            if peer is not None:
                self._press(peer, verdict, [] if source is None else [source])

    def _press(self, peer: Peer, verdict: Verdict, sources: Iterable[Peer]) -> None:
        now_s, connection = self.now.monotonic_s, peer.connection
        self.counters[f"queue_{verdict.name.lower()}"] += 1
        if self.pressure.is_news(peer.number, verdict, peer.title, now_s):
            self.counters["slow_consumers"] += 1
            self._say(
                logging.WARNING,
                "slow consumer",
                link=peer.title,
                waiting=connection.outbox.count,
                consequence=_CONSEQUENCES[verdict],
            )
        for number in self.pressure.pressed(
            peer.number,
            verdict,
            connection.sent_bytes,
            [one.number for one in sources if not one.is_gone],
            now_s,
        ):
            if number in self.peers and self.scheduler.block(number):
                self.peers[number].connection.hold(BLOCKED, now_s)

    def _unblock(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number in self.peers:
                self.scheduler.unblock(number)
                self.peers[number].connection.go_on(BLOCKED, self.now.monotonic_s)

    # -- actions ---------------------------------------------------------------------------------------------

    def perform(self, asked: Iterable[Action]) -> None:
        """Do what a part asks for, one after the other, each with all that follows from it."""
        for action in asked:
            _PERFORM[type(action)](self, action)

    def _tell(self, action: actions.Tell) -> None:
        now_s = self.now.monotonic_s
        if action.epoch is None:
            units = WITHDRAWN if type(action.message) is Unsubscribe else TOLD
            ACCOUNT.spend(units * (len(self.epochs.routers) - 1))
            self._carry_out_all(self.epochs.handle(action.message, action.source, now_s))
        elif action.epoch in self.epochs.routers:
            outputs = self.epochs.tell(action.epoch, action.message, action.source, now_s)
            self._carry_out_all([(action.epoch, outputs)])

    def _proceed(self, action: actions.Proceed) -> None:
        outputs = self.epochs.routers[action.epoch].work(action.link, self.now.monotonic_s)
        self._carry_out_all([(action.epoch, outputs)])

    def _send(self, action: actions.Send) -> None:
        who = self.sessions.connected.get(action.link) or self.neighbours.connected.get(action.link)
        if who is not None:
            who.outlet.send(action.kind, action.body, barrier=action.barrier)

    def _send_event(self, action: actions.SendEvent) -> None:
        session = self.sessions.connected.get(action.link)
        if session is not None:
            session.delivered += 1
            session.outlet.send(action.kind, action.body)
        elif action.link in self.neighbours.connected:
            neighbour = self.neighbours.connected[action.link]
            neighbour.sent += 1
            neighbour.outlet.send(action.kind, action.body)

    def _route(self, action: actions.Route) -> None:
        epoch = self.epochs.current if action.source in self.clients else action.envelope.epoch
        if epoch in self.epochs.routers:
            router, name = self.epochs.routers[epoch], (action.envelope.publisher, action.envelope.number)
            distance = None
            if self.sampler is not None and self.sampler.takes(*name):
                distance = router.distance_of(action.publish, action.source)
            outputs = router.handle(action.publish, action.source, self.now.monotonic_s)
            if self.sampler is not None and distance is not None:
                for output in outputs:
                    if isinstance(output, Deliver):
                        self.sampler.delivered(*name, output.keys, distance, self.time_s)
            self.carry_out(outputs, epoch, action.frame, action.envelope)

    def _refuse(self, action: actions.Refuse) -> None:
        session = self.sessions.connected.get(action.link)
        if session is not None:
            session.refuse(action.number, action.reason, action.kind)

    def _hand_over(self, action: actions.HandOver) -> None:
        self._deliver(action.output, action.frame)
        peer = self.peer_at(action.output.link)
        if peer is not None and (peer.connection, Verdict.FULL) in self._signals.pressed:
            # It was on its way to the disk, so that nobody's frames are being handled now.
            self.full(action.output.link, [action.source])

    def _close(self, action: actions.Close) -> None:
        peer = self.peer_at(action.link)
        if peer is not None:
            if action.revoked:
                peer.connection.outbox.drop_deliveries()
            peer.connection.end(action.reason, retry=action.retry)

    def _adopted(self, action: actions.Adopted) -> None:
        if not self.plans.is_holding:
            self.perform(self.sessions.ask_again())

    def _release(self, action: actions.Release) -> None:
        self.perform(self.sessions.ask_again())
        held, self._held = self._held, []
        self.fastpath.handle(held, self, self.now.monotonic_s)
        for peer in map(self._peer_of, (read.peer for read in held)):
            if peer is not None and not self.pressure.waits(peer.number):
                self.scheduler.unblock(peer.number)

    def _replay(self, action: actions.Replay) -> None:
        neighbour = self.neighbours.connected.get(action.link)
        if neighbour is not None:
            self.fastpath.handle([Read.of(neighbour, [action.frame])], self, self.now.monotonic_s)

    def _work(self, action: actions.Work) -> None:
        pass  # `deadline` says so

    def _keep_plans(self, action: actions.KeepPlans) -> None:
        self._effects.append(effects.KeepPlans(action.state))

    def _commit(self, action: actions.Commit) -> None:
        self._effects.append(effects.Commit(action.batch))

    def _ask_log(self, action: Fetch | Find) -> None:
        self._effects.append(action)

    def _dial(self, action: actions.Dial) -> None:
        link = self.config.link(action.link)
        if link is not None:
            self._effects.append(effects.Dial(link))

    def _say_it(self, action: actions.Say) -> None:
        self._say(action.level, action.event, **action.fields)

    def _durable_request(self, action: actions.DurableRequest) -> None:
        session, request, durable = self.clients[action.link], action.request, self.durable
        who = Subscriber(session.link, session.permissions.name, session.name, request.request, request.sid)
        if action.filter is not None:
            name = request.durable if isinstance(request, SubscribeRequest) else None
            more = action.bytes - durable.replaced_bytes(who, name)
            self.sessions.check_room(session, self.stored_bytes(session), more)
        if isinstance(request, SubscribeRequest):
            assert action.filter is not None, "it was judged"
            self.perform(durable.subscribe(who, request.durable, action.filter))
            self.perform(durable.client_knows(request.reached, self.now.monotonic_s))
        elif isinstance(request, ReplaceRequest):
            assert action.filter is not None, "it was judged"
            self.perform(durable.replace(who, action.filter))
        else:
            self.perform(durable.unsubscribe(who, request.forget))

    def _client_advertised(self, action: actions.ClientAdvertised) -> None:
        self.durable.client_advertised()

    def _departed(self, action: actions.Departed) -> None:
        self.fastpath.client_down(action.link)

    # -- what neighbours' links mean to plans and to durable delivery ----------------------------------------

    def _connected(self, action: actions.Connected) -> None:
        self.perform(self.plans.connected(action.link, action.pieces))
        peer = self.peer_at(action.link)
        assert peer is not None, "there is a connection"
        self.perform(
            self.durable.connected(action.link, peer.connection.version >= STORES, self.now.monotonic_s)
        )

    def _disconnected(self, action: actions.Disconnected) -> None:
        self.plans.disconnected(action.link)
        self.perform(self.durable.disconnected(action.link, self.now.monotonic_s))

    def _withdrawing(self, action: actions.Withdrawing) -> None:
        self.perform(self.durable.withdrawing(action.link))
        self._hold_if_busy(action.link)  # what it has said to routers, and these have not handled, is dropped

    def _attached(self, action: actions.Attached) -> None:
        self.plans.attached(action.link, action.is_attached)
        self.durable.attached(action.link, action.is_attached)

    def _lost(self, action: actions.Lost) -> None:
        self.perform(self.durable.lost(action.link))

    def _expect(self, action: actions.Expect) -> None:
        neighbours, routed, now_s = action.neighbours, action.routed, self.now.monotonic_s
        self.perform(self.durable.expect(neighbours, routed, action.is_redundant, now_s))

    def _advertised(self, action: actions.Advertised) -> None:
        self.perform(self.durable.advertised(action.link, action.key, action.filter, action.number))

    def _unadvertised(self, action: actions.Unadvertised) -> None:
        self.durable.unadvertised(action.link, action.key)

    def _answered(self, action: actions.Answered) -> None:
        self.durable.answered(action.link, action.number)

    def _heard(self, action: actions.Heard) -> None:
        if isinstance(action.message, Sync):
            self.perform(self.plans.settle())
        if action.epoch in self.epochs.routers:
            self.perform(self.durable.heard(action.message, action.link, action.epoch))

    # -- what routers say ------------------------------------------------------------------------------------

    @property
    def router(self) -> Router:
        """The router of the epoch in which events set out."""
        return self.epochs.router

    def _carry_out_all(self, outputs: Outputs) -> None:
        for epoch, some in outputs:
            self.carry_out(some, epoch)
        self.perform(self.neighbours.echo_for_others())

    def carry_out(
        self, outputs: Sequence[Output], epoch: int, one: bytes = b"", envelope: Envelope | None = None
    ) -> None:
        """Carry out what the router of one epoch says, of the event in the frame `one` or of something else."""
        for output in outputs:
            if isinstance(output, Deliver):
                self._deliver(output, one)
            elif isinstance(output.message, Publish):
                assert envelope is not None, "an event is sent on when one has come"
                self.neighbours.forward(output.link, output.message, epoch, one, envelope)
            elif output.link in self.sessions.connected:
                if isinstance(output.message, Echo):
                    self.perform(self.sessions.echoed(output.link, output.message))
            elif output.link == OWN:
                assert isinstance(output.message, Echo), "a broker itself asks for nothing else"
                self.perform(self.plans.echoed(output.message.id, self.now.monotonic_s))
            elif output.link == SURE:
                assert isinstance(output.message, Echo), "nor does what is durable"
                self.perform(self.durable.echoed(output.message.id))
            else:
                self.perform(self.neighbours.send(output.link, output.message, epoch))

    def _deliver(self, output: Deliver, one: bytes) -> None:
        """Hand an event to whoever subscribed to it here."""
        session = self.sessions.connected.get(output.link)
        sids: list[int] = []
        others: list[Key] = []
        for key in output.keys:
            sid = None if session is None else session.sid_of(key)
            if sid is None:
                others.append(key)
            else:
                sids.append(sid)
        if others:
            who = None if self._source is None else self._source.who
            self.elsewhere(output.link, tuple(others), one, None if who is None else who.link)
        sids.sort()
        for first in range(0, len(sids), MOST_SIDS):
            assert session is not None, "whose subscriptions have numbers"
            session.delivered += 1
            session.outlet.send_events(framed(encode_delivery(one, sids[first : first + MOST_SIDS])))

    # -- the disk --------------------------------------------------------------------------------------------

    def _log_answered(self, given: effects.Answered) -> None:
        for answer in given.answers:
            if isinstance(answer, Committed):
                self.perform(self.durable.committed(answer, self.now.monotonic_s))
            elif isinstance(answer, Notice):
                self.perform(self.durable.noticed(answer, self.now.monotonic_s))
            else:
                self.perform(self.durable.read(answer, self.now.monotonic_s))
        if not self.durable.is_choked:
            self._unblock(self.pressure.drained(DISK))

    def _plans_kept(self, given: effects.PlansKept) -> None:
        if given.error:
            self._say(logging.ERROR, "plans not kept", reason=given.error)
        self.perform(self.plans.kept())

    def _write_samples(self) -> None:
        assert self.sampler is not None, "there are samples"
        self._samples_s = self.now.monotonic_s + self.config.sample_every_s
        subscriptions = self.router.local_subscriptions()
        advertisements: dict[Key, Filter] = {}
        for link in subscriptions:
            advertisements.update(self.router.advertised_by(link))
        links = [link.name for link in self.config.links]
        work = partial(self.sampler.write, self.sampler.take(), subscriptions, advertisements, links)
        self._is_writing_samples = True
        self._effects.append(effects.WriteSamples(work))

    def _samples_written(self, given: effects.SamplesWritten) -> None:
        self._is_writing_samples = False
        if given.error:
            self._say(logging.ERROR, "samples not written", reason=given.error)

    # -- neighbours and plans, as people ask for -------------------------------------------------------------

    def _dial_failed(self, given: effects.DialFailed) -> None:
        self._say(logging.DEBUG, "neighbour not reached", link=given.neighbour, reason=given.reason)
        self.neighbours.dial_ended(given.neighbour, self.now.monotonic_s)

    def _install(self, given: effects.Install) -> None:
        now_s = self.now.monotonic_s
        self.perform(
            self.plans.install(given.plan, now_s, patience_s=given.patience_s, grace_s=given.grace_s)
        )

    def _roll_back(self, given: effects.RollBack) -> None:
        self.perform(self.plans.roll_back(self.now.monotonic_s))

    def _end_client(self, given: effects.EndClient) -> None:
        peer = self.peer_at(given.link) if given.link in self.clients else None
        if peer is None:
            raise LinkError(f"there is no client at {given.link!r:.80} (hint: /linkz lists them)")
        self._say(logging.INFO, "client ended", link=given.link, peer=peer.address)
        peer.connection.end("an operator has ended the connection")

    # -- other settings --------------------------------------------------------------------------------------

    def _configured(self, given: effects.Configured) -> None:
        before, self.security = self.security, given.security
        taken, _ = changed(self.config, given.config)
        config = self.config = replace(self.config, **{name: getattr(given.config, name) for name in taken})
        now_s = self.now.monotonic_s
        self.admission.places = places_of(config, self._descriptors)
        self.logins.most_waiting = self.admission.places.strangers
        self.perform(self.logins.renewed(given.security, now_s))
        self.sessions.limits = _limits(config)
        self.scheduler.congested_at, self.scheduler.calm_at = config.congested_at, config.calm_at
        self.neighbours.overlay.max_brokers = config.max_brokers
        self.neighbours.forget_after(config.forget_after_s)
        if "links" in taken:
            self.perform(self.neighbours.configure(config.links, now_s))
        for peer in self.peers.values():
            link = config.link(peer.who.link) if isinstance(peer.who, Neighbour) else None
            peer.connection.outbox.bounds = config.bounds(link)
        self._revoke(before)
        if taken:
            self._say(logging.INFO, "settings taken", settings=", ".join(taken))

    def _revoke(self, before: Security) -> None:
        """Judge what clients and durable subscriptions have by a security that has replaced another one."""

        def permissions_of(name: str) -> Permissions | None:
            if self.security.secret_of(name) != before.secret_of(name):
                return None
            return self.security.permissions_of(name)

        self.perform(self.sessions.revoke(permissions_of))
        self._revoke_durable()

    def _revoke_durable(self) -> None:
        """End the durable subscriptions that are not allowed, and remove their queues."""
        for one in self.durable.held():
            owner = one.owner
            permissions = self.security.permissions_of(owner.user)
            if permissions is None:
                reason = "its user does not exist any longer"
            elif not allows(permissions.subscribe, one.filter):
                reason = f"{owner.user or 'its owner'} may not subscribe to it any longer"
            else:
                continue
            self._say(
                logging.WARNING,
                "durable subscription removed",
                user=owner.user,
                client=owner.client,
                name=owner.name,
                events=self.durable.waiting(one)[0],
                reason=reason,
            )
            attached = one.attached
            self.perform(self.durable.end(one))
            if attached is not None:
                said = f"the durable subscription {owner.name} is removed: {reason}"
                self._close(actions.Close(attached.link, said, revoked=True))

    # -- the end ---------------------------------------------------------------------------------------------

    def _begin_to_drain(self, given: effects.Drain) -> None:
        if self.phase is not Phase.SERVING:
            return
        span_s = given.within_s + given.spread_s
        self._say(logging.INFO, "drain", within_s=span_s, clients=len(self.clients))
        self.phase = Phase.EMPTYING
        self._until_s = self.now.monotonic_s + span_s
        self._leave_every_s = given.spread_s
        self.neighbours.stop_dialling()
        self._effects.append(effects.StopListening())
        if self.sampler is not None and not self._is_writing_samples:
            self._write_samples()  # while clients are here, with what they ask for

    def _abort(self, given: effects.Abort) -> None:
        self._until_s = self.now.monotonic_s
        if self.phase is Phase.SERVING:
            self.phase = Phase.EMPTYING

    def _drain(self) -> None:
        """Go on with the end, as far as can be: the next phase begins when this one is done, or time is over."""
        now_s = self.now.monotonic_s
        if self.phase is Phase.SERVING or self.phase is Phase.ENDED:
            return
        if now_s >= self._until_s and self.phase is not Phase.ABORTING:
            self.phase, self._until_s = Phase.ABORTING, now_s + LAST_WAIT_S
            for peer in self.peers.values():
                peer.connection.abort()
        if self.phase is Phase.EMPTYING and self._is_empty:
            self.phase = Phase.DISMISSING
            self._leaving = deque(peer for peer in self.peers.values() if not isinstance(peer.who, Neighbour))
            self._leave_s = now_s
            self._leave_every_s /= max(1, len(self._leaving))
        if self.phase is Phase.DISMISSING:
            while self._leaving and now_s >= self._leave_s:
                self._leaving.popleft().connection.finish(GOING)
                self._leave_s = max(
                    self._leave_s + self._leave_every_s, now_s if not self._leave_every_s else 0
                )
            if not self._leaving and not self.clients and self._is_empty:
                self.phase = Phase.PARTING
                for peer in self.peers.values():
                    peer.connection.finish(GOING)
        if (not self.peers and self.phase in (Phase.PARTING, Phase.ABORTING)) or (
            self.phase is Phase.ABORTING and now_s >= self._until_s
        ):
            self.phase = Phase.ENDED
            self._effects.append(effects.Stop())

    @property
    def _is_empty(self) -> bool:
        return not (
            self.scheduler.count
            or self.durable.pending
            or self._is_writing_samples
            or self.plans.is_keeping
            or self._has_jobs
        )

    def counted(self) -> Counter[str]:
        """Return what the broker and the router in force have counted."""
        self.fastpath.count_tables()
        return self.counters + self.neighbours.counters + self.router.counters


def _limits(config: BrokerConfig) -> Limits:
    return Limits(
        config.max_subscriptions, config.max_advertisements, config.max_filter_cost, config.max_client_bytes
    )


def _is_same(who: Session | Neighbour | None, permissions: Permissions, name: str) -> bool:
    """Return whether a client that has gone is the one of this name that comes."""
    return (
        isinstance(who, Session)
        and bool(name)
        and (who.permissions.name, who.name) == (permissions.name, name)
    )


def _sampler(config: BrokerConfig) -> Sampler | None:
    if not config.sample:
        return None
    if not config.data_dir:
        raise ConfigError("sample needs a data_dir, where samples go")
    require("spark", "the setting sample")  # they are Parquet files
    return Sampler(config.name, Path(config.data_dir) / "samples", config.sample)


_ENDINGS: Final = {
    Closing.SHUT_WRITE: Ending.SHUT,
    Closing.CLOSE: Ending.CLOSE,
    Closing.ABORT: Ending.ABORT,
}
_CONSEQUENCES: Final = {
    Verdict.FULL: "whoever sends to it waits",
    Verdict.DROPPED: "events for it are dropped",
    Verdict.LOST: "its link ends",
}
_STEP: Final[dict[type, Callable[[BrokerCore, Any], None]]] = {
    effects.Knocked: BrokerCore._knocked,
    effects.Opened: BrokerCore._opened,
    effects.Showed: BrokerCore._showed,
    effects.Operated: BrokerCore._operated,
    effects.TurnedAway: BrokerCore._turned_away,
    effects.Attached: BrokerCore._attached_here,
    effects.Received: BrokerCore._received,
    effects.Arrived: BrokerCore._arrived,
    effects.HeardEof: BrokerCore._heard_eof,
    effects.Paused: BrokerCore._paused,
    effects.Writable: BrokerCore._writable,
    effects.Closed: BrokerCore._closed,
    effects.DialFailed: BrokerCore._dial_failed,
    effects.Tick: BrokerCore._tick,
    effects.Verified: BrokerCore._verified,
    effects.Answered: BrokerCore._log_answered,
    effects.Configured: BrokerCore._configured,
    effects.Install: BrokerCore._install,
    effects.RollBack: BrokerCore._roll_back,
    effects.EndClient: BrokerCore._end_client,
    effects.Drain: BrokerCore._begin_to_drain,
    effects.Abort: BrokerCore._abort,
    effects.SamplesWritten: BrokerCore._samples_written,
    effects.PlansKept: BrokerCore._plans_kept,
}
_PERFORM: Final[dict[type, Callable[[BrokerCore, Any], None]]] = {
    actions.Tell: BrokerCore._tell,
    actions.Send: BrokerCore._send,
    actions.SendEvent: BrokerCore._send_event,
    actions.Route: BrokerCore._route,
    actions.Refuse: BrokerCore._refuse,
    actions.HandOver: BrokerCore._hand_over,
    actions.Close: BrokerCore._close,
    actions.Verify: BrokerCore._verify,
    actions.Verifying: BrokerCore._verifying,
    actions.Entered: BrokerCore._entered,
    actions.Denied: BrokerCore._denied,
    actions.Release: BrokerCore._release,
    actions.Adopted: BrokerCore._adopted,
    actions.Proceed: BrokerCore._proceed,
    actions.Replay: BrokerCore._replay,
    actions.Work: BrokerCore._work,
    actions.KeepPlans: BrokerCore._keep_plans,
    actions.Commit: BrokerCore._commit,
    Fetch: BrokerCore._ask_log,
    Find: BrokerCore._ask_log,
    actions.Dial: BrokerCore._dial,
    actions.Say: BrokerCore._say_it,
    actions.DurableRequest: BrokerCore._durable_request,
    actions.ClientAdvertised: BrokerCore._client_advertised,
    actions.Departed: BrokerCore._departed,
    actions.Connected: BrokerCore._connected,
    actions.Disconnected: BrokerCore._disconnected,
    actions.Withdrawing: BrokerCore._withdrawing,
    actions.Attached: BrokerCore._attached,
    actions.Lost: BrokerCore._lost,
    actions.Expect: BrokerCore._expect,
    actions.Advertised: BrokerCore._advertised,
    actions.Unadvertised: BrokerCore._unadvertised,
    actions.Answered: BrokerCore._answered,
    actions.Heard: BrokerCore._heard,
}
