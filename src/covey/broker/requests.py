"""Requests: what clients ask of a broker beside publishing, each answered once.

What a client may not say is a ProtocolError, upon which its link ends. A wish that cannot be granted (limits, the
client's permissions, no store) is answered with the reason and harms nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from covey.broker.durable.queues import Subscriber
from covey.broker.peers import Client
from covey.core.families import decode as decode_filter
from covey.core.filter import Filter
from covey.errors import AccessError, CoveyError, ProtocolError
from covey.protocol.control import (
    AdvertiseRequest,
    FlushRequest,
    ReplaceRequest,
    Reply,
    Request,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
    encode,
)
from covey.protocol.frames import Kind
from covey.routing.messages import Advertise, Echo, Probe, Subscribe, Unadvertise, Unsubscribe

if TYPE_CHECKING:
    from covey.broker.exchange import Exchange


@dataclass(frozen=True)
class Limits:
    """What one client may hold here."""

    subscriptions: int = 100_000
    advertisements: int = 1_000


def _reply(client: Client, request: int, error: str = "") -> None:
    # Behind the events that were delivered before: after the answer, what was asked for holds for all that come.
    client.outlet.send(Kind.REPLY, encode(Reply(request, error)), barrier=True)


class Requests:
    """The requests of an exchange's clients; see the module's text."""

    def __init__(self, exchange: Exchange, limits: Limits) -> None:
        self._exchange = exchange
        self.limits = limits

    def handle(self, client: Client, request: Request) -> None:
        """Do what a client asks for, and answer; ProtocolError if it may not ask so."""
        self._exchange.counters[_COUNTERS[type(request)]] += 1
        try:
            _HANDLERS[type(request)](self, client, request)
        except ProtocolError:
            raise
        except CoveyError as error:
            _reply(client, request.request, str(error))

    def echoed(self, client: Client, echo: Echo) -> None:
        """A probe of a client has come back: what it asked for is in force everywhere."""
        request = client.flushes.pop(echo.id, None)
        if request is not None:
            _reply(client, request)

    # -- subscriptions ---------------------------------------------------------------------------------------

    def _subscribe(self, client: Client, request: SubscribeRequest) -> None:
        if request.sid <= client.last_sid:
            raise ProtocolError(f"the subscription {request.sid} comes after {client.last_sid}")
        client.last_sid = request.sid
        if len(client.keys) >= self.limits.subscriptions:
            raise CoveyError(f"a client may have {self.limits.subscriptions:,} subscriptions here")
        filter = _allowed(client, request.filter)
        if request.durable:
            exchange = self._exchange
            exchange.perform(exchange.durable.subscribe(_who(client, request), request.durable, filter))
            return
        self._add(client, request.sid, filter)
        _reply(client, request.request)

    def _add(self, client: Client, sid: int, filter: Filter) -> None:
        key = client.keys[sid] = client.key_of(sid)
        self._exchange.drive(Subscribe(key, filter), client.link)

    def _replace(self, client: Client, request: ReplaceRequest) -> None:
        old, exchange = client.keys.get(request.sid), self._exchange
        filter = _allowed(client, request.filter)
        if old is None:  # if there is any, it is durable
            exchange.perform(exchange.durable.replace(_who(client, request), filter))
            return
        client.replaced += 1
        self._add(client, request.sid, filter)
        exchange.drive(Unsubscribe(old), client.link)
        _reply(client, request.request)

    def _unsubscribe(self, client: Client, request: UnsubscribeRequest) -> None:
        key, exchange = client.keys.pop(request.sid, None), self._exchange
        if key is None:
            exchange.perform(exchange.durable.unsubscribe(_who(client, request), request.forget))
            return
        exchange.drive(Unsubscribe(key), client.link)
        _reply(client, request.request)

    # -- advertisements --------------------------------------------------------------------------------------

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
        self._exchange.drive(Advertise(key, filter), client.link)
        self._exchange.durable.client_advertised()
        _reply(client, request.request)

    def _unadvertise(self, client: Client, request: UnadvertiseRequest) -> None:
        key = client.advertised.pop(request.aid, None)
        if key is None:
            raise ProtocolError(f"there is no advertisement {request.aid}")
        self._exchange.drive(Unadvertise(key), client.link)
        _reply(client, request.request)

    # -- flushes ---------------------------------------------------------------------------------------------

    def _flush(self, client: Client, request: FlushRequest) -> None:
        if request.near:
            _reply(client, request.request)
            return
        probe = f"{client.link}?{request.request:x}"
        client.flushes[probe] = request.request
        exchange = self._exchange
        probed = exchange.router.handle(Probe(probe), client.link, exchange.now_s)
        exchange.carry_out_all([(exchange.epochs.current, probed)])


def _allowed(client: Client, encoded: bytes) -> Filter:
    filter = decode_filter(encoded)
    allowed = client.permissions.subscribe
    if allowed is not None and not allowed.covers(filter):
        client.refused += 1
        raise AccessError(f"{client.permissions.name} may not subscribe to {filter!s:.80}")
    return filter


def _who(client: Client, request: SubscribeRequest | ReplaceRequest | UnsubscribeRequest) -> Subscriber:
    return Subscriber(client.link, client.permissions.name, client.name, request.request, request.sid)


_HANDLERS: Final[dict[type, Callable[..., None]]] = {
    SubscribeRequest: Requests._subscribe,
    ReplaceRequest: Requests._replace,
    UnsubscribeRequest: Requests._unsubscribe,
    AdvertiseRequest: Requests._advertise,
    UnadvertiseRequest: Requests._unadvertise,
    FlushRequest: Requests._flush,
}
_COUNTERS: Final = {kind: f"request_{kind.__name__.removesuffix('Request').lower()}" for kind in _HANDLERS}
