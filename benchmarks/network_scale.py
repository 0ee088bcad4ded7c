"""Many live subscriptions on one broker: what each takes of its memory, and how soon all are back after a restart.

    python benchmarks/network_scale.py [--connections 1000] [--subscriptions 100000]

The broker is a process; a second process has all the connections. The broker is killed and started again on its port;
it is ready when every client has said again what it wants, and a flush of each is answered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

import covey
from covey.bench.network_load import Program
from covey.broker.config import BrokerConfig
from covey.broker.process import Child, Family, listen, loop_factory

HOST = "127.0.0.1"


def filter_of(number: int) -> str:
    """Return another filter for each number."""
    return f"symbol = 'S{number % 5_000}' and price > {number % 97}.5 and volume < {number * 7 % 1_000 + 1}"


def clients(pipe: Connection, port: int, connections: int, subscriptions: int) -> None:
    """Connect and subscribe; answer whenever all is in force, as often as it is asked."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_clients(pipe, port, connections, subscriptions))


async def _clients(pipe: Connection, port: int, connections: int, subscriptions: int) -> None:
    some = [
        await covey.connect(f"covey://{HOST}:{port}", longest_pause_s=0.5, timeout_s=120.0)
        for _ in range(connections)
    ]
    each = subscriptions // connections
    for number, client in enumerate(some):
        filters = (filter_of(number * each + k) for k in range(each))
        await asyncio.gather(*(_subscribed(client, filter) for filter in filters))
    pipe.send("ready")
    loop = asyncio.get_running_loop()
    while True:
        before = await loop.run_in_executor(None, pipe.recv)
        while any(client.reconnects < before or not client.is_connected for client in some):
            await asyncio.sleep(0.01)
        await asyncio.gather(*(client.flush(120.0) for client in some))
        pipe.send("done")


async def _subscribed(client: covey.Client, filter: str) -> None:
    await client.subscribe(filter)


def started(port: int) -> tuple[Family, Child, int]:
    """Start a broker; return its process and port."""
    one = listen(HOST, port)
    port = int(one.getsockname()[1])
    family = Family()
    family.start({"b": BrokerConfig(name="b", port=port, log_level="error")}, {"b": one})
    family.wait("ready", 60.0)
    return family, family.children[0], port


def memory(child: Child) -> int:
    """Return how many bytes of memory a process has in use."""
    # Pages that it still shares with its parent too: that it writes to them one day makes them no more.
    return int(Path(f"/proc/{child.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--subscriptions", type=int, default=100_000)
    chosen = parser.parse_args()
    family, child, port = started(0)
    empty = memory(child)
    start_s = time.monotonic()
    with Program(clients, port, chosen.connections, chosen.subscriptions, patience_s=600.0) as program:
        made_s = time.monotonic() - start_s
        full = memory(child)
        os.kill(child.pid, signal.SIGKILL)
        family.stop(5.0)
        family, child, port = started(port)
        start_s = time.monotonic()
        program.say(1)
        program.expect("done")
        back_s = time.monotonic() - start_s
        again = memory(child)
    family.stop(10.0)
    count = chosen.subscriptions
    print(
        json.dumps(
            {
                "connections": chosen.connections,
                "subscriptions": count,
                "made_s": round(made_s, 1),
                "bytes_each": round((full - empty) / count),
                "back_s": round(back_s, 1),
                "bytes_each_again": round((again - empty) / count),
                "load": os.getloadavg()[0],
            }
        )
    )


if __name__ == "__main__":
    main()
