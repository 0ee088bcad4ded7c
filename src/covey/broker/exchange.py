"""Exchange: a router, driven by frames; the daemon without its sockets.

It reads what clients and neighbours say, gives it to the router, and carries out what the router answers, all of it at
once and in order. It knows no clock and no sockets: time is an argument, and a link is an `Outlet`. What a peer may not
say is a ProtocolError, upon which the caller ends that peer's link. An event that nobody can read, or that nobody may
publish, is refused alone.

Frames go to the fast path first, which handles events and hands the others back in their place. What clients ask for is
in `requests`, what neighbours' routers say and what becomes of their links in `neighbour_links`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from covey.broker.actions import Action, HandOver, Refuse, Release, Say, Send, Tell
from covey.broker.durable.delivery import SURE, Durable
from covey.broker.durable.queues import LINK
from covey.broker.durable_requests import NO_STORE, confirm_unkept
from covey.broker.epochs import Epochs, Outputs
from covey.broker.fastpath import FastPath, Read
from covey.broker.logs import say
from covey.broker.neighbour_links import NeighbourLinks
from covey.broker.peers import Client, Neighbour
from covey.broker.plans import OWN, Plans
from covey.broker.requests import Limits, Requests
from covey.broker.sampling import Sampler
from covey.errors import CoveyError, EventError, ProtocolError
from covey.protocol.batches import MOST_SIDS
from covey.protocol.control import PlanState, decode_request
from covey.protocol.events import (
    KEPT,
    Envelope,
    encode_delivery,
)
from covey.protocol.frames import Kind, framed
from covey.routing.messages import Congestion, Echo, Key, Link, LinkDown, LinkUp, Message, Publish
from covey.routing.outputs import Deliver, Output
from covey.routing.router import Router

log = logging.getLogger("covey.broker")


Failed = Callable[[Read, CoveyError], None]


class Exchange:
    """One broker without its sockets; see the module's text."""

    def __init__(
        self,
        epochs: Epochs,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
        keep: Callable[[PlanState], None] = lambda state: None,
    ) -> None:
        self.epochs = epochs
        self.broker = epochs.router.broker
        self.clients: dict[Link, Client] = {}
        self.counters: Counter[str] = Counter()
        self.now_s = 0.0
        self.links = NeighbourLinks(self)
        self.requests = Requests(self, limits)
        self._held: list[Read] = []
        self._failed: Failed = _raise
        self.fastpath = FastPath(epochs)
        self.plans = Plans(self, keep)
        self.durable: Durable | None = None  # set before any link is up, where there is a store
        self.sampler: Sampler | None = None
        self.time_s = 0.0  # of day, for samples
        # What the caller may want to know: frames of the kind OVERLAY, for whom something is done, who fills whom.
        self.overlay_said: Callable[[Link, memoryview], None] | None = None
        self.begin: Callable[[Link | None], None] = lambda link: None
        self.full: Callable[[Link, Sequence[Link]], None] = lambda link, sources: None

    @property
    def neighbours(self) -> Mapping[Link, Neighbour]:
        """The brokers to which there is a connection."""
        return self.links.neighbours

    @property
    def attached(self) -> Mapping[Link, None]:
        """The neighbours whose links are on the overlay's tree, in order."""
        return self.links.attached

    @property
    def router(self) -> Router:
        """The router of the epoch in which events set out."""
        return self.epochs.router

    # -- clients ---------------------------------------------------------------------------------------------

    def client_up(self, client: Client) -> None:
        """A client has said who it is."""
        self.clients[client.link] = client
        self.fastpath.client_up(client)
        self.drive(LinkUp(client=True), client.link)

    def client_down(self, link: Link) -> None:
        """A client is gone, and with it what it asked for."""
        client = self.clients.pop(link)
        if self.durable is not None:
            self.durable.client_gone(client)
        self.drive(LinkDown(), link)
        self.fastpath.client_down(link)

    def congestion(self, on: bool) -> None:
        """More waits to be handled here than should, or no longer."""
        self.drive(Congestion(on), self.broker)

    # -- frames ----------------------------------------------------------------------------------------------

    def handle(self, reads: Sequence[Read], failed: Failed) -> None:
        """Handle what links have sent in a turn; `failed` is told of each that says what it may not."""
        before, self._failed = self._failed, failed
        try:
            self.fastpath.handle(reads, self, self.now_s)
        finally:
            self._failed = before

    def from_neighbour(self, neighbour: Neighbour, frames: Sequence[bytes]) -> None:
        """Handle what one neighbour sent; ProtocolError if it may not."""
        self.handle([Read.of(neighbour, frames)], _raise)

    def from_client(self, client: Client, frames: Sequence[bytes]) -> None:
        """Handle what one client sent; ProtocolError if it may not."""
        self.handle([Read.of(client, frames)], _raise)

    def release(self) -> None:
        """Handle what clients said while they were held."""
        waiting, self._held = self._held, []
        self.handle(waiting, self._failed)

    # -- what the fast path leaves ---------------------------------------------------------------------------

    @property
    def is_holding(self) -> bool:
        """Whether what clients say waits, while the network switches to another plan."""
        return self.plans.is_holding

    @property
    def is_keeping(self) -> bool:
        """Whether confirmed events are kept here."""
        return self.durable is not None

    def is_used(self, neighbour: Neighbour, epoch: int) -> bool:
        """Return whether routers of that epoch talk over the link to a neighbour."""
        return self.links.is_used(neighbour, epoch)

    def hold(self, read: Read) -> None:
        """Let what a client said wait."""
        self._held.append(read)

    def failed(self, read: Read, error: CoveyError) -> None:
        """A link has said what it may not."""
        self._failed(read, error)

    def control(self, read: Read, frame: bytes) -> None:
        """Handle a frame that carries no event."""
        if isinstance(read.peer, Client):
            self._client_said(read.peer, frame)
        else:
            self._neighbour_said(read.peer, frame)

    def _neighbour_said(self, neighbour: Neighbour, one: bytes) -> None:
        if one[0] == Kind.ROUTE:
            self.links.routed(neighbour, memoryview(one)[1:])
        elif one[0] == Kind.PLAN:
            self.plans.received(neighbour, memoryview(one)[1:])
        elif one[0] == Kind.TAKEN or one[0] == Kind.WHOLE:
            if self.durable is not None:
                self.durable.outboxes.said(neighbour.link, one)
        elif one[0] == Kind.OVERLAY and self.overlay_said is not None:
            self.overlay_said(neighbour.link, memoryview(one)[1:])
        else:
            raise ProtocolError(f"a neighbour broker does not send frames of the kind {one[0]}")

    def _client_said(self, client: Client, one: bytes) -> None:
        if one[0] == Kind.REQUEST:
            self.requests.handle(client, decode_request(memoryview(one)[1:]))
        elif one[0] == Kind.ACKNOWLEDGE:
            if self.durable is not None:
                self.durable.acknowledge(client, one[1:])
        else:
            raise ProtocolError(f"a client does not send frames of the kind {one[0]}")

    def confirmed(self, frame: bytes, envelope: Envelope, publish: Publish, read: Read) -> bool:
        """Take a confirmed event; False if it goes on like any other."""
        if self.durable is not None:
            self.durable.arrived(frame, envelope, publish, read.link)
            return True
        if isinstance(read.peer, Client):
            read.peer.refuse(envelope.number, NO_STORE)
            return True
        # Here is no store: from here on it goes at most once.
        confirm_unkept(self.links.neighbours[read.link], envelope)
        return False

    def unreadable(self, envelope: Envelope, read: Read, error: EventError) -> None:
        """Leave an event alone that is none, and nothing else: the frames around it are as they should be."""
        if isinstance(read.peer, Client):
            read.peer.refuse(envelope.number, f"this is no event: {error}")
            return
        # The client's broker should have refused it. Nobody can tell whom it is for: it ends here.
        if not self.counters["unreadable_events"]:
            log.warning("%s sends events that cannot be read, the first one: %s", read.link, error)
        self.counters["unreadable_events"] += 1
        if envelope.flags & KEPT:
            confirm_unkept(self.links.neighbours[read.link], envelope)

    # -- actions ---------------------------------------------------------------------------------------------

    def perform(self, actions: Iterable[Action]) -> None:
        """Do what a part asks for, one after the other, each with all that follows from it."""
        for action in actions:
            _PERFORM[type(action)](self, action)

    def _tell(self, action: Tell) -> None:
        if action.epoch is None:
            self.drive(action.message, action.source)
        elif action.epoch in self.epochs.routers:
            outputs = self.epochs.routers[action.epoch].handle(action.message, action.source, self.now_s)
            self.carry_out_all([(action.epoch, outputs)])

    def _send(self, action: Send) -> None:
        peer = self.clients.get(action.link) or self.neighbours.get(action.link)
        if peer is not None:
            peer.outlet.send(action.kind, action.body, barrier=action.barrier)

    def _refuse(self, action: Refuse) -> None:
        client = self.clients.get(action.link)
        if client is not None:
            client.refuse(action.number, action.reason)

    def _hand_over(self, action: HandOver) -> None:
        self.deliver(action.output, action.frame)

    def _release(self, action: Release) -> None:
        self.release()

    def _say(self, action: Say) -> None:
        say(log, action.level, action.event, broker=self.broker, **action.fields)

    # -- outputs ---------------------------------------------------------------------------------------------

    def drive(self, message: Message, source: Link) -> None:
        """Tell the routers of all epochs something, and carry out what they answer."""
        self.carry_out_all(self.epochs.handle(message, source, self.now_s))

    def carry_out_all(self, outputs: Outputs) -> None:
        """Carry out what the routers of several epochs say."""
        for epoch, some in outputs:
            self.carry_out(some, epoch)
        self.links.echo_for_others()

    def carry_out(
        self, outputs: Sequence[Output], epoch: int, one: bytes = b"", envelope: Envelope | None = None
    ) -> None:
        """Carry out what the router of one epoch says, of the event in the frame `one` or of something else."""
        for output in outputs:
            if isinstance(output, Deliver):
                self.deliver(output, one)
            elif output.link in self.clients:
                if isinstance(output.message, Echo):
                    self.requests.echoed(self.clients[output.link], output.message)
            elif output.link == OWN:
                assert isinstance(output.message, Echo), "a broker itself asks for nothing else"
                self.plans.echoed(output.message.id)
            elif output.link == SURE and self.durable is not None:
                assert isinstance(output.message, Echo), "nor does what is durable"
                self.durable.completeness.echoed(output.message.id)
            else:
                self.links.send(output, epoch, one, envelope)

    def deliver(self, output: Deliver, one: bytes) -> None:
        """Hand an event to whoever subscribed to it here."""
        client = self.clients.get(output.link)
        sids: list[int] = []
        others: list[Key] = []
        for key in output.keys:
            sid = None if client is None else client.sid_of(key)
            if sid is None:
                others.append(key)
            else:
                sids.append(sid)
        if others:
            self.elsewhere(output.link, tuple(others), one)
        sids.sort()
        for first in range(0, len(sids), MOST_SIDS):
            assert client is not None, "whose subscriptions have numbers"
            client.delivered += 1
            client.outlet.send_events(framed(encode_delivery(one, sids[first : first + MOST_SIDS])))

    def elsewhere(self, link: Link, keys: tuple[Key, ...], frame: bytes) -> None:
        """An event is for subscriptions that no connected client has: for durable ones, or nobody can be told."""
        if self.durable is not None and link == LINK:
            self.durable.deliver(keys, frame)


def _raise(read: Read, error: CoveyError) -> None:
    raise error


# Who performs an action.
_PERFORM: Final[dict[type, Callable[[Exchange, Any], None]]] = {
    Tell: Exchange._tell,
    Send: Exchange._send,
    Refuse: Exchange._refuse,
    HandOver: Exchange._hand_over,
    Release: Exchange._release,
    Say: Exchange._say,
}
