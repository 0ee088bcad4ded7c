"""What a broker says of itself on `/watchz`, as a checked value. Fields that are not shown are passed over."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from covey.errors import CoveyError

MAX_LINE: Final = 1 << 20  # bytes
MAX_LINKS: Final = 2_000
MAX_NAME: Final = 200  # characters of a broker's name


class LinkCounts(msgspec.Struct, frozen=True, gc=False):
    """A neighbour as a broker sees it; counts only grow, while the broker lives."""

    link: str
    up: bool
    open: bool
    received: int = 0
    sent: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0
    dropped: int = 0
    queue_events: int = 0
    queue_bytes: int = 0


class Inbox(msgspec.Struct, frozen=True, gc=False):
    """Frames that wait to be handled."""

    frames: int = 0
    congested: bool = False


class Slow(msgspec.Struct, frozen=True, gc=False):
    """A peer that reads too slowly."""

    link: str
    name: str = ""
    queue_events: int = 0
    queue_bytes: int = 0
    dropped: int = 0


class PlanState(msgspec.Struct, frozen=True, gc=False):
    """Which plan is in use, and how far an installation is."""

    version: int = 0
    epoch: int = 0
    planned: bool = False
    step: str = ""
    reason: str = ""


class Snapshot(msgspec.Struct, frozen=True):
    """One line of `/watchz`."""

    broker: str
    version: str
    strategy: str
    uptime_s: float
    ready: bool
    clients: int
    subscriptions: int
    entries: int
    totals: dict[str, int]
    links: list[LinkCounts]
    gap_s: float = 0.0  # to the next line, if the broker has so many clients that lines are far apart
    cpu_s: float = 0.0
    peak_memory_bytes: int = 0
    inbox: Inbox = Inbox()
    slow: list[Slow] = []
    control_in: int = 0
    control_out: int = 0
    client_queue_events: int = 0
    store: dict[str, float] = {}
    plan: PlanState = PlanState()
    latency_bounds_s: list[float] = []
    latencies: dict[str, list[int]] = {}


_DECODER: Final = msgspec.json.Decoder(Snapshot)


def read_snapshot(line: bytes) -> Snapshot:
    """Return what a line of `/watchz` says; CoveyError if it says nothing that can be used."""
    try:
        snapshot = _DECODER.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise CoveyError(f"/watchz cannot be read: {error!s:.200}") from None
    if not 0 < len(snapshot.broker) <= MAX_NAME or len(snapshot.links) > MAX_LINKS:
        raise CoveyError("/watchz names a broker or links as no broker does")
    return snapshot


def trees_of(planz: Any) -> dict[int, list[str]]:
    """Return a broker's neighbours on each tree of the plan in use, from its page /planz; CoveyError if it has none."""
    try:
        (epoch,) = (one for one in planz["epochs"] if one["current"])
        return {int(one["tree"]): [str(link) for link in one["links_up"]] for one in epoch["trees"]}
    except (KeyError, TypeError, ValueError):
        raise CoveyError("/planz does not say which trees are in use") from None
