"""Sessions: the clients that are attached to a broker, what they ask for beside publishing, and how they leave.

Each request is answered once. What a client may not say is a ProtocolError, upon which its link ends. A wish that
cannot be granted (limits, the client's permissions, no store) is answered with the reason and harms nobody.

Cost. A filter is judged by its wire form before anything is made of it (`core.costs`): its work is bounded for each
filter, its memory for all filters of a client together. What a subscription or advertisement takes is free again when
it ends. Durable subscriptions count for the client whose name they have, whether it is connected or not.

Departure. A client that leaves gets no event from that moment on. Its subscriptions and advertisements are withdrawn in
slices (`work`), as there may be a hundred thousand, and its link goes down in the routers at the end. Between slices
the routers are as if the client had withdrawn some of them itself.

Revocation. Permissions are read when the broker starts and again on SIGHUP. Everything that was granted before is then
judged as if it were asked for now:

    connected clients       one whose user or token is gone or has another secret, or that has a subscription or an
                            advertisement that is no longer allowed, loses what is not allowed, and its link ends with
                            the reason. It may come back: it must prove who it is, and gets what is still allowed
    durable subscriptions   one whose owner no longer exists, or may no longer subscribe to all that its filter matches,
                            ends, and its queue is removed, whether its client is connected or not (`durable_requests`)
    events                  are judged by the new permissions from the next one on, also those that wait in the inbox;
                            those that wait to be sent to a client that loses something are dropped

A client whose subscriptions and advertisements are all still allowed stays connected.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from covey.broker.actions import (
    Actions,
    ClientAdvertised,
    Close,
    Departed,
    DurableRequest,
    Say,
    Send,
    Tell,
    Work,
)
from covey.broker.plans import Epochs
from covey.broker.security import EVERYTHING, Allowed, Permissions, allows
from covey.core.costs import SHORT, cost_of
from covey.core.families import decode as decode_filter
from covey.core.filter import Filter
from covey.core.work import ACCOUNT
from covey.errors import AccessError, CoveyError, ProtocolError
from covey.protocol.connection import Outlet
from covey.protocol.control import (
    AdvertiseRequest,
    FlushRequest,
    ReplaceRequest,
    Reply,
    Request,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
    encode_reply,
    kind_of,
)
from covey.protocol.frames import Kind
from covey.routing.messages import (
    Advertise,
    Echo,
    Key,
    Link,
    LinkDown,
    LinkUp,
    Message,
    Probe,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from covey.routing.router import Router

SLICE: Final = 16  # subscriptions that are withdrawn at a time, if nobody has to be told
SLICE_UNITS: Final = 150.0  # of work (`core.work`), beyond which fewer are
COST_BYTE: Final = 0.1  # units, of what a filter costs to be judged, for each of its bytes


@dataclass(frozen=True)
class Limits:
    """What one client may hold here."""

    subscriptions: int = 100_000
    advertisements: int = 1_000
    filter_cost: int = 10_000  # units of work of one filter
    bytes: int = 1 << 30  # of memory of all filters together


class Flush(NamedTuple):
    """A request to hear when all is in force, and the router whose echo tells that."""

    request: int
    router: Router


@dataclass
class Session:
    """A client that is attached here, and what the broker remembers of it beside the router."""

    link: Link
    number: int  # that it writes on its events
    outlet: Outlet
    permissions: Permissions = EVERYTHING
    name: str = ""  # that it has given itself; durable subscriptions are found by it
    keys: dict[int, Key] = field(default_factory=dict)  # of its subscriptions
    advertised: dict[int, Key] = field(default_factory=dict)
    costs: dict[Key, int] = field(default_factory=dict)  # bytes of what is in force, by key
    bytes: int = 0  # of all of them
    last_sid: int = 0
    replaced: int = 0
    flushes: dict[str, Flush] = field(default_factory=dict)  # by the probe that answers them
    published: int = 0
    delivered: int = 0
    refused: int = 0

    def key_of(self, sid: int) -> Key:
        """Return a new key for a subscription; after its filter was replaced it has another one."""
        again = f"-{self.replaced:x}" if sid in self.keys else ""
        return f"{self.link}/{sid:x}{again}"

    def sid_of(self, key: Key) -> int | None:
        """Return the number of the subscription that has the key now, None if there is none."""
        number = key[len(self.link) + 1 :].partition("-")[0]
        try:
            sid = int(number, 16)
        except ValueError:
            return None
        return sid if self.keys.get(sid) == key else None

    def spend(self, key: Key, more: int) -> None:
        """Note what a subscription or advertisement takes."""
        self.costs[key] = more
        self.bytes += more

    def free(self, key: Key) -> Key:
        """Note that a subscription or advertisement ends; return its key."""
        self.bytes -= self.costs.pop(key)
        return key

    def answer(self, request: int, error: CoveyError) -> None:
        """Answer a request that is refused."""
        # Behind the events that were delivered before: after the answer, what was asked for holds for all that come.
        self.outlet.send(
            Kind.REPLY, encode_reply(Reply(request, str(error), kind=kind_of(error))), barrier=True
        )

    def refuse(self, event: int, reason: str, kind: str = "") -> None:
        """Tell it that an event of its own is not taken; `kind` is that of a Reply."""
        self.refused += 1
        self.outlet.send(Kind.REPLY, encode_reply(Reply(0, reason, event, kind)))


class Sessions:
    """The sessions of one broker; see the module's text. A part: its methods yield what the owner is to do."""

    def __init__(self, epochs: Epochs, limits: Limits, counters: Counter[str]) -> None:
        self._epochs = epochs
        self._counters = counters  # of requests, by kind
        self.limits = limits
        self.connected: dict[Link, Session] = {}
        self._departures: dict[Link, Iterator[Message]] = {}  # what routers are still to hear of who has left

    # -- coming and going ------------------------------------------------------------------------------------

    def admit(self, session: Session) -> Actions:
        """A client has proved who it is."""
        self.connected[session.link] = session
        yield Tell(LinkUp(client=True), session.link)

    def depart(self, link: Link) -> Actions:
        """A client is gone, and with it what it asked for: from now on nothing is delivered to it."""
        session = self.connected.pop(link)
        self._departures[link] = _withdrawals(session)
        yield from self._withdraw(link)
        if self.has_work:
            yield Work()

    @property
    def has_work(self) -> bool:
        """Whether `work` has something to do."""
        return bool(self._departures)

    def work(self) -> Actions:
        """Do one slice of what departures take; to be called until `has_work` is False, with other input in between."""
        for link in list(self._departures)[:1]:
            yield from self._withdraw(link)

    def _withdraw(self, link: Link) -> Actions:
        before, count = ACCOUNT.units, 0
        for message in islice(self._departures[link], SLICE):
            yield Tell(message, link)
            count += 1
            if ACCOUNT.units - before >= SLICE_UNITS:
                return
        if count < SLICE:
            del self._departures[link]
            yield Tell(LinkDown(), link)
            yield Departed(link)

    # -- requests --------------------------------------------------------------------------------------------

    def request(self, session: Session, request: Request, stored_bytes: int = 0) -> Actions:
        """Do what a client asks for, and answer; ProtocolError if it may not ask so.

        `stored_bytes` is what its durable subscriptions take.
        """
        self._counters[_COUNTERS[type(request)]] += 1
        try:
            yield from _HANDLERS[type(request)](self, session, request, stored_bytes)
        except ProtocolError:
            raise
        except CoveyError as error:
            yield _reply(session, request.request, error)

    def echoed(self, link: Link, echo: Echo) -> Actions:
        """A probe of a client has come back: what it asked for is in force everywhere."""
        session = self.connected[link]
        flush = session.flushes.pop(echo.id, None)
        if flush is not None:
            yield _reply(session, flush.request)

    def ask_again(self) -> Actions:
        """Plans have changed: ask again what was asked in an epoch that is retired, where nobody echoes any longer."""
        routers = self._epochs.routers.values()
        for session in list(self.connected.values()):
            for probe, flush in list(session.flushes.items()):
                if not any(flush.router is router for router in routers):
                    yield from self._probe(session, probe, flush.request)

    def check_room(self, session: Session, stored_bytes: int, more: int) -> None:
        """Raise CoveyError unless a client may have filters of so many bytes more."""
        most, used = self.limits.bytes, session.bytes + stored_bytes
        if more > 0 and used + more > most:
            session.refused += 1
            raise CoveyError(
                f"the filter takes {more:,} bytes, and with it all filters of the client {used + more:,}: "
                f"max_client_bytes is {most:,} here"
            )

    def _cost(self, session: Session, encoded: bytes) -> int:
        """Return how many bytes a filter takes; CoveyError if its work is more than one filter may cost."""
        most = self.limits.filter_cost
        cost = cost_of(encoded, most)
        ACCOUNT.spend(COST_BYTE * len(encoded))
        if cost.units > most:
            session.refused += 1
            units = f"{cost.units:,.0f} units or more"
            raise CoveyError(f"the filter costs {units}: max_filter_cost is {most:,} here")
        if len(encoded) > SHORT:  # what a short one takes is in the estimate for its frame
            ACCOUNT.spend(cost.work)
        return cost.bytes

    def _subscribe(self, session: Session, request: SubscribeRequest, stored_bytes: int) -> Actions:
        if request.sid <= session.last_sid:
            raise ProtocolError(f"the subscription {request.sid} comes after {session.last_sid}")
        session.last_sid = request.sid
        if len(session.keys) >= self.limits.subscriptions:
            raise CoveyError(f"a client may have {self.limits.subscriptions:,} subscriptions here")
        more = self._cost(session, request.filter)
        if not request.durable:
            self.check_room(session, stored_bytes, more)
        filter = _allowed(session, request.filter)
        if request.durable:
            yield DurableRequest(session.link, request, filter, more)
            return
        yield _added(session, request.sid, filter, more)
        yield _reply(session, request.request)

    def _replace(self, session: Session, request: ReplaceRequest, stored_bytes: int) -> Actions:
        old = session.keys.get(request.sid)
        more = self._cost(session, request.filter)
        if old is not None:
            self.check_room(session, stored_bytes, more - session.costs[old])
        filter = _allowed(session, request.filter)
        if old is None:
            yield DurableRequest(session.link, request, filter, more)
            return
        session.replaced += 1
        yield _added(session, request.sid, filter, more)
        yield Tell(Unsubscribe(session.free(old)), session.link)
        yield _reply(session, request.request)

    def _unsubscribe(self, session: Session, request: UnsubscribeRequest, stored_bytes: int) -> Actions:
        key = session.keys.pop(request.sid, None)
        if key is None:
            yield DurableRequest(session.link, request)
            return
        yield Tell(Unsubscribe(session.free(key)), session.link)
        yield _reply(session, request.request)

    def _advertise(self, session: Session, request: AdvertiseRequest, stored_bytes: int) -> Actions:
        if len(session.advertised) >= self.limits.advertisements:
            raise CoveyError(f"a client may have {self.limits.advertisements:,} advertisements here")
        if request.aid in session.advertised:
            raise ProtocolError(f"there is an advertisement {request.aid} already")
        more = self._cost(session, request.filter)
        self.check_room(session, stored_bytes, more)
        filter = decode_filter(request.filter)
        if not allows(session.permissions.publish, filter):
            session.refused += 1
            raise AccessError(f"{session.permissions.name} may not publish all that it advertises")
        key = session.advertised[request.aid] = f"{session.link}!{request.aid:x}"
        session.spend(key, more)
        yield Tell(Advertise(key, filter), session.link)
        yield ClientAdvertised()
        yield _reply(session, request.request)

    def _unadvertise(self, session: Session, request: UnadvertiseRequest, stored_bytes: int) -> Actions:
        key = session.advertised.pop(request.aid, None)
        if key is None:
            raise ProtocolError(f"there is no advertisement {request.aid}")
        yield Tell(Unadvertise(session.free(key)), session.link)
        yield _reply(session, request.request)

    def _flush(self, session: Session, request: FlushRequest, stored_bytes: int) -> Actions:
        if request.near:
            yield _reply(session, request.request)
            return
        probe = f"{session.link}?{request.request:x}"
        yield from self._probe(session, probe, request.request)

    def _probe(self, session: Session, probe: str, request: int) -> Actions:
        session.flushes[probe] = Flush(request, self._epochs.router)
        yield Tell(Probe(probe), session.link, self._epochs.current)

    # -- revocation ------------------------------------------------------------------------------------------

    def revoke(self, permissions_of: Callable[[str], Permissions | None]) -> Actions:
        """Judge what clients have by other permissions, by name; None if the credentials they came with are void."""
        for session in list(self.connected.values()):
            yield from self._judge(session, permissions_of(session.permissions.name))

    def _judge(self, session: Session, permissions: Permissions | None) -> Actions:
        name = session.permissions.name
        if permissions == session.permissions:
            return
        if permissions is not None:
            reason = f"{name or 'this client'} may not do all any longer that it has asked for"
            session.permissions = permissions
        else:
            reason = f"the credentials of {name or 'this client'} are not valid any longer"
            session.permissions = Permissions(name, Allowed(()), Allowed(()))
        subscriptions, advertisements = self._forbidden(session)
        if permissions is not None and not subscriptions and not advertisements:
            return
        # At once, and not when the connection has ended: a client that does not read can delay that.
        for sid in subscriptions:
            yield Tell(Unsubscribe(session.free(session.keys.pop(sid))), session.link)
        for aid in advertisements:
            yield Tell(Unadvertise(session.free(session.advertised.pop(aid))), session.link)
        yield Say(logging.WARNING, "permissions cut", {"link": session.link, "user": name, "reason": reason})
        yield Close(session.link, reason, revoked=True)

    def _forbidden(self, session: Session) -> tuple[list[int], list[int]]:
        """Return which subscriptions and advertisements of a client its permissions do not allow."""
        router, permissions = self._epochs.complete, session.permissions
        known: dict[Filter, bool] = {}  # many subscriptions may have one filter

        def may(filter: Filter) -> bool:
            if filter not in known:
                known[filter] = allows(permissions.subscribe, filter)
            return known[filter]

        advertised: dict[Key, Filter] = router.advertised_by(session.link)
        return (
            [sid for sid, key in session.keys.items() if not may(router.local_filter(session.link, key))],
            [
                aid
                for aid, key in session.advertised.items()
                if not allows(permissions.publish, advertised[key])
            ],
        )


def _reply(session: Session, request: int, error: CoveyError | None = None) -> Send:
    # Behind the events that were delivered before: after the answer, what was asked for holds for all that come.
    reply = Reply(request) if error is None else Reply(request, str(error), kind=kind_of(error))
    return Send(session.link, Kind.REPLY, encode_reply(reply), barrier=True)


def _added(session: Session, sid: int, filter: Filter, bytes_: int) -> Tell:
    key = session.keys[sid] = session.key_of(sid)
    session.spend(key, bytes_)
    return Tell(Subscribe(key, filter), session.link)


def _allowed(session: Session, encoded: bytes) -> Filter:
    filter = decode_filter(encoded)
    if not allows(session.permissions.subscribe, filter):
        session.refused += 1
        raise AccessError(f"{session.permissions.name} may not subscribe to {filter!s:.80}")
    return filter


def _withdrawals(session: Session) -> Iterator[Message]:
    """Yield what withdraws all that a client has asked for; neighbours hear the least if the newest goes first."""
    for key in reversed(session.keys.values()):
        yield Unsubscribe(key)
    for key in session.advertised.values():
        yield Unadvertise(key)


_HANDLERS: Final[dict[type, Callable[..., Actions]]] = {
    SubscribeRequest: Sessions._subscribe,
    ReplaceRequest: Sessions._replace,
    UnsubscribeRequest: Sessions._unsubscribe,
    AdvertiseRequest: Sessions._advertise,
    UnadvertiseRequest: Sessions._unadvertise,
    FlushRequest: Sessions._flush,
}
_COUNTERS: Final = {kind: f"request_{kind.__name__.removesuffix('Request').lower()}" for kind in _HANDLERS}
