"""Exchange: a router, driven by frames; the daemon without its sockets.

It reads what clients and neighbours say, gives it to the router, and carries out what the router answers, all of it at
once and in order. It knows no clock and no sockets: time is an argument, and a link is a `Port`. What a peer may not
say is a ProtocolError, upon which the caller ends that peer's link; a wish that cannot be granted is answered with the
reason, and harms nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from covey.broker.peers import Client, Neighbour
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
    Unadvertise,
    Unsubscribe,
)
from covey.routing.outputs import Deliver, Output, Send
from covey.routing.router import Router
from covey.wire.events import Envelope, encode_delivery, envelope_of, forwarded, publish_of
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

# What must not overtake events: a way that is given up, and what asks whether all before it has arrived.
_BEHIND_EVENTS: Final = (Unadvertise, Probe, Echo)


@dataclass(frozen=True)
class Limits:
    """What one client may hold here."""

    subscriptions: int = 100_000
    advertisements: int = 1_000


_LIMITS: Final = Limits()


class Exchange:
    """One broker without its sockets; see the module's text."""

    def __init__(self, router: Router, limits: Limits = _LIMITS) -> None:
        self.router = router
        self.limits = limits
        self.clients: dict[Link, Client] = {}
        self.neighbours: dict[Link, Neighbour] = {}
        self.counters: Counter[str] = Counter()
        self.now_s = 0.0

    # -- links -----------------------------------------------------------------------------------------------

    def client_up(self, client: Client) -> None:
        """A client has said who it is."""
        self.clients[client.link] = client
        self._drive(LinkUp(client=True), client.link)

    def client_down(self, link: Link) -> None:
        """A client is gone, and with it what it asked for."""
        del self.clients[link]
        self._drive(LinkDown(), link)

    def neighbour_up(self, neighbour: Neighbour) -> None:
        """A neighbour broker has said who it is."""
        self.neighbours[neighbour.link] = neighbour
        self._drive(LinkUp(), neighbour.link)

    def neighbour_down(self, link: Link) -> None:
        """The link to a neighbour is gone."""
        del self.neighbours[link]
        self._drive(LinkDown(), link)

    def congestion(self, on: bool) -> None:
        """More waits to be handled here than should, or no longer."""
        self._drive(Congestion(on), self.router.broker)

    # -- frames ----------------------------------------------------------------------------------------------

    def from_neighbour(self, neighbour: Neighbour, frames: Sequence[bytes]) -> None:
        """Handle what a neighbour sent."""
        for one in frames:
            if one[0] == Kind.EVENT:
                neighbour.received += 1
                self._event(one, neighbour.link)
            elif one[0] == Kind.ROUTE:
                message, _ = decode_routed(memoryview(one)[1:])
                self.counters[_IN[type(message)]] += 1
                self._drive(message, neighbour.link)
            else:
                raise ProtocolError(f"a neighbour broker does not send frames of the kind {one[0]}")

    def from_client(self, client: Client, frames: Sequence[bytes]) -> None:
        """Handle what a client sent."""
        for one in frames:
            if one[0] == Kind.EVENT:
                client.published += 1
                self._event(one, client.link, client)
            elif one[0] == Kind.REQUEST:
                self._request(client, decode_request(memoryview(one)[1:]))
            else:
                raise ProtocolError(f"a client does not send frames of the kind {one[0]}")

    # -- events ----------------------------------------------------------------------------------------------

    def _event(self, one: bytes, source: Link, client: Client | None = None) -> None:
        envelope = envelope_of(one)
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
                self._reply(client, 0, f"{client.permissions.name} may not publish this event")
                return
        self._carry_out(self.router.handle(publish, source, self.now_s), one, envelope)

    # -- requests --------------------------------------------------------------------------------------------

    def _request(self, client: Client, request: Request) -> None:
        self.counters[_ASKED[type(request)]] += 1
        try:
            _REQUESTS[type(request)](self, client, request)
        except ProtocolError:
            raise
        except CoveyError as error:
            self._reply(client, request.request, str(error))

    def _reply(self, client: Client, request: int, error: str = "") -> None:
        client.port.send(Kind.REPLY, encode(Reply(request, error)))

    def _subscribe(self, client: Client, request: SubscribeRequest) -> None:
        if request.sid <= client.last_sid:
            raise ProtocolError(f"the subscription {request.sid} comes after {client.last_sid}")
        client.last_sid = request.sid
        if len(client.keys) >= self.limits.subscriptions:
            raise CoveyError(f"a client may have {self.limits.subscriptions:,} subscriptions here")
        filter = self._allowed(client, request.filter)
        self._add(client, request.sid, f"{client.link}/{request.sid:x}", filter)
        self._reply(client, request.request)

    def _allowed(self, client: Client, encoded: bytes) -> Filter:
        filter = decode_filter(encoded)
        allowed = client.permissions.subscribe
        if allowed is not None and not allowed.covers(filter):
            client.refused += 1
            raise AccessError(f"{client.permissions.name} may not subscribe to {filter!s:.80}")
        return filter

    def _add(self, client: Client, sid: int, key: Key, filter: Filter) -> None:
        client.keys[sid] = key
        client.sids[key] = sid
        self._drive(Subscribe(key, filter), client.link)

    def _replace(self, client: Client, request: ReplaceRequest) -> None:
        old = client.keys.get(request.sid)
        if old is None:
            raise ProtocolError(f"there is no subscription {request.sid}")
        filter = self._allowed(client, request.filter)
        client.replaced += 1
        self._add(client, request.sid, f"{client.link}/{request.sid:x}-{client.replaced:x}", filter)
        self._remove(client, old)
        self._reply(client, request.request)

    def _remove(self, client: Client, key: Key) -> None:
        self._drive(Unsubscribe(key), client.link)
        del client.sids[key]

    def _unsubscribe(self, client: Client, request: UnsubscribeRequest) -> None:
        key = client.keys.pop(request.sid, None)
        if key is None:
            raise ProtocolError(f"there is no subscription {request.sid}")
        self._remove(client, key)
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
        self._drive(Advertise(key, filter), client.link)
        self._reply(client, request.request)

    def _unadvertise(self, client: Client, request: UnadvertiseRequest) -> None:
        key = client.advertised.pop(request.aid, None)
        if key is None:
            raise ProtocolError(f"there is no advertisement {request.aid}")
        self._drive(Unadvertise(key), client.link)
        self._reply(client, request.request)

    def _flush(self, client: Client, request: FlushRequest) -> None:
        probe = f"{client.link}?{request.request:x}"
        client.flushes[probe] = request.request
        self._drive(Probe(probe), client.link)

    # -- outputs ---------------------------------------------------------------------------------------------

    def _drive(self, message: Message, source: Link) -> None:
        self._carry_out(self.router.handle(message, source, self.now_s))

    def _carry_out(
        self, outputs: Sequence[Output], one: bytes = b"", envelope: Envelope | None = None
    ) -> None:
        for output in outputs:
            if isinstance(output, Deliver):
                self._deliver(output, one)
            elif output.link in self.clients:
                self._answer(self.clients[output.link], output)
            else:
                self._send(output, one, envelope)

    def _send(self, output: Send, one: bytes, envelope: Envelope | None) -> None:
        neighbour = self.neighbours.get(output.link)
        if neighbour is None:
            return
        message = output.message
        if isinstance(message, Publish):
            assert envelope is not None, "an event is sent on when one has come"
            neighbour.sent += 1
            neighbour.port.send_events(_framed(forwarded(one, envelope, message)))
        else:
            barrier = isinstance(message, _BEHIND_EVENTS)
            self.counters[_OUT[type(message)]] += 1
            neighbour.port.send(Kind.ROUTE, encode_routed(message), barrier=barrier)

    def _deliver(self, output: Deliver, one: bytes) -> None:
        client = self.clients.get(output.link)
        if client is not None:
            client.delivered += 1
            sids = [client.sids[key] for key in output.keys]
            client.port.send_events(_framed(encode_delivery(one, sids)))

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
