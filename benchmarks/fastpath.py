"""What one event costs a broker between reading and writing, without sockets: cut, checked, matched and laid out.

    python benchmarks/fastpath.py [--subscriptions N]

Three loads: one event a turn, 256 events of one link a turn, and one event of each of 100 links a turn, which are
handled together. Each event goes to one subscriber; N subscriptions of others match none of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from covey.broker.exchange import Exchange
from covey.broker.peers import Client

import covey.strategies  # noqa: F401 (registers them)
from covey.broker.epochs import Epochs
from covey.broker.fastpath import Read
from covey.core.families import parse
from covey.protocol.batches import FastSplitter
from covey.protocol.control import AdvertiseRequest, SubscribeRequest, encode
from covey.protocol.events import encode_content, encode_event, link_of
from covey.protocol.frames import MAX_FRAME, Kind, framed
from covey.protocol.outbox import Verdict
from covey.routing.router import Router

LINKS = 100


class Nowhere:
    """A link whose other end does not exist; it counts."""

    def __init__(self) -> None:
        self.events = 0

    def send(self, kind: int, body: bytes, *, barrier: bool = False) -> None:
        """Send nothing."""

    def send_events(self, chunk: bytes, count: int = 1) -> Verdict:
        """Count events."""
        self.events += count
        return Verdict.TAKEN

    def end(self, reason: str) -> None:
        """End nothing."""


def best_us(repeat: int, once: Callable[[], None]) -> float:
    """Return the least time of a call, of several rounds, in microseconds."""
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        for _ in range(repeat):
            once()
        best = min(best, (time.process_time() - start) / repeat * 1e6)
    return best


def events_of(publisher: int, count: int) -> bytes:
    """Return frames as a client sends them."""
    return b"".join(
        framed(encode_event(content, b"x" * 64, family=family, publisher=publisher, number=number))
        for number in range(count)
        for family, content in [encode_content({"symbol": "S1", "price": 10.5 + number, "volume": number})]
    )


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--subscriptions", type=int, default=10_000)
    subscriptions = arguments.parse_args().subscriptions
    exchange = Exchange(Epochs(lambda plan: Router("a", "covering")))
    clients = [Client(link_of(number), number, Nowhere()) for number in range(1, LINKS + 3)]
    publishers, subscriber, other = clients[:LINKS], clients[LINKS], clients[LINKS + 1]
    for client in clients:
        exchange.client_up(client)

    def ask(client: Client, request: AdvertiseRequest | SubscribeRequest) -> None:
        exchange.from_client(client, [bytes((Kind.REQUEST,)) + encode(request)])

    for client in publishers:
        ask(client, AdvertiseRequest(1, 1, parse("symbol is not null").encode()))
    ask(subscriber, SubscribeRequest(1, 1, parse("symbol = 'S1' and price > 1").encode()))
    for sid in range(1, subscriptions + 1):
        filter = parse(f"symbol = 'T{sid}' and price > {sid}")
        ask(other, SubscribeRequest(sid, sid, filter.encode()))

    splitters = {client.link: FastSplitter(MAX_FRAME) for client in clients}

    def turn(taken: list[tuple[Client, bytes]]) -> None:
        reads = [Read.of(client, splitters[client.link].feed(data)) for client, data in taken]
        exchange.handle(reads, lambda read, error: None)

    one, many = events_of(1, 1), events_of(1, 256)
    all_links = [(client, events_of(client.number, 1)) for client in publishers]
    loads: list[tuple[str, int, int, Callable[[], None]]] = [
        ("1 event of 1 link", 1, 3000, lambda: turn([(publishers[0], one)])),
        ("256 events of 1 link", 256, 100, lambda: turn([(publishers[0], many)])),
        (f"1 event of each of {LINKS} links", LINKS, 100, lambda: turn(all_links)),
    ]
    for name, events, repeat, once in loads:
        once()
        print(f"{name:32} {best_us(repeat, once) / events:8.2f} µs an event", flush=True)
    assert isinstance(subscriber.outlet, Nowhere)
    print(f"{subscriber.outlet.events:,} deliveries")


if __name__ == "__main__":
    main()
