"""How fast a broker reads a long backlog: events on disk that one durable subscriber takes when it comes back.

    python benchmarks/durable_backlog.py [--events 200000] [--bytes 200] [--rounds 3] [--json]

A store is filled with events that wait for one durable subscription. A broker, a process of its own, is started with a
copy of it. A subscriber on a real socket attaches, counts deliveries, and acknowledges all up to the last position
after every read of the socket. It does nothing else, so that the broker is what is measured. Figures are from the
request to attach until the last delivery:

    events/s      deliveries in a second of time
    CPU µs        CPU time of the broker for an event: its event loop, and the thread of its log
    waited        how long the broker's threads could run and had no CPU: what others on this machine took

Two ways take turns within a round, so that both have the same machine: the broker reads on while it sends what it has
read (`Feed.reads_ahead`), and it reads on only when all is sent, as it did before.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from covey import parse
from covey.bench import usage
from covey.bench.network_peers import Connected
from covey.broker.config import BrokerConfig
from covey.broker.durable.log import Batch, Committed, Entry, Keep
from covey.broker.durable.queues import Feed
from covey.broker.durable.sqlite import SqliteLog
from covey.broker.process import Family, listen
from covey.core.packing import pack
from covey.protocol.control import Hello, SubscribeRequest, Welcome, decode_life, encode
from covey.protocol.events import ATTRIBUTES, KEPT, delivery_of, encode_acknowledge, encode_event
from covey.protocol.frames import VERSION, Kind, Splitter, frame

START_S = 60.0
SID = 1


class Reader(Connected):
    """A durable subscriber that counts."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._splitter = Splitter()
        self.socket.sendall(frame(Kind.HELLO, encode(Hello(VERSION, "client", name="reader"))))
        said = decode_life(self._next(Kind.WELCOME)[1:])
        assert isinstance(said, Welcome)

    def _next(self, kind: Kind) -> bytes:
        while True:
            for one in self._splitter.feed(self.socket.recv(1 << 18)):
                assert one[0] != Kind.GOODBYE, decode_life(one[1:])
                if one[0] == kind:
                    return bytes(one)

    def attach(self) -> None:
        """Make the subscription, or attach it again."""
        request = SubscribeRequest(1, SID, parse("n > 0").encode(), "backlog")
        self.socket.sendall(frame(Kind.REQUEST, encode(request)))

    def take(self, events: int) -> None:
        """Return once so many events have come, each position higher than the one before."""
        got = last = 0
        while got < events:
            one = b""
            for one in self._splitter.feed(self.socket.recv(1 << 18)):
                got += one[0] == Kind.DELIVERY
            if one and one[0] == Kind.DELIVERY:
                position = delivery_of(bytes(one)).position
                assert position is not None
                assert position > last
                last = position
                self.socket.sendall(frame(Kind.ACKNOWLEDGE, encode_acknowledge(SID, [last], cumulative=True)))

    def close(self) -> None:
        self.socket.close()


@contextmanager
def broker(directory: Path) -> Iterator[tuple[int, int]]:
    """Run a broker; give its port and its process."""
    family, socket = Family(), listen("127.0.0.1", 0)
    port = socket.getsockname()[1]
    config = BrokerConfig("bench", port=port, data_dir=str(directory), max_store_bytes=8 << 30)
    family.start({"bench": config}, {"bench": socket})
    try:
        family.wait("ready", START_S)
        yield port, family.children[0].pid
    finally:
        family.signal(signal.SIGKILL)
        family.stop(10.0)


def fill(directory: Path, events: int, size: int) -> None:
    """Make a store with so many events that wait for the durable subscription."""
    with broker(directory) as (port, _), closing(Reader(port)) as reader:
        reader.attach()
        reader._next(Kind.REPLY)
    log = SqliteLog(directory / "store.db", "bench", 8 << 30)
    recovered = log.open()
    (owner,) = recovered.owners
    done = threading.Event()

    def report(answers: Any) -> None:
        for one in answers:
            assert isinstance(one, Committed)
            assert one.error is None, one.error
            if events in one.tickets:
                done.set()

    log.start(report)
    payload = bytes(size)
    for first in range(1, events + 1, 1_000):
        batches = []
        for n in range(first, min(first + 1_000, events + 1)):
            one = encode_event(pack({"n": n}), payload, family=ATTRIBUTES, publisher=7, number=n, flags=KEPT)
            keep = Keep(recovered.last + n, 7, n, one, 1.0e9, (Entry(owner.id),), seen=True)
            batches.append(Batch(n, (keep,)))
        log.submit(batches)
    assert done.wait(600.0)
    log.close()


def measure(store: Path, folder: Path, events: int) -> dict[str, float]:
    """Read the whole backlog once, from a copy of the store."""
    directory = folder / "copy"
    shutil.copytree(store, directory)
    try:
        with broker(directory) as (port, pid), closing(Reader(port)) as reader:
            before, began_s = usage.reading([pid]), time.monotonic()
            reader.attach()
            reader.take(events)
            took_s = time.monotonic() - began_s
            after = usage.reading([pid])
    finally:
        shutil.rmtree(directory)
    used = usage.between(before, after)
    main = usage.between(
        {key: one for key, one in before.items() if key[1] == pid},
        {key: one for key, one in after.items() if key[1] == pid},
    )
    return {
        "events_per_s": events / took_s,
        "cpu_us": used.cpu_s / events * 1e6,
        "loop_cpu_us": main.cpu_s / events * 1e6,
        "waited_s": used.waited_s,
    }


def main(words: list[str]) -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--bytes", type=int, default=200, help="of payload")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(words)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder / "store", asked.events, asked.bytes)
        for _ in range(asked.rounds):
            for ahead in (False, True):
                Feed.reads_ahead = ahead  # the broker is forked
                rows.append({"ahead": ahead, **measure(folder / "store", folder, asked.events)})
                if not asked.json:
                    print({name: round(value, 1) for name, value in rows[-1].items()}, flush=True)
    if asked.json:
        print(json.dumps(rows, indent=1))
        return 0
    for ahead in (False, True):
        some = [row for row in rows if row["ahead"] == ahead]
        medians = {name: statistics.median(row[name] for row in some) for name in some[0]}
        way = "reads ahead" if ahead else "reads when all is sent"
        print(
            f"{way}: {medians['events_per_s']:,.0f} events/s, {medians['cpu_us']:.1f} µs of CPU an event "
            f"({medians['loop_cpu_us']:.1f} in the loop), waited {medians['waited_s']:.2f} s (medians of {len(some)})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
