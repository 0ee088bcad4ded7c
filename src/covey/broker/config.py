"""What a broker is told: its name, where it listens, its neighbours, and its bounds.

From a TOML file, then environment variables, then flags: each wins over those before it. Whatever is wrong is a
ConfigError that names the setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from covey.broker.http.config import AdminConfig
from covey.broker.logs import LogConfig
from covey.broker.security import SecurityConfig
from covey.wire.frames import MAX_FRAME
from covey.wire.lanes import Bounds

MAX_LINK_FRAME = 64 << 20  # of a neighbour: one frame may say what a whole table differs in


@dataclass(frozen=True)
class LinkConfig:
    """A neighbour; with an address this broker dials, without one it waits to be dialled."""

    name: str
    host: str = ""
    port: int = 0


@dataclass(frozen=True)
class BrokerConfig:
    """All settings of one broker."""

    name: str
    host: str = "127.0.0.1"
    port: int = 7400  # 0 takes a free one
    links: tuple[LinkConfig, ...] = ()
    strategy: str = "covering"
    advertisements: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    lease_s: float = 10.0
    max_frame: int = MAX_FRAME
    max_connections: int = 10_000
    max_subscriptions: int = 100_000  # of one client
    client_bounds: Bounds = field(default_factory=Bounds)
    link_bounds: Bounds = field(default_factory=lambda: Bounds(1_000_000, 256 << 20))
    congested_at: int = 10_000  # frames that wait to be handled; beyond them the broker is congested
    calm_at: int = 1_000
    security: SecurityConfig = field(default_factory=SecurityConfig)
    admin: AdminConfig | None = None
    log: LogConfig = field(default_factory=LogConfig)
