"""What goes into a broker's core and what comes out of it: small frozen values, one union type each.

The shell turns sockets, timers, threads and signals into inputs, gives them to `BrokerCore.step` one by one, and
carries out the effects of each step, in their order, before the next step. A connection is a number that the shell has
given it and never uses again.

The shell's duties:

    1. What one connection says reaches the core in its order. A later effect on a connection never overtakes an
       earlier one.
    2. A connection that has Knocked or was Opened is Closed once, whoever ended it, and nothing is said of it after
       that.
    3. While `deadline` is not None, the core gets a Tick at that time, or as soon after it as can be.
    4. A Commit is answered by Committed once it would survive a loss of power, a KeepPlans likewise by PlansKept, a
       Fetch by Read, a Find by Found, a Verify by Verified, a Dial by Opened or DialFailed, a WriteSamples by
       SamplesWritten; each exactly once.
    5. `recovered` (where there is a log) and `start` come before the first connection is let in: by them the core
       knows what it has kept, and for which neighbours it has to keep what is published.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeAlias

import msgspec

from covey.broker.admission import Shown
from covey.broker.config import BrokerConfig, LinkConfig
from covey.broker.durable.log import Answer, Batch, Fetch, Find
from covey.broker.plans import GRACE_S, PATIENCE_S
from covey.broker.security import Permissions, Security
from covey.errors import AccessError, BusyError
from covey.protocol.control import PlanState


class Instant(msgspec.Struct, frozen=True, gc=False):
    """Two clocks, read at one time: `monotonic_s` measures, `wall_s` is for people, samples and what is stored."""

    monotonic_s: float
    wall_s: float


# -- inputs ------------------------------------------------------------------------------------------------------


class Knocked(msgspec.Struct, frozen=True, gc=False):
    """A stream is accepted, at either door, and nothing is known of it but where it comes from.

    It is Opened later, once TLS is agreed on, if it speaks our protocol; if it speaks HTTP, it never is.
    """

    connection: int
    host: str


class Opened(msgspec.Struct, frozen=True, gc=False):
    """A stream is there: accepted, or dialled for a neighbour."""

    connection: int
    peer: str  # its address, for people
    host: str  # of that, without the port
    certificate: frozenset[str] | None = None  # the names in what it has shown; None without TLS
    dialled: str = ""  # the neighbour for which it was dialled
    can_half_close: bool = True  # whether its sending side can be shut by itself


class Showed(msgspec.Struct, frozen=True, gc=False):
    """A request over HTTP shows who it is; answered by Admitted, unless its stream is Closed before."""

    connection: int
    host: str
    shown: Shown


class Operated(msgspec.Struct, frozen=True, gc=False):
    """A request over HTTP may use the admin pages; answered by Admitted."""

    connection: int


class TurnedAway(msgspec.Struct, frozen=True, gc=False):
    """A request over HTTP was refused, for a reason by which that is counted."""

    reason: str


class Attached(msgspec.Struct, frozen=True, gc=False):
    """A client in this process, already authenticated (events over HTTP); it is greeted and talks as others do."""

    connection: int
    peer: str
    permissions: Permissions


class Received(msgspec.Struct, frozen=True, gc=False):
    """Bytes have come."""

    connection: int
    data: bytes


class Arrived(msgspec.Struct, frozen=True, gc=False):
    """Bytes have come in one turn of the event loop, from each of these connections once: Received of each, then Tick.

    Events for which the kernel needs nobody are handled at once, and do not wait in queues before (`core`).
    """

    reads: dict[int, bytes]  # by connection


class HeardEof(msgspec.Struct, frozen=True, gc=False):
    """The peer has ended its side; it may still read."""

    connection: int


class Paused(msgspec.Struct, frozen=True, gc=False):
    """The stream holds enough: no Write until it is Writable."""

    connection: int


class Writable(msgspec.Struct, frozen=True, gc=False):
    """The stream takes more."""

    connection: int


class Closed(msgspec.Struct, frozen=True, gc=False):
    """The stream is gone."""

    connection: int
    reason: str = ""  # empty, if it ended in order


class DialFailed(msgspec.Struct, frozen=True, gc=False):
    """A neighbour cannot be reached."""

    neighbour: str
    reason: str


class Tick(msgspec.Struct, frozen=True, gc=False):
    """The deadline has come."""


class Verified(msgspec.Struct, frozen=True, gc=False):
    """Whether a password is right."""

    check: int
    is_right: bool


class Answered(msgspec.Struct, frozen=True, gc=False):
    """The log has answered."""

    answers: tuple[Answer, ...]


class Configured(msgspec.Struct, frozen=True, gc=False):
    """The broker is to take what it can of another configuration; answered by Refused for each that it cannot."""

    config: BrokerConfig
    security: Security


class Install(msgspec.Struct, frozen=True, gc=False):
    """Install a plan, its file, in the whole network; b"" is none. PlanError is raised if it cannot be."""

    plan: bytes
    patience_s: float = PATIENCE_S  # within which all brokers must be ready for it
    grace_s: float = GRACE_S  # for which the plan before is kept


class RollBack(msgspec.Struct, frozen=True, gc=False):
    """Take back the plan that was installed here last. PlanError is raised if it cannot be."""


class EndClient(msgspec.Struct, frozen=True, gc=False):
    """End the connection of the client at a link. LinkError is raised if there is none."""

    link: str


class Drain(msgspec.Struct, frozen=True, gc=False):
    """End without losing what waits, within a time; `spread_s` is over how long clients are sent away."""

    within_s: float
    spread_s: float = 0.0


class Abort(msgspec.Struct, frozen=True, gc=False):
    """End every connection at once."""


class SamplesWritten(msgspec.Struct, frozen=True, gc=False):
    """Samples are on disk, or why they are not."""

    error: str = ""


class PlansKept(msgspec.Struct, frozen=True, gc=False):
    """Which plans are installed is on disk, or why it is not."""

    error: str = ""


Input: TypeAlias = (
    Knocked
    | Opened
    | Showed
    | Operated
    | TurnedAway
    | Attached
    | Received
    | Arrived
    | HeardEof
    | Paused
    | Writable
    | Closed
    | DialFailed
    | Tick
    | Verified
    | Answered
    | Configured
    | Install
    | RollBack
    | EndClient
    | Drain
    | Abort
    | SamplesWritten
    | PlansKept
)


# -- effects -----------------------------------------------------------------------------------------------------


class Write(msgspec.Struct, frozen=True, gc=False):
    """Send bytes, all of them."""

    connection: int
    buffers: list[bytes]


class Hold(msgspec.Struct, frozen=True, gc=False):
    """Read nothing more from a connection for now."""

    connection: int


class Resume(msgspec.Struct, frozen=True, gc=False):
    """Read again."""

    connection: int


class Ending(Enum):
    """How a stream ends."""

    SHUT = "nothing more is written; what comes is read until the peer ends its side"
    CLOSE = "what was written is sent, then the stream is closed"
    ABORT = "at once"


class End(msgspec.Struct, frozen=True, gc=False):
    """End a stream."""

    connection: int
    how: Ending


class Dial(msgspec.Struct, frozen=True, gc=False):
    """Dial a neighbour."""

    link: LinkConfig


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """A request over HTTP may do what these permissions allow, or has to go, and why."""

    connection: int
    permissions: Permissions
    error: AccessError | BusyError | None = None


class Verify(msgspec.Struct, frozen=True, gc=False):
    """Check a password against a hash, which takes a while by design."""

    check: int
    password: str
    expected: Any


class Commit(msgspec.Struct, frozen=True, gc=False):
    """Carry out a batch of operations on the log, as one transaction where that succeeds."""

    batch: Batch


class KeepPlans(msgspec.Struct, frozen=True, gc=False):
    """Keep on disk which plans are installed; there is one at a time."""

    state: PlanState


class WriteSamples(msgspec.Struct, frozen=True, gc=False):
    """Write samples; the work is a call that may run in a thread."""

    work: Any


class StopListening(msgspec.Struct, frozen=True, gc=False):
    """Accept nobody any longer."""


class Stop(msgspec.Struct, frozen=True, gc=False):
    """All that had to be done before the end is done."""


class Log(msgspec.Struct, frozen=True, gc=False):
    """Log an event of the broker's life."""

    level: int
    event: str
    fields: dict[str, object]


Effect: TypeAlias = (
    Write
    | Hold
    | Resume
    | End
    | Dial
    | Admitted
    | Verify
    | Commit
    | Fetch
    | Find
    | KeepPlans
    | WriteSamples
    | StopListening
    | Stop
    | Log
)
