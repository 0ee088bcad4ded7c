"""Links to neighbours: which are there, and which of them the router uses.

A link that is there (two brokers have greeted each other) is used once both its ends find it on the overlay's tree, and
have told each other so; see `protocol.control` for the three words. Until then, and after, its
routers are silent on it.

A link that breaks is not taken from the router at once. What the neighbour asked for stays in the tables, so that
nothing is forgotten because somebody is away for a moment; events for it are lost, or kept by those who keep them. The
router hears of the break only when

    traffic moves      the overlay has another way to the neighbour: tables are repaired along it
    it is back         then it is down and up in one moment, and both ends compare what they know
    it is given up     after `forget_after_s`, or when it is no neighbour any longer

What leaves the tree leaves the router before anything new joins it; and what joins waits until the overlay has been
quiet for a moment, since those who know only half of the news may see a cycle as a tree.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from covey.broker.config import LinkConfig
from covey.broker.exchange import Exchange
from covey.broker.logs import say
from covey.broker.overlay import Overlay, pair
from covey.broker.peers import Neighbour
from covey.protocol.control import (
    Attach,
    Detach,
    Detached,
    LinkState,
    Overlaid,
    States,
    decode_overlaid,
    encode_overlaid,
)
from covey.protocol.frames import Kind

log = logging.getLogger("covey.broker")

QUIET_S: Final = 0.05  # without news, before a link joins the tree
LONGEST_S: Final = 1.0  # that a link waits for the overlay to be quiet
CHUNK: Final = 256  # states in one frame

Later = Callable[[float, Callable[[], None]], object]  # after so many seconds, make the call


@dataclass
class Link:
    """One configured neighbour."""

    config: LinkConfig
    neighbour: Neighbour | None = None  # while the link is there
    wanted: bool = False  # we have said Attach
    theirs: bool = False  # the neighbour has
    unanswered: int = 0  # Detaches of ours
    attached: bool = False  # both have: routers talk over it
    is_routed: bool = False  # the router has it up, from before a break if it is not attached
    lost_s: float = 0.0  # when it broke, or was first looked for
    given_up: bool = False  # it is away for too long


class Links:
    """The neighbours of one broker; `later` is the clock's."""

    def __init__(
        self,
        exchange: Exchange,
        overlay: Overlay,
        links: Iterable[LinkConfig],
        later: Later,
        forget_after_s: float = 86_400.0,
    ) -> None:
        self.exchange = exchange
        self.overlay = overlay
        self.forget_after_s = forget_after_s
        self.links: dict[str, Link] = {}
        self._later = later
        self._news_s = self._waiting_since_s = 0.0
        self._waits = False
        for config in links:
            self.links[config.name] = Link(config, lost_s=exchange.now_s)
        self._state()

    # -- links come and go -----------------------------------------------------------------------------------

    def connected(self, neighbour: Neighbour) -> None:
        """A neighbour and we have greeted each other."""
        link = self.links[neighbour.link]
        assert link.neighbour is None, "the old connection ends before a new one begins"
        link.neighbour = neighbour
        link.wanted = link.theirs = False
        link.unanswered = 0
        link.given_up = False
        self.exchange.links.connected(neighbour)
        self._tell(link, self.overlay.states)
        self._state()

    def disconnected(self, name: str) -> None:
        """The connection to a neighbour is gone."""
        link = self.links[name]
        link.neighbour = None
        link.lost_s = self.exchange.now_s
        link.wanted = link.theirs = False
        if link.attached:
            link.attached = False
            self.exchange.links.away(name)
        self.exchange.links.disconnected(name)
        self._state()

    def configure(self, configs: Iterable[LinkConfig]) -> list[LinkConfig]:
        """Take another list of neighbours; return those that are none any longer, whose connections are to end."""
        new = {config.name: config for config in configs}
        gone = [link for name, link in self.links.items() if name not in new]
        for link in gone:
            if link.is_routed:
                self._route_down(link)
            self.exchange.links.given_up(link.config.name)
            del self.links[link.config.name]
        for name, config in new.items():
            if name in self.links:
                self.links[name].config = config
            else:
                self.links[name] = Link(config, lost_s=self.exchange.now_s)
        self._state()
        return [link.config for link in gone]

    def tick(self) -> None:
        """Give up who is away for too long."""
        for name, link in self.links.items():
            away_s = self.exchange.now_s - link.lost_s
            if link.given_up or link.neighbour is not None or away_s <= self.forget_after_s:
                continue
            link.given_up = True
            if link.is_routed:
                say(log, logging.WARNING, "link given up", broker=self.overlay.me, link=name, away_s=away_s)
                self._route_down(link)
                self.exchange.links.given_up(name)
            self._expect()

    def is_open(self, name: str) -> bool:
        """Return whether routers have compared what they know over this link, or need not."""
        link = self.links[name]
        if link.neighbour is None:
            return False
        if pair(self.overlay.me, name) not in self.overlay.tree:
            return self.overlay.reaches(name)
        return link.attached and self.exchange.links.is_open(name)

    # -- what neighbours say of the overlay ------------------------------------------------------------------

    def received(self, name: str, body: bytes | memoryview) -> None:
        """Handle an OVERLAY frame; ProtocolError if it is none."""
        link = self.links[name]
        said: Overlaid = decode_overlaid(body)
        match said:
            case States():
                self._learn(link, said.states)
            case Attach():
                if not link.unanswered and not link.theirs:
                    link.theirs = True
                    self._join(link)
            case Detach():
                link.theirs = False
                if link.neighbour is not None:
                    self._say(link, Detached())
                    if link.attached:
                        self._route_down(link)
                    if link.wanted:
                        self._say(link, Attach())
            case Detached():
                link.unanswered = max(0, link.unanswered - 1)

    def _learn(self, source: Link, states: Iterable[LinkState]) -> None:
        news: list[LinkState] = []
        echoes: list[LinkState] = []  # of what is said about us: the source must hear better
        for state in states:
            told = self.overlay.learn(state)
            if told is not None:
                (news if told is state else echoes).append(told)
        for link in self.links.values():
            if link is not source:
                self._tell(link, [*news, *echoes])
        self._tell(source, echoes)
        if news or echoes:
            self._follow()

    def _state(self) -> None:
        """Say which links we have."""
        mine = self.overlay.state(
            {name: (link.config.priority, link.neighbour is not None) for name, link in self.links.items()}
        )
        for link in self.links.values():
            self._tell(link, [mine])
        self._follow()

    def _tell(self, link: Link, states: Iterable[LinkState]) -> None:
        if link.neighbour is None:
            return
        some = tuple(states)
        for at in range(0, len(some), CHUNK):
            link.neighbour.outlet.send(Kind.OVERLAY, encode_overlaid(States(some[at : at + CHUNK])))

    def _say(self, link: Link, said: Overlaid) -> None:
        assert link.neighbour is not None
        # Behind the events too: they belong to what was said before.
        link.neighbour.outlet.send(Kind.OVERLAY, encode_overlaid(said), barrier=True)

    # -- the tree --------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Leave what is not on the tree any longer; join the rest when the overlay is quiet."""
        me, tree = self.overlay.me, self.overlay.tree
        if self.overlay.is_redundant:
            self.exchange.epochs.remember_events()
        for name, link in self.links.items():
            if link.wanted and pair(me, name) not in tree:
                link.wanted = link.theirs = False
                if link.neighbour is not None:
                    link.unanswered += 1
                    self._say(link, Detach())
                    if link.attached:
                        say(log, logging.INFO, "link off the tree", broker=me, link=name)
                        self._route_down(link)
            if self._is_bypassed(name, link):
                say(log, logging.INFO, "link bypassed", broker=me, link=name)
                self._route_down(link)
        self._expect()
        self._news_s = self.exchange.now_s
        if not self._waits and self._to_join():
            self._waits = True
            self._waiting_since_s = self._news_s
            self._later(QUIET_S, self._quiet)

    def _expect(self) -> None:
        """Say which neighbours' interest must be known: all, but who is given up or reached on another way."""
        me, tree, reaches = self.overlay.me, self.overlay.tree, self.overlay.reaches
        there = {name: link for name, link in self.links.items() if not link.given_up}
        routed = [
            name
            for name, link in there.items()
            if link.is_routed or pair(me, name) in tree or not reaches(name)
        ]
        self.exchange.perform(self.exchange.durable.expect(there, routed, self.overlay.is_redundant))

    def _is_bypassed(self, name: str, link: Link) -> bool:
        """Return whether there is another way to a neighbour that was lost."""
        lost = link.is_routed and not link.attached
        return lost and pair(self.overlay.me, name) not in self.overlay.tree and self.overlay.reaches(name)

    def _to_join(self) -> list[Link]:
        me, tree = self.overlay.me, self.overlay.tree
        return [
            link
            for name, link in self.links.items()
            if link.neighbour is not None and not link.wanted and pair(me, name) in tree
        ]

    def _quiet(self) -> None:
        self._waits = False
        now_s = self.exchange.now_s
        rest_s = QUIET_S - (now_s - self._news_s)
        if rest_s > 0.001 and now_s - self._waiting_since_s < LONGEST_S:
            self._waits = True
            self._later(rest_s, self._quiet)
            return
        for link in self._to_join():
            link.wanted = True
            self._say(link, Attach())
            self._join(link)

    def _join(self, link: Link) -> None:
        if not (link.wanted and link.theirs) or link.neighbour is None:
            return
        if link.is_routed:  # from before the break
            self._route_down(link)
        link.is_routed = link.attached = True
        self.exchange.links.up(link.neighbour)

    def _route_down(self, link: Link) -> None:
        link.is_routed = link.attached = False
        self.exchange.links.down(link.config.name)
