"""The section `[admin]` of a broker's configuration: where its inside is shown, and to whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from covey.broker.credentials import read_token_hash
from covey.broker.security import is_loopback
from covey.errors import ConfigError


class AdminConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the admin pages are served; whoever can be elsewhere needs the token."""

    port: int = 7401  # 0 takes a free one
    host: str = "127.0.0.1"
    token: str = ""  # its hash, by `covey token`
    tls: bool = False  # with the certificate of `[tls]`
    events: bool = False  # whether clients may post and listen at /events, each with credentials of its own

    def __post_init__(self) -> None:
        if not 0 <= self.port < 1 << 16:
            raise ConfigError(f"admin.port: {self.port} is no port")
        if self.token:
            read_token_hash(self.token)
        elif not is_loopback(self.host):
            raise ConfigError(
                f"admin.host: {self.host!r:.60} can be reached by others, and there is no admin.token "
                "(hint: covey token)"
            )


def read_admin(section: Mapping[str, Any]) -> AdminConfig:
    """Return the section `[admin]`; ConfigError that names the setting."""
    try:
        return msgspec.convert(section, AdminConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(f"admin: {error}") from None
