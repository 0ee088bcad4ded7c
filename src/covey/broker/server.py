"""The daemon: listens, dials, and hands frames between sockets and the exchange. It decides nothing else.

Beside it: `greetings` (who is at the other end), `neighbours` (which links the router uses, and whom to dial when),
`inbox` (whose turn it is), `pressure` (what full queues mean), `lifecycle` (becoming ready, changing, ending).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import covey.strategies  # noqa: F401 (registers them)
from covey import __version__
from covey.broker import lifecycle
from covey.broker.actions import Action
from covey.broker.config import BrokerConfig, LinkConfig
from covey.broker.durable_requests import open_durable
from covey.broker.epochs import Epochs, router_maker
from covey.broker.exchange import Exchange
from covey.broker.greetings import Greetings
from covey.broker.inbox import Inbox
from covey.broker.introspection import Sight, Tally
from covey.broker.logs import say
from covey.broker.neighbours import Neighbour, Neighbours
from covey.broker.overlay import Overlay
from covey.broker.peers import Client
from covey.broker.plans import keep_state, load_state
from covey.broker.pressure import Pressure
from covey.broker.requests import Limits
from covey.broker.revocation import revoke_durable
from covey.broker.sampling import Samples
from covey.broker.security import Security
from covey.broker.tls import HANDSHAKE_S
from covey.broker.warming import warm_up
from covey.errors import CoveyError
from covey.protocol.batches import FastSplitter
from covey.protocol.connection import Connection
from covey.protocol.control import BARE, Goodbye, PlanState, decode_life
from covey.protocol.frames import Kind
from covey.routing.messages import Link

if TYPE_CHECKING:
    from covey.broker.http.admin import Admin

log = logging.getLogger("covey.broker")

TICKS: Final = 8  # in a lease: how often what has taken too long is looked for
STOP_S: Final = 2.0
CONNECT_S: Final = 10.0  # within which a neighbour that is dialled answers
SILENCE_S: Final = 3.0  # before a starting broker says what it is waiting for


class Broker:
    """One broker on the network: `async with Broker(config) as broker` runs it.

    `listening` is a socket that listens already, if somebody else has opened it.
    """

    def __init__(self, config: BrokerConfig, listening: socket.socket | None = None) -> None:
        self.config = config
        self.incarnation = secrets.randbits(63)
        self.security = Security(config.security, config.host)
        self.tally = Tally()
        self.sight = Sight(self)
        self.admin: Admin | None = None
        directory = Path(config.data_dir) if config.data_dir else None
        epochs = Epochs(router_maker(config), BARE if directory is None else load_state(directory))
        limits = Limits(config.max_subscriptions, config.max_advertisements)
        overlay = Overlay(config.name, time.time_ns() // 1000, config.max_brokers)
        random = Random(secrets.randbits(64))
        links = Neighbours(epochs, overlay, config.forget_after_s, random)
        self.exchange = Exchange(epochs, limits, self._keep_plans, links)
        self.exchange.dial = self._dial
        self.samples = Samples(self.exchange, config) if config.sample else None
        self.inbox = Inbox(self._handle, self.exchange.congestion, config.congested_at, config.calm_at)
        self.pressure = Pressure(self.inbox, self.name_of, self.exchange.counters, config.name)
        self.greetings = Greetings(self)
        self.is_draining = False
        self.peers: dict[Connection, Client | Neighbour | None] = {}
        self._dialling: dict[Link, tuple[LinkConfig, asyncio.Task[None]]] = {}
        self._links_timer: asyncio.TimerHandle | None = None  # rings when links are to be looked at
        self._links_due_s: float | None = None
        self._listening = listening
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop
        self.server: asyncio.Server | None = None
        self.started_s = 0.0

    async def __aenter__(self) -> Broker:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    # -- life ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, and dial the neighbours; what must be compiled is compiled before."""
        self._loop = asyncio.get_running_loop()
        self.say(logging.INFO, "start", version=__version__)
        warming = self._loop.run_in_executor(None, warm_up)
        if not (await asyncio.wait({warming}, timeout=SILENCE_S))[0]:
            self.say(logging.INFO, "compiling", hint="one to two minutes, once; covey compile does it ahead")
        await warming
        self.tell_time()
        config = self.config
        if config.data_dir:
            self.exchange.durable = open_durable(self.exchange, config, self.incarnation)
            # Permissions may have been cut while the broker was down.
            revoke_durable(self.exchange, self.security, self.say)
        self.configure_links()
        try:
            contexts = self.security.contexts
            secure: dict[str, Any] = {}
            if contexts is not None:
                secure = {"ssl": contexts.listen, "ssl_handshake_timeout": HANDSHAKE_S}
            if self._listening is not None:
                self.server = await self._loop.create_server(self._accept, sock=self._listening, **secure)
            else:
                self.server = await self._loop.create_server(self._accept, config.host, config.port, **secure)
        except OSError as error:
            raise CoveyError(
                f"broker {config.name} cannot listen on {config.host}:{config.port}: {error.strerror or error}"
            ) from None
        self.started_s = self._loop.time()
        self.say(logging.INFO, "listening", host=config.host, port=self.port, strategy=config.strategy)
        if config.admin is not None:
            from covey.broker.http.admin import Admin  # aiohttp takes its time
            from covey.broker.http.events import gateway_of

            self.admin = Admin(self.sight, config.admin, contexts, gateway_of(self))
            await self.admin.start()
        self.exchange.links.start_dialling()
        self._tick()

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self.server is not None
        return int(self.server.sockets[0].getsockname()[1])

    @property
    def is_ready(self) -> bool:
        """Whether it listens and has compared tables with its neighbours, or has waited a lease for them."""
        if self.server is None or self.is_draining:
            return False
        waited_s = self._loop.time() - self.started_s
        return waited_s > self.config.lease_s or all(
            map(self.exchange.links.is_open, self.exchange.links.records)
        )

    async def stop(self, within_s: float = STOP_S) -> None:
        """Send what waits, end every link and listen no more."""
        await self.greetings.stop()
        if self.samples is not None:
            await self.samples.close(self._loop)  # while clients are here, with what they ask for
        await lifecycle.drain(self, within_s)
        self.security.close()
        if self.admin is not None:
            await self.admin.stop()
        for timer in (self._timer, self._links_timer):
            if timer is not None:
                timer.cancel()
        if self.exchange.durable is not None:
            await self.exchange.durable.store.close()

    def _tick(self) -> None:
        self.tell_time()
        self._watch_links()
        self.exchange.plans.tick()
        if self.exchange.durable is not None:
            self.exchange.durable.tick()
        self.pressure.tick(self.config.stalled_s)
        if self.samples is not None:
            self.samples.tick(self._loop, self.config.sample_every_s)
        self._timer = self._loop.call_later(max(0.01, self.config.lease_s / TICKS), self._tick)

    @property
    def now_s(self) -> float:
        """The event loop's time."""
        return self._loop.time()

    def tell_time(self) -> None:
        """Tell those parts that have no clock what time it is; before anything is asked of them."""
        self.exchange.now_s = self.pressure.now_s = self._loop.time()

    def _keep_plans(self, state: PlanState) -> None:
        if not self.config.data_dir:
            return
        try:
            keep_state(Path(self.config.data_dir), state)
        except OSError as error:
            self.say(logging.ERROR, "plans not kept", reason=error.strerror or error)

    def say(self, level: int, event: str, /, **fields: object) -> None:
        """Log an event of this broker's life."""
        say(log, level, event, broker=self.config.name, **fields)

    # -- connections -----------------------------------------------------------------------------------------

    def _accept(self) -> Connection:
        return self._connection(self.config.lease_s)

    def _connection(self, lease_s: float) -> Connection:
        connection = Connection(self, self.config.client_bounds, lease_s, FastSplitter)
        connection.on_pressure = self.pressure.pressed
        return connection

    # -- neighbours ------------------------------------------------------------------------------------------

    def perform(self, actions: Iterable[Action]) -> None:
        """Let the exchange do what links to neighbours ask for, at the time of now."""
        self.tell_time()
        self.exchange.perform(actions)
        self._watch_links()

    def _watch_links(self) -> None:
        """Set the timer to when links are to be looked at."""
        due_s = self.exchange.links.deadline()
        if due_s == self._links_due_s:
            return
        if self._links_timer is not None:
            self._links_timer.cancel()
        self._links_due_s = due_s
        self._links_timer = None if due_s is None else self._loop.call_at(due_s, self._look_at_links, due_s)

    def _look_at_links(self, due_s: float) -> None:
        self._links_due_s = self._links_timer = None
        # A timer may ring a little early.
        self.perform(self.exchange.links.tick(max(due_s, self.now_s)))

    def configure_links(self) -> None:
        """Take the neighbours of the configuration in place of those before."""
        self.perform(self.exchange.links.configure(self.config.links, self.now_s))
        for before, task in self._dialling.values():
            link = self.config.link(before.name)
            if link is None or (link.host, link.port) != (before.host, before.port):
                task.cancel()

    def _dial(self, name: Link) -> None:
        link = self.config.link(name)
        assert link is not None, "who is dialled is a neighbour"
        self._dialling[name] = link, self._loop.create_task(self._reach(link))

    async def _reach(self, link: LinkConfig) -> None:
        contexts = self.security.contexts
        try:
            async with asyncio.timeout(CONNECT_S):
                _, connection = await self._loop.create_connection(
                    self._accept, link.host, link.port, ssl=None if contexts is None else contexts.dial
                )
        except (OSError, TimeoutError) as error:
            self.say(logging.DEBUG, "neighbour not reached", link=link.name, reason=error)
            self.exchange.links.dial_ended(link.name, self.now_s)
            self._watch_links()
        else:
            self.exchange.links.dialled(link.name, self.now_s)
            self.greetings.dialled(connection, link)

    async def stop_dialling(self) -> None:
        """Reach for nobody any longer."""
        self.exchange.links.stop_dialling()
        self._watch_links()
        tasks = [task for _, task in self._dialling.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def connection_of(self, name: str) -> Connection | None:
        """Return the connection to a neighbour, if it is there."""
        return self.greetings.connection_of(name)

    def name_of(self, connection: Connection) -> str:
        """Return how people are told of a peer."""
        peer = self.peers.get(connection)
        if isinstance(peer, Neighbour):
            return f"broker {peer.link}"
        return f"client {peer.link} at {connection.peer}" if peer is not None else connection.peer

    # -- what connections report -----------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """Somebody has dialled, or answers."""
        self.peers[connection] = None
        self.tally.connections += 1
        if len(self.peers) > self.config.max_connections:
            connection.end("the broker has no room for more connections")
        elif self.is_draining:
            connection.end("the broker is going away")

    def received(self, connection: Connection, frames: Sequence[bytes]) -> None:
        """Greet whoever is new; queue what others say."""
        if self.peers.get(connection) is None:
            self.greetings.received(connection, frames)
        elif frames:
            self.inbox.put(connection, frames)

    def closed(self, connection: Connection, reason: str) -> None:
        """Tell the exchange that somebody is gone."""
        self.inbox.finish(connection)
        self.pressure.gone(connection)
        peer = self.peers.pop(connection, None)
        link = self.greetings.closed(connection)
        if link is not None:
            self.exchange.links.dial_ended(link.name, self.now_s)
            self._watch_links()
        self.tell_time()
        self.tally.gone(peer, connection, reason, self._loop.time())
        if isinstance(peer, Client):
            self.say(logging.DEBUG, "client gone", link=peer.link, peer=connection.peer, reason=reason)
            self.exchange.client_down(peer.link)
        elif isinstance(peer, Neighbour) and self.connection_of(peer.link) is connection:
            level = logging.INFO if self.is_draining or peer.has_said_goodbye else logging.WARNING
            self.say(level, "link down", link=peer.link, peer=connection.peer, reason=reason)
            self.greetings.neighbour_down(peer.link)

    def drained(self, connection: Connection) -> None:
        """A link that was full has room again."""
        self.pressure.drained(connection)

    def _handle(self, connection: Connection, frames: Sequence[bytes]) -> None:
        peer = self.peers.get(connection)
        self.tell_time()
        self.pressure.source = connection
        try:
            if frames and frames[-1][0] == Kind.GOODBYE:
                frames = self._goodbye(connection, frames)
            if isinstance(peer, Client):
                self.exchange.from_client(peer, frames)
            elif isinstance(peer, Neighbour):
                self.exchange.from_neighbour(peer, frames)
                self._watch_links()
            if self.exchange.durable is not None:
                self.exchange.durable.flush()
        except CoveyError as error:
            self.say(logging.WARNING, "link ended", peer=connection.peer, reason=error)
            connection.end(str(error), retry=False)
        finally:
            self.pressure.source = None

    def _goodbye(self, connection: Connection, frames: Sequence[bytes]) -> Sequence[bytes]:
        said = decode_life(memoryview(frames[-1])[1:])
        if isinstance(said, Goodbye):
            connection.finish(said.reason, heard_all=True)  # it still listens to what we have for it
            peer = self.peers.get(connection)
            if isinstance(peer, Neighbour):
                peer.has_said_goodbye = True
        return frames[:-1]
