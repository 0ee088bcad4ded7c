"""What durable delivery needs of the exchange.

Who sent confirmed events, and how they hear what became of them.

TAKEN says that events are on disk here, many in one frame: at the end of each turn, or when a frame is full. A client
is told of an event that is refused; a neighbour never is: its events wait.


Outboxes: what neighbours have not taken yet, and to which of them a confirmed event goes.

An event goes by the routing table where there is one tree, the overlay itself, and the table is complete
(`durable_completeness`). Otherwise it goes to every neighbour, which is always right, and each broker takes it once:

    the table is not complete                to all that are expected on the tree, there or not
    several trees, plans, redundant links    to all neighbours: the event's way may change while it is under way

A neighbour is sent what is in its outbox in order, a window at a time, once it has said what it wants; when its link
comes up again, from the first that it has not taken.


Durable: events that are confirmed, and what is kept for those who are away.

A confirmed event (its flag is KEPT) is taken from a client or a neighbour like this, at every broker on its way:

    known already   it was sent again: say TAKEN, once it is on disk, and nothing else
    routed          by the table or to everyone, see `durable_outboxes`
    kept            in one transaction with an entry for each neighbour and each durable subscription it is for
    committed       say TAKEN to whoever sent it, who may forget it now; only then send it on and deliver it

So nothing is sent on that is not on disk here, and nobody is told so too early. Without room, a client's event is
refused, and a neighbour's waits, not taken, which stops the neighbour at its window.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from covey.broker.config import QueueLimits
from covey.broker.durable.completeness import Completeness
from covey.broker.durable.log import Entry, Forget, Keep, Owner
from covey.broker.durable.queues import LINK, DurableSubscriptions, Feed
from covey.broker.durable.sqlite import Store
from covey.broker.epochs import Epochs, Outputs
from covey.broker.peers import Neighbour
from covey.broker.sessions import Session
from covey.errors import CoveyError, ProtocolError, StoreError
from covey.protocol.events import (
    MOST_CONFIRMED,
    Envelope,
    Name,
    decode_acknowledge,
    decode_taken,
    encode_taken,
    envelope_of,
    forwarded,
)
from covey.protocol.frames import Kind
from covey.routing.messages import SUBSCRIPTIONS, Key, Link, LinkUp, Message, Probe, Publish, Sync
from covey.routing.outputs import Deliver, Output

SURE: Final = "~sure"  # the link on which the broker itself asks whether its tables are complete


class Site(Protocol):
    """The exchange, as durable delivery sees it."""

    epochs: Epochs
    clients: dict[Link, Session]
    now_s: float

    @property
    def neighbours(self) -> Mapping[Link, Neighbour]:
        """The brokers to which there is a connection."""

    @property
    def attached(self) -> Mapping[Link, None]:
        """The neighbours over whose links the overlay's routers talk."""

    def drive(self, message: Message, source: Link) -> None:
        """Tell the routers of all epochs something, and carry out what they answer."""

    def carry_out_all(self, outputs: Outputs) -> None:
        """Carry out what the routers of several epochs say."""

    def deliver(self, output: Deliver, one: bytes) -> None:
        """Hand an event to whoever subscribed to it here."""


class Senders:
    """Clients and neighbours that wait to hear of their events; see the module's text."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._taken: dict[Link, list[Name]] = {}  # on disk, and its sender not told yet
        self._again: dict[Name, list[Link]] = {}  # who else has sent an event that is not on disk yet
        self.refused = 0

    def also(self, source: Link, name: Name) -> None:
        """Somebody has sent an event again that is on its way to the disk."""
        self._again.setdefault(name, []).append(source)

    def kept(self, source: Link, name: Name) -> None:
        """An event is on disk: all who have sent it are to hear that."""
        for sender in (source, *self._again.pop(name, ())):
            self.took(sender, name)

    def lost(self, name: Name) -> None:
        """An event cannot be kept: only its first sender is to hear of it."""
        self._again.pop(name, None)

    def took(self, source: Link, name: Name) -> None:
        """An event that somebody has sent is on disk."""
        names = self._taken.setdefault(source, [])
        names.append(name)
        if len(names) >= MOST_CONFIRMED:
            self._say_taken(source)

    def _say_taken(self, source: Link) -> None:
        names = self._taken.pop(source)
        peer = self._site.clients.get(source) or self._site.neighbours.get(source)
        if peer is not None:
            for body in encode_taken(names):
                peer.outlet.send(Kind.TAKEN, body)

    def flush(self) -> None:
        """Say what was taken."""
        for source in list(self._taken):
            self._say_taken(source)

    def refuse(self, source: Link, name: Name, reason: str) -> None:
        """Tell a client, if it is there, that its event is not kept."""
        self.refused += 1
        client = self._site.clients.get(source)
        if client is not None:
            client.refuse(name[1], reason)

    def gone(self, source: Link) -> None:
        """Somebody is not there any longer, and will send again what it has heard nothing of."""
        self._taken.pop(source, None)


log = logging.getLogger("covey.broker")

KIND: Final = "outbox"
WINDOW: Final = 1_000  # events under way to a neighbour that it has not taken
WINDOW_BYTES: Final = 8 << 20


class Outboxes:
    """The outboxes of one broker; see the module's text."""

    def __init__(self, site: Site, store: Store, next_owner: Callable[[], int], incarnation: int) -> None:
        self._site = site
        self._store = store
        self._next_owner = next_owner
        prefix = f"~{site.epochs.router.broker}!{incarnation:x}."
        self.completeness = Completeness((), self._tell_whole, self._ask, prefix)
        self._feeds: dict[Link, Feed] = {}
        self._under_way: dict[Link, dict[Name, int]] = {}  # to a neighbour: positions by name
        self._neighbours: tuple[Link, ...] = ()  # that there should be
        self._is_redundant = False
        self._plans = site.epochs.state

    def load(self, owners: Iterable[Owner]) -> None:
        """Take up what is stored."""
        for owner in owners:
            if owner.kind == KIND:
                self._feeds[owner.name] = self._feed(owner)

    def _feed(self, owner: Owner) -> Feed:
        return Feed(self._store, owner.id, WINDOW, WINDOW_BYTES)

    def of(self, link: Link) -> Feed:
        """Return a neighbour's outbox."""
        feed = self._feeds.get(link)
        if feed is None:
            owner = Owner(self._next_owner(), KIND, "", "", link)
            self._store.submit(owner)
            feed = self._feeds[link] = self._feed(owner)
            self._go_on(link)
        return feed

    def offer(self, link: Link, position: int, frame: bytes) -> None:
        """Note an event for a neighbour that is on disk now."""
        if link in self._feeds:  # otherwise it was given up since
            self._feeds[link].offer(position, frame, self._site.now_s)

    def all(self) -> Sequence[Feed]:
        """Return all of them."""
        return list(self._feeds.values())

    # -- where events go -------------------------------------------------------------------------------------

    def is_complete(self, publish: Publish, source: Link) -> bool:
        """Return whether the table knows all for whom an event from that link is; if not, have it completed."""
        if publish.flooded or not self._is_plain or not self.completeness.is_complete:
            return False
        if publish.destinations is not None:
            return True  # its way is written on it
        if not self.completeness.is_answered(publish.event):
            if source in self._site.clients:
                self.completeness.have_answered()
            return False
        parts = self._site.epochs.router.trees.values()
        return source in self._site.clients or any(
            part.is_advertised(source, publish.event) for part in parts
        )

    def everyone(self) -> Sequence[Link]:
        """Return to whom an event goes when the table is not asked."""
        return sorted(self.completeness.expected) if self._is_plain else self._neighbours

    @property
    def _is_plain(self) -> bool:
        """Whether there is one tree, the overlay itself."""
        epochs = self._site.epochs
        if self._plans is not epochs.state:
            self._plans = epochs.state
            self.completeness.doubt()
            for link in self._feeds:
                self._go_on(link)
        return (
            not self._is_redundant
            and len(epochs.routers) == 1
            and not epochs.is_planned(epochs.current)
            and len(epochs.router.trees) == 1
        )

    # -- neighbours come and go ------------------------------------------------------------------------------

    def expect(self, neighbours: Iterable[Link], routed: Iterable[Link], is_redundant: bool) -> None:
        """Say which neighbours there should be, over which of them events are routed, and whether there are detours."""
        self._neighbours = tuple(sorted(neighbours))
        self._is_redundant = is_redundant
        self.completeness.expect(routed)
        for link in list(self._feeds):
            if link in self._neighbours:
                self._go_on(link)
            else:
                self._give_up(link)

    def _give_up(self, link: Link) -> None:
        self._stop(link)
        feed = self._feeds.pop(link)
        count, _ = self._store.waiting(feed.owner)
        if count:
            log.warning(
                "%s is no neighbour any longer: %d events that it has not taken are dropped", link, count
            )
        self._store.submit(Forget(feed.owner))

    def connected(self, link: Link) -> None:
        """There is a connection to a neighbour."""
        self._go_on(link)

    def disconnected(self, link: Link) -> None:
        """The connection to a neighbour is gone: what it has not taken stays."""
        self._stop(link)

    def withdrawn(self, link: Link) -> None:
        """The routers are about to forget what a neighbour wants, or to learn it."""
        self.completeness.link_up(link)
        if not self._may_send(link):
            self._stop(link)

    def routed(self, message: Message, link: Link, epoch: int) -> None:
        """A router of the overlay has heard something from a neighbour."""
        if isinstance(message, Sync) and message.what == SUBSCRIPTIONS:
            parts = self._site.epochs.routers[epoch].trees
            self.completeness.synchronised(
                link, message.tree, {tree for tree, part in parts.items() if link in part.links_up()}
            )
            self._go_on(link)

    def tick(self) -> None:
        """Send on, and have what is new answered; about once a second."""
        for feed in self._feeds.values():
            feed.pump(self._site.now_s)
        if self._is_plain:
            self.completeness.tick()

    # -- sending ---------------------------------------------------------------------------------------------

    def _may_send(self, link: Link) -> bool:
        if not self._is_plain:
            return link in self._site.neighbours
        return link in self._site.attached and self.completeness.has_synchronised(link)

    def _go_on(self, link: Link) -> None:
        if link in self._feeds and not self._feeds[link].is_attached and self._may_send(link):
            self._begin(link)

    def _stop(self, link: Link) -> None:
        self._under_way.pop(link, None)
        if link in self._feeds:
            self._feeds[link].detach()

    def _begin(self, link: Link) -> None:
        neighbour = self._site.neighbours[link]
        under_way = self._under_way[link] = {}

        def send(position: int, frame: bytes) -> None:
            envelope = envelope_of(frame)
            under_way[envelope.publisher, envelope.number] = position
            neighbour.sent += 1
            # In the lane of control: it is never dropped there, and the window bounds it.
            neighbour.outlet.send(Kind.EVENT, frame[1:])

        self._feeds[link].attach(send, self._site.now_s)

    # -- what neighbours say ---------------------------------------------------------------------------------

    def said(self, link: Link, one: bytes) -> None:
        """Handle a TAKEN or WHOLE frame; ProtocolError if it is none."""
        if one[0] == Kind.TAKEN:
            under_way = self._under_way.get(link, {})
            positions = [under_way.pop(name) for name in decode_taken(one[1:]) if name in under_way]
            if positions:
                self._feeds[link].confirm(positions, self._site.now_s)
        elif len(one) != 2:
            raise ProtocolError("what a neighbour knows cannot be read")
        elif link in self._site.attached:
            self.completeness.said(link, one[1] != 0)

    def _tell_whole(self, link: Link, whole: bool) -> None:
        neighbour = self._site.neighbours.get(link)
        if neighbour is not None and link in self._site.attached:
            neighbour.outlet.send(Kind.WHOLE, b"\1" if whole else b"\0")

    def _ask(self, probe: str) -> None:
        epochs = self._site.epochs
        outputs = epochs.router.handle(Probe(probe), SURE, self._site.now_s)
        self._site.carry_out_all([(epochs.current, outputs)])


EXPIRE_EVERY_S: Final = 30.0
MAX_PENDING: Final = 20_000  # events of one client that are not confirmed


@dataclass
class _Arrived:
    """A confirmed event that is on its way to the disk."""

    one: bytes
    envelope: Envelope
    source: Link
    position: int = 0
    outboxes: list[tuple[Link, bytes]] = field(default_factory=list)
    keys: tuple[Key, ...] = ()  # of durable subscriptions
    clients: list[Deliver] = field(default_factory=list)

    @property
    def name(self) -> Name:
        return self.envelope.publisher, self.envelope.number


class Durable:
    """Durable delivery at one broker; see the module's text. `load` it before any link is up."""

    def __init__(
        self,
        site: Site,
        store: Store,
        wall_s: Callable[[], float],
        incarnation: int,
        limits: QueueLimits | None = None,
    ) -> None:
        self._site = site
        self.store = store
        self._wall_s = wall_s
        self._last_owner = 0
        limits = limits or QueueLimits()
        self.subscriptions = DurableSubscriptions(store, site.drive, limits, self._next_owner)
        self.outboxes = Outboxes(site, store, self._next_owner, incarnation)
        self.completeness = self.outboxes.completeness
        self._senders = Senders(site)
        self._names: dict[Name, _Arrived | None] = {}  # with what is not on disk yet
        self._rooms: dict[
            Link, deque[tuple[bytes, Envelope, Publish]]
        ] = {}  # neighbours' events without room
        self._pending: dict[Link, int] = {}  # clients' events on the way to the disk
        self._grown: set[Key] = set()  # durable subscriptions whose queues may be too long
        self._expire_s = 0.0
        self.duplicates = self.flooded = self.dropped = 0
        store.reported = self._reported

    def load(self) -> None:
        """Take up what is stored."""
        owners = self.store.owners()
        self._last_owner = max((owner.id for owner in owners), default=0)
        self._site.drive(LinkUp(client=True), SURE)
        self.subscriptions.load(owners)
        self.outboxes.load(owners)
        self._names = dict.fromkeys(self.store.names())

    def _next_owner(self) -> int:
        self._last_owner += 1
        return self._last_owner

    @property
    def now_s(self) -> float:
        """The event loop's time."""
        return self._site.now_s

    # -- confirmed events ------------------------------------------------------------------------------------

    def arrived(self, one: bytes, envelope: Envelope, publish: Publish, source: Link) -> None:
        """Take a confirmed event from a client or a neighbour."""
        name = (envelope.publisher, envelope.number)
        if name in self._names:
            self._again(name, source)
        elif source in self._site.clients:
            if self._pending.get(source, 0) >= MAX_PENDING:
                self._senders.refuse(
                    source, name, f"{MAX_PENDING:,} events of this client wait to be confirmed already"
                )
            elif not self.store.room_for(len(one)):
                used = self.store.used_bytes / (1 << 20)
                self._senders.refuse(source, name, f"the store is full: it has {used:,.1f} MiB")
            else:
                self._pending[source] = self._pending.get(source, 0) + 1
                self._keep(_Arrived(one, envelope, source), publish)
        elif self._rooms.get(source) or not self.store.room_for(len(one)):
            self._wait(source, one, envelope, publish)
        else:
            self._keep(_Arrived(one, envelope, source), publish)

    def _again(self, name: Name, source: Link) -> None:
        self.duplicates += 1
        if self._names[name] is None:
            self._senders.took(source, name)
        else:
            self._senders.also(source, name)

    def _keep(self, arrived: _Arrived, publish: Publish) -> None:
        store = self.store
        self._route(arrived, publish)
        self._names[arrived.name] = arrived
        if len(self._names) > store.window:
            self._forget_oldest()
        entries = [
            Entry(self.outboxes.of(link).owner, None if frame is arrived.one else frame)
            for link, frame in arrived.outboxes
        ]
        entries += [Entry(self.subscriptions.by_key(key).owner.id) for key in arrived.keys]
        arrived.position = store.next_position()
        keep = Keep(arrived.position, *arrived.name, arrived.one, self._wall_s(), tuple(entries), seen=True)
        store.submit(keep, lambda error: self._kept(arrived, publish, error))

    def _forget_oldest(self) -> None:
        oldest = next(iter(self._names))
        if self._names[oldest] is None:
            del self._names[oldest]

    def _route(self, arrived: _Arrived, publish: Publish) -> None:
        """Find out for whom an event is."""
        router, source, now_s = self._site.epochs.router, arrived.source, self._site.now_s
        if self.outboxes.is_complete(publish, source):
            for output in router.handle(publish, source, now_s):
                self._sort(arrived, output)
            return
        self.flooded += 1
        # As if this broker had published it: whoever is here gets it, wherever it came from.
        for output in router.handle(publish, SURE, now_s):
            if isinstance(output, Deliver):
                self._sort(arrived, output)
        publish = msgspec.structs.replace(publish, flooded=True, destinations=None)
        frame = forwarded(arrived.one, arrived.envelope, publish)
        arrived.outboxes = [(link, frame) for link in self.outboxes.everyone() if link != source]

    def _sort(self, arrived: _Arrived, output: Output) -> None:
        if isinstance(output, Deliver):
            if output.link == LINK:
                arrived.keys = output.keys
            else:
                arrived.clients.append(output)
        elif isinstance(output.message, Publish):
            arrived.outboxes.append((output.link, forwarded(arrived.one, arrived.envelope, output.message)))

    def _kept(self, arrived: _Arrived, publish: Publish, error: CoveyError | None) -> None:
        """An event is on disk, or cannot be."""
        source, name = arrived.source, arrived.name
        if source in self._pending:
            self._pending[source] -= 1
        if error is not None:
            self._names.pop(name, None)
            self._senders.lost(name)
            if source in self._site.clients:
                self._senders.refuse(source, name, str(error))
            elif source in self._site.neighbours:
                self._wait(source, arrived.one, arrived.envelope, publish)
            return
        if name in self._names:
            self._names[name] = None
        self._senders.kept(source, name)
        for link, frame in arrived.outboxes:
            self.outboxes.offer(link, arrived.position, frame)
        for output in arrived.clients:
            self._site.deliver(output, arrived.one)
        self._offer(arrived.keys, arrived.position, arrived.one)

    def _offer(self, keys: Iterable[Key], position: int, one: bytes) -> None:
        for key in keys:
            subscription = self.subscriptions.find(key)
            if subscription is not None:  # otherwise it has ended, or has another filter, since
                subscription.feed.offer(position, one, self._site.now_s)
                self._grown.add(key)

    # -- other events ----------------------------------------------------------------------------------------

    def deliver(self, keys: Sequence[Key], one: bytes) -> None:
        """Keep an event that nobody confirms for durable subscriptions; without room it is lost to them."""
        if not self.store.room_for(len(one), len(keys)):
            self._lost(len(keys))
            return
        envelope = envelope_of(one)
        entries = tuple(Entry(self.subscriptions.by_key(key).owner.id) for key in keys)
        position = self.store.next_position()
        keep = Keep(position, envelope.publisher, envelope.number, one, self._wall_s(), entries, seen=False)

        def done(error: CoveyError | None) -> None:
            if error is None:
                self._offer(keys, position, one)
            else:
                self._lost(len(keys))

        self.store.submit(keep, done)

    def _lost(self, count: int) -> None:
        if not self.dropped:
            log.warning("the store is full: events that nobody confirms are lost to durable subscriptions")
        self.dropped += count

    # -- room, and what waits for it -------------------------------------------------------------------------

    def _wait(self, source: Link, one: bytes, envelope: Envelope, publish: Publish) -> None:
        room = self._rooms.setdefault(source, deque())
        if len(room) >= 4 * WINDOW:
            raise ProtocolError(f"{source} sends confirmed events beyond its window")
        if not room:
            log.warning("the store has no room for events of %s: they wait there", source)
        room.append((one, envelope, publish))

    def _reported(self) -> None:
        """The store has committed something."""
        grown, self._grown = self._grown & self.subscriptions.keys(), set()
        for key in grown:
            one = self.subscriptions.by_key(key)
            self.subscriptions.trim(one, self._site.now_s)
            if one.is_trimmed:
                self._grown.add(key)  # it may have grown meanwhile
        self.flush()

    def _retry(self) -> None:
        self.store.resume()
        for source, room in list(self._rooms.items()):
            while room and self.store.room_for(len(room[0][0])):
                one, envelope, publish = room.popleft()
                name = (envelope.publisher, envelope.number)
                if name in self._names:
                    self._again(name, source)
                else:
                    self._keep(_Arrived(one, envelope, source), publish)
            if not room:
                del self._rooms[source]

    # -- neighbours and clients ------------------------------------------------------------------------------

    def flush(self) -> None:
        """Say what was taken; at the end of each turn."""
        self._senders.flush()

    def disconnected(self, link: Link) -> None:
        """The connection to a neighbour is gone: it will send again what was not taken, and so shall we."""
        self._rooms.pop(link, None)
        self._senders.gone(link)
        self.outboxes.disconnected(link)

    def acknowledge(self, client: Session, body: bytes) -> None:
        """A client is done with deliveries."""
        self.subscriptions.acknowledge(client, decode_acknowledge(body), self._site.now_s)

    def client_gone(self, client: Session) -> None:
        """A client is gone; its durable subscriptions stay."""
        self.subscriptions.leave_all(client)
        self._pending.pop(client.link, None)
        self._senders.gone(client.link)

    # -- time, and numbers -----------------------------------------------------------------------------------

    def tick(self) -> None:
        """Do what is due: try again what had no room, deliver again, drop what is too old; about once a second."""
        now_s = self._site.now_s
        try:
            self._retry()
            self.subscriptions.tick(now_s)
            self.outboxes.tick()
            if now_s >= self._expire_s:
                self._expire_s = now_s + EXPIRE_EVERY_S
                self.subscriptions.expire(now_s, self._wall_s())
        except StoreError as error:
            log.error("%s", error)
        self.flush()

    def report(self) -> Mapping[str, float]:
        """Return numbers of what is kept, for metrics."""
        store, subscriptions = self.store, self.subscriptions.all()
        return {
            "used_bytes": store.used_bytes,
            "max_bytes": store.max_bytes,
            "events_kept_total": store.kept,
            "commits_total": store.commits,
            "pending": store.pending,
            "is_sure": float(self.completeness.is_complete),
            "flooded_total": self.flooded,
            "duplicates_total": self.duplicates,
            "refused_total": self._senders.refused,
            "lost_total": self.dropped,
            "outbox_events": sum(store.waiting(feed.owner)[0] for feed in self.outboxes.all()),
            "subscriptions": len(subscriptions),
            "queued_events": sum(store.waiting(one.owner.id)[0] for one in subscriptions),
            "dropped_total": self.subscriptions.dropped,
        }
