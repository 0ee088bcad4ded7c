"""Durable: events that are confirmed, and what is kept for those who are away.

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
from typing import Final

import msgspec

from covey.broker.durable_limits import QueueLimits
from covey.broker.durable_outboxes import WINDOW, Outboxes
from covey.broker.durable_senders import Senders
from covey.broker.durable_site import SURE, Site
from covey.broker.durable_subscriptions import LINK, DurableSubscriptions
from covey.broker.peers import Client
from covey.broker.store import Store
from covey.broker.store_operations import Entry, Keep
from covey.errors import CoveyError, ProtocolError, StoreError
from covey.routing.messages import Key, Link, LinkUp, Publish
from covey.routing.outputs import Deliver, Output
from covey.wire.confirming import Name, decode_acknowledge
from covey.wire.events import Envelope, envelope_of, forwarded

log = logging.getLogger("covey.broker")

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
        self.sure = self.outboxes.sure
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
        if self.outboxes.is_sure(publish, source):
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

    def advertised(self, client: Link) -> None:
        """A client advertises something new."""
        self.sure.advertised(client)
        self.outboxes.stale()

    def acknowledge(self, client: Client, body: bytes) -> None:
        """A client is done with deliveries."""
        self.subscriptions.acknowledge(client, decode_acknowledge(body), self._site.now_s)

    def client_gone(self, client: Client) -> None:
        """A client is gone; its durable subscriptions stay."""
        self.subscriptions.leave_all(client)
        self.sure.advertised(client.link)
        self._pending.pop(client.link, None)
        self._senders.gone(client.link)

    # -- time, and numbers -----------------------------------------------------------------------------------

    def tick(self) -> None:
        """Do what is due: try again what had no room, deliver again, drop what is too old; about once a second."""
        now_s = self._site.now_s
        try:
            self._retry()
            self.subscriptions.tick(now_s)
            for feed in self.outboxes.all():
                feed.pump(now_s)
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
            "is_sure": float(self.sure.is_sure),
            "flooded_total": self.flooded,
            "duplicates_total": self.duplicates,
            "refused_total": self._senders.refused,
            "lost_total": self.dropped,
            "outbox_events": sum(store.waiting(feed.owner)[0] for feed in self.outboxes.all()),
            "subscriptions": len(subscriptions),
            "queued_events": sum(store.waiting(one.owner.id)[0] for one in subscriptions),
            "dropped_total": self.subscriptions.dropped,
        }
