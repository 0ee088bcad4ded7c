"""A router's part of one dissemination tree: its neighbours there, what producers advertise, and the strategy.

Most strategies know one tree, the overlay itself. `trees` has several planned ones, each with tables of its own; what
they share are the clients. `regions` tells on the first and only carries events on the others. How a link comes up, at
each end alike:

    LinkUp            say Greet: digests of the advertisements and subscriptions remembered from the neighbour
    Greet received    answer with Sync of the advertisements that differ; from now on new ones are passed on
    Sync received     (advertisements) learn them, flood them; now it is known what the neighbour wants: answer with
                      Sync of the subscriptions that differ; from now on the neighbour is *open*
    Sync received     (subscriptions) learn them

Advertisements may be reduced on their way (`advertisements`): each neighbour has a teller, which says what it is told.

When the link goes down, everything that came over it is withdrawn, and remembered for the next Greet.

All of this may take long, so it is done by jobs (`jobs`). While the strategy works out what a neighbour must know, its
messages to that neighbour go nowhere, since the Sync to come has it all. From then on, and until the whole Sync is
sent, what is said to the neighbour waits, except events. A large Sync goes in pieces, if the neighbour takes them.

A broker may start with a table that was computed elsewhere (`load`). It is in force at once; when a link then comes up
for the first time, the digests are of what was loaded, and what the neighbour says is otherwise is put right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from covey.core.filter import Filter
from covey.errors import ConfigError, ProtocolError
from covey.matching.index import Index
from covey.routing import digest
from covey.routing.advertisements import Advertisement, Advertisements, Announcement, Teller, reduction
from covey.routing.digest import Digest, Fact
from covey.routing.jobs import Jobs
from covey.routing.messages import (
    ADVERTISEMENTS,
    SUBSCRIPTIONS,
    Advertise,
    Greet,
    Key,
    Link,
    Message,
    Piece,
    Publish,
    Sync,
    Tree,
    Unadvertise,
)
from covey.routing.outputs import Output, Send
from covey.routing.plan import TreePlan
from covey.routing.strategy import Registered
from covey.routing.table import Place
from covey.routing.work import BATCH, WHOLE, Job, Work, batches, gathered

SYNC_UNITS: Final = 5  # of work, to say one fact
ADVERTISE_UNITS: Final = 20  # to see whether a neighbour is to be told an advertisement
LEARN_UNITS: Final = 40  # to learn one, and to forget it


class State(Enum):
    """How far a link to a neighbour has come up."""

    GREETING = 1  # we have said Greet
    GREETED = 2  # we have heard it: advertisements flow to the neighbour
    OPEN = 3  # we have its advertisements: subscriptions flow too


@dataclass(slots=True)
class _Learning:
    """What is known of a neighbour whose Sync is coming, piece by piece."""

    known: list[Fact]  # remembered, or in force already
    is_in_force: bool
    buckets: int
    changed: set[int] = field(default_factory=set)
    # Only where something is in force:
    in_force: set[Fact] = field(default_factory=set)  # what is known, to look a fact up
    true: set[Fact] = field(default_factory=set)  # of what has come


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
        reduce_advertisements: str,
        plan: TreePlan,
        local: Index,
        clients: dict[Link, dict[Key, Filter]],
        counters: Counter[str],
        jobs: Jobs,
    ) -> None:
        self.broker = broker
        self.tree = tree
        self.plan = plan
        self.now_s = 0.0
        self.local = local
        self.clients = clients
        self.counters = counters
        self.jobs = jobs
        self.congested = False
        self.outputs: list[Output] = []
        self.parts: Mapping[Tree, TreePart] = {tree: self}  # the router's part of each tree
        self.advertised = Advertisements()
        self._with_advertisements = advertisements
        self._new_teller = reduction(reduce_advertisements)
        self._by_publisher = registered.names_publishers
        self._tellers: dict[Link, Teller] = {}  # of the neighbours that advertisements flow to
        self._greeted: set[Link] = set()  # to these the tellers' messages go nowhere
        self.dialect = f"{registered.dialect}, {'with' if advertisements else 'without'} advertisements"
        self._states: dict[Link, State] = {}
        self._open: tuple[Link, ...] = ()
        self._in_pieces: set[Link] = set()  # the neighbours that take a Sync in pieces
        self._opening: set[Link] = set()  # to these the strategy's messages go nowhere
        self._held: dict[
            Link, list[Message]
        ] = {}  # what is said to a neighbour after the Sync that is being sent
        self._their_digests: dict[Link, Digest] = {}
        self._remembered: dict[tuple[Link, str], list[Fact]] = {}
        # Of these what is known is in force, though their link has not come up, or not come up again.
        self._in_force: set[tuple[Link, str]] = set()
        self._learning: dict[Link, _Learning] = {}
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
        """Send a message of the strategy."""
        if link not in self._opening:
            self.say(link, message)

    def say(self, link: Link, message: Message) -> None:
        """Send a message, behind the Sync that is being sent if there is one."""
        held = self._held.get(link)
        if held is None:
            self.outputs.append(Send(link, message))
        else:
            held.append(message)

    # -- links -----------------------------------------------------------------------------------------------

    def load(self, link: Link, advertisements: Sequence[Fact], subscriptions: Sequence[Fact]) -> None:
        """Take as known what a neighbour lets us know, before any link is up."""
        if self._states:
            raise ProtocolError(f"broker {self.broker}: a table is loaded before links come up, not after")
        if subscriptions and not self.strategy.takes_tables:
            raise ConfigError(f"broker {self.broker}: {self.strategy.name} cannot start with a table")
        for fact in advertisements:
            self.advertised.add(link, fact.key, fact.filter, fact.owner)
        self.strategy.learn(link, subscriptions)
        self._in_force |= {(link, ADVERTISEMENTS), (link, SUBSCRIPTIONS)}

    def _known(self, link: Link, what: str) -> Work[list[Fact]]:
        """Return what is known from a neighbour whose link comes up: in force, or remembered from the last time."""
        if (link, what) not in self._in_force:
            return self._remembered.get((link, what), [])
        if what == SUBSCRIPTIONS:
            return (yield from gathered(self.strategy.iter_heard(link)))
        return (yield from gathered(_facts_of(list(self.advertised.of_link(link).items()))))

    def link_up(self, link: Link, *, in_pieces: bool = False) -> None:
        """Greet a neighbour."""
        if link in self._states:
            raise ProtocolError(f"broker {self.broker}: the link to {link} is up already")
        self._states[link] = State.GREETING
        if in_pieces:
            self._in_pieces.add(link)
        self.jobs.add(link, self._greet(link))

    def _greet(self, link: Link) -> Job:
        advertisements = yield from digest.digest((yield from self._known(link, ADVERTISEMENTS)))
        subscriptions = yield from digest.digest((yield from self._known(link, SUBSCRIPTIONS)))
        self.say(link, Greet(self.dialect, advertisements, subscriptions, self.tree))

    def link_down(self, link: Link) -> None:
        """Withdraw and remember everything that came from the neighbour."""
        if self._states.pop(link, None) is None:
            return
        self._in_pieces.discard(link)
        self._tellers.pop(link, None)
        self._greeted.discard(link)
        self._opening.discard(link)
        self._held.pop(link, None)
        self._synchronised.discard(link)
        self._their_digests.pop(link, None)
        self._learning.pop(link, None)
        self._in_force.discard((link, ADVERTISEMENTS))
        was_open = link in self._open
        self._open = tuple(other for other in self._open if other != link)
        closing: Job = iter(())
        if was_open:
            closing = self.strategy.close(link)
            self._in_force.discard((link, SUBSCRIPTIONS))
            if self.strategy.remembers:
                self._in_force.add((link, SUBSCRIPTIONS))
        self.jobs.add(
            link, self._withdraw(link, was_open and not self.strategy.remembers, closing), lasting=True
        )

    def _withdraw(self, link: Link, was_open: bool, closing: Job) -> Job:
        gone: list[Fact] = []
        for facts in batches(_facts_of(list(self.advertised.of_link(link).items())), BATCH):
            for fact in facts:
                self._unadvertise(link, fact.key)
            gone += facts
            yield LEARN_UNITS * len(facts)
        if gone:
            self._remembered[link, ADVERTISEMENTS] = gone
        if was_open:
            heard = yield from gathered(self.strategy.iter_heard(link))
            yield from self._unlearn(link, heard)
            if heard:
                self._remembered[link, SUBSCRIPTIONS] = heard
        yield from closing

    def _unlearn(self, link: Link, facts: Sequence[Fact]) -> Job:
        for some in batches(facts, self.jobs.batch):
            self.strategy.unlearn(link, some)
            yield LEARN_UNITS * len(some)

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
        self._held[link] = []
        self._greeted.add(link)
        self._tellers[link] = self._new_teller(self.advertised, link, self._by_publisher)
        self.jobs.add(link, self._let_know(link, message.advertisements))

    def _let_know(self, link: Link, theirs: Digest) -> Job:
        """Work out which advertisements the neighbour is to know, and say in what its digest differs from them."""
        teller = self._tellers[link]
        places = self.advertised.not_of(link) if self._with_advertisements else []
        for some in batches(places, self.jobs.batch):
            for source, key in some:
                known = self.advertised.get(source, key)
                if known is not None:
                    teller.came(key, known)
            yield ADVERTISE_UNITS * len(some)
        self._greeted.remove(link)
        yield from self._sync(link, ADVERTISEMENTS, teller.facts(), theirs)

    def _sync(self, link: Link, what: str, facts: Iterator[Fact], theirs: Digest) -> Job:
        """Say in what these facts differ from the neighbour's digest, then what has waited for that."""
        true = yield from gathered(facts)
        buckets, changed = yield from digest.difference(true, theirs)
        size = self.jobs.piece if link in self._in_pieces else WHOLE
        left = sum(map(len, changed.values()))
        for piece in digest.pieces(changed, size):
            count = sum(map(len, piece.values()))
            left -= count
            self.counters["synchronised_facts"] += count
            self.outputs.append(Send(link, (Piece if left else Sync)(what, buckets, piece, self.tree)))
            yield SYNC_UNITS * count
        for message in self._held.pop(link):
            self.say(link, message)

    def sync(self, link: Link, message: Sync) -> None:
        """Learn what a neighbour knows, from what we remember and what has changed since."""
        expected = State.GREETED if message.what == ADVERTISEMENTS else State.OPEN
        if self._states.get(link) is not expected or message.what not in (ADVERTISEMENTS, SUBSCRIPTIONS):
            raise ProtocolError(f"broker {self.broker}: {link} synchronises out of turn")
        digest.check(message.buckets, message.changed)
        self.jobs.add(link, self._synchronise(link, message))

    def _synchronise(self, link: Link, message: Sync) -> Job:
        yield from self._learn(link, message)
        if message.more:
            return
        self._in_force.discard((link, message.what))
        self._remembered.pop((link, message.what), None)
        del self._learning[link]
        if message.what == SUBSCRIPTIONS:
            self._synchronised.add(link)
            return
        self._states[link] = State.OPEN
        self._open = (*self._open, link)
        self._opening.add(link)
        self._held[link] = []
        yield from self.strategy.opening(link)
        self._opening.remove(link)
        told = self.strategy.iter_told(link)
        yield from self._sync(link, SUBSCRIPTIONS, told, self._their_digests.pop(link))

    def _learn(self, link: Link, message: Sync) -> Job:
        """Learn a piece of a Sync; with the last one, what has not changed, and what is true no longer."""
        what, learning = message.what, self._learning.get(link)
        if learning is None:
            known = yield from self._known(link, what)
            learning = self._learning[link] = _Learning(
                known, (link, what) in self._in_force, message.buckets
            )
            if learning.is_in_force:
                for some in batches(known, self.jobs.batch):
                    learning.in_force.update(some)
                    yield len(some)
        if message.buckets != learning.buckets:
            raise ProtocolError(f"broker {self.broker}: {link} changes the number of buckets")
        learning.changed.update(message.changed)
        facts = [fact for bucket in sorted(message.changed) for fact in message.changed[bucket]]
        if not message.more:
            same = yield from digest.unchanged(learning.known, learning.buckets, learning.changed)
            facts = [*same, *facts]
        if learning.is_in_force:
            new: list[Fact] = []
            for some in batches(facts, self.jobs.batch):
                learning.true.update(some)
                new += (fact for fact in some if fact not in learning.in_force)
                yield len(some)
            facts = new
        for some in batches(facts, self.jobs.batch):
            if what == SUBSCRIPTIONS:
                self.strategy.learn(link, some)
            else:
                self._learn_advertisements(link, some)
            yield LEARN_UNITS * len(some)
        if learning.is_in_force and not message.more:
            gone: list[Fact] = []
            for some in batches(learning.known, self.jobs.batch):
                gone += (fact for fact in some if fact not in learning.true)
                yield len(some)
            gone.sort(key=_by_key)
            if what == SUBSCRIPTIONS:
                yield from self._unlearn(link, gone)
            else:
                yield from self._forget_advertisements(link, gone, {fact.key for fact in learning.true})

    def _learn_advertisements(self, link: Link, facts: Iterable[Fact]) -> None:
        for fact in facts:
            if self.advertised.add(link, fact.key, fact.filter, fact.owner):
                self._tell_advertised(link, fact.key, Advertisement(fact.filter, fact.owner))
            elif (
                self.advertised.of_link(link)[fact.key].publisher != fact.owner
            ):  # it was loaded with another one
                self.advertised.remove(link, fact.key)
                self.advertised.add(link, fact.key, fact.filter, fact.owner)

    def _forget_advertisements(self, link: Link, facts: Iterable[Fact], still: Container[Key]) -> Job:
        for some in batches(facts, self.jobs.batch):
            for fact in some:
                if fact.key not in still:
                    self._unadvertise(link, fact.key)
            yield LEARN_UNITS * len(some)

    # -- advertisements --------------------------------------------------------------------------------------

    def advertise(self, link: Link, message: Advertise) -> None:
        """Note an advertisement, let the other neighbours know, and let subscriptions follow it."""
        if self.advertised.add(link, message.key, message.filter, message.publisher):
            self._tell_advertised(link, message.key, Advertisement(message.filter, message.publisher))
            if self._with_advertisements and link in self._open:
                self.jobs.add(link, self.strategy.advertised(link, message.filter))

    def unadvertise(self, link: Link, key: Key) -> None:
        """Forget an advertisement, and let subscriptions follow."""
        filter = self._unadvertise(link, key)
        if filter is not None and self._with_advertisements and link in self._open:
            self.jobs.add(link, self.strategy.unadvertised(link, filter))

    def _unadvertise(self, link: Link, key: Key) -> Filter | None:
        gone = self.advertised.remove(link, key)
        if gone is None:
            return None
        if self._with_advertisements:
            for other in self._telling_to(link):
                self._let_know_of(other, self._tellers[other].left(key, gone))
        return gone.filter

    def _tell_advertised(self, source: Link, key: Key, advertisement: Advertisement) -> None:
        if self._with_advertisements:
            for link in self._telling_to(source):
                self._let_know_of(link, self._tellers[link].came(key, advertisement))

    def _telling_to(self, source: Link) -> list[Link]:
        """Return the neighbours that are to know of advertisements from a link, in the order in which they came up."""
        return [link for link in self._states if link != source and link in self._tellers]

    def _let_know_of(self, link: Link, told: Announcement) -> None:
        """Tell a neighbour what is new, then what is withdrawn: in between nothing is missing there."""
        if link not in self._greeted:
            for fact in told.entered:
                self.say(link, Advertise(fact.key, fact.filter, fact.owner, self.tree))
            for key in told.left:
                self.say(link, Unadvertise(key, self.tree))

    # -- events ----------------------------------------------------------------------------------------------

    def forward(self, publish: Publish, source: Link, local: Sequence[Place]) -> None:
        """Send an event on."""
        if publish.flooded:
            for link in self._open:
                if link != source:
                    self.outputs.append(Send(link, publish))
            return
        for link, message in self.strategy.forward(publish, source, local):
            self.outputs.append(Send(link, message))

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


def _facts_of(advertisements: Sequence[tuple[Key, Advertisement]]) -> Iterator[Fact]:
    return (Fact(key, ad.filter, ad.publisher) for key, ad in advertisements)


def _by_key(fact: Fact) -> Key:
    return fact.key
