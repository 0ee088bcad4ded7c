"""What commands that talk to a broker share: a connection made as their options say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covey.errors import ConfigError

if TYPE_CHECKING:
    from covey.client.sync import SyncClient

DEFAULT_URL = "covey://127.0.0.1:7400"


def connected(
    url: str, token: str, user: str, password: str, tls: tuple[str, str, str], **options: Any
) -> SyncClient:
    """Return a client that is connected, as the options of a command say."""
    from covey.client.link import tls_context
    from covey.client.sync import connect_sync

    if tls[2] and not tls[1]:
        raise ConfigError("--tls-key goes with --tls-cert")
    context = tls_context(*tls) if any(tls) else False
    return connect_sync(url, token=token, user=user, password=password, tls=context, **options)
