"""Warming up: everything that events and subscriptions run through is compiled, or loaded, before a broker is ready.

Compiling takes seconds, in which a broker would answer nobody. A broker without sockets handles what real ones do: two
clients and a neighbour, every family of filters, events one by one and in batches.
"""

from __future__ import annotations

from random import Random
from threading import Lock
from typing import Any, Final

from covey.broker.config import BrokerConfig, LinkConfig
from covey.broker.core import BrokerCore
from covey.broker.effects import Instant, Opened, Received, Tick
from covey.broker.neighbours import LONGEST_S, QUIET_S
from covey.broker.security import Security
from covey.broker.sessions import Session
from covey.core.families import parse
from covey.matching import index
from covey.matching.relay import MOST_WRITTEN
from covey.protocol.control import (
    BARE,
    AdvertiseRequest,
    Attach,
    BrokerLinks,
    Hello,
    States,
    SubscribeRequest,
    UnsubscribeRequest,
    encode,
    encode_overlaid,
    encode_routed,
)
from covey.protocol.events import encode_content, encode_event
from covey.protocol.frames import OLDEST, Kind, frame
from covey.routing.digest import Fact
from covey.routing.messages import ADVERTISEMENTS, SUBSCRIPTIONS, Greet, Message, Sync

_CONTENTS: tuple[dict[str, Any], ...] = (
    {"a": 2, "b": "x", "c": True},
    {"a": 2.5, "d": False},
    {},
    {"a": 2**70},
)

_WARMING: Final = Lock()
_is_warm = False


def warm_up() -> None:
    """Compile what a broker uses, or load it from the cache: half a minute the first time, a fraction of
    a second after.

    Once a process, before its first broker handles anything: it may run in another thread, and kernels write to
    buffers that all brokers of a process share.
    """
    global _is_warm
    with _WARMING:
        if not _is_warm:
            _warm_up()
            _is_warm = True


def _warm_up() -> None:
    index.warm_up()
    now = Instant(0.0, 0.0)
    config = BrokerConfig("a", links=(LinkConfig("b"),))
    core = BrokerCore(
        config, Security(config.security, config.host), BARE, incarnation=1, random=Random(1), now=now
    )
    core.start(now)
    neighbour, publisher, subscriber = 1, 2, 3
    _say(core, neighbour, [(Kind.HELLO, encode(Hello(OLDEST, "broker", "b", incarnation=2)))])
    _attach(core, neighbour)
    wanted = [Fact(f"k{number}", parse(text)) for number, text in enumerate(("a > 1", "a > 1 and b = 'x'"))]
    dialect = core.router.trees[0].dialect
    said: list[Message] = [
        Greet(dialect, (), ()),
        Sync(ADVERTISEMENTS, 1, {}),
        Sync(SUBSCRIPTIONS, 1, {0: tuple(wanted)}),
    ]
    _say(core, neighbour, [(Kind.ROUTE, encode_routed(one)) for one in said])
    for client in (publisher, subscriber):
        _say(core, client, [(Kind.HELLO, encode(Hello(OLDEST, "client")))])
    filters = ["a > 1", "a in (1, 2) or b like 'x%'", "c = true and a < 9"]
    asked = [SubscribeRequest(sid, sid, parse(text).encode()) for sid, text in enumerate(filters, 1)]
    _say(core, publisher, [(Kind.REQUEST, encode(AdvertiseRequest(1, 1, parse("a > 0").encode())))])
    _say(core, subscriber, [(Kind.REQUEST, encode(one)) for one in asked])
    who = core.peers[publisher].who
    assert isinstance(who, Session), "it was admitted"
    events = [
        (Kind.EVENT, encode_event(content, b"data", family=family, publisher=who.number, number=number)[1:])
        for number, (family, content) in enumerate(map(encode_content, 4 * _CONTENTS))
    ]
    large = encode_event(
        encode_content(_CONTENTS[0])[1], bytes(MOST_WRITTEN), family=0, publisher=who.number, number=99
    )
    _say(core, publisher, [*events, (Kind.EVENT, large[1:])])
    core.router.remember_events()
    _say(core, neighbour, events)
    _say(core, subscriber, [(Kind.REQUEST, encode(UnsubscribeRequest(sid + 9, sid))) for sid in (1, 2, 3)])


def _say(core: BrokerCore, connection: int, frames: list[tuple[Kind, bytes]]) -> None:
    """Let somebody say something, and have it handled."""
    now = Instant(0.0, 0.0)
    if connection not in core.peers:
        core.step(Opened(connection, "somewhere", "somewhere"), now)
    core.step(Received(connection, b"".join(frame(kind, body) for kind, body in frames)), now)
    while core.scheduler.has_work:
        core.step(Tick(), now)


def _attach(core: BrokerCore, connection: int) -> None:
    """Let the neighbour route over its link, and wait until the overlay is quiet."""
    links = {"a": (LinkConfig.priority, True)}
    states = States((BrokerLinks("b", 1, links),))
    _say(core, connection, [(Kind.OVERLAY, encode_overlaid(one)) for one in (states, Attach())])
    core.step(Tick(), Instant(QUIET_S + LONGEST_S, 0.0))
