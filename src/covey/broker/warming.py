"""Warming up: everything that events and subscriptions run through is compiled, or loaded, before a broker is ready.

Compiling takes seconds, in which a broker would answer nobody. A broker without sockets handles what real ones do: two
clients and a neighbour, every family of filters, events one by one and in batches.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, Final

import covey.strategies  # noqa: F401 (registers them)
from covey.broker.epochs import Epochs
from covey.broker.exchange import Exchange
from covey.broker.peers import Client, Neighbour
from covey.core.families import parse
from covey.matching import index
from covey.routing.digest import Fact, digest
from covey.routing.messages import ADVERTISEMENTS, SUBSCRIPTIONS, Greet, Message, Sync
from covey.routing.router import Router
from covey.wire.events import encode_content, encode_event, link_of
from covey.wire.frames import MAX_FRAME, Kind, framed
from covey.wire.lanes import Verdict
from covey.wire.messages import AdvertiseRequest, SubscribeRequest, UnsubscribeRequest, encode, encode_routed
from covey.wire.splitting import FastSplitter

_CONTENTS: tuple[dict[str, Any], ...] = (
    {"a": 2, "b": "x", "c": True},
    {"a": 2.5, "d": False},
    {},
    {"a": 2**70},
)

_WARMING: Final = Lock()
_is_warm = False


class _Nowhere:
    """A link whose other end does not exist."""

    def send(self, kind: int, body: bytes, *, barrier: bool = False) -> None:
        """Send nothing."""

    def send_events(self, chunk: bytes, count: int = 1) -> Verdict:
        """Send nothing."""
        return Verdict.TAKEN

    def end(self, reason: str) -> None:
        """End nothing."""


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
    exchange = Exchange(Epochs(lambda plan: Router("a", "covering")))
    neighbour = Neighbour("b", _Nowhere())
    exchange.links.connected(neighbour)
    exchange.links.up(neighbour)
    wanted = [Fact(f"k{number}", parse(text)) for number, text in enumerate(("a > 1", "a > 1 and b = 'x'"))]
    dialect = exchange.router.trees[0].dialect
    said: list[Message] = [
        Greet(dialect, digest(()), digest(())),
        Sync(ADVERTISEMENTS, 1, {}),
        Sync(SUBSCRIPTIONS, 1, {0: tuple(wanted)}),
    ]
    exchange.from_neighbour(neighbour, [bytes((Kind.ROUTE,)) + encode_routed(one) for one in said])
    clients = [Client(link_of(number), number, _Nowhere()) for number in (1, 2)]
    for client in clients:
        exchange.client_up(client)
    publisher, subscriber = clients
    asked = [AdvertiseRequest(1, 1, parse("a > 0").encode())]
    exchange.from_client(publisher, [bytes((Kind.REQUEST,)) + encode(one) for one in asked])
    filters = ["a > 1", "a in (1, 2) or b like 'x%'", "c = true and a < 9"]
    for sid, text in enumerate(filters, 1):
        request = SubscribeRequest(sid, sid, parse(text).encode())
        exchange.from_client(subscriber, [bytes((Kind.REQUEST,)) + encode(request)])
    frames = b"".join(
        framed(encode_event(content, b"data", family=family, publisher=1, number=number))
        for number, (family, content) in enumerate(map(encode_content, 4 * _CONTENTS))
    )
    exchange.from_client(publisher, FastSplitter(MAX_FRAME).feed(frames))
    exchange.from_neighbour(neighbour, FastSplitter(MAX_FRAME).feed(frames))
    request_ = UnsubscribeRequest(9, 1)
    exchange.from_client(subscriber, [bytes((Kind.REQUEST,)) + encode(request_)])
    for client in clients:
        exchange.client_down(client.link)
