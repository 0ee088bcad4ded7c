"""Greetings: how whoever is at the other end of a connection becomes a client or a neighbour, or is refused.

Who dials says hello, who listens answers welcome; both name their version. A client proves who it is by a token, a
certificate or a password; to check a password takes a moment, in which what the client says waits. A neighbour must be
among the links of the configuration. Whoever answers to a name twice has lost the first link without noticing: the
newer one counts, but of two that have dialled each other at once that of the first by name.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from covey.broker.config import MAX_LINK_FRAME, LinkConfig
from covey.broker.peers import Neighbour
from covey.broker.permissions import Permissions
from covey.broker.sessions import Session
from covey.errors import AccessError, ProtocolError
from covey.protocol.connection import Connection
from covey.protocol.control import MAX_NAME, Goodbye, Hello, Welcome, decode_life, encode
from covey.protocol.events import link_of
from covey.protocol.frames import VERSION, Kind

if TYPE_CHECKING:
    from covey.broker.server import Broker


class Greetings:
    """The greetings of one broker; see the module's text."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._linked: dict[str, Connection] = {}  # neighbours
        self._dialled: dict[Connection, LinkConfig] = {}
        self._checking: dict[Connection, list[bytes]] = {}  # what came while a password is checked
        self._checks: set[asyncio.Task[None]] = set()

    async def stop(self) -> None:
        """Check no password any longer."""
        for task in self._checks:
            task.cancel()
        await asyncio.gather(*self._checks, return_exceptions=True)

    def connection_of(self, name: str) -> Connection | None:
        """Return the connection to a neighbour, if it is there."""
        return self._linked.get(name)

    # -- connections -----------------------------------------------------------------------------------------

    def dialled(self, connection: Connection, link: LinkConfig) -> None:
        """Say hello to a neighbour that was dialled, if it is the one that it should be."""
        broker = self._broker
        self._dialled[connection] = link
        try:
            broker.security.check_dialled(connection.extra("ssl_object"), link.name)
        except AccessError as error:
            broker.say(logging.WARNING, "neighbour not trusted", link=link.name, reason=error)
            connection.end(str(error))
            return
        token = broker.security.neighbour_token
        hello = Hello(VERSION, "broker", broker.config.name, token=token, incarnation=broker.incarnation)
        connection.send(Kind.HELLO, encode(hello))

    def received(self, connection: Connection, frames: Sequence[bytes]) -> None:
        """Handle what comes on a connection of nobody known yet; what is behind its greeting is queued."""
        if connection not in self._checking:
            self._broker.tell_time()
            try:
                self._greet(connection, frames[0])
            except AccessError as error:
                self._refuse(connection, error)
            frames = frames[1:]
        if frames and connection in self._checking:
            self._checking[connection] += frames
        elif frames and self._broker.peers.get(connection) is not None:
            self._broker.inbox.put(connection, frames)

    def closed(self, connection: Connection) -> LinkConfig | None:
        """Forget a connection; return the link for which it was dialled, if it was."""
        self._checking.pop(connection, None)
        return self._dialled.pop(connection, None)

    def _refuse(self, connection: Connection, error: AccessError) -> None:
        self._broker.say(logging.WARNING, "peer refused", peer=connection.peer, reason=error)
        connection.end(str(error), retry=False)

    def _greet(self, connection: Connection, first: bytes) -> None:
        said = decode_life(memoryview(first)[1:])
        link, broker = self._dialled.get(connection), self._broker
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
                if len(said.name) > MAX_NAME or broker.config.link(said.name) is None:
                    raise ProtocolError(f"{said.name!r:.40} is no neighbour of {broker.config.name}")
                broker.security.check_neighbour(
                    connection.extra("ssl_object"), said.name, said.token, connection.host, broker.now_s
                )
                if self._is_second(said):
                    connection.end("there is a link already")
                    return
                connection.send(Kind.WELCOME, encode(self._welcome(0)))
                self._neighbour_up(connection, said.name, said.incarnation)
            case _:
                raise ProtocolError("a link begins with a greeting")

    def _welcome(self, number: int) -> Welcome:
        config = self._broker.config
        return Welcome(
            VERSION, config.name, number, self._broker.incarnation, config.max_frame, config.lease_s
        )

    # -- clients ---------------------------------------------------------------------------------------------

    def _admit(self, connection: Connection, said: Hello) -> None:
        if len(said.name) > MAX_NAME:
            raise ProtocolError(f"a client's name has at most {MAX_NAME} characters")
        permissions = self._broker.security.known(
            user=said.user,
            password=said.password,
            token=said.token,
            address=connection.host,
            now_s=self._broker.now_s,
        )
        if permissions is not None:
            self._client_up(connection, permissions, said.name)
            return
        self._checking[connection] = []
        connection.hold("password")
        task = asyncio.get_running_loop().create_task(self._prove(connection, said))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _prove(self, connection: Connection, said: Hello) -> None:
        broker = self._broker
        try:
            while True:
                security = broker.security
                permissions = await security.prove(
                    user=said.user, password=said.password, address=connection.host, now_s=broker.now_s
                )
                if security is broker.security:  # users may have changed while the password was checked
                    break
        except AccessError as error:
            self._checking.pop(connection, None)
            self._refuse(connection, error)
            return
        frames = self._checking.pop(connection, None)
        if frames is None or not connection.is_open:
            return
        broker.tell_time()
        self._client_up(connection, permissions, said.name)
        if frames:
            broker.inbox.put(connection, frames)
        connection.go_on("password")

    def _client_up(self, connection: Connection, permissions: Permissions, name: str) -> None:
        config = self._broker.config
        number = secrets.randbits(63)
        connection.send(Kind.WELCOME, encode(self._welcome(number)))
        connection.greeted(config.max_frame, config.lease_s)
        client = Session(link_of(number), number, connection, permissions, name)
        self._broker.peers[connection] = client
        self._broker.exchange.client_up(client)

    # -- neighbours ------------------------------------------------------------------------------------------

    def _is_second(self, said: Hello) -> bool:
        """Return whether we and a neighbour have dialled each other: then that of the first by name counts."""
        old = self._linked.get(said.name)
        peer = None if old is None else self._broker.peers.get(old)
        if old is None or not old.is_open or not isinstance(peer, Neighbour):
            return False
        mine = self._broker.config.name
        return old in self._dialled and peer.incarnation == said.incarnation and mine < said.name

    def _neighbour_up(self, connection: Connection, name: str, incarnation: int) -> None:
        broker, config = self._broker, self._broker.config
        link = config.link(name)
        if link is None:
            raise ProtocolError(f"{name!r:.40} is no neighbour of {config.name} any longer")
        old = self._linked.get(name)
        if old is not None:
            broker.inbox.finish(old)
            broker.tally.gone(broker.peers[old], old, "the neighbour has dialled again", broker.now_s)
            broker.peers[old] = None
            self.neighbour_down(name)
            old.abort("the neighbour has dialled again")
        connection.greeted(MAX_LINK_FRAME, config.lease_s)
        connection.lanes.bounds = config.bounds(link)
        neighbour = Neighbour(name, connection, incarnation)
        broker.peers[connection] = neighbour
        self._linked[name] = connection
        broker.say(logging.INFO, "link up", link=name, peer=connection.peer)
        broker.links.connected(neighbour)

    def neighbour_down(self, name: str) -> None:
        """A neighbour is there no longer."""
        del self._linked[name]
        if name in self._broker.links.links:
            self._broker.links.disconnected(name)
