"""Frames and handshakes into a broker's core: whatever a peer says, the core answers it or ends that link, and raises
nothing. A client that behaves is served before and after.

The first part of an input says who speaks; each further part is what comes in one read. The core is a whole broker with
a store, without sockets: what `broker.server` does for a live one is done here, at once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from random import Random
from typing import Any, Final

import msgspec

from covey.broker import effects
from covey.broker.config import BrokerConfig, LinkConfig
from covey.broker.core import BrokerCore
from covey.broker.durable.log import Fetch
from covey.broker.effects import Effect, Instant
from covey.broker.security import Security, hash_password, hash_token, read_security
from covey.core.event import MAX_ATTRIBUTES
from covey.core.families import parse
from covey.protocol.control import (
    BARE,
    Attach,
    BrokerLinks,
    Hello,
    States,
    SubscribeRequest,
    Welcome,
    decode_life,
    encode,
    encode_overlaid,
    encode_plan,
    encode_routed,
)
from covey.protocol.events import (
    ATTRIBUTES,
    ENVELOPE,
    KEPT,
    encode_acknowledge,
    encode_content,
    encode_event,
    encode_taken,
)
from covey.protocol.frames import VERSION, Kind, Splitter, frame, framed
from covey.routing.messages import ADVERTISEMENTS, SUBSCRIPTIONS, Greet, Sync
from covey.routing.router import Router
from covey.sim.disk import Disk, DiskLog
from tests.fuzz.harness import Input, Target
from tests.fuzz.mutation import mutated
from tests.property.test_wire_garbage import DELIVERIES, EVENTS, LIFE, OVERLAID, PLANNED, REQUESTS, ROUTED

GOOD: Final = "good = 1"
TOKEN: Final = "let me in"
PASSWORD: Final = "horse"
SECURED: Final = {
    "users": [
        {"name": "ann", "password": str(hash_password(PASSWORD, bytes(16), log2_n=4)), "subscribe": "x > 1"}
    ],
    "tokens": [{"name": "good", "hash": hash_token(TOKEN)}],
    "neighbours": {"token": "between us"},
}


@cache
def secured() -> Security:
    """Return what `SECURED` means, which takes a while by design."""
    return Security(read_security(SECURED))


class Shell:
    """A core and the other ends of its connections."""

    def __init__(self, security: Security | None = None) -> None:
        config = BrokerConfig("a", links=(LinkConfig("b"), LinkConfig("c")), lease_s=10.0, data_dir="unused")
        self.now_s = 0.0
        self.log = DiskLog(Disk())
        self.written: dict[int, list[bytes]] = {}
        self.core = BrokerCore(
            config,
            security or Security(read_security({}), config.host),
            BARE,
            incarnation=5,
            random=Random(1),
            now=self.now(),
        )
        self._carry_out(self.core.recovered(self.log.open(), self.now()))
        self._carry_out(self.core.start(self.now()))
        self.connections = 0

    def now(self) -> Instant:
        """Return what the clocks show."""
        return Instant(self.now_s, 1e9 + self.now_s)

    def step(self, given: effects.Input) -> None:
        """Give an input, and all that follows from it at once."""
        self._carry_out(self.core.step(given, self.now()))
        while not self.log.is_idle:
            self._carry_out(self.core.step(effects.Answered(tuple(self.log.answers())), self.now()))

    def _carry_out(self, some: list[Effect]) -> None:
        for effect in some:
            match effect:
                case effects.Write(connection, buffers):
                    self.written.setdefault(connection, []).extend(buffers)
                case effects.Commit(batch):
                    self.log.submit([batch])
                case Fetch():
                    self.log.submit([effect])
                case effects.KeepPlans():
                    self.step(effects.PlansKept())
                case effects.Verify(connection, password):
                    self.step(effects.Verified(connection, password == PASSWORD))

    def settle(self, span_s: float = 0.0) -> None:
        """Let time pass, and all be handled that waits."""
        self.now_s += span_s
        self.step(effects.Tick())
        while (due_s := self.core.deadline()) is not None and due_s <= self.now_s:
            self.step(effects.Tick())

    def open(self) -> int:
        """Return a new connection."""
        self.connections += 1
        self.step(effects.Opened(self.connections, f"peer {self.connections}", "host"))
        return self.connections

    def say(self, connection: int, *frames: bytes) -> None:
        """Say frames, and have them handled."""
        self.step(effects.Received(connection, b"".join(frames)))
        self.settle()

    def heard(self, connection: int) -> list[bytes]:
        """Return the frames that a connection was sent since this was asked last."""
        return list(Splitter(1 << 24).feed(b"".join(self.written.pop(connection, ()))))

    def greet(self, hello: Hello) -> tuple[int, int]:
        """Return the connection of a peer that is welcome, and its number."""
        connection = self.open()
        self.say(connection, frame(Kind.HELLO, encode(hello)))
        welcome = decode_life(self.heard(connection)[0][1:])
        assert isinstance(welcome, Welcome), welcome
        return connection, welcome.number


class Good:
    """A client that behaves, and is owed its events."""

    def __init__(self, shell: Shell, token: str = "") -> None:
        self.shell = shell
        self.connection, self.number = shell.greet(Hello(VERSION, "client", token=token))
        request = SubscribeRequest(1, 1, parse(GOOD).encode())
        shell.say(self.connection, frame(Kind.REQUEST, encode(request)))
        self.sent = 0

    def check(self) -> None:
        """See that an event of its own comes back."""
        self.sent += 1
        self.shell.heard(self.connection)
        family, content = encode_content({"good": 1})
        event = encode_event(content, b"", family=family, publisher=self.number, number=self.sent)
        self.shell.say(self.connection, framed(event))
        kinds = [one[0] for one in self.shell.heard(self.connection)]
        assert Kind.DELIVERY in kinds, f"the client that behaves is not served, but hears {kinds}"


def joining() -> list[bytes]:
    """Return what a neighbour says so that its link is used."""
    dialect = Router("b").trees[0].dialect
    said = [Greet(dialect, (), ()), Sync(ADVERTISEMENTS, 1, {}), Sync(SUBSCRIPTIONS, 1, {})]
    return [
        frame(Kind.OVERLAY, encode_overlaid(States((BrokerLinks("b", 1 << 40, {"a": (1, True)}),)))),
        frame(Kind.OVERLAY, encode_overlaid(Attach())),
        *(frame(Kind.ROUTE, encode_routed(message)) for message in said),
    ]


# -- frames --------------------------------------------------------------------------------------------------


@cache
def client_number() -> int:
    """Return the number that the second client of a core gets, as that of an input is."""
    shell = Shell()
    Good(shell)
    return shell.greet(Hello(VERSION, "client", "fuzz"))[1]


@cache
def client_frames() -> list[bytes]:
    """Return what a client may say."""
    number = client_number()
    frames = [frame(Kind.REQUEST, encode(request)) for request in REQUESTS]
    for event in EVENTS:
        for kept in (0, KEPT):
            mine = bytearray(event)
            mine[1] |= kept
            struct.pack_into("<Q", mine, ENVELOPE.size - 20, number)
            frames.append(framed(bytes(mine)))
    done = [encode_acknowledge(2, [1, 2], cumulative=both) for both in (False, True)]
    frames += [frame(Kind.ACKNOWLEDGE, one) for one in done]
    return [*frames, *_odd(Kind.ACKNOWLEDGE, Kind.PING, Kind.PONG, Kind.GOODBYE)]


@cache
def neighbour_frames() -> list[bytes]:
    """Return what a neighbour may say."""
    return [
        *(frame(Kind.ROUTE, encode_routed(message, epoch)) for message in ROUTED for epoch in (0, 3)),
        *(frame(Kind.OVERLAY, encode_overlaid(said)) for said in OVERLAID),
        *(frame(Kind.PLAN, encode_plan(said)) for said in PLANNED),
        *(framed(event) for event in (*EVENTS, *DELIVERIES)),
        *(frame(Kind.TAKEN, one) for one in encode_taken([(5, 1), (5, 2)])),
        *joining(),
        *_odd(Kind.TAKEN, Kind.WHOLE, Kind.PING, Kind.GOODBYE),
    ]


def _odd(*kinds: int) -> list[bytes]:
    bodies = (b"", bytes(4), struct.pack("<IQQ", 1, 5, 1), struct.pack("<IQ", 1, 7), bytes(20))
    return [frame(kind, body) for kind in kinds for body in bodies]


WHO: Final[dict[bytes, tuple[Hello, Callable[[], list[bytes]]]]] = {
    b"client": (Hello(VERSION, "client", "fuzz"), client_frames),
    b"neighbour": (Hello(VERSION, "broker", "b", incarnation=9), neighbour_frames),
    b"joined": (Hello(VERSION, "broker", "b", incarnation=9), neighbour_frames),
}


def large_event(draw: Random) -> bytes:
    """Return an event of many parts: valid ones, and attributes beyond what an event may have."""
    count = int(10 ** draw.uniform(1.0, 4.3))
    content: Any = draw.choice(
        (
            lambda: {f"a{number}": draw.choice((number, str(number), 0.5, True)) for number in range(count)},
            lambda: {"a": {f"b{number}": {"c": number} for number in range(count)}},
            lambda: {f"w{number}" for number in range(count)},
            lambda: "<a>" + "".join(f"<b{number % 50} k='{number}'/>" for number in range(count)) + "</a>",
            lambda: {"a": "é" * 10 * count},
        )
    )()
    if isinstance(content, dict) and count > MAX_ATTRIBUTES:
        family, encoded = ATTRIBUTES, msgspec.msgpack.encode(content)
    else:
        family, encoded = encode_content(content)
    flags = draw.choice((0, KEPT))
    event = bytearray(encode_event(encoded, b"", family=family, publisher=client_number(), number=count))
    event[1] |= flags
    return framed(bytes(event))


def draw_frames(draw: Random) -> Input:
    """Return some frames of a peer, garbled here and there, and cut into reads at any place."""
    who = draw.choice(sorted(WHO))
    valid = WHO[who][1]()
    said = []
    if draw.random() < 0.05:
        said.append(large_event(draw))
    for _ in range(draw.randrange(1, 10)):
        if draw.random() < 0.4:
            said.append(draw.choice(valid))
        elif draw.random() < 0.8:
            one = mutated(draw, [body[4:] for body in valid])
            said.append(framed(one) if one else frame(draw.randrange(256), b""))
        else:
            said.append(mutated(draw, valid))
    stream, reads = b"".join(said), []
    while stream:
        at = draw.choice((len(stream), draw.randrange(1, len(stream) + 1)))
        reads.append(stream[:at])
        stream = stream[at:]
    return (who, *reads[:20])


def read_frames(given: Input) -> None:
    """Have a core hear them."""
    if not given or given[0] not in WHO:
        return
    shell = Shell()
    good = Good(shell)
    connection, _ = shell.greet(WHO[given[0]][0])
    if given[0] == b"joined":
        shell.say(connection, *joining())
        shell.settle(0.2)
    for part in given[1:]:
        shell.say(connection, part)
    good.check()
    shell.step(effects.Closed(connection, ""))
    shell.settle(1.0)
    good.check()


# -- handshakes ----------------------------------------------------------------------------------------------

HELLOS: Final = [
    *(one for one in LIFE if isinstance(one, Hello)),
    *(Hello(version, "client", "n") for version in (0, 1, VERSION, VERSION + 1, 255, 1 << 40)),
    Hello(VERSION, "client", user="ann", password=PASSWORD),
    Hello(VERSION, "client", user="ann", password="wrong"),
    Hello(VERSION, "client", user="nobody", password=PASSWORD),
    Hello(VERSION, "client", token=TOKEN),
    Hello(VERSION, "client", token="wrong"),
    Hello(VERSION, "broker", "b", token="between us", incarnation=3),
    Hello(VERSION, "broker", "stranger", token="between us"),
    Hello(VERSION, "broker", "a", token="between us"),
    Hello(VERSION, "neither"),
    *LIFE,
]
GREETINGS: Final = [frame(Kind.HELLO, encode(hello)) for hello in HELLOS]


def draw_handshake(draw: Random) -> Input:
    """Return the first words of some peers, one part each."""
    some = []
    for _ in range(draw.randrange(1, 6)):
        lot = draw.random()
        if lot < 0.2:
            some.append(draw.choice(GREETINGS))
        elif lot < 0.7:
            body = mutated(draw, [one[5:] for one in GREETINGS])
            kind = Kind.HELLO if draw.random() < 0.9 else draw.randrange(256)
            some.append(frame(kind, body) + (draw.choice(GREETINGS) if draw.random() < 0.2 else b""))
        elif lot < 0.9:
            some.append(mutated(draw, GREETINGS))
        else:
            some.append(draw.randbytes(draw.randrange(100)))
    return tuple(some)


def read_handshake(given: Input) -> None:
    """Have a core with credentials hear them, each on a connection of its own and in two reads."""
    shell = Shell(deepcopy(secured()))
    good = Good(shell, TOKEN)
    for part in given:
        connection = shell.open()
        shell.say(connection, part[: len(part) // 2])
        shell.say(connection, part[len(part) // 2 :])
        shell.settle(0.1)
    good.check()
    shell.settle(20.0)  # who has not said who it is has had its time
    peers = len(shell.core.peers)
    assert peers <= 1 + len(given)
    Good(shell, TOKEN).check()


TARGETS: Final = (
    Target("frames", draw_frames, read_frames, ((b"client",), (b"neighbour",), (b"joined",)), ()),
    Target("handshakes", draw_handshake, read_handshake, ((GREETINGS[0],), (GREETINGS[-1],)), ()),
)
