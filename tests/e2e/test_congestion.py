"""Paper C's rule for congestion on real queues: while a broker's inbox is long, an unsubscription is held there."""

from __future__ import annotations

import asyncio

import pytest
from tests.e2e.helpers.network import Live
from tests.e2e.helpers.running import eventually, run
from tests.oracles.incremental_chain import CHAIN

from covey.broker import scheduling
from covey.broker.server import Broker
from covey.broker.sessions import Session
from covey.protocol.batches import Frames
from covey.protocol.events import encode_content, encode_event
from covey.strategies.incremental.pruning import Incremental

OPTIONS = {"tiers": ((1, 0.9),), "minimum_samples": 1}
BACKLOG = 3_000


def strategy_at(broker: Broker) -> Incremental:
    strategy = broker.core.router.trees[0].strategy
    assert isinstance(strategy, Incremental)
    return strategy


def kept(net: Live) -> dict[tuple[str, str], list[str]]:
    """What is kept, by owner: broker and neighbour."""
    found = {}
    for name, broker in net.brokers.items():
        strategy = strategy_at(broker)
        for link in strategy.site.neighbours():
            if some := strategy.kept(link):
                found[name, link] = [str(one.filter) for one in some]
    return found


def fill(broker: Broker, count: int) -> None:
    """Let a client's events, which nobody wants, wait in the inbox, each by itself."""
    core = broker.core
    peer, client = next((one, one.who) for one in core.peers.values() if isinstance(one.who, Session))
    family, content = encode_content({"y": 1})
    for number in range(count):
        one = encode_event(content, b"", family=family, publisher=client.number, number=number)
        core.scheduler.put(peer.number, Frames.of([one]))


@pytest.mark.parametrize("congested", [False, True])
def test_an_unsubscription_is_held_while_the_inbox_is_long(
    congested: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "TURN", scheduling.EVENT / 2)
    monkeypatch.setattr(scheduling, "LEAST", scheduling.EVENT / 2)

    async def main() -> None:
        near = {"1": {"congested_at": 20, "calm_at": 5}}
        async with (
            Live(CHAIN, strategy="incremental", options=OPTIONS, per_broker=near) as net,
            net.client("4") as publisher,
            net.client("0") as leaving,
            net.client("1") as a,
            net.client("2") as b,
            a.subscribe("x between 0 and 4") as some,
            b.subscribe("x between 5 and 8") as others,
        ):
            await publisher.advertise("x between 0 and 19")
            await publisher.flush()
            gone = leaving.subscribe("x between 0 and 9")
            events = await gone.__aenter__()
            for client in (a, b, leaving):
                await client.flush()
            for x in range(10):
                await publisher.publish({"x": x})
            assert [(await anext(events))["x"] for _ in range(10)] == list(range(10))
            assert [(await anext(some))["x"] for _ in range(5)] == list(range(5))
            assert [(await anext(others))["x"] for _ in range(4)] == list(range(5, 9))
            if congested:
                fill(net.brokers["1"], BACKLOG)
                await eventually(lambda: net.brokers["1"].core.scheduler.is_congested)
            leaving_now = asyncio.ensure_future(gone.__aexit__(None, None, None))
            held = False
            while kept(net) != {("2", "3"): ["x BETWEEN 0 AND 9"]}:
                held = held or ("1", "2") in kept(net)
                await asyncio.sleep(0)
            await leaving_now
            assert held == congested
            await eventually(lambda: not net.brokers["1"].core.scheduler.is_congested)

    run(main())
