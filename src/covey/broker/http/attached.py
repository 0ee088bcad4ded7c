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
from covey.errors import EventError, LinkError, RefusedError
from covey.wire.events import KEPT, encode_content, encode_event, link_of
from covey.wire.frames import Kind, Splitter
from covey.wire.lanes import Verdict
from covey.wire.messages import FlushRequest, Request, decode_reply, encode

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
        self._published: dict[int, asyncio.Future[None]] = {}
        self._last_request = 0
        self._number = 0
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
            for answer in (*self._answers.values(), *self._published.values()):
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
        """Publish events; return a future for each, done when it is handled, or on disk if it is to be confirmed.

        A future has RefusedError if the broker does not take its event.

        EventError if one is none, or none that the broker takes; then none is published.
        """
        frames, first = [], self._number + 1
        for number, (content, payload) in enumerate(events, first):
            family, packed = encode_content(content)
            flags = KEPT if confirm else 0
            publisher = self._client.number
            frame = encode_event(
                packed, payload, family=family, publisher=publisher, number=number, flags=flags
            )
            if len(frame) > most_bytes:
                raise EventError(f"an event of {len(frame):,} bytes; the broker takes {most_bytes:,}")
            frames.append(frame)
        numbers = range(first, first + len(frames))
        self._number += len(frames)
        published = [self._loop.create_future() for _ in numbers]
        for number, future in zip(numbers, published, strict=True):
            future.add_done_callback(_look)
            self._published[number] = future
        self._say(frames)
        if not confirm:
            # The answer comes when they are handled: at once, unless the network switches to another plan.
            self.ask(lambda request: FlushRequest(request, near=True)).add_done_callback(
                lambda _: self._handled(numbers)
            )
        return published

    def _handled(self, numbers: range) -> None:
        for number in numbers:
            self._settle(number, None)

    def _settle(self, number: int, error: RefusedError | None) -> None:
        future = self._published.pop(number, None)
        if future is not None and not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

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
            answer = self._answers.pop(reply.request, None)
            if reply.event:
                self._settle(reply.event, error)
            elif answer is not None and not answer.done():
                if error is None:
                    answer.set_result(None)
                else:
                    answer.set_exception(error)
        elif kind == Kind.TAKEN:
            for _, number in _NAME.iter_unpack(body[4:]):
                self._settle(number, None)

    def send_events(self, chunk: bytes, count: int = 1) -> Verdict:
        """Take deliveries."""
        if self._take is not None and self._is_open:
            self._take(self._splitter.feed(chunk))
        return Verdict.TAKEN


def _look(answer: asyncio.Future[None]) -> None:
    """Look at an answer, lest asyncio complain of an error for which nobody has waited."""
    if not answer.cancelled():
        answer.exception()
