"""A stream of server-sent events: what waits for one listener, and how it is written. Who is too slow is cut off."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec
from aiohttp import web

from covey.broker.http import cloudevents
from covey.wire.events import (
    ENVELOPE,
    XPATH,
    decode_content,
    delivery_of,
    envelope_of,
    family_of,
    name_of,
)


@dataclass(frozen=True)
class GatewayLimits:
    """How much one gateway takes."""

    body_bytes: int = 4 << 20
    batch: int = 10_000  # events
    streams: int = 1_000
    pending_events: int = 10_000  # that wait for one listener
    pending_bytes: int = 8 << 20
    heartbeat_s: float = 15.0
    confirm_s: float = 30.0


class Stream:
    """What waits for one listener."""

    def __init__(self, limits: GatewayLimits) -> None:
        self._limits = limits
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._wake = asyncio.Event()
        self._reason = ""

    def take(self, frames: Sequence[bytes]) -> None:
        """Take deliveries; more than may wait end the stream."""
        if self._reason:
            return
        self._frames.extend(frames)
        self._size += sum(map(len, frames))
        if len(self._frames) > self._limits.pending_events or self._size > self._limits.pending_bytes:
            self.end(f"{len(self._frames):,} events wait for the listener, which is too slow")
        self._wake.set()

    def end(self, reason: str) -> None:
        """Send nothing more but the reason."""
        self._reason = self._reason or reason
        self._frames.clear()
        self._wake.set()

    async def run(self, response: web.StreamResponse) -> None:
        """Write events until the listener goes or the stream ends; a comment now and then, when there is none."""
        try:
            await response.write(b": subscribed\n\n")
            while not self._reason:
                try:
                    async with asyncio.timeout(self._limits.heartbeat_s):
                        await self._wake.wait()
                except TimeoutError:
                    await response.write(b": alive\n\n")
                self._wake.clear()
                while self._frames:
                    some = [self._frames.popleft() for _ in range(min(100, len(self._frames)))]
                    self._size -= sum(map(len, some))
                    await response.write(b"".join(map(as_sent, some)))
            problem = problem_line(503, self._reason)
            await response.write(b"event: error\ndata: " + problem + b"\n\n")
        except ConnectionError:
            pass  # the listener has gone


def as_sent(frame: bytes) -> bytes:
    """Return a DELIVERY frame as a server-sent event with a CloudEvent."""
    event = delivery_of(frame).event
    envelope = envelope_of(event)
    last = ENVELOPE.size + envelope.content_length
    packed, payload = event[ENVELOPE.size : last], event[last + envelope.notes_length :]
    family = family_of(envelope)
    content: Any = packed.decode(errors="replace") if family == XPATH else decode_content(family, packed)
    name = name_of(envelope.publisher, envelope.number)
    shown = cloudevents.write(name, f"{envelope.publisher:x}", content, payload)
    return b"id: " + name.encode() + b"\ndata: " + shown + b"\n\n"


def problem_line(status: int, detail: str) -> bytes:
    """Return a problem as JSON in one line."""
    line = " ".join(detail.split())[:500]
    return msgspec.json.encode({"title": HTTPStatus(status).phrase, "status": status, "detail": line})
