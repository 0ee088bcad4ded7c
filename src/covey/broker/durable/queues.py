"""What durable subscriptions may have, as settings.

Feed: what one consumer has not confirmed, sent to it in order from the store, with a window of it under way.

A consumer is a neighbour broker (what is in its outbox) or a durable subscription (its queue). While it is away the
feed only knows that something waits; when it is back, everything that is not confirmed is sent again from the first.
New events go out as they come while the consumer keeps up, without being read from the disk again; once more waits
than the window takes, the feed is *behind* and reads on from where it was as confirmations make room.


Durable subscriptions: they outlive their client's connection, and a queue on disk gathers what they match meanwhile.

A subscription is known by its client's name and its own (and by who the client is, where clients must say that). It is
an entry of the router as long as it exists, on a link of the broker's own that is always up, so neighbours never learn
whether its client is there. Its events get positions; they are delivered in that order when they are on disk, a window
at a time, and stay until they are acknowledged, one by one or all up to a position. What is not acknowledged comes
again, with the same position: when the client attaches again, and after a time-out. Who attaches last gets the events.

A queue that is longer than its limits allow loses its oldest events; that is counted and logged.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Final

from covey.broker.config import QueueLimits
from covey.broker.durable.log import Forget, Owner, Release
from covey.broker.durable.sqlite import Store
from covey.broker.sessions import Session
from covey.core.families import decode as decode_filter
from covey.core.filter import Filter
from covey.errors import CoveyError, StoreError
from covey.protocol.control import MAX_NAME, Reply, encode
from covey.protocol.events import Acknowledgement, encode_delivery
from covey.protocol.frames import Kind
from covey.routing.messages import Key, Link, LinkUp, Message, Subscribe, Unsubscribe

log = logging.getLogger("covey.broker")

AT_ONCE: Final = 256  # events that are read at a time

Transmit = Callable[[int, bytes], None]  # a position and the event's frame


class Feed:
    """One consumer's events; see the module's text."""

    def __init__(self, store: Store, owner: int, window: int, window_bytes: int) -> None:
        self.owner = owner
        self._store = store
        self._most, self._most_bytes = window, window_bytes
        self._transmit: Transmit | None = None
        self._under_way: dict[int, tuple[int, float]] = {}  # position: size, and when it was sent
        self._under_way_bytes = 0
        self._cursor = 0  # all up to here was sent to this consumer since it came
        self._behind = False
        self._released_ones: set[int] = set()  # confirmed, and still on disk for a moment

    @property
    def is_attached(self) -> bool:
        """Whether the consumer is there."""
        return self._transmit is not None

    @property
    def under_way(self) -> int:
        """How many events were sent and are not confirmed."""
        return len(self._under_way)

    def attach(self, transmit: Transmit, now_s: float) -> None:
        """The consumer is there: send it all that is not confirmed, from the first."""
        self.detach()
        self._transmit = transmit
        self._cursor, self._behind = 0, True
        self.pump(now_s)

    def detach(self) -> None:
        """The consumer is gone."""
        self._transmit = None
        self._cursor = 0
        self._under_way.clear()
        self._under_way_bytes = 0

    def offer(self, position: int, frame: bytes, now_s: float) -> None:
        """Note an event that is on disk now."""
        if self._transmit is None or position <= self._cursor:
            return  # it is read from the store in its turn, or was already
        if self._behind or not self._has_room():
            self._behind = True
        else:
            self._send(position, frame, now_s)

    def pump(self, now_s: float) -> None:
        """Send on from where the feed was, as far as the window allows."""
        try:
            self._pump(now_s)
        except StoreError as error:  # what cannot be read is tried again with the next confirmation or tick
            log.error("%s", error)

    def _pump(self, now_s: float) -> None:
        while self._transmit is not None and self._behind and self._has_room():
            limit = min(AT_ONCE, self._most - len(self._under_way))
            rows = self._store.read(self.owner, self._cursor, limit)
            for position, frame in rows:
                if self._transmit is None or not self._has_room():
                    return
                if position in self._released_ones:
                    self._cursor = position
                else:
                    self._send(position, frame, now_s)
            if len(rows) < limit:
                self._behind = False

    def confirm(self, positions: Iterable[int], now_s: float, gone: Callable[[], None] | None = None) -> None:
        """The consumer is done with these; `gone` is told when the disk is, too."""
        positions = tuple(positions)
        for position in positions:
            self._drop(position)
        if positions:
            self._released_ones.update(positions)
            self._store.submit(Release(self.owner, positions), self._released(positions, gone))
        self.pump(now_s)

    def _released(
        self, positions: tuple[int, ...], gone: Callable[[], None] | None
    ) -> Callable[[CoveyError | None], None]:
        def done(error: CoveyError | None) -> None:
            if error is not None:
                # A full disk: it is tried until it works, or the events come again after a restart.
                self._store.submit_later(Release(self.owner, positions), self._released(positions, gone))
                return
            self._released_ones.difference_update(positions)
            if gone is not None:
                gone()

        return done

    def confirm_up_to(self, position: int, now_s: float) -> None:
        """The consumer is done with all up to a position, also with what it got before it came again."""
        done = [one for one in self._under_way if one <= position]
        while self._cursor < position:
            rows = self._store.positions(self.owner, self._cursor, position, AT_ONCE)
            done += rows
            self._cursor = rows[-1] if len(rows) == AT_ONCE else min(position, self._store.committed)
            if len(rows) < AT_ONCE:
                break
        self.confirm(done, now_s)

    def redeliver(self, before_s: float, now_s: float) -> None:
        """Send again what was sent before a time and is not confirmed."""
        late = [position for position, (_, sent_s) in self._under_way.items() if sent_s <= before_s]
        for position in late:
            rows = self._store.read(self.owner, position - 1, 1)
            if self._transmit is None:
                break
            if rows and rows[0][0] == position:
                self._under_way[position] = (self._under_way[position][0], now_s)
                self._transmit(position, rows[0][1])
            else:
                self._drop(position)

    def _has_room(self) -> bool:
        return len(self._under_way) < self._most and self._under_way_bytes < self._most_bytes

    def _send(self, position: int, frame: bytes, now_s: float) -> None:
        assert self._transmit is not None
        self._cursor = position
        self._under_way[position] = (len(frame), now_s)
        self._under_way_bytes += len(frame)
        self._transmit(position, frame)

    def _drop(self, position: int) -> None:
        size, _ = self._under_way.pop(position, (0, 0.0))
        self._under_way_bytes -= size


LINK: Final = "~durable"
SAY_EVERY_S: Final = 10.0
KIND: Final = "subscription"

Drive = Callable[[Message, Link], None]
Answer = Callable[[str], None]  # with no text it is done


class DurableSubscription:
    """One of them, with its client if that is attached."""

    def __init__(self, owner: Owner, filter: Filter, feed: Feed) -> None:
        self.owner = owner
        self.filter = filter
        self.feed = feed
        self.client: Session | None = None
        self.sid = 0
        self.dropped = 0
        self.is_trimmed = False  # there are events on their way out of the queue that nobody has acknowledged
        self.said_s = -SAY_EVERY_S  # when people were told last of such

    @property
    def key(self) -> Key:
        """Its key in routing tables: another one for each filter it has."""
        return f"{LINK}/{self.owner.uid:x}-{self.owner.generation:x}"

    @property
    def title(self) -> str:
        """Its name for people."""
        return f"{self.owner.client}/{self.owner.name}"


class DurableSubscriptions:
    """All durable subscriptions of one broker."""

    def __init__(
        self, store: Store, drive: Drive, limits: QueueLimits, next_owner: Callable[[], int]
    ) -> None:
        self._store = store
        self._drive = drive
        self.limits = limits
        self._next_owner = next_owner
        self._by_name: dict[tuple[str, str, str], DurableSubscription] = {}
        self._by_key: dict[Key, DurableSubscription] = {}
        self._known: dict[Link, dict[int, DurableSubscription]] = {}  # what clients have attached, or had
        self.dropped = 0  # events of all subscriptions, also of those that have ended

    def load(self, owners: Iterable[Owner]) -> None:
        """Put what is stored into the router; before any link is up."""
        self._drive(LinkUp(client=True), LINK)
        for owner in owners:
            if owner.kind == KIND:
                self._add(self._make(owner, decode_filter(owner.filter)))

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

    def _make(self, owner: Owner, filter: Filter) -> DurableSubscription:
        limits = self.limits
        return DurableSubscription(
            owner, filter, Feed(self._store, owner.id, limits.window, limits.window_bytes)
        )

    def _add(self, one: DurableSubscription) -> None:
        self._by_name[one.owner[2:5]] = one
        self._by_key[one.key] = one
        self._drive(Subscribe(one.key, one.filter), LINK)

    # -- what clients ask for --------------------------------------------------------------------------------

    def attach(
        self, client: Session, sid: int, name: str, filter: Filter, now_s: float, answer: Answer
    ) -> None:
        """A client has come for its subscription, or makes it; CoveyError if it may not."""
        if not client.name:
            raise CoveyError("a durable subscription needs a client with a name")
        if len(name) > MAX_NAME:
            raise CoveyError(f"a subscription's name has at most {MAX_NAME} characters")
        one = self._by_name.get((client.permissions.name, client.name, name))
        if one is None:
            if len(self._by_name) >= self.limits.subscriptions:
                raise CoveyError(f"there may be {self.limits.subscriptions:,} durable subscriptions here")
            owner = Owner(
                self._next_owner(), KIND, client.permissions.name, client.name, name,
                secrets.randbits(63), 0, filter.encode(),
            )  # fmt: skip
            one = self._make(owner, filter)
            self._add(one)
            self._take(one, client, sid)
            self._store.submit(owner, self._begin(one, client, sid, now_s, answer))
            return
        self._take(one, client, sid)
        if filter != one.filter:
            self.replace(one, filter, self._begin(one, client, sid, now_s, answer))
        else:
            self._begin(one, client, sid, now_s, answer)(None)

    def _take(self, one: DurableSubscription, client: Session, sid: int) -> None:
        old = one.client
        if old is not None:
            self._leave(one)
            if old is not client:
                reason = f"the durable subscription {one.owner.name} is attached by another connection now"
                old.outlet.send(Kind.REPLY, encode(Reply(0, reason)))
        one.client, one.sid = client, sid
        self._known.setdefault(client.link, {})[sid] = one

    def _begin(
        self, one: DurableSubscription, client: Session, sid: int, now_s: float, answer: Answer
    ) -> Callable[[CoveyError | None], None]:
        """Return what begins the delivery, once all that must be is on disk."""

        def deliver(position: int, frame: bytes) -> None:
            # In the lane of control: it is never dropped there, and the window bounds it.
            client.outlet.send(Kind.DELIVERY, encode_delivery(frame, (sid,), position)[1:])
            client.delivered += 1

        def done(error: CoveyError | None) -> None:
            if self.attached(client, sid) is not one:
                return
            answer("" if error is None else str(error))
            if error is None:
                one.feed.attach(deliver, now_s)
            else:
                self._leave(one)

        return done

    def replace(
        self, one: DurableSubscription, filter: Filter, done: Callable[[CoveyError | None], None]
    ) -> None:
        """Give a subscription another filter; what is in its queue stays."""
        old = one.key
        one.owner = one.owner._replace(generation=one.owner.generation + 1, filter=filter.encode())
        one.filter = filter
        self._by_key[one.key] = one
        self._drive(Subscribe(one.key, filter), LINK)
        self._drive(Unsubscribe(old), LINK)
        del self._by_key[old]
        self._store.submit(one.owner, done)

    def attached(self, client: Session, sid: int) -> DurableSubscription | None:
        """Return the subscription that a client has attached under this number."""
        one = self.known(client, sid)
        return one if one is not None and one.client is client and one.sid == sid else None

    def known(self, client: Session, sid: int) -> DurableSubscription | None:
        """Return the subscription that a client has attached under this number, or had."""
        return self._known.get(client.link, {}).get(sid)

    def leave(self, client: Session, sid: int) -> None:
        """A client goes; the subscription stays."""
        one = self.attached(client, sid)
        if one is not None:
            self._leave(one)

    def leave_all(self, client: Session) -> None:
        """A client is gone."""
        for one in self._known.pop(client.link, {}).values():
            if one.client is client:
                self._leave(one)

    def _leave(self, one: DurableSubscription) -> None:
        one.client = None
        one.feed.detach()

    def forget(self, one: DurableSubscription, done: Callable[[CoveyError | None], None]) -> None:
        """A subscription ends, and its queue is deleted."""
        if one.client is not None:
            self._leave(one)
        self._drive(Unsubscribe(one.key), LINK)
        del self._by_key[one.key], self._by_name[one.owner[2:5]]
        self._store.submit(Forget(one.owner.id), done)

    def acknowledge(self, client: Session, what: Acknowledgement, now_s: float) -> None:
        """A client is done with deliveries, also with those of a subscription that it has left meanwhile."""
        one = self.known(client, what.sid)
        if one is None or not what.positions:
            return
        if what.cumulative:
            one.feed.confirm_up_to(max(what.positions), now_s)
        else:
            one.feed.confirm(what.positions, now_s)

    # -- limits ----------------------------------------------------------------------------------------------

    def trim(self, one: DurableSubscription, now_s: float) -> None:
        """Drop the oldest events of a queue that is too long."""
        limits = self.limits
        if one.is_trimmed:
            return
        count, size = self._store.waiting(one.owner.id)
        if count <= limits.events and size <= limits.bytes:
            return
        over = max(count - limits.events, -(-count * (size - limits.bytes) // max(size, 1)))
        self._drop(one, self._store.oldest(one.owner.id, over), "is too long", now_s)

    def tick(self, now_s: float) -> None:
        """Deliver again what was not acknowledged in time."""
        for one in self._by_name.values():
            one.feed.redeliver(now_s - self.limits.again_after_s, now_s)
            one.feed.pump(now_s)

    def expire(self, now_s: float, wall_s: float) -> None:
        """Drop what is too old."""
        for one in self._by_name.values():
            old = self._store.too_old(one.owner.id, wall_s - self.limits.age_s, 10_000)
            self._drop(one, old, "has events that are too old", now_s)

    def _drop(self, one: DurableSubscription, positions: Sequence[int], why: str, now_s: float) -> None:
        if not positions:
            return
        one.dropped += len(positions)
        self.dropped += len(positions)
        if now_s - one.said_s >= SAY_EVERY_S:
            one.said_s = now_s
            log.warning(
                "the queue of the durable subscription %s %s: its oldest events are dropped, %d so far",
                one.title, why, one.dropped,
            )  # fmt: skip
        one.is_trimmed = True

        def gone() -> None:
            one.is_trimmed = False

        one.feed.confirm(positions, now_s, gone)
