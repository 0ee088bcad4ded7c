"""What one event costs a broker between reading and writing, without sockets: a core's steps from bytes to bytes.

    python benchmarks/fastpath.py [--subscriptions N]

Three loads: one event a turn, 256 events of one connection a turn, and one event of each of 100 connections a turn,
which are handled together. Each event goes to one subscriber; N subscriptions of others match none of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from random import Random

from covey.broker.config import BrokerConfig
from covey.broker.core import BrokerCore
from covey.broker.effects import Arrived, Instant, Opened, Received, Tick
from covey.broker.scheduling import SMALL
from covey.broker.security import Security
from covey.broker.sessions import Session
from covey.core.families import parse
from covey.protocol.control import BARE, AdvertiseRequest, Hello, SubscribeRequest, encode
from covey.protocol.events import encode_content, encode_event
from covey.protocol.frames import OLDEST, Kind, frame, framed

CONNECTIONS = 100
NOW = Instant(0.0, 0.0)


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


class Clients:
    """Clients of one core; what is written to them goes nowhere."""

    def __init__(self) -> None:
        config = BrokerConfig("a")
        security = Security(config.security, config.host)
        self.core = BrokerCore(config, security, BARE, incarnation=1, random=Random(1), now=NOW)
        self.core.start(NOW)

    def come(self, connection: int) -> Session:
        """Let a client come."""
        self.core.step(Opened(connection, "here", "here"), NOW)
        self.turn([(connection, frame(Kind.HELLO, encode(Hello(OLDEST, "client"))))])
        who = self.core.peers[connection].who
        assert isinstance(who, Session), "it was admitted"
        return who

    def ask(self, connection: int, request: AdvertiseRequest | SubscribeRequest) -> None:
        """Let a client ask for something."""
        self.turn([(connection, frame(Kind.REQUEST, encode(request)))])

    def turn(self, said: list[tuple[int, bytes]]) -> None:
        """Let clients say something, as a shell does that finds it in one turn of its loop; have all of it handled."""
        if all(len(data) <= SMALL for _, data in said):
            self.core.step(Arrived(dict(said)), NOW)
        else:
            for connection, data in said:
                self.core.step(Received(connection, data), NOW)
        while (due_s := self.core.deadline()) is not None and due_s <= NOW.monotonic_s:
            self.core.step(Tick(), NOW)


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--subscriptions", type=int, default=10_000)
    subscriptions = arguments.parse_args().subscriptions
    clients = Clients()
    sessions = {connection: clients.come(connection) for connection in range(1, CONNECTIONS + 3)}
    *publishers, subscriber, other = sessions
    for connection in publishers:
        clients.ask(connection, AdvertiseRequest(1, 1, parse("symbol is not null").encode()))
    clients.ask(subscriber, SubscribeRequest(1, 1, parse("symbol = 'S1' and price > 1").encode()))
    for sid in range(1, subscriptions + 1):
        clients.ask(other, SubscribeRequest(sid, sid, parse(f"symbol = 'T{sid}' and price > {sid}").encode()))
    first = publishers[0]
    one, many = (events_of(sessions[first].number, count) for count in (1, 256))
    all_of_them = [(connection, events_of(sessions[connection].number, 1)) for connection in publishers]
    loads: list[tuple[str, int, int, Callable[[], None]]] = [
        ("1 event of 1 connection", 1, 3000, lambda: clients.turn([(first, one)])),
        ("256 events of 1 connection", 256, 100, lambda: clients.turn([(first, many)])),
        (f"1 event of each of {CONNECTIONS}", CONNECTIONS, 100, lambda: clients.turn(all_of_them)),
    ]
    for name, events, repeat, once in loads:
        once()
        print(f"{name:32} {best_us(repeat, once) / events:8.2f} µs an event", flush=True)
    print(f"{sessions[subscriber].delivered:,} deliveries")


if __name__ == "__main__":
    main()
