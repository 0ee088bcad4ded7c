"""Run a mesh of brokers and use it: publish at one end, subscribe at the others.

    python examples/mesh/trade.py

It starts `covey up` with the topology beside this file, five processes, and takes part over TCP like any other program.
By hand it is the same: `covey up examples/mesh/topology.toml` in one shell, and with the addresses that it prints

    covey sub -u covey://127.0.0.1:40123 "price > 100"
    covey pub -u covey://127.0.0.1:40125 symbol=SAP price=120

in two others. docs/operations.md says how to run brokers on machines of their own.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import covey

TOPOLOGY = Path(__file__).with_name("topology.toml")


@contextmanager
def mesh() -> Iterator[dict[str, str]]:
    """Start the brokers, give the address of each by its name, and end them."""
    command = [sys.executable, "-m", "covey", "up", str(TOPOLOGY)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        addresses = {}
        for line in process.stdout:
            if line.strip() == "ready":
                break
            name, address, *_ = line.split()
            addresses[name] = address
        else:
            raise SystemExit("the brokers did not start")
        try:
            yield addresses
        finally:
            process.terminate()


async def trade(at: dict[str, str]) -> None:
    """Publish quotes in Paris; Nice and Milan get what they asked for."""
    async with (
        covey.connect(at["paris"]) as exchange,
        covey.connect(at["nice"]) as ann,
        covey.connect(at["milan"]) as bob,
    ):
        await exchange.advertise("price > 0")
        async with (
            ann.subscribe("symbol = 'IBM' and price < 100") as cheap,
            bob.subscribe("price >= 100") as dear,
        ):
            await asyncio.gather(ann.flush(), bob.flush())  # now all brokers know
            for symbol, price in [("IBM", 95), ("SAP", 120), ("SAP", 60), ("IBM", 101)]:
                await exchange.publish({"symbol": symbol, "price": price})
            print("nice got", (await cheap.next(timeout_s=10)).content)
            for _ in range(2):
                print("milan got", (await dear.next(timeout_s=10)).content)


if __name__ == "__main__":
    with mesh() as addresses:
        print("brokers:", ", ".join(addresses))
        asyncio.run(trade(addresses))
