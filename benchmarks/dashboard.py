"""What a dashboard costs brokers: processor time of real brokers while nobody watches, and while one dashboard does.

    python benchmarks/dashboard.py [--brokers 8] [--clients 20] [--rate 10] [--seconds 20] [--turns 3]

Brokers stand in a row, each with clients that all want a part of the events. Each broker gets `rate` events a second:
10 is what one of 500 brokers gets of 5,000 events a second. In turns nobody and a collector of the dashboard, which is
in this process, watch the brokers' `/watchz`; the difference is what watching costs.

What the dashboard itself uses for 500 brokers is measured by `python -m tests.browser.many 500 30`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import covey
from covey.broker.config import AdminConfig, BrokerConfig, LinkConfig
from covey.broker.process import Family, listen
from covey.dashboard.collector import Collector

HOST = "127.0.0.1"
SETTLE_S = 3.0  # before a turn is measured
WANTED = 4  # one in so many events is wanted by a client


@contextmanager
def overlay(count: int) -> Iterator[tuple[list[int], list[int], list[int]]]:
    """Run brokers in a row; give their ports, the ports of their pages, and their processes."""
    sockets = {f"b{number}": listen(HOST, 0) for number in range(count)}
    pages = [listen(HOST, 0) for _ in sockets]
    ports = [one.getsockname()[1] for one in sockets.values()]
    admin = [one.getsockname()[1] for one in pages]
    for one in pages:
        one.close()
    configs = {}
    for number, name in enumerate(sockets):
        links = []
        if number:
            links.append(LinkConfig(f"b{number - 1}", HOST, ports[number - 1]))
        if number + 1 < count:
            links.append(LinkConfig(f"b{number + 1}"))
        configs[name] = BrokerConfig(
            name,
            port=ports[number],
            links=tuple(links),
            admin=AdminConfig(port=admin[number]),
            log_level="error",
        )
    family = Family()
    family.start(configs, sockets)
    try:
        family.wait("linked" if count > 1 else "ready", 120.0)
        yield ports, admin, [child.pid for child in family.children]
    finally:
        family.signal(signal.SIGTERM)
        family.stop(10.0)


def used_s(pid: int) -> float:
    """Return the processor time of a process."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def publish(clients: Sequence[covey.Client], rate: float) -> None:
    """Publish events at each of the clients, evenly, until cancelled."""
    number, next_s = 0, time.monotonic()
    while True:
        for client in clients:
            await client.publish({"part": number % (WANTED * 20), "price": number % 97})
            number += 1
        next_s += 1 / rate
        await asyncio.sleep(max(0.0, next_s - time.monotonic()))


async def measure(brokers: int, clients: int, rate: float, seconds: float, turns: int) -> None:
    """Print what each turn used, and the difference."""
    with overlay(brokers) as (ports, admin, pids):
        some = [await covey.connect(f"covey://{HOST}:{port}") for port in ports for _ in range(clients)]
        for number, client in enumerate(some):
            await client.subscribe(f"part = {number % clients * WANTED}")
        publishers = some[::clients]
        for client in publishers:
            await client.advertise("part >= 0")
            await client.flush()
        publishing = asyncio.create_task(publish(publishers, rate))

        async def turn() -> float:
            await asyncio.sleep(SETTLE_S)
            before, begun_s = [used_s(pid) for pid in pids], time.monotonic()
            await asyncio.sleep(seconds)
            passed_s = time.monotonic() - begun_s
            shares = [(used_s(pid) - old) / passed_s for pid, old in zip(pids, before, strict=True)]
            return statistics.mean(shares)

        alone, watched = [], []
        for number in range(turns):
            alone.append(await turn())
            async with Collector([f"http://{HOST}:{port}" for port in admin]) as collector:
                watched.append(await turn())
                heard = sum(source.now is not None for source in collector.sources)
            print(
                f"turn {number + 1}: a broker uses {alone[-1]:.2%} of a core alone and {watched[-1]:.2%} watched"
                f" ({heard} of {brokers} brokers heard)",
                flush=True,
            )
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)
        cost = statistics.median(there - without for there, without in zip(watched, alone, strict=True))
        print(
            f"{brokers} brokers with {clients} clients each, {rate:g} events a second at each:"
            f" watching costs a broker {cost:.2%} of a core (median of {turns})"
        )
        for client in some:
            await client.close()


def main(words: list[str]) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--brokers", type=int, default=8)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--rate", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args(words)
    asyncio.run(measure(given.brokers, given.clients, given.rate, given.seconds, given.turns))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
