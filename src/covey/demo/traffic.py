"""Clients that subscribe, feeds that publish, and the record of everything that anybody got.

An event's payload is its number and the time at which it was published. What a subscription gets is noted as it comes:
the event's number, and whether its content is the one that was published under that number.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from struct import Struct
from typing import Any, Final

from covey.client.client import Client, connect
from covey.client.subscription import Received
from covey.core.filter import Filter

STAMP: Final = Struct("<qq")
TICK_S: Final = 0.02
QUIET_S: Final = 0.3
LONGEST_S: Final = 60.0
AT_A_TIME: Final = 200  # subscriptions of a client that wait for their answers

Events = Callable[[int], tuple[str, Any]]  # where event n is published, and its content


class Record:
    """Every delivery: which event to which subscription, in the order of arrival."""

    def __init__(self) -> None:
        self.events = array("q")
        self.subscriptions = array("q")
        self.delays_ms = array("d")
        self.garbled: list[str] = []  # deliveries whose content is not what was published
        self.contents: list[Any] = []  # what was published, by number

    def __len__(self) -> int:
        return len(self.events)

    def taker(self, subscription: int) -> Callable[[Received], None]:
        """Return what takes the deliveries of one subscription."""

        def take(event: Received) -> None:
            number, published_ns = STAMP.unpack(event.data)
            self.events.append(number)
            self.subscriptions.append(subscription)
            self.delays_ms.append((time.monotonic_ns() - published_ns) / 1e6)
            if not self._is_same(number, event):
                self.garbled.append(f"event {number} came to subscription {subscription} with other content")

        return take

    def delays_by_stage(self, firsts: Sequence[int]) -> list[list[float]]:
        """Return how long deliveries took in ms, by stage: `firsts` has the number of the first event of each."""
        found: list[list[float]] = [[] for _ in firsts]
        for number, delay_ms in zip(self.events, self.delays_ms, strict=True):
            stage = bisect_right(firsts, number) - 1
            if stage >= 0:
                found[stage].append(delay_ms)
        return found

    def _is_same(self, number: int, event: Received) -> bool:
        if not 0 <= number < len(self.contents):
            return False
        content = self.contents[number]
        is_text = isinstance(content, str)  # a document, which comes parsed
        return bool((event.raw_content.decode() if is_text else event.content) == content)


class Traffic:
    """Clients and feeds of one overlay. `feeds` publish event after event, at a steady pace, unless they pause."""

    def __init__(self, addresses: Mapping[str, str], events: Events) -> None:
        self.record = Record()
        self._addresses = addresses
        self._events = events
        self._stack = AsyncExitStack()
        self._clients: list[Client] = []
        self._feeds: dict[str, Client] = {}
        self._flowing: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    @property
    def published(self) -> int:
        """How many events were published."""
        return len(self.record.contents)

    # -- who is there ----------------------------------------------------------------------------------------

    async def client(self, broker: str) -> Client:
        """Return a new client of a broker."""
        client = await self._stack.enter_async_context(connect(self._addresses[broker], timeout_s=LONGEST_S))
        self._clients.append(client)
        return client

    async def feed(self, broker: str, advertised: Iterable[Filter]) -> None:
        """Let events be published at a broker."""
        client = self._feeds[broker] = await self._stack.enter_async_context(
            connect(self._addresses[broker], timeout_s=LONGEST_S)
        )
        for filter in advertised:
            await client.advertise(filter)

    async def subscribe(self, client: Client, filters: Sequence[tuple[int, Filter]]) -> list[Any]:
        """Subscribe under these numbers; return the subscriptions when the client's broker has them."""
        made = []
        for first in range(0, len(filters), AT_A_TIME):
            some = filters[first : first + AT_A_TIME]
            made += await asyncio.gather(
                *(_begun(client, filter, self.record.taker(number)) for number, filter in some)
            )
        return made

    async def in_force(self) -> None:
        """Return once everything that was said is in force in the whole network."""
        await asyncio.gather(*(client.flush(LONGEST_S) for client in (*self._feeds.values(), *self._clients)))

    async def close(self) -> None:
        """End everything."""
        if self._flowing is not None:
            self._flowing.cancel()
            await asyncio.gather(self._flowing, return_exceptions=True)
        await self._stack.aclose()

    # -- events ----------------------------------------------------------------------------------------------

    def flow(self, rate: float) -> None:
        """Begin to publish so many events a second."""
        self._flowing = asyncio.get_running_loop().create_task(self._flow(rate))

    async def _flow(self, rate: float) -> None:
        due = 0.0
        while True:
            begun_s = time.monotonic()
            async with self._turn:
                while due >= 1:
                    await self._publish()
                    due -= 1
            await asyncio.sleep(TICK_S)
            # Whoever was held up, by a pause or by other work, does not hurry afterwards.
            due += min(time.monotonic() - begun_s, 5 * TICK_S) * rate

    async def publish(self, count: int) -> None:
        """Publish the next so many events at once."""
        async with self._turn:
            for _ in range(count):
                await self._publish()

    async def _publish(self) -> None:
        number = self.published
        broker, content = self._events(number)
        self.record.contents.append(content)
        await self._feeds[broker].publish(content, STAMP.pack(number, time.monotonic_ns()))

    async def at_rest(self, look: Callable[[], Any], ends: bool = False) -> Any:
        """Pause until everything has arrived; return what `look`, a coroutine function, finds then.

        With `ends` the feeds are silent afterwards; if something else has ended them, that is raised.
        """
        self.check()
        async with self._turn:
            if ends and self._flowing is not None:
                self._flowing.cancel()
                self._flowing = None
            await self.in_force()
            seen, quiet_s = len(self.record), 0.0
            while quiet_s < QUIET_S:
                await asyncio.sleep(TICK_S)
                quiet_s = quiet_s + TICK_S if len(self.record) == seen else 0.0
                seen = len(self.record)
            return await look()

    def check(self) -> None:
        """Raise what ended the feeds, if something did."""
        if self._flowing is not None and self._flowing.done():
            self._flowing.result()


async def _begun(client: Client, filter: Filter, take: Callable[[Received], None]) -> Any:
    return await client.subscribe(filter, callback=take)
