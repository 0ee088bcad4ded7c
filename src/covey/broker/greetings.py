"""Greetings: who is at the other end of a connection, and whether it may come in.

Who dials says hello, who listens answers welcome; both name the versions of the protocol that they speak, and use the
newest one that they have in common. A client proves who it is by a token or a password; to check a password takes a
moment, so that it is asked for. A neighbour must be among the links of the configuration, and proves it by its
certificate or by the token that neighbours share.

Nothing is changed here: `judge` returns what the greeting means, and the core does it.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from covey.broker.config import BrokerConfig
from covey.broker.permissions import Permissions
from covey.broker.security import Security
from covey.errors import ProtocolError
from covey.protocol.control import MAX_NAME, OURS, Goodbye, Hello, Welcome, agreed_version, decode_life


class Stranger(NamedTuple):
    """What is known of a peer before it says anything."""

    address: str  # for people
    host: str
    certificate: frozenset[str] | None  # the names in what it has shown; None without TLS
    dialled: str  # the neighbour for which it was dialled


class ClientComes(NamedTuple):
    """It is a client, and may come in."""

    version: int
    name: str
    permissions: Permissions


class ClientProves(NamedTuple):
    """It is a client if its password is that of the hash."""

    version: int
    said: Hello
    expected: Any


class NeighbourComes(NamedTuple):
    """It is a neighbour; one that has dialled waits for a welcome."""

    version: int
    name: str
    incarnation: int
    has_dialled: bool


class Leaves(NamedTuple):
    """It goes at once, and says why."""

    reason: str


Judgement: TypeAlias = ClientComes | ClientProves | NeighbourComes | Leaves


def judge(
    first: bytes, stranger: Stranger, config: BrokerConfig, security: Security, now_s: float
) -> Judgement:
    """Return what the first frame of a connection means; AccessError or ProtocolError if nobody may come in so."""
    said = decode_life(memoryview(first)[1:])
    if isinstance(said, Goodbye):
        return Leaves(said.reason)
    version = agreed_version(OURS, said, "this broker")
    match said:
        case Welcome() if stranger.dialled:
            if said.broker != stranger.dialled:
                raise ProtocolError(
                    f"the broker at {stranger.address} is {said.broker!r:.40}, not {stranger.dialled}"
                )
            return NeighbourComes(version, said.broker, said.incarnation, has_dialled=False)
        case Hello(role="client") if not stranger.dialled:
            return _client(said, version, stranger, security, now_s)
        case Hello(role="broker") if not stranger.dialled:
            if len(said.name) > MAX_NAME or config.link(said.name) is None:
                raise ProtocolError(f"{said.name!r:.40} is no neighbour of {config.name}")
            security.check_neighbour(stranger.certificate, said.name, said.token, stranger.host, now_s)
            return NeighbourComes(version, said.name, said.incarnation, has_dialled=True)
        case _:
            raise ProtocolError("a link begins with a greeting")


def _client(
    said: Hello, version: int, stranger: Stranger, security: Security, now_s: float
) -> ClientComes | ClientProves:
    if len(said.name) > MAX_NAME:
        raise ProtocolError(f"a client's name has at most {MAX_NAME} characters")
    permissions = security.known(
        user=said.user, password=said.password, token=said.token, address=stranger.host, now_s=now_s
    )
    if permissions is not None:
        return ClientComes(version, said.name, permissions)
    return ClientProves(version, said, security.expected(said.user, stranger.host, now_s))


def hello_to(config: BrokerConfig, security: Security, incarnation: int) -> Hello:
    """Return what a neighbour that was dialled is told."""
    token = security.neighbour_token
    return Hello(OURS.oldest, "broker", config.name, token=token, incarnation=incarnation, newest=OURS.newest)


def welcome_to(config: BrokerConfig, incarnation: int, number: int = 0) -> Welcome:
    """Return what a peer that has dialled is told; a client writes the number on its events."""
    return Welcome(
        OURS.oldest, config.name, number, incarnation, config.max_frame, config.lease_s, OURS.newest
    )
