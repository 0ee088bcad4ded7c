"""Durable delivery at one broker: events that are confirmed, and what is kept for consumers that are away.

A confirmed event (its flag is KEPT) is taken from a client or a neighbour like this, at every broker on its way:

    known already   it was sent again: say TAKEN, once it is on disk undamaged, and nothing else
    routed          by the table or to everyone, see below
    kept            in one transaction with an entry for each neighbour and each durable subscription it is for
    committed       say TAKEN to whoever sent it, who may forget it now; only then send it on and deliver it

So nothing is sent on that is not on disk here, and nobody is told so too early. A name alone says nothing of the event.
When one arrives again, the log looks at its own copy before anybody is told TAKEN, and the copy that has just arrived
takes the place of a damaged one. An event that was lost here, as nobody had a copy of it, is not known any longer: if
it arrives after all, it is taken for everybody but connected clients, who may have had it.

TAKEN has many events in one frame: it goes out at the end of each turn, or when a frame is full. Without room, a
client's event is refused, and a neighbour's waits, not taken, which stops the neighbour at its window.

To which neighbours an event goes. By the routing table where there is one tree, the overlay itself, and the table is
complete (`completeness`). Otherwise it goes to every neighbour, which is always right, and each broker takes it once:

    the table is not complete                to all that are expected on the tree, there or not
    several trees, plans, redundant links    to all neighbours: the event's way may change while it is under way

A neighbour is sent what is in its outbox in order, a window at a time, once it has said what it wants; when its link
comes up again, from the first event that it has not taken.

Neighbours are told how far this broker's log has come, with each TAKEN and about once a second, and say it again when
their link comes back. So a log that has lost its end is found out also where it cannot know that itself.

`Durable` is a part of the broker (see `actions`): it is told who is connected, asks nobody, and gives the log nothing
but values. `NoDurable` stands in its place where the broker has no store.
"""

from __future__ import annotations

import logging
from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

import msgspec

from covey.broker.actions import Action, Actions, HandOver, Refuse, Route, Say, Send, SendEvent, Tell
from covey.broker.config import QueueLimits
from covey.broker.durable.completeness import Completeness, Said, Whole
from covey.broker.durable.log import (
    GAP,
    Committed,
    Damaged,
    Entry,
    Found,
    Keep,
    LogClock,
    Notice,
    Owner,
    Read,
    Recovered,
    Renew,
    Resume,
    Unsee,
)
from covey.broker.durable.queues import (
    LINK,
    UNREPAIRED,
    DurableSubscription,
    DurableSubscriptions,
    Feed,
    Incident,
    Outcome,
    Repair,
    Subscriber,
    Tickets,
)
from covey.broker.durable.repair import MOST_NAMES, Repairs, say_lacking
from covey.broker.plans import Epochs
from covey.core.filter import Filter
from covey.errors import CoveyError, ProtocolError
from covey.protocol.control import (
    BUSY,
    FULL,
    Lacking,
    Reached,
    Recalled,
    Stored,
    Wanted,
    decode_stored,
    encode_stored,
    kind_of,
)
from covey.protocol.events import (
    MOST_CONFIRMED,
    Envelope,
    Name,
    decode_acknowledge,
    decode_taken,
    encode_taken,
    envelope_of,
    forwarded,
    publish_of,
)
from covey.protocol.frames import Kind
from covey.routing.messages import SUBSCRIPTIONS, Key, Link, LinkUp, Message, Probe, Publish, Sync
from covey.routing.outputs import Deliver, Output

SURE: Final = "~sure"  # the link on which the broker itself asks whether its tables are complete
ENDED: Final = (
    "the store keeps nothing any longer (hint: the broker's log says why, and it must be restarted)"
)
NO_STORE: Final = "this broker keeps nothing (hint: it needs a data_dir)"


def confirm_unkept(source: Link, envelope: Envelope) -> Actions:
    """Tell a neighbour that it need not keep a confirmed event for us any longer, though we have not kept it either."""
    for body in encode_taken([(envelope.publisher, envelope.number)]):
        yield Send(source, Kind.TAKEN, body)


class Senders:
    """Clients and neighbours that wait to hear what became of their confirmed events.

    A client is told of an event that is refused. A neighbour never is: its events wait.
    """

    def __init__(self) -> None:
        self._taken: dict[Link, list[Name]] = {}  # on disk, and its sender not told yet
        self._again: dict[
            Name, list[tuple[Link, int]]
        ] = {}  # who else has sent an event that is not on disk yet
        self.refused = 0

    def also(self, source: Link, name: Name, number: int) -> None:
        """Somebody has sent an event again, as the arrival of that number, that is on its way to the disk."""
        self._again.setdefault(name, []).append((source, number))

    def kept(self, source: Link, name: Name) -> Actions:
        """An event is on disk: all who have sent it are to hear that."""
        yield from self.took(source, name)
        for sender, _ in self._again.pop(name, ()):
            yield from self.took(sender, name)

    def lost(self, name: Name) -> list[tuple[Link, int]]:
        """An event cannot be kept: return who has sent it beside its first sender, and as which arrival."""
        return self._again.pop(name, [])

    def took(self, source: Link, name: Name) -> Actions:
        """An event that somebody has sent is on disk."""
        names = self._taken.setdefault(source, [])
        names.append(name)
        if len(names) >= MOST_CONFIRMED:
            yield from self._say_taken(source)

    def _say_taken(self, source: Link) -> Actions:
        for body in encode_taken(self._taken.pop(source)):
            yield Send(source, Kind.TAKEN, body)

    def flush(self) -> Actions:
        """Say what was taken."""
        for source in list(self._taken):
            yield from self._say_taken(source)

    def refuse(self, source: Link, name: Name, reason: str, kind: str) -> Action:
        """Return what tells a client that its event is not kept; `kind` is that of a Reply."""
        self.refused += 1
        return Refuse(source, name[1], reason, kind)

    def gone(self, source: Link) -> None:
        """Somebody is not there any longer, and will send again what it has heard nothing of."""
        self._taken.pop(source, None)


# -- outboxes ----------------------------------------------------------------------------------------------------

KIND: Final = "outbox"
WINDOW: Final = 1_000  # events under way to a neighbour that it has not taken
WINDOW_BYTES: Final = 8 << 20


class Outboxes:
    """What neighbours have not taken yet, and to which of them a confirmed event goes; see the module's text."""

    def __init__(
        self,
        epochs: Epochs,
        tickets: Tickets,
        next_owner: Callable[[], int],
        incarnation: int,
        repair: Repair = UNREPAIRED,
    ) -> None:
        self._epochs = epochs
        self._repair = repair._replace(form=_flooded)
        self._tickets = tickets
        self._next_owner = next_owner
        self.completeness = Completeness((), f"~{epochs.router.broker}!{incarnation:x}.")
        self._feeds: dict[Link, Feed] = {}
        self._unwritten: dict[Link, Owner] = {}  # whose outboxes are not on disk yet
        # To a neighbour: positions by name. One that was lost here, and was taken again, may wait under two.
        self._under_way: dict[Link, dict[Name, tuple[int, ...]]] = {}
        self._neighbours: tuple[Link, ...] = ()  # that there should be
        self.connected: set[Link] = set()
        self._attached: set[Link] = set()  # whose links are on the overlay's tree
        self._is_redundant = False
        self._plans = epochs.state

    def load(self, owners: Iterable[Owner]) -> None:
        """Take up what is stored."""
        for owner in owners:
            if owner.kind == KIND:
                self._feeds[owner.name] = self._feed(owner)

    def _feed(self, owner: Owner) -> Feed:
        repair = self._repair._replace(title=f"neighbour {owner.name}")
        return Feed(self._tickets, owner.id, WINDOW, WINDOW_BYTES, repair)

    def open(self, link: Link) -> Actions:
        """Make an outbox for a neighbour that has none."""
        if link not in self._feeds:
            owner = Owner(self._next_owner(), KIND, "", "", link)
            self._unwritten[link] = owner
            self._feeds[link] = self._feed(owner)
            yield from self._go_on(link)

    def owner(self, link: Link) -> int:
        """Return who waits in the log for a neighbour's events."""
        return self._feeds[link].owner

    def unwritten(self, links: Iterable[Link]) -> list[Owner]:
        """Return those owners of outboxes that are not on disk: they go there with the first event for them."""
        return [self._unwritten[link] for link in links if link in self._unwritten] if self._unwritten else []

    def written(self, owners: Iterable[Owner]) -> None:
        """Owners of outboxes are on disk."""
        for owner in owners:
            if self._unwritten.get(owner.name) == owner:
                del self._unwritten[owner.name]

    def offer(self, link: Link, position: int, frame: bytes, now_s: float) -> Actions:
        """Note an event for a neighbour that is on disk now."""
        if link in self._feeds:  # otherwise it was given up since
            yield from self._feeds[link].offer(position, frame, now_s)

    def waiting(self) -> int:
        """Return how many events wait for neighbours."""
        return sum(self._tickets.waiting(feed.owner)[0] for feed in self._feeds.values())

    # -- where events go -------------------------------------------------------------------------------------

    def is_complete(self, publish: Publish, source: Link, is_client: bool) -> bool:
        """Return whether the table knows all for whom an event from a client or neighbour is."""
        if not self._is_certain(publish):
            return False
        parts = self._epochs.router.trees.values()
        if publish.destinations is not None and all(part.strategy.knows_ways(publish) for part in parts):
            return True  # for whom it is, is written on it
        # Whoever is written on an event that has waited, and lies nowhere, has cancelled; or what it was published
        # under is withdrawn, and with that the subscriptions which said where they lie.
        if not self.completeness.is_answered(publish.event):
            return False
        return is_client or any(part.is_advertised(source, publish.event) for part in parts)

    def _is_certain(self, publish: Publish) -> bool:
        """Return whether the table is complete but for what was advertised lately."""
        return not publish.flooded and self._is_plain and self.completeness.is_complete

    def have_answered(self, publish: Publish) -> Actions:
        """Ask who wants an event of a client here, if it was advertised lately and nobody has asked."""
        is_answered = publish.destinations is not None or self.completeness.is_answered(publish.event)
        if self._is_certain(publish) and not is_answered:
            yield from self._say(self.completeness.have_answered())

    def everyone(self) -> Sequence[Link]:
        """Return to whom an event goes when the table is not asked."""
        return sorted(self.completeness.expected) if self._is_plain else self._neighbours

    @property
    def _is_plain(self) -> bool:
        """Whether there is one tree, the overlay itself."""
        epochs = self._epochs
        return (
            not self._is_redundant
            and len(epochs.routers) == 1
            and not epochs.is_planned(epochs.current)
            and len(epochs.router.trees) == 1
        )

    def notice_plans(self) -> Actions:
        """See whether other plans are installed than before; first of all whenever something happens."""
        if self._plans is not self._epochs.state:
            self._plans = self._epochs.state
            yield from self._say(self.completeness.doubt())
            for link in list(self._feeds):
                yield from self._go_on(link)

    # -- neighbours come and go ------------------------------------------------------------------------------

    def expect(self, neighbours: Iterable[Link], routed: Iterable[Link], is_redundant: bool) -> Actions:
        """Say which neighbours there should be, over which of them events are routed, and whether there are detours."""
        self._neighbours = tuple(sorted(neighbours))
        self._is_redundant = is_redundant
        yield from self._say(self.completeness.expect(routed))
        for link in list(self._feeds):
            if link in self._neighbours:
                yield from self._go_on(link)
            else:
                yield from self._give_up(link)

    def _give_up(self, link: Link) -> Actions:
        self._stop(link)
        feed = self._feeds.pop(link)
        self._unwritten.pop(link, None)
        count, _ = self._tickets.waiting(feed.owner)
        if count:
            text = f"{link} is no neighbour any longer: {count} events that it has not taken are dropped"
            yield Say(logging.WARNING, text, {})
        yield self._tickets.forget(feed.owner)

    def connect(self, link: Link) -> Actions:
        """There is a connection to a neighbour."""
        self.connected.add(link)
        yield from self._go_on(link)

    def disconnect(self, link: Link) -> None:
        """The connection to a neighbour is gone: what it has not taken stays."""
        self.connected.discard(link)
        self._stop(link)

    def attach(self, link: Link, is_attached: bool) -> None:
        """A neighbour's link is on the overlay's tree from now on, or no longer."""
        if is_attached:
            self._attached.add(link)
        else:
            self._attached.discard(link)

    def withdrawing(self, link: Link) -> Actions:
        """The routers are about to forget what a neighbour wants, or to learn it."""
        yield from self._say(self.completeness.link_up(link))
        if not self._may_send(link):
            self._stop(link)

    def lost(self, link: Link) -> Actions:
        """A link on the tree broke, and its neighbour's interest is kept."""
        yield from self._say(self.completeness.link_lost(link))

    def heard(self, message: Message, link: Link, epoch: int) -> Actions:
        """A router of the overlay has heard something from a neighbour."""
        if isinstance(message, Sync) and message.what == SUBSCRIPTIONS:
            parts = self._epochs.routers[epoch].trees
            trees = {tree for tree, part in parts.items() if link in part.links_up()}
            yield from self._say(self.completeness.synchronised(link, message.tree, trees))
            yield from self._go_on(link)

    def advertised(self, link: Link, key: Key, filter: Filter, number: int) -> Actions:
        """Something is advertised to a neighbour."""
        yield from self._say(self.completeness.advertised(link, key, filter, number))

    def echoed(self, probe: str) -> Actions:
        """A probe of this broker has come back."""
        yield from self._say(self.completeness.echoed(probe))

    def tick(self, now_s: float) -> Actions:
        """Send on, and have what is new answered; about once a second."""
        for feed in list(self._feeds.values()):
            yield from feed.tick(now_s)
        if self._is_plain:
            yield from self._say(self.completeness.tick())

    # -- sending ---------------------------------------------------------------------------------------------

    def _may_send(self, link: Link) -> bool:
        if not self._is_plain:
            return link in self.connected
        return link in self._attached and self.completeness.has_synchronised(link)

    def _go_on(self, link: Link) -> Actions:
        if link in self._feeds and not self._feeds[link].is_attached and self._may_send(link):
            yield from self._begin(link)

    def _stop(self, link: Link) -> None:
        self._under_way.pop(link, None)
        if link in self._feeds:
            self._feeds[link].detach()

    def _begin(self, link: Link) -> Actions:
        under_way = self._under_way[link] = {}

        def transmit(position: int, frame: bytes) -> Action:
            envelope = envelope_of(frame)
            name = envelope.publisher, envelope.number
            under_way[name] = (*under_way.get(name, ()), position)
            return SendEvent(link, Kind.EVENT, frame[1:])

        yield from self._feeds[link].attach(transmit)

    # -- what neighbours say ---------------------------------------------------------------------------------

    def said(self, link: Link, one: bytes, now_s: float) -> Actions:
        """Handle a TAKEN or WHOLE frame; ProtocolError if it is none."""
        if one[0] == Kind.TAKEN:
            under_way = self._under_way.get(link, {})
            positions = [position for name in decode_taken(one[1:]) for position in under_way.pop(name, ())]
            if positions:
                yield from self._feeds[link].confirm(positions, now_s)
        elif len(one) != 2:
            raise ProtocolError("what a neighbour knows cannot be read")
        elif link in self._attached:
            yield from self._say(self.completeness.said(link, one[1] != 0))

    def _say(self, said: Said) -> Actions:
        """Send what is known of completeness, and ask what is to be known."""
        for one in said:
            if not isinstance(one, Whole):
                yield Tell(Probe(one.probe), SURE, self._epochs.current)
            elif one.link in self._attached:
                yield Send(one.link, Kind.WHOLE, b"\1" if one.is_whole else b"\0")


def _flooded(copy: bytes) -> bytes:
    """Return an event that another broker has kept as it goes to every neighbour, which is always right."""
    envelope = envelope_of(copy)
    return _as_flooded(copy, envelope, publish_of(copy, envelope))


def _as_flooded(one: bytes, envelope: Envelope, publish: Publish) -> bytes:
    """Return an event as it goes to every neighbour."""
    return forwarded(one, envelope, msgspec.structs.replace(publish, flooded=True, destinations=None))


# -- the part ----------------------------------------------------------------------------------------------------

EXPIRE_EVERY_S: Final = 30.0
MAX_PENDING: Final = 20_000  # events of one client that are not confirmed
# Bytes of memory that wait for the disk: beyond this, whoever sends more waits. Twice as much is refused, or lost.
MOST_HELD: Final = 64 << 20
SAY_EVERY_S: Final = 10.0


@dataclass
class _Arrived:
    """A confirmed event that is on its way to the disk."""

    one: bytes
    envelope: Envelope
    publish: Publish
    source: Link
    number: int  # in the order in which events have arrived
    position: int = 0
    outboxes: list[tuple[Link, bytes]] = field(default_factory=list)
    keys: tuple[Key, ...] = ()  # of durable subscriptions
    clients: list[Deliver] = field(default_factory=list)

    @property
    def name(self) -> Name:
        return self.envelope.publisher, self.envelope.number


def _number(arrived: _Arrived) -> int:
    return arrived.number


class _Repeat(NamedTuple):
    """An event that has arrived again, and is to be looked at on disk."""

    arrived: _Arrived
    renew: Renew
    is_said: bool  # people know that it is damaged, and repaired


class Durable:
    """Durable delivery at one broker; see the module's text. `load` it before any link is up."""

    keeps: Final = True

    def __init__(
        self,
        epochs: Epochs,
        recovered: Recovered,
        incarnation: int,
        limits: QueueLimits | None = None,
        *,
        now_s: float,
        wall_s: float,
    ) -> None:
        self._epochs = epochs
        self._recovered = recovered
        self.clock = LogClock(recovered.clock, now_s, wall_s)
        self._started_s = now_s
        self._last_owner = max(recovered.last_owner, *(owner.id for owner in recovered.owners), 0)
        self._tickets = Tickets(recovered)
        self.repairs = Repairs(self._tickets, f"{epochs.router.broker}!{incarnation:x}.")
        repair = UNREPAIRED._replace(seek=self.repairs.want, lost=self._event_lost)
        salt = f"{epochs.router.broker}!{incarnation}"
        self.subscriptions = DurableSubscriptions(
            self._tickets, limits or QueueLimits(), self._next_owner, salt, repair
        )
        self.outboxes = Outboxes(epochs, self._tickets, self._next_owner, incarnation, repair)
        self.completeness = self.outboxes.completeness
        self._clients: set[Link] = set()
        self._senders = Senders()
        # What was taken: what is not on disk yet, or the position at which it was kept.
        self._names: dict[Name, _Arrived | int] = {}
        # What was taken and is lost: if it comes again, it is taken again.
        self._lost_names: dict[Name, None] = {}
        self._repeats: list[_Repeat] = []  # of this turn
        self._arrivals = 0
        self._rooms: dict[Link, list[_Arrived]] = {}  # neighbours' events without room, in their order
        self._in_flight = 0  # neighbours' events on the way to the disk
        self._pending: dict[Link, int] = {}  # clients' events on the way to the disk
        self._is_failing = False  # the log has refused events
        self.has_ended = False  # the log keeps nothing any longer
        self.is_choked = False  # too much waits for the disk: whoever sends more for it is to wait
        self._choked_said_s = -SAY_EVERY_S
        # The last position that earlier lives are known to have given away, and how many of them the log does not know.
        self._given = recovered.known + recovered.missing
        self.missing = recovered.missing
        self._has_client_said = False  # that it had a position which the log does not know
        self._reached: dict[Link, int] = {}  # by neighbour: what it was told that this log has reached
        self._recalled: dict[Link, int] = {}  # by neighbour: what it has said that its log has reached
        self._expire_s = 0.0
        self.duplicates = self.flooded = self.dropped = 0

    def load(self) -> Actions:
        """Take up what is stored, and say what people must know of it."""
        owners = self._recovered.owners
        for warning in self._recovered.warnings:
            yield self._tickets.incidents.say(logging.ERROR, warning, {}, self._started_s)
        for notice in self._recovered.notices:
            yield self._tickets.incidents.say(logging.WARNING, notice, {}, self._started_s)
        yield Tell(LinkUp(client=True), SURE)
        yield from self.subscriptions.load(owners)
        self.outboxes.load(owners)
        self._names = dict(self._recovered.names)
        self._lost_names = dict.fromkeys(self._recovered.doubtful)

    def _next_owner(self) -> int:
        self._last_owner += 1
        return self._last_owner

    @property
    def pending(self) -> int:
        """How many batches the log has yet to answer."""
        return self._tickets.pending

    @property
    def kept(self) -> int:
        """How many events were kept since the start."""
        return self._tickets.kept

    # -- confirmed events ------------------------------------------------------------------------------------

    def arrived(
        self, one: bytes, envelope: Envelope, publish: Publish, source: Link, now_s: float
    ) -> Actions:
        """Take a confirmed event from a client or a neighbour."""
        self._arrivals += 1
        arrived = _Arrived(one, envelope, publish, source, self._arrivals)
        name = arrived.name
        if name in self._names:
            yield from self._again(arrived, now_s)
        elif source in self._clients:
            if self.has_ended:
                yield self._senders.refuse(source, name, ENDED, BUSY)
            elif self._pending.get(source, 0) >= MAX_PENDING:
                reason = f"{MAX_PENDING:,} events of this client wait to be confirmed already"
                yield self._senders.refuse(source, name, reason, BUSY)
            elif self._tickets.held_bytes > 2 * MOST_HELD:
                held = self._tickets.held_bytes / (1 << 20)
                reason = f"the disk is too slow, or does not answer: {held:,.1f} MiB wait for it already"
                yield self._senders.refuse(source, name, reason, BUSY)
            elif not self._tickets.room_for(len(one)):
                used = self._tickets.room.used_bytes / (1 << 20)
                yield self._senders.refuse(source, name, f"the store is full: it has {used:,.1f} MiB", FULL)
            else:
                self._pending[source] = self._pending.get(source, 0) + 1
                yield from self._keep(arrived, now_s)
        elif self._is_failing or self._rooms.get(source) or not self._has_room(len(one)):
            room = self._rooms.get(source, ())
            if len(room) >= 4 * WINDOW or sum(len(one.one) for one in room) >= 4 * WINDOW_BYTES:
                raise ProtocolError(f"{source} sends confirmed events beyond its window")
            yield from self._wait(arrived)
        else:
            yield from self._keep(arrived, now_s)
        yield from self._see_to_disk(now_s)

    def _again(self, again: _Arrived, now_s: float) -> Actions:
        """An event has arrived again: see to its copy here before the sender forgets its own."""
        self.duplicates += 1
        known = self._names[again.name]
        if isinstance(known, int):
            is_said = self.repairs.is_for_here(again.name)
            yield from self.repairs.copied(again.name, again.one, now_s)
            frame = _as_flooded(again.one, again.envelope, again.publish)
            renew = Renew(known, *again.name, frame, self.clock.read(now_s))
            self._repeats.append(_Repeat(again, renew, is_said))
            return
        self._senders.also(again.source, again.name, again.number)
        if again.source == known.source:  # on another connection: its place is where it is sent again
            known.number = again.number

    def _renew(self) -> Actions:
        """Have what has arrived again looked at on disk, all of a turn together."""
        repeats, self._repeats = self._repeats, []
        for first in range(0, len(repeats), MOST_NAMES):
            some = repeats[first : first + MOST_NAMES]
            yield self._tickets.commit(*(one.renew for one in some), then=partial(self._renewed, some))

    def _renewed(self, repeats: Sequence[_Repeat], outcome: Outcome, now_s: float) -> Actions:
        """The copies of events that have arrived again are good, or could not be looked at."""
        damaged = set(outcome.renewed)
        for again, renew, is_said in repeats:
            source, name = again.source, again.name
            if renew.position in damaged and not is_said:
                damaged.remove(renew.position)
                yield from self._tickets.repaired_by(Damaged(renew.position, name), source, now_s)
            if name in self._lost_names:  # it was given up meanwhile
                yield from self.arrived(again.one, again.envelope, again.publish, source, now_s)
            elif outcome.error is None:
                yield from self._senders.took(source, name)
            elif source in self._clients:
                yield self._senders.refuse(source, name, str(outcome.error), kind_of(outcome.error))
            elif source in self.outboxes.connected:
                yield from self._wait(again)

    def _event_lost(self, damaged: Damaged) -> tuple[Unsee, ...]:
        """Nobody has a copy of an event that waits here: do not say any longer that it was taken.

        Return what the log is to do together with letting go of it.
        """
        position, name = damaged
        if name is None:
            name = next((one for one, at in self._names.items() if at == position), None)
        if name is None or self._names.get(name) != position:
            return ()
        del self._names[name]
        self._lost_names[name] = None
        if len(self._lost_names) > self._recovered.window:
            del self._lost_names[next(iter(self._lost_names))]
        return (Unsee(position),)

    def _keep(self, arrived: _Arrived, now_s: float) -> Actions:
        yield from self._route(arrived, now_s)
        if arrived.name in self._lost_names:
            arrived.clients.clear()
        self._names[arrived.name] = arrived
        if len(self._names) > self._recovered.window:
            self._forget_oldest()
        for link, _ in arrived.outboxes:
            yield from self.outboxes.open(link)
        entries = [
            Entry(self.outboxes.owner(link), None if frame is arrived.one else frame)
            for link, frame in arrived.outboxes
        ]
        entries += [Entry(self.subscriptions.by_key(key).owner.id) for key in arrived.keys]
        arrived.position = self._tickets.next_position()
        keep = Keep(
            arrived.position, *arrived.name, arrived.one, self.clock.read(now_s), tuple(entries), seen=True
        )
        owners = self.outboxes.unwritten(link for link, _ in arrived.outboxes)
        is_neighbours = arrived.source not in self._clients
        self._in_flight += is_neighbours

        def then(outcome: Outcome, now_s: float) -> Actions:
            self._in_flight -= is_neighbours
            if outcome.error is not None:
                yield from self._not_kept(arrived, outcome.error)
            else:
                self.outboxes.written(owners)
                yield from self._kept(arrived, now_s)

        yield self._tickets.commit(*owners, keep, then=then)

    def _forget_oldest(self) -> None:
        oldest = next(iter(self._names))
        if isinstance(self._names[oldest], int):
            del self._names[oldest]

    def _route(self, arrived: _Arrived, now_s: float) -> Actions:
        """Find out for whom an event is."""
        router, source, publish = self._epochs.router, arrived.source, arrived.publish
        yield from self.outboxes.notice_plans()
        is_client = source in self._clients
        if self.outboxes.is_complete(publish, source, is_client):
            for output in router.handle(publish, source, now_s):
                self._sort(arrived, output)
            return
        if is_client:
            yield from self.outboxes.have_answered(publish)
        self.flooded += 1
        # As if this broker had published it: whoever is here gets it, wherever it came from.
        for output in router.handle(publish, SURE, now_s):
            if isinstance(output, Deliver):
                self._sort(arrived, output)
        frame = _as_flooded(arrived.one, arrived.envelope, publish)
        arrived.outboxes = [(link, frame) for link in self.outboxes.everyone() if link != source]

    def _sort(self, arrived: _Arrived, output: Output) -> None:
        if isinstance(output, Deliver):
            if output.link == LINK:
                arrived.keys = output.keys
            else:
                arrived.clients.append(output)
        elif isinstance(output.message, Publish):
            arrived.outboxes.append((output.link, forwarded(arrived.one, arrived.envelope, output.message)))

    def _kept(self, arrived: _Arrived, now_s: float) -> Actions:
        """An event is on disk."""
        source, name = arrived.source, arrived.name
        self._answered(source)
        if name in self._names:
            self._names[name] = arrived.position
        self._lost_names.pop(name, None)
        yield from self._senders.kept(source, name)
        for link, frame in arrived.outboxes:
            yield from self.outboxes.offer(link, arrived.position, frame, now_s)
        for output in arrived.clients:
            yield HandOver(output, arrived.one, source)
        yield from self._offer(arrived.keys, arrived.position, arrived.one, now_s)

    def _not_kept(self, arrived: _Arrived, error: CoveyError) -> Actions:
        """An event cannot be on disk."""
        source, name = arrived.source, arrived.name
        self._answered(source)
        self._is_failing = True
        self._names.pop(name, None)
        for sender, number in ((source, arrived.number), *self._senders.lost(name)):
            if sender in self._clients:
                yield self._senders.refuse(sender, name, str(error), kind_of(error))
            elif sender in self.outboxes.connected:
                yield from self._wait(
                    _Arrived(arrived.one, arrived.envelope, arrived.publish, sender, number)
                )

    def _answered(self, source: Link) -> None:
        if source in self._pending:
            self._pending[source] -= 1

    def _offer(self, keys: Iterable[Key], position: int, one: bytes, now_s: float) -> Actions:
        for key in keys:
            subscription = self.subscriptions.find(key)
            if subscription is not None:  # otherwise it has ended, or has another filter, since
                yield from subscription.feed.offer(position, one, now_s)
                self.subscriptions.grown.add(key)

    # -- other events ----------------------------------------------------------------------------------------

    def deliver(self, keys: Sequence[Key], one: bytes, now_s: float) -> Actions:
        """Keep an event that nobody confirms for durable subscriptions; without room it is lost to them."""
        if not self._tickets.room_for(len(one), len(keys)) or self._tickets.held_bytes > 2 * MOST_HELD:
            yield from self._lost(len(keys))
            return
        envelope = envelope_of(one)
        entries = tuple(Entry(self.subscriptions.by_key(key).owner.id) for key in keys)
        position = self._tickets.next_position()
        name, stored_s = (envelope.publisher, envelope.number), self.clock.read(now_s)
        keep = Keep(position, *name, one, stored_s, entries, seen=False)

        def then(outcome: Outcome, now_s: float) -> Actions:
            if outcome.error is None:
                yield from self._offer(keys, position, one, now_s)
            else:
                self._is_failing = True
                yield from self._lost(len(keys))

        yield self._tickets.commit(keep, then=then)
        yield from self._see_to_disk(now_s)

    def _lost(self, count: int) -> Actions:
        if not self.dropped:
            text = "the store has no room: events that nobody confirms are lost to durable subscriptions"
            yield Say(logging.WARNING, text, {})
        self.dropped += count

    # -- room, and what waits for it -------------------------------------------------------------------------

    def _has_room(self, size: int) -> bool:
        """Return whether a neighbour's event of this size is taken now, on disk and in memory."""
        return not self.is_choked and self._tickets.room_for(size)

    def _see_to_disk(self, now_s: float) -> Actions:
        """See whether too much waits for the disk; people are told now and then."""
        held = self._tickets.held_bytes
        if not self.is_choked and held > MOST_HELD:
            self.is_choked = True
            if now_s >= self._choked_said_s + SAY_EVERY_S:
                self._choked_said_s = now_s
                fields: dict[str, object] = {"waiting_bytes": held}
                yield self._tickets.incidents.say(logging.ERROR, "disk too slow", fields, now_s)
        elif self.is_choked and held <= MOST_HELD // 2:
            self.is_choked = False

    def _wait(self, arrived: _Arrived) -> Actions:
        """Let an event wait for room: behind all that arrived before it, which may be heard of later."""
        room = self._rooms.setdefault(arrived.source, [])
        if not room:
            text = f"the store has no room for events of {arrived.source}: they wait there"
            yield Say(logging.WARNING, text, {})
        insort(room, arrived, key=_number)

    def _retry(self, now_s: float) -> Actions:
        """Keep what waits for room, in order, once it is known of all that was sent to the disk before it."""
        if self._is_failing and not self._in_flight:
            self._is_failing = False
            yield self._tickets.commit(Resume())
        if self._is_failing:
            return
        yield from self._tickets.retry()
        for source, room in list(self._rooms.items()):
            count = 0
            while count < len(room):
                arrived = room[count]
                is_known = arrived.name in self._names
                if not (is_known or self._has_room(len(arrived.one))):
                    break
                count += 1
                if is_known:
                    yield from self._again(arrived, now_s)
                else:
                    yield from self._keep(arrived, now_s)
            del room[:count]
            if not room:
                del self._rooms[source]

    def committed(self, answer: Committed, now_s: float) -> Actions:
        """The log has answered `Commit`s."""
        yield from self._tickets.answered(answer, now_s)
        yield from self._see_to_disk(now_s)
        yield from self.subscriptions.trim_grown()
        yield from self.flush()

    def noticed(self, notice: Notice, now_s: float) -> Actions:
        """The log says something of itself that people must know."""
        self.has_ended |= notice.is_end
        level = logging.WARNING if notice.is_right else logging.ERROR
        yield self._tickets.incidents.say(level, notice.text, {}, now_s)

    def read(self, answer: Read | Found, now_s: float) -> Actions:
        """The log has answered a `Fetch` or a `Find`."""
        yield from self._tickets.read(answer, now_s)

    # -- clients ---------------------------------------------------------------------------------------------

    def client_up(self, link: Link) -> None:
        """A client is there."""
        self._clients.add(link)

    def client_gone(self, link: Link) -> None:
        """A client is gone; its durable subscriptions stay."""
        self._clients.discard(link)
        self.subscriptions.client_gone(link)
        self._pending.pop(link, None)
        self._senders.gone(link)

    def client_advertised(self) -> None:
        """A client here has advertised something."""
        self.completeness.client_advertised()

    def subscribe(self, who: Subscriber, name: str, filter: Filter) -> Actions:
        """Attach a durable subscription of that name, or make it; CoveyError if that cannot be."""
        yield from self.subscriptions.subscribe(who, name, filter)

    def replace(self, who: Subscriber, filter: Filter) -> Actions:
        """Give a durable subscription another filter; ProtocolError if there is none."""
        yield from self.subscriptions.replace(who, filter)

    def unsubscribe(self, who: Subscriber, forget: bool) -> Actions:
        """Leave a durable subscription, or end it; one that another connection has taken over is left already."""
        yield from self.subscriptions.unsubscribe(who, forget)

    def client_knows(self, position: int, now_s: float) -> Actions:
        """A client has had a position of a durable subscription: an earlier life of this broker may have given it."""
        if self._given < position <= self._recovered.last and not self._has_client_said:
            self._has_client_said = True  # clients are not believed more than once
            yield self._incomplete(position, "a client", now_s)

    def acknowledge(self, link: Link, body: bytes, now_s: float) -> Actions:
        """A client is done with deliveries; ProtocolError if it does not say with which."""
        said = decode_acknowledge(body)
        yield from self.client_knows(max(said.positions, default=0), now_s)
        yield from self.subscriptions.acknowledge(link, said, now_s)
        yield from self._see_to_disk(now_s)

    def filter_bytes(self, user: str, client: str) -> int:
        """Return how many bytes the filters of a client's durable subscriptions take."""
        return self.subscriptions.filter_bytes(user, client)

    def replaced_bytes(self, who: Subscriber, name: str | None) -> int:
        """Return what the filter takes that a request replaces: of the subscription with that name, or number."""
        return self.subscriptions.replaced_bytes(who, name)

    def held(self) -> Sequence[DurableSubscription]:
        """Return all durable subscriptions."""
        return self.subscriptions.all()

    def waiting(self, one: DurableSubscription) -> tuple[int, int]:
        """Return how many events wait for a durable subscription, and their bytes."""
        return self._tickets.waiting(one.owner.id)

    def incidents(self) -> Sequence[Incident]:
        """Return what has gone wrong with the store, the last first."""
        return self._tickets.incidents.all()

    def end(self, one: DurableSubscription) -> Actions:
        """End a durable subscription, and delete its queue."""
        yield from self.subscriptions.end(one)

    # -- neighbours: each method is named as the action that tells of it -------------------------------------

    def connected(self, link: Link, knows_stores: bool, now_s: float) -> Actions:
        """There is a connection to a neighbour; `knows_stores` says whether it understands STORE frames."""
        yield from self.outboxes.notice_plans()
        yield from self.outboxes.connect(link)
        self._reached.pop(link, None)
        if knows_stores and link in self._recalled:
            yield Send(link, Kind.STORE, encode_stored(Recalled(self._recalled[link])))
        yield from self.repairs.connected(link, knows_stores, now_s)

    def disconnected(self, link: Link, now_s: float) -> Actions:
        """The connection to a neighbour is gone: it will send again what was not taken, and so shall we."""
        self._rooms.pop(link, None)
        self._senders.gone(link)
        self.outboxes.disconnect(link)
        yield from self.repairs.disconnected(link, now_s)

    def withdrawing(self, link: Link) -> Actions:
        """The routers are about to forget what a neighbour wants, or to learn it anew."""
        yield from self.outboxes.notice_plans()
        yield from self.outboxes.withdrawing(link)

    def attached(self, link: Link, is_attached: bool) -> None:
        """A neighbour's link is on the overlay's tree from now on, or no longer."""
        self.outboxes.attach(link, is_attached)

    def lost(self, link: Link) -> Actions:
        """A link on the tree broke, and its neighbour's interest is kept; before anybody echoes in its place."""
        yield from self.outboxes.lost(link)

    def expect(
        self, neighbours: Sequence[Link], routed: Iterable[Link], is_redundant: bool, now_s: float
    ) -> Actions:
        """Say which neighbours there should be, over which of them events are routed, and whether there are detours."""
        yield from self.outboxes.notice_plans()
        yield from self.outboxes.expect(neighbours, routed, is_redundant)
        yield from self.repairs.expect(neighbours, now_s)

    def advertised(self, link: Link, key: Key, filter: Filter, number: int) -> Actions:
        """Something is advertised to a neighbour, as its `number`th; 0 if the neighbour cannot be reached."""
        yield from self.outboxes.advertised(link, key, filter, number)

    def unadvertised(self, link: Link, key: Key) -> None:
        """An advertisement is withdrawn from a neighbour."""
        self.completeness.unadvertised(link, key)

    def answered(self, link: Link, number: int) -> None:
        """A neighbour itself has echoed a probe that was sent behind its `number`th advertisement."""
        self.completeness.answered(link, number)

    def heard(self, message: Message, link: Link, epoch: int) -> Actions:
        """The router of an epoch has heard something from a neighbour's, and has answered."""
        if epoch in self._epochs.routers and not self._epochs.is_planned(epoch):
            yield from self.outboxes.notice_plans()
            yield from self.outboxes.heard(message, link, epoch)

    def said(self, link: Link, one: bytes, now_s: float) -> Actions:
        """A neighbour says TAKEN, WHOLE, or something of its STORE or ours; ProtocolError if that cannot be read."""
        if one[0] == Kind.STORE:
            yield from self._stored(link, decode_stored(one[1:]), now_s)
        elif one[0] == Kind.COPY:
            frame = bytes([Kind.EVENT]) + one[1:]
            envelope = envelope_of(frame)
            yield from self.repairs.copied((envelope.publisher, envelope.number), frame, now_s)
        else:
            yield from self.outboxes.said(link, one, now_s)

    def _stored(self, link: Link, said: Stored, now_s: float) -> Actions:
        match said:
            case Wanted():
                yield from self.repairs.wanted(link, said, now_s)
            case Lacking():
                yield from self.repairs.lacking(link, said, now_s)
            case Reached(position):
                self._recalled[link] = max(position, self._recalled.get(link, 0))
            case Recalled(position):
                # It was told so in another life of this broker, or in this one before its link broke.
                if self._given < position and not self._recovered.last < position <= self._tickets.committed:
                    yield self._incomplete(position, f"neighbour {link}", now_s)
                    self._tickets.skip(position + GAP)

    def _incomplete(self, position: int, who: str, now_s: float) -> Say:
        """Somebody knows that an earlier life has given away a position, of which the log does not know."""
        events, self._given = position - self._given, position
        self.missing += events
        fields = {"missing_events": events, "known_from": who}
        return self._tickets.incidents.say(logging.ERROR, "store incomplete", fields, now_s)

    def echoed(self, probe: str) -> Actions:
        """A probe of this broker itself has come back."""
        yield from self.outboxes.echoed(probe)

    # -- time, and numbers -----------------------------------------------------------------------------------

    def flush(self) -> Actions:
        """Say what was taken, and look for copies of what is damaged; at the end of each turn."""
        yield from self._renew()
        told = set()
        for action in self._senders.flush():
            yield action
            if isinstance(action, Send) and action.link in self.repairs.able:
                told.add(action.link)
        yield from self._say_reached(sorted(told))
        yield from self.repairs.flush()

    def _say_reached(self, links: Iterable[Link]) -> Actions:
        """Tell neighbours how far the log has come: they know it if this broker's disk forgets."""
        position = self._tickets.committed
        for link in links:
            if self._reached.get(link, 0) < position:
                self._reached[link] = position
                yield Send(link, Kind.STORE, encode_stored(Reached(position)))

    def tick(self, now_s: float, wall_s: float) -> Actions:
        """Do what is due: try again what had no room, deliver again, drop what is too old; about once a second."""
        yield from self._say_reached(sorted(self.repairs.able))
        yield from self.repairs.tick(now_s)
        yield from self.outboxes.notice_plans()
        yield from self._retry(now_s)
        yield from self.subscriptions.tick(now_s)
        yield from self.outboxes.tick(now_s)
        jump_s = self.clock.jumped(now_s, wall_s)
        if jump_s:
            fields: dict[str, object] = {"by_s": round(jump_s, 1)}
            yield self._tickets.incidents.say(logging.WARNING, "clock jumped", fields, now_s)
        if now_s >= self._expire_s:
            self._expire_s = now_s + EXPIRE_EVERY_S
            if self._tickets.is_holding:
                yield self._tickets.commit(self.clock.remembered(now_s, wall_s))
            yield from self.subscriptions.expire(self.clock.read(now_s))
        yield from self.flush()

    def report(self) -> Mapping[str, float]:
        """Return numbers of what is kept, for metrics."""
        tickets, subscriptions = self._tickets, self.subscriptions.all()
        return {
            "used_bytes": tickets.room.used_bytes,
            "max_bytes": tickets.room.max_bytes,
            "events_kept_total": tickets.kept,
            "commits_total": tickets.commits,
            "pending": tickets.pending,
            "pending_bytes": tickets.held_bytes,
            "is_sure": float(self.completeness.is_complete),
            "flooded_total": self.flooded,
            "duplicates_total": self.duplicates,
            "refused_total": self._senders.refused,
            "lost_total": self.dropped,
            "damaged_total": tickets.damaged,
            "repaired_total": tickets.repaired,
            "unrepaired_total": tickets.unrepaired,
            "missing_total": self.missing,
            "clock_jumps_total": self.clock.jumps,
            "outbox_events": self.outboxes.waiting(),
            "subscriptions": len(subscriptions),
            "queued_events": sum(self.waiting(one)[0] for one in subscriptions),
            "dropped_total": self.subscriptions.dropped,
        }


class NoDurable:
    """Stands in the place of `Durable` at a broker without a store: it keeps nothing, and says so."""

    keeps: Final = False
    pending: Final = 0
    has_ended: Final = False
    is_choked: Final = False

    def __init__(self) -> None:
        self._clients: set[Link] = set()

    def arrived(
        self, one: bytes, envelope: Envelope, publish: Publish, source: Link, now_s: float
    ) -> Actions:
        """Refuse a confirmed event of a client. One of a neighbour goes on from here, at most once."""
        if source in self._clients:
            yield Refuse(source, envelope.number, NO_STORE)
        else:
            yield from confirm_unkept(source, envelope)
            yield Route(one, envelope, publish, source)

    def client_up(self, link: Link) -> None:
        """A client is there."""
        self._clients.add(link)

    def client_gone(self, link: Link) -> None:
        """A client is gone."""
        self._clients.discard(link)

    def client_advertised(self) -> None:
        """Nobody asks who wants that."""

    def subscribe(self, who: Subscriber, name: str, filter: Filter) -> Actions:
        """Refuse a durable subscription."""
        raise CoveyError(NO_STORE)

    def replace(self, who: Subscriber, filter: Filter) -> Actions:
        """There is no durable subscription."""
        raise ProtocolError(f"there is no subscription {who.sid}")

    def unsubscribe(self, who: Subscriber, forget: bool) -> Actions:
        """There is no durable subscription."""
        raise ProtocolError(f"there is no subscription {who.sid}")

    def client_knows(self, position: int, now_s: float) -> Actions:
        """There is no log that could lack it."""
        return iter(())

    def acknowledge(self, link: Link, body: bytes, now_s: float) -> Actions:
        """Nothing was delivered that could be acknowledged."""
        return iter(())

    def deliver(self, keys: Sequence[Key], one: bytes, now_s: float) -> Actions:
        """Nobody has such subscriptions."""
        return iter(())

    def filter_bytes(self, user: str, client: str) -> int:
        """There are none."""
        return 0

    def replaced_bytes(self, who: Subscriber, name: str | None) -> int:
        """There are none."""
        return 0

    def held(self) -> Sequence[DurableSubscription]:
        """There is no durable subscription."""
        return ()

    def waiting(self, one: DurableSubscription) -> tuple[int, int]:
        """Nothing waits."""
        return 0, 0

    def incidents(self) -> Sequence[Incident]:
        """Nothing can go wrong."""
        return ()

    def end(self, one: DurableSubscription) -> Actions:
        """There is nothing to end."""
        return iter(())

    def connected(self, link: Link, knows_stores: bool, now_s: float) -> Actions:
        """Nothing waits for a neighbour."""
        return iter(())

    def disconnected(self, link: Link, now_s: float) -> Actions:
        """Nothing is under way to a neighbour."""
        return iter(())

    def withdrawing(self, link: Link) -> Actions:
        """Nobody relies on the table."""
        return iter(())

    def attached(self, link: Link, is_attached: bool) -> None:
        """Nobody relies on the table."""

    def lost(self, link: Link) -> Actions:
        """Nobody relies on the table."""
        return iter(())

    def expect(
        self, neighbours: Sequence[Link], routed: Iterable[Link], is_redundant: bool, now_s: float
    ) -> Actions:
        """Nobody is waited for."""
        return iter(())

    def advertised(self, link: Link, key: Key, filter: Filter, number: int) -> Actions:
        """Nobody relies on the table."""
        return iter(())

    def unadvertised(self, link: Link, key: Key) -> None:
        """Nobody relies on the table."""

    def answered(self, link: Link, number: int) -> None:
        """Nobody relies on the table."""

    def heard(self, message: Message, link: Link, epoch: int) -> Actions:
        """Nobody relies on the table."""
        return iter(())

    def said(self, link: Link, one: bytes, now_s: float) -> Actions:
        """What a neighbour has taken or knows is nothing to a broker that keeps nothing, and it has no copies."""
        if one[0] == Kind.STORE:
            asked = decode_stored(one[1:])
            if isinstance(asked, Wanted):
                yield from say_lacking(link, [(asked.search, name) for name in asked.names])

    def echoed(self, probe: str) -> Actions:
        """Nothing was asked."""
        return iter(())

    def committed(self, answer: Committed, now_s: float) -> Actions:
        """There is no log."""
        return iter(())

    def noticed(self, notice: Notice, now_s: float) -> Actions:
        """There is no log."""
        return iter(())

    def read(self, answer: Read | Found, now_s: float) -> Actions:
        """There is no log."""
        return iter(())

    def flush(self) -> Actions:
        """Nothing was taken."""
        return iter(())

    def tick(self, now_s: float, wall_s: float) -> Actions:
        """Nothing is due."""
        return iter(())

    def report(self) -> Mapping[str, float]:
        """There are no numbers."""
        return {}
