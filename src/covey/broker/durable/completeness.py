"""Completeness: whether this broker's table knows all interest that a confirmed event must not miss.

A table is incomplete at moments: after a start, until every neighbour has told its subscriptions; when a link comes up
again and what came over it is withdrawn and learned anew; when an advertisement is new and the subscriptions that it
attracts are on their way. An ordinary event may miss somebody then. A confirmed one may not: while its broker's table
is not complete, it is flooded, which is always right.

What is known of one neighbour's interest, its own and that of all behind it, is a state:

    UNKNOWN        its link is new, or was never there: it has not told its subscriptions
    SYNCHRONISED   it has told its own; of those behind it some may be missing
    WHOLE          it has said, in order with all it says, that its own table is whole, leaving us aside
    STALE          it was WHOLE, and its link is lost; something was advertised of which we do not know what it wants

    link up: any → UNKNOWN      synchronised: UNKNOWN → SYNCHRONISED      said: SYNCHRONISED ⇄ WHOLE
    link lost with an advertisement that is not answered, or something advertised while the link is lost: → STALE

An advertisement that was sent to a neighbour is *answered* when the neighbour itself has echoed a probe that was sent
after it. Links are in order, so by then all subscriptions that the advertisement attracts have come, also those from
behind the neighbour. An echo in place of a neighbour that is away answers nothing. Two rules:

    an event that matches an advertisement which a neighbour has yet to answer is flooded;
    a neighbour that is lost before it has answered is STALE, and all events are flooded until its link is back.

A link that is lost keeps its neighbour's interest. If every advertisement is answered, the neighbour stays WHOLE, and
confirmed events go by the table as before.

    settled     no expected neighbour is UNKNOWN, and a probe sent after the last one synchronised has come back: what
                they advertise is known everywhere, and what that attracts is here
    complete    settled, and every expected neighbour is WHOLE

A broker tells N that it is whole when it is settled and all its other neighbours are WHOLE: leaves begin, and on a tree
everybody gets there. It takes that back *before* it withdraws anything, and before it echoes in place of a neighbour,
so that whoever loses interest by that, or relies on the echo, has heard of it first.

What is to be said goes out as values: methods yield `Whole` and `Ask`, and go on once that is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from covey.core.filter import Filter
from covey.routing.messages import Key, Link, Tree

MANY: Final = 64  # advertisements that are not answered, beyond which no event is compared with them
PATIENCE: Final = 3  # ticks after which a broker asks about advertisements that came from its neighbours


class Whole(NamedTuple):
    """Tell a neighbour whether we are whole."""

    link: Link
    is_whole: bool


class Ask(NamedTuple):
    """Start a probe of that name."""

    probe: str


Said = Iterator[Whole | Ask]


class Interest(Enum):
    """What is known of a neighbour's interest; see the module's text."""

    UNKNOWN = 1
    SYNCHRONISED = 2
    WHOLE = 3
    STALE = 4


@dataclass
class _Neighbour:
    """What is known of one neighbour since its link came up."""

    interest: Interest = Interest.UNKNOWN
    trees: set[Tree] = field(default_factory=set)  # on which it has told its subscriptions
    is_told: bool = False  # that we are whole
    # Advertisements that were sent to it and that it has yet to answer, with their numbers, in order.
    unanswered: dict[Key, tuple[int, Filter]] = field(default_factory=dict)


class Completeness:
    """What is known of the neighbours' knowledge; see the module's text. `prefix` begins the names of its probes."""

    def __init__(self, expected: Iterable[Link], prefix: str) -> None:
        self.expected = set(expected)
        self._prefix = prefix
        self._neighbours: dict[Link, _Neighbour] = {}
        self._settling = ""  # the probe that must come back
        self._probes = 0
        self._is_asked = True  # whether we have probed since something was advertised to a neighbour
        self._has_news = False  # whether a client here has advertised something since
        self._waited = 0  # ticks for which advertisements have not been answered

    @property
    def is_settled(self) -> bool:
        """Whether all have synchronised, and everybody knows of that."""
        return not self._settling and all(map(self.has_synchronised, self.expected))

    @property
    def is_complete(self) -> bool:
        """Whether the table knows all interest that it must."""
        return self.is_settled and not self._lacking()

    def interest(self, link: Link) -> Interest:
        """Return what is known of a neighbour's interest."""
        known = self._neighbours.get(link)
        return Interest.UNKNOWN if known is None else known.interest

    def has_synchronised(self, link: Link) -> bool:
        """Return whether a neighbour has told its subscriptions since its link came up."""
        return self.interest(link) is not Interest.UNKNOWN

    def _lacking(self) -> set[Link]:
        return {link for link in self.expected if self.interest(link) is not Interest.WHOLE}

    def _of(self, link: Link) -> _Neighbour:
        return self._neighbours.setdefault(link, _Neighbour())

    def _update(self) -> Said:
        is_settled, lacking = self.is_settled, self._lacking()
        for link in sorted(self.expected):
            whole, known = is_settled and lacking <= {link}, self._of(link)
            if whole != known.is_told:
                known.is_told = whole
                yield Whole(link, whole)

    # -- neighbours come and go ------------------------------------------------------------------------------

    def expect(self, links: Iterable[Link]) -> Said:
        """Say which neighbours there are from now on: before the router hears of it, where some are new."""
        self.expected = set(links)
        self._neighbours = {link: one for link, one in self._neighbours.items() if link in self.expected}
        yield from self._update()

    def link_up(self, link: Link) -> Said:
        """A link is about to come up, again or for the first time: before the router hears of it."""
        self._neighbours[link] = _Neighbour()
        yield from self._update()

    def link_lost(self, link: Link) -> Said:
        """A link is lost, and its neighbour's interest is kept: before anybody echoes in the neighbour's place."""
        known = self._of(link)
        if known.unanswered:
            known.unanswered.clear()
            yield from self._stale(known)

    def _stale(self, known: _Neighbour) -> Said:
        # If it is not WHOLE, it never was, and cannot be before the link comes up again.
        if known.interest is Interest.WHOLE:
            known.interest = Interest.STALE
            yield from self._update()

    # -- what neighbours say ---------------------------------------------------------------------------------

    def synchronised(self, link: Link, tree: Tree, trees: set[Tree]) -> Said:
        """The neighbour has told its subscriptions on one tree, of those on which the link is."""
        known = self._of(link)
        known.trees.add(tree)
        if trees <= known.trees and known.interest is Interest.UNKNOWN:
            known.interest = Interest.SYNCHRONISED
            yield from self._settle()

    def said(self, link: Link, whole: bool) -> Said:
        """The neighbour says whether it is whole; it has synchronised before."""
        known = self._of(link)
        if known.interest in (Interest.SYNCHRONISED, Interest.WHOLE):
            known.interest = Interest.WHOLE if whole else Interest.SYNCHRONISED
            yield from self._update()

    # -- what is advertised ----------------------------------------------------------------------------------

    def advertised(self, link: Link, key: Key, filter: Filter, number: int) -> Said:
        """Something is advertised to a neighbour, as its `number`th; 0 if its link is not there."""
        known = self._of(link)
        if not number:
            yield from self._stale(known)
            return
        known.unanswered.pop(key, None)
        known.unanswered[key] = (number, filter)
        self._is_asked = False

    def unadvertised(self, link: Link, key: Key) -> None:
        """An advertisement is withdrawn from a neighbour: no event is published under it any longer."""
        self._of(link).unanswered.pop(key, None)

    def answered(self, link: Link, number: int) -> None:
        """The neighbour itself has echoed a probe that was sent behind its `number`th advertisement."""
        unanswered = self._of(link).unanswered
        for key in [key for key, (sent, _) in unanswered.items() if sent <= number]:
            del unanswered[key]

    def is_answered(self, event: object) -> bool:
        """Return whether every neighbour that is there has answered all advertisements that the event matches."""
        return not any(
            len(known.unanswered) > MANY
            or any(filter.matches(event) for _, filter in known.unanswered.values())
            for known in self._neighbours.values()
        )

    def client_advertised(self) -> None:
        """A client here has advertised something: it is asked about at the next tick, if nobody does before."""
        self._has_news = True

    # -- this broker's own probes ----------------------------------------------------------------------------

    def doubt(self) -> Said:
        """Something else has changed, and what was asked before proves nothing any longer: ask again."""
        yield from self._settle()

    def _settle(self) -> Said:
        self._settling = self._next()
        yield from self._update()
        yield Ask(self._settling)

    def _next(self) -> str:
        self._is_asked, self._has_news, self._waited = True, False, 0
        self._probes += 1
        return f"{self._prefix}{self._probes:x}"

    def echoed(self, probe: str) -> Said:
        """A probe of this broker has come back."""
        if probe == self._settling:
            self._settling = ""
            yield from self._update()

    def have_answered(self) -> Said:
        """Find out what neighbours want of all that is advertised, unless that is under way."""
        if not self._is_asked:
            yield Ask(self._next())

    def tick(self) -> Said:
        """Have advertisements answered about which nobody else has asked, so that nobody is STALE without need."""
        waits = any(known.unanswered for known in self._neighbours.values())
        self._waited = self._waited + 1 if waits else 0
        if waits and (self._has_news or self._waited > PATIENCE):
            yield Ask(self._next())
