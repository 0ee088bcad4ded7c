"""Exchange: a router, driven by frames; the daemon without its sockets.

It reads what clients and neighbours say, gives it to the router, and carries out what the router answers, all of it at
once and in order. It knows no clock and no sockets: time is an argument, and a link is a `Port`. What a peer may not
say is a ProtocolError, upon which the caller ends that peer's link; a wish that cannot be granted is answered with the
reason, and harms nobody.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, get_args

import numpy as np

from covey.broker.durable import Durable
from covey.broker.durable_requests import confirm_without_store, replace, subscribe, unsubscribe
from covey.broker.durable_site import SURE
from covey.broker.durable_subscriptions import LINK
from covey.broker.epochs import Epochs, Outputs
from covey.broker.flow import Flow
from covey.broker.peers import Client, Neighbour
from covey.broker.plans import OWN, Plans
from covey.broker.sampling import Sampler
from covey.core.families import decode as decode_filter
from covey.core.filter import Filter
from covey.errors import AccessError, CoveyError, EventError, ProtocolError
from covey.routing.messages import (
    Advertise,
    Congestion,
    Echo,
    Key,
    Link,
    LinkDown,
    LinkUp,
    Message,
    Probe,
    Publish,
    Subscribe,
    Sync,
    Unadvertise,
    Unsubscribe,
)
from covey.routing.outputs import Deliver, Output, Send
from covey.routing.router import Router
from covey.wire.copying import MOST_SIDS, epochs_of
from covey.wire.events import (
    ENVELOPE,
    KEPT,
    Envelope,
    encode_delivery,
    envelope_of,
    family_of,
    forwarded,
    publish_of,
)
from covey.wire.frames import Kind, frame
from covey.wire.messages import (
    AdvertiseRequest,
    FlushRequest,
    ReplaceRequest,
    Reply,
    Request,
    Routed,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
    decode_request,
    decode_routed,
    encode,
    encode_routed,
)
from covey.wire.plans import PlanState
from covey.wire.splitting import Frames, runs

# What must not overtake events: a way that is given up, and what asks whether all before it has arrived.
_BEHIND_EVENTS: Final = (Unadvertise, Probe, Echo)


@dataclass(frozen=True)
class Limits:
    """What one client may hold here."""

    subscriptions: int = 100_000
    advertisements: int = 1_000


_LIMITS: Final = Limits()


class Used(Mapping[Link, Neighbour]):
    """The neighbours over whose links routers of one epoch talk."""

    def __init__(self, exchange: Exchange, epoch: int) -> None:
        self._exchange, self._epoch = exchange, epoch

    def __getitem__(self, link: Link) -> Neighbour:
        neighbour = self._exchange.neighbours[link]
        if not self._exchange.is_used(neighbour, self._epoch):
            raise KeyError(link)
        return neighbour

    def __iter__(self) -> Iterator[Link]:
        return (link for link in self._exchange.neighbours if link in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Exchange:
    """One broker without its sockets; see the module's text."""

    def __init__(
        self,
        epochs: Epochs,
        limits: Limits = _LIMITS,
        keep: Callable[[PlanState], None] = lambda state: None,
    ) -> None:
        self.epochs = epochs
        self.broker = epochs.router.broker
        self.limits = limits
        self.clients: dict[Link, Client] = {}
        self._neighbours: dict[Link, Neighbour] = {}
        self.counters: Counter[str] = Counter()
        self.now_s = 0.0
        self.attached: dict[Link, None] = {}  # neighbours whose links are on the overlay's tree, in order
        self._held: deque[tuple[Client, Sequence[bytes]]] = deque()
        self._probing: dict[
            tuple[Link, int], dict[Echo, None]
        ] = {}  # what neighbours have yet to echo, by epoch
        self._echoes: list[tuple[Link, int, Echo]] = []  # of probes for neighbours that are away
        self._flows: dict[int, Flow] = {}
        self.plans = Plans(self, keep)
        self.durable: Durable | None = None  # set before any link is up, where there is a store
        self.sampler: Sampler | None = None
        self.time_s = 0.0  # of day, for samples

    @property
    def neighbours(self) -> Mapping[Link, Neighbour]:
        """The brokers to which there is a connection."""
        return self._neighbours

    @property
    def router(self) -> Router:
        """The router of the epoch in which events set out."""
        return self.epochs.router

    # -- links -----------------------------------------------------------------------------------------------

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

    def connected(self, neighbour: Neighbour) -> None:
        """A neighbour and this broker have greeted each other: plans use the link at once."""
        link = neighbour.link
        self._neighbours[link] = neighbour
        self.plans.greet(neighbour)
        for epoch, router in self.epochs.of_plans():
            if any(link in part.links_up() for part in router.trees.values()):  # from before a break
                self._carry_out(router.handle(LinkDown(), link, self.now_s), epoch)
            self._carry_out(router.handle(LinkUp(), link, self.now_s), epoch)
        if self.durable is not None:
            self.durable.outboxes.connected(link)

    def disconnected(self, link: Link) -> None:
        """The connection to a neighbour is gone, but not what it asked for; nobody waits for its echoes."""
        self._neighbours.pop(link, None)
        if self.durable is not None:
            self.durable.disconnected(link)
        self._give_up_echoes(link, [epoch for epoch, _ in self.epochs.of_plans()])

    def given_up(self, link: Link) -> None:
        """Forget what a neighbour that is away had asked for."""
        for epoch, router in self.epochs.of_plans():
            self._carry_out(router.handle(LinkDown(), link, self.now_s), epoch)

    def neighbour_up(self, neighbour: Neighbour) -> None:
        """The link to a neighbour that is connected is on the overlay's own tree."""
        link = neighbour.link
        if self.durable is not None:
            self.durable.outboxes.withdrawn(link)
        self.attached[link] = None
        for epoch, router in self.epochs.of_overlay():
            self._carry_out(router.handle(LinkUp(), link, self.now_s), epoch)

    def neighbour_down(self, link: Link) -> None:
        """The link to a neighbour, which may be away already, is on the overlay's tree no longer."""
        self.attached.pop(link, None)
        if self.durable is not None:
            self.durable.outboxes.withdrawn(link)
        for epoch, router in self.epochs.of_overlay():
            self._probing.pop((link, epoch), None)
            self._carry_out(router.handle(LinkDown(), link, self.now_s), epoch)

    def neighbour_away(self, link: Link) -> None:
        """The link to a neighbour on the tree is gone, but not what it asked for; nobody waits for its echoes."""
        del self.attached[link]
        self._give_up_echoes(link, [epoch for epoch, _ in self.epochs.of_overlay()])

    def _give_up_echoes(self, link: Link, epochs: Iterable[int]) -> None:
        for epoch in epochs:
            self._echoes += [(link, epoch, echo) for echo in self._probing.pop((link, epoch), ())]
        self._echo_for_others()

    def is_open(self, link: Link) -> bool:
        """Return whether a neighbour and this broker have told each other all that they know."""
        return all(
            link in part.neighbours() or link not in part.links_up()
            for router in self.epochs.routers.values()
            for part in router.trees.values()
        )

    def is_used(self, neighbour: Neighbour, epoch: int) -> bool:
        """Return whether routers of that epoch talk over the link to a neighbour."""
        if self._neighbours.get(neighbour.link) is not neighbour or epoch not in self.epochs.routers:
            return False
        return neighbour.link in self.attached or self.epochs.is_planned(epoch)

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
                self._routed(neighbour, memoryview(one)[1:])
            elif one[0] == Kind.PLAN:
                self.plans.received(neighbour, memoryview(one)[1:])
            elif one[0] == Kind.TAKEN or one[0] == Kind.WHOLE:
                if self.durable is not None:
                    self.durable.outboxes.said(neighbour.link, one)
            else:
                raise ProtocolError(f"a neighbour broker does not send frames of the kind {one[0]}")

    def _routed(self, neighbour: Neighbour, body: memoryview) -> None:
        message, epoch = decode_routed(body)
        self.counters[_IN[type(message)]] += 1
        if not self.is_used(neighbour, epoch):
            self.counters["stale_frames"] += 1  # said before it knew that the link, or the epoch, is not used
            return
        if isinstance(message, Echo):
            self._probing.get((neighbour.link, epoch), {}).pop(message, None)
        self._carry_out(self.epochs.routers[epoch].handle(message, neighbour.link, self.now_s), epoch)
        self._echo_for_others()
        if isinstance(message, Sync):
            self.plans.settle()
        if self.durable is not None and not self.epochs.is_planned(epoch):
            self.durable.outboxes.routed(message, neighbour.link, epoch)

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
                self._request(client, decode_request(memoryview(one)[1:]))
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
            if self.is_used(neighbour, epoch):
                some = frames if end - start == len(frames) else frames.some(slice(start, end))
                self._flow(epoch).handle(some, neighbour.link, None, self.now_s)
            else:  # only what is confirmed hop by hop counts: each says so itself
                for one in frames.some(slice(start, end)):
                    self.event(one, neighbour.link, None)

    def _flow(self, epoch: int) -> Flow:
        router, flow = self.epochs.routers[epoch], self._flows.get(epoch)
        if flow is None or flow.router is not router:
            flow = Flow(router, self.clients, Used(self, epoch), self, epoch)
            for client in self.clients.values():
                flow.client_up(client)
            self._flows = {known: one for known, one in self._flows.items() if known in self.epochs.routers}
            self._flows[epoch] = flow
        return flow

    def event(self, one: bytes, source: Link, client: Client | None) -> None:
        """Handle one event; `flow` does the same with many at once, and leaves here what it cannot."""
        envelope = envelope_of(one)
        if client is not None:
            client.published += 1
        else:
            neighbour = self._neighbours.get(source)
            is_kept = envelope.flags & KEPT and self.durable is not None
            if neighbour is None or not (is_kept or self.is_used(neighbour, envelope.epoch)):
                self.counters["stale_frames"] += 1
                return
            neighbour.received += 1
        try:
            publish = publish_of(one, envelope)
        except EventError as error:
            raise ProtocolError(f"an event cannot be read: {error}") from None
        if client is not None:
            if envelope.publisher != client.number:
                raise ProtocolError("an event has another publisher than the client that sends it")
            allowed = client.permissions.publish
            if allowed is not None and not allowed.matches(publish.event):
                client.refused += 1
                self._reply(
                    client, 0, f"{client.permissions.name} may not publish this event", envelope.number
                )
                return
            if self.sampler is not None and self.sampler.takes(envelope.publisher, envelope.number):
                content = one[ENVELOPE.size : ENVELOPE.size + envelope.content_length]
                name = (envelope.publisher, envelope.number)
                self.sampler.record(*name, family_of(envelope), content, self.time_s)
        if envelope.flags & KEPT:
            if self.durable is not None:
                self.durable.arrived(one, envelope, publish, source)
                return
            confirm_without_store(client or self._neighbours[source], envelope)
            if client is not None:
                return
        epoch = envelope.epoch if client is None else self.epochs.current
        router = self.epochs.routers[epoch]
        is_sampled = self.sampler is not None and self.sampler.takes(envelope.publisher, envelope.number)
        distance = router.distance_of(publish, source) if is_sampled else None
        outputs = router.handle(publish, source, self.now_s)
        if distance is not None:
            self._sample(outputs, envelope, distance)
        self._carry_out(outputs, epoch, one, envelope)

    def _sample(self, outputs: Sequence[Output], envelope: Envelope, distance: float) -> None:
        assert self.sampler is not None, "it has taken the event"
        for output in outputs:
            if isinstance(output, Deliver):
                name = (envelope.publisher, envelope.number)
                self.sampler.delivered(*name, output.keys, distance, self.time_s)

    # -- requests --------------------------------------------------------------------------------------------

    def _request(self, client: Client, request: Request) -> None:
        self.counters[_ASKED[type(request)]] += 1
        try:
            _REQUESTS[type(request)](self, client, request)
        except ProtocolError:
            raise
        except CoveyError as error:
            self._reply(client, request.request, str(error))

    def _reply(self, client: Client, request: int, error: str = "", event: int = 0) -> None:
        # Behind the events that were delivered before: after the answer, what was asked for holds for all that come.
        client.port.send(Kind.REPLY, encode(Reply(request, error, event)), barrier=True)

    def _subscribe(self, client: Client, request: SubscribeRequest) -> None:
        if request.sid <= client.last_sid:
            raise ProtocolError(f"the subscription {request.sid} comes after {client.last_sid}")
        client.last_sid = request.sid
        if len(client.keys) >= self.limits.subscriptions:
            raise CoveyError(f"a client may have {self.limits.subscriptions:,} subscriptions here")
        filter = self._allowed(client, request.filter)
        if request.durable:
            subscribe(self.durable, client, request, filter, self._answer_to(client, request.request))
            return
        self._add(client, request.sid, filter)
        self._reply(client, request.request)

    def _answer_to(self, client: Client, request: int) -> Callable[[str], None]:
        return lambda error: self._reply(client, request, error)

    def _allowed(self, client: Client, encoded: bytes) -> Filter:
        filter = decode_filter(encoded)
        allowed = client.permissions.subscribe
        if allowed is not None and not allowed.covers(filter):
            client.refused += 1
            raise AccessError(f"{client.permissions.name} may not subscribe to {filter!s:.80}")
        return filter

    def _add(self, client: Client, sid: int, filter: Filter) -> None:
        key = client.keys[sid] = client.key_of(sid)
        self.drive(Subscribe(key, filter), client.link)

    def _replace(self, client: Client, request: ReplaceRequest) -> None:
        old = client.keys.get(request.sid)
        if old is None and self.durable is not None:
            filter = self._allowed(client, request.filter)
            if replace(self.durable, client, request.sid, filter, self._answer_to(client, request.request)):
                return
        if old is None:
            raise ProtocolError(f"there is no subscription {request.sid}")
        filter = self._allowed(client, request.filter)
        client.replaced += 1
        self._add(client, request.sid, filter)
        self.drive(Unsubscribe(old), client.link)
        self._reply(client, request.request)

    def _unsubscribe(self, client: Client, request: UnsubscribeRequest) -> None:
        key = client.keys.pop(request.sid, None)
        if key is None and self.durable is not None:
            unsubscribe(self.durable, client, request, self._answer_to(client, request.request))
            return
        if key is None:
            raise ProtocolError(f"there is no subscription {request.sid}")
        self.drive(Unsubscribe(key), client.link)
        self._reply(client, request.request)

    def _advertise(self, client: Client, request: AdvertiseRequest) -> None:
        if len(client.advertised) >= self.limits.advertisements:
            raise CoveyError(f"a client may have {self.limits.advertisements:,} advertisements here")
        if request.aid in client.advertised:
            raise ProtocolError(f"there is an advertisement {request.aid} already")
        filter = decode_filter(request.filter)
        allowed = client.permissions.publish
        if allowed is not None and not allowed.covers(filter):
            client.refused += 1
            raise AccessError(f"{client.permissions.name} may not publish all that it advertises")
        key = client.advertised[request.aid] = f"{client.link}!{request.aid:x}"
        self.drive(Advertise(key, filter), client.link)
        if self.durable is not None:
            self.durable.advertised(client.link)
        self._reply(client, request.request)

    def _unadvertise(self, client: Client, request: UnadvertiseRequest) -> None:
        key = client.advertised.pop(request.aid, None)
        if key is None:
            raise ProtocolError(f"there is no advertisement {request.aid}")
        self.drive(Unadvertise(key), client.link)
        self._reply(client, request.request)

    def _flush(self, client: Client, request: FlushRequest) -> None:
        probe = f"{client.link}?{request.request:x}"
        client.flushes[probe] = request.request
        probed = self.router.handle(Probe(probe), client.link, self.now_s)
        self.carry_out_all([(self.epochs.current, probed)])

    # -- outputs ---------------------------------------------------------------------------------------------

    def drive(self, message: Message, source: Link) -> None:
        """Tell the routers of all epochs something, and carry out what they answer."""
        self.carry_out_all(self.epochs.handle(message, source, self.now_s))

    def carry_out_all(self, outputs: Outputs) -> None:
        """Carry out what the routers of several epochs say."""
        for epoch, some in outputs:
            self._carry_out(some, epoch)
        self._echo_for_others()

    def _echo_for_others(self) -> None:
        """Echo probes in place of neighbours that are away: whoever asks is answered by those who are there."""
        while self._echoes:
            link, epoch, echo = self._echoes.pop()
            if epoch in self.epochs.routers:
                self._carry_out(self.epochs.routers[epoch].handle(echo, link, self.now_s), epoch)

    def _carry_out(
        self, outputs: Sequence[Output], epoch: int, one: bytes = b"", envelope: Envelope | None = None
    ) -> None:
        for output in outputs:
            if isinstance(output, Deliver):
                self.deliver(output, one)
            elif output.link in self.clients:
                self._answer(self.clients[output.link], output)
            elif output.link == OWN:
                assert isinstance(output.message, Echo), "a broker itself asks for nothing else"
                self.plans.echoed(output.message.id)
            elif output.link == SURE and self.durable is not None:
                assert isinstance(output.message, Echo), "nor does what is durable"
                self.durable.sure.echoed(output.message.id)
            else:
                self._send(output, epoch, one, envelope)

    def _send(self, output: Send, epoch: int, one: bytes, envelope: Envelope | None) -> None:
        neighbour = self._neighbours.get(output.link)
        message = output.message
        is_used = neighbour is not None and self.is_used(neighbour, epoch)
        if isinstance(message, Probe):
            echo = Echo(message.id, message.tree)
            if is_used:
                self._probing.setdefault((output.link, epoch), {})[echo] = None
            else:
                self._echoes.append((output.link, epoch, echo))
        if neighbour is None or not is_used:
            return
        if isinstance(message, Publish):
            assert envelope is not None, "an event is sent on when one has come"
            neighbour.sent += 1
            neighbour.port.send_events(_framed(forwarded(one, envelope, message, epoch)))
        else:
            barrier = isinstance(message, _BEHIND_EVENTS)
            self.counters[_OUT[type(message)]] += 1
            neighbour.port.send(Kind.ROUTE, encode_routed(message, epoch), barrier=barrier)

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
            client.port.send_events(_framed(encode_delivery(one, sids[first : first + MOST_SIDS])))

    def elsewhere(self, link: Link, keys: tuple[Key, ...], frame: bytes) -> None:
        """An event is for subscriptions that no connected client has: for durable ones, or nobody can be told."""
        if self.durable is not None and link == LINK:
            self.durable.deliver(keys, frame)

    def _answer(self, client: Client, output: Send) -> None:
        if isinstance(output.message, Echo):
            request = client.flushes.pop(output.message.id, None)
            if request is not None:
                self._reply(client, request)


def _framed(body: bytes) -> bytes:
    return frame(body[0], body[1:])


_REQUESTS: Final[dict[type, Callable[..., None]]] = {
    SubscribeRequest: Exchange._subscribe,
    ReplaceRequest: Exchange._replace,
    UnsubscribeRequest: Exchange._unsubscribe,
    AdvertiseRequest: Exchange._advertise,
    UnadvertiseRequest: Exchange._unadvertise,
    FlushRequest: Exchange._flush,
}

# What is counted: control messages by kind and direction, and requests.
_IN: Final = {kind: f"control_in_{kind.__name__.lower()}" for kind in get_args(Routed)}
_OUT: Final = {kind: f"control_out_{kind.__name__.lower()}" for kind in get_args(Routed)}
_ASKED: Final = {kind: f"request_{kind.__name__.removesuffix('Request').lower()}" for kind in _REQUESTS}
