"""`covey sub`: print events as they come."""

from __future__ import annotations

import sys
from base64 import b64encode
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from covey.commands.connecting import DEFAULT_URL, connected
from covey.commands.options import (
    COUNT,
    NAME,
    TIMEOUT,
    JsonLines,
    Language,
    Password,
    TlsCa,
    TlsCertificate,
    TlsKey,
    Token,
    Url,
    User,
)
from covey.errors import ConfigError, SlowError, TimedOutError

if TYPE_CHECKING:
    from covey.client.sync import SyncReceived

EXIT_NOTHING = 1


def sub(
    filter: Annotated[str, typer.Argument(metavar="FILTER", help="What the events match.")],
    url: Url = DEFAULT_URL,
    language: Language = "attributes",
    count: Annotated[int | None, COUNT] = None,
    data: Annotated[
        bool, typer.Option("--data", "-d", help="Print payloads too, after a tab, as text.")
    ] = False,
    json: JsonLines = False,
    durable: Annotated[
        str,
        typer.Option(
            "--durable",
            metavar="NAME",
            help="Let the broker keep what matches under this name, and acknowledge what is printed.",
        ),
    ] = "",
    name: Annotated[str, NAME] = "",
    timeout: Annotated[float | None, TIMEOUT] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing about the link.")] = False,
    token: Token = "",
    user: User = "",
    password: Password = "",
    tls_ca: TlsCa = "",
    tls_cert: TlsCertificate = "",
    tls_key: TlsKey = "",
) -> None:
    """Print events that match a filter, one a line, until Ctrl-C. A link that breaks is made again.

    With --timeout, exit code 1 when no event comes for so long. A durable subscription needs --name, as it belongs to a
    client. JSON has payloads too.
    """
    if durable and not name:
        raise ConfigError("--durable needs --name: what is kept belongs to a client")

    def say(text: object) -> None:
        if not quiet:
            typer.echo(f"covey: {text}", err=True)

    def on_error(error: Exception) -> None:
        say(f"events are lost: {error}" if isinstance(error, SlowError) else error)

    client = connected(
        url, token, user, password, (tls_ca, tls_cert, tls_key), name=name, on_error=on_error,
        on_disconnect=lambda reason: say(f"the link is gone: {reason}"),
        on_reconnect=lambda broker: say(f"linked to broker {broker} again"),
    )  # fmt: skip
    with client, client.subscribe(filter, language, durable=durable) as events:
        say(f"subscribed at broker {client.broker}: {events.filter}")
        left = count if count is not None else -1
        while left:
            try:
                event = events.next(timeout)
            except TimedOutError:
                raise typer.Exit(EXIT_NOTHING) from None
            left -= 1
            sys.stdout.write((as_json(event) if json else as_text(event, data)) + "\n")
            if not left or not events.waiting or durable:
                sys.stdout.flush()
            if durable:
                event.ack()


def as_text(event: SyncReceived, data: bool) -> str:
    """Return an event as a line: what filters judge, and the payload after a tab if that is wanted."""
    content = event.content
    if isinstance(content, dict):
        line = msgspec.json.encode(content).decode()
    elif isinstance(content, frozenset):
        line = " ".join(sorted(content))
    else:
        line = " ".join(event.raw_content.decode(errors="backslashreplace").split("\n"))
    if data:
        payload = event.data.decode(errors="backslashreplace")
        line += "\t" + payload.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return line


def as_json(event: SyncReceived) -> str:
    """Return an event as a JSON object in a line; a payload that is no text is `data_base64`."""
    content = event.content
    if isinstance(content, frozenset):
        content = sorted(content)
    elif not isinstance(content, dict):
        content = event.raw_content.decode(errors="backslashreplace")
    shown: dict[str, Any] = {"id": event.id, "content": content}
    if event.position is not None:
        shown["position"] = event.position
    try:
        shown["data"] = event.data.decode()
    except UnicodeDecodeError:
        shown["data_base64"] = b64encode(event.data).decode()
    return msgspec.json.encode(shown).decode()
