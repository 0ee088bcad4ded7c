"""What a client is told: every setting with its default, judged once."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from typing import Any, Final, TypeAlias

from covey.errors import ConfigError
from covey.protocol.control import MAX_NAME

Hook: TypeAlias = Callable[..., Awaitable[Any] | Any]

DROP_OLDEST, DROP_NEW, ERROR = POLICIES = ("drop-oldest", "drop-new", "error")

MAX_SECRET: Final = 4_096


@dataclass(frozen=True)
class Limits:
    """How much may wait in a subscription for its program, and what happens to more.

    drop-oldest    what waited longest makes room
    drop-new       new events are not taken
    error          the subscription ends: what waits can still be read, then SlowError is raised
    """

    events: int = 500_000
    bytes: int = 128 << 20
    policy: str = DROP_NEW

    def __post_init__(self) -> None:
        if self.events < 1 or self.bytes < 1:
            raise ConfigError("a subscription's pending limits must be positive")
        if self.policy not in POLICIES:
            raise ConfigError(f"there is no policy {self.policy!r:.40} (hint: {', '.join(POLICIES)})")


@dataclass(frozen=True)
class Options:
    """All settings of one client; see `covey.connect`."""

    name: str = ""
    token: str = ""
    user: str = ""
    password: str = ""
    tls: ssl.SSLContext | bool = False
    connect_timeout_s: float = 10.0
    timeout_s: float = 30.0
    reconnect_for_s: float = inf
    longest_pause_s: float = 5.0
    buffer_events: int = 100_000
    buffer_bytes: int = 16 << 20
    on_disconnect: Hook | None = None
    on_reconnect: Hook | None = None
    on_error: Hook | None = None

    def __post_init__(self) -> None:
        if len(self.name) > MAX_NAME:
            raise ConfigError(f"a client's name has at most {MAX_NAME} characters")
        if max(map(len, (self.token, self.user, self.password))) > MAX_SECRET:
            raise ConfigError(f"a token, user or password has at most {MAX_SECRET:,} characters")
        if self.token and self.user:
            raise ConfigError("a client shows a token or a user and a password, not both")
        for setting in ("connect_timeout_s", "timeout_s", "longest_pause_s"):
            if not getattr(self, setting) > 0:
                raise ConfigError(f"{setting} must be positive")
        for setting in ("reconnect_for_s", "buffer_events", "buffer_bytes"):
            if not getattr(self, setting) >= 0:
                raise ConfigError(f"{setting} must not be negative")
