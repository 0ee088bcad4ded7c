"""`covey pub`: publish events from the command line or from standard input."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer

from covey.commands.connecting import DEFAULT_URL, connected
from covey.commands.inputs import MAX_INPUT_BYTES, input_lines, parse_event, read_argument, read_bytes
from covey.commands.options import (
    Count,
    Language,
    Password,
    Timeout,
    TlsCa,
    TlsCertificate,
    TlsKey,
    Token,
    Url,
    User,
)
from covey.errors import ConfigError, CoveyError, EventError

Published = tuple[Any, bytes]


def pub(
    event: Annotated[
        list[str],
        typer.Argument(
            metavar="EVENT",
            help="Attributes as NAME=VALUE … or one JSON object; words; an XML document; @FILE; or - for standard "
            "input, an event a line.",
        ),
    ],
    url: Url = DEFAULT_URL,
    data: Annotated[
        str, typer.Option("--data", "-d", metavar="TEXT", help="The payload: a text, or @FILE.")
    ] = "",
    language: Language = "attributes",
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Wait until the broker has everything on disk.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Lines of standard input are as `covey sub --json` prints them.")
    ] = False,
    count: Count = 1,
    token: Token = "",
    user: User = "",
    password: Password = "",
    tls_ca: TlsCa = "",
    tls_cert: TlsCertificate = "",
    tls_key: TlsKey = "",
    timeout: Timeout = 10.0,
) -> None:
    """Publish events, or one event as often as --count says.

    A value of NAME=VALUE is a number, true, false or a "text in quotes" if it reads as one in JSON, else a text.
    """
    payload = read_bytes(data)
    events = lines(language, payload, json) if event == ["-"] else given(event, language, payload, count)
    if json and event != ["-"]:
        raise ConfigError("--json is for events from standard input (hint: covey pub - --json)")
    refused: list[Exception] = []
    tls = (tls_ca, tls_cert, tls_key)
    client = connected(
        url, token, user, password, tls, timeout_s=timeout, reconnect_for_s=timeout, on_error=refused.append,
        connect_timeout_s=timeout,
    )  # fmt: skip
    total = 0
    with client:
        if event == ["-"] and not confirm:
            for content, data_ in events:
                client.publish(content, data_)
                total += 1
        else:
            total = client.publish_many(events, confirm=confirm)
    # What the broker does not take is said by the time it has said goodbye.
    if refused:
        raise CoveyError(f"{refused[0]} ({len(refused):,} of {total:,} events)")
    typer.echo(f"published {total:,} event{'s' if total != 1 else ''}{', confirmed' if confirm else ''}")


def given(words: list[str], language: str, payload: bytes, count: int) -> Iterator[Published]:
    """Return the event of the command line, `count` times."""
    content: Any
    if language == "attributes" and not words[0].lstrip().startswith(("{", "@")):
        content = dict(pair(word) for word in words)
    elif language == "keywords":
        content = set().union(*(parse_event(read_argument(word), language) for word in words))
    elif len(words) != 1:
        raise ConfigError(f"one event, not {len(words)} (hint: quote it)")
    else:
        content = parse_event(read_argument(words[0]), language)
    return iter([(content, payload)] * count)


def pair(word: str) -> tuple[str, Any]:
    """Return the name and the value of NAME=VALUE."""
    name, equals, text = word.partition("=")
    if not equals or not name:
        raise ConfigError(f"expected NAME=VALUE or a JSON object, not {word!r:.60}")
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return name, text
    return name, value if isinstance(value, (bool, int, float, str)) else text


def lines(language: str, payload: bytes, json: bool) -> Iterator[Published]:
    """Return the events of standard input, as they come; every mistake names its line."""
    for number, line in enumerate(input_lines(), 1):
        if len(line) > MAX_INPUT_BYTES:
            raise EventError(f"line {number} of standard input has more than {MAX_INPUT_BYTES:,} bytes")
        if not line.strip():
            continue
        try:
            text = line.decode()
            yield received(text, language) if json else (parse_event(text, language), payload)
        except UnicodeDecodeError:
            raise EventError(f"line {number} of standard input is not UTF-8 text") from None
        except CoveyError as error:
            raise EventError(f"line {number} of standard input: {error}") from None


def received(line: str, language: str) -> Published:
    """Return an event that `covey sub --json` has printed."""
    one = parse_event(line, "attributes")
    assert isinstance(one, dict)
    content, data = one.get("content"), one.get("data", "")
    if content is None or not isinstance(data, str):
        raise EventError('expected {"content": …, "data": "…"}')
    if language == "keywords" and isinstance(content, list):
        content = frozenset(map(str, content))
    if "data_base64" in one:
        try:
            return content, b64decode(one["data_base64"], validate=True)
        except (Base64Error, TypeError, ValueError):
            raise EventError("data_base64 is not base64") from None
    return content, data.encode()
