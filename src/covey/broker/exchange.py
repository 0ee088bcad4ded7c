"""Exchange: a router, driven by frames; the daemon without its sockets.

It reads what clients and neighbours say, gives it to the router, and carries out what the router answers, all of it at
once and in order. It knows no clock and no sockets: time is an argument, and a link is an `Outlet`. What a peer may not
say is a ProtocolError, upon which the caller ends that peer's link. An event that nobody can read, or that nobody may
publish, is refused alone.

Events are handled here, one by one, or many at once by `flow`. What clients ask for is in `sessions`, what neighbours'
routers say and what becomes of their links in `neighbour_links`.

Long work, a plan that goes in or a client with many subscriptions that leaves, is done in slices: `work` does one, and
`on_work` is called when there are some. Whoever sets nothing there has all of it done at once.
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
    ClientAdvertised,
    Close,
    Departed,
    DurableRequest,
    HandOver,
    KeepPlans,
    Refuse,
    Release,
    Replay,
    Say,
    Send,
    Tell,
    Work,
)
from covey.broker.durable.delivery import SURE, Durable
from covey.broker.durable.queues import LINK
from covey.broker.durable_requests import NO_STORE, confirm_unkept, request_durable
from covey.broker.epochs import Epochs, Outputs
from covey.broker.fastpath import Flow
from covey.broker.logs import say
from covey.broker.neighbour_links import NeighbourLinks, Used
from covey.broker.peers import Neighbour
from covey.broker.plans import GRACE_S, OWN, PATIENCE_S, Installation, Plans
from covey.broker.sampling import Sampler
from covey.broker.sessions import Limits, Session, Sessions
from covey.core.content import check_content
from covey.errors import CoveyError, EventError, ProtocolError
from covey.protocol.batches import MOST_SIDS, Frames, epochs_of, runs
from covey.protocol.control import PlanState, Request, decode_request, routed_epoch
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
from covey.routing.messages import Congestion, Echo, Key, Link, Message
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
        self.counters: Counter[str] = Counter()
        self.sessions = Sessions(epochs, limits, self.counters)
        self.clients = self.sessions.connected
        self.now_s = 0.0
        self.links = NeighbourLinks(self)
        self._held: deque[tuple[Session, Sequence[bytes]]] = deque()
        self._flows: dict[int, Flow] = {}
        self.plans = Plans(self.broker, epochs)
        self._keep = keep
        self.on_work: Callable[[], None] = self.finish_work
        self.durable: Durable | None = None  # set before any link is up, where there is a store
        self.sampler: Sampler | None = None
        self.time_s = 0.0  # of day, for samples

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

    def client_up(self, client: Session) -> None:
        """A client has said who it is."""
        for flow in self._flows.values():
            flow.client_up(client)
        self.perform(self.sessions.admit(client))

    def client_down(self, link: Link) -> None:
        """A client is gone, and with it what it asked for."""
        for flow in self._flows.values():
            flow.client_leaving(link)
        if self.durable is not None:
            self.durable.client_gone(self.clients[link])
        self.perform(self.sessions.depart(link))

    def congestion(self, on: bool) -> None:
        """More waits to be handled here than should, or no longer."""
        self.drive(Congestion(on), self.broker)

    # -- plans, time and long work ---------------------------------------------------------------------------

    def install(
        self, plan: bytes, *, patience_s: float = PATIENCE_S, grace_s: float = GRACE_S
    ) -> Installation:
        """Begin to install a plan; b"" is the overlay itself. PlanError if it cannot be, or one is under way."""
        self.perform(self.plans.install(plan, self.now_s, patience_s=patience_s, grace_s=grace_s))
        assert self.plans.installation is not None, "which has begun"
        return self.plans.installation

    def roll_back(self) -> None:
        """Take back the plan that was installed here last; PlanError if that cannot be."""
        self.perform(self.plans.roll_back(self.now_s))

    def tick(self) -> None:
        """Time passes."""
        self.perform(self.plans.tick(self.now_s))

    @property
    def has_work(self) -> bool:
        """Whether `work` has something to do."""
        return self.plans.has_work or self.sessions.has_work

    def work(self) -> bool:
        """Do one slice of long work; return whether there is more."""
        self.perform(self.plans.work())
        self.perform(self.sessions.work())
        return self.has_work

    def finish_work(self) -> None:
        """Do all of it."""
        while self.work():
            pass

    # -- frames ----------------------------------------------------------------------------------------------

    def from_neighbour(self, neighbour: Neighbour, frames: Sequence[bytes]) -> None:
        """Handle what a neighbour sent."""
        for one in runs(frames):
            if isinstance(one, Frames):
                self._events(one, neighbour)
            elif one[0] == Kind.EVENT:
                if not self._waits(neighbour, one):
                    self.event(one, neighbour.link, None)
            elif one[0] == Kind.ROUTE:
                if not self._waits(neighbour, one):
                    self.links.routed(neighbour, memoryview(one)[1:])
            elif one[0] == Kind.PLAN:
                self.perform(self.plans.received(neighbour.link, memoryview(one)[1:], self.now_s))
            elif one[0] == Kind.TAKEN or one[0] == Kind.WHOLE:
                if self.durable is not None:
                    self.durable.outboxes.said(neighbour.link, one)
            else:
                raise ProtocolError(f"a neighbour broker does not send frames of the kind {one[0]}")

    def _waits(self, neighbour: Neighbour, one: bytes) -> bool:
        """Put a frame aside if the router of its epoch is not ready for it; return whether that is so."""
        if not self.epochs.adopting:
            return False
        epoch = envelope_of(one).epoch if one[0] == Kind.EVENT else routed_epoch(memoryview(one)[1:])
        adoption = self.epochs.adopting.get(epoch)
        if adoption is None or not self.links.is_used(neighbour, epoch):
            return False
        adoption.waiting.append((neighbour.link, one))
        return True

    def from_client(self, client: Session, frames: Sequence[bytes]) -> None:
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
                self._request(client, decode_request(memoryview(one)[1:]))
            elif one[0] == Kind.ACKNOWLEDGE:
                if self.durable is not None:
                    self.durable.acknowledge(client, one[1:])
            else:
                raise ProtocolError(f"a client does not send frames of the kind {one[0]}")

    def _request(self, client: Session, request: Request) -> None:
        try:
            self.perform(self.sessions.request(client, request))
        except ProtocolError:
            raise
        except CoveyError as error:  # of whoever was to do what the client may ask for
            client.answer(request.request, str(error))

    def release(self) -> None:
        """Handle what clients said while they were held."""
        waiting, self._held = self._held, deque()
        while waiting:
            client, frames = waiting.popleft()
            if client.link not in self.clients:
                continue
            try:
                self.from_client(client, frames)
            except CoveyError as error:  # which is this client's, whoever has let us go on
                self._end(client, error)

    # -- events ----------------------------------------------------------------------------------------------

    def _events(self, frames: Frames, neighbour: Neighbour) -> None:
        """Handle events of a neighbour, those of each epoch in its router."""
        epochs = epochs_of(frames)
        bounds = [0, *(np.flatnonzero(np.diff(epochs)) + 1).tolist(), len(frames)]
        for start, end in pairwise(bounds):
            epoch = int(epochs[start])
            if epoch in self.epochs.adopting:
                for one in frames.some(slice(start, end)):
                    if not self._waits(neighbour, one):
                        self.event(one, neighbour.link, None)
            elif self.links.is_used(neighbour, epoch):
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

    def event(self, one: bytes, source: Link, client: Session | None) -> None:
        """Handle one event; `flow` does the same with many at once, and leaves here what it cannot."""
        envelope = envelope_of(one)
        if client is not None:
            if envelope.publisher != client.number:
                raise ProtocolError("an event has another publisher than the client that sends it")
            client.published += 1
        else:
            neighbour = self.links.neighbours.get(source)
            is_kept = envelope.flags & KEPT and self.durable is not None
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
            if self.durable is not None:
                self.durable.arrived(one, envelope, publish, source)
                return
            if client is not None:
                client.refuse(envelope.number, NO_STORE)
                return
            # Here is no store: from here on it goes at most once.
            confirm_unkept(self.links.neighbours[source], envelope)
        epoch = envelope.epoch if client is None else self.epochs.current
        router = self.epochs.routers[epoch]
        is_sampled = self.sampler is not None and self.sampler.takes(envelope.publisher, envelope.number)
        distance = router.distance_of(publish, source) if is_sampled else None
        outputs = router.handle(publish, source, self.now_s)
        if distance is not None:
            self._sample(outputs, envelope, distance)
        self.carry_out(outputs, epoch, one, envelope)

    def _unreadable(
        self, envelope: Envelope, source: Link, client: Session | None, error: EventError
    ) -> None:
        """Leave an event alone that is none, and nothing else: the frames around it are as they should be."""
        if client is not None:
            client.refuse(envelope.number, f"this is no event: {error}")
            return
        # The client's broker should have refused it. Nobody can tell whom it is for: it ends here.
        if not self.counters["unreadable_events"]:
            log.warning("%s sends events that cannot be read, the first one: %s", source, error)
        self.counters["unreadable_events"] += 1
        if envelope.flags & KEPT:
            confirm_unkept(self.links.neighbours[source], envelope)

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
            outputs = self.epochs.tell(action.epoch, action.message, action.source, self.now_s)
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

    def _close(self, action: Close) -> None:
        peer = self.clients.get(action.link) or self.neighbours.get(action.link)
        if peer is not None:
            peer.outlet.end(action.reason)

    def _work(self, action: Work) -> None:
        self.on_work()

    def _replay(self, action: Replay) -> None:
        neighbour = self.neighbours.get(action.link)
        if neighbour is None:
            return
        try:
            self.from_neighbour(neighbour, [action.frame])
        except CoveyError as error:
            self._end(neighbour, error)

    def _end(self, peer: Session | Neighbour, error: CoveyError) -> None:
        """End the link of a peer that has said what it may not, in a frame that had to wait."""
        say(log, logging.WARNING, "link ended", broker=self.broker, link=peer.link, reason=error)
        peer.outlet.end(str(error))

    def _keep_plans(self, action: KeepPlans) -> None:
        self._keep(action.state)

    def _durable_request(self, action: DurableRequest) -> None:
        request_durable(self.durable, self.clients[action.link], action.request, action.filter)

    def _client_advertised(self, action: ClientAdvertised) -> None:
        if self.durable is not None:
            self.durable.completeness.client_advertised()

    def _departed(self, action: Departed) -> None:
        for flow in self._flows.values():
            flow.client_down(action.link)

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
                    self.perform(self.sessions.echoed(output.link, output.message))
            elif output.link == OWN:
                assert isinstance(output.message, Echo), "a broker itself asks for nothing else"
                self.perform(self.plans.echoed(output.message.id, self.now_s))
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


# Who performs an action.
_PERFORM: Final[dict[type, Callable[[Exchange, Any], None]]] = {
    Tell: Exchange._tell,
    Send: Exchange._send,
    Refuse: Exchange._refuse,
    HandOver: Exchange._hand_over,
    Release: Exchange._release,
    Close: Exchange._close,
    Work: Exchange._work,
    Replay: Exchange._replay,
    KeepPlans: Exchange._keep_plans,
    Say: Exchange._say,
    DurableRequest: Exchange._durable_request,
    ClientAdvertised: Exchange._client_advertised,
    Departed: Exchange._departed,
}
