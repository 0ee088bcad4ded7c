"""A router's part of one dissemination tree: its neighbours there, what producers advertise, and the strategy.

Most strategies know one tree, the overlay itself. `trees` has several planned ones, each with tables of its own; what
they share are the clients. `regions` tells on the first and only carries events on the others. How a link comes up, at
each end alike:

    LinkUp            say Greet: digests of the advertisements and subscriptions remembered from the neighbour
    Greet received    answer with Sync of the advertisements that differ; from now on new ones are passed on
    Sync received     (advertisements) learn them, flood them; now it is known what the neighbour wants: answer with
                      Sync of the subscriptions that differ; from now on the neighbour is *open*
    Sync received     (subscriptions) learn them

When the link goes down, everything that came over it is withdrawn, and remembered for the next Greet.

A broker may start with a table that was computed elsewhere (`load`). It is in force at once; when a link then comes up
for the first time, the digests are of what was loaded, and what the neighbour says is otherwise is put right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from covey.core.filter import Filter
from covey.errors import ProtocolError
from covey.matching.index import Index
from covey.routing import digest
from covey.routing.advertisements import Advertisements
from covey.routing.digest import Digest, Fact
from covey.routing.messages import (
    ADVERTISEMENTS,
    SUBSCRIPTIONS,
    Advertise,
    Greet,
    Key,
    Link,
    Message,
    Publish,
    Sync,
    Tree,
    Unadvertise,
)
from covey.routing.outputs import Output, Send
from covey.routing.plan import TreePlan
from covey.routing.strategy import Registered
from covey.routing.table import Place


class State(Enum):
    """How far a link to a neighbour has come up."""

    GREETING = 1  # we have said Greet
    GREETED = 2  # we have heard it: advertisements flow to the neighbour
    OPEN = 3  # we have its advertisements: subscriptions flow too


class TreePart:
    """One tree at one broker: the `Site` of its strategy."""

    def __init__(
        self,
        broker: str,
        tree: Tree,
        registered: Registered,
        options: dict[str, Any],
        *,
        advertisements: bool,
        plan: TreePlan,
        local: Index,
        clients: dict[Link, dict[Key, Filter]],
        counters: Counter[str],
    ) -> None:
        self.broker = broker
        self.tree = tree
        self.plan = plan
        self.now_s = 0.0
        self.local = local
        self.clients = clients
        self.counters = counters
        self.congested = False
        self.outputs: list[Output] = []
        self.parts: Mapping[Tree, TreePart] = {tree: self}  # the router's part of each tree
        self.advertised = Advertisements()
        self._with_advertisements = advertisements
        self.dialect = f"{registered.dialect}, {'with' if advertisements else 'without'} advertisements"
        self._states: dict[Link, State] = {}
        self._open: tuple[Link, ...] = ()
        self._their_digests: dict[Link, Digest] = {}
        self._remembered: dict[tuple[Link, str], list[Fact]] = {}
        self._loaded: set[Link] = set()  # what is known from these was not heard from them yet
        self._synchronised: set[Link] = set()  # we have what these wanted us to know when their link came up
        self.strategy = registered.make(self, **options)

    # -- the strategy's site ---------------------------------------------------------------------------------

    def neighbours(self) -> Sequence[Link]:
        """Return the open neighbours, in the order in which they opened."""
        return self._open

    def is_open(self, tree: Tree, link: Link) -> bool:
        """Return whether the neighbour is open on that tree."""
        return link in self.parts[tree].neighbours()

    def wanted(self, link: Link, filter: Filter) -> bool:
        """Return whether a producer behind the neighbour may publish what the filter matches."""
        return not self._with_advertisements or self.advertised.overlap(link, filter)

    def publishers(self, link: Link, filter: Filter) -> Sequence[str]:
        """Return the names of these producers."""
        return self.advertised.publishers(link, filter)

    def send(self, link: Link, message: Message) -> None:
        """Send a message."""
        self.outputs.append(Send(link, message))

    # -- links -----------------------------------------------------------------------------------------------

    def load(self, link: Link, advertisements: Sequence[Fact], subscriptions: Sequence[Fact]) -> None:
        """Take as known what a neighbour lets us know, before any link is up."""
        if self._states:
            raise ProtocolError(f"broker {self.broker}: a table is loaded before links come up, not after")
        for fact in advertisements:
            self.advertised.add(link, fact.key, fact.filter, fact.owner)
        self.strategy.learn(link, subscriptions)
        self._loaded.add(link)

    def _known(self, link: Link, what: str) -> list[Fact]:
        """Return what is known from a neighbour whose link comes up: loaded, or remembered from the last time."""
        if link not in self._loaded:
            return self._remembered.get((link, what), [])
        if what == SUBSCRIPTIONS:
            return self.strategy.heard(link)
        return [Fact(key, ad.filter, ad.publisher) for key, ad in self.advertised.of_link(link).items()]

    def link_up(self, link: Link) -> None:
        """Greet a neighbour."""
        if link in self._states:
            raise ProtocolError(f"broker {self.broker}: the link to {link} is up already")
        self._states[link] = State.GREETING
        advertisements = digest.digest(self._known(link, ADVERTISEMENTS))
        subscriptions = digest.digest(self._known(link, SUBSCRIPTIONS))
        self.send(link, Greet(self.dialect, advertisements, subscriptions, self.tree))

    def link_down(self, link: Link) -> None:
        """Withdraw and remember everything that came from the neighbour."""
        if self._states.pop(link, None) is None:
            return
        self._synchronised.discard(link)
        self._their_digests.pop(link, None)
        was_open = link in self._open
        self._open = tuple(other for other in self._open if other != link)
        facts = [Fact(key, ad.filter, ad.publisher) for key, ad in self.advertised.of_link(link).items()]
        if facts:
            self._remembered[link, ADVERTISEMENTS] = facts
        for fact in facts:
            self._unadvertise(link, fact.key)
        if was_open:
            self._loaded.discard(link)
            heard = self.strategy.close(link)
            if heard:
                self._remembered[link, SUBSCRIPTIONS] = heard

    def greet(self, link: Link, message: Greet) -> None:
        """Answer a neighbour's Greet with the advertisements it does not know."""
        state = self._states.get(link)
        if state is not State.GREETING:
            raise ProtocolError(f"broker {self.broker}: {link} greets out of turn")
        if message.dialect != self.dialect:
            raise ProtocolError(
                f"broker {self.broker} ({self.dialect}) cannot be a neighbour of {link} ({message.dialect:.80}): "
                "their strategies do not understand each other"
            )
        self._states[link] = State.GREETED
        self._their_digests[link] = message.subscriptions
        facts: list[Fact] = []
        if self._with_advertisements:
            facts = [Fact(key, ad.filter, ad.publisher) for key, ad in self.advertised.not_of(link)]
        self._sync(link, ADVERTISEMENTS, facts, message.advertisements)

    def _sync(self, link: Link, what: str, facts: Sequence[Fact], theirs: Digest) -> None:
        buckets, changed = digest.difference(facts, theirs)
        self.counters["synchronised_facts"] += sum(map(len, changed.values()))
        self.send(link, Sync(what, buckets, changed, self.tree))

    def sync(self, link: Link, message: Sync) -> None:
        """Learn what a neighbour knows, from what we remember and what has changed since."""
        expected = State.GREETED if message.what == ADVERTISEMENTS else State.OPEN
        if self._states.get(link) is not expected or message.what not in (ADVERTISEMENTS, SUBSCRIPTIONS):
            raise ProtocolError(f"broker {self.broker}: {link} synchronises out of turn")
        known, was_loaded = self._known(link, message.what), link in self._loaded
        self._remembered.pop((link, message.what), None)
        facts = digest.restore(known, message.buckets, message.changed)
        if message.what == SUBSCRIPTIONS:
            self._loaded.discard(link)
            self._synchronised.add(link)
            if was_loaded:
                self.strategy.relearn(link, facts)
            else:
                self.strategy.learn(link, facts)
            return
        if was_loaded:
            true = {fact.key: fact for fact in facts}
            for fact in known:
                now = true.get(fact.key)
                if now is None:
                    self._unadvertise(link, fact.key)
                elif now.owner != fact.owner:
                    self.advertised.remove(link, fact.key)
                    self.advertised.add(link, now.key, now.filter, now.owner)
        for fact in facts:
            if self.advertised.add(link, fact.key, fact.filter, fact.owner):
                self._flood(link, Advertise(fact.key, fact.filter, fact.owner, self.tree))
        self._states[link] = State.OPEN
        self._open = (*self._open, link)
        self._sync(link, SUBSCRIPTIONS, self.strategy.open(link), self._their_digests.pop(link))

    # -- advertisements --------------------------------------------------------------------------------------

    def advertise(self, link: Link, message: Advertise) -> None:
        """Note an advertisement, pass it on, and let subscriptions follow it."""
        if self.advertised.add(link, message.key, message.filter, message.publisher):
            self._flood(link, message)
            if self._with_advertisements and link in self._open:
                self.strategy.advertised(link, message.filter)

    def unadvertise(self, link: Link, key: Key) -> None:
        """Forget an advertisement, and let subscriptions follow."""
        filter = self._unadvertise(link, key)
        if filter is not None and self._with_advertisements and link in self._open:
            self.strategy.unadvertised(link, filter)

    def _unadvertise(self, link: Link, key: Key) -> Filter | None:
        filter = self.advertised.remove(link, key)
        if filter is not None:
            # Links that fail and come back may form a cycle for a moment: then it may be known from elsewhere too.
            self._flood(link, Unadvertise(key, self.tree), self.advertised.links_of(key))
        return filter

    def _flood(self, source: Link, message: Message, known_from: Sequence[Link] = ()) -> None:
        """Tell all neighbours but the source, except those who still are to know it from another link than theirs."""
        if self._with_advertisements:
            for link, state in self._states.items():
                if link == source or state is State.GREETING:
                    continue
                if not known_from or all(other == link for other in known_from):
                    self.send(link, message)

    # -- events ----------------------------------------------------------------------------------------------

    def forward(self, publish: Publish, source: Link, local: Sequence[Place]) -> None:
        """Send an event on."""
        if publish.flooded:
            for link in self._open:
                if link != source:
                    self.send(link, publish)
            return
        for link, message in self.strategy.forward(publish, source, local):
            self.send(link, message)

    def is_advertised(self, link: Link, event: object) -> bool:
        """Return whether the client at the link has announced that it may publish this."""
        return not self._with_advertisements or self.advertised.match(link, event)

    def has_synchronised(self, link: Link) -> bool:
        """Return whether the neighbour is up and has let us know what it wants."""
        return link in self._synchronised

    @property
    def with_advertisements(self) -> bool:
        """Whether producers announce what they may publish; without it everything counts as announced."""
        return self._with_advertisements

    def links_up(self) -> list[Link]:
        """Return the neighbours to which a link is up, open or not yet."""
        return list(self._states)
