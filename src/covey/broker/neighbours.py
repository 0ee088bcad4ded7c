"""Neighbours: the brokers to which this one has links, one record each, and what routers say over those links.

A link is *connected* when both brokers have greeted each other: routers of plans use it at once. Routers of the overlay
use it once both ends find it on the overlay's tree and have said Attach to each other (`protocol.control` has the three
words). What is known of a link is one state, and `TABLE` says what each input does in each state:

    AWAY         there is no connection
    GIVEN_UP     there has been none for `forget_after_s`: nobody waits for the neighbour any longer
    CONNECTED    there is a connection, and neither end has asked for more
    OFFERED      we have said Attach, the neighbour has not
    INVITED      the neighbour has said Attach, we have not
    ATTACHED     both have: routers of the overlay talk over the link
    LEAVING      we have said Detach, which the neighbour has yet to answer; what it says until then is void

Beside it is what routers of the overlay have of the neighbour (`Routing`): LIVE while the link is ATTACHED, NOTHING, or
REMEMBERED. For a link that breaks is not taken from the routers at once. What the neighbour asked for stays in the
tables, so that nothing is forgotten because somebody is away for a moment; events for it are lost, or kept by those who
keep them. Routers hear of the break only when

    traffic moves      the overlay has another way to the neighbour: tables are repaired along it
    it is back         then it is down and up in one moment, and both ends compare what they know
    it is given up     after `forget_after_s`, or when it is no neighbour any longer

Meanwhile probes for the neighbour are echoed in its place, so that whoever asks is answered by those who are there.

What leaves the tree leaves the routers before anything new joins it. What joins waits until the overlay has been quiet
for a moment, since brokers that know only half of the news may see a cycle as a tree; and after a Detach until that is
answered.

A neighbour with an address is dialled while it is away, again and again, with pauses that grow and are of random
length. When is decided here; the owner does it.

What a router has to do when a link comes up, or goes down, may take long, and is done a slice at a time (`work`, and
`routing.jobs`). Until it is done, what the neighbour's router says in that epoch waits here, in its order. Events do
not wait, as nothing that routers say to each other has to arrive before an event.

No clock: time is an argument, and `deadline` says when `tick` is due.

`Overlay` is the overlay as one broker knows it: who is linked to whom, and the tree that everyone computes from that.
Every broker states its own links, with a number that grows; states are flooded, and the newest of each broker counts. A
link is up when both its ends say so. From equal states everyone computes the same tree:

    the minimum spanning forest of the links that are up, by priority (the worse of what the ends say), then by names

Brokers route over the links of the tree only, so an overlay may have more links than it needs: when one fails, the
states change, and with them the tree. States of brokers that cannot be reached are old, which does no harm: every link
that leaves the part of the overlay that can be reached is judged by its near end too.

"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Final, NamedTuple, TypeAlias, get_args

from covey.broker.actions import (
    Actions,
    Advertised,
    Answered,
    Attached,
    Close,
    Connected,
    Dial,
    Disconnected,
    Expect,
    Heard,
    Lost,
    Proceed,
    Say,
    Tell,
    Unadvertised,
    Withdrawing,
)
from covey.broker.config import LinkConfig
from covey.broker.plans import Epochs
from covey.core.work import ACCOUNT
from covey.errors import ProtocolError
from covey.protocol.connection import Outlet
from covey.protocol.control import (
    Attach,
    BrokerLinks,
    Detach,
    Detached,
    LinkStatus,
    Overlaid,
    Routed,
    States,
    decode_overlaid,
    decode_routed,
    encode_overlaid,
    encode_routed,
    routed_epoch,
)
from covey.protocol.events import Envelope, forwarded
from covey.protocol.frames import PIECES, Kind, framed
from covey.routing.messages import (
    Advertise,
    Echo,
    Link,
    LinkDown,
    LinkUp,
    Message,
    Probe,
    Publish,
    Sync,
    Unadvertise,
)

Pair: TypeAlias = tuple[str, str]  # the ends of a link, in the order of their names

MAX_LINKS = 10_000  # of one broker


def pair(a: str, b: str) -> Pair:
    """Return the name of the link between two brokers."""
    return (a, b) if a < b else (b, a)


def links_up(states: Iterable[BrokerLinks]) -> dict[Pair, int]:
    """Return the links whose ends both say that they are up, with their priorities."""
    known = {state.broker: state.links for state in states}
    found: dict[Pair, int] = {}
    for a, links in known.items():
        for b, (priority, is_up) in links.items():
            other = known.get(b, {}).get(a)
            if a < b and is_up and other is not None and other[1]:
                found[a, b] = max(priority, other[0])
    return found


def spanning_tree(links: Mapping[Pair, int]) -> frozenset[Pair]:
    """Return the minimum spanning forest of the links, by priority and then by names (Kruskal)."""
    parents: dict[str, str] = {}
    return frozenset(
        link for _, link in sorted((p, link) for link, p in links.items()) if _join(parents, *link)
    )


def has_cycle(states: Iterable[BrokerLinks]) -> bool:
    """Return whether the links that anybody has, up or not, are more than a forest."""
    parents: dict[str, str] = {}
    links = {pair(state.broker, other) for state in states for other in state.links}
    return any(not _join(parents, *link) for link in sorted(links))


def _root(parents: dict[str, str], broker: str) -> str:
    while (parent := parents.setdefault(broker, broker)) != broker:
        parents[broker] = parents[parent]
        broker = parent
    return broker


def _join(parents: dict[str, str], a: str, b: str) -> bool:
    """Put two brokers into one part; return whether they were not in one before."""
    a, b = _root(parents, a), _root(parents, b)
    parents[a] = b
    return a != b


class Overlay:
    """What the broker `me` knows; see the module's text. `sequence` is one that it has never used before."""

    def __init__(self, me: str, sequence: int, max_brokers: int = 10_000) -> None:
        self.me = me
        self.max_brokers = max_brokers
        self._states: dict[str, BrokerLinks] = {me: BrokerLinks(me, sequence, {})}
        self._tree: frozenset[Pair] | None = None
        self._has_cycle: bool | None = None
        self._parts: dict[str, str] = {}

    @property
    def states(self) -> tuple[BrokerLinks, ...]:
        """All that is known, one state a broker."""
        return tuple(self._states.values())

    def state(self, links: Mapping[str, LinkStatus]) -> BrokerLinks:
        """Change what is said of one's own links; return the new state, to be told to everyone."""
        mine = BrokerLinks(self.me, self._states[self.me].sequence + 1, dict(links))
        self._keep(mine)
        return mine

    def learn(self, state: BrokerLinks) -> BrokerLinks | None:
        """Take somebody's state; return what is to be told to others because of it, or None if it is not new.

        ProtocolError if the overlay has no room for another broker.
        """
        if len(state.links) > MAX_LINKS:
            raise ProtocolError(f"{state.broker!r:.40} cannot have {len(state.links):,} links")
        known = self._states.get(state.broker)
        if known is not None and state.sequence <= known.sequence:
            return None
        if state.broker == self.me:
            # Said by ourselves in an earlier life, with a clock that was ahead: we speak louder than that.
            mine = BrokerLinks(self.me, state.sequence + 1, self._states[self.me].links)
            self._keep(mine)
            return mine
        if known is None and len(self._states) >= self.max_brokers:
            raise ProtocolError(
                f"the overlay has {self.max_brokers:,} brokers, and no room for {state.broker!r:.40}"
            )
        self._keep(state)
        return state

    def _keep(self, state: BrokerLinks) -> None:
        self._states[state.broker] = state
        self._tree = self._has_cycle = None

    @property
    def tree(self) -> frozenset[Pair]:
        """The links over which brokers route."""
        if self._tree is None:
            self._tree = spanning_tree(links_up(self._states.values()))
            self._parts = {}
            for link in self._tree:
                _join(self._parts, *link)
        return self._tree

    def reaches(self, other: str) -> bool:
        """Return whether there is a way to another broker over links that are up."""
        return bool(self.tree) and _root(self._parts, self.me) == _root(self._parts, other)

    @property
    def is_redundant(self) -> bool:
        """Whether the overlay has more links than a tree, so that one may stand in for another."""
        if self._has_cycle is None:
            self._has_cycle = has_cycle(self._states.values())
        return self._has_cycle


Place: TypeAlias = tuple[Link, int]  # a link, and the epoch of a router

QUIET_S: Final = 0.05  # without news, before a link joins the tree
LONGEST_S: Final = 1.0  # that a link waits for the overlay to be quiet
FORGET_AFTER_S: Final = 86_400.0
CHUNK: Final = 256  # states in one frame
AT_A_TIME: Final = 8  # frames that have waited, handled in a slice of work,
AT_A_TIME_UNITS: Final = 400.0  # or fewer, if they take that much of it (`core.work`)
SAID: Final = 20.0  # units of what is said to a neighbour's router
# Of what a neighbour's router has said and ours is too busy for; beyond it the neighbour is not read.
MOST_WAITING_BYTES: Final = 8 << 20

FIRST_PAUSE_S: Final = 0.1  # between two attempts to reach a neighbour
LONGEST_PAUSE_S: Final = 10.0
STEADY_S: Final = 1.0  # that a dialled connection must have lasted for the next pause to be short

# What must not overtake events: a way that is given up, and what asks whether all before it has arrived.
_BEHIND_EVENTS: Final = (Unadvertise, Probe, Echo)

# What is counted: control messages by kind and direction.
_IN: Final = {kind: f"control_in_{kind.__name__.lower()}" for kind in get_args(Routed)}
_OUT: Final = {kind: f"control_out_{kind.__name__.lower()}" for kind in get_args(Routed)}


# -- states ------------------------------------------------------------------------------------------------------


class LinkState(Enum):
    """What is known of the link to a neighbour; see the module's text."""

    AWAY = 1
    GIVEN_UP = 2
    CONNECTED = 3
    OFFERED = 4
    INVITED = 5
    ATTACHED = 6
    LEAVING = 7


class Routing(Enum):
    """What routers of the overlay have of a neighbour."""

    NOTHING = 1
    LIVE = 2
    REMEMBERED = 3  # from before its link broke


class LinkInput(Enum):
    """What can happen to the link to a neighbour."""

    GREETED = "greeted"  # both brokers have said who they are
    LOST = "connection lost"
    EXPIRED = "away too long"
    WANTED = "wanted"  # on the overlay's tree, and the overlay is quiet
    UNWANTED = "unwanted"  # not on the tree
    ATTACH = "hears Attach"
    DETACH = "hears Detach"
    DETACHED = "hears Detached"


class Move(NamedTuple):
    """The link gets another state, after this was said to the neighbour."""

    to: LinkState
    says: tuple[Overlaid, ...] = ()


class Ignored(NamedTuple):
    """Nothing is to be done."""

    because: str


class Refused(NamedTuple):
    """Nobody who keeps to the protocol does that: ProtocolError."""

    because: str


Outcome: TypeAlias = Move | Ignored | Refused

_HERE: Final = Ignored("the neighbour is here")
_STALE: Final = Ignored("it was said over a connection that is gone")
_NOBODY: Final = Ignored("nobody is there whom it could be said to")
_NOT_ASKED: Final = Ignored("we have not said Attach")
_TWICE: Final = Refused("it says Attach twice")
_NOT_ATTACHED: Final = Refused("it says Detach and has not said Attach")
_NOT_DETACHED: Final = Refused("it answers a Detach that was not said")
_TWO: Final = Refused("it has another connection, which ends before a new one begins")

TABLE: Final[Mapping[LinkState, Mapping[LinkInput, Outcome]]] = {
    LinkState.AWAY: {
        LinkInput.GREETED: Move(LinkState.CONNECTED),
        LinkInput.LOST: Ignored("it is away already"),
        LinkInput.EXPIRED: Move(LinkState.GIVEN_UP),
        LinkInput.WANTED: _NOBODY,
        LinkInput.UNWANTED: _NOBODY,
        LinkInput.ATTACH: _STALE,
        LinkInput.DETACH: _STALE,
        LinkInput.DETACHED: _STALE,
    },
    LinkState.GIVEN_UP: {
        LinkInput.GREETED: Move(LinkState.CONNECTED),
        LinkInput.LOST: Ignored("it is away already"),
        LinkInput.EXPIRED: Ignored("it is given up already"),
        LinkInput.WANTED: _NOBODY,
        LinkInput.UNWANTED: _NOBODY,
        LinkInput.ATTACH: _STALE,
        LinkInput.DETACH: _STALE,
        LinkInput.DETACHED: _STALE,
    },
    LinkState.CONNECTED: {
        LinkInput.GREETED: _TWO,
        LinkInput.LOST: Move(LinkState.AWAY),
        LinkInput.EXPIRED: _HERE,
        LinkInput.WANTED: Move(LinkState.OFFERED, (Attach(),)),
        LinkInput.UNWANTED: _NOT_ASKED,
        LinkInput.ATTACH: Move(LinkState.INVITED),
        LinkInput.DETACH: _NOT_ATTACHED,
        LinkInput.DETACHED: _NOT_DETACHED,
    },
    LinkState.OFFERED: {
        LinkInput.GREETED: _TWO,
        LinkInput.LOST: Move(LinkState.AWAY),
        LinkInput.EXPIRED: _HERE,
        LinkInput.WANTED: Ignored("we have said Attach already"),
        LinkInput.UNWANTED: Move(LinkState.LEAVING, (Detach(),)),
        LinkInput.ATTACH: Move(LinkState.ATTACHED),
        LinkInput.DETACH: _NOT_ATTACHED,
        LinkInput.DETACHED: _NOT_DETACHED,
    },
    LinkState.INVITED: {
        LinkInput.GREETED: _TWO,
        LinkInput.LOST: Move(LinkState.AWAY),
        LinkInput.EXPIRED: _HERE,
        LinkInput.WANTED: Move(LinkState.ATTACHED, (Attach(),)),
        LinkInput.UNWANTED: _NOT_ASKED,
        LinkInput.ATTACH: _TWICE,
        LinkInput.DETACH: Move(LinkState.CONNECTED, (Detached(),)),
        LinkInput.DETACHED: _NOT_DETACHED,
    },
    LinkState.ATTACHED: {
        LinkInput.GREETED: _TWO,
        LinkInput.LOST: Move(LinkState.AWAY),
        LinkInput.EXPIRED: _HERE,
        LinkInput.WANTED: Ignored("we have said Attach already"),
        LinkInput.UNWANTED: Move(LinkState.LEAVING, (Detach(),)),
        LinkInput.ATTACH: _TWICE,
        # We still want the link: what we said before is void, and is said again.
        LinkInput.DETACH: Move(LinkState.OFFERED, (Detached(), Attach())),
        LinkInput.DETACHED: _NOT_DETACHED,
    },
    LinkState.LEAVING: {
        LinkInput.GREETED: _TWO,
        LinkInput.LOST: Move(LinkState.AWAY),
        LinkInput.EXPIRED: _HERE,
        LinkInput.WANTED: Ignored("we ask again once our Detach is answered"),
        LinkInput.UNWANTED: Ignored("we have said Detach already"),
        LinkInput.ATTACH: Ignored("it was said before the neighbour heard our Detach"),
        LinkInput.DETACH: Move(LinkState.LEAVING, (Detached(),)),
        LinkInput.DETACHED: Move(LinkState.CONNECTED),
    },
}

_SAID: Final[Mapping[type[Overlaid], LinkInput]] = {
    Attach: LinkInput.ATTACH,
    Detach: LinkInput.DETACH,
    Detached: LinkInput.DETACHED,
}
_NO_CONNECTION: Final = (LinkState.AWAY, LinkState.GIVEN_UP)
_NOT_YET_OURS: Final = (LinkState.CONNECTED, LinkState.INVITED)  # in which WANTED is a move


def diagram() -> str:
    """Return the moves of `TABLE` as a Mermaid diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {LinkState.AWAY.name}"]
    for state, row in TABLE.items():
        for given, outcome in row.items():
            if isinstance(outcome, Move):
                said = ", ".join(type(one).__name__ for one in outcome.says)
                label = f"{given.value} / {said}" if said else given.value
                lines.append(f"    {state.name} --> {outcome.to.name} : {label}")
    return "\n".join(lines)


# -- records -----------------------------------------------------------------------------------------------------


class DialState(Enum):
    """What is done to reach a neighbour that has an address."""

    WAITING = 1  # until it is time to dial, and the neighbour is away
    DIALLING = 2  # the owner tries
    DIALLED = 3  # there is a connection that the owner has opened, greeted or not


@dataclass
class Dialling:
    """When a neighbour is dialled."""

    state: DialState = DialState.WAITING
    due_s: float = 0.0
    pause_s: float = FIRST_PAUSE_S
    opened_s: float = 0.0


@dataclass
class Neighbour:
    """One configured neighbour, whether its link is there or not."""

    config: LinkConfig
    state: LinkState = LinkState.AWAY
    routing: Routing = Routing.NOTHING
    away_since_s: float = 0.0  # when its link broke, or was first looked for
    dialling: Dialling = field(default_factory=Dialling)
    advertised: int = 0  # how many advertisements were sent to it
    # What it has yet to echo, by epoch, with how much was advertised to it before that was asked.
    probes: dict[int, dict[Echo, int]] = field(default_factory=dict)
    # Of the connection that it has, or had last:
    connection: Outlet | None = None
    incarnation: int = 0
    version: int = 0  # of the protocol, that both ends speak
    received: int = 0
    sent: int = 0
    has_said_goodbye: bool = False

    @property
    def link(self) -> Link:
        """Its name, by which routers know it."""
        return self.config.name

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to it."""
        return self.connection is not None

    @property
    def link_up(self) -> LinkUp:
        """What routers are told when they may use its link."""
        return LinkUp(pieces=self.version >= PIECES)

    @property
    def outlet(self) -> Outlet:
        """The sending end of its connection, which must be there."""
        assert self.connection is not None, f"{self.link} is connected"
        return self.connection

    def say(self, said: Overlaid) -> None:
        """Tell it something about the use of this link."""
        # Behind the events too: they belong to what was said before.
        self.outlet.send(Kind.OVERLAY, encode_overlaid(said), barrier=True)

    def tell(self, states: Iterable[BrokerLinks]) -> None:
        """Tell it which links brokers have, if it is there."""
        if self.connection is None:
            return
        some = tuple(states)
        for at in range(0, len(some), CHUNK):
            self.connection.send(Kind.OVERLAY, encode_overlaid(States(some[at : at + CHUNK])))


class Greeting(NamedTuple):
    """What has come of the greeting of a neighbour."""

    outlet: Outlet
    incarnation: int
    version: int


class Some(Mapping[Link, Neighbour]):
    """Those neighbours of which something is true, at the moment at which one asks."""

    def __init__(self, records: Mapping[Link, Neighbour], is_one: Callable[[Neighbour], bool]) -> None:
        self._records, self._is_one = records, is_one

    def __getitem__(self, link: Link) -> Neighbour:
        neighbour = self._records[link]
        if not self._is_one(neighbour):
            raise KeyError(link)
        return neighbour

    def __iter__(self) -> Iterator[Link]:
        return (link for link, neighbour in self._records.items() if self._is_one(neighbour))

    def __len__(self) -> int:
        return sum(1 for _ in self)


# -- the part ----------------------------------------------------------------------------------------------------


class Neighbours:
    """The neighbours of one broker, none before `configure`; see the module's text.

    `random` draws the pauses between attempts to reach a neighbour.
    """

    def __init__(
        self,
        epochs: Epochs,
        overlay: Overlay,
        forget_after_s: float = FORGET_AFTER_S,
        random: Random | None = None,
    ) -> None:
        self._epochs = epochs
        self.overlay = overlay
        self._forget_after_s = forget_after_s
        self._random = random or Random(0)
        self.records: dict[Link, Neighbour] = {}
        self.connected: Mapping[Link, Neighbour] = Some(self.records, lambda one: one.is_connected)
        self.attached: Mapping[Link, Neighbour] = Some(
            self.records, lambda one: one.state is LinkState.ATTACHED
        )
        self.counters: Counter[str] = Counter()
        self.version = 0  # another one after every change of who is connected or attached
        self._news_s = 0.0  # when the overlay has changed last
        self._joining_since_s: float | None = None  # since when a link waits to join the tree
        self._dials = False
        self._deadline_s: float | None = None
        self._is_deadline_known = True
        self._waiting: dict[Place, deque[bytes]] = {}  # what routers have said that ours are not ready for
        self._waiting_bytes: Counter[Link] = Counter()
        self._hearing: dict[Place, Message] = {}  # what ours are busy with
        self._turns = 0  # slices of work so far
        self._echoes: list[tuple[Link, int, Echo]] = []  # due in place of neighbours that are away
        self._is_echoing = False

    # -- questions -------------------------------------------------------------------------------------------

    def is_used(self, link: Link, epoch: int) -> bool:
        """Return whether routers of that epoch talk over the link to a neighbour."""
        neighbour = self.records.get(link)
        if neighbour is None or neighbour.connection is None or epoch not in self._epochs.routers:
            return False
        return neighbour.state is LinkState.ATTACHED or self._epochs.is_planned(epoch)

    def used(self, epoch: int) -> Mapping[Link, Neighbour]:
        """Return the neighbours over whose links routers of that epoch talk: a view, which changes with them."""
        return Some(self.records, lambda one: self.is_used(one.link, epoch))

    def is_open(self, link: Link) -> bool:
        """Return whether this broker and a neighbour have told each other all that they know, or need not."""
        neighbour = self.records.get(link)
        if neighbour is None or not neighbour.is_connected:
            return False
        if not self._is_on_tree(neighbour):
            return self.overlay.reaches(link)
        return neighbour.state is LinkState.ATTACHED and all(
            not router.is_busy(link)
            and all(
                link in part.neighbours() or link not in part.links_up() for part in router.trees.values()
            )
            for router in self._epochs.routers.values()
        )

    def _is_on_tree(self, neighbour: Neighbour) -> bool:
        return pair(self.overlay.me, neighbour.link) in self.overlay.tree

    # -- time ------------------------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """Return when `tick` is due; None if nothing waits for time to pass."""
        if not self._is_deadline_known:
            self._deadline_s = min(self._deadlines(), default=None)
            self._is_deadline_known = True
        return self._deadline_s

    def _deadlines(self) -> Iterator[float]:
        if self._joining_since_s is not None:
            yield self._join_s(self._joining_since_s)
        for neighbour in self.records.values():
            if neighbour.state is LinkState.AWAY:
                yield neighbour.away_since_s + self._forget_after_s
            if self._is_to_be_dialled(neighbour):
                yield neighbour.dialling.due_s

    def _join_s(self, since_s: float) -> float:
        return min(self._news_s + QUIET_S, since_s + LONGEST_S)

    def tick(self, now_s: float) -> Actions:
        """Do what is due: join the tree, give up who is away for too long, dial."""
        self._is_deadline_known = False
        if self._joining_since_s is not None and now_s >= self._join_s(self._joining_since_s):
            self._joining_since_s = None
            for neighbour in list(self.records.values()):
                if self._is_on_tree(neighbour):
                    yield from self._handle(neighbour, LinkInput.WANTED)
        for neighbour in list(self.records.values()):
            if neighbour.state is LinkState.AWAY and now_s >= neighbour.away_since_s + self._forget_after_s:
                yield from self._give_up(neighbour, now_s)
            if self._is_to_be_dialled(neighbour) and now_s >= neighbour.dialling.due_s:
                neighbour.dialling.state = DialState.DIALLING
                yield Dial(neighbour.link)

    def _give_up(self, neighbour: Neighbour, now_s: float) -> Actions:
        yield from self._handle(neighbour, LinkInput.EXPIRED)
        if neighbour.routing is Routing.REMEMBERED or self._is_planned_with(neighbour):
            away_s = now_s - neighbour.away_since_s
            yield Say(logging.WARNING, "link given up", {"link": neighbour.link, "away_s": away_s})
            yield from self._forget(neighbour)
        yield self._expected()

    def forget_after(self, forget_after_s: float) -> None:
        """Give up neighbours that are away for so long, from now on."""
        self._forget_after_s = forget_after_s
        self._is_deadline_known = False

    # -- links come and go -----------------------------------------------------------------------------------

    def configure(self, configs: Iterable[LinkConfig], now_s: float) -> Actions:
        """Take a list of neighbours in place of the one before; connections to those that are none are ended."""
        new = {config.name: config for config in configs}
        for neighbour in [one for one in self.records.values() if one.link not in new]:
            yield from self._remove(neighbour)
        for name, config in new.items():
            known = self.records.get(name)
            if known is None:
                dialling = Dialling(due_s=now_s)
                self.version += 1
                self.records[name] = Neighbour(config, away_since_s=now_s, dialling=dialling)
                continue
            before, known.config = known.config, config
            if (before.host, before.port) != (config.host, config.port):
                known.dialling = Dialling(due_s=now_s)
                if before.host and known.is_connected:
                    yield Close(name, "the neighbour has another address")
        yield from self._state(now_s)

    def _remove(self, neighbour: Neighbour) -> Actions:
        if neighbour.is_connected:
            reason = f"{neighbour.link} is no neighbour of {self.overlay.me} any longer"
            yield Close(neighbour.link, reason)
            yield from self._lose(neighbour)
        yield from self._forget(neighbour)
        self.version += 1
        del self.records[neighbour.link]

    def greeted(self, link: Link, greeting: Greeting, now_s: float) -> Actions:
        """A neighbour and this broker have greeted each other: plans use the link at once."""
        neighbour = self.records[link]
        yield from self._handle(neighbour, LinkInput.GREETED)
        self.version += 1
        neighbour.connection, neighbour.incarnation, neighbour.version = greeting
        neighbour.received = neighbour.sent = 0
        neighbour.has_said_goodbye = False
        yield Connected(link, neighbour.link_up.pieces)
        for epoch, router in self._epochs.of_plans():
            if any(link in part.links_up() for part in router.trees.values()):  # from before a break
                yield Tell(LinkDown(), link, epoch)
            yield Tell(neighbour.link_up, link, epoch)
        neighbour.tell(self.overlay.states)
        yield from self._state(now_s)

    def disconnected(self, link: Link, now_s: float) -> Actions:
        """The connection to a neighbour is gone, but not what it asked for; nobody waits for its echoes."""
        neighbour = self.records.get(link)
        if neighbour is None or not neighbour.is_connected:
            return  # it is no neighbour any longer, or one again since
        neighbour.away_since_s = now_s
        if neighbour.dialling.state is DialState.WAITING:
            neighbour.dialling.due_s = max(
                neighbour.dialling.due_s, now_s + FIRST_PAUSE_S * self._random.random()
            )
        yield from self._lose(neighbour)
        yield from self._state(now_s)

    def _lose(self, neighbour: Neighbour) -> Actions:
        self.version += 1
        neighbour.connection = None
        self._drop_waiting(neighbour, self._epochs.routers)
        yield from self._handle(neighbour, LinkInput.LOST)
        yield Disconnected(neighbour.link)
        yield from self._give_up_echoes(neighbour, [epoch for epoch, _ in self._epochs.of_plans()])
        for epoch, router in self._epochs.of_plans():
            if router.addresses:  # it sends on over other trees, and keeps what the neighbour had asked for
                yield Tell(LinkDown(), neighbour.link, epoch)

    # -- states ----------------------------------------------------------------------------------------------

    def _handle(self, neighbour: Neighbour, given: LinkInput) -> Actions:
        """Do what the table says; ProtocolError where it does."""
        outcome = TABLE[neighbour.state][given]
        if isinstance(outcome, Refused):
            raise ProtocolError(f"{neighbour.link} breaks the protocol of links: {outcome.because}")
        if isinstance(outcome, Ignored):
            return
        for said in outcome.says:
            neighbour.say(said)
        before = neighbour.state
        if outcome.to is LinkState.ATTACHED:
            if neighbour.routing is Routing.REMEMBERED:
                yield from self._withdraw(neighbour)
            yield from self._join(neighbour)
        else:
            self.version += 1
            neighbour.state = outcome.to
            if before is LinkState.ATTACHED:
                lost = outcome.to is LinkState.AWAY
                yield from self._remember(neighbour) if lost else self._withdraw(neighbour)

    def _join(self, neighbour: Neighbour) -> Actions:
        """Routers of the overlay use a link from now on."""
        yield Withdrawing(neighbour.link)
        self.version += 1
        neighbour.state, neighbour.routing = LinkState.ATTACHED, Routing.LIVE
        yield Attached(neighbour.link, True)
        for epoch, _ in self._epochs.of_overlay():
            yield Tell(neighbour.link_up, neighbour.link, epoch)

    def _withdraw(self, neighbour: Neighbour) -> Actions:
        """Routers of the overlay forget a neighbour, which may be away already."""
        was_live = neighbour.routing is Routing.LIVE
        neighbour.routing = Routing.NOTHING
        if was_live:
            yield Attached(neighbour.link, False)
        self._drop_waiting(neighbour, [epoch for epoch, _ in self._epochs.of_overlay()])
        yield Withdrawing(neighbour.link)
        for epoch, _ in self._epochs.of_overlay():
            neighbour.probes.pop(epoch, None)
            yield Tell(LinkDown(), neighbour.link, epoch)

    def _remember(self, neighbour: Neighbour) -> Actions:
        """The link to a neighbour is gone, and what it asked for stays."""
        neighbour.routing = Routing.REMEMBERED
        yield Attached(neighbour.link, False)
        yield Lost(neighbour.link)  # first: an echo in its place proves nothing
        yield from self._give_up_echoes(neighbour, [epoch for epoch, _ in self._epochs.of_overlay()])

    def _forget(self, neighbour: Neighbour) -> Actions:
        """Forget all that a neighbour that is away had asked for."""
        if neighbour.routing is Routing.REMEMBERED:
            yield from self._withdraw(neighbour)
        for epoch, _ in self._epochs.of_plans():
            yield Tell(LinkDown(), neighbour.link, epoch)

    def _is_planned_with(self, neighbour: Neighbour) -> bool:
        """Return whether routers of plans have the link of a neighbour."""
        return any(
            neighbour.link in part.links_up()
            for _, router in self._epochs.of_plans()
            for part in router.trees.values()
        )

    # -- the overlay -----------------------------------------------------------------------------------------

    def received(self, link: Link, body: bytes | memoryview, now_s: float) -> Actions:
        """Handle an OVERLAY frame; ProtocolError if it is none, or if the neighbour may not say that."""
        said = decode_overlaid(body)
        neighbour = self.records.get(link)
        if neighbour is None:
            self.counters["stale_frames"] += 1  # it is no neighbour any longer
        elif isinstance(said, States):
            yield from self._learn(neighbour, said.states, now_s)
        else:
            yield from self._handle(neighbour, _SAID[type(said)])
            if isinstance(said, Detached):
                self._wait_to_join(now_s)

    def _learn(self, source: Neighbour, states: Iterable[BrokerLinks], now_s: float) -> Actions:
        news: list[BrokerLinks] = []
        echoes: list[BrokerLinks] = []  # of what is said about us: the source must hear better
        for state in states:
            told = self.overlay.learn(state)
            if told is not None:
                (news if told is state else echoes).append(told)
        for neighbour in self.records.values():
            if neighbour is not source:
                neighbour.tell([*news, *echoes])
        source.tell(echoes)
        if news or echoes:
            yield from self._follow(now_s)

    def _state(self, now_s: float) -> Actions:
        """Say which links we have."""
        mine = self.overlay.state(
            {link: (one.config.priority, one.is_connected) for link, one in self.records.items()}
        )
        for neighbour in self.records.values():
            neighbour.tell([mine])
        yield from self._follow(now_s)

    def _follow(self, now_s: float) -> Actions:
        """Leave what is not on the tree any longer; join the rest when the overlay is quiet."""
        if self.overlay.is_redundant:
            self._epochs.remember_events()
        for neighbour in list(self.records.values()):
            if self._is_on_tree(neighbour):
                continue
            if neighbour.state is LinkState.ATTACHED:
                yield Say(logging.INFO, "link off the tree", {"link": neighbour.link})
            yield from self._handle(neighbour, LinkInput.UNWANTED)
            if neighbour.routing is Routing.REMEMBERED and self.overlay.reaches(neighbour.link):
                yield Say(logging.INFO, "link bypassed", {"link": neighbour.link})
                yield from self._withdraw(neighbour)
        yield self._expected()
        self._news_s = now_s
        self._wait_to_join(now_s)

    def _wait_to_join(self, now_s: float) -> None:
        """Wait for the overlay to be quiet, if there is anything to join then."""
        self._is_deadline_known = False
        if self._joining_since_s is None and any(
            one.state in _NOT_YET_OURS and self._is_on_tree(one) for one in self.records.values()
        ):
            self._joining_since_s = now_s

    def _expected(self) -> Expect:
        """Return which neighbours' interest must be known: all, but who is given up or reached on another way."""
        there = [one for one in self.records.values() if one.state is not LinkState.GIVEN_UP]
        routed = [
            one.link
            for one in there
            if one.routing is not Routing.NOTHING
            or self._is_on_tree(one)
            or not self.overlay.reaches(one.link)
        ]
        return Expect(tuple(one.link for one in there), tuple(routed), self.overlay.is_redundant)

    # -- what routers say to each other ----------------------------------------------------------------------

    def routed(self, link: Link, body: bytes | memoryview) -> Actions:
        """Handle what a neighbour's router says to ours, now or later; ProtocolError if it cannot be read."""
        epoch = routed_epoch(body)
        place = link, epoch
        if self.is_used(link, epoch) and (place in self._waiting or self._epochs.is_busy(epoch, link)):
            self._waiting.setdefault(place, deque()).append(bytes(body))
            self._waiting_bytes[link] += len(body)
        else:
            yield from self._hear(link, body)

    def _hear(self, link: Link, body: bytes | memoryview) -> Actions:
        message, epoch = decode_routed(body)
        self.counters[_IN[type(message)]] += 1
        if not self.is_used(link, epoch):
            self.counters["stale_frames"] += 1  # said before it knew that the link, or the epoch, is not used
            return
        if isinstance(message, Echo):
            number = self.records[link].probes.get(epoch, {}).pop(message, None)
            if number is not None and not self._epochs.is_planned(epoch):
                yield Answered(link, number)
        yield Tell(message, link, epoch)
        if isinstance(message, Sync) and message.more:
            return  # it is heard with its last piece
        if epoch in self._epochs.routers and self._epochs.is_busy(epoch, link):
            self._hearing[link, epoch] = message
        else:
            yield Heard(message, link, epoch)

    # -- work in slices --------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether `work` has something to do."""
        for router in self._epochs.routers.values():  # no generator: this is asked several times a turn
            if router.busy:
                return True
        return bool(self._waiting) and any(epoch not in self._epochs.adopting for _, epoch in self._waiting)

    def is_full(self, link: Link, *, is_held: bool) -> bool:
        """Return whether so much of a neighbour waits for its router that it is not to be read, or not yet again."""
        return self._waiting_bytes[link] > (MOST_WAITING_BYTES // 2 if is_held else MOST_WAITING_BYTES)

    def next_work(self) -> Place:
        """Return the link, and the epoch of the router, for which work is to be done next; there must be some."""
        self._turns += 1
        places = [(link, epoch) for epoch, router in self._epochs.routers.items() for link in router.busy[:1]]
        if not places:
            places = [place for place in self._waiting if place[1] not in self._epochs.adopting]
        return places[self._turns % len(places)]

    def work(self, link: Link, epoch: int) -> Actions:
        """Do one slice of work; to be called until `has_work` is False, with other input in between.

        ProtocolError if the neighbour may not have said what it said.
        """
        place, router = (link, epoch), self._epochs.routers.get(epoch)
        if router is None:
            self._drop_place(place)  # the epoch is retired
            return
        if router.is_busy(link):
            yield Proceed(link, epoch)
        if not router.is_busy(link) and place in self._hearing:
            yield Heard(self._hearing.pop(place), link, epoch)
        before = ACCOUNT.units
        for _ in range(AT_A_TIME):
            if place not in self._waiting or self._epochs.is_busy(epoch, link):
                return
            if ACCOUNT.units - before >= AT_A_TIME_UNITS:
                return
            body = self._waiting[place].popleft()
            self._waiting_bytes[link] -= len(body)
            if not self._waiting[place]:
                del self._waiting[place]
            yield from self._hear(link, body)

    def _drop_waiting(self, neighbour: Neighbour, epochs: Iterable[int]) -> None:
        """Forget what a neighbour's router has said in some epochs and ours have not handled."""
        for epoch in epochs:
            self._drop_place((neighbour.link, epoch))
            self._hearing.pop((neighbour.link, epoch), None)

    def _drop_place(self, place: Place) -> None:
        for body in self._waiting.pop(place, ()):
            self._waiting_bytes[place[0]] -= len(body)

    def send(self, link: Link, message: Message, epoch: int) -> Actions:
        """Send what a router says to a neighbour's, if it is there; events are forwarded instead."""
        is_used = self.is_used(link, epoch)
        if isinstance(message, Probe):
            echo = Echo(message.id, message.tree)
            if is_used:
                neighbour = self.records[link]
                neighbour.probes.setdefault(epoch, {})[echo] = neighbour.advertised
            else:
                self._echoes.append((link, epoch, echo))
        elif isinstance(message, (Advertise, Unadvertise)) and not self._epochs.is_planned(epoch):
            yield self._advertised(link, message, is_used)
        if is_used:
            ACCOUNT.spend(SAID)
            self.counters[_OUT[type(message)]] += 1
            barrier = isinstance(message, _BEHIND_EVENTS)
            self.records[link].outlet.send(Kind.ROUTE, encode_routed(message, epoch), barrier=barrier)

    def _advertised(
        self, link: Link, message: Advertise | Unadvertise, is_used: bool
    ) -> Advertised | Unadvertised:
        if isinstance(message, Unadvertise):
            return Unadvertised(link, message.key)
        number = 0
        if is_used:
            neighbour = self.records[link]
            neighbour.advertised = number = neighbour.advertised + 1
        return Advertised(link, message.key, message.filter, number)

    def forward(self, link: Link, publish: Publish, epoch: int, one: bytes, envelope: Envelope) -> None:
        """Send an event on to a neighbour, if it is there; it has come in the frame `one`."""
        if self.is_used(link, epoch):
            neighbour = self.records[link]
            neighbour.sent += 1
            neighbour.outlet.send_events(framed(forwarded(one, envelope, publish, epoch)))

    # -- echoes in place of neighbours that are away ---------------------------------------------------------

    def _give_up_echoes(self, neighbour: Neighbour, epochs: Iterable[int]) -> Actions:
        for epoch in epochs:
            self._echoes += [(neighbour.link, epoch, echo) for echo in neighbour.probes.pop(epoch, ())]
        yield from self.echo_for_others()

    def echo_for_others(self) -> Actions:
        """Echo probes in place of neighbours that are away; whenever routers have said something."""
        if self._is_echoing:
            return  # what an echo causes is echoed by whoever is at it
        self._is_echoing = True
        try:
            while self._echoes:
                link, epoch, echo = self._echoes.pop()
                yield Tell(echo, link, epoch)
        finally:
            self._is_echoing = False

    # -- dialling --------------------------------------------------------------------------------------------

    def _is_to_be_dialled(self, neighbour: Neighbour) -> bool:
        return (
            self._dials
            and bool(neighbour.config.host)
            and neighbour.state in _NO_CONNECTION
            and neighbour.dialling.state is DialState.WAITING
        )

    def dialled(self, link: Link, now_s: float) -> None:
        """The owner has opened a connection to a neighbour, which is yet to be greeted."""
        if link in self.records:
            dialling = self.records[link].dialling
            dialling.state, dialling.opened_s = DialState.DIALLED, now_s

    def dial_ended(self, link: Link, now_s: float) -> None:
        """A neighbour was not reached, or the connection that the owner has opened to it is gone."""
        neighbour = self.records.get(link)
        if neighbour is None or neighbour.dialling.state is DialState.WAITING:
            return  # it has another address since
        dialling = neighbour.dialling
        if dialling.state is DialState.DIALLED and now_s - dialling.opened_s > STEADY_S:
            dialling.pause_s = FIRST_PAUSE_S
        dialling.state = DialState.WAITING
        dialling.due_s = now_s + dialling.pause_s * (0.5 + self._random.random())
        dialling.pause_s = min(2 * dialling.pause_s, LONGEST_PAUSE_S)
        self._is_deadline_known = False

    def start_dialling(self) -> None:
        """Dial neighbours from now on: not before others can dial this broker."""
        self._dials = True
        self._is_deadline_known = False

    def stop_dialling(self) -> None:
        """Dial nobody any longer."""
        self._dials = False
        self._is_deadline_known = False
