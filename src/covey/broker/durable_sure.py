"""Sure: whether this broker's table knows all interest that a confirmed event must not miss.

A table is not whole at moments: after a start, until every neighbour has said what is wanted behind it; when a link
comes up again and what came over it is withdrawn and learned anew; when an advertisement is new and the subscriptions
that it attracts are on their way. At such moments an ordinary event may miss somebody. A confirmed one may not: while
its broker is not *sure*, it is flooded, which is always right.

    settled     every expected neighbour has synchronised, and a probe sent after the last one has come back: what
                they advertise is known everywhere, and what that attracts is here
    whole[N]    neighbour N has said, in order with all it says, that its own table is whole, leaving us aside
    sure        settled, and whole[N] for every expected neighbour

A broker tells N that it is whole when it is settled and all its other neighbours are whole: leaves begin, and on a tree
everybody gets there. It takes that back *before* it withdraws anything, so that who loses interest by that has heard of
it first. The link to a neighbour that is away keeps its interest, and with it, what was said, until something new is
advertised: nobody knows what it wants of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from covey.routing.messages import Link, Tree

Tell = Callable[[Link, bool], None]
Ask = Callable[[str], None]


class Sure:
    """What is known of the neighbours' knowledge. `tell` sends a WHOLE frame, `ask` starts a probe by its name."""

    def __init__(self, expected: Iterable[Link], tell: Tell, ask: Ask, prefix: str) -> None:
        self.expected = set(expected)
        self._tell, self._ask, self._prefix = tell, ask, prefix
        self._trees: dict[
            Link, set[Tree]
        ] = {}  # on which a neighbour has synchronised since its link came up
        self._synchronised: set[Link] = set()
        self._whole: set[Link] = set()
        self._told: set[Link] = set()
        self._probe = ""
        self._probes = 0
        self._unproved: dict[str, Link] = {}  # probes that publishers wait for
        self._proved: set[Link] = set()

    @property
    def is_settled(self) -> bool:
        """Whether all have synchronised, and everybody knows of that."""
        return not self._probe and self.expected <= self._synchronised

    @property
    def is_sure(self) -> bool:
        """Whether the table knows all interest that it must."""
        return self.is_settled and self.expected <= self._whole

    def has_synchronised(self, link: Link) -> bool:
        """Whether a neighbour has told its subscriptions since its link came up."""
        return link in self._synchronised

    # -- neighbours ------------------------------------------------------------------------------------------

    def link_up(self, link: Link) -> None:
        """A link is about to come up, again or for the first time: before the router hears of it."""
        self._synchronised.discard(link)
        self._trees.pop(link, None)
        self._whole.discard(link)
        self._told.discard(link)
        self._update()

    def synchronised(self, link: Link, tree: Tree, trees: set[Tree]) -> None:
        """The neighbour has told its subscriptions on one tree, of those on which the link is."""
        have = self._trees.setdefault(link, set())
        have.add(tree)
        if trees <= have and link not in self._synchronised:
            self._synchronised.add(link)
            self._probe = self._next()
            self._ask(self._probe)
            self._update()

    def said(self, link: Link, whole: bool) -> None:
        """The neighbour says whether it is whole."""
        (self._whole.add if whole else self._whole.discard)(link)
        self._update()

    def doubt(self) -> None:
        """Something else has changed: ask again."""
        self._probe = self._next()
        self._proved.clear()
        self._unproved.clear()
        self._ask(self._probe)
        self._update()

    def expect(self, links: Iterable[Link]) -> None:
        """Say which neighbours there are from now on: before the router hears of it, where some are new."""
        self.expected = set(links)
        for known in (self._synchronised, self._whole, self._told):
            known &= self.expected
        self._update()

    def echoed(self, probe: str) -> None:
        """A probe has come back."""
        if probe == self._probe:
            self._probe = ""
            self._update()
        link = self._unproved.pop(probe, None)
        if link is not None and link not in self._unproved.values():
            self._proved.add(link)

    def _update(self) -> None:
        for link in sorted(self.expected):
            whole = self.is_settled and self.expected - self._whole <= {link}
            if whole != (link in self._told):
                (self._told.add if whole else self._told.discard)(link)
                self._tell(link, whole)

    # -- publishers here -------------------------------------------------------------------------------------

    def proved(self, client: Link) -> bool:
        """Return whether what a client advertises is in force everywhere; if that is not known, find out."""
        if client in self._proved:
            return True
        if client not in self._unproved.values():
            probe = self._next()
            self._unproved[probe] = client
            self._ask(probe)
        return client in self._proved  # at once, where there is nobody to ask

    def stale(self, links: Iterable[Link]) -> None:
        """Something new is advertised, and these neighbours are not there to say what they want of it."""
        self._whole.difference_update(links)
        self._update()

    def advertised(self, client: Link) -> None:
        """What a client advertises has changed, or it is gone."""
        self._proved.discard(client)
        for probe in [probe for probe, link in self._unproved.items() if link == client]:
            del self._unproved[probe]

    def _next(self) -> str:
        self._probes += 1
        return f"{self._prefix}{self._probes:x}"
