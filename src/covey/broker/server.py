"""The daemon: listens, dials, and hands frames between sockets and the exchange. It decides nothing else.

Beside it: `dialling` (reaching neighbours), `greetings` (who is at the other end), `links` (which links the router
uses), `inbox` (whose turn it is), `pressure` (what full queues mean), `lifecycle` (becoming ready, changing, ending).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import covey.strategies  # noqa: F401 (registers them)
from covey import __version__
from covey.broker import lifecycle
from covey.broker.config import BrokerConfig, LinkConfig
from covey.broker.dialling import Dialler
from covey.broker.durable.delivery import Durable
from covey.broker.durable.log import Answer, Asked
from covey.broker.durable.sqlite import SqliteLog
from covey.broker.epochs import Epochs, router_maker
from covey.broker.exchange import Exchange
from covey.broker.greetings import Greetings
from covey.broker.inbox import Inbox
from covey.broker.introspection import Sight, Tally
from covey.broker.links import Links
from covey.broker.logs import say
from covey.broker.overlay import Overlay
from covey.broker.peers import Client, Neighbour
from covey.broker.plans import keep_state, load_state
from covey.broker.pressure import Pressure
from covey.broker.private_files import shared_with_others
from covey.broker.requests import Limits
from covey.broker.revocation import revoke_durable
from covey.broker.sampling import Samples
from covey.broker.security import Security
from covey.broker.tls import HANDSHAKE_S
from covey.broker.warming import warm_up
from covey.errors import CoveyError
from covey.protocol.batches import FastSplitter, places_of
from covey.protocol.connection import Connection
from covey.protocol.control import BARE, Goodbye, PlanState, decode_life
from covey.protocol.frames import Kind

if TYPE_CHECKING:
    from covey.broker.http.admin import Admin

log = logging.getLogger("covey.broker")

TICKS: Final = 8  # in a lease: how often what has taken too long is looked for
STOP_S: Final = 2.0
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
        self.exchange = Exchange(epochs, limits, self._keep_plans)
        self.samples = Samples(self.exchange, config) if config.sample else None
        self.inbox = Inbox(self._handle, self.exchange.congestion, config.congested_at, config.calm_at)
        self.overlay = Overlay(config.name, time.time_ns() // 1000, config.max_brokers)
        self.pressure = Pressure(self.inbox, self.name_of, self.exchange.counters, config.name)
        self.links: Links
        self.greetings = Greetings(self)
        self.is_draining = False
        self.peers: dict[Connection, Client | Neighbour | None] = {}
        self.diallers: dict[str, Dialler] = {}
        self._listening = listening
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop
        self._log: SqliteLog | None = None
        self._asked: list[Asked] = []  # of the log, in this turn of the loop
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
            self._open_log()
            # Permissions may have been cut while the broker was down.
            revoke_durable(self.exchange, self.security, self.say)
        self.links = Links(self.exchange, self.overlay, config.links, self._later, config.forget_after_s)
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
        for link in config.links:
            self.dial(link)
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
        return waited_s > self.config.lease_s or all(map(self.links.is_open, self.links.links))

    async def stop(self, within_s: float = STOP_S) -> None:
        """Send what waits, end every link and listen no more."""
        await self.greetings.stop()
        if self.samples is not None:
            await self.samples.close(self._loop)  # while clients are here, with what they ask for
        await lifecycle.drain(self, within_s)
        self.security.close()
        if self.admin is not None:
            await self.admin.stop()
        if self._timer is not None:
            self._timer.cancel()
        if self._log is not None:
            self._hand_over()
            await self._loop.run_in_executor(None, self._log.close)

    def _tick(self) -> None:
        self.tell_time()
        self.links.tick()
        self.exchange.plans.tick()
        self.exchange.perform(self.exchange.durable.tick(self.exchange.now_s, self.exchange.wall_s))
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
        self.exchange.wall_s = time.time()

    def _keep_plans(self, state: PlanState) -> None:
        if not self.config.data_dir:
            return
        try:
            keep_state(Path(self.config.data_dir), state)
        except OSError as error:
            self.say(logging.ERROR, "plans not kept", reason=error.strerror or error)

    # -- the log ---------------------------------------------------------------------------------------------

    def _open_log(self) -> None:
        """Open the log and take up what is in it; ConfigError if it cannot be used."""
        directory = Path(self.config.data_dir)
        store = SqliteLog(directory / "store.db", self.config.name, self.config.max_store_bytes)
        recovered = store.open()
        self._log = store
        if shared := shared_with_others(directory):
            log.warning("%s", shared)
        for warning in recovered.warnings:
            log.error("%s", warning)
        exchange = self.exchange
        exchange.durable = Durable(exchange.epochs, recovered, self.incarnation, self.config.durable)
        exchange.ask_log = self._ask_log
        store.start(self._report)
        exchange.perform(exchange.durable.load())

    def _ask_log(self, asked: Asked) -> None:
        # Once a turn: whenever the log's thread is woken, the two take turns, and both wait.
        if not self._asked:
            self._loop.call_soon(self._hand_over)
        self._asked.append(asked)

    def _hand_over(self) -> None:
        if self._asked and self._log is not None:
            asked, self._asked = self._asked, []
            self._log.submit(asked)

    def _report(self, answers: Sequence[Answer]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants to know
            self._loop.call_soon_threadsafe(self._log_answered, answers)

    def _log_answered(self, answers: Sequence[Answer]) -> None:
        self.tell_time()
        self.exchange.log_answered(answers)

    def _later(self, after_s: float, call: Callable[[], None]) -> None:
        def run() -> None:
            self.tell_time()
            call()

        self._loop.call_later(after_s, run)

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

    def dial(self, link: LinkConfig) -> None:
        """Begin to dial a neighbour, if it has an address."""
        if link.host:
            self.diallers[link.name] = Dialler(
                self.config.name,
                link,
                lambda link: self._connection(self.config.lease_s),
                self.greetings.dialled,
                lambda: self.connection_of(link.name) is None,
                lambda: None if self.security.contexts is None else self.security.contexts.dial,
            )

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
        if link is not None and link.name in self.diallers:
            self.diallers[link.name].closed()
        self.tell_time()
        self.tally.gone(peer, connection, reason, self._loop.time())
        if isinstance(peer, Client):
            self.say(logging.DEBUG, "client gone", link=peer.link, peer=connection.peer, reason=reason)
            self.exchange.client_down(peer.link)
        elif isinstance(peer, Neighbour) and self.connection_of(peer.link) is connection:
            level = logging.INFO if self.is_draining or peer.is_leaving else logging.WARNING
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
                self._from_neighbour(peer, frames)
            self.exchange.perform(self.exchange.durable.flush())
        except CoveyError as error:
            self.say(logging.WARNING, "link ended", peer=connection.peer, reason=error)
            connection.end(str(error), retry=False)
        finally:
            self.pressure.source = None

    def _from_neighbour(self, peer: Neighbour, frames: Sequence[bytes]) -> None:
        begin = 0
        for at in places_of(frames, Kind.OVERLAY):
            self.exchange.from_neighbour(peer, frames[begin:at])
            self.links.received(peer.link, memoryview(frames[at])[1:])
            begin = at + 1
        self.exchange.from_neighbour(peer, frames[begin:] if begin else frames)

    def _goodbye(self, connection: Connection, frames: Sequence[bytes]) -> Sequence[bytes]:
        said = decode_life(memoryview(frames[-1])[1:])
        if isinstance(said, Goodbye):
            connection.finish(said.reason, heard_all=True)  # it still listens to what we have for it
            peer = self.peers.get(connection)
            if isinstance(peer, Neighbour):
                peer.is_leaving = True
        return frames[:-1]
