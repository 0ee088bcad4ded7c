"""Options: where brokers are, and every setting of a client with its default, judged once.

covey://127.0.0.1:7400            plain
coveys://broker.example           over TLS; the port is 7400 unless said
covey://ann:secret@broker:7400    with a user and a password; a user alone is a token
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

from covey.errors import ConfigError
from covey.protocol.control import MAX_NAME

DEFAULT_PORT: Final = 7400
DEFAULT_URL: Final = f"covey://127.0.0.1:{DEFAULT_PORT}"
HINT: Final = f"(hint: {DEFAULT_URL})"
MAX_ADDRESSES: Final = 1_000


class Address(NamedTuple):
    """One broker's address."""

    host: str
    port: int = DEFAULT_PORT
    is_tls: bool = False
    token: str = ""
    user: str = ""
    password: str = ""

    def __str__(self) -> str:
        """Return the address without its secrets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def address_of(url: str) -> Address:
    """Return the address that a url names; ConfigError if it names none. Its secrets are in no error."""
    if not isinstance(url, str):
        raise ConfigError(f"a broker's address is text, not {type(url).__name__} {HINT}")
    shown = repr(url.rpartition("@")[2] if "@" in url else url)[:80]
    try:
        parts = urlsplit(url if "://" in url else f"covey://{url}")
        port = parts.port
    except ValueError:
        raise ConfigError(f"{shown} is no address of a broker {HINT}") from None
    if parts.scheme not in ("covey", "coveys") or not parts.hostname or port == 0:
        raise ConfigError(f"{shown} is no address of a broker {HINT}")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ConfigError(f"{shown} has more than a host and a port {HINT}")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    secrets = ("", user, password) if parts.password is not None else (user, "", "")
    return Address(parts.hostname, port or DEFAULT_PORT, parts.scheme == "coveys", *secrets)


def addresses_of(urls: str | Iterable[str]) -> tuple[Address, ...]:
    """Return the addresses that one url, several with commas between them, or an iterable of urls name."""
    if isinstance(urls, str):
        urls = [url.strip() for url in urls.split(",") if url.strip()]
    addresses = tuple(dict.fromkeys(address_of(url) for url in urls))
    if not 1 <= len(addresses) <= MAX_ADDRESSES:
        raise ConfigError(
            f"{len(addresses):,} addresses of brokers; 1 to {MAX_ADDRESSES:,} are possible {HINT}"
        )
    return addresses


def tls_context(ca: str = "", certificate: str = "", key: str = "") -> ssl.SSLContext:
    """Return a context that trusts the authorities of the file `ca`, and shows a certificate of its own.

    Without `ca` the system's authorities are trusted. ConfigError if a file cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=ca or None)
        if certificate:
            context.load_cert_chain(certificate, key or None)
    except (OSError, ValueError) as error:
        # An SSLError is an OSError.
        raise ConfigError(f"the files for TLS cannot be used: {error}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


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
