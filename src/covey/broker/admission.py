"""Admission: which connections have a place at a broker, who is at their other end, and whether it may come in.

Every stream that a broker accepts, over its own protocol or over HTTP, has a place from the moment it is accepted:

    STRANGER     it has not proved who it is: a TLS handshake, half a greeting, half an HTTP request, `/healthz`
    VERIFYING    its password is being checked, or waits to be
    CLIENT       a client, or a user of `/events`
    ADMIN        an operator at the admin pages
    NEIGHBOUR    a broker of the configuration

Strangers are bounded for each address and in all. When there is one too many, the one that came first has to go. So a
flood of half greetings locks nobody out: a peer that says who it is without delay is let in before it is its turn to
go. As many as there may be strangers may wait for a check of their passwords (`Logins`). Clients are bounded by
`max_connections`, less what is reserved for operators and for neighbours, who always find room. Operators beyond those
places take clients' places, at most half of them: where no token is configured, everybody on this machine is an
operator. There are never more places than descriptors.

`Logins` finds out who a client is, at both doors, and has the order in which passwords are checked. `show` is told what
somebody shows, and yields the answer, Entered or Denied: at once if that is quick (a token, a password that was right
before, nothing at all), else after a check in a thread of the shell. A check takes some 50 ms of a processor by design,
so that a flood of logins is kept from delaying others:

    - CHECKS run at a time, whatever is configured meanwhile, and MAX_CHECKS wait; of one address a part of them
    - logins with the same name and password share one check
    - of one name and address, whether the name exists or not, one check runs at a time and few wait: whoever tries
      passwords of one name does not learn whether it exists
    - names that exist go first, and addresses take turns
    - a name that does not exist is checked like any other, but only while nothing else waits, one at a time, and few of
      them wait: a flood of names takes what is left over

Whoever finds no place in the queue is told to come back later (BusyError), and clients do.

`judge` reads the first frame of a connection. Who dials says hello, who listens answers welcome; both name the versions
of the protocol that they speak, and use the newest one that they have in common. A client shows a token or a password,
which `Logins` judges. A neighbour must be among the links of the configuration, and proves it by its certificate or by
the token that neighbours share.

Nothing is changed there: `judge` returns what the greeting means, and the core does it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from covey.broker.actions import Actions, Denied, Entered, Verify, Verifying
from covey.broker.config import BrokerConfig
from covey.broker.security import Security
from covey.errors import AccessError, BusyError, ProtocolError
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


CHECKS: Final = 2  # passwords that are checked at a time
MAX_CHECKS: Final = 200  # that wait, of names that exist
MAX_CHECKS_OF_ADDRESS: Final = 20  # of these, of one address
# That run or wait, of one name and address: after so many failures it has to pause anyway.
MAX_CHECKS_OF_NAME: Final = 5
MAX_UNKNOWN: Final = 8  # that wait, of names that do not exist

BUSY: Final = "the broker checks too many passwords already: come back a little later"


class Shown(NamedTuple):
    """What somebody shows; nothing, if they are anonymous."""

    user: str = ""
    password: str = ""
    token: str = ""

    def __repr__(self) -> str:
        return "<credentials>"


@dataclass(eq=False, slots=True)
class _Check:
    """A password that is checked, or waits to be, and the logins that wait for it, with their addresses."""

    shown: Shown
    address: str  # of the first of them
    is_known: bool
    waiting: dict[int, str] = field(default_factory=dict)
    security: Security | None = None  # by which it is checked, once it is

    @property
    def whose(self) -> tuple[str, str]:
        """Whose passwords are checked one after the other."""
        return self.address, self.shown.user


class Logins:
    """The logins of one broker; see the module's text. A part: its methods yield what the owner is to do."""

    def __init__(self, security: Security, most_waiting: int) -> None:
        self.security = security
        self.most_waiting = most_waiting  # logins that wait for all checks together
        self._of: dict[int, _Check] = {}  # by login
        self._checks: dict[Shown, _Check] = {}
        self._known: dict[str, deque[_Check]] = {}  # that wait, by address; whose turn it is, is first
        self._unknown: deque[_Check] = deque()
        self._of_name: Counter[tuple[str, str]] = Counter()  # checks, by address and name
        self._running: dict[int, _Check] = {}
        self._last = 0

    @property
    def waiting(self) -> int:
        """How many checks wait."""
        return len(self._checks) - len(self._running)

    def show(self, login: int, shown: Shown, address: str, now_s: float) -> Actions:
        """Say who somebody is."""
        try:
            permissions = self.security.known(
                user=shown.user, password=shown.password, token=shown.token, address=address, now_s=now_s
            )
            if permissions is not None:
                yield Entered(login, permissions)
                return
            if len(self._of) >= self.most_waiting:
                raise BusyError(BUSY)
            check = self._checks.get(shown) or self._queued(shown, address)
        except (AccessError, BusyError) as error:
            yield Denied(login, address, error)
            return
        check.waiting[login] = address
        self._of[login] = check
        yield Verifying(login)
        yield from self._begin()

    def _queued(self, shown: Shown, address: str) -> _Check:
        """Return a new check that waits; BusyError if too many do."""
        check = _Check(shown, address, self.security.is_known(shown.user))
        if self._of_name[check.whose] >= MAX_CHECKS_OF_NAME:
            raise BusyError(BUSY)
        if check.is_known:
            others = self._known.get(address, ())
            if len(others) >= MAX_CHECKS_OF_ADDRESS or sum(map(len, self._known.values())) >= MAX_CHECKS:
                raise BusyError(BUSY)
            self._known.setdefault(address, deque()).append(check)
        else:
            if len(self._unknown) >= MAX_UNKNOWN:
                raise BusyError(BUSY)
            self._unknown.append(check)
        self._checks[shown] = check
        self._of_name[check.whose] += 1
        return check

    def _begin(self) -> Actions:
        """Begin the checks whose turn it is."""
        while len(self._running) < CHECKS and (check := self._next()) is not None:
            self._last += 1
            self._running[self._last] = check
            check.security = self.security
            yield Verify(self._last, check.shown.password, self.security.expected(check.shown.user))

    def _next(self) -> _Check | None:
        running = {one.whose for one in self._running.values()}
        for address, checks in self._known.items():
            check = next((one for one in checks if one.whose not in running), None)
            if check is None:
                continue
            checks.remove(check)
            del self._known[address]
            if checks:
                self._known[address] = checks  # behind all others
            return check
        if self._unknown and all(one.is_known for one in self._running.values()):
            return self._unknown.popleft()
        return None

    def verified(self, number: int, is_right: bool, now_s: float) -> Actions:
        """A check is done."""
        check = self._running.pop(number)
        self._forget(check)
        shown, security = check.shown, check.security
        assert security is not None, "by which it was checked"
        for login, address in check.waiting.items():
            self._of.pop(login, None)
            try:
                permissions = security.proved(shown.user, shown.password, is_right, address, now_s)
            except (AccessError, BusyError) as error:
                yield Denied(login, address, error)
                continue
            if security is self.security:
                yield Entered(login, permissions)
            else:  # users have changed while it was checked
                yield from self.show(login, shown, address, now_s)
        yield from self._begin()

    def renewed(self, security: Security, now_s: float) -> Actions:
        """Judge what waits by other users; what is being checked is judged again when that is done."""
        self.security = security
        for check in list(self._waiting()):
            self._forget(check)
            for login, address in check.waiting.items():
                del self._of[login]
                yield from self.show(login, check.shown, address, now_s)

    def left(self, login: int) -> None:
        """Somebody is gone: nobody waits for its check, unless others do."""
        check = self._of.pop(login, None)
        if check is not None:
            del check.waiting[login]
            if not check.waiting and check.security is None:
                self._forget(check)

    def _waiting(self) -> Iterator[_Check]:
        for checks in self._known.values():
            yield from checks
        yield from self._unknown

    def _forget(self, check: _Check) -> None:
        del self._checks[check.shown]
        self._of_name[check.whose] -= 1
        if not self._of_name[check.whose]:
            del self._of_name[check.whose]
        if check.security is not None:
            return  # it waits no longer
        if not check.is_known:
            self._unknown.remove(check)
            return
        self._known[check.address].remove(check)
        if not self._known[check.address]:
            del self._known[check.address]


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
