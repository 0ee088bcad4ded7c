"""The load of a measured network: a process that publishes and a process that counts, the same for every server.

Neither uses a client library, so that the client is not what is measured. The publisher sends batches of whole
messages that were built before, changing only what a protocol numbers and, when it is paced, the time of sending. The
subscriber does not decode: the payload of every event begins with MARK and the time at which it was sent, and a
compiled loop finds the marks in whatever bytes arrive. How messages look is a client's business (`RawClient`).

A saturated publisher sends as much as the server takes, with at most WINDOW_BYTES of deliveries on the way, which is
far more than sockets hold and less than at which servers drop events. A paced one sends single events at even times;
`singly`, it has at most as many events on the way as it has connections, so that servers read them one at a time.

All processes share one clock. They are forked from one that has everything compiled, and are told through pipes what
to do.
"""

from __future__ import annotations

import gc
import multiprocessing
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from ctypes import c_uint64
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import RawValue
from struct import Struct
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from covey.errors import CoveyError
from covey.matching.jit import Longs, kernel

MARK: Final = bytes.fromhex("9d3cf1a75be20488c6d91f73e4aa0b61")
STAMP: Final = Struct("<q")  # nanoseconds of the clock, after the mark
HEAD_BYTES: Final = len(MARK) + STAMP.size

BATCH_BYTES: Final = 1 << 16
READ_BYTES: Final = 1 << 18
WINDOW_BYTES: Final = 1 << 25
PATIENCE_S: Final = 30.0
SETTLE_S: Final = 0.05  # after the last event that is expected, for one too many
LOOK_S: Final = 0.0001  # before a publisher looks again what has arrived that paces itself by it,
FULL_S: Final = 0.001  # and one whose window is full: to look takes CPU time that others need

_fork = multiprocessing.get_context("fork")


def payload_of(size: int) -> bytes:
    """Return a payload of this many bytes, whose time is yet to be written."""
    assert size >= HEAD_BYTES, "a payload has room for the mark and the time"
    return (MARK + bytes(STAMP.size)).ljust(size, b"x")


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Batch:
    """Whole messages of a protocol, ready to be sent again and again.

    `stamps` has for each event where its time is; `advance` makes the batch follow itself, where messages are numbered.
    """

    data: bytearray
    stamps: Sequence[int]
    advance: Callable[[], None] = _nothing

    @classmethod
    def of(cls, messages: bytes, advance: Callable[[], None] = _nothing) -> Batch:
        """Return a batch of these messages, in which each payload begins with the mark."""
        stamps, at = [], messages.find(MARK)
        while at >= 0:
            stamps.append(at + len(MARK))
            at = messages.find(MARK, at + len(MARK))
        return cls(bytearray(messages), stamps, advance)


class RawClient(Protocol):
    """One connection to a server, in the server's protocol. It is opened by making the client."""

    socket: socket.socket

    def subscribe(self) -> None:
        """Ask for all events, and return once the subscription is in force."""

    def announce(self) -> None:
        """Do what a publisher must do first."""

    def payload_bytes(self, event_bytes: int) -> int:
        """Return how long the payload of an event of this size is: what the protocol's own attributes leave of it."""

    def batch(self, event_bytes: int, events: int) -> Batch:
        """Return so many events of this size as messages that can be sent from now on."""


Connect = Callable[[int], RawClient]  # to a port


# -- processes -----------------------------------------------------------------------------------------------


class Program:
    """One process and the pipe to it; `with` ends it. `main` gets the other end of the pipe, and says "ready" first."""

    def __init__(
        self, main: Callable[..., None], *arguments: Any, patience_s: float = PATIENCE_S * 2
    ) -> None:
        self._patience_s = patience_s
        self._pipe, there = _fork.Pipe()
        self._process = _fork.Process(target=_run, args=(main, there, *arguments), daemon=True)
        self._process.start()
        there.close()
        try:
            self.expect("ready")
        except CoveyError:
            self.__exit__()
            raise

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    def say(self, what: Any) -> None:
        """Tell the program something."""
        self._pipe.send(what)

    def expect(self, what: str = "") -> Any:
        """Return what it says next, which must be `what` if that is given; CoveyError if it fails or says nothing."""
        if not self._pipe.poll(self._patience_s):
            raise CoveyError("a program of the measurement does not answer")
        try:
            said = self._pipe.recv()
        except EOFError:
            raise CoveyError("a program of the measurement has ended") from None
        if isinstance(said, CoveyError):
            raise said
        if what and said != what:
            raise CoveyError(f"a program of the measurement says {said!r:.200}")
        return said

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.join(10)
        self._pipe.close()


def _run(main: Callable[..., None], pipe: Connection, *arguments: Any) -> None:
    gc.freeze()  # what was loaded before the fork is never garbage
    try:
        main(pipe, *arguments)
    except (CoveyError, OSError) as error:
        pipe.send(CoveyError(f"{type(error).__name__}: {error!s:.200}"))


class Arrived:
    """How many deliveries have arrived, for the publisher to see: memory that both processes share."""

    def __init__(self) -> None:
        self._value = RawValue(c_uint64)

    def add(self, events: int) -> None:
        """Count more; only the subscriber does."""
        self._value.value += events

    def __call__(self) -> int:
        return int(self._value.value)


# -- publishing ----------------------------------------------------------------------------------------------


class Load(NamedTuple):
    """What is published: events of a size over some connections, `rate` a second in all, or as many as go through."""

    connections: int
    event_bytes: int
    rate: float = 0.0
    subscribers: int = 1
    singly: bool = False


class Sent(NamedTuple):
    """What a publisher has sent, and from when to when."""

    events: int
    start_ns: int
    end_ns: int


def publisher(pipe: Connection, connect: Connect, port: int, load: Load, arrived: Arrived) -> None:
    """Publish for as many seconds as is asked for, and say what was sent."""
    clients = [connect(port) for _ in range(load.connections)]
    for client in clients:
        client.announce()
    events = 1 if load.rate else max(1, BATCH_BYTES // load.event_bytes)
    ways = [(client.socket, client.batch(load.event_bytes, events)) for client in clients]
    pipe.send("ready")
    while True:
        seconds = pipe.recv()
        publish = _paced if load.rate else _saturated
        pipe.send(publish(ways, load, seconds, arrived))


Ways = Sequence[tuple[socket.socket, Batch]]


def _paced(ways: Ways, load: Load, seconds: float, arrived: Arrived) -> Sent:
    """Send single events at even times, each over the next connection; what is late is sent at once."""
    before, done = arrived(), 0
    start_ns = time.monotonic_ns()
    while (since_s := (time.monotonic_ns() - start_ns) / 1e9) < seconds or not done:
        if since_s < done / load.rate:
            time.sleep(done / load.rate - since_s)
            continue
        if load.singly:
            _wait_for(arrived, before + (done - len(ways) + 1) * load.subscribers, LOOK_S)
        way, batch = ways[done % len(ways)]
        STAMP.pack_into(batch.data, batch.stamps[0], time.monotonic_ns())
        way.sendall(batch.data)
        batch.advance()
        done += 1
    return Sent(done, start_ns, time.monotonic_ns())


def _saturated(ways: Ways, load: Load, seconds: float, arrived: Arrived) -> Sent:
    """Send batches over all connections as these take them; each connection ends with a whole batch."""
    selector = selectors.DefaultSelector()
    rest: dict[int, memoryview] = {}  # of the batch that is being sent, by connection
    for number, (way, batch) in enumerate(ways):
        way.setblocking(False)
        selector.register(way, selectors.EVENT_WRITE, number)
        rest[number] = memoryview(batch.data)
    window = WINDOW_BYTES // load.event_bytes
    before, events = arrived(), 0
    start_ns = time.monotonic_ns()
    end_ns = start_ns + int(seconds * 1e9)
    while rest:
        _wait_for(arrived, before + events * load.subscribers - window, FULL_S)
        for key, _ in selector.select(PATIENCE_S):
            number = key.data
            way, batch = ways[number]
            rest[number] = rest[number][way.send(rest[number]) :]
            if not rest[number]:
                events += len(batch.stamps)
                batch.advance()
                rest[number] = memoryview(batch.data)
                if time.monotonic_ns() >= end_ns:
                    selector.unregister(way)
                    del rest[number]
    selector.close()
    return Sent(events, start_ns, time.monotonic_ns())


def _wait_for(arrived: Arrived, deliveries: int, pause_s: float) -> None:
    """Return once as many have arrived, looking again after each pause; CoveyError if that takes too long."""
    until_s = 0.0
    while arrived() < deliveries:
        until_s = until_s or time.monotonic() + PATIENCE_S
        if time.monotonic() > until_s:
            raise CoveyError("events that were published do not arrive")
        time.sleep(pause_s)


# -- counting ------------------------------------------------------------------------------------------------


class Received(NamedTuple):
    """What a subscriber saw: how many events, when the last came, and how long each took if that was asked for."""

    events: int
    last_ns: int
    delays_ns: NDArray[np.int64]


@kernel
def find_marks(
    data: NDArray[np.uint8], mark: NDArray[np.uint8], at: int, end: int, apart: int, places: Longs
) -> tuple[int, int]:
    """Write where marks are in `data[at:end]` that have their time there too; two are at least `apart` bytes apart.

    Return their number, and where to go on looking, which may be beyond the end.
    """
    count = 0
    while at <= end - HEAD_BYTES:
        length = 0
        while length < len(mark) and data[at + length] == mark[length]:
            length += 1
        if length == len(mark):
            places[count] = at
            count += 1
            at += apart
        else:
            at += 1
    return count, at


class Counter:
    """Counts the marks in the bytes of one connection, however they are cut; `room` is shared by all connections."""

    def __init__(self, room: bytearray, payload_bytes: int) -> None:
        self._view = memoryview(room)
        self._bytes = np.frombuffer(room, np.uint8)
        self._apart = payload_bytes
        self._rest = b""  # the bytes at the end of what has come in which a mark may begin
        self._skip = 0  # bytes to come in which none can
        self._mark = np.frombuffer(MARK, np.uint8)
        self._places = np.zeros(len(room) // HEAD_BYTES + 1, np.int64)

    @classmethod
    def compile(cls) -> None:
        """Compile what counters call, before processes are forked that count."""
        cls(bytearray(HEAD_BYTES), HEAD_BYTES).take(len)

    def take(self, receive_into: Callable[[memoryview], int]) -> Longs:
        """Receive once, and return where in the room the times of the events are; CoveyError at the stream's end."""
        held = len(self._rest)
        self._view[:held] = self._rest
        came = receive_into(self._view[held:])
        if not came:
            raise CoveyError("the server has ended a subscriber's connection")
        end = held + came
        count, at = find_marks(self._bytes, self._mark, self._skip, end, self._apart, self._places)
        self._skip = max(0, at - end)
        self._rest = self._view[min(at, end) : end].tobytes()
        return self._places[:count] + len(MARK)


def subscriber(
    pipe: Connection, connect: Connect, port: int, connections: int, event_bytes: int, arrived: Arrived
) -> None:
    """Count events whenever asked to (True: with how long each took), until as many are there as is said later."""
    clients = [connect(port) for _ in range(connections)]
    room = bytearray(READ_BYTES)
    selector = selectors.DefaultSelector()
    for client in clients:
        client.subscribe()
        client.socket.setblocking(False)
        counter = Counter(room, client.payload_bytes(event_bytes))
        selector.register(client.socket, selectors.EVENT_READ, (client.socket, counter))
    selector.register(pipe, selectors.EVENT_READ)
    pipe.send("ready")
    while True:
        timed = pipe.recv()
        pipe.send(_counted(pipe, selector, room, arrived, timed=timed))


def _counted(
    pipe: Connection, selector: selectors.BaseSelector, room: bytearray, arrived: Arrived, *, timed: bool
) -> Received:
    """Count until as many have come as the pipe says, or too much time has passed, and a little longer."""
    seen = last_ns = until_ns = 0
    expected: int | None = None
    delays_ns: list[int] = []

    def is_whole() -> bool:
        return expected is not None and seen >= expected

    while expected is None or time.monotonic_ns() < until_ns:
        was_whole = is_whole()
        for key, _ in selector.select(SETTLE_S):
            if key.fileobj is pipe:
                expected = pipe.recv()
                until_ns = time.monotonic_ns() + int(PATIENCE_S * 1e9)
                continue
            connection, counter = key.data
            stamps = counter.take(connection.recv_into)
            now_ns = time.monotonic_ns()
            if timed:
                delays_ns += [now_ns - STAMP.unpack_from(room, at)[0] for at in stamps.tolist()]
            if len(stamps):
                seen, last_ns = seen + len(stamps), now_ns
                arrived.add(len(stamps))
        if is_whole() and not was_whole:
            until_ns = time.monotonic_ns() + int(SETTLE_S * 1e9)
    return Received(seen, last_ns, np.array(delays_ns, np.int64))
