"""What tests of clients share: brokers in this process, and a broker that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from tests.e2e.helpers.running import eventually

from covey.broker.config import BrokerConfig
from covey.broker.server import Broker
from covey.client.stream import Stream
from covey.protocol.control import (
    Goodbye,
    Hello,
    Reply,
    Welcome,
    decode_life,
    decode_request,
    encode,
)
from covey.protocol.events import Envelope, encode_content, encode_delivery, encode_event, envelope_of
from covey.protocol.frames import Kind, framed
from covey.protocol.outbox import Bounds


def url(port: int) -> str:
    """Return the address of a broker here."""
    return f"covey://127.0.0.1:{port}"


def broker(port: int = 0, name: str = "a", **settings: Any) -> Broker:
    """Return a broker of this process, to be entered."""
    return Broker(BrokerConfig(name, port=port, **settings))


class Scripted:
    """A broker that answers every request, keeps what it gets, and does what a test says."""

    def __init__(self, welcome: Goodbye | None = None, silent: bool = False) -> None:
        self._refusal = welcome
        self._silent = silent
        self._server: asyncio.Server | None = None
        self.connections: list[Stream] = []
        self.hellos: list[Hello] = []
        self.requests: list[Any] = []
        self.events: list[bytes] = []
        self.acknowledgements: list[bytes] = []
        self.confirm = True
        self.answer: Callable[[Any], str | None] = lambda request: ""  # None: no answer
        self.port = 0

    async def __aenter__(self) -> Scripted:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Stream(self, Bounds()), "127.0.0.1", self.port or 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in list(self.connections):
            connection.abort()
        await eventually(lambda: not self.connections)

    @property
    def url(self) -> str:
        return url(self.port)

    def refuses(self, goodbye: Goodbye) -> None:
        """Let in nobody from now on."""
        self._refusal = goodbye

    def welcomes(self) -> None:
        """Let in everybody from now on."""
        self._refusal = None

    @property
    def envelopes(self) -> list[Envelope]:
        return [envelope_of(one) for one in self.events]

    def of(self, kind: type) -> list[Any]:
        """Return the requests of a kind."""
        return [request for request in self.requests if isinstance(request, kind)]

    def deliver(self, sid: int, *contents: Any, position: int | None = None, data: bytes = b"") -> None:
        """Deliver events to a subscription of the newest client."""
        for number, content in enumerate(contents):
            family, packed = encode_content(content)
            event = encode_event(packed, data, family=family, publisher=7, number=number + 1)
            place = None if position is None else position + number
            one = encode_delivery(event, [sid], place)
            self.connections[-1].send_events(framed(one))

    def cut(self) -> None:
        """Break every link."""
        for connection in self.connections:
            connection.abort()

    def opened(self, connection: Stream) -> None:
        self.connections.append(connection)

    def received(self, connection: Stream, frames: Sequence[bytes]) -> None:
        for one in frames:
            body = memoryview(one)[1:]
            if one[0] == Kind.HELLO:
                self._hello(connection, decode_life(body))
            elif one[0] == Kind.REQUEST:
                request = decode_request(body)
                self.requests.append(request)
                error = self.answer(request)
                if error is not None:
                    reply = encode(Reply(request.request, error))
                    connection.send(Kind.REPLY, reply, barrier=True)
            elif one[0] == Kind.EVENT:
                self.events.append(one)
                envelope = envelope_of(one)
                if self.confirm and envelope.flags & 2:
                    self.take(connection, envelope)
            elif one[0] == Kind.ACKNOWLEDGE:
                self.acknowledgements.append(one[1:])

    def take(self, connection: Stream, *envelopes: Envelope) -> None:
        """Say that events are on disk."""
        names = b"".join(
            one.publisher.to_bytes(8, "little") + one.number.to_bytes(8, "little") for one in envelopes
        )
        connection.send(Kind.TAKEN, len(envelopes).to_bytes(4, "little") + names)

    def _hello(self, connection: Stream, hello: Any) -> None:
        self.hellos.append(hello)
        if self._silent:
            return
        if self._refusal is not None:
            connection.end(self._refusal.reason, retry=self._refusal.retry)
            return
        number = 1_000 + len(self.hellos)
        connection.send(Kind.WELCOME, encode(Welcome(hello.version, "scripted", number, 0, 1 << 20, 30.0)))
        connection.greeted(1 << 20, 30.0)

    def closed(self, connection: Stream, reason: str) -> None:
        self.connections.remove(connection)

    def drained(self, connection: Stream) -> None:
        pass
