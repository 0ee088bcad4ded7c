"""The daemon: listens, dials, greets, and hands frames between sockets and the exchange. It decides nothing else.

A neighbour is dialled by the end that has its address, again and again, with growing pauses of random length, until it
answers. Whoever answers to a name twice has lost the first link without noticing: the newer one counts.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import covey.strategies  # noqa: F401 (registers them)
from covey import __version__
from covey.broker.config import MAX_LINK_FRAME, BrokerConfig, LinkConfig
from covey.broker.exchange import Exchange, Limits
from covey.broker.inbox import Inbox
from covey.broker.logs import say
from covey.broker.peers import Client, Neighbour
from covey.broker.permissions import Permissions
from covey.broker.security import Security
from covey.broker.sight import Sight
from covey.broker.tally import Tally
from covey.broker.tls import HANDSHAKE_S
from covey.errors import AccessError, CoveyError, ProtocolError
from covey.matching.index import warm_up
from covey.routing.router import Router
from covey.wire.connection import Connection
from covey.wire.events import link_of
from covey.wire.frames import VERSION, Kind
from covey.wire.messages import MAX_NAME, Goodbye, Hello, Welcome, decode_life, encode

if TYPE_CHECKING:
    from covey.broker.http.admin import Admin

log = logging.getLogger("covey.broker")

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 10.0


class Broker:
    """One broker on the network: `async with Broker(config) as broker` runs it."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.incarnation = secrets.randbits(63)
        self.security = Security(config.security, config.host)
        router = Router(
            config.name,
            config.strategy,
            advertisements=config.advertisements,
            options=config.options,
        )
        self.exchange = Exchange(router, Limits(config.max_subscriptions))
        self.inbox = Inbox(self._handle, self.exchange.congestion, config.congested_at, config.calm_at)
        self.tally = Tally()
        self.reports: dict[str, Callable[[], Mapping[str, float]]] = {}  # of parts, for `Sight.components`
        self.sight = Sight(self)
        self._admin: Admin | None = None
        self._peers: dict[Connection, Client | Neighbour | None] = {}
        self._links: dict[str, Connection] = {}
        self._dialled: dict[Connection, LinkConfig] = {}
        self._closed: dict[str, asyncio.Event] = {}
        self._server: asyncio.Server | None = None
        self._dialling: list[asyncio.Task[None]] = []
        self._checking: dict[Connection, list[bytes]] = {}  # what came while a password is checked
        self._checks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop

    async def __aenter__(self) -> Broker:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen, and dial the neighbours; what must be compiled is compiled before."""
        self._say(logging.INFO, "start", version=__version__)
        self._loop = asyncio.get_running_loop()
        await self._loop.run_in_executor(None, warm_up)
        config = self.config
        try:
            contexts = self.security.contexts
            self._server = await self._loop.create_server(
                lambda: Connection(self, config.client_bounds, config.lease_s),
                config.host,
                config.port,
                ssl=None if contexts is None else contexts.listen,
                ssl_handshake_timeout=None if contexts is None else HANDSHAKE_S,
            )
        except OSError as error:
            raise CoveyError(
                f"broker {config.name} cannot listen on {config.host}:{config.port}: {error}"
            ) from None
        self._say(logging.INFO, "ready", host=config.host, port=self.port, strategy=config.strategy)
        if config.admin is not None:
            from covey.broker.http.admin import Admin  # aiohttp takes its time

            self._admin = Admin(self.sight, config.admin, self.security.contexts)
            await self._admin.start()
        self._dialling = [self._loop.create_task(self._dial(link)) for link in config.links if link.host]

    @property
    def peers(self) -> Mapping[Connection, Client | Neighbour | None]:
        """Whoever is connected; None who has not said yet who it is."""
        return self._peers

    @property
    def is_ready(self) -> bool:
        """Whether clients are served."""
        return self._server is not None and self._server.is_serving()

    @property
    def admin_port(self) -> int:
        """Where its inside is shown."""
        assert self._admin is not None
        return self._admin.port

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self, reason: str = "the broker stops") -> None:
        """End every link and listen no more."""
        self._say(logging.INFO, "stop", reason=reason)
        for task in (*self._dialling, *self._checks):
            task.cancel()
        await asyncio.gather(*self._dialling, *self._checks, return_exceptions=True)
        self.security.close()
        if self._admin is not None:
            await self._admin.stop()
        if self._server is not None:
            self._server.close()
        for connection in list(self._peers):
            connection.end(reason)
        # Closing transports write what they hold.
        for _ in range(100):
            if not self._peers:
                break
            await asyncio.sleep(0.01)
        for connection in list(self._peers):
            connection.abort()

    def _say(self, level: int, event: str, /, **fields: object) -> None:
        say(log, level, event, broker=self.config.name, **fields)

    # -- dialling --------------------------------------------------------------------------------------------

    async def _dial(self, link: LinkConfig) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            closed = self._closed[link.name] = asyncio.Event()
            contexts = self.security.contexts
            try:
                _, connection = await self._loop.create_connection(
                    lambda: Connection(self, self.config.link_bounds, self.config.lease_s),
                    link.host,
                    link.port,
                    ssl=None if contexts is None else contexts.dial,
                    ssl_handshake_timeout=None if contexts is None else HANDSHAKE_S,
                )
            except OSError as error:
                self._say(logging.DEBUG, "neighbour not reached", link=link.name, reason=error)
            else:
                self._dialled[connection] = link
                self._say_hello(connection, link)
                await closed.wait()
                if connection.received_bytes:
                    pause_s = FIRST_PAUSE_S
            await asyncio.sleep(pause_s * (0.5 + secrets.randbelow(1000) / 1000))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _say_hello(self, connection: Connection, link: LinkConfig) -> None:
        try:
            self.security.check_dialled(connection.extra("ssl_object"), link.name)
        except AccessError as error:
            self._say(logging.WARNING, "neighbour not trusted", link=link.name, reason=error)
            connection.end(str(error))
            return
        token = self.security.neighbour_token
        hello = Hello(VERSION, "broker", self.config.name, token=token, incarnation=self.incarnation)
        connection.send(Kind.HELLO, encode(hello))

    # -- what connections report -----------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """Somebody has dialled, or answers."""
        self._peers[connection] = None
        self.tally.connections += 1
        if len(self._peers) > self.config.max_connections:
            connection.end("the broker has no room for more connections")

    def received(self, connection: Connection, frames: list[bytes]) -> None:
        """Greet whoever is new; queue what others say."""
        if self._peers.get(connection) is None and connection not in self._checking:
            self._greet_checked(connection, frames.pop(0))
        if frames and connection in self._checking:
            self._checking[connection] += frames
        elif frames and self._peers.get(connection) is not None:
            self.inbox.put(connection, frames)

    def closed(self, connection: Connection, reason: str) -> None:
        """Tell the exchange that somebody is gone."""
        self.inbox.finish(connection)
        self._checking.pop(connection, None)
        peer = self._peers.pop(connection, None)
        link = self._dialled.pop(connection, None)
        if link is not None:
            self._closed[link.name].set()
        self.exchange.now_s = self._loop.time()
        self.tally.gone(peer, connection, reason, self._loop.time())
        if connection.was_slow:
            self._say(logging.WARNING, "slow consumer", link=peer and peer.link, peer=connection.peer)
        if isinstance(peer, Client):
            self._say(logging.DEBUG, "client gone", link=peer.link, peer=connection.peer, reason=reason)
            self.exchange.client_down(peer.link)
        elif isinstance(peer, Neighbour) and self._links.get(peer.link) is connection:
            self._say(logging.WARNING, "link down", link=peer.link, peer=connection.peer, reason=reason)
            del self._links[peer.link]
            self.exchange.neighbour_down(peer.link)

    def drained(self, connection: Connection) -> None:
        """A link that was full has room again."""

    def _handle(self, connection: Connection, frames: Sequence[bytes]) -> None:
        peer = self._peers.get(connection)
        self.exchange.now_s = self._loop.time()
        try:
            if frames and frames[-1][0] == Kind.GOODBYE:
                frames = self._goodbye(connection, frames)
            if isinstance(peer, Client):
                self.exchange.from_client(peer, frames)
            elif isinstance(peer, Neighbour):
                self.exchange.from_neighbour(peer, frames)
        except CoveyError as error:
            self._say(logging.WARNING, "link ended", peer=connection.peer, reason=error)
            connection.end(str(error), retry=False)

    def _goodbye(self, connection: Connection, frames: Sequence[bytes]) -> Sequence[bytes]:
        said = decode_life(memoryview(frames[-1])[1:])
        if isinstance(said, Goodbye):
            connection.end(said.reason, tell=False)
        return frames[:-1]

    # -- greetings -------------------------------------------------------------------------------------------

    def _greet_checked(self, connection: Connection, first: bytes) -> None:
        try:
            self._greet(connection, first)
        except AccessError as error:
            self._refuse(connection, error)

    def _refuse(self, connection: Connection, error: AccessError) -> None:
        self._say(logging.WARNING, "peer refused", peer=connection.peer, reason=error)
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
                if said.name not in {one.name for one in self.config.links} or len(said.name) > MAX_NAME:
                    raise ProtocolError(f"{said.name!r:.40} is no neighbour of {self.config.name}")
                self.security.check_neighbour(
                    connection.extra("ssl_object"), said.name, said.token, connection.host, self._loop.time()
                )
                connection.send(Kind.WELCOME, encode(self._welcome(0)))
                self._neighbour_up(connection, said.name, said.incarnation)
            case _:
                raise ProtocolError("a link begins with a greeting")

    def _welcome(self, number: int) -> Welcome:
        config = self.config
        return Welcome(VERSION, config.name, number, self.incarnation, config.max_frame, config.lease_s)

    def _admit(self, connection: Connection, said: Hello) -> None:
        permissions = self.security.known(
            user=said.user,
            password=said.password,
            token=said.token,
            address=connection.host,
            now_s=self._loop.time(),
        )
        if permissions is not None:
            self._client_up(connection, permissions)
            return
        self._checking[connection] = []
        connection.hold()
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
        self._client_up(connection, permissions)
        if frames:
            self.inbox.put(connection, frames)
        connection.go_on()

    def _client_up(self, connection: Connection, permissions: Permissions) -> None:
        number = secrets.randbits(63)
        connection.send(Kind.WELCOME, encode(self._welcome(number)))
        connection.greeted(self.config.max_frame, self.config.lease_s)
        client = Client(link_of(number), number, connection, permissions)
        self._peers[connection] = client
        self.exchange.client_up(client)

    def _neighbour_up(self, connection: Connection, name: str, incarnation: int) -> None:
        old = self._links.pop(name, None)
        if old is not None:
            self.tally.gone(self._peers[old], old, "the neighbour has dialled again", self._loop.time())
            self._peers[old] = None
            self.inbox.forget(old)
            self.exchange.neighbour_down(name)
            old.abort("the neighbour has dialled again")
        connection.greeted(MAX_LINK_FRAME, self.config.lease_s)
        connection.lanes.bounds = self.config.link_bounds
        neighbour = Neighbour(name, connection, incarnation)
        self._peers[connection] = neighbour
        self._links[name] = connection
        self._say(logging.INFO, "link up", link=name, peer=connection.peer)
        self.exchange.neighbour_up(neighbour)
