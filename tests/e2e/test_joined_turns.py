"""A broker that pauses between turns delivers everything, in order, and handles many connections in one turn."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from tests.e2e.helpers.running import run

import covey
from covey.broker.config import BrokerConfig
from covey.broker.scheduling import PAUSE_S, Joining
from covey.broker.server import Broker
from covey.client.client import Client

PUBLISHERS, EVENTS = 10, 30


class Always(Joining):
    """Pauses after every turn, and counts."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses = 0

    def pause_s(self, began_s: float, now_s: float) -> float:
        """Pause, unless nothing was read: otherwise turns would follow each other for ever."""
        reads, self.reads = self.reads, 0
        self.pauses += reads > 0
        return PAUSE_S if reads else 0.0


async def publish(client: Client, sender: int) -> None:
    """Publish single events, each a read of its own."""
    for number in range(EVENTS):
        await client.publish({"sender": sender, "number": number})
        await asyncio.sleep(0)
    await client.flush()


def test_pauses_change_when_events_arrive_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr("covey.broker.server.Joining", Always)
        async with AsyncExitStack() as stack:
            broker = await stack.enter_async_context(Broker(BrokerConfig("a", port=0)))
            url = f"covey://127.0.0.1:{broker.port}"
            subscriber = await stack.enter_async_context(covey.connect(url))
            events = await subscriber.subscribe("number >= 0")
            clients = [await stack.enter_async_context(covey.connect(url)) for _ in range(PUBLISHERS)]
            for client in clients:
                await client.advertise("number >= 0")
            await asyncio.gather(*(publish(client, sender) for sender, client in enumerate(clients)))
            got: dict[int, list[int]] = {sender: [] for sender in range(PUBLISHERS)}
            for _ in range(PUBLISHERS * EVENTS):
                event = await anext(events)
                got[event["sender"]].append(event["number"])
            assert got == {sender: list(range(EVENTS)) for sender in range(PUBLISHERS)}
            joining = broker._joining
            assert isinstance(joining, Always)
            assert joining.pauses > 0
            await subscriber.flush()  # it goes on by itself

    run(scenario())
