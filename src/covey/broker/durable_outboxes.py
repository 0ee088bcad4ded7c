"""Outboxes: what neighbours have not taken yet, and to which of them a confirmed event goes.

An event goes by the routing table where there is one tree, the overlay itself, and the table is complete
(`durable_completeness`). Otherwise it goes to every neighbour, which is always right, and each broker takes it once:

    the table is not complete                to all that are expected on the tree, there or not
    several trees, plans, redundant links    to all neighbours: the event's way may change while it is under way

A neighbour is sent what is in its outbox in order, a window at a time, once it has said what it wants; when its link
comes up again, from the first that it has not taken.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from covey.broker.durable_completeness import Completeness
from covey.broker.durable_feed import Feed
from covey.broker.durable_site import SURE, Site
from covey.broker.store import Store
from covey.broker.store_operations import Forget, Owner
from covey.errors import ProtocolError
from covey.routing.messages import SUBSCRIPTIONS, Link, Message, Probe, Publish, Sync
from covey.wire.confirming import Name, decode_taken
from covey.wire.events import envelope_of
from covey.wire.frames import Kind

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
