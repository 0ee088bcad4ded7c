"""Admission: which connections have a place at a broker, so that strangers leave room for those it knows.

Every stream that a broker accepts, over its own protocol or over HTTP, has a place from the moment it is accepted:

    STRANGER     it has not proved who it is: a TLS handshake, half a greeting, half an HTTP request, `/healthz`
    VERIFYING    its password is being checked, or waits to be
    CLIENT       a client, or a user of `/events`
    ADMIN        an operator at the admin pages
    NEIGHBOUR    a broker of the configuration

Strangers are bounded for each address and in all. When there is one too many, the one that came first has to go. So a
flood of half greetings locks nobody out: a peer that says who it is without delay is let in before it is its turn to
go. As many as there may be strangers may wait for a check of their passwords (`logins`). Clients are bounded by
`max_connections`, less what is reserved for operators and for neighbours, who always find room. Operators beyond those
places take clients' places, at most half of them: where no token is configured, everybody on this machine is an
operator. There are never more places than descriptors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from covey.broker.config import BrokerConfig

ADMIN_PLACES: Final = 8  # that clients leave to operators
DESCRIPTORS_KEPT: Final = 64  # for files, listening sockets and dialling
STRANGERS_PART: Final = 8  # strangers get at most one descriptor of so many


class Place(Enum):
    """What a connection counts as; see the module's text."""

    STRANGER = "stranger"
    VERIFYING = "verifying"
    CLIENT = "client"
    ADMIN = "admin"
    NEIGHBOUR = "neighbour"


_BOUNDED: Final = (Place.CLIENT, Place.ADMIN)  # together, too


@dataclass(frozen=True)
class Places:
    """How many places there are; `reserved` are those for operators, beyond the clients'."""

    clients: int
    strangers: int
    strangers_per_address: int
    reserved: int = 0


def descriptors_of(config: BrokerConfig) -> int:
    """Return the fewest descriptors with which `places_of` gives all the places of the settings."""
    strangers = config.max_unauthenticated
    return max(config.max_connections + 2 * strangers + DESCRIPTORS_KEPT, STRANGERS_PART * strangers)


def places_of(config: BrokerConfig, descriptors: int | None) -> Places:
    """Return the places that settings give, and that a number of descriptors allows; None allows any."""
    strangers, connections = config.max_unauthenticated, config.max_connections
    if descriptors is not None:
        strangers = min(strangers, max(1, descriptors // STRANGERS_PART))
        # As many as there may be strangers may wait for a check of their passwords.
        connections = min(connections, max(1, descriptors - 2 * strangers - DESCRIPTORS_KEPT))
    admin = ADMIN_PLACES if config.admin is not None else 0
    clients = max(1, connections - admin - len(config.links))
    return Places(clients, strangers, config.max_unauthenticated_per_address, admin)


class Admission:
    """The places of one broker; see the module's text. Connections are numbers."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self._held: dict[int, Place] = {}
        self._counts: Counter[Place] = Counter()
        self._strangers: dict[int, str] = {}  # with their addresses; who came first is first
        self._by_address: dict[str, dict[int, None]] = {}

    def counted(self, place: Place) -> int:
        """Return how many have such a place."""
        return self._counts[place]

    def has(self, number: int) -> bool:
        """Return whether a connection has a place."""
        return number in self._held

    def knock(self, number: int, address: str) -> list[int]:
        """Give a connection the place of a stranger, as it was accepted or has failed to prove who it is.

        Return the strangers that have to go for it.
        """
        if self._held.get(number) is Place.STRANGER:
            return []
        self._set(number, Place.STRANGER)
        self._strangers[number] = address
        near = self._by_address.setdefault(address, {})
        near[number] = None
        going: list[int] = []
        if len(near) > self.places.strangers_per_address:
            going.append(next(iter(near)))
        elif len(self._strangers) > self.places.strangers:
            going.append(next(iter(self._strangers)))
        for one in going:
            self.leave(one)
        return going

    def take(self, number: int, place: Place) -> bool:
        """Give a connection another place, if there is one; return whether it has it now."""
        if self._held.get(number) is place:
            return True
        if place in _BOUNDED and not self._has_room(number, place):
            return False
        self._forget_stranger(number)
        self._set(number, place)
        return True

    def _has_room(self, number: int, place: Place) -> bool:
        clients, reserved = self.places.clients, self.places.reserved
        most = clients if place is Place.CLIENT else clients // 2 + reserved
        others = sum(self._counts[one] for one in _BOUNDED) - (self._held.get(number) in _BOUNDED)
        return self._counts[place] < most and others < clients + reserved

    def leave(self, number: int) -> None:
        """Take the place of a connection that is gone, or has to go."""
        self._forget_stranger(number)
        place = self._held.pop(number, None)
        if place is not None:
            self._counts[place] -= 1

    def _set(self, number: int, place: Place) -> None:
        before = self._held.get(number)
        if before is not None:
            self._counts[before] -= 1
        self._held[number] = place
        self._counts[place] += 1

    def _forget_stranger(self, number: int) -> None:
        address = self._strangers.pop(number, None)
        if address is not None:
            near = self._by_address[address]
            del near[number]
            if not near:
                del self._by_address[address]

    def report(self) -> Iterable[tuple[str, int]]:
        """Yield how many connections have which place."""
        return ((place.value, self._counts[place]) for place in Place)
