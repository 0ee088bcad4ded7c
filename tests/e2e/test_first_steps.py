"""A few brokers and clients over real sockets: the helpers at work, and what must be true before anything else."""

from __future__ import annotations

from tests.e2e.helpers.network import Live, configs
from tests.e2e.helpers.nursery import Nursery
from tests.e2e.helpers.running import eventually, free_port, run

from covey.client.client import connect


def test_an_event_crosses_three_brokers() -> None:
    async def main() -> None:
        async with (
            Live([("a", "b"), ("b", "c")]) as net,
            net.client("a") as publisher,
            net.client("c") as subscriber,
        ):
            await publisher.advertise("price > 0")
            async with subscriber.subscribe("price > 10") as events:
                await subscriber.flush()
                for price in (5, 20, 7, 30):
                    await publisher.publish({"price": price}, data=b"%d" % price)
                got = [await anext(events) for _ in range(2)]
            assert [(event["price"], event.data) for event in got] == [(20, b"20"), (30, b"30")]

    run(main())


def test_a_link_that_was_cut_comes_back() -> None:
    async def main() -> None:
        async with (
            Live([("a", "b")], proxied=[("a", "b")]) as net,
            net.client("a") as publisher,
            net.client("b") as subscriber,
            subscriber.subscribe("x = 1") as events,
        ):
            await subscriber.flush()
            net.proxies["a", "b"].cut()
            await eventually(lambda: not net.open_links("a") and not net.open_links("b"))
            net.proxies["a", "b"].heal()
            await net.linked()
            await subscriber.flush()
            await publisher.publish({"x": 1})
            assert (await anext(events))["x"] == 1

    run(main())


def test_brokers_as_processes(nursery: Nursery) -> None:
    ports = {name: free_port() for name in "ab"}
    both = configs([("a", "b")], ports)
    processes = {name: nursery.start(config) for name, config in both.items()}
    for process in processes.values():
        process.wait("linked")

    async def main() -> None:
        async with (
            connect(f"covey://127.0.0.1:{ports['a']}") as publisher,
            connect(f"covey://127.0.0.1:{ports['b']}") as subscriber,
            subscriber.subscribe("x = 1") as events,
        ):
            await subscriber.flush()
            await publisher.publish({"x": 1})
            assert (await anext(events))["x"] == 1

    run(main())
    for name, process in processes.items():
        process.end()
        process.wait_gone()
        assert process.said() == f"listening {ports[name]}\nready\nlinked\ndraining\nended\n"
