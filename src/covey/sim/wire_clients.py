"""Clients of whole simulated brokers: each talks to its broker in frames over a stream, as a live client does.

A client that loses its connection dials again, unless the broker has said that this is of no use; it says again what it
wants, then what was not confirmed. What it is told to do while it is not connected waits for that. A client can stop
reading, so that its broker has to wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from covey.broker.config import MAX_LINK_FRAME
from covey.broker.effects import Ending
from covey.core.filter import Filter
from covey.protocol.connection import Closing, Connection
from covey.protocol.control import (
    OURS,
    AdvertiseRequest,
    FlushRequest,
    Goodbye,
    Hello,
    Request,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
    Welcome,
    decode_life,
    decode_reply,
    encode,
)
from covey.protocol.events import (
    ENVELOPE,
    KEPT,
    decode_content,
    decode_taken,
    delivery_of,
    encode_acknowledge,
    encode_content,
    encode_event,
    envelope_of,
    family_of,
)
from covey.protocol.frames import Kind, framed
from covey.protocol.outbox import Bounds
from covey.sim.engine import Engine
from covey.sim.streams import End, Streams

AGAIN_S: Final = 0.25  # after which a client dials again
STOPPED: Final = "the client does not read"

_ENDINGS: Final = {
    Closing.SHUT_WRITE: Ending.SHUT,
    Closing.CLOSE: Ending.CLOSE,
    Closing.ABORT: Ending.ABORT,
}


@dataclass(eq=False)
class Subscription:
    """A consumer's interest; a durable one has a name."""

    filter: Filter
    client: Client
    durable: str = ""
    sid: int = 0  # on the present connection
    refused: str = ""  # why the broker did not grant it
    asked_s: float = 0.0  # on the present connection
    is_granted: bool = False
    granted_s: float = 0.0
    is_taken_over: bool = False  # by another connection: it is not asked for again

    @property
    def broker(self) -> str:
        """The broker where it is."""
        return self.client.broker

    def __repr__(self) -> str:
        return f"<subscription of {self.client.name} at {self.broker}: {self.filter}>"


@dataclass(eq=False)
class Advertisement:
    """A producer's announcement."""

    filter: Filter
    client: Client
    aid: int = 0
    is_granted: bool = False  # on the present connection

    @property
    def broker(self) -> str:
        """The broker where it is."""
        return self.client.broker

    def __repr__(self) -> str:
        return f"<advertisement of {self.client.name} at {self.broker}: {self.filter}>"


@dataclass(eq=False)
class Published:
    """An event that a client was told to publish, and what has become of it."""

    content: Any
    payload: bytes
    confirm: bool
    is_confirmed: bool = False
    refused: str | None = None  # why the broker did not take it


class Delivery(NamedTuple):
    """An event as a subscription gets it: its name is that of the publishing connection and its number there."""

    subscription: Subscription
    content: Any
    payload: bytes
    name: tuple[int, int]
    position: int | None  # in the queue of a durable subscription
    connection: int  # of the client, counted


Delivered = Callable[[Delivery], None]


class Client:
    """A client of one broker; see the module's text. `dial` has it connected, once that is possible."""

    def __init__(
        self,
        name: str,
        broker: str,
        engine: Engine,
        streams: Streams,
        dial: Callable[[Client], End | None],
        delivered: Delivered,
        token: str = "",
    ) -> None:
        self.name, self.broker = name, broker
        self._token = token
        self.subscriptions: list[Subscription] = []
        self.advertisements: list[Advertisement] = []
        self.confirmed: list[Any] = []  # contents of events, in the order of their confirmations
        self.refused: list[tuple[Any, str]] = []  # contents of events, None if unknown, and why
        self.on_answer: Callable[[Subscription], None] | None = None  # told whether a subscription is granted
        self.on_send: Callable[[Published, str], None] | None = (
            None  # told of every event that is sent, and where
        )
        self.dialled_s = 0.0  # when the present connection began
        self.acknowledges = True
        self.is_over = False
        self.said = ""  # the last reason that a broker gave for the end of a connection
        self.number = 0  # that it writes on its events, once it is greeted
        self.is_reading = True
        self._engine, self._streams, self._dial, self._delivered_to = engine, streams, dial, delivered
        self._connection: Connection | None = None
        self._end: End | None = None
        self._closing = Closing.NOTHING
        self._answers: dict[int, Callable[[str], None]] = {}  # by request
        self._forgotten: list[Subscription] = []  # durable ones that end, until the broker knows
        self._flushes: list[Callable[[], None]] = []  # that are not answered
        self._unconfirmed: dict[int, Published] = {}
        self._behind: list[Published] = []  # while it is not connected
        self._sent: dict[int, Published] = {}  # on this connection, by number
        self._last = 0  # number of a request, a subscription, an advertisement or an event
        self._connections = 0
        self._timer_s: float | None = None

    # -- what it is told to do -------------------------------------------------------------------------------

    def connect(self) -> None:
        """Dial the broker, again and again."""
        if self.is_over or self._end is not None:
            return
        self._connections += 1
        end = self._dial(self)
        if end is None:
            self._engine.at(self._engine.now_s + AGAIN_S, self.connect)
            return
        self._end, self._closing, self._timer_s = end, Closing.NOTHING, None
        self.dialled_s = self._engine.now_s
        self._connection = Connection(Bounds(), 10.0, self._engine.now_s)
        if not self.is_reading:
            self._connection.hold(STOPPED, self._engine.now_s)
        hello = Hello(OURS.oldest, "client", self.name, token=self._token, newest=OURS.newest)
        self._connection.send(Kind.HELLO, encode(hello))
        self._flush()

    def disconnect(self) -> None:
        """End the connection in order, for good."""
        self.is_over = True
        if self._connection is not None:
            self._connection.finish("the client is done")
            self._flush()

    def come_back(self) -> None:
        """Connect again after the end of the connection, or the refusal of it, was for good."""
        if self.is_over and self._end is None:
            self.is_over = False
            self.connect()

    def move(self, broker: str) -> None:
        """Go on at another broker; of what the client has at the old one, only what is durable stays."""
        self.broker = broker
        self._forgotten.clear()  # the old broker does not hear of it
        self.drop()

    def drop(self) -> None:
        """Lose the connection, with all that is under way; the client comes back."""
        if self._end is not None:
            self._streams.cut(self._end, "the connection was cut")

    @property
    def end(self) -> End | None:
        """Its end of the present connection."""
        return self._end

    def stop_reading(self) -> None:
        """Leave what comes in the stream."""
        self.is_reading = False
        if self._connection is not None:
            self._connection.hold(STOPPED, self._engine.now_s)

    def read_again(self) -> None:
        """Read what has come meanwhile."""
        self.is_reading = True
        if self._connection is not None and self._end is not None:
            self._connection.go_on(STOPPED, self._engine.now_s)
            self._streams.read(self._end)

    def connection(self) -> int:
        """Return the number of the present connection, for its end."""
        return self._connections

    def subscribe(self, subscription: Subscription) -> None:
        """Ask for what a subscription wants, now and on every new connection."""
        self.subscriptions.append(subscription)
        if self.is_greeted:
            self._ask_for(subscription)

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription; what a durable one has stored is deleted."""
        self.subscriptions.remove(subscription)
        if subscription.durable:
            self._forgotten.append(subscription)
        if self.is_greeted:
            self._forget(subscription)

    def advertise(self, advertisement: Advertisement) -> None:
        """Announce what it may publish, now and on every new connection."""
        self.advertisements.append(advertisement)
        if self.is_greeted:
            self._announce(advertisement)

    def unadvertise(self, advertisement: Advertisement) -> None:
        """Revoke an announcement."""
        self.advertisements.remove(advertisement)
        if self.is_greeted:
            self._ask(UnadvertiseRequest(self._next(), advertisement.aid))

    def publish(self, one: Published) -> None:
        """Publish an event; one that is to be confirmed is sent again on each connection until it is."""
        if self.is_greeted:
            self._send_event(one)
        else:
            self._behind.append(one)

    def flush(self, flushed: Callable[[], None]) -> None:
        """Call back once all that was asked for before is in force, on this connection or a later one."""
        self._flushes.append(flushed)
        if self.is_greeted:
            self._ask_flush(flushed)

    @property
    def is_greeted(self) -> bool:
        """Whether its broker has welcomed it on the present connection."""
        return self.number != 0

    @property
    def unconfirmed(self) -> int:
        """How many events it has published that are to be confirmed and are not."""
        return len(self._unconfirmed) + sum(one.confirm for one in self._behind)

    @property
    def is_forgetting(self) -> bool:
        """Whether it has asked its broker to forget a durable subscription, and was not answered."""
        return bool(self._forgotten)

    @property
    def is_waiting(self) -> bool:
        """Whether its broker owes it an answer to a request."""
        return bool(self._answers)

    # -- requests and events ---------------------------------------------------------------------------------

    def _next(self) -> int:
        self._last += 1
        return self._last

    def _ask(self, request: Request, answered: Callable[[str], None] = lambda error: None) -> None:
        self._answers[request.request] = answered
        self._send(Kind.REQUEST, encode(request))

    def _ask_for(self, one: Subscription) -> None:
        def answered(error: str) -> None:
            one.refused, one.is_granted, one.granted_s = error, not error, self._engine.now_s
            if self.on_answer is not None:
                self.on_answer(one)

        one.sid, one.is_granted, one.asked_s = self._next(), False, self._engine.now_s
        self._ask(SubscribeRequest(self._next(), one.sid, one.filter.encode(), one.durable), answered)

    def _forget(self, one: Subscription) -> None:
        def answered(error: str) -> None:
            if one in self._forgotten:
                self._forgotten.remove(one)

        self._ask(UnsubscribeRequest(self._next(), one.sid, bool(one.durable)), answered)

    def _ask_flush(self, flushed: Callable[[], None]) -> None:
        def answered(error: str) -> None:
            self._flushes.remove(flushed)
            flushed()

        self._ask(FlushRequest(self._next()), answered)

    def _announce(self, one: Advertisement) -> None:
        def answered(error: str) -> None:
            one.is_granted = not error

        one.aid, one.is_granted = self._next(), False
        self._ask(AdvertiseRequest(self._next(), one.aid, one.filter.encode()), answered)

    def _send_event(self, one: Published) -> None:
        number = self._next()
        self._sent[number] = one
        if self.on_send is not None:
            self.on_send(one, self.broker)
        if one.confirm:
            self._unconfirmed[number] = one
        family, content = encode_content(one.content)
        flags = KEPT if one.confirm else 0
        event = encode_event(
            content, one.payload, family=family, publisher=self.number, number=number, flags=flags
        )
        assert self._connection is not None, "it is greeted"
        self._connection.send_events(framed(event))
        self._flush()

    # -- what it hears ---------------------------------------------------------------------------------------

    def received(self, number: int, data: bytes) -> None:
        """Bytes have come."""
        if self._connection is not None:
            for one in self._connection.receive(data, self._engine.now_s):
                self._hear(one)
            self._flush()

    def heard_eof(self, number: int) -> None:
        """The broker sends nothing more."""
        if self._connection is not None:
            self._connection.receive_eof()
            self._flush()

    def paused(self, number: int, is_paused: bool) -> None:
        """The stream holds enough, or takes more again."""
        if self._connection is not None:
            if is_paused:
                self._connection.pause_writing()
            else:
                self._connection.resume_writing()
                self._flush()

    def closed(self, number: int, reason: str) -> None:
        """The connection is gone: dial again."""
        if number != self._connections or self._end is None:
            return
        self._end = self._connection = None
        self.number = 0
        self._answers.clear()
        self._sent.clear()
        for subscription in self.subscriptions:
            subscription.is_granted = False
        if not self.is_over:
            self._engine.at(self._engine.now_s + AGAIN_S, self.connect)

    def _hear(self, one: bytes) -> None:
        kind, body = one[0], memoryview(one)[1:]
        if kind == Kind.WELCOME or kind == Kind.GOODBYE:
            said = decode_life(body)
            if isinstance(said, Welcome):
                self._welcomed(said)
            elif isinstance(said, Goodbye) and self._connection is not None:
                self.said = said.reason
                self.number = 0
                self.is_over |= not said.retry
                self._connection.finish(said.reason, heard_all=True)
        elif kind == Kind.REPLY:
            reply = decode_reply(body)
            if reply.event:
                refused = self._sent.get(reply.event)
                self._unconfirmed.pop(reply.event, None)
                if refused is not None:
                    refused.refused = reply.error
                self.refused.append((None if refused is None else refused.content, reply.error))
            elif reply.request in self._answers:
                self._answers.pop(reply.request)(reply.error)
            elif not reply.request:
                for subscription in self.subscriptions:
                    if subscription.durable and f" {subscription.durable} " in reply.error:
                        subscription.is_taken_over = True
        elif kind == Kind.TAKEN:
            for _, number in decode_taken(one[1:]):
                taken = self._unconfirmed.pop(number, None)
                if taken is not None:
                    taken.is_confirmed = True
                    self.confirmed.append(taken.content)
        elif kind == Kind.DELIVERY:
            self._delivered(one)

    def _welcomed(self, said: Welcome) -> None:
        assert self._connection is not None, "it was heard on one"
        self._connection.version = OURS.newest
        self._connection.greeted(MAX_LINK_FRAME, said.lease_s, self._engine.now_s)
        self.number = said.number
        for advertisement in self.advertisements:
            self._announce(advertisement)
        for subscription in self.subscriptions:
            if not subscription.is_taken_over:
                self._ask_for(subscription)
        for subscription in self._forgotten:
            self._ask_for(subscription)  # it has to be there to be forgotten
            self._forget(subscription)
        for flushed in self._flushes:
            self._ask_flush(flushed)
        again, self._unconfirmed = [*self._unconfirmed.values(), *self._behind], {}
        self._behind = []
        for event in again:
            self._send_event(event)

    def _delivered(self, frame: bytes) -> None:
        delivery = delivery_of(frame)
        envelope = envelope_of(delivery.event)
        last = ENVELOPE.size + envelope.content_length
        content = decode_content(family_of(envelope), delivery.event[ENVELOPE.size : last])
        payload = delivery.event[last + envelope.notes_length :]
        name = envelope.publisher, envelope.number
        for one in self.subscriptions:
            if one.sid in delivery.sids:
                self._delivered_to(
                    Delivery(one, content, payload, name, delivery.position, self._connections)
                )
        if delivery.position is not None and self.acknowledges:
            body = encode_acknowledge(delivery.sids[0], [delivery.position], cumulative=False)
            self._send(Kind.ACKNOWLEDGE, body)

    # -- bytes and time --------------------------------------------------------------------------------------

    def _send(self, kind: int, body: bytes) -> None:
        if self._connection is not None:
            self._connection.send(kind, body, barrier=True)
            self._flush()

    def _flush(self) -> None:
        connection, end, now_s = self._connection, self._end, self._engine.now_s
        if connection is None or end is None:
            return
        while chunks := connection.to_send(now_s):
            self._streams.write(end, b"".join(chunks))
        if connection.closing > self._closing:
            self._closing = connection.closing
            self._streams.end(end, _ENDINGS[connection.closing])
        due_s = connection.next_timeout()
        if due_s is not None and (self._timer_s is None or due_s < self._timer_s):
            self._timer_s = due_s
            self._engine.at(due_s, self._on_timeout, due_s, self._connections)

    def _on_timeout(self, due_s: float, connections: int) -> None:
        if self._timer_s == due_s and connections == self._connections:
            self._timer_s = None
            if self._connection is not None:
                self._connection.on_timeout(self._engine.now_s)
                self._flush()
