"""What commands that talk to a broker share: how to say where it is and who asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from covey.errors import ConfigError

if TYPE_CHECKING:
    from covey.client.sync import SyncClient

Url = Annotated[
    str,
    typer.Option(
        "--url", "-s", envvar="COVEY_URL", help="A broker's address; several with commas between them."
    ),
]
Token = Annotated[str, typer.Option(envvar="COVEY_TOKEN", help="A token to show.", show_default=False)]
User = Annotated[str, typer.Option(envvar="COVEY_USER", help="A user's name.", show_default=False)]
Password = Annotated[
    str, typer.Option(envvar="COVEY_PASSWORD", help="The user's password.", show_default=False)
]
TlsCa = Annotated[
    str, typer.Option("--tls-ca", help="Use TLS, and trust the authorities in this file.", show_default=False)
]
TlsCertificate = Annotated[
    str,
    typer.Option("--tls-cert", help="Use TLS, and show the certificate in this file.", show_default=False),
]
TlsKey = Annotated[str, typer.Option("--tls-key", help="The certificate's key.", show_default=False)]

DEFAULT_URL = "covey://127.0.0.1:7400"


def connected(
    url: str, token: str, user: str, password: str, tls: tuple[str, str, str], **options: Any
) -> SyncClient:
    """Return a client that is connected, as the options of a command say."""
    from covey.client.address import tls_context
    from covey.client.sync import connect_sync

    if tls[2] and not tls[1]:
        raise ConfigError("--tls-key goes with --tls-cert")
    context = tls_context(*tls) if any(tls) else False
    return connect_sync(url, token=token, user=user, password=password, tls=context, **options)
