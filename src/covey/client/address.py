"""Where brokers are: addresses as people write them, and what TLS needs.

covey://127.0.0.1:7400            plain
coveys://broker.example           over TLS; the port is 7400 unless said
covey://ann:secret@broker:7400    with a user and a password; a user alone is a token
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from covey.errors import ConfigError

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
