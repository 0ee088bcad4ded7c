"""What a confirmed event takes of a broker's disk and processor, by how many durable subscriptions it waits for.

    python benchmarks/durable_disk.py [--events 10000] [--bytes 200] [--together 500] [--subscriptions 0 1 4] [--json]

A broker with a new store is a process of its own. Durable subscriptions are made and left, so that events stay. Then a
client publishes events and has them confirmed, so many at a time; all wait in the store. Figures are for one event; a
tenth as many were published before, so that the store has its tables:

    stored        bytes of the store that are in use (`covey_store_used_bytes`)
    file          bytes by which store.db has grown
    written       bytes that the process has given to the disk (`/proc/PID/io`): journal, store and mark
    commits       transactions, each with a sync of the disk
    CPU µs        CPU time of the broker, its log's thread included
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import covey
from covey.bench import usage
from covey.broker.config import AdminConfig, BrokerConfig
from covey.broker.process import Family, listen

START_S = 300.0
CONFIRM_S = 300.0


@contextmanager
def broker(directory: Path) -> Iterator[tuple[int, int, int]]:
    """Run a broker; give its port, that of its pages, and its process."""
    family, socket, pages = Family(), listen("127.0.0.1", 0), listen("127.0.0.1", 0)
    port, admin = socket.getsockname()[1], pages.getsockname()[1]
    pages.close()
    config = BrokerConfig(
        "bench", port=port, data_dir=str(directory), max_store_bytes=8 << 30, admin=AdminConfig(port=admin)
    )
    family.start({"bench": config}, {"bench": socket})
    try:
        family.wait("ready", START_S)
        yield port, admin, family.children[0].pid
    finally:
        family.signal(signal.SIGKILL)
        family.stop(10.0)


def reading(directory: Path, admin: int, pid: int) -> dict[str, float]:
    """Return what has been used so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics") as answer:
        text = answer.read().decode()
    metrics = dict(re.findall(r"^(covey_store_\w+) (\S+)$", text, re.MULTILINE))
    io = dict(re.findall(r"^(\w+): (\d+)$", Path(f"/proc/{pid}/io").read_text(), re.MULTILINE))
    return {
        "stored": float(metrics["covey_store_used_bytes"]),
        "file": float((directory / "store.db").stat().st_size),
        "written": float(io["write_bytes"]),
        "commits": float(metrics["covey_store_commits_total"]),
        "cpu_us": usage.between({}, usage.reading([pid])).cpu_s * 1e6,
    }


async def measure(events: int, size: int, together: int, subscriptions: int) -> dict[str, float]:
    """Publish events that wait for so many subscriptions; return what one of them takes."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / "data"
        with broker(directory) as (port, admin, pid):
            url = f"covey://127.0.0.1:{port}"
            async with covey.connect(url, name="reader") as reader:
                for number in range(subscriptions):
                    await reader.subscribe("n >= 0", durable=f"queue-{number}")
                await reader.flush()
            async with covey.connect(url, name="writer") as writer:
                await writer.advertise("n >= 0")
                warm = max(events // 10, 1)
                await publish(writer, warm, size, together)
                before = await asyncio.to_thread(reading, directory, admin, pid)
                await publish(writer, events, size, together)
                after = await asyncio.to_thread(reading, directory, admin, pid)
    return {name: (after[name] - before[name]) / events for name in after}


async def publish(writer: covey.Client, events: int, size: int, together: int) -> None:
    """Publish events, so many at a time, and return when all are confirmed."""
    payload = bytes(size)
    for first in range(0, events, together):
        some = [({"n": number}, payload) for number in range(first, min(first + together, events))]
        await writer.publish_many(some, confirm=True, timeout_s=CONFIRM_S)


def main(words: list[str]) -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--bytes", type=int, default=200, help="of payload")
    parser.add_argument("--together", type=int, default=500, help="events that wait to be confirmed at once")
    parser.add_argument("--subscriptions", type=int, nargs="+", default=[0, 1, 4])
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(words)
    rows = []
    for subscriptions in asked.subscriptions:
        found = asyncio.run(measure(asked.events, asked.bytes, asked.together, subscriptions))
        rows.append({"subscriptions": subscriptions, **found})
        if not asked.json:
            print({name: round(value, 3) for name, value in rows[-1].items()}, flush=True)
    if asked.json:
        print(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
