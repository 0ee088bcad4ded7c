"""Attached: a client inside the broker's own process. It says to the exchange what a client says over a socket."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Final, Protocol

from covey.broker.exchange import Exchange
from covey.broker.peers import Client
from covey.broker.permissions import Permissions
from covey.errors import LinkError, ProtocolError, RefusedError
from covey.wire.events import KEPT, encode_content, encode_event, link_of
from covey.wire.frames import Kind, Splitter
from covey.wire.lanes import Verdict
from covey.wire.messages import Request, decode_reply, encode

_NAME: Final = Struct("<QQ")
_LARGEST: Final = 1 << 30  # frames come from the exchange, which has judged them

Take = Callable[[Sequence[bytes]], None]


class Hub(Protocol):
    """What is needed of a broker; `Broker` is one."""

    @property
    def exchange(self) -> Exchange:
        """Where clients are."""


class Attached:
    """A client of the broker in this process; an `Outlet`, as the exchange sees it."""

    def __init__(
        self,
        hub: Hub,
        permissions: Permissions,
        take: Take | None = None,
        ended: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._exchange = hub.exchange
        self._loop = asyncio.get_running_loop()
        self._take = take
        self._ended = ended
        self._splitter = Splitter(_LARGEST)
        self._answers: dict[int, asyncio.Future[None]] = {}
        self._unconfirmed: dict[int, asyncio.Future[None]] = {}
        self._last_request = 0
        self._number = 0
        self._refused: dict[int, str] = {}
        self._is_open = True
        number = secrets.randbits(63)
        self._client = Client(link_of(number), number, self, permissions)
        self._exchange.now_s = self._loop.time()
        self._exchange.client_up(self._client)

    def serves(self, permissions: Permissions) -> bool:
        """Return whether it may still do this, and nothing else."""
        return self._is_open and self._client.permissions == permissions

    def end(self, reason: str) -> None:
        """The broker ends it; whoever listens is told why."""
        self.close()
        self._ended(reason)

    def close(self) -> None:
        """End everything that it has asked for."""
        if self._is_open:
            self._is_open = False
            self._exchange.now_s = self._loop.time()
            self._exchange.client_down(self._client.link)
            for answer in (*self._answers.values(), *self._unconfirmed.values()):
                if not answer.done():
                    answer.set_exception(LinkError("the broker ends"))
                    answer.exception()

    # -- what it says ----------------------------------------------------------------------------------------

    def ask(self, make: Callable[[int], Request]) -> asyncio.Future[None]:
        """Ask for something; the future has the answer."""
        self._last_request += 1
        answer = self._answers[self._last_request] = self._loop.create_future()
        answer.add_done_callback(_look)
        self._say([bytes((Kind.REQUEST,)) + encode(make(self._last_request))])
        return answer

    def publish(
        self, events: Iterable[tuple[object, bytes]], most_bytes: int, *, confirm: bool
    ) -> list[asyncio.Future[None]]:
        """Publish events; the futures are done when they are confirmed, if that is asked for.

        EventError if one is none, or none that the broker takes; then none is published. RefusedError if one is not
        allowed.
        """
        frames, first = [], self._number + 1
        for content, payload in events:
            family, packed = encode_content(content)
            self._number += 1
            frame = encode_event(
                packed,
                payload,
                family=family,
                publisher=self._client.number,
                number=self._number,
                flags=KEPT if confirm else 0,
            )
            if len(frame) > most_bytes:
                raise ProtocolError(f"an event of {len(frame):,} bytes; the broker takes {most_bytes:,}")
            frames.append(frame)
        confirmed: list[asyncio.Future[None]] = []
        if confirm:
            for number in range(first, self._number + 1):
                future = self._unconfirmed[number] = self._loop.create_future()
                future.add_done_callback(_look)
                confirmed.append(future)
        self._refused.clear()
        self._say(frames)
        for number, error in self._refused.items():
            if number >= first:
                raise RefusedError(error)
        return confirmed

    def _say(self, frames: list[bytes]) -> None:
        if not self._is_open:
            raise LinkError("the broker ends")
        self._exchange.now_s = self._loop.time()
        self._exchange.from_client(self._client, frames)

    # -- what it is told -------------------------------------------------------------------------------------

    def send(self, kind: int, body: bytes, *, barrier: bool = False) -> None:
        """Take a control frame."""
        if kind == Kind.REPLY:
            reply = decode_reply(body)
            error = RefusedError(reply.error) if reply.error else None
            answer = self._answers.pop(reply.request, None) or self._unconfirmed.pop(reply.event, None)
            if not reply.request and reply.error:
                self._refused[reply.event] = reply.error
            if answer is not None and not answer.done():
                if error is None:
                    answer.set_result(None)
                else:
                    answer.set_exception(error)
        elif kind == Kind.TAKEN:
            for _, number in _NAME.iter_unpack(body[4:]):
                future = self._unconfirmed.pop(number, None)
                if future is not None and not future.done():
                    future.set_result(None)

    def send_events(self, chunk: bytes, count: int = 1) -> Verdict:
        """Take deliveries."""
        if self._take is not None and self._is_open:
            self._take(self._splitter.feed(chunk))
        return Verdict.TAKEN


def _look(answer: asyncio.Future[None]) -> None:
    """Look at an answer, lest asyncio complain of an error for which nobody has waited."""
    if not answer.cancelled():
        answer.exception()
