"""Exchange: a router, driven by frames; the daemon without its sockets.

It reads what clients and neighbours say, gives it to the router, and carries out what the router answers, all of it at
once and in order. It knows no clock and no sockets: time is an argument, and a link is an `Outlet`. What a peer may not
say is a ProtocolError, upon which the caller ends that peer's link. An event that nobody can read, or that nobody may
publish, is refused alone.

Events are handled here, one by one, or many at once by `flow`. What clients ask for is in `requests`, what neighbours'
routers say and what becomes of their links in `neighbours`.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from covey.broker.actions import (
    Action,
    Advertised,
    Answered,
    Attached,
    Close,
    Connected,
    Dial,
    Disconnected,
    Expect,
    HandOver,
    Heard,
    Lost,
    Refuse,
    Release,
    Say,
    Send,
    Tell,
    Unadvertised,
    Withdrawing,
)
from covey.broker.durable.delivery import SURE, Durable
from covey.broker.durable.queues import LINK
from covey.broker.durable_requests import NO_STORE, confirm_unkept
from covey.broker.epochs import Epochs, Outputs
from covey.broker.fastpath import Flow
from covey.broker.logs import say
from covey.broker.neighbours import Neighbour, Neighbours
from covey.broker.overlay import Overlay
from covey.broker.peers import Client
from covey.broker.plans import OWN, Plans
from covey.broker.requests import Limits, Requests
from covey.broker.sampling import Sampler
from covey.core.content import check_content
from covey.errors import EventError, ProtocolError
from covey.protocol.batches import MOST_SIDS, Frames, epochs_of, runs
from covey.protocol.control import PlanState, decode_request
from covey.protocol.events import (
    ENVELOPE,
    KEPT,
    Envelope,
    encode_delivery,
    envelope_of,
    family_of,
    publish_of,
)
from covey.protocol.frames import Kind, framed
from covey.routing.messages import Congestion, Echo, Key, Link, LinkDown, LinkUp, Message, Publish, Sync
from covey.routing.outputs import Deliver, Output
from covey.routing.router import Router

log = logging.getLogger("covey.broker")


class Exchange:
    """One broker without its sockets; see the module's text."""

    def __init__(
        self,
        epochs: Epochs,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
        keep: Callable[[PlanState], None] = lambda state: None,
        links: Neighbours | None = None,
    ) -> None:
        self.epochs = epochs
        self.broker = epochs.router.broker
        self.clients: dict[Link, Client] = {}
        self.counters: Counter[str] = Counter()
        self.now_s = 0.0
        self.links = links or Neighbours(epochs, Overlay(self.broker, 0))
        self.dial: Callable[[Link], None] = lambda link: None  # open a connection to a neighbour
        self.requests = Requests(self, limits)
        self._held: deque[tuple[Client, Sequence[bytes]]] = deque()
        self._flows: dict[int, Flow] = {}
        self.plans = Plans(self, keep)
        self.durable: Durable | None = None  # set before any link is up, where there is a store
        self.sampler: Sampler | None = None
        self.time_s = 0.0  # of day, for samples

    @property
    def neighbours(self) -> Mapping[Link, Neighbour]:
        """The brokers to which there is a connection."""
        return self.links.connected

    @property
    def attached(self) -> Mapping[Link, None]:
        """The neighbours whose links are on the overlay's tree, in order."""
        return dict.fromkeys(self.links.attached)

    @property
    def router(self) -> Router:
        """The router of the epoch in which events set out."""
        return self.epochs.router

    # -- clients ---------------------------------------------------------------------------------------------

    def client_up(self, client: Client) -> None:
        """A client has said who it is."""
        self.clients[client.link] = client
        for flow in self._flows.values():
            flow.client_up(client)
        self.drive(LinkUp(client=True), client.link)

    def client_down(self, link: Link) -> None:
        """A client is gone, and with it what it asked for."""
        client = self.clients.pop(link)
        if self.durable is not None:
            self.durable.client_gone(client)
        self.drive(LinkDown(), link)
        for flow in self._flows.values():
            flow.client_down(link)

    def congestion(self, on: bool) -> None:
        """More waits to be handled here than should, or no longer."""
        self.drive(Congestion(on), self.broker)

    # -- frames ----------------------------------------------------------------------------------------------

    def from_neighbour(self, neighbour: Neighbour, frames: Sequence[bytes]) -> None:
        """Handle what a neighbour sent."""
        for one in runs(frames):
            if isinstance(one, Frames):
                self._events(one, neighbour)
            elif one[0] == Kind.EVENT:
                self.event(one, neighbour.link, None)
            elif one[0] == Kind.ROUTE:
                self.perform(self.links.routed(neighbour.link, memoryview(one)[1:]))
            elif one[0] == Kind.OVERLAY:
                self.perform(self.links.received(neighbour.link, memoryview(one)[1:], self.now_s))
            elif one[0] == Kind.PLAN:
                self.plans.received(neighbour, memoryview(one)[1:])
            elif one[0] == Kind.TAKEN or one[0] == Kind.WHOLE:
                if self.durable is not None:
                    self.durable.outboxes.said(neighbour.link, one)
            else:
                raise ProtocolError(f"a neighbour broker does not send frames of the kind {one[0]}")

    def from_client(self, client: Client, frames: Sequence[bytes]) -> None:
        """Handle what a client sent, or let it wait while the network switches to another plan."""
        if self.plans.is_holding:
            self._held.append((client, frames))
            return
        for one in runs(frames):
            if isinstance(one, Frames):
                self._flow(self.epochs.current).handle(one, client.link, client, self.now_s)
            elif one[0] == Kind.EVENT:
                self.event(one, client.link, client)
            elif one[0] == Kind.REQUEST:
                self.requests.handle(client, decode_request(memoryview(one)[1:]))
            elif one[0] == Kind.ACKNOWLEDGE:
                if self.durable is not None:
                    self.durable.acknowledge(client, one[1:])
            else:
                raise ProtocolError(f"a client does not send frames of the kind {one[0]}")

    def release(self) -> None:
        """Handle what clients said while they were held."""
        waiting, self._held = self._held, deque()
        while waiting:
            client, frames = waiting.popleft()
            if client.link in self.clients:
                self.from_client(client, frames)

    # -- events ----------------------------------------------------------------------------------------------

    def _events(self, frames: Frames, neighbour: Neighbour) -> None:
        """Handle events of a neighbour, those of each epoch in its router."""
        epochs = epochs_of(frames)
        bounds = [0, *(np.flatnonzero(np.diff(epochs)) + 1).tolist(), len(frames)]
        for start, end in pairwise(bounds):
            epoch = int(epochs[start])
            if self.links.is_used(neighbour.link, epoch):
                some = frames if end - start == len(frames) else frames.some(slice(start, end))
                self._flow(epoch).handle(some, neighbour.link, None, self.now_s)
            else:  # only what is confirmed hop by hop counts: each says so itself
                for one in frames.some(slice(start, end)):
                    self.event(one, neighbour.link, None)

    def _flow(self, epoch: int) -> Flow:
        router, flow = self.epochs.routers[epoch], self._flows.get(epoch)
        if flow is None or flow.router is not router:
            flow = Flow(router, self.clients, self.links.used(epoch), self, epoch)
            for client in self.clients.values():
                flow.client_up(client)
            self._flows = {known: one for known, one in self._flows.items() if known in self.epochs.routers}
            self._flows[epoch] = flow
        return flow

    def event(self, one: bytes, source: Link, client: Client | None) -> None:
        """Handle one event; `flow` does the same with many at once, and leaves here what it cannot."""
        envelope = envelope_of(one)
        if client is not None:
            if envelope.publisher != client.number:
                raise ProtocolError("an event has another publisher than the client that sends it")
            client.published += 1
        else:
            neighbour = self.neighbours.get(source)
            is_kept = envelope.flags & KEPT and self.durable is not None
            if neighbour is None or not (is_kept or self.links.is_used(source, envelope.epoch)):
                self.counters["stale_frames"] += 1
                return
            neighbour.received += 1
        try:
            publish = publish_of(one, envelope)
            if client is not None:
                check_content(publish.event.content)
        except EventError as error:
            self._unreadable(envelope, source, client, error)
            return
        if client is not None:
            allowed = client.permissions.publish
            if allowed is not None and not allowed.matches(publish.event):
                client.refuse(envelope.number, f"{client.permissions.name} may not publish this event")
                return
            if self.sampler is not None and self.sampler.takes(envelope.publisher, envelope.number):
                content = one[ENVELOPE.size : ENVELOPE.size + envelope.content_length]
                name = (envelope.publisher, envelope.number)
                self.sampler.record(*name, family_of(envelope), content, self.time_s)
        if envelope.flags & KEPT:
            if self.durable is not None:
                self.durable.arrived(one, envelope, publish, source)
                return
            if client is not None:
                client.refuse(envelope.number, NO_STORE)
                return
            # Here is no store: from here on it goes at most once.
            confirm_unkept(self.neighbours[source], envelope)
        epoch = envelope.epoch if client is None else self.epochs.current
        router = self.epochs.routers[epoch]
        is_sampled = self.sampler is not None and self.sampler.takes(envelope.publisher, envelope.number)
        distance = router.distance_of(publish, source) if is_sampled else None
        outputs = router.handle(publish, source, self.now_s)
        if distance is not None:
            self._sample(outputs, envelope, distance)
        self.carry_out(outputs, epoch, one, envelope)

    def _unreadable(self, envelope: Envelope, source: Link, client: Client | None, error: EventError) -> None:
        """Leave an event alone that is none, and nothing else: the frames around it are as they should be."""
        if client is not None:
            client.refuse(envelope.number, f"this is no event: {error}")
            return
        # The client's broker should have refused it. Nobody can tell whom it is for: it ends here.
        if not self.counters["unreadable_events"]:
            log.warning("%s sends events that cannot be read, the first one: %s", source, error)
        self.counters["unreadable_events"] += 1
        if envelope.flags & KEPT:
            confirm_unkept(self.neighbours[source], envelope)

    def _sample(self, outputs: Sequence[Output], envelope: Envelope, distance: float) -> None:
        assert self.sampler is not None, "it has taken the event"
        for output in outputs:
            if isinstance(output, Deliver):
                name = (envelope.publisher, envelope.number)
                self.sampler.delivered(*name, output.keys, distance, self.time_s)

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

    # -- what links mean to plans and to durable delivery ----------------------------------------------------

    def _close(self, action: Close) -> None:
        peer = self.clients.get(action.link) or self.neighbours.get(action.link)
        if peer is not None:
            peer.outlet.end(action.reason)

    def _dial(self, action: Dial) -> None:
        self.dial(action.link)

    def _connected(self, action: Connected) -> None:
        self.plans.greet(self.neighbours[action.link])
        if self.durable is not None:
            self.durable.outboxes.connected(action.link)

    def _disconnected(self, action: Disconnected) -> None:
        if self.durable is not None:
            self.durable.disconnected(action.link)

    def _withdrawing(self, action: Withdrawing) -> None:
        if self.durable is not None:
            self.durable.outboxes.withdrawn(action.link)

    def _attached(self, action: Attached) -> None:
        """Durable delivery asks `attached` itself."""

    def _lost(self, action: Lost) -> None:
        if self.durable is not None:
            self.durable.completeness.link_lost(action.link)

    def _expect(self, action: Expect) -> None:
        if self.durable is not None:
            self.durable.outboxes.expect(action.neighbours, action.routed, action.is_redundant)

    def _advertised(self, action: Advertised) -> None:
        if self.durable is not None:
            self.durable.completeness.advertised(action.link, action.key, action.filter, action.number)

    def _unadvertised(self, action: Unadvertised) -> None:
        if self.durable is not None:
            self.durable.completeness.unadvertised(action.link, action.key)

    def _answered(self, action: Answered) -> None:
        if self.durable is not None:
            self.durable.completeness.answered(action.link, action.number)

    def _heard(self, action: Heard) -> None:
        if isinstance(action.message, Sync):
            self.plans.settle()
        is_overlay = action.epoch in self.epochs.routers and not self.epochs.is_planned(action.epoch)
        if self.durable is not None and is_overlay:
            self.durable.outboxes.routed(action.message, action.link, action.epoch)

    # -- outputs ---------------------------------------------------------------------------------------------

    def drive(self, message: Message, source: Link) -> None:
        """Tell the routers of all epochs something, and carry out what they answer."""
        self.carry_out_all(self.epochs.handle(message, source, self.now_s))

    def carry_out_all(self, outputs: Outputs) -> None:
        """Carry out what the routers of several epochs say."""
        for epoch, some in outputs:
            self.carry_out(some, epoch)
        self.perform(self.links.echo_for_others())

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
            elif isinstance(output.message, Publish):
                assert envelope is not None, "an event is sent on when one has come"
                self.links.forward(output.link, output.message, epoch, one, envelope)
            else:
                self.perform(self.links.send(output.link, output.message, epoch))

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


# Who performs an action.
_PERFORM: Final[dict[type, Callable[[Exchange, Any], None]]] = {
    Tell: Exchange._tell,
    Send: Exchange._send,
    Refuse: Exchange._refuse,
    HandOver: Exchange._hand_over,
    Release: Exchange._release,
    Say: Exchange._say,
    Close: Exchange._close,
    Dial: Exchange._dial,
    Connected: Exchange._connected,
    Disconnected: Exchange._disconnected,
    Withdrawing: Exchange._withdrawing,
    Attached: Exchange._attached,
    Lost: Exchange._lost,
    Expect: Exchange._expect,
    Advertised: Exchange._advertised,
    Unadvertised: Exchange._unadvertised,
    Answered: Exchange._answered,
    Heard: Exchange._heard,
}
