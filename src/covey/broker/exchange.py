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
from typing import Final

from covey.broker.copying import MOST_SIDS
from covey.broker.flow import Flow
from covey.broker.peers import Client, Neighbour
from covey.core.families import decode as decode_filter
from covey.core.filter import Filter
from covey.errors import CoveyError, EventError, ProtocolError
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
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
    decode_request,
    decode_routed,
    encode,
    encode_routed,
)
from covey.wire.splitting import Frames, runs

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
        self._probing: dict[Link, dict[Echo, None]] = {}  # what neighbours have yet to echo
        self._echoes: list[tuple[Link, Echo]] = []  # of probes for neighbours that are away
        self.flow = Flow(router, self.clients, self.neighbours, self)

    # -- links -----------------------------------------------------------------------------------------------

    def client_up(self, client: Client) -> None:
        """A client has said who it is."""
        self.clients[client.link] = client
        self.flow.client_up(client)
        self._drive(LinkUp(client=True), client.link)

    def client_down(self, link: Link) -> None:
        """A client is gone, and with it what it asked for."""
        del self.clients[link]
        self._drive(LinkDown(), link)
        self.flow.client_down(link)

    def neighbour_up(self, neighbour: Neighbour) -> None:
        """A neighbour broker has said who it is."""
        self.neighbours[neighbour.link] = neighbour
        self._drive(LinkUp(), neighbour.link)

    def neighbour_down(self, link: Link) -> None:
        """The router is to forget the link to a neighbour, which may be away already."""
        self.neighbours.pop(link, None)
        self._probing.pop(link, None)
        self._drive(LinkDown(), link)

    def neighbour_away(self, link: Link) -> None:
        """The link to a neighbour is gone, but not what it asked for; nobody waits for its echoes."""
        del self.neighbours[link]
        self._echoes += [(link, echo) for echo in self._probing.pop(link, ())]
        self._echo_for_others()

    def is_open(self, link: Link) -> bool:
        """Return whether a neighbour and this broker have told each other all that they know."""
        return all(
            link in part.neighbours() or link not in part.links_up() for part in self.router.trees.values()
        )

    def congestion(self, on: bool) -> None:
        """More waits to be handled here than should, or no longer."""
        self._drive(Congestion(on), self.router.broker)

    # -- frames ----------------------------------------------------------------------------------------------

    def from_neighbour(self, neighbour: Neighbour, frames: Sequence[bytes]) -> None:
        """Handle what a neighbour sent."""
        for one in runs(frames):
            if isinstance(one, Frames):
                self.flow.handle(one, neighbour.link, None, self.now_s)
            elif one[0] == Kind.EVENT:
                self.event(one, neighbour.link, None)
            elif one[0] == Kind.ROUTE:
                message, _ = decode_routed(memoryview(one)[1:])
                if isinstance(message, Echo):
                    self._probing.get(neighbour.link, {}).pop(message, None)
                self._drive(message, neighbour.link)
            else:
                raise ProtocolError(f"a neighbour broker does not send frames of the kind {one[0]}")

    def from_client(self, client: Client, frames: Sequence[bytes]) -> None:
        """Handle what a client sent."""
        for one in runs(frames):
            if isinstance(one, Frames):
                self.flow.handle(one, client.link, client, self.now_s)
            elif one[0] == Kind.EVENT:
                self.event(one, client.link, client)
            elif one[0] == Kind.REQUEST:
                self._request(client, decode_request(memoryview(one)[1:]))
            else:
                raise ProtocolError(f"a client does not send frames of the kind {one[0]}")

    # -- events ----------------------------------------------------------------------------------------------

    def event(self, one: bytes, source: Link, client: Client | None) -> None:
        """Handle one event; `flow` does the same with many at once, and leaves here what it cannot."""
        if client is not None:
            client.published += 1
        elif source in self.neighbours:
            self.neighbours[source].received += 1
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
        self._add(client, request.sid, filter)
        self._reply(client, request.request)

    def _allowed(self, client: Client, encoded: bytes) -> Filter:
        filter = decode_filter(encoded)
        allowed = client.permissions.subscribe
        if allowed is not None and not allowed.covers(filter):
            raise CoveyError(f"{client.permissions.name} may not subscribe to {filter!s:.80}")
        return filter

    def _add(self, client: Client, sid: int, filter: Filter) -> None:
        key = client.keys[sid] = client.key_of(sid)
        self._drive(Subscribe(key, filter), client.link)

    def _replace(self, client: Client, request: ReplaceRequest) -> None:
        old = client.keys.get(request.sid)
        if old is None:
            raise ProtocolError(f"there is no subscription {request.sid}")
        filter = self._allowed(client, request.filter)
        client.replaced += 1
        self._add(client, request.sid, filter)
        self._drive(Unsubscribe(old), client.link)
        self._reply(client, request.request)

    def _unsubscribe(self, client: Client, request: UnsubscribeRequest) -> None:
        key = client.keys.pop(request.sid, None)
        if key is None:
            raise ProtocolError(f"there is no subscription {request.sid}")
        self._drive(Unsubscribe(key), client.link)
        self._reply(client, request.request)

    def _advertise(self, client: Client, request: AdvertiseRequest) -> None:
        if len(client.advertised) >= self.limits.advertisements:
            raise CoveyError(f"a client may have {self.limits.advertisements:,} advertisements here")
        if request.aid in client.advertised:
            raise ProtocolError(f"there is an advertisement {request.aid} already")
        filter = decode_filter(request.filter)
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
        self._echo_for_others()

    def _echo_for_others(self) -> None:
        """Echo probes in place of neighbours that are away: whoever asks is answered by those who are there."""
        while self._echoes:
            link, echo = self._echoes.pop()
            self._carry_out(self.router.handle(echo, link, self.now_s))

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
        message = output.message
        if isinstance(message, Probe):
            echo = Echo(message.id, message.tree)
            if neighbour is None:
                self._echoes.append((output.link, echo))
            else:
                self._probing.setdefault(output.link, {})[echo] = None
        if neighbour is None:
            return
        if isinstance(message, Publish):
            assert envelope is not None, "an event is sent on when one has come"
            neighbour.sent += 1
            neighbour.port.send_events(_framed(forwarded(one, envelope, message)))
        else:
            barrier = isinstance(message, _BEHIND_EVENTS)
            neighbour.port.send(Kind.ROUTE, encode_routed(message), barrier=barrier)

    def _deliver(self, output: Deliver, one: bytes) -> None:
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
        """An event is for subscriptions that no connected client has: nobody can be told."""

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
