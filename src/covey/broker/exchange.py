"""Exchange: a router, driven by frames; the daemon without its sockets.

It reads what clients and neighbours say, gives it to the router, and carries out what the router answers, all of it at
once and in order. It knows no clock and no sockets: time is an argument, and a link is an `Outlet`. What a peer may not
say is a ProtocolError, upon which the caller ends that peer's link. An event that nobody can read, or that nobody may
publish, is refused alone.

Events are handled here, one by one, or many at once by `flow`. What clients ask for is in `requests`, what neighbours'
routers say and what becomes of their links in `neighbour_links`.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from covey.broker.actions import Action, Commit, HandOver, Refuse, Release, Route, Say, Send, SendEvent, Tell
from covey.broker.durable.delivery import SURE, Durable, NoDurable, confirm_unkept
from covey.broker.durable.log import Answer, Asked, Committed, Fetch
from covey.broker.durable.queues import LINK
from covey.broker.epochs import Epochs, Outputs
from covey.broker.fastpath import Flow
from covey.broker.logs import say
from covey.broker.neighbour_links import NeighbourLinks, Used
from covey.broker.peers import Client, Neighbour
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
from covey.routing.messages import Congestion, Echo, Key, Link, LinkDown, LinkUp, Message, Publish
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
    ) -> None:
        self.epochs = epochs
        self.broker = epochs.router.broker
        self.clients: dict[Link, Client] = {}
        self.counters: Counter[str] = Counter()
        self.now_s = 0.0
        self.links = NeighbourLinks(self)
        self.requests = Requests(self, limits)
        self._held: deque[tuple[Client, Sequence[bytes]]] = deque()
        self._flows: dict[int, Flow] = {}
        self.plans = Plans(self, keep)
        # Where there is a store, these are set before any link is up; the second takes what the first asks of the log.
        self.durable: Durable | NoDurable = NoDurable()
        self.ask_log: Callable[[Asked], None]
        self.sampler: Sampler | None = None
        self.time_s = 0.0  # of day, for samples
        self.wall_s = 0.0  # of day, for events on disk

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
        self.durable.client_up(client.link)
        for flow in self._flows.values():
            flow.client_up(client)
        self.drive(LinkUp(client=True), client.link)

    def client_down(self, link: Link) -> None:
        """A client is gone, and with it what it asked for."""
        del self.clients[link]
        self.durable.client_gone(link)
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
                self.links.routed(neighbour, memoryview(one)[1:])
            elif one[0] == Kind.PLAN:
                self.plans.received(neighbour, memoryview(one)[1:])
            elif one[0] == Kind.TAKEN or one[0] == Kind.WHOLE:
                self.perform(self.durable.said(neighbour.link, one, self.now_s))
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
                self.perform(self.durable.acknowledge(client.link, one[1:], self.now_s))
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
            if self.links.is_used(neighbour, epoch):
                some = frames if end - start == len(frames) else frames.some(slice(start, end))
                self._flow(epoch).handle(some, neighbour.link, None, self.now_s)
            else:  # only what is confirmed hop by hop counts: each says so itself
                for one in frames.some(slice(start, end)):
                    self.event(one, neighbour.link, None)

    def _flow(self, epoch: int) -> Flow:
        router, flow = self.epochs.routers[epoch], self._flows.get(epoch)
        if flow is None or flow.router is not router:
            flow = Flow(router, self.clients, Used(self.links, epoch), self, epoch)
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
            neighbour = self.links.neighbours.get(source)
            is_kept = envelope.flags & KEPT and self.durable.keeps
            if neighbour is None or not (is_kept or self.links.is_used(neighbour, envelope.epoch)):
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
            self.perform(self.durable.arrived(one, envelope, publish, source, self.now_s, self.wall_s))
        else:
            self._route(one, envelope, publish, source)

    def _route(self, one: bytes, envelope: Envelope, publish: Publish, source: Link) -> None:
        """Give an event that nobody keeps to the router of its epoch."""
        epoch = self.epochs.current if source in self.clients else envelope.epoch
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
            self.perform(confirm_unkept(source, envelope))

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

    def _send_event(self, action: SendEvent) -> None:
        if action.link in self.clients:
            client = self.clients[action.link]
            client.delivered += 1
            client.outlet.send(action.kind, action.body)
        elif action.link in self.neighbours:
            neighbour = self.neighbours[action.link]
            neighbour.sent += 1
            neighbour.outlet.send(action.kind, action.body)

    def _route_unkept(self, action: Route) -> None:
        self._route(action.frame, action.envelope, action.publish, action.source)

    def _commit(self, action: Commit) -> None:
        self.ask_log(action.batch)

    def _fetch(self, action: Fetch) -> None:
        self.ask_log(action)

    def log_answered(self, answers: Iterable[Answer]) -> None:
        """Go on with what has waited for the log."""
        for answer in answers:
            if isinstance(answer, Committed):
                self.perform(self.durable.committed(answer, self.now_s))
            else:
                self.perform(self.durable.read(answer, self.now_s))

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
            elif output.link == SURE:
                assert isinstance(output.message, Echo), "nor does what is durable"
                self.perform(self.durable.echoed(output.message.id))
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
        if link == LINK:
            self.perform(self.durable.deliver(keys, frame, self.wall_s))


# Who performs an action.
_PERFORM: Final[dict[type, Callable[[Exchange, Any], None]]] = {
    Tell: Exchange._tell,
    Send: Exchange._send,
    SendEvent: Exchange._send_event,
    Route: Exchange._route_unkept,
    Commit: Exchange._commit,
    Fetch: Exchange._fetch,
    Refuse: Exchange._refuse,
    HandOver: Exchange._hand_over,
    Release: Exchange._release,
    Say: Exchange._say,
}
