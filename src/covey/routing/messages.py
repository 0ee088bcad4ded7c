"""What brokers and clients tell a router, as small frozen values.

    Advertise · Unadvertise                 a producer's filter appears · goes           (flooded)
    Subscribe · Unsubscribe · Pack          the dialect of most strategies
    Update                                  XROUTE's triples
    Change                                  XROUTE's set-based form
    Publish                                 an event on its way
    Greet · Sync                            a link has come up: what each end remembers, and what has changed since
    Probe · Echo                            "tell me when everything I said before this is in force" · "it is"
    LinkUp · LinkDown · Congestion          from the router's own driver

A message between brokers belongs to one dissemination tree, `tree`. Most strategies know one tree only, number 0: the
overlay itself. Links are FIFO: whatever these messages mean, they mean it in the order in which they were sent.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

import msgspec

from covey.core.filter import Filter
from covey.routing.digest import Digest, Fact

Key: TypeAlias = (
    str  # of a subscription or an advertisement: unique in a network, bound to one filter for ever
)
Link: TypeAlias = str  # a neighbour broker's name, or a client's
Tree: TypeAlias = int

NEVER = float("inf")


class Message(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=str.lower):
    """Base of all messages. On a wire each is an array that begins with its name."""


class Advertise(Message, frozen=True, gc=False):
    """A producer may publish what `filter` matches."""

    key: Key
    filter: Filter
    publisher: str = ""
    tree: Tree = 0


class Unadvertise(Message, frozen=True, gc=False):
    """The advertisement `key` is revoked."""

    key: Key
    tree: Tree = 0


class Subscribe(Message, frozen=True, gc=False):
    """Somebody behind the sender wants what `filter` matches; `home` is the subscriber's broker, where it is needed."""

    key: Key
    filter: Filter
    home: str = ""
    tree: Tree = 0


class Unsubscribe(Message, frozen=True, gc=False):
    """The subscription `key` is withdrawn; `distances` is what incremental aggregation knows of it, by publisher."""

    key: Key
    distances: dict[str, tuple[float, ...]] | None = None
    tree: Tree = 0


class Pack(Message, frozen=True, gc=False):
    """Several Subscribes and Unsubscribes, in order, as one message."""

    messages: tuple[Subscribe | Unsubscribe, ...]
    tree: Tree = 0


class Triple(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """XROUTE's (S; n; r): n more registrations of the filter, r more of others that it stands for."""

    filter: Filter
    own: int
    others: int


class Update(Message, frozen=True, gc=False):
    """Changes of XROUTE's tables, to be carried out together and in order."""

    triples: tuple[Triple, ...]
    tree: Tree = 0


class Change(Message, frozen=True, gc=False):
    """In XROUTE's set-based form: filters that leave the sender's set, then filters that enter it."""

    removed: tuple[Filter, ...] = ()
    added: tuple[Filter, ...] = ()
    tree: Tree = 0


class Publish(Message, frozen=True, gc=False):
    """An event on its way. `id` is unique in a network; the rest is what strategies write on the envelope."""

    event: Any
    id: str
    publisher: str = ""
    distance: float = 0.0  # incremental: hops since another subscription wanted it too
    destinations: tuple[str, ...] | None = None  # match-first, regions: the brokers it is for
    detours: int = 0  # regions: how often it changed trees because a link was down
    flooded: bool = False  # outside its publisher's advertisements: subscriptions did not prepare its way
    tree: Tree = 0


class Greet(Message, frozen=True, gc=False):
    """A link has come up: the dialect spoken here, and digests of what is remembered from the last time."""

    dialect: str
    advertisements: Digest
    subscriptions: Digest
    tree: Tree = 0


class Sync(Message, frozen=True, gc=False):
    """What has changed of `what` since the digest: the facts, in full, of every bucket that differs.

    Much is said in pieces: each is a Piece, but the last; a bucket may be in several of them.
    """

    what: str  # ADVERTISEMENTS or SUBSCRIPTIONS
    buckets: int
    changed: dict[int, tuple[Fact, ...]]
    tree: Tree = 0

    more: ClassVar[bool] = False  # of this Sync, to come


class Piece(Sync, frozen=True, gc=False):
    """A part of a Sync, of which more is to come."""

    more: ClassVar[bool] = True


class Probe(Message, frozen=True, gc=False):
    """To be passed on to everyone, and echoed once everyone behind has echoed."""

    id: str
    tree: Tree = 0


class Echo(Message, frozen=True, gc=False):
    """The answer to a Probe."""

    id: str
    tree: Tree = 0


class LinkUp(Message, frozen=True, gc=False):
    """The link to the source is up; it leads to a client or to a broker, which may take a Sync in pieces."""

    client: bool = False
    pieces: bool = False


class LinkDown(Message, frozen=True, gc=False):
    """The link to the source is down: whatever was under way is lost."""


class Congestion(Message, frozen=True, gc=False):
    """The router's own input queue has grown long, or is short again."""

    on: bool


ADVERTISEMENTS, SUBSCRIPTIONS = "advertisements", "subscriptions"

# What brokers exchange to keep their tables; Publish is data, and the driver's inputs never travel.
CONTROL = (Advertise, Unadvertise, Subscribe, Unsubscribe, Pack, Update, Change)
