"""The servers that are measured, Covey's brokers among them: how each is run on loopback, and its protocol in bytes.

    covey       brokers in a row; each event is matched against the filters of others, none of which wants it
    forwarder   servers in Python that split by length, forward everything and match nothing: the floor
    nats        nats-server, by subject
    zenoh       a zenoh router, by key: a Python process that opens a session in router mode and does nothing else
    mosquitto   mosquitto, by topic, at most once

A client here (`network_load.RawClient`) speaks only as much of a protocol as the measurement needs: it connects, says
what it wants and builds batches. Under Covey an event is some attributes and the rest as payload; the others, which
route by a name, carry as many bytes as payload.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from struct import Struct
from typing import Any, ClassVar, Final, NamedTuple, cast

import numpy as np

from covey import parse
from covey.bench.network_load import Batch, Connect, Program, payload_of
from covey.broker.config import BrokerConfig, LinkConfig, Queue
from covey.broker.process import Family, listen, loop_factory
from covey.core.packing import pack
from covey.errors import CoveyError
from covey.protocol.control import (
    AdvertiseRequest,
    FlushRequest,
    Hello,
    SubscribeRequest,
    Welcome,
    decode_life,
    decode_reply,
    encode,
)
from covey.protocol.events import ATTRIBUTES, encode_event
from covey.protocol.frames import VERSION, Kind, Splitter, frame, framed

WANTED: Final = "IBM"  # the symbol, subject, key or topic of every event
START_S: Final = 30.0
ANSWER_S: Final = 30.0
QUIET_S: Final = 3_600.0  # clients here send no heartbeats, and need none for as long


class Served(NamedTuple):
    """Servers that run: where to publish and where to subscribe, and the processes that do the work."""

    ports: tuple[int, int]
    pids: tuple[int, ...]


class Connected:
    """A connection to a port of this machine, and what reads the answers of a protocol from it."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), ANSWER_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def announce(self) -> None:
        """Nothing to say."""

    def payload_bytes(self, event_bytes: int) -> int:
        """All of an event is payload."""
        return event_bytes

    def _receive(self, most: int = 1 << 16) -> bytes:
        data = self.socket.recv(most)
        if not data:
            raise CoveyError("the server has ended the connection")
        return data

    def _receive_exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            data += self._receive(count - len(data))
        return data

    def _receive_until(self, word: bytes) -> None:
        data = b""
        while word not in data:
            data += self._receive()


# -- Covey ---------------------------------------------------------------------------------------------------


def content_of(number: int) -> dict[str, Any]:
    """Return the attributes of an event; all have the same length when packed."""
    return {"symbol": WANTED, "price": number % 100 + 0.5, "volume": 256 + number % 700, "venue": "XNYS"}


def other_filter(number: int) -> str:
    """Return a filter that none of these events matches; each number has another one."""
    return f"symbol = 'S{number % 500}' and price > {number % 97} and volume < {number * 7 % 1000 + 1}"


@cache
def _other_requests(count: int) -> bytes:
    """Return the requests of a client that subscribes to what nobody publishes."""
    return b"".join(
        frame(Kind.REQUEST, encode(SubscribeRequest(number, number, parse(other_filter(number)).encode())))
        for number in range(1, count + 1)
    )


class CoveyClient(Connected):
    """A client of a broker."""

    # As an event's number it is found in the message, so that where numbers are is known to the protocol only.
    _NUMBER: Final = 0x5A5B5C5D5E5F6061

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._splitter = Splitter()
        self.socket.sendall(frame(Kind.HELLO, encode(Hello(VERSION, "client"))))
        said = decode_life(self._body(Kind.WELCOME))
        assert isinstance(said, Welcome)
        self._number = said.number

    def subscribe(self) -> None:
        """Subscribe to every event."""
        wanted = parse(f"symbol = '{WANTED}' and price >= 0").encode()
        self._ask(frame(Kind.REQUEST, encode(SubscribeRequest(1, 1, wanted))))

    def subscribe_others(self, count: int) -> None:
        """Subscribe to what nobody publishes."""
        self._ask(_other_requests(count))

    def announce(self) -> None:
        """Advertise."""
        advertised = parse("symbol is not null").encode()
        self._ask(frame(Kind.REQUEST, encode(AdvertiseRequest(1, 1, advertised))))

    def payload_bytes(self, event_bytes: int) -> int:
        """Return what the attributes leave."""
        return event_bytes - len(pack(content_of(0)))

    def batch(self, event_bytes: int, events: int) -> Batch:
        """Return EVENT frames, numbered on."""
        payload = payload_of(self.payload_bytes(event_bytes))
        frames = [
            framed(
                encode_event(
                    pack(content_of(n)),
                    payload,
                    family=ATTRIBUTES,
                    publisher=self._number,
                    number=self._NUMBER,
                )
            )
            for n in range(events)
        ]
        size = len(frames[0])
        assert all(len(one) == size for one in frames)
        batch = Batch.of(b"".join(frames))
        place = frames[0].index(self._NUMBER.to_bytes(8, "little"))
        numbers: np.ndarray[Any, Any] = np.ndarray((events,), "<u8", batch.data, place, (size,))
        numbers[:] = np.arange(1, events + 1)

        def advance() -> None:
            np.add(numbers, events, out=numbers)

        return Batch(batch.data, batch.stamps, advance)

    def _ask(self, requests: bytes) -> None:
        """Make requests, and return once they are in force; CoveyError if one is refused."""
        flush = (1 << 32) - 1
        self.socket.sendall(requests + frame(Kind.REQUEST, encode(FlushRequest(flush))))
        while (reply := decode_reply(self._body(Kind.REPLY))).request != flush:
            if reply.error:
                raise CoveyError(f"the broker refuses: {reply.error:.160}")

    def _body(self, kind: Kind) -> bytes:
        """Return the body of the next frame of this kind; others are passed over."""
        while True:
            for one in self._frames:
                if one[0] == kind:
                    return one[1:]
                if one[0] == Kind.GOODBYE:
                    raise CoveyError(f"the broker says {decode_life(one[1:])}")
            self._frames = iter(self._splitter.feed(self._receive()))

    _frames: Iterator[bytes] = iter(())


@contextlib.contextmanager
def brokers(hops: int, filters: int) -> Iterator[Served]:
    """Run brokers in a row; the last has the filters of others."""
    names = [f"b{number}" for number in range(1, hops + 1)]
    sockets = {name: listen("127.0.0.1", 0) for name in names}
    ports = {name: int(one.getsockname()[1]) for name, one in sockets.items()}
    bounds = Queue(2_000_000, 1 << 30)
    configs = {}
    for number, name in enumerate(names):
        links = [LinkConfig(names[number - 1], "127.0.0.1", ports[names[number - 1]])] if number else []
        links += [LinkConfig(names[number + 1])] if number + 1 < hops else []
        configs[name] = BrokerConfig(
            name=name,
            port=ports[name],
            links=tuple(links),
            client_bounds=bounds,
            link_bounds=bounds,
            lease_s=QUIET_S,
            log_level="error",
        )
    family = Family()
    try:
        family.start(configs, sockets)
        family.wait("ready", 60.0)
        if hops > 1:
            family.wait("linked", 60.0)
        others = CoveyClient(ports[names[-1]])
        with others.socket:
            others.subscribe_others(filters)
            yield Served((ports[names[0]], ports[names[-1]]), tuple(child.pid for child in family.children))
    finally:
        family.stop(10.0)


# -- the forwarder -------------------------------------------------------------------------------------------

_LISTEN: Final = b"L"  # what a connection says first: that it wants all that comes,
_SPEAK: Final = b"S"  # or that it will send
_LENGTH: Final = Struct("<I")  # before every event


class ForwarderClient(Connected):
    """A client of a forwarder."""

    def subscribe(self) -> None:
        """Ask for everything."""
        self.socket.sendall(_LISTEN)
        self._receive_until(_LISTEN)

    def announce(self) -> None:
        """Say that events will come."""
        self.socket.sendall(_SPEAK)

    def batch(self, event_bytes: int, events: int) -> Batch:
        """Return payloads with their lengths."""
        return Batch.of((_LENGTH.pack(event_bytes) + payload_of(event_bytes)) * events)


class _ForwarderPort(asyncio.Protocol):
    """One connection of a forwarder."""

    def __init__(self, listeners: list[asyncio.Transport]) -> None:
        self._listeners = listeners
        self._transport: asyncio.Transport
        self._rest = b""
        self._kind = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A fast loop's transports are no subclass of the standard library's.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(1 << 30)  # as brokers are given here: nothing is held back

    def data_received(self, data: bytes) -> None:
        """Split by length, as whoever forwards must, and write whole frames to everyone who listens."""
        if not self._kind:
            self._kind, data = data[:1], data[1:]
            if self._kind == _LISTEN:
                self._listeners.append(self._transport)
                self._transport.write(_LISTEN)
        whole = self._rest + data if self._rest else data
        place, end = 0, len(whole)
        while place + _LENGTH.size <= end:
            following = place + _LENGTH.size + _LENGTH.unpack_from(whole, place)[0]
            if following > end:
                break
            place = following
        self._rest = whole[place:]
        if place:
            for listener in self._listeners:
                listener.write(whole[:place])

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport in self._listeners:
            self._listeners.remove(self._transport)


def _forwarder(pipe: Connection, own: socket.socket, onward_port: int | None) -> None:
    async def serve() -> None:
        loop = asyncio.get_running_loop()
        listeners: list[asyncio.Transport] = []
        if onward_port is not None:
            onward, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", onward_port)
            onward.set_write_buffer_limits(1 << 30)
            onward.write(_SPEAK)
            listeners.append(onward)
        await loop.create_server(lambda: _ForwarderPort(listeners), sock=own)
        pipe.send("ready")
        await loop.create_future()

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve())


@contextlib.contextmanager
def forwarders(hops: int, filters: int) -> Iterator[Served]:
    """Run forwarders in a row."""
    sockets = [listen("127.0.0.1", 0) for _ in range(hops)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    with contextlib.ExitStack() as stack:
        pids = []
        for number in reversed(range(hops)):
            onward = ports[number + 1] if number + 1 < hops else None
            pids.append(stack.enter_context(Program(_forwarder, sockets[number], onward)).pid)
        for one in sockets:
            one.close()
        yield Served((ports[0], ports[-1]), tuple(pids))


# -- servers of others ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def _running(command: list[str], port: int) -> Iterator[Served]:
    """Run a server in a process group of its own, give it when its port answers, and end the group."""
    server = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        until_s = time.monotonic() + START_S
        while server.poll() is None and time.monotonic() < until_s:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        else:
            raise CoveyError(f"{command[0]} does not answer")
        yield Served((port, port), (server.pid,))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


class NatsClient(Connected):
    """A client of nats-server: its protocol is text, a line and perhaps a payload."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._receive_until(b"\r\n")  # INFO
        self.socket.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\n')
        self._flush()

    def subscribe(self) -> None:
        """Subscribe to the subject."""
        self.socket.sendall(f"SUB {WANTED} 1\r\n".encode())
        self._flush()

    def batch(self, event_bytes: int, events: int) -> Batch:
        """Return PUB messages."""
        head = f"PUB {WANTED} {event_bytes}\r\n".encode()
        return Batch.of((head + payload_of(event_bytes) + b"\r\n") * events)

    def _flush(self) -> None:
        self.socket.sendall(b"PING\r\n")
        self._receive_until(b"PONG\r\n")


@contextlib.contextmanager
def nats(hops: int, filters: int) -> Iterator[Served]:
    """Run nats-server as it is by default."""
    port = _free_port()
    with _running(["nats-server", "-a", "127.0.0.1", "-p", str(port)], port) as served:
        yield served


def _varint(number: int) -> bytes:
    """Return a number seven bits a byte, the lowest first, as zenoh and MQTT have them."""
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


class ZenohClient(Connected):
    """A client of a zenoh router, version 9 of its protocol: packets with a length (u16) that hold frames of messages.

    What it says is what zenoh's own library says for a subscriber and for a publisher of one key that does not drop
    (congestion control "block"), without authentication, compression and heartbeats.
    """

    _SMALL: Final = 1 << 21  # sequence numbers from here on have four bytes
    _KEY: Final = 1  # the number under which the key is declared

    def __init__(self, port: int) -> None:
        super().__init__(port)
        identity = os.urandom(16)
        # INIT with sizes and one extension (priorities): a client, with numbers of 32 bits and packets up to 64 KiB.
        self._send(b"\xc1\x09\xf2" + identity + b"\x0a\xff\xff\x01")
        said = self._packet()
        if said[0] & 0x5F != 0x41 or said[1] != 9:
            raise CoveyError(f"the zenoh router refuses the connection: {said[:40].hex()}")
        at = 3 + (said[2] >> 4) + 1
        self._packet_bytes = int.from_bytes(said[at + 1 : at + 3], "little")
        cookie = said[at + 4 : at + 4 + said[at + 3]]
        # OPEN with how long we may be silent, in seconds, and the first sequence number of every priority.
        self._send(b"\x42" + _varint(int(QUIET_S)) + _varint(self._SMALL) + _varint(len(cookie)) + cookie)
        while self._packet()[0] & 0x1F != 0x02:
            pass
        self._control = self._SMALL
        name = WANTED.encode()
        self._declare(bytes([0x20, self._KEY, 0, len(name)]) + name)

    def subscribe(self) -> None:
        """Declare a subscriber, and ask for something to know when that is in force."""
        self._declare(bytes([0x42, 1, self._KEY]))
        self._ask()

    def announce(self) -> None:
        """Ask who subscribes, as publishers do."""
        self._ask()

    def batch(self, event_bytes: int, events: int) -> Batch:
        """Return packets: each one frame with as many PUSH messages as fit, or a fragment of a longer one."""
        push = bytes([0xDD, self._KEY, 0x21, 0x0D, 0x01]) + _varint(event_bytes) + payload_of(event_bytes)
        room = self._packet_bytes - 2 - 1 - 4
        if len(push) <= room:
            fit = room // len(push)
            bodies = [(0x25, push * min(fit, events - first)) for first in range(0, events, fit)]
        else:
            cut = [push[first : first + room] for first in range(0, len(push), room)]
            pieces = [(0x66 if piece is not cut[-1] else 0x26, piece) for piece in cut]
            bodies = pieces * events
        data, places = bytearray(), []
        for head, body in bodies:
            data += (5 + len(body)).to_bytes(2, "little") + bytes([head])
            places.append(len(data))
            data += bytes(4) + body
        batch = Batch.of(bytes(data))
        number = self._SMALL

        def advance() -> None:
            nonlocal number
            for place in places:
                batch.data[place : place + 4] = _varint(number)
                number += 1

        advance()
        return Batch(batch.data, batch.stamps, advance)

    def _declare(self, declaration: bytes) -> None:
        self._send_control(b"\x9e\x21\x08" + declaration)

    def _ask(self) -> None:
        """Ask for the subscribers of the key, now and later; return once those of now have been told."""
        self._send_control(bytes([0xF9, 1, 0x53, self._KEY, 0x21, 0x08]))
        while not self._packet().endswith(b"\xbe\x01\x21\x08\x1a"):
            pass

    def _send_control(self, message: bytes) -> None:
        """Send a message in a frame of the highest priority, whose sequence numbers are its own."""
        self._send(b"\xa5" + _varint(self._control) + b"\x31\x00" + message)
        self._control += 1

    def _send(self, body: bytes) -> None:
        self.socket.sendall(len(body).to_bytes(2, "little") + body)

    def _packet(self) -> bytes:
        return self._receive_exactly(int.from_bytes(self._receive_exactly(2), "little"))


ROUTER: Final = """
import signal, sys, zenoh
config = zenoh.Config()
config.insert_json5("mode", '"router"')
config.insert_json5("listen/endpoints", f'["tcp/127.0.0.1:{sys.argv[1]}"]')
config.insert_json5("scouting/multicast/enabled", "false")
session = zenoh.open(config)
signal.pause()
"""


@contextlib.contextmanager
def zenoh(hops: int, filters: int) -> Iterator[Served]:
    """Run a zenoh router as it is by default, but for its looking around in the network."""
    port = _free_port()
    with _running([sys.executable, "-c", ROUTER, str(port)], port) as served:
        yield served


class MosquittoClient(Connected):
    """A client of mosquitto: MQTT 3.1.1, and events that are delivered at most once."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._send(0x10, b"\x00\x04MQTT\x04\x02\x00\x00\x00\x00")  # a clean session, no heartbeats, no name
        self._receive_until(b"\x20\x02\x00\x00")

    def subscribe(self) -> None:
        """Subscribe to the topic."""
        self._send(0x82, b"\x00\x01" + self._topic + b"\x00")
        self._receive_until(b"\x90\x03\x00\x01\x00")

    def batch(self, event_bytes: int, events: int) -> Batch:
        """Return PUBLISH packets."""
        body = self._topic + payload_of(event_bytes)
        return Batch.of((b"\x30" + _varint(len(body)) + body) * events)

    def _send(self, kind: int, body: bytes) -> None:
        self.socket.sendall(bytes([kind]) + _varint(len(body)) + body)

    _topic: ClassVar[bytes] = len(WANTED).to_bytes(2, "big") + WANTED.encode()


@contextlib.contextmanager
def mosquitto(hops: int, filters: int) -> Iterator[Served]:
    """Run mosquitto with a queue that has no end."""
    port = _free_port()
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory, "mosquitto.conf")
        config.write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n", encoding="utf-8"
        )
        with _running(["mosquitto", "-c", str(config)], port) as served:
            yield served


@dataclass(frozen=True)
class Peer:
    """A system to measure: how it is run (hops, filters of others), how it is spoken to, and what it needs.

    `client` says in the tables what the programs at both ends are.
    """

    name: str
    server: Callable[[int, int], AbstractContextManager[Served]]
    connect: Connect
    client: str
    has_hops: bool = False
    program: str = ""
    package: str = ""

    def missing(self) -> str:
        """Return why it cannot be measured here; empty if it can."""
        if self.program and shutil.which(self.program) is None:
            return f"the program {self.program} is not installed"
        if self.package and importlib.util.find_spec(self.package) is None:
            return f"the Python package {self.package} is not installed"
        return ""


COVEY: Final = Peer("covey", brokers, CoveyClient, "raw, Covey frames", has_hops=True)
FORWARDER: Final = Peer("forwarder", forwarders, ForwarderClient, "raw, lengths", has_hops=True)
PEERS: Final = (
    FORWARDER,
    Peer("nats", nats, NatsClient, "raw, NATS text", program="nats-server"),
    Peer("zenoh", zenoh, ZenohClient, "raw, zenoh packets", package="zenoh"),
    Peer("mosquitto", mosquitto, MosquittoClient, "raw, MQTT 3.1.1", program="mosquitto"),
)
