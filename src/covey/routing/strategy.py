"""The contract of a routing strategy, and the registry of strategies by name.

A strategy decides one thing: what each neighbour is told of the interest behind this broker. It keeps the routing
table, answers where an event goes next, and sees the rest of the router only through its `Site`. Its duties:

1. After every call, and after every job, the neighbours that are open have been told, over FIFO links, all that they
   need to know: for each entry of another link that is wanted there, some filter they were told covers it. Nothing is
   lost in between, either: what replaces a filter is sent before the filter is withdrawn, or in one message with it.
   While a job of one neighbour lasts, this holds for the others; other calls come between two values of the job.
2. What a neighbour knows is changed only by telling it: the entries it has from us are what we told it, delayed.
3. The order of what it sends follows from the order of calls, never from the order of a set.
4. When everyone has unsubscribed, nothing is left.

A steady state is specified in `strategies.reductions`, by one pure function a strategy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from covey.core.filter import Filter
from covey.errors import ConfigError, ProtocolError
from covey.matching.index import Index
from covey.plugins import STRATEGIES, Catalogue
from covey.routing.digest import Fact
from covey.routing.jobs import Jobs
from covey.routing.messages import Key, Link, Message, Publish, Tree
from covey.routing.plan import TreePlan
from covey.routing.table import Place
from covey.routing.work import Job


class Site(Protocol):
    """What a strategy sees of the router around it."""

    broker: str
    tree: Tree
    now_s: float  # the time of the input that is being handled
    plan: TreePlan
    local: Index  # the router's index of what clients asked for, by (link, key)
    clients: dict[Link, dict[Key, Filter]]  # what they asked for on this tree; the router's, to be read only
    counters: Counter[str]
    congested: bool
    jobs: Jobs  # by which a job knows how much to do at a time, and whether tables have changed meanwhile

    def neighbours(self) -> Sequence[Link]:
        """Return the neighbours that are open: they may be told about subscriptions. Others come later, by `open`."""

    def is_open(self, tree: Tree, link: Link) -> bool:
        """Return whether the neighbour is open on that tree."""

    def wanted(self, link: Link, filter: Filter) -> bool:
        """Return whether a producer behind the neighbour may publish what the filter matches."""

    def publishers(self, link: Link, filter: Filter) -> Sequence[str]:
        """Return the names of these producers; without advertisements there are none to name."""

    def send(self, link: Link, message: Message) -> None:
        """Send a message to an open neighbour."""


class Strategy(ABC):
    """One routing algorithm at one broker, on one tree; see the module's text for its duties."""

    name: ClassVar[str]
    dialect: ClassVar[str]  # brokers that speak the same dialect may be neighbours
    perfect: ClassVar[bool] = True  # at rest no event crosses a link behind which nobody wants it
    matched_once: ClassVar[bool] = False  # events are matched where they are published, not on the way
    addresses: ClassVar[bool] = (
        False  # events carry the brokers that they are for, as `routing.carrying` has the ways
    )
    remembers: ClassVar[bool] = False  # what a neighbour let us know is in force while it is away
    names_publishers: ClassVar[bool] = False  # it asks `Site.publishers` who may publish, not only whether
    takes_tables: ClassVar[bool] = True  # it may start with a table that was computed elsewhere
    description: ClassVar[str]  # one line for people
    options: ClassVar[
        tuple[str, ...]
    ] = ()  # the names of its settings, which are keywords of its constructor

    def __init__(self, site: Site) -> None:
        self.site = site

    # -- interest --------------------------------------------------------------------------------------------

    @abstractmethod
    def subscribe(self, link: Link, key: Key, filter: Filter) -> None:
        """A client at `link` subscribes; the key is new, and `site.local` and `site.clients` have it already."""

    @abstractmethod
    def unsubscribe(self, link: Link, key: Key, filter: Filter) -> None:
        """A client unsubscribes what it had subscribed; `site.local` and `site.clients` have it no more."""

    @abstractmethod
    def receive(self, link: Link, message: Message) -> None:
        """Handle a control message from a neighbour; ProtocolError if it is not of this dialect."""

    # -- advertisements --------------------------------------------------------------------------------------

    @abstractmethod
    def advertised(self, link: Link, filter: Filter) -> Job:
        """Behind the open neighbour `link` there is a new advertisement; `site.wanted` knows it already."""

    @abstractmethod
    def unadvertised(self, link: Link, filter: Filter) -> Job:
        """An advertisement behind the open neighbour `link` is gone; `site.wanted` knows it no more."""

    # -- links -----------------------------------------------------------------------------------------------

    @abstractmethod
    def opening(self, link: Link) -> Job:
        """From now on the neighbour is told everything: `iter_told` has all that it must know when the job ends.

        Until then the neighbour is open to the strategy, from before the job's first value, and what is sent to it goes
        nowhere.
        """

    @abstractmethod
    def learn(self, link: Link, facts: Sequence[Fact]) -> None:
        """The neighbour lets us know these facts beside those that it let us know before: some of its `iter_told`."""

    @abstractmethod
    def unlearn(self, link: Link, facts: Sequence[Fact]) -> None:
        """Facts that the neighbour let us know are true no longer, or the neighbour is gone: withdraw them."""

    @abstractmethod
    def close(self, link: Link) -> Job:
        """The neighbour is gone: forget what it was told. What it let us know is unlearnt next.

        What is returned is the rest of that, which changes nothing that anybody sees: to let go of much takes long.

        A strategy that `remembers` keeps what it knows until the neighbour is back and says what is true then.
        `site.neighbours` has it no more.
        """

    # -- events ----------------------------------------------------------------------------------------------

    @abstractmethod
    def next_hops(self, event: object) -> Iterable[Link]:
        """Return the neighbours behind which, as far as is known here, the event is wanted."""

    def next_hop_index(self) -> Index | None:
        """Return the index whose links are the `next_hops` of any event; None if those are all neighbours.

        A strategy that is plain (`is_plain`) has one; no other is asked. Of one that addresses events (`addresses`) the
        links are the brokers that want the event.
        """
        raise NotImplementedError(f"{self.name} answers for one event at a time")

    @property
    def is_plain(self) -> bool:
        """Whether compiled code may ask where events go: they go on as they came, and nothing is learnt from them."""
        kind = type(self)
        return (
            kind.forward is Strategy.forward
            and kind.address is Strategy.address
            and kind.next_hop_index is not Strategy.next_hop_index
        )

    def address(self, publish: Publish, local: Sequence[Place]) -> Publish:
        """Return the envelope of an event that a client here has published; `forward` on the tree it names is next."""
        return publish

    def forward(
        self, publish: Publish, source: Link, local: Sequence[Place]
    ) -> Iterable[tuple[Link, Publish]]:
        """Return the neighbours an event from `source` goes to, with the envelope for each, in a fixed order.

        `local` has the places of the clients' subscriptions that match it. `source` may be a client.
        """
        return [(link, publish) for link in self.ordered(self.next_hops(publish.event), source)]

    def knows_ways(self, publish: Publish) -> bool:
        """Return whether a link is known to each other broker that is written on an event, if any is."""
        return True

    def distance_here(self, publish: Publish, source: Link, local: Sequence[Place]) -> float | None:
        """Return how far back towards its publisher others want the event too; None if the strategy does not tell."""
        return None

    def congestion(self, on: bool) -> None:  # noqa: B027 (most strategies do not care)
        """The broker's input queue has grown long, or is short again."""

    # -- what is known, for checks and reports ---------------------------------------------------------------

    @abstractmethod
    def iter_heard(self, link: Link) -> Iterator[Fact]:
        """Return what the neighbour let us know, as it is now, whatever happens while one looks at it."""

    @abstractmethod
    def iter_told(self, link: Link) -> Iterator[Fact]:
        """Return what we let the neighbour know, likewise, in the order in which to learn it."""

    def heard(self, link: Link) -> list[Fact]:
        """Return what the neighbour let us know."""
        return list(self.iter_heard(link))

    def told(self, link: Link) -> list[Fact]:
        """Return what we let the neighbour know."""
        return list(self.iter_told(link))

    def remote_entries(self) -> list[tuple[Link, Filter]]:
        """Return the remote part of the routing table as pairs of link and filter."""
        links = self.site.neighbours()
        return [(link, fact.filter) for link in links for fact in self.heard(link)]

    def remote_size(self) -> int:
        """Return how many entries that are; a strategy that can count them without listing them does."""
        return len(self.remote_entries())

    def ordered(self, links: Iterable[Link], source: Link) -> list[Link]:
        """Return those of the links that are open neighbours, except the source, in the router's order."""
        among = set(links)
        return [link for link in self.site.neighbours() if link in among and link != source]


class Registered(NamedTuple):
    """A strategy by name: how to make it, and what must be known before it is made."""

    name: str
    make: Callable[..., Strategy]
    dialect: str
    perfect: bool
    description: str
    options: tuple[str, ...] = ()
    trees: bool = False  # runs over planned dissemination trees, so the overlay may have cycles
    names_publishers: bool = False  # as of the class
    one_copy: bool = False  # an event travels on one of them, and the plan says how it is chosen

    def check(self, options: Iterable[str]) -> None:
        """Raise ConfigError for the first of these names that is none of its settings."""
        for name in options:
            if name not in self.options:
                known = f"one of {', '.join(self.options)}" if self.options else "it has none"
                raise ConfigError(f"the strategy {self.name} has no setting {name!r:.40} (hint: {known})")


_REGISTERED: dict[str, Registered] = {}
_ALIASES: dict[str, str] = {}


def register(strategy: type[Strategy], *aliases: str) -> None:
    """Make a strategy of ours known by its name, and by other names that people use for it."""
    add(_registered_as(strategy), *aliases)


def _registered_as(strategy: type[Strategy]) -> Registered:
    return Registered(
        strategy.name,
        strategy,
        strategy.dialect,
        strategy.perfect,
        strategy.description,
        strategy.options,
        names_publishers=strategy.names_publishers,
    )


def add(registered: Registered, *aliases: str) -> None:
    """Make a strategy known that is not a class of its own."""
    assert registered.name not in _REGISTERED, registered.name
    _REGISTERED[registered.name] = registered
    _ALIASES.update(dict.fromkeys(aliases, registered.name))


def _take(name: str, loaded: object) -> Registered:
    """Return what a plug-in brings, as a strategy of that name; ConfigError if it is none."""
    if isinstance(loaded, type) and issubclass(loaded, Strategy):
        missing = sorted(getattr(loaded, "__abstractmethods__", ()))
        missing += [one for one in ("name", "dialect", "description") if not hasattr(loaded, one)]
        if missing:
            raise ConfigError(f"{loaded.__name__} does not have {', '.join(missing)}")
        loaded = _registered_as(loaded)
    if not isinstance(loaded, Registered):
        raise ConfigError(f"{loaded!r:.80} is no class of strategies")
    if loaded.name != name:
        raise ConfigError(f"it calls itself {loaded.name!r:.60}")
    return loaded


_KNOWN: Final = Catalogue("strategy", STRATEGIES, _REGISTERED, _take, _ALIASES)


def registered(name: str) -> Registered:
    """Return the strategy of that name; ConfigError, with the names there are, for another one."""
    found = _KNOWN.get(_ALIASES.get(name, name))
    if found is None:
        raise ConfigError(f"there is no strategy {name!r:.40} (hint: one of {', '.join(_KNOWN)})")
    return found


def names() -> list[str]:
    """Return the names of all strategies: ours in the order in which they were registered, then those of plug-ins."""
    return list(_KNOWN)


def unexpected(message: Any, strategy: Strategy) -> ProtocolError:
    """Return the error for a message that a strategy's dialect does not have."""
    kind = type(message).__name__
    return ProtocolError(f"broker {strategy.site.broker}, which routes by {strategy.name}, was sent {kind}")
