"""Clients whose deliveries are judged by nothing but the filters.

Every event says who published it and its number there. A *round* publishes events and then an end mark, for which every
consumer has a subscription: as a publisher's events stay in order on every way, whoever has all marks has everything.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from random import Random
from typing import Any

from covey.client.client import Client
from covey.client.subscription import Subscription
from covey.core.families import parse
from covey.core.filter import Filter

VALUES = 20
Name = tuple[int, int]  # of an event: its publisher and its number there


def some_filter(random: Random) -> Filter:
    """Return a filter on one or two attributes."""
    parts = []
    for name in random.choice((("x",), ("x", "y"), ("y",))):
        low = random.randrange(VALUES)
        parts.append(f"{name} between {low} and {low + random.randrange(8)}")
    return parse(" and ".join(parts))


def some_event(random: Random) -> dict[str, Any]:
    """Return an event that such filters judge."""
    return {"x": random.randrange(VALUES), "y": random.randrange(VALUES)}


class Publisher:
    """A client that publishes and knows what it has published."""

    def __init__(self, client: Client, number: int) -> None:
        self.client = client
        self.number = number
        self.published: dict[Name, dict[str, Any]] = {}
        self.marks = 0

    async def start(self) -> None:
        """Announce what comes."""
        await self.client.advertise("x >= 0")
        await self.client.advertise("mark >= 0")

    async def publish(self, event: dict[str, Any]) -> None:
        """Publish an event."""
        name = (self.number, len(self.published))
        self.published[name] = event
        await self.client.publish({**event, "publisher": self.number, "number": name[1]})

    async def mark(self) -> None:
        """Say that this round is over."""
        await self.client.publish({"mark": self.marks, "publisher": self.number})
        self.marks += 1


class Wish:
    """One subscription and what it got."""

    def __init__(self, filter: Filter, subscription: Subscription) -> None:
        self.filter = filter
        self.subscription = subscription
        self.got: Counter[Name] = Counter()
        self.order: list[Name] = []

    async def listen(self) -> None:
        """Note every delivery."""
        async for event in self.subscription:
            name = (event["publisher"], event["number"])
            self.got[name] += 1
            self.order.append(name)

    def check(self, events: dict[Name, dict[str, Any]], *, whole: bool = True) -> None:
        """Complain about what is twice, unasked, out of order or, if it was there all the time, missing."""
        asked = {name for name, event in events.items() if self.filter.matches(event)}
        twice = [name for name, count in self.got.items() if count > 1]
        assert not twice, f"{self.filter} got twice: {twice[:5]}"
        unasked = [name for name in self.got if name in events and name not in asked]
        assert not unasked, f"{self.filter} got unasked: {unasked[:5]}"
        for number in {name[0] for name in self.order}:
            numbers = [name[1] for name in self.order if name[0] == number]
            assert numbers == sorted(numbers), f"{self.filter}: events of {number} are out of order"
        if whole:
            missing = sorted(asked - set(self.got))
            assert not missing, f"{self.filter} misses {len(missing)} of {len(asked)}: {missing[:5]}"


class Consumer:
    """A client with some subscriptions."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.wishes: list[Wish] = []
        self.marks: Counter[Name] = Counter()
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, filters: Sequence[Filter]) -> None:
        """Subscribe."""
        marks = await self._stack.enter_async_context(self.client.subscribe("mark >= 0"))
        self._tasks.append(asyncio.get_running_loop().create_task(self._listen_for_marks(marks)))
        for filter in filters:
            await self.subscribe(filter)

    async def subscribe(self, filter: Filter) -> Wish:
        """Subscribe to one more filter."""
        subscription = await self._stack.enter_async_context(self.client.subscribe(filter))
        wish = Wish(filter, subscription)
        self.wishes.append(wish)
        self._tasks.append(asyncio.get_running_loop().create_task(wish.listen()))
        return wish

    async def _listen_for_marks(self, marks: Subscription) -> None:
        async for event in marks:
            self.marks[event["publisher"], event["mark"]] += 1

    async def stop(self) -> None:
        """Listen no more."""
        await self._stack.aclose()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Traffic:
    """Publishers and consumers at some brokers: `async with Traffic(connect, random) as traffic`."""

    def __init__(self, client_of: Callable[[str], Client], random: Random) -> None:
        self.random = random
        self.publishers: list[Publisher] = []
        self.consumers: list[Consumer] = []
        self._client_of = client_of
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Traffic:
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.gather(*(consumer.stop() for consumer in self.consumers))
        await self._stack.aclose()

    async def add_publisher(self, broker: str) -> Publisher:
        """Let somebody publish."""
        client = await self._stack.enter_async_context(self._client_of(broker))
        publisher = Publisher(client, len(self.publishers))
        self.publishers.append(publisher)
        await publisher.start()
        return publisher

    async def add_consumer(self, broker: str, filters: Sequence[Filter]) -> Consumer:
        """Let somebody subscribe."""
        client = await self._stack.enter_async_context(self._client_of(broker))
        consumer = Consumer(client)
        self.consumers.append(consumer)
        await consumer.start(filters)
        return consumer

    async def populate(self, brokers: Iterable[str], filters: int = 3) -> None:
        """Put a publisher and a consumer at each of some brokers, and see that all is well."""
        for name in brokers:
            await self.add_publisher(name)
            await self.add_consumer(name, [some_filter(self.random) for _ in range(filters)])
        await self.flush()
        await self.round()
        self.check()

    async def judge_anew(self) -> None:
        """See that all is well again, whatever became of what was published before."""
        await self.flush()
        for publisher in self.publishers:
            nobody_wants = {"x": -1}
            publisher.published = dict.fromkeys(publisher.published, nobody_wants)
        for consumer in self.consumers:
            for wish in consumer.wishes:
                wish.got.clear()
                wish.order.clear()
        await self.round(30)
        self.check()

    async def flush(self) -> None:
        """Return once all that everybody has said is in force everywhere."""
        clients = [*(one.client for one in self.publishers), *(one.client for one in self.consumers)]
        await asyncio.gather(*(client.flush() for client in clients))

    async def round(self, count: int = 20, meanwhile: Callable[[], Any] | None = None) -> None:
        """Publish some events, then marks; return once every consumer has all marks."""
        for _ in range(count):
            await self.random.choice(self.publishers).publish(some_event(self.random))
            if meanwhile is not None:
                await meanwhile()
            await asyncio.sleep(0)
        for publisher in self.publishers:
            await publisher.mark()
        await self.marked()

    async def marked(self, limit_s: float = 30.0) -> None:
        """Return once every consumer has the last mark of every publisher."""
        due = [(publisher.number, publisher.marks - 1) for publisher in self.publishers]
        async with asyncio.timeout(limit_s):
            while not all(consumer.marks[name] for consumer in self.consumers for name in due):
                await asyncio.sleep(0.005)

    @property
    def published(self) -> dict[Name, dict[str, Any]]:
        """All events."""
        return {name: event for one in self.publishers for name, event in one.published.items()}

    def check(self, *, whole: bool = True) -> None:
        """Complain about any delivery that is wrong."""
        for consumer in self.consumers:
            for wish in consumer.wishes:
                wish.check(self.published, whole=whole)
            twice = [name for name, count in consumer.marks.items() if count > 1]
            assert not twice, f"marks came twice: {twice[:5]}"
