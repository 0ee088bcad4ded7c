"""The client: one connection to a broker, on which everything of a program travels.

async with covey.connect("covey://127.0.0.1:7400") as client:
    await client.publish({"symbol": "IBM", "price": 12}, data=b"...")
    async with client.subscribe("price > 10") as events:
        async for event in events:
            print(event["symbol"], event.data)
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from covey.client.received import Received
from covey.core.families import parse
from covey.core.filter import Filter
from covey.errors import ConfigError, CoveyError, ProtocolError
from covey.wire.connection import Connection
from covey.wire.events import delivery_of, encode_content, encode_event
from covey.wire.frames import VERSION, Kind, frame
from covey.wire.lanes import BLOCK, Bounds
from covey.wire.messages import (
    AdvertiseRequest,
    FlushRequest,
    Goodbye,
    Hello,
    SubscribeRequest,
    UnsubscribeRequest,
    Welcome,
    decode_life,
    decode_reply,
    encode,
)


class Subscription:
    """Events that match a filter: an async context manager and an async iterator."""

    def __init__(self, client: Client, filter: Filter) -> None:
        self._client = client
        self.filter = filter
        self.sid = 0
        self._pending: deque[Received] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False

    async def __aenter__(self) -> Subscription:
        self.sid = self._client._next_sid()
        self._client._subscriptions[self.sid] = self
        await self._client._request(SubscribeRequest, self.sid, self.filter.encode())
        return self

    async def __aexit__(self, *error: object) -> None:
        self._end()
        if self._client._subscriptions.pop(self.sid, None) is not None and self._client.is_open:
            await self._client._request(UnsubscribeRequest, self.sid)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Received:
        while not self._pending:
            if self._ended:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._pending.popleft()

    def _put(self, event: Received) -> None:
        self._pending.append(event)
        self._wake()

    def _end(self) -> None:
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Client:
    """A program's connection to the network; see the module's text."""

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        user: str = "",
        password: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme != "covey" or not parts.hostname:
            raise ConfigError(f"{url!r:.80} is no address of a broker (hint: covey://127.0.0.1:7400)")
        self._host, self._port = parts.hostname, parts.port or 7400
        self._hello = Hello(VERSION, "client", token=token, user=user, password=password)
        self._tls = tls
        self._connection: Connection | None = None
        self._welcome: asyncio.Future[Welcome]
        self._number = 0
        self._published = 0
        self._sid = 0
        self._requests: dict[int, asyncio.Future[None]] = {}
        self._last_request = 0
        self._subscriptions: dict[int, Subscription] = {}
        self._room: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Client:
        loop = asyncio.get_running_loop()
        self._welcome = loop.create_future()
        try:
            _, self._connection = await loop.create_connection(
                lambda: Connection(self, Bounds(100_000, 8 << 20, BLOCK)),
                self._host,
                self._port,
                ssl=self._tls,
            )
        except OSError as error:
            raise CoveyError(f"no broker answers at {self._host}:{self._port}: {error}") from None
        self._connection.send(Kind.HELLO, encode(self._hello))
        welcome = await self._welcome
        self._number = welcome.number
        self._connection.greeted(max(welcome.max_frame, 1 << 20) + 4096, welcome.lease_s)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.end("the client is done")

    @property
    def is_open(self) -> bool:
        """Whether the broker can be talked to."""
        return self._connection is not None and self._connection.is_open

    # -- what a program asks for -----------------------------------------------------------------------------

    async def publish(self, content: Any, data: bytes = b"") -> None:
        """Publish an event."""
        family, encoded = encode_content(content)
        self._published += 1
        one = encode_event(encoded, data, family=family, publisher=self._number, number=self._published)
        if self._room is not None:
            await self._room
        assert self._connection is not None
        verdict = self._connection.send_events(frame(one[0], one[1:]))
        if verdict.name == "FULL":
            self._room = asyncio.get_running_loop().create_future()

    def subscribe(self, filter: Filter | str, language: str = "attributes") -> Subscription:
        """Return a subscription, which begins when it is entered."""
        return Subscription(self, parse(filter, language) if isinstance(filter, str) else filter)

    async def advertise(self, filter: Filter | str, language: str = "attributes") -> None:
        """Say what this client may publish."""
        known = parse(filter, language) if isinstance(filter, str) else filter
        await self._request(AdvertiseRequest, self._next_sid(), known.encode())

    async def flush(self) -> None:
        """Return once everything said before is in force in the whole network."""
        await self._request(FlushRequest)

    def _next_sid(self) -> int:
        self._sid += 1
        return self._sid

    async def _request(self, kind: Any, *values: Any) -> None:
        assert self._connection is not None
        self._last_request += 1
        number = self._last_request
        answer = self._requests[number] = asyncio.get_running_loop().create_future()
        # Behind the events that were published before it: what a client says, it says in order.
        self._connection.send(Kind.REQUEST, encode(kind(number, *values)), barrier=True)
        await answer

    # -- what the connection reports -------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """Nothing to do: the broker is greeted by whoever dials."""

    def received(self, connection: Connection, frames: Sequence[bytes]) -> None:
        """Hand events to subscriptions and answers to those who wait."""
        for one in frames:
            kind = one[0]
            if kind == Kind.DELIVERY:
                delivery = delivery_of(one)
                for sid in delivery.sids:
                    subscription = self._subscriptions.get(sid)
                    if subscription is not None:
                        subscription._put(Received(delivery.event, delivery.position))
            elif kind == Kind.REPLY:
                self._answered(one)
            else:
                said = decode_life(memoryview(one)[1:])
                if isinstance(said, Welcome):
                    self._welcome.set_result(said)
                elif isinstance(said, Goodbye):
                    connection.abort(said.reason)
                else:
                    raise ProtocolError("a broker does not say hello to a client")

    def _answered(self, one: bytes) -> None:
        reply = decode_reply(memoryview(one)[1:])
        waiting = self._requests.pop(reply.request, None)
        if waiting is not None and not waiting.done():
            if reply.error:
                waiting.set_exception(CoveyError(reply.error))
            else:
                waiting.set_result(None)

    def closed(self, connection: Connection, reason: str) -> None:
        """Nobody waits any longer."""
        error = CoveyError(f"the link to the broker is gone: {reason}")
        if not self._welcome.done():
            self._welcome.set_exception(error)
        for waiting in self._requests.values():
            if not waiting.done():
                waiting.set_exception(error)
        for subscription in self._subscriptions.values():
            subscription._end()
        self.drained(connection)

    def drained(self, connection: Connection) -> None:
        """There is room for more events."""
        if self._room is not None:
            self._room.set_result(None)
            self._room = None


def connect(
    url: str = "covey://127.0.0.1:7400",
    *,
    token: str = "",
    user: str = "",
    password: str = "",
    tls: ssl.SSLContext | None = None,
) -> Client:
    """Return a client for the broker at the address; it connects when it is entered."""
    return Client(url, token=token, user=user, password=password, tls=tls)
