"""What one event costs a broker between reading and writing, without sockets: cut, checked, matched and laid out.

    python benchmarks/fastpath.py [--subscriptions N]

Three loads: one event a turn, 256 events of one link a turn, and one event of each of 100 links a turn, which are
handled together. Each event goes to one subscriber; N subscriptions of others match none of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from random import Random

from covey.broker import effects
from covey.broker.config import BrokerConfig
from covey.broker.core import BrokerCore
from covey.broker.effects import Effect, Input, Instant
from covey.broker.permissions import EVERYTHING
from covey.broker.security import Security
from covey.core.families import parse
from covey.protocol.control import BARE, AdvertiseRequest, SubscribeRequest, encode
from covey.protocol.events import encode_content, encode_event
from covey.protocol.frames import Kind, frame, framed

LINKS = 100


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
    config = BrokerConfig("a")
    now = Instant(0.0, 0.0)
    core = BrokerCore(config, Security(config.security), BARE, incarnation=1, random=Random(1), now=now)

    def step(given: Input) -> list[Effect]:
        return core.step(given, now)

    def rest() -> None:
        while core.scheduler.has_work:
            step(effects.Tick())

    def ask(connection: int, request: AdvertiseRequest | SubscribeRequest) -> None:
        step(effects.Received(connection, frame(Kind.REQUEST, encode(request))))
        rest()

    for connection in range(LINKS + 2):
        step(effects.Attached(connection, "here", EVERYTHING))
    sessions = list(core.clients.values())
    subscriber, other = LINKS, LINKS + 1
    for connection in range(LINKS):
        ask(connection, AdvertiseRequest(1, 1, parse("symbol is not null").encode()))
    ask(subscriber, SubscribeRequest(1, 1, parse("symbol = 'S1' and price > 1").encode()))
    for sid in range(1, subscriptions + 1):
        filter = parse(f"symbol = 'T{sid}' and price > {sid}")
        ask(other, SubscribeRequest(sid, sid, filter.encode()))

    def turn(taken: list[tuple[int, bytes]]) -> None:
        for connection, data in taken:
            step(effects.Received(connection, data))
        rest()

    one, many = events_of(sessions[0].number, 1), events_of(sessions[0].number, 256)
    all_links = [(number, events_of(session.number, 1)) for number, session in enumerate(sessions[:LINKS])]
    loads: list[tuple[str, int, int, Callable[[], None]]] = [
        ("1 event of 1 link", 1, 3000, lambda: turn([(0, one)])),
        ("256 events of 1 link", 256, 100, lambda: turn([(0, many)])),
        (f"1 event of each of {LINKS} links", LINKS, 100, lambda: turn(all_links)),
    ]
    for name, events, repeat, once in loads:
        once()
        print(f"{name:32} {best_us(repeat, once) / events:8.2f} µs an event", flush=True)
    print(f"{sessions[subscriber].delivered:,} deliveries")


if __name__ == "__main__":
    main()
