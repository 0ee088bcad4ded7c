"""The ends of a measured network: how a publisher and a subscriber use Covey; `network_peers` has those of others.

An end publishes payloads and counts what it receives; the payload begins with the time at which it was published, on
the clock that all processes of a machine share. Under Covey an event is some attributes and the rest as payload,
EVENT_BYTES together; a peer, which routes by subject, carries EVENT_BYTES of payload.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any, Final, Protocol

import covey
from covey.core.packing import pack

EVENT_BYTES: Final = 200
WANTED: Final = "IBM"

_TIME: Final = Struct("<q")

OnPayload = Callable[[bytes], None]


class End(Protocol):
    """One connection of a program."""

    async def open(self, port: int) -> None:
        """Connect."""

    async def subscribe(self, on_payload: OnPayload) -> None:
        """Give every event that comes from now on to the function."""

    async def announce(self) -> None:
        """Get ready to publish."""

    async def publish(self, events: Iterable[int]) -> None:
        """Publish an event for each number, with the time of now."""

    async def flush(self) -> None:
        """Return once the server has taken what was said."""

    async def close(self) -> None:
        """Disconnect."""


def content_of(number: int) -> dict[str, Any]:
    """Return the attributes of an event."""
    return {"symbol": WANTED, "price": number % 100 + 0.5, "volume": number % 1000, "venue": "XNYS"}


def other_filter(number: int) -> str:
    """Return a filter that none of these events matches; each number has another one."""
    return f"symbol = 'S{number % 500}' and price > {number % 97} and volume < {number * 7 % 1000 + 1}"


def payload_of_now() -> bytes:
    """Return a payload of EVENT_BYTES that is published now."""
    return _TIME.pack(time.monotonic_ns()) + WHOLE


def payload_rest() -> bytes:
    """Return what follows the time in the payload of an event that has attributes."""
    return _REST


def published_ns(payload: bytes) -> int:
    """Return when an event was published."""
    return int(_TIME.unpack_from(payload)[0])


_REST: Final = b"x" * (EVENT_BYTES - len(pack(content_of(50))) - _TIME.size)
WHOLE: Final = b"x" * (EVENT_BYTES - _TIME.size)


class CoveyEnd:
    """A client of a broker."""

    def __init__(self) -> None:
        self._client: covey.Client
        self._task: asyncio.Task[None] | None = None

    async def open(self, port: int) -> None:
        """Connect."""
        self._client = await covey.connect(f"covey://127.0.0.1:{port}")

    async def subscribe(self, on_payload: OnPayload) -> None:
        """Subscribe, and take events as they come, many at a time."""
        events = await self._client.subscribe(
            f"symbol = '{WANTED}' and price >= 0", pending_events=10_000_000, pending_bytes=1 << 32
        )

        async def take() -> None:
            while True:
                for event in await events.next_many(10_000):
                    on_payload(event.data)

        self._task = asyncio.get_running_loop().create_task(take())
        await self._client.flush()

    async def announce(self) -> None:
        """Advertise."""
        await self._client.advertise("symbol is not null")
        await self._client.flush()

    async def publish(self, events: Iterable[int]) -> None:
        """Publish them as one batch."""
        stamp, now_ns, rest = _TIME.pack, time.monotonic_ns, _REST
        await self._client.publish_many((content_of(n), stamp(now_ns()) + rest) for n in events)

    async def subscribe_others(self, numbers: Iterable[int]) -> None:
        """Subscribe to what nobody publishes."""
        step: list[Any] = []
        for number in numbers:
            step.append(self._client.subscribe(other_filter(number)))
            if len(step) == 1_000:
                await asyncio.gather(*step)
                step = []
        await asyncio.gather(*step)
        await self._client.flush(60.0)

    async def flush(self) -> None:
        """Ask the broker."""
        await self._client.flush()

    async def close(self) -> None:
        """Disconnect."""
        if self._task is not None:
            self._task.cancel()
        await self._client.close()
