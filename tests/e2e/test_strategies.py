"""Every strategy over real sockets: exact delivery while clients come and go, and the simulator's tables."""

from __future__ import annotations

from random import Random

import pytest
from tests.e2e.helpers.network import Live, Pair, configs
from tests.e2e.helpers.nursery import Nursery
from tests.e2e.helpers.running import free_port, run
from tests.e2e.helpers.traffic import Consumer, Traffic, some_filter

import covey
from covey.broker.config import BrokerConfig
from covey.client.client import connect
from covey.routing.strategy import registered
from covey.sim.handles import Subscription
from covey.sim.network import Network

STRATEGIES = [name for name in covey.strategies() if not registered(name).trees]


def some_tree(random: Random, count: int) -> list[Pair]:
    """Return the links of a random tree of brokers."""
    return [(f"b{random.randrange(max(0, n - 4), n):02}", f"b{n:02}") for n in range(1, count)]


async def churn(traffic: Traffic, names: list[str], random: Random, events: int) -> None:
    """Publish while others subscribe, leave and come; whoever stays misses nothing, nobody gets anything else."""
    here: list[Consumer] = []
    all_of_them: list[Consumer] = []

    async def come_and_go() -> None:
        if random.random() < 0.7:
            return
        if len(here) > 3:
            gone = here.pop(random.randrange(len(here)))
            await gone.client.__aexit__(None, None, None)
        else:
            new = await traffic.add_consumer(random.choice(names), [some_filter(random)])
            traffic.consumers.remove(new)  # it may leave before the marks
            here.append(new)
            all_of_them.append(new)

    await traffic.round(events, come_and_go)
    for consumer in all_of_them:
        consumer.wishes[0].check(traffic.published, whole=False)
        await consumer.stop()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_delivery_is_exact_while_clients_come_and_go(strategy: str) -> None:
    random = Random(f"e2e {strategy}")
    links = some_tree(random, 15)

    async def main() -> None:
        async with Live(links, strategy=strategy) as net, Traffic(net.client, random) as traffic:
            for name in random.sample(net.names, 3):
                await traffic.add_publisher(name)
            for name in random.sample(net.names, 8):
                await traffic.add_consumer(name, [some_filter(random) for _ in range(3)])
            await traffic.flush()
            await traffic.round(30)
            await churn(traffic, net.names, random, 40)
            for consumer in traffic.consumers[:4]:  # some change their minds
                await consumer.subscribe(some_filter(random))
            await traffic.flush()
            before = set(traffic.published)
            await traffic.round(20)
            for consumer in traffic.consumers[:4]:
                new = consumer.wishes.pop()
                new.check({name: e for name, e in traffic.published.items() if name not in before})
            traffic.check()

    run(main())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_simulator_ends_with_the_same_tables(strategy: str) -> None:
    random = Random(f"tables {strategy}")
    links = some_tree(random, 9)

    async def main() -> None:
        sim = Network(links, strategy)
        async with Live(links, strategy=strategy) as net, Traffic(net.client, random) as traffic:
            for name in random.sample(net.names, 3):
                publisher = await traffic.add_publisher(name)
                sim.advertise(name, covey.parse("x >= 0"))
                sim.advertise(name, covey.parse("mark >= 0"))
                await publisher.client.flush()
                sim.settle()
            held: list[tuple[Consumer, list[Subscription]]] = []
            for _ in range(25):
                if random.random() < 0.3 and held:
                    consumer, handles = held.pop(random.randrange(len(held)))
                    traffic.consumers.remove(consumer)
                    await consumer.stop()
                    await consumer.client.flush()
                    for handle in reversed(handles):
                        sim.unsubscribe(handle)
                        sim.settle()
                else:
                    name, filter = random.choice(net.names), some_filter(random)
                    consumer = await traffic.add_consumer(name, [filter])
                    await consumer.client.flush()
                    handles = []
                    for one in (covey.parse("mark >= 0"), filter):
                        handles.append(sim.subscribe(name, one))
                        sim.settle()
                    held.append((consumer, handles))
            expected = {
                name: sorted((link, str(filter)) for link, filter in entries)
                for name, entries in sim.tables.items()
            }
            assert net.tables() == expected
            assert any(expected.values()) == (strategy != "flooding")

    run(main())


def test_fifteen_processes(nursery: Nursery) -> None:
    random = Random("processes")
    links = some_tree(random, 15)
    names = sorted({name for link in links for name in link})
    ports = {name: free_port() for name in names}
    settings: dict[str, BrokerConfig] = configs(links, ports)
    processes = [nursery.start(config) for config in settings.values()]
    for process in processes:
        process.wait("linked")

    async def main() -> None:
        async with Traffic(lambda name: connect(f"covey://127.0.0.1:{ports[name]}"), random) as traffic:
            for name in random.sample(names, 3):
                await traffic.add_publisher(name)
            for name in random.sample(names, 10):
                await traffic.add_consumer(name, [some_filter(random) for _ in range(3)])
            await traffic.flush()
            await churn(traffic, names, random, 60)
            traffic.check()

    run(main())
    for process in processes:
        process.end()
    for process in processes:
        process.wait_gone()
        assert process.said().endswith("ended\n")
