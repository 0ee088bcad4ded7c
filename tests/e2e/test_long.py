"""A long random run: links are cut and stalled, brokers stop and start, and in the end all is well.

One seed is one run, though not one order of events: real sockets have their own.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from tests.e2e.helpers.network import Live, Pair
from tests.e2e.helpers.running import eventually, run
from tests.e2e.helpers.traffic import Traffic, some_event, some_filter

import covey
from covey.routing.strategy import registered

STRATEGIES = [name for name in covey.strategies() if not registered(name).trees]
LEASE_S = 1.0
COUNT = 8
STEPS = 25


def some_overlay(random: Random, redundant: int) -> list[Pair]:
    """Return a random tree with some links more."""
    names = [f"b{number}" for number in range(COUNT)]
    links = [(random.choice(names[:number]), names[number]) for number in range(1, COUNT)]
    while redundant:
        first, second = sorted(random.sample(names, 2))
        if (first, second) not in links:
            links.append((first, second))
            redundant -= 1
    return links


def at_rest(net: Live) -> bool:
    """Return whether all links are there, and every broker routes over just those of the tree."""
    for name, broker in net.brokers.items():
        links = broker.core.neighbours
        if len(links.connected) < len(links.records):
            return False  # the tree may change once it is
        tree = links.overlay.tree
        near = {b if a == name else a for a, b in tree if name in (a, b)}
        if len(tree) != COUNT - 1 or net.open_links(name) != near:
            return False
    return len({broker.core.neighbours.overlay.tree for broker in net.brokers.values()}) == 1


@pytest.mark.long
@pytest.mark.parametrize("redundant", [0, 3])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_after_any_faults_delivery_is_exact(strategy: str, redundant: int) -> None:
    random = Random(f"long {strategy} {redundant}")
    links = some_overlay(random, redundant)

    async def main() -> None:
        async with (
            Live(links, proxied=links, lease_s=LEASE_S, strategy=strategy, waits_for=[]) as net,
            Traffic(net.client, random) as traffic,
        ):
            await eventually(lambda: at_rest(net))
            # Brokers that have no clients may stop; those of clients only lose their links.
            settled = random.sample(net.names, COUNT - 2)
            for name in settled[:3]:
                await traffic.add_publisher(name)
            for name in settled:
                await traffic.add_consumer(name, [some_filter(random) for _ in range(3)])
            await traffic.flush()
            for _ in range(STEPS):
                match random.choice(("cut", "stall", "stop", "heal", "publish", "publish", "subscribe")):
                    case "cut":
                        random.choice(list(net.proxies.values())).cut()
                    case "stall":
                        random.choice(list(net.proxies.values())).stall()
                    case "stop":
                        name = random.choice([name for name in net.names if name not in settled])
                        if name in net.brokers:
                            await net.stop(name)
                        else:
                            await net.start(name)
                    case "heal":
                        random.choice(list(net.proxies.values())).heal()
                    case "publish":
                        for _ in range(10):
                            await random.choice(traffic.publishers).publish(some_event(random))
                    case "subscribe":
                        await random.choice(traffic.consumers).subscribe(some_filter(random))
                await asyncio.sleep(random.random() * 0.4)
            for proxy in net.proxies.values():
                proxy.heal()
            for name in net.names:
                if name not in net.brokers:
                    await net.start(name)
            await eventually(lambda: at_rest(net), 30)
            await traffic.flush()
            traffic.check(whole=False)
            before = set(traffic.published)
            await traffic.round(50)
            new = {name: event for name, event in traffic.published.items() if name not in before}
            for consumer in traffic.consumers:
                for wish in consumer.wishes:
                    wish.got = type(wish.got)({name: n for name, n in wish.got.items() if name in new})
                    wish.order = [name for name in wish.order if name in new]
                    wish.check(new)

    run(main(), 120)
