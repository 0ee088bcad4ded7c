"""What happens to a broker as a whole: it becomes ready, is told other settings, and ends without losing what waits.

Draining, in this order, all within a time:

    1. nobody is accepted, nobody is dialled
    2. what has come is handled, and what is to be kept is on disk
    3. clients get what waits for them, then goodbye with the advice to come back (elsewhere, or later);
       what they say until they have read that is handled
    4. neighbours get what waits for them, then goodbye; they keep this broker's interest for its return

A lame duck does the third step client by client over a longer time, so that not all of them come elsewhere at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from covey.broker.config import BrokerConfig, changed
from covey.broker.neighbours import Neighbour
from covey.broker.peers import Client
from covey.broker.requests import Limits
from covey.broker.revocation import revoke
from covey.protocol.connection import Connection

if TYPE_CHECKING:
    from covey.broker.server import Broker

log = logging.getLogger("covey.broker")

POLL_S = 0.01
GOING = "the broker is going away"


async def wait_ready(broker: Broker) -> None:
    """Return once a broker is ready."""
    while not broker.is_ready:
        await asyncio.sleep(POLL_S)


async def drain(broker: Broker, within_s: float, spread_s: float = 0.0) -> None:
    """End a broker as the module's text says; `spread_s` is over how long clients are sent away."""
    if broker.is_draining:
        return
    broker.is_draining = True
    broker.say(logging.INFO, "drain", within_s=within_s + spread_s, clients=len(broker.exchange.clients))
    loop = asyncio.get_running_loop()
    until_s = loop.time() + within_s + spread_s
    if broker.server is not None:
        broker.server.close()
    await broker.stop_dialling()
    await _until(lambda: not broker.inbox.count, until_s)
    await _until(lambda: not broker.exchange.durable.pending, until_s)
    clients = [one for one, peer in broker.peers.items() if not isinstance(peer, Neighbour)]
    for connection in clients:
        if connection in broker.peers:
            connection.finish(GOING)
        if spread_s:
            await asyncio.sleep(spread_s / len(clients))
    await _until(lambda: not any(isinstance(peer, Client) for peer in broker.peers.values()), until_s)
    await _until(lambda: not broker.inbox.count, until_s)
    for connection in list(broker.peers):
        connection.finish(GOING)
    await _until(lambda: not broker.peers, until_s)
    abort(broker)
    await _until(lambda: not broker.peers, loop.time() + 1.0)


def abort(broker: Broker) -> None:
    """End every link at once."""
    for connection in list(broker.peers):
        connection.abort()


async def _until(condition: Callable[[], bool], until_s: float) -> None:
    loop = asyncio.get_running_loop()
    while not condition() and loop.time() < until_s:
        await asyncio.sleep(POLL_S)


def reconfigure(broker: Broker, new: BrokerConfig) -> list[str]:
    """Let a running broker take what it can of another configuration; return a line for each setting it cannot."""
    old = broker.config
    security = broker.security.renewed(new.security, old.host)  # which raises, if anything is wrong with it
    before, broker.security = broker.security, security
    taken, refused = changed(old, new)
    config = broker.config = replace(old, **{name: getattr(new, name) for name in taken})
    exchange = broker.exchange
    exchange.requests.limits = Limits(config.max_subscriptions, config.max_advertisements)
    broker.inbox.congested_at, broker.inbox.calm_at = config.congested_at, config.calm_at
    exchange.links.overlay.max_brokers = config.max_brokers
    exchange.links.forget_after(config.forget_after_s)
    logging.getLogger("covey").setLevel(config.log_level.upper())
    if "links" in taken:
        broker.configure_links()
    for connection, peer in broker.peers.items():
        _bound(connection, peer, config)
    broker.tell_time()
    revoke(broker.exchange, before, broker.security, broker.say)
    if taken:
        broker.say(logging.INFO, "settings taken", settings=", ".join(taken))
    return [f"{name} cannot change while the broker runs: restart it for that" for name in refused]


def _bound(connection: Connection, peer: Client | Neighbour | None, config: BrokerConfig) -> None:
    if isinstance(peer, Neighbour):
        link = config.link(peer.link)
        if link is not None:
            connection.lanes.bounds = config.bounds(link)
    else:
        connection.lanes.bounds = config.bounds()
