"""TLS: the contexts in which a broker listens and dials, and whose certificate it is that a peer has shown.

Certificates between brokers are for names of brokers, not of machines: a neighbour's must carry the broker's name as a
DNS name or as its common name, and must be signed by the configured authority. Nothing older than TLS 1.2 is spoken.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, Final

import msgspec

from covey.errors import AccessError, ConfigError

HANDSHAKE_S: Final = 10.0  # within which a peer has agreed on a cipher


class TlsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The section `[tls]`; paths are relative to the configuration's folder."""

    certificate: str  # PEM: the broker's own and what it needs up to the authority
    key: str  # PEM, without a passphrase
    authority: str = ""  # PEM: who signs certificates of neighbours and of clients
    require_certificate: bool = False  # of clients too


class Contexts:
    """The two contexts of a broker; `reload` takes certificates that have been renewed."""

    def __init__(self, config: TlsConfig, folder: Path = Path()) -> None:
        self._config = config
        self._folder = folder
        self.listen = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.dial = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # What is checked is the broker's name, by `check_name`: where it runs does not matter.
        self.dial.check_hostname = False
        self.dial.verify_mode = ssl.CERT_REQUIRED
        if config.require_certificate and not config.authority:
            raise ConfigError("tls.require_certificate needs tls.authority, which signs the certificates")
        if config.authority:
            self.listen.verify_mode = ssl.CERT_REQUIRED if config.require_certificate else ssl.CERT_OPTIONAL
        for context in (self.listen, self.dial):
            context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.reload()

    def take(self, config: TlsConfig, folder: Path) -> None:
        """Use other files, or the same ones as they are now, for links that begin from now on."""
        self._config, self._folder = config, folder
        self.reload()

    def reload(self) -> None:
        """Read the files again, for links that begin from now on; ConfigError if they cannot be used."""
        config = self._config
        certificate, key = self._path(config.certificate), self._path(config.key)
        for context in (self.listen, self.dial):
            try:
                # A key that wants a passphrase must not ask for it at a terminal.
                context.load_cert_chain(certificate, key, password=lambda: "")
            except (OSError, ValueError) as error:
                raise ConfigError(
                    f"tls: the certificate {config.certificate} with the key {config.key} cannot be used: "
                    f"{_reason(error)}"
                ) from None
            if config.authority:
                try:
                    context.load_verify_locations(self._path(config.authority))
                except (OSError, ValueError) as error:
                    raise ConfigError(
                        f"tls: the authority {config.authority} cannot be used: {_reason(error)}"
                    ) from None

    def _path(self, name: str) -> Path:
        return self._folder / name


def names_of(certificate: Any) -> set[str]:
    """Return the DNS names and common names of a certificate, as `ssl` gives it."""
    if not certificate:
        return set()
    names = {value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"}
    names.update(
        value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"
    )
    return names


def check_name(certificate: frozenset[str] | None, broker: str) -> None:
    """Raise AccessError unless the peer has shown a certificate with the broker's name, by the names in it."""
    names = certificate or frozenset()
    if broker not in names:
        shown = f"one for {', '.join(sorted(names))!s:.80}" if names else "none"
        raise AccessError(f"a neighbour shows a certificate with the name {broker!r:.40}, not {shown}")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
