"""Greetings: who is at the other end of a connection, and whether it may come in.

Who dials says hello, who listens answers welcome; both name the versions of the protocol that they speak, and use the
newest one that they have in common. A client shows a token or a password, which `logins` judges. A neighbour must be
among the links of the configuration, and proves it by its certificate or by the token that neighbours share.

Nothing is changed here: `judge` returns what the greeting means, and the core does it.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from covey.broker.config import BrokerConfig
from covey.broker.logins import Shown
from covey.broker.security import Security
from covey.errors import ProtocolError
from covey.protocol.control import (
    MAX_NAME,
    OURS,
    Goodbye,
    Hello,
    Versions,
    Welcome,
    agreed_version,
    decode_life,
)


class Stranger(NamedTuple):
    """What is known of a peer before it says anything."""

    address: str  # for people
    host: str  # by which it is counted (`security.network_of`)
    certificate: frozenset[str] | None  # the names in what it has shown; None without TLS
    dialled: str  # the neighbour for which it was dialled


class ClientShows(NamedTuple):
    """It is a client, if what it shows is right."""

    version: int
    name: str
    shown: Shown


class NeighbourComes(NamedTuple):
    """It is a neighbour; one that has dialled waits for a welcome."""

    version: int
    name: str
    incarnation: int
    has_dialled: bool


class Leaves(NamedTuple):
    """It goes at once, and says why."""

    reason: str


Judgement: TypeAlias = ClientShows | NeighbourComes | Leaves


def judge(
    first: bytes,
    stranger: Stranger,
    config: BrokerConfig,
    security: Security,
    now_s: float,
    ours: Versions = OURS,
) -> Judgement:
    """Return what the first frame of a connection means, to a broker that speaks `ours`.

    AccessError, BusyError or ProtocolError if nobody may come in so.
    """
    said = decode_life(memoryview(first)[1:])
    if isinstance(said, Goodbye):
        return Leaves(said.reason)
    version = agreed_version(ours, said, "this broker")
    match said:
        case Welcome() if stranger.dialled:
            if said.broker != stranger.dialled:
                raise ProtocolError(
                    f"the broker at {stranger.address} is {said.broker!r:.40}, not {stranger.dialled}"
                )
            return NeighbourComes(version, said.broker, said.incarnation, has_dialled=False)
        case Hello(role="client") if not stranger.dialled:
            if len(said.name) > MAX_NAME:
                raise ProtocolError(f"a client's name has at most {MAX_NAME} characters")
            return ClientShows(version, said.name, Shown(said.user, said.password, said.token))
        case Hello(role="broker") if not stranger.dialled:
            if len(said.name) > MAX_NAME or config.link(said.name) is None:
                raise ProtocolError(f"{said.name!r:.40} is no neighbour of {config.name}")
            security.check_neighbour(stranger.certificate, said.name, said.token, stranger.host, now_s)
            return NeighbourComes(version, said.name, said.incarnation, has_dialled=True)
        case _:
            raise ProtocolError("a link begins with a greeting")


def hello_to(config: BrokerConfig, security: Security, incarnation: int, ours: Versions = OURS) -> Hello:
    """Return what a neighbour that was dialled is told."""
    token = security.neighbour_token
    return Hello(ours.oldest, "broker", config.name, token=token, incarnation=incarnation, newest=ours.newest)


def welcome_to(config: BrokerConfig, incarnation: int, number: int = 0, ours: Versions = OURS) -> Welcome:
    """Return what a peer that has dialled is told; a client writes the number on its events."""
    return Welcome(
        ours.oldest, config.name, number, incarnation, config.max_frame, config.lease_s, ours.newest
    )
