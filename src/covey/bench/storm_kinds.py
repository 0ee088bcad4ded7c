"""The storms of `storms`: what one hostile, or only large, client does to a broker, each as a program of its own.

Eight were found by trying (docs/security.md has their bounds); the others are of the same kinds. A storm prepares what
it needs, waits until it is let loose, goes on for some seconds, and says how much it has done. All is bounded: in
time, in connections, and in what is in memory here.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple

import msgspec

from covey.bench.heavy_filters import patterns, plain, sets
from covey.bench.network_peers import WANTED, CoveyClient
from covey.broker.config import Queue
from covey.broker.security import hash_password, read_security
from covey.core.families import parse
from covey.core.packing import pack
from covey.protocol.control import (
    AdvertiseRequest,
    Hello,
    SubscribeRequest,
    UnsubscribeRequest,
    encode,
)
from covey.protocol.events import ATTRIBUTES, encode_event
from covey.protocol.frames import VERSION, Kind, frame, framed
from covey.protocol.outbox import BLOCK, DROP_NEW

HOST: Final = "127.0.0.1"
MB: Final = 1_000_000
FILTERS_BOUND: Final = 1 << 30  # max_client_bytes
WAITS_BOUND: Final = (32 << 20) + (16 << 20)  # of what one connection has sent (`scheduling`), and buffers
SEND_S: Final = 0.5
PING_S: Final = 1.0
LATEST_S: Final = 10.0  # for the first frame, on a machine that is busy


class Target(NamedTuple):
    """Where a broker listens, and its pages."""

    port: int
    admin: int


class Room(NamedTuple):
    """Where a storm is, how large it should be, from 0 to 1, and how long it may last once it is let loose."""

    target: Target
    size: float
    loose: Callable[[], float]  # waits until it is; returns until when, by the monotonic clock


@dataclass(frozen=True)
class Storm:
    """One of them; `bound_bytes` is what is documented for the memory that it may take."""

    name: str
    run: Callable[[Room], int]
    bound_bytes: int
    settings: Callable[[], dict[str, Any]] = dict


def storm(pipe: Connection, name: str, target: Target, size: float) -> None:
    """Be the program of a storm."""
    (one,) = (one for one in STORMS if one.name == name)

    def loose() -> float:
        pipe.send("ready")
        seconds = float(pipe.recv())  # which comes after the calm; only then the storm's time begins
        return time.monotonic() + seconds

    pipe.send(one.run(Room(target, size, loose)))


def rounds(until_s: float) -> Iterator[None]:
    """Yield until a time, at least once."""
    yield
    while time.monotonic() < until_s:
        yield


class Steady(CoveyClient):
    """A client whose connection does not end while it only listens."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._is_over = threading.Event()
        threading.Thread(target=self._ping, daemon=True).start()

    def _ping(self) -> None:
        while not self._is_over.wait(PING_S):
            with contextlib.suppress(OSError):
                self.socket.send(frame(Kind.PING, b""))

    def stop_pinging(self) -> None:
        """Say no more by itself: from now on the program does."""
        self._is_over.set()


class Hostile(Steady):
    """A client that sends frames as fast as they are taken, and throws away what it hears."""

    def flood(self, frames: Iterator[bytes], until_s: float) -> int:
        """Send frames until a time, or until the broker has ended the connection; return how many were sent."""
        done = 0
        self.stop_pinging()
        self.socket.setblocking(False)
        for one in frames:
            rest = memoryview(one)
            while rest:
                if time.monotonic() >= until_s + (0 if done else LATEST_S):
                    return done
                try:
                    rest = rest[self.socket.send(rest) :]
                except BlockingIOError:
                    time.sleep(0.001)
                except OSError:
                    return done
                self.hear()
            done += 1
        return done

    def hear(self) -> None:
        """Read what has come."""
        with contextlib.suppress(OSError):
            while self.socket.recv(1 << 16):
                pass

    def event(self, content: bytes, payload: bytes, number: int) -> bytes:
        """Return the frame of an event."""
        return framed(
            encode_event(content, payload, family=ATTRIBUTES, publisher=self._number, number=number)
        )

    def ask_for(self, filters: Iterator[bytes]) -> Iterator[bytes]:
        """Yield requests for subscriptions."""
        for sid, filter in enumerate(filters, 1):
            yield frame(Kind.REQUEST, encode(SubscribeRequest(sid, sid, filter)))


def _filters(room: Room, filters: list[bytes]) -> int:
    """Subscribe to all these filters, and begin again with another client when all were sent."""
    until_s, done = room.loose(), 0
    for _ in rounds(until_s):
        client = Hostile(room.target.port)
        with client.socket:
            done += client.flood(client.ask_for(iter(filters)), until_s)
            while time.monotonic() < until_s and done < len(filters):
                time.sleep(0.01)
                client.hear()
    return done


def like(room: Room) -> int:
    """Subscribe to filters of 64 conjunctions of LIKE patterns, dear ones and some that are just accepted."""
    many = max(2, int(200 * room.size))
    found = [patterns(number, sides) for number in range(many) for sides in (12, 1)]
    return _filters(room, [one.encode() for one in found])


def in_sets(room: Room) -> int:
    """Subscribe to filters of 60, and of 20, conjunctions with sets of 150 values."""
    many = max(2, int(200 * room.size))
    found = [sets(number, conjunctions) for number in range(many) for conjunctions in (60, 20)]
    return _filters(room, [one.encode() for one in found])


def wide_events(room: Room) -> int:
    """Publish events with 40,000 attributes, which are refused, and with as many as are allowed."""
    client = Hostile(room.target.port)
    client.announce()
    contents = [
        msgspec.msgpack.encode({"symbol": WANTED, **{f"a{number}": number for number in range(width)}})
        for width in (40_000, 4_095)
    ]
    until_s = room.loose()
    return client.flood((client.event(contents[k % 2], b"", k) for k in count(1)), until_s)


def _leaving(room: Room, subscriptions: int) -> int:
    """Have many ordinary subscriptions, and leave."""
    client = Hostile(room.target.port)
    client.socket.settimeout(120.0)
    for first in range(0, subscriptions, 5_000):
        numbers = range(first + 1, min(first + 5_000, subscriptions) + 1)
        client._ask(
            b"".join(
                frame(Kind.REQUEST, encode(SubscribeRequest(number, number, plain(number).encode())))
                for number in numbers
            )
        )
    room.loose()
    client.stop_pinging()
    client.socket.close()
    return subscriptions


def leaves_small(room: Room) -> int:
    """Have 20,000 subscriptions, and leave."""
    return _leaving(room, int(20_000 * room.size))


def leaves(room: Room) -> int:
    """Have 100,000 subscriptions, and leave."""
    return _leaving(room, int(100_000 * room.size))


def gzip_bodies(room: Room) -> int:
    """Post bodies to /healthz that would expand to a thousand times their size."""
    packer = zlib.compressobj(9, wbits=31)
    body = b"".join(packer.compress(bytes(1 << 20)) for _ in range(max(1, int(3_000 * room.size))))
    body += packer.flush()
    head = f"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    until_s, done = room.loose(), 0
    for _ in rounds(until_s):
        with contextlib.suppress(OSError), socket.create_connection((HOST, room.target.admin), 2.0) as one:
            one.sendall(head.encode() + body)
            one.recv(1 << 12)
        done += 1
    return done


def half_requests(room: Room) -> int:
    """Hold 1,100 connections with half a request each, and open them again when they are ended."""
    many, until_s = max(10, int(1_100 * room.size)), room.loose()
    held: list[socket.socket] = []
    done = 0
    for _ in rounds(until_s):
        for _ in range(50):
            with contextlib.suppress(OSError):
                one = socket.create_connection((HOST, room.target.admin), 1.0)
                one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
                held.append(one)
                done += 1
        while len(held) > many:
            held.pop(0).close()
        time.sleep(0.01)
    return done


def random_logins(room: Room) -> int:
    """Log in with random names and passwords, over some connections at a time."""
    until_s, done = room.loose(), 0
    waiting: list[socket.socket] = []
    for _ in rounds(until_s):
        with contextlib.suppress(OSError):
            one = socket.create_connection((HOST, room.target.port), 1.0)
            waiting.append(one)
            hello = Hello(VERSION, "client", user=f"user{done}", password="guess")
            one.sendall(frame(Kind.HELLO, encode(hello)))
            done += 1
        if len(waiting) > 100:
            waiting.pop(0).close()
    return done


def with_users() -> dict[str, Any]:
    """Return settings of a broker that has users, and takes others too."""
    users = [{"name": "ann", "password": str(hash_password("horse"))}]
    return {"security": read_security({"users": users, "anonymous": {}, "neighbours": {"trusted": True}})}


def http_into_block(room: Room) -> int:
    """Post events for a subscriber that does not read, whose full queue blocks who fills it."""
    reader = Steady(room.target.port)
    reader._ask(frame(Kind.REQUEST, encode(SubscribeRequest(1, 1, parse("storm = 1").encode()))))
    event = {
        "specversion": "1.0",
        "id": "1",
        "source": "storm",
        "type": "t",
        "storm": 1,
        "data": "x" * 50_000,
    }
    body = json.dumps(event).encode()
    head = (
        "POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/cloudevents+json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    until_s, done = room.loose(), 0
    open_ones: list[socket.socket] = []
    for _ in rounds(until_s):
        with contextlib.suppress(OSError):
            one = socket.create_connection((HOST, room.target.admin), 1.0)
            open_ones.append(one)
            one.settimeout(SEND_S)
            one.sendall(head + body)
            done += 1
        if len(open_ones) > max(4, int(200 * room.size)):
            open_ones.pop(0).close()
    return done


def blocking() -> dict[str, Any]:
    """Return settings of a broker whose full queues block."""
    return {"client_bounds": Queue(10_000, 1 << 20, BLOCK)}


def covering_churn(room: Room) -> int:
    """Subscribe and unsubscribe without end: chains of filters, each of which covers all before it."""
    client, until_s = Hostile(room.target.port), room.loose()

    def requests() -> Iterator[bytes]:
        request = count(1)
        for first in count(0, 100):
            sids = range(first + 1, first + 101)
            for sid in sids:
                filter = parse(f"symbol = 'churn' and price < {sid - first} and volume > {first % 7}")
                yield frame(Kind.REQUEST, encode(SubscribeRequest(next(request), sid, filter.encode())))
            for sid in reversed(sids):
                yield frame(Kind.REQUEST, encode(UnsubscribeRequest(next(request), sid)))

    return client.flood(requests(), until_s)


def slow_reader(room: Room) -> int:
    """Publish to 2,000 subscriptions of clients that never read."""
    readers = [Steady(room.target.port) for _ in range(max(2, int(100 * room.size)))]
    wanted = parse("storm = 1").encode()
    for reader in readers:
        requests = (SubscribeRequest(sid, sid, wanted) for sid in range(1, 21))
        reader._ask(b"".join(frame(Kind.REQUEST, encode(one)) for one in requests))
    client = Hostile(room.target.port)
    client._ask(frame(Kind.REQUEST, encode(AdvertiseRequest(1, 1, wanted))))
    content, until_s = pack({"storm": 1}), room.loose()
    return client.flood((client.event(content, bytes(2_000), k) for k in count(1)), until_s)


def dropping() -> dict[str, Any]:
    """Return settings of a broker whose full queues drop events."""
    return {"client_bounds": Queue(10_000, 1 << 20, DROP_NEW)}


def connections(room: Room) -> int:
    """Connect, greet and leave, as fast as it goes."""
    until_s, done = room.loose(), 0
    hello = frame(Kind.HELLO, encode(Hello(VERSION, "client")))
    for _ in rounds(until_s):
        with contextlib.suppress(OSError), socket.create_connection((HOST, room.target.port), 1.0) as one:
            one.sendall(hello)
            done += 1
    return done


def largest_frames(room: Room) -> int:
    """Publish events as large as a frame may be, which nobody wants."""
    client = Hostile(room.target.port)
    client.announce()
    content = pack({"symbol": "nobody"})
    payload, until_s = bytes((1 << 20) - len(content) - 200), room.loose()
    return client.flood((client.event(content, payload, k) for k in count(1)), until_s)


STORMS: Final = (
    Storm("filters of LIKE patterns", like, FILTERS_BOUND + WAITS_BOUND),
    Storm("filters of IN sets", in_sets, FILTERS_BOUND + WAITS_BOUND),
    Storm("wide events", wide_events, WAITS_BOUND),
    Storm("20,000 subscriptions leave", leaves_small, WAITS_BOUND),
    Storm("100,000 subscriptions leave", leaves, WAITS_BOUND),
    Storm("compressed bodies to /healthz", gzip_bodies, WAITS_BOUND),
    Storm("1,100 half HTTP requests", half_requests, WAITS_BOUND),
    Storm("logins with random names", random_logins, WAITS_BOUND, with_users),
    Storm("HTTP into a full queue", http_into_block, 200 * MB, blocking),
    Storm("subscriptions that cover each other", covering_churn, FILTERS_BOUND + WAITS_BOUND),
    Storm("100 clients that do not read", slow_reader, 100 * (1 << 20) + WAITS_BOUND, dropping),
    Storm("connections come and go", connections, WAITS_BOUND),
    Storm("largest frames", largest_frames, WAITS_BOUND),
)
