"""What a broker is told: its name, where it listens, its neighbours, and its bounds.

These are the values; `config_reading` reads them from a TOML file, environment variables and flags. A field that is
made by `setting` is a setting: it can be given in all three ways and is documented in docs/operations.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from covey.broker.durable_limits import QueueLimits
from covey.broker.http.config import AdminConfig
from covey.broker.logs import FORMATS, LEVELS, LOGFMT
from covey.broker.security import SecurityConfig
from covey.broker.settings import choice, flag, free_table, integer, number, setting, share, table, text
from covey.wire.frames import MAX_FRAME
from covey.wire.lanes import DISCONNECT, POLICIES, Bounds

MAX_LINK_FRAME: Final = 64 << 20  # of a neighbour: one frame may say what a whole table differs in
POLICY: Final = "what happens to events beyond the bounds"


@dataclass(frozen=True)
class Queue(Bounds):
    """`Bounds` as settings."""

    events: int = setting(integer(1), "events that may wait for one link", default=100_000)
    bytes: int = setting(integer(1), "bytes of events that may wait for one link", default=64 << 20)
    policy: str = setting(choice(POLICIES), POLICY, default=DISCONNECT)
    control_bytes: int = setting(
        integer(1 << 16),
        "bytes of control frames that may wait; beyond them the link ends",
        default=256 << 20,
    )


@dataclass(frozen=True)
class LinkConfig:
    """A neighbour; with an address this broker dials, without one it waits to be dialled."""

    name: str
    host: str = ""
    port: int = 0
    priority: int = 1  # of several ways, that with lower numbers is used
    policy: str = ""  # instead of link_bounds.policy

    @property
    def address(self) -> str:
        """Host and port as people write them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.host else ""


@dataclass(frozen=True)
class BrokerConfig:
    """All settings of one broker."""

    name: str = setting(text(empty=False, longest=128), "the broker's name, another one for each broker")
    host: str = setting(
        text(empty=False),
        "the address on which it listens, by default one that only this machine reaches",
        default="127.0.0.1",
    )
    port: int = setting(integer(0, 65_535), "the port on which it listens; 0 takes a free one", default=7400)
    links: tuple[LinkConfig, ...] = field(default=(), metadata={"reload": True})
    strategy: str = setting(
        text(empty=False), "how brokers tell each other what is wanted", default="covering"
    )
    advertisements: bool = setting(
        flag(), "whether subscriptions follow advertisements, as all brokers must agree", default=True
    )
    options: Mapping[str, Any] = setting(free_table(), "settings of the strategy", factory=dict)
    lease_s: float = setting(
        number(), "seconds of silence within which a peer is taken for dead", default=10.0
    )
    forget_after_s: float = setting(
        number(),
        "seconds after which the interest of a neighbour that is away is given up",
        default=86_400.0,
        reload=True,
    )
    drain_s: float = setting(
        number(), "seconds that an ending broker gives its queues to empty", default=10.0, reload=True
    )
    lame_duck_s: float = setting(
        number(), "seconds over which a lame duck sends its clients away", default=30.0, reload=True
    )
    log_level: str = setting(choice(LEVELS), "the least that is logged", default="info", reload=True)
    log_format: str = setting(choice(FORMATS), "lines for people or for programs", default=LOGFMT)
    max_frame: int = setting(
        integer(1 << 10, MAX_LINK_FRAME),
        "bytes of the longest frame of a client",
        default=MAX_FRAME,
        reload=True,
    )
    max_connections: int = setting(
        integer(1), "connections of clients and brokers", default=10_000, reload=True
    )
    max_subscriptions: int = setting(integer(0), "subscriptions of one client", default=100_000, reload=True)
    max_advertisements: int = setting(integer(0), "advertisements of one client", default=1_000, reload=True)
    max_brokers: int = setting(integer(2), "brokers in the overlay", default=10_000, reload=True)
    client_bounds: Bounds = setting(  # noqa: RUF009 (it makes a field)
        table(Queue), "what may wait for a client", factory=Queue, reload=True
    )
    link_bounds: Bounds = setting(  # noqa: RUF009 (it makes a field)
        table(Queue),
        "what may wait for a neighbour",
        factory=lambda: Queue(1_000_000, 256 << 20),
        reload=True,
    )
    stalled_s: float = setting(
        number(),
        "seconds after which a link with the policy block that takes nothing ends",
        default=60.0,
        reload=True,
    )
    congested_at: int = setting(
        integer(1),
        "frames that wait to be handled, beyond which the broker is congested",
        default=10_000,
        reload=True,
    )
    calm_at: int = setting(
        integer(0), "frames that wait, below which it is congested no longer", default=1_000, reload=True
    )
    data_dir: str = setting(
        text(), "the directory where what is durable is kept; nothing is without it", default=""
    )
    sample: float = setting(
        share(),
        "the share of events that is sampled, to samples/ in data_dir, as planning reads it",
        default=0.0,
    )
    sample_every_s: float = setting(
        number(), "seconds after which what was sampled is written", default=60.0, reload=True
    )
    max_store_bytes: int = setting(
        integer(1 << 16),
        "bytes that the store may have; beyond them confirmed events are refused",
        default=1 << 30,
    )
    durable: QueueLimits = setting(  # noqa: RUF009 (it makes a field)
        table(QueueLimits), "what a durable subscription may have", factory=QueueLimits
    )
    security: SecurityConfig = field(default_factory=SecurityConfig, metadata={"reload": True})
    admin: AdminConfig | None = None

    def link(self, name: str) -> LinkConfig | None:
        """Return a neighbour by its name."""
        return next((one for one in self.links if one.name == name), None)

    def bounds(self, link: LinkConfig | None = None) -> Bounds:
        """Return what may wait for a client, or for a neighbour."""
        if link is None:
            return self.client_bounds
        return replace(self.link_bounds, policy=link.policy) if link.policy else self.link_bounds


def changed(old: BrokerConfig, new: BrokerConfig) -> tuple[list[str], list[str]]:
    """Return the names of settings that differ: those that a running broker can take, and those it cannot."""
    taken: list[str] = []
    refused: list[str] = []
    for one in fields(BrokerConfig):
        if getattr(old, one.name) != getattr(new, one.name):
            (taken if one.metadata.get("reload") else refused).append(one.name)
    return taken, refused
