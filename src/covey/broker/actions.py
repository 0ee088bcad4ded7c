"""Actions: what the parts of a broker ask of the whole, as small values.

A part (logins, neighbours, sessions, plans, durable delivery) knows neither the core that owns it nor its siblings. Its
methods take values and yield actions, and the core performs each of them, with all that follows from it, before the
part goes on. So what a part yields happens in its order, and at once:

    def withdrawn(self, link):                     core.perform(neighbours.withdrawn(link))
        yield Withdrawing(link)                    durable delivery hears of it
        yield Tell(LinkDown(), link)               then routers do, and what they answer is carried out
        ...                                        here both have happened

A method that yields nothing does something only once it is performed: calling it alone has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from covey.broker.durable.log import Batch, Fetch, Find
from covey.broker.security import Permissions
from covey.core.filter import Filter
from covey.errors import AccessError, BusyError
from covey.protocol.control import PlanState, ReplaceRequest, SubscribeRequest, UnsubscribeRequest
from covey.protocol.events import Envelope
from covey.routing.messages import Key, Link, Message, Publish
from covey.routing.outputs import Deliver


class Tell(msgspec.Struct, frozen=True, gc=False):
    """Tell the router of one epoch something, or those of all epochs; what they answer is carried out."""

    message: Message
    source: Link
    epoch: int | None = None


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send a control frame to the client or neighbour at a link, if it is there; `barrier`: behind waiting events."""

    link: Link
    kind: int
    body: bytes
    barrier: bool = False


class SendEvent(msgspec.Struct, frozen=True, gc=False):
    """Send a kept event to the client or neighbour at a link, if it is there.

    It goes in the lane of control: there it is never dropped, and the window of whoever yields this bounds it.
    """

    link: Link
    kind: int
    body: bytes


class Route(msgspec.Struct, frozen=True, gc=False):
    """Route an event that has come from a link as one that nobody keeps."""

    frame: bytes
    envelope: Envelope
    publish: Publish
    source: Link


class HandOver(msgspec.Struct, frozen=True, gc=False):
    """Hand an event, the frame, to live subscriptions of clients here; whoever sent it waits if they take no more."""

    output: Deliver
    frame: bytes
    source: Link


class Refuse(msgspec.Struct, frozen=True, gc=False):
    """Tell a client, if it is there, that its event of that number is not taken; `kind` is that of a Reply."""

    link: Link
    number: int
    reason: str
    kind: str = ""


class Close(msgspec.Struct, frozen=True, gc=False):
    """End the connection of a client or neighbour; `retry` tells the peer whether coming back is of use.

    If it is `revoked`, events that wait for it are not sent: the client may not receive them any longer.
    """

    link: Link
    reason: str
    retry: bool = True
    revoked: bool = False


class Verify(msgspec.Struct, frozen=True, gc=False):
    """Check a password in a thread, and say how that ended (`Logins.verified`)."""

    check: int
    password: str
    expected: Any


class Verifying(msgspec.Struct, frozen=True, gc=False):
    """Somebody's password is checked, or waits to be; what it says meanwhile waits, too."""

    login: int


class Entered(msgspec.Struct, frozen=True, gc=False):
    """Somebody has proved who it is."""

    login: int
    permissions: Permissions


class Denied(msgspec.Struct, frozen=True, gc=False):
    """Somebody has not; a BusyError if it may come back."""

    login: int
    address: str
    error: AccessError | BusyError


class Dial(msgspec.Struct, frozen=True, gc=False):
    """Open a connection to a neighbour, and say how that ended (`Neighbours.dialled`, `dial_ended`)."""

    link: Link


class Release(msgspec.Struct, frozen=True, gc=False):
    """Handle what clients have said while they were held."""


class Adopted(msgspec.Struct, frozen=True, gc=False):
    """Another state of plans is adopted: epochs may be retired, with what clients have asked there."""


class Proceed(msgspec.Struct, frozen=True, gc=False):
    """Let the router of an epoch do a slice of its work for a neighbour's link; what it answers is carried out."""

    link: Link
    epoch: int


class Work(msgspec.Struct, frozen=True, gc=False):
    """There is long work: the part's `work` is to be called, a slice at a time, until it has no more."""


class Replay(msgspec.Struct, frozen=True, gc=False):
    """Handle an event of a neighbour that had to wait, the frame, if the neighbour is still there."""

    link: Link
    frame: bytes


class Commit(msgspec.Struct, frozen=True, gc=False):
    """Give the log a batch; it answers `Committed`. To read from the log there are `Fetch` and `Find`."""

    batch: Batch


class KeepPlans(msgspec.Struct, frozen=True, gc=False):
    """Keep on disk which plans are installed; `Plans.kept` hears of it."""

    state: PlanState


class Say(msgspec.Struct, frozen=True, gc=False):
    """Log an event of the broker's life."""

    level: int
    event: str
    fields: dict[str, object]


# -- what clients mean to durable delivery -----------------------------------------------------------------------


class DurableRequest(msgspec.Struct, frozen=True):
    """A client asks something of a durable subscription; whoever does it answers. The filter, if any, is allowed."""

    link: Link
    request: SubscribeRequest | ReplaceRequest | UnsubscribeRequest
    filter: Filter | None = None
    bytes: int = 0  # that the filter takes


class Departed(msgspec.Struct, frozen=True, gc=False):
    """Routers know nothing any more of a client that has left."""

    link: Link


class ClientAdvertised(msgspec.Struct, frozen=True, gc=False):
    """A client has advertised something, and routers know it."""


# -- what neighbours' links mean to durable delivery and to plans ------------------------------------------------


class Connected(msgspec.Struct, frozen=True, gc=False):
    """There is a connection to a neighbour: plans are told to it before its link is up in any epoch.

    `pieces`: it takes a Sync in pieces.
    """

    link: Link
    pieces: bool


class Disconnected(msgspec.Struct, frozen=True, gc=False):
    """The connection to a neighbour is gone, but not what it asked for."""

    link: Link


class Withdrawing(msgspec.Struct, frozen=True, gc=False):
    """Routers are about to forget what a neighbour wants, or to learn it anew."""

    link: Link


class Attached(msgspec.Struct, frozen=True, gc=False):
    """Routers of the overlay use a neighbour's link from now on, or no longer: before they hear of it."""

    link: Link
    is_attached: bool


class Lost(msgspec.Struct, frozen=True, gc=False):
    """A link that was attached broke, and its neighbour's interest is kept: before anybody echoes in its place."""

    link: Link


class Expect(msgspec.Struct, frozen=True, gc=False):
    """Which neighbours there should be, over which of them events are routed, and whether there are other ways."""

    neighbours: tuple[Link, ...]
    routed: tuple[Link, ...]
    is_redundant: bool


class Advertised(msgspec.Struct, frozen=True, gc=False):
    """Something is advertised to a neighbour, as its `number`th; 0 if the neighbour cannot be reached.

    The overlay's own epochs alone: over links of plans nothing is told of advertisements and their answers.
    """

    link: Link
    key: Key
    filter: Filter
    number: int


class Unadvertised(msgspec.Struct, frozen=True, gc=False):
    """An advertisement is withdrawn from a neighbour."""

    link: Link
    key: Key


class Answered(msgspec.Struct, frozen=True, gc=False):
    """A neighbour itself has echoed a probe that was sent behind its `number`th advertisement."""

    link: Link
    number: int


class Heard(msgspec.Struct, frozen=True, gc=False):
    """The router of an epoch has heard something from a neighbour's, and has answered."""

    message: Message
    link: Link
    epoch: int


Action: TypeAlias = (
    Tell
    | Send
    | SendEvent
    | Route
    | HandOver
    | Refuse
    | Close
    | Verify
    | Verifying
    | Entered
    | Denied
    | Dial
    | Release
    | Adopted
    | Work
    | Proceed
    | Replay
    | Commit
    | Fetch
    | Find
    | KeepPlans
    | Say
    | DurableRequest
    | ClientAdvertised
    | Departed
    | Connected
    | Disconnected
    | Withdrawing
    | Attached
    | Lost
    | Expect
    | Advertised
    | Unadvertised
    | Answered
    | Heard
)
Actions: TypeAlias = Iterator[Action]
