"""The daemon: listens, dials, greets, and hands frames between sockets and the exchange. It decides nothing else.

Beside it: `dialling` (reaching neighbours), `links` (which links the router uses), `inbox` (whose turn it is),
`pressure` (what full queues mean), `lifecycle` (becoming ready, changing, ending). Whoever answers to a name twice has
lost the first link without noticing: the newer one counts.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import covey.strategies  # noqa: F401 (registers them)
from covey import __version__
from covey.broker import lifecycle
from covey.broker.config import MAX_LINK_FRAME, BrokerConfig, LinkConfig
from covey.broker.dialling import Dialler
from covey.broker.durable_requests import open_durable
from covey.broker.epochs import Epochs, router_maker
from covey.broker.exchange import Exchange
from covey.broker.inbox import Inbox
from covey.broker.keeping import keep_state, load_state
from covey.broker.links import Links
from covey.broker.logs import say
from covey.broker.overlay import Overlay
from covey.broker.peers import Client, Neighbour
from covey.broker.permissions import Permissions
from covey.broker.pressure import Pressure
from covey.broker.requests import Limits
from covey.broker.samples import Samples
from covey.broker.security import Security
from covey.broker.sight import Sight
from covey.broker.tally import Tally
from covey.broker.tls import HANDSHAKE_S
from covey.broker.warming import warm_up
from covey.errors import AccessError, CoveyError, ProtocolError
from covey.wire.connection import Connection
from covey.wire.events import link_of
from covey.wire.frames import VERSION, Kind
from covey.wire.messages import MAX_NAME, Goodbye, Hello, Welcome, decode_life, encode
from covey.wire.plans import BARE, PlanState
from covey.wire.splitting import FastSplitter, places_of

if TYPE_CHECKING:
    from covey.broker.http.admin import Admin

log = logging.getLogger("covey.broker")

TICKS: Final = 8  # in a lease: how often what has taken too long is looked for
STOP_S: Final = 2.0


class Broker:
    """One broker on the network: `async with Broker(config) as broker` runs it.

    `listening` is a socket that listens already, if somebody else has opened it.
    """

    def __init__(self, config: BrokerConfig, listening: socket.socket | None = None) -> None:
        self.config = config
        self.incarnation = secrets.randbits(63)
        self.security = Security(config.security, config.host)
        self.tally = Tally()
        self.reports: dict[str, Callable[[], Mapping[str, float]]] = {}  # of parts, for `Sight.components`
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
        self.is_draining = False
        self.peers: dict[Connection, Client | Neighbour | None] = {}
        self.diallers: dict[str, Dialler] = {}
        self._listening = listening
        self._linked: dict[str, Connection] = {}
        self._dialled: dict[Connection, LinkConfig] = {}
        self._checking: dict[Connection, list[bytes]] = {}  # what came while a password is checked
        self._checks: set[asyncio.Task[None]] = set()
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
        await self._loop.run_in_executor(None, warm_up)
        self._now()
        config = self.config
        if config.data_dir:
            self.exchange.durable = open_durable(self.exchange, config, self.incarnation)
            self.reports["store"] = self.exchange.durable.report
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
            from covey.broker.http.mounting import gateway_of

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
        for task in self._checks:
            task.cancel()
        await asyncio.gather(*self._checks, return_exceptions=True)
        if self.samples is not None:
            await self.samples.close(self._loop)  # while clients are here, with what they ask for
        await lifecycle.drain(self, within_s)
        self.security.close()
        if self.admin is not None:
            await self.admin.stop()
        if self._timer is not None:
            self._timer.cancel()
        if self.exchange.durable is not None:
            await self.exchange.durable.store.close()

    def _tick(self) -> None:
        self._now()
        self.links.tick()
        self.exchange.plans.tick()
        if self.exchange.durable is not None:
            self.exchange.durable.tick()
        self.pressure.tick(self.config.stalled_s)
        if self.samples is not None:
            self.samples.tick(self._loop, self.config.sample_every_s)
        self._timer = self._loop.call_later(max(0.01, self.config.lease_s / TICKS), self._tick)

    def _now(self) -> None:
        self.exchange.now_s = self.pressure.now_s = self._loop.time()

    def _keep_plans(self, state: PlanState) -> None:
        if not self.config.data_dir:
            return
        try:
            keep_state(Path(self.config.data_dir), state)
        except OSError as error:
            self.say(logging.ERROR, "plans not kept", reason=error.strerror or error)

    def _later(self, after_s: float, call: Callable[[], None]) -> None:
        def run() -> None:
            self._now()
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
                self._say_hello,
                lambda: link.name not in self._linked,
                lambda: None if self.security.contexts is None else self.security.contexts.dial,
            )

    def _say_hello(self, connection: Connection, link: LinkConfig) -> None:
        self._dialled[connection] = link
        try:
            self.security.check_dialled(connection.extra("ssl_object"), link.name)
        except AccessError as error:
            self.say(logging.WARNING, "neighbour not trusted", link=link.name, reason=error)
            connection.end(str(error))
            return
        token = self.security.neighbour_token
        hello = Hello(VERSION, "broker", self.config.name, token=token, incarnation=self.incarnation)
        connection.send(Kind.HELLO, encode(hello))

    def connection_of(self, name: str) -> Connection | None:
        """Return the connection to a neighbour, if it is there."""
        return self._linked.get(name)

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
        if self.peers.get(connection) is None and connection not in self._checking:
            self._now()
            self._greet_checked(connection, frames[0])
            frames = frames[1:]
        if frames and connection in self._checking:
            self._checking[connection] += frames
        elif frames and self.peers.get(connection) is not None:
            self.inbox.put(connection, frames)

    def closed(self, connection: Connection, reason: str) -> None:
        """Tell the exchange that somebody is gone."""
        self.inbox.finish(connection)
        self.pressure.gone(connection)
        self._checking.pop(connection, None)
        peer = self.peers.pop(connection, None)
        link = self._dialled.pop(connection, None)
        if link is not None and link.name in self.diallers:
            self.diallers[link.name].closed()
        self._now()
        self.tally.gone(peer, connection, reason, self._loop.time())
        if isinstance(peer, Client):
            self.say(logging.DEBUG, "client gone", link=peer.link, peer=connection.peer, reason=reason)
            self.exchange.client_down(peer.link)
        elif isinstance(peer, Neighbour) and self._linked.get(peer.link) is connection:
            level = logging.INFO if self.is_draining or peer.is_leaving else logging.WARNING
            self.say(level, "link down", link=peer.link, peer=connection.peer, reason=reason)
            self._neighbour_down(peer.link)

    def drained(self, connection: Connection) -> None:
        """A link that was full has room again."""
        self.pressure.drained(connection)

    def _handle(self, connection: Connection, frames: Sequence[bytes]) -> None:
        peer = self.peers.get(connection)
        self._now()
        self.pressure.source = connection
        try:
            if frames and frames[-1][0] == Kind.GOODBYE:
                frames = self._goodbye(connection, frames)
            if isinstance(peer, Client):
                self.exchange.from_client(peer, frames)
            elif isinstance(peer, Neighbour):
                self._from_neighbour(peer, frames)
            if self.exchange.durable is not None:
                self.exchange.durable.flush()
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

    # -- greetings -------------------------------------------------------------------------------------------

    def _greet_checked(self, connection: Connection, first: bytes) -> None:
        try:
            self._greet(connection, first)
        except AccessError as error:
            self._refuse(connection, error)

    def _refuse(self, connection: Connection, error: AccessError) -> None:
        self.say(logging.WARNING, "peer refused", peer=connection.peer, reason=error)
        connection.end(str(error), retry=False)

    def _greet(self, connection: Connection, first: bytes) -> None:
        said = decode_life(memoryview(first)[1:])
        link = self._dialled.get(connection)
        match said:
            case Goodbye(reason=reason):
                connection.abort(reason)
            case Hello(version=version) | Welcome(version=version) if version != VERSION:
                raise ProtocolError(f"this broker speaks version {VERSION}, not {version}")
            case Welcome() if link is not None:
                if said.broker != link.name:
                    raise ProtocolError(
                        f"the broker at {connection.peer} is {said.broker!r:.40}, not {link.name}"
                    )
                self._neighbour_up(connection, said.broker, said.incarnation)
            case Hello(role="client") if link is None:
                self._admit(connection, said)
            case Hello(role="broker") if link is None:
                if len(said.name) > MAX_NAME or self.config.link(said.name) is None:
                    raise ProtocolError(f"{said.name!r:.40} is no neighbour of {self.config.name}")
                self.security.check_neighbour(
                    connection.extra("ssl_object"), said.name, said.token, connection.host, self._loop.time()
                )
                if self._is_second(said):
                    connection.end("there is a link already")
                    return
                connection.send(Kind.WELCOME, encode(self._welcome(0)))
                self._neighbour_up(connection, said.name, said.incarnation)
            case _:
                raise ProtocolError("a link begins with a greeting")

    def _is_second(self, said: Hello) -> bool:
        """Return whether we and a neighbour have dialled each other: then that of the first by name counts."""
        old = self._linked.get(said.name)
        peer = None if old is None else self.peers.get(old)
        if old is None or not old.is_open or not isinstance(peer, Neighbour):
            return False
        return old in self._dialled and peer.incarnation == said.incarnation and self.config.name < said.name

    def _welcome(self, number: int) -> Welcome:
        config = self.config
        return Welcome(VERSION, config.name, number, self.incarnation, config.max_frame, config.lease_s)

    def _admit(self, connection: Connection, said: Hello) -> None:
        if len(said.name) > MAX_NAME:
            raise ProtocolError(f"a client's name has at most {MAX_NAME} characters")
        permissions = self.security.known(
            user=said.user,
            password=said.password,
            token=said.token,
            address=connection.host,
            now_s=self._loop.time(),
        )
        if permissions is not None:
            self._client_up(connection, permissions, said.name)
            return
        self._checking[connection] = []
        connection.hold("password")
        task = self._loop.create_task(self._prove(connection, said))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _prove(self, connection: Connection, said: Hello) -> None:
        try:
            permissions = await self.security.prove(
                user=said.user, password=said.password, address=connection.host, now_s=self._loop.time()
            )
        except AccessError as error:
            self._checking.pop(connection, None)
            self._refuse(connection, error)
            return
        frames = self._checking.pop(connection, None)
        if frames is None or not connection.is_open:
            return
        self._now()
        self._client_up(connection, permissions, said.name)
        if frames:
            self.inbox.put(connection, frames)
        connection.go_on("password")

    def _client_up(self, connection: Connection, permissions: Permissions, name: str) -> None:
        number = secrets.randbits(63)
        connection.send(Kind.WELCOME, encode(self._welcome(number)))
        connection.greeted(self.config.max_frame, self.config.lease_s)
        client = Client(link_of(number), number, connection, permissions, name)
        self.peers[connection] = client
        self.exchange.client_up(client)

    def _neighbour_up(self, connection: Connection, name: str, incarnation: int) -> None:
        link = self.config.link(name)
        if link is None:
            raise ProtocolError(f"{name!r:.40} is no neighbour of {self.config.name} any longer")
        old = self._linked.get(name)
        if old is not None:
            self.inbox.finish(old)
            self.tally.gone(self.peers[old], old, "the neighbour has dialled again", self._loop.time())
            self.peers[old] = None
            self._neighbour_down(name)
            old.abort("the neighbour has dialled again")
        connection.greeted(MAX_LINK_FRAME, self.config.lease_s)
        connection.lanes.bounds = self.config.bounds(link)
        neighbour = Neighbour(name, connection, incarnation)
        self.peers[connection] = neighbour
        self._linked[name] = connection
        self.say(logging.INFO, "link up", link=name, peer=connection.peer)
        self.links.connected(neighbour)

    def _neighbour_down(self, name: str) -> None:
        del self._linked[name]
        if name in self.links.links:
            self.links.disconnected(name)
